//! Partitions of the nodes for threads.
//!
//! Threads exchange frames only after a window, which is as long as the least delay of a link
//! between partitions: a frame that is sent within a window arrives after it. So short links stay
//! within a partition, as far as the partitions are equally heavy.

use std::collections::VecDeque;

use crate::routes::Edge;

/// How much heavier than an equal share the nodes may be that short links join: a quarter of it.
const SLACK_PART: u64 = 4;

/// Nodes by partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Partition of each node.
    pub(crate) of_node: Vec<u16>,
    /// Number of partitions.
    pub(crate) parts: usize,
    /// Least delay of an edge between partitions; [`u64::MAX`] if there is none.
    pub(crate) window_ns: u64,
}

/// Divides nodes, whose ids are indices of `weights`, into at most `parts` partitions of similar
/// weight. Nodes that are joined by an edge without delay stay together.
pub(crate) fn divide(weights: &[u64], edges: &[Edge], parts: usize) -> Division {
    let parts = parts.clamp(1, weights.len().clamp(1, usize::from(u16::MAX)));
    if parts == 1 {
        return Division { of_node: vec![0; weights.len()], parts, window_ns: u64::MAX };
    }
    let total: u64 = weights.iter().sum();
    let share = total.div_ceil(parts as u64);
    let mut delays: Vec<u64> = edges.iter().map(|edge| edge.delay_ns).collect();
    delays.sort_unstable();
    delays.dedup();
    // The longer the joined links, the longer the window, and the heavier the joined nodes.
    let fits =
        |delay_ns: &u64| Groups::below(*delay_ns, weights, edges).heaviest() <= share + share / SLACK_PART;
    let fitting = delays.partition_point(fits);
    let joined_below_ns = fitting.checked_sub(1).map_or(1, |last| delays[last].max(1));
    let mut groups = Groups::below(joined_below_ns, weights, edges);
    let of_node = assign(&mut groups, edges, parts, total);
    let between = edges.iter().filter(|edge| of_node[edge.from] != of_node[edge.to]);
    let window_ns = between.map(|edge| edge.delay_ns).min().unwrap_or(u64::MAX);
    Division { of_node, parts, window_ns }
}

/// Assigns groups of nodes to partitions, in the order of a breadth-first search, so that
/// partitions have few links between them.
fn assign(groups: &mut Groups, edges: &[Edge], parts: usize, total: u64) -> Vec<u16> {
    let nodes = groups.parent.len();
    let mut near: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    for edge in edges {
        near[edge.from].push(edge.to as u32);
    }
    // The search begins at the edge of the network: far away from an arbitrary node.
    let start = search(&near, 0).last().copied().unwrap_or(0);
    let mut part_of_root: Vec<Option<u16>> = vec![None; nodes];
    let mut before = 0;
    for node in search(&near, start) {
        let root = groups.root(node);
        if part_of_root[root].is_none() {
            let middle = u128::from(before + groups.weight[root] / 2);
            let part = middle * parts as u128 / u128::from(total.max(1));
            part_of_root[root] = Some(part.min(parts as u128 - 1) as u16);
            before += groups.weight[root];
        }
    }
    (0..nodes).map(|node| part_of_root[groups.root(node)].unwrap_or(0)).collect()
}

/// Returns all nodes in the order of a breadth-first search from `start`, then from those that it
/// does not reach.
fn search(near: &[Vec<u32>], start: usize) -> Vec<usize> {
    let (mut is_known, mut order) = (vec![false; near.len()], Vec::with_capacity(near.len()));
    for from in std::iter::once(start).chain(0..near.len()).filter(|from| *from < near.len()) {
        let mut queue = VecDeque::new();
        if !std::mem::replace(&mut is_known[from], true) {
            queue.push_back(from);
        }
        while let Some(node) = queue.pop_front() {
            order.push(node);
            for other in near[node].iter().map(|other| *other as usize) {
                if !std::mem::replace(&mut is_known[other], true) {
                    queue.push_back(other);
                }
            }
        }
    }
    order
}

/// Groups of nodes that stay together (union-find).
struct Groups {
    parent: Vec<usize>,
    /// Weight of the group, at its root.
    weight: Vec<u64>,
}

impl Groups {
    /// Returns the groups that edges with a delay below `delay_ns` join.
    fn below(delay_ns: u64, weights: &[u64], edges: &[Edge]) -> Self {
        let mut groups = Groups { parent: (0..weights.len()).collect(), weight: weights.to_vec() };
        for edge in edges.iter().filter(|edge| edge.delay_ns < delay_ns) {
            groups.join(edge.from, edge.to);
        }
        groups
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let (light, heavy) = if self.weight[a] < self.weight[b] { (a, b) } else { (b, a) };
        self.parent[light] = heavy;
        self.weight[heavy] += self.weight[light];
    }

    /// Returns the weight of the heaviest group.
    fn heaviest(&self) -> u64 {
        let roots = self.parent.iter().enumerate().filter(|(node, parent)| node == *parent);
        roots.map(|(node, _)| self.weight[node]).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both directions of links: two nodes, and a delay.
    fn edges(links: &[[usize; 3]]) -> Vec<Edge> {
        let both = |[a, b, delay_ns]: &[usize; 3]| {
            [[*a, *b], [*b, *a]].map(|[from, to]| Edge { from, to, delay_ns: *delay_ns as u64 })
        };
        links.iter().flat_map(both).collect()
    }

    #[test]
    fn short_links_stay_within_a_partition() {
        // Two sites of three nodes each, joined by a long link.
        let links = [[0, 1, 5], [1, 2, 5], [2, 3, 1000], [3, 4, 5], [4, 5, 5]];
        let division = divide(&[1; 6], &edges(&links), 2);
        assert_eq!(division.window_ns, 1000);
        let of = &division.of_node;
        assert!(of[0] == of[1] && of[1] == of[2] && of[3] == of[4] && of[4] == of[5] && of[0] != of[3]);
    }

    #[test]
    fn equal_links_give_balanced_partitions() {
        let links: Vec<_> = (1..100).map(|node| [node - 1, node, 7]).collect();
        for parts in 1..=4 {
            let division = divide(&[1; 100], &edges(&links), parts);
            let sizes = (0..parts)
                .map(|part| division.of_node.iter().filter(|own| usize::from(**own) == part).count());
            assert!(sizes.clone().all(|size| size.abs_diff(100 / parts) <= 1), "{parts}");
            assert_eq!(division.window_ns, if parts == 1 { u64::MAX } else { 7 });
            let cuts = links.iter().filter(|[a, b, _]| division.of_node[*a] != division.of_node[*b]);
            assert_eq!(cuts.count(), parts - 1, "a line is cut once for each partition");
        }
    }

    #[test]
    fn nodes_without_delay_are_never_separated() {
        let links = [[0, 1, 0], [1, 2, 0], [2, 3, 0]];
        let division = divide(&[1; 4], &edges(&links), 3);
        assert!(division.of_node.iter().all(|part| *part == division.of_node[0]));
        assert_eq!(division.window_ns, u64::MAX);
        assert!(divide(&[], &[], 3).of_node.is_empty());
    }
}
