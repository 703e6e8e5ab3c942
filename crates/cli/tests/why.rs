//! `namely why`, asked of real routers in which something is wrong.

mod common;

use std::process::Command;

use common::{Home, LIMIT};
use serde_json::Value;

/// What comes of a name, or of `--face`.
fn why(home: &Home, what: &[&str]) -> Value {
    let mut lines = home.json(["why"].iter().chain(what));
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

#[track_caller]
fn is_because(home: &Home, what: &[&str], cause: &str, next: &str) -> Value {
    let answer = why(home, what);
    assert_eq!(answer["cause"], cause, "{answer:#}");
    assert!(answer["next"].as_str().unwrap_or_default().contains(next), "{answer:#}");
    answer
}

fn step<'a>(answer: &'a Value, at: &str) -> &'a str {
    let steps = answer["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["at"] == at).unwrap_or_else(|| panic!("{at}: {answer:#}"));
    step["found"].as_str().unwrap()
}

/// An Interest that nobody is to answer, asked in the background.
fn ask(home: &mut Home, name: &str) {
    let command: Command = home.namely(["peek", name, "--lifetime", "20000"]);
    home.spawn(command);
}

#[test]
fn a_name_is_explained_from_no_route_to_its_answer_in_the_cache() {
    let mut home = Home::with_router();
    let answer = is_because(&home, &["/lab/note"], "no_route", "serve");
    assert!(step(&answer, "strategy").starts_with("best-route, chosen for /"), "{answer:#}");
    home.ok(["route", "add", "/lab", "local"]);
    is_because(&home, &["/lab/note"], "not_bound", "bind list");
    let text = home.path("note.txt");
    std::fs::write(&text, "there").unwrap();
    let put = home.namely(["put", &text.display().to_string(), "/lab/note", "--for", "60"]);
    home.spawn(put);
    home.ok(["wait", "/lab/note"]);
    home.ok(["get", "/lab/note", "-o", "-"]);
    let object = home.json(["stat", "/lab/note"])[0]["name"].as_str().unwrap().to_owned();
    let answer = is_because(&home, &[&object], "ok", "");
    assert!(answer["so"].as_str().unwrap().contains("content store answers"), "{answer:#}");
    home.ok(["cs", "config", "--serve", "off"]);
    let answer = is_because(&home, &[&object], "cache_off", "--serve on");
    assert!(
        step(&answer, "cache").contains("does not answer") && step(&answer, "route").starts_with("/lab: ")
    );
    assert!(step(&answer, "next hop").contains("the application that bound it"), "{answer:#}");
}

#[test]
fn an_answer_that_does_not_come_is_traced_to_the_face_that_owes_it() {
    let mut home = Home::with_router();
    // Somebody who takes datagrams and says nothing.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    home.ok(["route", "add", "/far", &format!("udp://127.0.0.1:{port}")]);
    let answer = is_because(&home, &["/far/x"], "ok", "");
    assert!(answer["so"].as_str().unwrap().contains("it goes to face"), "{answer:#}");
    ask(&mut home, "/far/x");
    home.wait_for("a second without an answer", || why(&home, &["/far/x"])["cause"] == "no_answer");
    let answer = is_because(&home, &["/far/x"], "no_answer", "namely why /far/x");
    assert!(step(&answer, "pending").contains("1 face waits for it, sent to face"), "{answer:#}");
    (0..3).for_each(|n| ask(&mut home, &format!("/far/{n}")));
    let face = format!("udp4://127.0.0.1:{port}");
    home.wait_for("its silence", || why(&home, &["--face", &face])["cause"] == "silent");
    let answer = why(&home, &["--face", &face]);
    assert_eq!((step(&answer, "routes"), step(&answer, "in")), ("/far", "0 Interests, 0 Data, 0 Nacks, 0 B"));
}

#[test]
fn a_port_where_nobody_listens_is_told_by_the_face() {
    let mut home = Home::with_router();
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    home.ok(["route", "add", "/far", &format!("udp://127.0.0.1:{free}")]);
    let end = std::time::Instant::now() + LIMIT;
    // The kernel tells of the port with the datagram after the one that found nobody there.
    for n in 0.. {
        ask(&mut home, &format!("/far/{n}"));
        if why(&home, &["/far/x"])["cause"] == "unreachable" {
            break;
        }
        assert!(std::time::Instant::now() < end, "{:#}", why(&home, &["/far/x"]));
    }
    is_because(&home, &["/far/x"], "unreachable", "start the router");
    is_because(&home, &["--face", &format!("udp4://127.0.0.1:{free}")], "unreachable", "start the router");
}

#[test]
fn a_route_to_who_asks_leads_nowhere_and_a_failed_command_ends_with_the_line_to_type() {
    let home = Home::with_router();
    let hint = "`namely why /no/where` tells what the router knows";
    assert!(home.fails(4, ["peek", "/no/where"]).contains(hint));
    assert!(home.fails(4, ["get", "/no/where", "-o", "-"]).contains("`namely why /no/where"));
    // Somebody who takes datagrams and says nothing.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    home.ok(["route", "add", "/far", &format!("udp://{}", silent.local_addr().unwrap())]);
    let error = home.fails(5, ["peek", "/far/x", "--lifetime", "100"]);
    assert!(error.contains("`namely why /far/x` tells how far the router gets with it"), "{error}");
    let usage = home.fails(2, ["why"]);
    assert!(usage.contains("<NAME|--face <FACE>|--register <PREFIX>|--bind <PREFIX>|--manage>"), "{usage}");
    assert!(home.fails(4, ["why", "--face", "77777"]).contains("there is no face 77777"));
}

#[test]
fn the_text_lines_up_and_ends_with_what_to_do() {
    let home = Home::with_router();
    let text = home.ok(["why", "/no/where"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "name        /no/where");
    assert_eq!(lines[1], "scope       any");
    assert!(lines.last().unwrap().starts_with("next        "), "{text}");
    assert!(lines.iter().all(|line| line.as_bytes()[..12].ends_with(b"  ")), "{text}");
}

#[test]
fn rights_are_told_before_a_command_is_sent_as_the_command_then_finds_them() {
    let mut home = Home::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tcp = format!("tcp://127.0.0.1:{port}");
    home.start_router_at(&[&home.router_uri(), &tcp]);
    let answer = is_because(&home, &["--register", "/lab"], "ok", "");
    assert!(step(&answer, "rule").contains("the router's own user"), "{answer:#}");
    is_because(&home, &["--manage"], "ok", "");
    home.ok(["route", "add", "/lab", "local"]);
    // Over loopback the same user registers, and manages nothing.
    is_because(&home, &["--register", "/lab", "--router", &tcp], "ok", "");
    let answer = is_because(&home, &["--manage", "--router", &tcp], "not_allowed", "Unix socket");
    assert!(step(&answer, "rule").contains("but by the Unix socket"), "{answer:#}");
    home.fails(7, ["route", "add", "/other", "local", "--router", &tcp]);
    is_because(&home, &["--register", "/localhost/nfd/x"], "not_allowed", "another prefix");
}
