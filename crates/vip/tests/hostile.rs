//! Wrong, old, excess and forged messages of a neighbor. Each is refused with its reason, and the
//! other neighbors keep their slots.

use crate::network;

use namely_vip::limits::{
    COUNTS_PER_SEGMENT, NEIGHBOURS_MAX, OFFERS_MAX, PERIOD_RATIO_MAX, REQUESTS_MAX, ROUTER_OCTETS_MAX,
    SEGMENTS_MAX, UNSIGNED_BURST, UNSIGNED_PER_SECOND,
};
use namely_vip::message::{self, Message, MessageError, MessageName, Offer, RequestKind};
use namely_vip::{
    COUNT_MAX, Config, ConfigError, Counter, Decay, NeighbourConfig, Object, Objects, PacketDecision,
    PlacementSource, PlaneConfig, UNIT, Vip,
};
use namely_wire::types::TIMESTAMP_COMPONENT;
use namely_wire::{Component, Name};
use network::{MS, Net, data, interest, router};

const PERIOD_MS: u32 = 1000;
const PERIOD: u64 = PERIOD_MS as u64 * MS;
const ME: usize = 0;
const HONEST: usize = 1;
const EVIL: usize = 2;
const IDS: [u64; 3] = [10, 20, 30];

fn plane() -> PlaneConfig {
    PlaneConfig {
        amplification: 1,
        decay: Decay::NONE,
        follow: PlacementSource::Scores,
        tiers: vec![],
        weight: 0,
    }
}

fn objects() -> Objects {
    Objects::new(IDS.map(|id| Object { id, octets: 1000 }).to_vec()).unwrap()
}

/// A router between an honest and a hostile neighbor. The honest one sends its Interests through
/// it. The hostile one sent correct messages for two slots and none since.
fn net() -> Net {
    let mut net = honest();
    net.silence(EVIL);
    net.run(3 * PERIOD + 10 * MS);
    net
}

/// Returns the network before the hostile router falls silent.
fn honest() -> Net {
    let links =
        vec![vec![(Some(HONEST), 1000), (Some(EVIL), 1000)], vec![(Some(ME), 1000)], vec![(Some(ME), 1000)]];
    let mut net = Net::new(&objects(), PERIOD_MS, vec![plane(); 3], links);
    (0..3).for_each(|k| net.nodes[HONEST].vip.plane_mut().set_hops(k, [0]));
    (0..3).for_each(|k| net.nodes[ME].vip.plane_mut().set_hops(k, [1]));
    net.run(2 * PERIOD + 10 * MS);
    net
}

/// A signed request of the hostile router, `later_us` after the present time of its clock.
fn request(net: &Net, about: RequestKind, later_us: u64, parameters: &[u8]) -> Vec<u8> {
    let time_us = net.wall(EVIL) + later_us;
    let title = MessageName { about, router: &router(EVIL), time_us, segment: 0 };
    interest(&title.to_name(), Some(parameters))
}

/// The boot of the hostile router, and that of the tested router.
const EVIL_BOOT: u64 = 1 + EVIL as u64;
const MY_BOOT: u64 = 1 + ME as u64;

/// Sends a packet of the hostile router; returns by how much this counter grows.
fn refused(net: &mut Net, packet: &[u8], counter: Counter) -> u64 {
    let before = net.count(ME, counter);
    net.inject(EVIL, ME, packet);
    net.count(ME, counter) - before
}

/// Checks that the honest router still has its slots: its requests succeed.
fn unharmed(net: &mut Net) {
    let before = net.count(ME, Counter::OffersHeard);
    let entered = net.nodes[ME].vip.neighbour(0).unwrap().entered;
    for _ in 0..4 {
        net.add_demand(HONEST, 0, UNIT / 2);
        net.run(net.now_ns + PERIOD);
    }
    assert!(net.count(ME, Counter::OffersHeard) >= before + 3);
    assert!(net.nodes[ME].vip.neighbour(0).unwrap().entered >= entered + 2);
}

