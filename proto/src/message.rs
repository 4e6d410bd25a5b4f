//! What goes over a daemon's Unix socket.
//!
//! A frame is the length of the body (u32, little-endian), the protocol version (u16), and the body
//! ([`crate::codec`]). A client sends [`Ask`]s; the daemon answers each with one [`Answer`], in order,
//! except [`Ask::Ring`] and [`Ask::Delivered`], which have none. With some answers comes a descriptor (SCM_RIGHTS):
//! with the welcome the memory file of the client's slot, with [`Answer::Board`] the board, and with
//! [`Answer::Exported`] a memory file of what is known. Who the client is the daemon takes from the kernel
//! (SO_PEERCRED), never from a message.

use crate::codec::{self, CodecError};
use crate::{
    DeliveryReport, Group, Lateness, LinkMatrix, MAX_NODES, NodeName, Plan, SizeClass, Spending,
    Target,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::time::Duration;

/// Changes whenever a message changes its form. A message that is added at the end of [`Ask`] or [`Answer`]
/// changes no other one; who does not know it closes the connection.
pub const PROTOCOL_VERSION: u16 = 15;
/// The length and the version in front of each body.
pub const FRAME_HEADER_BYTES: usize = 6;
/// A peer that announces a longer body is cut off.
pub const MAX_BODY_BYTES: usize = 16 << 20;
/// The longest body that an application has to send: [`Ask::Register`] of the largest group.
pub const MAX_APPLICATION_BODY_BYTES: usize = 64 + MAX_NODES * (8 + NodeName::MAX_BYTES);

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// An application or an experiment introduces itself, once a connection, and gets a slot. Answer:
    /// `Welcome`.
    Hello(Role),
    /// The board. Answer: `Board`.
    Board,
    /// The doorbell: the daemon is to look at the slots now. No answer.
    Ring,
    /// The nodes behind a group's hash. Answer: `Done`.
    Register(Group),
    /// Applications: what this node saw of a broadcast along trees. No answer.
    Delivered(DeliveryReport),

    /// Experiments: what applications have asked for. Answer: `Demand`.
    Demand,
    /// Experiments: what applications have said in `Delivered` since this was last asked. Answer:
    /// `Deliveries`.
    Deliveries,
    /// Experiments: a plan better than what is known, or news of it. Answer: `Done`.
    Publish(Box<Finding>),
    /// Experiments: what one trial gave. Answer: `Done`.
    Trial(Box<TrialRecord>),
    /// Experiments: the links as measured. Answer: `Done`.
    Links(Group, LinkMatrix),

    /// Operators. Answer: `Status`.
    Status,
    /// Operators: targets with their demand and plans, most recent demand first. Answer: `Targets`.
    Targets,
    /// Operators: how a target converged. Answer: `History`.
    History(Target),
    /// Operators: the links of each group that was measured. Answer: `Matrices`.
    Matrices,
    /// Operators: no experiment until `Resume`. Answer: `Done`.
    Pause,
    Resume,
    /// Operators: forget the plan of one target, or all plans. Answer: `Done`.
    Forget(Option<Target>),
    /// Operators: everything that is known. Answer: `Exported`.
    Export,
    /// Operators: a wisdom file, or a part of one ([`crate::wisdom::parts`]), to be merged with what is
    /// known. Answer: `Imported`.
    Import(Vec<u8>),

    /// Experiments: which nodes get programs' broadcasts late. Answer: `Done`.
    Lateness(Vec<Lateness>),
    /// Experiments: what measurements have cost. Answer: `Done`.
    Spending(Spending),
    /// Experiments: the network of a group as the planner sees it, in its own form, for [`Ask::Plan`]. Answer:
    /// `Done`.
    Network(Group, Vec<u8>),
    /// Applications: a plan for a target whose root this node is and that has none, for a message of so many bytes.
    /// Answer: `Done`, once there is one on the board, or there will be none soon.
    Plan(Target, u64),
}

/// What a client is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Application,
    /// A rank of the experiment job with this epoch. Newer jobs have higher epochs.
    Experiment {
        epoch: u64,
    },
}

/// What the daemon says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Comes with the memory file of the client's slot.
    Welcome,
    /// Comes with the board, to be mapped for reading.
    Board,
    Done,
    Demand(Vec<Demand>),
    Deliveries(Vec<DeliveryReport>),
    Status(Box<Status>),
    Targets(Vec<TargetStatus>),
    History(Vec<TrialRecord>),
    Matrices(Vec<(Group, LinkMatrix)>),
    /// The daemon will not do it; the text says why and what to do.
    Refused(Refusal),
    /// Comes with a memory file: the bytes of a wisdom file.
    Exported,
    Imported(Imported),
}

/// What became of the entries of an imported file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Taken: they were new, or newer and better known than what was there.
    pub plans: u32,
    pub links: u32,
    pub trials: u32,
    /// Plans, links and trials that were there already, or something newer or better known was.
    pub known: u32,
    /// They make no sense, or there is no room for them.
    pub refused: u32,
}

