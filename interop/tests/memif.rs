//! Applications on NDNgo, the library of NDN-DPDK, over shared memory. Its memif is gomemif, which is not our code, and it sends link
//! packets with PIT tokens and fragments.

use std::path::Path;
use std::process::Command;

use namely_interop::{Finished, Link, Router, Running, World, eventually, ndngo_memif, or_skip};
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
fn applications_on_ndngo_serve_and_fetch_through_shared_memory() {
    let Some(program) = or_skip(ndngo_memif()) else { return };
    let world = World::new();
    let (router, socket) = Router::namelyd_with_memif(&world);
    let unix = router.uri(Link::Unix);
    // What fits one of NDNgo's buffers of 2048 octets, and what is cut into fragments.
    for (prefix, octets) in [("/go/short", "1000"), ("/go/long", "7000")] {
        let command = ndngo(&world, &program, &socket, &["produce", prefix, octets]);
        let mut producer = Running::start("NDNgo", command, world.dir());
        producer.event("ready");
        let faces = memif_faces(&world, &unix);
        assert_eq!(faces.len(), 1, "{faces:?}");
        namely(&world, &unix, &["route", "add", prefix, &faces[0]]);
        // namely's own, over the Unix socket and over shared memory.
        for uri in [unix.clone(), format!("memif://{}", socket.display())] {
            let name = format!("{prefix}/to-namely-by-{}", &uri[..4]);
            let peeked = world.namely(["--router", &uri, "peek", &name]).success();
            let content = peeked.values()[0]["content_octets"].as_u64();
            assert_eq!(content, octets.parse().ok(), "{:?}", peeked.lines);
        }
        // And another application on NDNgo.
        let consume = ndngo(&world, &program, &socket, &["consume", prefix, "300", octets]);
        let fetched = Finished::run("NDNgo", consume, world.dir()).success().event("fetched");
        assert_eq!(fetched["count"], 300);
        drop(producer);
        eventually("the face goes with its application", || memif_faces(&world, &unix).is_empty());
    }
}
