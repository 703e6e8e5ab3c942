//! Processes of tests and measurements: started, watched, accounted, and always ended.
//!
//! Only processes that this module started are ever signaled, each by its own process id.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::error::ProcessError;
use crate::interrupt::{Interrupt, NOTICE};
use crate::procfs;

/// Maximum time in which a process may end after SIGTERM before it receives SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// Maximum length of a log excerpt in an error message, in octets.
const QUOTE_OCTETS: usize = 400;

/// A running child; ended when dropped.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    log: PathBuf,
    started: Instant,
}

/// Figures of a process that ran to its end.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Time from before its start to its end.
    pub elapsed: Duration,
    /// CPU time of all its threads, and of the processes that it started and waited for.
    pub cpu: Duration,
}

impl Process {
    /// Starts `command` as `what`, in its own process group so that Ctrl-C reaches only this
    /// program. Standard error goes to a log in `dir`; standard output too unless `output` names a
    /// file.
    ///
    /// # Errors
    /// The environment's: a file that cannot be made, a program that cannot be started.
    pub fn start(
        what: &str,
        mut command: Command,
        dir: &Path,
        output: Option<&Path>,
    ) -> Result<Self, ProcessError> {
        let (errors, log) = new_log(what, dir)?;
        let standard_output = match output {
            Some(path) => File::create(path)
                .map_err(|e| ProcessError::environment(format!("cannot create {}", path.display()), e))?,
            None => errors.try_clone().map_err(|e| ProcessError::environment("cannot share a log", e))?,
        };
        command.process_group(0).stdout(standard_output).stderr(errors);
        Process::spawn(what, command, log)
    }

    /// Starts `command` as [`Process::start`] does. Both outputs are appended to `log`.
    ///
    /// # Errors
    /// Those of [`Process::start`].
    pub fn start_logged(what: &str, mut command: Command, log: &Path) -> Result<Self, ProcessError> {
        let open = || {
            let file = File::options().create(true).append(true).open(log);
            file.map_err(|e| ProcessError::environment(format!("cannot write {}", log.display()), e))
        };
        command.process_group(0).stdout(open()?).stderr(open()?);
        Process::spawn(what, command, log.to_owned())
    }

    /// Starts `command` with standard input and output piped, for a caller that reads its lines.
    pub fn start_piped(what: &str, mut command: Command, dir: &Path) -> Result<Self, ProcessError> {
        let (errors, log) = new_log(what, dir)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        Process::spawn(what, command, log)
    }

    fn spawn(what: &str, mut command: Command, log: PathBuf) -> Result<Self, ProcessError> {
        let started = Instant::now();
        let child = command.spawn().map_err(|e| {
            let program = command.get_program().to_string_lossy();
            ProcessError::environment(format!("cannot start {what} ({program})"), e)
        })?;
        Ok(Process { what: what.to_owned(), child, log, started })
    }

