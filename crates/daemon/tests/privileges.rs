//! The rights that the real program drops: its user, root's privileges, files, system calls, core
//! dumps.

use crate::common;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::client::{name, named};
use common::other_user::NOBODY;
use common::{Daemon, PATIENCE, namelyd, run, write};
use namely_security::{Certificate, KeyType, PrivateKey};
use namely_testkit::until;
use namely_testkit::{Need, skip};
use namely_wire::ValidityPeriod;
use tempfile::TempDir;

/// A line of `/proc/PID/status`.
fn status(daemon: &Daemon, key: &str) -> String {
    status_of(daemon.pid(), key)
}

fn status_of(process: u32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(Need::Root, "only root can become another user");
    }
    is_root
}

/// A folder that belongs to [`NOBODY`].
fn folder_of_nobody() -> TempDir {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    rustix::fs::chown(dir.path(), Some(rustix::process::Uid::from_raw(NOBODY)), None).unwrap();
    dir
}

/// Writes a certificate, for a rule that a reload reads.
fn certificate(path: &Path) {
    let key = std::sync::Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let validity = ValidityPeriod { not_before_s: 0, not_after_s: 253_402_300_799 };
    let made = Certificate::self_signed(name("/ops/KEY/1").as_name(), &key, validity, 1).unwrap();
    write(path, made.to_pem().as_bytes());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
}

fn rule(path: &Path) -> String {
    format!("[[authorization.key]]\ncertificate = \"{}\"\nregister = [\"/ops\"]\n", path.display())
}

/// Returns true if the kernel confines files, according to the log.
fn confines_files(daemon: &mut Daemon) -> bool {
    !daemon.wait_for_log("files are").contains("not confined")
}

/// The life of a router: it serves, reloads, resolves names and stops.
fn it_lives(mut daemon: Daemon, more: &str) {
    let folder = daemon.config_file().parent().unwrap().to_owned();
    let mut client = daemon.connect();
    client.register("/x");
    let mut consumer = common::Client::tcp(daemon.tcp());
    consumer.ask("/x/1");
    client.serve_one(b"served");
    assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"served");
    let ops = folder.join("ops.cert");
    certificate(&ops);
    let far =
        format!("[[route]]\nprefix = \"/far\"\nto = \"udp4://localhost:{}\"\n", daemon.udp().port() ^ 1);
    let line = daemon.reload(&format!("{more}{}{far}", rule(&ops)));
    assert!(line.contains("reloaded") && !line.contains("not reloaded"), "{line}");
    until("the name is found and the route made", || client.routes("/far").first().copied());
    let (status, dir) = daemon.stop();
    assert_eq!(status.code(), Some(0));
    assert!(!dir.path().join("x.sock").exists(), "the socket is removed");
}

#[test]
fn a_root_started_router_drops_privileges() {
    if !is_root() {
        return;
    }
    let user = "[process]\nuser = \"nobody\"\n";
    let daemon = Daemon::start_in(folder_of_nobody(), user, &[]);
    assert_eq!(status(&daemon, "Uid"), format!("{NOBODY} {NOBODY} {NOBODY} {NOBODY}"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status(&daemon, set), "0000000000000000", "{set}");
    }
    // Each thread has the rights that it was started with.
    for task in std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap() {
        let text = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        assert!(text.contains("CapPrm:\t0000000000000000") && text.contains("NoNewPrivs:\t1"), "{text}");
    }
    it_lives(daemon, user);
}

#[test]
fn a_router_keeps_only_needed_capabilities() {
    if !is_root() {
        return;
    }
    let config = "[process]\nuser = \"nobody\"\n[[face]]\nremote = \"ether://[02:00:00:00:00:01]\"\n\
                  local = \"dev://no-such0\"\n";
    let daemon = Daemon::start_in(folder_of_nobody(), config, &[]);
    // CAP_NET_RAW is number 13.
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(status(&daemon, set), format!("{:016x}", 1u64 << 13), "{set}");
    }
    it_lives(daemon, config);
}

/// The config names no user, and this machine has none for routers.
#[test]
fn root_keeps_only_capabilities_for_faces() {
    if !is_root() || namely_host::users::ids_of("namely").is_some() {
        return;
    }
    let ether = "[[face]]\nremote = \"ether://[02:00:00:00:00:01]\"\nlocal = \"dev://no-such0\"\n";
    for (config, kept) in [("", 0), (ether, 1u64 << 13)] {
        let mut daemon = Daemon::start_with(config, &[]);
        assert_eq!(status(&daemon, "Uid"), "0 0 0 0");
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(status(&daemon, set), format!("{kept:016x}"), "{set}");
        }
        for set in ["CapInh", "CapAmb"] {
            assert_eq!(status(&daemon, set), "0000000000000000", "{set}");
        }
        assert!(daemon.wait_for_log("there is no user `namely`").contains("only those"));
        it_lives(daemon, config);
    }
}

