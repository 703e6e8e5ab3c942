//! `istack`: the experiments of iStack (NSDI'24) on one machine: throughput against cores, with the
//! dispatcher sharing a core or having its own (IS-46), goodput against payload (IS-48), processor
//! and memory of fifteen consumers (IS-49). The headline comparison (IS-50) is `compare`'s.
//!
//! The load is `namely perf` over Unix sockets and UDP; the router is `namelyd` without content
//! store, as in the paper. Each row starts everything afresh; rows alternate within a round.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use clap::Args;
use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_bench::probe;
use namely_bench::programs::{Program, READY_LIMIT};
use namely_bench::stats::{self, Summary};
use namely_testbed::{Interrupt, Process, command};
use namely_wire::Name;

/// Options of `istack`.
#[derive(Debug, Args)]
pub struct Istack {
    /// Runs of each row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Length of each run, seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// One JSON object a line instead of tables
    #[arg(long)]
    pub json: bool,
}

/// The prefix of generated Data.
const PREFIX: &str = "/istack";

/// Payload of the paper's frames of 1500 octets, with name and headers.
const FRAME_PAYLOAD: u32 = 1300;

/// Consumers of IS-49.
const CONSUMERS: u32 = 15;

/// The runs of one row of the tables.
#[derive(Clone, Copy, Debug)]
struct Row {
    experiment: &'static str,
    what: &'static str,
    workers: u32,
    /// The dispatcher over the consumers' link, if there is one: true if it has a core of its own,
    /// false if it shares the workers' cores.
    dispatcher: Option<bool>,
    payload: u32,
    flows: u32,
    /// Whether each flow is an application of its own. All of them send to one producer's
    /// connection.
    has_processes: bool,
}

const fn row(experiment: &'static str, what: &'static str, workers: u32, dispatcher: Option<bool>) -> Row {
    Row { experiment, what, workers, dispatcher, payload: FRAME_PAYLOAD, flows: 4, has_processes: false }
}

const fn payload(payload: u32) -> Row {
    Row {
        experiment: "IS-48",
        what: "payload",
        workers: 0,
        dispatcher: None,
        payload,
        flows: 4,
        has_processes: false,
    }
}

const fn consumers(what: &'static str, flows: u32) -> Row {
    Row { experiment: "IS-49", what, workers: 0, dispatcher: None, payload: 8000, flows, has_processes: true }
}

const ROWS: [Row; 11] = [
    row("IS-46", "1 worker", 1, None),
    row("IS-46", "2 workers", 2, None),
    row("IS-46", "2 workers, dispatcher shares a core", 2, Some(false)),
    row("IS-46", "2 workers, dispatcher has its own", 2, Some(true)),
    payload(100),
    payload(1000),
    payload(2000),
    payload(4000),
    payload(8000),
    consumers("1 consumer", 1),
    consumers("15 consumers", CONSUMERS),
];

/// The measurements of one run.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Payload that consumers received.
    mbps: f64,
    /// Payload that consumers received, with the octets of its names.
    with_names_mbps: f64,
    /// All octets of the Data that producers sent to the router.
    router_mbps: f64,
    exchanges_per_second: f64,
    /// CPU time of the router over the elapsed time, in percent of one core.
    router_cpu_percent: f64,
    /// CPU time of the producer over the elapsed time, in percent of one core.
    producer_cpu_percent: f64,
    /// Growth of the router's resident memory under load, MiB.
    router_mib_more: f64,
    /// Growth of the consumers' resident memory, compared with consumers that have fetched nothing,
    /// MiB.
    consumers_mib: f64,
}

/// Runs the experiments and prints their tables.
pub fn run(options: &Istack) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let programs = Programs::find()?;
    let mut runs: Vec<Vec<Run>> = ROWS.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.runs {
        for (row, runs) in ROWS.iter().zip(&mut runs) {
            runs.push(programs.measure(row, Duration::from_secs(options.seconds), &interrupt)?);
        }
    }
    if options.json {
        for (row, runs) in ROWS.iter().zip(&runs) {
            output::line(object(row, runs));
        }
        return Ok(());
    }
    output::line(format_args!("machine: {}", Machine::read()));
    output::line(format_args!(
        "runs: {} of each row, alternating, {} s each; median (least-most)",
        options.runs, options.seconds
    ));
    let mut experiment = "";
    for (row, runs) in ROWS.iter().zip(&runs) {
        if row.experiment != experiment {
            experiment = row.experiment;
            output::line(format_args!("\n{experiment}\n{TITLES}"));
        }
        output::line(line(row, runs));
    }
    Ok(())
}

