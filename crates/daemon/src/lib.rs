//! The router as a library: the data plane, and what controls it.
#![forbid(unsafe_code)]

mod args;
pub mod config;
pub mod dataplane;

pub use args::DaemonArgs;
