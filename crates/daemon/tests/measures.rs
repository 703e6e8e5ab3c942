//! Costs and delays of the router. These tests measure time and load the machine, so they run one
//! after the other in a suite of their own: `cargo test -p namely-daemon --test measures`.

/// True in this suite, in which limits of time are short: no other test runs beside it.
const MEASURES: bool = true;

mod beside;
mod beside_costs;
mod busy_poll;
mod common;
mod costs;
mod devices;
mod fake;
mod faults;
mod flood;
mod idle;
mod many_neighbours;
#[path = "../../io/tests/support/namespace.rs"]
mod namespace;
mod plane;
mod segment;
#[path = "../../dataplane/tests/shares.rs"]
mod shares;
mod slot_costs;
mod stop;
#[path = "../../dataplane/tests/support/mod.rs"]
mod support;
mod vip_overload;
