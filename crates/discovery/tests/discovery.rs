//! Nodes on one link in virtual time: how neighbors find one another, stay and go.

use crate::segment;

use namely_discovery::{AcceptRule, Config, Counter, Note};
use namely_wire::Name;
use segment::{MS, SECOND, Segment, key, station};

fn config() -> Config {
    Config::default()
}

/// A link with a node for each MTU, which come up one after the other.
fn link(mtus: &[usize]) -> Segment {
    let mut link = Segment::new();
    for mtu in mtus {
        let n = link.add(*mtu, config());
        link.up(n);
        link.run(SECOND);
    }
    link
}

#[test]
fn a_new_neighbor_is_usable_at_once() {
    let mut link = link(&[1500]);
    let b = link.add(1500, config());
    link.up(b);
    link.run(100 * MS);
    assert_eq!((link.proven(0), link.proven(1)), (vec![1], vec![0]));
    // The same if both come up together.
    let mut link = Segment::new();
    (0..2).for_each(|_| assert!(link.add(1500, config()) < 2));
    (0..2).for_each(|n| link.up(n));
    link.run(100 * MS);
    assert_eq!((link.proven(0), link.proven(1)), (vec![1], vec![0]));
}

#[test]
fn each_pair_uses_the_smaller_mtu() {
    let link = link(&[9000 - 200, 1400, 8800]);
    assert_eq!((link.mtu(0, 1), link.mtu(1, 0)), (Some(1400), Some(1400)));
    assert_eq!((link.mtu(0, 2), link.mtu(2, 0)), (Some(8800), Some(8800)));
    assert_eq!(link.nodes[0].group_mtu, 1400, "multicast fits the smallest MTU");
}

#[test]
fn the_first_hello_assumes_the_smallest_mtu() {
    let mut link = Segment::new();
    let a = link.add(8800, config());
    link.up(a);
    assert_eq!((link.nodes[a].hello_mtu, link.nodes[a].group_mtu), (64, 8800));
    link.run(4 * SECOND);
    assert_eq!((link.nodes[a].hello_mtu, link.nodes[a].group_mtu), (8800, 8800));
}

#[test]
fn a_changed_mtu_reaches_the_neighbor_at_once() {
    let mut link = link(&[1500, 1500]);
    link.set_mtu(0, 127);
    link.run(100 * MS);
    assert_eq!((link.mtu(0, 1), link.mtu(1, 0)), (Some(127), Some(127)));
    link.set_mtu(0, 1500);
    link.run(100 * MS);
    assert_eq!((link.mtu(0, 1), link.mtu(1, 0)), (Some(1500), Some(1500)));
    // An MTU that is lowered again so soon is ignored, until the last change is long enough ago.
    link.set_mtu(0, 64);
    link.run(SECOND);
    assert_eq!((link.mtu(1, 0), link.count(1, Counter::MtuLoweredTooOften) > 0), (Some(1500), true));
    link.run(15 * SECOND);
    assert_eq!(link.mtu(1, 0), Some(64));
}

#[test]
fn a_reply_with_a_stale_mtu_is_ignored() {
    let mut link = link(&[1500, 1500]);
    link.set_mtu(1, 127);
    let hello = link.nodes[1].last_group_hello.clone();
    link.run(MS);
    link.set_mtu(1, 1500);
    link.run(100 * MS);
    // The reply to the first hello comes after the second one was answered.
    link.inject(1, station(0), true, &segment::reply_of(station(0), (1500, 127), &hello, &key(0), 9_000_000));
    assert_eq!((link.mtu(0, 1), link.mtu(1, 0)), (Some(1500), Some(1500)));
}

#[test]
fn a_dead_neighbor_leaves_within_three_heartbeats() {
    let mut link = link(&[1500, 1500]);
    link.run(10 * SECOND);
    link.crash(1);
    link.run(5 * SECOND);
    assert_eq!(link.proven(0), [1]);
    link.run(4 * SECOND);
    assert!(link.proven(0).is_empty());
    assert!(link.nodes[0].mtus.is_empty(), "its face has gone");
    assert!(link.nodes[0].notes.contains(&(station(1), Note::Expired)));
}

#[test]
fn a_goodbye_removes_a_neighbor_at_once() {
    let mut link = link(&[1500, 1500]);
    link.goodbye(1);
    link.run(MS);
    assert!(link.proven(0).is_empty());
    assert_eq!(link.nodes[0].notes.last(), Some(&(station(1), Note::Left)));
    assert_eq!(link.count(0, Counter::NeighboursLeft), 1);
    let hello = segment::hello_of(station(1), "1500", &[], &key(9), 1);
    link.inject(0, station(1), false, &hello);
    assert_eq!(link.count(0, Counter::OtherKey), 0);
}

#[test]
fn neighbors_survive_ten_percent_loss() {
    let mut link = link(&[1500, 1500, 1500]);
    link.loses = 10;
    for _ in 0..200 {
        link.run(18 * SECOND);
        assert_eq!(link.proven(0).len(), 2, "at {} s", link.now_ns / SECOND);
    }
    assert_eq!(link.count(0, Counter::NeighboursExpired), 0);
}

#[test]
fn an_interface_going_down_removes_its_neighbors() {
    let mut link = link(&[1500, 1500]);
    link.down(0);
    assert!(link.proven(0).is_empty() && link.nodes[0].mtus.is_empty());
    link.run(SECOND);
    link.up(0);
    link.run(3 * SECOND);
    assert_eq!((link.proven(0), link.proven(1)), (vec![1], vec![0]));
}

