//! The topology of a scenario: generated, from a map, or from a testbed's file.

use std::path::Path;

use namely_bench::error::Error;
use namely_sim::LinkSpec;
use namely_sim::topology::rocketfuel::{self, MAP_OCTETS_MAX};
use namely_sim::topology::{Medium, Topology};
use namely_testbed::Testbed;
use namely_testbed::file::{Network, Shape};

use super::scenario::{NetworkOptions, TopologyKind};

/// Links of a new node in a scale-free graph.
const JOINED: usize = 2;

/// Delay of a testbed's link without one, ns: some metres of cable.
const DELAY_NS_MIN: u64 = 1_000;

/// Reads or generates the topology.
pub(super) fn read(options: &NetworkOptions, seed: u64) -> Result<Topology, Error> {
    let spec = LinkSpec {
        rate_bps: options.rate_mbit * 1_000_000,
        delay_ns: options.delay_us * 1_000,
        ..LinkSpec::default()
    };
    let topology = match options.topology {
        TopologyKind::Grid => Topology::grid(options.nodes, spec),
        TopologyKind::FatTree => Topology::fat_tree(options.nodes, spec),
        TopologyKind::ScaleFree => Topology::scale_free(options.nodes, JOINED, seed, spec),
        TopologyKind::RocketfuelCch => map(options, |text| rocketfuel::parse_cch(text, spec))?,
        TopologyKind::RocketfuelWeights => map(options, |text| rocketfuel::parse_weights(text, spec))?,
        TopologyKind::Testbed => {
            let testbed = Testbed::load(path(options)?).map_err(|e| Error::Usage(e.to_string()))?;
            of_testbed(&testbed, spec)
        }
    };
    match topology.nodes {
        0 | 1 => Err(Error::Usage("a topology of fewer than two nodes".into())),
        _ => Ok(topology),
    }
}

fn path(options: &NetworkOptions) -> Result<&Path, Error> {
    let missing = || Error::Usage("this topology needs --map FILE".into());
    options.map.as_deref().ok_or_else(missing)
}

/// Reads a map of Rocketfuel. Only its largest part is used, because no packet leaves it.
fn map(
    options: &NetworkOptions,
    parse: impl FnOnce(&str) -> Result<Topology, rocketfuel::MapError>,
) -> Result<Topology, Error> {
    let path = path(options)?;
    let unreadable = |e| Error::environment(format!("cannot read {}", path.display()), e);
    if std::fs::metadata(path).map_err(unreadable)?.len() > MAP_OCTETS_MAX as u64 {
        return Err(Error::Usage(format!("{}: {}", path.display(), rocketfuel::MapError::TooLong)));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let refused = |e: rocketfuel::MapError| Error::Usage(format!("{}: {e}", path.display()));
    parse(&text).map(|topology| topology.largest_part()).map_err(refused)
}

/// Returns the nodes, links and segments of a testbed. Its routers, programs and events have no
/// place in a simulation of it.
fn of_testbed(testbed: &Testbed, spec: LinkSpec) -> Topology {
    let nodes = testbed.nodes.len();
    let mut topology = Topology { nodes, edge: (0..nodes).collect(), ..Topology::default() };
    let index = |name: &&str| testbed.nodes.iter().position(|node| node.name.get_ref() == name);
    for Network { nodes, mtus, shape, is_segment, .. } in testbed.networks() {
        let mtu_octets = mtus.into_iter().min().map_or(spec.mtu_octets, |mtu| mtu as usize);
        let spec = LinkSpec { mtu_octets, ..shaped(spec, shape) };
        let nodes: Vec<usize> = nodes.iter().filter_map(index).collect();
        if is_segment {
            // A frame passes the shape of both devices of a segment.
            let spec = LinkSpec { delay_ns: 2 * spec.delay_ns, ..spec };
            topology.media.push(Medium { nodes, spec });
        } else if let [a, b] = nodes[..] {
            topology.link(a, b, spec);
        }
    }
    topology
}

fn shaped(spec: LinkSpec, shape: Shape) -> LinkSpec {
    let rate_bps = shape.rate.map_or(spec.rate_bps, |rate| rate.0);
    let queue_octets = |seconds: f64| (rate_bps as f64 / 8.0 * seconds) as usize;
    LinkSpec {
        rate_bps,
        delay_ns: shape.delay.map_or(0, |delay| delay.0.as_nanos() as u64).max(DELAY_NS_MIN),
        loss_ppm: shape.loss.map_or(0, |loss| (loss.0 * 1e6).round() as u32),
        queue_octets_max: shape
            .queue
            .map_or(spec.queue_octets_max, |time| queue_octets(time.0.as_secs_f64())),
        ..spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTBED: &str = r#"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
[[link]]
between = ["c", "a"]
rate = "10mbit"
delay = "5ms"
loss = "0.5%"
queue = "40ms"
mtu = 1400
[[segment]]
name = "lan"
nodes = ["a", "b", "c"]
delay = "1ms"
"#;

    #[test]
    fn a_testbed_becomes_a_topology() {
        let testbed = Testbed::parse(TESTBED, Path::new("x.toml")).unwrap();
        let topology = of_testbed(&testbed, LinkSpec::default());
        let link = topology.links[0];
        assert_eq!((topology.nodes, link.ends), (3, [2, 0]));
        let spec = link.spec;
        assert_eq!((spec.rate_bps, spec.delay_ns, spec.loss_ppm), (10_000_000, 5_000_000, 5_000));
        assert_eq!((spec.queue_octets_max, spec.mtu_octets), (50_000, 1400));
        assert_eq!((&topology.media[0].nodes, topology.media[0].spec.delay_ns), (&vec![0, 1, 2], 2_000_000));
    }
}
