//! What a subject offers, and where it runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use namely_testbed::{Interrupt, Process};

use crate::error::Error;
use crate::files::Object;
use crate::scenario::{Scenario, Transport};

/// Every object and every ping is published below this prefix.
pub const PREFIX: &str = "/bench";

/// Why most subjects take no part where applications share memory with their router.
pub(super) const NO_SHARED_MEMORY: &str = "it has no shared memory";

/// What the command line calls a subject; one name may stand for several ways to use the same
/// programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum SubjectName {
    /// namelyd with namely serve and namely get, and with ndn-tools
    Namely,
    /// NFD with ndn-tools
    Nfd,
    /// NDNd with its own tools, and with ndn-tools
    Ndnd,
    /// Plain processes that only copy: the machine's own ceiling (always measured)
    Relay,
}

/// A router with its file tools.
pub trait Subject {
    /// Its name in the output.
    fn name(&self) -> &'static str;

    /// Whose subject it is: ways to use the same programs share it.
    fn family(&self) -> SubjectName;

    /// How its client works in `scenario`, for the table.
    fn mode(&self, scenario: Scenario) -> String;

    /// Which program is not installed, and how to name it; `None` when all are.
    fn missing(&self) -> Option<String>;

    /// The same of its router alone.
    fn missing_router(&self) -> Option<String> {
        self.missing()
    }

    /// The programs that would run.
    fn programs(&self) -> Vec<PathBuf>;

    /// Why it takes no part in `scenario`; `None` when it does.
    fn unsupported(&self, scenario: Scenario) -> Option<&'static str>;

    /// Starts the routers of `site`'s scenario and connects them; returns when they take
    /// applications.
    fn start(&self, site: &Site<'_>) -> Result<Network, Error>;

    /// Publishes an object; returns when its first packet is answered.
    fn publish(&self, site: &Site<'_>, network: &Network, object: &Object) -> Result<Publication, Error>;

    /// The command that fetches `name` into `output`.
    fn fetch(&self, site: &Site<'_>, network: &Network, name: &str, output: &Path) -> Fetch;

    /// Starts what answers pings; returns when it does.
    fn serve_pings(&self, site: &Site<'_>, network: &Network) -> Result<Process, Error>;

    /// The command that sends `count` pings and prints their round trips.
    fn ping(&self, site: &Site<'_>, network: &Network, count: u32, interval_ms: u64) -> Command;
}

/// Where and under which bounds one measurement runs.
#[derive(Debug)]
pub struct Site<'a> {
    /// A directory of its own, for sockets, configurations, keys, logs and the output.
    pub dir: &'a Path,
    /// What is measured.
    pub scenario: Scenario,
    /// The object, for a subject whose router holds it from the start.
    pub object: Option<&'a Object>,
    /// A free port for each of two routers.
    pub ports: [u16; 2],
    /// Set when somebody wants to end.
    pub interrupt: &'a Interrupt,
}

impl Site<'_> {
    /// The Unix socket of router `index`.
    pub fn socket(&self, index: usize) -> PathBuf {
        self.dir.join(format!("router{index}.sock"))
    }

    /// How many routers the scenario has; the consumer is at the first, the producer at the last.
    pub fn routers(&self) -> usize {
        if self.scenario.has_two_routers() { 2 } else { 1 }
    }

    /// Where applications reach router `index`: the scenario's transport, spelled with
    /// `tcp_scheme`.
    pub fn application_uri(&self, index: usize, tcp_scheme: &str) -> String {
        match self.scenario.transport() {
            Transport::Unix => self.unix_uri(index),
            Transport::Memif => self.memif_uri(index),
            Transport::Tcp => format!("{tcp_scheme}://127.0.0.1:{}", self.ports[index]),
        }
    }

    /// The Unix socket of router `index` as an address.
    pub fn unix_uri(&self, index: usize) -> String {
        format!("unix://{}", self.socket(index).display())
    }

    /// Where router `index` arranges shared memory.
    pub fn memif_uri(&self, index: usize) -> String {
        format!("memif://{}", self.socket(index).with_extension("memif").display())
    }

    /// The UDP URI of router `index`, spelled with `scheme`.
    pub fn udp_uri(&self, index: usize, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.ports[index])
    }
}

/// Running routers and where to reach them.
#[derive(Debug)]
pub struct Network {
    /// The routers, the consumer's first. Ended when dropped.
    pub routers: Vec<Process>,
    /// The Unix socket of the consumer's router: readiness is asked there.
    pub socket: PathBuf,
    /// Where consumers connect.
    pub consumer: String,
    /// Where producers connect.
    pub producer: String,
}

impl Network {
    /// Routers at the places that `site` says, applications over TCP spelled with `tcp_scheme`.
    pub fn new(site: &Site<'_>, routers: Vec<Process>, tcp_scheme: &str) -> Self {
        Network {
            routers,
            socket: site.socket(0),
            consumer: site.application_uri(0, tcp_scheme),
            producer: site.application_uri(site.routers() - 1, tcp_scheme),
        }
    }
}

/// A published object.
#[derive(Debug)]
pub struct Publication {
    /// Who serves it; none when the router itself does.
    pub producer: Option<Process>,
    /// The name to fetch, without a version.
    pub name: String,
    /// The same with its version, for fetching it when nobody can say which version is the newest.
    pub versioned_name: String,
    /// From the producer's start to its first answer.
    pub publish_time: Option<Duration>,
}

/// How to fetch.
#[derive(Debug)]
pub struct Fetch {
    /// The client.
    pub command: Command,
    /// Whether the content comes on standard output; otherwise the client writes the file itself.
    pub content_on_stdout: bool,
}

/// Two ports that nobody listens on just now.
pub fn free_ports() -> Result<[u16; 2], Error> {
    let bind = || std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    let ports = || {
        let (a, b) = (bind()?, bind()?);
        Ok::<_, std::io::Error>([a.local_addr()?.port(), b.local_addr()?.port()])
    };
    ports().map_err(|e| Error::environment("cannot find free ports", e))
}
