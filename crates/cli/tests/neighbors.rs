//! `namely neighbors`, and a file fetched from a neighbour that was found, on two routers in two
//! network namespaces. Without root, or without `ip`, these tests say that they are skipped.

mod common;

use namely_skip::{Need, skip};
use std::fs;
use std::process::Command;

use common::{Home, write_file};

/// Two namespaces joined by a veth pair; gone with the value.
struct Net {
    names: [String; 2],
}

impl Net {
    fn new(test: &str, mtus: [usize; 2]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Namespaces, "network namespaces need root");
            return None;
        }
        let net = Net { names: [0, 1].map(|i| format!("nmlg-{test}-{}-{i}", std::process::id())) };
        let [a, b] = &net.names;
        let steps = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add veth0 address 02:00:00:00:00:0a type veth peer name veth0 netns {b}"),
            format!("-n {a} link set veth0 mtu {}", mtus[0]),
            format!("-n {b} link set veth0 mtu {}", mtus[1]),
            format!("-n {a} link set veth0 up"),
            format!("-n {b} link set veth0 up"),
        ];
        steps.iter().all(|step| ip(step)).then_some(net)
    }

    /// Starts a router in namespace `i` with lines of `[discovery]`; its socket is `<i>.sock`.
    fn router(&self, home: &mut Home, i: usize, discovery: &str) -> String {
        let uri = format!("unix://{}", home.path(&format!("{i}.sock")).display());
        let config = home.path(&format!("{i}.toml"));
        fs::write(&config, format!("[discovery]\n{discovery}\n")).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[i], env!("CARGO_BIN_EXE_namely"), "up", "--config"]);
        command.arg(config).args(["--listen", &uri, "--listen", "dev://veth0"]);
        home.spawn(command);
        home.wait_for("a router", || home.run(["status", "--router", &uri]).code == Some(0));
        uri
    }
}

/// False, with the reason printed, when it fails.
fn ip(command: &str) -> bool {
    match Command::new("ip").args(command.split_whitespace()).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            skip(Need::Namespaces, format_args!("ip {command}: {}", String::from_utf8_lossy(&output.stderr)));
            false
        }
        Err(error) => {
            skip(Need::Namespaces, format_args!("there is no ip command: {error}"));
            false
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// The neighbours that a router has.
fn neighbours(home: &Home, router: &str) -> Vec<serde_json::Value> {
    let all = home.json(["neighbors", "--router", router]);
    all.into_iter().filter(|entry| entry["state"] == "neighbour").collect()
}

#[test]
fn who_is_on_a_link_is_listed_and_what_it_announces_is_fetched_whatever_the_mtus() {
    let Some(net) = Net::new("get", [9000, 127]) else { return };
    let mut home = Home::new();
    let far = net.router(&mut home, 0, "prefixes = [\"/lab\"]");
    let alone = home.run(["neighbors", "--router", &far]);
    assert!(alone.stderr.contains("nobody else is on dev://veth0"), "{alone:?}");
    let near = net.router(&mut home, 1, "open = true");
    home.wait_for("the neighbour and its prefix", || {
        let all = neighbours(&home, &near);
        all.len() == 1 && all[0]["prefixes"] == serde_json::json!(["/lab"])
    });
    let seen = &neighbours(&home, &near)[0];
    assert_eq!((&seen["mtu"], &seen["peer_mtu"]), (&127.into(), &9000.into()));
    let table = home.run(["neighbors", "--router", &near]);
    assert!(table.stdout.contains("02:00:00:00:00:0a") && table.stdout.contains("/lab"), "{table:?}");
    assert!(table.stderr.contains("dev://veth0 is OPEN"), "{table:?}");
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 300_000, 1);
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--router", &far]);
    home.spawn(serve);
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains("/lab"));
    home.ok(["get", "/lab/f", "-o", "out", "--router", &near]);
    assert!(fs::read(home.path("data/f")).unwrap() == fs::read(home.path("out")).unwrap());
}

#[test]
fn a_prefix_that_no_rule_accepts_is_shown_as_refused() {
    let Some(net) = Net::new("refuse", [1500, 1500]) else { return };
    let mut home = Home::new();
    net.router(&mut home, 0, "prefixes = [\"/\"]");
    let near = net.router(&mut home, 1, "");
    home.wait_for("the neighbour", || neighbours(&home, &near).len() == 1);
    assert_eq!(neighbours(&home, &near)[0]["refused"], serde_json::json!(["/"]));
    assert!(home.ok(["neighbors", "--router", &near]).contains("/ (refused)"));
    assert!(home.background_log().contains("which no rule accepts"));
    let routes = home.json(["route", "list", "--router", &near]);
    assert!(routes.iter().all(|route| route["prefix"] != "/"), "{routes:?}");
}

#[test]
fn what_a_neighbour_offers_is_fetched_without_configuration_and_by_unicast() {
    let Some(net) = Net::new("learn", [1500, 1400]) else { return };
    let mut home = Home::new();
    let far = net.router(&mut home, 0, "");
    let near = net.router(&mut home, 1, "");
    home.wait_for("the neighbours", || {
        [&far, &near].iter().all(|router| neighbours(&home, router).len() == 1)
    });
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 300_000, 1);
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--router", &far]);
    home.spawn(serve);
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains("/lab"));
    home.ok(["get", "/lab/f", "-o", "out", "--router", &near]);
    assert!(fs::read(home.path("data/f")).unwrap() == fs::read(home.path("out")).unwrap());
    let face = neighbours(&home, &near)[0]["face_id"].clone();
    let routes = home.json(["route", "list", "--router", &near]);
    let learned: Vec<_> = routes.iter().filter(|route| route["prefix"] != "/").collect();
    assert!(!learned.is_empty() && learned.iter().all(|route| route["face_id"] == face), "{routes:?}");
    let faces = home.json(["face", "list", "--router", &near]);
    let group = faces.iter().find(|face| face["remote"] == "ether://[01:00:5e:00:17:aa]").unwrap();
    assert_eq!(group["in"]["data"], 0, "{group}");
}
