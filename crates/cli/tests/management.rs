//! The commands that manage a router, over the real one.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Home, ended};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn routes_are_added_listed_and_removed() {
    let home = Home::with_router();
    home.ok(["route", "add", "/far/away", "udp://127.0.0.1:16399", "--cost", "7", "--capture"]);
    let routes = home.json(["route", "list"]);
    let route = routes.iter().find(|r| r["prefix"] == "/far/away").expect("the route is listed");
    assert_eq!((route["cost"].as_u64(), route["flags"].as_str()), (Some(7), Some("inherit,capture")));
    let fib = home.json(["route", "fib"]);
    assert!(fib.iter().any(|e| e["prefix"] == "/far/away" && e["face_id"] == route["face_id"]));
    home.ok(["route", "remove", "/far/away", "udp4://127.0.0.1:16399"]);
    assert!(home.json(["route", "list"]).iter().all(|r| r["prefix"] != "/far/away"));
}

#[test]
fn route_failures_have_statuses_by_cause() {
    let home = Home::with_router();
    let add = |status: i32, prefix: &str, to: &str| home.fails(status, ["route", "add", prefix, to]);
    for (prefix, to, reason) in [
        ("/x", "999999", "there is no face 999999"),
        ("/localhost/nfd/x", "udp://127.0.0.1:16399", "belongs to the router's management"),
        ("/x", "dev://eth99", "not to dev://eth99"),
    ] {
        let refused = add(7, prefix, to);
        assert!(refused.contains("the router refused: ") && refused.contains(reason), "{refused}");
    }
    let failed = add(1, "/x", "udp://no-such-host.invalid");
    assert!(failed.contains("cannot look up no-such-host.invalid"), "{failed}");
    assert!(add(1, "/x", "foo://bar").contains("unknown scheme"));
    assert!(home.json(["route", "list"]).iter().all(|route| route["prefix"] != "/x"));
}

#[test]
fn an_expiring_route_disappears() {
    let home = Home::with_router();
    home.ok(["route", "add", "/soon/gone", "udp://127.0.0.1:16398", "--expires", "8"]);
    assert!(home.json(["route", "list"]).iter().any(|r| r["prefix"] == "/soon/gone"));
    home.wait_for("the route's end", || !home.ok(["route", "list"]).contains("/soon/gone"));
    assert!(!home.ok(["route", "fib"]).contains("/soon/gone"));
}

#[test]
fn faces_are_created_changed_and_destroyed() {
    let home = Home::with_router();
    let made = home.json(["face", "create", "udp://127.0.0.1:16397", "--persistency", "permanent"]);
    let id = made[0]["face_id"].as_u64().unwrap();
    let again = home.json(["face", "create", "udp://127.0.0.1:16397"]);
    assert_eq!((again[0]["face_id"].as_u64(), again[0]["existed"].as_bool()), (Some(id), Some(true)));
    home.ok(["face", "update", &id.to_string(), "--congestion-marking", "off", "--reliability", "on"]);
    let faces = home.json(["face", "list", "--scheme", "udp4"]);
    let face = faces.iter().find(|f| f["face_id"] == id).unwrap();
    assert_eq!(
        (face["congestion_marking"].as_bool(), face["reliability"].as_bool()),
        (Some(false), Some(true))
    );
    assert_eq!(face["persistency"], "permanent");
    home.ok(["face", "destroy", "udp4://127.0.0.1:16397"]);
    assert!(home.json(["face", "list"]).iter().all(|f| f["face_id"] != id));
    assert!(home.fails(4, ["face", "destroy", "udp4://127.0.0.1:16397"]).contains("there is no face"));
}

#[test]
fn the_face_list_shows_states_and_programs() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    let server = home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    let faces = home.json(["face", "list"]);
    let pid = home.pid(server);
    let served = faces.iter().find(|face| face["process"]["pid"] == pid).expect("the server's face");
    assert_eq!((&served["process"]["program"], &served["state"]), (&"namely serve".into(), &"up".into()));
    let own = faces.iter().any(|face| face["process"]["program"] == "namely face");
    assert!(own, "the command itself: {faces:?}");
    let list = home.ok(["face", "list"]);
    assert!(list.contains(&format!("namely serve (pid {pid}, ")), "{list}");

    let peer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = format!("tcp4://{}", peer.local_addr().unwrap());
    home.ok(["face", "create", &remote, "--persistency", "permanent"]);
    let of_peer = || home.json(["face", "list", "--remote", &remote.replace("tcp4", "tcp")]);
    assert_eq!(of_peer()[0]["state"], "up", "found by tcp://, too");
    drop(peer);
    home.wait_for("the face is down", || of_peer()[0]["state"] == "down");
    let list = home.ok(["face", "list", "--remote", &remote]);
    let line = list.lines().find(|line| line.ends_with(&remote)).unwrap();
    assert!(line.contains("permanent, down"), "{list}");
}