/// Makes the router send a request to the hostile one; returns its own name and the request's time.
fn last_request(net: &mut Net, about: RequestKind) -> (Vec<u8>, u64) {
    let taken = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let (keep, evil) = (taken.clone(), router(EVIL));
    // The answer of the hostile router is held back.
    net.law = Box::new(move |octets| {
        let is_evils = octets.windows(evil.len()).any(|w| w == evil);
        keep.borrow_mut().push(octets.to_vec());
        if is_evils { vec![] } else { vec![MS] }
    });
    let next = net.now_ns / PERIOD * PERIOD + PERIOD;
    net.run(next);
    if about == RequestKind::Offers {
        let packet = request(net, RequestKind::Counts, 0, &message::counts_request(EVIL_BOOT, 9, 1000));
        net.inject(EVIL, ME, &packet);
    }
    let own = router(ME);
    let titles = taken
        .borrow()
        .iter()
        .filter(|octets| octets[0] == 5)
        .filter_map(|octets| {
            let title = message::Message::parse(octets).ok()?.title;
            (title.about == about && title.router == own).then_some(title.time_us)
        })
        .collect::<Vec<_>>();
    // The second neighbor is the last one of which counts are requested.
    (own, *titles.last().expect("it asked"))
}

fn answer(title: (&[u8], u64), about: RequestKind, content: &[u8]) -> Vec<u8> {
    let name = MessageName { about, router: title.0, time_us: title.1, segment: 0 }.to_name();
    data(&name, content, None)
}

#[test]
fn truncated_vip_messages_are_malformed() {
    let mut net = net();
    let whole = request(&net, RequestKind::Counts, 0, &message::counts_request(EVIL_BOOT, 1, 1000));
    for length in 0..whole.len() {
        assert_eq!(refused(&mut net, &whole[..length], Counter::Malformed), 1);
    }
    for parameters in [&[][..], &[0xfd, 0xf7, 0x00, 1, 1], &[1, 0], &[0xfd, 0xf7, 0x02, 1, 1]] {
        let packet = request(&net, RequestKind::Counts, 0, parameters);
        assert_eq!(refused(&mut net, &packet, Counter::Malformed), 1);
    }
    let twice =
        [message::counts_request(EVIL_BOOT, 1, 1000), message::counts_request(EVIL_BOOT, 1, 1000)].concat();
    let packet = request(&net, RequestKind::Counts, 0, &twice);
    assert_eq!(refused(&mut net, &packet, Counter::Malformed), 1);
    unharmed(&mut net);
}

#[test]
fn another_vip_version_is_refused() {
    let mut net = net();
    let mut parameters = message::counts_request(EVIL_BOOT, 1, 1000);
    parameters[4] = 2;
    let packet = request(&net, RequestKind::Counts, 0, &parameters);
    assert_eq!(refused(&mut net, &packet, Counter::OtherVersion), 1);
    unharmed(&mut net);
}

#[test]
fn a_replayed_vip_request_is_refused() {
    let mut net = net();
    let parameters = message::counts_request(EVIL_BOOT, 1, 1000);
    let old = request(&net, RequestKind::Counts, 500, &parameters);
    let new = request(&net, RequestKind::Counts, 1000, &parameters);
    assert_eq!(refused(&mut net, &new, Counter::Replayed), 0);
    assert_eq!(refused(&mut net, &new, Counter::Replayed), 1);
    assert_eq!(refused(&mut net, &old, Counter::Replayed), 1);
    unharmed(&mut net);
}

#[test]
fn a_request_of_an_earlier_boot_is_refused() {
    let mut net = net();
    let old = request(&net, RequestKind::Counts, 500, &message::counts_request(EVIL_BOOT, 1, 1000));
    let new = request(&net, RequestKind::Counts, 1000, &message::counts_request(EVIL_BOOT + 1, 1, 1000));
    assert_eq!(refused(&mut net, &new, Counter::Restarts), 1);
    assert_eq!(refused(&mut net, &old, Counter::Replayed), 1);
    let old = request(&net, RequestKind::Offers, 500, &message::offers_request(EVIL_BOOT, MY_BOOT, 1, 1));
    assert_eq!(refused(&mut net, &old, Counter::Replayed), 1);
    assert_eq!(net.nodes[ME].vip.neighbour(1).unwrap().boot, Some(EVIL_BOOT + 1));
    unharmed(&mut net);
}

