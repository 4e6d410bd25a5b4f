//! Plans for programs that ask for one: they broadcast from a root, or in a group, for which nobody has found a plan,
//! among nodes whose links are known. Planned is beside the event loop, one plan after the other and in the long run on
//! no more than a part of one core; who asks waits for it, but not for long.

use super::node::Reply;
use arborcast_planner::Network;
use arborcast_planner::search::on_demand;
use arborcast_proto::message::{Answer, Finding, Times};
use arborcast_proto::{Group, Target};
use std::collections::VecDeque;
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
/// Of what is asked for meanwhile, so many are planned afterwards.
const MOST_NEXT: usize = 16;
/// How plans that were made here are told from those of the experiment.
const STRATEGY: &str = "on-demand";

/// What is to be planned.
pub struct Wanted {
    /// Of the group alone.
    pub network: Network,
    pub group: Group,
    pub target: Target,
    pub bytes: u64,
}

impl Wanted {
    fn plan(self) -> Option<Finding> {
        let Wanted { network, group, target: Target { root, .. }, bytes } = self;
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

/// What is being planned and what is next, for whom, and how much more may be.
pub struct Planning {
    under_way: Option<UnderWay>,
    next: VecDeque<Wanted>,
    askers: Vec<Asker>,
    saved_s: f64,
    saved_at: Instant,
}

struct UnderWay {
    target: Target,
    planner: JoinHandle<Option<Finding>>,
    began: Instant,
}

/// Who waits for the plan of a target, and until when.
struct Asker {
    target: Target,
    until: Instant,
    reply: oneshot::Sender<Option<Reply>>,
}

impl Planning {
    pub fn new() -> Self {
        Planning {
            under_way: None,
            next: VecDeque::new(),
            askers: Vec::new(),
            saved_s: MOST_SAVED_S,
            saved_at: Instant::now(),
        }
    }

    /// Sees to it that this is planned, after what others have asked for. Who waits for `reply` is answered once it is,
    /// or at once where it cannot be.
    pub fn ask(&mut self, wanted: Wanted, reply: oneshot::Sender<Option<Reply>>) {
        let target = wanted.target;
        let asker = Asker { target, until: Instant::now() + ANSWER_WITHIN, reply };
        let is_known = self.under_way.as_ref().is_some_and(|under_way| under_way.target == target)
            || self.next.iter().any(|wanted| wanted.target == target);
        if !is_known {
            if self.next.len() >= MOST_NEXT {
                return asker.answer();
            }
            self.next.push_back(wanted);
        }
        self.askers.push(asker);
        self.begin();
    }

    /// Counts the time that may be taken meanwhile.
    fn save(&mut self) {
        let now = Instant::now();
        let since_s = now.duration_since(self.saved_at).as_secs_f64();
        self.saved_s = (self.saved_s + CORE_SHARE * since_s).min(MOST_SAVED_S);
        self.saved_at = now;
    }

    /// Begins with the next one, if none is under way and there is time for it.
    fn begin(&mut self) {
        if self.under_way.is_some() {
            return;
        }
        self.save();
        if self.saved_s <= 0.0 {
            self.next.clear();
            self.askers.drain(..).for_each(Asker::answer);
        }
        if let Some(wanted) = self.next.pop_front() {
            let (target, began) = (wanted.target, Instant::now());
            let planner = tokio::task::spawn_blocking(|| wanted.plan());
            self.under_way = Some(UnderWay { target, planner, began });
        }
    }

    /// Waits until something has been planned; for `select!`. What came of it is to be put on the board before
    /// [`Planning::end`].
    pub async fn wait(&mut self) -> Option<Finding> {
        loop {
            let Some(UnderWay { planner, .. }) = &mut self.under_way else {
                return std::future::pending().await;
            };
            let first = self.askers.iter().map(|asker| asker.until).min();
            tokio::select! {
                planned = planner => {
                    return planned.unwrap_or_else(|error| {
                        warn!("a planning has failed: {error}");
                        None
                    });
                }
                () = sleep_until(first.unwrap_or_else(Instant::now)), if first.is_some() => {
                    let now = Instant::now();
                    self.askers.extract_if(.., |asker| asker.until <= now).for_each(Asker::answer);
                }
            }
        }
    }

    /// Tells who has asked that there is a plan, or none, and goes on with the next one.
    pub fn end(&mut self) {
        let Some(UnderWay { target, began, .. }) = self.under_way.take() else { return };
        self.saved_s -= began.elapsed().as_secs_f64();
        self.askers.extract_if(.., |asker| asker.target == target).for_each(Asker::answer);
        self.begin();
    }
}

impl Asker {
    fn answer(self) {
        // Fails only where the connection has ended meanwhile.
        let _ = self.reply.send(Some(Reply { answer: Answer::Done, file: None }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_planner::grids::four_site_mesh;
    use arborcast_proto::{NodeName, SizeClass};

    fn wanted(bytes: u64) -> Wanted {
        let names = (0..16).map(|i| NodeName::new(format!("n{i:02}")).unwrap()).collect();
        let group = Group::new(names).unwrap();
        let target = Target { group: group.hash(), root: 3, class: SizeClass::of(bytes) };
        Wanted { network: four_site_mesh(), group, target, bytes }
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    /// Asks, and what tells of the answer.
    fn ask(planning: &mut Planning, bytes: u64) -> oneshot::Receiver<Option<Reply>> {
        let (reply, answered) = oneshot::channel();
        planning.ask(wanted(bytes), reply);
        answered
    }

    fn is_answered(answered: &mut oneshot::Receiver<Option<Reply>>) -> bool {
        matches!(answered.try_recv(), Ok(Some(reply)) if reply.answer == Answer::Done)
    }

    #[test]
    fn who_asks_is_answered_once_there_is_a_plan_or_none() {
        run(async {
            let mut planning = Planning::new();
            for (bytes, is_planned) in [(1 << 20, true), (1, false)] {
                let mut answered = ask(&mut planning, bytes);
                let finding = planning.wait().await;
                assert_eq!(finding.is_some(), is_planned);
                if let Some(finding) = finding {
                    assert!(!finding.times.is_measured() && finding.root == 3);
                }
                assert!(!is_answered(&mut answered), "the plan is not on the board");
                planning.end();
                assert!(is_answered(&mut answered));
            }
        });
    }

    #[test]
    fn what_several_ask_for_is_planned_once_and_one_after_the_other() {
        run(async {
            let mut planning = Planning::new();
            let [mut first, mut same, mut other] =
                [1 << 20, 1 << 20, 8 << 20].map(|bytes| ask(&mut planning, bytes));
            assert_eq!(planning.wait().await.unwrap().bytes, 1 << 20);
            planning.end();
            assert!(is_answered(&mut first) && is_answered(&mut same));
            // It may have had to wait for too long by now, which is no reason not to plan.
            assert_eq!(planning.wait().await.unwrap().bytes, 8 << 20);
            planning.end();
            assert!(is_answered(&mut other) && planning.under_way.is_none());
        });
    }

    #[test]
    fn plans_take_no_more_than_their_share_of_a_core() {
        run(async {
            let mut planning = Planning::new();
            let mut asked = [1 << 20, 8 << 20].map(|bytes| ask(&mut planning, bytes));
            planning.saved_s = -10.0;
            assert!(planning.wait().await.is_some());
            planning.end();
            assert!(asked.iter_mut().all(is_answered) && planning.under_way.is_none());
            assert!(is_answered(&mut ask(&mut planning, 1 << 20)) && planning.under_way.is_none());
        });
    }
}
