//! Users of one machine are isolated: a file or socket of one user is not taken for that of
//! another. Needs root, to become other users.

use crate::common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use namely_testkit::{Need, skip};

use common::{Ended, Home, ended};

/// The user who interferes.
const NOBODY: u32 = 65534;

/// A home that other users can enter, with a `namely` that they can run. It requires root.
struct Shared {
    home: Home,
    namely: PathBuf,
}

impl Shared {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Root, "only root can become another user");
            return None;
        }
        let home = Home::new();
        let namely = home.path("namely");
        // Another process copies the file. A child that another test has just forked would inherit
        // this process's descriptor of the copy, and no file that is open for writing can be
        // executed.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_namely")).arg(&namely).status().unwrap();
        assert!(copied.success());
        allow(home.path("."), 0o755);
        allow(&namely, 0o755);
        Some(Shared { home, namely })
    }

    /// `namely` as the user `uid`, with a home below this one and no configured router.
    fn namely_of(&self, uid: u32, args: &[&str]) -> Command {
        let home = self.folder_of(uid, &format!("home-{uid}"), 0o700);
        let mut command = Command::new(&self.namely);
        command.args(args).uid(uid).gid(uid).current_dir(&home).env_clear();
        command.env("HOME", &home).env("NAMELY_HOME", home.join("keys"));
        command
    }

    fn run_of(&self, uid: u32, args: &[&str]) -> Ended {
        ended(self.namely_of(uid, args).output().unwrap())
    }

    /// A folder of the user `uid`, which is made if there is none.
    fn folder_of(&self, uid: u32, name: &str, mode: u32) -> PathBuf {
        let path = self.home.path(name);
        if !path.exists() {
            fs::create_dir(&path).unwrap();
            chown(&path, Some(uid), Some(uid)).unwrap();
            allow(&path, mode);
        }
        path
    }

    /// Starts a router of the user `uid` that listens at `socket`. Every user may connect.
    fn start_router_of(&mut self, uid: u32, socket: &Path) {
        let uri = format!("unix://{}", socket.display());
        let command = self.namely_of(uid, &["up", "--no-config", "--listen", &uri]);
        self.home.spawn(command);
        let up = || self.run_of(uid, &["status", "--router", &uri]).code == Some(0);
        self.home.wait_for("the other user's router", up);
        allow(socket, 0o666);
    }
}

