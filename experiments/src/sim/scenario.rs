//! A scenario: the options that determine its results, and the network that it is run in.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use namely_bench::error::Error;
use namely_sim::failures::{self, FailureRates};
use namely_sim::topology::BuiltTopology;
use namely_sim::{MS, Network, NodeId, RouterSpec, SECOND};
use serde::{Deserialize, Serialize};

use super::workload::{Traffic, attach};
use super::{routes, topology};

/// A scenario.
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The network.
    #[command(flatten)]
    pub network: NetworkOptions,
    /// Its load.
    #[command(flatten)]
    pub load: LoadOptions,
}

/// The network of a scenario.
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkOptions {
    /// Nodes, if the topology is generated
    #[arg(long, default_value_t = 1000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=1_000_000))]
    pub nodes: usize,
    /// The topology
    #[arg(long, value_enum, default_value_t = TopologyKind::Grid)]
    pub topology: TopologyKind,
    /// The map of Rocketfuel or the testbed's file
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// The source of routes
    #[arg(long, value_enum, default_value_t = Routing::Computed)]
    pub routes: Routing,
    /// The strategy of all names [default: the router's, or self-learning for learned routes]
    #[arg(long)]
    pub strategy: Option<String>,
    /// Delay of links, us; of maps without delays and generated graphs the least
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub delay_us: u64,
    /// Rate of links, Mbit/s
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate_mbit: u64,
    /// Data in each content store
    #[arg(long, default_value_t = 256, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=10_000_000))]
    pub cs_packets: usize,
    /// Links that fail during the run, percent; a link may fail several times
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    pub failures: f64,
    /// Nodes that fail during the run, percent
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    pub node_failures: f64,
    /// Mean time of a failure, ms
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub repair_ms: u64,
}

/// The load of a scenario.
#[derive(Args, Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoadOptions {
    /// The workload
    #[arg(long, value_enum, default_value_t = Workload::Zipf)]
    pub workload: Workload,
    /// The trace: lines of a time in ms, the number of a consumer, and a name
    #[arg(long, value_name = "FILE", required_if_eq("workload", "trace"))]
    pub trace: Option<PathBuf>,
    /// Producers, or members of the synchronization group
    #[arg(long, default_value_t = 10, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub producers: usize,
    /// Consumers [default: one at each node of the edge]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub consumers: Option<usize>,
    /// Names that are requested by Zipf's law
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub names: u64,
    /// Exponent of Zipf's law
    #[arg(long, default_value_t = 1.0)]
    pub exponent: f64,
    /// Requests of a consumer, or publications of a member, a second
    #[arg(long, default_value_t = 10.0)]
    pub rate: f64,
    /// Data of each transferred data set
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub pieces: u64,
    /// Octets of Content in each Data
    #[arg(long, default_value_t = 1000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=8000))]
    pub content: usize,
    /// Virtual time of the load, s
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// The seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The source of a topology.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyKind {
    /// A square of nodes with four neighbors
    Grid,
    /// Switches with the same number of ports, and hosts
    FatTree,
    /// A graph with hubs (Barabási and Albert)
    ScaleFree,
    /// A router-level map of Rocketfuel (--map FILE.cch)
    RocketfuelCch,
    /// A map of Rocketfuel with weights or latencies (--map FILE)
    RocketfuelWeights,
    /// The file of `namely testbed` (--map FILE.toml)
    Testbed,
}

/// The source of routes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Shortest paths, and an alternative to each
    Computed,
    /// Learned from Data
    Learned,
    /// By a distance-vector protocol
    DistanceVector,
}

/// The load.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Requests by Zipf's law
    Zipf,
    /// Requests of a trace
    Trace,
    /// Data sets with congestion control
    Transfer,
    /// A synchronization group
    Sync,
}

/// Time in which routes settle before the load, if a protocol finds them, ns.
const SETTLING_NS: u64 = 15 * SECOND;

/// Time after the load in which outstanding requests end, ns.
const ENDING_NS: u64 = 3 * SECOND;

/// Longest load, s: a day.
const SECONDS_MAX: f64 = 86_400.0;

impl Scenario {
    /// Checks the numbers whose ranges the command line does not know.
    fn check(&self) -> Result<(), Error> {
        let Scenario { network, load } = self;
        for (option, value, range) in [
            ("--seconds", load.seconds, 0.001..=SECONDS_MAX),
            ("--rate", load.rate, 0.001..=1e6),
            ("--exponent", load.exponent, 0.01..=10.0),
            ("--failures", network.failures, 0.0..=1000.0),
            ("--node-failures", network.node_failures, 0.0..=1000.0),
        ] {
            if !range.contains(&value) {
                let (least, most) = range.into_inner();
                return Err(Error::Usage(format!("{option} {value}: choose {least} to {most}")));
            }
        }
        Ok(())
    }

    /// The beginning of the load.
    pub(super) fn begins_ns(&self) -> u64 {
        if self.network.routes == Routing::DistanceVector { SETTLING_NS } else { 0 }
    }

    /// The end of the load.
    pub(super) fn ends_ns(&self) -> u64 {
        self.begins_ns() + (self.load.seconds * SECOND as f64) as u64
    }
}

/// A scenario that is being run.
pub(super) struct Running {
    pub(super) network: Network,
    pub(super) built: BuiltTopology,
    pub(super) traffic: Traffic,
    pub(super) end_ns: u64,
}

impl Running {
    pub(super) fn build(scenario: &Scenario) -> Result<Self, Error> {
        scenario.check()?;
        let (options, load) = (&scenario.network, &scenario.load);
        let topology = topology::read(options, load.seed)?;
        let mut network = Network::new(load.seed);
        let spec = RouterSpec { cs_packets_max: options.cs_packets, ..RouterSpec::default() };
        let built = topology.build(&mut network, spec);
        routes::set_strategy(&network, &built.nodes, options)?;
        let traffic = attach(scenario, &mut network, &built)?;
        fail(scenario, &mut network, &built);
        Ok(Running { network, built, traffic, end_ns: scenario.ends_ns() + ENDING_NS })
    }
}

/// Draws the failures during the load.
fn fail(scenario: &Scenario, network: &mut Network, built: &BuiltTopology) {
    let (options, begins_ns) = (&scenario.network, scenario.begins_ns());
    let duration_ns = scenario.ends_ns() - begins_ns;
    let outages = |percent: f64, parts: usize, seed: u64| {
        let up_ns = if percent > 0.0 { (duration_ns as f64 * 100.0 / percent) as u64 } else { u64::MAX };
        let rates = FailureRates { up_ns, down_ns: options.repair_ms * MS };
        let outages = failures::draw(seed, parts, rates, duration_ns);
        // Without failures nothing is drawn, not even a time by chance.
        outages.into_iter().filter(move |_| percent > 0.0)
    };
    // Different seeds, so that link 7 and node 7 do not fail together.
    for outage in outages(options.failures, built.links.len(), scenario.load.seed) {
        let link = built.links[outage.part];
        network.fail_link(link, begins_ns + outage.from_ns, begins_ns + outage.until_ns);
    }
    let nodes: &[NodeId] = &built.nodes;
    for outage in outages(options.node_failures, nodes.len(), !scenario.load.seed) {
        network.fail_node(nodes[outage.part], begins_ns + outage.from_ns, begins_ns + outage.until_ns);
    }
}
