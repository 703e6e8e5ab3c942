//! `namely perf client`: sends Interests, with a thread for each flow, and prints the results.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use clap::Args;
use namely_transport::Nonces;
use namely_transport::connection::{Answer, Connection, Options};
use namely_wire::{DataView, InterestBuilder, Name};
use serde_json::Value;

use super::flow::{Flow, Plan, Tally};
use super::limits::{FLOWS_MAX, PREFIX, thread_failure};
use super::outstanding::Outstanding;
use super::packets::InterestTemplate;
use super::report::{Second, Summary, TITLES};
use super::signing::Checker;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::router::{connection_failure, nack_failure, open};

/// Default number of Interests under way without a rate.
const WINDOW: u32 = 64;
/// Default number of Interests under way with a rate.
const WINDOW_AT_A_RATE: u32 = 4096;

/// Attempts of the Interest before the measurement. A link that loses packets can be measured, too.
const PROBES: u32 = 3;

/// Maximum number of Interests under way.
const WINDOW_MAX: u32 = 1 << 16;
/// Maximum number of names for `--cached`.
const CACHED_MAX: u32 = 1 << 24;

/// Default number of components of a name.
const NAME_COMPONENTS: usize = 4;

/// Maximum number of components of a name.
const NAME_COMPONENTS_MAX: u16 = 128;
/// Maximum number of octets of a name.
const NAME_OCTETS_MAX: u16 = 4096;

/// Interval at which a flow checks if the command is stopped.
const LOOK_NS: u64 = 100_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Send Interests to a server at a window or a rate, and print the results.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely perf client --duration 10 --window 128 --flows 4")]
pub struct Client {
    /// The prefix of the server.
    #[arg(long, value_name = "NAME", default_value = PREFIX, value_parser = name)]
    prefix: Name,
    /// Duration in seconds.
    #[arg(long, short = 't', value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    duration: u64,
    /// Interests of each flow under way at once [default: 64; at a rate 4096].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WINDOW_MAX)))]
    window: Option<u32>,
    /// Interests a second of all flows together, regardless of answers and without retransmissions.
    #[arg(long, value_name = "PPS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: Option<u64>,
    /// Flows, each with a connection and a thread of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=FLOWS_MAX as i64))]
    flows: u16,
    /// Request N names repeatedly, which caches answer, instead of each name once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CACHED_MAX)))]
    cached: Option<u32>,
    /// Components of each name, the prefix's included [default: 4, or as many as it takes].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(NAME_COMPONENTS_MAX)))]
    name_components: Option<u16>,
    /// Octets of each name's components together; a name is not cut to fit.
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(1..=i64::from(NAME_OCTETS_MAX)))]
    name_length: Option<u16>,
    /// Octets of payload that each answer must have [default: those of the first answer].
    #[arg(long, value_name = "OCTETS")]
    payload: Option<usize>,
    /// Lifetime of the Interests, ms. Without an answer by then they count as timeouts.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    lifetime: u64,
    /// Check each answer's signature and every octet of its payload.
    #[arg(long)]
    verify: bool,
}

/// A flow's report to the printing thread.
struct Report {
    flow: usize,
    /// The number of the second, from 1. The last second may be short.
    second: u64,
    length: Duration,
    tally: Tally,
}

