//! Reading a configuration file, and saying where it is wrong.

use std::fmt;
use std::path::{Path, PathBuf};

use namely_host::disk::{OpenError, read_named};

use super::Config;

/// Largest configuration file that is read, in octets.
pub const CONFIG_OCTETS_MAX: u64 = 16 << 20;

/// The files that are tried when none is named, in order.
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

    /// Reads the configuration from `text`; `path` is what errors call it.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let refuse = |line, reason| ConfigError { path: Some(path.to_owned()), line, reason };
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start));
            refuse(line, with_advice(error.message(), line.and_then(|line| text.lines().nth(line - 1))))
        })
    }
}

/// The message, and what was probably meant: the key that is nearest to one that there is not, or a
/// list of tables where there is one.
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

/// How many octets have to be put in, taken out or changed to come from one word to the other.
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

/// A configuration that cannot be used; the fault of whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file; none if it is of the command line.
    pub path: Option<PathBuf>,
    /// The line of the bad key or value, counted from 1, if there is one.
    pub line: Option<usize>,
    /// What is wrong and what is allowed.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}:", path.display())?;
        }
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        let space = if self.path.is_some() { " " } else { "" };
        write!(f, "{space}{}", self.reason)
    }
}

impl std::error::Error for ConfigError {}
