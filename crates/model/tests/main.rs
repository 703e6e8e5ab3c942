//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod bypass;
#[allow(dead_code, reason = "of what the simulator's tests share it takes a part")]
#[path = "../../sim/tests/common/mod.rs"]
mod common;
mod page;
mod router;
mod simulated;
