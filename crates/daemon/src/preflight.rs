//! Reasons for which this machine would refuse the start of a router, for `--check`.
//!
//! The check makes and changes nothing. It binds each port of the configuration for a moment, and
//! never listens on it. A router may be running with the configuration; its ports are no obstacle.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use namely_wire::FaceUri;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, sockopt};
use rustix::thread::CapabilitySet;

use crate::config::{Config, ConfigError, Step};
use crate::exit::{Exit, Failure};
use crate::router::is_dispensable;
use crate::{kernel, privileges, socket_folders};

/// The result of a check without errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// Circumstances to know of that do not prevent the start.
    pub remarks: Vec<String>,
}

/// Checks `config` against this machine.
///
/// # Errors
/// [`Failure`] contains all reasons against a start by this process's user.
pub(crate) fn check(config: &Config) -> Result<Vec<String>, Failure> {
    let uid = privileges::uid(config)?;
    kernel::check_loaded(config)?;
    let found = Machine { config, written: written(config), faults: Vec::new(), remarks: Vec::new() };
    let found = found.listeners(uid).groups().rights().memory().disk();
    let mut remarks = found.remarks;
    ConfigError::all(found.faults).map_err(|error| {
        let error = config.located(error);
        Failure::new(Exit::CannotListen, error.to_string())
    })?;
    if uid != rustix::process::geteuid().as_raw() {
        remarks.push(format!("the router runs as user {uid}"));
    }
    Ok(remarks)
}

/// The configuration of the file alone, for the positions of its values: options of the command
/// line have none.
fn written(config: &Config) -> Option<Config> {
    let (path, text) = config.source.file()?;
    Config::parse(text, path).ok()
}

/// A comparison of a configuration with this machine.
struct Machine<'a> {
    config: &'a Config,
    written: Option<Config>,
    faults: Vec<Result<(), ConfigError>>,
    remarks: Vec<String>,
}

