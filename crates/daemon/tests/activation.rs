//! Listening sockets that a service manager hands over, as `systemd` does for `namelyd.socket`.

use crate::common;

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Client, Daemon, PATIENCE, namelyd, run};
use namely_messages::{Dataset, Scope};
use namely_testkit::{Need, skip};
use namely_wire::InterestBuilder;

/// `namelyd` with `given` as descriptor 3, and the environment that describes it. `PID` stands for
/// the number of the process.
fn activated(given: impl Into<OwnedFd>, environment: &str, arguments: &[&str]) -> Command {
    let plain = namelyd();
    let mut command = Command::new("sh");
    let environment = environment.replace("=PID", "=$$");
    let script = format!("exec 3<&0 0</dev/null; {environment} exec \"$0\" \"$@\"");
    command.arg("-c").arg(script).arg(plain.get_program()).args(plain.get_args()).args(arguments);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::from(given.into()));
    command
}

/// A listening socket for several starts, as the service manager keeps it.
fn listener(dir: &Path) -> (UnixListener, String) {
    let path = dir.join("x.sock");
    (UnixListener::bind(&path).unwrap(), format!("unix://{}", path.display()))
}

fn status() -> InterestBuilder {
    let name = Dataset::StatusGeneral.prefix(Scope::Localhost);
    InterestBuilder::new(name).can_be_prefix().must_be_fresh()
}

#[test]
fn early_connections_are_answered_after_start() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, uri) = listener(dir.path());
    for _ in 0..2 {
        let mut early = Client::unix(&dir.path().join("x.sock"));
        early.send(&status().nonce([1, 2, 3, 4]).build());
        let arguments = ["--no-config", "--listen", &uri, "--log", "debug"];
        let environment = "LISTEN_PID=PID LISTEN_FDS=1 LISTEN_FDNAMES=applications";
        let command = activated(socket.try_clone().unwrap(), environment, &arguments);
        let daemon = Daemon::spawn(command, tempfile::tempdir().unwrap()).unwrap_or_else(|e| panic!("{e}"));
        let listening: Vec<String> = daemon.listening().iter().map(ToString::to_string).collect();
        assert_eq!(listening, [&*uri], "once, though it is configured too");
        assert!(early.receive(PATIENCE).is_some(), "the waiting client is answered");
        Client::unix(&dir.path().join("x.sock")).fetch(status());
        let (status, _) = daemon.stop();
        assert_eq!(status.code(), Some(0));
        assert!(dir.path().join("x.sock").exists(), "the file is the service manager's");
    }
}

#[test]
fn an_unconfigured_activated_socket_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, uri) = listener(dir.path());
    let other = format!("unix://{}/own.sock", dir.path().display());
    let command = activated(socket, "LISTEN_PID=PID LISTEN_FDS=1", &["--no-config", "--listen", &other]);
    let daemon = Daemon::spawn(command, tempfile::tempdir().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    let listening: Vec<String> = daemon.listening().iter().map(ToString::to_string).collect();
    assert_eq!(listening, [uri, other]);
    for file in ["x.sock", "own.sock"] {
        Client::unix(&dir.path().join(file)).fetch(status());
    }
}

#[test]
fn an_unusable_activated_socket_ends_the_router() {
    let dir = tempfile::tempdir().unwrap();
    let own = format!("unix://{}/own.sock", dir.path().display());
    let refused = |given: OwnedFd, environment: &str, said: &str| {
        let (status, _, errors) = run(activated(given, environment, &["--no-config", "--listen", &own]));
        assert!(errors.contains(said) && errors.contains("ListenStream="), "{environment}: {errors}");
        assert_eq!(status, 69, "{errors}");
    };
    let one = "LISTEN_PID=PID LISTEN_FDS=1 LISTEN_FDNAMES=applications";
    let file = || std::fs::File::open("/dev/null").unwrap();
    refused(file().into(), one, "descriptor 3 (applications) is not a socket");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    refused(udp.into(), one, "descriptor 3 (applications) is not a Unix socket");
    let datagrams = UnixDatagram::bind(dir.path().join("datagrams")).unwrap();
    refused(datagrams.into(), one, "and not a stream");
    let (socket, _) = listener(dir.path());
    let clone = || OwnedFd::from(socket.try_clone().unwrap());
    refused(clone(), "LISTEN_PID=PID LISTEN_FDS=two", "LISTEN_FDS is \"two\"");
    refused(clone(), "LISTEN_PID=PID LISTEN_FDS=17", "at most 16");
    refused(clone(), "LISTEN_PID=me LISTEN_FDS=1", "LISTEN_PID is \"me\"");
    refused(clone(), "LISTEN_PID=PID LISTEN_FDS=2 LISTEN_FDNAMES=a", "LISTEN_FDNAMES has 1");
    // The count is too high: descriptor 4 is one that the router has opened itself, or is not open.
    refused(clone(), "LISTEN_PID=PID LISTEN_FDS=2", "descriptor 4 is ");
}

