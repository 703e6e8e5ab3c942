//! Several workers on one store, and its invariants when they are done.

extern crate std;

use crate::config::Config;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::thread;

use namely_wire::{DataBuilder, InterestBuilder, InterestView, Name, SignatureInfo};

use super::tests::Sent;
use super::*;
use crate::hash::{NameHasher, STEP, mix};
use crate::limits::CsLimits;
use crate::objects::ObjectMatch;
use crate::prefix_table::with_key;

type Packet = Arc<[u8]>;
type Store = Cs<Packet, parking_lot::RawMutex>;

const WORKERS: u64 = 4;
const STEPS: u64 = 6_000;

fn digest(_: &[u8]) -> [u8; 32] {
    [7; 32]
}

/// One of few names of 1 to 5 components, so that workers contend at every node; longer names share
/// prefixes.
fn name(random: u64) -> Name {
    let components = 1 + random % 5;
    (0..components).fold(Name::new(), |name, i| name.join_generic([(random >> (8 + 2 * i)) as u8 & 3]))
}

fn work(store: &Store, hasher: &NameHasher, worker: u64) {
    let mut state = worker << 32;
    let reserve = Reserve::new(1);
    for step in 0..STEPS {
        state = state.wrapping_add(STEP);
        let random = mix(state);
        let name = name(random);
        match random >> 56 {
            0..100 => {
                let content = [(random >> 32) as u8 & 1];
                let builder = DataBuilder::new(name.as_name()).freshness_ms(1);
                let packet: Packet =
                    builder.build(&content, &SignatureInfo::digest_sha256()).finish(&[0; 32]).into();
                let view = DataView::parse(&packet).unwrap();
                with_key(hasher, view.name, |key| {
                    store.insert(
                        IncomingData::new(&packet, &view, key, None, step),
                        &reserve,
                        &mut Sent::<Packet>::new(),
                    );
                });
                if random.is_multiple_of(7) {
                    store.settle(&reserve);
                }
            }
            100..215 => {
                let mut builder = InterestBuilder::new(name.clone()).nonce([0; 4]);
                if random & 1 << 40 != 0 {
                    builder = builder.can_be_prefix();
                }
                let wire = builder.build();
                let view = InterestView::parse(&wire).unwrap();
                let hashes = hasher.prefixes(view.name);
                if let Lookup::Hit(packet) = store.find::<Sent<Packet>>(&InterestKey::new(&view, &hashes), 0)
                {
                    let found = DataView::parse(&packet).unwrap();
                    assert!(name.is_prefix_of(found.name), "an answer has the name that was asked for");
                }
            }
            // Data of objects and Data of the policy are in the same index.
            241..250 => {
                let object = random as u32 % 3;
                let plan = ObjectPlan {
                    placement: [ObjectPlacement::Memory, ObjectPlacement::Nowhere]
                        [usize::from(random & 1 << 42 != 0)],
                    worth: random >> 20 & 7,
                    octets: random >> 24 & 511,
                };
                store.plan_object(object, plan);
                store.evict_objects(random as usize % 4, &mut Sent::<Packet>::new());
            }
            215..241 => {
                let builder = DataBuilder::new(name.as_name()).freshness_ms(1);
                let packet: Packet =
                    builder.build(b"o", &SignatureInfo::digest_sha256()).finish(&[0; 32]).into();
                let view = DataView::parse(&packet).unwrap();
                let object = random as u32 % 3;
                let found = ObjectMatch { object, id: u64::from(object) };
                with_key(hasher, view.name, |key| {
                    let arriving = IncomingData::new(&packet, &view, key, None, step);
                    store.insert_object_data(arriving, found, &reserve, &mut Sent::<Packet>::new());
                });
            }
            250..252 => {
                with_key(hasher, name.as_name(), |key| store.erase(key, 3));
            }
            252 => {
                store.limit(60 + random as usize % 60, 4000);
                store.shrink(usize::MAX);
            }
            253 => {
                let policy = CsPolicy::ALL[random as usize % CsPolicy::ALL.len()];
                store.configure(&CsChange { policy: Some(policy), ..CsChange::default() });
            }
            _ => {
                let packets_max = Some(20 + random as usize % 20);
                store.configure(&CsChange { packets_max, ..CsChange::default() });
                store.shrink(usize::MAX);
            }
        }
    }
    store.settle(&reserve);
}

/// `IS-34`: starts with each policy; workers change it during the run.
#[test]
fn concurrent_workers_leave_a_consistent_store() {
    for (policy, mask) in CsPolicy::ALL.into_iter().zip([u64::MAX, 3, u64::MAX, 0, u64::MAX, 7, u64::MAX]) {
        let config = Config {
            cs: CsLimits { packets_max: 30, entries_max: 100, octets_max: 4000 },
            cs_policy: policy,
            ..Config::new(digest)
        };
        let store = Store::new(&config.cs, config.cs_policy, config.cs_admit, config.cs_serve).unwrap();
        let mut objects = NewObjects::new(3).unwrap();
        objects.ids.iter_mut().zip(0..).for_each(|(slot, id)| *slot = Some(id));
        store.exchange_objects(objects);
        store.limit_objects(9, 700);
        let hasher = NameHasher::colliding(mask);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS)
                .map(|worker| {
                    scope.spawn({
                        let (s, h) = (&store, &hasher);
                        move || work(s, h, worker)
                    })
                })
                .collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        store.check();
        assert!(store.object_counts().admitted > 0 && store.object_counts().evicted > 0);
        assert!(store.object_counts().packets <= 9 && store.object_counts().octets <= 700);
        assert!(store.info(0, 0).packets > 0 && store.info(0, 0).evicted > 0);
        let all = with_key(&hasher, Name::new().as_name(), |key| store.erase(key, usize::MAX));
        assert!(!all.1);
        assert_eq!((store.info(0, 0).packets, store.info(0, 0).entries, store.info(0, 0).octets), (0, 0, 0));
        assert_eq!(store.index.in_use(), 0, "{policy:?}: nothing outlives its Data");
    }
}
