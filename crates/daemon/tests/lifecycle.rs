//! Start, check, reload and stop of the real program.

use crate::common;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use common::client::{name, named};
use common::{Client, Daemon, PATIENCE, namelyd, run};
use namely_messages::{Command, CsInfo, Dataset, RouteOrigin, StrategyChoice, blocks};
use namely_testkit::{Need, skip, until};
use namely_wire::Name;

#[test]
fn the_router_prints_its_listeners() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = namelyd();
    let socket = format!("unix://{}/x.sock", dir.path().display());
    command.args(["--no-config", "--listen", &socket, "--listen", "udp://127.0.0.1:0"]);
    let daemon = Daemon::spawn(command, dir).unwrap();
    let listening: Vec<String> = daemon.listening().iter().map(ToString::to_string).collect();
    assert_eq!(listening[0], socket);
    assert!(listening[1].starts_with("udp4://127.0.0.1:") && !listening[1].ends_with(":0"), "{listening:?}");
    assert_eq!(listening.len(), 2, "just those");
}

#[test]
fn the_startup_hint_names_a_usable_socket() {
    for (listen, ready) in [
        (&["ws://127.0.0.1:0", "memif:///SOCKET"][..], "ready; try: namely --router memif:///SOCKET status,"),
        (&["tcp://127.0.0.1:0"], "ready; try: namely --router tcp4://127.0.0.1:"),
        (&["ws://127.0.0.1:0"], "ready; for this machine's applications, --listen unix:///PATH"),
        (&["udp://0.0.0.0:0"], "ready; for this machine's applications, --listen unix:///PATH"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let socket = format!("{}/x.memif", &dir.path().display().to_string()[1..]);
        let mut command = namelyd();
        command.arg("--no-config").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
        for uri in listen {
            command.args(["--listen", &uri.replace("SOCKET", &socket)]);
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ready") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.starts_with(&ready.replace("SOCKET", &socket)), "{line}");
    }
}

#[test]
fn help_shows_example_and_exit_statuses() {
    let mut command = namelyd();
    command.arg("--help");
    let (status, output, _) = run(command);
    assert_eq!(status, 0);
    for part in ["namelyd --listen unix:///tmp/a.sock", "Exit status", "--route", "--check"] {
        assert!(output.contains(part), "{part}");
    }
}

#[test]
fn unwritable_output_is_a_failure() {
    for word in ["--check", "--version", "--help"] {
        let end = |output: Stdio| {
            let mut command = namelyd();
            command.args(["--no-config", word]).stdout(output).stderr(Stdio::piped());
            let end = command.output().unwrap();
            (end.status.code(), String::from_utf8_lossy(&end.stderr).into_owned())
        };
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (status, error) = end(full.into());
        assert!(status == Some(1) && error.contains("No space left on device"), "{word}: {status:?} {error}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(end(writer.into()), (Some(0), String::new()), "{word}: the reader has left");
    }
}

#[test]
fn check_validates_without_starting() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namely.toml");
    let check = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let mut command = namelyd();
        command.args(["--check", "--config", path.to_str().unwrap()]);
        run(command)
    };
    let (status, output, _) = check("[tables]\ncs_packets_max = 7\n");
    assert_eq!(status, 0);
    assert!(output.contains("namely.toml"), "{output}");
    for (text, parts) in [
        ("[tables]\n\ncs_size = 7\n", vec!["namely.toml:3:", "`cs_size`", "`cs_packets_max`"]),
        ("[tables]\npit_entries_max = 0\n", vec!["pit_entries_max"]),
        ("[strategy]\n\"/\" = \"no-such\"\n", vec!["no-such", "best-route"]),
        ("[[authorization.user]]\nuser = \"no such user\"\n", vec!["no such user"]),
        ("[[authorization.key]]\ncertificate = \"/no/such/file\"\n", vec!["/no/such/file"]),
    ] {
        let (status, _, error) = check(text);
        assert_eq!(status, 78, "{text}: {error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
    let mut command = namelyd();
    command.args(["--config", "/no/such/file.toml"]);
    let (status, _, error) = run(command);
    assert_eq!(status, 78);
    assert!(error.contains("/no/such/file.toml"), "{error}");
}

#[test]
fn check_finds_obstacles_to_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namely.toml");
    let missing = dir.path().join("no").display().to_string();
    let text = format!(
        "[faces]\nlisten = [\"unix://{missing}/x.sock\", \"dev://eth99\", \"udp://192.0.2.1:0\"]\n\
         queue_octets_total_max = \"900000GiB\"\n[tables]\ncs_octets_max = \"900000GiB\"\n\
         [cs.disk]\nfolder = \"{missing}/disk\"\n[[faces.multicast]]\ninterface = \"eth98\"\n"
    );
    std::fs::write(&path, text).unwrap();
    let start = |more: &[&str]| {
        let mut command = namelyd();
        command.args(["--config", path.to_str().unwrap()]).args(more);
        run(command)
    };
    let (status, _, error) = start(&["--check"]);
    assert_eq!(status, 69, "{error}");
    for (position, reason) in [
        ("2", "192.0.2.1 is no address of this machine"),
        ("3:26", "faces.queue_octets_total_max: "),
        ("5:17", "tables.cs_octets_max: "),
        ("7:10", "cs.disk: there is no folder"),
    ] {
        let is_it = |line: &str| line.contains(&format!("namely.toml:{position}:")) && line.contains(reason);
        assert!(error.lines().any(is_it), "{position} {reason}: {error}");
    }
    assert!(!error.contains("no network device"), "the router waits for devices: {error}");
    assert!(!error.contains("x.sock"), "it waits for folders, too: {error}");
    let line_of = |line: &str| line.split("namely.toml:").nth(1)?.split(':').next()?.parse::<u32>().ok();
    assert!(error.lines().map(line_of).is_sorted(), "in the order of the file: {error}");
    let (status, _, error) = start(&[]);
    assert!(status != 0 && error.contains("cs.disk"), "{error}");
    // Options of the command line have no position in the file.
    std::fs::write(&path, "[faces]\nlisten = []\n").unwrap();
    let (status, _, error) = start(&["--check", "--listen", "udp://192.0.2.1:0"]);
    assert!(status == 69 && error.contains("namelyd: listening on udp4://192.0.2.1:0: "), "{error}");
}

#[test]
fn check_remarks_on_missing_folders() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = namelyd();
    let socket = format!("unix://{}/no/x.sock", dir.path().display());
    command.args(["--check", "--listen", &socket]);
    let (status, said, error) = run(command);
    assert_eq!(status, 0, "{error}");
    assert!(said.contains("there is no folder") && said.contains("waits for it"), "{said}");
}

#[test]
fn check_remarks_on_missing_devices() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namely.toml");
    std::fs::write(&path, "[faces]\nlisten = []\n[[faces.multicast]]\ninterface = \"eth98\"\n").unwrap();
    let mut command = namelyd();
    command.args(["--config", path.to_str().unwrap(), "--check"]);
    let (status, said, error) = run(command);
    assert_eq!(status, 0, "{error}");
    assert!(said.contains("there is no network device eth98") && said.contains("waits"), "{said}");
    std::fs::write(&path, "[faces]\nlisten = [\"dev://eth99\"]\n").unwrap();
    let mut command = namelyd();
    command.args(["--config", path.to_str().unwrap(), "--check"]);
    let (status, said, error) = run(command);
    if error.contains("needs CAP_NET_RAW") {
        return skip(Need::Root, "Ethernet needs a capability");
    }
    assert!(status == 0 && said.contains("there is no network device eth99"), "{said}{error}");
}

