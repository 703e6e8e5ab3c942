//! `namely perf`: generated load through a router, measured: a server that answers everything below
//! its prefix, and a client that asks at a window or at a rate.
//!
//! Both ends do as little for a packet as they can (templates, no allocation, one write for a
//! batch), because they are there to measure what is between them.

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
    /// Ask a server at a window or a rate, and print what comes
    Client(client::Client),
    /// Measure whole objects: published, fetched and verified over sockets
    Object(object::Object),
    /// Measure requests that are answered, signed and verified one at a time
    Request(request::Request),
    /// Measure what signatures and hashes cost on this processor
    Crypto(crypto::Crypto),
}

impl Perf {
    /// Serves or measures until it is done or stopped.
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
