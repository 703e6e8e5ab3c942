//! State only after proof: a station that has not answered a router's own challenge has no face, no
//! route and no influence on the packets of others, and a proven one cannot shrink multicast frames
//! below the floor.

use crate::segment;

use namely_discovery::{
    Action, Config, Counter, Discovery, LinkAddress, LinkState, Phase, Proof, ReceivedPacket,
};
use segment::{LINK, MS, SECOND, Segment, hello_of, key, reply_of, station};

const EVIL: usize = 66;

/// A hello that node 0 has multicast just now.
fn recorded_hello(link: &mut Segment) -> Vec<u8> {
    let before = link.nodes[0].last_group_hello.clone();
    while link.nodes[0].last_group_hello == before {
        link.run(10 * MS);
    }
    link.nodes[0].last_group_hello.clone()
}

/// Routers that are neighbors, one for each MTU.
fn link(mtus: &[usize]) -> Segment {
    let mut link = Segment::new();
    for mtu in mtus {
        let n = link.add(*mtu, Config::default());
        link.up(n);
    }
    link.run(4 * SECOND);
    link
}

#[test]
fn forged_replies_to_a_hello_prove_nothing() {
    let mut link = link(&[1500, 1500]);
    let hello = recorded_hello(&mut link);
    for n in 1000..1256 {
        let reply = reply_of(station(n), (1500, 1500), &hello, &key(n), 1);
        link.inject(0, station(n), true, &reply);
    }
    let proven = |link: &Segment| {
        let all = link.nodes[0].machine.neighbours(link.now_ns);
        all.filter(|neighbour| neighbour.phase == Phase::Proven).count()
    };
    assert_eq!((proven(&link), link.nodes[0].mtus.len()), (1, 1));
    link.run(2 * SECOND);
    assert_eq!((link.nodes[0].machine.len(), link.proven(0)), (1, vec![1]), "and they are gone");
}

#[test]
fn an_unproven_station_never_shrinks_the_group() {
    let mut link = link(&[1500, 1500]);
    for n in 0..20 {
        let evil = station(EVIL + n);
        link.inject(0, evil, false, &hello_of(evil, "64", &[], &key(EVIL + n), 1));
        link.run(300 * MS);
        assert_eq!(link.nodes[0].group_mtu, 1500);
    }
}

#[test]
fn a_group_mtu_stops_at_its_floor() {
    for (mtu, group_mtu) in [(576, 576), (575, 1500)] {
        let mut link = link(&[1500, 1500, mtu]);
        assert_eq!(link.nodes[0].group_mtu, group_mtu, "{mtu}");
        let faces: Vec<bool> = link.nodes[0].machine.faces().map(|face| face.is_small).collect();
        assert_eq!(faces, [false, mtu < 576]);
        // A station below the floor receives the hellos, and stays.
        link.run(60 * SECOND);
        assert_eq!((link.proven(0), link.proven(2)), (vec![1, 2], vec![0, 1]));
        let expired = |n| link.count(n, Counter::NeighboursExpired);
        assert_eq!((expired(0), expired(2)), (0, 0));
    }
    // The floor is a setting.
    let mut link = Segment::new();
    for mtu in [1500, 100] {
        let n = link.add(mtu, Config { group_mtu_octets_min: 100, ..Config::default() });
        link.up(n);
    }
    link.run(4 * SECOND);
    assert_eq!(link.nodes[0].group_mtu, 100);
}

/// A router whose UDP link has the network 10.9.7.0/24.
fn udp() -> Discovery {
    let own = LinkAddress::Udp("10.9.7.1:6363".parse().unwrap());
    let mut machine = Discovery::new(Config::default(), key(0), 1, SECOND);
    let state = LinkState { station: own, mtu: 1472, network_bits: 24 };
    machine.interface(LINK, Some(state), SECOND, &mut Vec::new());
    machine
}