    /// Runs `command` to its end and expects success.
    ///
    /// # Errors
    /// Those of [`Process::start`] and [`Process::wait`].
    pub fn run(
        what: &str,
        command: Command,
        dir: &Path,
        output: Option<&Path>,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Outcome, ProcessError> {
        Process::start(what, command, dir, output)?.wait(limit, interrupt)
    }

    /// Returns the exit status; none while the process runs.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the name that the process was started with.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child, which holds the ends of the pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns the path of the log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the time since the start.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the CPU time so far of the process and of its descendants, running or ended.
    pub fn family_cpu_time(&self) -> Duration {
        family(self.child.id()).into_iter().map(|pid| cpu_time(pid) + reaped_cpu_time(pid)).sum()
    }

    /// Returns the resident memory in MiB of the process and of its descendants.
    pub fn family_rss_mib(&self) -> f64 {
        family(self.child.id()).into_iter().filter_map(rss_mib).sum()
    }

    /// Returns the CPU time of all threads so far. The total of `stat` includes ended threads but
    /// is rounded down to clock ticks. The threads' `schedstat` is exact but excludes ended
    /// threads. The larger of both is the better estimate.
    pub fn cpu_time(&self) -> Duration {
        cpu_time(self.child.id())
    }

    /// Returns the resident memory in MiB; `None` once the process has ended.
    pub fn rss_mib(&self) -> Option<f64> {
        rss_mib(self.child.id())
    }

    /// Returns the number of open descriptors; `None` once the process has ended.
    pub fn descriptors(&self) -> Option<usize> {
        Some(fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok()?.count())
    }

    /// Returns without an error while the process runs.
    ///
    /// # Errors
    /// The process has ended; the error has the end of its log.
    pub fn expect_running(&mut self) -> Result<(), ProcessError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(ProcessError::Failed(format!("{} ended early ({status}){}", self.what, self.quote())))
            }
            Err(e) => Err(ProcessError::environment(format!("cannot watch {}", self.what), e)),
        }
    }

    /// Waits for the end of the process and expects success. A process that exceeds `limit` is
    /// ended.
    ///
    /// # Errors
    /// The process failed or took too long, or this program was interrupted.
    pub fn wait(mut self, limit: Duration, interrupt: &Interrupt) -> Result<Outcome, ProcessError> {
        self.wait_for_end(limit, interrupt)?;
        let elapsed = self.started.elapsed();
        // The process is not reaped yet, so the kernel still has its times.
        let cpu = self.cpu_time() + reaped_cpu_time(self.child.id());
        let status = self
            .child
            .wait()
            .map_err(|e| ProcessError::environment(format!("cannot wait for {}", self.what), e))?;
        if status.success() {
            Ok(Outcome { elapsed, cpu })
        } else {
            Err(ProcessError::Failed(format!("{} failed ({status}){}", self.what, self.quote())))
        }
    }

    /// Returns true while the process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the process: SIGTERM, and SIGKILL after `GRACE`.
    pub fn stop(mut self) {
        self.end();
    }

    /// Waits for the end of the process until `deadline`. Returns none if the process still runs.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM and does not wait.
    pub fn terminate(&mut self) {
        if self.is_running() {
            // A failed signal means that the process has ended already; the wait detects both
            // cases.
            if let Ok(pid) = self.pid() {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }

    /// As [`Process::stop`]. Returns the exit status unless SIGKILL was needed.
    pub fn end(&mut self) -> Option<ExitStatus> {
        self.terminate();
        let status = self.wait_until(Instant::now() + GRACE);
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        status
    }

    fn wait_for_end(&self, limit: Duration, interrupt: &Interrupt) -> Result<(), ProcessError> {
        let watch =
            |e: rustix::io::Errno| ProcessError::environment(format!("cannot watch {}", self.what), e);
        let fd = pidfd_open(self.pid()?, PidfdFlags::empty()).map_err(watch)?;
        loop {
            interrupt.check()?;
            let left = limit.saturating_sub(self.started.elapsed());
            if left.is_zero() {
                return Err(ProcessError::TimedOut {
                    what: format!("{}{}", self.what, self.quote()),
                    after: limit,
                });
            }
            let pause = left.min(NOTICE).max(Duration::from_millis(1));
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
            match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(watch(e)),
            }
        }
    }

    pub(crate) fn pid(&self) -> Result<Pid, ProcessError> {
        i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| ProcessError::Failed(format!("{} has no process id", self.what)))
    }

    fn quote(&self) -> String {
        let octets = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&octets[octets.len().saturating_sub(QUOTE_OCTETS)..]).into_owned();
        let text = text.trim();
        if text.is_empty() { String::new() } else { format!("; its output: {}", text.replace('\n', " | ")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Creates a log for `what`. Its name is unique, because several processes may have the same name.
fn new_log(what: &str, dir: &Path) -> Result<(File, PathBuf), ProcessError> {
    let prefix = format!("{}-", what.replace(['/', ' '], "-"));
    let log = tempfile::Builder::new().prefix(&prefix).suffix(".log").tempfile_in(dir);
    let kept = log.and_then(|log| Ok(log.keep()?));
    kept.map_err(|e| ProcessError::environment(format!("cannot create a log in {}", dir.display()), e))
}

/// Returns a command without standard input, with `dir` as its home directory. Without this the
/// process would read or write the user's own keys and settings.
pub fn command(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).env("HOME", dir).current_dir(dir);
    command
}

fn cpu_time(pid: u32) -> Duration {
    stat_time(pid, procfs::cpu_ticks).max(Duration::from_nanos(threads_cpu_ns(pid)))
}

/// Returns the CPU time of its children that have ended.
fn reaped_cpu_time(pid: u32) -> Duration {
    stat_time(pid, procfs::reaped_ticks)
}

fn stat_time(pid: u32, ticks: fn(&str) -> Option<u64>) -> Duration {
    let ticks = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| ticks(&text));
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(ticks.unwrap_or(0) as f64 / per_second as f64)
}

