//! Why a fetch ended without all its pieces.

use std::fmt;

use namely_wire::NackReason;

/// Why a fetch ended without all its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The network's: nothing came for so long.
    Silence {
        /// The oldest piece that was waited for.
        piece: u64,
        /// For how long.
        for_ns: u64,
    },
    /// The network's: one piece never came, though others did.
    Unanswered {
        /// Which.
        piece: u64,
        /// How often it was asked for.
        attempts: u8,
    },
    /// The network's: it is congested, so that routers refused Interests and nothing else came.
    Congested {
        /// A piece that did not come.
        piece: u64,
        /// Refusals since anything came.
        nacks: u64,
    },
    /// The router's: it refuses Interests.
    Refused {
        /// The first piece that was refused.
        piece: u64,
        /// The router's reason.
        reason: NackReason,
    },
    /// The producer's: it said twice which piece is the last, and not the same.
    EndMoved {
        /// How many pieces were known of.
        known: u64,
        /// How many there should be now.
        claimed: u64,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Silence { for_ns, .. } => {
                write!(
                    f,
                    "nothing came for {} s: the producer or the way to it is gone",
                    for_ns / 1_000_000_000
                )
            }
            Failure::Unanswered { attempts, .. } => {
                write!(f, "it never came, though it was asked for {attempts} times and others came")
            }
            Failure::Congested { nacks, .. } => {
                write!(f, "the network is congested: routers refused {nacks} Interests, and nothing came")
            }
            Failure::Refused { reason: NackReason::NoRoute, .. } => f.write_str(
                "no route: no producer of this name is known to the router; see `namely route list`",
            ),
            Failure::Refused { reason, .. } => write!(f, "the router refused: {reason}"),
            Failure::EndMoved { known, claimed } => {
                write!(f, "the producer contradicts itself: {known} segments, then {claimed}")
            }
        }
    }
}

impl std::error::Error for Failure {}
