//! How long things take in a run, and what may go wrong in it.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub struct Rules {
    pub hosts: usize,
    pub hold_wait_max: Duration,
    pub hold_max: Duration,
    pub linger: Duration,
    /// A message, a timer or a wake-up is late by up to this.
    pub most_lag: Duration,
    /// The end of a process is noticed within this.
    pub most_late: Duration,
    /// The least between two looks of a daemon, two questions for the demand, and two looks of rank 0.
    pub look_pace: Duration,
    pub ask_every: Duration,
    pub nap: Duration,
    /// What the arbiter asks for while it waits for an experiment.
    pub stopping_look: Duration,
    /// The longest pause before a job that has failed is started again.
    pub job_pause: Duration,
    /// The part of sizes that may be large.
    pub large: f64,
    /// The experiment measures anew what is older.
    pub refresh: Duration,
    /// Daemons write their wisdom file.
    pub saves: bool,
    /// Between two troubles on average; `None`: nothing fails.
    pub trouble_every: Option<Duration>,
}

impl Rules {
    /// Minutes in which everything may happen.
    pub fn troubled(random: &mut ChaCha8Rng) -> Self {
        let holds = [MS * 250, MS * 50, MS * 1000];
        Rules {
            hosts: random.random_range(2..=4),
            hold_wait_max: holds[random.random_range(0..holds.len())],
            hold_max: Duration::from_secs(random.random_range(3..20)),
            linger: MS * random.random_range(0..200),
            most_lag: MS * random.random_range(1..20),
            most_late: MS * random.random_range(1..2000),
            look_pace: Duration::ZERO,
            ask_every: MS * 250,
            nap: MS,
            stopping_look: MS * 5,
            job_pause: Duration::from_secs(10),
            large: 0.05,
            refresh: Duration::from_secs(600),
            saves: true,
            trouble_every: Some(Duration::from_secs(random.random_range(2..12))),
        }
    }

    /// Days in which programs come and go and nothing fails, on nodes that look up now and then only.
    pub fn days() -> Self {
        Rules {
            hosts: 5,
            hold_wait_max: MS * 250,
            hold_max: Duration::from_secs(600),
            linger: MS * 100,
            most_lag: MS,
            most_late: MS * 10,
            look_pace: Duration::from_secs(2),
            ask_every: Duration::from_secs(20),
            nap: Duration::from_secs(5),
            stopping_look: MS * 5,
            job_pause: Duration::from_secs(60),
            large: 0.0,
            refresh: Duration::from_secs(12 * 3600),
            saves: false,
            trouble_every: None,
        }
    }
}
