//! The results of one attack.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::honest::{Log, Trial};
use crate::error::Error;
use crate::stats::percentile;

/// A ping is slow if it takes longer than this multiple of the quiet p99.
const PING_TIMES: f64 = 5.0;

/// A ping below this time is never slow, however fast quiet pings are.
const PING_SLOW: Duration = Duration::from_millis(50);

/// A status request is slow if it takes longer than this.
const STATUS_SLOW: Duration = Duration::from_secs(1);

/// The times at which the phases of a run begin and end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// Start of the quiet phase.
    pub(crate) quiet: Instant,
    /// Start of the attack.
    pub(crate) attack: Instant,
    /// End of the attack.
    pub(crate) recovery: Instant,
    /// End of the observation.
    pub(crate) end: Instant,
    /// End of the last phase. It begins at `end`, and processes only consume CPU time in it.
    pub(crate) spin: Instant,
}

/// One run of one attack.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// The router's subject.
    pub subject: &'static str,
    /// The attack.
    pub attack: &'static str,
    /// Index of the run, from 1.
    pub run: u32,
}

/// Round trips of pings, microseconds. A lost ping counts with its whole waiting time.
#[derive(Clone, Debug, Serialize)]
pub struct Pings {
    /// Median in the quiet phase.
    pub ping_p50_quiet_us: Option<f64>,
    /// 99th percentile in the quiet phase.
    pub ping_p99_quiet_us: Option<f64>,
    /// Median under attack.
    pub ping_p50_attack_us: Option<f64>,
    /// 99th percentile under attack.
    pub ping_p99_attack_us: Option<f64>,
    /// Number of pings lost during the attack or afterwards.
    pub pings_lost: u64,
    /// Failure of the first lost ping.
    pub ping_failure: Option<String>,
}

/// The router's memory, MiB.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Occupancy {
    /// Resident memory before the attack.
    pub memory_before_mib: f64,
    /// Maximum resident memory.
    pub memory_peak_mib: f64,
    /// Resident memory at the end of the observation.
    pub memory_after_mib: f64,
    /// Memory in use by cached packets and pending Interests before the attack, if the router
    /// reports it.
    pub in_use_before_mib: Option<f64>,
    /// The same at the end of the observation.
    pub in_use_after_mib: Option<f64>,
}

/// The figures of one run of one attack. In a line of JSON, the fields of all parts are on one
/// level.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The run.
    #[serde(flatten)]
    pub case: Case,
    /// Goodput of all consumers together in the quiet phase, Mbit/s.
    pub goodput_quiet_mbps: f64,
    /// The same under attack.
    pub goodput_attack_mbps: f64,
    /// Goodput under attack divided by quiet goodput.
    pub goodput_ratio: Option<f64>,
    /// Goodput while other processes consume as much CPU time as the attackers did and send
    /// nothing, divided by quiet goodput. `None` if not measured.
    pub goodput_spin_ratio: Option<f64>,
    /// 99th percentile of the round trips of pings in the same phase, microseconds.
    pub ping_p99_spin_us: Option<f64>,
    /// Number of fetches that overlap the attack or the time after it.
    pub fetches: u64,
    /// Number of those fetches that failed.
    pub fetches_failed: u64,
    /// Failure of the first failed fetch.
    pub failure: Option<String>,
    /// The pings.
    #[serde(flatten)]
    pub pings: Pings,
    /// Number of false Data that the consumer of the producer on the link refused.
    pub data_refused: u64,
    /// The longest duration of a status request, ms, including failed requests.
    pub status_max_ms: f64,
    /// Number of status requests that failed.
    pub status_failed: u64,
    /// The router's memory.
    #[serde(flatten)]
    pub memory: Occupancy,
    /// Time from the end of the attack to the end of the last lost or slow trial, seconds. `None`
    /// if a trial was lost or slow at the end of the observation.
    pub normal_after_s: Option<f64>,
    /// The longest iteration of a worker, microseconds, if the router reports it.
    pub turn_max_us: Option<f64>,
    /// The maximum CPU time of an iteration, microseconds, over the sampled iterations.
    pub turn_max_cpu_us: Option<f64>,
    /// Counts of the attackers, by label.
    pub sent: BTreeMap<String, u64>,
}