#[test]
fn a_requested_user_must_exist() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namely.toml");
    write(&path, b"[process]\nuser = \"no such user\"\n");
    let mut command = namelyd();
    command.args(["--config", path.to_str().unwrap(), "--listen", "udp://127.0.0.1:0"]);
    let (status, _, error) = run(command);
    assert_eq!(status, 78, "{error}");
    assert!(error.contains("no such user"), "{error}");
}

#[test]
fn every_router_confines_itself() {
    let daemon = Daemon::start_with("[process]\nuser = \"root\"\n", &[]);
    assert_eq!(status(&daemon, "NoNewPrivs"), "1");
    assert_eq!(status(&daemon, "Seccomp"), "2", "a filter");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    // Files of a process that may be dumped belong to its user; others are root's.
    let owner = std::fs::metadata(format!("/proc/{}/environ", daemon.pid())).unwrap().uid();
    assert_eq!(owner, 0);
    it_lives(daemon, "[process]\nuser = \"root\"\n");
}

#[test]
fn disabled_confinement_is_logged() {
    let off = "[process]\nuser = \"root\"\ncore_dumps = true\nconfine_files = false\nconfine_calls = false\n";
    let mut daemon = Daemon::start_with(off, &[]);
    for said in ["core dumps are on", "confine_files is off", "confine_calls is off"] {
        let line = daemon.wait_for_log(said);
        assert!(line.contains("WARN"), "{line}");
    }
    // A container may have a filter of its own, which the router inherits.
    assert_eq!(status(&daemon, "Seccomp"), status_of(std::process::id(), "Seccomp"));
    let elsewhere = tempfile::tempdir().unwrap();
    let ops = elsewhere.path().join("ops.cert");
    certificate(&ops);
    let line = daemon.reload(&format!("{off}{}", rule(&ops)));
    assert!(!line.contains("not reloaded"), "{line}");
}

#[test]
fn a_router_opens_only_configured_files() {
    let mut daemon = Daemon::start();
    if !confines_files(&mut daemon) {
        skip(Need::Kernel, "this kernel has no Landlock");
        return;
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let ops = elsewhere.path().join("ops.cert");
    certificate(&ops);
    let line = daemon.reload(&rule(&ops));
    assert!(line.contains("not reloaded") && line.contains("ermission denied"), "{line}");
    daemon.connect().register("/x");
}

#[test]
fn another_user_starts_with_a_missing_folder() {
    if !is_root() {
        return;
    }
    let (dir, programs) = (folder_of_nobody(), tempfile::tempdir_in("/tmp").unwrap());
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // The program itself may lie where another user cannot read it.
    let program = programs.path().join("namelyd");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_namelyd")).arg(&program).status().unwrap();
    assert!(copied.success());
    let folder = dir.path().join("not-there-yet");
    let config = dir.path().join("namely.toml");
    write(&config, b"[faces]\nlisten = [\"unix://SOCKET\", \"tcp://127.0.0.1:0\", \"udp://127.0.0.1:0\"]\n");
    let socket = folder.join("namely.sock");
    let text = std::fs::read_to_string(&config).unwrap().replace("SOCKET", socket.to_str().unwrap());
    write(&config, text.as_bytes());
    let mut command = Command::new(&program);
    command.args(["--config", config.to_str().unwrap(), "--log", "debug"]).env_clear();
    command.env("XDG_RUNTIME_DIR", &folder).env("HOME", "/nonexistent").current_dir("/");
    command.uid(NOBODY).gid(NOBODY);
    let daemon = Daemon::spawn(command, tempfile::tempdir().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(std::fs::metadata(&socket).unwrap().uid(), NOBODY);
    common::Client::unix(&socket).ok(namely_messages::Command::RibRegister, &named("/x"));
    let (status, _) = daemon.stop();
    assert_eq!((status.code(), socket.exists()), (Some(0), false));
}

/// The unit contains the service manager's part of the restrictions.
#[test]
fn the_systemd_unit_exposes_little() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/namelyd.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    for line in ["User=namely", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="] {
        assert!(text.lines().any(|of| of == line), "{line}");
    }
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=yes", "--threshold=20"]).arg(&unit).env("SYSTEMD_COLORS", "0");
    let Ok(output) = command.output() else {
        skip(Need::Systemd, "no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if !said.contains("Overall exposure") {
        skip(Need::Systemd, "systemd-analyze cannot look at units offline");
        return;
    }
    // The threshold is in tenths: 2.0.
    assert!(output.status.success(), "{said}");
}
