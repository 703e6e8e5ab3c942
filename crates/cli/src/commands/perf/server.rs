//! `namely perf server`: answers all Interests below its prefix.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use namely_transport::connection::{Connection, Incoming, Options, Outbox, Packet};
use namely_wire::{Name, PACKET_OCTETS_MAX};
use serde_json::json;

use super::limits::{FLOWS_MAX, PAYLOAD_OCTETS, PAYLOAD_OCTETS_MAX, PREFIX, thread_failure};
use super::packets::DataTemplate;
use super::signing::{SignWith, payload};
use crate::commands::poke::STOP_POLL;
use crate::context::Context;
use crate::failure::Failure;
use crate::options::name;
use crate::output::octets_text;
use crate::router::{command_failure, connection_failure, open};

/// Answer every Interest below a prefix with generated Data.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely perf server --payload 1200 --sign sha256")]
pub struct Server {
    /// The name prefix.
    #[arg(long, value_name = "NAME", default_value = PREFIX, value_parser = name)]
    prefix: Name,
    /// Octets of payload in each Data.
    #[arg(long, value_name = "OCTETS", default_value_t = PAYLOAD_OCTETS as u64,
        value_parser = clap::value_parser!(u64).range(0..=PAYLOAD_OCTETS_MAX as u64))]
    payload: u64,
    /// The signature. The default costs nothing at either end, so that only the router is measured.
    #[arg(long, value_name = "HOW", default_value = "null")]
    sign: SignWith,
    /// Connections to the router; a client's flow n is answered on connection n if there is one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=FLOWS_MAX as i64))]
    flows: u16,
}

/// Counters of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    answers: u64,
    /// Data that did not fit a packet, or could not be signed.
    refused: u64,
}

impl Server {
    /// Answers until the command is stopped.
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let template = self.template()?;
        let connections = (0..self.flows).map(|flow| self.connect(ctx, flow, &template));
        let connections = connections.collect::<Result<Vec<_>, _>>()?;
        if let Some(first) = connections.first() {
            let uri = first.uri();
            ctx.out.remark(format!("answering everything below {} at {uri}; Ctrl-C stops", self.prefix));
        }
        let served = std::thread::scope(|scope| {
            let threads: Vec<_> = connections
                .into_iter()
                .map(|connection| scope.spawn(|| self.serve(connection, &template, &stop)))
                .collect();
            // All threads end, because a connection that fails stops the others.
            let ended = threads.into_iter().map(|thread| thread.join().map_err(|_| thread_failure())?);
            ended.collect::<Result<Vec<Served>, Failure>>()
        })?;
        let answers: u64 = served.iter().map(|s| s.answers).sum();
        let refused: u64 = served.iter().map(|s| s.refused).sum();
        ctx.out.answer(
            || format!("{answers} answered ({}), {refused} refused", octets_text(answers * self.payload)),
            || json!({"kind": "summary", "answers": answers, "refused": refused, "payload_octets": answers * self.payload}),
        );
        Ok(())
    }

    fn template(&self) -> Result<DataTemplate, Failure> {
        let signing = self.sign.signing();
        let signing = signing.map_err(|e| Failure::failed(format!("cannot sign: {e}")))?;
        Ok(DataTemplate::new(&payload(self.payload as usize), signing))
    }

    /// Opens a connection and registers its prefix. The first connection has the whole prefix, and
    /// each further one the names of its flow.
    fn connect(&self, ctx: &Context<'_>, flow: u16, template: &DataTemplate) -> Result<Connection, Failure> {
        let options = Options { signer: namely_client::default_signer(), ..Options::for_server() };
        let mut connection = open(ctx, options)?;
        let prefix = match flow {
            0 => self.prefix.clone(),
            n => self.prefix.join_generic(n.to_string()),
        };
        let mut served = Served::default();
        let handler = &mut |incoming: Incoming<'_>, outbox: &mut Outbox| {
            self.answer(&incoming, template, outbox, &mut served);
        };
        connection.register(&prefix, handler).map_err(command_failure)?;
        Ok(connection)
    }

    fn serve(
        &self,
        mut connection: Connection,
        template: &DataTemplate,
        stop: &AtomicBool,
    ) -> Result<Served, Failure> {
        let mut served = Served::default();
        while !stop.load(Ordering::Relaxed) {
            let deadline_ns = connection.now_ns().saturating_add(STOP_POLL.as_nanos() as u64);
            let turn = connection.turn(deadline_ns, &mut |incoming, outbox| {
                self.answer(&incoming, template, outbox, &mut served);
            });
            if let Err(error) = turn {
                stop.store(true, Ordering::Relaxed);
                return Err(connection_failure(error));
            }
        }
        Ok(served)
    }

    fn answer(
        &self,
        incoming: &Incoming<'_>,
        template: &DataTemplate,
        outbox: &mut Outbox,
        served: &mut Served,
    ) {
        let Packet::Interest(interest) = incoming.packet else { return };
        let octets = template.octets(interest.name);
        if !self.prefix.is_prefix_of(interest.name) || octets > PACKET_OCTETS_MAX {
            served.refused += 1;
            return;
        }
        let headers = incoming.answer_headers();
        match outbox.compose(&headers, octets, |out| template.write(interest.name, out)) {
            Ok(()) => served.answers += 1,
            Err(_) => served.refused += 1,
        }
    }
}
