//! Fetching and publishing named objects, congestion control, and a client's connection to any router.
//!
//! State machines ([`fetch`], [`congestion`], [`publish`]) take time and packets and give back actions: they never read a clock or a socket. The
//! [`connection`] does the I/O: one blocking, poll-based link to a router that speaks NDNLPv2 (namelyd, NFD,
//! NDNd), which reconnects and registers its prefixes again.
//!
//! This crate knows no particular router, and no file.
#![forbid(unsafe_code)]

pub mod congestion;
pub mod connection;
pub mod endpoint;
pub mod fetch;
pub mod matching;
pub mod nonce;
pub mod object;
pub mod paths;
pub mod publish;
pub mod segment;
pub mod serve;
