//! Which segment of an object to ask for next, and when: a sliding window in integers, for a home
//! without floating point, that is a kernel (`IS-26`).
//!
//! [`Transfer`] is told what came (Data, Nacks, the time) and answers with the next [`Step`]: a
//! segment to ask for, or a time until which there is nothing to do. The window grows as TCP's does
//! and shrinks by marks, by queues and by the losses of queues ([`Window`]); what is lost is known
//! by what came later or by the timer of RFC 6298 ([`Rto`]). Contents stay with the home: this
//! only knows their numbers.
//!
//! This crate never reads a clock, does I/O or uses floats, allocates when a transfer begins and at
//! no other time, and cannot panic on anything that a network says.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod congestion;
mod path;
mod rto;
mod transfer;

pub use congestion::Window;
pub use rto::Rto;
pub use transfer::{
    Fate, Fault, NACKS_MAX, Refusal, SEGMENTS_MAX, SUPPRESSION_NS, Step, TIMEOUTS_MAX, Transfer,
};
