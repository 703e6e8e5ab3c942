//! Datagrams and Ethernet frames through the kernel's sockets, many by one system call; for the
//! router's faces and the client's connection alike.
//!
//! It has no event loop and no threads, never waits, and does not interpret names: it sends and
//! receives the octets of link packets. Follows udp(7) and packet(7).
#![deny(unsafe_code)]

pub mod ethernet;
pub mod mmsg;
pub mod udp;
