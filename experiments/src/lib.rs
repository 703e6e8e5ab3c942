//! The experiments of published systems, run on namely: the measurements of each paper, scaled to
//! one machine. `docs/experiments` has the results, and the command of each.
//!
//! The crate uses parts of `namely-bench` (objects, probes, plain processes, statistics). It
//! never acts in place of a measured program: processes are started and watched from outside.
#![forbid(unsafe_code)]

pub mod cli;
pub mod emulated;
pub mod istack;
pub mod linear_video;
pub mod nb_cache;
pub mod ndise;
pub mod ndise_ping;
pub mod ndise_routers;
pub mod ndp;
pub mod plot;
pub mod policies;
pub mod sim;
mod statistics;
pub mod topology;
