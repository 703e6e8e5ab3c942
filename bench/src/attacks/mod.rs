//! Attacks: the effect on honest users while a router is attacked, at its default limits, over real
//! sockets.
//!
//! Each attack has a router of its own, with producers and consumers. They are observed during a
//! quiet phase, the attack, and the time after it. The attackers are processes of their own
//! ([`crate::attacker`]). Everything stays on the loopback, and ends.

mod figures;
mod honest;
mod in_use;
mod kind;
mod lan;
mod options;
mod plane;
mod report;
mod tree;
mod victim;
mod witness;
mod world;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use namely_testbed::{Interrupt, Process, command};

use self::figures::Failure;
pub use self::figures::{Case, Figures, Occupancy, Pings};
use self::figures::{Memory, Phases};
pub(crate) use self::honest::{Consumers, Honest};
pub(crate) use self::in_use::InUse;
use self::kind::AttackerCounts;
pub use self::kind::{Attack, Plane, RouterAddresses, Segment};
pub use self::options::Attacks;
pub(crate) use self::tree::{DIRECTORIES, FILES};
use self::victim::Victim;
use self::witness::Witness;
use self::world::{ATTACKER_GRACE, most_of};
pub(crate) use self::world::{Link, Setting, World};
use crate::attacker::CPU_MS;
use crate::error::Error;
use crate::files::directory;
use crate::machine::Machine;
use crate::namespace::{self, NetworkScope as Network};
use crate::output;
use crate::subject::{self, SubjectName};

/// Interval between two readings of the router's memory.
const MEMORY_PAUSE: Duration = Duration::from_millis(50);

/// Maximum time until the honest load runs.
const WARM_LIMIT: Duration = Duration::from_secs(60);

/// Runs the attacks of `options` and prints the results.
pub fn run(options: &Attacks) -> Result<(), Error> {
    let network = if options.no_namespace {
        Network::Loopback("asked to stay".to_owned())
    } else {
        // May start this program again inside a namespace and never return.
        namespace::enter()
    };
    let interrupt = Interrupt::on_signals()?;
    let say = |line: &str| if options.json { output::say(line) } else { output::line(line) };
    say(&format!("command: {}", std::env::args().skip(1).collect::<Vec<_>>().join(" ")));
    say(&format!("machine: {}", Machine::read()));
    say(&format!("network: {network:?}"));
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for attack in options.attacks() {
        for run in 1..=options.runs {
            for subject in options.subjects() {
                if let Some(missing) = missing(subject) {
                    say(&format!("{}: absent ({missing})", subject_name(subject)));
                    continue;
                }
                output::say(format_args!("{}: {} run {run}", attack.name(), subject_name(subject)));
                // A failure of one router does not prevent attacks on the others.
                let figures = match attack_once(options, subject, attack, run, &interrupt) {
                    Ok(figures) => figures,
                    Err(error @ (Error::Interrupted | Error::Usage(_))) => return Err(error),
                    Err(error) => {
                        let failure = Failure::new(case(subject, attack, run), &error);
                        output::say(&failure);
                        failed.push(failure);
                        continue;
                    }
                };
                if options.json {
                    report::print_json(&figures)?;
                }
                all.push(figures);
            }
        }
    }
    if !options.json {
        report::print_table(&all, &failed);
    }
    say(&format!("machine at the end: {}", Machine::read()));
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::Subject(format!("{} of {} runs failed", failed.len(), failed.len() + all.len())))
}

fn subject_name(subject: SubjectName) -> &'static str {
    match subject {
        SubjectName::Namely => "namely",
        SubjectName::Nfd => "nfd",
        SubjectName::Ndnd => "ndnd",
        SubjectName::Relay => "relay",
    }
}

fn case(subject: SubjectName, attack: Attack, run: u32) -> Case {
    Case { subject: subject_name(subject), attack: attack.name(), run }
}