/// A failed run.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) case: Case,
    reason: String,
}

impl Failure {
    pub(super) fn new(case: Case, error: &Error) -> Self {
        Failure { case, reason: error.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { subject, attack, run } = self.case;
        write!(f, "{attack}: {subject} run {run} failed: {}", self.reason)
    }
}

/// The router's memory over time, MiB.
pub(crate) type Memory = Vec<(Instant, f64)>;

impl Figures {
    /// Evaluates the trials in each of `phases`.
    pub(crate) fn new(case: Case, log: &Log, memory: &Memory, phases: &Phases) -> Self {
        let Phases { quiet, attack: begun, recovery, end, spin } = *phases;
        let quiet_mbps = goodput_mbps(&log.fetches, quiet, begun);
        let attack_mbps = goodput_mbps(&log.fetches, begun, recovery);
        let spin_mbps = (spin > end).then(|| goodput_mbps(&log.fetches, end, spin));
        let fetches = during(&log.fetches, begun, end);
        let statuses = during(&log.statuses, begun, end);
        let failed: Vec<&Trial> = failed(&fetches);
        let lost = self::failed(&during(&log.pings, begun, end));
        let round_trips = |from, to| -> Vec<f64> {
            during(&log.pings, from, to).iter().map(|ping| ping.took.as_secs_f64() * 1e6).collect()
        };
        let (quiet_us, attack_us) = (round_trips(quiet, begun), round_trips(begun, recovery));
        let longest = statuses.iter().map(|s| s.took.as_secs_f64() * 1e3).fold(0.0, f64::max);
        let ping_p99_quiet_us = percentile(&quiet_us, 99.0);
        Figures {
            case,
            goodput_quiet_mbps: quiet_mbps,
            goodput_attack_mbps: attack_mbps,
            goodput_ratio: (quiet_mbps > 0.0).then(|| attack_mbps / quiet_mbps),
            goodput_spin_ratio: spin_mbps.filter(|_| quiet_mbps > 0.0).map(|mbps| mbps / quiet_mbps),
            ping_p99_spin_us: percentile(&round_trips(end, spin), 99.0),
            fetches: fetches.len() as u64,
            fetches_failed: failed.len() as u64,
            failure: failed.first().map(|trial| failure_text(trial)),
            pings: Pings {
                ping_p50_quiet_us: percentile(&quiet_us, 50.0),
                ping_p99_quiet_us,
                ping_p50_attack_us: percentile(&attack_us, 50.0),
                ping_p99_attack_us: percentile(&attack_us, 99.0),
                pings_lost: lost.len() as u64,
                ping_failure: lost.first().map(|trial| failure_text(trial)),
            },
            data_refused: log.refused,
            status_max_ms: longest,
            status_failed: self::failed(&statuses).len() as u64,
            memory: Occupancy::of(memory, begun),
            normal_after_s: normal_after(log, phases, ping_p99_quiet_us),
            turn_max_us: None,
            turn_max_cpu_us: None,
            sent: BTreeMap::new(),
        }
    }
}

impl Occupancy {
    /// Evaluates the observed memory for an attack that began at `begun`. The caller sets the
    /// memory in use.
    fn of(memory: &Memory, begun: Instant) -> Self {
        let before = memory.iter().filter(|(at, _)| *at <= begun).map(|(_, mib)| *mib).next_back();
        Occupancy {
            memory_before_mib: before.unwrap_or(0.0),
            memory_peak_mib: memory.iter().map(|(_, mib)| *mib).fold(0.0, f64::max),
            memory_after_mib: memory.last().map_or(0.0, |(_, mib)| *mib),
            in_use_before_mib: None,
            in_use_after_mib: None,
        }
    }

