//! namely's tools over routers: namely's own, NFD and NDNd. All have the same expectations; the
//! subject is chosen when the test runs, and an absent one is reported.

use std::path::Path;

use namely_interop::{Link, Router, World, eventually};
use namely_testkit::{Need, or_skip, wait_until_true};
use serde_json::Value;

/// Exit status when there is no such data, for instance because no route leads to it.
const NOT_FOUND: i32 = 4;

/// Exit status when nothing answered in time.
const TIMEOUT: i32 = 5;

/// The differences between routers.
struct Subject {
    start: fn(&World) -> Result<Router, String>,
    /// Whether a name without a route is refused at once; NDNd sends no Nacks.
    sends_nacks: bool,
}

const NAMELYD: Subject = Subject { start: |world| Ok(Router::namelyd(world, &[])), sends_nacks: true };
const NFD: Subject = Subject { start: Router::nfd, sends_nacks: true };
const NDND: Subject = Subject { start: Router::ndnd, sends_nacks: false };

/// Runs `test` with the router. Skips it if the router is not available.
fn over(subject: &Subject, test: impl FnOnce(&World, &str)) {
    let world = World::new();
    if let Some(router) = or_skip(Need::Peers, (subject.start)(&world)) {
        test(&world, &router.uri(Link::Unix));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
}

fn files_are_served_and_fetched(subject: &Subject) {
    over(subject, |world, uri| {
        let file = world.payload("data/sub/file", 1_000_003, 1);
        let other = world.payload("data/other", 7, 2);
        let certificate = world.namely_key("/lab", "ecdsa");
        let server = world.serve(uri, &world.path("data"), &["--prefix", "/lab/data"]);
        let consumer = World::new();
        let (out, copy) = (consumer.path("out"), consumer.path("copy"));
        let trust = ["--trust", text(&certificate)];
        consumer.get(uri, "/lab/data/sub/file", &out, &trust).success();
        assert!(read(&out) == read(&file), "the file arrives as it is");
        consumer.get(uri, "/lab/data", &copy, &[&["--recursive"], &trust[..]].concat()).success();
        assert!(read(&copy.join("sub/file")) == read(&file) && read(&copy.join("other")) == read(&other));
        drop(server);
    });
}

fn standard_input_is_published(subject: &Subject) {
    over(subject, |world, uri| {
        let input = world.payload("input", 100_000, 3);
        let publication = world.put(uri, &input, &["/lab/input"]);
        let out = world.path("out");
        world.get(uri, "/lab/input", &out, &[]).success();
        assert!(read(&out) == read(&input), "what was put comes out");
        drop(publication);
    });
}

fn pings_are_answered(subject: &Subject) {
    over(subject, |world, uri| {
        let mut server = world.start_namely(["--router", uri, "pingserver", "/lab/here"]);
        let ping = |words: &[&str]| world.namely([&["--router", uri, "ping", "/lab/here"], words].concat());
        let answers = || ping(&["--count", "1", "--timeout", "500"]).status.success();
        let is_answered = wait_until_true(answers);
        assert!(is_answered && server.is_running(), "{}", server.errors_text());
        let pinged = ping(&["--count", "3", "--interval", "10", "--timeout", "15000"]).success();
        assert_eq!(pinged.values().last().map(|total| total["answered"].clone()), Some(3.into()));
    });
}

fn faces_routes_and_strategies_are_managed(subject: &Subject) {
    over(subject, |world, uri| {
        let namely = |args: &[&str]| world.namely([&["--router", uri], args].concat()).success().values();
        let lists = |what: &str, is_it: &dyn Fn(&Value) -> bool| namely(&[what, "list"]).iter().any(is_it);
        let face = namely(&["face", "create", "udp://127.0.0.1:9"]);
        let face_id = &face[0]["face_id"];
        let id = face_id.to_string();
        let is_face = |row: &Value| &row["face_id"] == face_id;
        // NFD answers with a dataset that it made up to a second ago.
        eventually("the face is listed", || lists("face", &is_face));
        namely(&["route", "add", "/lab/far", &id, "--cost", "7"]);
        let is_route = |row: &Value| row["prefix"] == "/lab/far" && row["cost"] == 7;
        eventually("the route is listed", || lists("route", &is_route));
        namely(&["route", "remove", "/lab/far", &id]);
        eventually("the route is gone", || !lists("route", &is_route));
        namely(&["strategy", "set", "/lab", "multicast"]);
        let is_chosen =
            |row: &Value| row["prefix"] == "/lab" && row["strategy"].to_string().contains("/multicast/");
        eventually("the strategy is listed", || lists("strategy", &is_chosen));
        namely(&["strategy", "unset", "/lab"]);
        eventually("the strategy is gone", || !lists("strategy", &is_chosen));
        namely(&["face", "destroy", &id]);
        eventually("the face is gone", || !lists("face", &is_face));
        let status = namely(&["status"]);
        assert!(status[0]["version"].as_str().is_some_and(|version| !version.is_empty()), "{status:?}");
        assert!(namely(&["cs", "info"])[0]["capacity"].as_u64().is_some_and(|packets| packets > 0));
    });
}

fn a_name_without_a_route_fails(subject: &Subject) {
    over(subject, |world, uri| {
        let (expected, lifetime) = if subject.sends_nacks { (NOT_FOUND, "30000") } else { (TIMEOUT, "1000") };
        let peeked = world.namely(["--router", uri, "peek", "/nobody/here", "--lifetime", lifetime]);
        assert_eq!(peeked.status.code(), Some(expected), "{}", peeked.errors);
    });
}

/// A router that does not know path probes takes them for idle packets: it reports nothing, and
/// nothing changes.
#[test]
fn nfd_ignores_path_probes() {
    let (world, far) = (World::new(), World::new());
    let Some(nfd) = or_skip(Need::Peers, Router::nfd(&far)) else { return };
    let namelyd = Router::namelyd(&world, &[]);
    let (own, other) = (namelyd.uri(Link::Unix), nfd.uri(Link::Unix));
    let files = ["one", "two"].map(|name| (name, world.payload(&format!("data/{name}"), 300_000, 1)));
    let server = world.serve(&own, &world.path("data"), &["--prefix", "/far"]);
    let udp = namelyd.uri(Link::Udp).replace("udp:", "udp4:");
    world.namely(["--router", &other, "route", "add", "/far", &udp]).success();
    let face = || {
        let faces = world.namely(["--router", &own, "face", "list"]).success().values();
        let is_nfd = |face: &Value| face["remote"].as_str().is_some_and(|uri| uri.starts_with("udp4:"));
        faces.into_iter().find(is_nfd).expect("a face to NFD")
    };
    for (name, file) in files {
        let out = world.path(name);
        world.get(&other, &format!("/far/{name}"), &out, &[]).success();
        assert!(read(&out) == read(&file));
        if name == "one" {
            let octets = || face()["out"]["octets"].as_u64().unwrap();
            let before = octets();
            eventually("a round of probes is sent", || octets() >= before + 1200 + 8800);
        }
    }
    assert_eq!(face()["mtu"], 8800);
    let is_said = |line: &str| {
        line.contains("WARN") && !line.contains("CommandAuthenticator") || line.contains("ERROR")
    };
    assert!(!nfd.log().lines().any(is_said), "{}", nfd.log());
    drop(server);
}

macro_rules! conformance {
    ($module:ident, $subject:expr) => {
        mod $module {
            #[test]
            fn files_are_served_and_fetched() {
                super::files_are_served_and_fetched(&$subject);
            }

            #[test]
            fn standard_input_is_published() {
                super::standard_input_is_published(&$subject);
            }

            #[test]
            fn pings_are_answered() {
                super::pings_are_answered(&$subject);
            }

            #[test]
            fn faces_routes_and_strategies_are_managed() {
                super::faces_routes_and_strategies_are_managed(&$subject);
            }

            #[test]
            fn a_name_without_a_route_fails() {
                super::a_name_without_a_route_fails(&$subject);
            }
        }
    };
}

conformance!(over_namelyd, super::NAMELYD);
conformance!(over_nfd, super::NFD);
conformance!(over_ndnd, super::NDND);
