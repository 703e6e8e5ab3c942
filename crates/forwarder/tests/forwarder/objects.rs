//! Data of registered objects in the content store (`VI-17` to `VI-19`, `X-04`), observed at the
//! faces of a router.

use crate::bench::*;
use crate::tier::Tiered;
use namely_forwarder::{
    Completion, Config, CsLimits, CsPolicy, FaceId, ObjectName, ObjectPlacement, ObjectPlan, TierAnswer,
};

/// Octets of the Data that these tests fetch.
fn one() -> u64 {
    data("/a/one/0").len() as u64
}

fn register(fw: &Fw) {
    let files = [("/a/one", 0), ("/a/two", 1), ("/a/six", 2)].map(|(uri, object)| (name(uri), object));
    let names = files.iter().map(|(name, object)| ObjectName {
        name: name.as_name(),
        object: *object,
        id: 100 + u64::from(*object),
    });
    assert_eq!(fw.objects().set(names), Ok(3));
}

fn plan(fw: &Fw, object: u32, placement: ObjectPlacement, worth: u64) {
    fw.objects().plan(object, ObjectPlan { placement, worth, octets: 4 * one() });
}

/// A router with three objects and memory for one of four Data, a consumer and a producer.
fn bench(config: Config) -> (Bench, FaceId, FaceId) {
    let bench = Bench::with(config);
    let (consumer, producer) = (bench.app(), bench.remote());
    bench.route("/", producer, 0);
    register(&bench.fw);
    bench.fw.objects().room(100, 4 * one());
    (bench, consumer, producer)
}

fn fetch(bench: &Bench, consumer: FaceId, producer: FaceId, uri: &str) {
    assert_eq!(faces(&bench.receive(consumer, interest(uri).build())), [producer], "{uri}");
    assert_eq!(faces(&bench.receive(producer, data(uri))), [consumer]);
}

fn is_cached(bench: &Bench, uri: &str) -> bool {
    bench.fw.explain(name(uri).as_name()).cached.is_some()
}

#[test]
fn registered_objects_are_cached_by_plan() {
    let config =
        Config { cs: CsLimits { packets_max: 2, ..config().cs }, cs_policy: CsPolicy::Lru, ..config() };
    let (mut bench, consumer, producer) = bench(config);
    plan(&bench.fw, 0, ObjectPlacement::Memory, 1);
    plan(&bench.fw, 1, ObjectPlacement::Nowhere, 9);
    for i in 0..4 {
        for file in ["/a/one", "/a/two", "/b/else"] {
            fetch(&bench, consumer, producer, &format!("{file}/{i}"));
        }
    }
    assert!((0..4).all(|i| is_cached(&bench, &format!("/a/one/{i}"))));
    assert!((0..4).all(|i| !is_cached(&bench, &format!("/a/two/{i}"))));
    assert_eq!([0, 1, 2, 3].map(|i| is_cached(&bench, &format!("/b/else/{i}"))), [false, false, true, true]);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/one/2").build())), [consumer], "a hit");
    // Another object is worth more, so the first one is evicted as a whole.
    plan(&bench.fw, 2, ObjectPlacement::Memory, 2);
    fetch(&bench, consumer, producer, "/a/six/0");
    bench.advance_ms(1);
    bench.expire();
    assert!(is_cached(&bench, "/a/six/0") && (0..4).all(|i| !is_cached(&bench, &format!("/a/one/{i}"))));
    assert!(is_cached(&bench, "/b/else/3"), "whatever objects do, the policy's Data stay");
    let counts = bench.fw.objects().counts();
    assert_eq!((counts.held, counts.packets, counts.evicted, counts.evicted_data), (1, 1, 1, 4));
    assert_eq!((counts.admitted, counts.refused, bench.fw.cs().status().packets), (5, 4, 2));
}

#[test]
fn unregistered_data_is_refused_when_configured() {
    let (bench, consumer, producer) = bench(config());
    bench.fw.objects().only(true);
    plan(&bench.fw, 0, ObjectPlacement::Memory, 1);
    fetch(&bench, consumer, producer, "/a/one/0");
    fetch(&bench, consumer, producer, "/b/else/0");
    assert!(is_cached(&bench, "/a/one/0") && !is_cached(&bench, "/b/else/0"));
    assert_eq!(bench.fw.objects().counts().unregistered, 1);
    bench.fw.objects().only(false);
    fetch(&bench, consumer, producer, "/b/else/1");
    assert!(is_cached(&bench, "/b/else/1"));
}

