//! Metrics as a Prometheus server and hostile scrapers see them, of the real program.

use crate::common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::client::name;
use common::{Daemon, PATIENCE, namelyd, run};
use namely_messages::{Dataset, GeneralStatus};
use namely_testkit::{Need, eventually, skip, until};
use namely_wire::InterestBuilder;

/// Returns a port of loopback that is free at this moment.
fn port() -> SocketAddr {
    namely_testkit::free_address()
}

fn start(config: &str) -> (Daemon, SocketAddr) {
    let address = port();
    (Daemon::start_with(config, &["--metrics", &address.to_string()]), address)
}

/// Head and body of the answer to a request.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
    (head.to_owned(), body.to_owned())
}

fn scrape(address: SocketAddr) -> String {
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let (head, body) = ask(address, &format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"), "it is whole: {body}");
    body
}

/// The value of a series. `series` is the whole text before the value.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn metrics_have_their_documented_names() {
    let (daemon, address) = start("[strategy]\n\"/a\" = \"multicast\"\n");
    let mut client = daemon.connect();
    client.register("/a");
    let face = client.own_face();
    daemon.connect().ask("/nobody/has/this");
    let (inward, dropped) = (
        format!("namely_face_interests_total{{face=\"{face}\","),
        "namely_events_total{name=\"forwarder.no_route\"}",
    );
    let text = until("the Interest is counted", || {
        Some(scrape(address)).filter(|text| value(text, dropped) == Some(1.0))
    });
    assert!(
        text.lines().any(|line| line.starts_with(&inward) && line.contains("direction=\"in\"")),
        "{text}"
    );
    assert!(value(&text, "namely_faces").unwrap() >= 3.0);
    assert!(value(&text, "namely_routes").unwrap() >= 1.0);
    assert!(value(&text, "namely_cs_capacity").unwrap() > 0.0);
    assert!(value(&text, "namely_events_total{name=\"management.commands_done\"}").unwrap() >= 1.0, "{text}");
    let version = format!("namely_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(value(&text, &version), Some(1.0));
    let chosen = text.lines().find(|line| line.contains("strategy/multicast/")).unwrap();
    assert!(chosen.starts_with("namely_strategy_prefixes{") && chosen.ends_with(" 1.0"), "{chosen}");
    // A second metric of the same counter has the same value.
    let in_json = client.counter("forwarder.no_route");
    assert_eq!(value(&scrape(address), dropped), Some(in_json as f64));
}

#[test]
fn closed_faces_stay_in_the_octet_totals() {
    let (daemon, address) = start("");
    let octets = |direction: &str| {
        value(&scrape(address), &format!("namely_octets_total{{direction=\"{direction}\"}}")).unwrap()
    };
    let mut staying = daemon.connect();
    let faces = staying.faces().len();
    let mut leaving = daemon.connect();
    // Each Nack carries its Interest back. The loss of so many octets exceeds all other traffic.
    for n in 0..30 {
        let interest = InterestBuilder::new(name(&format!("/nowhere/{n}"))).nonce(leaving.next_nonce());
        let interest = interest.build_with_parameters(&[7; 8000], namely_security::sha256);
        assert!(matches!(leaving.express(&interest, PATIENCE), Some(Err(_))), "a Nack");
    }
    let least = 30.0 * 8000.0;
    // The server reuses a text for a moment.
    let before = until("the traffic is counted", || {
        Some([octets("in"), octets("out")]).filter(|totals| totals.iter().all(|total| *total >= least))
    });
    drop(leaving);
    eventually("the face is closed", || staying.faces().len() == faces);
    eventually("the totals have grown", || octets("in") > before[0] && octets("out") > before[1]);
    let status = GeneralStatus::decode(&staying.dataset(Dataset::StatusGeneral)).unwrap();
    let details = status.details.unwrap();
    assert!(details.in_octets as f64 >= before[0] && details.out_octets as f64 >= before[1]);
}

#[test]
fn metrics_show_the_disk_tiers() {
    let dir = tempfile::tempdir().unwrap();
    let disk = format!("[cs.disk]\nfolder = \"{}\"\nadmission = \"all\"\n", dir.path().join("cs").display());
    let (_daemon, address) = start(&disk);
    let text = scrape(address);
    for tier in ["memory", "disk"] {
        assert_eq!(value(&text, &format!("namely_cs_hits_total{{tier=\"{tier}\"}}")), Some(0.0), "{text}");
    }
    assert_eq!(value(&text, "namely_cs_seconds_bucket{le=\"+Inf\",path=\"disk\"}"), Some(0.0), "{text}");
    assert_eq!(value(&text, "namely_cs_disk_pending"), Some(0.0));
}

#[test]
fn round_trips_are_exported_per_strategy() {
    let (daemon, address) =
        start("[strategy]\n\"/a\" = \"asf\"\n\"/b\" = \"weighted-load-balancer\"\n\"/c\" = \"asf\"\n");
    let of = |text: &str, what: &str, strategy: &str| {
        let strategy = format!("strategy=\"/localhost/nfd/strategy/{strategy}\"");
        let series = match what.split_once('{') {
            Some((what, more)) => format!("namely_round_trip_seconds_{what}{{{more},{strategy}}}"),
            None => format!("namely_round_trip_seconds_{what}{{{strategy}}}"),
        };
        value(text, &series)
    };
    const ASF: &str = "asf/v=5";
    const WEIGHTED: &str = "weighted-load-balancer/v=1";
    let count = |text: &str| [ASF, WEIGHTED].map(|strategy| of(text, "count", strategy));
    let (mut producer, mut consumer) = (daemon.connect(), daemon.connect());
    producer.register("/a");
    producer.register("/b");
    producer.register("/c");
    producer.register("/best-route");
    // One for each measuring strategy, regardless of the choices and their number.
    let series =
        |text: &str| text.lines().filter(|of| of.starts_with("namely_round_trip_seconds_count{")).count();
    assert_eq!((series(&scrape(address)), count(&scrape(address))), (4, [Some(0.0); 2]));
    for uri in ["/best-route/x", "/a/x", "/b/x", "/c/x"] {
        consumer.ask(uri);
        assert_eq!(producer.serve_one_after(Duration::from_millis(60), b"late"), name(uri));
    }
    let all = [Some(2.0), Some(1.0)];
    let text = until("the Data has come", || Some(scrape(address)).filter(|text| count(text) == all));
    for (strategy, n) in [(ASF, 2.0), (WEIGHTED, 1.0)] {
        assert_eq!(of(&text, "bucket{le=\"0.05\"", strategy), Some(0.0), "{text}");
        assert_eq!(of(&text, "bucket{le=\"+Inf\"", strategy), Some(n), "{text}");
        assert!(of(&text, "sum", strategy).unwrap() >= 0.06 * n, "{text}");
    }
    assert_eq!(series(&text), 4);
}

#[test]
fn faces_beyond_the_limit_are_merged() {
    let series = |text: &str| {
        let of_faces = text.lines().filter(|line| line.starts_with("namely_face_interests_total{"));
        let inward = of_faces.filter(|line| line.contains("direction=\"in\""));
        let (others, own): (Vec<_>, Vec<_>) = inward.partition(|line| line.contains("face=\"others\""));
        (own.len(), others.len())
    };
    // The router's own two, and the clients' own.
    for (faces_max, expected) in [(5, (5, 0)), (4, (4, 1)), (0, (0, 1))] {
        let (daemon, address) = start(&format!("[metrics]\nfaces_max = {faces_max}\n"));
        let mut clients = [daemon.connect(), daemon.connect(), daemon.connect()];
        for client in &mut clients {
            client.own_face();
        }
        assert_eq!(series(&scrape(address)), expected, "faces_max = {faces_max}");
    }
}

#[test]
fn other_metrics_requests_get_a_hint() {
    let (_daemon, address) = start("");
    for (request, status, hint) in [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404 ", "/metrics"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405 ", "GET /metrics"),
        ("not http\r\n\r\n", "400 ", "GET /metrics"),
    ] {
        let (head, body) = ask(address, request);
        assert!(head.contains(status) && body.contains(hint), "{request}: {head} {body}");
    }
    let (head, body) = ask(address, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body.is_empty(), "{head}");
    assert_eq!(value(&scrape(address), "namely_events_total{name=\"metrics.malformed\"}"), Some(3.0));
}

