//! A router that uses the kernel's forwarder (`namelyd --kernel`, docs/kernel.md). These tests load
//! a module, so they run in a guest, where `kernel/run --tools` puts them; elsewhere they are
//! skipped.

use crate::common;

use std::fs;

use common::world::{World, load};
use common::{Home, write_file};
use namely_client::Client;
use namely_messages::{Command, ControlParameters};
use namely_nnet::{Control, OpenError, Socket};
use namely_security::{Signer, sha256};
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{Component, DataView, InterestBuilder, Name};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags};

/// Starts a router in a namespace. Returns the URI by which its clients connect.
fn start(world: &mut World, node: &str, options: &[&str]) -> String {
    start_configured(world, node, "", options).1
}

/// As `start`, with a configuration. Also returns the router's position among the background
/// commands.
fn start_configured(world: &mut World, node: &str, config: &str, options: &[&str]) -> (usize, String) {
    let uri = format!("unix://{}", world.home.path(&format!("{node}.sock")).display());
    let file = world.home.path(&format!("{node}.toml"));
    fs::write(&file, config).unwrap();
    let words = ["up", "--kernel", "--config", file.to_str().unwrap(), "--listen", &uri, "--only"];
    let command = world.namely(node, [&words[..], options].concat());
    let child = world.home.spawn(command);
    let answers = || world.run(node, &["status", "--router", &uri]).code == Some(0);
    world.home.wait_for("the router", answers);
    (child, uri)
}

/// Waits until the kernel's FIB of a namespace has a prefix.
fn wait_for_route(world: &World, node: &str, prefix: &str) {
    world.home.wait_for(prefix, || world.run(node, &["kernel", "route", "list"]).stdout.contains(prefix));
}

#[test]
fn a_missing_kernel_module_prints_a_hint() {
    if namely_nnet::module::is_loaded() {
        return println!("the module is loaded here: another test checks the right");
    }
    let home = Home::new();
    let uri = home.router_uri();
    let said = home.fails(1, ["up", "--kernel", "--no-config", "--listen", &uri]);
    assert!(said.contains("not loaded") && said.contains("namely kernel load"), "{said}");
    let config = home.path("namely.toml");
    fs::write(&config, "[kernel]\nenabled = true\n[network]\nregions = [\"/x\"]\n").unwrap();
    let said = home.fails(78, ["up", "--check", "--config", config.to_str().unwrap()]);
    assert!(said.contains("network.regions"), "{said}");
}

#[test]
fn router_and_kernel_clients_reach_each_other() {
    let Some(mut world) = World::new() else { return };
    let said = world.as_nobody("lab", &["up", "--kernel", "--no-config", "--listen", "tcp://127.0.0.1:6363"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("CAP_NET_ADMIN"), "it names the missing right: {said:?}");
    let memif = format!("memif://{}", world.home.path("lab.memif").display());
    let listen = ["--listen", "tcp://127.0.0.1:6363", "--listen", "udp://127.0.0.1:6363", "--listen", &memif];
    let uri = start(&mut world, "lab", &listen);

    // A program with a socket of the kernel fetches data from a client of the router.
    fs::create_dir(world.home.path("data")).unwrap();
    write_file(&world.home.path("data/f"), 100_000, 1);
    let serve = world.namely("lab", to(&uri, &["serve", "data", "--prefix", "/lab/data"]));
    let serve = world.home.spawn(serve);
    wait_for_route(&world, "lab", "/lab/data");
    world.ok("lab", &["get", "/lab/data/f", "-o", "by-kernel", "--router", "kernel://"]);
    let routers = [uri.as_str(), "tcp://127.0.0.1:6363", "udp://127.0.0.1:6363", &memif];
    for (n, router) in routers.into_iter().enumerate() {
        let out = format!("by-router-{n}");
        world.ok("lab", &["get", "/lab/data/f", "-o", &out, "--router", router]);
        assert!(fs::read(world.home.path("data/f")).unwrap() == fs::read(world.home.path(&out)).unwrap());
    }
    let routes = world.ok("lab", &to(&uri, &["route", "list"]));
    assert!(routes.contains("/lab/data"), "{routes}");

    // In the other direction, an application with a kernel socket has bound a prefix.
    world.serve("lab", "/app/ping", &["pingserver", "/app", "--router", "kernel://"]);
    world.ok("lab", &to(&uri, &["route", "add", "/app", "local"]));
    let ping = world.ok("lab", &to(&uri, &["ping", "/app", "--count", "2"]));
    assert!(ping.contains("2 sent, 2 answered"), "{ping}");

    // The routes of a client end with it.
    world.home.stop(serve);
    let gone = || !world.run("lab", &["kernel", "route", "list"]).stdout.contains("/lab/data");
    world.home.wait_for("the route to go", gone);
    assert!(!world.ok("lab", &to(&uri, &["route", "list"])).contains("/lab/data"));
}

/// Words of a command for a router.
fn to<'a>(router: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [words, &["--router", router]].concat()
}

