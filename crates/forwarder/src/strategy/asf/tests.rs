//! Compares ASF with a model that stores all events at a next hop and judges by them.

use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::strategy::Strategy;

use super::super::memory::StrategyMemory;
use super::super::registry::AnyMemory;
use super::super::{StrategyKind, Upstreams};
use super::*;
use crate::faces::{FaceProperties, Faces};
use crate::limits::StrategyLimits;
use crate::pit::entry::{OutRecord, OutRecords};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// An event at a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Rtt(u64),
    Timeout,
    Nack,
}

#[derive(Clone, Debug, Default)]
struct Model {
    events: Vec<Event>,
    /// Name and time of the Interest that is timed.
    timed: Option<(u64, u64)>,
    /// The time of the first Interest after the last answer.
    waits_since: Option<u64>,
}

impl Model {
    fn is_measured(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Rtt(_)))
    }

    fn answered(&mut self, rtt_ns: u64) {
        self.waits_since = None;
        self.events.push(Event::Rtt(rtt_ns));
    }

    fn is_doubted(&self, now_ns: u64) -> bool {
        let patience = |(srtt, var): (u64, u64)| srtt + (4 * var).max(srtt / 4).max(2 * MS);
        let waits = self.waits_since.map(|since| now_ns.saturating_sub(since));
        waits.zip(self.estimate().map(patience)).is_some_and(|(waits, patience)| waits > patience)
    }

    fn is_timed_out(&self) -> bool {
        self.rank(0).0 == 3
    }

    fn rank(&self, now_ns: u64) -> Rank {
        let since_data = self.events.iter().rev().take_while(|event| !matches!(event, Event::Rtt(_)));
        let since_data: Vec<&Event> = since_data.collect();
        let timeouts = since_data.iter().filter(|event| ***event == Event::Timeout).count();
        if timeouts >= 3 || since_data.contains(&&Event::Nack) {
            return (3, 0);
        }
        if self.is_doubted(now_ns) {
            return (2, self.estimate().unwrap().0);
        }
        self.estimate().map_or((1, 0), |(srtt, _)| (0, srtt))
    }

    /// Mean and deviation by RFC 6298, in whole nanoseconds.
    fn estimate(&self) -> Option<(u64, u64)> {
        let rtts = self.events.iter().filter_map(|event| match event {
            Event::Rtt(rtt) => Some(*rtt as i64),
            _ => None,
        });
        rtts.fold(None, |estimate, rtt| match estimate {
            None => Some((rtt as u64, rtt as u64 / 2)),
            Some((srtt, var)) => {
                let (srtt, var) = (srtt as i64, var as i64);
                let var = var + ((srtt - rtt).abs() - var) / 4;
                Some(((srtt + (rtt - srtt) / 8) as u64, var as u64))
            }
        })
    }

    fn rto(&self) -> u64 {
        self.estimate().map_or(SECOND, |(srtt, var)| (srtt + 4 * var).clamp(200 * MS, 60 * SECOND))
    }
}

/// One prefix with next hops, its memory, and the time.
struct Bench {
    faces: &'static Faces<parking_lot::RawMutex>,
    keys: Vec<FaceKey>,
    records: StrategyMemory<parking_lot::RawMutex>,
    now_ns: u64,
}

impl Bench {
    fn new(hops: usize) -> Self {
        let faces: &Faces<_> = alloc::boxed::Box::leak(Faces::new(16).unwrap().into());
        let ids: Vec<_> = (0..hops).map(|_| faces.register(FaceProperties::remote()).unwrap()).collect();
        let keys = ids.iter().map(|id| faces.hold(*id).unwrap().key()).collect();
        let limits = StrategyLimits { prefixes_max: 4, faces_max: 8, ..StrategyLimits::default() };
        Bench { faces, keys, records: StrategyMemory::new(&limits, 16).unwrap(), now_ns: SECOND }
    }

    /// Processes a new Interest; returns its upstream and its probe.
    fn interest(&self, name_hash: u64) -> (Option<usize>, Option<usize>) {
        let mut upstreams = Upstreams::new();
        for key in &self.keys {
            assert!(upstreams.push(Upstream { face: self.faces.hold_key(*key).unwrap(), is_bound: false }));
        }
        let mut pending = Pending {
            upstreams: &upstreams,
            out_records: &mut OutRecords::new(),
            suppression_ns: &mut 0,
            now_ns: self.now_ns,
        };
        let verdict = self.hook(name_hash, |memory, hook| memory.after_receive_interest(&mut pending, hook));
        match verdict {
            Verdict::Forward(chosen) => (chosen.get(0).map(|i| *i as usize), None),
            Verdict::Probe(to, probe) => (Some(to), Some(probe)),
            _ => (None, None),
        }
    }

