//! Routers on a bridge that discover one another, and a hostile station there. Each test has
//! network namespaces of its own; without root, or without `ip`, it is skipped.

use crate::common;
use crate::segment;

use std::time::{Duration, Instant};

use common::Client;
use common::client::{Packet, name, named};
use namely_messages::{Command, ControlParameters, NeighborState};
use namely_testkit::until;
use segment::{Attacker, Net, counter, mac, neighbours};

#[test]
fn two_routers_discover_each_other() {
    let Some(net) = Net::new(&[9000, 1400]) else { return };
    let mut a = net.plain_router(0);
    let mut b = net.plain_router(1);
    let of_a = net.wait_for_neighbours(&mut a, 1);
    let of_b = net.wait_for_neighbours(&mut b, 1);
    assert_eq!((&*of_a[0].station, of_a[0].mtu, of_a[0].peer_mtu), (&*mac(1), Some(1400), Some(1400)));
    assert_eq!((&*of_b[0].station, of_b[0].mtu, of_b[0].peer_mtu), (&*mac(0), Some(1400), Some(9000)));
    let faces = a.client.faces();
    let face = faces.iter().find(|face| Some(face.face_id) == of_a[0].face_id).unwrap();
    assert_eq!((&*face.uri, face.mtu), (&*format!("ether://[{}]", mac(1)), Some(1400)));
}

#[test]
fn routers_discover_each_other_over_udp() {
    for (listen, group, is_v6) in [
        ("udp://0.0.0.0:6363", "udp://224.0.23.170:56363", false),
        ("udp://[::]:6363", "udp://[ff02::1234]:56363", true),
    ] {
        let Some(net) = Net::new(&[1500, 1400]) else { return };
        for i in 0..2 {
            assert!(net.ip(i, &format!("addr add 10.9.7.{}/24 dev eth0", i + 1)));
            until("a link-local address", || net.has_link_local(i).then_some(()));
        }
        let config = format!("[[faces.multicast]]\ninterface = \"eth0\"\ngroup = \"{group}\"");
        let mut all: Vec<_> = (0..2).map(|i| net.udp_router(i, &config, listen)).collect();
        for router in &mut all {
            let of = net.wait_for_neighbours(router, 1).remove(0);
            assert_eq!(of.mtu, Some(if is_v6 { 1400 - 48 } else { 1400 - 28 }));
            let faces = router.client.faces();
            let face = faces.iter().find(|face| Some(face.face_id) == of.face_id).unwrap();
            assert!(
                face.uri.starts_with(if is_v6 { "udp6://[fe80::" } else { "udp4://10.9.7." }),
                "{}",
                face.uri
            );
            assert_eq!(
                faces
                    .iter()
                    .filter(|face| face.uri.starts_with("udp") && !face.uri.contains("56363"))
                    .count(),
                1
            );
        }
    }
}

#[test]
fn a_router_without_discovery_is_silent() {
    let Some(net) = Net::new(&[1500, 1500, 1500]) else { return };
    let mut a = net.plain_router(0);
    let mut b = net.plain_router(1);
    let mut silent = net.router(2, "", &["--no-discovery"]);
    assert_eq!(net.wait_for_neighbours(&mut a, 1)[0].station, mac(1));
    net.wait_for_neighbours(&mut b, 1);
    assert!(neighbours(&mut silent).is_empty());
    assert_eq!(silent.client.faces().iter().filter(|face| face.local_uri == "dev://eth0").count(), 0);
}

/// The face of a router to the group.
fn group(router: &mut segment::Router) -> u64 {
    let faces = router.client.faces();
    let group = faces.iter().find(|face| face.uri == "ether://[01:00:5e:00:17:aa]");
    group.expect("a face to the group").face_id
}

/// The answer of one router to the other. A lost frame to a group is not repeated, so the
/// application sends its Interest again.
fn exchange(consumer: &mut Client, producer: &mut Client, uri: &str) -> Packet {
    const AGAIN: Duration = Duration::from_secs(1);
    let requested = name(uri);
    until("the answer", || {
        consumer.ask(uri);
        producer.answer_one(AGAIN, uri.as_bytes());
        let packet = consumer.receive(AGAIN)?;
        // Data that was requested twice may arrive late.
        (packet.headers.nack.is_none() && packet.data().name == requested.as_name()).then_some(packet)
    })
}

