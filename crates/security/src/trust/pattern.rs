//! Name patterns of trust rules; `docs/trust.md` describes the language.
//!
//! A pattern is a name URI in which a component may be `<>` (any one component), `<x>` (any one,
//! bound to `x`), `<>*` (any number of components, also none) or `<x>*` (the same, bound to `x`).
//! All occurrences of a variable must have equal values. A pattern contains at most one `*`, so a
//! name matches in one way at most, and matching takes one pass.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use namely_wire::{Name, NameRef};

/// Values of a rule's variables: runs of components, as octets.
pub(super) type Bindings<'n> = BTreeMap<String, &'n [u8]>;

/// A pattern of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    before: Vec<Part>,
    /// The `*` part, and the parts after it.
    many: Option<(Option<String>, Vec<Part>)>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Exactly this component (a name of one component).
    Literal(Name),
    /// Any component, with its variable if it has one.
    One(Option<String>),
}

impl Pattern {
    /// Returns true if `name` matches.
    pub fn matches(&self, name: NameRef<'_>) -> bool {
        self.bind(name, &mut Bindings::new())
    }

    /// Returns true if `name` matches with the variables in `bindings`. Adds the other variables to
    /// `bindings`.
    pub(super) fn bind<'n>(&self, name: NameRef<'n>, bindings: &mut Bindings<'n>) -> bool {
        let components = name.len();
        let Some((variable, after)) = &self.many else {
            return components == self.before.len() && bind_parts(&self.before, name, 0, bindings);
        };
        let Some(many) = components.checked_sub(self.before.len() + after.len()) else {
            return false;
        };
        let end = self.before.len() + many;
        let run = &name.prefix(end).as_bytes()[name.prefix(self.before.len()).as_bytes().len()..];
        bind_parts(&self.before, name, 0, bindings)
            && bind_variable(variable.as_ref(), run, bindings)
            && bind_parts(after, name, end, bindings)
    }

    fn variables(&self) -> impl Iterator<Item = &String> {
        let (many, after) = match &self.many {
            Some((variable, after)) => (variable.as_ref(), after.as_slice()),
            None => (None, &[][..]),
        };
        let ones = self.before.iter().chain(after).filter_map(|part| match part {
            Part::One(variable) => variable.as_ref(),
            Part::Literal(_) => None,
        });
        ones.chain(many)
    }

    /// Returns a variable of `self` that `other` does not have.
    pub(super) fn variable_not_in(&self, other: &Pattern) -> Option<&str> {
        self.variables().find(|v| !other.variables().any(|o| o == *v)).map(String::as_str)
    }
}

fn bind_parts<'n>(parts: &[Part], name: NameRef<'n>, from: usize, bindings: &mut Bindings<'n>) -> bool {
    let octets = name.as_bytes();
    let mut start = name.prefix(from).as_bytes().len();
    parts.iter().zip(name.components().skip(from)).enumerate().all(|(i, (part, component))| {
        let end = name.prefix(from + i + 1).as_bytes().len();
        let run = &octets[start..end];
        start = end;
        match part {
            Part::Literal(literal) => literal.components().next() == Some(component),
            Part::One(variable) => bind_variable(variable.as_ref(), run, bindings),
        }
    })
}

fn bind_variable<'n>(variable: Option<&String>, run: &'n [u8], bindings: &mut Bindings<'n>) -> bool {
    let Some(variable) = variable else { return true };
    *bindings.entry(variable.clone()).or_insert(run) == run
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let mut pattern = Pattern { before: Vec::new(), many: None, text: text.to_owned() };
        let path = text.strip_prefix('/').ok_or_else(|| PatternError::new(text, "it must start with /"))?;
        for part in path.split('/').filter(|_| !path.is_empty()) {
            if let Some(inner) = part.strip_suffix('*').and_then(wildcard) {
                if pattern.many.is_some() {
                    return Err(PatternError::new(text, "only one * may stand in a pattern"));
                }
                pattern.many = Some((variable(text, inner)?, Vec::new()));
                continue;
            }
            let part = match wildcard(part) {
                Some(inner) => Part::One(variable(text, inner)?),
                None => Part::Literal(literal(text, part)?),
            };
            match &mut pattern.many {
                Some((_, after)) => after.push(part),
                None => pattern.before.push(part),
            }
        }
        Ok(pattern)
    }
}