impl Machine<'_> {
    fn add(&mut self, key: Vec<Step>, reason: String) {
        self.faults.push(Err(ConfigError::at_path(key, &reason)));
    }

    /// A missing device. The router waits for it, but the forwarder in the kernel does not.
    fn device(&mut self, name: &str) -> Option<String> {
        let why = device_fault(name)?;
        if self.config.kernel.enabled {
            return Some(why);
        }
        self.remarks.push(format!("{why}, and the router waits for it"));
        None
    }

    /// The fault of a socket. The router waits for a missing folder.
    fn socket(&mut self, path: &Path, uid: u32) -> Option<String> {
        let fault = socket_folders::fault(path, uid);
        if fault.is_none()
            && let Some(why) = socket_folders::absence(path)
        {
            self.remarks.push(format!("{why}, and the router waits for it"));
        }
        fault
    }

    /// The key of a listener in the file, if it is from there.
    fn key_of(&self, uri: &FaceUri) -> Vec<Step> {
        let Some(written) = &self.written else { return Vec::new() };
        let lists = [("listen", &written.faces.listen), ("listen_also", &written.faces.listen_also)];
        let found = lists.into_iter().find_map(|(key, list)| {
            let entry = list.iter().position(|listed| listed == uri)?;
            Some(vec!["faces".into(), key.into(), entry.into()])
        });
        found.unwrap_or_default()
    }

    fn listeners(mut self, uid: u32) -> Self {
        for uri in self.config.faces.listeners() {
            let why = match &uri {
                FaceUri::Unix(path) | FaceUri::Memif { path, .. } => self.socket(Path::new(path), uid),
                FaceUri::Device(name) => self.device(name),
                uri => uri.address().and_then(address_fault),
            };
            if let Some(why) = why {
                self.add(self.key_of(&uri), format!("listening on {uri}: {why}"));
            }
            self.port(&uri);
        }
        if let Some(address) = self.config.metrics.listen {
            let why = address_fault(address);
            let why = why.or_else(|| is_in_use(address, SocketType::STREAM).then(|| in_use(address)));
            if let Some(why) = why {
                self.add_unless_running(vec!["metrics".into(), "listen".into()], format!("metrics: {why}"));
            }
        }
        self
    }

    /// A port that another program has.
    fn port(&mut self, uri: &FaceUri) {
        let Some(address) = uri.address() else { return };
        let kind = if matches!(uri, FaceUri::Udp(_)) { SocketType::DGRAM } else { SocketType::STREAM };
        if !is_in_use(address, kind) {
            return;
        }
        if is_dispensable(uri, self.config) {
            self.remarks.push(format!("the router starts without {uri}: {}", in_use(address)));
        } else {
            self.add_unless_running(self.key_of(uri), format!("listening on {uri}: {}", in_use(address)));
        }
    }

    /// Adds the fault of a port in use; a remark if a router listens on a socket of this
    /// configuration, because that router probably has the port.
    fn add_unless_running(&mut self, key: Vec<Step>, why: String) {
        match listening_socket(self.config) {
            Some(path) => self.remarks.push(format!("{why}; probably the router at {path} has it")),
            None => self.add(key, why),
        }
    }

    fn groups(mut self) -> Self {
        for (entry, group) in self.config.faces.multicast.iter().enumerate() {
            if let Some(why) = self.device(&group.interface) {
                let key = vec!["faces".into(), "multicast".into(), entry.into(), "interface".into()];
                self.add(key, format!("the group {}: {why}", group.group));
            }
        }
        self
    }

    /// Rights that a listener needs and that this process could not give to the router.
    fn rights(mut self) -> Self {
        let held = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        for uri in self.config.faces.listeners() {
            let needed = match &uri {
                // The kernel's forwarder opens its devices itself.
                FaceUri::Device(_) if self.config.kernel.enabled => continue,
                FaceUri::Device(_) => (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
                uri if uri.address().is_some_and(|address| is_privileged(&address)) => {
                    (CapabilitySet::NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE")
                }
                _ => continue,
            };
            if !held.contains(needed.0) {
                self.add(self.key_of(&uri), format!("listening on {uri} needs {}", needed.1));
            }
        }
        self
    }

    /// Sizes beyond the memory of the machine. The defaults are not judged: they are limits of what
    /// peers and applications may use.
    fn memory(mut self) -> Self {
        let Some(octets) = memory_octets() else { return self };
        let default = Config::default();
        let (faces, tables) = (&self.config.faces, &self.config.tables);
        let sizes = [
            ("tables", "cs_octets_max", tables.cs_octets_max, default.tables.cs_octets_max),
            (
                "faces",
                "queue_octets_total_max",
                faces.queue_octets_total_max,
                default.faces.queue_octets_total_max,
            ),
        ];
        for (table, key, set, default) in sizes {
            if set != default && set > octets {
                let why = format!(
                    "{table}.{key}: {} MiB, and this machine has {} MiB of memory",
                    set >> 20,
                    octets >> 20
                );
                self.add(vec![table.into(), key.into()], why);
            }
        }
        let (memif, usual) = (faces.memif.octets_total_max, default.faces.memif.octets_total_max);
        if memif != usual && memif > octets {
            let why = format!(
                "faces.memif.octets_total_max: {} MiB, and this machine has {} MiB of memory",
                memif >> 20,
                octets >> 20
            );
            self.add(vec!["faces".into(), "memif".into(), "octets_total_max".into()], why);
        }
        self
    }

    /// A missing folder of the content store's disk is made, unless the folder around it is
    /// missing, too.
    fn disk(mut self) -> Self {
        let Some(folder) = &self.config.cs.disk.folder else { return self };
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        let why = match above {
            _ if folder.exists() => return self,
            Some(above) if !above.is_dir() => {
                format!("cs.disk: there is no folder {}: `mkdir -p {0}` makes it", above.display())
            }
            _ if folder.starts_with("/dev") && !folder.starts_with("/dev/shm") => {
                format!("cs.disk: there is no device {}: `lsblk` lists the devices", folder.display())
            }
            _ => return self,
        };
        self.add(vec!["cs".into(), "disk".into(), "folder".into()], why);
        self
    }
}

fn device_fault(name: &str) -> Option<String> {
    // Any socket will do for the request (netdevice(7)).
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    let is_missing = netdevice::name_to_index(&socket, name).is_err();
    is_missing.then(|| format!("there is no network device {name}: `ip link` lists them"))
}

/// An address that no interface of this machine has. Port 0 is always free. A link-local address
/// keeps its interface.
fn address_fault(mut address: SocketAddr) -> Option<String> {
    address.set_port(0);
    let bound = UdpSocket::bind(address);
    bound.err().map(|error| format!("{} is no address of this machine: {error}", address.ip()))
}

/// Returns true if another socket has the port of `address`. Port 0 is always free.
fn is_in_use(address: SocketAddr, kind: SocketType) -> bool {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let Ok(socket) = rustix::net::socket(family, kind, None) else { return false };
    if address.is_ipv6() {
        // As the listeners: one for IPv4 may use the same port.
        let _ = sockopt::set_ipv6_v6only(&socket, true);
    }
    if kind == SocketType::STREAM {
        // As the listeners: lingering connections of an earlier run block no port.
        let _ = sockopt::set_socket_reuseaddr(&socket, true);
    }
    rustix::net::bind(&socket, &address) == Err(Errno::ADDRINUSE)
}

fn in_use(address: SocketAddr) -> String {
    let port = address.port();
    format!("port {port} is in use: `ss -lnp 'sport = :{port}'` lists its program")
}

/// Returns the first Unix socket of the configuration on which a process listens. No connection is
/// made: it could start a router through the service manager.
fn listening_socket(config: &Config) -> Option<String> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let paths = config.faces.listeners().into_iter().filter_map(|uri| match uri {
        FaceUri::Unix(path) => Some(path),
        _ => None,
    });
    paths.into_iter().find(|path| table.lines().any(|line| is_listener(line, path)))
}

/// Returns true if a line of `/proc/net/unix` (unix(7)) is a socket that listens on `path`.
fn is_listener(line: &str, path: &str) -> bool {
    /// The flag of a socket that accepts connections (`__SO_ACCEPTCON` of the kernel).
    const ACCEPTS: &str = "00010000";
    let is_of_path = line.strip_suffix(path).is_some_and(|rest| rest.ends_with(' '));
    is_of_path && line.split_whitespace().nth(3) == Some(ACCEPTS)
}

fn is_privileged(address: &SocketAddr) -> bool {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first = first.ok().and_then(|text| text.trim().parse::<u16>().ok()).unwrap_or(1024);
    (1..first).contains(&address.port())
}

/// The memory of this machine, or of its control group if that has less, octets.
fn memory_octets() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = machine.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    Some(kib.saturating_mul(1024).min(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_count_as_routers() {
        let line =
            |flags: &str| format!("0000000000000000: 00000002 00000000 {flags} 0001 01 35671 /run/a b.sock");
        assert!(is_listener(&line("00010000"), "/run/a b.sock"));
        assert!(!is_listener(&line("00000000"), "/run/a b.sock"), "a connection");
        assert!(!is_listener(&line("00010000"), "/run/b.sock"));
    }
}
