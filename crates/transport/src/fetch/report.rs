//! The input and output of a fetch: the arrival of a Data, its result, counters.

/// Counters of a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Interests, including retransmissions.
    pub interests: u64,
    /// Interests for a piece that was requested before.
    pub retransmissions: u64,
    /// Pieces that counted as lost because later ones were answered.
    pub losses: u64,
    /// Timeouts without any Data.
    pub timeouts: u64,
    /// Pieces that arrived right after their retransmission, so they had not been lost.
    pub spurious: u64,
    /// Received pieces.
    pub data: u64,
    /// Data for pieces that had arrived already, or were never requested.
    pub duplicates: u64,
    /// Received pieces that failed verification.
    pub corrupt: u64,
    /// Interests that the router refused.
    pub nacks: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Interests repeated because no Data arrived for two round trips.
    pub probes: u64,
    /// Data dropped because the pieces that wait are longer than the producer announced, so that
    /// they fill the span.
    pub overfull: u64,
}

/// The circumstances of a received Data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival.
    pub now_ns: u64,
    /// Octets of its packet; 0: as announced ([`Fetch::set_piece_octets`](super::Fetch)).
    pub octets: usize,
    /// Whether it has a congestion mark.
    pub marked: bool,
    /// Whether the router reports that it comes from its own content store. Such a Data does not
    /// show that earlier Interests are lost: their Data may come from farther.
    pub from_cache: bool,
}

impl Arrival {
    /// Unmarked, of unknown origin.
    pub fn at(now_ns: u64) -> Self {
        Arrival { now_ns, ..Arrival::default() }
    }
}

/// The result of a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOutcome {
    /// The piece was missing.
    New,
    /// The piece had arrived already, or was not requested.
    Unneeded,
}
