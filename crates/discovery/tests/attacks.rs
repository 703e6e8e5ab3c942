//! A hostile station on a link with two honest routers: its messages are refused and counted, and
//! the routers remain neighbors.

use crate::segment;

use namely_discovery::limits::{
    MESSAGE_OCTETS_MAX, PREFIX_OCTETS_MAX, PREFIXES_MAX, STATION_BURST, STATION_PER_SECOND, STATIONS_MAX,
    STRANGERS_BURST, STRANGERS_PER_SECOND, VERIFYING_MAX,
};
use namely_discovery::{
    Action, Config, Counter, Discovery, LinkAddress, LinkState, Note, Phase, Proof, ReceivedPacket,
    concerns_discovery,
};
use namely_wire::{InterestView, Name};
use segment::{LINK, MS, SECOND, Segment, hello_of, key, station};

const EVIL: usize = 66;

fn link() -> Segment {
    let mut link = Segment::new();
    (0..2).for_each(|_| assert!(link.add(1500, Config::default()) < 2));
    (0..2).for_each(|n| link.up(n));
    link.run(4 * SECOND);
    assert_eq!((link.proven(0), link.proven(1)), (vec![1], vec![0]));
    link
}

/// Checks that the honest routers are still neighbors, with their MTU and without a route.
fn unharmed(link: &mut Segment) {
    link.run(10 * SECOND);
    assert_eq!((link.proven(0), link.proven(1)), (vec![1], vec![0]));
    assert_eq!((link.mtu(0, 1), link.mtu(1, 0)), (Some(1500), Some(1500)));
    assert!(link.nodes[0].routes.is_empty());
    assert_eq!(link.count(0, Counter::NeighboursExpired), 0);
}

#[test]
fn a_hello_with_a_false_station_is_refused() {
    let mut link = link();
    let hello = hello_of(station(1), "1500", &["/"], &key(1), u64::MAX);
    link.inject(0, station(EVIL), false, &hello);
    assert_eq!((link.count(0, Counter::Spoofed), link.nodes[0].routes.len()), (1, 0));
    unharmed(&mut link);
}

#[test]
fn a_station_with_another_key_is_refused() {
    let mut link = link();
    for time_ms in 0..5 {
        let hello = hello_of(station(1), "1500", &["/"], &key(EVIL), u64::MAX - time_ms);
        link.inject(0, station(1), false, &hello);
    }
    assert_eq!(link.count(0, Counter::OtherKey), 5);
    let notes = link.nodes[0].notes.iter().filter(|(_, note)| *note == Note::OtherKey);
    assert_eq!(notes.count(), 1);
    unharmed(&mut link);
}

#[test]
fn a_neighbors_key_outlives_its_silence() {
    let mut link = link();
    link.crash(1);
    link.run(10 * SECOND);
    assert!(link.proven(0).is_empty());
    link.inject(0, station(1), false, &hello_of(station(1), "1500", &[], &key(EVIL), 1));
    assert_eq!(link.count(0, Counter::OtherKey), 1);
    link.run(60 * SECOND);
    link.inject(0, station(1), false, &hello_of(station(1), "1500", &[], &key(EVIL), 1));
    assert_eq!(link.count(0, Counter::OtherKey), 1, "forgotten a minute later");
}

#[test]
fn a_forged_source_is_never_proven() {
    let mut link = link();
    // The forger has a key of its own, and the source address of no station: packets to it vanish.
    link.inject(0, station(EVIL), false, &hello_of(station(EVIL), "1500", &["/"], &key(EVIL), 1));
    assert_eq!(link.nodes[0].machine.len(), 2, "found, so that it can be challenged");
    assert_eq!(link.nodes[0].mtus.len(), 1, "but it has no face");
    link.run(2 * SECOND);
    assert_eq!(link.nodes[0].machine.len(), 1, "and gone");
    assert_eq!(link.count(0, Counter::NeighboursUnproven), 1);
    unharmed(&mut link);
}

#[test]
fn replayed_hellos_and_goodbyes_change_nothing() {
    let mut link = link();
    let old = link.nodes[1].last_hello.clone();
    link.run(10 * SECOND);
    let heard = link.count(0, Counter::HellosHeard);
    (0..3).for_each(|_| link.inject(0, station(1), false, &old));
    assert_eq!((link.count(0, Counter::Replayed), link.count(0, Counter::HellosHeard)), (3, heard));
    // A router that has received no earlier hello of that station does not accept it as a proof.
    let late = link.add(1500, Config::default());
    link.up(late);
    link.crash(1);
    link.inject(late, station(1), false, &old);
    link.run(2 * SECOND);
    assert!(!link.proven(late).contains(&1));
}

