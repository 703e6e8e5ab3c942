//! Interoperability that needs no program of others; what does is `peers.rs`.

mod path_mtu;
mod routers;
mod segment;
