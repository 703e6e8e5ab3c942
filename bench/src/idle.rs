//! Idle: many routers of one machine without traffic, each in the default configuration with a Unix
//! socket of its own. Measures memory, processor time and wake-ups of each.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use namely_testbed::procfs::{self, Memory};
use namely_testbed::{Interrupt, Process, command};
use serde_json::json;

use crate::error::Error;
use crate::files::directory;
use crate::machine::Machine;
use crate::output;
use crate::probe;
use crate::programs::{Program, READY_LIMIT};
use crate::report::align;
use crate::stats::{Summary, summarise};

/// Maximum private memory of an idle router, MiB.
const PRIVATE_MIB_MAX: f64 = 6.0;

/// Maximum processor time of an idle router, percent of one processor.
const CPU_PERCENT_MAX: f64 = 0.01;

/// Time from the last start to the accounting. A router returns the memory of its start one second
/// after that.
const SETTLE: Duration = Duration::from_secs(5);

/// Options of `idle`.
#[derive(Debug, Args)]
pub struct Idle {
    /// Number of routers
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub routers: u32,
    /// Time of accounting, minutes
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub minutes: f64,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

impl Idle {
    fn length(&self) -> Result<Duration, Error> {
        let length = Duration::try_from_secs_f64(self.minutes * 60.0).ok();
        let length = length.filter(|length| *length >= Duration::from_millis(1));
        length.ok_or_else(|| Error::Usage("the accounting lasts longer than nothing".to_owned()))
    }
}

/// The processor time and sleeps of a process since its start.
#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    cpu: Duration,
    sleeps: u64,
}

impl Activity {
    fn of(pid: u32) -> Self {
        let mut activity = Activity::default();
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
            let cpu_ns = read("schedstat").and_then(|text| procfs::thread_cpu_ns(&text));
            activity.cpu += Duration::from_nanos(cpu_ns.unwrap_or(0));
            activity.sleeps += read("status").and_then(|text| procfs::sleeps(&text)).unwrap_or(0);
        }
        activity
    }
}

/// The resources of one router during the accounting.
#[derive(Clone, Copy, Debug)]
struct Row {
    memory: Memory,
    cpu_percent: f64,
    wakes_per_minute: f64,
}

impl Row {
    fn private_mib(&self) -> f64 {
        mib(self.memory.private_kib)
    }

