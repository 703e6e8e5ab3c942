//! `namelyd` and NFD on one segment: UDP multicast, neighbor discovery that NFD does not know, and
//! self-learning with prefix announcements, both ways.

use std::path::Path;
use std::process::Command;

use namely_interop::{ETHER_GROUP, Link, Router, UDP_GROUP, World, ethernet_of_nfd, eventually, find_tool};
use namely_testbed::Net;
use namely_testkit::{Need, or_skip};
use serde_json::Value;

const DEVICE: &str = "eth0";

/// Lines for `namelyd` without discovery.
const QUIET: &str = "[discovery]\nenabled = false\n";

/// A namespace for each of `nodes`, with a device on one bridge and an address of IPv4.
fn segment(nodes: &[&str]) -> Result<Net, String> {
    let net = Net::new(&[&["bridge"], nodes].concat())?;
    net.ip("-n {bridge} link add br0 type bridge mcast_snooping 0")?;
    net.ip("-n {bridge} link set br0 up")?;
    for (i, node) in nodes.iter().enumerate() {
        net.ip(&format!(
            "-n {{bridge}} link add p{i} type veth peer name {DEVICE} address {} netns {{{node}}}",
            mac(i)
        ))?;
        net.ip(&format!("-n {{bridge}} link set p{i} master br0"))?;
        net.ip(&format!("-n {{bridge}} link set p{i} up"))?;
        net.ip(&format!("-n {{{node}}} addr add 10.9.8.{}/24 dev {DEVICE}", i + 1))?;
        net.ip(&format!("-n {{{node}}} link set {DEVICE} up"))?;
    }
    Ok(net)
}

/// The address of the device of a node.
fn mac(i: usize) -> String {
    format!("02:00:00:00:00:{:02x}", i + 1)
}

fn ether_group() -> String {
    format!("ether://[{ETHER_GROUP}]")
}

/// Lines that give `namelyd` a face to a group.
fn with_group(group: &str) -> String {
    format!("[[faces.multicast]]\ninterface = \"{DEVICE}\"\ngroup = \"{group}\"\n")
}

/// NFD of a namespace, unless it cannot be had.
fn nfd(world: &World, net: &Net, faces: &str, strategy: &str) -> Option<Router> {
    or_skip(Need::Peers, Router::nfd_on_link(world, net.name("f"), faces, strategy))
}

/// The face of a router to a remote end.
fn face(world: &World, router: &str, remote: &str) -> Value {
    let faces = world.ask(router, &["face", "list"]);
    faces.into_iter().find(|face| face["remote"] == remote).unwrap_or_default()
}

/// Returns true if a router has a route for `prefix` that it learned from an announcement or Data.
fn has_learned(world: &World, router: &str, prefix: &str) -> bool {
    let routes = world.ask(router, &["route", "list"]);
    routes.iter().any(|route| route["prefix"] == prefix && route["origin"] == "prefixann")
}

/// NFD's warnings and errors, except the one at each start that it checks no certificates.
fn complaints(nfd: &Router) -> Vec<String> {
    let is_one =
        |line: &&str| (line.contains("WARN") || line.contains("ERROR")) && !line.contains("Authenticator");
    nfd.log().lines().filter(is_one).map(str::to_owned).collect()
}

fn same(one: &Path, other: &Path) -> bool {
    std::fs::read(one).unwrap() == std::fs::read(other).unwrap()
}

#[test]
fn namelyd_and_nfd_exchange_multicast_files() {
    let Some(net) = or_skip(Need::Namespaces, segment(&["n", "f"])) else { return };
    let world = World::new();
    let (address, port) = UDP_GROUP.split_once(':').unwrap();
    let udp = format!("udp {{ listen yes port 6363 mcast yes mcast_group {address} mcast_port {port} }}");
    let Some(nfd) = nfd(&world, &net, &udp, "best-route") else { return };
    let group = with_group(&format!("udp://{UDP_GROUP}")) + QUIET;
    let namelyd = Router::namelyd_on_link(&world, net.name("n"), "udp://0.0.0.0:6363", &group);
    let (near, far) = (namelyd.uri(Link::Unix), nfd.uri(Link::Unix));
    let group = format!("udp4://{UDP_GROUP}");
    world.fetch_across(&far, &near, &world.face_to(&near, &group), "/multicast-nfd");
    world.fetch_across(&near, &far, &world.face_to(&far, &group), "/multicast-namelyd");
    // And by unicast over the same device.
    let made = world.ask(&near, &["face", "create", "udp4://10.9.8.2:6363"]);
    world.fetch_across(&far, &near, &made[0]["face_id"].to_string(), "/unicast-nfd");
    world.fetch_across(&near, &far, &world.face_to(&far, "udp4://10.9.8.1:6363"), "/unicast-namelyd");
    assert!(complaints(&nfd).is_empty(), "{:?}", complaints(&nfd));
}

