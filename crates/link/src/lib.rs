//! NDNLPv2 link service: what stands between network packets and the frames of one face.
//!
//! [`LinkService::send`] turns a network packet into link packets ([`Frame`]s: a few header octets
//! and a range of the packet, which is never copied); [`LinkService::receive`] turns link packets
//! into network packets. It fragments and reassembles, sends lost frames again where both ends want
//! that, sets congestion marks, and finds out by probes how long frames may be where a path does
//! not tell.
//!
//! This crate never reads a clock, a socket or randomness: time comes in as nanoseconds of any
//! monotonic clock, and frames go out through a closure. Everything a peer can make it keep is
//! bounded; every drop has a reason ([`LinkDrop`]) and is counted under that reason's label.
//!
//! Follows NDNLPv2 as NFD implements it; the feature of the specification is named at each rule:
//! indexed fragmentation, network Nack, consumer-controlled forwarding, local cache policy,
//! incoming face indication, congestion marking, link layer reliability, PIT tokens.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod codel;
mod counters;
mod fragment;
mod frame;
mod messages;
mod ordered;
mod path;
#[cfg(test)]
mod path_tests;
mod proof;
mod reassembly;
mod receiver;
mod reliability;
mod rtt;
mod sender;
mod service;
pub mod stream;
mod sync;

pub use codel::{CODEL_MARKS_MAX, Codel, CodelConfig, Verdict};
pub use counters::{LinkDrop, LinkDrops};
pub use fragment::{FRAGMENTS_MAX, MTU_OCTETS_MIN};
pub use frame::{FRAME_HEADER_OCTETS_MAX, Frame, FrameHeader, Patch, Payload};
pub use path::PATH_OCTETS_BASE;
pub use proof::{PROOF_QUESTION_OCTETS_MAX, PROOF_RANDOM_OCTETS, Proof, Shown, may_show};
pub use reassembly::{
    REASSEMBLY_RESERVE_OCTETS, ReassemblyLimits, ReassemblyShare, ReassemblyTotal, ReassemblyTotalRef,
};
pub use receiver::{Accepts, LinkReceiver};
pub use reliability::{RETRANSMISSIONS_MAX, UNACKED_FRAMES_MAX};
pub use sender::{ANNOUNCEMENT_OCTETS_MAX, LinkSender};
pub use service::{Carried, Delivered, LinkConfig, LinkCounters, LinkKind, LinkService, Outbound};
