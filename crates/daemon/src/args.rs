//! The command line of `namelyd` and of `namely up`.

use std::net::SocketAddr;
use std::path::PathBuf;

use namely_wire::FaceUri;

use crate::config::{
    Admission, Config, ConfigError, StaticRoute, check_budget, default_files, has_json_log, values,
};
use crate::log::LogFormat;

const EXAMPLES: &str = "\
Examples:
  namelyd
      serve this machine: the user's Unix socket, TCP and UDP on 127.0.0.1:6363
  namelyd --listen-also udp://0.0.0.0:6363 --route /=udp://192.0.2.1
      also accept neighbors, and send all other Interests to one of them
  namelyd --listen unix:///tmp/a.sock --listen udp://0.0.0.0:6363
      listen there and nowhere else
  namelyd --config /etc/namely/namely.toml --check
      report errors of a configuration, without starting

  namelyd --kernel --listen-also dev://eth0
      manage the forwarder in the kernel, and discover neighbors for it

Signals: HUP reloads the configuration, TERM and INT stop the router.
Exit status: 0 stopped, 1 failed, 2 wrong options, 69 cannot listen, 78 wrong configuration.";

/// A router for Named Data Networking.
#[derive(Debug, clap::Parser)]
#[command(name = "namelyd", version, after_help = EXAMPLES)]
pub struct CommandLine {
    /// The options.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// The command line of `namelyd`, for manual pages and completions.
pub fn command() -> clap::Command {
    <CommandLine as clap::CommandFactory>::command()
}

/// The options of the command line. They override the configuration file.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DaemonArgs {
    /// Configuration file; by default ~/.config/namely/namely.toml or /etc/namely/namely.toml, if
    /// there is one
    #[arg(short, long, value_name = "FILE", conflicts_with = "no_config")]
    pub config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long)]
    pub no_config: bool,

    /// Check the configuration and exit
    #[arg(long)]
    pub check: bool,

    /// Listen here, and not where the configuration file or the default says: unix:///PATH,
    /// memif:///PATH, udp://ADDRESS:PORT, tcp://ADDRESS:PORT, ws://ADDRESS:PORT or dev://INTERFACE
    /// (repeatable)
    #[arg(short, long, value_name = "URI", value_parser = parse_listen)]
    pub listen: Vec<FaceUri>,

    /// Listen here, too, beside the other addresses (repeatable)
    #[arg(long, value_name = "URI", value_parser = parse_listen)]
    pub listen_also: Vec<FaceUri>,

    /// Has no effect: --listen alone does it
    #[arg(long, requires = "listen", hide = true)]
    pub only: bool,

    /// Route PREFIX to a neighbor, as in /=udp://192.0.2.1:6363 (repeatable)
    #[arg(long, value_name = "PREFIX=URI", value_parser = parse_route)]
    pub route: Vec<StaticRoute>,

    /// Forward with the kernel's forwarder, which has to be loaded (`namely kernel load`), and
    /// manage it; needs CAP_NET_ADMIN
    #[arg(long)]
    pub kernel: bool,

    /// Do not discover neighbors on the network devices that are listened on
    #[arg(long)]
    pub no_discovery: bool,

    /// Threads that move packets; 0 for one per core
    #[arg(long, value_name = "THREADS", value_parser = parse_workers)]
    pub workers: Option<usize>,

    /// Maximum number of packets in the content store; 0 for none
    #[arg(long, value_name = "PACKETS")]
    pub cs_packets_max: Option<usize>,

    /// Maximum octets in the content store, such as 512MiB
    #[arg(long, value_name = "SIZE", value_parser = values::parse_octets)]
    pub cs_octets_max: Option<u64>,

    /// Folder of the content store's disk, which is created if it is missing; or a block device
    /// without a file system
    #[arg(long, value_name = "DIR|DEVICE")]
    pub cs_disk: Option<PathBuf>,

    /// Maximum octets on the content store's disk, such as 512MiB; by default 1GiB of a folder and
    /// all of a device
    #[arg(long, value_name = "SIZE", value_parser = parse_budget)]
    pub cs_disk_octets_max: Option<u64>,

    /// Packets that are written to the content store's disk when they leave memory: those with a
    /// hit there (hit), also those that memory evicted before (again, the default), or all
    #[arg(long, value_name = "hit|again|all")]
    pub cs_disk_admission: Option<Admission>,

    /// Serve metrics for Prometheus here, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::parse_socket_address)]
    pub metrics: Option<SocketAddr>,

    /// The log level: error, warn, info, debug, trace, or target=level pairs
    #[arg(long, value_name = "LEVEL", env = "NAMELY_LOG", value_parser = parse_log)]
    pub log: Option<String>,
    /// The format of log lines
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

impl DaemonArgs {
    /// The configuration file to read, if there is one.
    pub fn config_file(&self) -> Option<PathBuf> {
        match &self.config {
            Some(path) => Some(path.clone()),
            None if self.no_config => None,
            None => default_files().into_iter().find(|path| path.exists()),
        }
    }