fn missing(subject: SubjectName) -> Option<String> {
    subject::subjects(subject).first().and_then(|subject| subject.missing_router())
}

fn attack_once(
    options: &Attacks,
    subject: SubjectName,
    attack: Attack,
    run: u32,
    interrupt: &Interrupt,
) -> Result<Figures, Error> {
    let dir = directory("namely-attacks-", options.dir.as_deref())?;
    let setting = Setting { attacks: &attack.parts(), lines: "", object_octets: options.object_octets() };
    let mut world = World::start(subject, &setting, dir.path(), interrupt)?;
    let more = Consumers::of(&world, attack);
    let is_namely = subject == SubjectName::Namely;
    let honest = Honest::start(&world, more, interrupt);
    let watch = Watch::start(&world.router);
    warm_up(&honest, if more.memif { 8 } else { 6 }, interrupt)?;
    honest.take();
    let quiet = Instant::now();
    watch.during(&world.router, options.quiet(), interrupt)?;
    let in_use = is_namely.then(|| InUse::now(&world, interrupt)).flatten();
    let begun = Instant::now();
    let victim = Victim::start(&world, attack, interrupt);
    let witnesses = Witness::start(&world, attack, interrupt);
    let attackers = Attackers::start(attack, &world, options.attack(), dir.path())?;
    watch.during(&world.router, options.attack(), interrupt)?;
    let mut sent = attackers.finish(interrupt)?;
    witnesses.into_iter().try_for_each(|witness| witness.finish(&mut sent))?;
    if let Some(victim) = victim {
        victim.finish(&mut sent)?;
    }
    let recovery = Instant::now();
    watch.during(&world.router, options.recovery(), interrupt)?;
    let turns_us = ["longest_turn_us", "longest_turn_cpu_us"].map(|counter| most(&world, counter, interrupt));
    let in_use_after = is_namely.then(|| InUse::now(&world, interrupt)).flatten();
    let end = Instant::now();
    let mut spin = end;
    if options.spin {
        let spinners = Attackers::spin(attack, &world, &sent, options.attack(), dir.path())?;
        watch.during(&world.router, options.attack(), interrupt)?;
        spinners.finish(interrupt)?;
        spin = Instant::now();
    }
    let phases = Phases { quiet, attack: begun, recovery, end, spin };
    let log = honest.finish();
    world.router.expect_running()?;
    let memory = watch.memory.into_inner();
    let mut figures = Figures::new(case(subject, attack, run), &log, &memory, &phases);
    [figures.turn_max_us, figures.turn_max_cpu_us] = turns_us;
    [figures.memory.in_use_before_mib, figures.memory.in_use_after_mib] = [in_use, in_use_after].map(mib);
    figures.sent = sent;
    Ok(figures)
}

fn mib(in_use: Option<InUse>) -> Option<f64> {
    in_use.map(|in_use| in_use.mib())
}

/// Waits for `fetches` successful fetches. The cached set is stable from then on.
pub(crate) fn warm_up(honest: &Honest, fetches: usize, interrupt: &Interrupt) -> Result<(), Error> {
    let started = Instant::now();
    while honest.fetched() < fetches {
        if started.elapsed() > WARM_LIMIT {
            let failure = honest.take().fetches.into_iter().find_map(|fetch| fetch.failure);
            let why = failure.unwrap_or_else(|| "they take too long".to_owned());
            return Err(Error::Subject(format!("no honest fetches before any attack: {why}")));
        }
        interrupt.sleep(MEMORY_PAUSE)?;
    }
    Ok(())
}

/// Samples of the router's memory over time.
struct Watch {
    memory: std::cell::RefCell<Memory>,
}

impl Watch {
    fn start(router: &Process) -> Self {
        let first = router.rss_mib().map(|mib| (Instant::now(), mib));
        Watch { memory: std::cell::RefCell::new(first.into_iter().collect()) }
    }

