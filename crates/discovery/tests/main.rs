//! The integration tests of this crate, as one program: linking is most of what a program costs.

mod attacks;
mod discovery;
mod lies;
mod proof;
mod segment;