#[test]
fn health_and_process_metrics_are_served() {
    let (_daemon, address) = start("");
    let health =
        |method: &str| ask(address, &format!("{method} /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    // The router of a busy machine may respond too late.
    let well = |method: &str| {
        until("it is well", || Some(health(method)).filter(|(head, _)| head.starts_with("HTTP/1.1 200 "))).1
    };
    assert_eq!((well("GET").as_str(), well("HEAD").as_str()), ("ok\n", ""));
    assert!(health("POST").0.starts_with("HTTP/1.1 405 "));
    let (_, foreign) = ask(address, "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(!foreign.contains("ok"), "{foreign}");
    let text = scrape(address);
    // A unit test reads the others; this one shows that they are served, despite the sandbox.
    assert!(value(&text, "process_open_fds").is_some_and(|value| value > 0.0), "{text}");
    let started = ["process_start_time_seconds", "namely_start_time_seconds"].map(|name| value(&text, name));
    // The boot time of the system has whole seconds.
    assert!(started[0].unwrap() <= started[1].unwrap() + 2.0, "{started:?}");
    let (_, old) = ask(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(old.contains("# TYPE process_cpu_seconds_total counter\n"), "{old}");
}

#[test]
fn health_reports_a_drain() {
    let (daemon, address) = start("[process]\ndrain_ms = 3600000\n");
    let (mut consumer, mut producer) = (daemon.connect(), daemon.connect());
    producer.register("/far");
    consumer.ask("/far/1");
    producer.receive(PATIENCE).expect("the Interest");
    daemon.signal(rustix::process::Signal::TERM);
    let health = || ask(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, _) = until("it drains", || Some(health()).filter(|(_, body)| body == "draining\n"));
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
}

#[test]
fn metrics_requests_have_a_size_limit() {
    const REQUEST_OCTETS_MAX: usize = 8192;
    let (_daemon, address) = start("");
    for (octets, status) in [(REQUEST_OCTETS_MAX, "200 "), (REQUEST_OCTETS_MAX + 1, "431 ")] {
        let start = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ";
        let request = format!("{start}{}\r\n\r\n", "x".repeat(octets - start.len() - 4));
        assert_eq!(request.len(), octets);
        let (head, _) = ask(address, &request);
        assert!(head.contains(status), "{octets}: {head}");
    }
}

#[test]
fn silent_scrapers_are_disconnected() {
    const CONNECTIONS_MAX: usize = 8;
    let (daemon, address) = start("");
    let mut idle: Vec<_> = (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
    // The router serves its applications, regardless of its scrapers.
    let (mut producer, mut consumer) = (daemon.connect(), daemon.connect());
    producer.register("/p");
    consumer.ask("/p/x");
    producer.serve_one(b"here");
    assert!(consumer.receive(PATIENCE).is_some());
    let since = Instant::now();
    let mut octets = [0; 16];
    for stream in &mut idle {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(
            namely_testkit::uninterrupted(|| stream.read(&mut octets)).unwrap(),
            0,
            "the router ends it"
        );
    }
    assert!(since.elapsed() < PATIENCE);
    let text = until("there is room again", || std::panic::catch_unwind(|| scrape(address)).ok());
    assert!(value(&text, "namely_events_total{name=\"metrics.too_slow\"}") >= Some(8.0), "{text}");
}

/// Waits until a counter has reached `least`. The router returns the same text again for a moment.
fn counted(address: SocketAddr, name: &str, least: f64) {
    let series = format!("namely_events_total{{name=\"{name}\"}}");
    until(name, || value(&scrape(address), &series).filter(|value| *value >= least));
}

/// Eight connections that send half a request, and one more before each scrape.
#[test]
fn half_requests_do_not_block_scrapers() {
    let (_daemon, address) = start("");
    let half = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n").unwrap();
        stream
    };
    let mut halves: Vec<_> = (0..8).map(|_| half()).collect();
    for _ in 0..10 {
        scrape(address);
        halves.push(half());
    }
    // On a busy machine the router ends some because their time is over.
    let series = "namely_events_total{name=\"metrics.gave_way\"}";
    until("ten gave way", || {
        halves.push(half());
        value(&scrape(address), series).filter(|value| *value >= 10.0)
    });
}

#[test]
fn metrics_are_refused_to_other_sites() {
    let (_daemon, address) = start("[metrics]\nhosts = [\"router.example\"]\n");
    for (lines, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464", "200 "),
        ("GET /metrics HTTP/1.1\r\nHost: router.example", "200 "),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example", "421 "),
        ("GET /metrics HTTP/1.1\r\nHost: [::1]@evil.example", "421 "),
        ("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost", "421 "),
        ("GET /metrics HTTP/1.1", "400 "),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example", "403 "),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site", "403 "),
    ] {
        let (head, body) = ask(address, &format!("{lines}\r\n\r\n"));
        assert!(head.contains(status), "{lines}: {head}");
        assert_eq!(body.contains("namely_build_info"), status == "200 ", "{lines}");
    }
    counted(address, "metrics.foreign", 6.0);
}

#[test]
fn a_used_metrics_address_ends_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut command = namelyd();
    let socket = format!("unix://{}/x.sock", dir.path().display());
    let address = taken.local_addr().unwrap().to_string();
    command.args(["--no-config", "--listen", &socket, "--metrics", &address]);
    let (status, _, error) = run(command);
    assert_eq!(status, 69, "{error}");
    assert!(error.contains(&address) && error.contains("--metrics ADDRESS:PORT"), "{error}");
}

/// The folder in which `.ci/run` puts Debian's package, or else the path.
fn tool(name: &str) -> Option<PathBuf> {
    let unpacked =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/prometheus/usr/bin").join(name);
    let on_path =
        std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).collect::<Vec<_>>();
    [unpacked].into_iter().chain(on_path).find(|path| path.exists())
}

#[test]
fn prometheus_accepts_the_metrics() {
    let (Some(promtool), Some(prometheus)) = (tool("promtool"), tool("prometheus")) else {
        return skip(Need::Prometheus, "neither on the path nor unpacked below target/prometheus");
    };
    let dir = tempfile::tempdir().unwrap();
    let (daemon, address) = start(&format!(
        "[cs.disk]\nfolder = \"{}\"\n[strategy]\n\"/a%22%0A%5C\" = \"multicast\"\n",
        dir.path().join("cs").display()
    ));
    let mut client = daemon.connect();
    client.ask("/nobody/has/this");
    client.receive(PATIENCE).expect("a Nack");
    let (head, text) = ask(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let mut check = Command::new(promtool);
    let check =
        check.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut check = check.spawn().unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");

    let web = port();
    let config = dir.path().join("prometheus.yml");
    let scrapes =
        format!("scrape_configs: [{{job_name: namely, static_configs: [{{targets: ['{address}']}}]}}]");
    std::fs::write(&config, format!("global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n{scrapes}\n"))
        .unwrap();
    let mut server = Command::new(prometheus)
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.path().join("tsdb").display()))
        .arg(format!("--web.listen-address={web}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let query = |query: &str| {
        let mut stream = TcpStream::connect(web).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let coded: String = query.bytes().map(|octet| format!("%{octet:02X}")).collect();
        let request = format!("GET /api/v1/query?query={coded} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        assert!(!answer.contains("\"status\":\"error\""), "{query}: {answer}");
        Some(answer).filter(|answer| answer.contains("\"value\":["))
    };
    let dropped = "namely_events_total{name=\"forwarder.no_route\"}";
    let up = until("the server has read it", || query(dropped));
    assert!(up.contains("\"1\"]"), "{up}");
    until("it has read it twice", || query("rate(namely_interests_total[1m])"));
    let mut empty = of_dashboard();
    // Nothing is dropped just now, and no links are watched.
    empty.retain(|expression| !["_events_total", "_neighbors"].iter().any(|name| expression.contains(name)));
    // After a scrape that a busy machine did not answer in time, each query is empty for a moment.
    let _ = namely_testkit::wait_until_true(|| {
        empty.retain(|expression| query(expression).is_none());
        empty.is_empty()
    });
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(empty, Vec::<String>::new(), "the dashboard uses a metric that does not exist");
}

