//! Unmodified routing daemons of other projects on `namelyd`: nine routers in a grid exchange
//! routes, two links are cut, and the daemons find other paths. Skipped if the daemon is not
//! installed or namespaces cannot be created.

use std::path::Path;

use namely_interop::{World, find_router, namespaces, run_testbed};
use namely_testkit::{Need, or_skip};
use serde_json::Value;

/// Runs a testbed of docs/testbeds with `daemon` on its nodes, and checks the routes.
fn routes_are_found_and_found_again(need: Need, daemon: &str, variable: &str, file: &str) {
    let Some(()) = or_skip(Need::Namespaces, namespaces()) else { return };
    let Some(program) = or_skip(need, find_router(daemon, variable)) else { return };
    let world = World::new();
    let results = world.path("results");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/testbeds").join(file);
    let output = run_testbed(&world, &file, &results, &[program]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["well"], summary["events"].as_array().unwrap().len()), (&true.into(), 2));
    // Each router except the producer's has a route that the daemon registered, with origin 128
    // (`nlsr`).
    for n in 1..=8 {
        let routes = std::fs::read_to_string(results.join(format!("r{n}/routes.json"))).unwrap();
        let mut routes = routes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert!(routes.any(|route| route["prefix"] == "/far" && route["origin"] == "nlsr"), "r{n}");
    }
}

#[test]
fn ndnd_routing_recovers_routes_on_namelyd() {
    routes_are_found_and_found_again(Need::Peers, "ndnd", "NDND_BIN", "grid-9-ndnd-dv.toml");
}

#[test]
fn nlsr_recovers_routes_on_namelyd() {
    routes_are_found_and_found_again(Need::Nlsr, "nlsr", "NLSR_BIN", "grid-9-nlsr.toml");
}
