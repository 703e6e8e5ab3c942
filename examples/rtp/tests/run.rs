//! Sender and receiver as they run: two programs and a router between them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use namely_interop::{Link, Router, World};

#[test]
fn packets_come_in_real_time_and_what_the_sender_drops_is_counted_as_lost() {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    world.namely_key("/lab", "ed25519");
    let rtp = std::path::Path::new(env!("CARGO_BIN_EXE_rtp"));
    let program = || {
        let mut command = world.command(rtp);
        command.env("NAMELY_ROUTER", router.uri(Link::Unix)).stdout(Stdio::piped());
        command
    };
    let sent = ["send", "/lab/camera", "--packets", "100", "--interval-ms", "10", "--drop-every", "25"];
    let mut sender = program().args(sent).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(sender.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "sending below /lab/camera\n");
    let asked = [
        "receive",
        "/lab/camera",
        "--packets",
        "100",
        "--lifetime-ms",
        "1000",
        "--playout-ms",
        "60000",
        "--json",
    ];
    let received = program().args(asked).stderr(Stdio::inherit()).output().unwrap();
    assert!(received.status.success());
    let quality: serde_json::Value = serde_json::from_slice(&received.stdout).unwrap();
    assert_eq!(quality["asked"], 100, "{quality}");
    assert_eq!(quality["lost"], 4, "{quality}");
    assert_eq!(quality["received"], 96, "{quality}");
    assert_eq!((&quality["late"], &quality["strange"]), (&0.into(), &0.into()), "{quality}");
    assert!(quality["jitter_ms"].as_f64().unwrap() > 0.0, "{quality}");
    assert!(sender.wait().unwrap().success());
}
