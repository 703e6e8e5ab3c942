//! The router as a library: the data plane, and what controls it.
#![forbid(unsafe_code)]

pub mod config;
pub mod dataplane;
