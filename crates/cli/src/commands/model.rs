//! `namely model`: queueing models of a router, and of routers that bypass full content stores. The
//! command sends nothing to a router.

mod bypass;
mod router;
mod tables;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Compute the capacity and the loss of routers with content stores.
#[derive(Debug, Subcommand)]
pub enum Model {
    /// One router: the load of each stage, and the bottleneck
    Router(router::Router),
    /// Routers in a row that pass packets on when full: packets, loss, utilization
    Bypass(bypass::Bypass),
}

impl Model {
    /// Computes and prints the model.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Model::Router(c) => c.run(ctx),
            Model::Bypass(c) => c.run(ctx),
        }
    }
}

/// Default and maximum number of arrivals of a simulation.
const ARRIVALS: &str = "1000000";
const ARRIVALS_MAX: u64 = 100_000_000;

/// Converts the error about an invalid parameter of a model. Its text has the valid values.
fn refused(error: namely_sim::queueing::Error) -> Failure {
    Failure::failed(error.to_string())
}
