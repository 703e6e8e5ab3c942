//! Two routers in two network namespaces that communicate over Ethernet, without IP addresses, by
//! AF_PACKET and by AF_XDP. Without root, or without `ip`, these tests are skipped.

use crate::common;

use std::fs;
use std::process::Command;

use namely_testkit::{Need, skip};

use common::pair::{MACS, Pair, fetch, serve};
use common::{Home, write_file};

const GROUP: &str = "ether://[01:00:5e:00:17:aa]";

/// The end of a configuration, which turns AF_XDP on or off.
fn xdp(value: &str) -> String {
    format!("[faces.ethernet]\nxdp = \"{value}\"\n")
}

/// Returns true if AF_XDP can read the devices of a net. Otherwise prints the reason.
fn has_xdp(net: &Pair) -> bool {
    let mut home = Home::new();
    let config = home.path("probe.toml");
    fs::write(&config, format!("[faces]\nlisten = [\"dev://veth0\"]\n{}", xdp("on"))).unwrap();
    let mut command = net.up(0);
    command.arg("--config").arg(config).env("NAMELY_LOG", "info");
    home.spawn(command);
    home.wait_for("a word", || home.background_log().contains("AF_XDP"));
    let is_there = home.background_log().contains("AF_XDP reads");
    if !is_there {
        skip(Need::Xdp, format_args!("{}", home.background_log()));
    }
    is_there
}

/// The face to `remote`.
fn face(home: &Home, router: &str, remote: &str) -> serde_json::Value {
    let faces = home.json(["face", "list", "--router", router]);
    faces.into_iter().find(|face| face["remote"] == remote).unwrap_or_default()
}

/// A file served in namespace 0, which listens on `device`, is fetched in namespace 1 through a
/// unicast face. `rest` is at the end of the configuration of either router.
fn fetch_across(net: &Pair, device: &str, mac: &str, mtu: u64, rest: [&str; 2]) {
    let mut home = Home::new();
    let far = net.router(&mut home, 0, &[&format!("dev://{device}")], rest[0]);
    let near = net.router(&mut home, 1, &[], rest[1]);
    serve(&mut home, 3_000_000, &far);
    let uri = format!("ether://[{mac}]");
    let local = format!("dev://{device}");
    let without_device = home.run(["face", "create", &uri, "--router", &near]);
    assert!(without_device.stderr.contains("dev://"), "{}", without_device.stderr);
    home.ok(["face", "create", &uri, "--local", &local, "--router", &near]);
    let made = face(&home, &near, &uri);
    assert_eq!((made["local"].as_str(), made["mtu"].as_u64()), (Some(&*local), Some(mtu)));
    home.ok(["route", "add", "/lab", &made["face_id"].to_string(), "--router", &near]);
    fetch(&home, &near, "f");
}

#[test]
fn a_file_crosses_two_namespaces_over_ethernet() {
    let Some(net) = Pair::new("uni") else { return };
    fetch_across(&net, "veth0", MACS[0], 1500, ["", ""]);
    if has_xdp(&net) {
        for [far, near] in [["on", "on"], ["on", "off"], ["off", "auto"]] {
            fetch_across(&net, "veth0", MACS[0], 1500, [&xdp(far), &xdp(near)]);
        }
    }
}

#[test]
fn a_file_crosses_two_namespaces_over_vxlan() {
    let Some(net) = Pair::new("vxlan") else { return };
    for (i, mac) in MACS.into_iter().enumerate() {
        let (own, other) = (i + 1, 2 - i);
        let mac = mac.replace("02:", "06:");
        let steps = [
            format!("addr add 10.9.1.{own}/24 dev veth0"),
            format!(
                "link add vx0 address {mac} type vxlan id 7 remote 10.9.1.{other} dstport 4789 dev veth0"
            ),
            "link set vx0 up".into(),
        ];
        if !steps.iter().all(|step| net.ip(i, step)) {
            return;
        }
    }
    fetch_across(&net, "vx0", &MACS[0].replace("02:", "06:"), 1450, ["", ""]);
}

