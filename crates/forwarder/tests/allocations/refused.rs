//! Memory that is allocated ahead, and allocations that fail.

use super::*;

/// A forwarder with tables of some chunks, its downstream and its upstream.
fn with_chunks(cs_policy: CsPolicy) -> (Fw, FaceId, FaceId) {
    let config = Config {
        cs_policy,
        pit: PitLimits { entries_max: 4000, entries_per_face_max: 4000, ..PitLimits::default() },
        cs: CsLimits { packets_max: 3000, entries_max: 40_000, ..CsLimits::default() },
        ..Config::new(|_| [0; 32])
    };
    let fw = Fw::new(config, 1).unwrap();
    let [app, upstream] =
        [FaceProperties::application(), FaceProperties::remote()].map(|of| fw.face_register(of).unwrap());
    fw.fib().add_nexthop(Name::new().as_name(), upstream, 0).unwrap();
    (fw, app, upstream)
}

/// Fills PIT and content store, with names of up to fourteen components, and empties both again.
/// Returns the largest allocation of `meanwhile` and of the packets.
fn fill(fw: &Fw, app: FaceId, upstream: FaceId, mut meanwhile: impl FnMut()) -> usize {
    let name = |i: u64| {
        (0..i % 12).fold(Name::new().join_generic("a"), |name, n| name.join_number(50, n * i)).join_segment(i)
    };
    let asked = |i: u64| InterestBuilder::new(name(i)).nonce((i as u32).to_be_bytes()).build().into();
    let data = |i: u64| -> Packet {
        let name = name(i);
        DataBuilder::new(name.as_name()).build(b"", &SignatureInfo::digest_sha256()).finish(&[0; 32]).into()
    };
    let mut most = 0;
    for round in 0..2 {
        let numbers = round * 4000..(round + 1) * 4000;
        let interests: Vec<Packet> = numbers.clone().map(asked).collect();
        let answers: Vec<Packet> = numbers.map(data).collect();
        for (face, packets) in [(app, interests), (upstream, answers)] {
            for packets in packets.chunks(100) {
                most = most.max(largest(|| {
                    for packet in packets {
                        fw.receive(face, Received::bare(packet.clone()), 1, &mut Sink::default());
                    }
                }));
                meanwhile();
            }
        }
    }
    assert_eq!(fw.cs().status().packets, 3000);
    assert_eq!((fw.table_sizes().pit, fw.counters().drops.iter().sum::<u64>()), (0, 0));
    most
}

#[test]
fn after_prepare_packets_allocate_no_chunk() {
    for policy in CsPolicy::ALL {
        let (fw, app, upstream) = with_chunks(policy);
        assert!(fill(&fw, app, upstream, || ()) > SINGLE_OCTETS_MAX, "without it they do");
        let (fw, app, upstream) = with_chunks(policy);
        fw.prepare().unwrap();
        let most = fill(&fw, app, upstream, || ());
        assert!(most <= SINGLE_OCTETS_MAX, "{policy:?}: {most} octets at once");
        assert_eq!(allocations(|| fw.prepare().unwrap()), 0, "there is nothing left to make");
    }
}

/// If the embedder calls `grow` between packets, no packet allocates a chunk.
#[test]
fn with_grow_packets_allocate_no_chunk() {
    let (fw, app, upstream) = with_chunks(CsPolicy::S3Fifo);
    let grow = || while fw.grow().unwrap() {};
    grow();
    let most = fill(&fw, app, upstream, grow);
    assert!(most <= SINGLE_OCTETS_MAX, "{most} octets at once");
    assert!(!fw.grow().unwrap());
    // Memory for routes is allocated ahead as well.
    let names: Vec<Name> = (0..5000).map(|i| Name::new().join_generic([7; 100]).join_segment(i)).collect();
    fw.fib().make_room(names.len(), 110).unwrap();
    let most = largest(|| {
        names[..1].iter().for_each(|name| fw.fib().add_nexthop(name.as_name(), upstream, 1).unwrap());
    });
    assert!(most <= SINGLE_OCTETS_MAX, "{most} octets at once");
}

