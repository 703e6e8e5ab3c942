//! Other people's routing daemons on `namelyd`, unmodified: nine routers in a grid exchange routes,
//! two links are cut, and the routes come back another way. Skipped where NDNd is not installed or
//! there can be no namespaces.

use std::path::Path;

use namely_interop::{World, find_router, namespaces, run_testbed};
use namely_skip::{Need, or_skip};
use serde_json::Value;

#[test]
fn ndnds_distance_vector_routing_finds_routes_on_namelyd_and_finds_them_again() {
    let Some(ndnd) = or_skip(Need::Peers, namespaces().and_then(|()| find_router("ndnd", "NDND_BIN"))) else {
        return;
    };
    let world = World::new();
    let results = world.path("results");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/testbeds/grid-9-ndnd-dv.toml");
    let output = run_testbed(&world, &file, &results, &[ndnd]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["well"], summary["events"].as_array().unwrap().len()), (&true.into(), 2));
    // Every router knows the way, and the daemon made it: origin 128.
    for n in 1..=8 {
        let routes = std::fs::read_to_string(results.join(format!("r{n}/routes.json"))).unwrap();
        let mut routes = routes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert!(routes.any(|route| route["prefix"] == "/far" && route["origin"] == "nlsr"), "r{n}");
    }
}
