//! Every case of cases.txt through every binding's driver over every connector (README.md of this
//! crate).

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

use namely_conformance::case::{Case, parse};
use namely_conformance::run::{Binding, Environment, run};
use namely_interop::{Link, Router, World, programs, python_package};
use namely_testbed::Net;
use namely_testkit::{Need, or_skip, skip};

/// Above the prefixes of all cases; the drivers have a key for it.
const PREFIX: &str = "/conformance";

/// Environment variable with a part of the titles of the cases to run; unset: all.
const ONLY_VARIABLE: &str = "NAMELY_CONFORMANCE_CASE";

/// Environment variables with a compiled driver of C, and with a Python that has the package.
const C_DRIVER_VARIABLE: &str = "NAMELY_C_DRIVER";
const PYTHON_VARIABLE: &str = "NAMELY_PYTHON_DRIVER";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is above the crate")
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases.txt");
    let text = std::fs::read_to_string(path).expect("cases.txt");
    let cases = parse(&text).expect("cases in the README's format");
    assert!(cases.len() > 10, "cases.txt has cases");
    let only = std::env::var(ONLY_VARIABLE).unwrap_or_default();
    cases.into_iter().filter(|case| case.title.contains(&only)).collect()
}

/// The available drivers. For each missing one, prints the reason.
fn bindings(world: &World) -> Vec<Binding> {
    let rust = Binding { name: "rust", command: Box::new(|| Command::new(programs().join("driver-rust"))) };
    let mut bindings = vec![rust];
    if let Some(driver) = or_skip(Need::Cc, c_driver(world)) {
        bindings.push(Binding { name: "c", command: Box::new(move || Command::new(&driver)) });
    }
    let python = std::env::var_os(PYTHON_VARIABLE).map_or_else(python_package, |python| Ok(python.into()));
    if let Some(python) = or_skip(Need::Python, python) {
        let driver = root().join("bindings/python/tests/driver.py");
        let command = move || {
            let mut command = Command::new(&python);
            command.arg(&driver);
            command
        };
        bindings.push(Binding { name: "python", command: Box::new(command) });
    }
    bindings
}

/// The driver of C, linked with an installed libnamely. It lies in the world of the test: another
/// user may own the folder of the programs.
fn c_driver(world: &World) -> Result<PathBuf, String> {
    if let Some(driver) = std::env::var_os(C_DRIVER_VARIABLE) {
        return Ok(driver.into());
    }
    for tool in ["cc", "pkg-config"] {
        Command::new(tool).arg("--version").output().map_err(|e| format!("{tool} cannot be run: {e}"))?;
    }
    let prefix = world.path("usr");
    output(Command::new(programs().join("namely-c-install")).arg("--prefix").arg(&prefix));
    let flags = output(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "namely"])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
    );
    let driver = world.path("driver-c");
    let source = root().join("bindings/c/tests/driver.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-o"]);
    compiler.arg(&driver).arg(source).args(flags.split_whitespace());
    output(compiler.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display())).arg("-lpthread"));
    Ok(driver)
}

/// The output of a command. A command that exists and fails is a fault, not a missing need.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs every case through every driver over the router, and over one with the producers of one
/// binding and the consumers of another.
fn every_case(connector: &'static str, link: Link, start: impl Fn(&World, &Path) -> Result<Router, String>) {
    every_case_at(connector, |router| router.uri(link), start);
}

fn every_case_at(
    connector: &'static str,
    uri: impl Fn(&Router) -> String,
    start: impl Fn(&World, &Path) -> Result<Router, String>,
) {
    let world = World::new();
    let certificate = world.namely_key(PREFIX, "ed25519");
    let Some(router) = or_skip(Need::Peers, start(&world, &certificate)) else { return };
    every_case_in(&world, connector, uri(&router), || router.log());
}

/// Runs every case over the router at `uri`. `log` returns the router's log.
fn every_case_in(world: &World, connector: &'static str, uri: String, log: impl Fn() -> String) {
    let (cases, bindings, home) = (cases(), bindings(world), world.path("namely"));
    let place = Environment { connector, router: uri, home: &home, dir: world.dir(), prefix: PREFIX };
    let pairs = bindings.iter().zip(bindings.iter().cycle().skip(1));
    let mixed = pairs.filter(|(one, other)| connector == "unix" && one.name != other.name);
    let runs: Vec<_> = bindings.iter().map(|binding| (binding, binding)).chain(mixed).collect();
    // The runs are parallel: a case waits for timers nearly all of its time, and each run has names
    // and drivers of its own.
    let failed: Vec<String> = std::thread::scope(|scope| {
        let (cases, place) = (&cases[..], &place);
        let started: Vec<_> = runs
            .into_iter()
            .map(|(one, other)| scope.spawn(move || one_run(cases, one, other, place)))
            .collect();
        started.into_iter().flat_map(|run| run.join().unwrap_or_else(|why| resume_unwind(why))).collect()
    });
    assert!(failed.is_empty(), "{}\n{}", failed.join("\n"), log());
}

