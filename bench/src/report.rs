//! Results, as aligned tables and as JSON lines.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Error;
use crate::metric::Metric;
use crate::output;
use crate::scenario::{Kind, Scenario};
use crate::stats::{Summary, summarise};
use crate::subject::{Subject, SubjectName};

/// All samples, by scenario, subject and metric.
#[derive(Clone, Debug, Default)]
pub struct Results {
    samples: BTreeMap<(Scenario, &'static str, Metric), Vec<f64>>,
}

/// One line of JSON output.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) scenario: &'static str,
    pub(crate) subject: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) unit: &'static str,
    pub(crate) runs: usize,
}

impl Results {
    /// Adds the samples of one run.
    pub fn add(&mut self, scenario: Scenario, subject: &'static str, samples: &[(Metric, f64)]) {
        for (metric, value) in samples {
            self.samples.entry((scenario, subject, *metric)).or_default().push(*value);
        }
    }

    /// Returns the summary of all runs. A total has the same value as median, min and max.
    pub fn summary(&self, scenario: Scenario, subject: &'static str, metric: Metric) -> Option<Summary> {
        let samples = self.samples.get(&(scenario, subject, metric))?;
        if metric.is_total() {
            let total = samples.iter().sum();
            return Some(Summary { median: total, min: total, max: total, runs: samples.len() });
        }
        summarise(samples)
    }

    fn lines(&self, of: Scenario) -> impl Iterator<Item = Line> {
        let keys = self.samples.keys().filter(move |(scenario, ..)| *scenario == of);
        keys.filter_map(|&(scenario, subject, metric)| {
            let Summary { median, min, max, runs } = self.summary(scenario, subject, metric)?;
            let (scenario, metric, unit) = (scenario.name(), metric.name(), metric.unit());
            Some(Line { scenario, subject, metric, median, min, max, unit, runs })
        })
    }
}

/// Prints the results of `scenario` on standard output, one JSON object per line.
pub fn print_json(results: &Results, scenario: Scenario) -> Result<(), Error> {
    results.lines(scenario).try_for_each(|line| print(&line))
}

/// Prints one line of JSON on standard output.
pub(crate) fn print(line: &Line) -> Result<(), Error> {
    output::line(serde_json::to_string(line).map_err(cannot_print)?);
    Ok(())
}

/// Prints the results of `scenario` on standard output, as a table.
pub fn print_table(results: &Results, scenario: Scenario, subjects: &[&dyn Subject]) {
    let table = align(&table(results, scenario, subjects));
    let ratios: String = ratios(results, scenario, subjects).iter().map(|line| format!("\n{line}")).collect();
    output::line(format_args!("\n{}\n{table}{ratios}", scenario.name()));
}

fn cannot_print(error: serde_json::Error) -> Error {
    Error::environment("cannot print the results", error)
}

/// A column: its heading, its metric, digits after the point, and whether it shows the extremes
/// beside the median.
struct Column(&'static str, Metric, usize, bool);

fn columns(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::Transfer | Kind::Cached => &[
            Column("goodput Mbit/s", Metric::Goodput, 0, true),
            Column("exchanges/s", Metric::Exchanges, 0, false),
            Column("router CPU us/exchange", Metric::CpuPerExchange, 1, false),
            Column("CPU s/GiB: routers", Metric::CpuPerGibRouter, 2, false),
            Column("producer", Metric::CpuPerGibProducer, 2, false),
            Column("consumer", Metric::CpuPerGibConsumer, 2, false),
            Column("publish s", Metric::PublishTime, 2, false),
        ],
        Kind::Flows => &[
            Column("goodput Mbit/s", Metric::Goodput, 0, true),
            Column("exchanges/s", Metric::Exchanges, 0, false),
            Column("router CPU us/exchange", Metric::CpuPerExchange, 1, false),
            Column("fairness", Metric::Fairness, 3, true),
            Column("p50 us", Metric::P50, 0, false),
            Column("p99 us", Metric::P99, 0, false),
        ],
        Kind::Ping => &[Column("p50 us", Metric::P50, 1, true), Column("p99 us", Metric::P99, 1, true)],
        Kind::Memory => &[
            Column("idle MiB", Metric::RssIdle, 1, false),
            Column("after all objects MiB", Metric::Rss, 1, true),
        ],
        Kind::Idle => {
            &[Column("CPU %", Metric::CpuIdle, 3, true), Column("resident MiB", Metric::Rss, 1, false)]
        }
    }
}

