//! Shared parts of the command's tests: a home directory, a router, and commands that run to their
//! end.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod pair;
pub mod testbed;
pub mod world;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use namely_testkit::{until, wait_until_true};

/// Longest wait for anything that a test started.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A home directory with one router's socket in it. All processes that it started end when it is
/// dropped.
pub struct Home {
    dir: tempfile::TempDir,
    children: Vec<Child>,
}

/// The result of a command that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Home {
    pub fn new() -> Self {
        Home { dir: tempfile::tempdir().unwrap(), children: Vec::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn router_uri(&self) -> String {
        format!("unix://{}", self.path("namely.sock").display())
    }

    /// A home with a running router.
    pub fn with_router() -> Self {
        let mut home = Self::new();
        home.start_router();
        home
    }

    /// Starts the router. Returns its index among the children.
    pub fn start_router(&mut self) -> usize {
        let uri = self.router_uri();
        self.start_router_at(&[&uri])
    }

    /// Starts the router with further options. Returns its index among the children.
    pub fn start_router_with(&mut self, options: &[&str]) -> usize {
        let uri = self.router_uri();
        let mut command = self.namely(["up", "--no-config", "--listen", &uri]);
        command.args(options);
        self.spawn_router(command, &uri)
    }

    /// Starts a router with these listen addresses, the first of which is a Unix socket.
    pub fn start_router_at(&mut self, listen: &[&str]) -> usize {
        let mut command = self.namely(["up", "--no-config"]);
        for uri in listen {
            command.args(["--listen", uri]);
        }
        self.spawn_router(command, listen[0])
    }

    /// Starts a router, and waits until it answers at `uri`.
    fn spawn_router(&mut self, command: Command, uri: &str) -> usize {
        let index = self.spawn(command);
        self.wait_for("the router", || {
            let mut status = Command::new(env!("CARGO_BIN_EXE_namely"));
            status.args(["status", "--json", "--router", uri]).output().unwrap().status.success()
        });
        index
    }

    /// `namely` with its environment pointing into this home.
    pub fn namely<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namely"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_remove("NDN_CLIENT_TRANSPORT")
            .env_remove("NAMELY_LOG")
            .env("HOME", self.dir.path())
            .env("NAMELY_HOME", self.path("home"))
            .env("NAMELY_ROUTER", self.router_uri())
            .stdin(Stdio::null());
        command
    }

    /// Runs `namely` to its end.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ended {
        ended(self.namely(args).output().unwrap())
    }

    /// Runs `namely`, which must succeed. Returns its standard output.
    pub fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let end = self.run(args);
        assert_eq!(end.code, Some(0), "{end:?}");
        end.stdout
    }

    /// Runs `namely`, which must fail with `code`. Returns its standard error.
    pub fn fails<S: AsRef<OsStr>>(&self, code: i32, args: impl IntoIterator<Item = S>) -> String {
        let end = self.run(args);
        assert_eq!(end.code, Some(code), "{end:?}");
        end.stderr
    }

    /// Runs `namely --json`. Returns each line of its output as JSON.
    pub fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Vec<serde_json::Value> {
        let mut command = self.namely(args);
        let end = ended(command.arg("--json").output().unwrap());
        assert_eq!(end.code, Some(0), "{end:?}");
        end.stdout.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"))).collect()
    }

    /// Starts a command in the background. Returns its index among the children.
    pub fn spawn(&mut self, mut command: Command) -> usize {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("background.log")).unwrap();
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.children.push(child);
        self.children.len() - 1
    }

    /// Starts `namely` in the background and waits until `prefix` has a route.
    pub fn serve<S: AsRef<OsStr>>(&mut self, prefix: &str, args: impl IntoIterator<Item = S>) -> usize {
        let command = self.namely(args);
        let index = self.spawn(command);
        self.wait_for(prefix, || self.run(["route", "list"]).stdout.contains(prefix));
        index
    }

    /// The process of a background command.
    pub fn pid(&self, index: usize) -> u32 {
        self.children[index].id()
    }

    /// Makes a background command reload its configuration.
    pub fn reload(&self, index: usize) {
        signal(&self.children[index], rustix::process::Signal::HUP);
    }

    /// Stops a background command by SIGTERM, and waits for its end.
    pub fn stop(&mut self, index: usize) {
        let child = &mut self.children[index];
        signal(child, rustix::process::Signal::TERM);
        until("the child stops on SIGTERM", || child.try_wait().unwrap());
    }

    /// The output of the background commands.
    pub fn background_log(&self) -> String {
        fs::read_to_string(self.path("background.log")).unwrap_or_default()
    }

    pub fn wait_for(&self, what: &str, condition: impl FnMut() -> bool) {
        assert!(wait_until_true(condition), "waited in vain for {what}\n{}", self.background_log());
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

pub fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Writes a file of `octets` octets. The content depends on `seed`.
pub fn write_file(path: &Path, octets: usize, seed: u64) {
    let mut state = seed | 1;
    let data: Vec<u8> = (0..octets)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    fs::write(path, data).unwrap();
}
