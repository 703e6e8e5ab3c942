//! What a person or a program sees: aligned tables and lines, or one JSON object a line.
//!
//! Nothing else of this crate writes to the terminal: `rules/outputs.rs` in the tests fails where a
//! source does. Names of files and words of routers and of the system are in most of what is
//! written; it is [`Text`] or JSON, so that a terminal obeys none of them.

use std::cell::Cell as Flag;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use namely_wire::text::{self, Plain};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use crate::failure::{Exit, Failure};

/// Lines for a person. A string is one line whatever is in it, a list has a line each; what a
/// terminal obeys is escaped, ends of lines within one as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Vec<Plain>);

impl Text {
    /// The lines of a text that this program laid out, such as a configuration: what others said in
    /// it has no ends of lines.
    pub fn laid_out(text: &str) -> Self {
        Text(text.lines().map(Plain::from).collect())
    }

    /// A message and where it ends: what follows the first line is marked, so that words of others
    /// with ends of lines pass for nothing else.
    fn message(what: &str, message: &str) -> Self {
        let mut lines = message.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let first = Plain::from(format!("{what}{}", lines.next().unwrap_or_default()));
        let more = lines.filter(|line| !line.is_empty()).map(|line| Plain::from(format!("  | {line}")));
        Text(std::iter::once(first).chain(more).collect())
    }

