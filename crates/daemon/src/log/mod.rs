//! Logs to standard error, one line for each event, as text or as JSON. The level can change at run
//! time. Only the level `trace` logs single packets.
//!
//! Text from a network or from users cannot break a line, because control characters are escaped.
//! It cannot fill a disk either: the number of lines of one cause is limited in each window, and
//! the number of suppressed lines is logged.

mod limit;
mod line;

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use namely_host::clock;
use serde::Deserialize;
use serde_json::Value;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use self::limit::{Causes, SuppressedLines};
use self::line::LogLine;

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Time, level, event, and `key=value` for each detail
    #[default]
    Text,
    /// A JSON object
    Json,
}

static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Whether all output of the program is JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// The target of the program's own lines, which no level hides.
const PROGRAM: &str = "namely_daemon";

/// Makes all further output of the program JSON, on standard error.
pub(crate) fn use_json() {
    // The flag guards no other memory.
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Returns true if all output of the program is JSON.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// A line of the program itself, which is written as JSON whatever the level is.
pub(crate) struct Announcement(LogLine);

impl Announcement {
    /// A line with this message.
    pub(crate) fn of(message: &str) -> Self {
        Announcement(LogLine::new(Level::INFO, PROGRAM, message))
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.add(name, value);
        self
    }

    /// Writes the line.
    pub(crate) fn write(self) {
        write_line(&self.0.json());
    }
}

/// Writes the reason of the program's end as JSON. The errors of a configuration, one a line, get a
/// line each.
pub(crate) fn failure(message: &str, hint: Option<&str>) {
    for message in message.lines() {
        let mut line = LogLine::new(Level::ERROR, PROGRAM, message);
        if let Some(hint) = hint {
            line.add("hint", hint);
        }
        write_line(&line.json());
    }
}

/// Written by a single call, so that lines of two threads do not mix.
fn write_line(line: &str) {
    // An error cannot be reported.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Sets the level. Later calls change the level but not the format. If the process has installed a
/// logger of its own, that logger stays.
pub(crate) fn set(level: &str, format: LogFormat) {
    let Ok(filter) = level.parse::<Targets>() else { return };
    if let Some(handle) = FILTER.get() {
        // The only failure is that the subscriber is gone, which ends all logs anyway.
        handle.reload(filter).ok();
        return;
    }
    let (filter, handle) = reload::Layer::new(filter);
    let lines = Lines { format, has_time: !under_service_manager(), causes: Causes::default() };
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        FILTER.set(handle).ok();
    }
}

/// A service manager adds the time itself.
fn under_service_manager() -> bool {
    std::env::var_os("JOURNAL_STREAM").is_some()
}

/// Writes events to standard error.
struct Lines {
    format: LogFormat,
    has_time: bool,
    causes: Causes,
}

impl Lines {
    fn write(&self, line: &LogLine) {
        let text = match self.format {
            LogFormat::Text => line.text(self.has_time),
            LogFormat::Json => line.json(),
        };
        write_line(&text);
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = LogLine::of(event);
        let now_ns = clock::monotonic_ns();
        let own = event.metadata();
        let admitted = self.causes.admit(own, now_ns, || line.message().to_owned());
        for SuppressedLines { cause, message, count } in self.causes.over(now_ns) {
            let mut note = LogLine::new(*cause.level(), cause.target(), "lines of one cause were left out");
            note.add("cause", message);
            note.add("left_out", count);
            self.write(&note);
        }
        let Some(left_out) = admitted else { return };
        if left_out > 0 {
            line.add("left_out", left_out);
        }
        self.write(&line);
    }
}