#[test]
fn sockets_for_another_process_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, uri) = listener(dir.path());
    let own = format!("unix://{}/own.sock", dir.path().display());
    let command = activated(socket, "LISTEN_PID=1 LISTEN_FDS=1", &["--no-config", "--listen", &own]);
    let mut daemon = Daemon::spawn(command, tempfile::tempdir().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    daemon.wait_for_log("LISTEN_PID is 1, another process: no sockets are taken over");
    let listening: Vec<String> = daemon.listening().iter().map(ToString::to_string).collect();
    assert_eq!(listening, [own], "and not on {uri}");
}

#[test]
fn systemd_starts_the_router_on_connect() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let plain = namelyd();
    let mut command = Command::new("systemd-socket-activate");
    command.arg("--fdname=applications").arg("--listen").arg(&path).arg(plain.get_program());
    command.args(["--no-config", "--listen", &format!("unix://{}", path.display())]);
    command.env("HOME", "/nonexistent").stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut started) = command.spawn() else {
        skip(Need::Systemd, "no systemd-socket-activate");
        return;
    };
    // The first connection starts the router.
    let _first = namely_testkit::until("it listens", || std::os::unix::net::UnixStream::connect(&path).ok());
    let mut client = Client::unix(&path);
    let answer = client.express(&status().nonce([1, 2, 3, 4]).build(), PATIENCE);
    started.kill().unwrap();
    started.wait().unwrap();
    assert!(matches!(answer, Some(Ok(_))), "the router answers");
}

#[test]
fn the_units_pass_systemd_verification() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let socket = std::fs::read_to_string(folder.join("namelyd.socket")).unwrap();
    for line in ["ListenStream=/run/namely/namely.sock", "ListenStream=/run/nfd/nfd.sock"] {
        assert!(socket.lines().any(|of| of == line), "{line}");
    }
    let dir = tempfile::tempdir().unwrap();
    let service = std::fs::read_to_string(folder.join("namelyd.service")).unwrap();
    // The sockets' files outlive the service.
    assert!(service.lines().any(|line| line == "RuntimeDirectoryPreserve=yes"));
    let here = service.replace("/usr/bin/namelyd", &format!("\"{}\"", env!("CARGO_BIN_EXE_namelyd")));
    let units = [("namelyd.service", here), ("namelyd.socket", socket)].map(|(name, text)| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let mut command = Command::new("systemd-analyze");
    command
        .args(["verify", "--man=no"])
        .args(&units)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", dir.path().display()));
    let Ok(output) = command.output() else {
        skip(Need::Systemd, "no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let of_ours: Vec<_> = said.lines().filter(|line| line.contains("namelyd.s")).collect();
    assert!(of_ours.is_empty(), "{said}");
}

#[test]
fn the_users_units_pass_systemd_verification() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/user");
    let dir = tempfile::tempdir().unwrap();
    let verify = |more: &str| {
        let units = ["namely.service", "namely-serve@.service"].map(|name| {
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            // `namely` is built by another package. The check only needs a program.
            let here = text.replace("/usr/bin/namely ", &format!("\"{}\" ", env!("CARGO_BIN_EXE_namelyd")));
            assert_ne!(here, text, "{name} starts namely");
            std::fs::write(dir.path().join(name), here + more).unwrap();
            dir.path().join(name)
        });
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--user", "--man=no"]).args(units);
        command.env("SYSTEMD_UNIT_PATH", format!("{}:", dir.path().display()));
        command.env("XDG_RUNTIME_DIR", dir.path()).output().ok()
    };
    let complaints = |output: &std::process::Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("Failed to initialize manager"), "{said}");
        said.lines().filter(|line| line.contains("namely")).map(str::to_owned).collect::<Vec<_>>()
    };
    let Some(output) = verify("") else { return skip(Need::Systemd, "no systemd-analyze") };
    assert_eq!(complaints(&output), Vec::<String>::new());
    let faulty = verify("\n[Service]\nRestartSecs=5\n").unwrap();
    assert_eq!(complaints(&faulty).len(), 2, "both are verified");
}

#[test]
fn the_units_name_manuals_and_network() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let service = read("packaging/systemd/namelyd.service");
    assert!(service.contains("\nDocumentation=man:namelyd(8)"), "{service}");
    // An address under `listen` exists only once the network is configured.
    for key in ["After", "Wants"] {
        let line = service.lines().find(|line| line.starts_with(&format!("{key}="))).unwrap();
        assert!(line.contains("network-online.target"), "{line}");
    }
    let (stage, page) = (read("packaging/stage"), read("docs/install.md"));
    assert!(stage.contains("packaging/systemd/user/*.service"), "the packages have the users' units");
    for unit in ["namely.service", "namely-serve@.service"] {
        let text = read(&format!("packaging/systemd/user/{unit}"));
        assert!(
            text.contains("\nDocumentation=man:namely-") && text.contains("WantedBy=default.target"),
            "{unit}"
        );
    }
    assert!(page.contains("systemctl --user enable --now namely") && page.contains("serve/data.conf"));
}
