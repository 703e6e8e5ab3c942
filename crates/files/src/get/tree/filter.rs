//! Patterns that choose the entries of a tree, as rsync's `--include` and `--exclude`.
//!
//! The first pattern that an entry matches decides. An entry that matches none is included, and
//! nothing below an excluded directory is.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Patterns of a filter.
///
/// # Limit
/// A further one is refused.
/// - Tests: `a_filter_has_a_pattern_limit`
pub const PATTERNS_MAX: usize = 1024;

/// Octets of a pattern.
///
/// # Limit
/// A longer one is refused.
/// - Tests: `a_filter_has_a_pattern_limit`
const PATTERN_OCTETS_MAX: usize = 4096;

/// The reason why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The caller's: it is empty, or names the whole tree.
    #[error("the pattern '{0}' names nothing")]
    Empty(String),
    /// The caller's: a set of characters has no end.
    #[error("the pattern '{0}' has a '[' without ']'")]
    OpenSet(String),
    /// The caller's: it is too long, or there are too many.
    #[error(
        "too many patterns, or one that is too long: at most {PATTERNS_MAX} of {PATTERN_OCTETS_MAX} octets"
    )]
    TooMany,
}

/// Patterns in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub struct Filter(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    is_include: bool,
    pattern: Pattern,
}

/// A pattern. `*` stands for any octets but a slash, `**` for any octets, `?` for one octet but a
/// slash, `[a-z]` and `[!a-z]` for one of a set.
#[derive(Clone, Debug)]
struct Pattern {
    tokens: Vec<Token>,
    /// Whether the pattern begins at the top of the tree, and not at any component of a path.
    is_anchored: bool,
    /// Whether only directories match.
    is_of_directories: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Octet(u8),
    One,
    /// Ranges of octets, first and last; none of them with the flag.
    Set(Vec<[u8; 2]>, bool),
    Many,
    ManyWithSlashes,
}

impl Filter {
    /// Adds a pattern after the others.
    ///
    /// # Errors
    /// [`FilterError`]: the pattern is invalid, or there are too many.
    pub fn push(&mut self, pattern: &str, is_include: bool) -> Result<(), FilterError> {
        if self.0.len() >= PATTERNS_MAX || pattern.len() > PATTERN_OCTETS_MAX {
            return Err(FilterError::TooMany);
        }
        self.0.push(Rule { is_include, pattern: Pattern::parse(pattern)? });
        Ok(())
    }

    /// Returns true if there is no pattern.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the entry at `path` below the top of the tree is excluded by itself. The
    /// caller does not enter excluded directories.
    pub(super) fn excludes(&self, path: &Path, is_directory: bool) -> bool {
        let path = path.as_os_str().as_bytes();
        let rule = self.0.iter().find(|rule| rule.pattern.matches(path, is_directory));
        rule.is_some_and(|rule| !rule.is_include)
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, FilterError> {
        let (rest, is_anchored) = match text.strip_prefix('/') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (rest, is_of_directories) = match rest.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        if rest.is_empty() {
            return Err(FilterError::Empty(text.to_owned()));
        }
        let mut tokens = Vec::new();
        let mut octets = rest.as_bytes();
        while let Some((octet, after)) = octets.split_first() {
            octets = after;
            tokens.push(match octet {
                b'*' if octets.first() == Some(&b'*') => {
                    octets = octets.get(1..).unwrap_or_default();
                    Token::ManyWithSlashes
                }
                b'*' => Token::Many,
                b'?' => Token::One,
                b'[' => {
                    let (set, after) = set(octets).ok_or_else(|| FilterError::OpenSet(text.to_owned()))?;
                    octets = after;
                    set
                }
                b'\\' if !octets.is_empty() => {
                    let escaped = octets[0];
                    octets = &octets[1..];
                    Token::Octet(escaped)
                }
                octet => Token::Octet(*octet),
            });
        }
        Ok(Pattern { tokens, is_anchored, is_of_directories })
    }

    /// Follows all ways to match at once, so that no path takes long: `active[i]` is set if the
    /// tokens before `i` match the octets so far.
    fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if self.is_of_directories && !is_directory {
            return false;
        }
        let end = self.tokens.len();
        let mut active = vec![false; end + 1];
        let mut next = vec![false; end + 1];
        active[0] = true;
        self.skip_empty(&mut active);
        for octet in path {
            next.fill(false);
            for (i, token) in self.tokens.iter().enumerate().filter(|(i, _)| active[*i]) {
                match token {
                    Token::ManyWithSlashes => next[i] = true,
                    Token::Many => next[i] |= *octet != b'/',
                    token => next[i + 1] |= token.takes(*octet),
                }
            }
            // A pattern without a slash before it may begin with each component.
            next[0] |= *octet == b'/' && !self.is_anchored;
            self.skip_empty(&mut next);
            std::mem::swap(&mut active, &mut next);
        }
        active[end]
    }