#[test]
fn a_face_is_found_without_the_ip_version() {
    let home = Home::with_router();
    home.ok(["face", "create", "udp://127.0.0.1:16396"]);
    home.ok(["face", "create", "udp://[::1]:16396"]);
    for host in ["127.0.0.1", "[::1]"] {
        let found = home.json(["face", "list", "--remote", &format!("udp://{host}:16396")]);
        assert_eq!(found.len(), 1, "{found:?}");
        let remote = found[0]["remote"].as_str().unwrap();
        assert!(remote.ends_with(&format!("://{host}:16396")) && remote.starts_with("udp"), "{remote}");
    }
}

#[test]
fn strategies_are_chosen_by_short_names() {
    let home = Home::with_router();
    home.ok(["strategy", "set", "/live", "multicast"]);
    let choices = home.json(["strategy", "list"]);
    let live = choices.iter().find(|c| c["prefix"] == "/live").unwrap();
    assert!(live["strategy"].as_str().unwrap().starts_with("/localhost/nfd/strategy/multicast"));
    home.ok(["strategy", "unset", "/live"]);
    assert!(home.json(["strategy", "list"]).iter().all(|c| c["prefix"] != "/live"));
    assert!(home.fails(4, ["strategy", "set", "/live", "nonesuch"]).contains("refused"));
}

#[test]
fn the_content_store_is_configured_and_erased() {
    let home = Home::with_router();
    home.ok(["cs", "config", "--capacity", "123", "--serve", "off", "--policy", "arc"]);
    let info = &home.json(["cs", "info"])[0];
    assert_eq!((info["capacity"].as_u64(), info["serve"].as_bool()), (Some(123), Some(false)));
    assert_eq!(info["policy"], "arc");
    assert_eq!(home.json(["status"])[0]["cs"]["policy"], "arc");
    assert!(home.fails(7, ["cs", "config", "--policy", "clock"]).contains("s3-fifo"), "lists the policies");
    home.ok(["cs", "erase", "/"]);
}

#[test]
fn a_local_route_reaches_the_bound_server() {
    let mut home = Home::with_router();
    assert!(home.ok(["route", "add", "/lab", "local"]).contains("face 1"));
    let why = home.fails(4, ["peek", "/lab/data/32=metadata", "-p", "-f"]);
    assert!(why.contains("no route to /lab/data") && why.contains("bind list"), "{why}");

    std::fs::create_dir(home.path("data")).unwrap();
    std::fs::write(home.path("data/a.txt"), "by the local path").unwrap();
    let command = home.namely(["serve", "data", "--prefix", "/lab/data"]);
    home.spawn(command);
    home.wait_for("the binding", || home.ok(["bind", "list"]).contains("/lab/data"));
    let bound = home.json(["bind", "list"]);
    assert_eq!((bound.len(), bound[0]["routed"].as_bool()), (1, Some(true)), "{bound:?}");
    home.ok(["get", "/lab/data/a.txt", "-o", "a.txt"]);
    assert_eq!(std::fs::read_to_string(home.path("a.txt")).unwrap(), "by the local path");
    let routes = home.json(["route", "list"]);
    let to: Vec<_> = routes.iter().map(|r| (r["prefix"].as_str(), r["face_id"].as_u64())).collect();
    assert_eq!(to, [(Some("/lab"), Some(1))], "the server made no route of its own");

    for prefix in ["/lab/data", "/lab/data/below", "/lab"] {
        let why = home.fails(7, ["serve", "data", "--prefix", prefix]);
        assert!(why.contains("overlaps") && why.contains("bind list"), "{why}");
    }
    let local = &home.json(["face", "show", "local"])[0];
    assert_eq!((local["routes"][0].as_str(), local["bound"][0].as_str()), (Some("/lab"), Some("/lab/data")));
    let list = home.run(["face", "list"]);
    assert!(list.stdout.contains("internal://local") && list.stderr.is_empty(), "{list:?}");
    let face = bound[0]["face_id"].to_string();
    assert!(home.ok(["face", "show", &face]).contains("bound        /lab/data"));
    home.ok(["bind", "remove", "/lab/data"]);
    assert!(home.fails(4, ["bind", "remove", "/lab/data"]).contains("not bound"));
    assert!(home.fails(4, ["face", "show", "99999"]).contains("there is no face"));
}