#[test]
fn routers_without_discovery_use_the_group() {
    let Some(net) = Net::new(&[1500, 1500, 1500]) else { return };
    let multicast = "[[faces.multicast]]\ninterface = \"eth0\"\ngroup = \"ether://[01:00:5e:00:17:aa]\"";
    let mut a = net.router(0, "", &[]);
    let mut b = net.router(1, "", &[]);
    let mut plain = net.router(2, &format!("enabled = false\n{multicast}"), &[]);
    net.wait_for_neighbours(&mut a, 1);
    net.wait_for_neighbours(&mut b, 1);
    let exchange_all = |consumer: &mut segment::Router, producer: &mut segment::Router, prefix: &str| {
        let route = ControlParameters { face_id: Some(group(consumer)), ..named(prefix) };
        consumer.client.ok(Command::RibRegister, &route);
        // If an Interest was sent again, packets that nobody awaits are left on these connections.
        let (mut consumer, mut producer) = (consumer.daemon.connect(), producer.daemon.connect());
        producer.register(prefix);
        for n in 0..3 {
            let uri = format!("{prefix}/{n}");
            assert_eq!(exchange(&mut consumer, &mut producer, &uri).data().content, uri.as_bytes());
        }
    };
    exchange_all(&mut a, &mut plain, "/plain/a");
    exchange_all(&mut plain, &mut b, "/b");
    exchange_all(&mut b, &mut plain, "/plain/b");
    // A router with discovery continues as before, and a station without hellos is no neighbor.
    assert_eq!((neighbours(&mut a).len(), neighbours(&mut b).len()), (1, 1));
    b.client.register("/neighbour");
    let answer = exchange(&mut a.client, &mut b.client, "/neighbour/1");
    assert_eq!(answer.data().content, b"/neighbour/1", "found by itself");
}

#[test]
fn a_router_without_discovery_answers_discoveries() {
    let Some(net) = Net::new(&[1500, 1500, 1500]) else { return };
    let multicast = "[[faces.multicast]]\ninterface = \"eth0\"\ngroup = \"ether://[01:00:5e:00:17:aa]\"";
    let mut a = net.router(0, "", &[]);
    let mut b = net.router(1, "", &[]);
    let mut plain = net.router(2, &format!("enabled = false\n{multicast}"), &[]);
    net.wait_for_neighbours(&mut a, 1);
    net.wait_for_neighbours(&mut b, 1);
    plain.client.register("/plain");
    b.client.register("/neighbour");
    let group_interests = |a: &mut segment::Router| {
        let group = group(a);
        let face = a.client.faces().into_iter().find(|face| face.face_id == group).expect("the group");
        face.out_interests
    };
    // A worker counts a batch at its end, which may be after the test has received the packets.
    let counted = |a: &mut segment::Router, asked: u64| {
        until("the group is asked", || (group_interests(a) >= asked).then_some(()));
        assert_eq!(group_interests(a), asked);
    };
    a.client.ask("/neighbour/1");
    b.client.serve_one(b"by unicast");
    assert_eq!(a.client.receive(common::PATIENCE).expect("an answer").data().content, b"by unicast");
    // The group is asked beside it.
    counted(&mut a, 1);
    let mut asked = 1;
    for n in 0..3 {
        let uri = format!("/plain/{n}/v=1/seg=0");
        a.client.ask(&uri);
        asked += 1;
        plain.client.serve_one(b"by the group");
        let answer = until("an answer", || {
            let packet = a.client.receive(common::PATIENCE).expect("an answer");
            if packet.headers.nack.is_none() {
                return Some(packet);
            }
            // The router refuses the Interest if the group does not answer in time, which happens
            // on a busy machine. The producer's router has the Data in its content store now.
            a.client.ask(&uri);
            asked += 1;
            None
        });
        assert_eq!(answer.data().content, b"by the group");
    }
    let route = until("the route is learned", || a.client.routes("/plain/0").first().copied());
    assert_eq!(a.client.routes("/plain/0").len(), 1, "and stays where it was learned: {route:?}");
    assert_eq!(route.face_id, group(&mut a));
    counted(&mut a, asked);
    // A name without a producer is refused after a while.
    a.client.ask("/nowhere");
    assert!(a.client.receive(common::PATIENCE).expect("a Nack").headers.nack.is_some());
    counted(&mut a, asked + 1);
}

