//! The exchange of VIP: packets of two neighbors, in any order and at any time.

use namely_security::sha256;
use namely_vip::message::{self, Message, MessageName, Offer, RequestKind};
use namely_vip::{
    COUNT_MAX, Config, Counter, Decay, NeighbourConfig, Object, Objects, PacketDecision, PlacementSource,
    PlaneConfig, Tier, UNIT, Vip,
};
use namely_wire::tlv::{Writer, read_tlv};
use namely_wire::{DataBuilder, InterestBuilder, SignatureInfo};

use crate::group::Group;
use crate::inside::inside;

const PERIOD_NS: u64 = 1_000_000_000;
const START_US: u64 = 1_000_000;

/// A router of three objects and two neighbors.
fn router() -> Vip {
    let objects = [10, 20, 30].map(|id| Object { id, octets: 1000 + id });
    let neighbour = |name: &[u8]| NeighbourConfig {
        router: Some(name.to_vec()),
        octets_per_s: 1000,
        octets_per_s_out: 1000,
    };
    let tier = Tier { octets: 1100, rate: 500, admit: 0, evict: 0 };
    let plane = PlaneConfig {
        amplification: 2,
        decay: Decay::from_half_life(60_000, 1000),
        follow: PlacementSource::Scores,
        tiers: vec![tier],
        weight: 0,
    };
    let neighbours = vec![neighbour(b"a"), neighbour(b"b")];
    let config = Config { router: b"me".to_vec(), boot: 7, period_ms: 1000, plane, neighbours };
    let mut vip =
        Vip::new(Objects::new(objects.to_vec()).expect("a catalogue"), config).expect("a configuration");
    (0..3).for_each(|k| vip.plane_mut().set_hops(k, [k % 2, 1]));
    vip
}

/// A sequence of TLV elements. An Interest or a Data arrives from a neighbor. Any other element
/// selects this neighbor by its first octet, advances the clock by a tenth of a slot for each unit
/// of the sum of its octets, and requests objects.
pub(crate) fn vip(octets: &[u8]) {
    let (mut vip, mut out, mut now_ns, mut from) = (router(), Vec::new(), 0, 0);
    vip.tick(now_ns, START_US, &mut out);
    let mut rest = octets;
    while let Ok(tlv) = read_tlv(rest) {
        rest = &rest[tlv.raw.len()..];
        let wall_us = START_US + now_ns / 1000;
        if matches!(tlv.typ, 5 | 6) {
            check(tlv.raw);
            if vip.look(from, tlv.raw, now_ns) != PacketDecision::Drop {
                vip.receive(from, tlv.raw, now_ns, wall_us, &mut out);
            }
        } else {
            from = tlv.value.first().map_or(0, |octet| usize::from(*octet) % 3);
            now_ns += tlv.value.iter().map(|octet| u64::from(*octet) * PERIOD_NS / 10).sum::<u64>();
            vip.plane_mut().add_demand(from, UNIT);
            let next_ns = vip.tick(now_ns, wall_us, &mut out);
            assert!(next_ns > now_ns);
        }
        holds(&vip);
        assert!(out.len() <= 64, "a packet makes a bounded number of answers");
        out.clear();
    }
    if !rest.is_empty() {
        check(rest);
        assert_eq!(vip.look(0, rest, now_ns), PacketDecision::Drop);
    }
}

/// Invariants for any packets of neighbors.
fn holds(vip: &Vip) {
    let (plane, totals) = (vip.plane(), vip.plane().totals());
    assert!(plane.counts().iter().chain(plane.scores()).all(|count| *count <= COUNT_MAX));
    let there: u64 = plane.counts().iter().chain(plane.pending()).sum();
    let ended = totals.departed + totals.drained + totals.arrived + totals.saturated;
    assert_eq!(there + ended, totals.entered);
    for b in 0..2 {
        let status = vip.neighbour(b).expect("a neighbor");
        assert!(status.slots_under_way <= namely_vip::limits::OFFERS_MAX);
    }
    assert!(vip.counters().get(Counter::Slots) >= 1);
}

/// Checks that the views of a message lie inside it, and that its title is encoded as it was
/// decoded.
fn check(octets: &[u8]) {
    let Ok(message) = Message::parse(octets) else { return };
    assert!(inside(octets, message.title.router) && inside(octets, message.name.as_bytes()));
    let again = message.title.to_name();
    let written = message.name.components().filter(|c| !c.is_parameters_digest());
    assert!(again.components().eq(written));
}

fn request(router: &[u8], about: RequestKind, time_us: u64, parameters: &[u8]) -> Vec<u8> {
    let name = MessageName { about, router, time_us, segment: 0 }.to_name();
    InterestBuilder::new(name).nonce([1; 4]).hop_limit(1).build_with_parameters(parameters, sha256)
}

fn answer(about: RequestKind, time_us: u64, content: &[u8]) -> Vec<u8> {
    let name = MessageName { about, router: b"me", time_us, segment: 0 }.to_name();
    DataBuilder::new(name.as_name()).build(content, &SignatureInfo::digest_sha256()).finish(&[0; 32])
}

/// Returns an element that advances the clock and selects the sender of the next packet.
fn pass(neighbour: u8, tenths: u8) -> Vec<u8> {
    let mut w = Writer::new();
    w.tlv(32, &[neighbour, tenths]);
    w.into_vec()
}

pub(crate) fn seeds() -> Group {
    // The router requests its neighbors' counts at its first times, and VIPs at the next ones.
    let ask = |time_us| request(b"a", RequestKind::Counts, time_us, &message::counts_request(1, 1, 1000));
    let told = answer(
        RequestKind::Counts,
        START_US,
        &message::counts(1, 1, 1000, [(10, 5), (20, UNIT)].into_iter()),
    );
    let offers_request = request(b"a", RequestKind::Offers, 9, &message::offers_request(1, 7, 1, 0));
    let offer = |slot, id, vips| Offer { slot, id, vips };
    let offers = [offer(1, 10, UNIT), offer(2, 99, 1), offer(3, 30, u64::MAX)];
    let offers = answer(RequestKind::Offers, START_US + 2, &message::offers(1, 7, 3, offers.into_iter()));
    let slot =
        [pass(0, 0), ask(5), told.clone(), offers.clone(), offers_request.clone(), pass(0, 9), pass(1, 1)]
            .concat();
    let segment = MessageName { about: RequestKind::Counts, router: b"a", time_us: 5, segment: 1 }.to_name();
    let segment = InterestBuilder::new(segment).nonce([1; 4]).build();
    let huge =
        answer(RequestKind::Counts, START_US, &message::counts(1, 1, u64::MAX, [(10, u64::MAX)].into_iter()));
    let unsorted =
        answer(RequestKind::Counts, START_US, &message::counts(1, 1, 1000, [(20, 1), (10, 1)].into_iter()));
    let anew = request(b"a", RequestKind::Counts, 50, &message::counts_request(2, 1, 1000));
    vec![
        ("slot", slot.clone()),
        ("slots", [slot.clone(), slot.clone(), pass(0, 30)].concat()),
        (
            "repeated",
            [pass(0, 0), ask(5), ask(5), ask(4), told.clone(), told, offers.clone(), offers].concat(),
        ),
        ("segment", [pass(0, 0), ask(5), segment].concat()),
        ("huge-counts", [pass(0, 0), ask(5), huge].concat()),
        ("unsorted", [pass(0, 0), ask(5), unsorted].concat()),
        ("started-anew", [slot, anew, offers_request].concat()),
        ("other-neighbour", [pass(1, 0), ask(5), pass(2, 0), ask(5)].concat()),
    ]
}
