//! What is timed, and how its messages go.

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    RoundTrip,
    HeadToHead,
    BroadcastRound,
    Acker,
    LeafAck,
    Gather,
    Scatter,
    Barrier,
    IntegerSum,
    DoubleSum,
}

impl Kind {
    /// Its option.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundTrip => "roundtrip",
            Self::HeadToHead => "head",
            Self::BroadcastRound => "bcast",
            Self::Acker => "bcastalt",
            Self::LeafAck => "bcastleaf",
            Self::Gather => "colx",
            Self::Scatter => "mpiscatter",
            Self::Barrier => "sync",
            Self::IntegerSum => "isum",
            Self::DoubleSum => "dsum",
        }
    }

    /// Bytes of one unit of size.
    pub fn unit_bytes(self) -> usize {
        match self {
            Self::RoundTrip
            | Self::HeadToHead
            | Self::Barrier
            | Self::BroadcastRound
            | Self::Gather => 1,
            Self::Acker | Self::LeafAck | Self::Scatter | Self::IntegerSum => 4,
            Self::DoubleSum => 8,
        }
    }

    /// Part of a repetition's time that the original format gives: mpptest's time of partners is that
    /// of one way, which it takes for half of a round, also head to head.
    pub fn original_share(self) -> f64 {
        if self.is_between_partners() { 0.5 } else { 1.0 }
    }

    pub fn is_broadcast(self) -> bool {
        matches!(self, Self::BroadcastRound | Self::Acker | Self::LeafAck)
    }

    pub fn is_between_partners(self) -> bool {
        matches!(self, Self::RoundTrip | Self::HeadToHead)
    }
}

/// Whom a receive names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveFrom {
    Partner,
    Any,
}

/// How partners receive; sends are blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    Blocking,
    /// The receive is posted before the send, and completed after it.
    NonBlocking,
}

impl Calls {
    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::NonBlocking => "nonblocking",
        }
    }

    /// The calls with which `bytes` go, where the user asked for these. Head to head, both sides of a
    /// blocking exchange send first, and wait for ever where the MPI does not buffer the message.
    pub fn at(self, kind: Kind, bytes: usize) -> Self {
        if kind == Kind::HeadToHead && bytes > SURELY_BUFFERED_BYTES {
            Self::NonBlocking
        } else {
            self
        }
    }
}

/// Every MPI here buffers a message of this many bytes.
pub const SURELY_BUFFERED_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_messages_head_to_head_change_their_calls() {
        let blocking = |kind, bytes| Calls::Blocking.at(kind, bytes) == Calls::Blocking;
        assert!(blocking(Kind::HeadToHead, 1024) && !blocking(Kind::HeadToHead, 1025));
        assert!(blocking(Kind::RoundTrip, 1 << 20));
        assert_eq!(Calls::NonBlocking.at(Kind::HeadToHead, 1), Calls::NonBlocking);
    }
}