fn allow(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn another_users_router_needs_trust() {
    let Some(mut shared) = Shared::new() else { return };
    let socket = shared.folder_of(NOBODY, "of-nobody", 0o755).join("namely.sock");
    shared.start_router_of(NOBODY, &socket);
    let uri = format!("unix://{}", socket.display());

    for uid in [0, 54_321] {
        let refused = shared.run_of(uid, &["status", "--router", &uri]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(
            refused.stderr.contains("uid 65534") && refused.stderr.contains("neither by you"),
            "{refused:?}"
        );
        assert!(refused.stderr.contains("NAMELY_TRUST_ROUTER_OF"), "{refused:?}");
        for users in ["65534", "root,65534"] {
            let trusted = shared.run_of(uid, &["status", "--router", &uri, "--trust-router-of", users]);
            assert_eq!(trusted.code, Some(0), "{trusted:?}");
        }
        let mut by_variable = shared.namely_of(uid, &["status"]);
        by_variable.env("NAMELY_ROUTER", &uri).env("NAMELY_TRUST_ROUTER_OF", "65534");
        assert!(by_variable.status().unwrap().success());
    }
    // The fetching and the publishing commands have sockets of their own.
    for command in ["get", "ping", "peek", "pingserver"] {
        let args = [command, "/x", "--router", &uri];
        let refused = shared.run_of(54_321, &args);
        assert_eq!(refused.code, Some(3), "{args:?}: {refused:?}");
        assert!(refused.stderr.contains("uid 65534"), "{args:?}: {refused:?}");
    }
    // Every user may use root's router.
    let roots = shared.home.path("root.sock");
    shared.start_router_of(0, &roots);
    let of_root = format!("unix://{}", roots.display());
    assert_eq!(shared.run_of(54_321, &["status", "--router", &of_root]).code, Some(0));
}

#[test]
fn another_users_default_socket_is_refused() {
    let Some(mut shared) = Shared::new() else { return };
    // An unused user id, and its folder in /tmp, which another user has created first.
    let uid = 1_900_000_000 + std::process::id();
    let folder = tempfile::Builder::new().prefix(&format!("namely-{uid}")).rand_bytes(0).tempdir_in("/tmp");
    let folder = folder.unwrap();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    allow(folder.path(), 0o755);
    shared.start_router_of(NOBODY, &folder.path().join("namely.sock"));

    let refused = shared.run_of(uid, &["status"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("uid 65534"), "{refused:?}");

    // With a private runtime directory, /tmp is not used.
    let runtime = shared.folder_of(uid, "runtime", 0o700);
    let mut command = shared.namely_of(uid, &["status"]);
    let nobody = ended(command.env("XDG_RUNTIME_DIR", runtime).output().unwrap());
    assert_eq!(nobody.code, Some(3), "{nobody:?}");
    assert!(!nobody.stderr.contains("/tmp/namely-") && !nobody.stderr.contains("65534"), "{nobody:?}");
}

#[test]
fn refused_users_see_the_missing_rule() {
    let Some(mut shared) = Shared::new() else { return };
    let (socket, file) = (shared.home.path("ruled.sock"), shared.home.path("namely.toml"));
    let rules = format!("[[authorization.user]]\nuser = {NOBODY}\nregister = [\"/lab\"]\n");
    // The rule for another user is not reported.
    fs::write(&file, rules + "[[authorization.user]]\nuser = 4321\nregister = [\"/secret\"]\n").unwrap();
    let uri = format!("unix://{}", socket.display());
    let file = file.display().to_string();
    let command = shared.namely_of(0, &["up", "--config", &file, "--listen", &uri, "--only"]);
    shared.home.spawn(command);
    let up = || shared.run_of(0, &["status", "--router", &uri]).code == Some(0);
    shared.home.wait_for("the router with rules", up);
    allow(&socket, 0o666);
    let why = |what: &[&str]| {
        let end = shared.run_of(NOBODY, &[&["why", "--router", &uri], what].concat());
        assert_eq!(end.code, Some(0), "{end:?}");
        end.stdout
    };
    let allowed = why(&["--register", "/lab/x"]);
    assert!(allowed.contains("[[authorization.user]] user = 65534, register = [\"/lab\"]"), "{allowed}");
    assert!(allowed.contains("the router's policy allows you to register /lab/x"), "{allowed}");
    for (what, line) in [
        (&["--register", "/secret"][..], "`register = [\"/secret\"]`"),
        (&["--bind", "/secret"], "`bind = [\"/secret\"]`"),
        (&["--manage"], "`manage = true`"),
    ] {
        let refused = why(what);
        assert!(refused.contains("no rule allows it") && refused.contains("`user = 65534`"), "{refused}");
        assert!(refused.contains(line) && !refused.contains("4321"), "{refused}");
    }
    let sent = shared.run_of(NOBODY, &["route", "add", "/secret", "local", "--router", &uri]);
    assert_eq!(sent.code, Some(7), "{sent:?}");
}

#[test]
fn unreadable_files_need_no_second_try() {
    let Some(mut shared) = Shared::new() else { return };
    let socket = shared.folder_of(NOBODY, "of-nobody", 0o755).join("namely.sock");
    shared.start_router_of(NOBODY, &socket);
    let uri = format!("unix://{}", socket.display());
    let data = shared.folder_of(NOBODY, "data", 0o755);
    for (file, mode) in [("open", 0o644), ("locked", 0o000)] {
        fs::write(data.join(file), "text").unwrap();
        allow(data.join(file), mode);
    }
    let server = shared
        .namely_of(NOBODY, &["serve", &data.display().to_string(), "--prefix", "/lab", "--router", &uri]);
    shared.home.spawn(server);
    let of_router = |words: &[&str]| shared.run_of(NOBODY, &[words, &["--router", &uri]].concat());
    shared.home.wait_for("the listing", || of_router(&["ls", "/lab"]).code == Some(0));
    let end = of_router(&["get", "/lab", "-r", "copy"]);
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.stderr.contains("failed: locked: its producer cannot read it"), "{end:?}");
    assert!(end.stderr.contains("hint: its producer has to make it readable"), "{end:?}");
    assert!(!end.stderr.contains("the same command again"), "{end:?}");
}
