//! `ndp mtu`: files from producers to consumers whose devices have different MTUs, on one segment.
//!
//! A sender to a group sends frames of its own MTU, and a device drops frames that are longer than
//! its own MTU. So a plain transfer fails where a producer's frames are too long for the consumer.
//! It succeeds with discovery, where both agree.

use std::path::PathBuf;

use clap::Args;
use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_testbed::Interrupt;
use serde_json::json;

use super::arm::{Arm, check, error, folder, group_faces, testbed};
use super::plot;
use super::results::Case;

/// Options of `ndp mtu`.
#[derive(Debug, Args)]
pub struct Mtu {
    /// MTUs of producers and of consumers, octets; each with each
    #[arg(long, value_delimiter = ',', default_value = "68,127,1280,1500,9000", value_parser = clap::value_parser!(u32).range(68..=65535))]
    pub mtus: Vec<u32>,
    /// The paper's pairs alone: 127, 1500 and 9000 with 1500, both ways
    #[arg(long, conflicts_with = "mtus")]
    pub paper: bool,
    /// The file, octets
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub octets: u64,
    /// Time for which the object is fetched repeatedly; 0: once, seconds
    #[arg(long, default_value_t = 0, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub repeat_seconds: u64,
    /// Maximum time of a transfer, seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Runs of each pair and arm
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Pairs that are measured beside one another, each on a segment of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=50))]
    pub at_once: u64,
    /// Also draw it into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// One JSON object a line instead of tables
    #[arg(long)]
    pub json: bool,
}

const ARMS: [Arm; 2] = [Arm::Discovery { heartbeat_ms: 3000 }, Arm::Plain];

/// MTUs of producers and consumers in the paper's tables 1 and 2. One pair is in both.
const PAPERS: [(u32, u32); 5] = [(127, 1500), (1500, 1500), (9000, 1500), (1500, 127), (1500, 9000)];

pub(super) fn run(options: &Mtu, interrupt: &Interrupt) -> Result<(), Error> {
    let pairs: Vec<(u32, u32)> = if options.paper {
        PAPERS.to_vec()
    } else {
        let mtus = &options.mtus;
        mtus.iter().flat_map(|producer| mtus.iter().map(|consumer| (*producer, *consumer))).collect()
    };
    let case = |arm, (producer, consumer)| Case { producer, consumer, arm, succeeded: 0, runs: options.runs };
    let mut cases: Vec<Case> =
        ARMS.into_iter().flat_map(|arm| pairs.iter().map(move |pair| case(arm, *pair))).collect();
    for some in cases.chunks_mut(options.at_once as usize) {
        for _ in 0..options.runs {
            check(interrupt)?;
            let succeeded = transfers(options, some, interrupt)?;
            some.iter_mut().zip(succeeded).for_each(|(case, is_well)| case.succeeded += u32::from(is_well));
        }
        if options.json {
            some.iter().for_each(|case| output::line(value(case)));
        }
    }
    let mut mtus: Vec<u32> = pairs.iter().flat_map(|(producer, consumer)| [*producer, *consumer]).collect();
    mtus.sort_unstable();
    mtus.dedup();
    if let Some(path) = &options.plot {
        plot::matrix(path, &mtus, &cases)?;
    }
    if !options.json {
        output::line(format_args!("machine: {}", Machine::read()));
        let Mtu { octets, repeat_seconds, seconds, runs, .. } = options;
        let again = match repeat_seconds {
            0 => String::new(),
            seconds => format!(" again and again for {seconds} s"),
        };
        output::line(format_args!(
            "{octets} octets, verified,{again} within {seconds} s each; {runs} runs\n"
        ));
        output::lines(tables(&mtus, &cases));
    }
    Ok(())
}

fn value(case: &Case) -> serde_json::Value {
    json!({
        "producer_mtu": case.producer, "consumer_mtu": case.consumer, "arm": case.arm.name(),
        "succeeded": case.succeeded, "runs": case.runs,
    })
}

