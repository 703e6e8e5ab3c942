//! `namely peek`: sends one Interest and prints the answer.

use std::io::Write;

use clap::Args;
use namely_transport::connection::{Answer, Options};
use namely_wire::{DataView, InterestBuilder, Name};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::output::Text;
use crate::router::{connection_failure, nack_failure, open, why_hint};

/// Send one Interest and print the answer.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely peek /lab/run7 --prefix --payload\n  namely peek /localhost/nfd/status/general -p --json"
)]
pub struct Peek {
    /// The requested name.
    #[arg(value_parser = name)]
    name: Name,
    /// Data with a longer name may answer (CanBePrefix).
    #[arg(long, short = 'p')]
    prefix: bool,
    /// Stale Data may not answer (MustBeFresh).
    #[arg(long, short = 'f')]
    fresh: bool,
    /// How long to wait, ms.
    #[arg(long, value_name = "MS", default_value_t = 4000)]
    lifetime: u64,
    /// Most hops the Interest may take.
    #[arg(long, value_name = "N")]
    hop_limit: Option<u8>,
    /// A name under which the producer can be reached; may repeat.
    #[arg(long, value_name = "NAME", value_parser = name)]
    hint: Vec<Name>,
    /// Write the Content's octets only.
    #[arg(long, conflicts_with = "wire")]
    payload: bool,
    /// Write the whole Data packet's octets.
    #[arg(long)]
    wire: bool,
}

impl Peek {
    /// Sends the Interest and prints the answer.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let options = Options { reconnect: std::time::Duration::ZERO, ..Options::default() };
        let mut connection = open(ctx, options)?;
        match connection.express(&self.interest()).map_err(connection_failure)? {
            Answer::Data(reply) => self.show(ctx, &reply.wire, reply.rtt_ns),
            Answer::Nack(reason) => Err(nack_failure(&self.name, reason)),
            Answer::Timeout => {
                let text = format!("no answer for {} in {} ms", self.name, self.lifetime);
                Err(Failure::new(Exit::Timeout, text).hint(why_hint(&self.name)))
            }
        }
    }

    fn interest(&self) -> InterestBuilder {
        let mut interest = InterestBuilder::new(self.name.clone()).lifetime_ms(self.lifetime);
        if self.prefix {
            interest = interest.can_be_prefix();
        }
        if self.fresh {
            interest = interest.must_be_fresh();
        }
        if let Some(limit) = self.hop_limit {
            interest = interest.hop_limit(limit);
        }
        self.hint.iter().fold(interest, |i, hint| i.forwarding_hint(hint.clone()))
    }

    fn show(&self, ctx: &Context<'_>, wire: &[u8], rtt_ns: u64) -> Result<(), Failure> {
        let data = DataView::parse(wire).map_err(|e| Failure::failed(format!("not a Data: {e}")))?;
        if self.payload || self.wire {
            let octets = if self.payload { data.content } else { wire };
            return ctx
                .out
                .content()
                .write_all(octets)
                .map_err(|e| Failure::failed(format!("cannot write to standard output: {e}")));
        }
        ctx.out.answer(
            || {
                let text = namely_dissect::to_text(wire);
                let rtt_ms = rtt_ns as f64 / 1e6;
                Text::laid_out(&format!("{text}answered in {rtt_ms:.3} ms; not verified"))
            },
            || {
                json!({
                    "name": data.name.to_string(), "content_octets": data.content.len(),
                    "content_type": data.content_type.number(), "freshness_ms": data.freshness_ms,
                    "final_block": data.final_block_id.map(|c| c.to_string()),
                    "signature_type": data.signature_type.number(), "rtt_us": rtt_ns / 1000, "verified": false,
                })
            },
        );
        Ok(())
    }
}
