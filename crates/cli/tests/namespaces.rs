//! Two routers in two network namespaces, joined by a veth pair: what crosses a network, where
//! there is one. Without root, or without `ip`, these tests say that they are skipped; the loopback
//! twins are in `files.rs`.

mod common;

use std::fs;
use std::process::Command;

use common::{Home, write_file};

/// Two namespaces with addresses 10.9.0.1 and 10.9.0.2; gone with the value.
struct Net {
    names: [String; 2],
}

impl Net {
    fn new(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: network namespaces need root");
            return None;
        }
        let names = [0, 1].map(|i| format!("nmly-{test}-{}-{i}", std::process::id()));
        let net = Net { names };
        let [a, b] = &net.names;
        let steps = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add veth0 type veth peer name veth0 netns {b}"),
            format!("-n {a} addr add 10.9.0.1/24 dev veth0"),
            format!("-n {b} addr add 10.9.0.2/24 dev veth0"),
            format!("-n {a} link set veth0 up"),
            format!("-n {b} link set veth0 up"),
            format!("-n {a} link set lo up"),
            format!("-n {b} link set lo up"),
        ];
        for step in steps {
            match Command::new("ip").args(step.split(' ')).output() {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    println!("skipped: ip {step}: {}", String::from_utf8_lossy(&output.stderr));
                    return None;
                }
                Err(error) => {
                    println!("skipped: there is no ip command: {error}");
                    return None;
                }
            }
        }
        Some(net)
    }

    /// Starts a router in namespace `i`; its socket is `<i>.sock` in the home.
    fn router(&self, home: &mut Home, i: usize, listen: &[&str]) -> String {
        let uri = format!("unix://{}", home.path(&format!("{i}.sock")).display());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[i], env!("CARGO_BIN_EXE_namely"), "up", "--no-config"]);
        command.args(["--listen", &uri]);
        for address in listen {
            command.args(["--listen", address]);
        }
        home.spawn(command);
        home.wait_for("a router", || home.run(["status", "--router", &uri]).code == Some(0));
        uri
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// A file served in namespace 0 is fetched in namespace 1 over `scheme`.
fn fetch_across(scheme: &str) {
    let Some(net) = Net::new(scheme) else { return };
    let mut home = Home::new();
    let far = net.router(&mut home, 0, &[&format!("{scheme}://10.9.0.1:6363")]);
    let near = net.router(&mut home, 1, &[]);
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

#[test]
fn a_lossy_slow_link_delays_and_does_not_corrupt() {
    let Some(net) = Net::new("lossy") else { return };
    let netem = "netem delay 5ms loss 2% limit 2000";
    for name in &net.names {
        let mut tc = Command::new("tc");
        tc.args(["-n", name, "qdisc", "add", "dev", "veth0", "root"]).args(netem.split(' '));
        match tc.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                println!("skipped: no netem here: {}", String::from_utf8_lossy(&output.stderr));
                return;
            }
            Err(error) => {
                println!("skipped: there is no tc command: {error}");
                return;
            }
        }
    }
    let mut home = Home::new();
    let far = net.router(&mut home, 0, &["udp://10.9.0.1:6363"]);
    let near = net.router(&mut home, 1, &[]);
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 1_000_000, 2);
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--router", &far]);
    home.spawn(serve);
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains("/lab"));
    home.ok(["route", "add", "/lab", "udp://10.9.0.1:6363", "--router", &near]);
    home.ok(["get", "/lab/f", "-o", "out", "--router", &near]);
    assert!(fs::read(home.path("data/f")).unwrap() == fs::read(home.path("out")).unwrap());
}

/// Neighbours are found, and what one of them offers is found by asking them: nobody has said where
/// `/lab` is, nor who is there.
#[test]
fn what_one_host_serves_another_gets_with_no_configuration() {
    let Some(net) = Net::new("plug") else { return };
    let mut home = Home::new();
    let far = net.router(&mut home, 0, &["dev://veth0"]);
    let near = net.router(&mut home, 1, &["dev://veth0"]);
    for router in [&far, &near] {
        home.wait_for("a neighbour", || !home.json(["neighbors", "--router", router]).is_empty());
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
