//! The results of the runs, as text beside the paper's figures, and as JSON.

use serde_json::{Value, json};

use super::Table;
use super::arm::{Arm, Case, NO_THRESHOLD};
use super::network::Run;
use crate::statistics;

/// Round trip, ms, and throughput, thousands a second, of the paper's cases.
const PAPERS: [(Arm, &str, &str); 5] = [
    (Arm::A, "3754.5", "4.56"),
    (Arm::B, "1122.5", "10.51"),
    (Arm::AEcn, "86.23", "-"),
    (Arm::BEcn, "107.82", "-"),
    (Arm::BNbCc, "125.48", "-"),
];

type Row = (Case, Vec<Run>);

/// A table.
pub(super) fn text(table: Table, rows: &[Row]) -> String {
    match table {
        Table::Cases => cases(rows),
        Table::Thresholds => simple("threshold", rows, |case| {
            let threshold =
                if case.threshold == NO_THRESHOLD { "none".into() } else { case.threshold.to_string() };
            format!("{}, {threshold}", case.arm.label())
        }),
        Table::Threads => simple("threads", rows, |case| case.threads.to_string()),
        Table::Disks => simple("disk", rows, |case| case.disk.label().to_owned()),
        Table::Balance => balance(rows),
        Table::Paths => paths(rows),
    }
}

fn rtt_ms(run: &Run) -> f64 {
    run.outcome.rtts_ms.iter().sum::<f64>() / run.outcome.rtts_ms.len().max(1) as f64
}

fn rtt_p99_ms(run: &Run) -> f64 {
    let mut rtts_ms = run.outcome.rtts_ms.clone();
    rtts_ms.sort_by(f64::total_cmp);
    rtts_ms.get(rtts_ms.len() * 99 / 100).copied().unwrap_or(0.0)
}

fn kpps(run: &Run) -> f64 {
    run.outcome.per_second / 1e3
}

fn mean(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    statistics::mean(&runs.iter().map(of).collect::<Vec<_>>()).0
}

/// The mean with its interval.
fn cell(runs: &[Run], digits: usize, of: impl Fn(&Run) -> f64) -> String {
    let (mean, half) = statistics::mean(&runs.iter().map(of).collect::<Vec<_>>());
    let half = half.map_or_else(String::new, |half| format!("±{half:.digits$}"));
    format!("{mean:.digits$}{half}")
}

/// A count of R1 to R4, averaged.
fn each(runs: &[Run], label: &str) -> String {
    let of =
        |router: usize| mean(runs, |run| run.disks.get(router).map_or(0, |disk| disk.count(label)) as f64);
    (0..4).map(|router| format!("{:.0}", of(router))).collect::<Vec<_>>().join(" ")
}

fn unanswered(runs: &[Run]) -> String {
    format!("{:.0}", mean(runs, |run| (run.outcome.refused + run.outcome.lost) as f64))
}

fn cases(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<8}  {:>15}  {:>8}  {:>11}  {:>5}  {:>6}  {:>7}  {:>19}  {:>15}  {:>15}  {:>9}  {:>6}\n",
        "case",
        "RTT ms",
        "p99 ms",
        "kpps",
        "cwnd",
        "marked",
        "no Data",
        "read",
        "bypassed",
        "unwritten",
        "paper: ms",
        "kpps"
    );
    for (case, runs) in rows {
        let paper = PAPERS.iter().find(|(arm, ..)| *arm == case.arm);
        text += &format!(
            "{:<8}  {:>15}  {:>8.1}  {:>11}  {:>5.0}  {:>6.0}  {:>7}  {:>19}  {:>15}  {:>15}  {:>9}  {:>6}\n",
            case.arm.label(),
            cell(runs, 1, rtt_ms),
            mean(runs, rtt_p99_ms),
            cell(runs, 2, kpps),
            mean(runs, |run| run.outcome.window),
            mean(runs, |run| run.outcome.marked as f64),
            unanswered(runs),
            each(runs, "hits"),
            each(runs, "bypassed_reads"),
            each(runs, "bypassed_writes"),
            paper.map_or("-", |(_, ms, _)| ms),
            paper.map_or("-", |(_, _, kpps)| kpps),
        );
    }
    let of = |arm: Arm| rows.iter().find(|(case, _)| case.arm == arm).map(|(_, runs)| runs);
    if let (Some(a), Some(b)) = (of(Arm::A), of(Arm::B)) {
        let change = |of: fn(&Run) -> f64| (mean(b, of) / mean(a, of).max(f64::MIN_POSITIVE) - 1.0) * 100.0;
        text += &format!(
            "\nB against A: round trip {:+.1} % (paper -70.1 %), throughput {:+.0} % (paper +130 %)\n",
            change(rtt_ms),
            change(kpps)
        );
    }
    text
}

fn simple(head: &str, rows: &[Row], label: impl Fn(&Case) -> String) -> String {
    let mut text = format!("{head:<14}  {:>15}  {:>11}  {:>5}  {:>7}\n", "RTT ms", "kpps", "cwnd", "no Data");
    for (case, runs) in rows {
        text += &format!(
            "{:<14}  {:>15}  {:>11}  {:>5.0}  {:>7}\n",
            label(case),
            cell(runs, 1, rtt_ms),
            cell(runs, 2, kpps),
            mean(runs, |run| run.outcome.window),
            unanswered(runs)
        );
    }
    text
}

