//! Several threads at once: workers forward the same few names while faces and routes are added and
//! removed. The invariants are checked at the end, when no entry may remain. `NAMELY_STRESS_MS` is
//! the duration of each test; a thread sanitizer runs them longer (`.ci/run`).
//!
//! `IS-13`, `IS-14`, `IS-33`, `IS-34`.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namely_forwarder::{
    Batch, Config, CsLimits, DeadNonceLimits, DropReason, FaceId, FaceProperties, Forwarder, Outgoing,
    Output, PitLimits, Received, UnsolicitedPolicy,
};
use namely_wire::{DataBuilder, InterestBuilder, LpHeaders, NackReason, Name, PitToken, SignatureInfo};

type Packet = Arc<[u8]>;
type Fw = Forwarder<Packet, parking_lot::RawMutex>;

const MS: u64 = 1_000_000;

/// The time of the workers' clock after about 5,000 packets. They cause every kind of drop often.
const WORKED_NS: u64 = 250 * MS;

/// The longest wait for the workers.
const WORKING_MAX: Duration = Duration::from_secs(60);

fn duration() -> Duration {
    let ms = std::env::var("NAMELY_STRESS_MS").ok().and_then(|ms| ms.parse().ok());
    Duration::from_millis(ms.unwrap_or(400))
}

/// Packets sent, by kind.
#[derive(Default)]
struct Sink {
    interests: u64,
    data: u64,
    nacks: u64,
}

impl Output<Packet> for Sink {
    type Tier = ();
    type Tracer = ();

    fn send(&mut self, face: FaceId, packet: Outgoing<Packet>) {
        assert_ne!(face, FaceId::NONE);
        match (packet.headers.nack, packet.packet[0]) {
            (Some(_), _) => self.nacks += 1,
            (None, 5) => self.interests += 1,
            _ => self.data += 1,
        }
    }
}

impl Sink {
    fn add(&mut self, other: Sink) {
        self.interests += other.interests;
        self.data += other.data;
        self.nacks += other.nacks;
    }
}

/// A seeded sequence (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % below
    }
}

/// Few names, some prefixes of others.
fn name(i: usize) -> Name {
    let name = Name::new().join_generic("a").join_generic([b'a' + (i % 4) as u8]);
    if i < 4 { name } else { name.join_generic([b'a' + (i / 4 % 4) as u8]) }
}

fn interest(dice: &mut Dice) -> Packet {
    let nonce = (dice.next(300) as u32).to_be_bytes();
    let builder = InterestBuilder::new(name(dice.next(20))).nonce(nonce).lifetime_ms(dice.next(40) as u64);
    let builder = if dice.next(3) == 0 { builder.can_be_prefix() } else { builder };
    let builder = if dice.next(3) == 0 { builder.must_be_fresh() } else { builder };
    builder.build().into()
}

fn data(dice: &mut Dice) -> Packet {
    let name = name(dice.next(20));
    let builder = DataBuilder::new(name.as_name()).freshness_ms(dice.next(20) as u64);
    builder.build(&[dice.next(4) as u8], &SignatureInfo::digest_sha256()).finish(&[0; 32]).into()
}

/// Shared by the threads: a forwarder, the time, permanent faces, and one that is registered and
/// released repeatedly.
struct Scene {
    fw: Fw,
    now_ns: AtomicU64,
    faces: Vec<FaceId>,
    passing: AtomicU64,
    over: AtomicBool,
}

impl Scene {
    fn new(config: Config) -> Self {
        let fw = Fw::new(config, 9).unwrap();
        let specs = [
            FaceProperties::application(),
            FaceProperties::remote(),
            FaceProperties::remote(),
            FaceProperties::group(),
        ];
        let faces: Vec<FaceId> = specs.iter().map(|spec| fw.face_register(*spec).unwrap()).collect();
        let prefix = Name::new().join_generic("a");
        faces.iter().for_each(|face| fw.fib().add_nexthop(prefix.as_name(), *face, face.0).unwrap());
        let strategy: Name = "/multicast".parse().unwrap();
        fw.strategies().set(name(1).as_name(), strategy.as_name()).unwrap();
        // Both have records for the one prefix of the FIB.
        for (i, strategy) in [(2, "/asf"), (3, "/fast-route")] {
            let strategy: Name = strategy.parse().unwrap();
            fw.strategies().set(name(i).as_name(), strategy.as_name()).unwrap();
        }
        let (now_ns, passing) = (AtomicU64::new(MS), AtomicU64::new(0));
        Scene { fw, now_ns, faces, passing, over: AtomicBool::new(false) }
    }