#[test]
fn stale_replies_are_refused_before_verification() {
    let mut link = link();
    let old = link.nodes[1].last_reply.clone();
    let verified = link.nodes[0].verified;
    (0..3).for_each(|_| link.inject(0, station(1), true, &old));
    let late = link.count(0, Counter::Late) + link.count(0, Counter::Unsolicited);
    assert_eq!(late, 3);
    // A reply with a foreign nonce: this router did not send the hello.
    let before = link.count(0, Counter::Unsolicited);
    let other = reply_to_nothing(station(1), &key(1));
    link.inject(0, station(1), true, &other);
    assert_eq!(link.count(0, Counter::Unsolicited), before + 1);
    assert_eq!(link.nodes[0].verified, verified);
    unharmed(&mut link);
}

#[test]
fn repeated_bad_signatures_cause_quarantine() {
    let mut link = link();
    let threshold = Config::default().quarantine_faults;
    let hello = |link: &mut Segment, n: u64| {
        let mut hello = hello_of(station(EVIL), "1500", &[], &key(EVIL), n);
        *hello.last_mut().unwrap() ^= 1;
        link.inject(0, station(EVIL), false, &hello);
    };
    (1..threshold).for_each(|n| hello(&mut link, n));
    assert_eq!(link.count(0, Counter::BadSignature), threshold - 1);
    assert!(link.nodes[0].machine.quarantined(link.now_ns).is_empty(), "at the threshold less one");
    hello(&mut link, threshold);
    assert_eq!(link.nodes[0].machine.quarantined(link.now_ns).len(), 1);
    let verified = link.nodes[0].verified;
    hello(&mut link, 100);
    assert_eq!((link.count(0, Counter::Quarantined), link.nodes[0].verified), (1, verified));
    link.run(31 * SECOND);
    assert!(link.nodes[0].machine.quarantined(link.now_ns).is_empty(), "it decays");
    unharmed(&mut link);
}

#[test]
fn a_forged_neighbor_stays_by_its_replies() {
    let mut link = link();
    for n in 0..60u64 {
        // Always enough faults for quarantine, from the neighbor's own address.
        for k in 0..40 {
            let mut hello = hello_of(station(1), "64", &["/"], &key(1), u64::MAX / 2 + n * 100 + k);
            *hello.last_mut().unwrap() ^= 1;
            link.inject(0, station(1), false, &hello);
        }
        link.run(SECOND);
        assert_eq!(link.proven(0), [1], "after {n} s");
    }
    assert!(link.count(0, Counter::Quarantined) > 0);
    link.run(31 * SECOND);
    unharmed(&mut link);
}

#[test]
fn ten_thousand_replies_cost_no_verification() {
    let mut link = link();
    let verified = link.nodes[0].verified;
    let reply = reply_to_nothing(station(EVIL), &key(EVIL));
    for _ in 0..10 {
        (0..1000).for_each(|_| link.inject(0, station(EVIL), true, &reply));
        link.run(100 * MS);
    }
    assert_eq!(link.count(0, Counter::Unsolicited), 10_000);
    assert!(link.nodes[0].verified <= verified + 4, "only the neighbor's own");
    assert_eq!(link.nodes[0].machine.quarantined(link.now_ns).len(), 1);
    unharmed(&mut link);
}

/// A reply to a hello that was never sent.
fn reply_to_nothing(from: LinkAddress, key: &namely_discovery::Key) -> Vec<u8> {
    let hello = hello_of(station(0), "1500", &[], key, 5);
    let name = InterestView::parse(&hello).unwrap().name.to_name();
    let numbers = [133, 1, 1, 137, 2, 5, 0xdc];
    let content = [&hello_of_name(from)[..], &[129, 32], key, &[131, 1, 5], &numbers].concat();
    segment::reply(&name, &content, key)
}

/// The Name element of a hello without its digest.
fn hello_of_name(from: LinkAddress) -> Vec<u8> {
    let name = Name::new().join_generic("ndp").join_generic(from.to_string()).join_generic("1500");
    let mut w = namely_wire::tlv::Writer::new();
    name.as_name().encode(&mut w);
    w.into_vec()
}

#[test]
fn an_mtu_below_the_minimum_is_refused() {
    for (mtu, is_taken) in [("64", true), ("63", false), ("1", false), ("65535", true)] {
        let mut link = link();
        link.inject(0, station(EVIL), false, &hello_of(station(EVIL), mtu, &[], &key(EVIL), 1));
        assert_eq!(link.nodes[0].machine.len(), 1 + usize::from(is_taken), "{mtu}");
        assert_eq!(link.count(0, Counter::MtuTooSmall), u64::from(!is_taken));
        unharmed(&mut link);
    }
}

