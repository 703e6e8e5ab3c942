//! Text for people at a terminal, in a log or on a page.
//!
//! Names of files, a router's StatusText and errors of the system may contain control characters. A
//! terminal executes these instead of printing them: they move the cursor, retitle the window, end
//! a line or reverse the order of the text. [`Plain`] is text without them. Every output function
//! requires it, so that no caller has to remember the escaping.

use alloc::string::String;
use core::fmt::{self, Write};

/// One line of text that can be printed unchanged. Each character for which [`is_obeyed`] holds is
/// replaced by an escape of Rust, such as `\u{1b}` or `\n`.
///
/// ```
/// use namely_wire::text::Plain;
///
/// assert_eq!(Plain::new("run\u{1b}[2J\r7.root").as_str(), "run\\u{1b}[2J\\r7.root");
/// assert_eq!(Plain::quotation("gone\n\"now\"").as_str(), r#""gone\n\"now\"""#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plain(String);

impl Plain {
    /// Formats a value as text.
    pub fn new(value: impl fmt::Display) -> Self {
        let mut text = String::new();
        // Writing to a String does not fail. If a Display fails, its output so far remains.
        let _ = write!(Escaping(&mut text), "{value}");
        Plain(text)
    }

    /// Quotes foreign text, so that it cannot be taken for the program's own.
    pub fn quotation(words: &str) -> Self {
        let mut text = String::from('"');
        let _ = Escaping(&mut text).write_str(&words.replace('\\', "\\\\").replace('"', "\\\""));
        text.push('"');
        Plain(text)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Plain {
    fn from(text: &str) -> Self {
        Plain::new(text)
    }
}

impl From<String> for Plain {
    fn from(text: String) -> Self {
        if text.contains(is_obeyed) { Plain::new(text) } else { Plain(text) }
    }
}

impl From<Plain> for String {
    fn from(plain: Plain) -> Self {
        plain.0
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Returns true for characters that a terminal or a page executes instead of printing: the control
/// characters C0, DEL and C1, the separators of lines and paragraphs, and the characters that
/// change the direction of writing (UAX #9, section 2: the marks, embeddings, overrides and
/// isolates).
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces each such character in JSON text by a `\u` escape (RFC 8259, section 7), so that a
/// terminal prints it and a parser restores the original. Outside of strings, JSON in one line is
/// ASCII without control characters, so only strings change.
pub fn json(text: String) -> String {
    // All these characters are in the basic plane: one unit of UTF-16.
    in_strings(text, |c, escaped| write!(escaped, "\\u{:04x}", u32::from(c)))
}

/// Escapes JSON text for a page that prints its strings: control characters become the text of an
/// escape. A page prints nothing for the control characters that JSON itself escapes.
pub fn json_of_page(text: String) -> String {
    // A JSON string has two backslashes for one.
    in_strings(text, |c, escaped| write!(escaped, "\\{}", c.escape_default()))
}

fn in_strings(text: String, escape: impl Fn(char, &mut String) -> fmt::Result) -> String {
    if !text.contains(is_obeyed) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_obeyed(c) {
            // Writing to a String does not fail.
            let _ = escape(c, &mut escaped);
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Writes text, and escapes control characters.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if is_obeyed(c) {
                self.0.extend(c.escape_default());
            } else {
                self.0.push(c);
            }
        }
        Ok(())
    }
}
