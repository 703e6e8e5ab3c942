//! Compares the records with a list of the times at which each prefix was used.

use crate::strategy::hook::FaceRecords;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::super::asf::AsfMemory;
use super::*;
use crate::strategy::hook::Memory;

type Records = StrategyMemory<parking_lot::RawMutex>;

const SECOND: u64 = 1_000_000_000;
const ASF: StrategyKind = StrategyKind::Asf;

fn random() -> u64 {
    7
}

fn records(prefixes_max: usize) -> Records {
    Records::new(&StrategyLimits { prefixes_max, faces_max: 2, ..StrategyLimits::default() }, 16).unwrap()
}

fn use_prefix(records: &Records, prefix_hash: u64, now_ns: u64) -> Option<MemoryId> {
    let mut locked = records.lock_or_make(ASF, prefix_hash, now_ns)?;
    locked.run(now_ns, 0, &random, |_, _| ())?;
    Some(locked.id())
}

#[test]
fn prefixes_past_the_memory_limit_are_counted() {
    let records = records(2);
    assert!(records.is_empty());
    assert!(use_prefix(&records, 1, 0).is_some() && use_prefix(&records, 2, 0).is_some());
    assert_eq!((records.len(), records.full()), (2, 0));
    assert!(use_prefix(&records, 3, 0).is_none());
    assert_eq!((records.len(), records.full()), (2, 1));
    assert!(use_prefix(&records, 1, 0).is_some(), "those that are there go on");
    let none = Records::new(&StrategyLimits { prefixes_max: 0, ..StrategyLimits::default() }, 16).unwrap();
    assert_eq!((use_prefix(&none, 1, 0), none.full()), (None, 1));
}

#[test]
fn faces_past_the_memory_limit_are_counted() {
    let records = records(2);
    let mut locked = records.lock_or_make(ASF, 1, 0).unwrap();
    let face = |slot| FaceKey { slot, generation: 1 };
    locked.run(0, 0, &random, |_, hook| {
        let mut faces = FaceRecords::new(2).unwrap();
        for slot in [1, 2, 1] {
            *faces.get_or_make(face(slot), hook, || 0).unwrap() += 1;
        }
        assert_eq!(faces.get_or_make(face(3), hook, || 0), None);
        assert_eq!((faces.get(face(1)), faces.get(face(2)), faces.get(face(3))), (Some(&2), Some(&1), None));
        faces.retain(|own, _| own != face(1));
        assert_eq!(faces.get_or_make(face(3), hook, || 5), Some(&mut 5));
    });
    drop(locked);
    assert_eq!(records.full(), 1);
}

#[test]
fn an_unused_record_is_removed() {
    let records = records(1);
    let id = use_prefix(&records, 1, SECOND).unwrap();
    assert!(records.lock(id).is_some() && records.lock_prefix(ASF, 1).is_some());
    let end_ns = SECOND + LIFETIME_NS;
    let next_ns = records.run_timers(end_ns - 1, 100, &random).unwrap();
    assert!((end_ns..end_ns + (1 << TICK_SHIFT)).contains(&next_ns));
    assert!(records.lock(id).is_some());
    assert_eq!(records.run_timers(next_ns, 100, &random), None);
    assert!(records.is_empty() && records.lock(id).is_none() && records.lock_prefix(ASF, 1).is_none());
    let other = use_prefix(&records, 2, next_ns).unwrap();
    assert_eq!((other.id(), other == id), (id.id(), false), "the same number, used again");
    assert!(records.lock(id).is_none() && records.lock(other).is_some());
}

#[test]
fn strategy_timers_fire_in_turns() {
    let records = records(1000);
    (0..600).for_each(|hash| assert!(use_prefix(&records, hash, 0).is_some()));
    let now_ns = LIFETIME_NS + SECOND;
    let next_ns = records.run_timers(now_ns, 100, &random);
    assert!(next_ns.is_some_and(|next_ns| next_ns <= now_ns));
    assert!((500..600).contains(&records.len()));
    while records.run_timers(now_ns, 100, &random).is_some() {}
    assert!(records.is_empty());
}

#[test]
fn an_earlier_timer_moves_the_deadline() {
    let records = records(1);
    let mut locked = records.lock_or_make(ASF, 1, 0).unwrap();
    locked.run(0, 0, &random, |_, hook| hook.set_timer(9 * SECOND));
    locked.run(0, 0, &random, |_, hook| hook.set_timer(5 * SECOND));
    locked.run(0, 0, &random, |_, hook| hook.set_timer(7 * SECOND));
    drop(locked);
    let next_ns = records.run_timers(5 * SECOND - 1, 10, &random).unwrap();
    assert!((5 * SECOND..5 * SECOND + (1 << TICK_SHIFT)).contains(&next_ns));
    let fired =
        |records: &Records| records.lock_prefix(ASF, 1).unwrap().record().unwrap().timer_ns == u64::MAX;
    assert!(!fired(&records));
    let next_ns = records.run_timers(next_ns, 10, &random).unwrap();
    assert!(fired(&records) && next_ns > 9 * SECOND, "then the record's own end is what is left");
}

#[test]
fn each_strategy_has_its_own_record() {
    let records = records(4);
    let ids = [ASF, StrategyKind::FastRoute, ASF].map(|kind| records.lock_or_make(kind, 1, 0).unwrap().id());
    assert_eq!((ids[0] == ids[2], ids[0] == ids[1], records.len()), (true, false, 2));
    assert!(records.lock_or_make(StrategyKind::BestRoute, 1, 0).is_none());
    assert!(AsfMemory::new(usize::MAX).is_none(), "no memory for so many faces");
    assert_eq!(records.len(), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Use(u64),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => (0u64..6).prop_map(Step::Use), 1 => (1u64..200).prop_map(Step::Pass)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn recently_used_records_are_remembered(steps in proptest::collection::vec(step(), 1..100)) {
        let records = records(4);
        let mut model: Vec<(u64, u64)> = Vec::new();
        let (mut now_ns, mut full) = (0, 0);
        for step in steps {
            match step {
                Step::Use(hash) => {
                    let known = model.iter_mut().find(|(own, _)| *own == hash);
                    let expected = known.is_some() || model.len() < 4;
                    prop_assert_eq!(use_prefix(&records, hash, now_ns).is_some(), expected);
                    full += u64::from(!expected);
                    model.retain(|(own, _)| *own != hash);
                    model.extend(expected.then_some((hash, now_ns)));
                }
                Step::Pass(seconds) => {
                    now_ns += seconds * SECOND;
                    // A deadline fires up to a tick late.
                    now_ns = now_ns.next_multiple_of(1 << TICK_SHIFT);
                    let next_ns = records.run_timers(now_ns, 1000, &random);
                    prop_assert!(next_ns.is_none_or(|next_ns| next_ns > now_ns));
                    model.retain(|(_, used_ns)| used_ns + LIFETIME_NS > now_ns);
                }
            }
            prop_assert_eq!((records.len(), records.full()), (model.len(), full));
            prop_assert!(model.iter().all(|(hash, _)| records.lock_prefix(ASF, *hash).is_some()));
        }
    }
}
