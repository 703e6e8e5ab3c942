//! The results of `tables`, as one aligned table or as JSON lines.

use super::case::{Case, Kind, TablesScenario};
use super::options::Tables;
use super::workload::Samples;
use crate::error::Error;
use crate::metric::Metric;
use crate::output;
use crate::report::{Line, align, print};
use crate::stats::{Summary, summarise};

/// The results so far.
pub(super) struct Report<'a> {
    options: &'a Tables,
    rows: Vec<Vec<String>>,
    rates: Vec<(TablesScenario, f64)>,
}

/// Columns: heading and metric.
const COLUMNS: [(&str, Metric); 5] = [
    ("exchanges/s", Metric::Exchanges),
    ("ns/exchange", Metric::NsPerExchange),
    ("ns/lookup", Metric::NsPerLookup),
    ("ns/insert", Metric::NsPerInsert),
    ("octets/entry", Metric::BytesPerEntry),
];

/// A ratio that has a target: its label, its scenario, and the scenario that divides it.
const RATIOS: [(&str, TablesScenario, TablesScenario); 2] = [
    ("10 million routes", TablesScenario::Core4c10M, TablesScenario::Core4c1M),
    ("2 workers", TablesScenario::Core2Workers, TablesScenario::Core4c1M),
];

impl<'a> Report<'a> {
    pub(super) fn new(options: &'a Tables) -> Self {
        let mut heading = vec!["scenario".to_owned()];
        heading.extend(COLUMNS.map(|(heading, _)| heading.to_owned()));
        heading.push("what".to_owned());
        Report { options, rows: vec![heading], rates: Vec::new() }
    }

    /// Prints the line above the results: on standard error if JSON lines are on standard output.
    pub(super) fn head(&self, line: &str) {
        self.options.repeats.say(line);
    }

    /// Adds a scenario. JSON lines are printed at once.
    pub(super) fn add(&mut self, scenario: TablesScenario, samples: &Samples) -> Result<(), Error> {
        let summary = |wanted: Metric| {
            let of_metric = samples.iter().find(|(metric, _)| *metric == wanted);
            of_metric.and_then(|(_, samples)| summarise(samples))
        };
        let mut progress = Vec::new();
        let mut row = vec![scenario.name().to_owned()];
        for (_, metric) in COLUMNS {
            let summary = summary(metric);
            row.push(summary.map_or("-".to_owned(), cell));
            let Some(Summary { median, min, max, runs }) = summary else { continue };
            progress.push(format!("{median:.0} {}", metric.name()));
            if self.options.repeats.json {
                let (scenario, metric, unit) = (scenario.name(), metric.name(), metric.unit());
                print(&Line { scenario, subject: "namely", metric, median, min, max, unit, runs })?;
            }
        }
        row.push(what(&scenario.case(self.options.repeats.quick)));
        output::say(format_args!("{}: {}", scenario.name(), progress.join(", ")));
        self.rows.push(row);
        self.rates.extend(summary(Metric::Exchanges).map(|rate| (scenario, rate.median)));
        Ok(())
    }

    /// Prints the table, the ratios and `line`.
    pub(super) fn foot(&self, line: &str) -> Result<(), Error> {
        if self.options.repeats.json {
            output::say(line);
            return Ok(());
        }
        output::line(format_args!("\n{}", align(&self.rows)));
        let rate = |of| self.rates.iter().find(|(scenario, _)| *scenario == of).map(|(_, rate)| *rate);
        for (label, of, over) in RATIOS {
            if let (Some(of_rate), Some(over_rate)) = (rate(of), rate(over)) {
                output::line(format_args!(
                    "{label}: {:.2} times the exchanges_per_second of {}",
                    of_rate / over_rate,
                    over.name()
                ));
            }
        }
        output::line(format_args!("\n{line}"));
        Ok(())
    }
}

fn cell(summary: Summary) -> String {
    let Summary { median, min, max, runs } = summary;
    if runs > 1 { format!("{median:.0} ({min:.0}-{max:.0})") } else { format!("{median:.0}") }
}

fn what(case: &Case) -> String {
    let Case { components, routes, pending, cached, workers, .. } = *case;
    match case.kind {
        Kind::Routes => format!("{routes} routes"),
        Kind::Strategy(name) => format!("{routes} prefixes under {name}"),
        Kind::CsHit => format!("{components} components, {cached} Data cached, all asked for are"),
        Kind::CsMiss => format!("{components} components, {cached} Data cached, none asked for is"),
        Kind::CsHalf => {
            format!("{components} components, {cached} Data cached, half of the requested Data is")
        }
        Kind::Exchange | Kind::Pending => format!(
            "{components} components, {routes} routes, {pending} pending, cache for {cached}, {workers} worker(s)"
        ),
    }
}
