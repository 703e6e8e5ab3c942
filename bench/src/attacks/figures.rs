//! What one attack came to.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::honest::{Log, Trial};
use crate::error::Error;
use crate::stats::percentile;

/// A ping that takes longer than this many times the quiet p99 is not back to normal.
const PING_TIMES: f64 = 5.0;

/// Nor is one of less than this a slow one, however quick quiet ones are.
const PING_SLOW: Duration = Duration::from_millis(50);

/// Nor is a router that takes longer than this to say how it is.
const STATUS_SLOW: Duration = Duration::from_secs(1);

/// Between what times there was what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// The quiet time begins.
    pub(crate) quiet: Instant,
    /// The attack begins.
    pub(crate) attack: Instant,
    /// The attack has ended.
    pub(crate) recovery: Instant,
    /// Nothing is watched any more.
    pub(crate) end: Instant,
    /// Until when somebody took processor time only, since `end`.
    pub(crate) spin: Instant,
}

/// The figures of one run of one attack.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Whose router.
    pub subject: &'static str,
    /// The attack.
    pub attack: &'static str,
    /// Which run, from 1.
    pub run: u32,
    /// Goodput of all consumers together, Mbit/s: quiet, and under attack.
    pub goodput_quiet_mbps: f64,
    /// See above.
    pub goodput_attack_mbps: f64,
    /// The one over the other.
    pub goodput_ratio: Option<f64>,
    /// Goodput while as much processor time was taken as the attackers took and nothing sent, over
    /// the quiet one; `None` if that was not tried.
    pub goodput_spin_ratio: Option<f64>,
    /// Round trips of pings meanwhile, microseconds.
    pub ping_p99_spin_us: Option<f64>,
    /// Fetches that were under way while it was attacked or afterwards.
    pub fetches: u64,
    /// Those of them that failed.
    pub fetches_failed: u64,
    /// Why the first of them did.
    pub failure: Option<String>,
    /// Round trips of pings, microseconds; one that is lost counts as long as it was waited for.
    pub ping_p50_quiet_us: Option<f64>,
    /// See above.
    pub ping_p99_quiet_us: Option<f64>,
    /// See above.
    pub ping_p50_attack_us: Option<f64>,
    /// See above.
    pub ping_p99_attack_us: Option<f64>,
    /// Pings that were lost while it was attacked or afterwards.
    pub pings_lost: u64,
    /// Why the first of them was.
    pub ping_failure: Option<String>,
    /// Data of a producer on the link that was false, and was refused.
    pub data_refused: u64,
    /// The longest `namely status`, ms, failed ones too.
    pub status_max_ms: f64,
    /// Those that failed.
    pub status_failed: u64,
    /// The router's memory, MiB.
    pub memory_before_mib: f64,
    /// Its highest value.
    pub memory_peak_mib: f64,
    /// At the end.
    pub memory_after_mib: f64,
    /// What of it was in use by what was cached and what pended, before the attack and at the end,
    /// where the router says it.
    pub in_use_before_mib: Option<f64>,
    /// See above.
    pub in_use_after_mib: Option<f64>,
    /// From the end of the attack until nothing was lost or slow any more, seconds; `None` if
    /// something still was at the end.
    pub normal_after_s: Option<f64>,
    /// The longest turn of a worker, microseconds, where the router says it.
    pub turn_max_us: Option<f64>,
    /// The most processor time of a turn, of those that it was measured of, microseconds.
    pub turn_max_cpu_us: Option<f64>,
    /// What the attackers sent.
    pub sent: BTreeMap<String, u64>,
}

/// A run that came to nothing.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) subject: &'static str,
    pub(super) attack: &'static str,
    run: u32,
    why: String,
}

impl Failure {
    pub(super) fn new((subject, attack, run): (&'static str, &'static str, u32), why: &Error) -> Self {
        Failure { subject, attack, run, why: why.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} run {} failed: {}", self.attack, self.subject, self.run, self.why)
    }
}

/// The router's memory at a time, MiB.
pub(crate) type Memory = Vec<(Instant, f64)>;

