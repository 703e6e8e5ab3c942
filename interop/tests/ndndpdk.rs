//! Programs at an NDN-DPDK forwarder (VI-05). A GraphQL engine with the schema of its management,
//! and `namelyd` with shared memory, replace the forwarder. A file crosses two faces that this
//! management creates. NDN-DPDK itself needs DPDK and huge pages, and has not been run.

use namely_interop::{Link, Router, Running, World, ndndpdk_management, programs};
use namely_testkit::{Need, or_skip};

/// The management, and the router that joins its faces.
struct Forwarder {
    world: World,
    process: Running,
    uri: String,
    _router: Router,
}

impl Forwarder {
    fn new() -> Option<Self> {
        let program = or_skip(Need::Node, ndndpdk_management())?;
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        let mut command = world.command("node");
        command.arg(program).arg(programs()).arg(world.dir());
        let udp = router.uri(Link::Udp).replace("udp:", "udp4:");
        command.args([router.uri(Link::Unix), udp]);
        let mut process = Running::start("management", command, world.dir());
        let port = process.event("ready")["port"].clone();
        let uri = format!("ndndpdk://127.0.0.1:{port}?sockets={}", world.dir().display());
        Some(Forwarder { world, process, uri, _router: router })
    }
}

#[test]
fn a_file_crosses_ndn_dpdk_faces() {
    let Some(mut forwarder) = Forwarder::new() else { return };
    let (world, uri) = (&forwarder.world, &forwarder.uri);
    // A packet larger than a buffer of 2048 octets is fragmented.
    let file = world.payload("files/f", 3_000_000, 5);
    let mut server = world.serve(uri, &world.path("files"), &["--prefix", "/dpdk/files"]);
    assert_eq!(forwarder.process.event("face")["id"], "F1");
    let entry = forwarder.process.event("entry");
    assert_eq!((&entry["name"], &entry["nexthops"][0]), (&"/8=dpdk/8=files".into(), &"F1".into()));

    let out = world.path("out");
    world.get(uri, "/dpdk/files/f", &out, &[]).success();
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&file).unwrap());
    assert_eq!(forwarder.process.event("face")["id"], "F2");
    let deleted = forwarder.process.event("deleted");
    assert_eq!((&deleted["id"], &deleted["found"]), (&"F2".into(), &true.into()));

    assert!(server.stop().is_some_and(|status| status.success()), "{}", server.errors_text());
    for id in ["E/8=dpdk/8=files", "F1"] {
        assert_eq!(forwarder.process.event("deleted")["id"], id);
    }
    assert!(!server.errors_text().contains("left behind"), "{}", server.errors_text());
    let said = forwarder.process.finish();
    assert!(said.status.success() && said.events("errors").is_empty(), "{:?}", said.lines);
}