#[test]
fn a_request_naming_another_router_is_refused() {
    let mut net = net();
    let title =
        MessageName { about: RequestKind::Counts, router: &router(HONEST), time_us: u64::MAX, segment: 0 };
    let packet = interest(&title.to_name(), Some(&message::counts_request(2, 1, 1000)));
    assert_eq!(refused(&mut net, &packet, Counter::OtherRouter), 1);
    unharmed(&mut net);
}

#[test]
fn a_neighbor_has_four_requests_per_slot() {
    let mut net = net();
    let reported = net.count(ME, Counter::CountsTold);
    net.law = Box::new(|_| vec![]);
    for n in 1..=u64::from(REQUESTS_MAX) + 10_000 {
        let packet = request(&net, RequestKind::Counts, n, &message::counts_request(EVIL_BOOT, 1, 1000));
        net.inject(EVIL, ME, &packet);
    }
    assert_eq!(net.count(ME, Counter::CountsTold), reported + u64::from(REQUESTS_MAX));
    assert_eq!(net.count(ME, Counter::RateLimited), 10_000);
    net.law = Box::new(|_| vec![MS]);
    unharmed(&mut net);
}

#[test]
fn the_slot_period_has_limits() {
    let longest = u64::from(PERIOD_MS) * PERIOD_RATIO_MAX;
    let shortest = u64::from(PERIOD_MS).div_ceil(PERIOD_RATIO_MAX);
    for (period_ms, refusals) in
        [(longest, 0), (longest + 1, 1), (shortest, 0), (shortest - 1, 1), (0, 1), (u64::MAX, 1)]
    {
        let mut net = net();
        let packet = request(&net, RequestKind::Counts, 1, &message::counts_request(EVIL_BOOT, 1, period_ms));
        assert_eq!(refused(&mut net, &packet, Counter::BadPeriod), refusals, "{period_ms} ms");
    }
}

#[test]
fn a_future_acknowledgement_is_refused() {
    let mut net = net();
    for (boot, past, counter, refusals) in [
        (MY_BOOT, 0, Counter::BadAcknowledgement, 0),
        (MY_BOOT, 1, Counter::BadAcknowledgement, 1),
        (MY_BOOT, u64::MAX / 2, Counter::BadAcknowledgement, 1),
        (MY_BOOT + 1, 0, Counter::OtherBoot, 1),
    ] {
        let acknowledged = net.nodes[ME].vip.slot() + past;
        let parameters = message::offers_request(EVIL_BOOT, boot, 1, acknowledged);
        let packet = request(&net, RequestKind::Offers, 1, &parameters);
        assert_eq!(refused(&mut net, &packet, counter), refusals, "{past} past the slot");
        net.run(net.now_ns + PERIOD);
    }
    unharmed(&mut net);
}

#[test]
fn excess_vip_counts_are_cut() {
    let mut net = net();
    let (own, time_us) = last_request(&mut net, RequestKind::Counts);
    let reported = [(10, u64::MAX), (11, 5), (20, COUNT_MAX), (30, COUNT_MAX + 1)];
    let content = message::counts(EVIL_BOOT, 3, 1000, reported.into_iter());
    let packet = answer((&own, time_us), RequestKind::Counts, &content);
    assert_eq!(refused(&mut net, &packet, Counter::UnknownObject), 1);
    assert_eq!(net.count(ME, Counter::CountCut), 2);
    assert_eq!(net.nodes[ME].vip.plane_mut().neighbour_counts_mut(1), [COUNT_MAX; 3]);
    assert_eq!(refused(&mut net, &packet, Counter::Unsolicited), 1, "answered once already");
    net.law = Box::new(|_| vec![MS]);
    unharmed(&mut net);
}