#[test]
fn check_finds_a_port_in_use() {
    let (tcp, udp) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let (of_tcp, of_udp) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namely.toml");
    let check = |sockets: &str| {
        let text = format!(
            "[faces]\nlisten = [\n\"tcp://{of_tcp}\",\n\"udp://{of_udp}\",\n\"ws://{of_tcp}\"{sockets}]\n\
             [metrics]\nlisten = \"{of_tcp}\"\n"
        );
        std::fs::write(&path, text).unwrap();
        let mut command = namelyd();
        command.args(["--config", path.to_str().unwrap(), "--check"]);
        run(command)
    };
    let (status, _, error) = check("");
    assert_eq!(status, 69, "{error}");
    for (line, port) in [(3, of_tcp.port()), (4, of_udp.port()), (5, of_tcp.port()), (7, of_tcp.port())] {
        let found = error.lines().find(|found| found.contains(&format!("namely.toml:{line}")));
        let is_named = |found: &str| {
            found.contains(&format!("port {port} is in use")) && found.contains(&format!("'sport = :{port}'"))
        };
        assert!(found.is_some_and(is_named), "{line}: {error}");
    }
    // The router that runs with a configuration has its ports.
    let daemon = Daemon::start();
    let socket = daemon.socket().display().to_string();
    let (status, said, error) = check(&format!(", \"unix://{socket}\""));
    assert_eq!(status, 0, "{error}");
    assert_eq!(said.matches(&format!("probably the router at {socket} has it")).count(), 4, "{said}");
    // The check has taken no port away.
    assert!(std::net::TcpStream::connect(of_tcp).is_ok());
}

