//! `namely perf`, over a real router: the client's figures match the traffic.

use crate::common;

use std::net::UdpSocket;

use common::Home;
use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, InterestView, LpView};
use serde_json::Value;

fn summary(lines: &[Value]) -> &Value {
    lines.iter().find(|line| line["kind"] == "summary").expect("a summary")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn perf_measures_each_second_and_total() {
    let mut home = Home::with_router();
    home.serve("/perf", ["perf", "server"]);
    let lines = home.json(["perf", "client", "--duration", "2", "--window", "16"]);
    let seconds: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "second").collect();
    assert!(!seconds.is_empty() && seconds[0]["second"] == 1);
    let total = summary(&lines);
    let exchanges: u64 = seconds.iter().filter_map(|s| s["exchanges"].as_u64()).sum();
    assert!(exchanges > 0 && Some(exchanges) <= total["exchanges"].as_u64());
    assert_eq!(total["payload_octets"].as_u64(), total["exchanges"].as_u64().map(|n| n * 8000));
    let quantiles = ["min_us", "p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"].map(|k| number(total, k));
    assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{quantiles:?}");
    assert_eq!((total["wrong"].as_u64(), total["nacks"].as_u64()), (Some(0), Some(0)));
    // Only Interests that were pending at the end have no answer.
    let unanswered =
        number(total, "interests") - number(total, "exchanges") - number(total, "retransmissions");
    assert!((0.0..=16.0).contains(&unanswered), "{total}");
}

#[test]
fn perf_signs_with_every_signature_type() {
    for sign in ["null", "sha256", "ed25519", "hmac"] {
        let mut home = Home::with_router();
        home.serve(
            "/lab/load",
            ["perf", "server", "--prefix", "/lab/load", "--payload", "1200", "--sign", sign],
        );
        let client =
            ["perf", "client", "--prefix", "/lab/load", "--duration", "1", "--verify", "--payload", "1200"];
        let lines = home.json(client);
        let total = summary(&lines);
        assert!(number(total, "exchanges") > 0.0 && total["wrong"] == 0, "{sign}: {total}");
    }
}

#[test]
fn each_perf_flow_has_its_connection() {
    let mut home = Home::with_router();
    home.serve("/perf/2", ["perf", "server", "--flows", "3", "--payload", "1200"]);
    let lines = home.json(["perf", "client", "--flows", "3", "--duration", "1"]);
    let goodput = summary(&lines)["flow_goodput_mbps"].as_array().unwrap().clone();
    assert_eq!(goodput.len(), 3);
    assert!(goodput.iter().all(|g| g.as_f64() > Some(0.0)), "{goodput:?}");
}

#[test]
fn perf_keeps_the_requested_rate() {
    let mut home = Home::with_router();
    home.serve("/perf", ["perf", "server", "--payload", "100"]);
    let lines = home.json(["perf", "client", "--rate", "500", "--duration", "2"]);
    let total = summary(&lines);
    // The last ones may be due after the end; a busy machine sends late, never more.
    assert!((1.0..=1000.0).contains(&number(total, "interests")), "{total}");
    assert!(number(total, "interests") + number(total, "held_back") > 900.0, "{total}");
    assert_eq!(total["retransmissions"], 0);
}

#[test]
fn only_cached_names_hit_the_cache() {
    let mut home = Home::with_router();
    home.serve("/perf", ["perf", "server", "--payload", "100"]);
    let hits = || home.json(["cs", "info"])[0]["hits"].as_u64().unwrap();
    home.json(["perf", "client", "--duration", "1"]);
    let before = hits();
    assert!(before < 10, "{before} hits of names that are asked for once");
    let lines = home.json(["perf", "client", "--duration", "1", "--cached", "100", "--window", "10"]);
    let exchanges = summary(&lines)["exchanges"].as_u64().unwrap();
    assert!(
        exchanges > 200 && hits() - before > exchanges / 2,
        "{exchanges} exchanges, {} hits",
        hits() - before
    );
}

#[test]
fn perf_names_have_the_requested_length() {
    let mut home = Home::with_router();
    home.serve("/perf", ["perf", "server", "--payload", "100"]);
    let client =
        home.run(["perf", "client", "--duration", "1", "--name-components", "16", "--name-length", "300"]);
    assert_eq!(client.code, Some(0), "{client:?}");
    assert!(client.stderr.contains("names of 16 components in 300 octets"), "{client:?}");
    home.fails(1, ["perf", "client", "--name-components", "3"]);
    home.fails(1, ["perf", "client", "--name-length", "20"]);
}

#[test]
fn perf_without_a_server_fails_immediately() {
    let home = Home::with_router();
    let error = home.fails(4, ["perf", "client", "--duration", "600"]);
    assert!(error.contains("no route to /perf") && error.contains("perf server"), "{error}");
}

/// A router by UDP that loses the first Interest, and answers each later one.
fn lossy_router() -> String {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp://{}", udp.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut datagram, mut has_lost) = ([0; 9000], false);
        while let Ok((octets, client)) = udp.recv_from(&mut datagram) {
            let Ok(LpView { fragment: Some(packet), .. }) = LpView::parse(&datagram[..octets]) else {
                continue;
            };
            let Ok(interest) = InterestView::parse(packet) else { continue };
            if std::mem::replace(&mut has_lost, true) {
                let data = DataBuilder::new(interest.name);
                let data = sign_data(&data, b"here", &Signer::digest_sha256()).unwrap();
                let _ = udp.send_to(&data, client);
            }
        }
    });
    uri
}