/// A table for each arm: producers down, consumers across.
fn tables(mtus: &[u32], cases: &[Case]) -> String {
    let mut text = String::new();
    for arm in ARMS {
        text += &format!("{}: transfers that were complete\nproducer \\ consumer", arm.name());
        mtus.iter().for_each(|mtu| text += &format!("  {mtu:>7}"));
        text += "\n";
        for producer in mtus {
            text += &format!("{producer:>19}");
            for consumer in mtus {
                let is_meant =
                    |case: &&Case| (case.arm, case.producer, case.consumer) == (arm, *producer, *consumer);
                let found = cases.iter().find(is_meant);
                let cell = found.map_or("-".to_owned(), |case| format!("{}/{}", case.succeeded, case.runs));
                text += &format!("  {cell:>7}");
            }
            text += "\n";
        }
        text += "\n";
    }
    text
}

/// Returns for each case whether its consumer has received every object that it requested. Each
/// case has a producer and a segment of its own.
fn transfers(options: &Mtu, cases: &[Case], interrupt: &Interrupt) -> Result<Vec<bool>, Error> {
    let Mtu { octets, repeat_seconds, seconds, .. } = options;
    let mut file = format!("[testbed]\nduration = \"{}s\"\n", 2 * seconds + repeat_seconds + 60);
    let mut programs = String::new();
    for (n, case) in cases.iter().enumerate() {
        let Case { producer, consumer, arm, .. } = case;
        // Each transfer crosses the link.
        let config = |more| arm.config(1, more) + "[tables]\ncs_packets_max = 0\n";
        file += &Arm::node(&format!("p{n}"), 0, n, &config("prefixes = [\"/p\"]\n"));
        file += &Arm::node(&format!("c{n}"), 1, n, &config("open = true\n"));
        // With discovery, the consumer's router learns the route from the producer's hello.
        let route = match arm {
            Arm::Discovery { .. } => "namely --json route list | grep -q '\"/p\"'".to_owned(),
            Arm::Plain | Arm::Flooding => format!("face=$({}) && namely route add /p $face", group_faces()),
        };
        let get = format!("timeout {seconds} namely get /p/f -o f && cmp f ../p{n}/data/f && rm f");
        let get = match repeat_seconds {
            0 => get,
            _ => format!(
                "end=$(($(date +%s) + {repeat_seconds})); while test $(date +%s) -lt $end; do {get} || exit 1; done"
            ),
        };
        programs += &format!(
            "[[segment]]\nname = \"lan{n}\"\nnodes = [\"p{n}\", \"c{n}\"]\nmtus = {{ p{n} = {producer}, c{n} = {consumer} }}\n\
             [[program]]\nname = \"serve-{n}\"\nnode = \"p{n}\"\nbackground = true\nready = \"serving \"\n\
             run = \"mkdir data && head -c {octets} /dev/urandom > data/f && exec namely serve data --prefix /p\"\n\
             [[program]]\nname = \"route-{n}\"\nnode = \"c{n}\"\nretry = \"30s\"\nrun = '''{route}'''\n\
             [[program]]\nname = \"get-{n}\"\nnode = \"c{n}\"\nafter = [\"serve-{n}\", \"route-{n}\"]\nrun = '''{get}'''\n"
        );
    }
    let folder = folder()?;
    let report =
        namely_testbed::run(testbed(&(file + &programs))?, folder.path(), interrupt).map_err(error)?;
    if report.is_interrupted {
        return Err(Error::Interrupted);
    }
    let is_well = |n: usize| {
        let get = report.programs.iter().find(|program| program.name == format!("get-{n}"));
        get.is_some_and(|get| get.exit == Some(0))
    };
    Ok((0..cases.len()).map(is_well).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mtu_pair_has_a_table_cell() {
        let case = |producer, consumer, arm, succeeded| Case { producer, consumer, arm, succeeded, runs: 3 };
        let cases = [case(127, 9000, ARMS[0], 3), case(9000, 127, ARMS[1], 0)];
        let text = tables(&[127, 9000], &cases);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "                127        -      3/3");
        assert_eq!(lines[8], "               9000      0/3        -");
    }
}