#[test]
fn servers_register_without_a_local_route() {
    let mut home = Home::with_router();
    std::fs::create_dir(home.path("data")).unwrap();
    home.serve("/lab/data", ["serve", "data", "--prefix", "/lab/data"]);
    home.serve("/lab/data/inner", ["serve", "data", "--prefix", "/lab/data/inner"]);
    assert_eq!(home.json(["bind", "list"]).len(), 0);
}

#[test]
fn the_router_log_level_is_configurable() {
    for (words, is_debug) in [(&["--log", "debug"][..], true), (&["-vv"], true), (&[], false)] {
        let mut home = Home::new();
        let uri = home.router_uri();
        let mut command = home.namely(["up", "--no-config", "--listen", &uri]);
        command.args(words);
        home.spawn(command);
        home.wait_for("the router", || home.run(["status"]).code == Some(0));
        home.ok(["route", "add", "/x", "udp://127.0.0.1:16395"]);
        let log = home.background_log();
        assert_eq!(log.contains("DEBUG"), is_debug, "{words:?}: {log}");
    }
}

#[test]
fn a_failing_router_exits_with_namelyds_status() {
    let home = Home::with_router();
    let uri = home.router_uri();
    let why = home.fails(69, ["up", "--no-config", "--listen", &uri]);
    assert!(why.contains("another router is running there"), "{why}");
    std::fs::write(home.path("bad.toml"), "[faces]\nworkerz = 1\n").unwrap();
    let why = home.fails(78, ["up", "--config", "bad.toml", "--check"]);
    assert!(why.contains("bad.toml:2"), "{why}");
    std::fs::write(home.path("good.toml"), "[faces]\nlisten = []\nworkers = 1\n").unwrap();
    let checked = home.json(["up", "--config", "good.toml", "--check"]);
    assert_eq!((checked[0]["ok"].as_bool(), checked[0]["file"].as_str()), (Some(true), Some("good.toml")));
}

#[test]
fn commands_find_the_default_router() {
    let mut home = Home::new();
    let command = home.namely(["up", "--no-config"]);
    home.spawn(command);
    home.wait_for("the router", || home.run(["status"]).code == Some(0));
    assert!(home.path("namely.memif").exists(), "shared memory beside it");
}

#[test]
fn no_key_is_made_without_a_router() {
    let home = Home::new();
    std::fs::create_dir(home.path("data")).unwrap();
    std::fs::write(home.path("f"), "x").unwrap();
    for words in [&["serve", "data", "--prefix", "/lab"][..], &["put", "f", "/lab/f"]] {
        let why = home.fails(3, [words, &["--wait-router", "0"]].concat());
        assert_eq!(why.lines().count(), 2, "one line and a hint: {why}");
        assert!(!why.contains("made the key"), "{why}");
    }
    assert_eq!(home.json(["key", "list"]).len(), 0);
}

#[test]
fn face_events_are_printed_live() {
    let mut home = Home::with_router();
    let command = home.namely(["face", "events", "--json"]);
    home.spawn(command);
    // The subscription is active when a later event arrives; earlier events are not needed.
    let mut port = 17000;
    home.wait_for("an event", || {
        port += 1;
        home.ok(["face", "create", &format!("udp://127.0.0.1:{port}")]);
        let is_event = |line: &str| line.contains("\"created\"") && line.contains("udp4://127.0.0.1:");
        home.background_log().lines().any(is_event)
    });
}

#[test]
fn status_shows_the_routers_activity() {
    let home = Home::with_router();
    let text = home.ok(["status"]);
    assert!(text.contains("faces") && text.contains("PIT"), "{text}");
    let value = &home.json(["status"])[0];
    assert!(value["faces"].as_u64() >= Some(1) && value["router"].as_str().unwrap().starts_with("unix://"));
}

#[test]
fn status_counts_faces_without_listing_them() {
    let home = Home::with_router();
    home.ok(["route", "add", "/somewhere", "udp://127.0.0.1:17999"]);
    // A busy machine may take a pause for a loss and send an Interest twice, so names count.
    let said = home.run(["status", "-vvv"]).stderr;
    let interests = said.lines().filter_map(|line| line.split_once("sent Interest "));
    let names: Vec<&str> = interests.filter_map(|(_, rest)| rest.split([',', ' ']).next()).collect();
    assert!(names.contains(&"/localhost/nfd/status/general"), "{said}");
    let lists = ["/localhost/nfd/faces", "/localhost/nfd/rib", "/localhost/nfd/fib"];
    assert!(names.iter().all(|name| lists.iter().all(|list| !name.starts_with(list))), "{names:?}");
    let value = &home.json(["status"])[0];
    let routes = home.json(["route", "list"]).len() as u64;
    assert!(routes > 0 && value["routes"].as_u64() == Some(routes), "{value}");
    // `status` has a face of its own, as `face list` has. A face of an earlier command may remain
    // for a moment.
    home.wait_for("the same number of faces", || {
        let faces = home.json(["status"])[0]["faces"].as_u64();
        faces == Some(home.json(["face", "list"]).len() as u64)
    });
}

