//! Plans for programs that ask for one: they broadcast from a root, or in a group, for which nobody has found a plan,
//! among nodes whose links are known. Planned is beside the event loop, one plan at a time and in the long run on no
//! more than a part of one core; who asks waits for it, but not for long.

use super::node::Reply;
use arborcast_planner::Network;
use arborcast_planner::search::on_demand;
use arborcast_proto::Group;
use arborcast_proto::message::{Answer, Finding, Times};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

/// Who asks has an answer by then. A program takes a daemon that is silent for half a second for gone.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);
/// The part of one core that plans may take, and what of it is saved up while nobody asks.
const CORE_SHARE: f64 = 0.1;
const MOST_SAVED_S: f64 = 2.0;
/// How plans that were made here are told from those of the experiment.
const STRATEGY: &str = "on-demand";

/// What is to be planned.
pub struct Wanted {
    /// Of the group alone.
    pub network: Network,
    pub group: Group,
    pub root: u16,
    pub bytes: u64,
}

impl Wanted {
    fn plan(self) -> Option<Finding> {
        let Wanted { network, group, root, bytes } = self;
        let (plan, seconds) = on_demand::plan(&network, root.into(), bytes)?;
        let times = Times::predicted(seconds);
        let strategy = STRATEGY.into();
        Some(Finding {
            group,
            root,
            bytes,
            plan,
            times,
            native: None,
            limit_s: None,
            strategy,
            trials: 0,
            search_s: 0.0,
            reason: None,
        })
    }
}

/// What is being planned, for whom, and how much more may be.
pub struct Planning {
    under_way: Option<UnderWay>,
    saved_s: f64,
    saved_at: Instant,
}

struct UnderWay {
    planner: JoinHandle<Option<Finding>>,
    began: Instant,
    asker: Option<oneshot::Sender<Option<Reply>>>,
}

impl Planning {
    pub fn new() -> Self {
        Planning { under_way: None, saved_s: MOST_SAVED_S, saved_at: Instant::now() }
    }

    /// Begins to plan for who waits for `reply`, who is answered at once where that cannot be done now.
    pub fn begin(&mut self, wanted: Wanted, reply: oneshot::Sender<Option<Reply>>) {
        let now = Instant::now();
        let since_s = now.duration_since(self.saved_at).as_secs_f64();
        self.saved_s = (self.saved_s + CORE_SHARE * since_s).min(MOST_SAVED_S);
        self.saved_at = now;
        if self.under_way.is_some() || self.saved_s <= 0.0 {
            return answer(reply);
        }
        let planner = tokio::task::spawn_blocking(|| wanted.plan());
        self.under_way = Some(UnderWay { planner, began: now, asker: Some(reply) });
    }

    /// Waits until something has been planned; for `select!`. What came of it is to be put on the board before
    /// [`Planning::end`].
    pub async fn wait(&mut self) -> Option<Finding> {
        loop {
            let Some(UnderWay { planner, began, asker }) = &mut self.under_way else {
                return std::future::pending().await;
            };
            tokio::select! {
                planned = planner => {
                    return planned.unwrap_or_else(|error| {
                        warn!("a planning has failed: {error}");
                        None
                    });
                }
                () = sleep_until(*began + ANSWER_WITHIN), if asker.is_some() => {
                    asker.take().into_iter().for_each(answer);
                }
            }
        }
    }

    /// Tells who has asked that there is a plan, or none.
    pub fn end(&mut self) {
        let Some(UnderWay { began, asker, .. }) = self.under_way.take() else { return };
        self.saved_s -= began.elapsed().as_secs_f64();
        asker.into_iter().for_each(answer);
    }
}

fn answer(reply: oneshot::Sender<Option<Reply>>) {
    // Fails only where the connection has ended meanwhile.
    let _ = reply.send(Some(Reply { answer: Answer::Done, file: None }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_planner::grids::four_site_mesh;
    use arborcast_proto::NodeName;

    fn wanted(bytes: u64) -> Wanted {
        let names = (0..16).map(|i| NodeName::new(format!("n{i:02}")).unwrap()).collect();
        let group = Group::new(names).unwrap();
        Wanted { network: four_site_mesh(), group, root: 3, bytes }
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn who_asks_is_answered_once_there_is_a_plan_or_none() {
        run(async {
            let mut planning = Planning::new();
            for (bytes, is_planned) in [(1 << 20, true), (1, false)] {
                let (reply, mut answered) = oneshot::channel();
                planning.begin(wanted(bytes), reply);
                let finding = planning.wait().await;
                assert_eq!(finding.is_some(), is_planned);
                if let Some(finding) = finding {
                    assert!(!finding.times.is_measured() && finding.root == 3);
                }
                planning.end();
                assert!(
                    matches!(answered.try_recv(), Ok(Some(reply)) if reply.answer == Answer::Done)
                );
            }
        });
    }

    #[test]
    fn nobody_waits_for_anothers_plan_and_plans_take_no_more_than_their_share() {
        run(async {
            let mut planning = Planning::new();
            let (first, mut first_answered) = oneshot::channel();
            planning.begin(wanted(1 << 20), first);
            let (second, mut second_answered) = oneshot::channel();
            planning.begin(wanted(8 << 20), second);
            assert!(second_answered.try_recv().is_ok() && first_answered.try_recv().is_err());
            assert!(planning.wait().await.is_some());
            planning.end();
            assert!(first_answered.try_recv().is_ok());
            planning.saved_s = -10.0;
            let (third, mut third_answered) = oneshot::channel();
            planning.begin(wanted(1 << 20), third);
            assert!(third_answered.try_recv().is_ok() && planning.under_way.is_none());
        });
    }
}