const TITLES: &str = "what                                 payload  flows  Mbit/s               with names           at the router        \
                      applications %   exchanges/s             router CPU %      producer CPU %    \
                      router MiB more  consumers MiB";

type Column = fn(&Run) -> f64;

const COLUMNS: [(&str, Column, usize); 9] = [
    ("goodput_mbps", |run| run.mbps, 19),
    ("goodput_with_names_mbps", |run| run.with_names_mbps, 19),
    ("router_mbps", |run| run.router_mbps, 19),
    ("application_percent", |run| run.mbps / run.router_mbps * 100.0, 15),
    ("exchanges_per_second", |run| run.exchanges_per_second, 22),
    ("router_cpu_percent", |run| run.router_cpu_percent, 16),
    ("producer_cpu_percent", |run| run.producer_cpu_percent, 16),
    ("router_mib_more", |run| run.router_mib_more, 15),
    ("consumers_mib", |run| run.consumers_mib, 13),
];

fn summary(runs: &[Run], column: Column) -> Option<Summary> {
    stats::summarise(&runs.iter().map(column).collect::<Vec<_>>())
}

fn line(row: &Row, runs: &[Run]) -> String {
    let mut text = format!("{:<35}  {:>7}  {:>5}", row.what, row.payload, row.flows);
    for (_, column, width) in COLUMNS {
        let cell = summary(runs, column)
            .map_or("-".to_owned(), |s| format!("{:.0} ({:.0}-{:.0})", s.median, s.min, s.max));
        text += &format!("  {cell:<width$}");
    }
    text.trim_end().to_owned()
}

fn object(row: &Row, runs: &[Run]) -> Value {
    let mut value = json!({
        "experiment": row.experiment, "what": row.what, "payload_octets": row.payload, "flows": row.flows, "runs": runs.len(),
    });
    for (key, column, _) in COLUMNS {
        if let Some(s) = summary(runs, column) {
            value[key] = json!({"median": s.median, "min": s.min, "max": s.max});
        }
    }
    value
}

struct Programs {
    router: Program,
    client: Program,
}

impl Programs {
    fn find() -> Result<Self, Error> {
        let programs = Programs {
            router: Program::find(&["namelyd"], "NAMELY_BIN_DIR", true),
            client: Program::find(&["namely"], "NAMELY_BIN_DIR", true),
        };
        match programs.router.missing().or_else(|| programs.client.missing()) {
            Some(missing) => Err(Error::Subject(missing)),
            None => Ok(programs),
        }
    }

