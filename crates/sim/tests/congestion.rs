//! Congestion control through one bottleneck of 100 Mbit/s and 40 ms, judged and recorded in
//! tables: fairness, utilization, and the queue, with and without loss.

mod common;

use namely_sim::bottleneck::{Bottleneck, Outcome};
use namely_sim::paths::{self, Cell, Discipline};
use namely_sim::plot::{self, Panel};
use namely_sim::table::Table;
use namely_sim::{MS, SECOND};
use namely_transport::congestion::Algorithm;

const HEADS: [&str; 11] = [
    "flows",
    "loss",
    "router",
    "Mbit/s each",
    "utilisation",
    "Jain",
    "wait ms",
    "p99 ms",
    "dropped",
    "marked",
    "again",
];

/// Minimum of Jain's index without loss.
const JAIN_MIN: f64 = 0.98;

/// Minimum of Jain's index with random loss, which strikes the fetches unequally.
const JAIN_MIN_LOSS: f64 = 0.97;

fn row(table: &mut Table, flows: String, scenario: &Bottleneck, outcome: &Outcome) {
    let rates: Vec<String> = outcome.rates_bps.iter().map(|rate| format!("{:.1}", rate / 1e6)).collect();
    let again: u64 = outcome.counters.iter().map(|counters| counters.retransmissions).sum();
    table.row([
        flows,
        format!("{} %", f64::from(scenario.loss_ppm) / 1e4),
        (if scenario.marks { "marks" } else { "silent" }).to_owned(),
        rates.join(" "),
        format!("{:.3}", outcome.utilisation),
        format!("{:.3}", outcome.jain),
        format!("{:.1}", outcome.wait_ms_mean),
        format!("{:.1}", outcome.wait_ms_p99),
        outcome.queue_full.to_string(),
        outcome.marked.to_string(),
        again.to_string(),
    ]);
}

fn keep(name: &str, table: &Table) {
    print!("{}", table.text());
    common::snapshot(&format!("congestion-{name}"), &table.text());
    if name == "cubic" || name == "goals" {
        common::shown("docs/experiments/congestion.md", &format!("congestion-{name}"), &table.text());
    }
}

/// Runs two and three fetches without loss, with 0.1 % and with 1 %, and one fetch with 1 %. Each
/// scenario runs behind a router that marks, and behind one that only drops at a full queue.
/// Asserts the limits for two and three fetches.
fn judge(name: &str, congestion: Algorithm) -> Vec<(Bottleneck, Outcome)> {
    let mut table = Table::new(&HEADS);
    let mut outcomes = Vec::new();
    for marks in [true, false] {
        for (flows, loss_ppm) in
            [(1, 10_000), (2, 0), (2, 1_000), (2, 10_000), (3, 0), (3, 1_000), (3, 10_000)]
        {
            let scenario = Bottleneck { marks, ..Bottleneck::new(congestion, flows, loss_ppm) };
            let outcome = scenario.run(|_| ());
            row(&mut table, flows.to_string(), &scenario, &outcome);
            outcomes.push((scenario, outcome));
        }
    }
    keep(name, &table);
    for (scenario, outcome) in &outcomes {
        let case = format!("{name}: {scenario:?}: {outcome:?}");
        assert_eq!(outcome.failures, [], "no fetch gives up: {case}");
        if scenario.flows == 1 {
            continue;
        }
        let jain_min = if scenario.loss_ppm == 0 { JAIN_MIN } else { JAIN_MIN_LOSS };
        assert!(outcome.jain >= jain_min, "{case}");
        assert!(outcome.utilisation >= 0.95, "{case}");
        let wait_ms_max = if scenario.marks { 10.0 } else { 20.0 };
        let waits_little = outcome.wait_ms_p99 < 40.0 && outcome.wait_ms_mean < wait_ms_max;
        assert!(waits_little, "the queue is not left full: {case}");
        let data: u64 = outcome.counters.iter().map(|counters| counters.data).sum();
        assert!(outcome.queue_full * 50 < data, "few are dropped: {case}");
    }
    outcomes
}

#[test]
fn cubic_shares_and_fills_a_bottleneck() {
    judge("cubic", Algorithm::Cubic);
}

#[test]
fn raaqm_shares_and_fills_a_bottleneck() {
    judge("raaqm", Algorithm::Raaqm);
}

#[test]
fn bbr_shares_a_bottleneck_despite_loss() {
    let outcomes = judge("bbr", Algorithm::Bbr);
    for (scenario, outcome) in outcomes {
        assert!(outcome.utilisation >= 0.9, "{scenario:?}: {outcome:?}");
    }
}

#[test]
fn aimd_and_nbcc_results_are_kept() {
    let mut heads = HEADS;
    heads[0] = "rule, flows";
    let mut table = Table::new(&heads);
    for (name, congestion) in [("aimd", Algorithm::Aimd), ("nbcc", Algorithm::NbCc)] {
        for (flows, loss_ppm) in [(1, 10_000), (2, 0), (2, 10_000)] {
            let scenario =
                Bottleneck { measured_ns: 20 * SECOND, ..Bottleneck::new(congestion, flows, loss_ppm) };
            row(&mut table, format!("{name}, {flows}"), &scenario, &scenario.run(|_| ()));
        }
    }
    keep("others", &table);
}