#[test]
fn status_shows_drops_by_reason() {
    let home = Home::with_router();
    home.fails(4, ["peek", "/nowhere"]);
    let counters = home.json(["status", "--counters"]);
    let no_route = counters.iter().find(|c| c["counter"] == "forwarder.no_route").unwrap();
    assert!(no_route["face_id"].is_null() && no_route["value"].as_u64() >= Some(1));
}

#[test]
fn an_unroutable_name_fails_at_once() {
    let home = Home::with_router();
    // A timeout has another exit status.
    let error = home.fails(4, ["peek", "/nowhere", "--lifetime", "60000"]);
    assert!(error.contains("no route to /nowhere"), "{error}");
}

#[test]
fn commands_without_router_print_a_hint() {
    let home = Home::new();
    for command in [&["status"][..], &["peek", "/a"], &["face", "list"], &["ping", "/a", "-c", "1"]] {
        let error = home.fails(3, command);
        assert!(error.contains("no router at") && error.contains("namely up"), "{error}");
    }
}

#[test]
fn ping_needs_a_ping_server() {
    let mut home = Home::with_router();
    home.serve("/lab/here", ["pingserver", "/lab/here"]);
    let ping = ["ping", "/lab/here", "--count", "5", "--interval", "1", "--timeout", "60000"];
    let result = &home.json(ping)[0];
    assert_eq!((result["sent"].as_u64(), result["answered"].as_u64()), (Some(5), Some(5)));
    assert!(result["p50_us"].as_f64() > Some(0.0));
    home.fails(4, ["ping", "/lab/elsewhere", "--count", "1"]);
}

#[test]
fn poke_answers_one_interest_from_stdin() {
    let mut home = Home::with_router();
    std::fs::write(home.path("text"), "hello").unwrap();
    let mut poke = home.namely(["poke", "/lab/greeting", "--digest"]);
    poke.stdin(std::fs::File::open(home.path("text")).unwrap());
    home.spawn(poke);
    home.wait_for("the route", || home.ok(["route", "list"]).contains("/lab/greeting"));
    assert_eq!(home.ok(["peek", "/lab/greeting", "--payload", "--lifetime", "60000"]), "hello");
}

#[test]
fn wait_returns_when_a_prefix_is_served() {
    let mut home = Home::new();
    let why = home.fails(3, ["wait", "--timeout", "0"]);
    assert!(why.contains("namely up"), "{why}");
    home.start_router();
    home.ok(["wait"]);
    let why = home.fails(5, ["wait", "/lab", "--timeout", "0"]);
    assert!(why.contains("/lab") && why.contains("bind list"), "{why}");
    let server = home.namely(["pingserver", "/lab/here"]);
    home.spawn(server);
    home.ok(["wait", "/lab/here/ping"]);
    assert_eq!(home.json(["ping", "/lab/here", "-c", "1"]).len(), 1);
}