/// Why the daemon will not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("the daemon cannot make a slot: {0}")]
    NoSlot(String),
    #[error("the experiment with epoch {winner} runs already; stop that job first")]
    OtherExperiment { winner: u64 },
    #[error("only the daemon's own user or root may do this")]
    NotAllowed,
    #[error("{0}")]
    Invalid(String),
}

/// A target that applications have used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    pub target: Target,
    pub group: Group,
    /// The size of the last such message.
    pub bytes: u64,
    /// Time since its last broadcast.
    pub age: Duration,
    pub broadcasts: u64,
    /// Median seconds from the end of the application's broadcast before it, of whatever target, to the
    /// beginning of one, where known.
    pub pause_s: Option<f64>,
    /// The same of each of the last ones, oldest first, from the last that its root took part in, whoever was the root of
    /// that: so long the network was not used.
    pub quiets_s: Vec<f64>,
    /// Seconds that native broadcasts have taken at least of late, where known.
    pub native_s: Option<f64>,
}

/// Repeated times of one plan, in seconds, each from the root's start until it had the ACKs of all
/// leaves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub median_s: f64,
    pub min_s: f64,
    pub max_s: f64,
    /// 0 where nothing was measured: see [`Times::predicted`].
    pub repetitions: u32,
}

/// See [`Times::at_least_of`].
const LONG_ALONE_S: f64 = 2.0;

impl Times {
    /// What a model says and nobody has measured.
    pub fn predicted(seconds: f64) -> Self {
        Times { median_s: seconds, min_s: seconds, max_s: seconds, repetitions: 0 }
    }

    pub fn is_measured(&self) -> bool {
        self.repetitions > 0
    }

    /// The median of samples; `None` of none.
    pub fn median_of(samples_s: impl IntoIterator<Item = f64>) -> Option<f64> {
        let samples_s: Vec<f64> = samples_s.into_iter().collect();
        Times::of(&samples_s).map(|times| times.median_s)
    }

    /// What three of four samples are at least. The first alone may tell of connections that were made: it counts half, and
    /// only where it is longer than they mostly take.
    pub fn at_least_of(samples_s: impl IntoIterator<Item = f64>) -> Option<f64> {
        let mut sorted: Vec<f64> = samples_s.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        match sorted[..] {
            [alone_s] => (alone_s >= LONG_ALONE_S).then_some(alone_s / 2.0),
            _ => sorted.get(sorted.len() / 4).copied(),
        }
    }

    /// Of at least one sample; `None` of none.
    pub fn of(samples_s: &[f64]) -> Option<Self> {
        let mut sorted = samples_s.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median_s = match sorted.len() {
            0 => return None,
            n if n % 2 == 1 => sorted[middle],
            _ => sorted[middle - 1].midpoint(sorted[middle]),
        };
        let (min_s, max_s) = (sorted[0], sorted[sorted.len() - 1]);
        let repetitions = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
        Some(Times { median_s, min_s, max_s, repetitions })
    }
}

/// The best plan for a target, as an experiment found it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub group: Group,
    /// The root's index in the group.
    pub root: u16,
    pub bytes: u64,
    pub plan: Plan,
    pub times: Times,
    /// The native broadcast in the same experiment, measured in the same way.
    pub native: Option<Times>,
    /// What the network allows by the experiment's own measurements, in seconds.
    pub limit_s: Option<f64>,
    pub strategy: String,
    /// Trials made for this target so far.
    pub trials: u32,
    /// Seconds of searching so far, without the waiting for applications.
    pub search_s: f64,
    /// `None` where it was found before reasons were kept, or published by hand.
    pub reason: Option<Reason>,
}

/// Why a plan is in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// What the strategy's model had said the plan takes, in seconds, if it has one.
    pub predicted_s: Option<f64>,
    /// The 90 % confidence interval of its median, in seconds: low, high.
    pub interval_s: (f64, f64),
    /// What it was compared with; `None` where nothing else was measured.
    pub against: Option<Rival>,
}

/// What a plan was compared with, in the same experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    pub plan: Plan,
    pub times: Times,
    /// As in [`Reason`].
    pub interval_s: (f64, f64),
}

impl Finding {
    /// What the plan has taken; `None` where that is only predicted.
    pub fn measured(&self) -> Option<&Times> {
        Some(&self.times).filter(|times| times.is_measured())
    }

    pub fn target(&self) -> Target {
        let class = SizeClass::of(self.bytes);
        Target { group: self.group.hash(), root: self.root, class }
    }
}

/// What one trial gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    pub target: Target,
    pub bytes: u64,
    /// Counted from 1 for each target.
    pub number: u32,
    pub plan: Plan,
    /// `None` where the trial was dropped.
    pub times: Option<Times>,
    /// What the strategy's model had said of the plan, if it has one.
    pub predicted_s: Option<f64>,
    /// The best median so far, this trial included.
    pub best_s: Option<f64>,
    pub strategy: String,
    pub search_s: f64,
    /// Seconds since 1970-01-01 UTC.
    pub unix_s: f64,
}

