//! Neighbor discovery on a link: finds the other routers of the link, makes a unicast face to each,
//! and determines the MTU of the face.
//!
//! [`Discovery`] is a state machine in the manner of NDN-NDP (IJNDC 2020): hellos are multicast,
//! replies are unicast, both are signed. Its inputs are interfaces, packets, faces, results of
//! signature checks and the time. It appends [`Action`]s, which its host carries out. The host
//! calls [`Discovery::tick`] at the time that the previous call returned.
//!
//! This crate never reads a clock, a socket or randomness, and computes no signature. All state
//! that a peer on a link can cause is bounded ([`Config`], [`limits`]), and refusals are counted by
//! reason ([`Counter`]). docs/discovery.md describes the messages, their timing and the checks.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod action;
mod config;
mod counters;
mod interface;
pub mod limits;
mod link_address;
mod machine;
pub mod message;
mod neighbour;
mod receive;
mod reconfigure;
mod suspects;

pub use action::{Action, Note, Proof, Recipient};
pub use config::{AcceptRule, Config};
pub use counters::{Counter, Counters};
pub use interface::{InterfaceId, LinkState};
pub use link_address::{Face, Key, LinkAddress};
pub use machine::{Discovery, NeighbourFace, ReceivedPacket};
pub use message::concerns_discovery;
pub use neighbour::{NeighbourStatus, Phase};
