//! The command line.

use clap::{Parser, Subcommand};
use namely_bench::plain::PlainCommand;

use crate::emulated::Emulated;
use crate::istack::Istack;
use crate::linear_video::LinearVideo;
use crate::nb_cache::{NbCache, router::HostedRouter};
use crate::ndise::Ndise;
use crate::ndise_ping::NdisePing;
use crate::ndise_ping::neighbours::Neighbours;
use crate::ndise_routers::NdiseRouters;
use crate::ndp::Ndp;
use crate::plot::Plot;
use crate::policies::Policies;
use crate::sim::{Sim, queues::SimQueues};
use crate::topology::Topology;

/// The experiments of published systems, each one command.
#[derive(Debug, Parser)]
#[command(name = "namely-experiments", version, max_term_width = 110)]
pub struct Cli {
    /// The experiment.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fetches that share an emulated link: use, fairness, queue
    #[command(after_help = EMULATED_HELP)]
    Emulated(Emulated),
    /// The experiments of iStack on this machine: cores, payload, many consumers
    #[command(after_help = ISTACK_HELP)]
    Istack(Istack),
    /// Live video to many viewers, over TCP and over names: the load of the server
    #[command(after_help = LINEAR_VIDEO_HELP)]
    LinearVideo(LinearVideo),
    /// Containers with routers around a switch, built of network namespaces, and the transport's
    /// experiment on them
    #[command(after_help = TOPOLOGY_HELP)]
    Topology(Topology),
    /// The network of NB-Cache: four routers with slow disks, in the paper's cases
    #[command(after_help = NB_CACHE_HELP)]
    NbCache(NbCache),
    /// A router of `nb-cache` with a disk as that of the paper's prototype
    #[command(hide = true)]
    NbCacheRouter(HostedRouter),
    /// The networks of N-DISE in virtual time: VIP beside other ways of caching and forwarding
    #[command(after_help = NDISE_HELP)]
    Ndise(Ndise),
    /// The networks of N-DISE with real routers in namespaces, scaled in time and size
    #[command(after_help = NDISE_ROUTERS_HELP)]
    NdiseRouters(NdiseRouters),
    /// Pings through a router with and without the exchange of N-DISE with many neighbors
    #[command(after_help = NDISE_PING_HELP)]
    NdisePing(NdisePing),
    /// The neighbors of `ndise-ping`
    #[command(hide = true)]
    NdiseNeighbours(Neighbours),
    /// The experiments of NDN-NDP: MTUs that differ, multicast in a grid, the time between hellos
    #[command(subcommand, after_help = NDP_HELP)]
    Ndp(Ndp),
    /// Draw bars from the output of `istack` or `namely perf` with --json
    #[command(after_help = PLOT_HELP)]
    Plot(Plot),
    /// Hit ratios of the content store's policies on traces
    #[command(after_help = POLICIES_HELP)]
    Policies(Policies),
    /// A large network in virtual time: topologies, workloads and failures from a seed
    #[command(after_help = SIM_HELP)]
    Sim(Box<Sim>),
    /// The cost of the simulator's event queues
    SimQueues(SimQueues),
    /// One plain process of a comparison
    #[command(subcommand, hide = true)]
    Plain(PlainCommand),
}

const EMULATED_HELP: &str = "Programs are found as by `namely-bench compare`.

Example:
  cargo run --release -p namely-experiments -- emulated --congestion cubic --flows 2 --loss 0";

const ISTACK_HELP: &str = "Programs are found as by `namely-bench compare`.

Example:
  cargo run --release -p namely-experiments -- istack --runs 5";

const LINEAR_VIDEO_HELP: &str = "Example:
  namely-experiments linear-video --viewers 50,100,150 --seconds 60 --plot linear-video.svg";

const TOPOLOGY_HELP: &str = "Needs root and `ip` of iproute2. Everything that it makes is gone when it ends.

Examples:
  namely-experiments topology --consumers 2 --size 32
  namely-experiments topology --link ethernet --mtu 9000
  namely-experiments topology --consumers 3 --hold";

const NB_CACHE_HELP: &str = "Needs network namespaces (root, or users may have them) and `ip` of iproute2.

Examples:
  namely-experiments nb-cache --runs 5
  namely-experiments nb-cache --tables thresholds --runs 3
  namely-experiments nb-cache --tables balance,paths --runs 1";

const NDISE_HELP: &str = "Needs nothing of the system: the network is simulated.

Examples:
  namely-experiments ndise --experiment service --seeds 1 --minutes 5
  namely-experiments ndise --plot ndise.svg";

const NDISE_ROUTERS_HELP: &str = "Builds testbeds as `namely testbed run` does and needs what that needs.

Examples:
  namely-experiments ndise-routers --experiment service --runs 1 --seconds 60
  namely-experiments ndise-routers --experiment narrow --arm vip --arm 'best-route, arc' --json
  namely-experiments ndise-routers --experiment names --names 0,60000 --seconds 6
  namely-experiments ndise-routers --experiment throughput,faults --seconds 30";

const NDISE_PING_HELP: &str =
    "Programs are found as by `namely-bench compare`; needs `chrt` of util-linux where the
neighbours have another share than this program.

Examples:
  cargo run --release -p namely-experiments -- ndise-ping
  chrt --rr 1 target/release/namely-experiments ndise-ping --neighbours-share other
  namely-experiments ndise-ping --turns 2 --seconds 1 --neighbours 8 --packets 0 --json";

const NDP_HELP: &str = "Each builds testbeds as `namely testbed run` does and needs what that needs.

Examples:
  namely-experiments ndp mtu --plot ndp-mtu.svg
  namely-experiments ndp grid --runs 30 --plot ndp-grid.svg
  namely-experiments ndp heartbeat --heartbeats-ms 500,3000,10000";

const PLOT_HELP: &str = "Example:
  namely --json perf crypto > crypto.jsonl && namely-experiments plot crypto.jsonl --to crypto.svg";

const SIM_HELP: &str =
    "Needs nothing of the system: the network is simulated. Ctrl-C keeps the partial results.

Examples:
  namely-experiments sim --nodes 10000 --threads 2 --failures 1 --out results
  namely-experiments sim --topology scale-free --routes distance-vector --workload transfer --consumers 20
  namely-experiments sim --topology rocketfuel-cch --map 1221.r0.cch --seconds 30 --json
  namely-experiments sim --nodes 100 --seconds 60 --checkpoint --out results
  namely-experiments sim --resume results";

const POLICIES_HELP: &str = "Examples:
  cargo run --release -p namely-experiments -- policies --json
  cargo run --release -p namely-experiments -- policies --disk";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_experiments_command_line_is_valid() {
        Cli::command().debug_assert();
    }
}
