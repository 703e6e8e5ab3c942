//! A real `namelyd` and real clients of it, over real sockets.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module")]

pub mod client;
pub mod other_user;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use namely_testkit::until;
use namely_wire::FaceUri;
use tempfile::TempDir;

pub use client::Client;

/// Longest wait for anything; only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running `namelyd`, killed when dropped.
pub struct Daemon {
    child: Child,
    dir: TempDir,
    listening: Vec<FaceUri>,
    log: Receiver<String>,
    seen: Vec<String>,
}

impl Daemon {
    /// Starts a daemon on a socket of its own and ephemeral ports, with the default configuration.
    pub fn start() -> Self {
        Self::start_with("", &[])
    }

    /// As `start`, with a configuration file and further options.
    pub fn start_with(config: &str, options: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory"), config, options)
    }

    /// As `start_with`, in a directory that an earlier daemon may have used.
    pub fn start_in(dir: TempDir, config: &str, options: &[&str]) -> Self {
        // Other users of the tests must reach the socket.
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let file = dir.path().join("namely.toml");
        std::fs::write(&file, config).expect("a configuration file");
        let socket = format!("unix://{}", dir.path().join("x.sock").display());
        let mut command = namelyd();
        command.args(["--config", file.to_str().expect("a path"), "--listen", &socket]);
        command.args(["--listen", "tcp://127.0.0.1:0", "--listen", "udp://127.0.0.1:0", "--log", "debug"]);
        command.args(options);
        Self::spawn(command, dir).unwrap_or_else(|output| panic!("namelyd did not start: {output}"))
    }

    /// Waits until `command` listens. Returns its output if it ends instead.
    pub fn spawn(mut command: Command, dir: TempDir) -> Result<Self, String> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("namelyd");
        let log = lines(child.stderr.take().expect("piped"));
        let output = lines(child.stdout.take().expect("piped"));
        let mut listening = Vec::new();
        let mut text = String::new();
        while let Ok(line) = output.recv_timeout(PATIENCE) {
            if let Some(uri) = line.strip_prefix("listening on ") {
                listening.push(uri.parse().expect("a URI"));
            }
            if line.starts_with("ready") {
                return Ok(Daemon { child, dir, listening, log, seen: Vec::new() });
            }
            text.push_str(&line);
        }
        child.wait().ok();
        Err(text + &log.iter().collect::<Vec<_>>().join("\n"))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("x.sock")
    }

    pub fn config_file(&self) -> PathBuf {
        self.dir.path().join("namely.toml")
    }

    pub fn listening(&self) -> &[FaceUri] {
        &self.listening
    }

    pub fn tcp(&self) -> SocketAddr {
        self.address("tcp4")
    }

    pub fn udp(&self) -> SocketAddr {
        self.address("udp4")
    }

    fn address(&self, scheme: &str) -> SocketAddr {
        let uri = self.listening.iter().find(|uri| uri.scheme() == scheme).expect("a listener");
        uri.address().expect("an address")
    }

    pub fn connect(&self) -> Client {
        Client::unix(&self.socket())
    }

    /// Waits for a line of the log that contains `text`.
    pub fn wait_for_log(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("the log lacks '{text}':\n{}", self.seen.join("\n")),
            }
        }
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).expect("a process");
        rustix::process::kill_process(pid, signal).expect("own process");
    }

    /// Replaces the configuration file and reloads it. Returns the log line with the outcome.
    pub fn reload(&mut self, config: &str) -> String {
        std::fs::write(self.config_file(), config).expect("a configuration file");
        self.signal(rustix::process::Signal::HUP);
        self.wait_for_log("reload")
    }

    /// Stops it with SIGTERM.
    pub fn stop(mut self) -> (ExitStatus, TempDir) {
        self.signal(rustix::process::Signal::TERM);
        let status = wait(&mut self.child);
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().expect("a directory"));
        (status, dir)
    }

    /// Waits until it has ended.
    pub fn ended(mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Kills it without a chance to clean up.
    pub fn kill(mut self) -> TempDir {
        self.child.kill().expect("own process");
        wait(&mut self.child);
        std::mem::replace(&mut self.dir, tempfile::tempdir().expect("a directory"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The `namelyd` that this build made, with nothing from the environment that could change it.
pub fn namelyd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namelyd"));
    command
        .env_remove("NAMELY_LOG")
        .env_remove("NOTIFY_SOCKET")
        .env_remove("WATCHDOG_USEC")
        .env_remove("XDG_CONFIG_HOME")
        // It may be the folder of the user who has started the tests as another one.
        .env_remove("XDG_RUNTIME_DIR");
    command.env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

/// Runs `command` to its end: status, standard output, standard error.
pub fn run(mut command: Command) -> (i32, String, String) {
    let output = command.output().expect("namelyd");
    let text = |octets: Vec<u8>| String::from_utf8(octets).expect("UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

pub fn write(path: &Path, octets: &[u8]) {
    std::fs::write(path, octets).expect("a file");
}

fn wait(child: &mut Child) -> ExitStatus {
    until("the process ends", || child.try_wait().expect("own process"))
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
