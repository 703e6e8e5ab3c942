//! The MTU of a path beyond the devices of its ends (row HT-13). Routers are in two network
//! namespaces. A third namespace between them forwards IP to a link with a smaller MTU.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use namely_interop::{Link, Router, Running, World, eventually};
use namely_socket::{Consumer, ConsumerOptions, Datagram, Producer, ProducerOptions, PublishOptions};
use namely_testbed::Net;
use namely_testkit::{Need, or_skip};
use serde_json::Value;

/// The MTU of the second link, octets of an IP packet.
const NARROW: usize = 1300;

/// Maximum octets of a datagram on the second link, over IPv4.
const NARROW_DATAGRAM: usize = NARROW - 28;

/// Octets of NDNLPv2's headers in a datagram.
const LINK_HEADER_OCTETS: usize = 48;

const TOLD: &str = "option path_octets does not take '9': it can only be read";

/// Maximum octets of a datagram on the first link, over IPv4.
const WIDE_DATAGRAM: usize = 1500 - 28;

/// `a` at 10.1.0.1, `b` at 10.2.0.1, and `r` between them.
fn net() -> Result<Net, String> {
    let net = Net::new(&["a", "r", "b"])?;
    net.join([("a", "wide0", "10.1.0.1/24"), ("r", "wide1", "10.1.0.2/24")])?;
    net.join([("b", "narrow0", "10.2.0.1/24"), ("r", "narrow1", "10.2.0.2/24")])?;
    for step in [
        format!("-n {{b}} link set narrow0 mtu {NARROW}"),
        format!("-n {{r}} link set narrow1 mtu {NARROW}"),
        "-n {a} route add default via 10.1.0.2".into(),
        "-n {b} route add default via 10.2.0.2".into(),
    ] {
        net.ip(&step)?;
    }
    net.enter("r", || fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
        .map_err(|e| format!("ip_forward: {e}"))?;
    Ok(net)
}

/// A counter of IP in a node: `FragCreates` counts the fragments that its own kernel made.
fn ip_counter(net: &Net, node: &str, name: &str) -> u64 {
    let text = net.enter(node, || fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|known| known == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

fn namely(world: &World, router: &str, args: &[&str]) -> Vec<Value> {
    world.namely([&["--router", router], args].concat()).success().values()
}

/// The face of a router to an address.
fn face(world: &World, router: &str, remote: &str) -> Option<Value> {
    namely(world, router, &["face", "list"])
        .into_iter()
        .find(|face| face["remote"].as_str().is_some_and(|uri| uri.starts_with(remote)))
}

fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).unwrap() == fs::read(other).unwrap()
}

fn folder(world: &World, octets: usize) -> (PathBuf, PathBuf) {
    (world.path("files"), world.payload("files/f", octets, 7))
}

/// A router at each end, and a file below `/narrow` that is served at `a` and fetched at `b`.
struct Ends {
    world: World,
    a_uri: String,
    b_uri: String,
    file: PathBuf,
    _running: ([Router; 2], Running, World),
}

impl Ends {
    fn new(net: &Net, octets: usize) -> Self {
        let (world, far) = (World::new(), World::new());
        let a = Router::namelyd_on_udp(&world, net.name("a"), &[]);
        let b = Router::namelyd_on_udp(&far, net.name("b"), &[]);
        let (a_uri, b_uri) = (a.uri(Link::Unix), b.uri(Link::Unix));
        let (folder, file) = folder(&world, octets);
        let server = world.serve(&a_uri, &folder, &["--prefix", "/narrow"]);
        namely(&world, &b_uri, &["route", "add", "/narrow", "udp4://10.1.0.1:6363"]);
        Ends { world, a_uri, b_uri, file, _running: ([a, b], server, far) }
    }
}

#[test]
fn face_fragments_follow_the_path_mtu() {
    let Some(net) = or_skip(Need::Namespaces, net()) else { return };
    let ends = Ends::new(&net, 400_000);
    let Ends { world, a_uri, b_uri, file, .. } = &ends;
    let out = world.path("out");
    world.get(b_uri, "/narrow/f", &out, &[]).success();
    assert!(same(&out, file));
    // The sender of the Data learned the MTU from the IP router's refusals. The requesting end has
    // it from its own device.
    for (router, remote) in [(a_uri, "udp4://10.2.0.1"), (b_uri, "udp4://10.1.0.1")] {
        let mtu = || face(world, router, remote).expect("a face")["mtu"].clone();
        eventually(format_args!("the MTU to {remote}"), || mtu() == NARROW_DATAGRAM);
    }
    assert!(ip_counter(&net, "r", "FragFails") > 0, "the IP router refused what was too long");
    // IP may have fragmented packets under way when the path's MTU was found; now it fragments
    // none.
    let cut = ["a", "r"].map(|node| ip_counter(&net, node, "FragCreates"));
    let other = world.payload("files/g", 400_000, 8);
    world.get(b_uri, "/narrow/g", &world.path("other"), &[]).success();
    assert!(same(&world.path("other"), &other));
    assert_eq!(["a", "r"].map(|node| ip_counter(&net, node, "FragCreates")), cut);
}

#[test]
fn application_fragments_follow_the_path_mtu() {
    let Some(net) = or_skip(Need::Namespaces, net()) else { return };
    let (world, far) = (World::new(), World::new());
    let certificate = world.namely_key("/narrow", "ed25519");
    let b = Router::namelyd_on_udp(&far, net.name("b"), &[&certificate]);
    let (folder, file) = folder(&world, 400_000);
    let server = net.enter("a", || world.serve("udp://10.2.0.1:6363", &folder, &["--prefix", "/narrow"]));
    let out = world.path("out");
    world.get(&b.uri(Link::Unix), "/narrow/f", &out, &[]).success();
    assert!(same(&out, &file));
    assert!(ip_counter(&net, "r", "FragFails") > 0, "the IP router refused what was too long");
    let cut = ["a", "r"].map(|node| ip_counter(&net, node, "FragCreates"));
    let other = world.payload("files/g", 400_000, 8);
    world.get(&b.uri(Link::Unix), "/narrow/g", &world.path("other"), &[]).success();
    assert!(same(&world.path("other"), &other));
    assert_eq!(["a", "r"].map(|node| ip_counter(&net, node, "FragCreates")), cut);
    drop(server);
}

/// A producer that wants to makes packets that need no fragments, once the path is known.
#[test]
fn producers_may_segment_to_the_path_mtu() {
    let Some(net) = or_skip(Need::Namespaces, net()) else { return };
    let (world, far) = (World::new(), World::new());
    let certificate = world.namely_key("/narrow", "ed25519");
    let b = Router::namelyd_on_udp(&far, net.name("b"), &[&certificate]);
    let b_uri = b.uri(Link::Unix);
    let mut options =
        ProducerOptions { keychain: Some(world.path("namely/keys")), ..ProducerOptions::default() };
    options.set("router", "udp://10.2.0.1:6363").unwrap();
    options.set("mtu", "path").unwrap();
    let content: Vec<u8> = (0..200_000).map(|n: u32| (n % 251) as u8).collect();
    net.enter("a", || {
        let producer = Producer::bind("/narrow".parse().unwrap(), options).unwrap();
        let path_octets = || producer.option("path_octets").unwrap().parse::<usize>().unwrap();
        let published = |name: &str| {
            let name = format!("/narrow/{name}").parse().unwrap();
            producer.publish(&name, &content, &PublishOptions::default()).unwrap()
        };
        let publish = |name: &str| published(name).segments;
        let fetch = |name: &str| {
            let out = world.path(name);
            world.get(&b_uri, &format!("/narrow/{name}"), &out, &[]).success();
            assert!(fs::read(&out).unwrap() == content);
        };
        assert_eq!(path_octets(), WIDE_DATAGRAM - LINK_HEADER_OCTETS);
        let wide = publish("wide");
        fetch("wide");
        eventually("the path is known", || path_octets() == NARROW_DATAGRAM - LINK_HEADER_OCTETS);
        let object = published("narrow");
        let narrow = object.segments;
        assert!(
            narrow > wide && narrow >= (content.len() / NARROW_DATAGRAM) as u64,
            "{wide} and {narrow} segments"
        );
        let cut = ip_counter(&net, "a", "FragCreates");
        fetch("narrow");
        assert_eq!(ip_counter(&net, "a", "FragCreates"), cut);
        // Manifests keep to the path too: the first covers fewer segments; the rest have theirs.
        let keychain = Some(world.path("namely/keys"));
        let options = ConsumerOptions { router: Some(b_uri.clone()), keychain, ..ConsumerOptions::default() };
        let consumer = Consumer::bind("/narrow".parse().unwrap(), options).unwrap();
        let entries = consumer.find(&object.name).unwrap().manifest_entries;
        for (index, listed) in [(0, entries), (narrow / entries, narrow % entries)] {
            let manifest = namely_security::manifest_name(object.name.as_name(), index);
            let got = consumer.request(&Datagram::new(manifest)).unwrap();
            assert_eq!(got.content.len() as u64, 24 + 32 * listed);
            assert!(got.content.len() + 100 < path_octets(), "{} octets", got.content.len());
        }
        assert_eq!(producer.set_option("path_octets", "9").unwrap_err().to_string(), TOLD);
        producer.set_option("mtu", "off").unwrap();
        assert_eq!(publish("whole"), (content.len() as u64).div_ceil(8000));
    });
}

/// If the IP router's refusals are filtered, no message reports the path's MTU. Probes find the
/// size that the path drops. The fetch continues after seconds, and later ones lose nothing.
#[test]
fn faces_probe_a_silent_path_mtu() {
    let Some(net) = or_skip(Need::Namespaces, net()) else { return };
    if or_skip(Need::Kernel, silence(&net)).is_none() {
        return;
    }
    let ends = Ends::new(&net, 100_000);
    let Ends { world, a_uri, b_uri, file, .. } = &ends;
    let out = world.path("out");
    world.get(b_uri, "/narrow/f", &out, &[]).success();
    assert!(same(&out, file));
    let to_b = || face(world, a_uri, "udp4://10.2.0.1").expect("a face");
    eventually("the path is searched", || {
        let mtu = to_b()["mtu"].as_u64().unwrap() as usize;
        (NARROW_DATAGRAM - 16..=NARROW_DATAGRAM).contains(&mtu)
    });
    let refused = || ip_counter(&net, "r", "FragFails");
    eventually("the search has ended", || {
        let before = refused();
        std::thread::sleep(Duration::from_secs(5));
        refused() == before
    });
    let before = refused();
    let other = world.payload("files/g", 400_000, 8);
    world.get(b_uri, "/narrow/g", &world.path("other"), &[]).success();
    assert!(same(&world.path("other"), &other));
    assert_eq!(refused(), before, "nothing too long is sent any more");
    // An MTU that an operator sets is not probed.
    let by_hand = NARROW_DATAGRAM - 200;
    namely(world, a_uri, &["face", "update", &to_b()["face_id"].to_string(), "--mtu", &by_hand.to_string()]);
    eventually("the face has its MTU", || to_b()["mtu"] == by_hand);
    world.get(b_uri, "/narrow/g", &world.path("again"), &[]).success();
    assert!(same(&world.path("again"), &other));
}

/// A producer that reaches its router over such a path finds out by itself too.
#[test]
fn applications_probe_a_silent_path_mtu() {
    let Some(net) = or_skip(Need::Namespaces, net()) else { return };
    if or_skip(Need::Kernel, silence(&net)).is_none() {
        return;
    }
    let (world, far) = (World::new(), World::new());
    let certificate = world.namely_key("/narrow", "ed25519");
    let b = Router::namelyd_on_udp(&far, net.name("b"), &[&certificate]);
    let (folder, file) = folder(&world, 100_000);
    let server = net.enter("a", || world.serve("udp://10.2.0.1:6363", &folder, &["--prefix", "/narrow"]));
    let out = world.path("out");
    world.get(&b.uri(Link::Unix), "/narrow/f", &out, &[]).success();
    assert!(same(&out, &file));
    assert!(ip_counter(&net, "r", "FragFails") > 0, "the path lost what was too long");
    drop(server);
}

/// Drops the IP router's own messages.
fn silence(net: &Net) -> Result<(), String> {
    net.ip("-n {r} rule add pref 1 ipproto icmp blackhole").map(drop)
}
