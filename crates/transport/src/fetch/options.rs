//! Options of a fetch, and their defaults.

use crate::congestion::{Algorithm, WINDOW_INITIAL};

/// Options of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The congestion control, which decides the window and the rate.
    pub congestion: Algorithm,
    /// The window before any measurement of the path, in pieces.
    pub window_initial: usize,
    /// Largest window, in pieces.
    pub window_max: usize,
    /// Maximum number of pieces between the first that is not delivered and the last that was
    /// requested. It bounds the memory for pieces out of order.
    pub span_max: usize,
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
            window_max: 1024,
            span_max: 2048,
            attempts_max: 20,
            silence_ns_max: 20_000_000_000,
            refused_ns_max: 10_000_000_000,
            give_up_ns: None,
        }
    }
}
