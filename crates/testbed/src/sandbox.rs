//! Where a testbed lives: a process id namespace, a mount namespace and network namespaces that end
//! with the program that asked for them, however that ends.
//!
//! A program calls [`enter`] first thing. It starts itself again inside, as the first process of
//! the namespaces (by unshare(1) of util-linux, because no safe call of a library does), and waits.
//! When the first process of a process id namespace ends, the kernel kills all others in it; the
//! network namespaces have no names outside and go with the last process in them. The two hold a
//! pipe: an octet in it asks the inner to end in order, its end says that the outer is gone.

use std::env;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::TestbedError;
use crate::interrupt::Interrupt;

/// Set in the inner process.
const MARK: &str = "NAMELY_TESTBED_INSIDE";

/// In the inner process: whether it is in a user namespace of its own.
const USER: &str = "NAMELY_TESTBED_USER";

/// In the inner process: the number of unshare, by which others come into its namespaces.
const OUTER: &str = "NAMELY_TESTBED_OUTER";

/// How long the inner process may take to end in order once it was asked to.
const ORDER: Duration = Duration::from_secs(20);

/// Where this program runs.
#[derive(Debug)]
pub enum Place {
    /// Inside: it may make namespaces. The interrupt is set when the outer process wants an end.
    Inside(Interrupt),
    /// Outside, and the inner one has ended with this.
    Done(u8),
}

/// Has a program inside know nothing of it: it may want a sandbox of its own.
pub(crate) fn forget(command: &mut Command) {
    command.env_remove(MARK).env_remove(USER).env_remove(OUTER);
}

/// Whether the sandbox has a user namespace of its own.
pub fn is_own_user() -> bool {
    env::var_os(USER).is_some_and(|value| value == "1")
}

/// The number of the process by whose namespaces others come into the sandbox, as it is outside.
pub fn outer_pid() -> Option<u32> {
    env::var(OUTER).ok()?.parse().ok()
}

/// Whether this process is inside a sandbox already.
pub fn is_inside() -> bool {
    env::var_os(MARK).is_some()
}

/// Goes into a sandbox of this program's own: starts it again inside with the same arguments and
/// waits for its end, or gets the inner process ready. SIGINT and SIGTERM to the outer process end
/// the inner one in order; a second one at once.
///
/// # Errors
/// Environment: the kernel allows no namespaces here, and what to do about it.
pub fn enter() -> Result<Place, TestbedError> {
    if is_inside() {
        return settle().map(Place::Inside);
    }
    let flags = flags()?;
    let own =
        env::current_exe().map_err(|e| TestbedError::unable("this program's own file is unknown", e))?;
    let interrupt = Interrupt::on_signals()?;
    let mut command = Command::new("sh");
    command.env(USER, if flags.contains(&"--user") { "1" } else { "0" });
    command.args(["-c", &format!("{OUTER}=$$ exec unshare \"$@\""), "sh"]);
    command.args(flags).arg("--").arg(own).args(env::args_os().skip(1));
    // A group of its own: Ctrl-C comes to the outer process, which passes it on.
    command.env(MARK, "1").stdin(Stdio::piped()).process_group(0);
    let mut child =
        command.spawn().map_err(|e| TestbedError::unable("cannot start unshare of util-linux", e))?;
    let status = attend(&mut child, &interrupt);
    Ok(Place::Done(status))
}

