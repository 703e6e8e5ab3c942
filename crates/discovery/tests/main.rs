//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod attacks;
mod discovery;
mod lies;
mod proof;
mod segment;