#[test]
fn unsorted_or_repeated_counts_are_refused() {
    let mut net = net();
    let (own, time_us) = last_request(&mut net, RequestKind::Counts);
    let many = |n: usize| (0..n as u64).map(|id| (id, 1)).collect::<Vec<_>>();
    let packet = |boot, reported: &[(u64, u64)]| {
        let content = message::counts(boot, 3, 1000, reported.iter().copied());
        answer((&own, time_us), RequestKind::Counts, &content)
    };
    for reported in [&[(20, 1), (10, 1)][..], &[(10, 1), (10, 1)]] {
        assert_eq!(refused(&mut net, &packet(EVIL_BOOT, reported), Counter::Unsorted), 1);
    }
    // One entry more than fits. The builder omits it, so it is inserted by hand.
    let content = message::counts(EVIL_BOOT, 3, 1000, many(COUNTS_PER_SEGMENT).into_iter());
    let full = answer((&own, time_us), RequestKind::Counts, &content);
    let mut more = namely_wire::tlv::Writer::new();
    let entries = content.len() - 16 * COUNTS_PER_SEGMENT;
    more.raw(&content[..entries - 6]).header(0xF708, 16 * (COUNTS_PER_SEGMENT + 1)).raw(&content[entries..]);
    more.raw(&[0xff; 16]);
    let more = answer((&own, time_us), RequestKind::Counts, &more.into_vec());
    assert_eq!(refused(&mut net, &more, Counter::Malformed), 1);
    assert_eq!(refused(&mut net, &full, Counter::CountsHeard), 1);
    net.law = Box::new(|_| vec![MS]);
    unharmed(&mut net);
}

#[test]
fn unsolicited_counts_and_offers_are_refused() {
    let mut net = net();
    let (own, time_us) = last_request(&mut net, RequestKind::Counts);
    let content = message::counts(EVIL_BOOT, 3, 1000, [(10, 1)].into_iter());
    for title in [(&own[..], time_us + 1), (&router(HONEST)[..], time_us), (&own[..], 0)] {
        let packet = answer(title, RequestKind::Counts, &content);
        assert_eq!(refused(&mut net, &packet, Counter::Unsolicited), 1);
    }
    let content = message::offers(EVIL_BOOT, MY_BOOT, 3, [Offer { slot: 1, id: 10, vips: UNIT }].into_iter());
    let packet = answer((&own, time_us), RequestKind::Offers, &content);
    assert_eq!(refused(&mut net, &packet, Counter::Unsolicited), 1);
    let late = answer(
        (&own, time_us),
        RequestKind::Counts,
        &message::counts(EVIL_BOOT, 3, 1000, [(10, 1)].into_iter()),
    );
    net.run(net.now_ns + PERIOD);
    assert_eq!(refused(&mut net, &late, Counter::Unsolicited), 1);
    net.law = Box::new(|_| vec![MS]);
    unharmed(&mut net);
}

#[test]
fn offered_vips_are_cut_to_link_capacity() {
    let mut net = net();
    let offer = |slot, id, vips| Offer { slot, id, vips };
    let offers =
        [offer(1, 10, u64::MAX), offer(2, 20, UNIT * 5 / 4), offer(4, 20, UNIT * 5 / 4 + 1), offer(5, 99, 1)];
    for (repeat, entered) in [(1, 3 * (UNIT * 5 / 4)), (2, 0)] {
        let (own, time_us) = last_request(&mut net, RequestKind::Offers);
        let before = net.nodes[ME].vip.plane().totals().entered;
        let content = message::offers(EVIL_BOOT, MY_BOOT, 9, offers.into_iter());
        net.inject(EVIL, ME, &answer((&own, time_us), RequestKind::Offers, &content));
        assert_eq!(net.nodes[ME].vip.plane().totals().entered - before, entered, "time {repeat}");
    }
    assert_eq!((net.count(ME, Counter::OfferCut), net.count(ME, Counter::UnknownObject)), (2, 1));
    assert_eq!(net.nodes[ME].vip.neighbour(1).unwrap().entered, 5);
}

