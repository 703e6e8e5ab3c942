//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod mounted;
mod versions;
