//! The stack that the core uses. A kernel has 16 KiB for all nested calls, and the limits here are
//! those of docs/limits.md. Code without optimization uses several times as much. So the limits
//! apply to the release profile (`.ci/run stack`), and a multiple of them to other builds.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use namely_forwarder::{
    Batch, Config, CsChange, CsLimits, CsPolicy, FaceId, FaceProperties, Forwarder, Outgoing, Output,
    Received, UnsolicitedPolicy,
};
use namely_wire::{
    Component, DataBuilder, InterestBuilder, LpHeaders, NackReason, Name, SignatureInfo, types,
};

type Packet = Arc<[u8]>;
type Fw = Forwarder<Packet, parking_lot::RawMutex>;

/// Maximum stack of `Forwarder::new` below its caller, octets.
const NEW_MAX: usize = 6 << 10;
/// Maximum stack of a call below its caller, including this test's allocator, octets.
const CALL_MAX: usize = 4 << 10;
/// Maximum stack of [`Forwarder::receive`], which has the work memory of a batch on the stack,
/// octets.
const ALONE_MAX: usize = 6400;

/// Factor by which code that is not optimized may use more stack.
const FACTOR: usize = if cfg!(debug_assertions) { 8 } else { 1 };

/// Octets of stack that are painted, and the gap next to the caller that is not painted: the calls
/// that paint have their frames there.
const PAINTED: usize = 256 << 10;
const GAP: usize = 2 << 10;
const PAINT: u8 = 0xa5;

/// Runs `run` on a thread of its own. Returns the octets of its stack that `run` used. The stack is
/// painted and read through `/proc/self/mem`, so nothing here is `unsafe`.
fn depth<T: Send>(run: impl FnOnce() -> T + Send) -> (usize, T) {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(PAINTED * 4);
        builder.spawn_scoped(scope, || painted(run)).unwrap().join().unwrap()
    })
}

#[inline(never)]
fn painted<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let memory = File::options().read(true).write(true).open("/proc/self/mem").unwrap();
    let mut octets = vec![PAINT; PAINTED - GAP];
    let here = 0u8;
    let bottom = (&raw const *black_box(&here)).addr() - PAINTED;
    memory.write_all_at(&octets, bottom as u64).unwrap();
    let (caller, made) = entered(run);
    memory.read_exact_at(&mut octets, bottom as u64).unwrap();
    let untouched = octets.chunks_exact(8).take_while(|eight| *eight == [PAINT; 8]).count() * 8;
    // A use below the gap is reported as the gap.
    (caller.saturating_sub(bottom + untouched), made)
}

/// Runs `run`, and returns the caller's position on the stack.
#[inline(never)]
fn entered<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let here = 0u8;
    ((&raw const *black_box(&here)).addr(), run())
}

struct Sink;

impl Output<Packet> for Sink {
    type Tier = ();
    type Tracer = ();

    fn send(&mut self, _: FaceId, packet: Outgoing<Packet>) {
        black_box(&packet.headers);
    }
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// A name of 121 components.
fn long_name() -> Name {
    (0..120u64).fold(name("/long"), |name, i| name.join_number(50, i))
}

fn data(name: &Name, content: &[u8]) -> Packet {
    DataBuilder::new(name.as_name()).build(content, &SignatureInfo::digest_sha256()).finish(&[0; 32]).into()
}

fn digest(octets: &[u8]) -> [u8; 32] {
    [octets.len() as u8; 32]
}

struct Scene {
    fw: Fw,
    faces: Vec<FaceId>,
    batch: Batch<Packet>,
    /// The name of each call, its depth, and its limit.
    deepest: Vec<(String, usize, usize)>,
}

impl Scene {
    fn new(cs_policy: CsPolicy) -> Self {
        let config = Config {
            cs_policy,
            cs: CsLimits { packets_max: 20, ..CsLimits::default() },
            unsolicited: UnsolicitedPolicy::AdmitAll,
            regions: vec![name("/region")],
            ..Config::new(digest)
        };
        let (made, fw) = depth(|| Fw::new(config, 1));
        println!("new: {made} octets");
        assert!(made <= FACTOR * NEW_MAX, "{cs_policy:?}: it takes {made} octets");
        let fw = fw.unwrap();
        let faces = (0..8).map(|_| fw.face_register(FaceProperties::remote()).unwrap()).collect();
        Scene { fw, faces, batch: Batch::new(), deepest: Vec::new() }
    }