#[test]
fn a_station_outside_the_subnet_gets_nothing() {
    for (host, is_inside) in
        [("10.9.7.254", true), ("10.9.8.1", false), ("10.9.6.254", false), ("192.0.2.1", false)]
    {
        let mut machine = udp();
        let target = LinkAddress::Udp(format!("{host}:6363").parse().unwrap());
        let mut sent = 0;
        for n in 0..25u64 {
            let packet = hello_of(target, "1472", &[], &key(9), n + 1);
            let received =
                ReceivedPacket { interface: LINK, source: target, is_unicast: false, packet: &packet };
            let now_ns = SECOND + n * 100 * MS;
            let mut out = Vec::new();
            machine.receive(received, now_ns, &mut out);
            let tickets: Vec<u64> = out
                .iter()
                .filter_map(|action| match action {
                    Action::Verify { ticket, .. } => Some(*ticket),
                    _ => None,
                })
                .collect();
            tickets.into_iter().for_each(|ticket| machine.verified(ticket, Proof::Valid, now_ns, &mut out));
            machine.tick(now_ns, &mut out);
            let is_to_target = |action: &&Action| match action {
                Action::SendHello { to, .. } => to.is_some(),
                Action::SendReply { .. } | Action::MakeFace { .. } => true,
                _ => false,
            };
            sent += out.iter().filter(is_to_target).count();
        }
        assert_eq!(sent > 0, is_inside, "{host}");
        assert_eq!(machine.counters().get(Counter::OtherNetwork), if is_inside { 0 } else { 25 });
    }
}

/// A link with one router, whose link address is `own`.
fn alone(own: LinkAddress, network_bits: u8) -> Segment {
    let mut link = Segment::new();
    let n = link.add(1400, Config::default());
    link.nodes[n].link = LinkState { station: own, mtu: 1400, network_bits };
    link.up(n);
    link.run(10 * MS);
    link
}

/// Sends a hello and a reply in the name of `peer`, with that source. Returns the number of peers
/// that the router found. A router that found none has sent nothing to `peer`.
fn found(link: &mut Segment, peer: LinkAddress) -> usize {
    let group_hello = link.nodes[0].last_group_hello.clone();
    for is_unicast in [false, true] {
        link.inject(0, peer, is_unicast, &hello_of(peer, "1400", &[], &key(EVIL), 1));
    }
    link.inject(0, peer, true, &reply_of(peer, (1400, 1400), &group_hello, &key(EVIL), 2));
    link.run(100 * MS);
    let found = link.nodes[0].machine.len();
    assert_eq!(link.nodes[0].sent_to.keys().any(Option::is_some), found > 0, "{peer}");
    found
}

fn udp_address(text: &str) -> LinkAddress {
    LinkAddress::Udp(text.parse().unwrap())
}

#[test]
fn a_group_address_is_no_neighbor() {
    let (v4, v6) = (udp_address("10.9.7.1:6363"), udp_address("[fe80::1]:6363"));
    let no_neighbor_of = |own: LinkAddress, network_bits, texts: &[&str]| {
        for text in texts {
            let mut link = alone(own, network_bits);
            assert_eq!(found(&mut link, udp_address(text)), 0, "{text} at {own}/{network_bits}");
        }
    };
    no_neighbor_of(v4, 24, &["10.9.7.255:6363", "10.9.7.0:6363", "10.9.7.1:6363", "10.9.7.9:0"]);
    no_neighbor_of(v4, 24, &["224.0.23.170:56363", "255.255.255.255:6363", "0.0.0.0:6363"]);
    no_neighbor_of(v4, 24, &["127.0.0.1:6363", "[::ffff:10.9.7.9]:6363", "[::ffff:10.9.7.1]:6363"]);
    no_neighbor_of(v6, 64, &["[ff02::1234]:56363", "[::]:6363", "[::1]:6363", "[fe80::1]:6363"]);
    // On a link whose network has all addresses, too.
    let all = ["224.0.23.170:6363", "255.255.255.255:6363", "0.0.0.0:6363", "127.0.0.1:6363"];
    no_neighbor_of(v4, 0, &all);
    let ether = |octets: [u8; 6]| found(&mut alone(station(0), 0), LinkAddress::Ether(octets));
    let groups = [[0xff; 6], [1, 0, 0x5e, 0, 0x17, 0xaa], [0x33, 0x33, 0, 0, 0, 1]];
    for octets in groups.into_iter().chain([[0; 6], [2, 0, 0, 0, 0, 0]]) {
        assert_eq!(ether(octets), 0, "{octets:?}");
    }
    // The addresses beside them are those of neighbors.
    for text in ["10.9.7.254:6363", "10.9.7.9:6363"] {
        assert_eq!(found(&mut alone(v4, 24), udp_address(text)), 1, "{text}");
    }
    for (network_bits, expected) in [(30, 0), (31, 1)] {
        let own = udp_address("10.9.7.2:6363");
        assert_eq!(found(&mut alone(own, network_bits), udp_address("10.9.7.3:6363")), expected);
    }
    assert_eq!(found(&mut alone(v6, 64), udp_address("[fe80::9]:6363")), 1);
    assert_eq!(ether([2, 0, 0, 0, 0, 9]), 1);
}