    /// Returns true if the log is JSON by these options or by the file, which may have errors.
    pub(crate) fn is_log_json(&self) -> bool {
        let of_file = || self.config_file().is_some_and(|path| has_json_log(&path));
        self.log_format.map_or_else(of_file, |format| format == LogFormat::Json)
    }

    /// The configuration: the file or the default, overridden by the options.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let mut config = match self.config_file() {
            Some(path) => Config::load(&path)?,
            None => Config::default(),
        };
        self.apply(&mut config);
        self.check_disk(&config)?;
        Ok(config)
    }

    /// Refuses options of the disk if the content store has no disk.
    fn check_disk(&self, config: &Config) -> Result<(), ConfigError> {
        let said = [
            ("--cs-disk-octets-max", self.cs_disk_octets_max.is_some()),
            ("--cs-disk-admission", self.cs_disk_admission.is_some()),
        ];
        match said.into_iter().find(|(_, is_said)| *is_said && config.cs.disk.folder.is_none()) {
            Some((option, _)) => Err(format!(
                "{option} is of a disk, and the content store has none: add --cs-disk DIR, or `folder` under [cs.disk] \
                 in the configuration file"
            ).into()),
            None => Ok(()),
        }
    }

    fn apply(&self, config: &mut Config) {
        if !self.listen.is_empty() {
            config.faces.listen.clone_from(&self.listen);
            config.faces.listen_also.clear();
        }
        for uri in &self.listen_also {
            // The file may have it, too.
            if !config.faces.listen_also.contains(uri) {
                config.faces.listen_also.push(uri.clone());
            }
        }
        config.discovery.enabled &= !self.no_discovery;
        config.kernel.enabled |= self.kernel;
        config.route.extend(self.route.iter().cloned());
        if let Some(workers) = self.workers {
            config.faces.workers = workers;
        }
        if let Some(packets) = self.cs_packets_max {
            config.tables.cs_packets_max = packets;
        }
        if let Some(octets) = self.cs_octets_max {
            config.tables.cs_octets_max = octets;
        }
        let disk = &mut config.cs.disk;
        disk.folder = self.cs_disk.clone().or(disk.folder.take());
        disk.octets_max = self.cs_disk_octets_max.or(disk.octets_max);
        disk.admission = self.cs_disk_admission.unwrap_or(disk.admission);
        config.metrics.listen = self.metrics.or(config.metrics.listen);
        if let Some(level) = &self.log {
            config.log.level.clone_from(level);
        }
        config.log.format = self.log_format.unwrap_or(config.log.format);
    }
}

fn parse_listen(text: &str) -> Result<FaceUri, String> {
    let uri = text.parse::<FaceUri>().map_err(|error| error.to_string())?;
    values::check_listen_uri(uri)
}

fn parse_route(text: &str) -> Result<StaticRoute, String> {
    let (prefix, uri) = text.rsplit_once('=').ok_or("write PREFIX=URI, as in /=udp://192.0.2.1:6363")?;
    let prefix = values::parse_name(prefix)?;
    let to = uri.parse::<FaceUri>().map_err(|error| format!("{uri}: {error}"))?;
    Ok(StaticRoute::new(prefix, values::check_remote_uri(to)?))
}

fn parse_budget(text: &str) -> Result<u64, String> {
    check_budget(values::parse_octets(text)?)
}

fn parse_workers(text: &str) -> Result<usize, String> {
    values::check_workers(text.parse().map_err(|error| format!("{error}"))?)
}

