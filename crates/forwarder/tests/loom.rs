//! Tests every order of events of two threads, with at most five preemptions. The threads use one
//! name at the locks and atomics of the PIT, the dead-nonce list and the face table. Other models
//! test the version of FIB, BPT and strategy choice, registered objects that are cached while
//! others are or while their catalogue is removed, and the 64-bit atomics of processors without
//! them. These are not part of the ordinary tests:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namely-forwarder --profile quick --test loom
//! ```
#![cfg(loom)]
#![deny(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use namely_forwarder::{
    BindingLimits, Config, CsLimits, DeadNonceLimits, DropReason, FaceId, FaceProperties, FibLimits,
    Forwarder, ObjectLimits, ObjectName, ObjectPlacement, ObjectPlan, Outgoing, PitLimits, Received,
    RibLimits, StrategyLimits,
};
use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo};

use lock::LoomLock;

/// The module `sync` for version.rs and wide.rs, whose sources are included unchanged.
mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[path = "../src/prefix_table/version.rs"]
mod version;

#[allow(dead_code)]
#[path = "../src/sync/wide.rs"]
mod wide;

type Packet = Arc<[u8]>;
type Fw = Forwarder<Packet, LoomLock>;
type Sent = Vec<(FaceId, Outgoing<Packet>)>;

/// Preemptions in one order; without a bound the first model takes minutes.
const PREEMPTIONS_MAX: usize = 5;

/// A model that tries fewer orders than this does not track the locks.
const ORDERS_MIN: usize = 20;

const MS: u64 = 1_000_000;

#[allow(unsafe_code)]
mod lock {
    use std::sync::OnceLock;

    use loom::sync::atomic::{AtomicBool, Ordering};

    /// A lock that loom tracks. It is created when it is first used, because loom's atomics cannot
    /// be created at compile time.
    pub(super) struct LoomLock(OnceLock<AtomicBool>);

    impl LoomLock {
        fn locked(&self) -> &AtomicBool {
            self.0.get_or_init(|| AtomicBool::new(false))
        }
    }

    // SAFETY: `lock` returns, and `try_lock` returns true, only after changing `locked` from false
    // to true, which no other thread can do until `unlock` has changed it back.
    unsafe impl lock_api::RawMutex for LoomLock {
        #[allow(clippy::declare_interior_mutable_const)]
        const INIT: Self = LoomLock(OnceLock::new());
        type GuardMarker = lock_api::GuardSend;

        fn lock(&self) {
            while !self.try_lock() {
                loom::thread::yield_now();
            }
        }

        fn try_lock(&self) -> bool {
            self.locked().compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }

        unsafe fn unlock(&self) {
            self.locked().store(false, Ordering::Release);
        }
    }
}

struct Scene {
    fw: Fw,
    consumers: [FaceId; 2],
    upstream: FaceId,
}

impl Scene {
    fn new() -> Arc<Self> {
        Scene::with_store(0, 1)
    }

    /// Creates a forwarder with a content store for `packets_max` Data, and registered objects.
    fn with_store(packets_max: usize, objects_max: usize) -> Arc<Self> {
        let config = Config {
            faces_max: 4,
            threads_max: 2,
            pit: PitLimits { entries_max: 2, ..PitLimits::default() },
            cs: CsLimits { packets_max, entries_max: 4 * packets_max, ..CsLimits::default() },
            objects: ObjectLimits { objects_max, ..ObjectLimits::default() },
            fib: FibLimits { entries_max: 4, ..FibLimits::default() },
            rib: RibLimits { routes_max: 4, ..RibLimits::default() },
            bindings: BindingLimits { entries_max: 4, ..BindingLimits::default() },
            strategies: StrategyLimits { choices_max: 4, ..StrategyLimits::default() },
            dead_nonces: DeadNonceLimits { entries_max: 4, ..DeadNonceLimits::default() },
            ..Config::new(|_| [0; 32])
        };
        let fw = Fw::new(config, 1).unwrap();
        let consumers = [(); 2].map(|()| fw.face_register(FaceProperties::application()).unwrap());
        let upstream = fw.face_register(FaceProperties::remote()).unwrap();
        fw.fib().add_nexthop(Name::new().as_name(), upstream, 0).unwrap();
        let scene = Scene { fw, consumers, upstream };
        // Each slot, lock and chunk is used once before the threads start. Otherwise loom does not
        // track that a chunk is allocated before another thread reads it.
        (0..2).for_each(|i| assert_eq!(scene.ask(i, ["/w", "/v"][i], 1, 1).len(), 1));
        ["/w", "/v"].iter().for_each(|uri| assert_eq!(scene.answer(uri, 2).len(), 1));
        let passing = scene.fw.face_register(FaceProperties::remote()).unwrap();
        scene.fw.face_release(passing).unwrap();
        assert_eq!(scene.expire(10 * MS), None);
        Arc::new(scene)
    }

