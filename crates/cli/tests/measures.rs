//! Rates, as `namely perf` and the links of a testbed have them. These tests measure time and load
//! the machine, so they run one after the other in a suite of their own: `cargo test -p namely
//! --test measures`.

mod common;
mod mount_rates;
mod perf;
mod testbed_rates;
