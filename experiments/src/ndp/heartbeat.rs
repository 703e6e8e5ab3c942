//! `ndp heartbeat`: the grid at rest and under load with different intervals between hellos. It
//! measures the multicast packets over a time, and the time until a router that starts again has
//! its neighbors.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_testbed::file::EventAction;
use namely_testbed::{Interrupt, Lab};
use serde_json::json;

use super::arm::{Arm, GROUP, check, error, folder, testbed};
use super::results::{Point, hellos};
use super::{grid, plot};
use crate::statistics;

/// Options of `ndp heartbeat`.
#[derive(Debug, Args)]
pub struct Heartbeat {
    /// Times between hellos, ms
    #[arg(long, value_delimiter = ',', default_value = "500,1000,2000,3000,5000,10000", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub heartbeats_ms: Vec<u64>,
    /// Number of runs that count multicast packets and then start the router again
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Time for which multicast packets are counted in each run, seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Also draw it into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Maximum time in which neighbors are found.
const FOUND_LIMIT: Duration = Duration::from_secs(60);

/// The router in the middle, and how many neighbors it has.
const MIDDLE: (&str, usize) = ("r5", 4);

pub(super) fn run(options: &Heartbeat, interrupt: &Interrupt) -> Result<(), Error> {
    let mut points = Vec::new();
    for &heartbeat_ms in &options.heartbeats_ms {
        let point = measure(heartbeat_ms, options, interrupt)?;
        if options.json {
            output::line(json!({
                "heartbeat_ms": heartbeat_ms, "runs": options.runs, "heard_per_min": point.heard_per_min.0,
                "heard_per_min_half": point.heard_per_min.1, "set_up_ms": point.set_up_ms.0,
                "set_up_ms_half": point.set_up_ms.1,
            }));
        }
        points.push(point);
    }
    if let Some(path) = &options.plot {
        plot::heartbeat(path, &points)?;
    }
    if !options.json {
        output::line(format_args!("machine: {}", Machine::read()));
        output::line(format_args!(
            "17 nodes at rest, {} s; set-up: of a router that was killed and started again; {} runs, mean±95 % confidence\n",
            options.seconds, options.runs
        ));
        output::line("T_h, ms  multicast Interests heard by a node a minute    set-up, ms");
        for Point { heartbeat_ms, heard_per_min, set_up_ms } in &points {
            let [received, set_up] =
                [heard_per_min, set_up_ms].map(|(mean, half)| statistics::text(*mean, *half));
            output::line(format_args!("{heartbeat_ms:>7}  {received:>44}  {set_up:>12}"));
        }
    }
    Ok(())
}

fn measure(heartbeat_ms: u64, options: &Heartbeat, interrupt: &Interrupt) -> Result<Point, Error> {
    let folder = folder()?;
    let file = grid::topology(Arm::Discovery { heartbeat_ms });
    let mut lab = Lab::build(testbed(&file)?, folder.path(), interrupt).map_err(error)?;
    found(&lab, interrupt)?;
    let nodes = lab.testbed().nodes.len() as f64;
    let (mut heard_per_min, mut set_up_ms) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        let (before, began) = (received(&lab)?, Instant::now());
        interrupt.sleep(Duration::from_secs(options.seconds))?;
        let of_node = (received(&lab)? - before) as f64 / nodes;
        heard_per_min.push(of_node / began.elapsed().as_secs_f64() * 60.0);
    }
    for _ in 0..options.runs {
        lab.perform(EventAction::Kill(MIDDLE.0)).map_err(error)?;
        let started = Instant::now();
        lab.perform(EventAction::Start(MIDDLE.0)).map_err(error)?;
        found(&lab, interrupt)?;
        set_up_ms.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    let [heard_per_min, set_up_ms] = [heard_per_min, set_up_ms].map(|samples| statistics::mean(&samples));
    Ok(Point { heartbeat_ms, heard_per_min, set_up_ms })
}

/// Waits until the router in the middle has confirmed each neighbor. For that, the neighbor must
/// accept the router as its neighbor too.
fn found(lab: &Lab, interrupt: &Interrupt) -> Result<(), Error> {
    let deadline = Instant::now() + FOUND_LIMIT;
    let (middle, neighbours) = MIDDLE;
    loop {
        check(interrupt)?;
        // The router may not listen yet.
        let known = lab.dataset(middle, &["neighbors"]).unwrap_or_default();
        if known.iter().filter(|entry| entry["state"] == "neighbour").count() >= neighbours {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::TimedOut {
                what: format!("{middle} has not found its neighbors"),
                after: FOUND_LIMIT,
            });
        }
    }
}

/// Interests that all nodes have received on faces to the group, and hellos, which no face counts.
fn received(lab: &Lab) -> Result<u64, Error> {
    let mut sum = 0;
    for node in &lab.testbed().nodes {
        let node = node.name.get_ref();
        for face in lab.dataset(node, &["face", "list"]).map_err(error)? {
            if face["remote"].as_str().is_some_and(|remote| remote.contains(GROUP)) {
                sum += face["in"]["interests"].as_u64().unwrap_or(0);
            }
        }
        sum += hellos(&lab.dataset(node, &["status", "--counters"]).map_err(error)?);
    }
    Ok(sum)
}
