//! namely: `namelyd`, `namely serve`, `namely get`, `namely ping`; the same with BLAKE3 manifests,
//! and with AF_XDP on Ethernet; and `namelyd` with ndn-tools, which isolates the router.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ndn_tools::{NdnTools, Pipeline};
use super::site::{Fetch, NO_SHARED_MEMORY, Network, PREFIX, Publication, Site, Subject, SubjectName};
use crate::error::Error;
use crate::files::Object;
use crate::link::{ADDRESSES, DEVICES};
use crate::programs::{Program, READY_LIMIT};
use crate::scenario::{Kind, Scenario, Transport};
use namely_testbed::{Process, command};

/// The content store has a limit in octets, too. As with the peers, only the limit in packets shall
/// apply.
const CS_OCTETS_MAX: &str = "1GiB";

/// namelyd with its own tools or with ndn-tools.
#[derive(Debug)]
pub(super) struct Namely {
    name: &'static str,
    router: Program,
    client: Program,
    /// Arguments of `namely serve` beside its defaults.
    serve_arguments: &'static [&'static str],
    /// If set, AF_XDP reads the network devices.
    has_xdp: bool,
    tools: Option<NdnTools>,
}

impl Namely {
    /// Returns the variants: with its own tools by default, with BLAKE3 and with AF_XDP, and with
    /// ndn-tools.
    pub(super) fn find_all() -> [Self; 4] {
        let with = |name, serve_arguments, tools| Namely {
            name,
            router: Program::find(&["namelyd"], "NAMELY_BIN_DIR", true),
            client: Program::find(&["namely"], "NAMELY_BIN_DIR", true),
            serve_arguments,
            has_xdp: false,
            tools,
        };
        [
            with("namely", &[], None),
            with("namely-blake3", &["--sign", "manifest-blake3"], None),
            Namely { has_xdp: true, ..with("namely-xdp", &[], None) },
            with("namely-tools", &[], Some(NdnTools::find())),
        ]
    }

    /// Returns true if it differs from the default only in the hash of segments.
    fn is_variant(&self) -> bool {
        !self.serve_arguments.is_empty()
    }

    fn start_router(&self, site: &Site<'_>, index: usize) -> Result<Process, Error> {
        let mut command = command(self.router.path(), site.dir);
        match self.configuration(site, index)? {
            Some(file) => command.arg("--config").arg(file),
            None => command.arg("--no-config"),
        };
        command.args(["--listen", &site.unix_uri(index)]);
        command.args(["--listen", &format!("tcp://127.0.0.1:{}", site.ports[index])]);
        command.args(["--listen", &site.udp_uri(index, "udp")]);
        if site.scenario.transport() == Transport::Memif {
            command.args(["--listen", &site.memif_uri(index)]);
        }
        command.args(["--cs-packets-max", &site.scenario.cs_packets().to_string()]);
        command.args(["--cs-octets-max", CS_OCTETS_MAX]);
        if site.scenario.is_ethernet() {
            command.args(["--listen", &format!("dev://{}", DEVICES[index])]);
        } else if site.scenario.has_two_routers() && index == 0 {
            command.args(["--route", &format!("{PREFIX}={}", site.udp_uri(1, "udp"))]);
        }
        site.start_router("namelyd", index, command)
    }

    /// Writes a configuration file if one is needed: for the face over Ethernet, and over TCP. Over
    /// TCP the router accepts only signed registrations, so the producer receives a key and the
    /// router its certificate.
    fn configuration(&self, site: &Site<'_>, index: usize) -> Result<Option<PathBuf>, Error> {
        let text = match site.scenario {
            scenario if scenario.is_ethernet() => {
                let xdp = if self.has_xdp { "on" } else { "off" };
                let face = format!(
                    "[[face]]\nremote = \"ether://[{}]\"\nlocal = \"dev://{}\"\nroutes = [\"{PREFIX}\"]\n",
                    ADDRESSES[1], DEVICES[0]
                );
                let face = if index == 0 { &*face } else { "" };
                format!("[faces.ethernet]\nxdp = \"{xdp}\"\n{face}")
            }
            scenario if scenario.transport() == Transport::Tcp => self.trust_in_the_producer(site)?,
            _ => return Ok(None),
        };
        let file = site.dir.join(format!("namely{index}.toml"));
        std::fs::write(&file, text)
            .map_err(|e| Error::environment(format!("cannot write {}", file.display()), e))?;
        Ok(Some(file))
    }

    fn trust_in_the_producer(&self, site: &Site<'_>) -> Result<String, Error> {
        let certificate = site.dir.join("producer.cert");
        self.own_tool(site, &["key", "new", PREFIX])?;
        self.own_tool(site, &["cert", "export", PREFIX, "-o", &certificate.to_string_lossy()])?;
        Ok(format!(
            "[[authorization.key]]\ncertificate = \"{}\"\nregister = [\"{PREFIX}\"]\n",
            certificate.display()
        ))
    }

