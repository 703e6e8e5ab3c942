//! NDNd with its own tools, and with ndn-tools.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ndn_tools::{NdnTools, Pipeline, client};
use super::site::{Fetch, NO_SHARED_MEMORY, Network, PREFIX, Publication, Site, Subject, SubjectName};
use crate::error::Error;
use crate::files::Object;
use crate::programs::{Program, READY_LIMIT};
use crate::scenario::{Kind, Scenario, Transport};
use namely_testbed::{Process, command};

/// NDNd's default.
const FORWARDING_THREADS: u32 = 8;

/// NDNd's default. NDNd's own client fails less often with it than with larger datagrams.
const MTU_DEFAULT: u32 = 1420;

/// NFD's default. NDNd is faster with it if ndn-tools use a fixed window.
const MTU_LARGE: u32 = 8800;

/// NDNd with its own tools or with ndn-tools.
#[derive(Debug)]
pub(super) struct Ndnd {
    ndnd: Program,
    tools: Option<NdnTools>,
}

impl Ndnd {
    /// Returns the variants: with its own tools, and with ndn-tools.
    pub(super) fn find_all() -> [Self; 2] {
        [None, Some(NdnTools::find())]
            .map(|tools| Ndnd { ndnd: Program::find(&["ndnd"], "NDND_BIN", false), tools })
    }

    fn start_router(&self, site: &Site<'_>, index: usize) -> Result<Process, Error> {
        let mtu = if self.tools.is_some() { MTU_LARGE } else { MTU_DEFAULT };
        let path = site.dir.join(format!("ndnd{index}.yml"));
        fs::write(&path, configuration(site, index, mtu))
            .map_err(|e| Error::environment(format!("cannot write {}", path.display()), e))?;
        let mut command = command(self.ndnd.path(), site.dir);
        command.args(["fw", "run"]).arg(&path);
        site.start_router("ndnd", index, command)
    }

    /// Runs `ndnd fw …` at the consumer's router and returns its output.
    fn control(&self, site: &Site<'_>, arguments: &[&str]) -> Result<String, Error> {
        let uri = format!("unix://{}", site.socket(0).display());
        let output = site.dir.join("ndnd-fw.out");
        let mut command = client(self.ndnd.path(), site, &uri);
        command.arg("fw").args(arguments);
        Process::run("ndnd fw", command, site.dir, Some(&output), READY_LIMIT, site.interrupt)?;
        fs::read_to_string(&output).map_err(|e| Error::environment("cannot read the output of ndnd fw", e))
    }

    fn publish_with_own_tool(
        &self,
        site: &Site<'_>,
        network: &Network,
        object: &Object,
    ) -> Result<Publication, Error> {
        let name = format!("{PREFIX}/object-{}", object.number);
        let content = File::open(&object.path)
            .map_err(|e| Error::environment(format!("cannot open {}", object.path.display()), e))?;
        let mut command = client(self.ndnd.path(), site, &network.producer);
        command.args(["put", &name]).stdin(content);
        let producer = Process::start("ndnd put", command, site.dir, None)?;
        Publication::of(producer, name, site, network)
    }
}

