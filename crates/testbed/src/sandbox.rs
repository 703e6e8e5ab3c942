//! The sandbox of a testbed: a process id namespace, a mount namespace and network namespaces. They
//! end with the program that created them, even if it is killed.
//!
//! A program calls [`enter`] first. It starts itself again inside, as the first process of the
//! namespaces, and waits for it. It uses unshare(1) of util-linux, because no library has a safe
//! call for this. When the first process of a process id namespace ends, the kernel kills all
//! others in it. The network namespaces have no names outside and are deleted with their last
//! process. A pipe connects the two processes: an octet requests an orderly end of the inner
//! process, and its closing reports the end of the outer one.

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

/// Set in the inner process: whether it is in a user namespace of its own.
const USER: &str = "NAMELY_TESTBED_USER";

/// Set in the inner process: the process id of unshare, by which other processes enter the
/// namespaces.
const OUTER: &str = "NAMELY_TESTBED_OUTER";

/// Maximum time for the inner process to end in order after the request.
const ORDER: Duration = Duration::from_secs(20);

/// The side of the sandbox that this program is on.
#[derive(Debug)]
pub enum SandboxSide {
    /// Inside: it may create namespaces. The outer process sets the interrupt to request an end.
    Inside(Interrupt),
    /// Outside, and the inner process has ended with this exit status.
    Done(u8),
}

/// Removes the sandbox's variables from a command, because the program may enter a sandbox of its
/// own.
pub(crate) fn forget(command: &mut Command) {
    command.env_remove(MARK).env_remove(USER).env_remove(OUTER);
}

/// Returns true if the sandbox has a user namespace of its own.
pub fn is_own_user() -> bool {
    env::var_os(USER).is_some_and(|value| value == "1")
}

/// Returns the process id, as seen outside, by which other processes enter the sandbox.
pub fn outer_pid() -> Option<u32> {
    env::var(OUTER).ok()?.parse().ok()
}

/// Returns true if this process is inside a sandbox.
pub fn is_inside() -> bool {
    env::var_os(MARK).is_some()
}

/// Enters a sandbox of this program. Outside, it starts the program again inside with the same
/// arguments and waits for its end. Inside, it prepares the inner process. The first SIGINT or
/// SIGTERM to the outer process ends the inner one in order; the second ends it at once.
///
/// # Errors
/// Environment: the kernel allows no namespaces here. The error has a remedy.
pub fn enter() -> Result<SandboxSide, TestbedError> {
    if is_inside() {
        return settle().map(SandboxSide::Inside);
    }
    let flags = flags()?;
    let own =
        env::current_exe().map_err(|e| TestbedError::unable("this program's own file is unknown", e))?;
    let interrupt = Interrupt::on_signals()?;
    let mut command = Command::new("sh");
    command.env(USER, if flags.contains(&"--user") { "1" } else { "0" });
    command.args(["-c", &format!("{OUTER}=$$ exec unshare \"$@\""), "sh"]);
    command.args(flags).arg("--").arg(own).args(env::args_os().skip(1));
    // A process group of its own: Ctrl-C reaches only the outer process, which forwards it.
    command.env(MARK, "1").stdin(Stdio::piped()).process_group(0);
    let mut child =
        command.spawn().map_err(|e| TestbedError::unable("cannot start unshare of util-linux", e))?;
    let status = attend(&mut child, &interrupt);
    Ok(SandboxSide::Done(status))
}

/// Waits for the inner process, and forwards signals to it.
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
                // Held open: the inner process would take its closing for the end of this process.
                std::mem::forget(pipe);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the options of unshare with which this user may create the namespaces.
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

/// Prepares the inner process: mounts its own `/run`, where `ip netns` has its names and routers
/// have their sockets, enables the loopback, and watches the outer process.
fn settle() -> Result<Interrupt, TestbedError> {
    let interrupt = Interrupt::default();
    watch(interrupt.clone())?;
    // A testbed's programs are found by absolute paths; a path below /run would be hidden.
    tool("mount", &["-t", "tmpfs", "testbed", "/run"])?;
    tool("ip", &["link", "set", "lo", "up"])?;
    Ok(interrupt)
}

/// Ends this process when the outer one has ended, and sets the interrupt at its request.
fn watch(interrupt: Interrupt) -> Result<(), TestbedError> {
    let own = std::io::stdin().as_fd().try_clone_to_owned();
    let mut pipe =
        File::from(own.map_err(|e| TestbedError::unable("the pipe to the outer process is gone", e))?);
    std::thread::spawn(move || {
        let mut octet = [0];
        if matches!(pipe.read(&mut octet), Ok(1)) {
            interrupt.set();
            // Waits for the end of the outer process or for the time limit, whichever comes first.
            let (ended, end) = std::sync::mpsc::channel();
            std::thread::spawn(move || ended.send(pipe.read(&mut [0])));
            let _ = end.recv_timeout(ORDER);
        }
        // The exit of the first process ends every process of the namespace.
        std::process::exit(137);
    });
    Ok(())
}

/// Runs a tool of the system to its end.
///
/// # Errors
/// The tool's output.
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

/// Returns the processes in a node's namespace.
pub(crate) fn inhabitants(node: &str) -> Vec<Pid> {
    let output = Command::new("ip").args(["netns", "pids", node]).stdin(Stdio::null()).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    said.lines().filter_map(|line| line.trim().parse().ok().and_then(Pid::from_raw)).collect()
}

/// Sends a signal to every process in a node's namespace.
pub(crate) fn signal(node: &str, signal: Signal) {
    for pid in inhabitants(node) {
        // A process that has ended already needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Returns the folder of this program and its related programs, unless `NAMELY_BIN_DIR` names
/// another.
pub fn programs() -> Option<PathBuf> {
    let named = env::var_os("NAMELY_BIN_DIR").map(PathBuf::from);
    named.or_else(|| Some(env::current_exe().ok()?.parent()?.to_owned()))
}
