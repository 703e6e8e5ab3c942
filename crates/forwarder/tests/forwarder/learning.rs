//! Self-learning, observed at the faces of a router whose embedder adds routes for learned
//! prefixes.

use crate::bench::*;
use namely_forwarder::{
    ANNOUNCED_ROUTE_MS_MAX, Config, DISCOVERY_FACES_MAX, DOUBTED_NS, DropReason, FaceError, FaceId,
    LEARNED_ROUTE_MS, Learned, Outgoing, Output, Received, RefusalEffect, StrategyLimits,
};
use namely_messages::RouteOrigin;
use namely_wire::{DataView, LpHeaders, NackReason, Name, NameRef};

/// The forwarder's output: packets sent and prefixes learned.
#[derive(Default)]
struct Sink {
    sent: Sent,
    learned: Vec<(FaceId, Option<Name>)>,
    /// Packets that were sent before something was learned or offered.
    sent_before: usize,
    /// Data of applications that answers discoveries.
    offered: Vec<FaceId>,
}

impl Output<Packet> for Sink {
    type Tier = ();
    type Tracer = ();

    fn send(&mut self, face: FaceId, packet: Outgoing<Packet>) {
        self.sent.push((face, packet));
    }

    fn learned(&mut self, learned: Learned<'_>) {
        self.learned.push((learned.face, learned.object().map(|name| name.to_name())));
        self.sent_before += self.sent.len();
    }

    fn offered(&mut self, face: FaceId, data: NameRef<'_>, packet: &Packet) {
        assert_eq!(DataView::parse(packet).unwrap().name, data);
        self.offered.push(face);
        self.sent_before += self.sent.len();
    }
}

const NON_DISCOVERY: LpHeaders = LpHeaders { non_discovery: true, ..EMPTY };

const EMPTY: LpHeaders = LpHeaders {
    pit_token: None,
    nack: None,
    incoming_face_id: None,
    next_hop_face_id: None,
    cache_policy: None,
    congestion_mark: None,
    non_discovery: false,
};

/// A router with a consumer and neighbors, of which all but the last are for discovery.
struct Router<const N: usize> {
    bench: Bench,
    consumer: FaceId,
    neighbours: [FaceId; N],
}

impl<const N: usize> Router<N> {
    fn new() -> Self {
        let bench = Bench::new();
        let (consumer, neighbours) = (bench.app(), [(); N].map(|()| bench.remote()));
        bench.strategy("/", "/localhost/nfd/strategy/self-learning/v=1");
        for face in &neighbours[..N - 1] {
            bench.fw.discovery().set(*face, true).unwrap();
        }
        Router { bench, consumer, neighbours }
    }

    fn receive(&self, face: FaceId, packet: impl Into<Packet>, headers: LpHeaders) -> Sink {
        let mut sink = Sink::default();
        let received = Received { packet: packet.into(), headers };
        self.bench.fw.receive(face, received, self.bench.now_ns, &mut sink);
        for (face, prefix) in &sink.learned {
            if let Some(prefix) = prefix {
                self.bench.fw.learn(prefix, *face, self.bench.now_ns).unwrap();
            }
        }
        sink
    }

    /// The faces to which the consumer's Interest is sent, and true if all copies carry
    /// NonDiscovery.
    fn ask(&self, uri: &str) -> (Vec<FaceId>, bool) {
        let sent = self.receive(self.consumer, interest(uri).build(), EMPTY).sent;
        (faces(&sent), sent.iter().all(|(_, packet)| packet.headers.non_discovery))
    }

    fn answer(&self, face: FaceId, uri: &str) -> Vec<(FaceId, Option<Name>)> {
        let sink = self.receive(face, data(uri), EMPTY);
        assert_eq!(faces(&sink.sent), [self.consumer]);
        sink.learned
    }
}

#[test]
fn discovery_floods_then_follows_the_answer() {
    let router = Router::<4>::new();
    let [_, second, _, last] = router.neighbours;
    assert_eq!(router.ask("/a/b/v=1/seg=0"), (router.neighbours[..3].to_vec(), false));
    assert_eq!(router.answer(second, "/a/b/v=1/seg=0"), [(second, Some(name("/a/b")))]);
    let routes = router.bench.fw.rib_snapshot(router.bench.now_ns);
    assert_eq!((routes.len(), routes[0].routes[0].origin), (1, RouteOrigin::PREFIX_ANNOUNCEMENT));
    assert_eq!(routes[0].routes[0].expiration_period_ms, Some(LEARNED_ROUTE_MS));
    assert_eq!(router.ask("/a/b/v=1/seg=1"), (vec![second], true), "along the route, said to be so");
    assert_eq!(router.answer(second, "/a/b/v=1/seg=1"), [], "what is no discovery teaches nothing");
    assert_eq!(router.ask("/a/c/seg=0").0.len(), 3, "another object is another discovery");
    let unasked = router.receive(last, data("/a/c/seg=0"), EMPTY);
    assert!(unasked.learned.is_empty() && unasked.sent.is_empty(), "who was not asked teaches nothing");
}