    fn during(&self, router: &Process, length: Duration, interrupt: &Interrupt) -> Result<(), Error> {
        let started = Instant::now();
        while started.elapsed() < length {
            interrupt.sleep(MEMORY_PAUSE)?;
            self.memory.borrow_mut().extend(router.rss_mib().map(|mib| (Instant::now(), mib)));
        }
        Ok(())
    }
}

/// The processes of an attack. They end when dropped.
pub(crate) struct Attackers {
    processes: Vec<(Process, std::path::PathBuf)>,
    length: Duration,
}

impl Attackers {
    /// Starts one process for each part of `attack`.
    pub(crate) fn start(attack: Attack, world: &World, length: Duration, dir: &Path) -> Result<Self, Error> {
        let addresses =
            serde_json::to_string(&world.addresses).map_err(|e| Error::environment("cannot describe", e))?;
        Self::start_each(attack, world, length, dir, |part| {
            ["attacker", part.name(), "--place", &addresses].map(str::to_owned).to_vec()
        })
    }

    /// Starts one process for each part of `attack`. The process consumes the CPU time of its
    /// attacker, and sends nothing.
    fn spin(
        attack: Attack,
        world: &World,
        sent: &AttackerCounts,
        length: Duration,
        dir: &Path,
    ) -> Result<Self, Error> {
        Self::start_each(attack, world, length, dir, |part| {
            let cpu_ms = sent.get(&format!("{}.{CPU_MS}", part.name())).copied().unwrap_or(0);
            vec!["spin".to_owned(), "--cpu-ms".to_owned(), cpu_ms.to_string()]
        })
    }

    fn start_each(
        attack: Attack,
        world: &World,
        length: Duration,
        dir: &Path,
        arguments: impl Fn(Attack) -> Vec<String>,
    ) -> Result<Self, Error> {
        let program =
            std::env::current_exe().map_err(|e| Error::environment("cannot find this program", e))?;
        let mut processes = Vec::new();
        for part in attack.parts() {
            let output = dir.join(format!("attacker-{}", part.name()));
            let mut command = command(&program, dir);
            command.args(arguments(part)).args(["--length-ms", &length.as_millis().to_string()]);
            let start = || Process::start(part.name(), command, dir, Some(&output));
            processes.push((world.as_attacker(part, start)?, output));
        }
        Ok(Attackers { processes, length })
    }

    /// Waits until the processes end. Returns their counts by label.
    pub(crate) fn finish(self, interrupt: &Interrupt) -> Result<AttackerCounts, Error> {
        let mut sent = AttackerCounts::new();
        for (process, output) in self.processes {
            let part = output.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let part = part.trim_start_matches("attacker-").to_owned();
            let log = process.log().to_path_buf();
            process.wait(self.length + ATTACKER_GRACE, interrupt)?;
            let _ = fs::remove_file(log);
            let printed = fs::read_to_string(&output).unwrap_or_default();
            let done: AttackerCounts = serde_json::from_str(printed.trim()).unwrap_or_default();
            sent.extend(done.into_iter().map(|(what, count)| (format!("{part}.{what}"), count)));
        }
        Ok(sent)
    }
}

/// Returns the maximum of a counter over the workers, if the router has it.
fn most(world: &World, counter: &str, interrupt: &Interrupt) -> Option<f64> {
    let namely = world.namely(Link::Unix);
    let output = namely.dir().join("counters");
    most_of(&namely.query(&["--json", "status", "--counters"], &output, ATTACKER_GRACE, interrupt)?, counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_is_the_worst_workers() {
        let printed = "{\"counter\":\"worker.longest_turn_us\",\"value\":7}\nx\n\
                       {\"counter\":\"worker.longest_turn_us\",\"value\":9000}\n{\"counter\":\"y\",\"value\":1}\n";
        assert_eq!(most_of(printed, "longest_turn_us"), Some(9000.0));
        assert_eq!(most_of(printed, "turn_us"), None);
    }
}
