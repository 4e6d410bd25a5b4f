//! Why the job ends, and with which exit code.

use arborcast_proto::message::Refusal;

/// Why the job ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("{0}")]
    Usage(String),
    #[error("the daemon refuses this job: {0}")]
    Refused(Refusal),
    #[error("node {0}")]
    Rank(String),
}

impl JobError {
    /// 1: it could not go on; 2: a wrong option; 3: a daemon refused it.
    pub fn exit_code(&self) -> u8 {
        match self {
            JobError::Rank(_) => 1,
            JobError::Usage(_) => 2,
            JobError::Refused(_) => 3,
        }
    }
}
