//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

/// False in this suite, which runs beside other work: a test that both suites run judges time only
/// in `measures`.
const MEASURES: bool = false;

mod activation;
mod authorization;
mod beside;
mod bindings;
mod commands;
mod common;
mod datasets;
mod disk;
mod drain;
mod fake;
mod idle_memory;
mod late_devices;
mod late_folders;
mod learning;
mod lifecycle;
mod metrics;
#[path = "../../io/tests/support/namespace.rs"]
mod namespace;
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
mod vip_overload;
mod websocket;