impl Client {
    /// Measures for the duration, or until the command is stopped. Fails if there is no correct
    /// answer.
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let session: u32 = u32::from_be_bytes(
            Nonces::from_system().map_err(|e| Failure::failed(format!("no random numbers: {e}")))?.next(),
        );
        let connect = |_| {
            let options = Options { signer: namely_client::default_signer(), ..Options::default() };
            open(ctx, options)
        };
        let mut connections = (0..self.flows).map(connect).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = connections.first_mut() else { return Ok(()) };
        let payload_octets = self.probe(first, session)?;
        self.announce(ctx, first, payload_octets, session)?;
        let plans = (0..self.flows).map(|flow| self.plan(flow, session, payload_octets));
        let plans = plans.collect::<Result<Vec<_>, _>>()?;
        let summary = self.measure(ctx, connections, plans, &stop)?;
        ctx.out.answer(|| summary.text(), || summary.json());
        outcome(&summary.total, &self.prefix)
    }

    /// Returns the base of a flow's names: `<prefix>/<flow>/<session>`, with the components and the
    /// padding that the options request.
    fn base(&self, flow: u16, session: u32) -> Result<Name, Failure> {
        let head = self.prefix.join_generic(flow.to_string());
        let id = format!("{session:08x}");
        // The number at the end of a name is a component, too.
        let least = head.len() + 2;
        let components = self.name_components.map_or(NAME_COMPONENTS.max(least), usize::from);
        if components < least {
            return Err(Failure::failed(format!(
                "--name-components must be at least {least}: {}, the flow, the session and a number",
                self.prefix
            )));
        }
        let filled = |padding: usize| {
            let mut name = head.join_generic(id.clone() + &"x".repeat(padding));
            (least..components).for_each(|i| name = name.join_generic(format!("{i:08}")));
            name
        };
        let Some(wanted) = self.name_length.map(usize::from) else { return Ok(filled(0)) };
        let octets = |padding: usize| filled(padding).join_generic([0; 8]).as_bytes().len();
        let shortest = octets(0);
        if wanted < shortest {
            return Err(Failure::failed(format!("--name-length must be at least {shortest} here")));
        }
        // LENGTH itself grows with the padding, so the longest name within the wanted length is
        // searched for.
        let padding = (0..=wanted - shortest).rev().find(|padding| octets(*padding) <= wanted);
        Ok(filled(padding.unwrap_or(0)))
    }

    fn template(&self, flow: u16, session: u32) -> Result<InterestTemplate, Failure> {
        InterestTemplate::new(&self.base(flow, session)?, self.lifetime)
            .ok_or_else(|| Failure::failed("the names do not fit a packet"))
    }

    fn plan(&self, flow: u16, session: u32, payload_octets: usize) -> Result<(Plan, Outstanding), Failure> {
        let checker = self.verify.then(Checker::new).transpose();
        let plan = Plan {
            template: self.template(flow, session)?,
            rate: self.rate.map(|rate| (rate / u64::from(self.flows)).max(1)),
            lifetime_ns: self.lifetime * 1_000_000,
            payload_octets,
            checker: checker.map_err(|e| Failure::failed(format!("cannot verify: {e}")))?,
        };
        let default = if self.rate.is_some() { WINDOW_AT_A_RATE } else { WINDOW };
        let window = self.window.unwrap_or(default);
        let outstanding = match self.cached {
            Some(names) => Outstanding::cyclic(window, names),
            None => Outstanding::distinct(window),
        };
        Ok((plan, outstanding))
    }

    /// Sends an Interest before the measurement, so that a wrong prefix is reported at once.
    /// Returns the size of the payload.
    fn probe(&self, connection: &mut Connection, session: u32) -> Result<usize, Failure> {
        let name = self.base(0, session)?.join_generic(u64::MAX.to_be_bytes());
        let interest = InterestBuilder::new(name).lifetime_ms(self.lifetime.max(1000));
        let hint = "is `namely perf server` running for this prefix?";
        match connection.express_retrying(&interest, PROBES).map_err(connection_failure)? {
            Answer::Data(reply) => {
                let data = DataView::parse(&reply.wire)
                    .map_err(|e| Failure::failed(format!("the answer is malformed: {e}")))?;
                Ok(self.payload.unwrap_or(data.content.len()))
            }
            Answer::Nack(reason) => Err(nack_failure(&self.prefix, reason).hint(hint)),
            Answer::Timeout => {
                Err(Failure::new(Exit::Timeout, format!("no answer from {}", self.prefix)).hint(hint))
            }
        }
    }

    fn announce(
        &self,
        ctx: &Context<'_>,
        connection: &Connection,
        payload_octets: usize,
        session: u32,
    ) -> Result<(), Failure> {
        let name = self.base(0, session)?.join_generic([0; 8]);
        let how = match (self.rate, self.window) {
            (Some(rate), _) => format!("{rate} Interests a second"),
            (None, window) => format!("a window of {} each", window.unwrap_or(WINDOW)),
        };
        ctx.out.remark(format!(
            "{} flows with {how} at {}; {payload_octets} octets of payload, names of {} components in {} octets",
            self.flows,
            connection.uri(),
            name.len(),
            name.as_bytes().len()
        ));
        if !ctx.out.is_json() {
            ctx.out.answer(|| TITLES.to_owned(), || Value::Null);
        }
        Ok(())
    }

    fn measure(
        &self,
        ctx: &Context<'_>,
        connections: Vec<Connection>,
        plans: Vec<(Plan, Outstanding)>,
        stop: &AtomicBool,
    ) -> Result<Summary, Failure> {
        let (reports, inbox) = mpsc::channel();
        let start = Barrier::new(connections.len());
        let started = Instant::now();
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (flow, (connection, (plan, outstanding))) in connections.into_iter().zip(plans).enumerate() {
                let (reports, start) = (reports.clone(), &start);
                threads.push(scope.spawn(move || {
                    start.wait();
                    let ended = self.flow(flow, connection, plan, outstanding, &reports, stop);
                    // A flow that fails ends the measurement.
                    stop.fetch_or(ended.is_err(), Ordering::Relaxed);
                    ended
                }));
            }
            // `inbox` ends when all senders are dropped: this one, and that of each flow.
            drop(reports);
            let mut printer = Printer::new(ctx, threads.len());
            inbox.iter().for_each(|report| printer.take(&report));
            for thread in threads {
                thread.join().map_err(|_| thread_failure())??;
            }
            Ok(printer.finish(started.elapsed()))
        })
    }

    /// Runs one flow to its end.
    fn flow(
        &self,
        index: usize,
        mut connection: Connection,
        plan: Plan,
        outstanding: Outstanding,
        reports: &mpsc::Sender<Report>,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let nonces = connection.nonces().clone();
        let started_ns = connection.now_ns();
        let mut flow = Flow::new(plan, outstanding, nonces, started_ns);
        let end_ns = started_ns + self.duration * SECOND_NS;
        let (mut second, mut second_from_ns, mut now_ns) = (1, started_ns, started_ns);
        while now_ns < end_ns && !stop.load(Ordering::Relaxed) {
            flow.expire(now_ns, connection.outbox());
            flow.fill(now_ns, connection.outbox());
            let second_ends_ns = (started_ns + second * SECOND_NS).min(end_ns);
            let deadline_ns = flow.due_ns(now_ns).min(second_ends_ns).min(now_ns + LOOK_NS);
            let turn = connection.turn(deadline_ns, &mut |incoming, outbox| flow.take(&incoming, outbox));
            turn.map_err(connection_failure)?;
            now_ns = connection.now_ns();
            if now_ns >= started_ns + second * SECOND_NS && now_ns < end_ns {
                report(&mut flow, index, second, now_ns - second_from_ns, reports);
                (second, second_from_ns) = ((now_ns - started_ns) / SECOND_NS + 1, now_ns);
            }
        }
        report(&mut flow, index, second, now_ns - second_from_ns, reports);
        Ok(())
    }
}

