//! Tests that run again as another user: the binary itself, with one of its ignored tests.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Client, Daemon};

/// A uid without rights of its own, on every Linux machine.
pub const NOBODY: u32 = 65534;

/// Environment variable with the router's socket, for the test binary that runs again as another
/// user.
const SOCKET: &str = "NAMELY_TEST_SOCKET";

/// Environment variable with the router's TCP address.
const TCP: &str = "NAMELY_TEST_TCP";

/// An ignored test that runs as another user; killed when dropped.
pub struct OtherUser {
    child: Option<Child>,
    _dir: TempDir,
}

/// Starts one of the ignored tests of this binary as [`NOBODY`].
pub fn start_as_nobody(daemon: &Daemon, test: &str) -> OtherUser {
    // The test binary itself may lie where another user cannot read it.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let binary = dir.path().join("test");
    // Another process copies the file: a child that another test has just forked would hold a
    // descriptor of this process open for writing, which prevents execution.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&binary).status().unwrap();
    assert!(copied.success());
    for path in [dir.path(), binary.as_path()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut process = Command::new(&binary);
    process.args(["--ignored", "--exact", test, "--nocapture"]).env(SOCKET, daemon.socket());
    process.env(TCP, daemon.tcp().to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = process.uid(NOBODY).gid(NOBODY).current_dir("/").spawn().unwrap();
    OtherUser { child: Some(child), _dir: dir }
}

/// Runs one of the ignored tests of this binary as [`NOBODY`]; it must pass.
pub fn as_nobody(daemon: &Daemon, test: &str) {
    let output = start_as_nobody(daemon, test).child.take().unwrap().wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the connection of an ignored test; none if it was not started as another user.
pub fn connect_as_other_user() -> Option<Client> {
    let socket = std::env::var_os(SOCKET)?;
    Some(Client::unix(Path::new(&socket)))
}

/// As `connect_as_other_user`, over TCP.
pub fn connect_as_other_user_by_tcp() -> Option<Client> {
    let address = std::env::var(TCP).ok()?;
    Some(Client::tcp(address.parse().unwrap()))
}

impl Drop for OtherUser {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