    fn exceeds(&self) -> bool {
        self.private_mib() > PRIVATE_MIB_MAX || self.cpu_percent > CPU_PERCENT_MAX
    }
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// Measures idle routers with `options`. An error counts the routers that exceed a limit.
pub fn run(options: &Idle) -> Result<(), Error> {
    let length = options.length()?;
    let program = Program::find(&["namelyd"], "NAMELY_BIN_DIR", true);
    if let Some(missing) = program.missing() {
        return Err(Error::Usage(missing));
    }
    let interrupt = Interrupt::on_signals()?;
    output::say(format_args!("machine: {}", Machine::read()));
    let dir = directory("namely-idle-", None)?;
    let mut routers = Vec::new();
    for number in 0..options.routers {
        routers.push(start(program.path(), &dir.path().join(number.to_string()), &interrupt)?);
    }
    output::say(format_args!("{} routers are ready", routers.len()));
    interrupt.sleep(SETTLE)?;
    let rows = account(&routers, length, &interrupt);
    // All at once: each takes a moment to end.
    routers.iter_mut().for_each(Process::terminate);
    let rows = rows?;
    output::say(format_args!("machine: {}", Machine::read()));
    print(options, &rows);
    let exceeding = rows.iter().filter(|row| row.exceeds()).count();
    match exceeding {
        0 => Ok(()),
        _ => Err(Error::Subject(format!("{exceeding} of {} routers exceed a limit", rows.len()))),
    }
}

/// Starts a router in a folder of its own. Returns when it accepts connections.
fn start(program: &Path, dir: &Path, interrupt: &Interrupt) -> Result<Process, Error> {
    fs::create_dir(dir).map_err(|e| Error::environment(format!("cannot create {}", dir.display()), e))?;
    let socket = dir.join("x.sock");
    let mut command = command(program, dir);
    command.args(["--no-config", "--listen", &format!("unix://{}", socket.display())]);
    let mut router = Process::start("namelyd", command, dir, None)?;
    probe::wait_for_socket(&socket, READY_LIMIT, interrupt)
        .map_err(|e| router.expect_running().err().map_or(e, Error::from))?;
    Ok(router)
}

fn account(routers: &[Process], length: Duration, interrupt: &Interrupt) -> Result<Vec<Row>, Error> {
    let before: Vec<(Instant, Activity)> =
        routers.iter().map(|router| (Instant::now(), Activity::of(router.id()))).collect();
    interrupt.sleep(length)?;
    let row = |(router, (then, before)): (&Process, (Instant, Activity))| {
        let (seconds, now) = (then.elapsed().as_secs_f64(), Activity::of(router.id()));
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", router.id())).unwrap_or_default();
        let ended = || Error::Subject(format!("a router has ended, see {}", router.log().display()));
        Ok(Row {
            memory: Memory::parse(&rollup).ok_or_else(ended)?,
            cpu_percent: now.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds * 100.0,
            wakes_per_minute: now.sleeps.saturating_sub(before.sleeps) as f64 / seconds * 60.0,
        })
    };
    routers.iter().zip(before).map(row).collect()
}

/// The measured quantities: name, unit, and summary over all routers.
fn summaries(rows: &[Row]) -> Vec<(&'static str, &'static str, Summary)> {
    let of = |value: fn(&Row) -> f64| summarise(&rows.iter().map(value).collect::<Vec<_>>());
    let quantities = [
        ("private", "MiB", of(Row::private_mib)),
        ("proportional", "MiB", of(|row| mib(row.memory.proportional_kib))),
        ("resident", "MiB", of(|row| mib(row.memory.resident_kib))),
        ("processor", "%", of(|row| row.cpu_percent)),
        ("wake-ups", "/min", of(|row| row.wakes_per_minute)),
    ];
    quantities.into_iter().filter_map(|(name, unit, of)| Some((name, unit, of?))).collect()
}

fn print(options: &Idle, rows: &[Row]) {
    let summaries = summaries(rows);
    if options.json {
        let quantities: serde_json::Map<_, _> = summaries
            .into_iter()
            .map(|(name, unit, Summary { median, min, max, .. })| {
                (name.to_owned(), json!({ "unit": unit, "median": median, "min": min, "max": max }))
            })
            .collect();
        output::line(json!({ "routers": rows.len(), "minutes": options.minutes, "quantities": quantities }));
        return;
    }
    let head = ["a router", "unit", "median", "min", "max"].map(str::to_owned).to_vec();
    let lines = summaries.into_iter().map(|(name, unit, Summary { median, min, max, .. })| {
        let numbers = [median, min, max].map(|value| format!("{value:.4}"));
        [vec![name.to_owned(), unit.to_owned()], numbers.to_vec()].concat()
    });
    output::line(align(&std::iter::once(head).chain(lines).collect::<Vec<_>>()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(private_kib: u64, cpu_percent: f64) -> Row {
        let memory = Memory { resident_kib: 9000, proportional_kib: 7000, private_kib };
        Row { memory, cpu_percent, wakes_per_minute: 2.0 }
    }

    #[test]
    fn an_idle_router_is_within_both_limits() {
        assert!(!row(6144, 0.01).exceeds());
        assert!(row(6145, 0.01).exceeds());
        assert!(row(6144, 0.0101).exceeds());
    }

    #[test]
    fn each_quantity_has_the_largest_router() {
        let rows = [row(4096, 0.001), row(5120, 0.003)];
        let largest: Vec<f64> = summaries(&rows).into_iter().map(|(_, _, of)| of.max).collect();
        assert_eq!(largest, [5.0, mib(7000), mib(9000), 0.003, 2.0]);
    }

    #[test]
    fn activity_counts_this_process() {
        let activity = Activity::of(std::process::id());
        assert!(activity.cpu > Duration::ZERO);
    }
}
