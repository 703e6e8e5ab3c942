//! Processes that write JSON lines, for tests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use namely_testbed::Process;
use namely_testkit::{PATIENCE, wait_until_true};

/// Maximum time of a process for one step of a test. It allows for busy machines.
pub(crate) const LIMIT: Duration = PATIENCE;

/// Maximum length of process output that a failure quotes, in octets.
const QUOTE_OCTETS: usize = 2000;

/// A running process; ended when dropped.
#[derive(Debug)]
pub struct Running {
    process: Process,
    lines: Receiver<String>,
    seen: Vec<String>,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Lines of its standard output.
    pub lines: Vec<String>,
    /// Its standard error.
    pub errors: String,
}

impl Running {
    /// Starts `command` as `what`, with a standard input that stays open; standard error goes to a
    /// file in `dir`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(what: &str, command: Command, dir: &Path) -> Self {
        let mut process = Process::start_piped(what, command, dir).unwrap_or_else(|e| panic!("{e}"));
        let (sender, lines) = channel();
        let output = process.child().stdout.take().expect("standard output is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Running { process, lines, seen: Vec::new() }
    }

    /// Returns the next JSON line whose `event` is `event`.
    ///
    /// # Panics
    /// If the process ends or reports an error before, or takes too long.
    pub fn event(&mut self, event: &str) -> Value {
        loop {
            let value = self.answer();
            match value["event"].as_str() {
                Some(said) if said == event => return value,
                Some("error") => panic!("{} failed: {value}{}", self.process.what(), self.quote()),
                _ => {}
            }
        }
    }

    /// Returns the next JSON line.
    ///
    /// # Panics
    /// If the process ends before, or takes too long.
    pub fn answer(&mut self) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let line = match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} says no more{}", self.process.what(), self.quote())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{} ended{}", self.process.what(), self.quote())
                }
            };
            self.seen.push(line);
            if let Some(Ok(value)) = self.seen.last().map(|line| serde_json::from_str(line)) {
                return value;
            }
        }
    }

    /// Waits until it wrote the line `text` to standard output.
    ///
    /// # Panics
    /// If it ends before, or takes too long.
    pub fn line(&mut self, text: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.seen.last().is_none_or(|line| line != text) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("{} did not say '{text}'{}", self.process.what(), self.quote()),
            }
        }
    }

    /// Waits until it wrote `text` to standard error.
    ///
    /// # Panics
    /// If it ends before, or takes too long.
    pub fn remark(&mut self, text: &str) {
        let remarks = |running: &Self| running.errors_text().contains(text);
        // A process that has ended writes nothing more.
        wait_until_true(|| remarks(self) || !self.is_running());
        assert!(remarks(self), "{} did not remark '{text}'{}", self.process.what(), self.quote());
    }

    /// Returns true until it has ended.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Closes its standard input and waits for it to end.
    pub fn finish(mut self) -> Finished {
        drop(self.process.child().stdin.take());
        let Some(status) = self.process.wait_until(Instant::now() + LIMIT) else {
            panic!("{} did not end{}", self.process.what(), self.quote())
        };
        // The reader thread sends the remaining lines and closes the channel.
        let mut lines = std::mem::take(&mut self.seen);
        lines.extend(self.lines.iter());
        Finished { status, lines, errors: self.errors_text() }
    }

    /// Stops it by SIGTERM, and by SIGKILL if that has no effect in time. Returns its status if it
    /// ended by itself in time.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        self.process.end()
    }

    /// Returns its standard error so far.
    pub fn errors_text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.process.log()).unwrap_or_default()).into_owned()
    }

    fn quote(&self) -> String {
        quote(&self.seen, &self.errors_text())
    }
}

impl Finished {
    /// Runs `command` to its end. Its standard input is closed at once.
    pub fn run(what: &str, command: Command, dir: &Path) -> Self {
        Running::start(what, command, dir).finish()
    }

    /// Returns the last JSON line whose `event` is `event`.
    ///
    /// # Panics
    /// If there is none.
    pub fn event(&self, event: &str) -> Value {
        self.events(event).pop().unwrap_or_else(|| panic!("no {event}{}", quote(&self.lines, &self.errors)))
    }

    /// Returns all JSON lines whose `event` is `event`.
    pub fn events(&self, event: &str) -> Vec<Value> {
        self.values().into_iter().filter(|value| value["event"] == event).collect()
    }

    /// Returns all JSON lines.
    pub fn values(&self) -> Vec<Value> {
        self.lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns itself if it succeeded.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    pub fn success(self) -> Self {
        assert!(self.status.success(), "{}{}", self.status, quote(&self.lines, &self.errors));
        self
    }
}

fn quote(lines: &[String], errors: &str) -> String {
    let end = |text: &str| {
        let skipped = text.len().saturating_sub(QUOTE_OCTETS);
        String::from_utf8_lossy(&text.as_bytes()[skipped..]).into_owned()
    };
    format!("\n--- standard output:\n{}\n--- standard error:\n{}", end(&lines.join("\n")), end(errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Command, tempfile::TempDir) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        (command, tempfile::tempdir().expect("temporary directory"))
    }

    #[test]
    fn events_are_found_among_other_lines() {
        let (command, dir) = shell(r#"echo noise; echo '{"event":"a","n":1}'; cat; echo '{"event":"b"}'"#);
        let mut running = Running::start("sh", command, dir.path());
        assert_eq!(running.event("a")["n"], 1);
        assert!(running.is_running(), "it waits for its standard input");
        let finished = running.finish().success();
        assert_eq!((finished.lines.len(), finished.events("b").len()), (3, 1));
    }

    #[test]
    #[should_panic(expected = "lost the key")]
    fn an_early_end_quotes_the_output() {
        let (command, dir) = shell("echo lost the key >&2");
        Running::start("sh", command, dir.path()).event("ready");
    }

    #[test]
    fn a_dropped_process_is_ended() {
        let (command, dir) = shell("trap '' TERM; echo '{\"event\":\"ready\"}'; exec sleep 600");
        let mut running = Running::start("sh", command, dir.path());
        running.event("ready");
        let pid = running.process.child().id();
        drop(running);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
