//! `namely` with the forwarder in the kernel (docs/kernel.md) and no router: these tests load a
//! module, so they run in a guest, where `kernel/run --tools` puts them. Elsewhere they are
//! skipped.

use crate::common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::world::{MODULE, World, load};
use common::{Home, LIMIT, write_file};
use namely_nnet::{Control, ControlError, module, proc};
use namely_testkit::found_within;
use rustix::process::{Pid, Signal, kill_process_group};

/// A counter of the forwarder of a namespace.
fn counter(world: &World, node: &str, file: &str, name: &str) -> u64 {
    let all = world.net.enter(node, || proc::counters(file)).unwrap();
    all.into_iter().find(|(counter, _)| counter == name).unwrap_or_else(|| panic!("{name}")).1
}

#[test]
fn a_file_crosses_namespaces_without_a_router() {
    let Some(mut world) = World::routed() else { return };
    fs::create_dir(world.home.path("data")).unwrap();
    write_file(&world.home.path("data/f"), 1_000_000, 1);
    world.serve("lab", "/lab/data", &["serve", "data", "--prefix", "/lab/data"]);
    let got = world.json("desk", &["get", "/lab/data/f", "-o", "out"]);
    assert!(fs::read(world.home.path("data/f")).unwrap() == fs::read(world.home.path("out")).unwrap());
    assert_eq!(got["octets"].as_u64(), Some(1_000_000), "{got}");
    assert!(got.to_string().contains("/lab/data/KEY/"), "it names the signer: {got}");
    let served = counter(&world, "lab", "stats", "in_interests");
    assert!(served > 100, "each segment was asked for: {served}");

    // The second time the content store of the near kernel answers, and no other node is queried.
    let before = counter(&world, "desk", "stats", "out_interests");
    world.ok("desk", &["get", "/lab/data/f", "-o", "again"]);
    let sent_again = counter(&world, "desk", "stats", "out_interests") - before;
    assert!(sent_again < 20, "{sent_again} of some 130 were asked for a second time");
    assert!(counter(&world, "desk", "cs", "hits") > 100);
}

#[test]
fn the_kernel_carries_file_trees() {
    let Some(mut world) = World::routed() else { return };
    fs::create_dir_all(world.home.path("tree/below")).unwrap();
    for (file, octets) in [("tree/a", 0), ("tree/b", 20_000), ("tree/below/c", 100)] {
        write_file(&world.home.path(file), octets, 7);
    }
    world.serve("lab", "/lab/tree", &["serve", "tree", "--prefix", "/lab/tree"]);
    assert!(world.ok("desk", &["ls", "/lab/tree"]).contains("below"));
    world.ok("desk", &["get", "/lab/tree", "--recursive", "copy"]);
    for file in ["a", "b", "below/c"] {
        let both = ["tree", "copy"].map(|folder| fs::read(world.home.path(folder).join(file)).unwrap());
        assert!(both[0] == both[1], "{file}");
    }
    world.serve("lab", "/lab/one", &["put", "tree/b", "/lab/one"]);
    world.ok("desk", &["get", "/lab/one", "-o", "one"]);
    assert!(fs::read(world.home.path("tree/b")).unwrap() == fs::read(world.home.path("one")).unwrap());
}

#[test]
fn a_video_plays_beside_a_file_transfer() {
    let Some(mut world) = World::routed() else { return };
    let program = std::env::var("NAMELY_VIDEO").expect("kernel/tools names it");
    world.ok("lab", &["key", "new", "/lab"]);
    let video = |world: &World, node: &str, words: &[&str]| {
        let mut command = world.program(node, &program, words.iter().copied());
        command.args(["--segments", "20", "--segment-ms", "500"]);
        command
    };
    let send = ["send", "/lab/prdc-01/0/Video/720p", "--kbit-per-s", "2000", "--linger-ms", "600000"];
    let sender = video(&world, "lab", &send);
    world.home.spawn(sender);
    let is_bound = || world.run("lab", &["kernel", "bind", "list"]).stdout.contains("/lab/prdc-01");
    world.home.wait_for("/lab/prdc-01", is_bound);
    fs::create_dir(world.home.path("data")).unwrap();
    write_file(&world.home.path("data/f"), 1_000_000, 1);
    world.serve("lab", "/lab/data", &["serve", "data", "--prefix", "/lab/data"]);

    let mut player = video(&world, "desk", &["play", "/lab/prdc-01/0/Video/720p", "--json"]);
    let player = player.stdout(std::process::Stdio::piped()).spawn().unwrap();
    world.ok("desk", &["get", "/lab/data/f", "-o", "out"]);
    let played = player.wait_with_output().unwrap();
    assert!(fs::read(world.home.path("data/f")).unwrap() == fs::read(world.home.path("out")).unwrap());
    let quality: serde_json::Value = serde_json::from_slice(&played.stdout).unwrap();
    eprintln!("a video of 2 Mbit/s beside a file: {quality}");
    assert_eq!((&quality["segments"], &quality["octets"]), (&20.into(), &2_500_000.into()), "{quality}");
    assert_eq!((&quality["missed"], &quality["wrong"]), (&0.into(), &0.into()), "{quality}");
    // The stall is at most 1 s of 10 s, on an emulated processor that verifies the stream as it
    // plays.
    assert!(quality["stalled_ms"].as_f64().unwrap() <= 1000.0, "{quality}");
}