#[test]
fn alert_rules_pass_their_tests() {
    let Some(promtool) = tool("promtool") else {
        return skip(Need::Prometheus, "promtool is neither on the path nor below target/prometheus");
    };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana");
    for words in [&["check", "rules", "alerts.yml"][..], &["test", "rules", "alerts_test.yml"]] {
        let output = Command::new(&promtool).args(words).current_dir(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
    }
}

#[test]
fn each_exported_metric_is_documented() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let disk = format!("[cs.disk]\nfolder = \"{}\"\n", dir.path().join("cs").display());
    let (_daemon, address) = start(&disk);
    let text = scrape(address);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut count = 0;
    for (name, kind) in types {
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        assert!(page.contains(&format!("`{name}`")), "docs/metrics.md has no {name}");
        count += 1;
    }
    assert!(count > 20, "{text}");
}

/// The dashboard's queries, as Grafana sends them.
fn of_dashboard() -> Vec<String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/namely.json");
    let dashboard: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<String> = targets
        .map(|target| {
            let expression = target["expr"].as_str().unwrap();
            expression.replace("$__rate_interval", "1m").replace("$router", ".*")
        })
        .collect();
    assert!(queries.len() > 10, "{queries:?}");
    queries
}

#[test]
fn metrics_of_many_faces_are_bounded() {
    if !namely_testkit::descriptors(4096) {
        return;
    }
    let (daemon, address) = start("[faces]\nfaces_max = 4096\nfaces_per_address_max = 4096\n");
    let mut client = daemon.connect();
    client.own_face();
    // Datagrams from different ports create as many faces.
    let to = daemon.udp();
    let interest = InterestBuilder::new(name("/x")).nonce([1; 4]).lifetime_ms(10).build();
    let peers: Vec<_> = (0..2000).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    // A receive buffer may have no room for all datagrams at once, so they are sent again.
    until("all have come", || {
        for peer in &peers {
            peer.send_to(&interest, to).unwrap();
        }
        Some(()).filter(|()| value(&scrape(address), "namely_faces") >= Some(1900.0))
    });
    let text = scrape(address);
    // docs/metrics.md states the number of series of a face, so that operators can size a server.
    let per_face = text.len() / 2000;
    assert!(per_face < 1200, "{per_face} octets a face");
}
