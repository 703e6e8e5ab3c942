//! `ndp grid`: three producers below a grid of nine forwarders, and five consumers at one of them
//! that all fetch everything at once. It measures the share of multicast, the rate and the loss.
//!
//! As the paper does with NFD's counters, it counts the packets received on faces to the group,
//! hellos included.

use std::path::{Path, PathBuf};

use clap::Args;
use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_testbed::{Interrupt, Report};
use serde_json::{Value, json};

use super::arm::{Arm, GROUP, check, error, folder, testbed};
use super::plot;
use super::results::{METRICS, Row, hellos};
use crate::statistics;

/// Options of `ndp grid`.
#[derive(Debug, Args)]
pub struct Grid {
    /// Runs of each arm; they alternate
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Each producer's file, octets
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub octets: u64,
    /// Content of a packet, octets; ndnputchunks' own by default
    #[arg(long, default_value_t = 4400, value_parser = clap::value_parser!(u64).range(100..=8000))]
    pub segment_octets: u64,
    /// Lifetime of Interests, ms; the paper's by default
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub lifetime_ms: u64,
    /// Time between hellos, ms
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub heartbeat_ms: u64,
    /// The plain arm learns nothing: each Interest goes to every group
    #[arg(long)]
    pub flooding: bool,
    /// Maximum time of a run, seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(5..=3600))]
    pub seconds: u64,
    /// Also draw it into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Keep what each run leaves below this folder: logs, counters, transfers
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Print the testbed's file, with discovery, and do nothing else
    #[arg(long)]
    pub file: bool,
    /// One JSON object a run instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Returns the other end of each device, so that each node has eth0, eth1 and so on.
fn links() -> Vec<(String, String)> {
    let mut links = Vec::new();
    let mut join = |a: String, b: String| links.push((a, b));
    for n in 1..=9_usize {
        if n % 3 != 0 {
            join(format!("r{n}"), format!("r{}", n + 1));
        }
        if n <= 6 {
            join(format!("r{n}"), format!("r{}", n + 3));
        }
    }
    (1..=3).for_each(|n| join(format!("p{n}"), format!("r{}", n + 6)));
    (1..=5).for_each(|n| join(format!("c{n}"), "r2".to_owned()));
    links
}

/// Every node's name.
fn nodes() -> Vec<String> {
    let kinds = [("c", 5), ("r", 9), ("p", 3)];
    kinds.into_iter().flat_map(|(kind, count)| (1..=count).map(move |n| format!("{kind}{n}"))).collect()
}

/// The nodes and links of figure 9, without programs.
pub(super) fn topology(arm: Arm) -> String {
    let links = links();
    let devices = |node: &str| links.iter().filter(|(a, b)| a == node || b == node).count();
    let mut file = String::new();
    let mut node = |name: String, column: usize, row: usize| {
        file += &arm.learning(&name, column, row, devices(&name));
    };
    (1..=5).for_each(|n| node(format!("c{n}"), n - 1, 0));
    (1..=9).for_each(|n| node(format!("r{n}"), 1 + (n - 1) % 3, 1 + (n - 1) / 3));
    (1..=3).for_each(|n| node(format!("p{n}"), n, 4));
    for (a, b) in &links {
        file += &format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"100mbit\"\n");
    }
    file
}

/// The whole testbed file, with programs. When all links are up, all consumers fetch all producers'
/// files at the same time.
fn file(arm: Arm, options: &Grid) -> String {
    let Grid { octets, seconds, segment_octets, lifetime_ms, .. } = options;
    let mut file = format!("[testbed]\nname = \"grid-17\"\nduration = \"{seconds}s\"\n") + &topology(arm);
    for p in 1..=3 {
        file += &format!(
            "[[program]]\nname = \"serve\"\nnode = \"p{p}\"\nbackground = true\nready = \"serving \"\n\
             run = \"mkdir data && head -c {octets} /dev/urandom > data/f && exec namely serve data --prefix /p{p} --segment-size {segment_octets}\"\n"
        );
    }
    file += &format!(
        "[[program]]\nname = \"links\"\nnodes = {:?}\nretry = \"{seconds}s\"\nrun = '''{}'''\n",
        nodes(),
        arm.links_are_there()
    );
    for p in 1..=3 {
        file += &format!(
            "[[program]]\nname = \"get-{p}\"\nnodes = [\"c1\", \"c2\", \"c3\", \"c4\", \"c5\"]\nafter = [\"serve\", \"links\"]\n\
             retry = \"{seconds}s\"\n\
             run = \"namely --json get /p{p}/f --lifetime {lifetime_ms} -o f{p} > got-{p}.json && cmp f{p} ../p{p}/data/f\"\n"
        );
    }
    file
}