#[test]
fn each_neighbor_pair_has_its_mtu() {
    let Some(net) = Net::new(&[9000, 127, 9000]) else { return };
    let mut all: Vec<_> = (0..3).map(|i| net.router(i, "", &[])).collect();
    let mut expect = |mtus: [[u64; 2]; 3]| {
        for (router, expected) in all.iter_mut().zip(mtus) {
            until("the MTU of each pair", || {
                let mtus: Vec<u64> = neighbours(router).iter().filter_map(|n| n.mtu).collect();
                (mtus == expected).then_some(())
            });
        }
    };
    expect([[127, 9000], [127, 127], [9000, 127]]);
    assert!(net.ip(1, "link set eth0 mtu 1500"));
    expect([[1500, 9000], [1500, 1500], [9000, 1500]]);
    assert!(net.ip(0, "link set eth0 mtu 68"));
    expect([[68, 68], [68, 1500], [68, 1500]]);
}

#[test]
fn dead_and_leaving_neighbors_lose_their_routes() {
    let Some(net) = Net::new(&[1500, 1500, 1500]) else { return };
    let open = "open = true";
    let mut a = net.router(0, open, &[]);
    let dying = net.router(1, "prefixes = [\"/dying\"]", &[]);
    let leaving = net.router(2, "prefixes = [\"/leaving\"]", &[]);
    let routes = |a: &mut segment::Router, prefix: &str, count: usize| {
        until(prefix, || (a.client.routes(prefix).len() == count).then_some(()));
    };
    routes(&mut a, "/dying", 1);
    routes(&mut a, "/leaving", 1);
    leaving.daemon.stop();
    routes(&mut a, "/leaving", 0);
    assert_eq!(counter(&mut a, "neighbours_expired"), 0, "it sent a goodbye");
    routes(&mut a, "/dying", 1);
    dying.daemon.kill();
    routes(&mut a, "/dying", 0);
    assert_eq!(counter(&mut a, "neighbours_expired"), 1, "it sent no more hellos");
    assert_eq!(net.wait_for_neighbours(&mut a, 0).len(), 0);
}

/// The only neighbor's key, as `neighbors` lists it.
fn key_of_neighbour(router: &mut segment::Router) -> Option<Vec<u8>> {
    neighbours(router).first().map(|neighbour| neighbour.key.clone())
}

#[test]
fn a_restarted_router_keeps_its_identity() {
    let Some(net) = Net::new(&[1500, 1500]) else { return };
    let keys = tempfile::tempdir().unwrap();
    let folder = keys.path().join("keys");
    let keeps = format!("key_chain = {folder:?}");
    let mut a = net.router(0, "", &[]);
    let b = net.router(1, &keeps, &[]);
    net.wait_for_neighbours(&mut a, 1);
    let first = key_of_neighbour(&mut a).unwrap();
    b.daemon.kill();
    let mut b = net.router(1, &keeps, &[]);
    net.wait_for_neighbours(&mut b, 1);
    net.wait_for_neighbours(&mut a, 1);
    assert_eq!(key_of_neighbour(&mut a), Some(first), "the same key, and no word of another");
    assert_eq!(counter(&mut a, "other_key"), 0);
    b.daemon.kill();
    let _b = net.router(1, "", &[]);
    until("another key is refused", || (counter(&mut a, "other_key") > 0).then_some(()));
}

#[test]
fn an_unsafe_key_file_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let Some(net) = Net::new(&[1500]) else { return };
    let keys = tempfile::tempdir().unwrap();
    let folder = keys.path().join("keys");
    let keeps = format!("key_chain = {folder:?}");
    drop(net.router(0, &keeps, &[]));
    let inside = std::fs::read_dir(folder.join("keys")).unwrap().next().unwrap().unwrap().path();
    let private = inside.join("private.pem");
    let mode = std::fs::metadata(&private).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = net.refused(0, &keeps);
    assert!(refused.contains("private.pem") && refused.contains("key_chain"), "{refused}");
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&private, "no key").unwrap();
    assert!(net.refused(0, &keeps).contains("private.pem"));
}

#[test]
fn discovery_follows_interface_changes() {
    let Some(net) = Net::new(&[1500, 1500]) else { return };
    let mut a = net.router(0, "", &[]);
    let mut b = net.router(1, "", &[]);
    net.wait_for_neighbours(&mut a, 1);
    assert!(net.ip(1, "link set eth0 down"));
    net.wait_for_neighbours(&mut b, 0);
    assert!(net.ip(1, "link set eth0 address 02:00:00:00:07:07"));
    assert!(net.ip(1, "link set eth0 up"));
    assert_eq!(net.wait_for_neighbours(&mut b, 1)[0].station, mac(0));
    until("the new address, and only that", || {
        let all = neighbours(&mut a);
        (all.len() == 1 && all[0].station == "02:00:00:00:07:07").then_some(())
    });
    for _ in 0..20 {
        assert!(net.ip(0, "link set eth0 down") && net.ip(0, "link set eth0 up"));
    }
    net.wait_for_neighbours(&mut a, 1);
    net.wait_for_neighbours(&mut b, 1);
}

