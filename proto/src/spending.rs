//! What the experiment's measurements cost the network.

use serde::{Deserialize, Serialize};

/// What measurements of one kind have taken, since their job began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// In which the network was used.
    pub seconds: f64,
    /// As they were asked for, of all nodes: what a program that came has cut short counts whole.
    pub bytes: u64,
}

/// What an experiment job has spent on what, and what it may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// Since the job began.
    pub job_s: f64,
    /// On measuring links.
    pub links: Spent,
    /// On broadcasts.
    pub trials: Spent,
    /// On links that programs' broadcasts have shown to be slower.
    pub suspects: Spent,
    /// On trials in programs' own broadcasts: as much as these took longer, and no bytes.
    pub programs: Spent,
    /// The part of its time, where there is such a ceiling.
    pub time_share: Option<f64>,
    /// Bytes an hour, where there is such a ceiling.
    pub bytes_per_hour: Option<u64>,
}

impl Spending {
    /// Of each kind, by its name.
    pub fn kinds(&self) -> [(&'static str, Spent); 4] {
        [
            ("links", self.links),
            ("trials", self.trials),
            ("suspects", self.suspects),
            ("programs", self.programs),
        ]
    }

    /// Of all kinds.
    pub fn all(&self) -> Spent {
        let add = |all: Spent, (_, one): (&str, Spent)| Spent {
            seconds: all.seconds + one.seconds,
            bytes: all.bytes.saturating_add(one.bytes),
        };
        self.kinds().into_iter().fold(Spent::default(), add)
    }

    /// Whether it makes sense.
    pub fn is_valid(&self) -> bool {
        let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        let kinds = self.kinds();
        is_time(self.job_s)
            && kinds.iter().all(|(_, spent)| is_time(spent.seconds))
            && self.time_share.is_none_or(is_time)
    }
}
