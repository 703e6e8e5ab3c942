//! Numbers of system calls of processes, counted by strace. strace slows them down, so such a run
//! is not timed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use namely_testbed::{Interrupt, Process, command};

use crate::error::Error;
use crate::programs::{Program, READY_LIMIT};

fn strace() -> Program {
    Program::find(&["strace"], "STRACE_BIN", false)
}

/// Returns the reason if calls cannot be counted here.
pub(super) fn missing() -> Option<String> {
    strace().missing().or_else(|| (!may_attach()).then(|| NOT_ATTACHED.to_owned()))
}

const NOT_ATTACHED: &str = "strace may not attach to a running process here: it takes root, or 0 in \
                            /proc/sys/kernel/yama/ptrace_scope";

/// Returns true if strace may attach to a process that it did not start. It is tried on a sleeping
/// process.
fn may_attach() -> bool {
    let Ok(mut sleeping) = Command::new("sleep").arg("60").spawn() else { return false };
    let pid = sleeping.id();
    let mut strace = Command::new(strace().path());
    strace.args(["-q", "-o", "/dev/null", "-p", &pid.to_string()]).stderr(Stdio::null());
    let attached = strace.spawn().is_ok_and(|mut strace| {
        let attached = loop {
            // strace ends at once if it is refused.
            match (is_traced(pid), strace.try_wait()) {
                (true, _) => break true,
                (false, Ok(None)) => std::thread::sleep(Duration::from_millis(5)),
                (false, _) => break false,
            }
        };
        let _ = strace.kill();
        let _ = strace.wait();
        attached
    });
    let _ = sleeping.kill();
    let _ = sleeping.wait();
    attached
}

/// Returns `inner` under strace, with its counts in a file of `dir`.
pub(super) fn counted(inner: &Command, dir: &Path) -> (Command, PathBuf) {
    let counts = dir.join("client.calls");
    let mut command = command(strace().path(), dir);
    command.args(["-f", "-c", "-q", "-o"]).arg(&counts).arg(inner.get_program()).args(inner.get_args());
    (command, counts)
}

/// Counts the system calls of running processes.
pub(super) struct Counting(Vec<(Process, PathBuf)>);

impl Counting {
    pub(super) fn start(pids: &[u32], dir: &Path, interrupt: &Interrupt) -> Result<Self, Error> {
        let mut counting = Vec::new();
        for pid in pids {
            let counts = dir.join(format!("{pid}.calls"));
            let mut command = command(strace().path(), dir);
            command.args(["-f", "-c", "-q", "-o"]).arg(&counts).args(["-p", &pid.to_string()]);
            let mut process = Process::start("strace", command, dir, None)?;
            while !is_traced(*pid) {
                process.expect_running()?;
                interrupt.sleep(Duration::from_millis(5))?;
            }
            counting.push((process, counts));
        }
        Ok(Counting(counting))
    }

    /// Returns the number of all calls so far.
    pub(super) fn end(self) -> u64 {
        let end = |(process, counts): (Process, PathBuf)| {
            // strace writes its counts when it is stopped.
            process.stop();
            read(&counts)
        };
        self.0.into_iter().map(end).sum()
    }
}

fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// Returns the number of calls that strace wrote into a file.
pub(super) fn read(counts: &Path) -> u64 {
    total(&fs::read_to_string(counts).unwrap_or_default()).unwrap_or(0)
}

/// Returns the fourth column of the line that ends in "total".
fn total(table: &str) -> Option<u64> {
    let line = table.lines().rev().find(|line| line.ends_with(" total"))?;
    line.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Runs the command from [`counted`]. Returns the number of its calls.
pub(super) fn run(command: Command, counts: &Path, dir: &Path, interrupt: &Interrupt) -> Result<u64, Error> {
    Process::run("strace", command, dir, None, 4 * READY_LIMIT, interrupt)?;
    Ok(read(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strace_total_is_parsed() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     50.00    0.000010           2         5         1 openat\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.000020           0     12345         1 total\n";
        assert_eq!(total(table), Some(12345));
        assert_eq!(total("100.00    0.000020           0        17           total\n"), Some(17));
        assert_eq!(total(""), None);
    }
}
