//! The text format of NFD's configuration: Boost's INFO. A key has a value, `{ }` enclose the
//! entries below a key, and `;` begins a comment.
//!
//! Included files (`#include`) are not read.

/// Nesting of sections in an nfd.conf.
///
/// # Limit
/// The file is refused.
/// - Tests: `nested_sections_have_a_depth_limit`
pub const INFO_DEPTH_MAX: usize = 32;

/// A key, its value and its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value after the key in the same line; empty if there is none.
    pub value: String,
    /// Entries below the key.
    pub below: Vec<Entry>,
    /// The line of the key, from 1 on.
    pub line: usize,
}

impl Entry {
    /// Returns the first entry with a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.below.iter().find(|entry| entry.key == key)
    }

    /// Returns the value of the first entry with a key.
    pub fn value_of(&self, key: &str) -> Option<&str> {
        self.get(key).map(|entry| entry.value.as_str())
    }
}

/// Caller: the text is not a valid file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct InfoError {
    /// The line, from 1 on.
    pub line: usize,
    /// The error.
    pub why: &'static str,
}

/// Parses a file's text. Returns a root entry with all others below it.
///
/// # Errors
/// [`InfoError`]: the first line with an error.
pub fn parse(text: &str) -> Result<Entry, InfoError> {
    // The entries that are open, the whole file first.
    let mut open = vec![Entry::default()];
    for (n, line) in text.lines().enumerate() {
        let at = |why| InfoError { line: n + 1, why };
        let words = words(line).map_err(at)?;
        if words.first().is_some_and(|word| word.text == "#include") {
            return Err(at("included files are not read: insert their text here"));
        }
        let mut entry: Option<Entry> = None;
        for word in words {
            match (word.text.as_str(), word.is_quoted) {
                ("{", false) => {
                    let inner = entry.take().or_else(|| open.last_mut()?.below.pop());
                    let inner = inner.ok_or_else(|| at("`{` without a key before it"))?;
                    if !inner.below.is_empty() {
                        return Err(at("a second `{` for one key"));
                    }
                    if open.len() > INFO_DEPTH_MAX {
                        return Err(at("sections are nested too deeply"));
                    }
                    open.push(inner);
                }
                ("}", false) => {
                    close(&mut open, entry.take());
                    let inner = open.pop().filter(|_| !open.is_empty());
                    let inner = inner.ok_or_else(|| at("`}` without a `{`"))?;
                    close(&mut open, Some(inner));
                }
                _ => match &mut entry {
                    None => entry = Some(Entry { key: word.text, line: n + 1, ..Entry::default() }),
                    Some(entry) if entry.value.is_empty() => entry.value = word.text,
                    Some(_) => return Err(at("more than a key and a value: quote a value with blanks")),
                },
            }
        }
        close(&mut open, entry);
    }
    let line = text.lines().count();
    let whole = open.pop().filter(|_| open.is_empty());
    whole.ok_or(InfoError { line, why: "the file ends before a `}`" })
}

/// Adds an entry to the innermost open one.
fn close(open: &mut [Entry], entry: Option<Entry>) {
    if let (Some(around), Some(entry)) = (open.last_mut(), entry) {
        around.below.push(entry);
    }
}

struct Word {
    text: String,
    is_quoted: bool,
}

/// Splits a line without its comment into words.
fn words(line: &str) -> Result<Vec<Word>, &'static str> {
    let mut words = Vec::new();
    let mut rest = line.chars().peekable();
    while let Some(&next) = rest.peek() {
        match next {
            ';' => break,
            _ if next.is_whitespace() => drop(rest.next()),
            '{' | '}' => {
                rest.next();
                words.push(Word { text: next.into(), is_quoted: false });
            }
            '"' => {
                rest.next();
                words.push(Word { text: quoted(&mut rest)?, is_quoted: true });
            }
            _ => {
                let mut text = String::new();
                while let Some(plain) =
                    rest.next_if(|next| !next.is_whitespace() && !matches!(next, ';' | '{' | '}'))
                {
                    text.push(plain);
                }
                words.push(Word { text, is_quoted: false });
            }
        }
    }
    Ok(words)
}

/// Returns the text before the next quotation mark.
fn quoted(rest: &mut impl Iterator<Item = char>) -> Result<String, &'static str> {
    let mut text = String::new();
    loop {
        match rest.next().ok_or("a quotation mark is not closed")? {
            '"' => return Ok(text),
            '\\' => text.push(match rest.next().ok_or("a quotation mark is not closed")? {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_files_parse_with_braces_anywhere() {
        let text = "; all\ngeneral\n{\n  user \"a b\" ; who\n}\nlog { default_level INFO\nX \"a\\\"b\" }\nempty\n{\n}\nport 6363";
        let whole = parse(text).unwrap();
        let keys: Vec<_> = whole.below.iter().map(|entry| (entry.key.as_str(), entry.line)).collect();
        assert_eq!(keys, [("general", 2), ("log", 6), ("empty", 8), ("port", 11)]);
        assert_eq!(whole.get("general").unwrap().value_of("user"), Some("a b"));
        assert_eq!(whole.get("log").unwrap().value_of("default_level"), Some("INFO"));
        assert_eq!(whole.get("log").unwrap().value_of("X"), Some("a\"b"));
        assert_eq!(whole.value_of("port"), Some("6363"));
        assert_eq!(parse("").unwrap(), Entry::default());
    }

    #[test]
    fn info_parse_errors_report_their_line() {
        for (text, line, why) in [
            ("a\n{\n", 2, "ends before"),
            ("a\n}", 2, "without a `{`"),
            ("\n{", 2, "without a key"),
            ("a { b 1 }\n{", 2, "second"),
            ("a b c", 1, "quote"),
            ("a \"b", 1, "quotation mark"),
            ("#include \"x\"", 1, "included"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line == line && error.why.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn nested_sections_have_a_depth_limit() {
        let nested = |depth: usize| "a {".repeat(depth) + &"}".repeat(depth);
        assert!(parse(&nested(INFO_DEPTH_MAX)).is_ok());
        assert_eq!(parse(&nested(INFO_DEPTH_MAX + 1)).unwrap_err().why, "sections are nested too deeply");
    }
}