impl Figures {
    /// Counts what was tried in each of `phases`.
    pub(crate) fn new(
        (subject, attack, run): (&'static str, &'static str, u32),
        log: &Log,
        memory: &Memory,
        phases: &Phases,
    ) -> Self {
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
        let before = memory.iter().filter(|(at, _)| *at <= begun).map(|(_, mib)| *mib).next_back();
        let ping_p99_quiet_us = percentile(&quiet_us, 99.0);
        Figures {
            subject,
            attack,
            run,
            goodput_quiet_mbps: quiet_mbps,
            goodput_attack_mbps: attack_mbps,
            goodput_ratio: (quiet_mbps > 0.0).then(|| attack_mbps / quiet_mbps),
            goodput_spin_ratio: spin_mbps.filter(|_| quiet_mbps > 0.0).map(|mbps| mbps / quiet_mbps),
            ping_p99_spin_us: percentile(&round_trips(end, spin), 99.0),
            fetches: fetches.len() as u64,
            fetches_failed: failed.len() as u64,
            failure: failed.first().map(|trial| why(trial)),
            ping_p50_quiet_us: percentile(&quiet_us, 50.0),
            ping_p99_quiet_us,
            ping_p50_attack_us: percentile(&attack_us, 50.0),
            ping_p99_attack_us: percentile(&attack_us, 99.0),
            pings_lost: lost.len() as u64,
            ping_failure: lost.first().map(|trial| why(trial)),
            data_refused: log.refused,
            status_max_ms: longest,
            status_failed: self::failed(&statuses).len() as u64,
            memory_before_mib: before.unwrap_or(0.0),
            memory_peak_mib: memory.iter().map(|(_, mib)| *mib).fold(0.0, f64::max),
            memory_after_mib: memory.last().map_or(0.0, |(_, mib)| *mib),
            in_use_before_mib: None,
            in_use_after_mib: None,
            normal_after_s: normal_after(log, phases, ping_p99_quiet_us),
            turn_max_us: None,
            turn_max_cpu_us: None,
            sent: BTreeMap::new(),
        }
    }
}

impl Figures {
    /// What is left of the attack: memory above that before it, beside what has come into use.
    pub(super) fn left_mib(&self) -> Option<f64> {
        let in_use_mib = self.in_use_after_mib? - self.in_use_before_mib?;
        Some(self.memory_after_mib - self.memory_before_mib - in_use_mib)
    }
}

/// Trials that were under way between two times.
fn during(trials: &[Trial], from: Instant, to: Instant) -> Vec<&Trial> {
    trials.iter().filter(|trial| trial.start < to && trial.end() > from).collect()
}

fn why(trial: &Trial) -> String {
    format!("{}: {}", trial.who, trial.failure.as_deref().unwrap_or_default())
}

fn failed<'a>(trials: &[&'a Trial]) -> Vec<&'a Trial> {
    trials.iter().copied().filter(|trial| trial.failure.is_some()).collect()
}

/// What was fetched between two times; of a fetch that lasted beyond, its share.
fn goodput_mbps(fetches: &[Trial], from: Instant, to: Instant) -> f64 {
    let seconds = to.saturating_duration_since(from).as_secs_f64();
    let octets: f64 = during(fetches, from, to)
        .iter()
        .map(|fetch| {
            let within = fetch.end().min(to).saturating_duration_since(fetch.start.max(from));
            fetch.octets as f64 * within.as_secs_f64() / fetch.took.as_secs_f64().max(1e-9)
        })
        .sum();
    if seconds > 0.0 { octets * 8.0 / seconds / 1e6 } else { 0.0 }
}