/// Waits for the inner process, and passes on what the signals want.
fn attend(child: &mut Child, interrupt: &Interrupt) -> u8 {
    let mut pipe = child.stdin.take();
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
                return u8::try_from(code.unwrap_or(1)).unwrap_or(1);
            }
            Err(_) => return 1,
        }
        if interrupt.sleep(Duration::from_millis(20)).is_err() {
            if let Some(mut pipe) = pipe.take() {
                let _ = pipe.write_all(b"e");
                // Held open: its end would say that this process is gone.
                std::mem::forget(pipe);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Options of unshare with which this user may have what is needed.
fn flags() -> Result<Vec<&'static str>, TestbedError> {
    const ALL: [&str; 6] = ["--net", "--pid", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"];
    let mut said = String::new();
    for user in [&[][..], &["--user", "--map-root-user"][..]] {
        let is_root = rustix::process::geteuid().is_root();
        if user.is_empty() && !is_root {
            continue;
        }
        let flags: Vec<&str> = user.iter().chain(&ALL).copied().collect();
        let mut command = Command::new("unshare");
        command.args(&flags).args(["--", "sh", "-c", "mount -t tmpfs testbed /run && ip link set lo up"]);
        match command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok(flags),
            Ok(output) => said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
            Err(e) => return Err(TestbedError::unable("cannot start unshare of util-linux", e)),
        }
    }
    let reason = format!("no network namespaces here: {said}");
    let hint = "a testbed needs unshare (util-linux), ip and tc (iproute2), and either root or user namespaces: \
                see the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone and \
                kernel.apparmor_restrict_unprivileged_userns; in a container, give it CAP_SYS_ADMIN and CAP_NET_ADMIN";
    Err(TestbedError::Unable { reason, hint: Some(hint.to_owned()) })
}

/// The inner process, before anything else: a `/run` of its own, where `ip netns` keeps its names
/// and routers have their sockets, a loopback, and an eye on the outer process.
fn settle() -> Result<Interrupt, TestbedError> {
    let interrupt = Interrupt::default();
    watch(interrupt.clone())?;
    // A testbed's programs are found by absolute paths: those below /run would be hidden.
    tool("mount", &["-t", "tmpfs", "testbed", "/run"])?;
    tool("ip", &["link", "set", "lo", "up"])?;
    Ok(interrupt)
}

/// Ends this process when the outer one is gone, and sets the interrupt when that asks for an end.
fn watch(interrupt: Interrupt) -> Result<(), TestbedError> {
    let own = std::io::stdin().as_fd().try_clone_to_owned();
    let mut pipe =
        File::from(own.map_err(|e| TestbedError::unable("the pipe to the outer process is gone", e))?);
    std::thread::spawn(move || {
        let mut octet = [0];
        if matches!(pipe.read(&mut octet), Ok(1)) {
            interrupt.set();
            // Whichever comes first: the end of the outer process, or of its patience.
            let (ended, end) = std::sync::mpsc::channel();
            std::thread::spawn(move || ended.send(pipe.read(&mut [0])));
            let _ = end.recv_timeout(ORDER);
        }
        // Takes every process of the namespace along.
        std::process::exit(137);
    });
    Ok(())
}

/// Runs a tool of the system to its end.
///
/// # Errors
/// What it said.
pub(crate) fn tool(program: &str, arguments: &[&str]) -> Result<(), TestbedError> {
    let doing = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| TestbedError::unable(format!("cannot run {program}"), e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(TestbedError::Unable { reason: format!("{}: {said}", doing()), hint: None })
}

/// Every process in a node's namespace.
pub(crate) fn inhabitants(node: &str) -> Vec<Pid> {
    let output = Command::new("ip").args(["netns", "pids", node]).stdin(Stdio::null()).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    said.lines().filter_map(|line| line.trim().parse().ok().and_then(Pid::from_raw)).collect()
}

/// Sends a signal to every process in a node's namespace.
pub(crate) fn signal(node: &str, signal: Signal) {
    for pid in inhabitants(node) {
        // Whoever is gone already needs none.
        let _ = kill_process(pid, signal);
    }
}

/// The folder of this program and its relatives, unless `NAMELY_BIN_DIR` names another.
pub fn programs() -> Option<PathBuf> {
    let named = env::var_os("NAMELY_BIN_DIR").map(PathBuf::from);
    named.or_else(|| Some(env::current_exe().ok()?.parent()?.to_owned()))
}