#[test]
fn a_readded_device_finds_its_neighbors() {
    let Some(net) = Net::new(&[1500, 1500]) else { return };
    let mut a = net.router(0, "", &[]);
    let mut b = net.router(1, "", &[]);
    net.wait_for_neighbours(&mut a, 1);
    assert!(net.ip(1, "link del eth0"));
    net.wait_for_neighbours(&mut b, 0);
    net.wait_for_neighbours(&mut a, 0);
    assert!(net.plug(1, 1400));
    assert_eq!(net.wait_for_neighbours(&mut a, 1)[0].mtu, Some(1400));
    net.wait_for_neighbours(&mut b, 1);
}

#[test]
fn a_reload_keeps_the_neighbors() {
    let Some(net) = Net::new(&[1500, 1500]) else { return };
    let mut a = net.router(0, "", &[]);
    let mut b = net.router(1, "", &[]);
    net.wait_for_neighbours(&mut a, 1);
    let face = net.wait_for_neighbours(&mut b, 1)[0].face_id;
    let with = segment::settings;
    let line = a.daemon.reload(&with("prefixes = [\"/lab\"]"));
    assert!(line.contains("configuration reloaded"), "{line}");
    b.daemon.reload(&with("open = true"));
    b.daemon.wait_for_log("OPEN");
    until("the route", || b.client.routes("/lab").first().copied());
    b.daemon.reload(&with(""));
    until("the route is gone", || b.client.routes("/lab").is_empty().then_some(()));
    let line = b.daemon.reload(&with("neighbours_maxx = 1"));
    assert!(line.contains("not reloaded"), "{line}");
    // Only a restart ends discovery.
    b.daemon.reload(&with("enabled = false"));
    let line = b.daemon.wait_for_log("restart");
    assert!(line.contains("discovery.enabled") && !line.contains("heartbeat"), "{line}");
    let still = neighbours(&mut b);
    assert_eq!((still.len(), still[0].state, still[0].face_id), (1, NeighborState::Proven, face));
    assert_eq!(counter(&mut b, "neighbours_expired"), 0);
}

/// Two honest routers that are neighbors, and a third station for the attacker.
fn attacked(heartbeat: &str) -> Option<(Net, segment::Router, segment::Router)> {
    let net = Net::new(&[1500, 1500, 1500])?;
    let mut a = net.router(0, heartbeat, &[]);
    let mut b = net.router(1, "", &[]);
    net.wait_for_neighbours(&mut a, 1);
    net.wait_for_neighbours(&mut b, 1);
    Some((net, a, b))
}

/// The honest routers are neighbors with the same face as before, and no route leads to the
/// attacker.
fn unharmed(a: &mut segment::Router, face: Option<u64>) {
    // A neighbor that is silent for three heartbeats expires, and the router sends one hello in
    // each.
    let begun = counter(a, "hellos_sent");
    until("four heartbeats", || (counter(a, "hellos_sent") >= begun + 4).then_some(()));
    let all = neighbours(a);
    let honest = all.iter().find(|n| n.station == mac(1)).expect("the neighbor");
    assert_eq!((honest.state, honest.mtu, honest.face_id), (NeighborState::Proven, Some(1500), face));
    assert!(a.client.routes("/").is_empty());
    assert_eq!(counter(a, "neighbours_expired"), 0);
}

#[test]
fn spoofed_stations_and_prefixes_lead_nowhere() {
    let Some((net, mut a, _b)) = attacked("") else { return };
    let face = neighbours(&mut a)[0].face_id;
    net.enter(2, || {
        let evil = Attacker::new();
        // A hello with another station in its name than in its frame; one with the neighbor's
        // address under another key; and one of the attacker's own station, which announces
        // everything.
        let spoofed = evil.hello(&mac(1), "1500", Some("/"));
        evil.multicast(&mac(2), &spoofed);
        evil.multicast(&mac(1), &spoofed);
        evil.multicast(&mac(2), &evil.hello(&mac(2), "1500", Some("/")));
        // A forged source address of no station.
        evil.multicast("02:00:00:00:00:99", &evil.hello("02:00:00:00:00:99", "1500", Some("/")));
    });
    until("refusals", || {
        (counter(&mut a, "spoofed") == 1 && counter(&mut a, "other_key") == 1).then_some(())
    });
    unharmed(&mut a, face);
    assert!(counter(&mut a, "neighbours_unproven") >= 2, "a station that never replied is no neighbor");
    a.daemon.wait_for_log("uses another key");
}

