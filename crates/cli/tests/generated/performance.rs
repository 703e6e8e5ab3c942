//! The figures of docs/performance.md, from the records of the queue `performance`
//! (evidence/performance, one record for each run).
//!
//! A figure is the median of the runs in one record. A target is a ratio of two figures, or a bound
//! of one, with the verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

use super::{compare, root};

const PAGE: &str = "docs/performance.md";

/// The subjects of `compare`, in the order of the page.
const SUBJECTS: [&str; 10] = [
    "namely",
    "namely-blake3",
    "namely-xdp",
    "namely-tools",
    "nfd",
    "nfd-cubic",
    "ndnd",
    "ndnd-tools",
    "relay",
    "relay-64k",
];

/// The modes of the peers. A target against peers is a target against the best of them.
const PEERS: &[&str] = &["nfd", "nfd-cubic", "ndnd", "ndnd-tools"];

/// A record of `.ci/record`.
#[derive(Deserialize)]
struct Record {
    commit: String,
    date: String,
    machine: String,
    load: String,
    load_after: String,
    failed: u64,
    figures: Vec<Value>,
}

/// The records of the queue, by the name of the run.
struct Records(BTreeMap<String, Record>);

/// A figure of `compare` or `tables`.
#[derive(Clone, Copy)]
struct Key {
    scenario: &'static str,
    subject: &'static str,
    metric: &'static str,
}

impl Records {
    fn read() -> Self {
        let folder = root().join("evidence/performance");
        let entries = std::fs::read_dir(&folder).expect("run .ci/record --queue performance");
        let record = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(&path).expect("a record can be read");
            let name = path.file_stem().expect("a record has a name").to_string_lossy().into_owned();
            (name, serde_json::from_str(&text).expect("a record of .ci/record"))
        };
        Records(entries.flatten().map(|entry| record(entry.path())).collect())
    }

    fn figures<'a>(&'a self, run: &'a str) -> impl Iterator<Item = &'a Value> {
        let records = self.0.iter().filter(move |(name, _)| name.starts_with(run));
        records.flat_map(|(_, record)| &record.figures)
    }

    /// The summary of a figure: an object with `median`, `min` and `max`.
    fn summary(&self, key: Key) -> Option<&Value> {
        let Key { scenario, subject, metric } = key;
        self.figures("").find(|line| {
            line["scenario"] == scenario && line["subject"] == subject && line["metric"] == metric
        })
    }

    fn median(&self, key: Key) -> Option<f64> {
        self.summary(key)?["median"].as_f64()
    }

    /// The commit, date, machine and load of the runs whose names begin with `run`.
    fn conditions(&self, run: &str) -> String {
        let records: Vec<_> =
            self.0.iter().filter(|(name, _)| name.starts_with(run)).map(|(_, record)| record).collect();
        assert!(records.iter().all(|record| record.failed == 0), "a run of {run} failed: repeat it");
        let each = |of: fn(&Record) -> &str| {
            let distinct: BTreeSet<_> = records.iter().map(|record| of(record)).collect();
            distinct.into_iter().collect::<Vec<_>>().join(" and ")
        };
        let first = |load: &str| load.split(' ').next().and_then(|minute| minute.parse::<f64>().ok());
        let before = records.iter().filter_map(|record| first(&record.load)).fold(0.0, f64::max);
        let after = records.iter().filter_map(|record| first(&record.load_after)).fold(0.0, f64::max);
        format!(
            "Commit {}, {}, {}. Load of the last minute: at most {before:.1} before a run, {after:.1} after it.",
            each(|record| &record.commit),
            each(|record| &record.date),
            each(|record| &record.machine),
        )
    }
}

/// A median with the extremes.
fn spread(summary: &Value, digits: usize) -> String {
    let [median, min, max] = ["median", "min", "max"].map(|key| summary[key].as_f64().unwrap_or(f64::NAN));
    format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
}

/// A table in Markdown.
fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len()));
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).expect("a string can be written to");
    }
    text
}

