//! `saturated`: the router's rate of misses and of hits in memory while its disk is idle and while
//! it is saturated. The same reader of the disk runs in both cases. The disk has its own speed in
//! one and is slowed in the other.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use namely_testbed::{Interrupt, Process, command};
use serde_json::{Value, json};

use crate::error::Error;
use crate::machine::Machine;
use crate::output;
use crate::probe;
use crate::programs::{Program, READY_LIMIT};
use crate::stats::{Summary, summarise};

/// Packets that fit into memory. The reader requests three times as many names.
const MEMORY_PACKETS: u32 = 2000;
const READER_NAMES: u32 = 6000;

/// Interests of the reader per second: more than the slowed disk serves.
const READER_RATE: u32 = 3000;

/// Number of names that are always in memory.
const HIT_NAMES: u32 = 500;

/// Time in which the reader requests all names twice.
const READER_WARM_S: u64 = 5;

/// Options of `saturated`.
#[derive(Debug, Args)]
pub struct Saturated {
    /// Number of runs, in which the disk is idle and saturated by turns
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub runs: u32,
    /// Duration of the measurement of misses, and of that of hits, seconds
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub seconds: u64,
    /// Requests a second of the slowed disk, as for `slow` of `[cs.disk]`
    #[arg(long, value_name = "RATE", default_value = "414/s")]
    pub slow: String,
    /// One JSON object in the place of text
    #[arg(long)]
    pub json: bool,
}

/// Exchanges per second, and the number of Interests that bypassed the disk.
#[derive(Clone, Copy, Debug)]
struct Figures {
    misses: f64,
    hits: f64,
    bypassed: f64,
}

/// Measures with `options` and prints the results.
pub fn run(options: &Saturated) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..options.runs.max(1) {
        for (of, slow) in figures.iter_mut().zip([None, Some(options.slow.as_str())]) {
            of.push(measure(options, slow, &interrupt)?);
        }
    }
    let [idle, saturated] = figures;
    let of = |runs: &[Figures], which: fn(&Figures) -> f64| {
        summarise(&runs.iter().map(which).collect::<Vec<_>>()).ok_or_else(|| Error::Usage("no runs".into()))
    };
    let bypassed = of(&saturated, |run| run.bypassed)?.median;
    let rows = [
        ("misses", of(&idle, |run| run.misses)?, of(&saturated, |run| run.misses)?),
        ("memory hits", of(&idle, |run| run.hits)?, of(&saturated, |run| run.hits)?),
    ];
    print(options, &rows, bypassed);
    Ok(())
}

fn print(options: &Saturated, rows: &[(&str, Summary, Summary)], bypassed: f64) {
    let machine = Machine::read().to_string();
    if options.json {
        let row = |(what, idle, saturated): &(&str, Summary, Summary)| {
            json!({
                "what": what, "idle_s": idle.median, "saturated_s": saturated.median,
                "ratio": saturated.median / idle.median, "runs": idle.runs,
            })
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        output::line(json!({"machine": machine, "slow": options.slow, "bypassed": bypassed, "rows": rows}));
        return;
    }
    let mut text =
        format!("{machine}\n{:14}{:>24}{:>24}{:>8}\n", "exchanges/s", "disk idle", "saturated", "ratio");
    for (what, idle, saturated) in rows {
        let cell = |of: &Summary| format!("{:.0} ({:.0} to {:.0})", of.median, of.min, of.max);
        let ratio = saturated.median / idle.median;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{what:14}{:>24}{:>24}{ratio:>8.3}", cell(idle), cell(saturated));
    }
    output::line(format_args!(
        "{text}{bypassed:.0} Interests passed by the disk of {} while it was saturated",
        options.slow
    ));
}

/// Runs a router with a disk, a reader of it, and the two loads one after the other.
fn measure(options: &Saturated, slow: Option<&str>, interrupt: &Interrupt) -> Result<Figures, Error> {
    let dir = tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))?;
    let dir = dir.path();
    let (namelyd, namely) = (find("namelyd")?, find("namely")?);
    let (file, socket) = (dir.join("namely.toml"), dir.join("r.sock"));
    let slow = slow.map_or_else(String::new, |slow| format!("slow = \"{slow}\"\n"));
    let config = format!(
        "[tables]\ncs_packets_max = {MEMORY_PACKETS}\n[cs.disk]\nfolder = \"{}\"\nadmission = \"all\"\n{slow}",
        dir.join("cs").display()
    );
    fs::write(&file, config).map_err(|e| Error::environment("cannot write the configuration", e))?;
    let uri = format!("unix://{}", socket.display());
    let mut router = command(namelyd.path(), dir);
    router.arg("--config").arg(&file).args(["--only", "--listen", &uri]);
    let _router = Process::start("namelyd", router, dir, None)?;
    probe::wait_for_socket(&socket, READY_LIMIT, interrupt)?;
    let perf = |words: &[&str]| {
        let mut command = command(namely.path(), dir);
        command.args(["--router", &uri, "--json"]).args(words);
        command
    };
    let _server = Process::start("server", perf(&["perf", "server", "--payload", "1000"]), dir, None)?;
    probe::wait_for_answer(&socket, "/perf/0/ready", READY_LIMIT, interrupt)?;
    let (names, rate) = (READER_NAMES.to_string(), READER_RATE.to_string());
    let reader = ["perf", "client", "--cached", &names, "--rate", &rate, "--duration", "100000"];
    let _reader = Process::start("reader", perf(&reader), dir, None)?;
    interrupt.sleep(Duration::from_secs(READER_WARM_S))?;
    let length = options.seconds.max(1).to_string();
    let load = ["perf", "client", "--window", "32", "--duration", &length];
    let misses = exchanges("misses", perf(&load), dir, options, interrupt)?;
    let cached = HIT_NAMES.to_string();
    let hits =
        exchanges("hits", perf(&[&load[..], &["--cached", &cached]].concat()), dir, options, interrupt)?;
    let info = output("info", perf(&["cs", "info"]), dir, READY_LIMIT, interrupt)?;
    let info: Value = serde_json::from_str(info.trim()).map_err(|e| Error::Subject(e.to_string()))?;
    let bypassed = info["disk"]["counters"]["bypassed_reads"].as_f64().unwrap_or(0.0);
    Ok(Figures { misses, hits, bypassed })
}

fn find(name: &'static str) -> Result<Program, Error> {
    let program = match name {
        "namelyd" => Program::find(&["namelyd"], "NAMELY_BIN_DIR", true),
        _ => Program::find(&["namely"], "NAMELY_BIN_DIR", true),
    };
    program.missing().map_or(Ok(program), |missing| Err(Error::Subject(missing)))
}

/// Returns the exchanges of a load per second.
fn exchanges(
    what: &str,
    load: Command,
    dir: &Path,
    options: &Saturated,
    interrupt: &Interrupt,
) -> Result<f64, Error> {
    let limit = Duration::from_secs(options.seconds) + READY_LIMIT;
    let printed = output(what, load, dir, limit, interrupt)?;
    let mut lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let summary = lines.find(|value| value["kind"] == "summary");
    let rate = summary.and_then(|summary| summary["exchanges_per_second"].as_f64());
    rate.ok_or_else(|| Error::Subject("namely perf printed no summary".to_owned()))
}

fn output(
    what: &str,
    command: Command,
    dir: &Path,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, Error> {
    let file = dir.join(format!("{what}.out"));
    Process::run(what, command, dir, Some(&file), limit, interrupt)?;
    fs::read_to_string(&file).map_err(|e| Error::environment(format!("cannot read the output of {what}"), e))
}