#[test]
fn a_missing_folder_below_run_is_made() {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(std::path::PathBuf::from);
    let below = of_user.filter(|folder| folder.starts_with("/run") && folder.is_dir());
    let is_root = rustix::process::geteuid().is_root();
    let Some(parent) = below.or_else(|| is_root.then(|| "/run".into())) else {
        return skip(Need::Root, "only root makes folders in /run");
    };
    let folder = parent.join(format!("namely-test-{}", std::process::id()));
    let text =
        format!("[process]\nuser = \"root\"\n[faces]\nlisten = [\"unix://{}/x.sock\"]\n", folder.display());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namely.toml");
    std::fs::write(&path, text).unwrap();
    let command = |more: &[&str]| {
        let mut command = namelyd();
        command.args(["--config", path.to_str().unwrap()]).args(more);
        command
    };
    let (status, _, error) = run(command(&["--check"]));
    let is_left = folder.exists();
    let daemon = Daemon::spawn(command(&[]), dir).map(Daemon::stop);
    std::fs::remove_dir_all(&folder).ok();
    assert_eq!((status, is_left), (0, false), "the check makes nothing: {error}");
    daemon.unwrap();
}

#[test]
fn a_json_router_prints_json_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namely.toml");
    let socket = format!("unix://{}", dir.path().join("x.sock").display());
    let remote = "udp4://127.0.0.1:9";
    let text =
        format!("[log]\nformat = \"json\"\n[[face]]\nremote = \"{remote}\"\nroutes = [\"/far\"]\ncost = 7\n");
    std::fs::write(&path, &text).unwrap();
    let start = || {
        let mut command = namelyd();
        command.args(["--config", path.to_str().unwrap(), "--listen", &socket]);
        command
    };
    let mut command = start();
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut events: Vec<serde_json::Value> = Vec::new();
    let messages = [
        "the router starts",
        "listening",
        "the face to a configured neighbor is made",
        "the route is made",
        "ready",
    ];
    let find = |events: &[serde_json::Value], message: &str| {
        events.iter().find(|of| of["message"] == message).cloned()
    };
    while !messages.iter().all(|message| find(&events, message).is_some()) {
        let line = lines.next().unwrap_or_else(|| panic!("it ended: {events:#?}")).unwrap();
        events.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}")));
    }
    let [start_event, listening, face, route, _] = messages.map(|message| find(&events, message).unwrap());
    assert_eq!(
        (&start_event["version"], &listening["uri"]),
        (&env!("CARGO_PKG_VERSION").into(), &socket.as_str().into())
    );
    assert_eq!((&face["remote"], face["face"].is_u64()), (&remote.into(), true));
    assert_eq!(
        (&route["prefix"], &route["face"], &route["cost"]),
        (&"/far".into(), &face["face"], &7.into())
    );
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    assert!(output.is_empty(), "{}", String::from_utf8_lossy(&output));
    // An error of the file is JSON, too.
    std::fs::write(&path, text + "[faces]\nbogus = 1\nworkers = true\n").unwrap();
    let (status, output, errors) = run(start());
    assert_eq!((status, output.as_str()), (78, ""), "{errors}");
    let errors: Vec<serde_json::Value> =
        errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0]["message"].as_str().unwrap().contains(":8:1: unknown key `bogus`"), "{errors:?}");
}

#[test]
fn wrong_options_end_with_status_2() {
    for words in [vec!["--listen", "nonsense"], vec!["--bogus"], vec!["--no-config", "--config", "x"]] {
        let mut command = namelyd();
        command.args(&words);
        assert_eq!(run(command).0, 2, "{words:?}");
    }
}

