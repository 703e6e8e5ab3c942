//! Reads a configuration file and reports the positions of all errors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_host::disk::{OpenError, read_named};

use super::Config;
use super::document::Document;
use super::error::{ConfigError, Fault, Step};
use super::faults::{self, located};

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

/// Returns true if the file at `path` sets the format of the log to JSON, whether or not the rest
/// of it is valid.
pub(crate) fn has_json_log(path: &Path) -> bool {
    let key = [Step::from("log"), Step::from("format")];
    read_text(path).is_ok_and(|text| {
        let document = Document::parse(&text).0;
        document.value(&key).is_some_and(|format| format.get_ref().as_str() == Some("json"))
    })
}

/// The file that a configuration was read from, for the positions of errors that are found after
/// the parse. Any two are equal, because a configuration is its settings.
#[derive(Clone, Debug, Default)]
pub struct Source(Option<Arc<SourceFile>>);

#[derive(Debug)]
struct SourceFile {
    path: PathBuf,
    text: String,
}

impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Source {}

impl Source {
    /// The path and the text of the file; `None` of a configuration that is from no file.
    pub(crate) fn file(&self) -> Option<(&Path, &str)> {
        self.0.as_ref().map(|file| (file.path.as_path(), file.text.as_str()))
    }
}

impl Config {
    /// Reads the configuration from `path`.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        Self::parse(&read_text(path)?, path)
    }

    /// Parses the configuration `text`; `path` is its name in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let config = faults::read::<Config>(text);
        let mut config = config.map_err(|faults| ConfigError { path: Some(path.to_owned()), faults })?;
        config.source = Source(Some(Arc::new(SourceFile { path: path.to_owned(), text: text.to_owned() })));
        Ok(config)
    }

    /// Adds the file and the position of its key to an error of this configuration.
    pub(crate) fn located(&self, error: ConfigError) -> ConfigError {
        let Some((path, text)) = self.source.file() else { return error };
        let document = Document::parse(text).0;
        let is_in_file = |fault: &Fault| document.position_of(&fault.key).is_some();
        if !error.faults.iter().any(is_in_file) {
            return error;
        }
        let positioned = error.faults.into_iter().map(|fault| located(fault, &document));
        let mut faults: Vec<Fault> = positioned.collect();
        faults.sort_by_key(|fault| fault.position);
        ConfigError { path: Some(path.to_owned()), faults }
    }

    /// Runs `check` until it finds no further error, each time without the keys that it has
    /// refused.
    ///
    /// # Errors
    /// All errors, with their positions in the file.
    pub(crate) fn check_all(
        &self,
        check: &dyn Fn(&Config) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        let Some((path, text)) = self.source.file() else { return check(self) };
        let faults = faults::check_all(text, self, check);
        faults.map_err(|faults| ConfigError { path: Some(path.to_owned()), faults })
    }
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let unreadable =
        |reason: &str| ConfigError { path: Some(path.to_owned()), faults: vec![Fault::new(None, reason)] };
    let octets = read_named(path, CONFIG_OCTETS_MAX).map_err(|error| match error {
        OpenError::System(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            unreadable(&format!("larger than {CONFIG_OCTETS_MAX} octets; is this a configuration?"))
        }
        error => unreadable(&error.to_string()),
    })?;
    String::from_utf8(octets).map_err(|error| unreadable(&error.to_string()))
}
