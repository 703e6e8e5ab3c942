//! `ndise-routers`: the experiments of N-DISE (ICN 2022, section 5; rows VI-23 to VI-29) with real
//! routers in network namespaces, links that are emulated, and the exchange between neighbors
//! signed. The simulator has the networks of section 5.2 at full length (`ndise`).

mod ends;
mod faults;
mod line;
mod names;
mod network;
mod relay;
mod throughput;

use std::time::Duration;

use clap::{Args, ValueEnum};
use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_sim::ndise::{Arm, DiskPolicy, NdiseTopology, OBJECTS};
use namely_sim::table::Table;
use namely_testbed::{Interrupt, sandbox};
use serde_json::json;

use faults::Faults;
use names::{NAMES_MAX, Names};
pub(crate) use network::key;
use network::{Outcome, Setting};
use throughput::Throughput;

/// One of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// Two forwarders in a line
    Service,
    /// The same with 2 Gbit/s to the server
    Narrow,
    /// Two ways to the server
    Multipath,
    /// Two forwarders in a line, each with a disk below its memory
    Tiers,
    /// Pings and a fetch below the names of a catalogue, and a new catalogue meanwhile
    Names,
    /// 6, 9 and 12 consumers over one link, beside plain relays
    Throughput,
    /// A router that is killed, and a link that goes down, under load
    Faults,
}

/// Options of `ndise-routers`.
#[derive(Args, Debug)]
pub struct NdiseRouters {
    /// Which of the experiments
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "service,narrow,multipath,tiers,names,throughput,faults"
    )]
    pub experiment: Vec<Experiment>,
    /// Ways of caching and forwarding, as the table calls them; all by default
    #[arg(long)]
    pub arm: Vec<String>,
    /// Runs of each, which alternate; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=30))]
    pub runs: u64,
    /// Duration of a run, of which the last third is measured (of names and faults all), s
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(3..=5400))]
    pub seconds: u64,
    /// Consumers of the throughput test
    #[arg(long, value_delimiter = ',', default_value = "6,9,12", value_parser = consumers)]
    pub consumers: Vec<usize>,
    /// Names of the catalogues; 0: a router without VIP
    #[arg(long, value_delimiter = ',', default_value = "0,6000,60000,1000000", value_parser = names)]
    pub names: Vec<usize>,
    /// Rate of the links in the last two experiments, Mbit/s
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=10_000))]
    pub rate_mbps: u64,
    /// A line of JSON for each run instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Parses a number of consumers. Each consumer reads an object of its own.
fn consumers(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=OBJECTS).contains(n));
    number.ok_or_else(|| format!("1 to {OBJECTS} consumers"))
}

fn names(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| *n == 0 || (2..=NAMES_MAX).contains(n));
    number.ok_or_else(|| format!("0, or 2 to {NAMES_MAX} names"))
}

/// Runs `ndise-routers` in a sandbox.
///
/// # Errors
/// Returns the error that prevented the run.
pub fn run(options: &NdiseRouters) -> Result<(), Error> {
    let refused = |e: namely_testbed::TestbedError| Error::Subject(e.to_string());
    let interrupt = match sandbox::enter().map_err(refused)? {
        sandbox::SandboxSide::Inside(interrupt) => interrupt,
        sandbox::SandboxSide::Done(0) => return Ok(()),
        sandbox::SandboxSide::Done(status) => std::process::exit(i32::from(status)),
    };
    if !options.json {
        output::line(format_args!("machine: {}", Machine::read()));
        output::line(format_args!(
            "{} runs of {} s of each way, alternating; medians",
            options.runs, options.seconds
        ));
    }
    let (third, has_lines) = (Duration::from_secs(options.seconds) / 3, options.json);
    let (rate_bps, runs) = (options.rate_mbps * 1_000_000, options.runs);
    for experiment in &options.experiment {
        let topology = match experiment {
            Experiment::Service => NdiseTopology::Service,
            Experiment::Narrow => NdiseTopology::Narrow,
            Experiment::Multipath => NdiseTopology::Multipath,
            Experiment::Tiers => NdiseTopology::Tiers,
            Experiment::Names => {
                Names { names: &options.names, runs, third, has_lines }.run(&interrupt)?;
                continue;
            }
            Experiment::Throughput => {
                let (warm, counted) = (third * 2, third);
                let (ways, consumers) = (&options.arm, &options.consumers);
                let all = Throughput { ways, consumers, rate_bps, runs, warm, counted, has_lines };
                all.run(&interrupt)?;
                continue;
            }
            Experiment::Faults => {
                Faults { rate_bps, runs, third, has_lines }.run(&interrupt)?;
                continue;
            }
        };
        run_topology(options, topology, third, &interrupt)?;
    }
    Ok(())
}

