//! The machine's own ceiling as a subject: plain processes as producer, router and consumer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::site::{Fetch, Network, Publication, Site, Subject, SubjectName};
use crate::error::Error;
use crate::files::Object;
use crate::link::{ADDRESSES, DEVICES};
use crate::plain;
use crate::programs::READY_LIMIT;
use crate::scenario::{Kind, Scenario, Transport};
use namely_testbed::{Process, command};

/// Plain processes that read and write in units of one size.
#[derive(Debug)]
pub(super) struct Relay {
    /// Octets of one read and write. None means one segment of the scenario.
    unit: Option<u64>,
}

impl Relay {
    /// Returns the variants: in units of a segment, and in units of 64 KiB.
    pub(super) fn all() -> [Self; 2] {
        [Relay { unit: None }, Relay { unit: Some(64 << 10) }]
    }

    fn unit(&self, scenario: Scenario) -> String {
        self.unit.unwrap_or(scenario.segment_octets()).to_string()
    }

    fn plain(&self, site: &Site<'_>, what: &str, options: &[(&str, &str)]) -> Command {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("namely-bench"));
        let mut command = command(&program, site.dir);
        command.args(["plain", what]);
        for (option, value) in options {
            command.args([*option, *value]);
        }
        command
    }

    /// Returns the address of the source.
    fn source(site: &Site<'_>) -> String {
        match site.scenario.transport() {
            Transport::Unix | Transport::Memif => {
                format!("unix://{}", site.dir.join("source.sock").display())
            }
            Transport::Tcp => format!("tcp://127.0.0.1:{}", site.ports[1]),
        }
    }

    fn start_relay(
        &self,
        site: &Site<'_>,
        name: &str,
        listen: &str,
        upstream: &str,
    ) -> Result<Process, Error> {
        let unit = self.unit(site.scenario);
        let options = [("--listen", listen), ("--upstream", upstream), ("--unit", &unit)];
        let mut process = Process::start(name, self.plain(site, "relay", &options), site.dir, None)?;
        wait_until_ready(site, &mut process)?;
        Ok(process)
    }

    fn start_source(&self, site: &Site<'_>, object: Option<&Object>) -> Result<Process, Error> {
        let (listen, unit) = (Self::source(site), self.unit(site.scenario));
        let mut command = self.plain(site, "source", &[("--listen", &listen), ("--unit", &unit)]);
        if let Some(object) = object {
            command.arg("--file").arg(&object.path);
        }
        let mut process = Process::start("source", command, site.dir, None)?;
        wait_until_ready(site, &mut process)?;
        Ok(process)
    }
}

impl Subject for Relay {
    fn name(&self) -> &'static str {
        if self.unit.is_none() { "relay" } else { "relay-64k" }
    }

    fn family(&self) -> SubjectName {
        SubjectName::Relay
    }

    fn mode(&self, scenario: Scenario) -> String {
        match scenario.kind() {
            Kind::Cached => format!("plain copy in {} octets, source to sink", self.unit(scenario)),
            Kind::Ping => "plain echo of 64 octets".to_owned(),
            _ => format!("plain copy in {} octets", self.unit(scenario)),
        }
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn programs(&self) -> Vec<PathBuf> {
        std::env::current_exe().into_iter().collect()
    }

    fn unsupported(&self, scenario: Scenario) -> Option<&'static str> {
        match (scenario.kind(), self.unit) {
            (Kind::Flows | Kind::Memory | Kind::Idle, _) => Some("it is no router"),
            (Kind::Ping, Some(_)) => Some("a ping is smaller than one read"),
            (_, Some(_)) if scenario.has_two_routers() => Some("64 KiB do not fit a datagram or frame"),
            _ => None,
        }
    }

    fn start(&self, site: &Site<'_>) -> Result<Network, Error> {
        let source = Self::source(site);
        if site.scenario.kind() == Kind::Cached {
            // A cached object: the router sends it from memory.
            let routers = vec![self.start_source(site, site.object)?];
            return Ok(Network {
                routers,
                socket: PathBuf::new(),
                consumer: source.clone(),
                producer: source,
            });
        }
        let consumer = match site.scenario.transport() {
            Transport::Memif => site.unix_uri(0),
            Transport::Unix | Transport::Tcp => site.application_uri(0, "tcp"),
        };
        let mut routers = Vec::new();
        if site.scenario.has_two_routers() {
            let (to_second, second) = if site.scenario.is_ethernet() {
                let [near, far] = DEVICES;
                (format!("ether://{near}/{}", ADDRESSES[1]), format!("ether://{far}"))
            } else {
                (site.udp_uri(1, "udp"), site.udp_uri(1, "udp"))
            };
            routers.push(self.start_relay(site, "relay 0", &consumer, &to_second)?);
            routers.push(self.start_relay(site, "relay 1", &second, &source)?);
        } else {
            routers.push(self.start_relay(site, "relay 0", &consumer, &source)?);
        }
        Ok(Network { socket: PathBuf::new(), producer: source, consumer, routers })
    }

    fn publish(&self, site: &Site<'_>, _network: &Network, object: &Object) -> Result<Publication, Error> {
        let mut producer = None;
        if site.scenario.kind() != Kind::Cached {
            producer = Some(self.start_source(site, Some(object))?);
        }
        Ok(Publication { producer, name: String::new(), versioned_name: String::new(), publish_time: None })
    }

    fn fetch(&self, site: &Site<'_>, network: &Network, _name: &str, output: &Path) -> Fetch {
        let unit = self.unit(site.scenario);
        let mut command = self.plain(site, "sink", &[("--connect", &network.consumer), ("--unit", &unit)]);
        command.arg("--output").arg(output);
        Fetch { command, content_on_stdout: false }
    }

    fn serve_pings(&self, site: &Site<'_>, _network: &Network) -> Result<Process, Error> {
        self.start_source(site, None)
    }

    fn ping(&self, site: &Site<'_>, network: &Network, count: u32, interval_ms: u64) -> Command {
        let (count, interval) = (count.to_string(), interval_ms.to_string());
        let options =
            [("--connect", network.consumer.as_str()), ("--count", &count), ("--interval-ms", &interval)];
        self.plain(site, "ping", &options)
    }
}

/// Waits until a plain process reports that it listens. A test connection would start a copy.
fn wait_until_ready(site: &Site<'_>, process: &mut Process) -> Result<(), Error> {
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        let said = std::fs::read_to_string(process.log()).unwrap_or_default();
        if said.starts_with(plain::READY) {
            return Ok(());
        }
        process.expect_running()?;
        if Instant::now() > deadline {
            return Err(Error::TimedOut { what: "a plain process".to_owned(), after: READY_LIMIT });
        }
        site.interrupt.sleep(Duration::from_millis(5))?;
    }
}
