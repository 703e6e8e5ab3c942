//! `namely neighbors`, and a file fetched from a discovered neighbor, on two routers in two network
//! namespaces. Without root, or without `ip`, these tests are skipped.

use crate::common;

use std::fs;

use common::pair::{MACS, Pair, fetch, serve};
use common::{Home, write_file};

/// Starts a router on the link with lines of `[discovery]`.
fn router(net: &Pair, home: &mut Home, i: usize, discovery: &str) -> String {
    net.router(home, i, &["dev://veth0"], &format!("[discovery]\n{discovery}"))
}

/// The neighbors of a router.
fn neighbours(home: &Home, router: &str) -> Vec<serde_json::Value> {
    let all = home.json(["neighbors", "--router", router]);
    all.into_iter().filter(|entry| entry["state"] == "neighbour").collect()
}

#[test]
fn neighbors_are_listed_with_their_prefixes() {
    let Some(net) = Pair::new("get") else { return };
    assert!(net.ip(0, "link set veth0 mtu 9000") && net.ip(1, "link set veth0 mtu 127"));
    let mut home = Home::new();
    let far = router(&net, &mut home, 0, "prefixes = [\"/lab\"]");
    let alone = home.run(["neighbors", "--router", &far]);
    assert!(alone.stderr.contains("no neighbor on dev://veth0"), "{alone:?}");
    let near = router(&net, &mut home, 1, "open = true");
    home.wait_for("the neighbor and its prefix", || {
        let all = neighbours(&home, &near);
        all.len() == 1 && all[0]["prefixes"] == serde_json::json!(["/lab"])
    });
    let seen = &neighbours(&home, &near)[0];
    assert_eq!((&seen["mtu"], &seen["peer_mtu"]), (&127.into(), &9000.into()));
    let table = home.run(["neighbors", "--router", &near]);
    assert!(table.stdout.contains(MACS[0]) && table.stdout.contains("/lab"), "{table:?}");
    assert!(table.stderr.contains("dev://veth0 is OPEN"), "{table:?}");
    serve(&mut home, 300_000, &far);
    fetch(&home, &near, "f");
}

#[test]
fn unaccepted_prefixes_are_shown_as_refused() {
    let Some(net) = Pair::new("refuse") else { return };
    let mut home = Home::new();
    router(&net, &mut home, 0, "prefixes = [\"/\"]");
    let near = router(&net, &mut home, 1, "");
    home.wait_for("the neighbor and its prefix", || {
        let all = neighbours(&home, &near);
        all.len() == 1 && all[0]["refused"] == serde_json::json!(["/"])
    });
    let table = home.run(["neighbors", "--router", &near]);
    assert!(table.stdout.contains("/ (refused)"), "{table:?}");
    let key = neighbours(&home, &near)[0]["key"].as_str().unwrap().to_owned();
    let rule = format!("[[discovery.accept]]\nprefix = \"/\"\nkey = \"{key}\"\n");
    assert!(table.stderr.contains(&rule), "{table:?}");
    home.wait_for("the log", || home.background_log().contains("which no rule accepts"));
    let routes = home.json(["route", "list", "--router", &near]);
    assert!(routes.iter().all(|route| route["prefix"] != "/"), "{routes:?}");
    // The printed rule, added to the configuration, accepts the prefix.
    let file = home.path("1.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config + &rule).unwrap();
    home.reload(1);
    home.wait_for("the prefix", || {
        let all = neighbours(&home, &near);
        all.len() == 1 && all[0]["prefixes"] == serde_json::json!(["/"])
    });
}

#[test]
fn neighbors_deliver_by_unicast_without_configuration() {
    let Some(net) = Pair::new("learn") else { return };
    assert!(net.ip(1, "link set veth0 mtu 1400"));
    let mut home = Home::new();
    let far = router(&net, &mut home, 0, "");
    let near = router(&net, &mut home, 1, "");
    home.wait_for("the neighbors", || {
        [&far, &near].iter().all(|router| neighbours(&home, router).len() == 1)
    });
    serve(&mut home, 300_000, &far);
    fetch(&home, &near, "f");
    let face = neighbours(&home, &near)[0]["face_id"].clone();
    let routes = home.json(["route", "list", "--router", &near]);
    let learned: Vec<_> = routes.iter().filter(|route| route["prefix"] != "/").collect();
    assert!(!learned.is_empty() && learned.iter().all(|route| route["face_id"] == face), "{routes:?}");
    let faces = home.json(["face", "list", "--router", &near]);
    let data = |is_it: &dyn Fn(&serde_json::Value) -> bool| {
        faces.iter().find(|of| is_it(of)).unwrap()["in"]["data"].as_u64().unwrap()
    };
    let by_group = data(&|of| of["remote"] == "ether://[01:00:5e:00:17:aa]");
    let by_neighbor = data(&|of| of["face_id"] == face);
    // Until the route is learned, an Interest goes to the group and to the neighbor. If the group's
    // copy arrives last, the cache answers it.
    assert!(by_group * 10 < by_neighbor, "{by_group} {by_neighbor}: {faces:?}");
}

#[test]
fn trusted_announcements_teach_whole_prefixes() {
    let Some(net) = Pair::new("announce") else { return };
    let mut home = Home::new();
    home.ok(["key", "new", "/lab"]);
    let certificate = home.path("lab.cert");
    fs::write(&certificate, home.ok(["cert", "export", "/lab"])).unwrap();
    let trust = format!("[authorization]\nannouncement_anchors = [{certificate:?}]");
    let far = net.router(&mut home, 0, &["dev://veth0"], "");
    let near = net.router(&mut home, 1, &["dev://veth0"], &trust);
    home.wait_for("the neighbors", || {
        [&far, &near].iter().all(|router| neighbours(&home, router).len() == 1)
    });
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 300_000, 1);
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--announce", "--router", &far]);
    home.spawn(serve);
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains("/lab"));
    fetch(&home, &near, "f");
    let face = neighbours(&home, &near)[0]["face_id"].clone();
    let routes = home.json(["route", "list", "--router", &near]);
    let learned: Vec<_> = routes.iter().filter(|route| route["prefix"] == "/lab").collect();
    assert!(learned.len() == 1 && learned[0]["face_id"] == face, "{routes:?}");
}

