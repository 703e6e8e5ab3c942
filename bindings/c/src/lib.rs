//! `libnamely`: the sockets of `namely-socket` for C, as the (h)ICN paper has them (`icn_socket`,
//! `icn_bind`, …; HT-03, HT-04). `namely.h` is made from this crate by cbindgen and kept beside it;
//! a test holds the two together.
//!
//! Has no logic that the Rust sockets lack: it numbers sockets, translates addresses, options and
//! errors, and remembers what a C program cannot hold (objects that are being read, requests that
//! wait for an answer). No panic leaves it. Follows docs/c.md.
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
