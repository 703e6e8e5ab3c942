//! The experiments of NDN-NDP (Chuachan et al., IJNDC 2020): `mtu` (tables 1 and 2; row ND-18),
//! `grid` (figures 10 to 13; ND-19, ND-20) and `heartbeat` (the choice of T_h; ND-21).
//!
//! Each runs real routers on a testbed, with discovery and without. Without discovery, routers only
//! have faces to NFD's Ethernet group, as in the paper's comparison.

mod arm;
pub mod grid;
pub mod heartbeat;
pub mod mtu;
mod plot;
mod results;

use clap::Subcommand;
use namely_bench::error::Error;
use namely_testbed::sandbox::{self, SandboxSide};

use arm::error;

/// The experiments of NDN-NDP.
#[derive(Debug, Subcommand)]
pub enum Ndp {
    /// Producers and consumers of different MTU on one segment (tables 1 and 2)
    Mtu(mtu::Mtu),
    /// Three producers, nine forwarders, five consumers (figures 10 to 13)
    Grid(grid::Grid),
    /// Costs and gains of the time between hellos
    Heartbeat(heartbeat::Heartbeat),
}

/// Runs one of them, in a sandbox.
///
/// # Errors
/// Returns the error that prevented the run.
pub fn run(what: &Ndp) -> Result<(), Error> {
    let interrupt = match sandbox::enter().map_err(error)? {
        SandboxSide::Inside(interrupt) => interrupt,
        SandboxSide::Done(0) => return Ok(()),
        SandboxSide::Done(status) => std::process::exit(i32::from(status)),
    };
    match what {
        Ndp::Mtu(options) => mtu::run(options, &interrupt),
        Ndp::Grid(options) => grid::run(options, &interrupt),
        Ndp::Heartbeat(options) => heartbeat::run(options, &interrupt),
    }
}
