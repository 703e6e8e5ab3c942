//! Selects the next segment of an object to request and the time of the request: a sliding window
//! in integers, for hosts without floating point, such as a kernel (`IS-26`).
//!
//! [`Transfer`] takes events (Data, Nacks, the time) and returns the next [`Step`]: a segment to
//! request, or a time to wait for. The window grows like TCP's and shrinks by marks, by queues and
//! by losses that queues explain ([`Window`]). Losses are detected by later arrivals or by the
//! timer of RFC 6298 ([`Rto`]). The host keeps the contents; this crate handles only their numbers.
//!
//! This crate never reads a clock, does I/O or uses floats. It allocates only at the start of a
//! transfer, and no input from the network can make it panic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod congestion;
mod path;
mod round_trip;
mod rto;
mod transfer;

pub use congestion::Window;
pub use round_trip::{RoundTrip, TimeoutBounds};
pub use rto::Rto;
pub use transfer::{
    Fate, Fault, NACKS_MAX, Refusal, SEGMENTS_MAX, SUPPRESSION_NS, Step, TIMEOUTS_MAX, Transfer,
};