#[test]
fn offers_of_invalid_slots_are_refused() {
    let mut net = net();
    let (own, time_us) = last_request(&mut net, RequestKind::Offers);
    let offers = |slots: &[u64], boot, peer_boot| {
        let offers = slots.iter().map(|slot| Offer { slot: *slot, id: 10, vips: 1 });
        answer((&own, time_us), RequestKind::Offers, &message::offers(boot, peer_boot, 9, offers))
    };
    for slots in [[2, 1], [2, 2]] {
        assert_eq!(refused(&mut net, &offers(&slots, EVIL_BOOT, MY_BOOT), Counter::Unsorted), 1);
    }
    assert_eq!(refused(&mut net, &offers(&[1], EVIL_BOOT + 1, MY_BOOT), Counter::OtherBoot), 1);
    assert_eq!(refused(&mut net, &offers(&[1], EVIL_BOOT, MY_BOOT + 1), Counter::OtherBoot), 1);
    let eight: Vec<u64> = (1..=OFFERS_MAX as u64).collect();
    let content =
        message::offers(EVIL_BOOT, MY_BOOT, 9, eight.iter().map(|s| Offer { slot: *s, id: 10, vips: 1 }));
    // A ninth offer is inserted by hand after the first four elements. The last of these holds the
    // eight offers.
    let start = content.len() - 12 - 24 * OFFERS_MAX;
    let mut more = namely_wire::tlv::Writer::new();
    more.raw(&content[..start - 4])
        .header(0xF70A, 24 * (OFFERS_MAX + 1))
        .raw(&content[start..content.len() - 12]);
    more.raw(&[0xff; 24]).raw(&content[content.len() - 12..]);
    let more = answer((&own, time_us), RequestKind::Offers, &more.into_vec());
    assert_eq!(refused(&mut net, &more, Counter::Malformed), 1);
    assert_eq!(refused(&mut net, &offers(&eight, EVIL_BOOT, MY_BOOT), Counter::OffersHeard), 1);
    net.law = Box::new(|_| vec![MS]);
    unharmed(&mut net);
}

#[test]
fn requests_for_old_segments_are_refused() {
    let mut net = net();
    let time_us = net.wall(EVIL) + 1;
    let segment = |segment| {
        interest(
            &MessageName { about: RequestKind::Counts, router: &router(EVIL), time_us, segment }.to_name(),
            None,
        )
    };
    let packet = request(&net, RequestKind::Counts, 1, &message::counts_request(EVIL_BOOT, 1, 1000));
    net.inject(EVIL, ME, &packet);
    assert_eq!(refused(&mut net, &segment(1), Counter::Late), 1, "there is but one");
    let most = u64::from(REQUESTS_MAX) * SEGMENTS_MAX as u64;
    for _ in 1..most {
        assert_eq!(refused(&mut net, &segment(1), Counter::RateLimited), 0);
    }
    assert_eq!(refused(&mut net, &segment(1), Counter::RateLimited), 1);
    unharmed(&mut net);
}

#[test]
fn unclaimed_offers_return_from_a_passive_neighbor() {
    let mut net = honest();
    // The neighbor never requests its VIPs.
    let title = MessageName { about: RequestKind::Offers, router: &router(EVIL), time_us: 0, segment: 0 };
    let prefix = title.to_name().as_name().prefix(5).as_bytes().to_vec();
    net.law = Box::new(move |octets| {
        let is_request = octets.windows(prefix.len()).any(|octets| octets == prefix);
        if is_request { vec![] } else { vec![MS] }
    });
    (0..3).for_each(|k| net.nodes[ME].vip.plane_mut().set_hops(k, [0, 1]));
    net.add_demand(ME, 0, 20 * UNIT);
    net.run(7 * PERIOD);
    let under_way = net.nodes[ME].vip.neighbour(1).unwrap().vips_under_way;
    assert!(under_way > 0);
    let before = net.nodes[ME].vip.plane().counts()[0];
    net.nodes[ME].vip.neighbour_removed(1);
    assert_eq!(net.nodes[ME].vip.plane().counts()[0], before + under_way);
}