fn rss_mib(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    procfs::resident_kib(&status).map(|kib| kib as f64 / 1024.0)
}

/// Returns a process and its descendants.
fn family(pid: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(u32, u32)> = pids
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, procfs::parent(&stat)?))
        })
        .collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

fn threads_cpu_ns(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| procfs::thread_cpu_ns(&text))
        .sum()
}

#[cfg(test)]
mod tests {
    use namely_testkit::eventually;

    use super::*;

    fn shell(script: &str, dir: &Path) -> Command {
        let mut command = command(Path::new("/bin/sh"), dir);
        command.args(["-c", script]);
        command
    }

    fn run(script: &str, limit: Duration) -> Result<Outcome, ProcessError> {
        let dir = tempfile::tempdir().expect("temporary directory");
        Process::run("a shell", shell(script, dir.path()), dir.path(), None, limit, &Interrupt::default())
    }

    #[test]
    fn a_process_is_charged_its_cpu() {
        let outcome = run("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done", Duration::from_secs(60));
        assert!(outcome.is_ok_and(|o| o.cpu > Duration::from_millis(5) && o.elapsed >= o.cpu / 2));
    }

    #[test]
    fn waited_children_are_charged_at_exit() {
        let script = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true";
        let outcome = run(script, Duration::from_secs(60));
        assert!(outcome.is_ok_and(|o| o.cpu >= Duration::from_millis(20)));
    }

    #[test]
    fn running_children_are_charged_too() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let script = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 60' & wait";
        let process =
            Process::start("a family", shell(script, dir.path()), dir.path(), None).expect("a shell");
        eventually("it computes", || process.family_cpu_time() >= Duration::from_millis(20));
        let children: Vec<u32> = family(process.child.id()).into_iter().skip(1).collect();
        assert!(!children.is_empty() && process.family_cpu_time() >= Duration::from_millis(20));
        assert!(process.family_rss_mib() > process.rss_mib().unwrap_or(0.0));
        // Killing a shell does not end its children.
        for pid in children {
            let _ = kill_process(Pid::from_raw(pid as i32).expect("a process id"), Signal::KILL);
        }
    }

    #[test]
    fn a_failure_quotes_the_process_output() {
        let message = run("echo lost the key >&2; exit 3", Duration::from_secs(60)).unwrap_err().to_string();
        assert!(message.contains("lost the key") && message.contains('3'), "{message}");
    }

    #[test]
    fn an_overdue_process_is_ended() {
        let started = Instant::now();
        let result = run("exec sleep 600", Duration::from_millis(50));
        assert!(matches!(result, Err(ProcessError::TimedOut { .. })));
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let ready = dir.path().join("ready");
        let script = "trap '' TERM; : > ready; while :; do sleep 0.01; done";
        let process = Process::start("stubborn", shell(script, dir.path()), dir.path(), None).expect("sh");
        let pid = process.child.id();
        eventually("it is ready", || ready.exists());
        process.stop();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn an_early_exit_is_detected() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut process =
            Process::start("brief", shell("echo bye; exit 0", dir.path()), dir.path(), None).expect("sh");
        eventually("it ends", || process.expect_running().is_err());
        assert!(process.expect_running().unwrap_err().to_string().contains("bye"));
    }

    #[test]
    fn a_missing_program_is_an_environment_error() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let absent = command(&dir.path().join("absent"), dir.path());
        assert!(matches!(
            Process::start("x", absent, dir.path(), None),
            Err(ProcessError::Environment { .. })
        ));
    }
}