/// The goodput and the processor time of a router, by subject and scenario.
fn goodput(records: &Records) -> String {
    const SCENARIOS: [&str; 9] = [
        "unix-8000",
        "unix-1200",
        "memif-8000",
        "memif-1200",
        "tcp-8000",
        "udp-2routers",
        "ether-2routers",
        "cache-unix",
        "multiflow",
    ];
    let cell = |scenario, subject| {
        let of = |metric| records.median(Key { scenario, subject, metric });
        let Some(goodput) = of("goodput_mbps") else { return String::new() };
        let cpu = of("cpu_us_per_exchange").map(|cpu| format!("/{cpu:.1}")).unwrap_or_default();
        format!("{goodput:.0}{cpu}")
    };
    let rows = SUBJECTS.map(|subject| {
        let cells = SCENARIOS.map(|scenario| cell(scenario, subject));
        [vec![format!("`{subject}`")], cells.to_vec()].concat()
    });
    let head: Vec<_> = SCENARIOS.iter().map(|scenario| format!("`{scenario}`")).collect();
    let head: Vec<_> = std::iter::once("").chain(head.iter().map(String::as_str)).collect();
    table(&head, rows)
}

/// Fetches that failed in a comparison, by scenario and subject.
fn failures(records: &Records) -> String {
    let failed = records.figures("compare").filter(|line| line["metric"] == "failed");
    let failed = failed.filter(|line| line["median"].as_f64() != Some(0.0));
    let texts: Vec<_> = failed
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            let count = line["median"].as_f64().unwrap_or_default();
            format!("{count:.0} fetch of `{}` in `{}`", text("subject"), text("scenario"))
        })
        .collect();
    if texts.is_empty() { "No fetch failed.".to_owned() } else { format!("Failed: {}.", texts.join(", ")) }
}

/// Round trips, memory and processor time of an idle router, by subject.
fn routers(records: &Records) -> String {
    const ROWS: [(&str, &str, &str, usize); 6] = [
        ("ping p50, µs", "ping-unix", "p50_us", 1),
        ("ping p99, µs", "ping-unix", "p99_us", 1),
        ("memory at the start, MiB", "memory", "rss_idle_mib", 1),
        ("memory after all objects, MiB", "memory", "rss_mib", 1),
        ("memory idle, MiB", "idle", "rss_mib", 1),
        ("idle, % of a core", "idle", "cpu_percent", 3),
    ];
    let with_figures = |subject: &&'static str| {
        let mut keys = ROWS.iter().map(|(_, scenario, metric, _)| Key { scenario, subject, metric });
        keys.any(|key| records.summary(key).is_some())
    };
    // The subjects live as long as the program, so the keys may hold them.
    let subjects: Vec<&'static str> = SUBJECTS.into_iter().filter(|of| with_figures(of)).collect();
    let rows = ROWS.map(|(title, scenario, metric, digits)| {
        let cells = subjects.iter().map(|subject| {
            let median = records.median(Key { scenario, subject, metric });
            median.map(|median| format!("{median:.digits$}")).unwrap_or_default()
        });
        std::iter::once(title.to_owned()).chain(cells).collect()
    });
    let head: Vec<_> = subjects.iter().map(|subject| format!("`{subject}`")).collect();
    let head: Vec<_> = std::iter::once("").chain(head.iter().map(String::as_str)).collect();
    table(&head, rows)
}

