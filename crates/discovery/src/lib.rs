//! Neighbour discovery on a link: who is there, by which unicast face, with which MTU.
//!
//! [`Discovery`] is a state machine in the manner of NDN-NDP (IJNDC 2020): hellos are multicast,
//! replies are unicast, both are signed. It is told what happens (interfaces, packets, faces, what
//! became of signatures, the time) and appends [`Action`]s, which its home carries out. Call
//! [`Discovery::tick`] when the time that it returned has come.
//!
//! This crate never reads a clock, a socket or randomness, and computes no signature. Everything
//! that a station on a link can make it keep is bounded ([`Config`], [`limits`]), and what it
//! refuses is counted by reason ([`Counter`]). docs/discovery.md says what is sent when, and what
//! is not believed.
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
mod machine;
pub mod message;
mod neighbour;
mod receive;
mod reconfigure;
mod station;
mod suspects;

pub use action::{Action, Note, Proof, Recipient};
pub use config::{AcceptRule, Config};
pub use counters::{Counter, Counters};
pub use interface::{InterfaceId, LinkState};
pub use machine::{Discovery, Heard, NeighbourFace};
pub use message::concerns_discovery;
pub use neighbour::{NeighbourStatus, Phase};
pub use station::{Face, Key, Station};