#[test]
fn perf_survives_the_loss_of_its_probe() {
    let home = Home::new();
    let uri = lossy_router();
    let lines = home.json(["perf", "client", "--duration", "1", "--window", "4", "--router", &uri]);
    assert!(number(summary(&lines), "exchanges") > 0.0, "{lines:?}");
}

#[test]
fn perf_fails_on_wrong_payload_sizes() {
    let mut home = Home::with_router();
    home.serve("/perf", ["perf", "server", "--payload", "1200"]);
    let error = home.fails(6, ["perf", "client", "--duration", "1", "--payload", "1300"]);
    assert!(error.contains("differ from the server's data"), "{error}");
}

#[test]
fn a_client_survives_a_stopped_server() {
    let mut home = Home::with_router();
    let server = home.serve("/perf", ["perf", "server"]);
    let client = home.namely(["perf", "client", "--duration", "4", "--lifetime", "200", "--json"]);
    let index = home.spawn(client);
    home.wait_for("a second", || home.background_log().contains("\"kind\":\"second\""));
    home.stop(server);
    home.wait_for("the summary", || summaries(&home) == 2);
    home.stop(index);
    let log = home.background_log();
    let client = log
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok())
        .find(|v| v["kind"] == "summary" && !v["interests"].is_null());
    let client = client.expect("the client's summary");
    assert!(number(&client, "timeouts") + number(&client, "nacks") > 0.0, "{client}");
}

fn summaries(home: &Home) -> usize {
    // The server prints text, the client JSON.
    let log = home.background_log();
    log.matches("\"kind\":\"summary\"").count() + usize::from(log.contains("answered ("))
}

#[test]
fn ctrl_c_ends_with_a_summary() {
    let mut home = Home::with_router();
    home.serve("/perf", ["perf", "server"]);
    let client = home.namely(["perf", "client", "--duration", "600"]);
    let index = home.spawn(client);
    home.wait_for("two seconds", || home.background_log().lines().any(|l| l.trim_start().starts_with("2 ")));
    home.stop(index);
    let log = home.background_log();
    assert!(log.contains("latency us: min") && log.contains("p99.9"), "{log}");
}

fn lines_of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn manifests_reduce_signature_verifications() {
    let home = Home::with_router();
    let lines = home.json([
        "perf",
        "object",
        "--suite",
        "none,ecdsa",
        "--manifest",
        "off,sha256",
        "--size",
        "1",
        "--segment",
        "1200",
        "--runs",
        "1",
    ]);
    let objects = lines_of(&lines, "object");
    // Asynchronous and synchronous: none, ECDSA for each packet, ECDSA for manifests.
    assert_eq!(objects.len(), 6, "{lines:?}");
    for object in objects {
        let (signatures, segments) = (number(object, "signatures"), number(object, "segments"));
        assert_eq!(segments, (1_048_576.0_f64 / 1200.0).ceil(), "{object}");
        assert!(number(&object["goodput_mbps"], "mean") > 0.0);
        match (object["suite"].as_str(), object["signed"].as_str()) {
            (Some("none"), _) => {}
            (_, Some("each packet")) => assert!(signatures >= segments, "{object}"),
            _ => assert!(number(object, "fewer_percent") >= 96.0, "{object}"),
        }
    }
}

#[test]
fn concurrent_object_consumers_get_their_shares() {
    let home = Home::with_router();
    let args = ["perf", "object", "--suite", "none", "--manifest", "off", "--production", "async"];
    let lines = home.json(args.into_iter().chain(["--consumers", "1,2", "--size", "2", "--runs", "2"]));
    let consumers: Vec<u64> =
        lines_of(&lines, "object").iter().filter_map(|line| line["consumers"].as_u64()).collect();
    assert_eq!(consumers, [1, 2]);
    assert!(lines_of(&lines, "object").iter().all(|line| number(line, "fairness_least") > 0.3));
}

#[test]
fn requests_are_answered_signed_and_verified() {
    let home = Home::with_router();
    let lines = home.json(["perf", "request", "--suite", "none,ed25519", "--count", "20", "--interval", "0"]);
    let requests = lines_of(&lines, "request");
    assert_eq!(requests.len(), 2, "{lines:?}");
    for request in requests {
        // A round trip between two threads takes more than a microsecond.
        assert!(number(request, "p50_us") > 1.0 && number(request, "p50_us") <= number(request, "p99_us"));
    }
}

#[test]
fn perf_crypto_measures_every_operation() {
    let lines = Home::new().json(["perf", "crypto", "--runs", "2"]);
    let operations = lines_of(&lines, "crypto");
    assert_eq!(operations.len(), 10);
    for operation in operations {
        for way in ["vector_us", "single_us"] {
            assert!(
                number(&operation[way], "mean") > 0.0 && operation[way]["ci99_half"].is_number(),
                "{operation}"
            );
        }
    }
}
