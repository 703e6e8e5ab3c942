//! `namely down`: stops the router that `namely up` started in the background.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use namely_client::Client;
use namely_host::peer::{self, Peer};
use namely_security::Signer;
use namely_transport::connection::{Connection, Options};
use namely_wire::FaceUri;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::draining_text;
use crate::router::{connection_failure, open};

/// The names of the programs that are routers, as the kernel shows them.
const PROGRAMS: [&str; 2] = ["namely", "namelyd"];

/// Stop the router of this machine that other commands use.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely up &\n  namely down\n  namely down --now\n\nA router with pending Interests drains first, for process.drain_ms at most: it\nanswers them, and refuses new ones of other hosts.\n\nA router of systemd is stopped by `systemctl stop namelyd.socket namelyd`."
)]
pub struct Down {
    /// How long to wait for the end of the router, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    wait: u32,
    /// Stop it at once: pending Interests are not answered.
    #[arg(long)]
    now: bool,
}

/// Interval between looks at the progress of a drain.
const LOOK: Duration = Duration::from_millis(200);

impl Down {
    /// Sends SIGTERM to the router and waits for its end.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let socket = socket(ctx)?;
        let shown = socket.display();
        let found = peer_of(&socket)?;
        let pid = found.pid.and_then(Pid::from_raw).ok_or_else(|| {
            Failure::failed(format!("the router at {shown} runs in another container: stop it there"))
        })?;
        check_program(pid, found.uid, &socket)?;
        let process = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|errno| Failure::failed(format!("cannot stop process {pid}: {errno}")))?;
        // The number could have passed to another process before it was opened. A process that
        // still listens has kept it.
        if peer_of(&socket)?.pid != found.pid {
            return Err(
                Failure::failed(format!("another router has taken over {shown}")).hint("run it again")
            );
        }
        match self.signal(&process) {
            // It ended by itself meanwhile.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(Errno::PERM) => {
                let why = format!("the router at {shown} belongs to user {}", found.uid);
                return Err(
                    Failure::new(Exit::Refused, why).hint("stop it as that user, or by `sudo namely down`")
                );
            }
            Err(errno) => return Err(Failure::failed(format!("cannot stop process {pid}: {errno}"))),
        }
        if !self.awaits_end(&process, &socket, ctx) {
            let why = format!("process {pid} still runs after {} s", self.wait);
            let hint = if self.now {
                format!("`kill -9 {pid}` ends it at once")
            } else {
                "`namely down --now` ends a drain".into()
            };
            return Err(Failure::new(Exit::Timeout, why).hint(hint));
        }
        ctx.out.answer(
            || format!("the router at {shown} has stopped (process {pid})"),
            || json!({"socket": shown.to_string(), "pid": pid.as_raw_nonzero().get()}),
        );
        Ok(())
    }

    /// Sends the signals for the stop. The second one ends a drain. It is another signal, because
    /// two of one kind may arrive as one.
    fn signal(&self, process: &OwnedFd) -> Result<(), Errno> {
        pidfd_send_signal(process, Signal::TERM)?;
        if self.now { pidfd_send_signal(process, Signal::INT) } else { Ok(()) }
    }

    /// Waits for the end of the process and reports the progress of its drain. Returns false if it
    /// still runs.
    fn awaits_end(&self, process: &OwnedFd, socket: &Path, ctx: &Context<'_>) -> bool {
        let end = Instant::now() + Duration::from_secs(self.wait.into());
        let mut reported = None;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if has_ended(process, left.min(LOOK)) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            let pending = pending(socket, ctx);
            if let Some(pending) = pending.filter(|_| pending != reported) {
                ctx.out.remark(draining_text(pending));
            }
            reported = pending;
        }
    }
}

/// The pending Interests of a router that drains.
fn pending(socket: &Path, ctx: &Context<'_>) -> Option<u64> {
    let uri = format!("unix://{}", socket.display());
    let mut router = Client::over(Connection::find(Some(&uri), options(ctx)).ok()?);
    router.status().ok()?.details?.draining
}

fn options(ctx: &Context<'_>) -> Options {
    Options {
        reconnect: Duration::ZERO,
        signer: Signer::digest_sha256(),
        trust_router_of: ctx.global.trusted(),
    }
}

/// The Unix socket of the selected router. Its user is trusted.
fn socket(ctx: &Context<'_>) -> Result<PathBuf, Failure> {
    let connection = open(ctx, options(ctx))?;
    match connection.uri() {
        FaceUri::Unix(path) => Ok(PathBuf::from(path)),
        // The Unix socket is beside that of the shared memory. In a folder of all users, such as
        // /tmp, it may be another user's.
        FaceUri::Memif { path, .. } => {
            let socket = Path::new(path).with_extension("sock");
            let uri = format!("unix://{}", socket.display());
            Connection::find(Some(&uri), options(ctx)).map_err(connection_failure)?;
            Ok(socket)
        }
        uri => Err(Failure::failed(format!("the router at {uri} is not known as a process of this machine"))
            .hint("name its Unix socket: --router unix:///PATH")),
    }
}

/// The process that listens at a socket.
fn peer_of(socket: &Path) -> Result<Peer, Failure> {
    let found = UnixStream::connect(socket).and_then(peer::of);
    found.map_err(|error| {
        Failure::new(Exit::NoRouter, format!("no router listens at {}: {error}", socket.display()))
    })
}

/// Refuses to stop another program: a service manager that has opened the socket, or a router that
/// an application embeds. `uid` is the user of the socket.
fn check_program(pid: Pid, uid: u32, socket: &Path) -> Result<(), Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if is_router(&status, uid) {
        return Ok(());
    }
    let name = field(&status, "Name:").unwrap_or_default();
    let why =
        format!("process {pid} ({name}), which listens at {}, is no router of namely", socket.display());
    let hint = match name {
        "systemd" => "systemd opened this socket: `systemctl stop namelyd.socket namelyd` stops the router",
        _ => "stop that program itself",
    };
    Err(Failure::new(Exit::Refused, why).hint(hint))
}

/// Returns true if `status`, the file of a process in /proc, is of a router of user `uid`. A
/// process that has inherited a socket leaves the number of its parent there, which another user's
/// process may get later.
fn is_router(status: &str, uid: u32) -> bool {
    // The real, effective, saved and file system's user (proc_pid_status(5)).
    let effective = field(status, "Uid:").and_then(|uids| uids.split_whitespace().nth(1));
    let is_owner = effective.and_then(|uid| uid.parse().ok()) == Some(uid);
    is_owner && field(status, "Name:").is_some_and(|name| PROGRAMS.contains(&name))
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Waits for the end of a process, for `limit` at most.
fn has_ended(process: &OwnedFd, limit: Duration) -> bool {
    // The descriptor of a process is readable once the process has ended (pidfd_open(2)).
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: 10, tv_nsec: 0 });
    poll(&mut polled, Some(&limit)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_routers_of_the_sockets_user_are_stopped() {
        let status =
            |name: &str| format!("Name:\t{name}\nUmask:\t0022\nUid:\t1\t7\t7\t7\nGid:\t8\t8\t8\t8\n");
        assert!(is_router(&status("namelyd"), 7) && is_router(&status("namely"), 7));
        assert!(!is_router(&status("namelyd"), 1), "the effective user");
        assert!(!is_router(&status("systemd"), 7) && !is_router(&status("namely serve"), 7));
        assert!(!is_router("", 0), "it has ended");
    }
}
