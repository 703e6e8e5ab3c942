//! Tests of shared memory with other implementations of memif. Applications on NDNgo, the library
//! of NDN-DPDK, use gomemif, and send link packets with PIT tokens and fragments. A bridge on
//! libmemif, the library of FD.io, connects a router in both roles to another router over UDP.

use std::path::Path;
use std::process::Command;

use namely_interop::{Finished, Link, Router, Running, World, eventually, libmemif_bridge, ndngo_memif};
use namely_testkit::{Need, or_skip};
use serde_json::Value;

fn namely(world: &World, router: &str, args: &[&str]) -> Vec<Value> {
    world.namely([&["--router", router], args].concat()).success().values()
}

fn memif_faces(world: &World, router: &str) -> Vec<String> {
    let faces = namely(world, router, &["face", "list"]);
    let is_memif = |face: &&Value| face["local"].as_str().is_some_and(|uri| uri.starts_with("memif://"));
    faces.iter().filter(is_memif).map(|face| face["face_id"].to_string()).collect()
}

fn ndngo(world: &World, program: &Path, socket: &Path, args: &[&str]) -> Command {
    let mut command = world.command(program);
    command.arg(socket).args(args);
    command
}

#[test]
fn ndngo_applications_use_shared_memory() {
    let Some(program) = or_skip(Need::Go, ndngo_memif()) else { return };
    let world = World::new();
    let (router, socket) = Router::namelyd_with_memif(&world);
    let unix = router.uri(Link::Unix);
    // A packet that fits one of NDNgo's buffers of 2048 octets, and one that needs fragments.
    for (prefix, octets) in [("/go/short", "1000"), ("/go/long", "7000")] {
        let command = ndngo(&world, &program, &socket, &["produce", prefix, octets]);
        let mut producer = Running::start("NDNgo", command, world.dir());
        producer.event("ready");
        let faces = memif_faces(&world, &unix);
        assert_eq!(faces.len(), 1, "{faces:?}");
        namely(&world, &unix, &["route", "add", prefix, &faces[0]]);
        // `namely peek` fetches a packet over the Unix socket and over shared memory.
        for uri in [unix.clone(), format!("memif://{}", socket.display())] {
            let name = format!("{prefix}/to-namely-by-{}", &uri[..4]);
            let peeked = world.namely(["--router", &uri, "peek", &name]).success();
            let content = peeked.values()[0]["content_octets"].as_u64();
            assert_eq!(content, octets.parse().ok(), "{:?}", peeked.lines);
        }
        // Another application on NDNgo fetches packets, too.
        let consume = ndngo(&world, &program, &socket, &["consume", prefix, "300", octets]);
        let fetched = Finished::run("NDNgo", consume, world.dir()).success().event("fetched");
        assert_eq!(fetched["count"], 300);
        drop(producer);
        eventually("the face goes with its application", || memif_faces(&world, &unix).is_empty());
    }
}

/// Serves a file at the router `from` and fetches it at the router `to`. The face `face` of `to`
/// leads to `from`.
fn fetch_across(world: &World, from: &str, to: &str, face: &str, prefix: &str) {
    let folder = world.path(&prefix[1..]);
    let file = world.payload(&format!("{}/f", &prefix[1..]), 2_000_000, 7);
    let server = world.serve(from, &folder, &["--prefix", prefix]);
    namely(world, to, &["route", "add", prefix, face]);
    let out = world.path(&format!("{}.out", &prefix[1..]));
    world.get(to, &format!("{prefix}/f"), &out, &[]).success();
    assert!(std::fs::read(&out).unwrap() == std::fs::read(file).unwrap(), "{prefix}");
    drop(server);
}

/// Waits for a face whose URI starts with `scheme`, and returns its id.
fn face_of(world: &World, router: &str, scheme: &str) -> String {
    let find = || {
        let faces = namely(world, router, &["face", "list"]);
        let is_it = |uri: &Value| uri.as_str().is_some_and(|uri| uri.starts_with(scheme));
        let mut found = faces.iter().filter(|face| is_it(&face["remote"]) || is_it(&face["local"]));
        found.next().map(|face| face["face_id"].to_string())
    };
    eventually(scheme, || find().is_some());
    find().unwrap()
}

#[test]
fn libmemif_carries_files_in_both_roles() {
    let Some(program) = or_skip(Need::Vpp, libmemif_bridge()) else { return };
    for role in ["client", "server"] {
        // The far router connects by UDP only, and the near router by shared memory only.
        let (near_world, far_world) = (World::new(), World::new());
        let far = Router::namelyd(&far_world, &[]);
        let (near, memif) = Router::namelyd_with_memif(&near_world);
        let (near, far_unix) = (near.uri(Link::Unix), far.uri(Link::Unix));
        let peer = far.uri(Link::Udp).rsplit(':').next().unwrap().to_owned();
        let local = namely_testkit::free_port().to_string();
        let socket = if role == "client" { memif } else { near_world.path("bridge.memif") };
        let mut command = near_world.command(&program);
        // A packet of 8000 octets does not fit into one buffer.
        command.arg(&socket).args([role, "2048", &local, &peer]);
        let uri = format!("memif://{}", socket.display());
        if role == "server" {
            // A permanent face exists before its server, and waits for it.
            namely(&near_world, &near, &["face", "create", &uri, "--persistency", "permanent"]);
        }
        let bridge = Running::start("libmemif", command, near_world.dir());
        let to_far = face_of(&near_world, &near, &uri);
        let made = namely(&far_world, &far_unix, &["face", "create", &format!("udp4://127.0.0.1:{local}")]);
        let to_near = made[0]["face_id"].to_string();
        fetch_across(&near_world, &far_unix, &near, &to_far, &format!("/from-far-{role}"));
        fetch_across(&far_world, &near, &far_unix, &to_near, &format!("/from-near-{role}"));
        drop(bridge);
        if role == "client" {
            eventually("the face goes with its application", || memif_faces(&near_world, &near).is_empty());
        }
    }
}
