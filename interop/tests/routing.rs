//! Other people's routing daemons on `namelyd`, unmodified: nine routers in a grid exchange routes,
//! two links are cut, and the routes come back another way. Skipped where NDNd is not installed or
//! there can be no namespaces.

use std::path::Path;

use namely_interop::{World, find_router, programs};
use namely_skip::{Need, or_skip};
use serde_json::Value;

/// What keeps a testbed from being built here.
fn namespaces() -> Result<(), String> {
    let root = rustix::process::geteuid().is_root();
    let user: &[&str] = if root { &[] } else { &["--user", "--map-root-user"] };
    let mut command = std::process::Command::new("unshare");
    command.args(user).args(["--net", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c"]);
    command.arg("mount -t tmpfs x /run && ip netns add x");
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("no namespaces: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(e) => Err(format!("no unshare: {e}")),
    }
}

#[test]
fn ndnds_distance_vector_routing_finds_routes_on_namelyd_and_finds_them_again() {
    let Some(ndnd) = or_skip(Need::Peers, namespaces().and_then(|()| find_router("ndnd", "NDND_BIN"))) else {
        return;
    };
    let world = World::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/testbeds/grid-9-ndnd-dv.toml");
    // The file says `ndnd`: the one that was found comes first.
    let bin = world.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(ndnd.canonicalize().unwrap(), bin.join("ndnd")).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
    let mut command = world.command(programs().join("namely"));
    command.arg("--json").args(["testbed", "run"]).arg(file).env("PATH", path);
    let results = world.path("results");
    let output = command.arg("--results").arg(&results).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["well"], summary["events"].as_array().unwrap().len()), (&true.into(), 2));
    // Every router knows the way, and the daemon made it: origin 128.
    for n in 1..=8 {
        let routes = std::fs::read_to_string(results.join(format!("r{n}/routes.json"))).unwrap();
        let mut routes = routes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert!(routes.any(|route| route["prefix"] == "/far" && route["origin"] == "nlsr"), "r{n}");
    }
}