pub(super) fn run(options: &Grid, interrupt: &Interrupt) -> Result<(), Error> {
    let discovery = Arm::Discovery { heartbeat_ms: options.heartbeat_ms };
    if options.file {
        output::lines(file(discovery, options));
        return Ok(());
    }
    let plain = if options.flooding { Arm::Flooding } else { Arm::Plain };
    let mut rows: [(Arm, Vec<Row>); 2] = [discovery, plain].map(|arm| (arm, Vec::new()));
    let mut failed = [0_u32; 2];
    for run in 0..options.runs {
        for ((arm, rows), failed) in rows.iter_mut().zip(&mut failed) {
            check(interrupt)?;
            let kept = options.results.as_ref().map(|folder| folder.join(format!("{}-{run}", arm.name())));
            let measured = once(&file(*arm, options), kept.as_deref(), interrupt)?;
            if options.json {
                output::line(value(*arm, run, measured.as_ref()));
            }
            match measured {
                Some(row) => rows.push(row),
                None => *failed += 1,
            }
        }
    }
    if let Some(path) = &options.plot {
        plot::grid(path, &rows)?;
    }
    if !options.json {
        output::line(format_args!("machine: {}", Machine::read()));
        output::line(format_args!(
            "17 nodes, 100 Mbit/s, {} octets from each of 3 producers to each of 5 consumers at once; {} runs of each, \
             alternating; mean±95 % confidence; runs that were not complete: {} with discovery, {} plain\n",
            options.octets, options.runs, failed[0], failed[1]
        ));
        output::lines(table(&rows[0].1, &rows[1].1));
    }
    Ok(())
}

/// Runs it once, in a folder that is removed with it or is retained. Returns `None` if a transfer
/// was incomplete.
fn once(file: &str, kept: Option<&Path>, interrupt: &Interrupt) -> Result<Option<Row>, Error> {
    let folder = folder()?;
    let run_folder = kept.unwrap_or(folder.path());
    let report = namely_testbed::run(testbed(file)?, run_folder, interrupt).map_err(error)?;
    if report.is_interrupted {
        return Err(Error::Interrupted);
    }
    Ok(report.is_well().then(|| row(&report)))
}

