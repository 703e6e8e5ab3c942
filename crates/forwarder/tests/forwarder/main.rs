//! Behaviour of the forwarding core, seen from its faces.

mod bench;
mod exchange;
mod pipelines;
