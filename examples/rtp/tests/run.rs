//! Sender and receiver as they run: two programs and a router between them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use namely_interop::{Link, Router, World};

/// A router, and a key for the names below `/lab`.
fn studio() -> (World, Router) {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    world.namely_key("/lab", "ed25519");
    (world, router)
}

/// The program, without arguments.
fn rtp(world: &World, router: &Router) -> Command {
    let mut command = world.command(env!("CARGO_BIN_EXE_rtp"));
    command.env("NAMELY_ROUTER", router.uri(Link::Unix)).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

#[test]
fn packets_arrive_in_real_time() {
    let (world, router) = studio();
    let program = || rtp(&world, &router);
    let sent = ["send", "/lab/camera", "--packets", "100", "--interval-ms", "10", "--drop-every", "25"];
    // On a busy machine the receiver may begin seconds later. Its Interests wait so long that none
    // but the dropped packets are lost.
    let mut sender = program().args(sent).args(["--linger-ms", "20000"]).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(sender.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "sending below /lab/camera\n");
    let asked = [
        "receive",
        "/lab/camera",
        "--from",
        "0",
        "--packets",
        "100",
        "--lifetime-ms",
        "6000",
        "--playout-ms",
        "60000",
        "--json",
    ];
    let received = program().args(asked).output().unwrap();
    assert!(received.status.success());
    let quality: serde_json::Value = serde_json::from_slice(&received.stdout).unwrap();
    assert_eq!(quality["asked"], 100, "{quality}");
    assert_eq!(quality["lost"], 4, "{quality}");
    assert_eq!(quality["received"], 96, "{quality}");
    assert_eq!((&quality["late"], &quality["strange"]), (&0.into(), &0.into()), "{quality}");
    assert!(quality["jitter_ms"].as_f64().unwrap() > 0.0, "{quality}");
    assert!(sender.wait().unwrap().success());
}

#[test]
fn a_receiver_joins_at_the_newest_packet() {
    let (world, router) = studio();
    let program = || rtp(&world, &router);
    let started = std::time::Instant::now();
    let mut sender = program()
        .args(["send", "/lab/camera", "--packets", "100000", "--interval-ms", "10"])
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(sender.stdout.take().unwrap()).read_line(&mut said).unwrap();
    // A packet of a busy machine takes longer than usual and is not lost.
    let receive = |words: &[&str]| {
        let asked = ["receive", "/lab/camera", "--lifetime-ms", "60000", "--playout-ms", "60000", "--json"];
        let received = program().args(asked).args(words).output().unwrap();
        assert!(received.status.success());
        let quality: serde_json::Value = serde_json::from_slice(&received.stdout).unwrap();
        assert_eq!(quality["lost"], 0, "{quality}");
        quality
    };
    let mut sent = 50_u64;
    for _ in 0..2 {
        // The stream is at this packet.
        assert_eq!(receive(&["--from", &sent.to_string(), "--packets", "1"])["received"], 1);
        let quality = receive(&["--packets", "30"]);
        let after = started.elapsed().as_millis() as u64 / 10;
        assert_eq!(quality["received"], 30, "{quality}");
        let from = quality["first"].as_u64().unwrap();
        // The receiver starts neither at the beginning of the stream, nor behind its end at that
        // time.
        assert!(from >= sent && from <= after + 1, "{quality}: joined between {sent} and {after}");
        sent = from + 80;
    }
    sender.kill().unwrap();
    sender.wait().unwrap();
}