    fn own_tool(&self, site: &Site<'_>, arguments: &[&str]) -> Result<(), Error> {
        let mut command = command(self.client.path(), site.dir);
        command.args(arguments);
        Process::run("namely key", command, site.dir, None, READY_LIMIT, site.interrupt)?;
        Ok(())
    }

    fn command(&self, site: &Site<'_>, router: &str) -> Command {
        let mut command = command(self.client.path(), site.dir);
        command.args(["--router", router]);
        command
    }
}

impl Subject for Namely {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> SubjectName {
        SubjectName::Namely
    }

    fn mode(&self, scenario: Scenario) -> String {
        match (scenario.kind(), &self.tools) {
            (Kind::Transfer | Kind::Cached | Kind::Memory, Some(_)) => {
                NdnTools::mode(Pipeline::Fixed, scenario)
            }
            (Kind::Transfer | Kind::Cached | Kind::Memory, None) => {
                let hash = if self.is_variant() { "BLAKE3 manifests" } else { "its default" };
                let link = if self.has_xdp { "AF_XDP; " } else { "" };
                format!("{link}namely get, {hash}; verified")
            }
            (Kind::Flows, _) => crate::load::mode(),
            (Kind::Ping, Some(_)) => "ndnping".to_owned(),
            (Kind::Ping, None) => "namely ping".to_owned(),
            (Kind::Idle, _) => String::new(),
        }
    }

    fn missing(&self) -> Option<String> {
        let tools = || self.tools.as_ref().and_then(NdnTools::missing);
        self.router.missing().or_else(|| self.client.missing()).or_else(tools)
    }

    fn programs(&self) -> Vec<PathBuf> {
        let router = self.router.path().to_path_buf();
        match &self.tools {
            Some(tools) => [vec![router], tools.programs()].concat(),
            None => vec![router, self.client.path().to_path_buf()],
        }
    }

    fn unsupported(&self, scenario: Scenario) -> Option<&'static str> {
        if self.has_xdp && !scenario.is_ethernet() {
            return Some("it differs from namely only on Ethernet");
        }
        match (&self.tools, scenario.kind()) {
            (Some(_), Kind::Flows | Kind::Memory | Kind::Idle) => Some("the router is that of namely"),
            (None, Kind::Flows | Kind::Memory | Kind::Idle | Kind::Ping) if self.is_variant() => {
                Some("it differs from namely only in how segments are hashed")
            }
            (Some(_), _) if scenario.transport() == Transport::Memif => Some(NO_SHARED_MEMORY),
            (Some(_), _) if scenario.transport() == Transport::Tcp => {
                Some("ndn-tools cannot sign with a key that the router trusts")
            }
            _ => None,
        }
    }

    fn start(&self, site: &Site<'_>) -> Result<Network, Error> {
        let routers =
            (0..site.routers()).map(|i| self.start_router(site, i)).collect::<Result<Vec<_>, _>>()?;
        let scheme = if self.tools.is_some() { "tcp4" } else { "tcp" };
        Ok(Network::new(site, routers, scheme))
    }

    fn publish(&self, site: &Site<'_>, network: &Network, object: &Object) -> Result<Publication, Error> {
        if let Some(tools) = &self.tools {
            return tools.publish(site, network, object);
        }
        let prefix = format!("{PREFIX}/object-{}", object.number);
        let name = format!("{prefix}/{}", Object::FILE_NAME);
        let mut command = self.command(site, &network.producer);
        command.arg("serve").arg(&object.dir).args(["--prefix", &prefix]);
        command.args(["--segment-size", &site.scenario.segment_octets().to_string()]);
        command.args(self.serve_arguments);
        let producer = Process::start("namely serve", command, site.dir, None)?;
        Publication::of(producer, name, site, network)
    }

    fn fetch(&self, site: &Site<'_>, network: &Network, name: &str, output: &Path) -> Fetch {
        if let Some(tools) = &self.tools {
            return tools.fetch(site, network, name, Pipeline::Fixed);
        }
        let mut command = self.command(site, &network.consumer);
        command.args(["--quiet", "get", name, "-o"]).arg(output);
        Fetch { command, content_on_stdout: false }
    }

    fn serve_pings(&self, site: &Site<'_>, network: &Network) -> Result<Process, Error> {
        if let Some(tools) = &self.tools {
            return tools.serve_pings(site, network);
        }
        let mut command = self.command(site, &network.producer);
        command.args(["pingserver", PREFIX]);
        site.start_ping_server("namely pingserver", network, command)
    }

    fn ping(&self, site: &Site<'_>, network: &Network, count: u32, interval_ms: u64) -> Command {
        if let Some(tools) = &self.tools {
            return tools.ping(site, network, count, interval_ms);
        }
        let mut command = self.command(site, &network.consumer);
        let (count, interval) = (count.to_string(), interval_ms.to_string());
        command.args(["ping", PREFIX, "--count", &count, "--interval", &interval, "--json"]);
        command
    }
}