#[test]
fn client_commands_work_without_a_router() {
    let Some(mut world) = World::routed() else { return };
    world.serve("lab", "/lab/ping", &["pingserver", "/lab"]);
    let ping = world.ok("desk", &["ping", "/lab", "--count", "5", "--interval", "20"]);
    assert!(ping.contains("5 sent, 5 answered"), "{ping}");

    fs::write(world.home.path("answer"), "hello").unwrap();
    let poke = ["poke", "/lab/hello", "--digest"];
    let mut command = world.namely("lab", poke);
    command.stdin(fs::File::open(world.home.path("answer")).unwrap());
    world.home.spawn(command);
    let is_bound = || world.run("lab", &["kernel", "bind", "list"]).stdout.contains("/lab/hello");
    world.home.wait_for("/lab/hello", is_bound);
    assert_eq!(world.ok("desk", &["peek", "/lab/hello", "--payload"]), "hello");

    world.serve("lab", "/lab/perf", &["perf", "server", "--prefix", "/lab/perf"]);
    let perf = world.ok("desk", &["perf", "client", "--prefix", "/lab/perf", "-t", "3"]);
    println!("{perf}");
    let refused = world.run("desk", &["peek", "/elsewhere"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("namely kernel route"), "{refused:?}");
}

#[test]
fn the_kernel_refuses_a_bound_prefix() {
    let Some(mut world) = World::routed() else { return };
    let first = world.serve("lab", "/lab/x/ping", &["pingserver", "/lab/x"]);
    for prefix in ["/lab/x", "/lab/x/ping/below"] {
        let refused = world.run("lab", &["poke", prefix, "--digest"]);
        assert_eq!(refused.code, Some(7), "{prefix}: {refused:?}");
        assert!(refused.stderr.contains("another application has bound it"), "{refused:?}");
        assert!(refused.stderr.contains("namely kernel bind list"), "{refused:?}");
    }
    world.home.stop(first);
    world.serve("lab", "/lab/x/ping", &["pingserver", "/lab/x"]);
    assert!(world.ok("desk", &["ping", "/lab/x", "--count", "1"]).contains("1 sent, 1 answered"));
}

#[test]
fn an_unrouted_bind_prints_a_hint() {
    let Some(mut world) = World::new() else { return };
    let far = "/far".repeat(60);
    world.serve("lab", &far, &["pingserver", &far]);
    let log = world.home.background_log();
    assert!(log.contains("no route leads there") && log.contains("namely kernel route"), "{log}");
    assert_eq!(world.run("lab", &["ping", &far, "--count", "1", "--timeout", "500"]).code, Some(4));
    world.ok("lab", &["kernel", "route", "add", "/far", "local"]);
    assert!(world.ok("lab", &["ping", &far, "--count", "1"]).contains("1 sent, 1 answered"));
}

#[test]
fn kernel_tables_are_set_and_listed() {
    let Some(world) = World::new() else { return };
    let ok = |words: &[&str]| world.ok("lab", &[&["kernel"], words].concat());
    let fails = |code: i32, words: &[&str]| {
        let end = world.run("lab", &[&["kernel"], words].concat());
        assert_eq!(end.code, Some(code), "{words:?}: {end:?}");
        end.stderr
    };
    assert!(ok(&["status"]).contains("unused"), "nothing in this namespace has used it");
    let station = "ether://[02:00:00:00:00:0b%cable]";
    let face = world.json("lab", &["kernel", "face", "create", station])["face"].as_u64().unwrap();
    assert_eq!(
        world.json("lab", &["kernel", "face", "create", station])["face"].as_u64(),
        Some(face),
        "it is there"
    );
    assert!(ok(&["face", "create", "cable"]).starts_with("face "));
    let faces = ok(&["face", "list"]);
    assert!(faces.contains(station) && faces.contains("01:00:5e:00:17:aa%cable"), "{faces}");
    fails(4, &["face", "create", "no-such-device"]);
    fails(7, &["face", "destroy", "local"]);
    fails(4, &["face", "destroy", "999"]);

    ok(&["route", "add", "/a/b", station, "--cost", "7"]);
    ok(&["route", "add", "/a/b", "local"]);
    let routes = ok(&["route", "list"]);
    assert!(
        routes.contains("/a/b") && routes.contains(&face.to_string()) && routes.contains('7'),
        "{routes}"
    );
    fails(4, &["route", "add", "/a/b", "999"]);
    ok(&["route", "remove", "/a/b", station]);
    fails(4, &["route", "remove", "/a/b", station]);
    ok(&["route", "remove", "/a/b", "local"]);
    assert!(!ok(&["route", "list"]).contains("/a/b"));

    ok(&["strategy", "set", "/live", "multicast"]);
    assert!(ok(&["strategy", "list"]).contains("/live"));
    fails(4, &["strategy", "set", "/live", "no-such-strategy"]);
    ok(&["strategy", "unset", "/live"]);
    fails(4, &["strategy", "unset", "/live"]);

    ok(&["cs", "config", "--capacity", "100"]);
    assert!(ok(&["cs", "info"]).contains("of 100"));
    fails(7, &["cs", "config", "--capacity", "4000000000"]);
    fails(4, &["cs", "erase", "/nothing"]);
    ok(&["face", "destroy", station]);
    assert!(!ok(&["face", "list"]).contains(station));
    let status = ok(&["status"]);
    assert!(status.contains("running") && status.contains("Linux 6."), "{status}");
    assert!(ok(&["status", "--counters"]).contains("out_interests"));
}

#[test]
fn unprivileged_users_cannot_change_routes() {
    let Some(world) = World::routed() else { return };
    let routes = world.ok("lab", &["kernel", "route", "list"]);
    for words in [
        &["kernel", "route", "add", "/lab/x", "local"][..],
        &["kernel", "route", "remove", "/lab", "local"],
        &["kernel", "face", "create", "cable"],
        &["kernel", "strategy", "set", "/", "multicast"],
        &["kernel", "cs", "config", "--capacity", "0"],
        &["kernel", "cs", "erase", "/"],
        &["kernel", "unload"],
    ] {
        let refused = world.as_nobody("lab", words);
        assert_eq!(refused.code, Some(7), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains("CAP_"), "it names the missing right: {refused:?}");
    }
    let listed = world.as_nobody("lab", &["kernel", "route", "list"]);
    assert_eq!((listed.code, &*listed.stdout), (Some(0), &*routes));
    // An application of an unprivileged user binds, and the FIB is unchanged.
    let name: namely_wire::Name = "/lab/nobody".parse().unwrap();
    let socket = world.net.enter("lab", namely_nnet::Socket::open).unwrap();
    socket.bind(name.as_name()).unwrap();
    assert_eq!(world.ok("lab", &["kernel", "route", "list"]), routes);
    let refused = world.as_nobody("lab", &["pingserver", "/localhost"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    assert!(refused.stderr.contains("CAP_NET_ADMIN"), "{refused:?}");
}

#[test]
fn kernel_commands_load_and_unload_the_module() {
    let Some(world) = World::new() else { return };
    let home = &world.home;
    assert!(home.ok(["kernel", "load"]).contains("loaded already"));
    let busy = world.net.enter("lab", namely_nnet::Socket::open).unwrap();
    assert!(home.fails(7, ["kernel", "unload"]).contains("in use"));
    drop(busy);
    home.ok(["kernel", "unload"]);
    assert!(!module::is_loaded());
    for words in [&["kernel", "status"][..], &["kernel", "route", "list"], &["kernel", "cs", "info"]] {
        assert!(home.fails(3, words).contains("namely kernel load"), "{words:?}");
    }
    let named = home.fails(3, ["peek", "/x", "--router", "kernel://"]);
    assert!(named.contains("not loaded") && named.contains("namely kernel load"), "{named}");
    let nearest = world.run("lab", &["peek", "/x"]);
    assert!(nearest.stderr.contains("no router is running"), "{nearest:?}");
    home.fails(4, ["kernel", "unload"]);
    home.fails(1, ["kernel", "load", "--module", "/init"]);
    home.fails(1, ["kernel", "load", "--module", MODULE, "family=9999"]);

    // The module has another family number, which programs find by themselves.
    load(home, &["family=20", "cs_packets_max=128"]);
    assert_eq!(module::family(), 20);
    assert_eq!(world.run("lab", &["peek", "/x"]).code, Some(4), "the kernel answers that it has no route");
    assert!(world.ok("lab", &["kernel", "cs", "info"]).contains("of 128"));
    home.fails(7, ["kernel", "load", "family=18"]);
    home.ok(["kernel", "unload"]);
}

#[test]
fn a_stopped_forwarder_is_reported() {
    let Some(mut world) = World::new() else { return };
    world.home.ok(["kernel", "unload"]);
    load(&world.home, &["planted=1"]);
    world.ok("lab", &["kernel", "route", "add", "/", "local"]);
    world.serve("lab", "/lab/ping", &["pingserver", "/lab"]);
    let stopped = world.net.enter("lab", || Control::open().unwrap().plant_panic());
    assert_eq!(stopped, Err(ControlError::Stopped));
    let peek = world.run("lab", &["peek", "/x"]);
    assert_eq!(peek.code, Some(3), "{peek:?}");
    assert!(peek.stderr.contains("has stopped") && peek.stderr.contains("namely kernel status"), "{peek:?}");
    assert!(world.ok("lab", &["kernel", "status"]).contains("stopped"));
    assert_eq!(world.run("lab", &["kernel", "route", "list"]).code, Some(3));
    assert_eq!(world.run("desk", &["peek", "/x"]).code, Some(4), "the other namespace's goes on");
    drop(world);
    Home::new().ok(["kernel", "unload"]);
}

/// The commands between ```` ```console kernel ```` and its end.
fn commands_for_guests(document: &str) -> Vec<&str> {
    let blocks = document.split("```console kernel\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines());
    lines.filter_map(|line| line.strip_prefix("$ ")).collect()
}

#[test]
fn documented_kernel_commands_run() {
    let documents = [
        ("docs/tour.md", include_str!("../../../docs/tour.md")),
        ("docs/kernel.md", include_str!("../../../docs/kernel.md")),
    ];
    for (document, text) in documents {
        assert!(commands_for_guests(text).len() >= 5, "{document} shows how it is used");
    }
    let Some(world) = World::new() else { return };
    let World { net, home } = world;
    drop(net);
    for (document, text) in documents {
        home.run(["kernel", "unload"]);
        // If the module is installed in a guest, `namely kernel load` finds it as on other
        // machines.
        let installed = Path::new("/lib/modules").join(module::release()).join("updates");
        fs::create_dir_all(&installed).unwrap();
        fs::copy(MODULE, installed.join("nnet.ko")).unwrap();
        let folder = home.path(document.rsplit('/').next().unwrap_or_default());
        fs::create_dir_all(folder.join("data/notes")).unwrap();
        fs::write(folder.join("data/hello.txt"), "hello\n").unwrap();
        fs::write(folder.join("data/notes/first.txt"), "hello\n").unwrap();
        let script = commands_for_guests(text)
            .iter()
            .fold(String::from("set -eux\n"), |all, command| format!("{all}{command}\n"));
        let printed = fs::File::create(folder.join("printed")).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(&folder).env_remove("NAMELY_ROUTER");
        shell.env("HOME", &folder).env("NAMELY_HOME", folder.join("home"));
        // Servers that still run end with the shell's process group.
        shell.process_group(0).stdout(printed.try_clone().unwrap()).stderr(printed);
        let mut shell = shell.spawn().unwrap();
        let group = Pid::from_raw(shell.id() as i32).unwrap();
        let status = found_within(4 * LIMIT, || shell.try_wait().unwrap());
        let _ = kill_process_group(group, Signal::KILL);
        let _ = shell.wait();
        let printed = fs::read_to_string(folder.join("printed")).unwrap();
        assert!(status.is_some_and(|status| status.success()), "{document}: {status:?}\n{printed}");
        println!("{document}: {printed}");
        for name in ["lab", "desk"] {
            Command::new("ip").args(["netns", "del", name]).output().unwrap();
        }
    }
}
