//! A driver as a process: a line in, a line out.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Maximum time of a step on a busy machine: twice the longest `timeout_ms` of a case.
const STEP_MAX: Duration = Duration::from_secs(120);

/// Maximum time in which a driver ends after the end of its input.
const END_MAX: Duration = Duration::from_secs(60);

/// A running driver; killed when dropped.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    lines: Receiver<String>,
    errors: PathBuf,
}

impl Driver {
    /// Starts `command`; its standard error is redirected to `errors`.
    pub fn start(mut command: Command, errors: PathBuf) -> Result<Self, String> {
        let file = File::create(&errors).map_err(|e| format!("{}: {e}", errors.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(|e| format!("cannot start {command:?}: {e}"))?;
        let output = child.stdout.take().ok_or("no standard output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Driver { child, lines, errors })
    }

    /// Sends a step.
    pub fn send(&mut self, step: &str) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("its input is closed")?;
        writeln!(input, "{step}")
            .and_then(|()| input.flush())
            .map_err(|e| format!("it takes no step: {e}{}", self.said()))
    }

    /// The answer of the step that was sent first and not answered yet.
    pub fn answer(&mut self) -> Result<String, String> {
        match self.lines.recv_timeout(STEP_MAX) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(format!("no answer in {STEP_MAX:?}{}", self.said())),
            Err(RecvTimeoutError::Disconnected) => Err(format!("the driver ended{}", self.said())),
        }
    }

    /// Sends a step and waits for its answer.
    pub fn ask(&mut self, step: &str) -> Result<String, String> {
        self.send(step)?;
        self.answer()
    }

    /// Closes its input, and waits until it ends with success.
    pub fn finish(mut self) -> Result<(), String> {
        drop(self.child.stdin.take());
        let end = Instant::now() + END_MAX;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the driver ended with {status}{}", self.said())),
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => return Err(format!("the driver does not end with its input{}", self.said())),
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        // This fails if the driver has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its output on standard error.
    fn said(&self) -> String {
        let said = std::fs::read(&self.errors).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[said.len().saturating_sub(2000)..]).into_owned();
        if said.is_empty() { said } else { format!("; its output: {said}") }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.kill();
    }
}