    fn hook<T>(&self, name_hash: u64, run: impl FnOnce(&mut AnyMemory, &mut Hook<'_>) -> T) -> T {
        let mut locked = self.records.lock_or_make(StrategyKind::Asf, 1, self.now_ns).unwrap();
        locked.run(self.now_ns, name_hash, &|| 0, run).unwrap()
    }

    /// Data that answers an Interest sent to a next hop at `sent_at_ns`.
    fn data(&self, hop: usize, name_hash: u64, sent_at_ns: u64) {
        let face = self.keys[hop];
        let sent = OutRecord {
            face,
            nonce: [0; 4],
            sent_at_ns,
            expires_at_ns: u64::MAX,
            suppression_ns: 0,
            nack: None,
        };
        let mut out_records = OutRecords::new();
        assert!(out_records.push(sent));
        let answer = Answer { face, out_records: &out_records, is_marked: false };
        self.hook(name_hash, |memory, hook| memory.after_data(&answer, hook));
    }

    fn late_data(&self, hop: usize, name_hash: u64) {
        let face = self.keys[hop];
        self.hook(0, |memory, hook| memory.after_late_data(face, &|hash| hash == name_hash, hook));
    }

    fn nack(&self, hop: usize, name_hash: u64) {
        self.hook(name_hash, |memory, hook| memory.after_nack(self.keys[hop], hook));
    }

    /// Advances the time and runs all timers.
    fn advance_to(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.records.run_timers(now_ns, usize::MAX, &|| 0);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Interest,
    /// Data of a next hop for the Interest that is timed there, in time or late.
    Data(usize, bool),
    Nack(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Interest),
        4 => (0usize..4, any::<bool>()).prop_map(|(hop, late)| Step::Data(hop, late)),
        1 => (0usize..4).prop_map(Step::Nack),
        4 => prop_oneof![1u64..80, 100u64..2500].prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn asf_matches_a_model_with_full_memory(steps in proptest::collection::vec(step(), 1..120)) {
        let mut bench = Bench::new(4);
        let mut models = [(); 4].map(|()| Model::default());
        for (name_hash, step) in (1u64..).zip(steps) {
            match step {
                Step::Interest => {
                    let now_ns = bench.now_ns;
                    let best = (0..4).min_by_key(|i| (models[*i].rank(now_ns), *i));
                    let (to, probe) = bench.interest(name_hash);
                    prop_assert_eq!(to, best);
                    let asked_again = (0..4).find(|i| {
                        let model = &models[*i];
                        let is_doubted = model.is_doubted(now_ns) && !model.is_timed_out();
                        Some(*i) != to && is_doubted && model.timed.is_none()
                    });
                    if asked_again.is_some() {
                        prop_assert_eq!(probe, asked_again);
                    } else if let Some(probe) = probe {
                        let unmeasured = (0..4).find(|i| Some(*i) != to && !models[*i].is_measured());
                        let others = (0..4).filter(|i| Some(*i) != to);
                        // The random number is 0, which draws the best of the others.
                        let expected = unmeasured.or(others.min_by_key(|i| (models[*i].rank(now_ns), *i)));
                        prop_assert_eq!(Some(probe), expected);
                    }
                    for hop in to.into_iter().chain(probe) {
                        models[hop].timed.get_or_insert((name_hash, bench.now_ns));
                        models[hop].waits_since.get_or_insert(bench.now_ns);
                    }
                }
                Step::Data(hop, late) => {
                    if let Some((timed, sent_at_ns)) = models[hop].timed.take() {
                        if late {
                            bench.late_data(hop, timed);
                        } else {
                            bench.data(hop, timed, sent_at_ns);
                        }
                        models[hop].answered(bench.now_ns - sent_at_ns);
                    } else {
                        bench.late_data(hop, name_hash);
                    }
                }
                Step::Nack(hop) => {
                    bench.nack(hop, name_hash);
                    // A next hop that was never sent an Interest has no record to mark.
                    if models[hop].timed.take().is_some() || !models[hop].events.is_empty() {
                        models[hop].events.push(Event::Nack);
                        models[hop].waits_since = None;
                    }
                }
                Step::Pass(ms) => {
                    let until_ns = (bench.now_ns + ms * MS).next_multiple_of(1 << 20);
                    bench.advance_to(until_ns);
                    for model in &mut models {
                        let rto = model.rto();
                        if model.timed.take_if(|(_, sent_at_ns)| *sent_at_ns + rto <= until_ns).is_some() {
                            model.events.push(Event::Timeout);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn asf_probes_within_five_seconds() {
    let mut bench = Bench::new(2);
    let mut probes_at_ms = Vec::new();
    for i in 0..2000 {
        let (to, probe) = bench.interest(i);
        // The current next hop answers at once.
        bench.data(to.unwrap(), i, bench.now_ns);
        if let Some(probe) = probe {
            assert_ne!(Some(probe), to);
            probes_at_ms.push(bench.now_ns / MS);
            bench.data(probe, i, bench.now_ns);
        }
        bench.advance_to(bench.now_ns + 100 * MS);
    }
    // The random number is 0, so the first probe is due at once.
    assert_eq!(probes_at_ms, [1_000, 61_000, 121_000, 181_000]);
}

#[test]
fn unused_measurements_expire_after_five_minutes() {
    let mut bench = Bench::new(2);
    bench.interest(1);
    bench.data(0, 1, bench.now_ns - 900 * MS);
    bench.data(1, 1, bench.now_ns - 100 * MS);
    assert_eq!(bench.interest(2).0, Some(1));
    bench.advance_to(bench.now_ns + LIFETIME_NS + SECOND);
    assert_eq!(bench.interest(3).0, Some(0));
}

#[test]
fn a_removed_nexthop_starts_anew() {
    let bench = Bench::new(2);
    bench.interest(1);
    bench.nack(0, 1);
    assert_eq!(bench.interest(2).0, Some(1));
    bench.records.fib_changed(1, FibChange::Added(bench.keys[0]));
    assert_eq!(bench.interest(3).0, Some(1), "another cost is no other next hop");
    bench.records.fib_changed(1, FibChange::Removed(bench.keys[0]));
    assert_eq!(bench.interest(4).0, Some(0));
}

#[test]
fn ranks_are_drawn_by_their_weights() {
    let draws = |n| (0..n * (n + 1) / 2).map(|random| draw(n, random).unwrap()).collect::<Vec<_>>();
    assert_eq!(draws(1), [0]);
    assert_eq!(draws(3), [0, 0, 0, 1, 1, 2]);
    assert_eq!((draw(0, 9), draw(3, 6)), (None, Some(0)));
}