    /// The lines, each with its end.
    fn ended(&self) -> String {
        self.0.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

impl From<&str> for Text {
    fn from(line: &str) -> Self {
        Text(vec![line.into()])
    }
}

impl From<String> for Text {
    fn from(line: String) -> Self {
        Text(vec![line.into()])
    }
}

impl From<Vec<String>> for Text {
    fn from(lines: Vec<String>) -> Self {
        Text(lines.into_iter().map(Plain::from).collect())
    }
}

impl<const N: usize> From<[String; N]> for Text {
    fn from(lines: [String; N]) -> Self {
        Text(lines.map(Plain::from).into())
    }
}

/// Where answers and remarks go.
#[derive(Debug)]
pub struct Output {
    json: bool,
    quiet: bool,
    is_closed: Flag<bool>,
}

impl Output {
    /// `json`: answers as JSON lines. `quiet`: no remarks and no progress.
    pub fn new(json: bool, quiet: bool) -> Self {
        Output { json, quiet, is_closed: Flag::new(false) }
    }

    /// Whether answers are JSON lines.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether remarks are said.
    pub fn is_remarking(&self) -> bool {
        !self.quiet && !self.json
    }

    /// One answer, in the form that was asked for.
    pub fn answer<T: Into<Text>>(&self, text: impl FnOnce() -> T, value: impl FnOnce() -> Value) {
        if self.json { self.json(&value()) } else { self.line(text()) }
    }

    /// Rows as an aligned table, or each as a JSON object whose keys are the column titles in lower
    /// case.
    pub fn table(&self, columns: &[&str], rows: &[Vec<Cell>]) {
        if self.json {
            for row in rows {
                let object: serde_json::Map<_, _> =
                    columns.iter().zip(row).map(|(c, cell)| (key(c), cell.json())).collect();
                self.json(&Value::Object(object));
            }
            return;
        }
        for line in layout(columns, rows) {
            self.line(line);
        }
    }

    /// A JSON value as a line.
    pub fn json(&self, value: &Value) {
        self.write(&(text::json(value.to_string()) + "\n"));
    }

    /// A remark for the person at the terminal.
    pub fn remark(&self, text: impl Into<Text>) {
        if self.is_remarking() {
            say(text);
        }
    }

    /// Reports a failed command on standard error.
    pub fn failure(&self, failure: &Failure) {
        if self.json {
            let value = serde_json::json!({
                "error": failure.message, "hint": failure.hint, "exit": failure.exit as u8,
            });
            return complain(&(text::json(value.to_string()) + "\n"));
        }
        let what = if failure.exit == Exit::Interrupted { "interrupted: " } else { "error: " };
        say(Text::message(what, &failure.message));
        if let Some(hint) = &failure.hint {
            say(Text::message("  hint: ", hint));
        }
    }

    /// Lines, whatever form was asked for. A closed pipe (`namely … | head`) ends the output, not
    /// the program's work: what is left is dropped. What only goes on for its output asks
    /// [`Output::is_closed`].
    pub fn line(&self, text: impl Into<Text>) {
        self.write(&text.into().ended());
    }

    /// Clears the terminal, if there is one to look at.
    pub fn clear(&self) {
        if !self.json && io::stdout().is_terminal() {
            // To the upper left, and nothing below.
            self.write("\x1b[H\x1b[2J");
        }
    }

    /// Standard output for octets that were asked for as they are: the content of a file, a packet,
    /// a certificate.
    pub fn content(&self) -> impl Write + use<> {
        io::stdout().lock()
    }

    /// Asks the person at the terminal.
    ///
    /// # Errors
    /// Standard input cannot be read.
    pub fn ask(&self, question: impl Into<Plain>) -> io::Result<String> {
        complain(question.into().as_str());
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(answer)
    }

    /// A progress bar, if somebody looks at it. `template` is of indicatif.
    pub fn bar(&self, template: &str) -> Option<Bar> {
        let is_seen = self.is_remarking() && io::stderr().is_terminal();
        is_seen.then(|| {
            let style = ProgressStyle::with_template(template);
            Bar(ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
        })
    }

    fn write(&self, text: &str) {
        let mut stdout = io::stdout().lock();
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            self.is_closed.set(true);
        }
    }

    /// Waits, and returns true, at once if it can, when nobody reads the output any more.
    pub fn is_closed(&self, wait: Duration) -> bool {
        let stdout = io::stdout();
        // Without a wish of ours the kernel tells errors: that the other end of a pipe was closed.
        let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
        let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        if !self.is_closed.get() && poll(&mut polled, Some(&wait)).is_ok_and(|ready| ready > 0) {
            self.is_closed.set(polled[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL));
        }
        self.is_closed.get()
    }
}

/// Lines on standard error, from wherever in the program.
pub fn say(text: impl Into<Text>) {
    complain(&text.into().ended());
}

/// Asks the person at the terminal for what is not shown there.
///
/// # Errors
/// There is no terminal, or it cannot be read.
pub fn ask_secret(question: impl Into<Plain>) -> io::Result<String> {
    rpassword::prompt_password(question.into())
}

/// Nobody is left to tell of a failure.
fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A progress bar, which goes when it is dropped.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// Sets the progress, of `all` steps.
    pub fn set(&self, done: u64, all: u64) {
        self.0.set_length(all.max(1));
        self.0.set_position(done);
    }

    /// Sets the text beside the bar.
    pub fn set_message(&self, text: impl Into<Plain>) {
        self.0.set_message(String::from(text.into()));
    }

    /// Does something while the bar is not in the way.
    pub fn suspend(&self, work: impl FnOnce()) {
        self.0.suspend(work);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Standard error for the logs of libraries: a line for each event.
#[derive(Clone, Copy, Debug)]
pub struct Logged;

impl<'a> MakeWriter<'a> for Logged {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Logged
    }
}

impl Write for Logged {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        say(text.strip_suffix('\n').unwrap_or(&text));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One cell of a table: text is left-aligned, a number right-aligned and a JSON number.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A name as text has it, and the octets' text that JSON has.
    Named {
        /// As commands take it.
        uri: String,
        /// As its owner wrote it.
        original: String,
    },
    /// A number.
    Number(u64),
    /// A number of which text has so many digits after the point, and JSON all.
    Real(f64, usize),
    /// A share that may be very small: in text with a power of ten where six digits do not show it.
    Small(f64),
    /// Nothing; JSON null.
    None,
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Text(text) => Plain::new(text).into(),
            Cell::Named { uri, .. } => Plain::new(uri).into(),
            Cell::Number(n) => n.to_string(),
            Cell::Real(x, digits) => format!("{x:.digits$}"),
            Cell::Small(x) if *x > 0.0 && *x < 0.001 => format!("{x:.2e}"),
            Cell::Small(x) => format!("{x:.6}"),
            Cell::None => "-".into(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) | Cell::Named { original: text, .. } => Value::from(text.as_str()),
            Cell::Number(n) => Value::from(*n),
            Cell::Real(x, _) | Cell::Small(x) => Value::from(*x),
            Cell::None => Value::Null,
        }
    }
}