#[test]
fn known_neighbors_stay_when_the_table_is_full() {
    for config in [
        Config { neighbours_max: 4, ..Config::default() },
        Config { neighbours_total_max: 4, ..Config::default() },
    ] {
        fill(config);
    }
}

fn fill(config: Config) {
    let mut link = Segment::new();
    let full = link.add(1500, config);
    link.up(full);
    for _ in 0..5 {
        let n = link.add(1500, Config::default());
        link.up(n);
        link.run(SECOND);
    }
    assert_eq!(link.proven(full), [1, 2, 3, 4]);
    assert!(link.count(full, Counter::TooManyNeighbours) > 0);
    for n in 100..1100 {
        link.inject(full, station(n), false, &hello_of(station(n), "1500", &[], &key(n), 1));
    }
    assert_eq!(link.proven(full), [1, 2, 3, 4]);
    assert_eq!(link.nodes[full].mtus.len(), 4);
}

#[test]
fn unproven_neighbors_get_half_the_table() {
    let mut link = link();
    let half = Config::default().neighbours_max / 2;
    for n in 100..100 + half + 1 {
        link.inject(0, station(n), false, &hello_of(station(n), "1500", &[], &key(n), 1));
    }
    let found = link.nodes[0].machine.neighbours(link.now_ns).filter(|n| n.phase == Phase::Found).count();
    assert_eq!((found, link.count(0, Counter::TooManyNeighbours)), (half, 1));
    link.run(2 * SECOND);
    unharmed(&mut link);
}

#[test]
fn a_station_has_a_message_quota() {
    let mut link = link();
    let send = |link: &mut Segment, n: u64| {
        link.inject(0, station(1), false, &hello_of(station(1), "1500", &[], &key(1), u64::MAX / 2 + n));
    };
    let heard = link.count(0, Counter::HellosHeard);
    (0..STATION_BURST).for_each(|n| send(&mut link, n));
    assert_eq!(link.count(0, Counter::HellosHeard), heard + STATION_BURST);
    send(&mut link, 100);
    assert_eq!(link.count(0, Counter::RateLimited), 1);
    link.now_ns += SECOND / STATION_PER_SECOND;
    send(&mut link, 101);
    assert_eq!(link.count(0, Counter::HellosHeard), heard + STATION_BURST + 1);
}

#[test]
fn unknown_stations_share_a_message_quota() {
    let mut link = link();
    link.run(10 * SECOND);
    let verified = link.nodes[0].verified;
    let send = |link: &mut Segment, n: u64| {
        let mut hello = hello_of(station(n as usize), "1500", &[], &key(n as usize), 1);
        *hello.last_mut().unwrap() ^= 1;
        link.inject(0, station(n as usize), false, &hello);
    };
    (0..STRANGERS_BURST).for_each(|n| send(&mut link, 1000 + n));
    assert_eq!(link.nodes[0].verified - verified, STRANGERS_BURST);
    send(&mut link, 5000);
    assert_eq!(link.count(0, Counter::StrangersLimited), 1);
    link.now_ns += SECOND / STRANGERS_PER_SECOND;
    send(&mut link, 5001);
    assert_eq!(link.nodes[0].verified - verified, STRANGERS_BURST + 1);
    unharmed(&mut link);
}

#[test]
fn remembered_stations_are_limited() {
    let mut link = link();
    for n in 0..STATIONS_MAX + 1000 {
        link.inject(0, station(1000 + n), false, &[5, 7, 7, 5, 8, 3, b'n', b'd', b'p']);
    }
    assert_eq!(link.nodes[0].machine.stations(), STATIONS_MAX);
    assert_eq!(link.count(0, Counter::Malformed), STATIONS_MAX as u64 + 1000);
    link.run(60 * SECOND);
    link.inject(0, station(9), false, &[5, 7, 7, 5, 8, 3, b'n', b'd', b'p']);
    assert!(link.nodes[0].machine.stations() < 10, "they are forgotten");
    unharmed(&mut link);
}

#[test]
fn pending_verifications_are_limited() {
    let state = LinkState { station: station(0), mtu: 1500, network_bits: 0 };
    let mut machine = Discovery::new(Config { neighbours_max: 4096, ..Config::default() }, key(0), 1, SECOND);
    let mut out = Vec::new();
    machine.interface(LINK, Some(state), SECOND, &mut out);
    for n in 0..=VERIFYING_MAX {
        let packet = hello_of(station(100 + n), "1500", &[], &key(100 + n), 1);
        let received =
            ReceivedPacket { interface: LINK, source: station(100 + n), is_unicast: false, packet: &packet };
        machine.receive(received, SECOND, &mut out);
    }
    let tickets: Vec<u64> = out
        .iter()
        .filter_map(|action| match action {
            Action::Verify { ticket, .. } => Some(*ticket),
            _ => None,
        })
        .collect();
    assert_eq!((tickets.len(), machine.counters().get(Counter::VerifyFull)), (VERIFYING_MAX, 1));
    // A finished verification frees its slot, and a result without a ticket changes nothing.
    machine.verified(tickets[0], Proof::Invalid, SECOND, &mut out);
    machine.verified(u64::MAX, Proof::Valid, SECOND, &mut out);
    assert_eq!(machine.counters().get(Counter::BadSignature), 1);
}

