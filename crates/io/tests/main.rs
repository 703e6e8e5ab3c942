//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod ethernet;
mod ethernet_xdp;
mod packets;
mod rights;
mod shares;
mod support;
mod tcp;
mod udp;
mod unix;
mod unproven;
mod websocket;