/// Runs all ways of a network.
fn run_topology(
    options: &NdiseRouters,
    topology: NdiseTopology,
    third: Duration,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let wanted = |arm: &Arm| options.arm.is_empty() || options.arm.contains(&arm.label());
    let mut rows: Vec<(Arm, Vec<Outcome>)> =
        topology.arms().into_iter().filter(wanted).map(|arm| (arm, Vec::new())).collect();
    if rows.is_empty() {
        let known: Vec<String> = topology.arms().into_iter().map(Arm::label).collect();
        return Err(Error::Usage(format!("{} has these ways: {}", topology.label(), known.join("; "))));
    }
    for seed in 1..=options.runs {
        for (arm, outcomes) in &mut rows {
            let setting = Setting { topology, arm: *arm, seed, warm: third * 2, counted: third };
            let outcome = network::run(&setting, interrupt)?;
            if options.json {
                output::line(line(&setting, &outcome));
            }
            outcomes.push(outcome);
        }
    }
    if !options.json {
        output::line(format_args!("\n{}", table(topology, &rows)));
    }
    Ok(())
}

fn line(setting: &Setting, outcome: &Outcome) -> serde_json::Value {
    let names = setting.topology.consumers();
    let got = names.iter().zip(outcome.got).map(|((name, _), got)| {
        json!({
            "consumer": name, "bps": got.bps, "delay_ms": got.delay_ms, "objects": got.objects,
            "retransmissions": got.retransmissions,
        })
    });
    let disk = |(room, octets_per_s): &(u64, u64)| json!({ "room": room, "octets_per_s": octets_per_s });
    let disks: Vec<_> = outcome.disks.iter().map(disk).collect();
    json!({
        "place": setting.topology.label(), "arm": setting.arm.label(), "seed": setting.seed,
        "measured_s": setting.counted.as_secs_f64(), "consumers": got.collect::<Vec<_>>(),
        "hit_ratio": outcome.hits, "disk_hit_ratio": outcome.disk_hits,
        "disk_written_objects": outcome.disk_written, "stored_objects": outcome.stored, "held": outcome.held,
        "held_on_disk": outcome.on_disk, "disks": disks, "cpu_s": outcome.cpu_s,
    })
}

fn table(topology: NdiseTopology, rows: &[(Arm, Vec<Outcome>)]) -> String {
    let [(one, _), (other, _)] = topology.consumers();
    let heads = [
        topology.label().to_owned(),
        format!("{one} Mbit/s"),
        "ms".into(),
        format!("{other} Mbit/s"),
        "ms".into(),
    ];
    let of_disks = ["of disks %", "written", "in memory", "on disk"];
    let of_disks = if topology == NdiseTopology::Tiers { &of_disks[..] } else { &[] };
    let heads: Vec<&str> =
        heads.iter().map(String::as_str).chain(["hits %", "CPU s"]).chain(of_disks.iter().copied()).collect();
    let mut table = Table::new(&heads);
    let mut kept = String::new();
    for (arm, outcomes) in rows {
        let median = |of: &dyn Fn(&Outcome) -> f64, digits: usize| {
            let mut values: Vec<f64> = outcomes.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).map_or(String::new(), |value| format!("{value:.digits$}"))
        };
        let row = [
            arm.label(),
            median(&|of| of.got[0].bps / 1e6, 2),
            median(&|of| of.got[0].delay_ms, 1),
            median(&|of| of.got[1].bps / 1e6, 2),
            median(&|of| of.got[1].delay_ms, 1),
            median(&|of| of.hits * 100.0, 1),
            median(&|of| of.cpu_s, 1),
        ];
        if topology == NdiseTopology::Tiers {
            let [label, a, b, c, d, hits, cpu] = row;
            let [disk_hits, written, memory, disk] = [
                median(&|of| of.disk_hits * 100.0, 1),
                median(&|of| of.disk_written, 1),
                median(&|of| of.stored[0], 1),
                median(&|of| of.stored[1], 1),
            ];
            table.row([label, a, b, c, d, hits, cpu, disk_hits, written, memory, disk]);
        } else {
            table.row(row);
        }
        let has_disk = !matches!(arm.below, DiskPolicy::Nothing);
        for (outcome, run) in outcomes.iter().zip(1..) {
            let tiers = [(&outcome.held, ""), (&outcome.on_disk, " on disk")];
            for (held, on) in tiers.into_iter().take(1 + usize::from(has_disk)) {
                for (held, which) in held.iter().zip(["first", "second"]) {
                    let Some((ranks, looks)) = held.first() else { continue };
                    let of: usize = held.iter().map(|(_, looks)| looks).sum();
                    let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
                    let (way, ranks) = (arm.label(), ranks.join(" "));
                    kept +=
                        &format!("{way}, run {run}: {which} keeps{on} {ranks} at {looks} of {of} looks\n");
                }
            }
        }
    }
    table.text() + &kept
}
