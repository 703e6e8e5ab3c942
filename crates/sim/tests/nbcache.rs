//! The four routers of NB-Cache in the simulator. The tests check the results against the paper,
//! and compare the tables with snapshots (docs/experiments/nb-cache.md).

use crate::common;

use namely_sim::nbcache::{Case, HDD_NS, NbCache, Outcome, Threads};
use namely_sim::plot::{self, Panel};
use namely_sim::table::Table;

const PAGE: &str = "docs/experiments/nb-cache.md";

fn keep(name: &str, table: &Table) {
    print!("{}", table.text());
    common::snapshot(name, &table.text());
}

fn run(scenario: NbCache) -> Outcome {
    let outcome = scenario.run(|_, _| ());
    assert_eq!(outcome.refused, 0, "{scenario:?}: {outcome:?}");
    outcome
}

fn ms(ms: f64) -> String {
    format!("{ms:.1}")
}

fn kpps(per_second: f64) -> String {
    format!("{:.2}", per_second / 1e3)
}

fn each<T: ToString>(of: [T; 4]) -> String {
    of.map(|n| n.to_string()).join(" ")
}

/// NB-24, NB-25, NB-26.
#[test]
fn nb_cache_cases_keep_the_papers_order() {
    let heads =
        ["case", "RTT ms", "p99 ms", "kpps", "cwnd", "marked", "read", "bypassed", "unwritten", "most"];
    let mut table = Table::new(&heads);
    let outcomes = Case::ALL.map(|case| {
        let outcome = run(NbCache::new(case));
        table.row([
            case.label().to_owned(),
            ms(outcome.rtt_ms),
            ms(outcome.rtt_p99_ms),
            kpps(outcome.throughput),
            format!("{:.0}", outcome.window),
            outcome.marked.to_string(),
            each(outcome.reads),
            each(outcome.bypassed),
            each(outcome.writes_bypassed),
            each(outcome.peaks),
        ]);
        outcome
    });
    keep("nb-cache-cases", &table);
    common::shown(PAGE, "nb-cache-cases", &table.text());
    let [a, b, c, d, a_ecn, b_ecn, nbcc] = &outcomes;
    assert!(outcomes.iter().all(|outcome| outcome.data == a.data), "every Data arrives in each case");
    assert!(b.rtt_ms <= 0.3 * a.rtt_ms, "NB-24: -70 %");
    assert!(b.throughput >= 2.3 * a.throughput, "NB-25: +130 %");
    assert!(c.throughput < b.throughput && d.throughput < b.throughput, "each mechanism adds throughput");
    assert!(a_ecn.throughput < b_ecn.throughput && b_ecn.throughput < nbcc.throughput, "NB-26");
    assert!(b_ecn.window < nbcc.window && b_ecn.rtt_ms < nbcc.rtt_ms, "later marks, longer waits");
    assert!(a_ecn.rtt_ms < a.rtt_ms && nbcc.rtt_ms < b.rtt_ms, "windows shorten the round trips");
    assert!(
        nbcc.heard[1] > 0 && nbcc.heard[2] > 0,
        "R2 and R3 receive announcements of R4: {:?}",
        nbcc.heard
    );
    assert_eq!((b_ecn.heard, nbcc.heard[3]), ([0; 4], 0), "R4, the last router, receives none");
}

/// NB-26: the reads of Table II, taken literally, explain neither the paper's throughput of B nor
/// its round trips.
#[test]
fn slow_reads_remove_the_bypass_advantage() {
    let mut table = Table::new(&["case", "RTT ms", "p99 ms", "kpps", "cwnd", "marked"]);
    let cases = [Case::A, Case::B, Case::AEcn, Case::BEcn, Case::BNbCc];
    let outcomes = cases.map(|case| {
        let outcome = run(NbCache { together: Threads::TableTwo, ..NbCache::new(case) });
        table.row([
            case.label().to_owned(),
            ms(outcome.rtt_ms),
            ms(outcome.rtt_p99_ms),
            kpps(outcome.throughput),
            format!("{:.0}", outcome.window),
            outcome.marked.to_string(),
        ]);
        outcome
    });
    keep("nb-cache-table-2", &table);
    let [a, b, a_ecn, b_ecn, nbcc] = &outcomes;
    assert!(b.throughput < a.throughput, "the paper has 10.51 and 4.56 kpps");
    assert!(b_ecn.rtt_ms < a_ecn.rtt_ms && nbcc.rtt_ms < a_ecn.rtt_ms, "the paper has 86, 108 and 125 ms");
}

/// NB-12: the nearest copy serves the Interest.
#[test]
fn an_idle_disk_is_never_bypassed() {
    let outcome = run(NbCache { offered: 2_000, ..NbCache::new(Case::B) });
    assert_eq!((outcome.bypassed, outcome.writes_bypassed), ([0; 4], [0; 4]));
    let blocking = run(NbCache::new(Case::A));
    assert_eq!(outcome.reads, blocking.reads, "each router reads every record that an Interest matches");
}