fn parse_log(text: &str) -> Result<String, String> {
    values::check_log_filter(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::local_listeners;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: DaemonArgs,
    }

    fn parse(words: &[&str]) -> Result<DaemonArgs, String> {
        Line::try_parse_from([&["namelyd"], words].concat())
            .map(|line| line.args)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn flags_override_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("namely.toml");
        std::fs::write(&path, "[faces]\nlisten = [\"tcp://127.0.0.1:1\"]\n[tables]\npit_entries_max = 7\n")
            .unwrap();
        let words =
            ["--listen", "udp://127.0.0.1:2", "--cs-octets-max", "1MiB", "--route", "/a=udp://192.0.2.1"];
        let mut words = [&words[..], &["--workers", "64"]].concat();
        words.extend(["--config", path.to_str().unwrap()]);
        let config = parse(&words).unwrap().load().unwrap();
        let listeners: Vec<String> = config.faces.listeners().iter().map(ToString::to_string).collect();
        assert_eq!(listeners, ["udp4://127.0.0.1:2"], "nowhere else");
        assert_eq!((config.tables.cs_octets_max, config.tables.pit_entries_max), (1 << 20, 7));
        assert_eq!((config.route[0].prefix.to_string(), config.faces.workers), ("/a".into(), 64));
    }

    #[test]
    fn listen_replaces_and_listen_also_adds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("namely.toml");
        let listeners = |text: &str, words: &[&str]| {
            std::fs::write(&path, text).unwrap();
            let words = [&["--config", path.to_str().unwrap()][..], words].concat();
            let faces = parse(&words).unwrap().load().unwrap().faces;
            faces.listeners().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let mut local: Vec<String> = local_listeners().iter().map(ToString::to_string).collect();
        local.push("tcp4://127.0.0.1:6363".into());
        let with = |more: &[&str]| -> Vec<String> {
            local.iter().cloned().chain(more.iter().map(ToString::to_string)).collect()
        };
        let of_file = |key: &str| format!("[faces]\n{key} = [\"udp://192.0.2.1:7\"]\n");
        let beside = with(&["udp4://127.0.0.1:6363", "udp4://192.0.2.1:7"]);
        assert_eq!(listeners(&of_file("listen_also"), &[]), beside);
        assert_eq!(listeners("", &["--listen-also", "udp://192.0.2.1:7"]), beside);
        assert_eq!(listeners(&of_file("listen"), &[]), ["udp4://192.0.2.1:7"]);
        assert_eq!(listeners("", &["-l", "udp://192.0.2.1:7"]), ["udp4://192.0.2.1:7"]);
        let both = ["-l", "unix:///x/y", "--listen-also", "udp://192.0.2.1:8"];
        assert_eq!(listeners(&of_file("listen_also"), &both), ["unix:///x/y", "udp4://192.0.2.1:8"]);
        // The system refuses a second socket on an address, and on a port that one has on all
        // addresses.
        let twice = ["--listen-also", "udp://192.0.2.1:7", "--listen-also", "udp://192.0.2.1:7"];
        assert_eq!(listeners(&of_file("listen_also"), &twice), beside);
        let all = with(&["udp4://0.0.0.0:6363"]);
        assert_eq!(listeners("", &["--listen-also", "udp://0.0.0.0:6363"]), all);
        let included = ["--listen-also", "udp://192.0.2.1:7", "--listen-also", "udp://0.0.0.0:7"];
        assert_eq!(listeners(&of_file("listen"), &included), ["udp4://0.0.0.0:7"]);
        assert!(parse(&["--only"]).is_err(), "nothing to listen on");
    }

    #[test]
    fn flags_change_the_default_without_file() {
        let args = parse(&["--no-config", "-l", "unix:///x/y", "-l", "tcp://127.0.0.1:6363"]).unwrap();
        let config = args.load().unwrap();
        assert_eq!(config.faces.listen.len(), 2);
        assert_eq!(config.tables, Config::default().tables);
    }

    #[test]
    fn disk_options_need_a_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("namely.toml");
        std::fs::write(&path, "[cs.disk]\nfolder = \"/x\"\n").unwrap();
        for option in [["--cs-disk-octets-max", "1GiB"], ["--cs-disk-admission", "all"]] {
            let load = |more: &[&str]| parse(&[&option[..], more].concat()).unwrap().load();
            let said = load(&["--no-config"]).unwrap_err().to_string();
            assert!(said.starts_with(option[0]) && said.contains("add --cs-disk DIR"), "{said}");
            load(&["--no-config", "--cs-disk", "/x"]).unwrap();
            load(&["--config", path.to_str().unwrap()]).unwrap();
        }
    }

    #[test]
    fn long_socket_paths_are_refused() {
        for scheme in ["unix", "memif"] {
            let path = |octets: usize| format!("/{}", "x".repeat(octets - 1));
            parse(&["--listen", &format!("{scheme}://{}", path(107))]).unwrap();
            let message = parse(&["--listen", &format!("{scheme}://{}", path(108))]).unwrap_err();
            assert!(message.contains("at most 107"), "{message}");
            let text = format!("[faces]\nlisten = [\"{scheme}://{}\"]\n", path(108));
            assert!(Config::parse(&text, std::path::Path::new("x.toml")).is_err());
        }
    }

    #[test]
    fn invalid_arguments_report_the_allowed_values() {
        for (words, hint) in [
            (["--listen", "tcp://name:1"], "numeric"),
            (["--listen", "/run/x"], "unix:///path"),
            (["--route", "/a"], "PREFIX=URI"),
            (["--route", "a=udp://192.0.2.1"], "slash"),
            (["--route", "/a=unix:///x"], "udp://host:port"),
            (["--cs-octets-max", "1MB"], "256MiB"),
            (["--log", "loud"], "debug"),
            (["--workers", "65"], "at most 64"),
            (["--metrics", "9464"], "127.0.0.1:9464"),
        ] {
            let message = parse(&words).unwrap_err();
            assert!(message.contains(hint), "{words:?}: {message}");
        }
        assert!(parse(&["--no-config", "--config", "x"]).is_err());
    }
}
