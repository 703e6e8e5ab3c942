//! Costs and delays of the router. These tests measure time and load the machine, so they run one
//! after the other in a suite of their own: `cargo test -p namely-daemon --test measures`.

mod beside;
mod beside_costs;
mod busy_poll;
mod common;
mod costs;
mod devices;
mod faults;
mod flood;
mod idle;
mod many_neighbours;
#[path = "../../io/tests/support/namespace.rs"]
mod namespace;
mod segment;
#[path = "../../dataplane/tests/support/mod.rs"]
mod support;