fn report(flow: &mut Flow, index: usize, second: u64, length_ns: u64, reports: &mpsc::Sender<Report>) {
    let tally = std::mem::replace(&mut flow.tally, Tally::new());
    // The printing thread outlives the flows, so the send does not fail.
    let _ = reports.send(Report { flow: index, second, length: Duration::from_nanos(length_ns), tally });
}

/// Returns an error if the measurement is not valid.
fn outcome(total: &Tally, prefix: &Name) -> Result<(), Failure> {
    if total.wrong > 0 {
        let message = format!("{} answers differ from the server's data", total.wrong);
        return Err(Failure::new(Exit::NotVerified, message));
    }
    match (total.exchanges, total.nacks) {
        (0, 0) => Err(Failure::new(Exit::Timeout, format!("no answer from {prefix}"))),
        (0, _) => Err(Failure::new(Exit::NotFound, format!("{prefix} was refused"))),
        _ => Ok(()),
    }
}

/// Sums the flows' seconds, and prints each as soon as all flows have reported it.
struct Printer<'a> {
    ctx: &'a Context<'a>,
    flows: usize,
    total: Tally,
    flow_octets: Vec<u64>,
    /// Seconds that are not reported by all flows yet: number of reports, longest length, and sum.
    open: BTreeMap<u64, (usize, Duration, Tally)>,
}

impl<'a> Printer<'a> {
    fn new(ctx: &'a Context<'a>, flows: usize) -> Self {
        Printer { ctx, flows, total: Tally::new(), flow_octets: vec![0; flows], open: BTreeMap::new() }
    }

    fn take(&mut self, report: &Report) {
        self.total.add(&report.tally);
        self.flow_octets[report.flow] += report.tally.payload_octets;
        let open = self.open.entry(report.second).or_insert_with(|| (0, Duration::ZERO, Tally::new()));
        open.0 += 1;
        open.1 = open.1.max(report.length);
        open.2.add(&report.tally);
        while let Some(first) = self.open.first_entry().filter(|e| e.get().0 == self.flows) {
            let (number, (_, length, tally)) = first.remove_entry();
            self.print(number, length, &tally);
        }
    }

    fn print(&self, number: u64, length: Duration, tally: &Tally) {
        // The rest of a second may be too short for a rate.
        if length < Duration::from_millis(10) {
            return;
        }
        let second = Second { number, tally, length };
        self.ctx.out.answer(|| second.text(), || second.json());
    }

    fn finish(mut self, length: Duration) -> Summary {
        while let Some((number, (_, length, tally))) = self.open.pop_first() {
            self.print(number, length, &tally);
        }
        Summary { total: self.total, length, flow_octets: self.flow_octets }
    }
}
