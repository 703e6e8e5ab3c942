//! Links: the cost of fetching an object over each kind of link between two routers, compared with
//! the kernel's TCP on the same network. It also compares the client's own window with the best
//! fixed one.
//!
//! Each run builds a new network: two network namespaces with a pair of virtual devices of the
//! row's MTU, the routers with their defaults, the producer, and the client. Each round measures
//! every row once. Every fetched file is compared with its source. The command removes the network
//! when it ends, unless SIGKILL ends it.

mod figures;
mod lab;
mod options;

use namely_testbed::Interrupt;

use self::figures::{Runs, table};
use self::lab::Lab;
pub use self::options::Links;
use crate::error::Error;
use crate::files::{Object, directory};
use crate::machine::Machine;
use crate::output;

/// Measures the rows of `options` and prints the results.
pub fn run(options: &Links) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let say = |line: &str| options.repeats.say(line);
    say(&format!("command: {}", std::env::args().skip(1).collect::<Vec<_>>().join(" ")));
    say(&format!("machine: {}", Machine::read()));
    let base = directory("namely-links-", options.dir.as_deref())?;
    let object = Object::create(base.path(), 1, options.object_octets())?;
    let mut all: Vec<Runs> = options.rows().into_iter().map(Runs::of).collect();
    say(&format!(
        "runs: {} of each of {} rows, alternating; an object of {} MiB; median (least-most)",
        options.repeats.runs(),
        all.len(),
        object.octets >> 20
    ));
    for round in 0..options.repeats.runs() as usize {
        for n in 0..all.len() {
            // Each round begins with the next row.
            let n = (n + round) % all.len();
            let runs = &mut all[n];
            let dir = directory("namely-links-", options.dir.as_deref())?;
            let lab = Lab::build(runs.row, dir.path(), &interrupt)?;
            match lab.measure(&object) {
                Ok(figures) => {
                    output::say(format_args!(
                        "{}: {:.0} Mbit/s, run {}",
                        runs.row,
                        figures.goodput_mbps,
                        round + 1
                    ));
                    runs.measured.push(figures);
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    output::say(format_args!("{}: run {} failed: {error}", runs.row, round + 1));
                    runs.failed += 1;
                }
            }
        }
    }
    if options.repeats.json {
        all.iter().for_each(|runs| output::line(runs.value(object.octets)));
    } else {
        output::line(format_args!("\n{}", table(&all)));
    }
    say(&format!("machine at the end: {}", Machine::read()));
    Ok(())
}
