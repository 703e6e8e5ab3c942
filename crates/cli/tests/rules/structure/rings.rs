//! Rings: sets of files that import one another, directly or through others.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

/// The strongly connected components of at least two nodes, the largest first.
pub(super) fn rings<N: Copy + Ord + Hash>(graph: &BTreeMap<N, BTreeSet<N>>) -> Vec<Vec<N>> {
    let reach: BTreeMap<N, BTreeSet<N>> = graph.keys().map(|node| (*node, reachable(graph, *node))).collect();
    let mut left: BTreeSet<N> = graph.keys().copied().collect();
    let mut rings = Vec::new();
    while let Some(node) = left.pop_first() {
        let leads_back = |other: &&N| reach[*other].contains(&node);
        let ring: Vec<N> = reach[&node].iter().filter(leads_back).copied().collect();
        ring.iter().for_each(|node| _ = left.remove(node));
        if ring.len() > 1 {
            rings.push(ring);
        }
    }
    rings.sort_by_key(|ring| std::cmp::Reverse(ring.len()));
    rings
}

/// All nodes to which a path of at least one edge leads from `from`. Each node of a ring reaches
/// itself.
fn reachable<N: Copy + Ord>(graph: &BTreeMap<N, BTreeSet<N>>, from: N) -> BTreeSet<N> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(node) = next.pop() {
        let edges = graph.get(&node).into_iter().flatten().copied();
        next.extend(edges.filter(|node| reached.insert(*node)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u8, u8)]) -> BTreeMap<u8, BTreeSet<u8>> {
        let mut graph: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry(*to).or_default();
            graph.entry(*from).or_default().insert(*to);
        }
        graph
    }

    #[test]
    fn a_chain_is_no_ring() {
        assert!(rings(&graph(&[(1, 2), (2, 3), (1, 3)])).is_empty());
    }

    #[test]
    fn each_ring_is_found_once() {
        let found = rings(&graph(&[(1, 2), (2, 1), (2, 3), (3, 4), (4, 5), (5, 3)]));
        assert_eq!(found, [vec![3, 4, 5], vec![1, 2]]);
    }
}
