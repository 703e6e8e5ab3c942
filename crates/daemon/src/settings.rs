//! The settings in force of a router with given options, and the origin of each.

use std::collections::BTreeMap;

use namely_wire::FaceUri;

use crate::args::DaemonArgs;
use crate::config::{Config, ConfigError, default_listeners, defaults, written};

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
    for (key, value, option) in overrides(args, &config) {
        set(&mut settings, key, value, option.into());
    }
    // The routes of options follow those of the file.
    let of_file = config.route.len().saturating_sub(args.route.len());
    for (number, route) in config.route.iter().enumerate().skip(of_file) {
        for (key, value) in [("prefix", route.prefix.to_string()), ("to", route.to.to_string())] {
            set(&mut settings, &format!("route.{number}.{key}"), quoted(&value), "--route".into());
        }
    }
    Ok(settings.into_values().collect())
}

fn set(settings: &mut BTreeMap<String, Setting>, key: &str, value: String, origin: String) {
    let default = settings.get(key).and_then(|setting| setting.default.clone());
    settings.insert(key.to_owned(), Setting { key: key.to_owned(), value, default, origin });
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// The keys that options of the command line set: key, value in `config`, option.
fn overrides(args: &DaemonArgs, config: &Config) -> Vec<(&'static str, String, &'static str)> {
    let is_set = |is_set: bool, value: &str| is_set.then(|| value.to_owned());
    let uris = |uris: &[FaceUri]| (!uris.is_empty()).then(|| list(uris));
    // These are added to those of the file.
    let also = (!args.listen_also.is_empty()).then(|| list(&config.faces.listen_also));
    let path = |path: &std::path::PathBuf| quoted(&path.to_string_lossy());
    let format = |format: crate::log::LogFormat| match format {
        crate::log::LogFormat::Text => quoted("text"),
        crate::log::LogFormat::Json => quoted("json"),
    };
    let all = [
        ("faces.listen", uris(&args.listen), "--listen"),
        ("faces.listen_also", also, "--listen-also"),
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
            args.cs_disk_admission.map(|word| quoted(&word.to_string())),
            "--cs-disk-admission",
        ),
        ("metrics.listen", args.metrics.map(|address| quoted(&address.to_string())), "--metrics"),
        ("log.level", args.log.as_deref().map(quoted), "--log"),
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

    #[test]
    fn options_that_add_show_all_values() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("namely.toml");
        let text =
            "[faces]\nlisten_also = [\"udp://192.0.2.1:7\"]\n[[route]]\nprefix = \"/a\"\nto = \"udp://a\"\n";
        std::fs::write(&file, text).unwrap();
        let words = ["namelyd", "--config", file.to_str().unwrap(), "--listen-also", "udp://192.0.2.1:8"];
        let words = [&words[..], &["--route", "/b=udp://192.0.2.2"]].concat();
        let settings = settings(&CommandLine::try_parse_from(words).unwrap().daemon).unwrap();
        let shown = |key: &str| {
            let of = settings.iter().find(|of| of.key == key).unwrap();
            (of.value.as_str(), of.origin.as_str())
        };
        let also = "[\"udp4://192.0.2.1:7\", \"udp4://192.0.2.1:8\"]";
        assert_eq!(shown("faces.listen_also"), (also, "--listen-also"));
        assert_eq!((shown("route.0.prefix").0, shown("route.1.prefix")), ("\"/a\"", ("\"/b\"", "--route")));
        assert_eq!(shown("route.1.to").0, "\"udp4://192.0.2.2:6363\"");
    }
}
