//! The number of locks that the content store takes for a packet, counted by the lock itself.
#![deny(unsafe_code)]

use std::sync::Arc;

use counted::{Counted, TAKEN};
use namely_forwarder::{
    Config, CsLimits, CsPolicy, FaceId, FaceProperties, Forwarder, Outgoing, Received, UnsolicitedPolicy,
};
use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo};

#[allow(unsafe_code)]
mod counted {
    use std::cell::Cell;

    use lock_api::RawMutex;

    thread_local! {
        pub(super) static TAKEN: Cell<usize> = const { Cell::new(0) };
    }

    /// A lock that counts how often this thread takes any lock of this type.
    pub(super) struct Counted(parking_lot::RawMutex);

    // SAFETY: the inner lock provides mutual exclusion; counting does not affect it.
    unsafe impl RawMutex for Counted {
        #[allow(clippy::declare_interior_mutable_const)]
        const INIT: Self = Counted(parking_lot::RawMutex::INIT);
        type GuardMarker = <parking_lot::RawMutex as RawMutex>::GuardMarker;

        fn lock(&self) {
            TAKEN.set(TAKEN.get() + 1);
            self.0.lock();
        }

        fn try_lock(&self) -> bool {
            TAKEN.set(TAKEN.get() + 1);
            self.0.try_lock()
        }

        unsafe fn unlock(&self) {
            // SAFETY: the caller holds this lock, and with it the inner one.
            unsafe { self.0.unlock() }
        }
    }
}

type Packet = Arc<[u8]>;

struct Bench {
    forwarder: Forwarder<Packet, Counted>,
    face: FaceId,
}

impl Bench {
    fn new(cs_policy: CsPolicy, cs_admit: bool) -> Self {
        let config = Config {
            cs: CsLimits { packets_max: 10, ..CsLimits::default() },
            cs_policy,
            cs_admit,
            unsolicited: UnsolicitedPolicy::AdmitAll,
            ..Config::new(|_| [0; 32])
        };
        let forwarder = Forwarder::new(config, 7).unwrap();
        let face = forwarder.face_register(FaceProperties::application()).unwrap();
        Bench { forwarder, face }
    }

    /// The number of locks taken for a packet, and the number of packets sent.
    fn locks(&self, packet: Packet) -> (usize, usize) {
        let mut sent: Vec<(FaceId, Outgoing<Packet>)> = Vec::new();
        TAKEN.set(0);
        self.forwarder.receive(self.face, Received::bare(packet), 1, &mut sent);
        (TAKEN.get(), sent.len())
    }

    fn insert(&self, segment: u64) -> usize {
        let name = name(segment);
        let data = DataBuilder::new(name.as_name()).build(b"", &SignatureInfo::digest_sha256());
        self.locks(data.finish(&[0; 32]).into()).0
    }

    fn hit(&self, segment: u64) -> usize {
        let (locks, sent) = self.locks(InterestBuilder::new(name(segment)).nonce([1; 4]).build().into());
        assert_eq!(sent, 1, "it is a hit");
        locks
    }
}

/// A name of four components; all segments share the first three.
fn name(segment: u64) -> Name {
    "/a/b/v=1".parse::<Name>().unwrap().join_segment(segment)
}

/// `IS-34`, `IS-36`: every hit takes the lock of the Data. Only policies that need it also take the
/// policy's lock.
#[test]
fn a_hit_locks_the_policy_if_needed() {
    let locks = CsPolicy::ALL.map(|policy| {
        let bench = Bench::new(policy, true);
        bench.insert(1);
        bench.hit(1)
    });
    let [s3_fifo, lru, fifo, lfu, arc, sieve, noop] = locks;
    assert_eq!([fifo, sieve, noop], [s3_fifo; 3], "none");
    assert_eq!([lru, lfu, arc], [s3_fifo + 1; 3], "one");
}

/// `IS-34`: an insertion locks a bucket for each component, the Data and the policy. The eviction
/// that it causes locks a bucket for each component and the Data.
#[test]
fn an_insertion_locks_each_component() {
    let without = Bench::new(CsPolicy::S3Fifo, false).insert(1);
    let bench = Bench::new(CsPolicy::S3Fifo, true);
    assert_eq!(bench.insert(0) - without, 4 + 2);
    for segment in 1..20 {
        bench.insert(segment);
    }
    assert_eq!(bench.insert(20) - without, (4 + 2) + (4 + 1));
    assert_eq!(bench.forwarder.cs().status().packets, 10);
}

/// A strategy with memory takes one more lock for an Interest and one more for a Data. Strategies
/// without memory do not take it.
#[test]
fn only_stateful_strategies_take_a_lock() {
    let locks = ["best-route", "multicast", "asf"].map(|strategy| {
        let bench = Bench::new(CsPolicy::Noop, false);
        let upstream = bench.forwarder.face_register(FaceProperties::remote()).unwrap();
        let strategy: Name = format!("/{strategy}").parse().unwrap();
        bench.forwarder.strategies().set(Name::new().as_name(), strategy.as_name()).unwrap();
        bench.forwarder.fib().add_nexthop(Name::new().as_name(), upstream, 0).unwrap();
        let exchange = |segment| {
            let (interest, sent) =
                bench.locks(InterestBuilder::new(name(segment)).nonce([1; 4]).build().into());
            assert_eq!(sent, 1);
            let mut sent: Vec<(FaceId, Outgoing<Packet>)> = Vec::new();
            let data = DataBuilder::new(name(segment).as_name()).build(b"", &SignatureInfo::digest_sha256());
            let data: Packet = data.finish(&[0; 32]).into();
            TAKEN.set(0);
            bench.forwarder.receive(upstream, Received::bare(data), 1, &mut sent);
            assert_eq!(sent.len(), 1);
            (interest, TAKEN.get())
        };
        // The first exchange allocates memory of the tables.
        exchange(1);
        exchange(2)
    });
    let [best_route, multicast, asf] = locks;
    assert_eq!(multicast, best_route);
    assert_eq!(asf, (best_route.0 + 1, best_route.1 + 1));
}