    /// A worker: packets of all kinds from the permanent faces and from the passing one.
    fn work(&self, seed: u64) -> (u64, Sink) {
        let (mut dice, mut sink, mut received) = (Dice(seed), Sink::default(), 0);
        let mut batch = Batch::new();
        while !self.over.load(Ordering::Relaxed) {
            for _ in 0..16 {
                let now_ns = self.now_ns.fetch_add(dice.next(1000) as u64 * 100, Ordering::Relaxed);
                let face = match dice.next(6) {
                    0 => FaceId(self.passing.load(Ordering::Relaxed)),
                    i => self.faces[i % self.faces.len()],
                };
                let (packet, nack) = match dice.next(10) {
                    0..6 => (interest(&mut dice), None),
                    6..9 => (data(&mut dice), None),
                    _ => (interest(&mut dice), Some(NackReason::NoRoute)),
                };
                let headers = LpHeaders {
                    nack,
                    pit_token: PitToken::new(&[dice.next(3) as u8]),
                    ..LpHeaders::default()
                };
                match dice.next(2) {
                    0 => self.fw.receive(face, Received { packet, headers }, now_ns, &mut sink),
                    _ => batch.push(face, Received { packet, headers }).unwrap(),
                }
                received += 1;
            }
            self.fw.receive_batch(&mut batch, self.now_ns.load(Ordering::Relaxed), &mut sink);
            self.fw.expire(self.now_ns.load(Ordering::Relaxed), &mut sink);
        }
        (received, sink)
    }

    /// The control path: faces are registered, receive routes, are held, released and put. Tables
    /// are read.
    fn control(&self) -> u64 {
        let (mut dice, mut released, start) = (Dice(77), 0, Instant::now());
        // The workers may stall for all of the duration.
        let are_behind = || self.now_ns.load(Ordering::Relaxed) < WORKED_NS && start.elapsed() < WORKING_MAX;
        while start.elapsed() < duration() || are_behind() {
            let face = self.fw.face_register(FaceProperties::remote()).unwrap();
            self.passing.store(face.0, Ordering::Relaxed);
            self.fw.fib().add_nexthop(name(dice.next(20)).as_name(), face, 0).unwrap();
            let hold = self.fw.faces().hold(face);
            assert_eq!(hold.as_ref().map(|hold| hold.id()), Some(face));
            assert!(self.fw.pit().snapshot(50).len() <= 50);
            std::thread::yield_now();
            self.fw.face_release(face).unwrap();
            released += 1;
            assert_eq!(hold.map(|hold| hold.id()), Some(FaceId::NONE));
            assert!(self.fw.faces().hold(face).is_none());
        }
        self.over.store(true, Ordering::Relaxed);
        released
    }

    /// Waits for the end of everything that is pending.
    fn end(&self) {
        let now_ns = self.now_ns.load(Ordering::Relaxed) + 1_000_000 * MS;
        while self.fw.expire(now_ns, &mut Sink::default()).is_some_and(|next_ns| next_ns <= now_ns + 20 * MS)
        {
        }
        assert_eq!(self.fw.expire(now_ns, &mut Sink::default()), None);
        assert_eq!(self.fw.table_sizes().pit, 0);
        assert!(self.fw.pit().snapshot(10).is_empty());
    }
}

#[test]
fn workers_and_control_leave_nothing_over() {
    // Small tables, so that they are full repeatedly.
    let config = Config {
        pit: PitLimits {
            entries_max: 24,
            entries_per_face_max: 12,
            in_records_max: 3,
            ..PitLimits::default()
        },
        dead_nonces: DeadNonceLimits { entries_max: 64, ..DeadNonceLimits::default() },
        cs: CsLimits { packets_max: 8, ..CsLimits::default() },
        unsolicited: UnsolicitedPolicy::AdmitAll,
        ..Config::new(|octets| [octets[octets.len() - 33]; 32])
    };
    let scene = Scene::new(config);
    let (received, sent, released) = std::thread::scope(|scope| {
        let workers = [1, 2, 3].map(|seed| {
            scope.spawn({
                let scene = &scene;
                move || scene.work(seed * 0x9e37_79b9)
            })
        });
        let released = scene.control();
        let (mut received, mut sent) = (0, Sink::default());
        for worker in workers {
            let (packets, sink) = worker.join().unwrap();
            received += packets;
            sent.add(sink);
        }
        (received, sent, released)
    });
    scene.end();

    let counters = scene.fw.counters();
    let faces = scene.fw.faces().snapshot();
    assert_eq!(counters.faces_freed + counters.faces_orphaned, released);
    assert!(faces.iter().all(|face| face.users == 1), "{faces:?}");
    assert_eq!(faces.len(), scene.faces.len());
    // The counters of a released face may have been read before a worker counted its last packet.
    let packets = counters.packets;
    let arrived = packets.in_interests + packets.in_data + packets.in_nacks;
    let unknown = counters.dropped(DropReason::UnknownFace);
    assert!(arrived + unknown <= received && received - arrived - unknown <= 3 * released, "{counters:?}");
    let left = packets.out_interests + packets.out_data + packets.out_nacks;
    let passed = sent.interests + sent.data + sent.nacks;
    assert!(left <= passed && sent.interests > 0 && sent.data > 0 && sent.nacks > 0, "{counters:?}");
    for reason in [DropReason::PitFull, DropReason::Loop, DropReason::NackUnmatched] {
        assert!(counters.dropped(reason) > 0, "{reason:?} did not happen");
    }

    // Every slot and every count was returned: each face can have as many pending Interests as
    // before.
    let mut sink = Sink::default();
    let now_ns = scene.now_ns.load(Ordering::Relaxed) + 2_000_000 * MS;
    let before = counters.dropped(DropReason::PitFaceFull);
    for (i, face) in [scene.faces[1], scene.faces[2]].iter().cycle().take(24).enumerate() {
        let packet =
            InterestBuilder::new(name(2).join_number(50, i as u64)).nonce([1, 2, 3, i as u8]).build();
        scene.fw.receive(*face, Received::bare(packet.into()), now_ns, &mut sink);
    }
    assert_eq!(scene.fw.table_sizes().pit, 24);
    assert_eq!(scene.fw.counters().dropped(DropReason::PitFaceFull), before);
}