#[test]
fn a_file_crosses_a_multicast_group() {
    let Some(net) = Pair::new("multi") else { return };
    cross_a_group_and_meet_a_neighbour(&net, "");
    if has_xdp(&net) {
        cross_a_group_and_meet_a_neighbour(&net, &xdp("on"));
    }
}

fn cross_a_group_and_meet_a_neighbour(net: &Pair, xdp: &str) {
    let mut home = Home::new();
    let group = format!("{xdp}[[faces.multicast]]\ninterface = \"veth0\"\ngroup = \"{GROUP}\"\n");
    let far = net.router(&mut home, 0, &[], &group);
    let neighbour = format!(
        "{group}[[face]]\nremote = \"ether://[{}]\"\nlocal = \"dev://veth0\"\nroutes = [\"/nowhere\"]\n",
        MACS[0]
    );
    let near = net.router(&mut home, 1, &[], &neighbour);
    serve(&mut home, 300_000, &far);
    let of_group = face(&home, &near, GROUP);
    assert_eq!(of_group["local"], "dev://veth0");
    home.ok(["route", "add", "/lab", &of_group["face_id"].to_string(), "--router", &near]);
    fetch(&home, &near, "f");
    home.wait_for("the neighbor", || home.ok(["route", "list", "--router", &near]).contains("/nowhere"));
    let refused = home.run(["face", "create", GROUP, "--local", "dev://veth0", "--router", &near]);
    assert_ne!(refused.code, Some(0), "groups are configured");
}

/// Several workers reassemble fragments of several senders.
#[test]
fn workers_sharing_a_device_reassemble_fragments() {
    let Some(net) = Pair::new("share") else { return };
    const STATIONS: usize = 4;
    for n in 0..STATIONS {
        let address = format!("02:00:00:00:02:0{n}");
        let add = format!("link add m{n} link veth0 address {address} type macvlan mode bridge");
        if !net.ip(0, &add) {
            return;
        }
        assert!(net.ip(0, &format!("link set m{n} up")));
    }
    let mut home = Home::new();
    let listen: Vec<String> = (0..STATIONS).map(|n| format!("dev://m{n}")).collect();
    let listen: Vec<&str> = listen.iter().map(String::as_str).collect();
    let far = net.router(&mut home, 0, &listen, "");
    let near = net.router(&mut home, 1, &[], "workers = 3");
    serve(&mut home, 2_000_000, &far);
    for n in 0..STATIONS {
        let serve = home.namely(["serve", "data", "--prefix", &format!("/lab{n}"), "--router", &far]);
        home.spawn(serve);
        let uri = format!("ether://[02:00:00:00:02:0{n}]");
        home.ok(["face", "create", &uri, "--local", "dev://veth0", "--router", &near]);
        let id = face(&home, &near, &uri)["face_id"].to_string();
        home.ok(["route", "add", &format!("/lab{n}"), &id, "--router", &near]);
        let route = format!("/lab{n}");
        home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains(&route));
    }
    let served = fs::read(home.path("data/f")).unwrap();
    std::thread::scope(|scope| {
        for n in 0..STATIONS {
            let (home, served, near) = (&home, &served, &near);
            scope.spawn(move || {
                let out = format!("out{n}");
                // The buffers of the devices have room for all of it while a process pauses.
                let few = ["--window", "16"];
                home.ok(["get", &format!("/lab{n}/f"), "-o", &out, "--router", near].iter().chain(&few));
                assert!(fs::read(home.path(&out)).unwrap() == *served);
            });
        }
    });
    for n in 0..STATIONS {
        let station = face(&home, &near, &format!("ether://[02:00:00:00:02:0{n}]"));
        assert!(station["in"]["data"].as_u64() >= Some(2_000_000 / 8800), "{station}");
    }
    let counters = home.ok(["status", "--counters", "--router", &near]);
    assert!(!counters.contains("reassembly"), "parts of a packet waited apart: {counters}");
}

#[test]
fn a_face_follows_its_device() {
    let Some(net) = Pair::new("follow") else { return };
    follow_a_device(&net, "");
    if has_xdp(&net) {
        follow_a_device(&net, &xdp("on"));
    }
}