#[test]
fn router_management_acts_on_the_kernel() {
    let Some(mut world) = World::new() else { return };
    let uri = start(&mut world, "lab", &[]);
    let ok = |words: &[&str]| world.ok("lab", &to(&uri, words));
    let kernel = |words: &[&str]| world.ok("lab", &[&["kernel"], words].concat());

    let station = ["face", "create", "ether://[02:00:00:00:00:0b]", "--local", "dev://cable"];
    let made = ok(&station);
    assert!(kernel(&["face", "list"]).contains("02:00:00:00:00:0b%cable"), "{made}");
    let faces: serde_json::Value = world.json("lab", &to(&uri, &["kernel", "face", "create", "cable"]));
    let group = faces["face"].as_u64().unwrap().to_string();
    let listed = ok(&["face", "list"]);
    assert!(listed.contains("ether://[02:00:00:00:00:0b]"), "{listed}");
    assert!(listed.contains("ether://[01:00:5e:00:17:aa]") && listed.contains("dev://cable"), "{listed}");

    ok(&["route", "add", "/far", &group, "--cost", "7"]);
    let routes = kernel(&["route", "list"]);
    assert!(routes.lines().any(|l| l.contains("/far") && l.contains(&group) && l.contains('7')), "{routes}");
    // A route below /far inherits its nexthop. A route with a time limit is listed.
    ok(&["route", "add", "/far/below", "local"]);
    let below = |routes: &str| routes.lines().filter(|line| line.contains("/far/below")).count();
    assert_eq!(below(&kernel(&["route", "list"])), 2, "its own and what it inherits");
    ok(&["route", "remove", "/far", &group]);
    assert_eq!(below(&kernel(&["route", "list"])), 1);
    ok(&["route", "add", "/short", &group, "--expires", "10"]);
    assert!(kernel(&["route", "list"]).contains("/short"));
    let gone = || !kernel(&["route", "list"]).contains("/short");
    world.home.wait_for("the route to expire", gone);

    ok(&["strategy", "set", "/live", "multicast"]);
    assert!(kernel(&["strategy", "list"]).contains("/live"));
    assert!(ok(&["strategy", "list"]).contains("/live"));
    ok(&["cs", "config", "--capacity", "100"]);
    assert!(kernel(&["cs", "info"]).contains("of 100"));
    let refused = world.run("lab", &to(&uri, &["cs", "config", "--capacity", "4000000000"]));
    assert_eq!(refused.code, Some(7), "{refused:?}");

    // The kernel's applications reach it, too.
    let status = answer_to(&world, "/localhost/nfd/status/general");
    assert!(!status.is_empty());

    // Routes that others add to the kernel are listed, and remain when the router ends.
    kernel(&["route", "add", "/others", "local"]);
    assert!(ok(&["route", "list"]).contains("/others"));
    ok(&["face", "destroy", &group]);
    assert!(!kernel(&["face", "list"]).contains("01:00:5e"));
    world.home.stop(0);
    let routes = world.ok("lab", &["kernel", "route", "list"]);
    assert!(routes.contains("/others") && !routes.contains("/far"), "{routes}");
}

/// The answer to an application with a socket of the kernel.
fn answer_to(world: &World, name: &str) -> Vec<u8> {
    let socket = world.net.enter("lab", Socket::open).unwrap();
    let name: Name = name.parse().unwrap();
    let interest = InterestBuilder::new(name).can_be_prefix().must_be_fresh().nonce([1, 2, 3, 4]).build();
    rustix::net::send(&socket, &interest, SendFlags::empty()).unwrap();
    let wait = Timespec { tv_sec: 30, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait)).unwrap();
    let mut octets = vec![0; 16 << 10];
    let (length, _) = rustix::net::recv(&socket, &mut octets[..], RecvFlags::empty()).unwrap();
    DataView::parse(&octets[..length]).expect("a Data").content.to_vec()
}

#[test]
fn reported_data_leaves_the_kernel() {
    let Some(mut world) = World::new() else { return };
    let uri = start(&mut world, "lab", &[]);
    world.serve("lab", "/app/ping", &["pingserver", "/app", "--router", "kernel://"]);
    world.ok("lab", &to(&uri, &["route", "add", "/app", "local"]));
    let wire = world.namely("lab", to(&uri, &["peek", "/app/ping/1", "--wire"])).output().unwrap().stdout;
    let name = DataView::parse(&wire).expect("a Data").name.to_name();
    let mut client = Client::find(Some(&uri), Signer::digest_sha256()).unwrap();
    let mut report = |name: &Name| {
        let digest = sha256(&wire);
        let full = name.join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest });
        let parameters = ControlParameters { name: Some(full), ..Default::default() };
        client.command(Command::CsReport, &parameters).unwrap().capacity
    };
    assert_eq!(report(&Name::new()), Some(0), "all Data is below it");
    assert_eq!([report(&name), report(&name)], [Some(1), Some(0)]);
}