impl Subject for Ndnd {
    fn name(&self) -> &'static str {
        if self.tools.is_some() { "ndnd-tools" } else { "ndnd" }
    }

    fn family(&self) -> SubjectName {
        SubjectName::Ndnd
    }

    fn mode(&self, scenario: Scenario) -> String {
        match (scenario.kind(), &self.tools) {
            (Kind::Transfer | Kind::Cached | Kind::Memory, Some(_)) => {
                NdnTools::mode(Pipeline::Fixed, scenario)
            }
            (Kind::Transfer | Kind::Cached | Kind::Memory, None) => "ndnd cat; nothing verified".to_owned(),
            (Kind::Flows, _) => crate::load::mode(),
            (Kind::Ping, Some(_)) => "ndnping".to_owned(),
            (Kind::Ping, None) => "ndnd ping".to_owned(),
            (Kind::Idle, _) => String::new(),
        }
    }

    fn missing(&self) -> Option<String> {
        self.ndnd.missing().or_else(|| self.tools.as_ref().and_then(NdnTools::missing))
    }

    fn missing_router(&self) -> Option<String> {
        self.ndnd.missing()
    }

    fn programs(&self) -> Vec<PathBuf> {
        let tools = self.tools.as_ref().map(NdnTools::programs).unwrap_or_default();
        [vec![self.ndnd.path().to_path_buf()], tools].concat()
    }

    fn unsupported(&self, scenario: Scenario) -> Option<&'static str> {
        match (&self.tools, scenario.kind()) {
            (None, _) if scenario == Scenario::Unix1200 => {
                Some("ndnd put has no option for the segment size")
            }
            _ if scenario.transport() == Transport::Memif => Some(NO_SHARED_MEMORY),
            _ if scenario.is_ethernet() => Some("it has no Ethernet faces"),
            (Some(_), Kind::Flows | Kind::Memory | Kind::Idle) => Some("the router is that of ndnd"),
            _ => None,
        }
    }

    fn start(&self, site: &Site<'_>) -> Result<Network, Error> {
        let routers =
            (0..site.routers()).map(|i| self.start_router(site, i)).collect::<Result<Vec<_>, _>>()?;
        if site.scenario.has_two_routers() {
            let created =
                self.control(site, &["face-create", &format!("remote={}", site.udp_uri(1, "udp4"))])?;
            let face = face_id(&created)
                .ok_or_else(|| Error::Subject(format!("ndnd fw face-create named no face: {created}")))?;
            self.control(site, &["route-add", &format!("prefix={PREFIX}"), &format!("face={face}")])?;
        }
        let scheme = if self.tools.is_some() { "tcp4" } else { "tcp" };
        Ok(Network::new(site, routers, scheme))
    }

    fn publish(&self, site: &Site<'_>, network: &Network, object: &Object) -> Result<Publication, Error> {
        match &self.tools {
            Some(tools) => tools.publish(site, network, object),
            None => self.publish_with_own_tool(site, network, object),
        }
    }

    fn fetch(&self, site: &Site<'_>, network: &Network, name: &str, _output: &Path) -> Fetch {
        match &self.tools {
            Some(tools) => tools.fetch(site, network, name, Pipeline::Fixed),
            None => {
                let mut command = client(self.ndnd.path(), site, &network.consumer);
                command.args(["cat", name]);
                Fetch { command, content_on_stdout: true }
            }
        }
    }

    fn serve_pings(&self, site: &Site<'_>, network: &Network) -> Result<Process, Error> {
        if let Some(tools) = &self.tools {
            return tools.serve_pings(site, network);
        }
        let mut command = client(self.ndnd.path(), site, &network.producer);
        command.args(["pingserver", PREFIX]);
        site.start_ping_server("ndnd pingserver", network, command)
    }

    fn ping(&self, site: &Site<'_>, network: &Network, count: u32, interval_ms: u64) -> Command {
        if let Some(tools) = &self.tools {
            return tools.ping(site, network, count, interval_ms);
        }
        let mut command = client(self.ndnd.path(), site, &network.consumer);
        // The client waits for its timeout after the last ping, even if all have been answered.
        let (count, interval) = (count.to_string(), interval_ms.to_string());
        command.args(["ping", PREFIX, "-c", &count, "-i", &interval, "-t", "1000"]);
        command
    }
}

/// Returns the limit of the content store per thread. If memory is measured, the threads share the
/// limit. Otherwise each must have room for a whole object, because several threads cache Data
/// without NDNd's own PIT token.
fn cs_packets_per_thread(scenario: Scenario) -> u32 {
    match scenario.kind() {
        Kind::Memory => scenario.cs_packets() / FORWARDING_THREADS,
        _ => scenario.cs_packets(),
    }
}

/// Returns the number after `FaceId=` in the output of `face-create`.
fn face_id(created: &str) -> Option<u64> {
    let (_, after) = created.split_once("FaceId=")?;
    after.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns a configuration with NDNd's defaults (eight forwarding threads), except for its
/// listeners, the capacity of the content store, registration over TCP, which is off, and the size
/// of datagrams.
fn configuration(site: &Site<'_>, index: usize, mtu: u32) -> String {
    format!(
        "core: {{log_level: ERROR}}
faces:
  udp: {{enabled_unicast: true, enabled_multicast: false, port_unicast: {port}, default_mtu: {mtu}}}
  tcp: {{enabled: true, port_unicast: {port}}}
  unix: {{enabled: true, socket_path: {socket}}}
  websocket: {{enabled: false}}
  http3: {{enabled: false}}
fw: {{threads: {FORWARDING_THREADS}}}
mgmt: {{allow_localhop: true}}
tables:
  content_store: {{capacity: {cs_packets_per_thread}, admit: true, serve: true}}
  rib: {{readvertise_nlsr: false}}
",
        port = site.ports[index],
        socket = site.socket(index).display(),
        cs_packets_per_thread = cs_packets_per_thread(site.scenario),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_created_ndnd_face_is_parsed() {
        let printed = "Status=200 (OK)\n  BaseCongestionMarkInterval=100000000\n  FaceId=4\n  Flags=0\n";
        assert_eq!(face_id(printed), Some(4));
        assert_eq!(face_id("Status=409 (Conflict)\n"), None);
        assert_eq!(face_id("FaceId=\n"), None);
    }
}
