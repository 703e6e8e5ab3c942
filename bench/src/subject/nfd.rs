//! NFD with ndn-tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ndn_tools::{NdnTools, Pipeline, client};
use super::site::{Fetch, NO_SHARED_MEMORY, Network, PREFIX, Publication, Site, Subject, SubjectName};
use crate::error::Error;
use crate::files::Object;
use crate::programs::{Program, READY_LIMIT};
use crate::scenario::{Kind, Scenario, Transport};
use namely_testbed::{Process, command};

/// NFD with one pipeline of ndncatchunks.
#[derive(Debug)]
pub(super) struct Nfd {
    nfd: Program,
    nfdc: Program,
    tools: NdnTools,
    pipeline: Pipeline,
}

impl Nfd {
    /// Returns both pipelines.
    pub(super) fn find_all() -> [Self; 2] {
        [Pipeline::Fixed, Pipeline::Cubic].map(|pipeline| Nfd {
            nfd: Program::find(&["nfd"], "NFD_BIN", false),
            nfdc: Program::find(&["nfdc"], "NFDC_BIN", false),
            tools: NdnTools::find(),
            pipeline,
        })
    }

    fn start_router(&self, site: &Site<'_>, index: usize) -> Result<Process, Error> {
        let path = site.dir.join(format!("nfd{index}.conf"));
        std::fs::write(&path, configuration(site, index))
            .map_err(|e| Error::environment(format!("cannot write {}", path.display()), e))?;
        let mut command = command(self.nfd.path(), site.dir);
        command.arg("--config").arg(&path);
        site.start_router("nfd", index, command)
    }

    fn control(&self, site: &Site<'_>, arguments: &[&str]) -> Result<(), Error> {
        let uri = format!("unix://{}", site.socket(0).display());
        let mut command = client(self.nfdc.path(), site, &uri);
        command.args(arguments);
        Process::run("nfdc", command, site.dir, None, READY_LIMIT, site.interrupt)?;
        Ok(())
    }
}

impl Subject for Nfd {
    fn name(&self) -> &'static str {
        match self.pipeline {
            Pipeline::Fixed => "nfd",
            Pipeline::Cubic => "nfd-cubic",
        }
    }

    fn family(&self) -> SubjectName {
        SubjectName::Nfd
    }

    fn mode(&self, scenario: Scenario) -> String {
        match scenario.kind() {
            Kind::Transfer | Kind::Cached | Kind::Memory => NdnTools::mode(self.pipeline, scenario),
            Kind::Flows => crate::load::mode(),
            Kind::Ping => "ndnping".to_owned(),
            Kind::Idle => String::new(),
        }
    }

    fn missing(&self) -> Option<String> {
        self.nfd.missing().or_else(|| self.nfdc.missing()).or_else(|| self.tools.missing())
    }

    fn missing_router(&self) -> Option<String> {
        self.nfd.missing()
    }

    fn programs(&self) -> Vec<PathBuf> {
        [vec![self.nfd.path().to_path_buf()], self.tools.programs()].concat()
    }

    fn unsupported(&self, scenario: Scenario) -> Option<&'static str> {
        if scenario.transport() == Transport::Memif {
            return Some(NO_SHARED_MEMORY);
        }
        if scenario.is_ethernet() {
            return Some("whether it has Ethernet faces depends on how it was built");
        }
        let is_file = matches!(scenario.kind(), Kind::Transfer | Kind::Cached);
        (self.pipeline == Pipeline::Cubic && !is_file).then_some("the router and tools are those of nfd")
    }

    fn start(&self, site: &Site<'_>) -> Result<Network, Error> {
        let routers =
            (0..site.routers()).map(|i| self.start_router(site, i)).collect::<Result<Vec<_>, _>>()?;
        if site.scenario.has_two_routers() {
            let next = site.udp_uri(1, "udp4");
            self.control(site, &["face", "create", &next])?;
            self.control(site, &["route", "add", PREFIX, &next])?;
        }
        Ok(Network::new(site, routers, "tcp4"))
    }

    fn publish(&self, site: &Site<'_>, network: &Network, object: &Object) -> Result<Publication, Error> {
        self.tools.publish(site, network, object)
    }

    fn fetch(&self, site: &Site<'_>, network: &Network, name: &str, _output: &Path) -> Fetch {
        self.tools.fetch(site, network, name, self.pipeline)
    }

    fn serve_pings(&self, site: &Site<'_>, network: &Network) -> Result<Process, Error> {
        self.tools.serve_pings(site, network)
    }

    fn ping(&self, site: &Site<'_>, network: &Network, count: u32, interval_ms: u64) -> Command {
        self.tools.ping(site, network, count, interval_ms)
    }
}

/// Returns a configuration with NFD's defaults, except for its listeners and the capacity of the
/// content store. A local user may do everything.
fn configuration(site: &Site<'_>, index: usize) -> String {
    format!(
        "log {{ default_level WARN }}
tables {{
  cs_max_packets {cs_packets}
  strategy_choice {{
    / /localhost/nfd/strategy/best-route
    /localhost /localhost/nfd/strategy/multicast
    /localhost/nfd /localhost/nfd/strategy/best-route
  }}
}}
face_system {{
  unix {{ path {socket} }}
  tcp {{ listen yes port {port} enable_v4 yes enable_v6 no }}
  udp {{ listen yes port {port} enable_v4 yes enable_v6 no mcast no }}
}}
authorizations {{
  authorize {{
    certfile any
    privileges {{
      faces
      fib
      cs
      strategy-choice
    }}
  }}
}}
rib {{
  localhost_security {{ trust-anchor {{ type any }} }}
}}
",
        cs_packets = site.scenario.cs_packets(),
        socket = site.socket(index).display(),
        port = site.ports[index],
    )
}
