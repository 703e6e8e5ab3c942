//! Tests of two routers in two network namespaces, joined by a veth pair. Without root, or without
//! `ip`, these tests are skipped; the loopback twins are in `files.rs`.

use crate::common;

use std::fs;
use std::process::Command;

use namely_testkit::{Need, skip};

use common::{Home, write_file};
use namely_testbed::Net;

const NODES: [&str; 2] = ["far", "near"];

/// Two namespaces with addresses 10.9.0.1 and 10.9.0.2; none, with a skip, if they cannot be
/// created.
fn two() -> Option<Net> {
    let net = Net::new(&NODES).and_then(|net| {
        let ends = [(NODES[0], "veth0", "10.9.0.1/24"), (NODES[1], "veth0", "10.9.0.2/24")];
        net.join(ends).map(|()| net)
    });
    net.map_err(|why| skip(Need::Namespaces, why)).ok()
}

/// Starts a router in a namespace. Its socket in the home has the name of the namespace.
fn router(net: &Net, home: &mut Home, node: &str, listen: &[&str]) -> String {
    let uri = format!("unix://{}", home.path(&format!("{node}.sock")).display());
    let mut command = Command::new("ip");
    command.args(["netns", "exec", net.name(node), env!("CARGO_BIN_EXE_namely"), "up", "--no-config"]);
    command.args(["--listen", &uri]);
    for address in listen {
        command.args(["--listen", address]);
    }
    home.spawn(command);
    home.wait_for("a router", || home.run(["status", "--router", &uri]).code == Some(0));
    uri
}

/// A file served in namespace 0 is fetched in namespace 1 over `scheme`.
fn fetch_across(scheme: &str) {
    let Some(net) = two() else { return };
    let mut home = Home::new();
    let far = router(&net, &mut home, NODES[0], &[&format!("{scheme}://10.9.0.1:6363")]);
    let near = router(&net, &mut home, NODES[1], &[]);
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 3_000_000, 1);
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--router", &far]);
    home.spawn(serve);
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains("/lab"));
    home.ok(["route", "add", "/lab", &format!("{scheme}://10.9.0.1:6363"), "--router", &near]);
    let got = &home.json(["get", "/lab/f", "-o", "out", "--router", &near])[0];
    assert!(fs::read(home.path("data/f")).unwrap() == fs::read(home.path("out")).unwrap());
    assert_eq!(got["octets"].as_u64(), Some(3_000_000));
}

#[test]
fn a_file_crosses_two_namespaces_over_udp() {
    fetch_across("udp");
}

#[test]
fn a_file_crosses_two_namespaces_over_tcp() {
    fetch_across("tcp");
}

/// The commands are refused even though they run as root there.
#[test]
fn commands_from_another_namespace_are_refused() {
    let Some(net) = two() else { return };
    let mut home = Home::new();
    let far = router(&net, &mut home, NODES[0], &["tcp://10.9.0.1:6363"]);
    let from_near = |words: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", net.name(NODES[1]), env!("CARGO_BIN_EXE_namely")]).args(words);
        command.args(["--router", "tcp://10.9.0.1:6363"]).env("NAMELY_HOME", home.path("home"));
        common::ended(command.output().unwrap())
    };
    let refused = from_near(&["route", "add", "/x", "local"]);
    assert!(refused.stderr.contains("it takes none from here"), "{refused:?}");
    assert!(refused.code != Some(0) && refused.stderr.contains("Unix socket"), "{refused:?}");
    assert!(!home.ok(["route", "list", "--router", &far]).contains("/x"));
    let status = from_near(&["status"]);
    assert!(status.code != Some(0) && status.stderr.contains("management"), "{status:?}");
}

#[test]
fn a_lossy_slow_link_corrupts_nothing() {
    let Some(net) = two() else { return };
    for node in NODES {
        if let Err(why) =
            net.tc(&format!("-n {{{node}}} qdisc add dev veth0 root netem delay 5ms loss 2% limit 2000"))
        {
            skip(Need::Netem, format_args!("no netem here: {why}"));
            return;
        }
    }
    let mut home = Home::new();
    let far = router(&net, &mut home, NODES[0], &["udp://10.9.0.1:6363"]);
    let near = router(&net, &mut home, NODES[1], &[]);
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 1_000_000, 2);
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--router", &far]);
    home.spawn(serve);
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains("/lab"));
    home.ok(["route", "add", "/lab", "udp://10.9.0.1:6363", "--router", &near]);
    home.ok(["get", "/lab/f", "-o", "out", "--router", &near]);
    assert!(fs::read(home.path("data/f")).unwrap() == fs::read(home.path("out")).unwrap());
}

/// Neighbors are discovered, and a neighbor's prefix is found by queries: the configuration names
/// neither the route to `/lab` nor the neighbor.
#[test]
fn hosts_exchange_files_without_configuration() {
    let Some(net) = two() else { return };
    let mut home = Home::new();
    let far = router(&net, &mut home, NODES[0], &["dev://veth0"]);
    let near = router(&net, &mut home, NODES[1], &["dev://veth0"]);
    for router in [&far, &near] {
        home.wait_for("a neighbor", || !home.json(["neighbors", "--router", router]).is_empty());
    }
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 3_000_000, 3);
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--router", &far]);
    home.spawn(serve);
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains("/lab"));
    home.ok(["get", "/lab/f", "-o", "out", "--router", &near]);
    assert!(fs::read(home.path("data/f")).unwrap() == fs::read(home.path("out")).unwrap());
    let routes = home.ok(["route", "list", "--router", &near]);
    assert!(routes.contains("/lab/f") && routes.contains("prefixann"), "{routes}");
    assert!(home.ok(["strategy", "list", "--router", &near]).contains("self-learning"));
}