#[test]
fn a_route_is_learned_before_data_delivery() {
    let mut router = Router::<3>::new();
    let [first, _, last] = router.neighbours;
    let others = [router.bench.app(), last];
    router.ask("/a/b/seg=1");
    for other in others {
        router.bench.advance_ms(20);
        router.receive(other, interest("/a/b/seg=1").build(), EMPTY);
    }
    router.receive(router.bench.app(), interest("/a/b").can_be_prefix().build(), EMPTY);
    let sink = router.receive(first, data("/a/b/seg=1"), EMPTY);
    assert_eq!((sink.sent.len(), sink.learned.len()), (4, 1));
    assert_eq!(sink.sent_before, 0, "who has the Data may send the next Interest at once");
}

#[test]
fn a_router_without_routes_forwards_only_discoveries() {
    let router = Router::<3>::new();
    let [first, second, last] = router.neighbours;
    let refused = router.receive(last, interest("/a/b/seg=1").build(), NON_DISCOVERY).sent;
    assert_eq!(faces(&refused), [last]);
    assert!(is_nack(&refused[0].1, NackReason::NoRoute));
    let forwarded = router.receive(first, interest("/a/b/seg=2").build(), EMPTY).sent;
    assert_eq!(faces(&forwarded), [second], "not back to where it came from");
    let learned = router.receive(second, data("/a/b/seg=2"), EMPTY).learned;
    assert_eq!(learned, [(second, Some(name("/a/b")))]);
    let along = router.receive(last, interest("/a/b/seg=3").build(), NON_DISCOVERY).sent;
    assert_eq!((faces(&along), along[0].1.headers.non_discovery), (vec![second], true));
}

#[test]
fn a_local_application_teaches_no_route() {
    let mut router = Router::<2>::new();
    let app = router.bench.app();
    router.bench.route("/a", app, 0);
    assert_eq!(router.ask("/a/1"), (vec![app], false));
    assert_eq!(router.answer(app, "/a/1"), []);
    router.ask("/a/2");
    router.bench.advance_ms(5000);
    router.bench.expire();
    assert_eq!(router.ask("/a/3"), (vec![app], false), "nor is anybody else asked when it does not answer");
    for uri in ["/localhost/x", "/localhop/x"] {
        assert!(is_nack(
            &router.receive(router.consumer, interest(uri).build(), EMPTY).sent[0].1,
            NackReason::NoRoute
        ));
    }
}

#[test]
fn answers_to_neighbor_discoveries_are_offered() {
    let router = Router::<2>::new();
    let (app, [neighbour, _]) = (router.bench.app(), router.neighbours);
    router.bench.route("/a", app, 0);
    for (from, headers, uri, is_offered) in [
        (neighbour, EMPTY, "/a/1", true),
        (neighbour, NON_DISCOVERY, "/a/2", false),
        (router.consumer, EMPTY, "/a/3", false),
    ] {
        let asked = router.receive(from, interest(uri).build(), headers).sent;
        assert_eq!(faces(&asked), [app]);
        let answer = router.receive(app, data(uri), EMPTY);
        assert_eq!((faces(&answer.sent), answer.offered), (vec![from], vec![app; is_offered.into()]));
        assert!(answer.learned.is_empty() && answer.sent_before == 0, "{uri}");
    }
}

#[test]
fn a_failed_learned_route_restarts_discovery() {
    for is_timeout in [false, true] {
        let mut router = Router::<3>::new();
        let [first, second, _] = router.neighbours;
        router.ask("/a/b/seg=1");
        router.answer(first, "/a/b/seg=1");
        let sent =
            router.receive(router.consumer, interest("/a/b/seg=2").lifetime_ms(500).build(), EMPTY).sent;
        assert_eq!(faces(&sent), [first]);
        if is_timeout {
            router.bench.advance_ms(600);
            router.bench.expire();
        } else {
            let nack = LpHeaders { nack: Some(NackReason::NoRoute), ..EMPTY };
            router.receive(first, sent[0].1.packet.clone(), nack);
        }
        assert_eq!(router.ask("/a/b/seg=3"), (vec![first, second], false), "timeout: {is_timeout}");
        assert_eq!(router.answer(second, "/a/b/seg=3"), [(second, Some(name("/a/b")))]);
        assert_eq!(router.ask("/a/b/seg=4"), (vec![second], true), "the way that answers");
    }
}

