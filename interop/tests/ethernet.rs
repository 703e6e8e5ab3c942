//! `namelyd` and NFD over Ethernet, in two network namespaces that a veth pair joins: unicast and multicast, both ways.

use std::process::Command;

use namely_interop::{ETHER_GROUP, Link, Router, World, eventually, or_skip};
use serde_json::Value;

const DEVICE: &str = "veth0";

/// The addresses of the devices of `namelyd` and NFD.
const ADDRESSES: [&str; 2] = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"];

/// Two namespaces, gone with the value.
struct Net {
    names: [String; 2],
}

impl Net {
    fn new() -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".into());
        }
        let net = Net { names: ["n", "f"].map(|end| format!("nmle-nfd-{}-{end}", std::process::id())) };
        let ([a, b], [mac_a, mac_b]) = (&net.names, ADDRESSES);
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        let pair = format!("type veth peer name {DEVICE} address {mac_b} netns {b}");
        ip(&format!("-n {a} link add {DEVICE} address {mac_a} {pair}"))?;
        ip(&format!("-n {a} link set {DEVICE} up"))?;
        ip(&format!("-n {b} link set {DEVICE} up"))?;
        Ok(net)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| drop(ip(&format!("netns del {name}"))));
    }
}

fn ip(command: &str) -> Result<(), String> {
    match Command::new("ip").args(command.split_whitespace()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip {command}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("there is no ip command: {error}")),
    }
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

/// Serves a file at one router and fetches it at the other, by a route over `face` there. Segments of 8000 octets cross in
/// fragments.
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
    let Some(net) = or_skip(Net::new()) else { return };
    let world = World::new();
    let Some(nfd) = or_skip(Router::nfd_on_ethernet(&world, &net.names[1])) else { return };
    let namelyd = Router::namelyd_on_ethernet(&world, &net.names[0], DEVICE);
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