    /// Adds the positions after tokens that also stand for no octets.
    fn skip_empty(&self, active: &mut [bool]) {
        for (i, token) in self.tokens.iter().enumerate() {
            if active[i] && matches!(token, Token::Many | Token::ManyWithSlashes) {
                active[i + 1] = true;
            }
        }
    }
}

impl Token {
    fn takes(&self, octet: u8) -> bool {
        match self {
            Token::Octet(own) => *own == octet,
            Token::One => octet != b'/',
            Token::Set(ranges, is_negated) => {
                let is_in = ranges.iter().any(|[first, last]| (*first..=*last).contains(&octet));
                octet != b'/' && is_in != *is_negated
            }
            Token::Many | Token::ManyWithSlashes => false,
        }
    }
}

/// Parses the set after `[`. Returns it with the octets after its `]`.
fn set(octets: &[u8]) -> Option<(Token, &[u8])> {
    let (mut rest, is_negated) = match octets.split_first()? {
        (b'!' | b'^', rest) => (rest, true),
        _ => (octets, false),
    };
    let mut ranges = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        // A `]` at the beginning belongs to the set.
        if *first == b']' && !ranges.is_empty() {
            return Some((Token::Set(ranges, is_negated), after));
        }
        (ranges, rest) = match after {
            [b'-', last, after @ ..] if *last != b']' => (with(ranges, *first, *last), after),
            _ => (with(ranges, *first, *first), after),
        };
    }
}

fn with(mut ranges: Vec<[u8; 2]>, first: u8, last: u8) -> Vec<[u8; 2]> {
    ranges.push([first, last]);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, path: &str) -> bool {
        let path = path.strip_suffix('/').map_or((path, false), |path| (path, true));
        Pattern::parse(pattern).unwrap().matches(path.0.as_bytes(), path.1)
    }

    #[test]
    fn patterns_match_as_those_of_rsync() {
        for (pattern, path) in [
            ("*.root", "a/b/run7.root"),
            ("*.root", "run7.root"),
            ("/a/*.root", "a/run7.root"),
            ("b/run?.root", "a/b/run7.root"),
            ("/a/**/z", "a/b/c/z"),
            ("/a/**z", "a/b/c/z"),
            ("**", "a/b"),
            ("tmp/", "a/tmp/"),
            ("run[0-9][!a-c].root", "run7d.root"),
            ("[]x]", "]"),
            ("a\\*b", "a*b"),
            ("*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaab"),
        ] {
            assert!(is_match(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("*.root", "run7.root.old"),
            ("*.root", "a.root/b"),
            ("/a/*.root", "a/b/run7.root"),
            ("/run7.root", "a/run7.root"),
            ("un7.root", "run7.root"),
            ("a?b", "a/b"),
            ("a[/]b", "a/b"),
            ("tmp/", "a/tmp"),
            ("run[!0-9]", "run7"),
            ("*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaac"),
        ] {
            assert!(!is_match(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn the_first_matching_pattern_decides() {
        let mut filter = Filter::default();
        filter.push("keep.log", true).unwrap();
        filter.push("*.log", false).unwrap();
        filter.push("*.log", true).unwrap();
        let excludes = |path: &str| filter.excludes(Path::new(path), false);
        assert!(!excludes("a/keep.log") && excludes("a/b.log") && !excludes("a/b.txt"));
    }

    #[test]
    fn a_filter_has_a_pattern_limit() {
        let mut filter = Filter::default();
        for _ in 0..PATTERNS_MAX {
            filter.push("x", false).unwrap();
        }
        assert_eq!(filter.push("x", false), Err(FilterError::TooMany));
        let mut filter = Filter::default();
        assert_eq!(filter.push(&"x".repeat(PATTERN_OCTETS_MAX), true), Ok(()));
        assert_eq!(filter.push(&"x".repeat(PATTERN_OCTETS_MAX + 1), true), Err(FilterError::TooMany));
        assert_eq!(filter.push("/", true), Err(FilterError::Empty("/".into())));
        assert_eq!(filter.push("a[b", true), Err(FilterError::OpenSet("a[b".into())));
    }
}