#[test]
fn a_second_router_leaves_the_first_alone() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.register("/x");
    let mut command = namelyd();
    command.args(["--no-config", "--listen", &format!("unix://{}", daemon.socket().display())]);
    let (status, _, error) = run(command);
    assert_eq!(status, 69, "{error}");
    assert!(error.contains("x.sock") && error.contains("another"), "{error}");
    let mut command = namelyd();
    command.args(["--no-config", "--listen", &format!("tcp://{}", daemon.tcp())]);
    let (status, _, error) = run(command);
    assert_eq!(status, 69, "{error}");
    assert!(error.contains(&daemon.tcp().to_string()), "{error}");
    assert_eq!(client.routes("/x").len(), 1);
    daemon.connect().register("/y");
}

#[test]
fn an_unwritable_socket_place_is_refused() {
    let mut command = namelyd();
    command.args(["--no-config", "--listen", "unix:///proc/namely.sock"]);
    let (status, _, error) = run(command);
    assert_eq!(status, 69, "{error}");
    assert!(error.contains("/proc/namely.sock"), "{error}");
}

#[test]
fn sigterm_and_sigint_remove_the_socket() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let daemon = Daemon::start();
        let mut client = daemon.connect();
        client.register("/x");
        daemon.signal(signal);
        let (status, dir) = daemon.stop();
        assert_eq!(status.code(), Some(0), "{signal:?}");
        assert!(!dir.path().join("x.sock").exists());
        assert!(client.is_closed());
    }
}

#[test]
fn a_stale_socket_is_taken_over() {
    let daemon = Daemon::start();
    let dir = daemon.kill();
    assert!(dir.path().join("x.sock").exists(), "it could not be removed");
    let daemon = Daemon::start_in(dir, "", &[]);
    daemon.connect().register("/x");
}

#[test]
fn a_restarted_router_forgets_old_routes() {
    let daemon = Daemon::start();
    daemon.connect().register("/x");
    let (_, dir) = daemon.stop();
    let daemon = Daemon::start_in(dir, "", &[]);
    let mut client = daemon.connect();
    assert_eq!(client.routes("/x"), []);
    client.register("/x");
}

#[test]
fn configured_faces_and_routes_are_made() {
    let far = Daemon::start();
    let mut producer = far.connect();
    producer.register("/far");
    let port = far.udp().port();
    let config = format!(
        "[[face]]\nremote = \"udp4://localhost:{port}\"\nreliability = true\nroutes = [\"/far\"]\ncost = 7\n\
         [strategy]\n\"/far\" = \"multicast\"\n"
    );
    let near = Daemon::start_with(&config, &["--route", &format!("/other=tcp4://{}", far.tcp())]);
    let mut client = near.connect();
    let routes = until("the routes are made", || {
        let routes = client.routes("/far");
        (!routes.is_empty() && !client.routes("/other").is_empty()).then_some(routes)
    });
    assert_eq!((routes[0].origin, routes[0].cost), (RouteOrigin::STATIC, 7));
    client.ask("/far/x");
    producer.serve_one(b"configured");
    assert_eq!(client.receive(PATIENCE).unwrap().data().content, b"configured");
    assert!(strategy(&mut client, "/far").unwrap().to_string().contains("multicast"));
}

fn strategy(client: &mut Client, prefix: &str) -> Option<Name> {
    let choices = client.dataset(Dataset::StrategyChoiceList);
    let choices: Vec<StrategyChoice> = blocks(&choices).collect::<Result<_, _>>().unwrap();
    choices.into_iter().find(|choice| choice.prefix == name(prefix)).map(|choice| choice.strategy)
}

fn cs_info(client: &mut Client) -> CsInfo {
    blocks(&client.dataset(Dataset::CsInfo)).next().unwrap().unwrap()
}

#[test]
fn a_new_neighbor_gets_its_routes() {
    let config = "[[autoreg]]\nprefixes = [\"/edge\"]\nfrom = [\"127.0.0.0/8\"]\ncost = 7\n\
                  [[autoreg]]\nprefixes = [\"/elsewhere\"]\nfrom = [\"192.0.2.0/24\"]\n";
    let daemon = Daemon::start_with(config, &[]);
    let mut client = daemon.connect();
    assert_eq!(client.routes("/edge"), [], "applications are no neighbors");
    let mut neighbour = Client::udp(daemon.udp());
    neighbour.ask("/hello");
    let route = until("the route is made", || client.routes("/edge").first().copied());
    assert_eq!((route.origin, route.cost), (RouteOrigin::AUTOREG, 7));
    neighbour.receive(PATIENCE).unwrap();
    client.ask("/edge/x");
    neighbour.serve_one(b"from the edge");
    assert_eq!(client.receive(PATIENCE).unwrap().data().content, b"from the edge");
    assert_eq!(client.routes("/elsewhere"), []);
}

