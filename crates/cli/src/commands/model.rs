//! `namely model`: queueing models of a router and of routers that bypass full content stores. No
//! router is asked.

mod bypass;
mod router;
mod tables;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Work out what routers with content stores can take.
#[derive(Debug, Subcommand)]
pub enum Model {
    /// One router: what each stage has to do, and which one bounds it
    Router(router::Router),
    /// Routers in a row that pass on what finds them full: packets, loss, utilisation
    Bypass(bypass::Bypass),
}

impl Model {
    /// Works it out.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Model::Router(c) => c.run(ctx),
            Model::Bypass(c) => c.run(ctx),
        }
    }
}

/// Arrivals of a simulation unless told otherwise, and at most.
const ARRIVALS: &str = "1000000";
const ARRIVALS_MAX: u64 = 100_000_000;

/// A model refuses by a sentence that says what to give.
fn refused(error: namely_model::Error) -> Failure {
    Failure::failed(error.to_string())
}
