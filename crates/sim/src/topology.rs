//! Topologies: grids, fat trees, scale-free graphs, and maps of Rocketfuel ([`rocketfuel`]).

pub mod rocketfuel;

use std::collections::VecDeque;

use crate::event::LinkEndId;
use crate::link::LinkSpec;
use crate::network::Network;
use crate::node::RouterSpec;
use crate::packet::NodeId;
use crate::random::Random;

/// Nodes of a map.
///
/// # Limit
/// A larger map is refused.
/// - Tests: `maps_have_limits`
pub const NODES_MAX: usize = 1_000_000;

/// Faces of a router beside those to its neighbors.
const OWN_FACES: usize = 16;

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyLink {
    /// Its nodes.
    pub ends: [usize; 2],
    /// Its properties, each way.
    pub spec: LinkSpec,
}

/// A medium that several nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Medium {
    /// Its nodes.
    pub nodes: Vec<usize>,
    /// Properties of each node's port.
    pub spec: LinkSpec,
}

/// Nodes and links that are not part of a network yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Number of nodes, whose indices are 0, 1 …
    pub nodes: usize,
    /// Links.
    pub links: Vec<TopologyLink>,
    /// Shared media.
    pub media: Vec<Medium>,
    /// Nodes that consumers and producers are attached to.
    pub edge: Vec<usize>,
}

/// A topology in a network.
#[derive(Clone, Debug, Default)]
pub struct BuiltTopology {
    /// The nodes, by their indices in the topology.
    pub nodes: Vec<NodeId>,
    /// One direction of each link.
    pub links: Vec<LinkEndId>,
    /// Nodes that consumers and producers are attached to.
    pub edge: Vec<NodeId>,
}

impl Topology {
    /// Returns a grid of `nodes` nodes, as wide as high. The last row may be shorter.
    pub fn grid(nodes: usize, spec: LinkSpec) -> Self {
        let columns = (1..).find(|columns| columns * columns >= nodes).unwrap_or(1);
        let mut topology = Topology { nodes, edge: (0..nodes).collect(), ..Topology::default() };
        for node in 0..nodes {
            if !(node + 1).is_multiple_of(columns) && node + 1 < nodes {
                topology.link(node, node + 1, spec);
            }
            if node + columns < nodes {
                topology.link(node, node + columns, spec);
            }
        }
        topology
    }

    /// Returns the smallest fat tree (Al-Fares et al., 2008) of switches with the same number of
    /// ports that has at least `nodes` nodes, without the hosts beyond that number. Hosts are its
    /// edge.
    pub fn fat_tree(nodes: usize, spec: LinkSpec) -> Self {
        let all = |half: usize| 5 * half * half + 2 * half * half * half;
        let half = (1..).find(|half| all(*half) >= nodes).unwrap_or(1);
        let (cores, layer) = (half * half, 2 * half * half);
        let switches = cores + 2 * layer;
        let hosts = nodes.saturating_sub(switches).max(2);
        let mut topology = Topology { nodes: switches + hosts, ..Topology::default() };
        topology.edge = (switches..topology.nodes).collect();
        // Layers one after the other: core, aggregation, edge, hosts. A pod has `half` switches of
        // the two middle layers each.
        for upper in 0..layer {
            let aggregation = cores + upper;
            for port in 0..half {
                topology.link(upper % half * half + port, aggregation, spec);
                let lower = upper / half * half + port;
                topology.link(aggregation, cores + layer + lower, spec);
            }
        }
        for host in 0..hosts {
            topology.link(cores + layer + host % layer, switches + host, spec);
        }
        topology
    }

