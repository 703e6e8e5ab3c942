//! `libnamely`: the sockets of `namely-socket` for C, with the functions of the (h)ICN paper
//! (`icn_socket`, `icn_bind`, …; HT-03, HT-04). cbindgen makes `namely.h` from this crate. The
//! header is stored beside it, and a test compares the two.
//!
//! The crate has no logic that the Rust sockets lack. It numbers sockets, translates addresses,
//! options and errors, and stores the values that a C program cannot hold (objects that are being
//! read, requests that wait for an answer). No panic leaves it. Follows docs/c.md.
#![deny(unsafe_code)]

mod abi;
mod address;
mod failure;
mod messages;
mod objects;
mod opened;
mod options;
mod poll;
mod reading;
mod requests;
mod socket;
mod system;
mod table;
pub mod types;

pub use abi::*;
