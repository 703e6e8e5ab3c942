//! Options of a fetch, and their defaults.

use crate::congestion::{Algorithm, WINDOW_INITIAL};

/// Largest window in pieces, beyond what the limits in octets admit.
const WINDOW_MAX: usize = 1 << 20;

/// Options of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The congestion control, which decides the window and the rate.
    pub congestion: Algorithm,
    /// The window before any measurement of the path, in pieces.
    pub window_initial: usize,
    /// Largest window that the congestion control may choose, in pieces: the caller's own limit.
    pub window_max: usize,
    /// Octets of the fetches of a socket in flight.
    ///
    /// The default admits 10 Gbit/s over 300 ms. A fetch has what the others leave, at least an
    /// equal part: [`Share`](super::Share). Each packet counts with the octets that the
    /// metadata announces, or else with the octets of the largest packet.
    ///
    /// # Limit
    /// The window does not grow further.
    /// - Value: 384 MiB
    /// - Tests: `every_window_has_a_limit`, `the_default_limits_admit_ten_gigabits`,
    ///   `fetches_share_the_octets`
    pub window_octets_max: u64,
    /// Octets of a fetch between the first that is not delivered and the last that was requested:
    /// in flight, out of order, awaiting verification.
    ///
    /// # Limit
    /// No further piece is requested. A Data that exceeds it because it is longer than the metadata
    /// announces is dropped.
    /// - Value: 768 MiB; at first 16 MiB, or eight times the octets delivered within a round trip
    /// - Counter: `overfull`
    /// - Tests: `requests_stay_within_the_span`, `the_span_grows_with_deliveries`,
    ///   `longer_pieces_than_announced_are_bounded`
    pub span_octets_max: u64,
    /// [`Options::span_octets_max`] before any measurement of the path.
    pub span_octets_first: u64,
    /// Maximum number of requests of one piece before the fetch fails.
    pub attempts_max: u8,
    /// Time for which the fetch continues without any Data.
    pub silence_ns_max: u64,
    /// Time for which the fetch continues if, after some Data, it receives only refusals: enough
    /// for a restart of the producer or router. Before any Data a refusal ends the fetch at once.
    pub refused_ns_max: u64,
    /// After this time a missing piece is lost for good
    /// ([`Fetch::lost_for_good`](super::Fetch::lost_for_good)): it is not requested again, and the
    /// fetch continues without it. None: lost pieces are requested again.
    pub give_up_ns: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            congestion: Algorithm::Cubic,
            window_initial: WINDOW_INITIAL as usize,
            window_max: WINDOW_MAX,
            window_octets_max: 384 << 20,
            span_octets_max: 768 << 20,
            span_octets_first: 16 << 20,
            attempts_max: 20,
            silence_ns_max: 20_000_000_000,
            refused_ns_max: 10_000_000_000,
            give_up_ns: None,
        }
    }
}
