//! The integration tests of this crate, as one program: linking is most of what a program costs.

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
