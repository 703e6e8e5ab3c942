//! The parser's messages in the words of the documentation, with an example of the key.

use toml::Spanned;
use toml::de::DeValue;

use super::document::Document;
use super::error::Step;
use super::examples::{Examples, head};

/// Characters of a value that a message quotes.
const QUOTED_CHARS_MAX: usize = 40;

/// Octets of a word for which a similar one is searched. No key has so many, and the search takes a
/// time of their square.
const WORD_OCTETS_MAX: usize = 64;

/// An explained error.
pub(super) struct Explained {
    pub(super) reason: String,
    /// The key that an unknown key was probably meant to be.
    pub(super) meant: Option<String>,
}

/// Explains the parser's `message` about the key or value at `path`.
pub(super) fn explain(
    message: &str,
    path: &[Step],
    document: &Document<'_>,
    examples: &Examples,
) -> Explained {
    if message.starts_with("unknown field ") {
        return unknown_key(message, path, examples);
    }
    let missing = message.strip_prefix("missing field ").map(|key| key.trim_matches('`'));
    if let Some(key) = missing {
        let needed: Vec<Step> = path.iter().cloned().chain([Step::from(key)]).collect();
        let reason = format!("{} needs `{key}`{}", head(path), example(&needed, examples));
        return Explained { reason, meant: None };
    }
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let given = document.value(path);
    let reason = match wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) {
        Some((found, expected)) if is_list(expected) && found == "map" => {
            one_of_several(path, document, examples)
        }
        Some((found, expected)) => wrong_type(found, expected, given, document),
        None => refused(message, given),
    };
    let label = match path.last() {
        Some(Step::Key(key)) => format!("{key}: "),
        _ => head(path) + ": ",
    };
    // The message of a value in a list belongs to the key of the list.
    let label = match (path, given.map(Spanned::get_ref)) {
        ([.., Step::Key(key), Step::Entry(_)], Some(entry)) if !entry.is_table() => format!("{key}: "),
        _ => label,
    };
    let is_table = given.is_some_and(|given| given.get_ref().is_table());
    let example = if is_table { String::new() } else { example(path, examples) };
    Explained { reason: format!("{label}{reason}{example}"), meant: None }
}

/// The known word that is nearest to `word`, if one differs from it in a third of its letters at
/// most.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_OCTETS_MAX {
        return None;
    }
    let most = word.len() / 3;
    // The distance is at least the difference of the lengths.
    let similar = known.filter(|known| known.len().abs_diff(word.len()) <= most);
    let distances = similar.map(|known| (distance(word, known), known));
    let nearest = distances.min_by_key(|(distance, _)| *distance);
    nearest.filter(|(distance, _)| (1..=most).contains(distance)).map(|(_, known)| known)
}

/// `; did you mean …?` if a word of `message`, which lists the valid values, is near to `value`.
pub(crate) fn suggestion(value: &str, message: &str) -> String {
    let words = message.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    let words = words.filter(|word| word.len() > 2);
    nearest(value, words).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
}

fn example(path: &[Step], examples: &Examples) -> String {
    examples.of(path).map_or_else(String::new, |example| format!(" (for example: {example})"))
}

fn is_list(expected: &str) -> bool {
    matches!(expected, "a sequence" | "a list")
}

fn unknown_key(message: &str, path: &[Step], examples: &Examples) -> Explained {
    let Some((Step::Key(unknown), around)) = path.split_last() else {
        return Explained { reason: message.to_owned(), meant: None };
    };
    let place = if around.is_empty() { "at the top".to_owned() } else { format!("in {}", head(around)) };
    let allowed = message.rsplit_once(", expected ").map_or("", |(_, allowed)| allowed);
    let known = || allowed.split('`').skip(1).step_by(2);
    let (advice, meant) = match nearest(unknown, known()) {
        Some(meant) => {
            let path: Vec<Step> = around.iter().cloned().chain([Step::from(meant)]).collect();
            (format!("; did you mean `{meant}`?{}", example(&path, examples)), Some(meant.to_owned()))
        }
        None => match examples.table_with(unknown) {
            Some(table) => (format!("; it belongs to {table}"), None),
            None if allowed.is_empty() => (String::new(), None),
            None => (format!("; expected {allowed}"), None),
        },
    };
    Explained { reason: format!("unknown key `{unknown}` {place}{advice}"), meant }
}