/// A control call enters a name where it cannot wait, as in a kernel.
#[test]
fn after_prepare_names_need_no_larger_buffer() {
    let (fw, _, upstream) = with_chunks(CsPolicy::S3Fifo);
    fw.prepare().unwrap();
    let name = Name::new().join_generic([7; 8000]);
    let most = largest(|| fw.fib().add_nexthop(name.as_name(), upstream, 1).unwrap());
    assert!(most <= SINGLE_OCTETS_MAX, "{most} octets at once");
}

#[test]
fn a_failed_preparation_can_be_retried() {
    let (fw, ..) = with_chunks(CsPolicy::Arc);
    let mut refused = 0;
    while with_allocations(refused, || fw.prepare()) == Err(ConfigError::OutOfMemory) {
        refused += 1;
    }
    assert!(refused > 0);
    assert_eq!(fw.prepare(), Ok(()));
    let (fw, app, _) = with_chunks(CsPolicy::Arc);
    assert_eq!(fw.grow(), Ok(false), "packets make their pages themselves");
    for i in 0..600u32 {
        let name = Name::new().join_number(50, i.into());
        let interest: Packet = InterestBuilder::new(name).nonce(i.to_be_bytes()).build().into();
        fw.receive(app, Received::bare(interest), 1, &mut Sink::default());
    }
    assert_eq!(with_allocations(0, || fw.grow()), Err(ConfigError::OutOfMemory));
    assert_eq!(fw.grow(), Ok(true));
}

/// Interests expire, and there is memory for few or none of their Nonces. Later Nonces are
/// remembered again.
#[test]
fn nonces_without_memory_are_not_remembered() {
    let dead_nonces = DeadNonceLimits { entries_max: 64, ..DeadNonceLimits::default() };
    let config = Config { dead_nonces, ..Config::new(|_| [0; 32]) };
    for memory in 0..10 {
        let fw = Fw::new(config.clone(), 1).unwrap();
        let [app, upstream] =
            [FaceProperties::application(), FaceProperties::remote()].map(|of| fw.face_register(of).unwrap());
        fw.fib().add_nexthop(Name::new().as_name(), upstream, 0).unwrap();
        let expire = |time_ms: u64, memory: u64| {
            for i in 0..10u8 {
                let name = Name::new().join_number(50, time_ms).join_number(50, i.into());
                let interest = InterestBuilder::new(name).nonce([i, 1, 2, 3]).lifetime_ms(10);
                fw.receive(app, Received::bare(interest.build().into()), time_ms * MS, &mut Sink::default());
            }
            with_allocations(memory, || fw.expire((time_ms + 100) * MS, &mut Sink::default()));
            (fw.table_sizes().pit, fw.table_sizes().dead_nonces)
        };
        let (pending, remembered) = expire(1000, memory);
        assert!(pending == 0 && (memory > 0 || remembered == 0), "{memory}: {remembered}");
        // After the lifetime of the first ones.
        assert_eq!(expire(20_000, u64::MAX), (0, 10), "after {memory} allocations");
    }
}

/// A forwarder with small tables, and packets that need every kind of memory.
struct Refused {
    fw: Fw,
    apps: Vec<FaceId>,
    upstreams: Vec<FaceId>,
    packets: Vec<(FaceId, Packet)>,
}