#[test]
fn malformed_discovery_messages_are_only_counted() {
    let long = format!("/{}", "x".repeat(PREFIX_OCTETS_MAX));
    let many = ["/a"; PREFIXES_MAX + 1];
    let name = |texts: &[&str]| texts.iter().fold(Name::new(), |name, text| name.join_generic(text));
    let of = |texts: &[&str]| segment::hello(name(texts), &segment::parameters(&key(EVIL)), &key(EVIL), 1);
    let mac = station(EVIL).to_string();
    let mut packets = vec![
        of(&["ndp"]),
        of(&["ndp", &mac]),
        of(&["ndp", "02:00:00:00:00", "1500"]),
        of(&["ndp", "02:00:00:00:00:zz", "1500"]),
        of(&["ndp", "01:00:5e:00:17:aa", "1500"]),
        of(&["ndp", "00:00:00:00:00:00", "1500"]),
        of(&["ndp", "", "1500"]),
        of(&["ndp", "224.0.23.170:6363", "1500"]),
        of(&["ndp", "255.255.255.255:6363", "1500"]),
        of(&["ndp", "[::ffff:10.9.7.9]:6363", "1500"]),
        of(&["ndp", "[fe80::9%7]:6363", "1500"]),
        of(&["ndp", "10.9.7.9:0", "1500"]),
        of(&["ndp", &mac, ""]),
        of(&["ndp", &mac, "-1"]),
        of(&["ndp", &mac, "+1500"]),
        of(&["ndp", &mac, "01500"]),
        of(&["ndp", &mac, "65536"]),
        of(&["ndp", &mac, "99999999999999999999"]),
        of(&["ndp", &mac, "1500", "lab"]),
        of(&["ndp", &mac, "1500", "prefix=%"]),
        hello_of(station(EVIL), "1500", &[&long], &key(EVIL), 1),
        hello_of(station(EVIL), "1500", &many, &key(EVIL), 1),
        segment::hello(name(&["ndp", &mac, "1500"]), &[129, 2, 1, 1], &key(EVIL), 1),
        segment::hello(name(&["ndp", &mac, "1500"]), &vec![0; MESSAGE_OCTETS_MAX], &key(EVIL), 1),
        namely_wire::InterestBuilder::new(name(&["ndp", &mac, "1500"])).build(),
    ];
    let whole = hello_of(station(EVIL), "1500", &["/"], &key(EVIL), 1);
    packets.extend((10..whole.len()).map(|end| whole[..end].to_vec()));
    let mut link = link();
    for packet in &packets {
        link.inject(0, station(EVIL), false, packet);
        link.now_ns += SECOND;
    }
    assert_eq!(link.count(0, Counter::Malformed), packets.len() as u64);
    let mut all = link.nodes[0].machine.neighbours(link.now_ns);
    assert!(all.all(|neighbour| neighbour.station != station(EVIL)));
}

#[test]
fn announced_prefixes_are_limited() {
    let longest = format!("/{}", "x".repeat(PREFIX_OCTETS_MAX - 1));
    for prefixes in [vec!["/a"; PREFIXES_MAX], vec![&*longest]] {
        let mut link = link();
        link.inject(0, station(EVIL), false, &hello_of(station(EVIL), "1500", &prefixes, &key(EVIL), 1));
        assert_eq!((link.count(0, Counter::Malformed), link.nodes[0].machine.len()), (0, 2));
    }
}

#[test]
fn ndp_names_are_known_by_first_octets() {
    let hello = hello_of(station(1), "1500", &[], &key(1), 1);
    assert!(concerns_discovery(&hello));
    for end in 0..9 {
        assert!(!concerns_discovery(&hello[..end.min(8)]));
    }
    for other in ["/ndpx/a", "/nd/p", "/lab/ndp", "/NDP/a"] {
        let packet = namely_wire::InterestBuilder::new(other.parse().unwrap()).build();
        assert!(!concerns_discovery(&packet), "{other}");
    }
    // The longest lengths, and octets that are not a packet.
    let long = segment::reply(&"/ndp/x".parse().unwrap(), &[0; 300], &key(1));
    assert!(concerns_discovery(&long));
    assert!(!concerns_discovery(&[100, 9, 7, 7, 8, 3, b'n', b'd', b'p']));
}