#[test]
fn replayed_hellos_are_refused() {
    let Some((net, mut a, _b)) = attacked("") else { return };
    let face = neighbours(&mut a)[0].face_id;
    net.enter(2, || {
        let evil = Attacker::new();
        // Only the last of them is new.
        let hellos = evil.overhear(&mac(1), 3);
        for packet in &hellos[..2] {
            evil.multicast(&mac(1), packet);
        }
        // Replies with the digest of another station's hello, and with one of a hello that never
        // existed.
        evil.unicast(&mac(0), &mac(2), &evil.reply(&hellos[0], &mac(2)));
        evil.unicast(&mac(0), &mac(2), &evil.reply(&evil.hello(&mac(0), "1500", None), &mac(2)));
    });
    until("refusals", || {
        (counter(&mut a, "replayed") >= 1 && counter(&mut a, "unsolicited") >= 2).then_some(())
    });
    unharmed(&mut a, face);
}

#[test]
fn a_reply_flood_ends_in_quarantine() {
    let Some((net, mut a, _b)) = attacked("") else { return };
    let face = neighbours(&mut a)[0].face_id;
    // A router that waits for a processor misses the frames for which its ring has no room.
    until("a thousand replies are refused", || {
        net.enter(2, || {
            let evil = Attacker::new();
            let reply = evil.reply(&evil.hello(&mac(0), "1500", None), &mac(2));
            let begin = Instant::now();
            for _ in 0..100 {
                evil.flood(&mac(0), &mac(2), &reply, 100);
                std::thread::sleep(Duration::from_millis(10).saturating_sub(begin.elapsed() / 100));
            }
        });
        (counter(&mut a, "unsolicited") > 1000).then_some(())
    });
    until("quarantine", || {
        let all = neighbours(&mut a);
        all.iter().any(|n| n.state == NeighborState::Quarantined && n.station == mac(2)).then_some(())
    });
    unharmed(&mut a, face);
}

#[test]
fn a_tiny_mtu_is_refused() {
    let Some((net, mut a, _b)) = attacked("mtu_octets_min = 68") else { return };
    let face = neighbours(&mut a)[0].face_id;
    net.enter(2, || {
        let evil = Attacker::new();
        evil.multicast(&mac(2), &evil.hello(&mac(2), "67", None));
        for (station, mtu) in [("02:00:00:00:00", "1500"), ("x", "1500"), (&*mac(2), "-1"), (&*mac(2), "070")]
        {
            evil.multicast(&mac(2), &evil.hello(station, mtu, None));
        }
        evil.multicast(&mac(2), &evil.hello(&mac(2), "1500", Some("%")));
    });
    until("refusals", || {
        (counter(&mut a, "mtu_too_small") == 1 && counter(&mut a, "malformed") == 5).then_some(())
    });
    unharmed(&mut a, face);
}

#[test]
fn a_thousand_stations_displace_no_neighbor() {
    let Some((net, mut a, _b)) = attacked("neighbours_max = 16") else { return };
    let face = neighbours(&mut a)[0].face_id;
    net.enter(2, || {
        let evil = Attacker::new();
        for n in 0..1000 {
            let station = format!("02:00:00:01:{:02x}:{:02x}", n / 256, n % 256);
            evil.multicast(&station, &evil.hello(&station, "1500", Some("/")));
        }
    });
    until("refusals", || (counter(&mut a, "too_many_neighbours") > 0).then_some(()));
    assert!(neighbours(&mut a).len() <= 16);
    unharmed(&mut a, face);
    until("the end of the stations that never replied", || (neighbours(&mut a).len() <= 2).then_some(()));
}

#[test]
fn vlan_frames_are_counted_and_reported() {
    let Some((net, mut a, _b)) = attacked("") else { return };
    let face = neighbours(&mut a)[0].face_id;
    if !net.ip(2, "link add link eth0 name v7 type vlan id 7") || !net.ip(2, "link set v7 up") {
        return;
    }
    net.enter(2, || {
        let evil = Attacker::on("v7");
        (0..3).for_each(|_| evil.multicast(&mac(2), &evil.hello(&mac(2), "1500", None)));
    });
    until("the count", || (segment::any_counter(&mut a, "link.ether_vlan") >= 3).then_some(()));
    a.daemon.wait_for_log("tag of a VLAN");
    unharmed(&mut a, face);
}
