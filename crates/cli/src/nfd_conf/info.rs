//! The text format of NFD's configuration: Boost's INFO. Keys with values, `{ }` around what is
//! below a key, `;` before a comment.
//!
//! Files that others include (`#include`) are not read.

use std::fmt;

/// How deep sections may lie in one another.
pub const INFO_DEPTH_MAX: usize = 32;

/// A key, its value and what is below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// What stands behind it in the line; empty if nothing does.
    pub value: String,
    /// What is below it.
    pub below: Vec<Entry>,
    /// The line of the key, from 1 on.
    pub line: usize,
}

impl Entry {
    /// The first entry below this one with a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.below.iter().find(|entry| entry.key == key)
    }

    /// The value of the first entry below this one with a key.
    pub fn value_of(&self, key: &str) -> Option<&str> {
        self.get(key).map(|entry| entry.value.as_str())
    }
}

/// Why a text is no such file: the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoError {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong there.
    pub why: &'static str,
}

impl fmt::Display for InfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for InfoError {}

/// Reads a file's text; the entry that is returned has all others below it.
///
/// # Errors
/// [`InfoError`]: the first line that is wrong.
pub fn parse(text: &str) -> Result<Entry, InfoError> {
    // The entries that are open, the whole file first.
    let mut open = vec![Entry::default()];
    for (n, line) in text.lines().enumerate() {
        let at = |why| InfoError { line: n + 1, why };
        let words = words(line).map_err(at)?;
        if words.first().is_some_and(|word| word.text == "#include") {
            return Err(at("files that are included are not read: put their text in its place"));
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
                        return Err(at("too many sections in one another"));
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

/// Puts an entry below the innermost one that is open.
fn close(open: &mut [Entry], entry: Option<Entry>) {
    if let (Some(around), Some(entry)) = (open.last_mut(), entry) {
        around.below.push(entry);
    }
}

struct Word {
    text: String,
    is_quoted: bool,
}

/// The words of a line without its comment.
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

/// What stands before the next quotation mark.
fn quoted(rest: &mut impl Iterator<Item = char>) -> Result<String, &'static str> {
    let mut text = String::new();
    loop {
        match rest.next().ok_or("a quotation mark has no other")? {
            '"' => return Ok(text),
            '\\' => text.push(match rest.next().ok_or("a quotation mark has no other")? {
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
    fn keys_values_and_sections_are_read_wherever_the_braces_stand() {
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
    fn what_is_wrong_is_told_with_its_line() {
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
    fn sections_lie_so_deep_in_one_another_and_no_deeper() {
        let nested = |depth: usize| "a {".repeat(depth) + &"}".repeat(depth);
        assert!(parse(&nested(INFO_DEPTH_MAX)).is_ok());
        assert_eq!(parse(&nested(INFO_DEPTH_MAX + 1)).unwrap_err().why, "too many sections in one another");
    }
}