/// Three fetches that begin four seconds apart: the rate of each, and the delay of Data in the
/// queue.
#[test]
fn the_course_of_three_flows_is_drawn() {
    let (mut rates, mut waits) = (Vec::new(), Vec::new());
    for (name, congestion) in
        [("cubic", Algorithm::Cubic), ("raaqm", Algorithm::Raaqm), ("bbr", Algorithm::Bbr)]
    {
        let scenario = Bottleneck {
            stagger_ns: 4 * SECOND,
            warm_up_ns: 10 * SECOND,
            measured_ns: 10 * SECOND,
            ..Bottleneck::new(congestion, 3, 0)
        };
        let mut lines = vec![Vec::new(); 3];
        let (mut wait, mut before, mut before_s) = (Vec::new(), vec![0; 3], 0.0);
        scenario.run(|running| {
            let seconds = running.now_ns() as f64 / 1e9;
            wait.push((seconds, running.wait_ns() as f64 / 1e6));
            if seconds - before_s > 0.35 {
                let octets = running.octets();
                for ((line, octets), before) in lines.iter_mut().zip(&octets).zip(&before) {
                    line.push((seconds, (octets - before) as f64 * 8e-6 / (seconds - before_s)));
                }
                (before, before_s) = (octets, seconds);
            }
        });
        let panel = |title, y_max, lines| Panel { title, x_max: 20.0, y_max, lines };
        rates.push(panel(format!("{name}: Mbit/s of each fetch"), 100.0, lines));
        waits.push(panel(format!("{name}: wait in the queue, ms"), 40.0, vec![wait]));
    }
    rates.extend(waits);
    common::whole("docs/experiments/congestion.svg", &plot::svg(&rates, 3, "s"));
}

/// A long path without marks: one fetch, two that are equal, two with round trips of 20 and 100 ms,
/// and one beside CUBIC as published. The buffer has the capacity of the path.
fn goals(word: &str) -> [f64; 9] {
    let congestion = word.parse().expect("a word");
    let one = |rate_mbps, rtt_ms, loss_ppm| {
        let cell = Cell { rate_mbps, rtt_ms, loss_ppm, queue_percent: 100, router: Discipline::Tail };
        let scenario = Bottleneck { measured_ns: 10 * SECOND, ..cell.bottleneck(congestion, 1, 1) };
        let outcome = scenario.run(|_| ());
        assert_eq!(outcome.failures, [], "no fetch gives up: {word} {scenario:?}");
        (outcome.utilisation, cell.queue_p95(&outcome))
    };
    let two = |rtt_ms: u64, rtt_step_ms: u64, beside| {
        let scenario = Bottleneck {
            rtt_ns: rtt_ms * MS,
            rtt_step_ns: rtt_step_ms * MS,
            queue_octets_max: (rtt_ms * 12_500) as usize,
            marks: false,
            beside,
            ..Bottleneck::new(congestion, 2, 0)
        };
        scenario.run(|_| ())
    };
    let ((long, queue), (short, _)) = (one(400, 100, 0), one(400, 20, 0));
    // Interests are lost, too: 0.5 % each way are 1 % of the pieces.
    let (lossy, lossier) = (one(100, 100, 5_000).0, one(100, 100, 10_000).0);
    let beside = two(40, 0, Some(Algorithm::Rfc9438)).rates_bps;
    let fair = beside.iter().sum::<f64>() / 2.0;
    let (equal, unequal) = (two(40, 0, None).jain, two(20, 80, None).jain);
    [long, short, lossy, lossier, queue, equal, unequal, beside[0] / fair, beside[1] / fair]
}

/// The lines of the goals that one path shows, by rule.
#[test]
fn the_rules_are_compared_by_the_goals() {
    let mut table = Table::new(&[
        "rule",
        "100 ms",
        "20 ms",
        "lose 1 %",
        "2 %",
        "queue",
        "Jain",
        "unequal",
        "beside CUBIC",
        "CUBIC's",
    ]);
    for word in paths::RULES.into_iter().chain(["raaqm", "raaqm-published"]) {
        let [a, b, c, d, e, f, g, h, i] = goals(word).map(|value| format!("{value:.2}"));
        table.row([word.to_owned(), a, b, c, d, e, f, g, h, i]);
    }
    keep("goals", &table);
}

/// Some of the forty paths, with a seed each.
#[test]
fn short_runs_over_paths_are_kept() {
    let lines = std::sync::Mutex::new(Vec::new());
    for path in ["10M-20ms-0%-1BDP-tail", "10M-100ms-0%-1BDP-marks", "100M-20ms-0%-0.1BDP-tail"] {
        for rule in paths::RULES {
            paths::run("", &format!("{path} {rule} 1"), 1, |line| {
                lines.lock().expect("a list").push(line.to_owned())
            });
        }
    }
    let lines = lines.into_inner().expect("a list");
    assert_eq!(lines.len(), 3 * paths::RULES.len());
    common::snapshot("paths-short", &(lines.join("\n") + "\n"));
}
