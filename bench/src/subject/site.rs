//! The interface of a subject (a router with its file tools), and the environment of its run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use namely_testbed::{Interrupt, Process};

use crate::error::Error;
use crate::files::Object;
use crate::probe;
use crate::programs::READY_LIMIT;
use crate::scenario::{Scenario, Transport};

/// Prefix of every object and every ping.
pub const PREFIX: &str = "/bench";

/// Reason of most subjects for not supporting shared memory with their router.
pub(super) const NO_SHARED_MEMORY: &str = "it has no shared memory";

/// The name of a subject on the command line. One name may select several ways to use the same
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
    /// Returns its name in the output.
    fn name(&self) -> &'static str;

    /// Returns its name on the command line. Several ways to use the same programs share one name.
    fn family(&self) -> SubjectName;

    /// Describes its client in `scenario`, for the table.
    fn mode(&self, scenario: Scenario) -> String;

    /// Describes the missing program and how to specify its path; `None` if all are installed.
    fn missing(&self) -> Option<String>;

    /// Like [`Subject::missing`], for the programs of its router only.
    fn missing_router(&self) -> Option<String> {
        self.missing()
    }

    /// Returns the programs that would run.
    fn programs(&self) -> Vec<PathBuf>;

    /// Returns the reason why it does not support `scenario`; `None` if it does.
    fn unsupported(&self, scenario: Scenario) -> Option<&'static str>;

    /// Starts the routers of `site`'s scenario and connects them. Returns when they accept
    /// connections of applications.
    fn start(&self, site: &Site<'_>) -> Result<Network, Error>;

    /// Publishes an object. Returns when an Interest for its first packet is answered.
    fn publish(&self, site: &Site<'_>, network: &Network, object: &Object) -> Result<Publication, Error>;

    /// Returns the command that fetches `name` into `output`.
    fn fetch(&self, site: &Site<'_>, network: &Network, name: &str, output: &Path) -> Fetch;

    /// Starts the ping server. Returns when it answers.
    fn serve_pings(&self, site: &Site<'_>, network: &Network) -> Result<Process, Error>;

    /// Returns the command that sends `count` pings and prints their round trips.
    fn ping(&self, site: &Site<'_>, network: &Network, count: u32, interval_ms: u64) -> Command;
}

/// Resources of one measurement.
#[derive(Debug)]
pub struct Site<'a> {
    /// A directory of its own, for sockets, configurations, keys, logs and the output.
    pub dir: &'a Path,
    /// The measured scenario.
    pub scenario: Scenario,
    /// The object, for a router that serves it itself from its start.
    pub object: Option<&'a Object>,
    /// A free port for each of two routers.
    pub ports: [u16; 2],
    /// Set by a signal that ends the program.
    pub interrupt: &'a Interrupt,
}

impl Site<'_> {
    /// Returns the Unix socket of router `index`.
    pub fn socket(&self, index: usize) -> PathBuf {
        self.dir.join(format!("router{index}.sock"))
    }

    /// Returns the number of routers of the scenario. The consumer connects to the first, the
    /// producer to the last.
    pub fn routers(&self) -> usize {
        if self.scenario.has_two_routers() { 2 } else { 1 }
    }

    /// Returns the address of router `index` for applications over the scenario's transport. A TCP
    /// address has the scheme `tcp_scheme`.
    pub fn application_uri(&self, index: usize, tcp_scheme: &str) -> String {
        match self.scenario.transport() {
            Transport::Unix => self.unix_uri(index),
            Transport::Memif => self.memif_uri(index),
            Transport::Tcp => format!("{tcp_scheme}://127.0.0.1:{}", self.ports[index]),
        }
    }

    /// Returns the Unix socket of router `index` as an address.
    pub fn unix_uri(&self, index: usize) -> String {
        format!("unix://{}", self.socket(index).display())
    }

    /// Returns the address of router `index` for shared memory.
    pub fn memif_uri(&self, index: usize) -> String {
        format!("memif://{}", self.socket(index).with_extension("memif").display())
    }

    /// Returns the UDP URI of router `index` with the scheme `scheme`.
    pub fn udp_uri(&self, index: usize, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.ports[index])
    }

    /// Starts router `index` of the program `name`. Returns when it accepts connections.
    pub(super) fn start_router(&self, name: &str, index: usize, command: Command) -> Result<Process, Error> {
        let mut router = Process::start(&format!("{name} {index}"), command, self.dir, None)?;
        probe::wait_for_socket(&self.socket(index), READY_LIMIT, self.interrupt)
            .map_err(|e| router.expect_running().err().map_or(e, Error::from))?;
        Ok(router)
    }

    /// Starts a ping server below [`PREFIX`]. Returns when it answers. All ping servers of NDN
    /// share the name.
    pub(super) fn start_ping_server(
        &self,
        name: &str,
        network: &Network,
        command: Command,
    ) -> Result<Process, Error> {
        let server = Process::start(name, command, self.dir, None)?;
        probe::wait_for_answer(&network.socket, &format!("{PREFIX}/ping/1"), READY_LIMIT, self.interrupt)?;
        Ok(server)
    }
}

/// Running routers and their addresses.
#[derive(Debug)]
pub struct Network {
    /// The routers, the consumer's first. They end when dropped.
    pub routers: Vec<Process>,
    /// The Unix socket of the consumer's router. Readiness is probed there.
    pub socket: PathBuf,
    /// Address for consumers.
    pub consumer: String,
    /// Address for producers.
    pub producer: String,
}

impl Network {
    /// Returns a network of `routers` at the addresses of `site`. TCP addresses for applications
    /// have the scheme `tcp_scheme`.
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
    /// The serving process; none if the router itself serves the object.
    pub producer: Option<Process>,
    /// The name to fetch, without a version.
    pub name: String,
    /// The versioned name. It is fetched if no producer can report the newest version.
    pub versioned_name: String,
    /// Time from the producer's start to its first answer.
    pub publish_time: Option<Duration>,
}

impl Publication {
    /// The object that `producer` serves as `name`. Returns when the producer answers.
    pub(super) fn of(
        producer: Process,
        name: String,
        site: &Site<'_>,
        network: &Network,
    ) -> Result<Self, Error> {
        let versioned = probe::versioned_name(&network.socket, &name, READY_LIMIT, site.interrupt)?;
        let (publish_time, versioned_name) = (Some(producer.age()), versioned.to_string());
        Ok(Publication { producer: Some(producer), name, versioned_name, publish_time })
    }
}

/// A fetch.
#[derive(Debug)]
pub struct Fetch {
    /// The client.
    pub command: Command,
    /// True if the client writes the content to standard output, false if it writes the file
    /// itself.
    pub content_on_stdout: bool,
}

/// Returns two TCP ports that have no listener at present.
pub fn free_ports() -> Result<[u16; 2], Error> {
    let bind = || std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    let ports = || {
        let (a, b) = (bind()?, bind()?);
        Ok::<_, std::io::Error>([a.local_addr()?.port(), b.local_addr()?.port()])
    };
    ports().map_err(|e| Error::environment("cannot find free ports", e))
}
