//! Trees of small files: the time to copy one beside an rsync daemon, on each file system.
//!
//! Each run starts the servers afresh, copies the tree into an empty directory, compares the copy
//! with its source, and copies once more, when nothing is left to do. Contenders alternate within
//! every round. Everything is removed when the command ends, unless SIGKILL ends it.

mod calls;
mod contender;
mod figures;
mod files;
mod options;

use std::path::Path;
use std::time::Duration;

use namely_testbed::{Interrupt, Process};

use self::calls::Counting;
use self::contender::{Contender, RunningContender};
use self::figures::{Figures, Kind, Row, Rows};
pub use self::options::Trees;
use crate::error::Error;
use crate::files::directory;
use crate::machine::Machine;
use crate::output;
use crate::report::align;

/// Maximum time of one copy.
const COPY_LIMIT: Duration = Duration::from_secs(600);

/// Measures with `options` and prints the results.
pub fn run(options: &Trees) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let say = |line: &str| options.repeats.say(line);
    say(&format!("command: {}", std::env::args().skip(1).collect::<Vec<_>>().join(" ")));
    say(&format!("machine: {}", Machine::read()));
    let contenders: Vec<Contender> = Contender::ALL.into_iter().filter(|c| c.missing().is_none()).collect();
    for (contender, missing) in Contender::ALL.iter().filter_map(|c| Some((c, c.missing()?))) {
        say(&format!("{}: absent ({missing})", contender.name()));
    }
    if let Some(missing) = calls::missing() {
        say(&format!("system calls are not counted ({missing})"));
    }
    say(&format!(
        "runs: {} of each row, alternating; {} files of {} octets; median (least-most)",
        options.repeats.runs(),
        options.files(),
        options.octets
    ));
    let mut rows = Rows::default();
    for base in options.dirs() {
        measure(options, &base, &contenders, &mut rows, &interrupt)?;
    }
    if options.repeats.json {
        rows.values(options.files(), options.octets).iter().for_each(output::line);
    } else {
        output::line(format_args!("\n{}", align(&rows.table(options.files()))));
        rows.ratios().iter().for_each(output::line);
    }
    say(&format!("machine at the end: {}", Machine::read()));
    Ok(())
}

/// Runs all rounds on the file system of `base`.
fn measure(
    options: &Trees,
    base: &Path,
    contenders: &[Contender],
    rows: &mut Rows,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let system = figures::file_system(base)?;
    let dir = directory("namely-trees-", Some(base))?;
    let tree = dir.path().join("tree");
    files::make(&tree, options.files(), options.octets)?;
    // ext4 does not reuse recently freed inodes, and searches long for others. So no copy is
    // removed before the last one is made.
    let mut kept = Vec::new();
    for round in 0..options.repeats.runs() as usize {
        for n in 0..contenders.len() {
            // Each round begins with another contender.
            let contender = contenders[(n + round) % contenders.len()];
            let row = |kind| Row { system: system.clone(), kind, contender: contender.name() };
            let run = Run { contender, tree: &tree, interrupt };
            let folder = directory("namely-trees-", Some(base))?;
            for (kind, figures) in run.timed(folder.path())? {
                output::say(format_args!(
                    "{}, {}, {}: {:.2} s, run {}",
                    system,
                    kind.name(),
                    contender.name(),
                    figures.wall_s,
                    round + 1
                ));
                rows.add(row(kind), figures);
            }
            if round == 0 && calls::missing().is_none() {
                let folder = directory("namely-trees-", Some(base))?;
                rows.count(row(Kind::Copy), run.counted(folder.path())?);
                kept.push(folder);
            }
            kept.push(folder);
        }
    }
    Ok(())
}

/// A run of one contender.
struct Run<'a> {
    contender: Contender,
    tree: &'a Path,
    interrupt: &'a Interrupt,
}

impl Run<'_> {
    /// Copies into `dir`, which is empty, and copies again.
    fn timed(&self, dir: &Path) -> Result<[(Kind, Figures); 2], Error> {
        let served = RunningContender::start(self.contender, self.tree, dir, self.interrupt)?;
        let copy = dir.join("copy");
        let first = self.copy(&served, &copy, dir)?;
        files::expect_same(self.tree, &copy)?;
        let again = self.copy(&served, &copy, dir)?;
        Ok([(Kind::Copy, first), (Kind::Again, again)])
    }

    fn copy(&self, served: &RunningContender<'_>, copy: &Path, dir: &Path) -> Result<Figures, Error> {
        // Earlier writes must not be written back during the measurement.
        rustix::fs::sync();
        let before = served.cpu();
        let client = served.client(copy);
        let outcome = Process::run(self.contender.name(), client, dir, None, COPY_LIMIT, self.interrupt)?;
        let server_cpu_s = served.cpu().saturating_sub(before).as_secs_f64();
        let (wall_s, client_cpu_s) = (outcome.elapsed.as_secs_f64(), outcome.cpu.as_secs_f64());
        Ok(Figures { wall_s, client_cpu_s, server_cpu_s })
    }

    /// Returns the system calls of client and servers for a copy into an empty directory.
    fn counted(&self, dir: &Path) -> Result<[u64; 2], Error> {
        let served = RunningContender::start(self.contender, self.tree, dir, self.interrupt)?;
        let pids: Vec<u32> = served.servers.iter().map(Process::id).collect();
        let counting = Counting::start(&pids, dir, self.interrupt)?;
        let (client, counts) = calls::counted(&served.client(&dir.join("copy")), dir);
        let of_client = calls::run(client, &counts, dir, self.interrupt)?;
        Ok([of_client, counting.end()])
    }
}