impl From<u64> for Cell {
    fn from(n: u64) -> Self {
        Cell::Number(n)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.into())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::None, Into::into)
    }
}

fn key(column: &str) -> String {
    column.to_lowercase().replace([' ', '-'], "_")
}

fn layout(columns: &[&str], rows: &[Vec<Cell>]) -> Vec<String> {
    let texts: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|i| texts.iter().map(|row| row[i].chars().count()).chain([columns[i].len()]).max().unwrap_or(0))
        .collect();
    let numeric: Vec<bool> = (0..columns.len())
        .map(|i| {
            !rows.is_empty() && rows.iter().all(|row| !matches!(row[i], Cell::Text(_) | Cell::Named { .. }))
        })
        .collect();
    let header: Vec<String> = columns.iter().map(|c| c.to_string()).collect();
    std::iter::once(&header)
        .chain(&texts)
        .map(|row| {
            let cells = row.iter().enumerate().map(|(i, text)| {
                let pad = " ".repeat(widths[i] - text.chars().count());
                if numeric[i] { pad + text } else { text.clone() + &pad }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        })
        .collect()
}

/// Octets as a person reads them: `1.5 MiB`.
pub fn octets_text(octets: u64) -> String {
    let mut value = octets as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{octets} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_line_up_and_numbers_are_right_aligned() {
        let rows = vec![
            vec![Cell::from(1), Cell::from("unix:///run/a.sock"), Cell::None],
            vec![Cell::from(300), Cell::from("x"), Cell::from(7)],
        ];
        let lines = layout(&["face", "uri", "mtu"], &rows);
        assert_eq!(
            lines,
            [
                "face  uri                 mtu",
                "   1  unix:///run/a.sock    -",
                " 300  x                     7"
            ]
        );
    }

    /// Strings in which what a terminal obeys is frequent.
    fn foreign() -> impl Strategy<Value = String> {
        let obeyed =
            prop::sample::select(vec!['\x07', '\n', '\r', '\x1b', '\x7f', '\u{9b}', '\u{2028}', '\u{202e}']);
        prop::collection::vec(prop_oneof![obeyed, any::<char>()], 0..40)
            .prop_map(|all| all.into_iter().collect())
    }

    fn is_clean(text: &str, lines: usize) -> bool {
        let ends = text.matches('\n').count();
        ends == lines && text.ends_with('\n') && !text.replace('\n', "").contains(text::is_obeyed)
    }

    proptest! {
        #[test]
        fn no_string_takes_another_line_or_the_terminal(a in foreign(), b in foreign()) {
            prop_assert!(is_clean(&Text::from(a.clone()).ended(), 1));
            prop_assert!(is_clean(&Text::from([a.clone(), b.clone()]).ended(), 2));
            let rows = vec![vec![Cell::from(a.clone()), Cell::Named { uri: b.clone(), original: a.clone() }]];
            let lines = layout(&["a", "b"], &rows);
            prop_assert!(is_clean(&Text::from(lines).ended(), 2));
            let message = Text::message("error: ", &a).ended();
            prop_assert!(is_clean(&message, message.lines().count()));
            prop_assert!(message.lines().skip(1).all(|line| line.starts_with("  | ")));
            let laid_out = Text::laid_out(&a).ended();
            prop_assert!(!laid_out.replace('\n', "").contains(text::is_obeyed));
        }

        #[test]
        fn json_has_nothing_that_is_obeyed_and_parses_to_the_original(a in foreign(), b in foreign()) {
            let line = text::json(serde_json::json!({ b.clone(): [a.clone()], "n": 7 }).to_string());
            prop_assert!(!line.contains(text::is_obeyed), "{line}");
            let parsed: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&parsed[&b][0], &Value::from(a));
        }
    }

    #[test]
    fn sizes_read_in_binary_units() {
        assert_eq!(octets_text(1023), "1023 B");
        assert_eq!(octets_text(1536), "1.5 KiB");
        assert_eq!(octets_text(5 << 40), "5.0 TiB");
    }
}
