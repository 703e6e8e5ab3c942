//! Text that a person reads at a terminal, in a log or on a page.
//!
//! Names of files, a router's StatusText and errors of the system carry characters that a terminal
//! obeys instead of showing: they move the cursor, retitle the window, end a line or reverse the
//! order of what follows. [`Plain`] is text without them, and every output function takes it, so
//! that no caller has to remember the escaping.

use alloc::string::String;
use core::fmt::{self, Write};

/// One line of text that is shown as it is: each character for which [`is_obeyed`] holds is
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
    /// The text of a value.
    pub fn new(value: impl fmt::Display) -> Self {
        let mut text = String::new();
        // Writing to a String does not fail; a Display that does leaves what it wrote until then.
        let _ = write!(Escaping(&mut text), "{value}");
        Plain(text)
    }

    /// Words of somebody else, in quotation marks: nobody takes them for the program's own.
    pub fn quotation(words: &str) -> Self {
        let mut text = String::from('"');
        let _ = Escaping(&mut text).write_str(&words.replace('\\', "\\\\").replace('"', "\\\""));
        text.push('"');
        Plain(text)
    }

    /// The text.
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

/// Whether a terminal or a page obeys a character instead of showing it: the control characters C0,
/// DEL and C1, the separators of lines and paragraphs, and what turns the direction of writing
/// (UAX #9, section 2: the marks, embeddings, overrides and isolates).
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON text with a `\u` escape (RFC 8259, section 7) in place of each such character, so that a
/// terminal shows it and a parser gets the original. JSON in one line is made of ASCII without
/// control characters but for its strings, so that only those change.
pub fn json(text: String) -> String {
    // All of them are in the basic plane: one unit of UTF-16.
    in_strings(text, |c, escaped| write!(escaped, "\\u{:04x}", u32::from(c)))
}

/// JSON text for a page, which shows the strings in it: what the page would obey is in them as the
/// text of an escape. A page shows nothing for the control characters that JSON escapes itself.
pub fn json_of_page(text: String) -> String {
    // A backslash is two in a string of JSON.
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

/// Writes text, and escapes what is obeyed.
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
