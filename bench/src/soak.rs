//! Soak: honest load and one attack after the other for the requested time. The router must
//! afterwards return to its initial state.
//!
//! The soak detects leaks: memory, descriptors, faces and PIT entries have to return once all peers
//! have closed, and the router has to end on SIGTERM. A failed fetch is a failure, too.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use namely_testbed::Interrupt;

use crate::attacks::{Attack, Attackers, Consumers, Honest, InUse, Link, Setting, World, warm_up};
use crate::error::Error;
use crate::files::directory;
use crate::machine::Machine;
use crate::namespace;
use crate::output;
use crate::subject::SubjectName;

/// Size of the object that is fetched repeatedly.
const OBJECT_OCTETS: u64 = 2_000_000;

/// Maximum duration of an attack.
const ATTACK_MAX: Duration = Duration::from_secs(10);

/// The router's defaults, except for the idle timeouts of UDP faces. The default of ten minutes is
/// too long to wait for.
const SETTINGS: &str = "[faces]\nidle_timeout_s = 10\nidle_unanswered_s = 5\n";

/// Maximum time, after all peers have closed, until the router is back in its initial state.
/// Interests of neighbors pend for a minute, and their faces close afterwards.
const SETTLE_LIMIT: Duration = Duration::from_secs(180);

/// Interval between two readings of the router's state.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Maximum time of the router to answer or to end.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Maximum time of the router to end after SIGTERM. It is killed later.
const STOP_LIMIT: Duration = Duration::from_secs(4);

/// Maximum growth from before the first attack to the end: memory in MiB without cached and pending
/// packets, descriptors, faces, PIT entries. After all attacks in turn, 34 to 52 MiB remain. The
/// target is 20 (docs/security.md).
const MORE_MAX: [f64; 4] = [80.0, 4.0, 2.0, 16.0];

/// Options of `soak`.
#[derive(Debug, Args)]
pub struct Soak {
    /// Duration, hours
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    pub hours: Option<f64>,
    /// Duration, minutes
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub minutes: f64,
    /// Only these attacks, in turns
    #[arg(long, value_delimiter = ',')]
    pub attack: Vec<Attack>,
    /// One JSON object a line instead of text
    #[arg(long)]
    pub json: bool,
    /// Stay in the present network namespace even if root
    #[arg(long)]
    pub no_namespace: bool,
}

impl Soak {
    fn length(&self) -> Result<Duration, Error> {
        let seconds = self.hours.map_or(self.minutes * 60.0, |hours| hours * 3600.0);
        let length = Duration::try_from_secs_f64(seconds).ok().filter(|length| !length.is_zero());
        length.ok_or_else(|| Error::Usage("a soak lasts longer than nothing".to_owned()))
    }

    fn attacks(&self) -> Vec<Attack> {
        let wanted = |attack: &Attack| self.attack.is_empty() || self.attack.contains(attack);
        Attack::value_variants().iter().copied().filter(wanted).collect()
    }
}

/// The router's resources at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
struct Holdings {
    memory_mib: f64,
    descriptors: f64,
    faces: f64,
    pit_entries: f64,
    cached: f64,
    /// Memory in use by cached and pending packets.
    in_use_mib: f64,
}

impl Holdings {
    fn now(world: &World, interrupt: &Interrupt) -> Result<Self, Error> {
        let namely = world.namely(Link::Unix);
        let output = namely.dir().join("holdings");
        namely.run(&["--json", "status"], Some(&output), ANSWER_LIMIT, interrupt)?;
        let printed = fs::read_to_string(&output)
            .map_err(|e| Error::environment("cannot read the output of the router", e))?;
        let status: serde_json::Value = serde_json::from_str(printed.trim())
            .map_err(|e| Error::Subject(format!("the status is no JSON: {e}")))?;
        let number = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
        let gone = || Error::Subject("the router has ended".to_owned());
        let in_use = InUse::now(world, interrupt).unwrap_or_default();
        Ok(Holdings {
            memory_mib: world.router.rss_mib().ok_or_else(gone)?,
            descriptors: world.router.descriptors().ok_or_else(gone)? as f64,
            faces: number(&status["faces"]),
            pit_entries: number(&status["pit_entries"]),
            cached: number(&status["cs"]["entries"]),
            in_use_mib: in_use.mib(),
        })
    }

