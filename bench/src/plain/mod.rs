//! The machine's own ceiling: processes that only copy octets between sockets, without names and
//! packets.
//!
//! A source serves one file (or echoes), a relay copies from its upstream to its client, a sink
//! writes to a file. They have the same sockets and the same copies of payload as producer, router
//! and consumer. They run as hidden subcommands, so that each is a process of its own, as its
//! counterpart is.

pub mod datagrams;
pub mod endpoint;
pub mod ends;
pub mod relay;

use std::path::PathBuf;

use clap::Subcommand;

use self::endpoint::Endpoint;
use crate::error::Error;

pub use self::endpoint::READY;

/// One plain process.
#[derive(Debug, Subcommand)]
pub enum PlainCommand {
    /// Serve a file, or echo, to everyone who connects
    Source {
        /// Endpoint to listen at
        #[arg(long)]
        listen: Endpoint,
        /// The file; without one, echo
        #[arg(long)]
        file: Option<PathBuf>,
        /// Octets of one write
        #[arg(long, default_value_t = 8000)]
        unit: usize,
    },
    /// Copy from an upstream to everyone who connects
    Relay {
        /// Endpoint to listen at
        #[arg(long)]
        listen: Endpoint,
        /// Endpoint that sends the octets
        #[arg(long)]
        upstream: Endpoint,
        /// Octets of one read, and of one datagram or frame
        #[arg(long, default_value_t = 8000)]
        unit: usize,
    },
    /// Write everything that comes to a file
    Sink {
        /// Endpoint that sends the octets
        #[arg(long)]
        connect: Endpoint,
        /// The file
        #[arg(long)]
        output: PathBuf,
        /// Octets of one read
        #[arg(long, default_value_t = 8000)]
        unit: usize,
    },
    /// Send messages to an echo and print each round trip
    Ping {
        /// Endpoint of the echo, or of a relay to it
        #[arg(long)]
        connect: Endpoint,
        /// Number of round trips
        #[arg(long)]
        count: u32,
        /// Pause between two, ms
        #[arg(long)]
        interval_ms: u64,
    },
}

/// Runs one plain process.
pub fn run(command: &PlainCommand) -> Result<(), Error> {
    let (doing, result) = match command {
        PlainCommand::Source { listen, file, unit } => {
            ("plain source", ends::source(listen, file.as_deref(), *unit))
        }
        PlainCommand::Relay { listen, upstream, unit } => {
            ("plain relay", relay::relay(listen, upstream, *unit))
        }
        PlainCommand::Sink { connect, output, unit } => ("plain sink", ends::sink(connect, output, *unit)),
        PlainCommand::Ping { connect, count, interval_ms } => {
            ("plain ping", ends::ping(connect, *count, *interval_ms))
        }
    };
    result.map_err(|e| Error::environment(doing, e))
}
