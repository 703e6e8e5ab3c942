//! `namely poke`: answers one Interest with standard input.

use std::io::Read;
use std::time::Duration;

use clap::Args;
use namely_security::sign_data;
use namely_transport::connection::{Options, Packet};
use namely_wire::{DataBuilder, Name, PACKET_OCTETS_MAX};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::router::{command_failure, connection_failure, open, remark_on_reach};

/// Answer one Interest with standard input.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  echo hello | namely poke /lab/greeting --timeout 30")]
pub struct Poke {
    /// The Data's name.
    #[arg(value_parser = name)]
    name: Name,
    /// FreshnessPeriod, ms.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    freshness: u64,
    /// Give up after this many seconds without an Interest.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Sign with a digest instead of your key for the name.
    #[arg(long)]
    digest: bool,
}

impl Poke {
    /// Registers the name, waits for one Interest and answers it.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let wire = self.data()?;
        let options = Options { signer: namely_client::default_signer(), ..Options::for_server() };
        let mut connection = open(ctx, options)?;
        let reach = connection.register(&self.name, &mut |_, _| {}).map_err(command_failure)?;
        remark_on_reach(ctx, connection.uri(), &self.name, reach);
        ctx.out.remark(format!("waiting for an Interest for {}", self.name));
        let wait_ns = self.timeout.map_or(u64::MAX, |s| s.saturating_mul(1_000_000_000));
        let deadline_ns = connection.now_ns().saturating_add(wait_ns);
        let mut answered = false;
        while !answered {
            connection
                .turn(deadline_ns, &mut |incoming, outbox| {
                    if let Packet::Interest(interest) = incoming.packet
                        && !answered
                        && interest.name.is_prefix_of(self.name.as_name())
                        && (interest.can_be_prefix || interest.name == self.name.as_name())
                    {
                        outbox.send(&incoming.answer_headers(), &wire);
                        answered = true;
                    }
                })
                .map_err(connection_failure)?;
            if !answered && connection.now_ns() >= deadline_ns {
                return Err(Failure::new(Exit::Timeout, format!("no Interest arrived for {}", self.name)));
            }
        }
        ctx.out.answer(
            || format!("answered {} with {} octets", self.name, wire.len()),
            || json!({"name": self.name.to_string(), "octets": wire.len()}),
        );
        Ok(())
    }

    fn data(&self) -> Result<Vec<u8>, Failure> {
        let mut content = Vec::new();
        std::io::stdin()
            .lock()
            .take(PACKET_OCTETS_MAX as u64 + 1)
            .read_to_end(&mut content)
            .map_err(|e| Failure::failed(format!("cannot read standard input: {e}")))?;
        let signer = crate::keys::data_signer(&self.name, self.digest)?;
        let builder = DataBuilder::new(self.name.as_name()).freshness_ms(self.freshness);
        let wire = sign_data(&builder, &content, &signer)
            .map_err(|e| Failure::failed(format!("cannot sign {}: {e}", self.name)))?;
        if wire.len() > PACKET_OCTETS_MAX {
            return Err(Failure::failed(format!(
                "standard input is too long for one Data packet of {PACKET_OCTETS_MAX} octets"
            ))
            .hint("publish longer content with `namely put`"));
        }
        Ok(wire)
    }
}

/// Interval at which servers check if the command is stopped.
pub const STOP_POLL: Duration = Duration::from_millis(250);