#[test]
fn without_object_room_the_policy_decides() {
    let (bench, consumer, producer) = bench(config());
    bench.fw.objects().room(0, 0);
    fetch(&bench, consumer, producer, "/a/two/0");
    assert!(is_cached(&bench, "/a/two/0"));
    assert_eq!((bench.fw.objects().counts().packets, bench.fw.cs().status().packets), (0, 1));
}

#[test]
fn a_file_outside_the_catalogue_is_uncached() {
    let (bench, consumer, producer) = bench(config());
    plan(&bench.fw, 0, ObjectPlacement::Memory, 1);
    fetch(&bench, consumer, producer, "/a/one/0");
    let six = name("/a/six");
    let names = [ObjectName { name: six.as_name(), object: 0, id: 102 }];
    assert_eq!(bench.fw.objects().set(names), Ok(1));
    assert!(!is_cached(&bench, "/a/one/0"));
    assert_eq!(bench.fw.objects().counts().octets, 0);
}

#[test]
fn erasing_removes_object_data_too() {
    let (bench, consumer, producer) = bench(config());
    plan(&bench.fw, 0, ObjectPlacement::Memory, 1);
    (0..3).for_each(|i| fetch(&bench, consumer, producer, &format!("/a/one/{i}")));
    assert_eq!(bench.fw.cs().erase(name("/a/one/1").as_name(), 10), (1, false));
    assert_eq!(bench.fw.objects().held(0).packets, 2);
    fetch(&bench, consumer, producer, "/b/else/0");
    assert_eq!(bench.fw.cs().erase(name("/").as_name(), 10), (3, false));
    assert_eq!((bench.fw.objects().held(0).packets, bench.fw.objects().counts().reserved), (0, 0));
}

///
#[test]
fn tier_planned_objects_reach_the_tier() {
    let mut tiered = Tiered::new(TierAnswer::Absent);
    let (consumer, producer) = (tiered.bench.app(), tiered.bench.remote());
    tiered.bench.route("/", producer, 0);
    register(&tiered.bench.fw);
    tiered.bench.fw.objects().room(100, 4 * one());
    plan(&tiered.bench.fw, 0, ObjectPlacement::Tier, 5);
    plan(&tiered.bench.fw, 1, ObjectPlacement::Memory, 5);
    let fetch = |tiered: &mut Tiered, uri: &str| {
        tiered.receive(consumer, interest(uri).build());
        assert_eq!(faces(&tiered.receive(producer, data(uri))), [consumer]);
    };
    ["/a/one/0", "/a/two/0", "/a/six/0"].iter().for_each(|uri| fetch(&mut tiered, uri));
    let given: Vec<(Packet, bool)> =
        tiered.home.given.drain(..).map(|leaving| (leaving.packet, leaving.is_planned)).collect();
    assert_eq!(given, [(data("/a/one/0"), true)], "it alone, at once, and whatever else is written");
    assert!(is_cached(&tiered.bench, "/a/two/0") && !is_cached(&tiered.bench, "/a/one/0"));
    // Data that the tier returns stays where it is planned.
    tiered.home.answer = TierAnswer::Reading;
    tiered.receive(consumer, interest("/a/one/0").build());
    let found = Completion::Found { packet: data("/a/one/0"), fresh_until_ns: 0, is_busy: false };
    assert_eq!(faces(&tiered.complete(tiered.ticket(), found)), [consumer]);
    assert!(!is_cached(&tiered.bench, "/a/one/0") && tiered.home.given.is_empty());
    // Evicted Data is offered to the tier if it is planned for it now.
    tiered.home.answer = TierAnswer::Absent;
    plan(&tiered.bench.fw, 1, ObjectPlacement::Tier, 5);
    plan(&tiered.bench.fw, 2, ObjectPlacement::Memory, 6);
    fetch(&mut tiered, "/a/six/1");
    tiered.bench.fw.expire(tiered.bench.now_ns, &mut tiered.home);
    let given: Vec<Packet> = tiered.home.given.drain(..).map(|leaving| leaving.packet).collect();
    assert_eq!(given, [data("/a/two/0")]);
    let counts = tiered.bench.fw.objects().counts();
    assert_eq!((counts.to_tier, counts.evicted, tiered.bench.fw.counters().tier.writes), (2, 1, 2));
}