    fn measure(&self, row: &Row, length: Duration, interrupt: &Interrupt) -> Result<Run, Error> {
        let dir = tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))?;
        let dir = dir.path();
        let socket = dir.join("namely.sock");
        let uri = format!("unix://{}", socket.display());
        let router = self.start_router(row, dir, &uri)?;
        probe::wait_for_socket(&socket, READY_LIMIT, interrupt)?;
        let (processes, flows) = if row.has_processes { (row.flows, 1) } else { (1, row.flows) };
        let mut command = self.perf(dir, &uri);
        command.args(["server", "--prefix", PREFIX, "--flows", &flows.to_string()]);
        command.args(["--payload", &row.payload.to_string()]);
        let server = Process::start("namely perf server", command, dir, None)?;
        probe::wait_for_answer(&socket, &format!("{PREFIX}/{}/ready", flows - 1), READY_LIMIT, interrupt)?;
        let mib_before = router.rss_mib();
        let cpu = || [router.cpu_time(), server.cpu_time()];
        let (cpu_before, started) = (cpu(), Instant::now());
        let clients = (0..processes)
            .map(|n| {
                let mut command = self.perf(dir, &uri);
                command.args(["client", "--json", "--prefix", PREFIX, "--flows", &flows.to_string()]);
                command.args(["--window", "64", "--duration", &length.as_secs().to_string()]);
                let output = dir.join(format!("load{n}"));
                Ok((Process::start("namely perf client", command, dir, Some(&output))?, output))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let mib = || clients.iter().filter_map(|(client, _)| client.rss_mib()).sum::<f64>();
        let early_mib = mib();
        interrupt.sleep(length.mul_f64(0.75))?;
        let (consumers_mib, mib_under_load) = (mib() - early_mib, router.rss_mib());
        let (mut exchanges, mut octets) = (0.0, 0.0);
        for (client, output) in clients {
            client.wait(length + READY_LIMIT, interrupt)?;
            let more = total(&fs::read_to_string(&output).unwrap_or_default())?;
            (exchanges, octets) = (exchanges + more.0, octets + more.1);
        }
        let seconds = started.elapsed().as_secs_f64();
        let router_octets = self.data_octets(dir, &uri, interrupt)?;
        let name_octets = name_octets(flows - 1) as f64;
        let [router_cpu_percent, producer_cpu_percent] =
            [0, 1].map(|n| cpu()[n].saturating_sub(cpu_before[n]).as_secs_f64() / seconds * 100.0);
        Ok(Run {
            mbps: octets * 8.0 / 1e6 / seconds,
            with_names_mbps: (octets + exchanges * name_octets) * 8.0 / 1e6 / seconds,
            router_mbps: router_octets * 8.0 / 1e6 / seconds,
            exchanges_per_second: exchanges / seconds,
            router_cpu_percent,
            producer_cpu_percent,
            router_mib_more: mib_under_load.unwrap_or(0.0) - mib_before.unwrap_or(0.0),
            consumers_mib,
        })
    }

    fn start_router(&self, row: &Row, dir: &Path, uri: &str) -> Result<Process, Error> {
        let mut text = format!("[faces]\nworkers = {}\nlisten = [\"{uri}\"]\n", row.workers);
        if let Some(own_core) = row.dispatcher {
            text +=
                &format!("[faces.dispatcher]\nlinks = [\"{uri}\"]\nby = \"random\"\nown_core = {own_core}\n");
        }
        let file = dir.join("namely.toml");
        fs::write(&file, text).map_err(|e| Error::environment("cannot write a configuration", e))?;
        let mut command = command(self.router.path(), dir);
        command.arg("--config").arg(&file).args(["--cs-packets-max", "0"]);
        Ok(Process::start("namelyd", command, dir, None)?)
    }

    /// Octets received from the faces of producers.
    fn data_octets(&self, dir: &Path, uri: &str, interrupt: &Interrupt) -> Result<f64, Error> {
        let mut command = command(self.client.path(), dir);
        command.args(["--router", uri, "--json", "face", "list"]);
        let output = dir.join("faces");
        Process::run("namely face list", command, dir, Some(&output), READY_LIMIT, interrupt)?;
        let printed = fs::read_to_string(&output).unwrap_or_default();
        let faces = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let giving = faces.filter(|face| face["in"]["data"].as_u64() > Some(0));
        let octets: f64 = giving.filter_map(|face| face["in"]["octets"].as_f64()).sum();
        let none = || Error::Subject(format!("namely face list printed no face that gives Data: {printed}"));
        (octets > 0.0).then_some(octets).ok_or_else(none)
    }

    fn perf(&self, dir: &Path, uri: &str) -> Command {
        let mut command = command(self.client.path(), dir);
        command.args(["--router", uri, "perf"]);
        command
    }
}

/// Octets of the name of a Data of a flow: `namely perf` numbers them by a component of 8 octets.
fn name_octets(flow: u32) -> usize {
    let base: Name = format!("{PREFIX}/{flow}").parse().unwrap_or_default();
    base.join_generic([0; 8]).as_name().encoded_octets()
}

/// Total exchanges and octets of payload of a client, from its output.
fn total(printed: &str) -> Result<(f64, f64), Error> {
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let total = lines.into_iter().find(|line| line["kind"] == "summary");
    let number = |key: &str| total.as_ref().and_then(|total| total[key].as_f64());
    number("exchanges")
        .zip(number("payload_octets"))
        .ok_or_else(|| Error::Subject(format!("namely perf printed no summary: {printed}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn istack_rows_are_medians() {
        let run = |mbps| Run {
            mbps,
            with_names_mbps: mbps,
            router_mbps: 2.0 * mbps,
            exchanges_per_second: 2.0 * mbps,
            router_cpu_percent: 50.0,
            producer_cpu_percent: 60.0,
            router_mib_more: 1.0,
            consumers_mib: 2.0,
        };
        let value = object(&ROWS[1], &[run(1.0), run(3.0), run(2.0)]);
        assert_eq!((value["goodput_mbps"]["median"].as_f64(), value["runs"].as_u64()), (Some(2.0), Some(3)));
        assert_eq!(value["exchanges_per_second"]["max"].as_f64(), Some(6.0));
        assert_eq!(value["application_percent"]["median"].as_f64(), Some(50.0));
        assert!(line(&ROWS[1], &[run(1.0)]).contains("1 (1-1)"));
    }
}