#[test]
fn application_announcements_are_learned_over_ethernet() {
    let Some(net) = Pair::new("app") else { return };
    let [_, app_name] = &net.names;
    let link = format!("link add veth1 address 02:00:00:00:01:0a type veth peer name veth1 netns {app_name}");
    if !(net.ip(0, &link) && (0..2).all(|i| net.ip(i, "link set veth1 up"))) {
        return;
    }
    let mut home = Home::new();
    home.ok(["key", "new", "/lab"]);
    let certificate = home.path("lab.cert");
    fs::write(&certificate, home.ok(["cert", "export", "/lab"])).unwrap();
    let commands = format!(
        "[authorization]\nlocalhop_rib = true\n[[authorization.key]]\ncertificate = {certificate:?}\nregister = [\"/lab\"]\n"
    );
    let trust = format!("[authorization]\nannouncement_anchors = [{certificate:?}]");
    let far = net.router(&mut home, 0, &["dev://veth0", "dev://veth1"], &commands);
    let near = net.router(&mut home, 1, &["dev://veth0"], &trust);
    home.wait_for("the neighbors", || {
        [&far, &near].iter().all(|router| neighbours(&home, router).len() == 1)
    });
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 300_000, 1);
    let router = "ether://[02:00:00:00:01:0a%veth1]";
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--announce", "--router", router]);
    home.spawn(net.within(1, &serve));
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", &far]).contains("/lab"));
    fetch(&home, &near, "f");
    let routes = home.json(["route", "list", "--router", &near]);
    assert!(routes.iter().any(|route| route["prefix"] == "/lab"), "{routes:?}");
}

/// The face to the group of the one device.
fn group(home: &Home, router: &str) -> serde_json::Value {
    let faces = home.json(["face", "list", "--router", router]);
    faces.into_iter().find(|face| face["remote"] == "ether://[01:00:5e:00:17:aa]").unwrap()
}

#[test]
fn discovery_asks_neighbors_after_mtu_changes() {
    let Some(net) = Pair::new("ask") else { return };
    let mut home = Home::new();
    let far = router(&net, &mut home, 0, "");
    let near = router(&net, &mut home, 1, "");
    home.wait_for("the neighbors", || {
        [&far, &near].iter().all(|router| neighbours(&home, router).len() == 1)
    });
    serve(&mut home, 10_000, &far);
    assert!(net.ip(1, "link set veth0 mtu 1400"));
    home.wait_for("the MTU", || group(&home, &near)["mtu"] == 1400);
    // One discovery for a file; hellos are no face's. A busy machine may repeat the first Interest,
    // which is a discovery again.
    let mut n = 0;
    home.wait_for("a file with one discovery", || {
        n += 1;
        let file = format!("f{n}");
        write_file(&home.path("data").join(&file), 10_000, n);
        let discoveries = || group(&home, &near)["out"]["interests"].as_u64().unwrap();
        let before = discoveries();
        fetch(&home, &near, &file);
        discoveries() == before + 1
    });
    let neighbour = neighbours(&home, &near)[0]["face_id"].clone();
    let faces = home.json(["face", "list", "--router", &near]);
    let face = faces.iter().find(|face| face["face_id"] == neighbour).unwrap();
    assert!(face["out"]["interests"].as_u64() > Some(0), "{face}");
}

#[test]
fn a_group_route_moves_to_its_neighbor() {
    let Some(net) = Pair::new("move") else { return };
    let mut home = Home::new();
    let near = router(&net, &mut home, 1, "");
    let multicast = "enabled = false\n[[faces.multicast]]\ninterface = \"veth0\"\ngroup = \"ether://[01:00:5e:00:17:aa]\"";
    let far = net.router(&mut home, 0, &[], &format!("[discovery]\n{multicast}"));
    serve(&mut home, 10_000, &far);
    fetch(&home, &near, "f");
    let learned = |home: &Home| {
        let routes = home.json(["route", "list", "--router", &near]);
        let learned = routes.into_iter().filter(|route| route["origin"] == "prefixann");
        learned.map(|route| route["face_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(learned(&home), [group(&home, &near)["face_id"].clone()]);
    // The same station with another router, which sends hellos.
    home.stop(1);
    let again = router(&net, &mut home, 0, "");
    home.wait_for("the neighbor", || neighbours(&home, &near).len() == 1);
    let face = neighbours(&home, &near)[0]["face_id"].clone();
    assert!(!learned(&home).contains(&face), "it has delivered nothing");
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--router", &again]);
    home.spawn(serve);
    home.wait_for("the producer", || home.ok(["route", "list", "--router", &again]).contains("/lab"));
    home.wait_for("the route", || {
        home.ok(["cs", "erase", "/lab", "--router", &near]);
        let _ = fs::remove_file(home.path("again"));
        home.run(["get", "/lab/f", "-o", "again", "--router", &near]);
        let faces = learned(&home);
        !faces.is_empty() && faces.iter().all(|learned| *learned == face)
    });
}
