//! The experiment job of the grid, started and restarted by the one daemon that is configured to.

use crate::config::ExperimentConfig;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// A job that ran for so long is started again at once.
const LONG_RUN: Duration = Duration::from_secs(60);
/// A job that was told to end has so long to do it, and a launcher whose job has left.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Starts a command and starts it again whenever it ends.
#[derive(Debug)]
pub struct Supervisor {
    config: ExperimentConfig,
    /// The descriptors that the job may have: as many as the daemon's caller.
    descriptors: Rlimit,
    state: State,
    delay: Duration,
}

#[derive(Debug)]
enum State {
    Running { child: Child, group: Option<Pid>, since: Instant, job: Job },
    Waiting { until: Instant },
}

/// Where the job is that a launcher has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    /// It may wait in a queue, or have no rank on this node.
    NotSeen,
    Connected,
    /// Its rank here has left the daemon.
    Left {
        at: Instant,
    },
    /// Its launcher was told to end; `was_seen`: after the job had been connected.
    Ending {
        since: Instant,
        was_seen: bool,
    },
}

/// How long to wait after a run of length `ran` that followed on a wait of `delay`.
fn next_delay(delay: Duration, ran: Duration) -> Duration {
    if ran >= LONG_RUN { FIRST_DELAY } else { (2 * delay).clamp(FIRST_DELAY, LONGEST_DELAY) }
}

impl Supervisor {
    pub fn new(config: ExperimentConfig, descriptors: Rlimit) -> Self {
        let state = State::Waiting { until: Instant::now() };
        Supervisor { config, descriptors, state, delay: Duration::ZERO }
    }

    /// Drives the job; for `select!`. Ends when there is something to be done again, never where
    /// nothing is configured.
    pub async fn step(&mut self) {
        let Some(launch) = &self.config.launch else { return std::future::pending().await };
        match &mut self.state {
            State::Waiting { until } => {
                sleep_until(*until).await;
                self.state = start(launch, self.descriptors, &mut self.delay);
            }
            State::Running { child, since, job, .. } => {
                let status = child.wait().await;
                let has_hung = matches!(job, Job::Ending { was_seen: false, .. });
                let ran = if has_hung { Duration::ZERO } else { since.elapsed() };
                self.delay = next_delay(self.delay, ran);
                self.state = State::Waiting { until: Instant::now() + self.delay };
                let ended = status.map_or_else(|error| error.to_string(), describe);
                let delay = humantime::format_duration(self.delay);
                warn!("the experiment job ended ({ended}); starting it again in {delay}");
            }
        }
    }

    /// To be told now and then whether a rank of a job is connected on this node. Where the job has left and
    /// its launcher stays, as `mpirun` does for ever where a whole node of its job dies, or where the job does not
    /// come, the launcher is ended: nothing else would start another job.
    pub fn watch(&mut self, is_connected: bool) {
        let limit = self.config.start_wait_max;
        let State::Running { group: Some(group), job, since, .. } = &mut self.state else { return };
        let now = Instant::now();
        *job = match *job {
            Job::NotSeen | Job::Connected | Job::Left { .. } if is_connected => Job::Connected,
            Job::NotSeen if !limit.is_zero() && now - *since > limit => {
                let limit = humantime::format_duration(limit);
                warn!(
                    "no rank of the experiment job is connected here after {limit} \
                     (experiment.start_wait_max): ending its launcher"
                );
                let _ = kill_process_group(*group, Signal::TERM);
                Job::Ending { since: now, was_seen: false }
            }
            Job::Connected => Job::Left { at: now },
            Job::Left { at } if now - at > END_LIMIT => {
                warn!("the experiment job has left, and its launcher does not end: ending it");
                let _ = kill_process_group(*group, Signal::TERM);
                Job::Ending { since: now, was_seen: true }
            }
            Job::Ending { since, was_seen } if now - since > END_LIMIT => {
                let _ = kill_process_group(*group, Signal::KILL);
                Job::Ending { since: now, was_seen }
            }
            unchanged => unchanged,
        };
    }

    /// Goes on with another limit, or another command if it is another one.
    pub async fn reload(&mut self, config: ExperimentConfig) {
        if config.launch != self.config.launch {
            self.end().await;
            *self = Supervisor::new(config, self.descriptors);
        } else {
            self.config = config;
        }
    }

    /// Ends the job with everything it has started.
    pub async fn end(&mut self) {
        let State::Running { child, group: Some(group), .. } = &mut self.state else { return };
        // Fails only where nothing is left of the job.
        let _ = kill_process_group(*group, Signal::TERM);
        if timeout(END_LIMIT, child.wait()).await.is_err() {
            warn!("the experiment job did not end within {END_LIMIT:?}; killing it");
        }
        let _ = kill_process_group(*group, Signal::KILL);
        let _ = child.wait().await;
        self.state = State::Waiting { until: Instant::now() };
    }
}