#[test]
fn packets_of_unknown_neighbors_are_refused() {
    let neighbours = vec![NeighbourConfig { router: None, octets_per_s: 1, octets_per_s_out: 1 }];
    let config = Config { router: vec![b'n'], boot: 1, period_ms: 1, plane: plane(), neighbours };
    let mut vip = Vip::new(objects(), config).unwrap();
    let title = MessageName { about: RequestKind::Counts, router: b"m", time_us: 1, segment: 0 };
    let packet = interest(&title.to_name(), Some(&message::counts_request(1, 1, 1)));
    for b in [0, 1, usize::MAX] {
        assert_eq!(vip.look(b, &packet, 0), PacketDecision::Drop);
        vip.receive(b, &packet, 0, 0, &mut Vec::new());
    }
    assert_eq!(vip.counters().get(Counter::OtherRouter), 6);
    vip.bad_signature();
    assert_eq!(vip.counters().get(Counter::BadSignature), 1);
}

#[test]
fn a_title_needs_the_shortest_numbers() {
    let title = MessageName { about: RequestKind::Counts, router: b"m", time_us: 0x40, segment: 0 };
    let name = title.to_name();
    let decoded_time = |name: &Name| {
        let packet = interest(name, Some(&message::counts_request(1, 1, 1)));
        Message::parse(&packet).map(|message| message.title.time_us)
    };
    assert_eq!(decoded_time(&name), Ok(0x40));
    let router = name.as_name().prefix(5).to_name();
    for long in [&[0, 0x40][..], &[0, 0, 0, 0x40], &[0, 0, 0, 0, 0, 0, 0, 0x40]] {
        assert_eq!(
            decoded_time(&router.join(Component { typ: TIMESTAMP_COMPONENT, value: long })),
            Err(MessageError::Malformed),
            "{long:?}"
        );
    }
}

#[test]
fn a_vip_configuration_has_limits() {
    let new = |neighbours: usize, octets: usize, period_ms| {
        let router = Some(vec![b'm'; octets]);
        let neighbour = NeighbourConfig { router, octets_per_s: u64::MAX, octets_per_s_out: u64::MAX };
        let neighbours = vec![neighbour; neighbours];
        let config = Config { router: vec![b'n'; octets], boot: 1, period_ms, plane: plane(), neighbours };
        Vip::new(objects(), config).map(|_| ())
    };
    assert_eq!(new(NEIGHBOURS_MAX, ROUTER_OCTETS_MAX, u32::MAX), Ok(()));
    assert_eq!(new(NEIGHBOURS_MAX + 1, 1, 1), Err(ConfigError::TooManyNeighbours));
    assert_eq!(new(1, ROUTER_OCTETS_MAX + 1, 1), Err(ConfigError::BadRouter));
    assert_eq!(new(1, 0, 1), Err(ConfigError::BadRouter));
    assert_eq!(new(1, 1, 0), Err(ConfigError::NoPeriod));
}

#[test]
fn slots_continue_despite_clock_changes() {
    // The clocks of the routers differ by an hour each.
    let mut net = net();
    unharmed(&mut net);
    let neighbour = NeighbourConfig { router: Some(vec![b'm']), octets_per_s: 1, octets_per_s_out: 1 };
    let neighbours = vec![neighbour];
    let config = Config { router: vec![b'n'], boot: 1, period_ms: 1000, plane: plane(), neighbours };
    let mut vip = Vip::new(objects(), config).unwrap();
    assert_eq!(vip.tick(0, 10, &mut Vec::new()), PERIOD / 2);
    assert_eq!(vip.tick(PERIOD / 2, 10, &mut Vec::new()), PERIOD);
    assert_eq!(vip.tick(PERIOD, 5, &mut Vec::new()), PERIOD + PERIOD / 2);
    // The present slot is past its middle, and ends at its regular time.
    assert_eq!(vip.tick(9 * PERIOD + PERIOD / 2 + 7, 0, &mut Vec::new()), 10 * PERIOD);
    assert_eq!((vip.slot(), vip.counters().get(Counter::SlotsMissed)), (3, 1));
}