fn row(report: &Report) -> Row {
    let (interests, data) = multicast(report);
    let mut got = Vec::new();
    for consumer in 1..=5 {
        let folder = report.folder.join(format!("c{consumer}"));
        (1..=3).for_each(|p| got.extend(lines(&folder.join(format!("got-{p}.json")))));
    }
    let average = |key: &str| {
        let values: Vec<f64> = got.iter().filter_map(|value| value[key].as_f64()).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let consumers = report.nodes.iter().filter(|node| node.name.starts_with('c'));
    let unsatisfied: u64 = consumers.map(|node| unanswered(&report.folder.join(&node.name))).sum();
    let ended: u64 = report.nodes.iter().filter_map(|node| node.count("unsatisfied_interests")).sum();
    [
        interests as f64,
        data as f64,
        average("goodput_mbps"),
        average("rtt_us") / 1000.0,
        unsatisfied as f64,
        ended as f64,
    ]
}

/// Interests that a node has sent to its links beyond the Data received from there.
fn unanswered(folder: &Path) -> u64 {
    let faces = lines(&folder.join("faces.json"));
    let is_link = |face: &&Value| face["remote"].as_str().is_some_and(|remote| remote.starts_with("ether:"));
    let count = |face: &Value, way: &str, what: &str| face[way][what].as_u64().unwrap_or(0);
    let (sent, came) = faces.iter().filter(is_link).fold((0, 0), |(sent, came), face| {
        (sent + count(face, "out", "interests"), came + count(face, "in", "data"))
    });
    sent.saturating_sub(came)
}

/// The lines of a file, each JSON.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Interests and Data received on faces to the group, and hellos, at all nodes.
fn multicast(report: &Report) -> (u64, u64) {
    let mut sums = (0, 0);
    for node in &report.nodes {
        let folder = report.folder.join(&node.name);
        sums.0 += hellos(&lines(&folder.join("counters.json")));
        for face in lines(&folder.join("faces.json")) {
            if face["remote"].as_str().is_some_and(|remote| remote.contains(GROUP)) {
                sums.0 += face["in"]["interests"].as_u64().unwrap_or(0);
                sums.1 += face["in"]["data"].as_u64().unwrap_or(0);
            }
        }
    }
    sums
}

fn value(arm: Arm, run: u32, row: Option<&Row>) -> Value {
    let mut value = json!({"arm": arm.name(), "run": run, "complete": row.is_some()});
    for ((title, ..), measured) in METRICS.iter().zip(row.into_iter().flatten()) {
        value[title.replace(", ", "_").replace([' ', '/'], "_").to_lowercase()] = json!(measured);
    }
    value
}

/// A line for each metric: with discovery, plain, the difference, and the paper's.
fn table(discovery: &[Row], plain: &[Row]) -> String {
    let mut text = format!(
        "{:<22}  {:>16}  {:>16}  {:>7}  {:>14}  {:>14}  {:>7}\n",
        "", "with discovery", "plain", "change", "paper: NDP", "NDNLP", "change"
    );
    for (n, (title, paper_with, paper_without)) in METRICS.iter().enumerate() {
        let of = |rows: &[Row]| statistics::mean(&rows.iter().map(|row| row[n]).collect::<Vec<_>>());
        let (with, without) = (of(discovery), of(plain));
        let number = |text: &str| text.split('±').next().and_then(|mean| mean.parse().ok()).unwrap_or(0.0);
        text += &format!(
            "{title:<22}  {:>16}  {:>16}  {:>7}  {paper_with:>14}  {paper_without:>14}  {:>7}\n",
            statistics::text(with.0, with.1),
            statistics::text(without.0, without.1),
            change(with.0, without.0),
            change(number(paper_with), number(paper_without)),
        );
    }
    text
}

fn change(with: f64, without: f64) -> String {
    if without > 0.0 { format!("{:+.0} %", (with / without - 1.0) * 100.0) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Grid {
        Grid {
            runs: 1,
            octets: 1000,
            segment_octets: 4400,
            lifetime_ms: 10_000,
            heartbeat_ms: 3000,
            flooding: false,
            seconds: 60,
            plot: None,
            results: None,
            file: false,
            json: false,
        }
    }

    #[test]
    fn the_grid_topology_matches_the_paper() {
        let testbed = testbed(&file(Arm::Plain, &options())).unwrap();
        assert_eq!((testbed.nodes.len(), testbed.links.len()), (17, 20));
        let all = namely_testbed::devices(&testbed);
        assert_eq!(all.iter().filter(|device| device.node == "r2").count(), 8);
        assert_eq!(all.iter().filter(|device| device.node == "r5").count(), 4);
        assert_eq!(testbed.programs.iter().map(|p| p.places().count()).sum::<usize>(), 18 + 17);
    }

    #[test]
    fn the_grid_table_includes_the_papers_figures() {
        let text =
            table(&[[50.0, 20.0, 20.0, 3.0, 1.0, 5.0]; 2], &[[100.0, 100.0, 10.0, 10.0, 10.0, 4.0]; 2]);
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect())
            .collect();
        assert_eq!(
            words[1],
            ["multicast Interests", "50.0±0.0", "100.0±0.0", "-50 %", "733.6±181.3", "1403.6±320.9", "-48 %"]
        );
        assert_eq!(words[3][3..], ["+100 %", "10.4±1.8", "7.2±0.6", "+44 %"]);
        assert_eq!(words[6][1..], ["5.0±0.0", "4.0±0.0", "+25 %", "-", "-", "-"]);
    }
}
