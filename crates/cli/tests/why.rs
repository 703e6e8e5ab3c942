//! Tests of `namely why` at real routers with faults.

use crate::common;

use std::process::Command;
use std::sync::Arc;

use common::Home;
use namely_client::{Client, ClientError};
use namely_host::clock::unix_ns;
use namely_messages::{
    Block, Command as Management, ControlParameters, ControlResponse, ExplainedRight, Scope, blocks,
};
use namely_security::{Certificate, KeyChain, KeyType, NewKey, PrivateKey, Signer, sign_interest};
use namely_testkit::{eventually, name};
use namely_transport::connection::{Answer, CommandError};
use namely_wire::{DataView, InterestBuilder, ValidityPeriod};
use serde_json::Value;

/// The explanation of a name, or of `--face`.
fn why(home: &Home, what: &[&str]) -> Value {
    let mut lines = home.json(["why"].iter().chain(what));
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

#[track_caller]
fn is_because(home: &Home, what: &[&str], cause: &str, next: &str) -> Value {
    let answer = why(home, what);
    assert_eq!(answer["cause"], cause, "{answer:#}");
    assert!(answer["next"].as_str().unwrap_or_default().contains(next), "{answer:#}");
    answer
}

fn step<'a>(answer: &'a Value, at: &str) -> &'a str {
    let steps = answer["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["at"] == at).unwrap_or_else(|| panic!("{at}: {answer:#}"));
    step["found"].as_str().unwrap()
}

/// Sends an Interest without expecting an answer, in the background.
fn peek(home: &mut Home, name: &str) {
    let command: Command = home.namely(["peek", name, "--lifetime", "600000"]);
    home.spawn(command);
}

#[test]
fn why_explains_routes_and_cached_data() {
    let mut home = Home::with_router();
    let answer = is_because(&home, &["/lab/note"], "no_route", "serve");
    assert!(step(&answer, "strategy").starts_with("best-route, chosen for /"), "{answer:#}");
    home.ok(["route", "add", "/lab", "local"]);
    is_because(&home, &["/lab/note"], "not_bound", "bind list");
    let text = home.path("note.txt");
    std::fs::write(&text, "there").unwrap();
    let put = home.namely(["put", &text.display().to_string(), "/lab/note", "--for", "3600"]);
    home.spawn(put);
    home.ok(["wait", "/lab/note"]);
    home.ok(["get", "/lab/note", "-o", "-"]);
    let object = home.json(["stat", "/lab/note"])[0]["name"].as_str().unwrap().to_owned();
    let answer = is_because(&home, &[&object], "ok", "");
    assert!(answer["so"].as_str().unwrap().contains("content store answers"), "{answer:#}");
    home.ok(["cs", "config", "--serve", "off"]);
    let answer = is_because(&home, &[&object], "cache_off", "--serve on");
    assert!(
        step(&answer, "cache").contains("does not answer") && step(&answer, "route").starts_with("/lab: ")
    );
    assert!(step(&answer, "next hop").contains("the application that bound it"), "{answer:#}");
}

/// `get` requests the newest version, which old segments in the content store do not answer.
#[test]
fn why_explains_the_first_request_of_get() {
    let mut home = Home::with_router();
    std::fs::write(home.path("note.txt"), "there").unwrap();
    let put = home.namely(["put", "note.txt", "/lab/note", "--for", "3600"]);
    let put = home.spawn(put);
    home.ok(["wait", "/lab/note"]);
    home.ok(["get", "/lab/note", "-o", "-"]);
    home.stop(put);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    home.ok(["route", "add", "/lab", &format!("udp://{}", silent.local_addr().unwrap())]);
    let is_sent = |answer: &Value| answer["so"].as_str().unwrap().contains("that Interest goes to face");
    home.wait_for("the end of the metadata's freshness", || is_sent(&why(&home, &["/lab/note"])));
    let answer = why(&home, &["/lab/note"]);
    assert!(answer["so"].as_str().unwrap().contains("the content store has /lab/note/"), "{answer:#}");
    assert!(!answer["next"].as_str().unwrap_or_default().contains("erase"), "{answer:#}");
    assert!(step(&answer, "get").contains("no longer fresh"), "{answer:#}");
}

#[test]
fn why_finds_the_silent_face() {
    let mut home = Home::with_router();
    // A peer that receives datagrams and never answers.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    home.ok(["route", "add", "/far", &format!("udp://127.0.0.1:{port}")]);
    let answer = is_because(&home, &["/far/x"], "ok", "");
    assert!(answer["so"].as_str().unwrap().contains("it goes to face"), "{answer:#}");
    peek(&mut home, "/far/x");
    home.wait_for("a second without an answer", || why(&home, &["/far/x"])["cause"] == "no_answer");
    let answer = is_because(&home, &["/far/x"], "no_answer", "namely why /far/x");
    assert!(step(&answer, "pending").contains("1 face waits for it, sent to face"), "{answer:#}");
    (0..3).for_each(|n| peek(&mut home, &format!("/far/{n}")));
    let face = format!("udp4://127.0.0.1:{port}");
    home.wait_for("its silence", || why(&home, &["--face", &face])["cause"] == "silent");
    let answer = why(&home, &["--face", &face]);
    assert_eq!((step(&answer, "routes"), step(&answer, "in")), ("/far", "0 Interests, 0 Data, 0 Nacks, 0 B"));
}

#[test]
fn why_reports_a_port_without_listener() {
    let mut home = Home::with_router();
    let free = namely_testkit::free_port();
    home.ok(["route", "add", "/far", &format!("udp://127.0.0.1:{free}")]);
    // The kernel reports the closed port at the datagram after the rejected one.
    let mut n = 0;
    eventually("the face reports the closed port", || {
        n += 1;
        peek(&mut home, &format!("/far/{n}"));
        why(&home, &["/far/x"])["cause"] == "unreachable"
    });
    is_because(&home, &["/far/x"], "unreachable", "start the router");
    is_because(&home, &["--face", &format!("udp4://127.0.0.1:{free}")], "unreachable", "start the router");
}

#[test]
fn a_returned_neighbor_is_called_alive() {
    let (mut home, mut far) = (Home::with_router(), Home::new());
    let at = format!("udp4://{}", namely_testkit::free_address());
    home.ok(["route", "add", "/far", &at]);
    let mut n = 0;
    eventually("the face reports the closed port", || {
        n += 1;
        peek(&mut home, &format!("/far/{n}"));
        why(&home, &["/far/x"])["cause"] == "unreachable"
    });
    let socket = far.router_uri();
    far.start_router_at(&[&socket, &at]);
    std::fs::write(far.path("note.txt"), "there").unwrap();
    let put = far.namely(["put", "note.txt", "/far/note", "--for", "3600"]);
    far.spawn(put);
    far.ok(["wait", "/far/note"]);
    let asked = ["peek", "/far/note", "--prefix", "--lifetime", "500"];
    home.wait_for("an answer", || home.run(asked).code == Some(0));
    // The counter of refusals still has its total.
    let answer = is_because(&home, &["/far/other"], "ok", "");
    assert!(answer["so"].as_str().unwrap().contains("it goes to face"), "{answer:#}");
}

#[test]
fn a_missing_route_behind_a_neighbor_is_named() {
    let (home, mut far) = (Home::with_router(), Home::new());
    let at = format!("udp4://{}", namely_testkit::free_address());
    let socket = far.router_uri();
    far.start_router_at(&[&socket, &at]);
    home.ok(["route", "add", "/far", &at]);
    for words in [&["get", "/far/nothing", "-o", "-"][..], &["peek", "/far/nothing"], &["ls", "/far/nothing"]]
    {
        let mut error = String::new();
        // A busy machine may be too late for an answer.
        home.wait_for("the Nack", || {
            error = home.run(words).stderr;
            error.contains("no route to /far/nothing")
        });
        assert!(error.contains(&format!("a router behind {at} knows no route")), "{words:?}: {error}");
        assert!(!error.contains("route add") && error.contains("why /far/nothing --trace"), "{error}");
    }
}

#[test]
fn a_failed_command_suggests_namely_why() {
    let home = Home::with_router();
    let hint = "`namely why /no/where` shows what the router knows";
    assert!(home.fails(4, ["peek", "/no/where"]).contains(hint));
    assert!(home.fails(4, ["get", "/no/where", "-o", "-"]).contains("`namely why /no/where"));
    // A peer that receives datagrams and never answers.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    home.ok(["route", "add", "/far", &format!("udp://{}", silent.local_addr().unwrap())]);
    let error = home.fails(5, ["peek", "/far/x", "--lifetime", "100"]);
    assert!(error.contains("`namely why /far/x` shows how the router handles it"), "{error}");
    let usage = home.fails(2, ["why"]);
    assert!(usage.contains("<NAME|--face <FACE>|--register <PREFIX>|--bind <PREFIX>|--manage>"), "{usage}");
    assert!(home.fails(4, ["why", "--face", "77777"]).contains("there is no face 77777"));
}

#[test]
fn why_text_ends_with_a_hint() {
    let home = Home::with_router();
    let text = home.ok(["why", "/no/where"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "name        /no/where");
    assert_eq!(lines[1], "scope       any");
    assert!(lines.last().unwrap().starts_with("next        "), "{text}");
    assert!(lines.iter().all(|line| line.as_bytes()[..12].ends_with(b"  ")), "{text}");
}

#[test]
fn why_predicts_the_rights_of_commands() {
    let mut home = Home::new();
    let port = namely_testkit::free_port();
    let tcp = format!("tcp://127.0.0.1:{port}");
    home.start_router_at(&[&home.router_uri(), &tcp]);
    let answer = is_because(&home, &["--register", "/lab"], "ok", "");
    assert!(step(&answer, "rule").contains("the router's own user"), "{answer:#}");
    is_because(&home, &["--manage"], "ok", "");
    home.ok(["route", "add", "/lab", "local"]);
    // Over loopback, the same user may register but not manage.
    is_because(&home, &["--register", "/lab", "--router", &tcp], "ok", "");
    let answer = is_because(&home, &["--manage", "--router", &tcp], "not_allowed", "Unix socket");
    assert!(step(&answer, "rule").contains("but by the Unix socket"), "{answer:#}");
    home.fails(7, ["route", "add", "/other", "local", "--router", &tcp]);
    is_because(&home, &["--register", "/localhost/nfd/x"], "not_allowed", "another prefix");
}

fn of(prefix: &str) -> ControlParameters {
    ControlParameters { name: Some(name(prefix)), ..ControlParameters::default() }
}

/// A router that accepts keys only, reached over TCP, and keys with one fault each.
struct Keyed {
    home: Home,
    chain: KeyChain,
    tcp: String,
    rules: String,
}

impl Keyed {
    fn new() -> Self {
        let home = Home::new();
        let chain = KeyChain::open(home.path("home/keys")).unwrap();
        let port = namely_testkit::free_port();
        let rules = "[authorization]\nloopback = \"nothing\"\n".into();
        Keyed { home, chain, tcp: format!("tcp://127.0.0.1:{port}"), rules }
    }

    /// Creates a key of `identity`, with a certificate that is valid from `from_s` to `to_s`,
    /// relative to the present time.
    fn key(&self, identity: &str, (from_s, to_s): (i64, i64)) -> Certificate {
        let now_s = unix_ns() as i64 / 1_000_000_000;
        let validity =
            ValidityPeriod { not_before_s: (now_s + from_s) as u64, not_after_s: (now_s + to_s) as u64 };
        let identity = name(identity);
        let key_type = KeyType::Ed25519;
        let new = NewKey { identity: identity.as_name(), key_type, validity, version: 1, passphrase: None };
        self.chain.generate(&new).unwrap().certificates.remove(0)
    }

    /// A rule for the key of `certificate`.
    fn rule(&mut self, certificate: &Certificate, rights: &str) {
        let file = self.home.path(&format!("{}.cert", self.rules.len()));
        std::fs::write(&file, certificate.wire()).unwrap();
        self.rules += &format!("[[authorization.key]]\ncertificate = {file:?}\n{rights}\n");
    }

    fn start(&mut self) {
        let config = self.home.path("router.toml");
        std::fs::write(&config, &self.rules).unwrap();
        let mut up = self.home.namely(["up", "--config"]);
        up.arg(config).args(["--listen", &self.home.router_uri(), "--listen", &self.tcp]);
        self.home.spawn(up);
        let home = &self.home;
        home.wait_for("the router", || home.run(["status", "--router", &self.tcp]).code == Some(0));
    }

    fn signer(&self, identity: &str) -> Signer {
        self.chain.signer(Some(name(identity).as_name()), None).unwrap()
    }

    /// Returns the explanation of a command that is not sent.
    #[track_caller]
    fn explained(&self, arguments: &[&str], identity: &str, cause: &str, next: &str) -> String {
        let what = [arguments, &["--as", identity, "--router", &self.tcp]].concat();
        step(&is_because(&self.home, &what, cause, next), "signed").to_owned()
    }

    /// Queries the explanation, sends the command, and checks that both have the same result.
    #[track_caller]
    fn agrees(&self, command: (Management, &str), identity: &str, cause: &str, next: &str) {
        let arguments: &[&str] = match command.0 {
            Management::RibRegister => &["--register", command.1],
            Management::BptBind => &["--bind", command.1],
            _ => &["--manage"],
        };
        let explained = self.explained(arguments, identity, cause, next);
        let mut client = Client::find(Some(&self.tcp), self.signer(identity)).unwrap();
        match client.command(command.0, &of(command.1)) {
            Ok(_) => assert_eq!(cause, "ok", "{explained}"),
            Err(ClientError::Command(CommandError::Refused(refused))) => {
                assert_eq!((refused.code, refused.text), (403, explained), "{cause}");
            }
            other => panic!("{other:?}"),
        }
    }

    /// The response to an Interest for `command` that `identity` signs at `time_ms`.
    fn send(&self, command: Management, prefix: &str, identity: &str, time_ms: u64) -> ControlResponse {
        let builder = InterestBuilder::new(command.name(Scope::Localhost, &of(prefix))).must_be_fresh();
        let wire = sign_interest(&builder, b"", &self.signer(identity), time_ms).unwrap();
        let mut client = Client::find(Some(&self.tcp), Signer::digest_sha256()).unwrap();
        match client.connection().express_wire(&wire, &mut |_, _| {}).unwrap() {
            Answer::Data(reply) => {
                ControlResponse::decode(DataView::parse(&reply.wire).unwrap().content).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Checks that a query and a command that are signed at `time_ms` have the same refusal.
    #[track_caller]
    fn are_refused_alike(&self, identity: &str, time_ms: u64, cause: &str, text: &str) {
        let response = self.send(Management::RightsRegister, "/lab", identity, time_ms);
        let right: ExplainedRight = blocks(&response.body).next().unwrap().unwrap();
        assert_eq!((response.code, right.is_allowed, right.cause.as_str()), (200, false, cause));
        assert!(right.why.contains(text), "{}", right.why);
        let refused = self.send(Management::RibRegister, "/lab", identity, time_ms);
        assert_eq!((refused.code, refused.text), (403, right.why));
    }
}

const YEAR_S: i64 = 365 * 86_400;

#[test]
fn why_predicts_signature_faults() {
    let mut net = Keyed::new();
    let good = net.key("/good", (-10, YEAR_S));
    net.rule(&good, "register = [\"/lab\"]\nbind = [\"/app\"]");
    let operator = net.key("/operator", (-10, YEAR_S));
    net.rule(&operator, "manage = true");
    let expired = net.key("/expired", (-YEAR_S, -60));
    net.rule(&expired, "manage = true");
    let early = net.key("/early", (3_600, YEAR_S));
    net.rule(&early, "manage = true");
    // A certificate for another key under the name of one of our keys.
    let forged = net.key("/forged", (-10, YEAR_S));
    let other = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let forged = Certificate::self_signed(forged.key_name(), &other, forged.validity(), 1).unwrap();
    net.rule(&forged, "manage = true");
    // A certificate of a later version. The router's configuration has it, the key chain does not.
    let renewed = net.key("/renewed", (-10, YEAR_S));
    let own = Arc::new(net.chain.private_key(renewed.key_name(), None).unwrap());
    let renewed = Certificate::self_signed(renewed.key_name(), &own, renewed.validity(), 2).unwrap();
    net.rule(&renewed, "manage = true");
    net.key("/stranger", (-10, YEAR_S));
    // The issuer of this certificate is a key that may do everything.
    let issued = net.key("/issued", (-10, YEAR_S));
    let by = net.signer("/operator");
    let issued =
        Certificate::issue(issued.key_name(), issued.public_key(), &by, "op", issued.validity(), 3).unwrap();
    net.chain.add_certificate(&issued).unwrap();
    net.home.ok(["key", "default", &issued.name().to_string()]);
    net.start();

    let (register, bind, manage) = (Management::RibRegister, Management::BptBind, Management::FacesUpdate);
    net.agrees((register, "/lab/x"), "/good", "ok", "");
    net.agrees((bind, "/app/x"), "/good", "ok", "");
    net.agrees((register, "/else"), "/good", "key_not_allowed", "add `register = [\"/else\"]`");
    net.agrees((manage, "/"), "/good", "key_not_allowed", "add `manage = true`");
    net.agrees((manage, "/"), "/operator", "ok", "key default /operator");
    net.agrees((register, "/anywhere"), "/operator", "ok", "");
    net.agrees((register, "/lab"), "/expired", "expired", "newer certificate");
    net.agrees((register, "/lab"), "/early", "not_yet_valid", "wait until then");
    net.agrees((register, "/lab"), "/forged", "other_key", "another key has this name");
    net.agrees((register, "/lab"), "/renewed", "other_certificate", "namely key default");
    net.agrees((register, "/lab"), "/stranger", "key_unknown", "cert export");
    net.agrees((register, "/lab"), "/issued", "key_unknown", "cert export");
    let explanation = why(&net.home, &["--register", "/lab", "--as", "/issued", "--router", &net.tcp]);
    assert!(explanation["so"].as_str().unwrap().contains("/operator/KEY/"), "{explanation:#}");

    // Faults of clocks: the time in the signature.
    let now_ms = || unix_ns() / 1_000_000;
    net.are_refused_alike("/good", now_ms() + 200_000, "outside_grace", "s ahead of this clock");
    net.are_refused_alike("/good", now_ms() - 200_000, "outside_grace", "s behind this clock");
    net.are_refused_alike("/good", now_ms() - 100_000, "before_start", "before this router started");
    let ahead_ms = now_ms() + 100_000;
    assert_eq!(net.send(register, "/lab", "/good", ahead_ms).code, 200);
    net.are_refused_alike("/good", ahead_ms, "replayed", "was accepted");
    net.agrees((register, "/lab"), "/good", "replayed", "until it is past");
    // A query changes nothing: for another key the same time stays new after any number of queries.
    let query = || net.send(Management::RightsManage, "/", "/operator", ahead_ms);
    assert_eq!((query().body, query().code), (query().body, 200));
    assert_eq!(net.send(manage, "/", "/operator", ahead_ms).code, 200);
    assert_eq!(net.send(manage, "/", "/operator", ahead_ms).code, 403);
}

#[test]
fn why_reports_missing_keys_and_rules() {
    let mut net = Keyed::new();
    net.start();
    let router = ["--router", net.tcp.as_str()];
    let what = [&["--register", "/lab"][..], &router].concat();
    let answer = is_because(&net.home, &what, "not_allowed", "Unix socket");
    assert!(step(&answer, "key").starts_with("none"), "{answer:#}");
    assert!(net.home.fails(1, ["why", "--register", "/lab", "--as", "/none"]).contains("/none"));
    assert!(net.home.fails(2, ["why", "/lab", "--as", "/none"]).contains("--as"));
}
