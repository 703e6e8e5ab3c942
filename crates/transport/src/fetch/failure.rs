//! The reasons for which a fetch ended without all its pieces.

use std::fmt;

use namely_wire::NackReason;

/// The reason for which a fetch ended without all its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The network's: no Data arrived for this time.
    #[error("nothing came for {} s: the producer or the way to it is gone", .for_ns / 1_000_000_000)]
    Silence {
        /// The first piece that was not delivered.
        piece: u64,
        /// The duration.
        for_ns: u64,
    },
    /// The network's: one piece never arrived, though others did.
    #[error("it never came, though it was asked for {attempts} times and others came")]
    Unanswered {
        /// The piece.
        piece: u64,
        /// Number of its requests.
        attempts: u8,
    },
    /// The network's: it is congested. Routers refused Interests, and no Data arrived.
    #[error("the network is congested: routers refused {nacks} Interests, and nothing came")]
    Congested {
        /// A missing piece.
        piece: u64,
        /// Number of refusals since the last Data.
        nacks: u64,
    },
    /// The router's: it refuses Interests.
    #[error(fmt = refused)]
    Refused {
        /// The piece whose refusal ended the fetch.
        piece: u64,
        /// The router's reason.
        reason: NackReason,
    },
    /// The producer's: two of its packets name different last pieces.
    #[error("the producer contradicts itself: {known} segments, then {claimed}")]
    EndMoved {
        /// The number of pieces known before.
        known: u64,
        /// The contradicting number.
        claimed: u64,
    },
}

fn refused(_piece: &u64, reason: &NackReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        NackReason::NoRoute => f.write_str(
            "no route: the router, or one behind it, knows no producer of this name; see `namely why`",
        ),
        reason => write!(f, "the router refused: {reason}"),
    }
}
