//! What a person or a program sees: aligned tables and lines, or one JSON object a line.

use std::cell::Cell as Flag;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::failure::{Exit, Failure};

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

    /// Whether a progress bar has someone to look at it.
    pub fn shows_progress(&self) -> bool {
        !self.json && !self.quiet && std::io::stderr().is_terminal()
    }

    /// One answer, in the form that was asked for.
    pub fn answer(&self, text: impl FnOnce() -> String, value: impl FnOnce() -> Value) {
        if self.json { self.line(&value().to_string()) } else { self.line(&text()) }
    }

    /// Rows as an aligned table, or each as a JSON object whose keys are the column titles in lower
    /// case.
    pub fn table(&self, columns: &[&str], rows: &[Vec<Cell>]) {
        if self.json {
            for row in rows {
                let object: serde_json::Map<_, _> =
                    columns.iter().zip(row).map(|(c, cell)| (key(c), cell.json())).collect();
                self.line(&Value::Object(object).to_string());
            }
            return;
        }
        for line in layout(columns, rows) {
            self.line(&line);
        }
    }

    /// A remark for the person at the terminal.
    pub fn remark(&self, text: impl AsRef<str>) {
        if !self.quiet && !self.json {
            eprintln!("{}", text.as_ref());
        }
    }

    /// Reports a failed command on standard error.
    pub fn failure(&self, failure: &Failure) {
        if self.json {
            let value = serde_json::json!({
                "error": failure.message, "hint": failure.hint, "exit": failure.exit as u8,
            });
            eprintln!("{value}");
            return;
        }
        if failure.exit == Exit::Interrupted {
            eprintln!("interrupted: {}", failure.message);
        } else {
            eprintln!("error: {}", failure.message);
        }
        if let Some(hint) = &failure.hint {
            eprintln!("  hint: {hint}");
        }
    }

    /// One line, whatever form was asked for. A closed pipe (`namely … | head`) ends the output,
    /// not the program's work: the line is dropped. What only goes on for its output asks
    /// [`Output::is_closed`].
    pub fn line(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// Text as it is, as [`Output::line`] writes a line.
    pub fn write(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            self.is_closed.set(true);
        }
    }

    /// Waits, and returns true, at once if it can, when nobody reads the output any more.
    pub fn is_closed(&self, wait: Duration) -> bool {
        let stdout = std::io::stdout();
        // Without a wish of ours the kernel tells errors: that the other end of a pipe was closed.
        let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
        let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        if !self.is_closed.get() && poll(&mut polled, Some(&wait)).is_ok_and(|ready| ready > 0) {
            self.is_closed.set(polled[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL));
        }
        self.is_closed.get()
    }
}

/// One cell of a table: text is left-aligned, a number right-aligned and a JSON number.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Text.
    Text(String),
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
            Cell::Text(text) => text.clone(),
            Cell::Number(n) => n.to_string(),
            Cell::Real(x, digits) => format!("{x:.digits$}"),
            Cell::Small(x) if *x > 0.0 && *x < 0.001 => format!("{x:.2e}"),
            Cell::Small(x) => format!("{x:.6}"),
            Cell::None => "-".into(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => Value::from(text.as_str()),
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
        .map(|i| !rows.is_empty() && rows.iter().all(|row| !matches!(row[i], Cell::Text(_))))
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

    #[test]
    fn sizes_read_in_binary_units() {
        assert_eq!(octets_text(1023), "1023 B");
        assert_eq!(octets_text(1536), "1.5 KiB");
        assert_eq!(octets_text(5 << 40), "5.0 TiB");
    }
}
