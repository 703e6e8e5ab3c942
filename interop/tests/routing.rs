//! Other people's routing daemons on `namelyd`, unmodified: nine routers in a grid exchange routes,
//! two links are cut, and the routes come back another way. Skipped where the daemon is not
//! installed or there can be no namespaces.

use std::path::Path;

use namely_interop::{World, find_router, namespaces, run_testbed};
use namely_skip::{Need, or_skip};
use serde_json::Value;

/// Runs a testbed of docs/testbeds whose nodes have this daemon.
fn routes_are_found_and_found_again(need: Need, daemon: &str, variable: &str, file: &str) {
    let Some(()) = or_skip(Need::Namespaces, namespaces()) else { return };
    let Some(program) = or_skip(need, find_router(daemon, variable)) else { return };
    let world = World::new();
    let results = world.path("results");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/testbeds").join(file);
    let output = run_testbed(&world, &file, &results, &[program]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["well"], summary["events"].as_array().unwrap().len()), (&true.into(), 2));
    // Every router knows the way, and the daemon made it: origin 128.
    for n in 1..=8 {
        let routes = std::fs::read_to_string(results.join(format!("r{n}/routes.json"))).unwrap();
        let mut routes = routes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert!(routes.any(|route| route["prefix"] == "/far" && route["origin"] == "nlsr"), "r{n}");
    }
}

#[test]
fn ndnds_distance_vector_routing_finds_routes_on_namelyd_and_finds_them_again() {
    routes_are_found_and_found_again(Need::Peers, "ndnd", "NDND_BIN", "grid-9-ndnd-dv.toml");
}

#[test]
fn nlsr_finds_routes_on_namelyd_and_finds_them_again() {
    routes_are_found_and_found_again(Need::Nlsr, "nlsr", "NLSR_BIN", "grid-9-nlsr.toml");
}