    /// Measures a call.
    fn call<T: Send>(&mut self, what: &str, run: impl FnOnce(&Fw, &[FaceId]) -> T + Send) -> T {
        let (depth, made) = depth(|| run(&self.fw, &self.faces));
        self.deepest.push((what.into(), depth, CALL_MAX));
        made
    }

    /// Measures the stack for packets of a face, in a batch and one by one.
    fn packets(&mut self, what: &str, face: usize, packets: &[Packet], headers: LpHeaders) {
        let (fw, face, batch) = (&self.fw, self.faces[face], &mut self.batch);
        for packet in packets {
            batch.push(face, Received { packet: packet.clone(), headers }).unwrap();
        }
        let (together, ()) = depth(|| fw.receive_batch(batch, 1, &mut Sink));
        let apart = packets.iter().map(|packet| {
            let received = Received { packet: packet.clone(), headers };
            depth(|| fw.receive(face, received, 1, &mut Sink)).0
        });
        self.deepest.push((format!("{what}, alone"), apart.max().unwrap(), ALONE_MAX));
        self.deepest.push((what.into(), together, CALL_MAX));
    }

    fn check(&self) {
        for (what, depth, _) in &self.deepest {
            println!("{what}: {depth} octets");
        }
        let beyond: Vec<_> = self.deepest.iter().filter(|(_, depth, most)| *depth > FACTOR * most).collect();
        assert!(beyond.is_empty(), "deeper than may be: {beyond:?}");
    }
}

fn interest(name: &Name, n: u8) -> InterestBuilder {
    InterestBuilder::new(name.clone()).nonce([n, 1, 2, 3])
}

/// Every kind of packet, from empty tables on, so that packets also allocate chunks.
fn play_packets(scene: &mut Scene) {
    let plain = LpHeaders::default();
    let (a, long) = (name("/a"), long_name());
    scene.call("routes", |fw, faces| {
        (1..8).for_each(|i| fw.fib().add_nexthop(name("/a").as_name(), faces[i], i as u64).unwrap());
        fw.fib().add_nexthop(name("/hint").as_name(), faces[1], 1).unwrap();
        fw.fib().add_nexthop(long_name().as_name(), faces[1], 1).unwrap();
    });
    let segments: Vec<Name> = (0..40).map(|i| a.join_segment(i)).collect();
    let interests: Vec<Packet> = segments.iter().map(|n| interest(n, 1).build().into()).collect();
    scene.packets("Interests", 0, &interests, plain);
    let nacked = [interest(&segments[39], 1).build().into()];
    scene.packets("a Nack", 1, &nacked, LpHeaders { nack: Some(NackReason::NoRoute), ..plain });
    let answers: Vec<Packet> = segments.iter().map(|n| data(n, &[0; 100])).collect();
    scene.packets("Data, some of which leave", 1, &answers, plain);
    let again: Vec<Packet> = segments[30..].iter().map(|n| interest(n, 2).build().into()).collect();
    scene.packets("hits", 2, &again, plain);
    scene.packets("a discovery", 2, &[interest(&a, 3).can_be_prefix().build().into()], plain);
    let with_digest = |content: &[u8]| {
        let value = digest(&data(&segments[39], content));
        segments[39].join(Component { typ: types::IMPLICIT_DIGEST_COMPONENT, value: &value })
    };
    let by_digest = [&[0; 100][..], &[0; 9]].map(|of| interest(&with_digest(of), 4).build().into());
    scene.packets("Interests by digest", 2, &by_digest, plain);
    scene.packets("no Nonce", 2, &[InterestBuilder::new(name("/a/none")).build().into()], plain);
    let hinted = |hint: &str| interest(&name("/b"), 5).forwarding_hint(name(hint)).build().into();
    scene.packets("hints", 2, &[hinted("/hint"), hinted("/region"), hinted("/other")], plain);
    scene.packets("a long name", 2, &[interest(&long, 6).build().into()], plain);
    scene.packets("its Data", 1, &[data(&long, b"x")], plain);
    scene.packets("garbage", 2, &[Packet::from(&b"\x05\x01\x00"[..]), Packet::from(&b""[..])], plain);
    for strategy in ["multicast", "asf", "fast-route", "self-learning", "multipath", "round-robin"] {
        let (under, of) = (a.join_generic(strategy), name(&format!("/{strategy}")));
        scene.call("strategy_set", |fw, _| fw.strategies().set(under.as_name(), of.as_name()).unwrap());
        let names: Vec<Name> = (0..3).map(|i| under.join_segment(i)).collect();
        let asked: Vec<Packet> = names.iter().map(|n| interest(n, 7).build().into()).collect();
        scene.packets(strategy, 0, &asked, plain);
        let again: Vec<Packet> = names.iter().map(|n| interest(n, 8).build().into()).collect();
        scene.packets(&format!("{strategy}, aggregated"), 2, &again, plain);
        scene.packets(&format!("{strategy}, answered"), 1, &[data(&names[0], b"")], plain);
    }
    scene.call("expire", |fw, _| fw.expire(60_000_000_000, &mut Sink));
}

fn play_control(scene: &mut Scene) {
    let (bound, long) = (name("/bound/here"), long_name());
    scene.call("fib_add_nexthop", |fw, faces| fw.fib().add_nexthop(bound.as_name(), faces[0], 3).unwrap());
    scene.call("fib_remove_nexthop", |fw, faces| fw.fib().remove_nexthop(bound.as_name(), faces[0]));
    let app = scene.call("face_register", |fw, _| fw.face_register(FaceProperties::application()).unwrap());
    scene.call("bpt_bind", |fw, _| fw.bindings().bind(app, bound.as_name()).unwrap());
    scene.call("bpt_bind, a long name", |fw, _| fw.bindings().bind(app, long.as_name()).unwrap());
    scene.call("bpt_bound_to", |fw, _| fw.bindings().bound_to(bound.as_name()));
    scene.call("bpt_unbind", |fw, _| fw.bindings().unbind(app, bound.as_name()));
    scene.call("cs_erase", |fw, _| fw.cs().erase(name("/a").as_name(), 3));
    scene.call("cs_config", |fw, _| {
        let policy = Some(CsPolicy::Lru);
        fw.cs().configure(&CsChange { packets_max: Some(5), policy, ..CsChange::default() })
    });
    scene.call("cs_walk", |fw, _| fw.cs().walk(Name::new().as_name(), 1, |_, _, _| true));
    scene.call("fib_walk", |fw, _| fw.fib().walk(None, &mut Vec::new()));
    scene.call("bpt_snapshot", |fw, _| fw.bindings().snapshot());
    scene.call("pit_snapshot", |fw, _| fw.pit().snapshot(100));
    scene.call("faces_snapshot", |fw, _| fw.faces().snapshot());
    scene.call("counters", |fw, _| (fw.counters(), fw.table_sizes()));
    scene.call("face_release", |fw, faces| {
        faces.iter().chain([&app]).all(|face| fw.face_release(*face).is_ok())
    });
    scene.call("expire, what faces left", |fw, _| fw.expire(70_000_000_000, &mut Sink));
}

#[test]
fn forwarder_calls_take_bounded_stack() {
    let mut scene = Scene::new(CsPolicy::S3Fifo);
    play_packets(&mut scene);
    play_control(&mut scene);
    scene.check();
    for policy in CsPolicy::ALL {
        let mut scene = Scene::new(policy);
        play_packets(&mut scene);
        scene.check();
    }
}

/// The measurement detects a large frame.
#[test]
fn a_large_stack_array_is_measured() {
    #[inline(never)]
    fn takes(n: u8) -> u8 {
        let array = black_box([n; 8 << 10]);
        array[usize::from(n)]
    }
    let (nothing, ()) = depth(|| ());
    let (much, _) = depth(|| takes(3));
    assert!(nothing <= GAP, "{nothing}");
    assert!((8 << 10..20 << 10).contains(&much), "{much}");
}
