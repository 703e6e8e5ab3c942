//! `namelyd` and NFD over Ethernet, in two network namespaces that a veth pair joins: unicast and
//! multicast, both ways.

use namely_interop::{ETHER_GROUP, Link, Router, World, eventually};
use namely_skip::{Need, or_skip};
use namely_testbed::Net;
use serde_json::Value;

const DEVICE: &str = "veth0";

/// The addresses of the devices of `namelyd` and NFD.
const ADDRESSES: [&str; 2] = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"];

/// The namespaces of `namelyd` and NFD.
fn net() -> Result<Net, String> {
    let net = Net::new(&["n", "f"])?;
    let [mac_n, mac_f] = ADDRESSES;
    let pair = format!("type veth peer name {DEVICE} address {mac_f} netns {{f}}");
    net.ip(&format!("-n {{n}} link add {DEVICE} address {mac_n} {pair}"))?;
    net.ip(&format!("-n {{n}} link set {DEVICE} up"))?;
    net.ip(&format!("-n {{f}} link set {DEVICE} up"))?;
    Ok(net)
}

fn namely(world: &World, router: &str, args: &[&str]) -> Vec<Value> {
    world.namely([&["--router", router], args].concat()).success().values()
}

/// Waits for the face of `router` to a remote.
fn face(world: &World, router: &str, remote: &str) -> String {
    let find = || {
        let faces = namely(world, router, &["face", "list"]);
        Some(faces.iter().find(|face| face["remote"] == remote)?["face_id"].to_string())
    };
    eventually(remote, || find().is_some());
    find().expect("it was there")
}

/// Serves a file at one router and fetches it at the other, by a route over `face` there. Segments
/// of 8000 octets cross in fragments.
fn fetch_across(world: &World, from: &str, to: &str, face: &str, prefix: &str) {
    let folder = world.path(&prefix[1..]);
    let file = world.payload(&format!("{}/f", &prefix[1..]), 300_000, 5);
    let server = world.serve(from, &folder, &["--prefix", prefix]);
    namely(world, to, &["route", "add", prefix, face]);
    let out = world.path("out");
    world.get(to, &format!("{prefix}/f"), &out, &[]).success();
    assert!(std::fs::read(&out).unwrap() == std::fs::read(file).unwrap(), "{prefix}");
    std::fs::remove_file(out).unwrap();
    namely(world, to, &["route", "remove", prefix, face]);
    drop(server);
}

#[test]
fn files_cross_between_namelyd_and_nfd_by_unicast_and_multicast_both_ways() {
    cross_by_unicast_and_multicast_both_ways("off");
}

/// NFD reads its device by libpcap.
#[test]
fn files_cross_between_namelyd_by_xdp_and_nfd_both_ways() {
    // Where there is no AF_XDP the device is read as in the other test.
    cross_by_unicast_and_multicast_both_ways("auto");
}

fn cross_by_unicast_and_multicast_both_ways(xdp: &str) {
    let Some(net) = or_skip(Need::Namespaces, net()) else { return };
    let world = World::new();
    let Some(nfd) = or_skip(Need::Peers, Router::nfd_on_ethernet(&world, net.name("f"))) else { return };
    let namelyd = Router::namelyd_on_ethernet(&world, net.name("n"), DEVICE, &[], xdp);
    let (near, far) = (namelyd.uri(Link::Unix), nfd.uri(Link::Unix));
    let group = format!("ether://[{ETHER_GROUP}]");
    fetch_across(&world, &far, &near, &face(&world, &near, &group), "/multicast-nfd");
    fetch_across(&world, &near, &far, &face(&world, &far, &group), "/multicast-namelyd");
    let [at_namelyd, at_nfd] = ADDRESSES.map(|address| format!("ether://[{address}]"));
    let device = format!("dev://{DEVICE}");
    // The one that is asked makes a face to whoever sends: NFD, which listens, to namelyd here.
    let made = namely(&world, &near, &["face", "create", &at_nfd, "--local", &device]);
    fetch_across(&world, &far, &near, &made[0]["face_id"].to_string(), "/unicast-nfd");
    let on_demand = face(&world, &far, &at_namelyd);
    fetch_across(&world, &near, &far, &on_demand, "/back-namelyd");
    namely(&world, &near, &["face", "destroy", &made[0]["face_id"].to_string()]);
    namely(&world, &far, &["face", "destroy", &on_demand]);
    // And namelyd to NFD here.
    let made = namely(&world, &far, &["face", "create", &at_namelyd, "--local", &device]);
    fetch_across(&world, &near, &far, &made[0]["face_id"].to_string(), "/unicast-namelyd");
    fetch_across(&world, &far, &near, &face(&world, &near, &at_nfd), "/back-nfd");
}
