//! `ndp mtu`: files from producers to consumers whose devices have different MTUs, on one segment.
//!
//! Whoever sends to a group sends frames of its own MTU; a device drops frames that are longer than
//! its own. So a plain transfer fails where a producer's frames are too long for the consumer, and
//! succeeds with discovery, where both agree.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_testbed::Interrupt;
use serde_json::json;

use super::arm::{Arm, GROUP, check, error, folder, testbed};
use super::plot;
use super::results::Case;

/// Options of `ndp mtu`.
#[derive(Debug, Args)]
pub struct Mtu {
    /// MTUs of producers and of consumers, octets; each with each
    #[arg(long, value_delimiter = ',', default_value = "68,127,1280,1500,9000", value_parser = clap::value_parser!(u32).range(68..=65535))]
    pub mtus: Vec<u32>,
    /// The file, octets
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub octets: u64,
    /// How long a transfer may take, seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Runs of each pair and arm
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Also draw it into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// One JSON object a line instead of tables
    #[arg(long)]
    pub json: bool,
}

const ARMS: [Arm; 2] = [Arm::Discovery { heartbeat_ms: 3000 }, Arm::Plain];

pub(super) fn run(options: &Mtu, interrupt: &Interrupt) -> Result<(), Error> {
    let mut cases = Vec::new();
    for arm in ARMS {
        for &producer in &options.mtus {
            for &consumer in &options.mtus {
                let mut succeeded = 0;
                for _ in 0..options.runs {
                    check(interrupt)?;
                    succeeded += u32::from(transfer(options, (producer, consumer), arm, interrupt)?);
                }
                let case = Case { producer, consumer, arm, succeeded, runs: options.runs };
                if options.json {
                    println!("{}", value(&case));
                }
                cases.push(case);
            }
        }
    }
    if let Some(path) = &options.plot {
        plot::matrix(path, &options.mtus, &cases)?;
    }
    if !options.json {
        println!("machine: {}", Machine::read());
        println!(
            "{} octets, verified, within {} s; {} runs\n",
            options.octets, options.seconds, options.runs
        );
        print!("{}", tables(&options.mtus, &cases));
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

/// One file from one producer to one consumer.
fn transfer(
    options: &Mtu,
    (producer, consumer): (u32, u32),
    arm: Arm,
    interrupt: &Interrupt,
) -> Result<bool, Error> {
    let Mtu { octets, seconds, .. } = options;
    let nodes = Arm::node("p", (0, 0), &arm.config(1, "prefixes = [\"/p\"]\n"))
        + &Arm::node("c", (1, 0), &arm.config(1, "open = true\n"));
    // With discovery the consumer has the producer's route from its hello.
    let route = match arm {
        Arm::Discovery { .. } => "true".to_owned(),
        Arm::Plain => format!(
            "face=$(namely --json face list | sed -n '/{GROUP}/s/.*\"face_id\":\\([0-9]*\\).*/\\1/p') && namely route add /p $face"
        ),
    };
    let file = format!(
        "[testbed]\nduration = \"{}s\"\n{nodes}[[segment]]\nname = \"lan\"\nnodes = [\"p\", \"c\"]\n\
         mtus = {{ p = {producer}, c = {consumer} }}\n\
         [[program]]\nname = \"serve\"\nnode = \"p\"\nbackground = true\nready = \"serving \"\n\
         run = \"mkdir data && head -c {octets} /dev/urandom > data/f && exec namely serve data --prefix /p\"\n\
         [[program]]\nname = \"route\"\nnode = \"c\"\nretry = \"10s\"\nrun = '''{route}'''\n\
         [[program]]\nname = \"get\"\nnode = \"c\"\nafter = [\"serve\", \"route\"]\nretry = \"{seconds}s\"\n\
         run = \"timeout {seconds} namely get /p/f -o f && cmp f ../p/data/f\"\n",
        2 * seconds + 10
    );
    let folder = folder()?;
    let report = namely_testbed::run(testbed(&file)?, folder.path(), interrupt).map_err(error)?;
    if report.is_interrupted {
        return Err(Error::Interrupted);
    }
    let get = report.programs.iter().find(|program| program.name == "get");
    let limit = Duration::from_secs(*seconds).as_secs_f64();
    Ok(get.is_some_and(|get| get.exit == Some(0) && get.seconds.is_some_and(|s| s <= limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_its_place_in_the_tables() {
        let case = |producer, consumer, arm, succeeded| Case { producer, consumer, arm, succeeded, runs: 3 };
        let cases = [case(127, 9000, ARMS[0], 3), case(9000, 127, ARMS[1], 0)];
        let text = tables(&[127, 9000], &cases);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "                127        -      3/3");
        assert_eq!(lines[8], "               9000      0/3        -");
    }
}