    /// Returns the resources that grew too much since the start.
    fn leaked(&self, start: &Holdings) -> Vec<String> {
        let own_mib = |holdings: &Holdings| holdings.memory_mib - holdings.in_use_mib;
        let kinds = [
            ("MiB of memory", own_mib(self), own_mib(start)),
            ("descriptors", self.descriptors, start.descriptors),
            ("faces", self.faces, start.faces),
            ("PIT entries", self.pit_entries, start.pit_entries),
        ];
        let too_much = kinds.iter().zip(MORE_MAX).filter(|((_, now, then), more)| now - then > *more);
        too_much.map(|((what, now, then), _)| format!("{what}: {then:.0} before, {now:.0} now")).collect()
    }
}

impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holdings { memory_mib, descriptors, faces, pit_entries, cached, in_use_mib } = self;
        write!(
            f,
            "{memory_mib:6.0} MiB, {in_use_mib:4.0} in use  {descriptors:5.0} descriptors  {faces:5.0} faces  \
             {pit_entries:6.0} PIT entries  {cached:6.0} cached"
        )
    }
}

/// Soaks with `options`. An error names the losses or leaks.
pub fn run(options: &Soak) -> Result<(), Error> {
    let length = options.length()?;
    if !options.no_namespace {
        // May start this program again inside a namespace and never return.
        namespace::enter();
    }
    let interrupt = Interrupt::on_signals()?;
    output::say(format_args!("machine: {}", Machine::read()));
    let dir = directory("namely-soak-", None)?;
    let attacks: Vec<Attack> = options.attacks().into_iter().flat_map(Attack::parts).collect();
    let setting = Setting { attacks: &attacks, lines: SETTINGS, object_octets: OBJECT_OCTETS };
    let world = World::start(SubjectName::Namely, &setting, dir.path(), &interrupt)?;
    let started = Instant::now();
    let start = Holdings::now(&world, &interrupt)?;
    let reporter = ProgressReporter { started, json: options.json };
    reporter.holdings("start", &start, 0, 0);
    let (failures, warm) = load(options, length, &world, &reporter, dir.path(), &interrupt)?;
    // The expected memory is that after the honest load has grown the tables. The other resources
    // are those before the first peer.
    let expected = Holdings { memory_mib: warm.memory_mib, in_use_mib: warm.in_use_mib, ..start };
    let (end, leaked) = settle(&world, &expected, &interrupt)?;
    reporter.holdings("end", &end, 0, failures.len());
    let mut wrong: Vec<String> = leaked.into_iter().map(|what| format!("leaked {what}")).collect();
    wrong.extend(failures.first().map(|first| format!("{} fetches failed, first {first}", failures.len())));
    let stopping = Instant::now();
    world.router.stop();
    if stopping.elapsed() > STOP_LIMIT {
        wrong.push(format!("the router took {:.1} s to end", stopping.elapsed().as_secs_f64()));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::Subject(wrong.join("; "))) }
}

