//! Costs of packets in this machine's tables, from the lines of `namely-bench tables --json`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use namely_sim::queueing::Rates;
use serde_json::Value;

use crate::failure::{Failure, io_failure};

/// Maximum number of octets that are read from a file. A line has a few hundred.
const FILE_OCTETS_MAX: u64 = 4 << 20;

/// Costs in nanoseconds in the core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// Cost of an Interest that the content store answers.
    hit_ns: f64,
    /// Cost of the lookup of an Interest that the content store does not answer.
    miss_ns: f64,
    /// Cost of a forwarded Interest and its Data in total.
    exchange_ns: f64,
    /// The same without a content store.
    without_cs_ns: f64,
}

/// Scenario and metric of each cost.
const WANTED: [(&str, &str); 4] = [
    ("cs-hit-1M", "ns_per_lookup"),
    ("cs-miss-1M", "ns_per_lookup"),
    ("core-4c-1k", "ns_per_exchange"),
    ("pit-1k", "ns_per_exchange"),
];

impl Costs {
    /// Reads `path`.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|e| io_failure("open", path, e))?;
        let mut medians = [None; WANTED.len()];
        for line in BufReader::new(file.take(FILE_OCTETS_MAX)).lines() {
            let line = line.map_err(|e| io_failure("read", path, e))?;
            let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
            let is = |(scenario, metric): &(&str, &str)| {
                value["scenario"] == *scenario && value["metric"] == *metric
            };
            if let Some(index) = WANTED.iter().position(is) {
                medians[index] = value["median"].as_f64().filter(|ns| ns.is_finite() && *ns > 0.0);
            }
        }
        let scenarios = WANTED.map(|(scenario, _)| scenario).join(",");
        let hint =
            format!("make it with namely-bench tables --json --scenario {scenarios} > {}", path.display());
        let [Some(hit_ns), Some(miss_ns), Some(exchange_ns), Some(without_cs_ns)] = medians else {
            let missing = WANTED.iter().zip(medians).find(|(_, median)| median.is_none());
            let missing = missing.map_or("", |((scenario, _), _)| *scenario);
            return Err(Failure::failed(format!("{} has no {missing}", path.display())).hint(hint));
        };
        let costs = Costs { hit_ns, miss_ns, exchange_ns, without_cs_ns };
        if exchange_ns <= without_cs_ns + miss_ns {
            let why =
                "an exchange with a content store takes no longer than without: the machine was not quiet";
            return Err(Failure::failed(format!("{}: {why}", path.display())).hint(hint));
        }
        Ok(costs)
    }

    /// Returns the rates of the stages if the content store answers the share `cs_hit` of
    /// Interests. PIT and FIB are measured together, for Interest and Data, so their sum is the
    /// cost of the PIT's lookup here.
    pub(super) fn rates(&self, cs_hit: f64) -> Rates {
        let Costs { hit_ns, miss_ns, exchange_ns, without_cs_ns } = *self;
        Rates {
            cs_lookup: 1e9 / (cs_hit * hit_ns + (1.0 - cs_hit) * miss_ns),
            cs_insert: 1e9 / (exchange_ns - without_cs_ns - miss_ns),
            pit_lookup: 1e9 / without_cs_ns,
            ..Rates::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn line(scenario: &str, metric: &str, median: f64) -> String {
        format!(r#"{{"scenario":"{scenario}","subject":"namely","metric":"{metric}","median":{median}}}"#)
    }

    fn read(lines: &[String]) -> Result<Costs, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tables.jsonl");
        fs::write(&path, lines.join("\n")).unwrap();
        Costs::read(&path)
    }

    #[test]
    fn rates_derive_from_measured_costs() {
        let lines = [
            line("cs-hit-1M", "ns_per_lookup", 100.0),
            line("cs-hit-1M", "bytes_per_entry", 200.0),
            line("cs-miss-1M", "ns_per_lookup", 50.0),
            line("core-4c-1k", "ns_per_exchange", 500.0),
            line("pit-1k", "ns_per_exchange", 400.0),
        ];
        let rates = read(&lines).unwrap().rates(0.5);
        assert_eq!(
            (rates.cs_lookup, rates.cs_insert, rates.pit_lookup),
            (1e9 / 75.0, 1e9 / 50.0, 1e9 / 400.0)
        );
        assert_eq!(rates.fib_lookup, f64::INFINITY);
        let failure = read(&lines[..4]).unwrap_err();
        assert!(failure.message.contains("pit-1k"), "{failure}");
        assert!(failure.hint.is_some_and(|hint| hint.contains("namely-bench tables --json")));
    }

    #[test]
    fn invalid_bench_output_is_refused() {
        assert!(read(&["not JSON".into(), "7".into()]).is_err());
        let costs = |exchange| {
            read(&[
                line("cs-hit-1M", "ns_per_lookup", 100.0),
                line("cs-miss-1M", "ns_per_lookup", 50.0),
                line("core-4c-1k", "ns_per_exchange", exchange),
                line("pit-1k", "ns_per_exchange", 400.0),
            ])
        };
        assert!(costs(450.1).is_ok());
        assert!(costs(450.0).unwrap_err().message.contains("not quiet"));
        assert!(costs(-1.0).is_err());
    }
}