#[test]
fn an_unanswered_retransmission_is_a_discovery() {
    let mut router = Router::<3>::new();
    let [first, second, _] = router.neighbours;
    router.ask("/a/b/seg=1");
    router.answer(first, "/a/b/seg=1");
    router.bench.advance_ms(2000);
    assert_eq!(router.ask("/a/b/seg=2").0, [first]);
    assert!(router.ask("/a/b/seg=2").0.is_empty(), "too soon");
    router.bench.advance_ms(50);
    assert_eq!(router.ask("/a/b/seg=2"), (vec![first, second], false));
    assert_eq!(router.answer(second, "/a/b/seg=2"), [(second, Some(name("/a/b")))]);
}

#[test]
fn a_learned_route_expires_by_itself() {
    let mut router = Router::<2>::new();
    router.ask("/a/b/seg=1");
    router.answer(router.neighbours[0], "/a/b/seg=1");
    router.bench.advance_ms(LEARNED_ROUTE_MS + 1);
    while router.bench.expire().is_some_and(|next_ns| next_ns <= router.bench.now_ns) {}
    assert!(router.bench.fw.rib_snapshot(router.bench.now_ns).is_empty());
    let object = |uri: &str| {
        let data = name(uri);
        Learned { face: FaceId(300), data: data.as_name(), wire: &[] }
            .object()
            .map(|name| name.to_name().to_string())
    };
    let of = |prefix: &str| Some(prefix.to_owned());
    assert_eq!(object("/a/b/32=metadata/v=1/seg=0"), of("/a/b"));
    assert_eq!((object("/a/b/seg=4"), object("/a/b")), (of("/a/b"), of("/a/b")));
    for none in ["/", "/v=1/seg=0", "/localhost/a/b", "/localhop/a/b"] {
        assert_eq!(object(none), None, "{none}");
    }
}

#[test]
fn an_announced_route_lasts_its_period() {
    let router = Router::<2>::new();
    let now_ns = router.bench.now_ns;
    let max = ANNOUNCED_ROUTE_MS_MAX;
    for (asked_ms, given_ms) in [(1, 1), (max, max), (max + 1, max), (u64::MAX, max)] {
        router.bench.fw.learn_announced(&name("/a"), router.neighbours[0], asked_ms, now_ns).unwrap();
        let routes = router.bench.fw.rib_snapshot(now_ns);
        assert_eq!((routes.len(), routes[0].routes[0].expiration_period_ms), (1, Some(given_ms)));
    }
}

#[test]
fn discoveries_per_face_are_rate_limited() {
    let mut router = Router::<3>::new();
    let [first, second, last] = router.neighbours;
    for _ in 0..40 {
        let face = router.bench.remote();
        assert_eq!(router.receive(face, interest(&format!("/z/{}", face.0)).build(), EMPTY).sent.len(), 2);
        router.bench.advance_ms(1000);
    }
    assert_eq!(router.bench.fw.counters().strategy_memory_full, 0, "places of earlier seconds are free");
    let router = &router;
    let sent =
        |face, i| faces(&router.receive(face, interest(&format!("/x/{i}/{}", face.0)).build(), EMPTY).sent);
    for i in 0..500 {
        assert_eq!(sent(last, i), [first, second]);
    }
    assert_eq!(sent(last, 500), [last], "a Nack");
    assert_eq!(router.bench.dropped(DropReason::NoRoute), 1);
    assert_eq!(router.ask("/y/1").0, [first, second], "others have their own");
}

#[test]
fn discovery_requires_strategy_memory() {
    let bench = Bench::with(Config {
        strategies: StrategyLimits { prefixes_max: 0, ..config().strategies },
        ..config()
    });
    let (consumer, neighbour) = (bench.app(), bench.remote());
    bench.fw.discovery().set(neighbour, true).unwrap();
    bench.strategy("/", "/self-learning");
    assert!(is_nack(&bench.receive(consumer, interest("/a/1").build())[0].1, NackReason::NoRoute));
}