    /// Returns the growth of the router's memory by the attack, less the growth of the memory in
    /// use.
    pub(super) fn left_mib(&self) -> Option<f64> {
        let in_use_mib = self.in_use_after_mib? - self.in_use_before_mib?;
        Some(self.memory_after_mib - self.memory_before_mib - in_use_mib)
    }
}

/// Returns the trials that overlap an interval.
fn during(trials: &[Trial], from: Instant, to: Instant) -> Vec<&Trial> {
    trials.iter().filter(|trial| trial.start < to && trial.end() > from).collect()
}

fn failure_text(trial: &Trial) -> String {
    format!("{}: {}", trial.role, trial.failure.as_deref().unwrap_or_default())
}

fn failed<'a>(trials: &[&'a Trial]) -> Vec<&'a Trial> {
    trials.iter().copied().filter(|trial| trial.failure.is_some()).collect()
}

/// Returns the goodput of an interval. A fetch that extends beyond the interval counts in
/// proportion.
fn goodput_mbps(fetches: &[Trial], from: Instant, to: Instant) -> f64 {
    let seconds = to.saturating_duration_since(from).as_secs_f64();
    let octets: f64 = during(fetches, from, to)
        .iter()
        .map(|fetch| {
            let within = fetch.end().min(to).saturating_duration_since(fetch.start.max(from));
            fetch.octets as f64 * within.as_secs_f64() / fetch.took.as_secs_f64().max(1e-9)
        })
        // The sum of an empty list is -0.0 (IEEE 754), which JSON would show.
        .fold(0.0, |sum, octets| sum + octets);
    if seconds > 0.0 { octets * 8.0 / seconds / 1e6 } else { 0.0 }
}