/// Runs every case with producers of one binding and consumers of one. Returns the failures.
fn one_run(cases: &[Case], producers: &Binding, consumers: &Binding, place: &Environment<'_>) -> Vec<String> {
    let started = std::time::Instant::now();
    let report = run(cases, producers, consumers, place);
    let who =
        format!("producers in {}, consumers in {}, over {}", producers.name, consumers.name, place.connector);
    let (longest, slowest) = &report.slowest;
    let all = started.elapsed();
    println!(
        "{who}: {} cases passed in {all:.1?}, the slowest in {longest:.1?} ('{slowest}')",
        report.passed
    );
    if !report.left_out.is_empty() {
        println!("  not for this binding or connector: {}", report.left_out.join("; "));
    }
    report.failed.into_iter().map(|why| format!("{who}: {why}")).collect()
}

fn namelyd(world: &World, certificate: &Path) -> Result<Router, String> {
    Ok(Router::namelyd(world, &[certificate]))
}

#[test]
fn bindings_pass_every_case_over_unix_sockets() {
    every_case("unix", Link::Unix, namelyd);
}

#[test]
fn bindings_pass_every_case_over_shared_memory() {
    every_case("memif", Link::Memif, namelyd);
}

#[test]
fn bindings_pass_every_case_over_tcp() {
    every_case("tcp", Link::Tcp, namelyd);
}

#[test]
fn bindings_pass_every_case_over_udp() {
    every_case("udp", Link::Udp, |world, certificate| {
        Ok(Router::namelyd_without_udp_limits(world, &[certificate]))
    });
}

/// Drivers and router are in two namespaces that a veth pair joins; each socket of a driver is a
/// station of its own.
#[test]
fn bindings_pass_every_case_over_ethernet() {
    const ROUTER: &str = "02:00:00:00:00:0a";
    let Some(net) = or_skip(Need::Namespaces, Net::new(&["router", "apps"])) else { return };
    let pair =
        format!("-n {{router}} link add veth0 address {ROUTER} type veth peer name veth0 netns {{apps}}");
    let steps = [&pair[..], "-n {router} link set veth0 up", "-n {apps} link set veth0 up"];
    if or_skip(Need::Namespaces, steps.iter().try_for_each(|step| net.ip(step))).is_none() {
        return;
    }
    let (uri, namespace) = (format!("ether://[{ROUTER}%veth0]"), net.name("router"));
    // No registry is reached from the namespace, so the package is installed before. A failed
    // installation is not repeated by any test of this process; `bindings` reports it.
    let _ = python_package();
    net.enter("apps", || {
        every_case_at(
            "ethernet",
            |_| uri.clone(),
            |world, certificate| {
                Ok(Router::namelyd_on_ethernet(world, namespace, "veth0", &[certificate], "off"))
            },
        );
    });
}

#[test]
fn bindings_pass_every_case_over_nfd() {
    every_case("nfd", Link::Unix, |world, _| Router::nfd(world));
}

#[test]
fn bindings_pass_every_case_over_ndnd() {
    every_case("ndnd", Link::Unix, |world, _| Router::ndnd(world));
}

/// No router at all: the forwarder in the kernel, of a guest that `kernel/run --tools` boots.
#[test]
fn bindings_pass_every_case_over_the_kernel() {
    if std::env::var_os("NAMELY_GUEST").is_none() {
        return skip(Need::Guest, "it loads a module: `kernel/run --tools` runs it in a guest");
    }
    let namely = |words: &[&str]| output(Command::new(programs().join("namely")).arg("kernel").args(words));
    namely(&["load", "--module", "/modules/nnet.ko"]);
    namely(&["route", "add", PREFIX, "local"]);
    let world = World::new();
    world.namely_key(PREFIX, "ed25519");
    every_case_in(&world, "kernel", "kernel://".into(), || namely(&["status", "--counters"]));
    namely(&["unload"]);
}