/// Passes a packet with an invalid signature in the name of a neighbor.
fn forged(net: &mut Net, of: usize, packet: &[u8]) -> PacketDecision {
    let (b, now_ns) = (net.neighbour(ME, of), net.now_ns);
    let vip = &mut net.nodes[ME].vip;
    let look = vip.look(b, packet, now_ns);
    if look == PacketDecision::Verify {
        vip.bad_signature();
    }
    look
}

/// A request in the name of a router at a time, from any sender.
fn request_of(n: usize, time_us: u64, parameters: &[u8]) -> Vec<u8> {
    let title = MessageName { about: RequestKind::Counts, router: &router(n), time_us, segment: 0 };
    interest(&title.to_name(), Some(parameters))
}

#[test]
fn unsigned_packets_leave_a_neighbors_quota() {
    let mut net = net();
    for slot in 0..6u64 {
        // Two hundred packets a second during the whole slot, beginning before the neighbor's
        // request.
        let stale = net.count(ME, Counter::CountsStale);
        for n in 0..200 {
            let later = net.wall(HONEST) + 1_000_000 + n;
            let packet = request_of(HONEST, later, &message::counts_request(1 + HONEST as u64, slot, 1000));
            assert_eq!(forged(&mut net, HONEST, &packet), PacketDecision::Verify, "{slot}: {n}");
            net.run(net.now_ns + PERIOD / 200);
        }
        // The other neighbor is silent, and is counted in each slot.
        assert!(net.count(ME, Counter::CountsStale) <= stale + 1, "{slot}");
    }
    assert_eq!(net.count(ME, Counter::RateLimited), 0);
    unharmed(&mut net);
}

#[test]
fn failed_verifications_are_limited() {
    let mut net = net();
    net.law = Box::new(|_| vec![]);
    net.run(net.now_ns + PERIOD);
    let packet = request_of(EVIL, u64::MAX / 2, &message::counts_request(EVIL_BOOT, 1, 1000));
    (0..UNSIGNED_BURST)
        .for_each(|n| assert_eq!(forged(&mut net, EVIL, &packet), PacketDecision::Verify, "{n}"));
    assert_eq!(forged(&mut net, EVIL, &packet), PacketDecision::Drop);
    assert_eq!(net.count(ME, Counter::UnsignedLimited), 1);
    net.now_ns += 1_000_000_000 / UNSIGNED_PER_SECOND;
    assert_eq!(forged(&mut net, EVIL, &packet), PacketDecision::Verify);
    assert_eq!(forged(&mut net, EVIL, &packet), PacketDecision::Drop);
}

#[test]
fn unsolicited_segment_requests_leave_the_quota() {
    let mut net = net();
    let packet = request(&net, RequestKind::Counts, 1, &message::counts_request(EVIL_BOOT, 1, 1000));
    net.inject(EVIL, ME, &packet);
    let title = |time_us| {
        MessageName { about: RequestKind::Counts, router: &router(EVIL), time_us, segment: 1 }.to_name()
    };
    for n in 0..10_000 {
        let packet = interest(&title(n), None);
        assert_eq!(refused(&mut net, &packet, Counter::RateLimited), 0);
    }
    let own = interest(&title(net.wall(EVIL) + 1), None);
    assert_eq!(refused(&mut net, &own, Counter::RateLimited), 0);
}

