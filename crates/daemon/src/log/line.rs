//! A line of the log.

use std::fmt::{self, Write};

use namely_wire::text::{self, Plain, is_obeyed};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// A message and its fields, in the order of the log statement.
#[derive(Clone, Debug)]
pub(super) struct LogLine {
    level: Level,
    target: String,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl LogLine {
    pub(super) fn new(level: Level, target: &str, message: &str) -> Self {
        LogLine { level, target: target.into(), message: message.into(), fields: Vec::new() }
    }

    pub(super) fn of(event: &Event<'_>) -> Self {
        let about = event.metadata();
        let mut line = LogLine::new(*about.level(), about.target(), "");
        event.record(&mut line);
        line
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.fields.push((name, value.into()));
    }

    /// `TIME LEVEL message key=value`, and a newline.
    pub(super) fn text(&self, has_time: bool) -> String {
        let mut text = String::new();
        if has_time {
            text = time() + " ";
        }
        let level = self.level.as_str();
        // Writing to a String does not fail.
        let _ = write!(text, "{level:>5} ");
        text += Plain::new(&self.message).as_str();
        for (name, value) in &self.fields {
            let _ = write!(text, " {name}=");
            match value {
                Value::String(value) if is_plain(value) => text += value,
                Value::String(value) => text += Plain::quotation(value).as_str(),
                value => _ = write!(text, "{value}"),
            }
        }
        text.push('\n');
        text
    }

    /// A JSON object, and a newline. The time, level, target and message replace fields of the same
    /// name.
    pub(super) fn json(&self) -> String {
        let mut object: Map<String, Value> =
            self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        object.insert("time".into(), time().into());
        object.insert("level".into(), self.level.as_str().to_lowercase().into());
        object.insert("target".into(), self.target.clone().into());
        object.insert("message".into(), self.message.clone().into());
        text::json(Value::Object(object).to_string()) + "\n"
    }

    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

/// The current time in the format of RFC 3339.
fn time() -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// Returns true if a value needs no quotes.
fn is_plain(value: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || is_obeyed(c) || matches!(c, '"' | '=' | '\\');
    !value.is_empty() && !value.contains(is_odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> LogLine {
        let mut line = LogLine::new(Level::WARN, "namely_daemon::x", "a\nb\u{1b}[2J\u{202e}é");
        line.add("plain", "/a/%0A");
        line.add("odd", "x\r\n\"y\" \\z=1\u{7f}");
        line.add("empty", "");
        line.add("number", 7);
        line.add("level", "mine");
        line
    }

    #[test]
    fn a_text_log_line_stays_one_line() {
        let text = hostile().text(false);
        let expected = " WARN a\\nb\\u{1b}[2J\\u{202e}é plain=/a/%0A odd=\"x\\r\\n\\\"y\\\" \\\\z=1\\u{7f}\" empty=\"\" \
                        number=7 level=mine\n";
        assert_eq!(text, expected);
        let timed = hostile().text(true);
        assert!(
            timed.ends_with(expected) && timed.as_bytes()[10] == b'T' && timed.contains("Z  WARN"),
            "{timed}"
        );
    }

    #[test]
    fn a_json_log_line_keeps_its_keys() {
        let text = hostile().json();
        assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
        assert!(!text.trim_end().contains(is_obeyed), "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["message"], "a\nb\u{1b}[2J\u{202e}é");
        assert_eq!((&value["level"], &value["number"]), (&"warn".into(), &7.into()));
        assert_eq!(
            (&value["odd"], &value["target"]),
            (&"x\r\n\"y\" \\z=1\u{7f}".into(), &"namely_daemon::x".into())
        );
    }
}