/// From the end of the attack to the last end of anything that was lost or slow.
fn normal_after(log: &Log, phases: &Phases, ping_p99_quiet_us: Option<f64>) -> Option<f64> {
    let slow = Duration::from_secs_f64(ping_p99_quiet_us.unwrap_or(0.0) * PING_TIMES / 1e6).max(PING_SLOW);
    let is_bad = |trial: &Trial, slow: Duration| trial.failure.is_some() || trial.took > slow;
    let bad = |trials: &[Trial], slow: Duration| {
        trials.iter().filter(|trial| is_bad(trial, slow)).map(Trial::end).max()
    };
    let last = [bad(&log.fetches, Duration::MAX), bad(&log.pings, slow), bad(&log.statuses, STATUS_SLOW)];
    let last = last.into_iter().flatten().max().filter(|last| *last > phases.recovery);
    match last {
        // A fetch that fails ends late; whether others after it did well is not known then.
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
        Trial { who: "unix", start, took: Duration::from_millis(took_ms), octets, failure }
    }

    fn phases(zero: Instant) -> Phases {
        let at = |s| zero + Duration::from_secs(s);
        Phases { quiet: at(0), attack: at(10), recovery: at(20), end: at(30), spin: at(30) }
    }

    #[test]
    fn a_fetch_across_a_border_counts_on_both_sides_by_its_share() {
        let zero = Instant::now();
        let log = Log { fetches: vec![trial(zero, 8000, 4000, 5_000_000, false)], ..Log::default() };
        let figures = Figures::new(("x", "pit", 1), &log, &Vec::new(), &phases(zero));
        assert_eq!((figures.goodput_quiet_mbps, figures.goodput_attack_mbps), (2.0, 2.0));
        assert_eq!((figures.fetches, figures.fetches_failed), (1, 0));
    }

    #[test]
    fn what_is_fetched_while_processor_time_is_taken_is_told_apart() {
        let zero = Instant::now();
        let fetches =
            vec![trial(zero, 1000, 1000, 5_000_000, false), trial(zero, 31_000, 1000, 2_500_000, false)];
        let log = Log { fetches, pings: vec![trial(zero, 32_000, 7, 0, false)], ..Log::default() };
        let phases = Phases { spin: zero + Duration::from_secs(40), ..phases(zero) };
        let figures = Figures::new(("x", "pit", 1), &log, &Vec::new(), &phases);
        assert_eq!((figures.goodput_spin_ratio, figures.ping_p99_spin_us), (Some(0.5), Some(7000.0)));
        assert_eq!((figures.fetches, figures.goodput_ratio), (0, Some(0.0)));
        assert_eq!(
            Figures::new(("x", "pit", 1), &log, &Vec::new(), &self::phases(zero)).goodput_spin_ratio,
            None
        );
    }

    #[test]
    fn what_fails_before_the_attack_is_not_the_attacks() {
        let zero = Instant::now();
        let fetches = vec![trial(zero, 1000, 1000, 0, true), trial(zero, 9000, 12_000, 0, true)];
        let log = Log { fetches, ..Log::default() };
        let figures = Figures::new(("x", "pit", 1), &log, &Vec::new(), &phases(zero));
        assert_eq!((figures.fetches, figures.fetches_failed), (1, 1));
        assert_eq!(figures.failure.as_deref(), Some("unix: lost"));
        assert_eq!(figures.normal_after_s, Some(1.0));
    }

    #[test]
    fn normal_is_when_nothing_is_lost_or_slow_any_more_and_not_at_the_very_end() {
        let zero = Instant::now();
        let ping = |start, took, failed| trial(zero, start, took, 0, failed);
        let after = |pings| {
            let log = Log { pings, ..Log::default() };
            Figures::new(("x", "pit", 1), &log, &Vec::new(), &phases(zero)).normal_after_s
        };
        assert_eq!(after(vec![ping(15_000, 4000, true), ping(25_000, 10, false)]), Some(0.0));
        assert_eq!(after(vec![ping(21_000, 1000, false), ping(25_000, 10, false)]), Some(2.0));
        assert_eq!(after(vec![ping(26_000, 4000, true)]), None);
    }

    #[test]
    fn memory_is_that_before_the_attack_the_highest_and_the_last() {
        let zero = Instant::now();
        let memory = [(1, 10.0), (9, 20.0), (15, 90.0), (29, 30.0)];
        let memory: Memory = memory.map(|(s, mib)| (zero + Duration::from_secs(s), mib)).to_vec();
        let figures = Figures::new(("x", "pit", 1), &Log::default(), &memory, &phases(zero));
        assert_eq!((figures.memory_before_mib, figures.memory_peak_mib), (20.0, 90.0));
        assert_eq!(figures.memory_after_mib, 30.0);
        assert_eq!(figures.left_mib(), None);
        let figures =
            Figures { in_use_before_mib: Some(2.0), in_use_after_mib: Some(9.0), ..figures.clone() };
        assert_eq!(figures.left_mib(), Some(3.0), "7 MiB more are in use");
    }
}