#[test]
fn discovery_faces_end_at_their_limit() {
    let bench = Bench::new();
    let faces: Vec<FaceId> = (0..DISCOVERY_FACES_MAX).map(|_| bench.remote()).collect();
    for face in &faces {
        bench.fw.discovery().set(*face, true).unwrap();
        bench.fw.discovery().set(*face, true).unwrap();
    }
    let more = bench.remote();
    assert_eq!(bench.fw.discovery().set(more, true), Err(FaceError::TableFull));
    bench.fw.face_release(faces[3]).unwrap();
    bench.fw.discovery().set(more, true).unwrap();
    assert_eq!(bench.fw.discovery().faces().len(), DISCOVERY_FACES_MAX);
    bench.fw.discovery().set(more, false).unwrap();
    assert!(!bench.fw.discovery().faces().contains(&more));
    assert_eq!(bench.fw.discovery().set(faces[3], true), Err(FaceError::NotFound));
}

#[test]
fn an_overheard_interest_is_not_sent_again() {
    let mut router = Router::<2>::new();
    let (neighbour, group) = (router.neighbours[0], router.bench.group());
    router.bench.fw.discovery().set(group, true).unwrap();
    let of_group = router.receive(group, interest("/a/b/seg=1").build(), EMPTY).sent;
    assert_eq!(faces(&of_group), [neighbour]);
    router.bench.advance_ms(20);
    assert_eq!(router.ask("/a/b/seg=1").0, [neighbour], "all on the link have heard it");
    assert_eq!(router.answer(group, "/a/b/seg=1"), [(group, Some(name("/a/b")))]);

    router.receive(group, interest("/a/c/1").build(), EMPTY);
    router.bench.advance_ms(20);
    assert_eq!(router.ask("/a/c/1").0, [neighbour]);
    router.bench.advance_ms(50);
    assert_eq!(router.ask("/a/c/1").0, [neighbour, group], "it was not answered, and comes again");
}

/// A router with a consumer, and a link with a group and two neighbors that receive Interests
/// beside the group.
struct Segment {
    router: Router<3>,
    group: FaceId,
}

impl Segment {
    fn new() -> Self {
        let router = Router::<3>::new();
        let bench = router.bench;
        let group = bench.group();
        bench.fw.discovery().set(group, true).unwrap();
        for face in &router.neighbours[..2] {
            bench.fw.discovery().set_beside(*face, group).unwrap();
        }
        Segment { router: Router { bench, ..router }, group }
    }

    /// All upstreams of an Interest without a route: the group last.
    fn all(&self) -> Vec<FaceId> {
        [&self.router.neighbours[..2], &[self.group]].concat()
    }

    /// The consumer sends an Interest for `uri`, and the neighbors refuse it; returns the packets
    /// sent then.
    fn ask_in_vain(&self, uri: &str) -> Sent {
        let asked = self.router.receive(self.router.consumer, interest(uri).build(), EMPTY).sent;
        assert_eq!(faces(&asked), self.all());
        let [first, second, _] = self.router.neighbours;
        let packet = asked[0].1.packet.clone();
        let nack = LpHeaders { nack: Some(NackReason::NoRoute), ..EMPTY };
        assert!(self.router.receive(first, packet.clone(), nack).sent.is_empty(), "the other may answer");
        self.router.receive(second, packet, nack).sent
    }

    fn advance_ms(&mut self, ms: u64) -> Sent {
        self.router.bench.advance_ms(ms);
        let mut sink = Sink::default();
        self.router.bench.fw.expire(self.router.bench.now_ns, &mut sink);
        sink.sent
    }

    /// Learns the object from the group, and then follows that route twice.
    fn learned_of_group(&self) {
        assert_eq!(self.router.ask("/a/b/seg=0"), (self.all(), false));
        let learned = self.router.answer(self.group, "/a/b/seg=0");
        assert_eq!(learned, [(self.group, Some(name("/a/b")))]);
        for n in 1..3 {
            let uri = format!("/a/b/seg={n}");
            assert_eq!(self.router.ask(&uri), (vec![self.group], true));
            self.router.answer(self.group, &uri);
        }
    }
}

#[test]
fn a_group_is_asked_beside_its_neighbors() {
    let segment = Segment::new();
    // None of the neighbors ever answers.
    for object in ["/a/b", "/a/c", "/a/d"] {
        let uri = format!("{object}/seg=0");
        assert_eq!(segment.router.ask(&uri), (segment.all(), false));
        assert_eq!(segment.router.answer(segment.group, &uri), [(segment.group, Some(name(object)))]);
        assert_eq!(segment.router.ask(&format!("{object}/seg=1")), (vec![segment.group], true));
    }
}