/// Returns the time from the end of the attack to the end of the last lost or slow trial.
fn normal_after(log: &Log, phases: &Phases, ping_p99_quiet_us: Option<f64>) -> Option<f64> {
    let slow = Duration::from_secs_f64(ping_p99_quiet_us.unwrap_or(0.0) * PING_TIMES / 1e6).max(PING_SLOW);
    let is_bad = |trial: &Trial, slow: Duration| trial.failure.is_some() || trial.took > slow;
    let bad = |trials: &[Trial], slow: Duration| {
        trials.iter().filter(|trial| is_bad(trial, slow)).map(Trial::end).max()
    };
    let last = [bad(&log.fetches, Duration::MAX), bad(&log.pings, slow), bad(&log.statuses, STATUS_SLOW)];
    let last = last.into_iter().flatten().max().filter(|last| *last > phases.recovery);
    match last {
        // A failed fetch ends late, so it is unknown whether a later one would succeed.
        Some(last) if last + Duration::from_millis(500) > phases.end => None,
        Some(last) => Some((last - phases.recovery).as_secs_f64()),
        None => Some(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(zero: Instant, start_ms: u64, took_ms: u64, octets: u64, failed: bool) -> Trial {
        let start = zero + Duration::from_millis(start_ms);
        let failure = failed.then(|| "lost".to_owned());
        Trial { role: "unix", start, took: Duration::from_millis(took_ms), octets, failure }
    }

    const CASE: Case = Case { subject: "x", attack: "pit", run: 1 };

    fn phases(zero: Instant) -> Phases {
        let at = |s| zero + Duration::from_secs(s);
        Phases { quiet: at(0), attack: at(10), recovery: at(20), end: at(30), spin: at(30) }
    }

    #[test]
    fn a_json_line_orders_all_attack_figures() {
        let figures = Figures::new(CASE, &Log::default(), &Vec::new(), &phases(Instant::now()));
        let line = serde_json::to_string(&figures).unwrap();
        assert!(
            line.starts_with(r#"{"subject":"x","attack":"pit","run":1,"goodput_quiet_mbps":0.0,"#),
            "{line}"
        );
        let pings = r#""failure":null,"ping_p50_quiet_us":null,"ping_p99_quiet_us":null,"#;
        assert!(line.contains(pings), "{line}");
        let memory = r#""memory_after_mib":0.0,"in_use_before_mib":null,"in_use_after_mib":null,"normal_after_s":0.0,"#;
        assert!(line.contains(memory), "{line}");
    }

    #[test]
    fn a_fetch_across_phases_counts_in_both() {
        let zero = Instant::now();
        let log = Log { fetches: vec![trial(zero, 8000, 4000, 5_000_000, false)], ..Log::default() };
        let figures = Figures::new(CASE, &log, &Vec::new(), &phases(zero));
        assert_eq!((figures.goodput_quiet_mbps, figures.goodput_attack_mbps), (2.0, 2.0));
        assert_eq!((figures.fetches, figures.fetches_failed), (1, 0));
    }

    #[test]
    fn fetches_under_processor_load_count_separately() {
        let zero = Instant::now();
        let fetches =
            vec![trial(zero, 1000, 1000, 5_000_000, false), trial(zero, 31_000, 1000, 2_500_000, false)];
        let log = Log { fetches, pings: vec![trial(zero, 32_000, 7, 0, false)], ..Log::default() };
        let phases = Phases { spin: zero + Duration::from_secs(40), ..phases(zero) };
        let figures = Figures::new(CASE, &log, &Vec::new(), &phases);
        assert_eq!((figures.goodput_spin_ratio, figures.ping_p99_spin_us), (Some(0.5), Some(7000.0)));
        assert_eq!((figures.fetches, figures.goodput_ratio), (0, Some(0.0)));
        assert_eq!(Figures::new(CASE, &log, &Vec::new(), &self::phases(zero)).goodput_spin_ratio, None);
    }

    #[test]
    fn failures_before_the_attack_are_excluded() {
        let zero = Instant::now();
        let fetches = vec![trial(zero, 1000, 1000, 0, true), trial(zero, 9000, 12_000, 0, true)];
        let log = Log { fetches, ..Log::default() };
        let figures = Figures::new(CASE, &log, &Vec::new(), &phases(zero));
        assert_eq!((figures.fetches, figures.fetches_failed), (1, 1));
        assert_eq!(figures.failure.as_deref(), Some("unix: lost"));
        assert_eq!(figures.normal_after_s, Some(1.0));
    }

    #[test]
    fn recovery_ends_with_the_last_bad_ping() {
        let zero = Instant::now();
        let ping = |start, took, failed| trial(zero, start, took, 0, failed);
        let after = |pings| {
            let log = Log { pings, ..Log::default() };
            Figures::new(CASE, &log, &Vec::new(), &phases(zero)).normal_after_s
        };
        assert_eq!(after(vec![ping(15_000, 4000, true), ping(25_000, 10, false)]), Some(0.0));
        assert_eq!(after(vec![ping(21_000, 1000, false), ping(25_000, 10, false)]), Some(2.0));
        assert_eq!(after(vec![ping(26_000, 4000, true)]), None);
    }

    #[test]
    fn memory_figures_give_start_peak_and_end() {
        let zero = Instant::now();
        let memory = [(1, 10.0), (9, 20.0), (15, 90.0), (29, 30.0)];
        let memory: Memory = memory.map(|(s, mib)| (zero + Duration::from_secs(s), mib)).to_vec();
        let figures = Figures::new(CASE, &Log::default(), &memory, &phases(zero));
        let memory = figures.memory;
        assert_eq!((memory.memory_before_mib, memory.memory_peak_mib), (20.0, 90.0));
        assert_eq!(memory.memory_after_mib, 30.0);
        assert_eq!(memory.left_mib(), None);
        let memory = Occupancy { in_use_before_mib: Some(2.0), in_use_after_mib: Some(9.0), ..memory };
        assert_eq!(memory.left_mib(), Some(3.0), "7 MiB more are in use");
    }
}