#[test]
fn completion_lists_faces_prefixes_and_keys() {
    let home = Home::with_router();
    home.ok(["route", "add", "/lab", "udp://127.0.0.1:6399"]);
    home.ok(["key", "new", "/me"]);
    let complete = |words: &[&str]| {
        let printed = home.ok([&["complete", "--"], words].concat());
        printed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let faces = home.json(["face", "list", "--remote", "udp4://127.0.0.1:6399"]);
    let face = faces[0]["face_id"].to_string();
    assert!(complete(&["face", "show", ""]).contains(&face), "{faces:?}");
    assert_eq!(complete(&["get", "/l"]), ["/lab"]);
    assert!(complete(&["strategy", "set", "/", "b"]).contains(&"best-route".to_owned()));
    let strategies = complete(&["strategy", "set", "/", ""]);
    assert!(strategies.len() >= 9, "{strategies:?}");
    for strategy in strategies {
        home.ok(["strategy", "set", "/x", &strategy]);
    }
    assert!(complete(&["key", "delete", "/me"])[0].starts_with("/me/KEY/"));
    assert!(complete(&["cert", "show", "/me"])[0].starts_with("/me/KEY/"));
    // Without a router there are no completions, and no messages.
    let end = home.run(["complete", "--router", "unix:///nonexistent", "--", "face", "show", ""]);
    assert!(end.stdout.is_empty() && end.stderr.is_empty(), "{end:?}");

    for (shell, script) in [
        (
            "bash",
            "COMP_WORDS=(namely get /l); COMP_CWORD=2; _namely_with_values namely /l get; printf '%s\\n' \"${COMPREPLY[@]}\"",
        ),
        (
            "bash",
            "COMP_WORDS=(namely get ''); COMP_CWORD=2; _namely_with_values namely '' get; printf '%s\\n' \"${COMPREPLY[@]}\"",
        ),
        ("fish", "complete -C 'namely get /l'"),
    ] {
        fs::write(home.path("script"), home.ok(["completions", shell])).unwrap();
        let path = std::path::Path::new(env!("CARGO_BIN_EXE_namely")).parent().unwrap().to_owned();
        let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(shell);
        command.arg("-c").arg(format!("source {}; {script}", home.path("script").display()));
        command.env("PATH", path).env("NAMELY_ROUTER", home.router_uri()).env("HOME", home.path("."));
        let Ok(output) = command.output() else {
            println!("not tried: {shell} is not installed");
            continue;
        };
        let end = ended(output);
        assert!(end.stdout.lines().any(|line| line.trim() == "/lab"), "{shell}: {end:?}");
        let has_options = end.stdout.lines().any(|line| line.starts_with('-'));
        assert!(!has_options, "{shell}: values only, for an empty word, too: {end:?}");
    }
}

#[test]
fn down_stops_the_router() {
    let home = Home::with_router();
    let said = home.ok(["down", "--wait", "300"]);
    assert!(said.contains("has stopped"), "{said}");
    assert_eq!(home.run(["status"]).code, Some(3));
    assert!(!home.path("namely.sock").exists(), "it stopped in order");
    home.fails(3, ["down"]);
}

/// A home with a router that drains for an hour, with an Interest pending at the returned socket.
fn pending_home() -> (Home, UdpSocket, SocketAddr) {
    let mut home = Home::new();
    fs::write(home.path("namely.toml"), "[process]\ndrain_ms = 3600000\n").unwrap();
    let uri = home.router_uri();
    let config = home.path("namely.toml");
    home.spawn(home.namely(["up", "--config", config.to_str().unwrap(), "--listen", &uri]));
    home.wait_for("the router", || home.run(["status"]).code == Some(0));
    let producer = UdpSocket::bind("127.0.0.1:0").unwrap();
    producer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let far = format!("udp://{}", producer.local_addr().unwrap());
    home.ok(["route", "add", "/far", &far]);
    home.spawn(home.namely(["peek", "/far/1", "--lifetime", "3600000"]));
    let (_, router) = namely_testkit::uninterrupted(|| producer.recv_from(&mut [0; 8800])).unwrap();
    (home, producer, router)
}

#[test]
fn down_reports_a_drain_and_waits() {
    let (home, producer, router) = pending_home();
    let mut down = home.namely(["down", "--wait", "300"]);
    let mut down = down.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut progress = BufReader::new(down.stderr.take().unwrap());
    let mut line = String::new();
    progress.read_line(&mut line).unwrap();
    assert!(line.contains("draining: 1 Interest pending"), "{line}");
    assert!(home.ok(["status"]).contains("stops       draining: 1 Interest pending"));
    assert_eq!(home.json(["status"])[0]["draining"]["pending"], 1);
    let name: namely_wire::Name = "/far/1".parse().unwrap();
    let data = namely_wire::DataBuilder::new(name.as_name()).freshness_ms(1000);
    let signer = namely_security::Signer::digest_sha256();
    producer.send_to(&namely_security::sign_data(&data, b"late", &signer).unwrap(), router).unwrap();
    let end = ended(down.wait_with_output().unwrap());
    assert!(end.code == Some(0) && end.stdout.contains("has stopped"), "{end:?}");
    home.wait_for("the answer", || home.background_log().contains("late"));
    assert_eq!(home.run(["status"]).code, Some(3));
}

#[test]
fn down_now_ends_a_drain() {
    let (home, ..) = pending_home();
    let said = home.fails(5, ["down", "--wait", "0"]);
    assert!(said.contains("--now"), "{said}");
    assert!(home.ok(["down", "--now", "--wait", "300"]).contains("has stopped"));
}

#[test]
fn down_stops_no_other_program() {
    let home = Home::new();
    let _listener = std::os::unix::net::UnixListener::bind(home.path("namely.sock")).unwrap();
    let said = home.fails(7, ["down"]);
    assert!(said.contains("is no router of namely"), "{said}");
}

#[test]
fn config_shows_settings_and_differences() {
    let home = Home::new();
    let socket = home.router_uri();
    let text = format!(
        "[faces]\nlisten = [\"{socket}\"]\n[tables]\ncs_packets_max = 100\n[strategy]\n\"/a\" = \"multicast\"\n"
    );
    std::fs::write(home.path("namely.toml"), &text).unwrap();
    let file = ["--config", "namely.toml"];
    let shown = home.json([&["config", "show"], &file[..]].concat());
    let of = |key: &str| shown.iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(
        (&of("tables.cs_packets_max")["value"], &of("tables.cs_packets_max")["origin"]),
        (&"100".into(), &"namely.toml:4".into())
    );
    assert_eq!(of("faces.workers")["origin"], "default");
    let keys = |words: &[&str]| -> Vec<String> {
        let rows = home.json([&["config", "diff"], &file[..], words].concat());
        rows.iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&[]), ["faces.listen", "strategy./a", "tables.cs_packets_max"]);
    let command = home.namely([&["up"], &file[..]].concat());
    let mut router = Home::new();
    router.spawn(command);
    home.wait_for("the router", || home.run(["status"]).code == Some(0));
    assert!(keys(&["--running"]).is_empty(), "{:?}", keys(&["--running"]));
    std::fs::write(home.path("namely.toml"), text.replace("100", "200").replace("\"/a\"", "\"/b\"")).unwrap();
    assert_eq!(keys(&["--running"]), ["tables.cs_packets_max", "strategy./a", "strategy./b"]);
    std::fs::write(home.path("namely.toml"), "[faces]\nbogus = 1\n").unwrap();
    assert!(
        home.fails(78, [&["config", "show"], &file[..]].concat()).contains("namely.toml:2:1: unknown key")
    );
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let home = Home::with_router();
    for words in [&["status", "--report"][..], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let end = ended(home.namely(words).stdout(writer).output().unwrap());
        assert_eq!(end.code, Some(0), "{words:?}: {end:?}");
    }
}