    fn ask(&self, consumer: usize, uri: &str, lifetime_ms: u64, now_ns: u64) -> Sent {
        let builder = InterestBuilder::new(uri.parse().unwrap()).nonce([consumer as u8, now_ns as u8, 1, 1]);
        self.receive(self.consumers[consumer], builder.lifetime_ms(lifetime_ms).build(), now_ns)
    }

    fn answer(&self, uri: &str, now_ns: u64) -> Sent {
        let name: Name = uri.parse().unwrap();
        let data = DataBuilder::new(name.as_name()).build(b"x", &SignatureInfo::digest_sha256());
        self.receive(self.upstream, data.finish(&[0; 32]), now_ns)
    }

    fn receive(&self, face: FaceId, packet: Vec<u8>, now_ns: u64) -> Sent {
        let mut sent = Sent::new();
        self.fw.receive(face, Received::bare(packet.into()), now_ns, &mut sent);
        sent
    }

    fn expire(&self, now_ns: u64) -> Option<u64> {
        self.fw.expire(now_ns, &mut Sent::new())
    }
}

/// Runs `one` and `other` at once on the result of `scene`, in every order.
fn model<T: 'static>(
    scene: fn() -> Arc<Scene>,
    one: fn(&Scene) -> T,
    other: fn(&Scene) -> T,
    check: fn(&Scene, T, T),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.max_branches = 20_000;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let scene = scene();
        let theirs = scene.clone();
        let thread = loom::thread::spawn(move || other(&theirs));
        let first = one(&scene);
        check(&scene, first, thread.join().unwrap());
    });
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs >= ORDERS_MIN, "{runs} orders are not all there are");
    println!("{runs} orders");
}

#[test]
fn two_racing_interests_make_one_entry() {
    model(
        Scene::new,
        |scene| scene.ask(0, "/a", 4000, 1).len(),
        |scene| scene.ask(1, "/a", 4000, 1).len(),
        |scene, one, other| {
            assert_eq!((one + other, scene.fw.table_sizes().pit), (1, 1));
            assert_eq!(scene.answer("/a", 2).len(), 2);
            assert_eq!(scene.fw.table_sizes().pit, 0);
        },
    );
}

#[test]
fn an_interest_racing_data_is_never_lost() {
    let asked = || {
        let scene = Scene::new();
        assert_eq!(scene.ask(0, "/a", 4000, 1).len(), 1);
        scene
    };
    model(
        asked,
        |scene| scene.answer("/a", 2).len(),
        |scene| scene.ask(1, "/a", 4000, 2).len(),
        |scene, answered, sent| match (answered, sent, scene.fw.table_sizes().pit) {
            (1, 1, 1) => assert_eq!(scene.answer("/a", 3).len(), 1),
            (2, 0, 0) => {}
            outcome => panic!("{outcome:?}"),
        },
    );
}

#[test]
fn an_entry_is_satisfied_or_expires() {
    let asked = || {
        let scene = Scene::new();
        scene.ask(0, "/a", 100, 1);
        scene
    };
    model(
        asked,
        |scene| scene.answer("/a", 2).len(),
        |scene| usize::from(scene.expire(200 * MS).is_some()),
        |scene, answered, _| {
            let counters = scene.fw.counters();
            // Two Interests were satisfied before.
            assert_eq!(counters.satisfied + counters.unsatisfied, 2 + 1);
            assert_eq!(counters.satisfied, 2 + answered as u64);
            assert_eq!((scene.fw.table_sizes().pit, scene.expire(200 * MS)), (0, None));
        },
    );
}

/// The timer of a satisfied entry fires while its slot is being reused. The new entry keeps its own
/// deadline.
#[test]
fn a_stale_timer_spares_the_next_entry() {
    let answered = || {
        let scene = Scene::new();
        scene.ask(0, "/a", 100, 1);
        scene.answer("/a", 2);
        scene
    };
    model(
        answered,
        |scene| scene.ask(0, "/b", 300, 150 * MS).len(),
        |scene| usize::from(scene.expire(150 * MS).is_some()),
        |scene, sent, _| {
            assert_eq!((sent, scene.fw.counters().unsatisfied), (1, 0));
            let mut next_ns = scene.expire(151 * MS).expect("the entry has a timer");
            while next_ns < 450 * MS {
                next_ns = scene.expire(next_ns).expect("the entry has a timer");
            }
            assert_eq!((scene.expire(next_ns), scene.fw.table_sizes().pit), (None, 0));
            assert_eq!(scene.fw.counters().unsatisfied, 1);
        },
    );
}

