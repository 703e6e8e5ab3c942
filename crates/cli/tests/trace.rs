//! `namely trace`, of a real router.

use crate::common;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::Home;
use namely_client::Client;
use namely_security::Signer;
use namely_testkit::SetWhenDropped;
use namely_transport::connection::Answer;
use namely_wire::InterestBuilder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A trace that runs, and its lines.
struct Tracing {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Tracing {
    fn start(home: &Home, args: &[&str]) -> Self {
        let mut command = home.namely(["trace"].iter().chain(args));
        let mut child = command.arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut tracing = Tracing { child, lines };
        let first = tracing.next().expect("it begins");
        assert_eq!(first["tracing"], args[0], "{first}");
        tracing
    }

    /// The next line; none at the end.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        (self.lines.read_line(&mut line).unwrap() > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// The next line about a packet of this kind.
    fn packet(&mut self, kind: &str) -> Value {
        loop {
            let line = self.next().expect("more comes");
            if line["packet"] == kind {
                return line;
            }
        }
    }

    /// Ctrl-C.
    fn interrupt(mut self) -> Option<i32> {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn steps(line: &Value) -> Vec<&str> {
    line["steps"].as_array().unwrap().iter().map(|step| step["what"].as_str().unwrap()).collect()
}

fn sent(line: &Value) -> Vec<(&str, u64)> {
    let of = |sent: &Value| sent["face_id"].as_u64().unwrap();
    line["sent"].as_array().unwrap().iter().map(|s| (s["packet"].as_str().unwrap(), of(s))).collect()
}

#[test]
fn a_trace_follows_matching_interests_only() {
    let mut home = Home::with_router();
    let mut trace = Tracing::start(&home, &["/lab"]);

    home.fails(4, ["peek", "/other"]);
    home.fails(4, ["peek", "/lab/none"]);
    let refused = trace.packet("Interest");
    assert_eq!(refused["name"], "/lab/none", "of /other nothing is shown: {refused}");
    assert_eq!(steps(&refused), ["cs miss", "best-route", "dropped: no_route"]);
    let asker = refused["face_id"].as_u64().unwrap();
    assert_eq!(sent(&refused), [("Nack", asker)]);
    assert_eq!(refused["sent"][0]["nack"], "NoRoute");

    // A peer that receives datagrams and never answers.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    home.ok(["route", "add", "/lab/far", &format!("udp://{}", silent.local_addr().unwrap())]);
    // The consumer stays connected. If it left, its PIT entry would end with its face and never
    // expire.
    let mut consumer = Client::find(Some(&home.router_uri()), Signer::digest_sha256()).unwrap();
    let interest = InterestBuilder::new("/lab/far/x".parse().unwrap()).lifetime_ms(100);
    assert!(matches!(consumer.connection().express(&interest), Ok(Answer::Timeout)));
    let traced = trace.packet("Interest");
    assert_eq!(steps(&traced), ["cs miss", "route", "best-route"]);
    assert_eq!((&traced["steps"][1]["number"], sent(&traced).len()), (&2.into(), 1), "{traced}");
    let ended = trace.packet("expired");
    assert_eq!(
        (ended["name"].as_str(), steps(&ended)),
        (Some("/lab/far/x"), vec!["waited for by", "asked of"])
    );

    let text = home.path("note.txt");
    std::fs::write(&text, "there").unwrap();
    let put = home.namely(["put", &text.display().to_string(), "/lab/note", "--for", "3600"]);
    home.spawn(put);
    home.ok(["wait", "/lab/note"]);
    home.ok(["get", "/lab/note", "-o", "-"]);
    let traced = loop {
        let line = trace.packet("Interest");
        if line["name"].as_str().unwrap().ends_with("seg=0")
            && sent(&line).first().is_some_and(|s| s.0 == "Interest")
        {
            break line;
        }
    };
    let (name, producer) = (traced["name"].as_str().unwrap().to_owned(), sent(&traced)[0].1);
    let answer = loop {
        let line = trace.packet("Data");
        if line["name"] == name.as_str() {
            break line;
        }
    };
    assert_eq!((answer["face_id"].as_u64(), steps(&answer)), (Some(producer), vec!["satisfies"]), "{answer}");
    assert_eq!(sent(&answer)[0].0, "Data");
    home.ok(["peek", &name]);
    let hit = loop {
        let line = trace.packet("Interest");
        if line["name"] == name.as_str() {
            break line;
        }
    };
    assert_eq!(steps(&hit), ["cs hit"]);
    assert_eq!(sent(&hit)[0].0, "Data");
    assert_eq!(trace.interrupt(), Some(0), "Ctrl-C is how it ends");
}

#[test]
fn an_ended_trace_frees_its_slot() {
    let home = Home::with_router();
    let mut traces: Vec<_> = (0..4).map(|n| Tracing::start(&home, &[&format!("/{n}")])).collect();
    let refused = home.fails(7, ["trace", "/4"]);
    assert!(refused.contains("4 traces are active, which is the limit"), "{refused}");
    assert_eq!(traces.pop().unwrap().interrupt(), Some(0));
    // A trace ends with the face of its killed client.
    drop(traces.pop());
    home.wait_for("the face to go", || home.json(["trace", "/4", "--for", "0.1"]).len() == 1);
    let mut counted = Tracing::start(&home, &["/lab", "--count", "1"]);
    home.fails(4, ["peek", "/lab/x"]);
    assert_eq!(counted.packet("Interest")["name"], "/lab/x");
    assert!(counted.next().is_none(), "one was asked for");
    assert!(counted.child.wait().unwrap().success());
}

#[test]
fn a_trace_shows_disk_lookups() {
    let mut home = Home::new();
    let uri = home.router_uri();
    let disk = ["--cs-packets-max", "16", "--cs-disk", "cache", "--cs-disk-admission", "all"];
    let router = home.namely([&["up", "--no-config", "--listen", &uri], &disk[..]].concat());
    home.spawn(router);
    home.wait_for("the router", || home.run(["status"]).code == Some(0));
    common::write_file(&home.path("a.bin"), 400_000, 7);
    let put = home.namely(["put", "a.bin", "/lab/a", "--for", "3600"]);
    home.spawn(put);
    home.ok(["wait", "/lab/a"]);
    home.ok(["get", "/lab/a", "-o", "first"]);
    let on_disk = || home.json(["cs", "list", "/lab/a", "--disk"]);
    home.wait_for("the disk to have it", || on_disk().len() > 20);
    let names = |lines: Vec<Value>| lines.into_iter().map(|line| line["name"].as_str().unwrap().to_owned());
    let in_memory: Vec<String> = names(home.json(["cs", "list"])).collect();
    let stored = names(on_disk()).find(|name| !in_memory.contains(name)).expect("memory holds a few only");
    let mut trace = Tracing::start(&home, &[&stored]);
    home.ok(["peek", &stored]);
    let traced = trace.packet("Interest");
    assert_eq!(steps(&traced)[..3], ["cs miss", "route", "disk reads"], "{traced}");
    let read = trace.packet("disk read");
    assert_eq!((read["name"].as_str(), steps(&read)), (Some(&*stored), vec!["disk hit"]), "{read}");
    assert_eq!(sent(&read), [("Data", traced["face_id"].as_u64().unwrap())]);
}

#[test]
fn a_trace_omits_its_own_packets() {
    let home = Home::with_router();
    let mut all = Tracing::start(&home, &["/"]);
    home.ok(["status"]);
    let first = all.packet("Interest");
    assert!(first["name"].as_str().unwrap().starts_with("/localhost/nfd/status/"), "{first}");
    assert_eq!(all.interrupt(), Some(0));
}

#[test]
fn hot_prefixes_are_listed_on_request() {
    let home = Home::with_router();
    let uri = home.router_uri();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::find(Some(&uri), Signer::digest_sha256()).unwrap();
            for n in (0..).take_while(|_| !stop.load(Relaxed)) {
                let name = format!("/hot/{}/{n}", if n % 4 == 0 { "b" } else { "a" });
                client.connection().express(&InterestBuilder::new(name.parse().unwrap())).unwrap();
            }
        });
        let _stops = SetWhenDropped(&stop);
        let args = ["top", "--once", "--interval", "0.1", "--prefixes"];
        // A busy machine may not schedule the requesting thread in so short a time.
        home.wait_for("both prefixes", || {
            let top = home.json(args).remove(0);
            let listed = top["prefixes"].as_array().unwrap().iter();
            listed.map(|hot| hot["prefix"].as_str().unwrap()).eq(["/hot/a", "/hot/b"])
                && top["prefixes"][0]["part"].as_f64().unwrap() > 0.5
        });
        home.wait_for("the table", || home.ok(args).contains("/hot/a"));
    });
    let plain = home.json(["top", "--once", "--interval", "0.1"]).remove(0);
    assert_eq!(plain["prefixes"], serde_json::json!([]));
}
