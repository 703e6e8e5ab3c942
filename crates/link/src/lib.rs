//! NDNLPv2 link service: the layer between network packets and the frames of one face.
//!
//! [`LinkService::send`] turns a network packet into link packets ([`Frame`]s: a few header octets
//! and a range of the packet, which is never copied). [`LinkService::receive`] turns link packets
//! into network packets. The service fragments and reassembles, retransmits lost frames if both
//! ends enable it, sets congestion marks, and probes the maximum frame length of a path if the path
//! does not report it.
//!
//! This crate never reads a clock, a socket or randomness. The caller passes the time as
//! nanoseconds of any monotonic clock, and frames leave through a closure. All state that a peer
//! can create is bounded. Every drop has a reason ([`LinkDrop`]) and is counted under that reason's
//! label.
//!
//! Follows NDNLPv2 as NFD implements it. Each rule names its feature of the specification: indexed
//! fragmentation, network Nack, consumer-controlled forwarding, local cache policy, incoming face
//! indication, congestion marking, link layer reliability, PIT tokens.
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
pub use proof::{Evidence, PROOF_QUESTION_OCTETS_MAX, PROOF_RANDOM_OCTETS, Proof, may_answer};
pub use reassembly::{
    REASSEMBLY_RESERVE_OCTETS, ReassemblyLimits, ReassemblyShare, ReassemblyTotal, ReassemblyTotalRef,
};
pub use receiver::{LinkReceiver, ReceivePolicy};
pub use reliability::{RETRANSMISSIONS_MAX, UNACKED_FRAMES_MAX};
pub use sender::{ANNOUNCEMENT_OCTETS_MAX, LinkSender};
pub use service::{
    DeliveredPacket, LinkConfig, LinkCounters, LinkKind, LinkService, Outbound, PacketLocation,
};
