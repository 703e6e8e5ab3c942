//! A router's log on standard error: one line per event, and a limited number of lines per cause.

use crate::common;

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Home;
use namely_client::Client;
use namely_security::Signer;
use serde_json::Value;

/// A router that logs to a file.
fn router(home: &Home, options: &[&str]) -> Child {
    let log = File::create(home.path("log")).unwrap();
    let mut up: Command = home.namely(["up", "--no-config", "--listen", &home.router_uri()]);
    let child = up.args(options).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    home.wait_for("the router", || home.run(["status"]).code == Some(0));
    child
}

/// Ends the router. Returns the lines of its log.
fn lines(home: &Home, mut child: Child) -> Vec<String> {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    std::fs::read_to_string(home.path("log")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn json_logs_have_one_object_per_line() {
    let home = Home::new();
    let child = router(&home, &["--log-format", "json"]);
    let mut client = Client::find(Some(&home.router_uri()), Signer::digest_sha256()).unwrap();
    let began = Instant::now();
    for _ in 0..60 {
        let id = client.start_trace(&"/a/%0A".parse().unwrap(), Duration::from_secs(60)).unwrap();
        client.stop_trace(id).unwrap();
    }
    // The limit counts anew after 10 s, which a busy machine may take.
    let windows = 1 + began.elapsed().as_secs() / 10;
    let values: Vec<Value> = lines(&home, child)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let traced: Vec<&Value> = values.iter().filter(|v| v["message"] == "packets are traced").collect();
    assert!((50..=(50 * windows).min(60)).contains(&(traced.len() as u64)), "{values:#?}");
    assert_eq!((&traced[0]["prefix"], &traced[0]["level"]), (&"/a/%0A".into(), &"info".into()));
    assert!(traced[0]["face"].is_u64() && traced[0]["time"].as_str().unwrap().ends_with('Z'));
    assert!(values.last().unwrap()["message"].as_str().unwrap().starts_with("stopped by signal"));
}

#[test]
fn text_logs_have_time_level_and_fields() {
    let home = Home::new();
    let child = router(&home, &[]);
    home.json(["trace", "/lab", "--for", "0.1"]);
    let lines = lines(&home, child);
    let traced = lines.iter().find(|line| line.contains("packets are traced")).unwrap();
    assert!(traced.contains("Z  INFO packets are traced prefix=/lab face="), "{traced}");
}