/// Runs the honest load all the time, and each attack in turn, at least once. Returns the failures
/// of fetches, and the router's resources before the first attack.
fn load(
    options: &Soak,
    length: Duration,
    world: &World,
    reporter: &ProgressReporter,
    dir: &std::path::Path,
    interrupt: &Interrupt,
) -> Result<(Vec<String>, Holdings), Error> {
    let honest = Honest::start(world, Consumers::default(), interrupt);
    warm_up(&honest, 3, interrupt)?;
    let warm = Holdings::now(world, interrupt)?;
    reporter.holdings("warm", &warm, 0, 0);
    let attacks = options.attacks();
    let attack_length = (length / (attacks.len() as u32 * 3 / 2).max(1)).min(ATTACK_MAX);
    let mut failures = Vec::new();
    for (turn, attack) in attacks.iter().cycle().enumerate() {
        let attackers = Attackers::start(*attack, world, attack_length, dir)?;
        attackers.finish(interrupt)?;
        interrupt.sleep(attack_length / 2)?;
        let log = honest.take();
        let failed = log.fetches.iter().filter_map(|fetch| fetch.failure.as_ref());
        let before = failures.len();
        failures.extend(failed.map(|why| format!("during {}: {why}", attack.name())));
        // More failures would add no information.
        failures.truncate(1000);
        let now = Holdings::now(world, interrupt)?;
        reporter.holdings(attack.name(), &now, log.fetches.len(), failures.len().saturating_sub(before));
        if turn + 1 >= attacks.len() && reporter.started.elapsed() >= length {
            break;
        }
    }
    let log = honest.finish();
    failures.extend(log.fetches.into_iter().filter_map(|fetch| fetch.failure));
    Ok((failures, warm))
}

/// Waits until the router is back in its initial state. Returns the resources that still exceed it
/// at the end.
fn settle(world: &World, start: &Holdings, interrupt: &Interrupt) -> Result<(Holdings, Vec<String>), Error> {
    let settling = Instant::now();
    loop {
        let now = Holdings::now(world, interrupt)?;
        let leaked = now.leaked(start);
        if leaked.is_empty() || settling.elapsed() > SETTLE_LIMIT {
            return Ok((now, leaked));
        }
        interrupt.sleep(LOOK_PAUSE)?;
    }
}

struct ProgressReporter {
    started: Instant,
    json: bool,
}

impl ProgressReporter {
    fn holdings(&self, when: &str, now: &Holdings, fetches: usize, failed: usize) {
        let seconds = self.started.elapsed().as_secs_f64();
        let text = if self.json {
            serde_json::json!({"at_s": seconds, "when": when, "holds": now, "fetches": fetches, "failed": failed})
                .to_string()
        } else {
            format!("{seconds:8.0} s  {when:12} {now}  {fetches:5} fetches, {failed} failed")
        };
        output::line(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Holdings = Holdings {
        memory_mib: 30.0,
        descriptors: 20.0,
        faces: 5.0,
        pit_entries: 0.0,
        cached: 100.0,
        in_use_mib: 1.0,
    };

    #[test]
    fn growth_past_its_bound_is_a_leak() {
        let at = Holdings { memory_mib: 110.0, descriptors: 24.0, faces: 7.0, pit_entries: 16.0, ..START };
        assert_eq!(at.leaked(&START), Vec::<String>::new());
        let past = Holdings { memory_mib: 111.0, descriptors: 25.0, faces: 8.0, pit_entries: 17.0, ..START };
        assert_eq!(past.leaked(&START).len(), 4, "{:?}", past.leaked(&START));
    }

    #[test]
    fn cached_packets_are_not_a_leak() {
        let now = Holdings { memory_mib: 140.0, cached: 10_100.0, in_use_mib: 31.0, ..START };
        assert_eq!(now.leaked(&START), Vec::<String>::new());
        assert_eq!(Holdings { in_use_mib: 30.0, ..now }.leaked(&START).len(), 1);
    }

    #[test]
    fn a_soak_length_must_be_positive() {
        let soak =
            |hours, minutes| Soak { hours, minutes, attack: Vec::new(), json: false, no_namespace: true };
        assert_eq!(soak(Some(0.5), 10.0).length().ok(), Some(Duration::from_secs(1800)));
        assert_eq!(soak(None, 1.0).length().ok(), Some(Duration::from_secs(60)));
        assert!(soak(None, 0.0).length().is_err() && soak(Some(-1.0), 1.0).length().is_err());
        assert!(soak(Some(f64::NAN), 1.0).length().is_err());
    }
}
