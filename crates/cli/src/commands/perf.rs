//! `namely perf`: generates and measures load through a router. A server answers everything below
//! its prefix, and a client sends Interests at a window or at a rate.
//!
//! Both ends do little work for each packet (templates, no allocation, one write for each batch),
//! because the system between them is measured.

mod client;
mod crypto;
mod flow;
mod limits;
mod object;
mod outstanding;
mod packets;
mod report;
mod request;
mod sample;
mod server;
mod signing;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Measure throughput and latency through a router with generated load.
#[derive(Debug, Subcommand)]
pub enum Perf {
    /// Answer every Interest below a prefix with generated Data
    Server(server::Server),
    /// Send Interests to a server at a window or a rate, and print the results
    Client(client::Client),
    /// Measure whole objects: published, fetched and verified over sockets
    Object(object::Object),
    /// Measure requests that are answered, signed and verified one at a time
    Request(request::Request),
    /// Measure the cost of signatures and hashes on this processor
    Crypto(crypto::Crypto),
}

impl Perf {
    /// Serves or measures until the end of the measurement, or until the command is stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Perf::Server(c) => c.run(ctx),
            Perf::Client(c) => c.run(ctx),
            Perf::Object(c) => c.run(ctx),
            Perf::Request(c) => c.run(ctx),
            Perf::Crypto(c) => c.run(ctx),
        }
    }
}