/// Returns the text between `<` and `>`.
fn wildcard(part: &str) -> Option<&str> {
    part.strip_prefix('<')?.strip_suffix('>')
}

fn variable(text: &str, inner: &str) -> Result<Option<String>, PatternError> {
    if !inner.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(PatternError::new(text, "a variable is made of letters, digits and _"));
    }
    Ok(Some(inner.to_owned()).filter(|v| !v.is_empty()))
}

fn literal(text: &str, part: &str) -> Result<Name, PatternError> {
    if part.contains(['<', '>', '*']) {
        let why = "< > and * stand only in <>, <x>, <>* and <x>*; write them as %3C %3E %2A in a component";
        return Err(PatternError::new(text, why));
    }
    let name: Name = format!("/{part}")
        .parse()
        .map_err(|_| PatternError::new(text, "a component is not in the form of a name URI"))?;
    if name.len() != 1 {
        return Err(PatternError::new(text, "it has an empty component; write ... for one"));
    }
    Ok(name)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Caller: a text that is not a pattern, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a name pattern: {why}")]
pub struct PatternError {
    text: String,
    why: &'static str,
}

impl PatternError {
    fn new(text: &str, why: &'static str) -> Self {
        PatternError { text: text.to_owned(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, uri: &str) -> bool {
        let pattern: Pattern = pattern.parse().unwrap();
        let name: Name = uri.parse().unwrap();
        pattern.matches(name.as_name())
    }

    #[test]
    fn patterns_match_component_by_component() {
        for (pattern, yes, no) in [
            ("/", &["/"][..], &["/a"][..]),
            ("/a/b", &["/a/b"], &["/a", "/a/b/c", "/a/c", "/8=a/9=b"]),
            ("/a/<>", &["/a/b", "/a/v=1", "/a/..."], &["/a", "/a/b/c"]),
            ("/<>*", &["/", "/a", "/a/b/c"], &[]),
            ("/a/<>*", &["/a", "/a/b", "/a/b/c"], &["/", "/b"]),
            ("/a/<>*/z", &["/a/z", "/a/b/z", "/a/z/z"], &["/a", "/z", "/a/z/b", "/a"]),
            ("/<>*/KEY/<>", &["/KEY/k", "/a/b/KEY/k"], &["/KEY", "/a/KEY/k/i"]),
            ("/32=x/v=2", &["/32=x/v=2"], &["/x/v=2", "/32=x/v=3"]),
            ("/<x>/<x>", &["/a/a"], &["/a/b"]),
            ("/<x>/<y>", &["/a/a", "/a/b"], &["/a"]),
            ("/<x>*/m/<x>", &["/a/m/a"], &["/m/a", "/a/b/m/b"]),
            ("/%3Cx%3E", &["/%3Cx%3E"], &["/a"]),
        ] {
            yes.iter().for_each(|uri| assert!(matches(pattern, uri), "{pattern} should match {uri}"));
            no.iter().for_each(|uri| assert!(!matches(pattern, uri), "{pattern} should not match {uri}"));
        }
    }

    #[test]
    fn an_encoded_run_is_not_a_component() {
        // One component whose octets are the encoding of two.
        let mut name = Name::new();
        name.push(namely_wire::Component::generic(&[8, 1, b'a', 8, 1, b'b']));
        let two: Name = "/a/b".parse().unwrap();
        let name = name.join_name(two.as_name());
        let pattern: Pattern = "/<x>/<x>*".parse().unwrap();
        assert!(!pattern.matches(name.as_name()));
    }

    #[test]
    fn invalid_patterns_return_a_reason() {
        for (text, why) in [
            ("a/b", "start with /"),
            ("", "start with /"),
            ("/<>*/<>*", "only one *"),
            ("/<a b>", "letters, digits"),
            ("/a*", "write them as %3C"),
            ("/<x", "write them as %3C"),
            ("/x<>", "write them as %3C"),
            ("/a//b", "empty component"),
            ("/v=x", "form of a name URI"),
            ("/a/", "empty component"),
        ] {
            let message = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    #[test]
    fn the_longest_names_match_patterns() {
        let uri = "/a".repeat(namely_wire::COMPONENTS_MAX);
        assert!(matches("/<x>/<>*/<x>", &uri));
        assert!(!matches("/<>*/b", &uri));
    }
}