#[test]
fn an_absent_neighbor_is_retried() {
    // No other process takes this port before the neighbor starts.
    let address = namely_testkit::free_address();
    let config = format!(
        "[[face]]\nremote = \"tcp4://{address}\"\npersistency = \"persistent\"\nroutes = [\"/far\"]\n"
    );
    let mut near = Daemon::start_with(&config, &[]);
    near.wait_for_log("no face to");
    let _far = Daemon::start_with("", &["--listen", &format!("tcp://{address}")]);
    let mut client = near.connect();
    until("the route is made", || client.routes("/far").first().copied());
}

#[test]
fn an_absent_memif_neighbor_is_awaited() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("memif://{}", folder.path().join("far.memif").display());
    let near = Daemon::start_with(&format!("[[face]]\nremote = \"{uri}\"\nroutes = [\"/far\"]\n"), &[]);
    let mut client = near.connect();
    until("the route is made", || client.routes("/far").first().copied());
    let far = Daemon::start_with("", &["--listen", &uri]);
    let mut producer = far.connect();
    producer.register("/far");
    until("the face is up", || {
        client.ask("/far/x");
        producer.receive(Duration::from_millis(100)).map(|_| ())
    });
    client.ask("/far/y");
    while producer.serve_one(b"through shared memory") != name("/far/y") {}
    // Earlier Interests are refused while the face is down, or answered if one was sent twice.
    let answered = until("the answer", || {
        let packet = client.receive(PATIENCE).filter(|packet| packet.headers.nack.is_none())?;
        (packet.data().name == name("/far/y").as_name()).then_some(packet)
    });
    assert_eq!(answered.data().content, b"through shared memory");
    let parameters = namely_messages::ControlParameters { uri: Some(uri), ..Default::default() };
    let again = near.connect().command(Command::FacesCreate, &parameters);
    assert_eq!(again.code, 409, "{}", again.text);
}

#[test]
fn a_destroyed_configured_neighbor_returns() {
    let far = Daemon::start();
    let config = format!("[[face]]\nremote = \"udp4://{}\"\nroutes = [\"/far\"]\n", far.udp());
    let near = Daemon::start_with(&config, &[]);
    let mut client = near.connect();
    let route = until("the route is made", || client.routes("/far").first().copied());
    let destroy = namely_messages::ControlParameters { face_id: Some(route.face_id), ..Default::default() };
    client.ok(Command::FacesDestroy, &destroy);
    until("the route is made again", || client.routes("/far").first().copied());
}

#[test]
fn a_reload_applies_the_possible_changes() {
    let far = Daemon::start();
    let far_udp = far.udp();
    let mut daemon =
        Daemon::start_with("[tables]\ncs_packets_max = 100\n[strategy]\n\"/s\" = \"multicast\"\n", &[]);
    let mut client = daemon.connect();
    client.register("/kept");
    assert_eq!(cs_info(&mut client).capacity, 100);

    let line = daemon.reload(&format!(
        "[tables]\ncs_packets_max = 200\npit_entries_max = 9\n[strategy]\n\"/t\" = \"multicast\"\n\
         [[route]]\nprefix = \"/far\"\nto = \"udp4://{far_udp}\"\n"
    ));
    assert!(line.contains("reloaded"), "{line}");
    assert_eq!(cs_info(&mut client).capacity, 200);
    assert!(strategy(&mut client, "/s").is_none() && strategy(&mut client, "/t").is_some());
    until("the new route", || client.routes("/far").first().copied());
    assert_eq!(client.routes("/kept").len(), 1, "applications' routes stay");

    let line = daemon.reload("[tables]\ncs_packets_max = 200\n");
    assert!(line.contains("reloaded"), "{line}");
    until("the route goes", || client.routes("/far").is_empty().then_some(()));
    assert!(strategy(&mut client, "/t").is_none());
}

