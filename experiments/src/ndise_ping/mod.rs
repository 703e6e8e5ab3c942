//! `ndise-ping`: the cost of a router's exchange of VIPs for other requests (N-DISE, its lesson of
//! a thread for control, row VI-20). It measures round trips through one router from an application
//! to another, and to the content store: without VIP; with VIP, while the router exchanges signed
//! counts with a number of neighbors; and while an object leaves the store.
//!
//! Rounds alternate, each with routers of their own.

pub(crate) mod load;
pub mod neighbours;
mod router;

use std::time::Duration;

use clap::{Args, ValueEnum};
use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_bench::stats::{percentile, summarise};
use namely_sim::table::Table;
use namely_testbed::Interrupt;
use serde_json::json;

use load::{Pings, Trips};
use router::{Exchange, Router};

/// Data that the store evicts per millisecond (docs/vip.md). It determines how long the eviction is
/// measured.
const LEAVING_PER_MS: u64 = 256;

/// Options of `ndise-ping`.
#[derive(Args, Debug)]
pub struct NdisePing {
    /// Turns, in each of which every way is measured
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub turns: u32,
    /// Duration of the measurement of each way in a turn, s
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Neighbors
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub neighbours: u64,
    /// Objects that all have counts of
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=400))]
    pub objects: u64,
    /// Packets of the object that leaves, 2,000 or more; 0 for none
    #[arg(long, default_value_t = 100_000, value_parser = packets)]
    pub packets: u64,
    /// Length of a slot, ms
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(100..=10_000))]
    pub period_ms: u32,
    /// The neighbors' share of the processors
    #[arg(long, value_enum, default_value_t = Share::Idle)]
    pub neighbours_share: Share,
    /// A line of JSON for each turn of each way instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The share of the processors for the neighbors, which elsewhere would be other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Share {
    /// Only unused time (SCHED_IDLE)
    Idle,
    /// That of any program (SCHED_OTHER), regardless of this one's
    Other,
    /// That of this program
    Same,
}

impl Share {
    /// The note with which a figure has to be read: whether it includes the neighbors' processor
    /// time.
    fn note(self) -> &'static str {
        match self {
            Share::Idle => "the neighbors, which share the processors, get unused time (SCHED_IDLE)",
            Share::Other => "the neighbors share the processors as any program does (SCHED_OTHER)",
            Share::Same => "the neighbors share the processors as the router does",
        }
    }
}

/// With fewer packets, the other object finds room beside this one, which then does not leave.
fn packets(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|n| *n == 0 || (2_000..=1_000_000).contains(n));
    number.ok_or_else(|| "2000 to 1000000 packets, or 0".to_owned())
}

/// The state of the router during a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasurementMode {
    Without,
    With,
    Leaving,
}

impl MeasurementMode {
    fn label(self) -> &'static str {
        match self {
            MeasurementMode::Without => "without VIP",
            MeasurementMode::With => "with VIP",
            MeasurementMode::Leaving => "while an object leaves",
        }
    }
}

/// One turn of one mode.
#[derive(Clone, Debug)]
struct MeasurementRound {
    way: MeasurementMode,
    pings: Pings,
    /// The exchange of VIPs during the turn.
    exchange: Option<Exchange>,
    /// CPU time of the router over the elapsed time: 1 is one processor.
    cpu: f64,
}

/// Measures all modes in alternation, and prints their results.
///
/// # Errors
/// Returns the error that prevented the measurement.
pub fn run(options: &NdisePing) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    if !options.json {
        output::line(format_args!("machine: {}", Machine::read()));
        output::line(format_args!(
            "{} turns of {} s; {} neighbors, {} objects, slots of {} ms",
            options.turns, options.seconds, options.neighbours, options.objects, options.period_ms
        ));
        output::line(options.neighbours_share.note());
    }
    let mut turns = Vec::new();
    for number in 0..options.turns {
        let mut halves = [MeasurementMode::Without, MeasurementMode::With];
        if number % 2 == 1 {
            halves.reverse();
        }
        for way in halves {
            let router = Router::start(options, way != MeasurementMode::Without, &interrupt)?;
            let measured = measure(options, router, way, &interrupt)?;
            if options.json {
                measured.iter().for_each(|turn| output::line(line(number, turn)));
            }
            turns.extend(measured);
        }
    }
    if !options.json {
        output::line(format_args!("\n{}", table(&turns)));
        output::line(format_args!("machine at the end: {}", Machine::read()));
    }
    Ok(())
}