/// Two routers that find each other beside an NFD that does not know discovery.
#[test]
fn nfd_ignores_discovery_interests() {
    let Some(net) = or_skip(Need::Namespaces, segment(&["n", "m", "f"])) else { return };
    let (world, other) = (World::new(), World::new());
    let Some(nfd) = nfd(&world, &net, &ethernet_of_nfd(), "best-route") else { return };
    let device = format!("dev://{DEVICE}");
    let hasty = "[discovery]\nheartbeat_ms = 200\n";
    let one = Router::namelyd_on_link(&world, net.name("n"), &device, hasty);
    let two = Router::namelyd_on_link(&other, net.name("m"), &device, hasty);
    let (near, far) = (one.uri(Link::Unix), nfd.uri(Link::Unix));
    let neighbours = || world.ask(&near, &["neighbors"]);
    let are_found = || neighbours().iter().any(|entry| entry["station"] == mac(1).as_str());
    eventually("the routers find each other", are_found);
    let heard = || face(&world, &far, &ether_group())["in"]["interests"].as_u64().unwrap_or(0);
    eventually("NFD hears hellos", || heard() >= 20);
    assert!(neighbours().iter().all(|entry| entry["station"] != mac(2).as_str()), "NFD is no neighbor");
    // NFD forwards and answers none of it, and retains no state.
    let group = face(&world, &far, &ether_group());
    assert_eq!([&group["out"]["interests"], &group["out"]["data"], &group["out"]["nacks"]], [0, 0, 0]);
    assert!(face(&world, &far, &format!("ether://[{}]", mac(0))).is_null(), "and no face for it");
    world.fetch_across(&far, &near, &world.face_to(&near, &ether_group()), "/at-nfd");
    world.fetch_across(&near, &far, &world.face_to(&far, &ether_group()), "/at-namelyd");
    assert!(are_found(), "and the routers are neighbors all the time");
    assert!(complaints(&nfd).is_empty(), "{:?}", complaints(&nfd));
    drop(two);
}

#[test]
fn discovery_falls_back_to_nfd() {
    let Some(net) = or_skip(Need::Namespaces, segment(&["n", "m", "f"])) else { return };
    let (world, other) = (World::new(), World::new());
    let Some(nfd) = nfd(&world, &net, &ethernet_of_nfd(), "best-route") else { return };
    let device = format!("dev://{DEVICE}");
    let hasty = "[discovery]\nheartbeat_ms = 200\n";
    let one = Router::namelyd_on_link(&world, net.name("n"), &device, hasty);
    let _two = Router::namelyd_on_link(&other, net.name("m"), &device, hasty);
    let (near, far) = (one.uri(Link::Unix), nfd.uri(Link::Unix));
    eventually("the routers find each other", || {
        world.ask(&near, &["neighbors"]).iter().any(|entry| entry["station"] == mac(1).as_str())
    });
    world.face_to(&far, &ether_group());
    let file = world.payload("data/f", 300_000, 5);
    let _server = world.serve(&far, &world.path("data"), &["--prefix", "/at-nfd"]);
    let out = world.path("out");
    world.get(&near, "/at-nfd/f", &out, &[]).success();
    assert!(same(&out, &file), "no route led there");
}

#[test]
fn nfd_learns_announced_namely_prefixes() {
    let Some(net) = or_skip(Need::Namespaces, segment(&["n", "f"])) else { return };
    let world = World::new();
    let Some(nfd) = nfd(&world, &net, &ethernet_of_nfd(), "self-learning") else { return };
    let more = with_group(&ether_group()) + QUIET;
    let namelyd = Router::namelyd_on_link(&world, net.name("n"), &format!("dev://{DEVICE}"), &more);
    let (near, far) = (namelyd.uri(Link::Unix), nfd.uri(Link::Unix));
    world.face_to(&far, &ether_group());
    let file = world.payload("data/f", 300_000, 5);
    let server = world.serve(&near, &world.path("data"), &["--prefix", "/alice", "--announce"]);
    let out = world.path("out");
    world.get(&far, "/alice/f", &out, &[]).success();
    assert!(same(&out, &file), "no route led there");
    eventually("NFD has learned the whole prefix", || has_learned(&world, &far, "/alice"));
    drop(server);
}

#[test]
fn namely_learns_prefixes_from_trusted_nfd() {
    let Some(net) = or_skip(Need::Namespaces, segment(&["n", "f"])) else { return };
    for is_trusted in [false, true] {
        let world = World::new();
        let anchor = world.path("anchor.cert");
        // NFD signs its announcements with the default key of its user; `World` is the user's home.
        let Some(ndnsec) = or_skip(Need::Peers, find_tool("ndnsec")) else { return };
        let run = |args: &[&str]| -> Vec<u8> {
            let mut command: Command = world.command(&ndnsec);
            let output = command.args(args).output().expect("ndnsec starts");
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        run(&["key-gen", "-t", "e", "/bob"]);
        std::fs::write(&anchor, run(&["cert-dump", "-i", "/bob"])).unwrap();
        let Some(nfd) = nfd(&world, &net, &ethernet_of_nfd(), "self-learning") else { return };
        let mut more = with_group(&ether_group()) + QUIET + "[strategy]\n\"/\" = \"self-learning\"\n";
        if is_trusted {
            more += &format!("[authorization]\nannouncement_anchors = [{anchor:?}]\n");
        }
        let namelyd = Router::namelyd_on_link(&world, net.name("n"), &format!("dev://{DEVICE}"), &more);
        let (near, far) = (namelyd.uri(Link::Unix), nfd.uri(Link::Unix));
        world.face_to(&far, &ether_group());
        world.face_to(&near, &ether_group());
        let file = world.payload("data/f", 300_000, 5);
        let server = world.serve(&far, &world.path("data"), &["--prefix", "/bob"]);
        let out = world.path("out");
        world.get(&near, "/bob/f", &out, &[]).success();
        assert!(same(&out, &file), "no route led there");
        let (learned, not) = if is_trusted { ("/bob", "/bob/f") } else { ("/bob/f", "/bob") };
        eventually(learned, || has_learned(&world, &near, learned));
        assert!(!has_learned(&world, &near, not), "{not}");
        drop(server);
    }
}
