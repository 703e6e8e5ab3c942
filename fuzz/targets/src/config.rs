//! The router's configuration file.

use std::path::Path;

use namely_daemon::config::Config;

/// Any text is a configuration or an error that names the file.
pub(crate) fn config(octets: &[u8]) {
    let Ok(text) = std::str::from_utf8(octets) else { return };
    if let Err(error) = Config::parse(text, Path::new("namely.toml")) {
        assert!(error.to_string().starts_with("namely.toml"), "{error}");
    }
}
