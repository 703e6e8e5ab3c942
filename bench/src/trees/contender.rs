//! Contenders that copy a tree: an rsync daemon and its client, or a router, `namely serve` and
//! `namely get`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use namely_testbed::{Interrupt, Process, command};

use crate::error::Error;
use crate::probe;
use crate::programs::{Program, READY_LIMIT};
use crate::subject::free_ports;

/// Name of the served tree.
const PREFIX: &str = "/trees/tree";

/// Interval between two attempts to reach the daemon.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// One way to copy a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    Rsync,
    Namely,
}

impl Contender {
    pub(super) const ALL: [Contender; 2] = [Contender::Rsync, Contender::Namely];

    pub(super) fn name(self) -> &'static str {
        match self {
            Contender::Rsync => "rsync",
            Contender::Namely => "namely",
        }
    }

    /// Returns the missing requirement, if there is one.
    pub(super) fn missing(self) -> Option<String> {
        match self {
            Contender::Rsync => rsync().missing(),
            Contender::Namely => router().missing().or_else(|| client().missing()),
        }
    }
}

fn rsync() -> Program {
    Program::find(&["rsync"], "RSYNC_BIN", false)
}

fn router() -> Program {
    Program::find(&["namelyd"], "NAMELY_BIN_DIR", true)
}

fn client() -> Program {
    Program::find(&["namely"], "NAMELY_BIN_DIR", true)
}

/// A contender with running servers. They end when this is dropped.
pub(super) struct RunningContender<'a> {
    contender: Contender,
    pub(super) servers: Vec<Process>,
    dir: &'a Path,
    port: u16,
}

impl<'a> RunningContender<'a> {
    /// Serves `tree`, with all other files in `dir`, and waits until it is served.
    pub(super) fn start(
        contender: Contender,
        tree: &Path,
        dir: &'a Path,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let [port, _] = free_ports()?;
        let mut served = RunningContender { contender, servers: Vec::new(), dir, port };
        match contender {
            Contender::Rsync => served.start_daemon(tree, interrupt)?,
            Contender::Namely => served.start_serve(tree, interrupt)?,
        }
        Ok(served)
    }

    fn start_daemon(&mut self, tree: &Path, interrupt: &Interrupt) -> Result<(), Error> {
        let file = self.dir.join("rsyncd.conf");
        let text = format!("use chroot = no\n[tree]\npath = {}\nread only = yes\n", tree.display());
        fs::write(&file, text)
            .map_err(|e| Error::environment(format!("cannot write {}", file.display()), e))?;
        let mut command = command(rsync().path(), self.dir);
        command.args(["--daemon", "--no-detach", "--address", "127.0.0.1"]);
        command.args(["--port", &self.port.to_string(), "--config"]).arg(&file);
        let mut daemon = Process::start("rsync daemon", command, self.dir, None)?;
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            daemon.expect_running()?;
            interrupt.sleep(LOOK_PAUSE)?;
        }
        self.servers.push(daemon);
        Ok(())
    }

    fn start_serve(&mut self, tree: &Path, interrupt: &Interrupt) -> Result<(), Error> {
        let socket = self.socket();
        let mut command = command(router().path(), self.dir);
        command.args(["--no-config", "--listen"]).arg(format!("unix://{}", socket.display()));
        let mut namelyd = Process::start("namelyd", command, self.dir, None)?;
        probe::wait_for_socket(&socket, READY_LIMIT, interrupt)
            .map_err(|e| namelyd.expect_running().err().map_or(e, Error::from))?;
        self.servers.push(namelyd);
        let mut command = self.namely();
        command.arg("serve").arg(tree).args(["--prefix", PREFIX]);
        self.servers.push(Process::start("serve", command, self.dir, None)?);
        probe::versioned_name(&socket, PREFIX, READY_LIMIT, interrupt)?;
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("router.sock")
    }

    fn namely(&self) -> Command {
        let mut command = command(client().path(), self.dir);
        command.arg("--router").arg(format!("unix://{}", self.socket().display()));
        command
    }

    /// Returns the command that copies the tree to `copy`, or updates an existing copy.
    pub(super) fn client(&self, copy: &Path) -> Command {
        match self.contender {
            Contender::Rsync => {
                let mut command = command(rsync().path(), self.dir);
                command.args(["--archive", &format!("rsync://127.0.0.1:{}/tree/", self.port)]).arg(copy);
                command
            }
            Contender::Namely => {
                let mut command = self.namely();
                command.args(["--quiet", "get", "--recursive", PREFIX]).arg(copy);
                command
            }
        }
    }

    /// Returns the CPU time of the servers so far.
    pub(super) fn cpu(&self) -> Duration {
        self.servers.iter().map(Process::family_cpu_time).sum()
    }
}
