//! `tables`: the forwarding core alone, without I/O: exchanges per second, time of a lookup, octets
//! of an entry.
//!
//! Each scenario runs in a process of its own, so that resident memory is that of its tables only.
//! Names are spread evenly over all routes: no lookup profits from an earlier one. Packets are
//! written into the buffers of a pool just before they are passed to the core, as a receiving
//! socket would, and outside the timed part.

mod case;
mod options;
mod packets;
mod report;
mod workload;

use std::time::Duration;

use crate::error::Error;
use crate::machine::Machine;
use crate::metric::Metric;
use crate::output;
use namely_testbed::Interrupt;
use namely_testbed::{Process, command};

pub use case::{BATCH, Case, Kind, TablesScenario};
pub use options::{Tables, TablesCase};
pub use packets::{DATA_CONTENT_OCTETS, Names, Ring, Template};
pub use workload::{Bench, Pace, Samples, Worker};

/// Maximum time of one scenario.
const CASE_LIMIT: Duration = Duration::from_secs(600);

/// Measures the scenarios of `options` and prints the results.
pub fn run(options: &Tables) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let dir = tempfile::tempdir().map_err(|e| Error::environment("cannot create a directory", e))?;
    let program = std::env::current_exe().map_err(|e| Error::environment("cannot find this program", e))?;
    let mut report = report::Report::new(options);
    report.head(&format!("machine: {}", Machine::read()));
    let sizes =
        if options.repeats.quick { ", --quick: sizes that show only that everything works" } else { "" };
    report.head(&format!("runs: {} of each scenario{sizes}", options.repeats.runs()));
    for scenario in options.scenarios() {
        let output = dir.path().join("samples");
        let mut command = command(&program, dir.path());
        command.args(["tables-case", scenario.name(), "--runs", &options.repeats.runs().to_string()]);
        if options.repeats.quick {
            command.arg("--quick");
        }
        Process::run(scenario.name(), command, dir.path(), Some(&output), CASE_LIMIT, &interrupt)?;
        let printed =
            std::fs::read_to_string(&output).map_err(|e| Error::environment("cannot read samples", e))?;
        report.add(scenario, &samples_in(&printed)?)?;
    }
    report.foot(&format!("machine at the end: {}", Machine::read()))
}

/// Runs one scenario in this process. Prints each metric with its samples.
pub fn run_case(options: &TablesCase) -> Result<(), Error> {
    let case = options.scenario.case(options.quick);
    for (metric, samples) in workload::measure(&case, options.runs)? {
        let samples: Vec<String> = samples.iter().map(f64::to_string).collect();
        output::line(format_args!("{} {}", metric.name(), samples.join(" ")));
    }
    Ok(())
}

fn samples_in(printed: &str) -> Result<Samples, Error> {
    let malformed = || Error::Subject(format!("samples cannot be read: {printed}"));
    let metrics = [
        Metric::Exchanges,
        Metric::NsPerExchange,
        Metric::NsPerLookup,
        Metric::NsPerInsert,
        Metric::BytesPerEntry,
    ];
    let line = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().ok_or_else(malformed)?;
        let metric = metrics.into_iter().find(|metric| metric.name() == name).ok_or_else(malformed)?;
        let samples: Result<Vec<f64>, _> = words.map(str::parse).collect();
        Ok((metric, samples.map_err(|_| malformed())?))
    };
    printed.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_samples_survive_printing() {
        let samples = samples_in("ns_per_lookup 1.5 2\nbytes_per_entry 160\n").expect("samples");
        assert_eq!(samples, [(Metric::NsPerLookup, vec![1.5, 2.0]), (Metric::BytesPerEntry, vec![160.0])]);
        assert!(samples_in("goodput 1").is_err());
    }
}