/// The phase of the experiment as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExperimentState {
    /// No experiment job is connected.
    None,
    /// Connected, and there is no demand or an application holds the network.
    Waiting,
    Running,
    Stopping,
    /// An operator has paused it.
    Paused,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub node: NodeName,
    pub site: NodeName,
    pub version: String,
    pub daemon_pid: u32,
    pub uptime: Duration,
    pub experiment: ExperimentState,
    pub epoch: Option<u64>,
    pub applications: u32,
    pub holds: u32,
    /// Since the daemon's start.
    pub broadcasts: u64,
    /// Broadcasts that went ahead because an experiment did not stop within `hold_wait_max`.
    pub hold_timeouts: u64,
    pub plans: u32,
    pub trials: u64,
    /// Of the job that is connected, or was last.
    pub spending: Option<Spending>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetStatus {
    pub target: Target,
    pub group: Group,
    /// `None` where only an experiment named on its command line searched for it.
    pub demand: Option<Demand>,
    pub finding: Option<Finding>,
    /// Times of sampled application broadcasts since the plan is in use.
    pub in_use: Option<Times>,
}

/// Why a frame cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the peer speaks version {0} of the protocol, this program {PROTOCOL_VERSION}")]
    Version(u16),
    #[error("a message of {0} bytes; at most {MAX_BODY_BYTES} are allowed")]
    TooLong(usize),
    #[error("a message that makes no sense: {0}")]
    Codec(#[from] CodecError),
}

/// A message as it goes over the socket.
///
/// # Errors
/// `TooLong` above [`MAX_BODY_BYTES`].
pub fn to_frame(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let body = codec::encode(message)?;
    if body.len() > MAX_BODY_BYTES {
        return Err(FrameError::TooLong(body.len()));
    }
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + body.len());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The length of the body that follows a frame's first bytes.
///
/// # Errors
/// Where the peer speaks another version or announces too much.
pub fn body_bytes(header: [u8; FRAME_HEADER_BYTES]) -> Result<usize, FrameError> {
    let [a, b, c, d, e, f] = header;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    match u16::from_le_bytes([e, f]) {
        PROTOCOL_VERSION if len > MAX_BODY_BYTES => Err(FrameError::TooLong(len)),
        PROTOCOL_VERSION => Ok(len),
        version => Err(FrameError::Version(version)),
    }
}

/// The message in a frame's body.
///
/// # Errors
/// Where the bytes are no such message.
pub fn from_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    Ok(codec::decode(body)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..300)
        ) {
            let _ = from_body::<Ask>(&bytes);
            let _ = from_body::<Answer>(&bytes);
        }

        #[test]
        fn a_damaged_message_is_a_message_or_an_error(
            at in 0usize..10_000, value in any::<u8>()
        ) {
            let mut body = to_frame(&Ask::Publish(Box::new(finding()))).unwrap();
            let at = FRAME_HEADER_BYTES + at % (body.len() - FRAME_HEADER_BYTES);
            body[at] = value;
            let _ = from_body::<Ask>(&body[FRAME_HEADER_BYTES..]);
        }
    }

    fn finding() -> Finding {
        let names = ["a0", "a1", "b0"].map(|n| NodeName::new(n).unwrap());
        Finding {
            group: Group::new(names.to_vec()).unwrap(),
            root: 1,
            bytes: 1 << 20,
            plan: Plan::single(crate::Tree::flat(3, 1).unwrap(), 32 << 10).unwrap(),
            times: Times::of(&[0.3, 0.1, 0.2]).unwrap(),
            native: None,
            limit_s: Some(0.09),
            strategy: "guided".into(),
            trials: 12,
            search_s: 4.5,
            reason: Some(Reason {
                predicted_s: Some(0.15),
                interval_s: (0.1, 0.3),
                against: Some(Rival {
                    plan: Plan::Native,
                    times: Times::of(&[0.7]).unwrap(),
                    interval_s: (0.7, 0.7),
                }),
            }),
        }
    }

    #[test]
    fn a_message_survives_the_socket() {
        let ask = Ask::Publish(Box::new(finding()));
        let frame = to_frame(&ask).unwrap();
        let (header, body) = frame.split_at(FRAME_HEADER_BYTES);
        assert_eq!(body_bytes(header.try_into().unwrap()).unwrap(), body.len());
        assert_eq!(from_body::<Ask>(body).unwrap(), ask);
    }

    #[test]
    fn other_versions_and_absurd_lengths_are_refused() {
        assert!(matches!(body_bytes([0, 0, 0, 0, 99, 0]), Err(FrameError::Version(99))));
        let [low, high] = PROTOCOL_VERSION.to_le_bytes();
        assert!(matches!(body_bytes([255, 255, 255, 255, low, high]), Err(FrameError::TooLong(_))));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let times = Times::of(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((times.median_s, times.min_s, times.max_s), (2.5, 1.0, 4.0));
        assert_eq!(Times::of(&[]), None);
        assert_eq!(Times::at_least_of([4.0, 1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!([vec![], vec![1.0], vec![8.0]].map(Times::at_least_of), [None, None, Some(4.0)]);
    }
}
