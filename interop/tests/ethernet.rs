//! `namelyd` and NFD over Ethernet, in two network namespaces that a veth pair joins: unicast and
//! multicast, both ways.

use namely_interop::{ETHER_GROUP, Link, Router, World};
use namely_testbed::Net;
use namely_testkit::{Need, or_skip, skip};

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

#[test]
fn namelyd_and_nfd_exchange_ethernet_files() {
    cross_by_unicast_and_multicast_both_ways("off");
}

/// NFD reads its device by libpcap.
#[test]
fn xdp_faces_exchange_files_with_nfd() {
    cross_by_unicast_and_multicast_both_ways("auto");
}

fn cross_by_unicast_and_multicast_both_ways(xdp: &str) {
    let Some(net) = or_skip(Need::Namespaces, net()) else { return };
    let world = World::new();
    let Some(nfd) = or_skip(Need::Peers, Router::nfd_on_ethernet(&world, net.name("f"))) else { return };
    let namelyd = Router::namelyd_on_ethernet(&world, net.name("n"), DEVICE, &[], xdp);
    // With AF_PACKET, this test would repeat the other one.
    if xdp != "off" && !namelyd.log().contains("AF_XDP reads the network device") {
        return skip(Need::Xdp, namelyd.log());
    }
    let (near, far) = (namelyd.uri(Link::Unix), nfd.uri(Link::Unix));
    let group = format!("ether://[{ETHER_GROUP}]");
    world.fetch_across(&far, &near, &world.face_to(&near, &group), "/multicast-nfd");
    world.fetch_across(&near, &far, &world.face_to(&far, &group), "/multicast-namelyd");
    let [at_namelyd, at_nfd] = ADDRESSES.map(|address| format!("ether://[{address}]"));
    let device = format!("dev://{DEVICE}");
    // A listener creates a face to each sender. Here NFD listens, and creates a face to namelyd.
    let made = world.ask(&near, &["face", "create", &at_nfd, "--local", &device]);
    world.fetch_across(&far, &near, &made[0]["face_id"].to_string(), "/unicast-nfd");
    let on_demand = world.face_to(&far, &at_namelyd);
    world.fetch_across(&near, &far, &on_demand, "/back-namelyd");
    world.ask(&near, &["face", "destroy", &made[0]["face_id"].to_string()]);
    world.ask(&far, &["face", "destroy", &on_demand]);
    // Here namelyd listens, and creates a face to NFD.
    let made = world.ask(&far, &["face", "create", &at_namelyd, "--local", &device]);
    world.fetch_across(&near, &far, &made[0]["face_id"].to_string(), "/unicast-namelyd");
    world.fetch_across(&far, &near, &world.face_to(&near, &at_nfd), "/back-nfd");
}