fn table(results: &Results, scenario: Scenario, subjects: &[&dyn Subject]) -> Vec<Vec<String>> {
    let columns = columns(scenario.kind());
    let mut heading = vec!["subject".to_owned()];
    heading.extend(columns.iter().map(|column| column.0.to_owned()));
    heading.extend(["failed".to_owned(), "how".to_owned()]);
    let mut rows = vec![heading];
    for subject in subjects {
        let summary = |metric| results.summary(scenario, subject.name(), metric);
        let Some(failed) = summary(Metric::Failed) else { continue };
        let mut row = vec![subject.name().to_owned()];
        row.extend(columns.iter().map(|column| cell(column, summary(column.1))));
        row.push(format!("{} in {} runs", failed.median, failed.runs));
        row.push(subject.mode(scenario));
        rows.push(row);
    }
    rows
}

fn cell(column: &Column, summary: Option<Summary>) -> String {
    let Column(_, _, digits, has_extremes) = *column;
    match summary {
        None => "-".to_owned(),
        Some(Summary { median, min, max, runs }) if has_extremes && runs > 1 => {
            format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
        }
        Some(Summary { median, .. }) => format!("{median:.digits$}"),
    }
}

/// Returns the ratios of namely to the best mode of each peer.
fn ratios(results: &Results, scenario: Scenario, subjects: &[&dyn Subject]) -> Vec<String> {
    let (metric, more_is_better) = match scenario.kind() {
        Kind::Transfer | Kind::Cached | Kind::Flows => (Metric::Goodput, true),
        Kind::Ping => (Metric::P50, false),
        Kind::Memory => (Metric::Rss, false),
        Kind::Idle => return Vec::new(),
    };
    let median = |subject: &dyn Subject| results.summary(scenario, subject.name(), metric).map(|s| s.median);
    let of = |family: SubjectName| subjects.iter().filter(move |s| s.family() == family);
    // The first subject is namely's own client, which its users run.
    let Some(own) = of(SubjectName::Namely).next().and_then(|s| median(*s)) else { return Vec::new() };
    let peers = [SubjectName::Nfd, SubjectName::Ndnd, SubjectName::Relay];
    let best = |family| {
        let medians = of(family).filter_map(|s| Some((s.name(), median(*s)?)));
        medians.max_by(|a, b| if more_is_better { a.1.total_cmp(&b.1) } else { b.1.total_cmp(&a.1) })
    };
    let line = |(name, peer)| format!("namely: {:.2} times the {} of {name}", own / peer, metric.name());
    peers.into_iter().filter_map(best).map(line).collect()
}

/// Pads every column but the last to its widest cell.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|i| width(i).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_never_hides_a_failure() {
        let mut results = Results::default();
        for failed in [0.0, 0.0, 1.0, 0.0, 0.0] {
            results.add(Scenario::Unix8000, "x", &[(Metric::Failed, failed)]);
        }
        let summary = results.summary(Scenario::Unix8000, "x", Metric::Failed);
        assert_eq!(summary.map(|s| (s.median, s.runs)), Some((1.0, 5)));
    }

    #[test]
    fn a_json_line_has_fixed_fields() {
        let mut results = Results::default();
        for goodput in [900.0, 1000.0, 1200.0] {
            results.add(Scenario::Udp2Routers, "nfd", &[(Metric::Goodput, goodput)]);
        }
        let lines: Vec<_> =
            results.lines(Scenario::Udp2Routers).map(|l| serde_json::to_string(&l).expect("JSON")).collect();
        let expected = concat!(
            r#"{"scenario":"udp-2routers","subject":"nfd","metric":"goodput_mbps","#,
            r#""median":1000.0,"min":900.0,"max":1200.0,"unit":"Mbit/s","runs":3}"#
        );
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn columns_fit_their_widest_cell() {
        let rows = [["a", "bb", "c"], ["aaa", "b", "cc"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(align(&rows), "a    bb  c\naaa  b   cc");
    }

    #[test]
    fn only_several_runs_have_extremes() {
        let column = Column("x", Metric::Goodput, 1, true);
        let summary = |runs| Some(Summary { median: 2.0, min: 1.0, max: 3.0, runs });
        assert_eq!(cell(&column, summary(5)), "2.0 (1.0-3.0)");
        assert_eq!(cell(&column, summary(1)), "2.0");
        assert_eq!(cell(&column, None), "-");
    }
}
