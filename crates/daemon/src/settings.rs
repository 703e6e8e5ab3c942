//! The settings in force of a router with given options, and the origin of each.

use std::collections::BTreeMap;

use namely_wire::FaceUri;

use crate::args::DaemonArgs;
use crate::config::{ConfigError, default_listeners, defaults, written};

/// A key of the configuration and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key with its tables, such as `tables.cs_packets_max` or `face.0.remote`.
    pub key: String,
    /// The value as TOML.
    pub value: String,
    /// The default, if the key has one.
    pub default: Option<String>,
    /// `default`, `FILE:LINE`, or the option of the command line.
    pub origin: String,
}

impl Setting {
    /// Returns true if the value is not the default.
    pub fn is_changed(&self) -> bool {
        self.default.as_deref().is_none_or(|default| parsed(default) != parsed(&self.value))
    }
}

/// A value, for the comparison of two spellings.
fn parsed(value: &str) -> Option<toml::Value> {
    format!("value = {value}").parse::<toml::Table>().ok()?.remove("value")
}

/// The settings of a router that is started with `args`, sorted by key.
///
/// # Errors
/// The configuration is wrong.
pub fn settings(args: &DaemonArgs) -> Result<Vec<Setting>, ConfigError> {
    let config = args.load()?;
    let mut settings = BTreeMap::new();
    let listen = list(&default_listeners());
    let defaults = defaults().into_iter().map(|of| (of.key, of.value));
    for (key, value) in defaults.chain([("faces.listen".to_owned(), listen)]) {
        let origin = "default".to_owned();
        settings.insert(key.clone(), Setting { key, default: Some(value.clone()), value, origin });
    }
    if let Some((path, text)) = config.source.file() {
        for of in written(text) {
            set(&mut settings, &of.key, of.value, format!("{}:{}", path.display(), of.line));
        }
    }
    if !args.listen.is_empty() {
        set(&mut settings, "faces.listen_also", "[]".into(), "--listen".into());
    }
    for (key, value, option) in overrides(args) {
        set(&mut settings, key, value, option.into());
    }
    Ok(settings.into_values().collect())
}

fn set(settings: &mut BTreeMap<String, Setting>, key: &str, value: String, origin: String) {
    let default = settings.get(key).and_then(|setting| setting.default.clone());
    settings.insert(key.to_owned(), Setting { key: key.to_owned(), value, default, origin });
}

/// The keys that options of the command line set: key, value, option.
fn overrides(args: &DaemonArgs) -> Vec<(&'static str, String, &'static str)> {
    let text = |text: &str| toml::Value::from(text).to_string();
    let is_set = |is_set: bool, value: &str| is_set.then(|| value.to_owned());
    let uris = |uris: &[FaceUri]| (!uris.is_empty()).then(|| list(uris));
    let path = |path: &std::path::PathBuf| text(&path.to_string_lossy());
    let format = |format: crate::log::LogFormat| match format {
        crate::log::LogFormat::Text => text("text"),
        crate::log::LogFormat::Json => text("json"),
    };
    let all = [
        ("faces.listen", uris(&args.listen), "--listen"),
        ("faces.listen_also", uris(&args.listen_also), "--listen-also"),
        ("faces.workers", args.workers.map(|number| number.to_string()), "--workers"),
        ("kernel.enabled", is_set(args.kernel, "true"), "--kernel"),
        ("discovery.enabled", is_set(args.no_discovery, "false"), "--no-discovery"),
        ("tables.cs_packets_max", args.cs_packets_max.map(|number| number.to_string()), "--cs-packets-max"),
        ("tables.cs_octets_max", args.cs_octets_max.map(|number| number.to_string()), "--cs-octets-max"),
        ("cs.disk.folder", args.cs_disk.as_ref().map(path), "--cs-disk"),
        (
            "cs.disk.octets_max",
            args.cs_disk_octets_max.map(|number| number.to_string()),
            "--cs-disk-octets-max",
        ),
        (
            "cs.disk.admission",
            args.cs_disk_admission.map(|word| text(&word.to_string())),
            "--cs-disk-admission",
        ),
        ("metrics.listen", args.metrics.map(|address| text(&address.to_string())), "--metrics"),
        ("log.level", args.log.as_deref().map(text), "--log"),
        ("log.format", args.log_format.map(format), "--log-format"),
    ];
    all.into_iter().filter_map(|(key, value, option)| Some((key, value?, option))).collect()
}

fn list(uris: &[FaceUri]) -> String {
    let texts = uris.iter().map(|uri| toml::Value::from(uri.to_string()));
    toml::Value::Array(texts.collect()).to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::CommandLine;

    #[test]
    fn settings_have_their_origin() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("namely.toml");
        let text = "[tables]\ncs_packets_max = 7\ncs_octets_max = \"256MiB\"\n[[route]]\nprefix = \"/a\"\nto = \"udp://a\"\n";
        std::fs::write(&file, text).unwrap();
        let words =
            ["namelyd", "--config", file.to_str().unwrap(), "--workers", "3", "--listen", "unix:///x/y"];
        let settings = settings(&CommandLine::try_parse_from(words).unwrap().daemon).unwrap();
        let of = |key: &str| settings.iter().find(|of| of.key == key).unwrap();
        let shown = |key: &str| (of(key).value.as_str(), of(key).is_changed());
        assert_eq!(shown("tables.cs_packets_max"), ("7", true));
        assert_eq!(of("tables.cs_packets_max").origin, format!("{}:2", file.display()));
        assert_eq!(of("tables.cs_packets_max").default.as_deref(), Some("65536"));
        assert_eq!(
            shown("tables.cs_octets_max"),
            ("\"256MiB\"", false),
            "the default, although it is written"
        );
        assert_eq!((shown("faces.workers"), of("faces.workers").origin.as_str()), (("3", true), "--workers"));
        assert_eq!(shown("faces.listen"), ("[\"unix:///x/y\"]", true));
        assert_eq!((shown("log.format"), of("log.format").origin.as_str()), (("\"text\"", false), "default"));
        assert_eq!(shown("route.0.prefix"), ("\"/a\"", true));
    }
}
