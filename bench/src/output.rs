//! Standard output and standard error of these programs.
//!
//! No other code prints; the test `rules/outputs.rs` enforces this. A reader that has left, as in
//! `namely-bench … | head`, ends the output but not the measurement. Control characters are
//! escaped.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use namely_wire::text::Plain;

use crate::error::Error;

/// The first failed write to standard output.
static FAULT: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line, or several, on standard output.
pub fn line(text: impl Display) {
    write(&format!("{text}\n"));
}

/// Prints lines that have their line ends on standard output.
pub fn lines(text: impl Display) {
    write(&text.to_string());
}

/// Prints a line on standard error. Errors are ignored, because no output is left to report them.
pub fn say(text: impl Display) {
    let _ = io::stderr().lock().write_all(escaped(&format!("{text}\n")).as_bytes());
}

/// Reports the first write that has failed. Both programs end with this call.
///
/// # Errors
/// Standard output cannot be written, and its reader has not just left.
pub fn finish() -> Result<(), Error> {
    match FAULT.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::environment("cannot write to standard output", error))
        }
        _ => Ok(()),
    }
}

fn write(text: &str) {
    let mut fault = FAULT.lock().unwrap_or_else(PoisonError::into_inner);
    if fault.is_some() {
        return;
    }
    let mut stdout = io::stdout().lock();
    *fault = stdout.write_all(escaped(text).as_bytes()).and_then(|()| stdout.flush()).err();
}

/// Escapes control characters other than line ends.
fn escaped(text: &str) -> String {
    text.split('\n').map(|line| String::from(Plain::from(line))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_lines_hold_no_control_characters() {
        assert_eq!(escaped("\na\x1b[2J\r\nb\n"), "\na\\u{1b}[2J\\r\nb\n");
    }
}