    /// Returns a scale-free graph (Barabási and Albert, 1999): each node joins `joined` earlier
    /// ones, which it chooses with a probability proportional to their links. Delays are between
    /// that of `spec` and ten times as much.
    pub fn scale_free(nodes: usize, joined: usize, seed: u64, spec: LinkSpec) -> Self {
        let (joined, mut random) = (joined.max(1), Random::new(seed));
        let mut topology = Topology { nodes, edge: (0..nodes).collect(), ..Topology::default() };
        // Each node as often as it has links.
        let mut ends: Vec<usize> = Vec::new();
        for node in 1..nodes {
            let mut chosen: Vec<usize> = Vec::new();
            while chosen.len() < joined.clamp(1, node) {
                // The first nodes have no choice.
                let other = match node > joined {
                    true => ends[random.below(ends.len() as u64) as usize],
                    false => chosen.len(),
                };
                if !chosen.contains(&other) {
                    chosen.push(other);
                }
            }
            for other in chosen {
                let delay_ns = spec.delay_ns + random.below(9 * spec.delay_ns + 1);
                topology.link(other, node, LinkSpec { delay_ns, ..spec });
                ends.extend([other, node]);
            }
        }
        topology
    }

    /// Adds a link.
    pub fn link(&mut self, a: usize, b: usize, spec: LinkSpec) {
        self.links.push(TopologyLink { ends: [a, b], spec });
    }

    /// Returns the largest part whose nodes reach one another, with new indices in the same order.
    #[must_use]
    pub fn largest_part(&self) -> Self {
        let mut near: Vec<Vec<usize>> = vec![Vec::new(); self.nodes];
        for [a, b] in self.pairs() {
            near[a].push(b);
            near[b].push(a);
        }
        let (mut part, mut sizes): (Vec<Option<usize>>, _) = (vec![None; self.nodes], Vec::new());
        for start in 0..self.nodes {
            if part[start].is_some() {
                continue;
            }
            part[start] = Some(sizes.len());
            let (mut size, mut queue) = (0, VecDeque::from([start]));
            while let Some(node) = queue.pop_front() {
                size += 1;
                for other in &near[node] {
                    if part[*other].is_none() {
                        part[*other] = Some(sizes.len());
                        queue.push_back(*other);
                    }
                }
            }
            sizes.push(size);
        }
        let largest = (0..sizes.len()).rev().max_by_key(|part| sizes[*part]);
        self.of_nodes(|node| part[node] == largest)
    }

    /// Returns the part with the nodes that `is_wanted` selects.
    fn of_nodes(&self, is_wanted: impl Fn(usize) -> bool) -> Self {
        let wanted: Vec<usize> = (0..self.nodes).filter(|node| is_wanted(*node)).collect();
        let mut index = vec![None; self.nodes];
        wanted.iter().enumerate().for_each(|(new, node)| index[*node] = Some(new));
        let links = self.links.iter().filter_map(|link| {
            let [a, b] = link.ends.map(|end| index[end]);
            Some(TopologyLink { ends: [a?, b?], ..*link })
        });
        let media = self.media.iter().map(|medium| Medium {
            nodes: medium.nodes.iter().filter_map(|node| index[*node]).collect(),
            spec: medium.spec,
        });
        Topology {
            nodes: wanted.len(),
            links: links.collect(),
            media: media.filter(|medium| medium.nodes.len() > 1).collect(),
            edge: self.edge.iter().filter_map(|node| index[*node]).collect(),
        }
    }

    /// Returns the pairs of nodes that reach each other directly.
    fn pairs(&self) -> impl Iterator<Item = [usize; 2]> {
        let media =
            self.media.iter().flat_map(|medium| medium.nodes.windows(2).map(|pair| [pair[0], pair[1]]));
        self.links.iter().map(|link| link.ends).chain(media)
    }