fn measure(
    options: &NdisePing,
    mut router: Router,
    way: MeasurementMode,
    interrupt: &Interrupt,
) -> Result<Vec<MeasurementRound>, Error> {
    let mut trips = Trips::start(&router.uri, &load::prefix())?;
    let mut timed = |router: &mut Router, way, length| {
        let before = (router.exchange()?, router.cpu_time());
        let pings = trips.ping(length, interrupt)?;
        let after = (router.exchange()?, router.cpu_time());
        let exchange = after.0.zip(before.0).map(|(after, before)| after.since(&before, length));
        let cpu = (after.1 - before.1).as_secs_f64() / length.as_secs_f64();
        Ok::<_, Error>(MeasurementRound { way, pings, exchange, cpu })
    };
    let mut turns = vec![timed(&mut router, way, Duration::from_secs(options.seconds))?];
    if way == MeasurementMode::With && options.packets > 0 {
        router.fill(options.packets, interrupt)?;
        router.displace(options.packets, interrupt)?;
        let leaves = Duration::from_millis((options.packets / LEAVING_PER_MS).max(1));
        router.begin_leaving()?;
        turns.push(timed(&mut router, MeasurementMode::Leaving, leaves)?);
        router.expect_left(interrupt)?;
    }
    Ok(turns)
}

fn line(number: u32, turn: &MeasurementRound) -> serde_json::Value {
    let MeasurementRound { way, pings, exchange, cpu } = turn;
    let of = |us: &[f64]| {
        json!({
            "count": us.len(), "p50_us": percentile(us, 50.0), "p99_us": percentile(us, 99.0),
            "max_us": percentile(us, 100.0), "from_1_ms_on": from_1_ms_on(us),
        })
    };
    json!({
        "turn": number, "way": way.label(), "pings": of(&pings.through_us), "lookups": of(&pings.store_us),
        "lost": pings.lost, "cpu": cpu,
        "slots_per_s": exchange.map(|of| of.slots), "counts_heard_per_s": exchange.map(|of| of.counts_heard),
        "counts_told_per_s": exchange.map(|of| of.counts_told),
        "offers_heard_per_s": exchange.map(|of| of.offers_heard),
        "objects_with_counts": exchange.map(|of| of.objects),
    })
}

fn from_1_ms_on(us: &[f64]) -> usize {
    us.iter().filter(|us| **us >= 1000.0).count()
}

fn table(turns: &[MeasurementRound]) -> String {
    let heads = [
        "us",
        "pings",
        "p50",
        "p99",
        "p99 of turns",
        "least",
        "most",
        "of without",
        "lookups",
        "p99",
        "1 ms",
        "CPU %",
        "heard/s",
    ];
    let mut table = Table::new(&heads);
    let mut without = 0.0;
    for way in [MeasurementMode::Without, MeasurementMode::With, MeasurementMode::Leaving] {
        let of: Vec<&MeasurementRound> = turns.iter().filter(|turn| turn.way == way).collect();
        let all = |list: fn(&Pings) -> &Vec<f64>| {
            of.iter().flat_map(|turn| list(&turn.pings).iter().copied()).collect::<Vec<f64>>()
        };
        let (through, store) = (all(|pings| &pings.through_us), all(|pings| &pings.store_us));
        let p99s: Vec<f64> = of.iter().filter_map(|turn| percentile(&turn.pings.through_us, 99.0)).collect();
        let (Some(p99), Some(of_turns)) = (percentile(&through, 99.0), summarise(&p99s)) else { continue };
        if way == MeasurementMode::Without {
            without = p99;
        }
        let figure = |value: Option<f64>, digits: usize| {
            value.map_or(String::new(), |value| format!("{value:.digits$}"))
        };
        let mean = |of_turn: &dyn Fn(&MeasurementRound) -> Option<f64>| {
            let values: Vec<f64> = of.iter().filter_map(|turn| of_turn(turn)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        table.row([
            way.label().to_owned(),
            through.len().to_string(),
            figure(percentile(&through, 50.0), 0),
            format!("{p99:.0}"),
            format!("{:.0}", of_turns.median),
            format!("{:.0}", of_turns.min),
            format!("{:.0}", of_turns.max),
            format!("{:.3}", p99 / without),
            store.len().to_string(),
            figure(percentile(&store, 99.0), 0),
            from_1_ms_on(&store).to_string(),
            figure(mean(&|turn| Some(turn.cpu * 100.0)), 1),
            figure(mean(&|turn| turn.exchange.map(|of| of.counts_heard)), 0),
        ]);
    }
    table.text()
}
