//! The figures of attacks, as an aligned table and as JSON lines.

use super::figures::{Failure, Figures};
use crate::error::Error;
use crate::output;
use crate::report::align;
use crate::stats::summarise;

const HEADINGS: [&str; 16] = [
    "attack",
    "router",
    "goodput quiet > attacked Mbit/s",
    "ratio",
    "spin ratio",
    "fetches failed",
    "ping p50 us",
    "ping p99 us",
    "spin p99 us",
    "pings lost",
    "status max ms",
    "memory MiB before > peak > after",
    "left MiB",
    "normal after s",
    "longest turn ms, own",
    "runs",
];

/// Prints one line of JSON.
pub(super) fn print_json(figures: &Figures) -> Result<(), Error> {
    output::line(serde_json::to_string(figures).map_err(cannot_print)?);
    Ok(())
}

/// Prints a table of all runs. Rates, ratios and round trips are medians, failures are sums, and
/// all other figures are those of the worst run. Failed runs are not part of it, but counted and
/// listed.
pub(super) fn print_table(all: &[Figures], failed: &[Failure]) {
    let reasons: String = failed.iter().map(|failure| format!("{failure}\n")).collect();
    output::line(format_args!("\n{}{reasons}", align(&rows(all, failed))));
}

fn rows(all: &[Figures], failed: &[Failure]) -> Vec<Vec<String>> {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    let tried = all.iter().map(|f| (f.case.subject, f.case.attack));
    let mut seen = Vec::new();
    for key in tried.chain(failed.iter().map(|f| (f.case.subject, f.case.attack))) {
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let runs: Vec<_> = all.iter().filter(|f| (f.case.subject, f.case.attack) == key).collect();
        let failures = failed.iter().filter(|f| (f.case.subject, f.case.attack) == key).count();
        let mut cells = row(&runs);
        if runs.is_empty() {
            cells.fill("-".to_owned());
            cells[0] = key.1.to_owned();
            cells[1] = key.0.to_owned();
        }
        if failures > 0 {
            cells[HEADINGS.len() - 1] = format!("{}, {failures} failed", runs.len());
        }
        rows.push(cells);
    }
    rows
}

fn cannot_print(error: serde_json::Error) -> Error {
    Error::environment("cannot print the results", error)
}

fn row(runs: &[&Figures]) -> Vec<String> {
    let median = |value: &dyn Fn(&Figures) -> Option<f64>, digits: usize| {
        let values: Vec<f64> = runs.iter().filter_map(|f| value(f)).collect();
        summarise(&values).map_or("-".to_owned(), |summary| format!("{:.digits$}", summary.median))
    };
    let worst = |value: &dyn Fn(&Figures) -> f64| runs.iter().map(|f| value(f)).fold(0.0, f64::max);
    let sum = |value: &dyn Fn(&Figures) -> u64| runs.iter().map(|f| value(f)).sum::<u64>();
    let has_recovered = runs.iter().all(|f| f.normal_after_s.is_some());
    let turn = |value: &dyn Fn(&Figures) -> Option<f64>| {
        let longest = runs.iter().filter_map(|f| value(f)).max_by(f64::total_cmp);
        longest.map_or("-".to_owned(), |us| format!("{:.1}", us / 1e3))
    };
    vec![
        runs.first().map_or("-", |f| f.case.attack).to_owned(),
        runs.first().map_or("-", |f| f.case.subject).to_owned(),
        format!(
            "{} > {}",
            median(&|f| Some(f.goodput_quiet_mbps), 0),
            median(&|f| Some(f.goodput_attack_mbps), 0)
        ),
        median(&|f| f.goodput_ratio, 2),
        median(&|f| f.goodput_spin_ratio, 2),
        format!("{} of {}", sum(&|f| f.fetches_failed), sum(&|f| f.fetches)),
        format!(
            "{} > {}",
            median(&|f| f.pings.ping_p50_quiet_us, 0),
            median(&|f| f.pings.ping_p50_attack_us, 0)
        ),
        format!(
            "{} > {}",
            median(&|f| f.pings.ping_p99_quiet_us, 0),
            median(&|f| f.pings.ping_p99_attack_us, 0)
        ),
        median(&|f| f.ping_p99_spin_us, 0),
        sum(&|f| f.pings.pings_lost).to_string(),
        status(worst(&|f| f.status_max_ms), sum(&|f| f.status_failed)),
        format!(
            "{:.0} > {:.0} > {:.0}",
            worst(&|f| f.memory.memory_before_mib),
            worst(&|f| f.memory.memory_peak_mib),
            worst(&|f| f.memory.memory_after_mib)
        ),
        left(runs),
        if has_recovered {
            format!("{:.1}", worst(&|f| f.normal_after_s.unwrap_or(0.0)))
        } else {
            "not in time".to_owned()
        },
        format!("{}, {}", turn(&|f| f.turn_max_us), turn(&|f| f.turn_max_cpu_us)),
        runs.len().to_string(),
    ]
}

/// Returns the maximum of memory left behind by a run.
fn left(runs: &[&Figures]) -> String {
    let most = runs.iter().filter_map(|f| f.memory.left_mib()).max_by(f64::total_cmp);
    most.map_or("-".to_owned(), |mib| format!("{mib:.0}"))
}

fn status(max_ms: f64, failed: u64) -> String {
    if failed == 0 { format!("{max_ms:.0}") } else { format!("{max_ms:.0}, {failed} failed") }
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Case, Figures, Phases};
    use super::super::honest::Log;
    use super::*;
    use std::time::Instant;

    const CASE: Case = Case { subject: "x", attack: "pit", run: 1 };

    #[test]
    fn a_failed_router_keeps_its_row() {
        let now = Instant::now();
        let phases = Phases { quiet: now, attack: now, recovery: now, end: now, spin: now };
        let good = Figures::new(CASE, &Log::default(), &Vec::new(), &phases);
        let why = Error::Subject("it ended".to_owned());
        let failed = [Case { run: 2, ..CASE }, Case { subject: "y", ..CASE }];
        let failed = failed.map(|case| Failure::new(case, &why));
        let rows = rows(&[good], &failed);
        let said: Vec<_> = rows[1..].iter().map(|r| (r[0].as_str(), r[1].as_str(), r[15].as_str())).collect();
        assert_eq!(said, [("pit", "x", "1, 1 failed"), ("pit", "y", "0, 1 failed")]);
        assert_eq!(rows[2][5], "-", "nothing was fetched and nothing lost");
        assert_eq!(failed[1].to_string(), "pit: y run 1 failed: it ended");
    }

    #[test]
    fn a_report_shows_failed_fetches_and_recoveries() {
        let now = Instant::now();
        let phases = Phases { quiet: now, attack: now, recovery: now, end: now, spin: now };
        let good = Figures::new(CASE, &Log::default(), &Vec::new(), &phases);
        let bad = Figures { normal_after_s: None, fetches: 9, fetches_failed: 2, ..good.clone() };
        let cells = row(&[&good, &bad, &good]);
        assert_eq!(cells.len(), HEADINGS.len());
        assert_eq!(
            (cells[5].as_str(), cells[13].as_str(), cells[15].as_str()),
            ("2 of 9", "not in time", "3")
        );
    }
}
