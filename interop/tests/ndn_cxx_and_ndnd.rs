//! Programs built on ndn-cxx (ndn-tools, nfdc, ndnsec) and NDNd's clients, unmodified, with
//! `namelyd` and namely's tools. The tests find them on the PATH, or in the folder named by
//! NDN_TOOLS_DIR.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use namely_interop::{Finished, Link, Router, Running, World, eventually, find_tool};
use namely_testkit::{Need, or_skip};

/// One test's world, with a router and the programs found.
struct Site {
    world: World,
    router: Router,
}

impl Site {
    fn new() -> Self {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        Site { world, router }
    }

    fn uri(&self) -> String {
        self.router.uri(Link::Unix)
    }

    /// A command of another project's program, which finds its router by NDN_CLIENT_TRANSPORT.
    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = self.world.command(program);
        command.args(args).env("NDN_CLIENT_TRANSPORT", self.uri());
        command
    }

    fn run(&self, program: &Path, args: &[&str]) -> Finished {
        Finished::run("tool", self.command(program, args), self.world.dir())
    }

    /// Runs a program that prints octets, and returns them.
    fn octets(&self, program: &Path, args: &[&str]) -> Vec<u8> {
        let output = self.command(program, args).stdin(Stdio::null()).output().expect("the program starts");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Starts a producer with `input` as its standard input and waits until `prefix` is registered.
    fn produce(&self, program: &Path, args: &[&str], input: &Path, prefix: &str) -> Running {
        let mut command =
            self.command(Path::new("/bin/sh"), &["-c", "input=$1; shift; exec \"$@\" < \"$input\"", "sh"]);
        command.arg(input).arg(program).args(args);
        let producer = Running::start("producer", command, self.world.dir());
        eventually("the prefix is registered", || {
            let routes = self.world.namely(["--router", &self.uri(), "route", "list"]).success().values();
            routes.iter().any(|route| route["prefix"] == prefix)
        });
        producer
    }
}