#[test]
fn data_racing_a_release_is_accounted_for() {
    let asked = || {
        let scene = Scene::new();
        scene.ask(0, "/a", 4000, 1);
        scene
    };
    model(
        asked,
        |scene| scene.answer("/a", 2).len() as u64,
        |scene| {
            scene.fw.face_release(scene.consumers[0]).unwrap();
            0
        },
        |scene, answered, _| {
            assert_eq!(answered + scene.fw.counters().dropped(DropReason::FaceGone), 1);
            assert!(scene.fw.faces().hold(scene.consumers[0]).is_none());
            assert!(scene.fw.faces().snapshot().iter().all(|face| face.users == 1));
            let counters = scene.fw.counters();
            assert_eq!(counters.faces_freed + counters.faces_orphaned, 1 + 1);
        },
    );
}

/// A content store with room for one of two objects. The second is worth more, and consumers
/// request their Data.
fn objects_are_asked_for() -> Arc<Scene> {
    let scene = Scene::with_store(2, 2);
    let [w, v]: [Name; 2] = ["/w", "/v"].map(|uri| uri.parse().unwrap());
    let file = |name, object| ObjectName { name, object, id: u64::from(object) };
    assert_eq!(scene.fw.objects().set([file(w.as_name(), 0), file(v.as_name(), 1)]), Ok(2));
    for object in 0..2 {
        let worth = u64::from(object) + 1;
        scene.fw.objects().plan(object, ObjectPlan { placement: ObjectPlacement::Memory, worth, octets: 1 });
    }
    scene.fw.objects().room(1, 1000);
    assert_eq!(scene.fw.cs().erase(Name::new().as_name(), 10), (2, false));
    for (consumer, uri) in ["/w/1", "/v/1"].into_iter().enumerate() {
        assert_eq!(scene.ask(consumer, uri, 4000, 11 * MS).len(), 1);
    }
    scene
}

#[test]
fn the_object_worth_more_wins_a_race() {
    model(
        objects_are_asked_for,
        |scene| scene.answer("/w/1", 12 * MS).len(),
        |scene| scene.answer("/v/1", 12 * MS).len(),
        |scene, one, other| {
            assert_eq!((one, other), (1, 1));
            scene.expire(13 * MS);
            assert_eq!([0, 1].map(|object| scene.fw.objects().held(object).packets), [0, 1]);
            assert_eq!(scene.fw.objects().counts().packets, 1);
        },
    );
}

#[test]
fn data_of_a_removed_object_never_stays() {
    model(
        objects_are_asked_for,
        |scene| scene.answer("/v/1", 12 * MS).len(),
        |scene| scene.fw.objects().set([]).unwrap(),
        |scene, one, names| {
            assert_eq!((one, names), (1, 0));
            scene.expire(13 * MS);
            assert_eq!(scene.fw.objects().counts().packets, 0);
        },
    );
}

/// `IS-34`: a reader without a lock sees all of a write or nothing of it. The words are written one
/// by one and without order among them, like those of an entry.
#[test]
fn a_versioned_read_is_consistent() {
    use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};

    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let table = Arc::new((version::Version::new(), [AtomicU64::new(0), AtomicU64::new(0)]));
        let control = Arc::new(lock_api::Mutex::<LoomLock, ()>::new(()));
        let (theirs, their_control) = (table.clone(), control.clone());
        let writer = loom::thread::spawn(move || {
            let (version, words) = &*theirs;
            for value in 1..3 {
                let _no_other_writer = their_control.lock();
                let _writing = version.write();
                words.iter().for_each(|word| word.store(value, Relaxed));
            }
        });
        let (version, words) = &*table;
        let [one, other] = version.read(&control, || [words[0].load(Relaxed), words[1].load(Relaxed)]);
        assert_eq!(one, other);
        writer.join().unwrap();
    });
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs >= ORDERS_MIN, "{runs} orders are not all there are");
    println!("{runs} orders");
}

/// A value of two words is read as a whole, and no change of it is lost. A reader of a change also
/// sees the writes before it.
#[test]
fn a_two_word_value_is_read_whole() {
    use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};

    const STEP: u64 = 1 << 32 | 1;
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new((wide::AtomicU64::new(u64::MAX), AtomicU32::new(0)));
        let theirs = shared.clone();
        let writer = loom::thread::spawn(move || {
            theirs.1.store(1, Relaxed);
            theirs.0.fetch_add(STEP, Ordering::Release);
        });
        let (value, before) = &*shared;
        let read = value.load(Ordering::Acquire);
        assert!(read == u64::MAX || read == STEP - 1, "{read:#x}");
        if read == STEP - 1 {
            assert_eq!(before.load(Relaxed), 1);
        }
        value.fetch_add(STEP, Relaxed);
        writer.join().unwrap();
        assert_eq!(value.load(Relaxed), (2 * STEP).wrapping_sub(1));
    });
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs >= ORDERS_MIN, "{runs} orders are not all there are");
    println!("{runs} orders");
}