#[test]
fn all_offers_fit_the_link_capacity() {
    const SLOTS: u64 = 20;
    let mut net = net();
    let before = net.nodes[ME].vip.plane().totals().entered;
    for slot in 0..SLOTS {
        let (own, time_us) = last_request(&mut net, RequestKind::Offers);
        let first = 100 + slot * OFFERS_MAX as u64;
        let offers = (0..OFFERS_MAX as u64).map(|n| Offer { slot: first + n, id: 10, vips: UNIT * 5 / 4 });
        let content = message::offers(EVIL_BOOT, MY_BOOT, first + 9, offers);
        net.inject(EVIL, ME, &answer((&own, time_us), RequestKind::Offers, &content));
        net.law = Box::new(|_| vec![]);
        net.run(net.now_ns + PERIOD / 2);
    }
    let entered = net.nodes[ME].vip.plane().totals().entered - before;
    // VIPs that were not offered for some slots may be offered later.
    let most = (net.now_ns / PERIOD + 1 + OFFERS_MAX as u64) * (UNIT * 5 / 4);
    assert!(entered <= most, "{} of {} VIPs", entered / UNIT, most / UNIT);
    assert!(net.count(ME, Counter::OfferCut) > 0);
}

#[test]
fn an_earlier_clock_is_accepted_after_an_answer() {
    let mut net = net();
    let old = request(&net, RequestKind::Counts, 500, &message::counts_request(EVIL_BOOT, 1, 1000));
    net.inject(EVIL, ME, &old);
    // Another boot, whose clock is an hour behind.
    let new_boot = EVIL_BOOT + 1;
    let earlier = |net: &Net, more| {
        let time_us = net.wall(EVIL) - 3_600_000_000 + more;
        request_of(EVIL, time_us, &message::counts_request(new_boot, 1, 1000))
    };
    let packet = earlier(&net, 0);
    assert_eq!(refused(&mut net, &packet, Counter::Replayed), 1);
    let (own, time_us) = last_request(&mut net, RequestKind::Counts);
    let content = message::counts(new_boot, 1, 1000, [(10, 1)].into_iter());
    let packet = answer((&own, time_us), RequestKind::Counts, &content);
    assert_eq!(refused(&mut net, &packet, Counter::Restarts), 1);
    assert_eq!(net.nodes[ME].vip.neighbour(1).unwrap().boot, Some(new_boot));
    let reported = net.count(ME, Counter::CountsTold);
    let packet = earlier(&net, 1);
    assert_eq!(refused(&mut net, &packet, Counter::CountsTold), 1);
    assert_eq!(net.count(ME, Counter::CountsTold), reported + 1);
    // Neither a message of the former boot nor a second answer restores that boot.
    assert_eq!(refused(&mut net, &old, Counter::Replayed), 1);
    let late = request_of(EVIL, net.wall(EVIL) - 1, &message::counts_request(EVIL_BOOT, 1, 1000));
    assert_eq!(refused(&mut net, &late, Counter::Restarts), 1, "a later one of another life does");
    let packet = answer((&own, time_us), RequestKind::Counts, &content);
    assert_eq!(refused(&mut net, &packet, Counter::Restarts), 0);
    net.law = Box::new(|_| vec![MS]);
    unharmed(&mut net);
}

#[test]
fn scores_decay_over_skipped_slots() {
    let decays = PlaneConfig { decay: Decay::from_factor(1 << 31), ..plane() };
    let config = Config { router: vec![b'n'], boot: 1, period_ms: 1000, plane: decays, neighbours: vec![] };
    let scores = |late: u64| {
        let mut vip = Vip::new(objects(), config.clone()).unwrap();
        vip.tick(0, 0, &mut Vec::new());
        vip.plane_mut().add_demand(0, 1024 * UNIT);
        vip.tick(PERIOD, 0, &mut Vec::new());
        let times = if late == 0 { vec![2, 3, 4, 5] } else { vec![5] };
        for slot in times {
            vip.tick(slot * PERIOD, 0, &mut Vec::new());
        }
        vip.plane().scores()[0]
    };
    assert_eq!(scores(1), scores(0));
}
