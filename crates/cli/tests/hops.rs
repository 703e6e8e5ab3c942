//! `namely why NAME --trace` through three routers.

use crate::common;

use common::Home;
use namely_testkit::wait_until_true;
use serde_json::Value;

/// A router of its own, with an address.
struct Router {
    home: Home,
    child: usize,
    uri: String,
}

impl Router {
    fn start(may_say: bool) -> Self {
        let mut home = Home::new();
        let uri = format!("udp4://{}", namely_testkit::free_address());
        write(&home, &uri, may_say);
        let up = home.namely(["up", "--config", "router.toml"]);
        let child = home.spawn(up);
        home.wait_for("the router", || home.run(["status"]).code == Some(0));
        Router { home, child, uri }
    }

    /// Allows or forbids its explanations while it runs.
    fn set(&self, may_say: bool) {
        write(&self.home, &self.uri, may_say);
        let reloads = || self.home.background_log().matches("configuration reloaded").count();
        let before = reloads();
        self.home.reload(self.child);
        self.home.wait_for("the reload", || reloads() > before);
    }

    fn route(&self, prefix: &str, to: &Router) {
        self.home.ok(["route", "add", prefix, &to.uri]);
    }

    fn way(&self, name: &str) -> Value {
        self.home.json(["why", name, "--trace"]).remove(0)
    }

    /// Returns the explanation once it has these hops and this cause. A router that does not run
    /// for two seconds, on a busy machine, counts as one that does not answer.
    #[track_caller]
    fn way_by(&self, name: &str, expected: &[(Option<&str>, bool)], cause: &str) -> Value {
        let mut way = Value::Null;
        let is_found = wait_until_true(|| {
            way = self.way(name);
            way["hops"].is_array() && hops(&way) == expected && way["cause"] == cause
        });
        assert!(is_found, "not {expected:?}, {cause}: {way:#}");
        way
    }
}

fn write(home: &Home, uri: &str, may_say: bool) {
    let text = format!(
        "[faces]\nlisten = [{:?}, {uri:?}]\n[authorization]\nexplain_to_network = {may_say}\n",
        home.router_uri(),
    );
    std::fs::write(home.path("router.toml"), text).unwrap();
}

/// Returns the URI of each hop, and true if the hop answers.
fn hops(way: &Value) -> Vec<(Option<&str>, bool)> {
    let hops = way["hops"].as_array().unwrap_or_else(|| panic!("{way:#}"));
    hops.iter().map(|hop| (hop["uri"].as_str(), hop["answers"].as_bool().unwrap())).collect()
}

#[test]
fn why_follows_a_name_across_routers() {
    let (a, b, mut c) = (Router::start(false), Router::start(true), Router::start(true));
    a.route("/lab", &b);
    b.route("/lab", &c);
    let (at_b, at_c) = (b.uri.clone(), c.uri.clone());

    let both = [(Some(&*at_b), true), (Some(&*at_c), true)];
    let way = a.way_by("/lab/note", &both, "no_route");
    assert_eq!(way["hops"][0]["prefix"], "/lab", "{way:#}");
    assert!(way["so"].as_str().unwrap().contains(&format!("hop 2, {at_c}")), "{way:#}");

    std::fs::write(c.home.path("note.txt"), "there").unwrap();
    let put = c.home.namely(["put", "note.txt", "/lab/note", "--for", "3600"]);
    c.home.spawn(put);
    c.home.ok(["wait", "/lab/note"]);
    let way = a.way_by("/lab/note", &both, "ok");
    assert!(way["so"].as_str().unwrap().contains("an application at hop 2"), "{way:#}");
    let said = way["hops"][1].to_string();
    assert!(said.contains(r#""uri":"""#) && !said.contains("unix") && !said.contains("fd:"), "{said}");
    let line = format!("hop         1, {at_b}: route /lab, best-route, to {at_c}\n");
    a.home.wait_for("the same as text", || a.home.ok(["why", "/lab/note", "--trace"]).contains(&line));

    b.set(false);
    // b forwards it, and does not answer.
    a.way_by("/lab/note", &[(Some(&*at_b), false), (None, true)], "ok");

    c.set(false);
    let way = a.way_by("/lab/note", &[(Some(&*at_b), false)], "no_answer");
    assert!(way["next"].as_str().unwrap().contains("authorization.explain_to_network"), "{way:#}");
}

/// Two routers that route a name to each other refuse it as without a route.
#[test]
fn a_loop_of_two_routers_is_named() {
    let [a, b] = [(); 2].map(|()| Router::start(true));
    a.route("/loop", &b);
    b.route("/loop", &a);
    let way = a.way_by("/loop/x", &[(Some(&*b.uri), true)], "loop");
    assert!(way["so"].as_str().unwrap().contains("/loop leads only back"), "{way:#}");
    let near = a.home.json(["why", "/loop/x"]).remove(0);
    assert!(near["next"].as_str().unwrap().contains("--trace"), "{near:#}");
}

#[test]
fn why_reports_a_routing_loop() {
    let [a, b, c] = [(); 3].map(|()| Router::start(true));
    a.route("/round", &b);
    b.route("/round", &c);
    c.route("/round", &a);
    a.way_by("/round/x", &[(Some(&*b.uri), true), (Some(&*c.uri), true)], "loop");
    // A fault of the queried router comes first. It needs no other router.
    let way = a.way("/nowhere");
    assert_eq!((&way["cause"], &way["hops"]), (&"no_route".into(), &Value::Null));
}
