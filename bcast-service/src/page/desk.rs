//! Between the viewers and the daemon: what many ask for is asked and drawn up once.

use super::binds::Binds;
use super::detail;
use super::past;
use super::view::{Snapshot, View};
use super::{Detail, Question};
use arborcast_proto::{GroupHash, Target};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// From one look at the daemon to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// From the request for the page to that for its updates.
const EXPECTED_WITHIN: Duration = Duration::from_secs(2);
/// Between two questions of viewers about single targets.
const DETAIL_INTERVAL: Duration = Duration::from_millis(20);

pub type Viewer = watch::Receiver<Option<Arc<Snapshot>>>;

pub struct Desk {
    asks: mpsc::Sender<Question>,
    /// `None` while nobody looks.
    snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    somebody_looks: Notify,
    binds: Arc<Binds>,
    metrics: AsyncMutex<Option<(Instant, String)>>,
    details: AsyncMutex<Details>,
}

/// What was told of single targets in one state of theirs.
#[derive(Default)]
struct Details {
    next: Option<Instant>,
    told: HashMap<Target, (u64, Arc<str>)>,
}

impl Desk {
    pub fn new(asks: mpsc::Sender<Question>) -> Self {
        Desk {
            asks,
            snapshots: watch::Sender::new(None),
            somebody_looks: Notify::new(),
            binds: Arc::default(),
            metrics: AsyncMutex::default(),
            details: AsyncMutex::default(),
        }
    }

    /// Has a snapshot ready while somebody looks. Ends with the daemon.
    pub async fn keep(self: Arc<Self>) {
        let mut view = View::default();
        loop {
            // Again where it was somebody who has left since.
            while self.snapshots.receiver_count() == 0 {
                self.snapshots.send_replace(None);
                self.somebody_looks.notified().await;
            }
            let next = Instant::now() + INTERVAL;
            let Some(facts) = self.ask(Question::Facts).await else { return };
            let snapshot = Arc::new(view.draw_up(facts, &self.binds.known()));
            self.compute_binds(&snapshot);
            self.snapshots.send_if_modified(|sent| {
                let is_news = sent.as_ref().is_none_or(|sent| !sent.says_the_same(&snapshot));
                if is_news {
                    *sent = Some(snapshot);
                }
                is_news
            });
            sleep_until(next).await;
        }
    }

    /// Off the thread that serves viewers, while there are some.
    fn compute_binds(self: &Arc<Self>, snapshot: &Arc<Snapshot>) {
        if let Some(work) = self.binds.work(&snapshot.binds_questions) {
            let desk = self.clone();
            let is_wanted = move || desk.snapshots.receiver_count() > 0;
            let binds = self.binds.clone();
            tokio::task::spawn_blocking(move || binds.compute(work, is_wanted));
        }
    }

    /// A viewer, who is told of every snapshot from now on.
    pub fn viewer(&self) -> Viewer {
        let viewer = self.snapshots.subscribe();
        self.somebody_looks.notify_one();
        viewer
    }

    /// Who has asked for the page is about to look: what it shows is drawn up while the browser reads scripts.
    pub fn expect_viewer(&self) {
        let viewer = self.viewer();
        tokio::spawn(async move {
            tokio::time::sleep(EXPECTED_WITHIN).await;
            drop(viewer);
        });
    }

