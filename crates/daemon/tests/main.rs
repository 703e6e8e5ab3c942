//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod activation;
mod authorization;
mod beside;
mod bindings;
mod commands;
mod common;
mod datasets;
mod disk;
mod learning;
mod lifecycle;
mod metrics;
mod neighbours;
mod plane;
mod privileges;
mod proof;
mod readvertise;
mod router;
mod segment;
mod stop;
mod vip;
mod vip_disk;
mod vip_neighbours;
mod websocket;