#[test]
fn a_forwarder_has_one_managing_router() {
    let Some(mut world) = World::new() else { return };
    start(&mut world, "lab", &[]);
    let second = format!("unix://{}", world.home.path("second.sock").display());
    let said = world.run("lab", &["up", "--kernel", "--no-config", "--listen", &second]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("another router manages"), "{said:?}");
    let faces = world.net.enter("lab", || Control::open().unwrap().faces()).unwrap();
    assert_eq!(faces.len(), 1, "that of the first: {faces:?}");
}

#[test]
fn kernel_routers_find_each_other() {
    let Some(mut world) = World::new() else { return };
    let beat = "[discovery]\nheartbeat_ms = 1000\n";
    let listen = ["--listen", "dev://cable"];
    let (lab, at_lab) =
        start_configured(&mut world, "lab", &format!("{beat}prefixes = [\"/lab\"]\n"), &listen);
    let (_, at_desk) = start_configured(&mut world, "desk", &format!("{beat}open = true\n"), &listen);
    let stations = |world: &World, node: &str| {
        world.run(node, &["kernel", "face", "list"]).stdout.lines().filter(|l| l.contains("station")).count()
    };
    wait_for_route(&world, "desk", "/lab");
    world.home.wait_for("both faces", || stations(&world, "lab") == 1 && stations(&world, "desk") == 1);
    let neighbours = world.ok("desk", &to(&at_desk, &["neighbors"]));
    assert!(neighbours.contains("/lab"), "{neighbours}");
    assert!(world.ok("desk", &to(&at_desk, &["route", "list"])).contains("/lab"));

    // From a client of one router to one of the other, over the discovered faces.
    fs::write(world.home.path("answer"), "hello").unwrap();
    let mut poke = world.namely("lab", to(&at_lab, &["poke", "/lab/hello", "--digest"]));
    poke.stdin(fs::File::open(world.home.path("answer")).unwrap());
    world.home.spawn(poke);
    wait_for_route(&world, "lab", "/lab/hello");
    assert_eq!(world.ok("desk", &to(&at_desk, &["peek", "/lab/hello", "--payload"])), "hello");

    // A router that ends sends a goodbye, and leaves no state behind.
    world.home.stop(lab);
    world.home.wait_for("the goodbye", || stations(&world, "desk") == 0);
    assert!(!world.ok("desk", &["kernel", "route", "list"]).contains("/lab"));
    let left = world.net.enter("lab", || Control::open().unwrap().faces()).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_router_ends_when_its_forwarder_stops() {
    let Some(mut world) = World::new() else { return };
    world.home.ok(["kernel", "unload"]);
    load(&world.home, &["planted=1"]);
    start(&mut world, "lab", &[]);
    let stopped = world.net.enter("lab", || Control::open().unwrap().plant_panic());
    assert!(stopped.is_err());
    let said = || world.home.background_log().contains("the kernel's forwarder has stopped");
    world.home.wait_for("the message of the router", said);
    world.home.wait_for("its end", || world.home.background_log().contains("has failed"));
    drop(world);
    Home::new().ok(["kernel", "unload"]);
}

#[test]
fn kernel_routers_reach_udp_neighbors() {
    let Some(mut world) = World::new() else { return };
    // One router forwards in user space. The other one beside it uses the kernel.
    let plain = format!("unix://{}", world.home.path("plain.sock").display());
    let words = ["up", "--no-config", "--listen", &plain, "--listen", "udp://127.0.0.1:6400"];
    let command = world.namely("lab", words);
    world.home.spawn(command);
    let uri = start(&mut world, "lab", &["--route", "/plain=udp://127.0.0.1:6400"]);
    let server = world.namely("lab", to(&plain, &["pingserver", "/plain"]));
    world.home.spawn(server);
    let served = || world.run("lab", &to(&plain, &["route", "list"])).stdout.contains("/plain");
    world.home.wait_for("/plain", served);
    wait_for_route(&world, "lab", "/plain");
    for router in ["kernel://", &uri] {
        let ping = world.ok("lab", &to(router, &["ping", "/plain", "--count", "2"]));
        assert!(ping.contains("2 sent, 2 answered"), "{router}: {ping}");
    }

    // A client that represents another machine needs a right, and receives no data of this machine.
    let refused = world.net.enter("lab", || {
        let uid = rustix::process::Uid::from_raw(65_534);
        std::thread::scope(|scope| {
            let open = || {
                rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                Socket::open_remote(false)
            };
            scope.spawn(open).join().unwrap()
        })
    });
    assert_eq!(refused.err(), Some(OpenError::NotPermitted));
    let scope = || {
        let drops = world.net.enter("lab", || namely_nnet::proc::counters("drops")).unwrap();
        drops.into_iter().find(|(label, _)| label == "scope").map_or(0, |(_, n)| n)
    };
    let before = scope();
    let remote = world.net.enter("lab", || Socket::open_remote(false)).unwrap();
    let name: Name = "/localhost/nfd/status/general".parse().unwrap();
    let interest = InterestBuilder::new(name).can_be_prefix().must_be_fresh().nonce([1, 2, 3, 5]).build();
    rustix::net::send(&remote, &interest, SendFlags::empty()).unwrap();
    assert_eq!(scope(), before + 1, "it is dropped before the call returns");
}
