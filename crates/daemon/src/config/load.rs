//! Reads a configuration file and reports the position of errors.

use std::path::{Path, PathBuf};

use namely_host::disk::{OpenError, read_named};

use super::Config;
use super::error::ConfigError;

/// Octets of a configuration file.
///
/// # Limit
/// A larger file is refused.
/// - Tests: `a_missing_or_huge_file_is_reported`
pub const CONFIG_OCTETS_MAX: u64 = 16 << 20;

/// The files that are tried by default, in order.
pub fn default_files() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let user = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or(home);
    let mut files: Vec<PathBuf> = user.map(|dir| dir.join("namely/namely.toml")).into_iter().collect();
    files.push("/etc/namely/namely.toml".into());
    files
}

impl Config {
    /// Reads the configuration from `path`.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let unreadable = |reason: String| ConfigError { path: Some(path.to_owned()), line: None, reason };
        let octets = read_named(path, CONFIG_OCTETS_MAX).map_err(|error| match error {
            OpenError::System(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                unreadable(format!("larger than {CONFIG_OCTETS_MAX} octets; is this a configuration?"))
            }
            error => unreadable(error.to_string()),
        })?;
        let text = String::from_utf8(octets).map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&text, path)
    }

    /// Parses the configuration `text`; `path` is its name in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let refuse = |line, reason| ConfigError { path: Some(path.to_owned()), line, reason };
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start));
            refuse(line, with_advice(error.message(), line.and_then(|line| text.lines().nth(line - 1))))
        })
    }
}

/// The message with a suggestion: the nearest known key for an unknown one, or the syntax of a list
/// of tables.
fn with_advice(message: &str, line: Option<&str>) -> String {
    let table = line.and_then(|line| line.trim().strip_prefix('[')?.strip_suffix(']'));
    if let (true, Some(table)) = (message.contains("expected a sequence"), table) {
        return format!("{message}; there may be several: write [[{table}]]");
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let meant = match (message.starts_with("unknown "), quoted.next()) {
        (true, Some(unknown)) => {
            let near = |known: &&str| distance(unknown, known) <= unknown.len() / 3;
            quoted.filter(near).min_by_key(|known| distance(unknown, known))
        }
        _ => None,
    };
    meant.map_or_else(|| message.to_owned(), |meant| format!("{message}; did you mean `{meant}`?"))
}

/// The edit distance between two words, in octets.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}