/// Runs `test` with the programs, unless one is not installed.
fn with_tools<const N: usize>(names: [&str; N], test: impl FnOnce(&Site, [&Path; N])) {
    let found: Result<Vec<PathBuf>, String> = names.iter().map(|name| find_tool(name)).collect();
    if let Some(paths) = or_skip(Need::Peers, found) {
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        test(&Site::new(), paths.try_into().expect("as many as were asked for"));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
}

#[test]
fn ndncatchunks_fetches_files_and_directories() {
    with_tools(["ndncatchunks"], |site, [catchunks]| {
        let file = site.world.payload("data/file", 300_001, 1);
        let server = site.world.serve(&site.uri(), &site.world.path("data"), &["--prefix", "/lab/data"]);
        assert!(
            site.octets(catchunks, &["-q", "/lab/data/file"]) == read(&file),
            "the file arrives as it is"
        );
        assert_eq!(site.octets(catchunks, &["-q", "/lab/data/32=ls"]), b"file\0");
        drop(server);
    });
}

#[test]
fn namely_gets_files_from_ndnputchunks() {
    with_tools(["ndnputchunks"], |site, [putchunks]| {
        let input = site.world.payload("input", 300_001, 2);
        let args = ["-s", "8000", "-S", "id:/localhost/identity/digest-sha256", "/tools/object"];
        let producer = site.produce(putchunks, &args, &input, "/tools/object");
        let out = site.world.path("out");
        site.world.get(&site.uri(), "/tools/object", &out, &["--digest-only"]).success();
        assert!(read(&out) == read(&input), "the object arrives as it is");
        drop(producer);
    });
}

#[test]
fn ndnping_and_namely_ping_interoperate() {
    with_tools(["ndnping", "ndnpingserver"], |site, [ping, server]| {
        let ours = site.world.start_namely(["--router", &site.uri(), "pingserver", "/lab/ours"]);
        let theirs = site.produce(server, &["/lab/theirs"], Path::new("/dev/null"), "/lab/theirs/ping");
        eventually("ndnping is answered", || {
            site.run(ping, &["-c", "1", "-i", "10", "/lab/ours"]).lines.join("\n").contains("1 received")
        });
        site.world.namely(["--router", &site.uri(), "ping", "/lab/theirs", "-c", "1"]).success();
        drop((ours, theirs));
    });
}

#[test]
fn ndnpeek_and_ndnpoke_interoperate() {
    with_tools(["ndnpeek", "ndnpoke"], |site, [peek, poke]| {
        let input = site.world.payload("greeting", 40, 1);
        let theirs = site.produce(poke, &["-f", "1000", "/lab/theirs"], &input, "/lab/theirs");
        let mut command = site.world.namely_command(["--router", &site.uri(), "peek", "/lab/theirs"]);
        let peeked = command.arg("--payload").output().expect("namely starts");
        assert!(peeked.status.success() && peeked.stdout == read(&input), "{peeked:?}");
        assert!(theirs.finish().status.success(), "ndnpoke ends when its Data was asked for");
        let mut command = site.world.command("/bin/sh");
        command.args(["-c", "input=$1; shift; exec \"$@\" < \"$input\"", "sh"]).arg(&input);
        command.arg(namely_interop::programs().join("namely"));
        command.args(["--router", &site.uri(), "poke", "/lab/ours", "--digest"]);
        let ours = Running::start("namely poke", command, site.world.dir());
        eventually("ndnpeek has what namely pokes", || {
            let output = site.command(peek, &["-p", "/lab/ours"]).output().expect("ndnpeek starts");
            output.status.success() && output.stdout == read(&input)
        });
        assert!(ours.finish().status.success());
    });
}

/// Arguments of `nfdc` in this order, its expected output, and its exit status.
const NFDC: &[(&str, &str, i32)] = &[
    ("status", "version=namely", 0),
    ("status report", "nFibEntries=", 0),
    ("status report xml", "<version>namely", 0),
    ("face create udp4://127.0.0.1:9 persistency permanent", "face-created", 0),
    ("face create udp4://127.0.0.1:9", "face-exists", 0),
    (
        "face create udp4://127.0.0.1:19 mtu 1300 reliability on",
        "persistency=persistent reliability=on congestion-marking=on",
        0,
    ),
    ("face list", "remote=udp4://127.0.0.1:9 ", 0),
    ("face list remote udp4://127.0.0.1:19", "mtu=1300 ", 0),
    ("face show 1", "remote=internal://local", 0),
    ("face create dev://nosuch", "Error 406", 1),
    ("route add /lab udp4://127.0.0.1:9 cost 7", "route-add-accepted", 0),
    (
        "route add /lab udp4://127.0.0.1:19 expires 60000 no-inherit capture",
        "flags=capture expires=60000ms",
        0,
    ),
    ("route list", "prefix=/lab ", 0),
    ("route list nexthop udp4://127.0.0.1:9", "origin=static cost=7", 0),
    ("route show /lab", "flags=capture", 0),
    ("route remove /lab udp4://127.0.0.1:9", "route-removed", 0),
    ("route add /lab 9999", "Face not found", 3),
    ("fib list", "/localhost/nfd", 0),
    ("strategy set /lab multicast", "strategy-set", 0),
    ("strategy list", "prefix=/lab strategy=/localhost/nfd/strategy/multicast", 0),
    ("strategy show /lab/x", "strategy=/localhost/nfd/strategy/multicast", 0),
    ("strategy set /lab asf", "/localhost/nfd/strategy/asf/v=5", 0),
    ("strategy set /lab nosuch", "Unknown strategy", 7),
    ("strategy unset /lab", "strategy-unset", 0),
    ("cs config capacity 1000", "capacity=1000", 0),
    ("cs config admit off serve off", "admit=off serve=off", 0),
    ("cs erase /lab", "cs-erased", 0),
    ("cs info", "capacity=1000", 0),
    ("channel list", "tcp4://127.0.0.1", 0),
    ("face destroy udp4://127.0.0.1:9", "face-destroyed", 0),
    ("face destroy udp4://127.0.0.1:9", "Face not found", 3),
];

#[test]
fn nfdc_manages_namelyd() {
    with_tools(["nfdc"], |site, [nfdc]| {
        for (args, expected, status) in NFDC {
            let words: Vec<&str> = args.split(' ').collect();
            let finished = site.run(nfdc, &words);
            let said = finished.lines.join("\n") + &finished.errors;
            assert!(said.contains(expected), "nfdc {args}: {said}");
            assert_eq!(finished.status.code(), Some(*status), "nfdc {args}: {said}");
        }
    });
}

#[test]
fn safe_bags_exchange_keys_with_ndnsec() {
    with_tools(["ndnsec"], |site, [ndnsec]| {
        for kind in ["rsa", "ecdsa"] {
            let identity = format!("/lab/{kind}");
            site.world.namely_key(&identity, kind);
            let bag = site.world.path("ours.safebag");
            site.world.namely(["cert", "export", &identity, "--private", "-o", text(&bag)]).success();
            site.run(ndnsec, &["import", "-P", World::PASSPHRASE, text(&bag)]).success();
        }
        let identities = site.run(ndnsec, &["list"]).success().lines.join("\n");
        assert!(identities.contains("/lab/rsa") && identities.contains("/lab/ecdsa"), "{identities}");
        site.run(ndnsec, &["key-gen", "-t", "e", "/lab/theirs"]).success();
        let bag = site.world.path("theirs.safebag");
        site.run(ndnsec, &["export", "-P", World::PASSPHRASE, "-o", text(&bag), "-i", "/lab/theirs"])
            .success();
        site.world.namely(["cert", "import", "--private", text(&bag)]).success();
        let keys = site.world.namely(["key", "list"]).success().values();
        assert!(
            keys.iter().any(|key| key["key"].as_str().is_some_and(|name| name.starts_with("/lab/theirs/")))
        );
    });
}

#[test]
fn ndnd_cat_fetches_a_served_file() {
    with_tools(["ndnd"], |site, [ndnd]| {
        let file = site.world.payload("data/file", 300_001, 1);
        let server = site.world.serve(&site.uri(), &site.world.path("data"), &["--prefix", "/lab/data"]);
        assert!(site.octets(ndnd, &["cat", "/lab/data/file"]) == read(&file), "the file arrives as it is");
        drop(server);
    });
}

#[test]
fn namely_gets_objects_from_ndnd_put() {
    with_tools(["ndnd"], |site, [ndnd]| {
        let input = site.world.payload("input", 300_001, 2);
        let producer = site.produce(ndnd, &["put", "/tools/object"], &input, "/tools/object");
        let out = site.world.path("out");
        site.world.get(&site.uri(), "/tools/object", &out, &["--insecure"]).success();
        assert!(read(&out) == read(&input), "the object arrives as it is");
        drop(producer);
    });
}

#[test]
fn ndnd_and_namely_ping_each_other() {
    with_tools(["ndnd"], |site, [ndnd]| {
        let ours = site.world.start_namely(["--router", &site.uri(), "pingserver", "/lab/ours"]);
        let theirs =
            site.produce(ndnd, &["pingserver", "/lab/theirs"], Path::new("/dev/null"), "/lab/theirs");
        eventually("ndnd ping is answered", || {
            site.run(ndnd, &["ping", "/lab/ours", "-c", "1", "-i", "10"])
                .lines
                .join("\n")
                .contains(", 0% lost")
        });
        site.world.namely(["--router", &site.uri(), "ping", "/lab/theirs", "-c", "1"]).success();
        drop((ours, theirs));
    });
}