#[test]
fn a_reload_logs_keys_needing_restart() {
    let mut daemon = Daemon::start();
    daemon.reload("[tables]\npit_entries_max = 9\n");
    let line = daemon.wait_for_log("restart");
    assert!(line.contains("tables.pit_entries_max"), "{line}");
    assert!(!line.contains("faces.listen"), "the options of the command line still hold: {line}");
}

#[test]
fn a_broken_reload_logs_each_error() {
    let mut daemon = Daemon::start();
    let first = daemon.reload("[faces]\nbogus = 1\n[tables]\nwrong = 2\n");
    let second = daemon.wait_for_log("not reloaded");
    assert!(first.contains("namely.toml:2:1: ") && !first.contains("wrong"), "{first}");
    assert!(second.contains("namely.toml:4:1: "), "{second}");
}

#[test]
fn a_broken_reload_changes_nothing() {
    let mut daemon = Daemon::start_with("[tables]\ncs_packets_max = 100\n", &[]);
    let mut client = daemon.connect();
    for text in ["[tables]\ncs_packets_maxx = 7\n", "[[authorization.user]]\nuser = \"no such user\"\n"] {
        let line = daemon.reload(text);
        assert!(line.contains("not reloaded") && !line.contains("restart"), "{line}");
        assert!(line.contains("cs_packets_maxx") || line.contains("no such user"), "{line}");
        assert_eq!(cs_info(&mut client).capacity, 100);
    }
    daemon.reload("[tables]\ncs_packets_max = 300\n");
    assert_eq!(cs_info(&mut client).capacity, 300);
}

#[test]
fn a_reload_changes_the_authorization() {
    // Over TCP only keys count here, so the rights of a key show the change.
    const KEYS_ONLY: &str = "[authorization]\nloopback = \"nothing\"\n";
    let key = std::sync::Arc::new(
        namely_security::PrivateKey::generate(namely_security::KeyType::Ed25519).unwrap(),
    );
    let validity = namely_wire::ValidityPeriod { not_before_s: 0, not_after_s: 253_402_300_799 };
    let key_name = name("/ops/KEY/1");
    let certificate =
        namely_security::Certificate::self_signed(key_name.as_name(), &key, validity, 1).unwrap();
    let mut daemon = Daemon::start_with(KEYS_ONLY, &[]);
    // In the folder of the configuration, which the router may read.
    let path = daemon.config_file().with_file_name("ops.cert");
    std::fs::write(&path, certificate.to_pem()).unwrap();
    let mut client = Client::tcp(daemon.tcp());
    client.signer = namely_security::Signer::new(key_name, key);
    assert_eq!(client.command(Command::RibRegister, &named("/ops")).code, 403);
    let rule = format!(
        "{KEYS_ONLY}[[authorization.key]]\ncertificate = \"{}\"\nregister = [\"/ops\"]\n",
        path.display()
    );
    daemon.reload(&rule);
    client.register("/ops");
    daemon.reload(KEYS_ONLY);
    assert_eq!(client.command(Command::RibRegister, &named("/ops/2")).code, 403);
}

#[test]
fn systemd_is_notified_of_every_state() {
    let dir = tempfile::tempdir().unwrap();
    let notify = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    notify.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = |what: &str| loop {
        let mut text = [0; 512];
        let octets = namely_testkit::uninterrupted(|| notify.recv(&mut text))
            .unwrap_or_else(|_| panic!("systemd gets no {what}"));
        let text = String::from_utf8_lossy(&text[..octets]).into_owned();
        if text.contains(what) {
            return text;
        }
    };
    let path = dir.path().join("namely.toml");
    std::fs::write(&path, "").unwrap();
    let socket = format!("unix://{}/x.sock", dir.path().display());
    let mut command = namelyd();
    command.args(["--config", path.to_str().unwrap(), "--listen", &socket]);
    command.env("NOTIFY_SOCKET", dir.path().join("notify")).env("WATCHDOG_USEC", "200000");
    let other = tempfile::tempdir().unwrap();
    let daemon = Daemon::spawn(command, other).unwrap();
    next("READY=1");
    next("WATCHDOG=1");
    daemon.signal(rustix::process::Signal::HUP);
    assert!(next("RELOADING=1").contains("MONOTONIC_USEC="));
    next("READY=1");
    daemon.signal(rustix::process::Signal::TERM);
    next("STOPPING=1");
}