/// With the MTU of 9000, frames are longer than a memory page.
fn follow_a_device(net: &Pair, xdp: &str) {
    let mut home = Home::new();
    let far = net.router(&mut home, 0, &["dev://veth0"], xdp);
    let near = net.router(&mut home, 1, &[], xdp);
    serve(&mut home, 300_000, &far);
    let uri = format!("ether://[{}]", MACS[0]);
    home.ok([
        "face",
        "create",
        &uri,
        "--local",
        "dev://veth0",
        "--persistency",
        "permanent",
        "--router",
        &near,
    ]);
    home.ok(["route", "add", "/lab", &face(&home, &near, &uri)["face_id"].to_string(), "--router", &near]);
    fetch(&home, &near, "f");
    let mtu = || face(&home, &near, &uri)["mtu"].as_u64();
    for octets in [600, 9000] {
        assert!((0..2).all(|i| net.ip(i, &format!("link set veth0 mtu {octets}"))));
        home.wait_for("the MTU", || mtu() == Some(octets));
        let file = octets.to_string();
        write_file(&home.path("data").join(&file), 300_000, octets);
        fetch(&home, &near, &file);
    }
    assert!(net.ip(1, "link del veth0"));
    assert!(net.plug());
    home.wait_for("the device", || mtu() == Some(1500));
    write_file(&home.path("data/g"), 300_000, 7);
    fetch(&home, &near, "g");
}

/// The XDP program and the sockets end with the router. The next router can use the device at once.
#[test]
fn a_killed_router_leaves_no_xdp_program() {
    let Some(net) = Pair::new("kill") else { return };
    if !has_xdp(&net) {
        return;
    }
    let program = || {
        let show = ["-n", &net.names[0], "link", "show", "veth0"];
        let output = Command::new("ip").args(show).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("xdp")
    };
    for _ in 0..2 {
        let mut home = Home::new();
        net.router(&mut home, 0, &["dev://veth0"], &xdp("on"));
        assert!(program());
        // Kills the router by SIGKILL.
        drop(home);
        assert!(!program(), "the program is still on the device");
    }
}

#[test]
fn a_missing_net_raw_capability_is_named() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can drop a capability");
        return;
    }
    let home = Home::new();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw", "--"]).arg(env!("CARGO_BIN_EXE_namely"));
    command.args(["up", "--no-config", "--listen", "dev://lo"]).current_dir(home.path(""));
    match command.output() {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && stderr.contains("CAP_NET_RAW"), "{stderr}");
        }
        Err(error) => skip(Need::Setpriv, format_args!("there is no setpriv command: {error}")),
    }
}

#[test]
fn missing_xdp_capabilities_are_named() {
    let Some(net) = Pair::new("rights") else { return };
    if !has_xdp(&net) {
        return;
    }
    let start = |value: &str| {
        let mut home = Home::new();
        let config = home.path("namely.toml");
        fs::write(&config, format!("[faces]\nlisten = [\"dev://veth0\"]\n{}", xdp(value))).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &net.names[0], "setpriv", "--bounding-set=-net_admin,-sys_admin"]);
        command.args([
            "--inh-caps=-net_admin,-sys_admin",
            "--",
            env!("CARGO_BIN_EXE_namely"),
            "up",
            "--config",
        ]);
        command.arg(config);
        home.spawn(command);
        home.wait_for("a word", || {
            let log = home.background_log();
            log.contains("ready") || log.contains("cannot") || log.contains("exec")
        });
        home.background_log()
    };
    let on = start("on");
    if on.contains("exec") {
        skip(Need::Setpriv, format_args!("there is no setpriv command: {on}"));
        return;
    }
    assert!(
        on.contains("AF_XDP cannot read veth0") && on.contains("CAP_NET_ADMIN") && !on.contains("ready"),
        "{on}"
    );
    let auto = start("auto");
    assert!(
        auto.contains("AF_PACKET reads") && auto.contains("CAP_NET_ADMIN") && auto.contains("ready"),
        "{auto}"
    );
}