    /// `None` where the daemon ends, or has ended.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(question(reply)).await.ok()?;
        answer.await.ok()
    }

    /// At most a second old.
    pub async fn metrics(&self) -> Option<String> {
        let mut told = self.metrics.lock().await;
        if let Some((_, text)) = told.as_ref().filter(|(at, _)| at.elapsed() < INTERVAL) {
            return Some(text.clone());
        }
        let text = self.ask(Question::Metrics).await?;
        *told = Some((Instant::now(), text.clone()));
        Some(text)
    }

    /// What is known of a target, as JSON; `None` where there is none.
    pub async fn detail(&self, target: Target) -> Option<Arc<str>> {
        let mut viewer = self.viewer();
        let snapshot = viewer.wait_for(Option::is_some).await.ok()?.clone()?;
        let version = *snapshot.target_versions.get(&target)?;
        let mut details = self.details.lock().await;
        if let Some((_, told)) = details.told.get(&target).filter(|(told, _)| *told == version) {
            return Some(told.clone());
        }
        let known: Detail =
            self.ask_in_turn(&mut details, |reply| Question::Detail(target, reply)).await??;
        let sites = snapshot.groups.get(&target.group);
        let json: Arc<str> =
            detail::json(&known, sites.map(|group| &**group), version).to_string().into();
        details.told.retain(|target, _| snapshot.target_versions.contains_key(target));
        details.told.insert(target, (version, json.clone()));
        Some(json)
    }

    /// What a target's trees were when the plan of this number was in use, as JSON; `None` where there is no
    /// such plan any more.
    pub async fn earlier_trees(&self, target: Target, number: u32) -> Option<String> {
        let snapshot = self.viewer().wait_for(Option::is_some).await.ok()?.clone()?;
        let mut details = self.details.lock().await;
        let known: Detail =
            self.ask_in_turn(&mut details, |reply| Question::Detail(target, reply)).await??;
        let plan = known.plans.iter().find(|plan| plan.number == number)?;
        let sites = snapshot.groups.get(&target.group).map(|group| &**group);
        Some(detail::trees_json(&known, plan.finding.as_deref(), sites).to_string())
    }

    /// How the link between the sites of two nodes was, as JSON; `None` where there are no such nodes.
    pub async fn link_past(&self, group: GroupHash, nodes: [&str; 2]) -> Option<String> {
        let snapshot = self.viewer().wait_for(Option::is_some).await.ok()?.clone()?;
        let known = &snapshot.groups.get(&group)?.group;
        let place = |name: &str| known.nodes().iter().position(|node| node.as_str() == name);
        let places = [place(nodes[0])?, place(nodes[1])?];
        let mut details = self.details.lock().await;
        let past = self
            .ask_in_turn(&mut details, |reply| Question::LinkPast(group, places, reply))
            .await??;
        Some(past::json(&past).to_string())
    }

    /// However many viewers ask of single things, the daemon has pauses between them.
    async fn ask_in_turn<T>(
        &self,
        details: &mut Details,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> Option<T> {
        if let Some(next) = details.next {
            sleep_until(next).await;
        }
        let answer = self.ask(question).await;
        details.next = Some(Instant::now() + DETAIL_INTERVAL);
        answer
    }
}

/// A lock whose data is whole even where a thread has panicked with it.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Facts;
    use arborcast_proto::NodeName;
    use arborcast_proto::message::{ExperimentState, Status};

    fn facts() -> Facts {
        let name = NodeName::new("n0").unwrap();
        let status = Status {
            node: name.clone(),
            site: name,
            version: String::new(),
            daemon_pid: 1,
            uptime: Duration::ZERO,
            experiment: ExperimentState::None,
            epoch: None,
            applications: 0,
            holds: 0,
            broadcasts: 0,
            hold_timeouts: 0,
            plans: 0,
            trials: 0,
            spending: None,
        };
        Facts {
            status,
            started_unix_s: 0.0,
            experiments: 0,
            forgotten_holds: 0,
            overdue_stops: 0,
            targets: Vec::new(),
            target_count: 0,
            links: Vec::new(),
            events: Vec::new(),
            programs: Vec::new(),
            left_out_programs: 0,
            received: Vec::new(),
            late: Vec::new(),
            unmeasured: Vec::new(),
        }
    }

    #[test]
    fn the_daemon_is_asked_once_a_second_for_all_viewers_and_not_at_all_for_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (asks, mut questions) = mpsc::channel(4);
            let desk = Arc::new(Desk::new(asks));
            tokio::spawn(desk.clone().keep());
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(questions.try_recv().is_err(), "nobody looks");
            let viewers: Vec<Viewer> = (0..5).map(|_| desk.viewer()).collect();
            let start = Instant::now();
            for _ in 0..3 {
                let Some(Question::Facts(reply)) = questions.recv().await else { panic!() };
                reply.send(facts()).unwrap();
            }
            assert!(start.elapsed() >= 2 * INTERVAL);
            drop(viewers);
            tokio::time::sleep(INTERVAL + Duration::from_millis(100)).await;
            assert!(questions.try_recv().is_err(), "nobody looks any more");
        });
    }
}