/// Goodput by link and MTU.
fn links(records: &Records) -> String {
    let lines: Vec<_> = records.figures("links").collect();
    let mut names: Vec<&str> = Vec::new();
    for line in &lines {
        let name = line["link"].as_str().unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // A link without a network between the routers has no MTU; the first column shows it.
    let find = |name: &str, mtu: u64| {
        lines.iter().find(|line| {
            line["link"] == name && line["mtu"].as_u64().unwrap_or(1500) == mtu && line["window"] == "default"
                || line["link"] == name && line["mtu"] == mtu && line["cpu_s_per_gib_producer"].is_null()
        })
    };
    let of = |name: &str, mtu, key: &str, digits| {
        let summary = find(name, mtu).map(|line| &line[key]).filter(|summary| !summary.is_null());
        summary.map(|summary| spread(summary, digits)).unwrap_or_default()
    };
    let cpu = |name: &str, mtu| {
        let keys = ["cpu_s_per_gib_producers_router", "cpu_s_per_gib_consumers_router"];
        let line = find(name, mtu);
        let medians = keys.iter().filter_map(|key| line?[*key]["median"].as_f64());
        medians.map(|median| format!("{median:.2}")).collect::<Vec<_>>().join(" + ")
    };
    let rows = names.iter().map(|name| {
        let goodput = [1500, 9000].map(|mtu| of(name, mtu, "goodput_mbps", 0));
        [vec![format!("`{name}`")], goodput.to_vec(), [1500, 9000].map(|mtu| cpu(name, mtu)).to_vec()]
            .concat()
    });
    let head = ["link", "Mbit/s at MTU 1500", "9000", "routers' CPU s/GiB at 1500", "9000"];
    let sum = |key: &str| lines.iter().filter_map(|line| line[key]["median"].as_f64()).sum::<f64>();
    let failed: u64 = lines.iter().filter_map(|line| line["failed"].as_u64()).sum();
    format!(
        "{}\nOver all rows: {:.0} Interests sent again, {:.0} packets dropped by routers, {failed} runs failed.\n",
        table(&head, rows),
        sum("retransmissions"),
        sum("dropped"),
    )
}

/// The time to copy a tree, beside rsync.
fn trees(records: &Records) -> String {
    let lines: Vec<_> = records.figures("trees").collect();
    let of = |line: &Value, who: &str| {
        let mut same = lines.iter().filter(|other| {
            other["file_system"] == line["file_system"]
                && other["what"] == line["what"]
                && other["who"] == who
        });
        same.next().map(|line| &line["wall_s"])
    };
    let rows = lines.iter().filter(|line| line["who"] == "namely").map(|line| {
        let [own, other] = ["namely", "rsync"].map(|who| of(line, who));
        let cell = |summary: Option<&Value>| summary.map(|one| spread(one, 2)).unwrap_or_default();
        let ratio =
            own.zip(other).and_then(|(own, other)| Some(own["median"].as_f64()? / other["median"].as_f64()?));
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        let title = format!("{}, {}", text("file_system"), text("what"));
        vec![title, cell(own), cell(other), ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default()]
    });
    table(&["", "namely, s", "rsync, s", "ratio"], rows)
}

/// The cost of a packet in the core, by components and routes, and of each table.
fn tables(records: &Records) -> String {
    const CORES: [(&str, [&str; 3]); 3] = [
        ("`core-4c`", ["core-4c-1k", "core-4c-1M", "core-4c-10M"]),
        ("`core-8c`", ["core-8c-1k", "core-8c-1M", "core-8c-10M"]),
        ("`core-16c`", ["core-16c-1k", "core-16c-1M", "core-16c-10M"]),
    ];
    const OTHERS: [(&str, &str, &str, &str); 10] = [
        ("million routes, no content store", "core-4c-1M-nocs", "ns_per_exchange", "ns an exchange"),
        ("million routes, one worker", "core-4c-1M", "exchanges_per_second", "exchanges/s"),
        ("million routes, two workers", "core-2workers", "exchanges_per_second", "exchanges/s"),
        ("PIT of 1000", "pit-1k", "ns_per_exchange", "ns an exchange"),
        ("PIT of a million", "pit-1M", "ns_per_exchange", "ns an exchange"),
        ("PIT entry", "pit-1M", "bytes_per_entry", "octets"),
        ("content store, hit", "cs-hit-1M", "ns_per_lookup", "ns"),
        ("content store, miss", "cs-miss-1M", "ns_per_lookup", "ns"),
        ("FIB, insertion at a million", "fib-1M", "ns_per_insert", "ns"),
        ("FIB, insertion at ten million", "fib-10M", "ns_per_insert", "ns"),
    ];
    let of = |scenario, metric| records.summary(Key { scenario, subject: "namely", metric });
    let cell = |scenario, metric| of(scenario, metric).map(|one| spread(one, 0)).unwrap_or_default();
    let rows = CORES.map(|(title, scenarios)| {
        [vec![title.to_owned()], scenarios.map(|scenario| cell(scenario, "ns_per_exchange")).to_vec()]
            .concat()
    });
    let others = OTHERS.map(|(title, scenario, metric, unit)| {
        vec![title.to_owned(), format!("{} {unit}", cell(scenario, metric))]
    });
    let head = ["ns of CPU for an exchange", "1000 routes", "1 million", "10 million"];
    format!("{}\n{}", table(&head, rows), table(&["table", "cost"], others))
}

/// The divisor of a target.
enum Reference {
    Best(&'static str, &'static [&'static str]),
    Figure(Key),
    Constant(f64),
}

/// A target: the ratio of a figure to its reference, and the bound of this ratio.
struct Target {
    title: &'static str,
    of: Key,
    to: Reference,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

const fn own(scenario: &'static str, metric: &'static str) -> Key {
    Key { scenario, subject: "namely", metric }
}

const fn goodput_of(scenario: &'static str, subject: &'static str) -> Key {
    Key { scenario, subject, metric: "goodput_mbps" }
}

const fn target(title: &'static str, of: Key, to: Reference, bound: Bound) -> Target {
    Target { title, of, to, bound }
}

use Bound::{AtLeast, AtMost};
use Reference::{Best, Constant, Figure};

const COMPARED: [Target; 11] = [
    target(
        "UDP: 4 times the better peer",
        own("udp-2routers", "goodput_mbps"),
        Best("udp-2routers", PEERS),
        AtLeast(4.0),
    ),
    target(
        "UDP: 0.6 of the relay",
        own("udp-2routers", "goodput_mbps"),
        Figure(goodput_of("udp-2routers", "relay")),
        AtLeast(0.6),
    ),
    target("ping: half of NDNd's p50", own("ping-unix", "p50_us"), Best("ping-unix", &["ndnd"]), AtMost(0.5)),
    target(
        "Unix: 3 times NFD",
        own("unix-8000", "goodput_mbps"),
        Best("unix-8000", &["nfd", "nfd-cubic"]),
        AtLeast(3.0),
    ),
    target(
        "Unix: 5 times the better peer",
        own("unix-8000", "goodput_mbps"),
        Best("unix-8000", PEERS),
        AtLeast(5.0),
    ),
    target(
        "Unix, 1200 octets: 8 times NFD",
        own("unix-1200", "goodput_mbps"),
        Best("unix-1200", &["nfd", "nfd-cubic"]),
        AtLeast(8.0),
    ),
    target(
        "Unix: twice 3 Gbit/s, which ndn-rs reports without signatures",
        own("unix-8000", "goodput_mbps"),
        Constant(3000.0),
        AtLeast(2.0),
    ),
    target(
        "Unix: 0.6 of the relay",
        own("unix-8000", "goodput_mbps"),
        Figure(goodput_of("unix-8000", "relay")),
        AtLeast(0.6),
    ),
    target(
        "Ethernet: 0.6 of the relay",
        own("ether-2routers", "goodput_mbps"),
        Figure(goodput_of("ether-2routers", "relay")),
        AtLeast(0.6),
    ),
    target(
        "memif: 2.5 times Unix sockets",
        own("memif-8000", "goodput_mbps"),
        Figure(goodput_of("unix-8000", "namely")),
        AtLeast(2.5),
    ),
    target(
        "memif: 4 times 4.5 Gbit/s, which ndn-rs reports without signatures",
        own("memif-8000", "goodput_mbps"),
        Constant(4500.0),
        AtLeast(4.0),
    ),
];

const OF_TABLES: [Target; 4] = [
    target(
        "2 million exchanges/s with a million routes",
        own("core-4c-1M", "exchanges_per_second"),
        Constant(2e6),
        AtLeast(1.0),
    ),
    target(
        "ten million routes keep 0.8 of the rate",
        own("core-4c-10M", "exchanges_per_second"),
        Figure(own("core-4c-1M", "exchanges_per_second")),
        AtLeast(0.8),
    ),
    target(
        "a hit in the content store: 400 ns",
        own("cs-hit-1M", "ns_per_lookup"),
        Constant(400.0),
        AtMost(1.0),
    ),
    target(
        "two workers: 1.8 times one",
        own("core-2workers", "exchanges_per_second"),
        Figure(own("core-4c-1M", "exchanges_per_second")),
        AtLeast(1.8),
    ),
];

impl Target {
    fn ratio(&self, records: &Records) -> Option<f64> {
        let divisor = match self.to {
            Constant(value) => value,
            Figure(key) => records.median(key)?,
            Best(scenario, subjects) => {
                let of = |subject: &&'static str| records.median(Key { scenario, subject, ..self.of });
                let figures = subjects.iter().filter_map(of);
                match self.bound {
                    AtLeast(_) => figures.reduce(f64::max)?,
                    AtMost(_) => figures.reduce(f64::min)?,
                }
            }
        };
        Some(records.median(self.of)? / divisor)
    }

    fn row(&self, records: &Records) -> Vec<String> {
        let ratio = self.ratio(records);
        let (bound, is_met) = match self.bound {
            AtLeast(least) => (format!("at least {least}"), ratio.is_some_and(|ratio| ratio >= least)),
            AtMost(most) => (format!("at most {most}"), ratio.is_some_and(|ratio| ratio <= most)),
        };
        let verdict = match ratio {
            None => "not measured",
            Some(_) if is_met => "met",
            Some(_) => "missed",
        };
        let ratio = ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        vec![self.title.to_owned(), bound, ratio, verdict.to_owned()]
    }
}

fn targets(all: &[Target], records: &Records) -> String {
    table(&["target", "ratio", "measured", ""], all.iter().map(|target| target.row(records)))
}

/// The sentence of the README.
fn headline(records: &Records) -> String {
    let best = |subjects: &[&'static str]| {
        let of = |subject| records.median(Key { subject, ..own("unix-8000", "goodput_mbps") });
        subjects.iter().filter_map(|subject| of(*subject)).fold(0.0, f64::max)
    };
    format!(
        "A file of 256 MiB through one router over Unix sockets in segments of 8000 octets: namely {:.0} Mbit/s, \
         verified;\nNFD {:.0} and NDNd {:.0} Mbit/s with clients that do not verify. ([Machine, command and all \
         figures](docs/performance.md).)\n",
        best(&["namely"]),
        best(&["nfd", "nfd-cubic"]),
        best(&["ndnd", "ndnd-tools"]),
    )
}

/// Replaces the part of `page` between the markers of `name`.
fn replace(page: &str, name: &str, text: &str) -> String {
    let [start, end] =
        [format!("<!-- {name}: written from evidence -->\n"), format!("<!-- end of {name} -->\n")];
    let (head, rest) = page.split_once(&start).unwrap_or_else(|| panic!("a page has no {start:?}"));
    let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("a page has no {end:?}"));
    format!("{head}{start}{text}{end}{tail}")
}

#[test]
fn the_page_of_figures_follows_the_records() {
    let records = Records::read();
    let compared = format!(
        "{} {}\n\n**Goodput in Mbit/s / CPU of a router for an exchange in µs**\n\n{}\n{}\n{}",
        records.conditions("compare"),
        failures(&records),
        goodput(&records),
        routers(&records),
        targets(&COMPARED, &records),
    );
    let of_tables = format!(
        "{}\n\n{}\n{}",
        records.conditions("tables"),
        tables(&records),
        targets(&OF_TABLES, &records)
    );
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the page can be read");
    let page = replace(&page, "comparison", &compared);
    let page = replace(&page, "links", &format!("{}\n\n{}", records.conditions("links"), links(&records)));
    let page = replace(&page, "trees", &format!("{}\n\n{}", records.conditions("trees"), trees(&records)));
    compare(PAGE, &replace(&page, "tables", &of_tables));
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README can be read");
    compare("README.md", &replace(&readme, "figure", &headline(&records)));
}

#[test]
fn a_target_names_its_verdict() {
    let line = |scenario: &str, subject: &str, metric: &str, median: f64| serde_json::json!({"scenario": scenario, "subject": subject, "metric": metric, "median": median});
    let record = Record {
        commit: "c".into(),
        date: "d".into(),
        machine: "m".into(),
        load: "0.5 0 0".into(),
        load_after: "1.5 0 0".into(),
        failed: 0,
        figures: vec![
            line("unix-8000", "namely", "goodput_mbps", 6000.0),
            line("unix-8000", "nfd", "goodput_mbps", 1000.0),
            line("unix-8000", "ndnd", "goodput_mbps", 1500.0),
            line("ping-unix", "namely", "p50_us", 120.0),
            line("ping-unix", "ndnd", "p50_us", 200.0),
        ],
    };
    let records = Records(BTreeMap::from([("compare".to_owned(), record)]));
    let verdict = |title: &str| {
        let target = COMPARED.iter().find(|target| target.title == title).expect("a target");
        target.row(&records)[2..].join(" ")
    };
    assert_eq!(verdict("Unix: 3 times NFD"), "6.00 met");
    assert_eq!(verdict("Unix: 5 times the better peer"), "4.00 missed", "NDNd is the better peer");
    assert_eq!(verdict("ping: half of NDNd's p50"), "0.60 missed", "a longer time is worse");
    assert_eq!(verdict("UDP: 0.6 of the relay"), " not measured");
    assert!(records.conditions("compare").ends_with("at most 0.5 before a run, 1.5 after it."));
}
