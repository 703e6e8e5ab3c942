//! The integration tests of this crate, as one program: linking is most of what a program costs.

mod exchange;
mod hostile;
mod model;
mod network;
mod placement;
mod plane;