#[test]
fn a_new_network_removes_former_neighbors() {
    let mut link = alone(udp_address("10.9.7.1:6363"), 24);
    assert_eq!(found(&mut link, udp_address("10.9.7.9:6363")), 1);
    // The first two networks have the neighbor, too.
    for (own, network_bits, stays) in
        [("10.9.7.1:6363", 16, true), ("10.9.7.2:6363", 24, true), ("10.9.8.1:6363", 24, false)]
    {
        link.nodes[0].link = LinkState { station: udp_address(own), mtu: 1400, network_bits };
        link.up(0);
        assert_eq!(link.nodes[0].machine.is_empty(), !stays, "{own}/{network_bits}");
    }
}

/// Faults of station `n` until it is in quarantine at node 0.
fn quarantine(link: &mut Segment, n: usize) {
    for k in 0..=Config::default().quarantine_faults {
        let mut wrong = hello_of(station(n), "1500", &[], &key(n), u64::MAX / 2 + k);
        *wrong.last_mut().unwrap() ^= 1;
        link.inject(0, station(n), false, &wrong);
    }
    assert!(link.nodes[0].machine.quarantined(link.now_ns).iter().any(|(_, at, _)| *at == station(n)));
}

#[test]
fn quarantine_covers_replies_of_all_stations() {
    let mut link = link(&[1500, 1500]);
    let hello = recorded_hello(&mut link);
    for n in [1, EVIL] {
        quarantine(&mut link, n);
        let (verified, refused) = (link.nodes[0].verified, link.count(0, Counter::Quarantined));
        let reply = reply_of(station(n), (1500, 1500), &hello, &key(n), u64::MAX / 2);
        link.inject(0, station(n), true, &reply);
        assert_eq!(link.count(0, Counter::Quarantined), refused + 1, "{n}");
        assert_eq!(link.nodes[0].verified, verified, "{n}");
    }
}

#[test]
fn a_quarantined_neighbor_stays_by_its_answers() {
    let mut link = link(&[1500, 1500]);
    let open = Config { open: true, ..Config::default() };
    link.reconfigure(0, open);
    quarantine(&mut link, 1);
    let prefixes = vec!["/lab".parse().unwrap()];
    link.reconfigure(1, Config { prefixes, ..Config::default() });
    link.set_mtu(1, 1000);
    link.run(20 * SECOND);
    assert_eq!((link.proven(0), link.mtu(0, 1)), (vec![1], Some(1500)));
    assert!(link.nodes[0].routes.is_empty());
    link.run(20 * SECOND);
    assert_eq!((link.mtu(0, 1), link.nodes[0].routes.len()), (Some(1000), 1), "when it is over");
}

#[test]
fn a_replys_mtu_holds_until_changed() {
    let mut link = link(&[1500]);
    let evil = station(EVIL);
    link.inject(0, evil, false, &hello_of(evil, "1500", &[], &key(EVIL), 1));
    let challenge = link.nodes[0].last_hello.clone();
    link.inject(0, evil, true, &reply_of(evil, (1500, 900), &challenge, &key(EVIL), 2));
    assert_eq!(link.mtu(0, EVIL), Some(900));
    link.inject(0, evil, false, &hello_of(evil, "1500", &[], &key(EVIL), 3));
    assert_eq!(link.mtu(0, EVIL), Some(900), "a hello does not set it");
    link.inject(0, evil, false, &hello_of(evil, "1400", &[], &key(EVIL), 4));
    assert_eq!(link.mtu(0, EVIL), Some(1400));
    link.set_mtu(0, 1300);
    assert_eq!(link.mtu(0, EVIL), Some(1300));
}

#[test]
fn an_earlier_clock_needs_a_new_challenge() {
    let mut link = link(&[1500, 1500]);
    let (now_ns, state) = (link.now_ns, link.nodes[1].link);
    link.nodes[1].machine = Discovery::new(Config::default(), key(1), 77, now_ns);
    link.nodes[1].set_clock_ms(5);
    link.drive(1, |machine, out| machine.interface(LINK, Some(state), now_ns, out));
    link.run(10 * SECOND);
    assert_eq!((link.proven(0), link.proven(1)), (vec![1], vec![0]));
    assert_eq!(link.count(0, Counter::NeighboursExpired), 0);
}