/// NB-27.
#[test]
fn the_bypass_threshold_has_an_optimum() {
    let mut table = Table::new(&["threshold", "B: RTT ms", "kpps", "B+NB-CC: RTT ms", "kpps", "cwnd"]);
    let mut rtts = (Vec::new(), Vec::new());
    for threshold in [0, 64, 512, 1024, 2048, 4096, usize::MAX] {
        let b = run(NbCache { threshold, ..NbCache::new(Case::B) });
        let nbcc = (1..=1024).contains(&threshold);
        let nbcc = nbcc.then(|| run(NbCache { threshold, ..NbCache::new(Case::BNbCc) }));
        let cell = |text: fn(&Outcome) -> String| nbcc.as_ref().map_or("-".to_owned(), text);
        table.row([
            if threshold == usize::MAX { "none".to_owned() } else { threshold.to_string() },
            ms(b.rtt_ms),
            kpps(b.throughput),
            cell(|outcome| ms(outcome.rtt_ms)),
            cell(|outcome| kpps(outcome.throughput)),
            cell(|outcome| format!("{:.0}", outcome.window)),
        ]);
        rtts.0.push(b.rtt_ms);
        rtts.1.extend(nbcc.map(|outcome| outcome.rtt_ms));
    }
    keep("nb-cache-threshold", &table);
    let least = rtts.0.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(rtts.0.first().is_some_and(|rtt_ms| least < 0.7 * rtt_ms), "{rtts:?}");
    assert!(rtts.0.last().is_some_and(|rtt_ms| least < 0.97 * rtt_ms), "{rtts:?}");
    assert!(rtts.1.is_sorted(), "{rtts:?}");
}

/// NB-28, NB-29.
#[test]
fn more_disk_threads_carry_more_packets() {
    let mut table = Table::new(&["disk, threads", "RTT ms", "kpps", "cwnd"]);
    let mut row = |disk: &str, scenario: NbCache| {
        let outcome = run(scenario);
        table.row([
            format!("{disk}, {}", scenario.threads),
            ms(outcome.rtt_ms),
            kpps(outcome.throughput),
            format!("{:.0}", outcome.window),
        ]);
        outcome
    };
    let case = NbCache::new(Case::BNbCc);
    let by_threads = [1, 2, 4, 8, 16].map(|threads| row("SSD", NbCache { threads, ..case }));
    let slow = row("HDD", NbCache { disk_ns: HDD_NS, together: Threads::OneArm, ..case });
    keep("nb-cache-disks", &table);
    assert!(by_threads.is_sorted_by(|one, more| one.throughput < more.throughput), "NB-28");
    assert!(by_threads[1..].is_sorted_by(|one, more| one.rtt_ms < more.rtt_ms), "NB-28, from two on");
    assert!(slow.rtt_ms > 5.0 * by_threads[2].rtt_ms, "NB-29: 6.7 in the paper");
}

/// NB-30.
#[test]
fn bypassed_interests_fill_the_next_routers() {
    let mut panels = Vec::new();
    let mut done_ms = Vec::new();
    for case in [Case::A, Case::B] {
        let mut lines = vec![Vec::new(); 4];
        let mut last_ms = 0.0;
        NbCache::new(case).run(|now_ns, disks| {
            let now_ms = now_ns as f64 / 1e6;
            for (line, disk) in lines.iter_mut().zip(disks) {
                // The paper plots logarithms, too.
                line.push((now_ms, ((disk.waiting + disk.pending) as f64 + 1.0).log10()));
            }
            if disks[0].waiting > 0 {
                last_ms = now_ms;
            }
        });
        for line in &mut lines {
            let mut n = 0;
            line.retain(|_| {
                n += 1;
                n % 10 == 0
            });
        }
        done_ms.push(last_ms);
        let title = format!("{}: log10 of waiting requests at R1 to R4", case.label());
        panels.push(Panel { title, x_max: 2000.0, y_max: 4.0, lines });
    }
    let behind = |panel: &Panel| {
        let logs = panel.lines[1..].iter().flatten().map(|(_, log)| *log);
        logs.fold(0.0, f64::max)
    };
    assert!(behind(&panels[1]) > 2.0 * behind(&panels[0]).min(1.5), "R2 to R4 share the load");
    assert!(done_ms[1] < 0.5 * done_ms[0], "R1 is done sooner: {done_ms:?} ms");
    let mut table = Table::new(&["case", "R1 has accepted all, ms"]);
    table.row(["A".to_owned(), format!("{:.0}", done_ms[0])]);
    table.row(["B".to_owned(), format!("{:.0}", done_ms[1])]);
    keep("nb-cache-ingress", &table);
    common::whole("docs/experiments/nb-cache.svg", &plot::svg(&panels, 2, "ms"));
}