fn start(launch: &str, descriptors: Rlimit, delay: &mut Duration) -> State {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(launch).process_group(0).stdin(Stdio::null());
    let limit = move || Ok(setrlimit(Resource::Nofile, descriptors)?);
    // SAFETY: between fork and exec the closure makes one system call and touches nothing else.
    unsafe { command.pre_exec(limit) };
    match command.spawn() {
        Ok(child) => {
            let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            info!("started the experiment job: {launch}");
            State::Running { child, group, since: Instant::now(), job: Job::NotSeen }
        }
        Err(error) => {
            *delay = next_delay(*delay, Duration::ZERO);
            warn!("the experiment job cannot be started: {error}");
            State::Waiting { until: Instant::now() + *delay }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_WAIT_MAX: Duration = Duration::from_secs(60);

    fn supervisor(launch: &str) -> Supervisor {
        let config =
            ExperimentConfig { launch: Some(launch.into()), start_wait_max: START_WAIT_MAX };
        Supervisor::new(config, rustix::process::getrlimit(Resource::Nofile))
    }

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }

    #[test]
    fn delays_double_up_to_a_limit_and_start_over_after_a_long_run() {
        let mut delay = Duration::ZERO;
        let delays: Vec<u64> = (0..8)
            .map(|_| {
                delay = next_delay(delay, Duration::ZERO);
                delay.as_secs()
            })
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(next_delay(delay, LONG_RUN), FIRST_DELAY);
    }

    #[test]
    fn a_job_that_ends_is_started_again_and_ends_with_the_daemon() {
        block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("runs");
            // The first run ends at once, the second stays, with a child of its own.
            let launch =
                format!("echo run >> {0}; [ $(wc -l < {0}) = 1 ] || sleep 1000", file.display());
            let mut supervisor = supervisor(&launch);
            supervisor.step().await;
            supervisor.step().await;
            assert!(matches!(supervisor.state, State::Waiting { .. }));
            supervisor.step().await;
            let State::Running { group, .. } = supervisor.state else { panic!("it runs") };
            let start = Instant::now();
            while std::fs::read_to_string(&file).unwrap() != "run\nrun\n" {
                assert!(start.elapsed() < Duration::from_secs(30), "no second run");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            supervisor.end().await;
            // Until init has collected the job's children, the group has members.
            let start = Instant::now();
            while rustix::process::test_kill_process_group(group.unwrap()).is_ok() {
                assert!(start.elapsed() < Duration::from_secs(30), "something of the job is left");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }

    #[test]
    fn a_launcher_that_stays_when_its_job_has_left_is_ended_and_started_again() {
        block_on(async {
            let mut supervisor = supervisor("trap '' TERM; while :; do sleep 1; done");
            supervisor.step().await;
            let job = |supervisor: &mut Supervisor, is_connected| {
                supervisor.watch(is_connected);
                let State::Running { job, .. } = &mut supervisor.state else { panic!("it runs") };
                let seen = *job;
                // As if the next look were long after this one.
                match job {
                    Job::Left { at: since } | Job::Ending { since, .. } => *since -= 2 * END_LIMIT,
                    Job::NotSeen | Job::Connected => {}
                }
                seen
            };
            assert_eq!(job(&mut supervisor, false), Job::NotSeen, "it may wait in a queue");
            assert_eq!(job(&mut supervisor, true), Job::Connected);
            assert!(matches!(job(&mut supervisor, false), Job::Left { .. }));
            assert_eq!(job(&mut supervisor, true), Job::Connected, "it is back");
            assert!(matches!(job(&mut supervisor, false), Job::Left { .. }));
            assert!(matches!(job(&mut supervisor, false), Job::Ending { .. }));
            assert!(matches!(job(&mut supervisor, false), Job::Ending { .. }));
            supervisor.step().await;
            assert!(matches!(supervisor.state, State::Waiting { .. }), "it was killed");
            supervisor.step().await;
            assert_eq!(job(&mut supervisor, false), Job::NotSeen);
            supervisor.end().await;
        });
    }
    #[test]
    fn a_launcher_that_hangs_as_it_starts_the_job_is_ended_and_started_again() {
        block_on(async {
            let mut supervisor = supervisor("sleep 1000");
            let seen_late = |supervisor: &mut Supervisor, limit| {
                supervisor.config.start_wait_max = limit;
                let State::Running { since, .. } = &mut supervisor.state else { panic!("it runs") };
                *since -= START_WAIT_MAX + LONG_RUN;
                supervisor.watch(false);
                let State::Running { job, .. } = supervisor.state else { panic!("it runs") };
                job
            };
            for delay_s in [1, 2] {
                supervisor.step().await;
                supervisor.watch(false);
                let job = seen_late(&mut supervisor, START_WAIT_MAX);
                assert!(matches!(job, Job::Ending { was_seen: false, .. }), "{job:?}");
                supervisor.step().await;
                assert_eq!(supervisor.delay.as_secs(), delay_s, "it has not run for long");
            }
            supervisor.step().await;
            let job = seen_late(&mut supervisor, Duration::ZERO);
            assert_eq!(job, Job::NotSeen, "there is no limit");
            supervisor.end().await;
        });
    }
}