#[test]
fn a_flapping_interface_costs_few_messages() {
    let mut link = link(&[1500, 1500]);
    let before = link.nodes[0].sent;
    for _ in 0..1000 {
        link.down(0);
        link.run(MS);
        link.up(0);
        link.run(MS);
    }
    let sent = link.nodes[0].sent - before;
    assert!(sent <= 150, "{sent} messages in two seconds");
    link.run(10 * SECOND);
    assert_eq!((link.proven(0), link.proven(1)), (vec![1], vec![0]));
}

#[test]
fn two_hundred_neighbors_cause_no_storm() {
    const NODES: usize = 200;
    let mut link = Segment::new();
    for _ in 0..NODES {
        let n = link.add(1500, config());
        link.up(n);
        link.run(10 * MS);
    }
    link.run(7 * SECOND);
    for n in 0..NODES {
        assert_eq!(link.proven(n).len(), NODES - 1, "{n}");
    }
    let before: Vec<u64> = link.nodes.iter().map(|node| node.sent_octets).collect();
    // Two heartbeats, so that no node sends more than two or three hellos.
    link.run(6 * SECOND);
    let most = link.nodes.iter().zip(before).map(|(node, before)| node.sent_octets - before).max().unwrap();
    let bits_per_second = most * 8 / 6;
    assert!(bits_per_second < 2_000, "{bits_per_second} bit/s of one node in rest");
    // One more node comes up. All answer it, but not at the same time.
    link.busiest = 0;
    let n = link.add(1500, config());
    link.up(n);
    link.run(SECOND);
    assert!(link.busiest < 30, "{} frames in one millisecond", link.busiest);
    assert_eq!(link.proven(n).len(), NODES);
}

#[test]
fn announcements_become_routes_only_by_rule() {
    let announces = |prefixes: &[&str]| Config {
        prefixes: prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect(),
        ..config()
    };
    let lab: Name = "/lab".parse().unwrap();
    let rule = |prefix: &str, n| AcceptRule { prefix: prefix.parse().unwrap(), key: key(n) };
    for (rules, open, expected) in [
        (vec![], false, vec![]),
        (vec![rule("/lab", 0)], false, vec!["/lab/x"]),
        (vec![rule("/", 1)], false, vec![]),
        (vec![rule("/lab", 1), rule("/other", 0)], false, vec![]),
        (vec![], true, vec!["/", "/lab/x"]),
    ] {
        let mut link = Segment::new();
        let producer = link.add(1500, announces(&["/", &format!("{lab}/x")]));
        let consumer = link.add(1500, Config { accept: rules, open, ..config() });
        (0..2).for_each(|n| link.up(n));
        link.run(10 * SECOND);
        let routes: Vec<String> =
            link.nodes[consumer].routes.iter().map(|(_, name)| name.to_string()).collect();
        assert_eq!(routes, expected);
        assert_eq!(link.count(consumer, Counter::PrefixesRefused), 2 - expected.len() as u64);
        // The routes of a neighbor are removed with it.
        link.goodbye(producer);
        link.run(SECOND);
        assert!(link.nodes[consumer].routes.is_empty());
    }
}

#[test]
fn a_restarted_neighbor_returns_at_once() {
    let mut link = link(&[1500, 1500]);
    let (now_ns, state) = (link.now_ns, link.nodes[1].link);
    link.nodes[1].machine = namely_discovery::Discovery::new(config(), key(1), 77, now_ns);
    link.drive(1, |machine, out| machine.interface(segment::LINK, Some(state), now_ns, out));
    link.run(100 * MS);
    assert_eq!((link.proven(0), link.proven(1)), (vec![1], vec![0]));
}

#[test]
fn settings_change_while_neighbors_are_present() {
    let names = |prefixes: &[&str]| prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect();
    let mut link = link(&[1500, 1280]);
    link.run(4 * SECOND);
    // A new announcement is sent at once, and an accepted prefix becomes a route at once.
    let rule = AcceptRule { prefix: "/lab".parse().unwrap(), key: key(0) };
    link.reconfigure(0, Config { prefixes: names(&["/lab", "/other"]), ..config() });
    link.run(100 * MS);
    assert!(link.nodes[1].routes.is_empty());
    link.reconfigure(1, Config { accept: vec![rule], ..config() });
    let routes = |link: &Segment| -> Vec<String> {
        link.nodes[1].routes.iter().map(|(_, name)| name.to_string()).collect()
    };
    assert_eq!(routes(&link), ["/lab"]);
    link.reconfigure(1, Config { open: true, ..config() });
    assert_eq!(routes(&link), ["/lab", "/other"]);
    link.reconfigure(1, config());
    assert!(routes(&link).is_empty());
    // With a shorter time between hellos a dead neighbor is removed sooner.
    (0..2).for_each(|n| link.reconfigure(n, Config { heartbeat_ns: 500 * MS, ..config() }));
    let before = link.nodes[1].sent;
    link.run(5 * SECOND);
    assert!((10..=16).contains(&(link.nodes[1].sent - before)), "{}", link.nodes[1].sent - before);
    link.crash(0);
    link.run(1600 * MS);
    assert!(link.proven(1).is_empty());
    // A station with too small an MTU is no longer a neighbor.
    link.up(0);
    link.run(2 * SECOND);
    assert_eq!(link.proven(0), [1]);
    link.reconfigure(0, Config { mtu_octets_min: 1400, ..config() });
    assert!(link.proven(0).is_empty() && link.nodes[0].mtus.is_empty());
    assert_eq!(link.nodes[0].notes.last(), Some(&(station(1), Note::MtuTooSmall(1280))));
}