#[test]
fn an_answer_teaches_its_own_face() {
    let segment = Segment::new();
    let Segment { router, group } = &segment;
    let [first, ..] = router.neighbours;
    router.ask("/a/b/seg=0");
    assert_eq!(router.answer(first, "/a/b/seg=0"), [(first, Some(name("/a/b")))]);
    assert_eq!(router.ask("/a/b/seg=1"), (vec![first], true));
    let late = router.receive(*group, data("/a/b/seg=0"), EMPTY);
    assert!(late.sent.is_empty() && late.learned.is_empty(), "the second answer is too late");
}

#[test]
fn neighbor_refusals_leave_the_group_time() {
    let mut segment = Segment::new();
    let consumer = segment.router.consumer;
    assert!(segment.ask_in_vain("/a/1").is_empty());
    assert!(segment.advance_ms(499).is_empty());
    let refused = segment.advance_ms(2);
    assert_eq!(faces(&refused), [consumer]);
    assert!(is_nack(&refused[0].1, NackReason::NoRoute));
    // The router waits longer for a group that has answered.
    assert!(segment.ask_in_vain("/a/b/seg=0").is_empty());
    segment.router.answer(segment.group, "/a/b/seg=0");
    assert!(segment.ask_in_vain("/a/2").is_empty());
    assert!(segment.advance_ms(1999).is_empty());
    assert_eq!(faces(&segment.router.receive(segment.group, data("/a/2"), EMPTY).sent), [consumer]);
    assert!(segment.ask_in_vain("/a/4").is_empty());
    assert_eq!(faces(&segment.advance_ms(2001)), [consumer]);
    // Ten minutes later the group no longer counts as answering.
    segment.advance_ms(600_001);
    assert!(segment.ask_in_vain("/a/3").is_empty());
    assert_eq!(faces(&segment.advance_ms(501)), [consumer]);
}

#[test]
fn a_duplicate_nack_ends_no_group_wait() {
    let mut segment = Segment::new();
    let [first, second, _] = segment.router.neighbours;
    let asked = segment.router.receive(segment.router.consumer, interest("/a/1").build(), EMPTY).sent;
    for (face, reason) in [(first, NackReason::NoRoute), (second, NackReason::Duplicate)] {
        let nack = LpHeaders { nack: Some(reason), ..EMPTY };
        assert!(segment.router.receive(face, asked[0].1.packet.clone(), nack).sent.is_empty());
    }
    assert!(segment.advance_ms(3000).is_empty());
    assert_eq!(segment.router.answer(segment.group, "/a/1").len(), 1);
}

#[test]
fn an_interest_from_a_link_skips_its_group() {
    let mut segment = Segment::new();
    let [first, second, other_link] = segment.router.neighbours;
    let group = segment.group;
    let ask = |segment: &Segment, face, uri: &str| {
        faces(&segment.router.receive(face, interest(uri).build(), EMPTY).sent)
    };
    assert_eq!(ask(&segment, first, "/a/1"), [second], "who asked there does that himself");
    assert!(ask(&segment, group, "/a/2").is_empty(), "all on the link have heard it");
    assert_eq!(ask(&segment, other_link, "/a/3"), [first, second, group]);
    // A neighbor's Interest for the same name does not exclude the group for another consumer.
    segment.advance_ms(20);
    assert_eq!(ask(&segment, segment.router.consumer, "/a/1"), [first, second, group]);
    let last = Packet::from(interest("/a/4").hop_limit(1).build());
    let limited = segment.router.receive(segment.router.consumer, last, EMPTY).sent;
    assert!(limited.is_empty(), "nor what may go no further");
    // Without neighbors only the group remains.
    for face in [first, second] {
        segment.router.bench.fw.discovery().set(face, false).unwrap();
    }
    assert_eq!(segment.router.ask("/a/5"), (vec![group], false));
}