/// `IS-29`, `IS-33`: several workers receive Interests of one name at once. One Interest is sent
/// upstream, and each downstream receives the Data.
#[test]
fn concurrent_interests_are_aggregated_and_answered() {
    const WORKERS: usize = 3;
    let fw = Fw::new(
        Config { cs: CsLimits { packets_max: 0, ..CsLimits::default() }, ..Config::new(|_| [0; 32]) },
        3,
    )
    .unwrap();
    let upstream = fw.face_register(FaceProperties::remote()).unwrap();
    let prefix = Name::new().join_generic("a");
    fw.fib().add_nexthop(prefix.as_name(), upstream, 0).unwrap();
    let consumers = [(); WORKERS].map(|()| fw.face_register(FaceProperties::application()).unwrap());
    let barrier = std::sync::Barrier::new(WORKERS);
    let rounds = 300;
    let sent = std::thread::scope(|scope| {
        let workers = [0, 1, 2].map(|w: usize| {
            let (fw, barrier, consumer) = (&fw, &barrier, consumers[w]);
            scope.spawn(move || {
                let mut sink = Sink::default();
                for round in 0..rounds {
                    let name = Name::new().join_generic("a").join_number(50, round);
                    let nonce = [w as u8, (round >> 8) as u8, round as u8, 7];
                    let packet: Packet = InterestBuilder::new(name.clone()).nonce(nonce).build().into();
                    barrier.wait();
                    fw.receive(consumer, Received::bare(packet), 1, &mut sink);
                    if barrier.wait().is_leader() {
                        let data =
                            DataBuilder::new(name.as_name()).build(b"x", &SignatureInfo::digest_sha256());
                        fw.receive(upstream, Received::bare(data.finish(&[0; 32]).into()), 2, &mut sink);
                    }
                }
                sink
            })
        });
        let mut sent = Sink::default();
        workers.into_iter().for_each(|worker| sent.add(worker.join().unwrap()));
        sent
    });
    assert_eq!((sent.interests, sent.data, sent.nacks), (rounds, WORKERS as u64 * rounds, 0));
    assert_eq!(fw.table_sizes().pit, 0);
}

/// An Interest that arrives at the same time as the Data for an earlier one of its name is answered
/// by it, or is sent upstream and waits. It is never lost.
#[test]
fn an_interest_meeting_data_is_answered_or_pending() {
    let fw = Fw::new(
        Config { cs: CsLimits { packets_max: 0, ..CsLimits::default() }, ..Config::new(|_| [0; 32]) },
        3,
    )
    .unwrap();
    let upstream = fw.face_register(FaceProperties::remote()).unwrap();
    let (one, other) = (
        fw.face_register(FaceProperties::application()).unwrap(),
        fw.face_register(FaceProperties::application()).unwrap(),
    );
    fw.fib().add_nexthop(Name::new().as_name(), upstream, 0).unwrap();
    let barrier = std::sync::Barrier::new(2);
    for round in 0..300u64 {
        let name = Name::new().join_number(50, round);
        let interest = |n: u8| -> Packet {
            InterestBuilder::new(name.clone()).nonce([n, (round >> 8) as u8, round as u8, 7]).build().into()
        };
        let data: Packet = DataBuilder::new(name.as_name())
            .build(b"x", &SignatureInfo::digest_sha256())
            .finish(&[0; 32])
            .into();
        let mut sink = Sink::default();
        fw.receive(one, Received::bare(interest(1)), 1, &mut sink);
        let (asked, answered) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let mut sink = Sink::default();
                barrier.wait();
                fw.receive(other, Received::bare(interest(2)), 2, &mut sink);
                sink
            });
            let mut sink = Sink::default();
            barrier.wait();
            fw.receive(upstream, Received::bare(data.clone()), 2, &mut sink);
            (asking.join().unwrap(), sink)
        });
        let pending = fw.table_sizes().pit as u64;
        // In the last case the Interest found no entry and made one, which the Data then found.
        let outcome = (answered.data, asked.interests, pending);
        assert!([(1, 1, 1), (2, 0, 0), (2, 1, 0)].contains(&outcome), "{outcome:?}");
        fw.receive(upstream, Received::bare(data), 3, &mut sink);
        assert_eq!((sink.data, fw.table_sizes().pit), (pending, 0));
    }
}