    /// Adds the topology to a network. Routers have the properties `spec`, and as many faces as
    /// their links need.
    ///
    /// # Panics
    /// If `spec` has a limit that no forwarder can have, or a link has an unknown node.
    pub fn build(&self, network: &mut Network, spec: RouterSpec) -> BuiltTopology {
        let mut faces = vec![OWN_FACES; self.nodes];
        self.links.iter().flat_map(|link| link.ends).for_each(|node| faces[node] += 1);
        self.media.iter().flat_map(|medium| &medium.nodes).for_each(|node| faces[*node] += 1);
        let routers = faces.into_iter().map(|faces_max| RouterSpec { faces_max, ..spec });
        let nodes: Vec<NodeId> = routers.map(|spec| network.add_router(spec)).collect();
        let link = |link: &TopologyLink| network.connect(nodes[link.ends[0]], nodes[link.ends[1]], link.spec);
        let links = self.links.iter().map(link).collect();
        for medium in &self.media {
            let on_it: Vec<NodeId> = medium.nodes.iter().map(|node| nodes[*node]).collect();
            network.share(&on_it, medium.spec);
        }
        let edge = self.edge.iter().map(|node| nodes[*node]).collect();
        BuiltTopology { nodes, links, edge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn degrees(topology: &Topology) -> Vec<usize> {
        let mut degrees = vec![0; topology.nodes];
        topology.links.iter().flat_map(|link| link.ends).for_each(|node| degrees[node] += 1);
        degrees
    }

    #[test]
    fn a_grid_has_the_nodes_asked_for() {
        let topology = Topology::grid(9, LinkSpec::default());
        assert_eq!((topology.nodes, topology.links.len()), (9, 12));
        assert_eq!(degrees(&topology), [2, 3, 2, 3, 4, 3, 2, 3, 2]);
        for nodes in 1..40 {
            let topology = Topology::grid(nodes, LinkSpec::default());
            assert_eq!(topology.largest_part(), topology, "{nodes}");
        }
    }

    #[test]
    fn fat_tree_switches_have_equal_ports() {
        let topology = Topology::fat_tree(36, LinkSpec::default());
        // Four cores, four pods of two and two, and sixteen hosts.
        assert_eq!((topology.nodes, topology.edge.len()), (36, 16));
        let degrees = degrees(&topology);
        assert!(degrees[..20].iter().all(|degree| *degree == 4), "{degrees:?}");
        assert!(degrees[20..].iter().all(|degree| *degree == 1), "{degrees:?}");
        assert_eq!(topology.largest_part().nodes, 36);
        assert_eq!(Topology::fat_tree(30, LinkSpec::default()).nodes, 30);
    }

    #[test]
    fn a_scale_free_graph_has_hubs() {
        let topology = Topology::scale_free(2000, 2, 7, LinkSpec::default());
        assert_eq!(topology, Topology::scale_free(2000, 2, 7, LinkSpec::default()));
        assert_ne!(topology, Topology::scale_free(2000, 2, 8, LinkSpec::default()));
        assert_eq!((topology.links.len(), topology.largest_part().nodes), (1 + 2 * 1998, 2000));
        let mut degrees = degrees(&topology);
        degrees.sort_unstable();
        assert!(degrees[1000] <= 3 && degrees[1999] > 40, "{} {}", degrees[1000], degrees[1999]);
        let delays = topology.links.iter().map(|link| link.spec.delay_ns);
        assert!(delays.clone().all(|delay_ns| (1_000_000..=10_000_000).contains(&delay_ns)));
    }

    #[test]
    fn a_hub_may_have_many_links() {
        let mut star = Topology { nodes: 301, ..Topology::default() };
        (1..301).for_each(|leaf| star.link(0, leaf, LinkSpec::default()));
        let mut network = Network::new(1);
        let spec = RouterSpec { cs_packets_max: 0, pit_entries_max: 16, ..RouterSpec::default() };
        let built = star.build(&mut network, spec);
        assert_eq!(network.link_faces(built.nodes[0]).len(), 300);
        network.restart(built.nodes[0], RouterSpec { faces_max: 400, ..spec });
    }

    #[test]
    fn the_largest_part_keeps_its_order() {
        let mut topology = Topology { nodes: 6, edge: vec![0, 3, 5], ..Topology::default() };
        topology.link(0, 1, LinkSpec::default());
        topology.link(3, 5, LinkSpec::default());
        topology.media.push(Medium { nodes: vec![2, 3], spec: LinkSpec::default() });
        let part = topology.largest_part();
        assert_eq!((part.nodes, part.links[0].ends, &part.edge), (3, [1, 2], &vec![1, 2]));
        assert_eq!(part.media[0].nodes, [0, 1]);
    }
}