/// A table where a list of tables is expected, such as `[face]`.
fn one_of_several(path: &[Step], document: &Document<'_>, examples: &Examples) -> String {
    let Some(Step::Key(name)) = path.last() else { return "a table instead of a list".to_owned() };
    let (given, known) = (document.keys(path), examples.keys(path));
    if known.is_empty() {
        return "a table instead of a list".to_owned();
    }
    // The table itself is known, and so the nearest of all.
    let others = examples.keys(&[]).into_iter().filter(|other| *other != name.as_str());
    let other = nearest(name, others).filter(|other| {
        let keys = examples.keys(&[Step::from(*other)]);
        given.iter().any(|key| keys.contains(key) && !known.contains(key))
    });
    match other {
        Some(other) => format!("one of several is written [[{name}]]; did you mean [{other}]?"),
        None => format!("there may be several: write [[{name}]]"),
    }
}

fn wrong_type(
    found: &str,
    expected: &str,
    given: Option<&Spanned<DeValue<'_>>>,
    document: &Document<'_>,
) -> String {
    let expected = match expected {
        "usize" | "u64" => "a whole number",
        "u32" => "a whole number up to 4294967295",
        "u16" => "a whole number up to 65535",
        "u8" => "a whole number up to 255",
        "a boolean" => "true or false",
        "a string" | "path string" => "text in quotation marks",
        "a sequence" => "a list",
        "a map" => "a table",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    };
    let is_table = given.is_some_and(|given| given.get_ref().is_table());
    let found = match given.map(|given| document.slice(given.span())) {
        Some(text) if !is_table && !text.is_empty() && !text.contains('\n') => shortened(text),
        _ if found == "map" => "a table".to_owned(),
        _ if found == "sequence" => "a list".to_owned(),
        _ => found.to_owned(),
    };
    format!("{found} instead of {expected}")
}

/// A message about a value of the right type, with a suggestion if it lists the valid values.
fn refused(message: &str, given: Option<&Spanned<DeValue<'_>>>) -> String {
    let message = match message.strip_prefix("unknown variant `") {
        Some(rest) => {
            let (value, allowed) = rest.split_once("`, expected ").unwrap_or((rest, ""));
            format!(
                "`{value}` is none of {}",
                allowed.trim_start_matches("one of ").replace("` or `", "`, `")
            )
        }
        None => message.to_owned(),
    };
    let value = given.and_then(|given| given.get_ref().as_str());
    let listed = ["none of ", "there are "].iter().find_map(|words| message.rsplit_once(words));
    let meant = value.zip(listed).map_or_else(String::new, |(value, (_, listed))| suggestion(value, listed));
    message + &meant
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The edit distance between two words, in octets. Two neighbors that are swapped are one edit.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut two_above = above.clone();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(two_above[j - 2] + 1);
            }
            row.push(least);
        }
        two_above = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested() {
        let known = ["best-route", "multicast", "asf"];
        let near = |word: &str| nearest(word, known.into_iter());
        assert_eq!((near("bestroute"), near("multi-cast")), (Some("best-route"), Some("multicast")));
        assert_eq!((near("unicorn"), near("asf"), near("fsa")), (None, None, None));
        assert_eq!(near("saf"), Some("asf"), "two letters swapped");
        let listed = "there are /localhost/nfd/strategy/best-route/v=5 /localhost/nfd/strategy/asf/v=5";
        assert_eq!(suggestion("bestroute", listed), "; did you mean `best-route`?");
        assert_eq!(suggestion("", listed), "");
        let (longest, longer) = ("x".repeat(WORD_OCTETS_MAX), "x".repeat(WORD_OCTETS_MAX + 1));
        assert_eq!(nearest(&longest, [longer.as_str()].into_iter()), Some(longer.as_str()));
        assert_eq!(nearest(&longer, [longest.as_str()].into_iter()), None);
    }
}
