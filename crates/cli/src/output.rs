//! Output for people and programs: aligned tables and lines, or one JSON object per line.
//!
//! No other code of this crate writes to the terminal; the test `rules/outputs.rs` enforces this.
//! Most output contains file names, or text of routers and of the system. Such output is written as
//! [`Text`] or JSON, so that a terminal executes no control sequence in foreign text.

use std::io::{self, ErrorKind, IsTerminal, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use namely_wire::text::{self, Plain};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use crate::failure::{Exit, Failure};
use crate::turns::{Piece, Turns};

/// Lines for people. A string is one line regardless of its content, and each entry of a list is a
/// line. Control characters are escaped, including line breaks within a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Vec<Plain>);

impl Text {
    /// Returns the lines of a text that this program formatted, such as a configuration. Foreign
    /// text in `text` must not contain line breaks.
    pub fn laid_out(text: &str) -> Self {
        Text(text.lines().map(Plain::from).collect())
    }

    /// Formats a message. Lines after the first are marked, so that line breaks in foreign text
    /// cannot imitate other output.
    fn message(what: &str, message: &str) -> Self {
        let mut lines = message.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let first = Plain::from(format!("{what}{}", lines.next().unwrap_or_default()));
        let more = lines.filter(|line| !line.is_empty()).map(|line| Plain::from(format!("  | {line}")));
        Text(std::iter::once(first).chain(more).collect())
    }

    /// Returns all lines as one string, each with a line break.
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

/// Output of answers and remarks.
#[derive(Debug)]
pub struct Output {
    json: bool,
    quiet: bool,
    stdout: Arc<StdoutState>,
    /// The job whose output this is, if several run at once.
    job: Option<JobOutput>,
}

/// The state of standard output.
#[derive(Debug, Default)]
struct StdoutState {
    is_closed: AtomicBool,
    /// Whether the reader left while raw octets were written.
    is_content_unread: AtomicBool,
    /// The first failed write, unless the reader has left.
    fault: Mutex<Option<io::Error>>,
}

/// The output of a job.
#[derive(Debug)]
struct JobOutput {
    turns: Arc<Turns>,
    number: usize,
    /// The bar of all jobs, which is hidden meanwhile.
    bar: Option<Arc<Bar>>,
}

impl Output {
    /// Creates the output. With `json`, answers are JSON lines. With `quiet`, there are no remarks
    /// and no progress bars.
    pub fn new(json: bool, quiet: bool) -> Self {
        Output { json, quiet, stdout: Arc::default(), job: None }
    }

    /// Returns the output of job `number`, which is printed after that of the jobs before it.
    pub fn of_job(&self, number: usize, turns: &Arc<Turns>, bar: Option<&Arc<Bar>>) -> Self {
        let job = JobOutput { turns: turns.clone(), number, bar: bar.cloned() };
        Output { json: self.json, quiet: self.quiet, stdout: self.stdout.clone(), job: Some(job) }
    }

    /// Ends the output of a job. That of the next one follows.
    pub fn end_job(&self) {
        if let Some(job) = &self.job {
            job.turns.end(job.number, &|piece| self.print(piece));
        }
    }

    /// Returns true if answers are JSON lines.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Returns true if remarks are printed.
    pub fn is_remarking(&self) -> bool {
        !self.quiet && !self.json
    }

    /// Prints one answer in the requested form.
    pub fn answer<T: Into<Text>>(&self, text: impl FnOnce() -> T, value: impl FnOnce() -> Value) {
        if self.json { self.json(&value()) } else { self.line(text()) }
    }

    /// Prints the report of a command whose purpose is not its output, such as a fetch to a file.
    /// With `--quiet` such a command prints nothing but errors.
    pub fn report<T: Into<Text>>(&self, text: impl FnOnce() -> T, value: impl FnOnce() -> Value) {
        if self.json || !self.quiet {
            self.answer(text, value);
        }
    }

    /// Prints rows as an aligned table, or each row as a JSON object. The keys of the objects are
    /// the column titles in lower case.
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

    /// Prints a JSON value as a line.
    pub fn json(&self, value: &Value) {
        self.write(&(text::json(value.to_string()) + "\n"));
    }

    /// Prints a remark for the user at the terminal.
    pub fn remark(&self, text: impl Into<Text>) {
        if self.is_remarking() {
            self.put(Piece::Remark(text.into().ended()));
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

    /// Prints lines, with and without `--json`. A closed pipe (`namely … | head`) ends the output,
    /// but not the command: further output is dropped. A command whose only purpose is its output
    /// checks [`Output::is_closed`]. Any other failed write fails the command at its end
    /// ([`Output::finish`]).
    pub fn line(&self, text: impl Into<Text>) {
        self.write(&text.into().ended());
    }

    /// Clears the screen if standard output is a terminal.
    pub fn clear(&self) {
        if !self.json && io::stdout().is_terminal() {
            // The first sequence moves to the upper left corner, the second clears the screen.
            self.write("\x1b[H\x1b[2J");
        }
    }

    /// Returns standard output for raw octets: the content of a file, a packet, a certificate.
    pub fn content(&self) -> impl Write {
        Content { out: self, stdout: io::stdout().lock() }
    }

    /// Returns true if the reader left while raw octets were written. The command then ends
    /// early, and this is no failure.
    pub fn is_content_unread(&self) -> bool {
        self.stdout.is_content_unread.load(Ordering::Relaxed)
    }

    /// Writes buffered output, and reports the first write that has failed since the start. All
    /// commands end with this call: a full disk must not leave a cut file and status 0.
    ///
    /// # Errors
    /// Standard output cannot be written, and its reader has not just left.
    pub fn finish(&self) -> Result<(), Failure> {
        if let Err(error) = io::stdout().flush() {
            self.note(&error);
        }
        let failed = |error| Failure::failed(format!("cannot write to standard output: {error}"));
        let mut fault = self.stdout.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.take().map_or(Ok(()), |error| Err(failed(error)))
    }

    /// Prints a question at the terminal, and reads the answer.
    ///
    /// # Errors
    /// Standard input cannot be read.
    pub fn prompt(&self, question: impl Into<Plain>) -> io::Result<String> {
        complain(question.into().as_str());
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(answer)
    }

    /// Returns a progress bar if standard error is a terminal and remarks are printed. `template`
    /// has the format of indicatif.
    pub fn bar(&self, template: &str) -> Option<Bar> {
        let is_seen = self.is_remarking() && io::stderr().is_terminal();
        is_seen.then(|| {
            let style = ProgressStyle::with_template(template);
            Bar(ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
        })
    }

    fn write(&self, text: &str) {
        self.put(Piece::Answer(text.to_owned()));
    }

    /// Prints a piece now, or in the turn of its job.
    fn put(&self, piece: Piece) {
        match &self.job {
            Some(job) => job.turns.put(job.number, piece, &|piece| self.print(piece)),
            None => self.print(&piece),
        }
    }

    fn print(&self, piece: &Piece) {
        let print = || match piece {
            Piece::Answer(text) => self.print_answer(text),
            Piece::Remark(text) => complain(text),
        };
        match self.job.as_ref().and_then(|job| job.bar.as_ref()) {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn print_answer(&self, text: &str) {
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            self.note(&error);
        }
    }

    /// Records a failed write. Only EPIPE means that the reader has left.
    fn note(&self, error: &io::Error) {
        self.stdout.is_closed.store(true, Ordering::Relaxed);
        if error.kind() != ErrorKind::BrokenPipe {
            let mut fault = self.stdout.fault.lock().unwrap_or_else(PoisonError::into_inner);
            fault.get_or_insert_with(|| copy_of(error));
        }
    }

    /// Waits for `wait` at most. Returns true as soon as the reader of the output has closed it.
    pub fn is_closed(&self, wait: Duration) -> bool {
        let (stdout, is_closed) = (io::stdout(), &self.stdout.is_closed);
        // Without requested events the kernel reports only errors, such as the closing of a pipe's
        // other end.
        let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
        let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        let is_known = is_closed.load(Ordering::Relaxed);
        if !is_known && poll(&mut polled, Some(&wait)).is_ok_and(|ready| ready > 0) {
            let is_gone = polled[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL);
            is_closed.store(is_gone, Ordering::Relaxed);
        }
        is_closed.load(Ordering::Relaxed)
    }
}

/// Returns an error with the same code and text.
fn copy_of(error: &io::Error) -> io::Error {
    error
        .raw_os_error()
        .map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

/// Standard output for raw octets.
struct Content<'a> {
    out: &'a Output,
    stdout: StdoutLock<'static>,
}

impl Content<'_> {
    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match &result {
            // The caller repeats an interrupted call.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                self.out.note(error);
                let is_unread = error.kind() == ErrorKind::BrokenPipe;
                self.out.stdout.is_content_unread.store(is_unread, Ordering::Relaxed);
            }
            Ok(_) => {}
        }
        result
    }
}

impl Write for Content<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.stdout.write(octets);
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        self.noted(flushed)
    }
}

/// Prints the text of clap (a help, the version or an error), and ends the process with clap's
/// status. A help that cannot be written is a failure.
pub fn end_with(error: &clap::Error) -> ! {
    let printed = error.print().and_then(|()| io::stdout().flush());
    let code = match printed {
        Err(fault) if !error.use_stderr() && fault.kind() != ErrorKind::BrokenPipe => {
            say(format!("error: cannot write to standard output: {fault}"));
            i32::from(Exit::Failed as u8)
        }
        _ => error.exit_code(),
    };
    std::process::exit(code)
}

/// Prints lines on standard error, also without an [`Output`].
pub fn say(text: impl Into<Text>) {
    complain(&text.into().ended());
}

/// Asks for a secret at the terminal, without echo.
///
/// # Errors
/// There is no terminal, or the terminal cannot be read.
pub fn prompt_secret(question: impl Into<Plain>) -> io::Result<String> {
    rpassword::prompt_password(question.into())
}

/// Writes to standard error. Errors are ignored, because no output is left to report them.
fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A progress bar, which is cleared when it is dropped.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// Sets the progress to `done` of `all` steps.
    pub fn set(&self, done: u64, all: u64) {
        self.0.set_length(all.max(1));
        self.0.set_position(done);
    }

    /// Sets the text beside the bar.
    pub fn set_message(&self, text: impl Into<Plain>) {
        self.0.set_message(String::from(text.into()));
    }

    /// Calls `work` while the bar is hidden.
    pub fn suspend(&self, work: impl FnOnce()) {
        self.0.suspend(work);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Standard error for the logs of libraries, with a line for each event.
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

/// A cell of a table. Text is left-aligned. A number is right-aligned, and is a number in JSON.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A name: a URI in text, and its original spelling in JSON.
    Named {
        /// The name in the form that commands accept.
        uri: String,
        /// The name in its owner's spelling.
        original: String,
    },
    /// A number.
    Number(u64),
    /// A number, and its decimals in text. JSON has all decimals.
    Real(f64, usize),
    /// A number with a unit or a letter for a power of ten, right-aligned. JSON has the text.
    Amount(String),
    /// A share that may be very small. Text has a power of ten if six decimals do not suffice.
    Small(f64),
    /// Nothing; JSON null.
    None,
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Text(text) | Cell::Amount(text) => Plain::new(text).into(),
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
            Cell::Text(text) | Cell::Amount(text) | Cell::Named { original: text, .. } => {
                Value::from(text.as_str())
            }
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

/// Formats a number of things: `1 face`, `2 faces`.
pub fn count_text(n: u64, what: &str) -> String {
    let plural = if what.ends_with(['x', 's']) { "es" } else { "s" };
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}{plural}") }
}

/// The state of a router that answers its last Interests before it stops.
pub fn draining_text(pending: u64) -> String {
    format!("draining: {} pending", count_text(pending, "Interest"))
}

/// Formats octets for people: `1.5 MiB`.
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
    fn output_columns_line_up() {
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

    /// Strings in which control characters are frequent.
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
        fn printed_strings_stay_on_one_line(a in foreign(), b in foreign()) {
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
        fn json_output_escapes_control_characters(a in foreign(), b in foreign()) {
            let line = text::json(serde_json::json!({ b.clone(): [a.clone()], "n": 7 }).to_string());
            prop_assert!(!line.contains(text::is_obeyed), "{line}");
            let parsed: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&parsed[&b][0], &Value::from(a));
        }
    }

    #[test]
    fn amounts_are_right_aligned() {
        let amount = |text: &str| Cell::Amount(text.to_owned());
        let rows = vec![vec![amount("12.00M"), "x".into()], vec![amount("950"), "y".into()]];
        assert_eq!(layout(&["out", "remote"], &rows), ["   out  remote", "12.00M  x", "   950  y"]);
        assert_eq!((count_text(1, "route"), count_text(0, "route")), ("1 route".into(), "0 routes".into()));
    }

    #[test]
    fn counted_things_have_their_plural() {
        for (n, what, text) in [
            (1, "face", "1 face"),
            (0, "face", "0 faces"),
            (1, "pending Interest", "1 pending Interest"),
            (2, "prefix", "2 prefixes"),
            (3, "miss", "3 misses"),
        ] {
            assert_eq!(count_text(n, what), text);
        }
    }

    #[test]
    fn sizes_print_in_binary_units() {
        assert_eq!(octets_text(1023), "1023 B");
        assert_eq!(octets_text(1536), "1.5 KiB");
        assert_eq!(octets_text(5 << 40), "5.0 TiB");
    }
}