impl Refused {
    fn new() -> Self {
        let config = Config {
            faces_max: 64,
            strategies: StrategyLimits { faces_max: 64, ..StrategyLimits::default() },
            pit: PitLimits { entries_max: 64, ..PitLimits::default() },
            cs: CsLimits { packets_max: 64, ..CsLimits::default() },
            dead_nonces: DeadNonceLimits { entries_max: 64, ..DeadNonceLimits::default() },
            ..Config::new(|_| [0; 32])
        };
        let fw = Fw::new(config, 1).unwrap();
        let faces = |of| (0..30).map(|_| fw.face_register(of).unwrap()).collect::<Vec<_>>();
        let (apps, upstreams) = (faces(FaceProperties::application()), faces(FaceProperties::remote()));
        for strategy in ["best-route", "multicast", "asf", "fast-route", "self-learning"] {
            let prefix = Name::new().join_generic(strategy);
            let of: Name = format!("/localhost/nfd/strategy/{strategy}").parse().unwrap();
            fw.strategies().set(prefix.as_name(), of.as_name()).unwrap();
            upstreams.iter().for_each(|face| fw.fib().add_nexthop(prefix.as_name(), *face, 0).unwrap());
        }
        upstreams.iter().for_each(|face| fw.discovery().set(*face, true).unwrap());
        let mut packets = Vec::new();
        for strategy in ["best-route", "multicast", "asf", "fast-route", "self-learning", "none"] {
            let name = Name::new().join_generic(strategy).join_generic("x");
            for (n, app) in apps.iter().enumerate() {
                let asked = InterestBuilder::new(name.clone()).nonce([n as u8, 1, 2, 3]);
                packets.push((*app, asked.build().into()));
            }
            packets.push((upstreams[0], Self::data(&name)));
            // All packets have this digest here.
            let digest = namely_wire::Component {
                typ: namely_wire::types::IMPLICIT_DIGEST_COMPONENT,
                value: &[0; 32],
            };
            packets.push((apps[0], InterestBuilder::new(name.join(digest)).nonce([9; 4]).build().into()));
        }
        Refused { fw, apps, upstreams, packets }
    }

    fn data(name: &Name) -> Packet {
        DataBuilder::new(name.as_name()).build(b"", &SignatureInfo::digest_sha256()).finish(&[0; 32]).into()
    }

    /// Processes the packets; returns true if an allocation failed.
    fn play(&self, before: u64) -> bool {
        refusing(before, || {
            for (face, packet) in &self.packets {
                self.fw.receive(*face, Received::bare(packet.clone()), 1, &mut Sink::default());
            }
        })
    }

    /// The number of packets, or of steps of their processing, that were counted for lack of
    /// memory.
    fn counted(&self) -> u64 {
        let (counters, store) = (self.fw.counters(), self.fw.cs().status());
        let drops = [DropReason::NoMemory, DropReason::PitFull].map(|reason| counters.dropped(reason));
        drops.iter().sum::<u64>() + counters.strategy_memory_full + store.refused
    }
}

/// Each allocation for a packet fails once. The process survives, the failed work is counted, and
/// the next exchange succeeds.
#[test]
fn refused_packet_allocations_are_counted() {
    let all = Refused::new();
    assert!(!all.play(u64::MAX - 1));
    assert_eq!(all.counted(), 0);
    let (mut refused, mut uncounted) = (0, Vec::new());
    loop {
        let world = Refused::new();
        if !world.play(refused) {
            break;
        }
        if world.counted() == 0 {
            uncounted.push(refused);
        }
        let name: Name = "/best-route/after".parse().unwrap();
        let mut sink = Sink::default();
        let asked: Packet = InterestBuilder::new(name.clone()).nonce([8; 4]).build().into();
        world.fw.receive(world.apps[1], Received::bare(asked), 2, &mut sink);
        world.fw.receive(world.upstreams[0], Received::bare(Refused::data(&name)), 2, &mut sink);
        assert_eq!(sink.sent, 2, "after refusal {refused}");
        refused += 1;
    }
    println!("{refused} allocations, of which these may fail without anybody noticing: {uncounted:?}");
    assert!(refused > 20, "{refused} allocations");
    // Uncounted are digests, which are computed again, and positions in lists of the content store.
    // Without such a position a Data is not found by one of its prefixes.
    assert!(uncounted.len() <= 12, "{uncounted:?}");
}

