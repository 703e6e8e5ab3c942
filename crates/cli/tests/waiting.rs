//! Commands that serve: they wait for their router, write their keys into no core dump, and
//! continue after a stop by SIGSTOP.

use crate::common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use common::Home;
use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, Name};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_server_waits_for_its_router() {
    let mut home = Home::new();
    fs::create_dir(home.path("data")).unwrap();
    fs::write(home.path("data/f"), "content").unwrap();
    let serve = home.namely(["serve", "data", "--prefix", "/lab"]);
    home.spawn(serve);
    home.wait_for("a word about the router", || home.background_log().contains("waiting 60 s for it"));
    let router = home.start_router();
    let has_route = |home: &Home| home.run(["route", "list"]).stdout.contains("/lab");
    home.wait_for("/lab", || has_route(&home));
    home.ok(["get", "/lab/f", "-o", "got"]);

    home.stop(router);
    home.wait_for("a word about its loss", || home.background_log().contains("is gone; waiting for it"));
    home.start_router();
    home.wait_for("/lab again", || has_route(&home));
    home.wait_for("a word about its return", || home.background_log().contains("is back"));
}

#[test]
fn a_nonwaiting_server_ends_without_a_router() {
    let home = Home::new();
    fs::create_dir(home.path("data")).unwrap();
    for command in [&["serve", "data", "--prefix", "/lab"][..], &["put", "/lab/x"]] {
        let error = home.fails(3, [command, &["--wait-router", "0"]].concat());
        assert!(error.contains("no router at") && error.contains("namely up"), "{error}");
    }
}

/// A router on another host reports no datasets to this one.
#[test]
fn any_answer_of_a_remote_router_suffices() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let router = format!("tcp://{}", listener.local_addr().unwrap());
    let name: Name = "/localhop/namely-wait".parse().unwrap();
    let answer = sign_data(&DataBuilder::new(name.as_name()), b"", &Signer::digest_sha256()).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut octets = [0; 1000];
        // The client closes the connection once it has its answer.
        while stream.read(&mut octets).is_ok_and(|count| count > 0) {
            let _ = stream.write_all(&answer);
        }
    });
    let home = Home::new();
    home.ok(["--router", router.as_str(), "wait", "--timeout", "60"]);
    answering.join().unwrap();
    home.fails(3, ["--router", router.as_str(), "wait", "--timeout", "0"]);
}

#[test]
fn processes_with_keys_dump_no_core() {
    let mut home = Home::with_router();
    let mut shell = Command::new("sh");
    // The limit of a user who enables core dumps.
    shell.args(["-c", "ulimit -c unlimited 2>/dev/null; exec \"$0\" pingserver /lab"]);
    shell.arg(env!("CARGO_BIN_EXE_namely")).env("NAMELY_HOME", home.path("home"));
    shell.env("NAMELY_ROUTER", home.router_uri());
    let child = home.spawn(shell);
    home.wait_for("/lab", || home.run(["route", "list"]).stdout.contains("/lab"));
    let limits = fs::read_to_string(format!("/proc/{}/limits", home.pid(child))).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().nth(4), Some("0"), "{cores}");
}

#[test]
fn serving_a_missing_directory_hints_at_the_remedy() {
    let home = Home::new();
    fs::write(home.path("file"), "content").unwrap();
    for path in ["missing", "file"] {
        let error = home.fails(1, ["serve", path, "--prefix", "/lab"]);
        assert!(error.contains(&format!("cannot serve {path}: ")) && error.contains("namely put"), "{error}");
    }
    assert!(!home.path("home/keys/keys").exists(), "no key is made for a mistyped directory");
}

#[test]
fn stopped_programs_continue_after_sigcont() {
    let mut home = Home::new();
    let router = home.start_router();
    fs::create_dir(home.path("data")).unwrap();
    common::write_file(&home.path("data/f"), 8_000_000, 1);
    let server = home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    let mut get = home.namely(["get", "/lab/f", "-o", "got"]).spawn().unwrap();
    let pids = [home.pid(router), home.pid(server), get.id()];
    let is_running = |get: &mut std::process::Child| get.try_wait().unwrap().is_none();
    // After a stop, a system call that waits with a timeout fails with EINTR (signal(7)).
    for _ in 0..100 {
        for pid in pids.into_iter().take_while(|_| is_running(&mut get)) {
            let pid = Pid::from_raw(pid as i32).unwrap();
            kill_process(pid, Signal::STOP).unwrap();
            kill_process(pid, Signal::CONT).unwrap();
        }
    }
    assert!(get.wait().unwrap().success(), "{}", home.background_log());
    assert_eq!(fs::read(home.path("got")).unwrap(), fs::read(home.path("data/f")).unwrap());
}