/// Number of times at which the queues are shown, over the time until all Data has arrived.
const SHOWN: usize = 10;

/// Returns the queues of the first run, and the times at which R1 had accepted everything in all
/// runs.
fn balance(rows: &[Row]) -> String {
    let mut text = String::new();
    for (case, runs) in rows {
        text += &format!(
            "{}: R1 has taken in all after {} ms\n{:>8}  {:>12}  {:>6}  {:>6}  {:>6}  {:>6}\n",
            case.arm.label(),
            cell(runs, 0, |run| run.outcome.taken_ms),
            "ms",
            "before R1",
            "R1",
            "R2",
            "R3",
            "R4"
        );
        let Some(lines) = runs.first().map(|run| &run.waiting) else { continue };
        for (at_ms, [before, r1, r2, r3, r4]) in lines.iter().step_by(lines.len().div_ceil(SHOWN).max(1)) {
            text += &format!("{at_ms:>8.0}  {before:>12}  {r1:>6}  {r2:>6}  {r3:>6}  {r4:>6}\n");
        }
        text += "\n";
    }
    text
}

/// The paths of the paper's Table II: the label of the times, and the paper's figures in A and B.
const PATHS: [(&str, &str, &str, &str); 5] = [
    ("memory hit", "time_memory", "-", "-"),
    ("I/O issued", "time_issue", "0.1934 (waits)", "0.0439"),
    ("I/O complete", "time_disk", "-", "18.699"),
    ("not there", "time_absent", "0.00639", "0.009"),
    ("disk busy", "time_busy", "-", "0.0916"),
];

/// Times of R1, of all runs together.
fn paths(rows: &[Row]) -> String {
    let mut text = String::new();
    for (case, runs) in rows {
        text += &format!(
            "R1 in {}: {:<13}  {:>6}  {:>9}  {:>9}  {:>9}  {:>14}\n",
            case.arm.label(),
            "path",
            "timed",
            "mean ms",
            "p50 ms",
            "p99 ms",
            "paper: ms"
        );
        // A blocking router has the Data when it continues, so it has no path of completed I/O.
        let taken = PATHS.into_iter().filter(|(_, label, ..)| !case.arm.blocks() || *label != "time_disk");
        for (path, label, of_a, of_b) in taken {
            let of = |suffix: &str| {
                let label = format!("{label}{suffix}");
                runs.iter()
                    .filter_map(|run| run.disks.first())
                    .map(|disk| disk.count(&label))
                    .collect::<Vec<_>>()
            };
            let (count, sum): (u64, u64) = (of("").iter().sum(), of("_ns").iter().sum());
            // Over several runs: the median of their medians, and the maximum of their p99.
            let mut halves = of("_ns_p50");
            halves.sort_unstable();
            let half = halves.get(halves.len() / 2).copied().unwrap_or(0);
            let most = of("_ns_p99").into_iter().max().unwrap_or(0);
            let ms = |ns: u64| format!("{:.4}", ns as f64 / 1e6);
            text += &format!(
                "         {path:<13}  {count:>6}  {:>9}  {:>9}  {:>9}  {:>14}\n",
                ms(sum / count.max(1)),
                ms(half),
                ms(most),
                if case.arm == Arm::A { of_a } else { of_b }
            );
        }
        text += "\n";
    }
    text
}

/// A run, for programs.
pub(super) fn value(table: Table, case: Case, run: &Run) -> Value {
    let each = |label: &str| run.disks.iter().map(|disk| disk.count(label)).collect::<Vec<_>>();
    let most: Vec<u64> =
        (0..5).map(|which| run.waiting.iter().map(|(_, of)| of[which]).max().unwrap_or(0)).collect();
    json!({
        "table": format!("{table:?}").to_lowercase(), "case": case.arm.label(), "threshold": case.threshold,
        "threads": case.threads, "disk": case.disk.label(), "data": run.outcome.rtts_ms.len(), "rtt_ms": rtt_ms(run),
        "rtt_p99_ms": rtt_p99_ms(run), "kpps": kpps(run), "window": run.outcome.window, "marked": run.outcome.marked,
        "refused": run.outcome.refused, "lost": run.outcome.lost, "taken_ms": run.outcome.taken_ms,
        "disk_writes": each("disk_writes"), "disk_reads": each("disk_reads"),
        "timed_ms": PATHS.map(|(path, label, ..)| {
            let of = |suffix: &str| run.disks.first().map_or(0, |disk| disk.count(&format!("{label}{suffix}")));
            json!({"path": path, "timed": of(""), "mean_ms": of("_ns") as f64 / of("").max(1) as f64 / 1e6})
        }),
        "read": each("hits"), "bypassed": each("bypassed_reads"), "unwritten": each("bypassed_writes"), "most": most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_compares_b_with_a() {
        let run = |rtt_ms: f64, per_second: f64| {
            let mut run = Run::default();
            run.outcome.rtts_ms = vec![rtt_ms; 3];
            run.outcome.per_second = per_second;
            run
        };
        let rows = [
            (Case::new(Arm::A), vec![run(100.0, 1000.0), run(200.0, 1000.0)]),
            (Case::new(Arm::B), vec![run(30.0, 2000.0)]),
        ];
        let text = text(Table::Cases, &rows);
        assert!(text.contains("round trip -80.0 %") && text.contains("throughput +100 %"), "{text}");
        let row: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!((row[0], row[1], row.last().copied()), ("B", "30.0", Some("10.51")));
    }
}