#[test]
fn a_group_route_follows_the_answering_neighbor() {
    let mut segment = Segment::new();
    segment.learned_of_group();
    let [first, second, _] = segment.router.neighbours;
    let beside = vec![first, second, segment.group];
    segment.advance_ms(1000);
    assert_eq!(segment.router.ask("/a/b/seg=3"), (beside, true), "who answers may be one of these");
    assert_eq!(segment.router.answer(segment.group, "/a/b/seg=3").len(), 1, "not by a word of its own");
    assert_eq!(segment.router.ask("/a/b/seg=4"), (vec![segment.group], true), "once a second");
    segment.router.answer(segment.group, "/a/b/seg=4");
    segment.advance_ms(1000);
    segment.router.ask("/a/b/seg=5");
    assert_eq!(segment.router.answer(first, "/a/b/seg=5"), [(first, Some(name("/a/b")))]);
    assert_eq!(segment.router.ask("/a/b/seg=6"), (vec![first], true));
    // The neighbor answered once, and does not answer from now on.
    segment.advance_ms(5000);
    let asked = segment.router.ask("/a/b/seg=7").0;
    assert!(asked.contains(&segment.group), "the group is asked after a timeout: {asked:?}");
    segment.router.answer(segment.group, "/a/b/seg=7");
    for n in 8..10 {
        let (asked, is_along) = segment.router.ask(&format!("/a/b/seg={n}"));
        assert!(is_along && asked.contains(&segment.group) && !asked.contains(&first), "{n}: {asked:?}");
    }
}

#[test]
fn refused_data_returns_routes_to_the_group() {
    let mut segment = Segment::new();
    let [first, second, _] = segment.router.neighbours;
    let group = segment.group;
    segment.router.ask("/a/b/seg=0");
    segment.router.answer(first, "/a/b/seg=0");
    let refused = |segment: &Segment, name: &Name| {
        segment.router.bench.fw.data_refused(name.as_name(), segment.router.bench.now_ns)
    };
    // A name alone, or another packet's digest, refers to no cached Data.
    assert_eq!(refused(&segment, &name("/a/b/seg=0")), RefusalEffect::default());
    let other = full_name("/x/b/seg=0", &data("/a/b/seg=0"));
    assert_eq!(refused(&segment, &other), RefusalEffect::default());
    let bad = full_name("/a/b/seg=0", &data("/a/b/seg=0"));
    assert_eq!(refused(&segment, &bad), RefusalEffect { erased: true, routes: 1 });
    assert_eq!(refused(&segment, &bad), RefusalEffect::default(), "once");
    // The neighbor receives Interests through its group only, for this object and for others.
    for uri in ["/a/b/seg=0", "/a/c/seg=0"] {
        assert_eq!(segment.router.ask(uri), (vec![second, group], false), "{uri}");
        segment.router.answer(group, uri);
    }
    segment.advance_ms(DOUBTED_NS / 1_000_000 - 1);
    assert_eq!(segment.router.ask("/a/d/seg=0").0, [second, group]);
    segment.router.answer(group, "/a/d/seg=0");
    segment.advance_ms(1);
    assert_eq!(segment.router.ask("/a/e/seg=0").0, [first, second, group], "it may answer again");
}

#[test]
fn refused_data_keeps_configured_routes() {
    let router = Router::<2>::new();
    let [neighbour, _] = router.neighbours;
    router.bench.route("/a", neighbour, 0);
    assert_eq!(router.ask("/a/1").0, [neighbour]);
    router.receive(neighbour, data("/a/1"), EMPTY);
    let refused =
        router.bench.fw.data_refused(full_name("/a/1", &data("/a/1")).as_name(), router.bench.now_ns);
    assert_eq!(refused, RefusalEffect { erased: true, routes: 0 });
    assert_eq!(router.ask("/a/1").0, [neighbour]);
}

#[test]
fn a_copied_neighbor_answers_for_the_group() {
    let segment = Segment::new();
    let Segment { router, group } = &segment;
    let [first, second, _] = router.neighbours;
    router.bench.route("/a", *group, 0);
    router.bench.fw.discovery().set_copied(*group, &[first]).unwrap();
    router.ask("/a/1");
    let unasked = router.receive(second, data("/a/1"), EMPTY);
    assert!(unasked.sent.is_empty(), "another neighbor was not asked");
    assert_eq!(faces(&router.receive(first, data("/a/1"), EMPTY).sent), [router.consumer]);
    router.bench.fw.discovery().set_copied(*group, &[]).unwrap();
    router.ask("/a/2");
    assert!(router.receive(first, data("/a/2"), EMPTY).sent.is_empty(), "nor is it any longer");
    assert_eq!(router.bench.fw.discovery().set_copied(*group, &[FaceId(9999)]), Err(FaceError::NotFound));
}
