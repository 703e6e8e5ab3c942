//! An embedder that traces receives the decisions on every packet, and sends the same as one that
//! does not.

use namely_forwarder::{self as forwarder, DropReason, FaceId, Outgoing, Output, Received, Step};
use namely_messages::strategy_name;
use namely_wire::{LpHeaders, NackReason};

use crate::bench::*;

/// Sends as the usual output, and records its steps.
#[derive(Default)]
struct Tracer {
    sent: Sent,
    steps: Vec<Step>,
    ended: Vec<(usize, usize)>,
}

impl Output<Packet> for Tracer {
    type Tier = ();
    type Tracer = Self;

    fn send(&mut self, face: FaceId, packet: Outgoing<Packet>) {
        self.sent.push((face, packet));
    }

    fn tracer(&mut self) -> Option<&mut Self> {
        Some(self)
    }
}

impl forwarder::Tracer<Packet> for Tracer {
    fn decided(&mut self, step: Step) {
        self.steps.push(step);
    }

    fn ended(&mut self, _: &Packet, waiting: usize, upstreams: usize) {
        self.ended.push((waiting, upstreams));
    }
}

/// Two forwarders that receive the same packets, of which one is traced.
struct Twins {
    traced: Bench,
    plain: Bench,
}

impl Twins {
    fn receive(&self, face: FaceId, packet: impl Into<Packet>, headers: LpHeaders) -> Vec<Step> {
        let mut tracer = Tracer::default();
        let packet = packet.into();
        let received = Received { packet: packet.clone(), headers };
        self.traced.fw.receive(face, received, self.traced.now_ns, &mut tracer);
        assert_eq!(tracer.sent, self.plain.receive_with(face, packet, headers), "traced or not");
        tracer.steps
    }

    fn both<T: PartialEq + std::fmt::Debug>(&self, on: impl Fn(&Bench) -> T) -> T {
        let made = on(&self.traced);
        assert_eq!(made, on(&self.plain));
        made
    }
}

#[test]
fn tracing_reports_every_decision() {
    let twins = Twins { traced: Bench::new(), plain: Bench::new() };
    let [consumer, other, up] = [(); 3].map(|()| twins.both(Bench::remote));
    twins.both(|bench| bench.route("/a", up, 0));
    let bare = LpHeaders::default;
    let best_route = Step::Strategy("best-route");

    let first = interest("/a/b").build();
    let steps = twins.receive(consumer, first.clone(), bare());
    assert_eq!(steps, [Step::CacheMiss, Step::Route(1), best_route]);
    let steps = twins.receive(other, interest("/a/b").build(), bare());
    assert_eq!(steps, [Step::CacheMiss, Step::Route(1), Step::Aggregated(1), best_route, Step::Suppressed]);
    let steps = twins.receive(consumer, interest("/a/b").build(), bare());
    assert_eq!(steps[2], Step::Aggregated(1), "two wait");
    let steps = twins.receive(other, first, bare());
    assert_eq!(steps, [Step::CacheMiss, Step::Route(1), Step::Drops(DropReason::Loop)]);
    let steps = twins.receive(up, data_with("/a/b", 60_000, b"x"), bare());
    assert_eq!(steps, [Step::Satisfies(1)]);
    assert_eq!(twins.receive(consumer, interest("/a/b").build(), bare()), [Step::CacheHit]);
    let unasked = twins.receive(up, data("/a/c"), bare());
    assert_eq!(unasked, [Step::Drops(DropReason::Unsolicited)]);
    let steps = twins.receive(consumer, interest("/b").build(), bare());
    assert_eq!(steps, [Step::CacheMiss, best_route, Step::Drops(DropReason::NoRoute)]);
    let steps = twins.receive(consumer, interest("/a/d").hop_limit(0).build(), bare());
    assert_eq!(steps, [Step::Drops(DropReason::HopLimit)]);

    let again = interest("/a/e").build();
    twins.receive(consumer, again.clone(), bare());
    let steps = twins.receive(consumer, interest("/a/e").build(), bare());
    assert!(steps.contains(&Step::Retransmission), "{steps:?}");
    let nacked = |reason| LpHeaders { nack: Some(reason), ..LpHeaders::default() };
    let wanted = interest("/a/f").build();
    twins.receive(consumer, wanted.clone(), bare());
    assert_eq!(twins.receive(up, wanted, nacked(NackReason::NoRoute)), [Step::NackForwarded]);
    let unmatched = twins.receive(up, interest("/a/g").build(), nacked(NackReason::NoRoute));
    assert_eq!(unmatched, [Step::Drops(DropReason::NackUnmatched)]);
    assert_eq!(
        twins.receive(FaceId(9_999), interest("/a").build(), bare()),
        [Step::Drops(DropReason::UnknownFace)]
    );
}

#[test]
fn tracing_records_the_end_of_interests() {
    let mut bench = Bench::new();
    let [consumer, other, one, two] = [(); 4].map(|()| bench.remote());
    bench.route("/a", one, 0);
    bench.route("/a", two, 0);
    bench.strategy("/a", &strategy_name("multicast").unwrap().to_string());
    for face in [consumer, other] {
        bench.receive(face, interest("/a/b").lifetime_ms(100).build());
    }
    bench.advance_ms(1_000);
    let mut tracer = Tracer::default();
    bench.fw.expire(bench.now_ns, &mut tracer);
    assert_eq!((tracer.ended, tracer.steps), (vec![(2, 2)], vec![]));
}