/// A command whose output cannot be stored must not report success.
#[test]
fn a_full_disk_fails_each_command() {
    let mut home = Home::with_router();
    home.ok(["key", "new", "/lab/carol"]);
    fs::write(home.path("note.txt"), "no line break").unwrap();
    fs::write(home.path("nfd.conf"), "log\n{\n}\n").unwrap();
    let put = home.namely(["put", "note.txt", "/lab/note", "--for", "3600"]);
    home.spawn(put);
    home.ok(["wait", "/lab/note"]);
    for words in [
        &["status"][..],
        &["status", "--json"],
        &["status", "--report"],
        &["face", "list"],
        &["route", "list", "--json"],
        &["top", "--once", "--interval", "0.1"],
        &["peek", "/lab/note", "--prefix", "--payload"],
        &["get", "/lab/note", "-o", "-"],
        &["key", "list"],
        &["cert", "export", "/lab/carol"],
        &["completions", "bash"],
        &["version"],
        &["--version"],
        &["get", "--help"],
        &["cat", "/lab/note"],
        &["ls", "/"],
        &["config", "show", "--no-config"],
        &["up", "--no-config", "--check"],
        &["migrate", "nfd.conf"],
        &["dissect", "--hex", "050b0703080161 0a0401020304"],
        &["why", "/lab/note"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let end = ended(home.namely(words).stdout(full).output().unwrap());
        assert_eq!(end.code, Some(1), "{words:?}: {end:?}");
        assert!(end.stderr.contains("No space left on device"), "{words:?}: {end:?}");
    }
}

#[test]
fn a_departed_reader_ends_get_quietly() {
    let mut home = Home::with_router();
    common::write_file(&home.path("big"), 1 << 20, 1);
    let put = home.namely(["put", "big", "/lab/big", "--for", "3600"]);
    home.spawn(put);
    home.ok(["wait", "/lab/big"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let end = ended(home.namely(["get", "/lab/big", "-o", "-"]).stdout(writer).output().unwrap());
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{end:?}");
}

/// `… | head`: a command whose only purpose is its output ends when its output is closed.
#[test]
fn watching_ends_when_its_pipe_closes() {
    let home = Home::with_router();
    for words in [&["status", "--watch", "600"][..], &["status", "--watch", "0.1", "--json"]] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut child = home.namely(words).stdout(writer).spawn().unwrap();
        reader.read_exact(&mut [0; 16]).unwrap();
        drop(reader);
        home.wait_for("it ends", || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{words:?}");
    }
}

#[test]
fn verbosity_three_prints_each_packet() {
    let home = Home::with_router();
    let end = home.run(["status", "-vvv"]);
    for part in [
        "sent Interest /localhost/nfd/status/general, CanBePrefix, MustBeFresh, ",
        "received Data /localhost/nfd/status/general/",
    ] {
        assert!(end.stderr.contains(part), "{part}: {end:?}");
    }
    let end = home.run(["peek", "/nobody", "-vvv"]);
    assert!(end.stderr.contains("received Nack (") && end.stderr.contains(") of /nobody, "), "{end:?}");
    assert!(!home.run(["status", "-vv"]).stderr.contains("sent Interest"));
}

/// If a word is missing, the next argument is not a name. A file is not a name, either.
#[test]
fn every_command_refuses_names_without_slash() {
    let home = Home::new();
    for words in [
        &["get", "lab/x"][..],
        &["cs", "erase", "lab/x"],
        &["cs", "list", "lab/x"],
        &["route", "add", "lab/x", "local"],
        &["peek", "lab/x"],
        &["serve", ".", "--prefix", "lab/x"],
        &["ls", "lab/x"],
    ] {
        let said = home.fails(2, words.iter().copied());
        assert!(
            said.contains("is not a name: a name begins with a slash") && said.contains("`/lab/x`"),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn channel_list_shows_the_listeners() {
    let home = Home::with_router();
    let uri = home.router_uri();
    assert!(home.json(["channel", "list"]).iter().any(|row| row["local"] == uri.as_str()));
    let report = home.ok(["status", "--report"]);
    for part in ["channel list", "face list", "route fib", "strategy list", "status --counters"] {
        assert!(report.contains(&format!("\n{part}\n")), "{part}: {report}");
    }
    let mut watching = home.namely(["status", "--watch", "0.1", "--json"]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let seen = lines.take(3).map_while(Result::ok).count();
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert_eq!(seen, 3);
}

#[test]
fn cs_commands_manage_the_disk() {
    let mut home = Home::new();
    let uri = home.router_uri();
    let disk = ["--cs-packets-max", "16", "--cs-disk", "cache", "--cs-disk-admission", "all"];
    let router = home.namely([&["up", "--no-config", "--listen", &uri], &disk[..]].concat());
    home.spawn(router);
    home.wait_for("the router", || home.run(["status"]).code == Some(0));
    let folder = home.path("data");
    fs::create_dir(&folder).unwrap();
    common::write_file(&folder.join("a.bin"), 400_000, 7);
    home.serve("/lab", ["serve", folder.to_str().unwrap(), "--prefix", "/lab"]);

    let warmed = home.json(["cs", "warm", "/lab/a.bin", "--pin"]);
    assert_eq!((warmed[0]["octets"].as_u64(), warmed[0]["pinned"].as_bool()), (Some(400_000), Some(true)));
    let tree = home.json(["cs", "warm", "/lab"]);
    assert_eq!((tree[0]["files"].as_u64(), tree[0]["failed"].as_u64()), (Some(1), Some(0)));
    home.wait_for("the disk to have it", || {
        let disk = &home.json(["cs", "info"])[0]["disk"];
        [&disk["records"], &disk["counters"]["written"]].iter().all(|count| count.as_u64().unwrap() > 30)
    });
    let info = &home.json(["cs", "info"])[0];
    assert_eq!(info["disk"]["pinned"][0], "/lab/a.bin");
    let text = home.ok(["cs", "info"]);
    for word in ["disk      /", "/cache (", "stored ", "bypassed ", "pinned    /lab/a.bin"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let in_memory = home.json(["cs", "list"]);
    assert!(
        (1..=16).contains(&in_memory.len()) && in_memory[0]["octets"].as_u64() > Some(0),
        "{in_memory:?}"
    );
    let on_disk = || home.json(["cs", "list", "/lab/a.bin", "--disk"]);
    home.wait_for("the files to have it", || on_disk().len() > 30);
    let below = on_disk();
    assert!(below[0]["name"].as_str().unwrap().starts_with("/lab/a.bin/"), "{below:?}");
    let count = home.ok(["cs", "list", "/lab/a.bin", "--disk", "--count"]);
    assert!(count.starts_with(&format!("{} packets, ", below.len())), "{count}");
    assert!(home.ok(["cs", "list", "/other", "--count"]).starts_with("0 packets"));
    let changed = home.ok(["cs", "config", "--disk-octets-max", "2GiB", "--disk-queue", "data-first"]);
    assert!(changed.contains("2.0 GiB") && changed.contains("data-first"), "{changed}");
    let refused = home.run(["cs", "config", "--disk-admission", "some"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("hit, again, all"), "{refused:?}");
    home.ok(["cs", "unpin", "/lab/a.bin"]);
    let again = home.run(["cs", "unpin", "/lab/a.bin"]);
    assert!(again.code != Some(0) && again.stderr.contains("not pinned"), "{again:?}");
    home.ok(["cs", "erase", "/lab"]);
    home.wait_for("the erasure", || home.json(["cs", "info"])[0]["disk"]["records"] == 0);
}

#[test]
fn cs_format_prepares_a_device() {
    let mut home = Home::new();
    let device = home.path("device");
    let mut octets = vec![0; 8 << 20];
    octets[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    fs::write(&device, &octets).unwrap();
    let said = home.fails(1, ["cs", "format", "device"]);
    assert!(said.contains("ext4 file system, which would be lost") && said.contains("--force"), "{said}");
    assert!(fs::read(&device).unwrap() == octets, "it is as it was");
    assert!(home.ok(["cs", "format", "--force", "device"]).contains("namelyd --cs-disk device"));
    assert!(home.json(["cs", "format", "device"])[0]["octets"].as_u64() > Some(6 << 20));
    let said = home.fails(1, ["cs", "format", "none"]);
    assert!(said.contains("neither a block device") && said.contains("lsblk"), "{said}");
    let uri = home.router_uri();
    let disk = ["--cs-packets-max", "16", "--cs-disk", "device", "--cs-disk-admission", "all"];
    let router = home.namely([&["up", "--no-config", "--listen", &uri], &disk[..]].concat());
    home.spawn(router);
    home.wait_for("the router", || home.run(["status"]).code == Some(0));
    assert!(home.fails(1, ["cs", "format", "device"]).contains("in use by another router"));
    let folder = home.path("data");
    fs::create_dir(&folder).unwrap();
    common::write_file(&folder.join("a.bin"), 400_000, 7);
    home.serve("/lab", ["serve", folder.to_str().unwrap(), "--prefix", "/lab"]);
    home.ok(["cs", "warm", "/lab/a.bin"]);
    home.wait_for("the device to have it", || home.json(["cs", "list", "/lab/a.bin", "--disk"]).len() > 30);
    let text = home.ok(["cs", "info"]);
    assert!(text.contains("/device (") && text.contains("stored "), "{text}");
}

#[test]
fn cs_commands_without_disk_print_a_hint() {
    let home = Home::with_router();
    assert_eq!(home.json(["cs", "info"])[0]["disk"], serde_json::Value::Null);
    let refused = home.run(["cs", "pin", "/x"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("--cs-disk DIR"), "{refused:?}");
}

#[test]
fn top_once_prints_text_and_json() {
    let home = Home::with_router();
    let ping = home.namely(["peek", "/nobody/has/this"]).output().unwrap();
    assert!(!ping.status.success());
    let text = home.ok(["top", "--once", "--interval", "0.1"]);
    for part in ["PIT ", "content store, memory", "bits in", "forwarder.no_route"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let lines = home.json(["top", "--once", "--interval", "0.1", "--sort", "face"]);
    assert_eq!(lines.len(), 1);
    let ids: Vec<u64> =
        lines[0]["faces"].as_array().unwrap().iter().map(|face| face["face_id"].as_u64().unwrap()).collect();
    assert!(ids.len() >= 3 && ids.is_sorted(), "{ids:?}");
    assert!(lines[0]["in"]["interests"].as_f64().unwrap() > 0.0, "its own Interests: {}", lines[0]);
    // Without a terminal the error names the option to use.
    let said = home.fails(1, ["top"]);
    assert!(said.contains("namely top --once"), "{said}");
}

#[test]
fn top_restores_the_terminal_on_signals() {
    let home = Home::with_router();
    let top = home.namely(["top"]);
    // `script` makes a terminal.
    let line = format!("stty cols 80 rows 24; echo $$; exec '{}' top", top.get_program().to_str().unwrap());
    let mut script = Command::new("script");
    script.args(["-qc", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
    script.stdin(Stdio::null()).stdout(Stdio::piped());
    for (key, value) in top.get_envs() {
        match value {
            Some(value) => script.env(key, value),
            None => script.env_remove(key),
        };
    }
    let Ok(mut script) = script.spawn() else {
        return namely_testkit::skip(namely_testkit::Need::Programs, "no `script`, which makes a terminal");
    };
    let mut screen = BufReader::new(script.stdout.take().unwrap());
    let mut first = String::new();
    screen.read_line(&mut first).unwrap();
    let pid: String = first.chars().filter(char::is_ascii_digit).collect();
    // Once the screen is drawn, the signal comes from outside, as from another terminal.
    let mut said = Vec::new();
    while !said.ends_with(b"pauses") {
        let mut octet = [0];
        screen.read_exact(&mut octet).expect("the screen is drawn");
        said.extend(octet);
    }
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::TERM).unwrap();
    screen.read_to_end(&mut said).unwrap();
    script.wait().unwrap();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("\x1b[?1049h") && said.contains("pauses"), "it was drawn: {said:?}");
    let left = said.rfind("\x1b[?1049l").unwrap_or_else(|| panic!("the screen stays: {said:?}"));
    assert!(left > said.rfind("pauses").unwrap(), "{said:?}");
}
