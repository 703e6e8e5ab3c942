//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod exchange;
mod hostile;
mod model;
mod network;
mod placement;
mod plane;
