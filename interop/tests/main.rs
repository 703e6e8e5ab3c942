//! Interoperability tests that need no other programs; `peers.rs` has those that do.

mod path_mtu;
mod routers;
mod segment;