/// A control call and its name.
type Call = (&'static str, fn(&ControlCalls) -> Result<(), String>);

/// A forwarder with faces, and names for control calls that allocate memory.
struct ControlCalls {
    fw: Forwarder<Packet, parking_lot::RawMutex>,
    app: FaceId,
    remotes: Vec<FaceId>,
    /// A long name: most of its octets are outside the entry's own block.
    route: Name,
    routes: Vec<Name>,
    bound: Vec<Name>,
    chosen: Name,
    strategy: Name,
}

fn said<T, E: std::fmt::Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

impl ControlCalls {
    fn new() -> Self {
        let fw = Forwarder::new(Config { faces_max: 2000, ..Config::new(|_| [0; 32]) }, 1).unwrap();
        let app = fw.face_register(FaceProperties::application()).unwrap();
        let remotes = (0..40).map(|_| fw.face_register(FaceProperties::remote()).unwrap()).collect();
        let long = |of: &str| Name::new().join_generic(of).join_generic([7; 100]);
        let names = |of: &str, n| (0..n).map(|i| long(of).join_segment(i)).collect();
        let (route, chosen, strategy) = (long("route"), long("chosen"), "/multicast".parse().unwrap());
        let (routes, bound) = (names("routes", 100), names("bound", 40));
        ControlCalls { fw, app, remotes, route, routes, bound, chosen, strategy }
    }

    const CALLS: [Call; 6] = [
        ("face_register", |all| {
            let mut faces = 0..150;
            faces.try_for_each(|i| said(all.fw.face_register_for(FaceProperties::remote(), OwnerId(i))))
        }),
        ("fib_add_nexthop, many faces", |all| {
            let add = |face: &FaceId| said(all.fw.fib().add_nexthop(all.route.as_name(), *face, 1));
            all.remotes.iter().try_for_each(add)
        }),
        ("fib_add_nexthop, many names", |all| {
            let add = |name: &Name| said(all.fw.fib().add_nexthop(name.as_name(), all.remotes[0], 1));
            all.routes.iter().try_for_each(add)
        }),
        ("bpt_bind", |all| {
            let bind = |name: &Name| match all.fw.bindings().bind(all.app, name.as_name()) {
                Err(BindError::InUse) if all.fw.bindings().holds(all.app, name) => Ok(()),
                result => said(result),
            };
            all.bound.iter().try_for_each(bind)
        }),
        ("strategy_set", |all| said(all.fw.strategies().set(all.chosen.as_name(), all.strategy.as_name()))),
        ("face_set_discovery", |all| said(all.fw.discovery().set(all.remotes[0], true))),
    ];

    /// Removes all entries, and checks that this allocates nothing.
    fn remove_all(&self) {
        let fw = &self.fw;
        let needed = allocations(|| {
            self.bound[..20].iter().for_each(|name| assert!(fw.bindings().unbind(self.app, name.as_name())));
            self.remotes[..20]
                .iter()
                .for_each(|face| assert!(fw.fib().remove_nexthop(self.route.as_name(), *face)));
            fw.strategies().unset(self.chosen.as_name()).unwrap();
            fw.face_release(self.app).unwrap();
            self.remotes.iter().for_each(|face| assert!(fw.face_release(*face).is_ok()));
            let mut now_ns = 1;
            while let Some(next_ns) = fw.expire(now_ns, &mut Sink::default()) {
                now_ns = next_ns.max(now_ns);
            }
        });
        assert_eq!(needed, 0, "allocations by what takes away");
        let sizes = fw.table_sizes();
        assert_eq!((sizes.fib, sizes.bindings, fw.strategies().snapshot().len()), (0, 0, 1));
    }
}

/// Each allocation of each call that adds an entry fails once. The call then returns an error, or
/// succeeds without that memory, and can be repeated. Calls that remove entries, and the sweep
/// after the release of a face, allocate nothing.
#[test]
fn refused_control_allocations_are_errors() {
    let (mut refusals, mut errors) = (0, 0);
    for (what, call) in ControlCalls::CALLS {
        let mut before = 0;
        loop {
            let all = ControlCalls::new();
            let mut result = Ok(());
            let is_refused = refusing(before, || result = call(&all));
            if let Err(error) = &result {
                assert!(is_refused && ["NoMemory", "TableFull"].contains(&error.as_str()), "{what}: {error}");
                errors += 1;
            }
            assert_eq!(call(&all), Ok(()), "{what}, again after refusal {before}");
            ControlCalls::CALLS.iter().for_each(|(what, call)| assert_eq!(call(&all), Ok(()), "{what}"));
            all.remove_all();
            if !is_refused {
                break;
            }
            before += 1;
        }
        println!("{what}: {before} allocations, each refused once");
        refusals += before;
    }
    assert!(refusals > 100 && errors > 100, "{refusals} refusals, {errors} errors");
}
