//! Sender and player as they run: two programs and a router between them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use namely_interop::{Link, Router, World};

struct Studio {
    world: World,
    router: Router,
}

impl Studio {
    fn new() -> Self {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        world.namely_key("/Net-A", "ed25519");
        Studio { world, router }
    }

    /// The program with its arguments, and a video of `segments` of a quarter of a second.
    fn video(&self, words: &[&str], segments: &str) -> Command {
        let mut command = self.world.command(env!("CARGO_BIN_EXE_video"));
        command.env("NAMELY_ROUTER", self.router.uri(Link::Unix)).stdout(Stdio::piped());
        command.args(words).args(["--segments", segments, "--segment-ms", "250"]);
        command
    }

    fn send(&self, words: &[&str], segments: &str) -> Child {
        // The test ends it.
        let send = ["send", "/Net-A/prdc-01/0/Video/720p", "--kbit-per-s", "4000", "--linger-ms", "3600000"];
        let send = [&send[..], words].concat();
        let mut sender = self.video(&send, segments).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(sender.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "sending below /Net-A/prdc-01/0/Video/720p\n");
        sender
    }

    fn play(&self, words: &[&str], segments: &str) -> serde_json::Value {
        let play = [&["play", "/Net-A/prdc-01/0/Video/720p", "--json"], words].concat();
        let played = self.video(&play, segments).output().unwrap();
        assert!(played.status.success());
        serde_json::from_slice(&played.stdout).unwrap()
    }
}

fn end(mut sender: Child) {
    sender.kill().unwrap();
    sender.wait().unwrap();
}

#[test]
fn a_video_plays_completely_in_time() {
    let studio = Studio::new();
    let sender = studio.send(&[], "8");
    let started = std::time::Instant::now();
    let quality = studio.play(&["--timeout-ms", "60000"], "8");
    assert!(started.elapsed().as_millis() >= 4 * 250, "the buffer's last segments are asked for in time");
    assert_eq!((&quality["segments"], &quality["octets"]), (&8.into(), &1_000_000.into()), "{quality}");
    assert_eq!((&quality["missed"], &quality["wrong"]), (&0.into(), &0.into()), "{quality}");
    assert!(quality["startup_ms"].as_f64().unwrap() > 0.0, "{quality}");
    end(sender);
}

#[test]
fn a_live_video_plays_while_produced() {
    let studio = Studio::new();
    let sender = studio.send(&["--live"], "6");
    let quality = studio.play(&["--timeout-ms", "8000", "--first", "1"], "7");
    assert_eq!((&quality["segments"], &quality["missed"]), (&6.into(), &1.into()), "{quality}");
    assert_eq!(quality["wrong"], 0, "{quality}");
    end(sender);
}
