//! `namely pingserver`: answers `PREFIX/ping/<n>`, the names of ndnping.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use clap::Args;
use namely_security::{Signer, sign_data};
use namely_transport::connection::{Incoming, Options, Outbox, Packet};
use namely_wire::{Component, DataBuilder, Name};
use serde_json::json;

use super::poke::STOP_POLL;
use crate::context::Context;
use crate::failure::Failure;
use crate::options::name;
use crate::router::{command_failure, connection_failure, open, remark_on_reach};

/// Largest payload of a reply, octets.
const PAYLOAD_OCTETS_MAX: u64 = 8000;

/// Answer pings under a prefix.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely pingserver /lab/here")]
pub struct Pingserver {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
    /// Octets of payload in each reply.
    #[arg(long, value_name = "OCTETS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=PAYLOAD_OCTETS_MAX))]
    size: u64,
    /// FreshnessPeriod of the replies, ms.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    freshness: u64,
    /// Stop after this many replies.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl Pingserver {
    /// Answers until the command is stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let options = Options { signer: namely_client::default_signer(), ..Options::for_server() };
        let mut connection = open(ctx, options)?;
        let prefix = self.prefix.join(Component::generic(b"ping"));
        let server =
            Server { prefix: &prefix, freshness_ms: self.freshness, payload: vec![0; self.size as usize] };
        let replies = Cell::new(0u64);
        let limit = self.count.unwrap_or(u64::MAX);
        let mut handler = |incoming: Incoming<'_>, outbox: &mut Outbox| {
            if replies.get() < limit && server.answer(&incoming, outbox) {
                replies.set(replies.get() + 1);
            }
        };
        let reach = connection.register(&prefix, &mut handler).map_err(command_failure)?;
        remark_on_reach(ctx, connection.uri(), &prefix, reach);
        ctx.out.remark(format!("answering {prefix} at {}; Ctrl-C stops", connection.uri()));
        loop {
            let deadline_ns = connection.now_ns().saturating_add(STOP_POLL.as_nanos() as u64);
            connection.turn(deadline_ns, &mut handler).map_err(connection_failure)?;
            if stop.load(Ordering::Relaxed) || replies.get() >= limit {
                break;
            }
        }
        let replies = replies.get();
        ctx.out.answer(
            || format!("{replies} pings answered"),
            || json!({"prefix": prefix.to_string(), "replies": replies}),
        );
        Ok(())
    }
}

struct Server<'a> {
    prefix: &'a Name,
    freshness_ms: u64,
    payload: Vec<u8>,
}

impl Server<'_> {
    /// Answers the Interest if it is a ping. The reply is signed with a digest, because a ping
    /// measures the path and not the processor.
    fn answer(&self, incoming: &Incoming<'_>, outbox: &mut Outbox) -> bool {
        let Packet::Interest(interest) = incoming.packet else { return false };
        if !self.prefix.is_prefix_of(interest.name) {
            return false;
        }
        let builder = DataBuilder::new(interest.name).freshness_ms(self.freshness_ms);
        match sign_data(&builder, &self.payload, &Signer::digest_sha256()) {
            Ok(wire) => {
                outbox.send(&incoming.answer_headers(), &wire);
                true
            }
            Err(_) => false,
        }
    }
}
