//! Paths of least delay (Dijkstra), for [`crate::Network::announce`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One direction of a link. Its index in the list is its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) delay_ns: u64,
}

/// Returns, for each node that can reach `target` except itself, the node and the first edge of its
/// shortest path. Of equal paths the one over the lower-numbered edge is chosen.
pub(crate) fn towards(target: usize, nodes: usize, edges: &[Edge]) -> Vec<(usize, usize)> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (number, edge) in edges.iter().enumerate() {
        into[edge.to].push(number);
    }
    let mut best: Vec<Option<usize>> = vec![None; nodes];
    let mut done = vec![false; nodes];
    let mut heap = BinaryHeap::from([Reverse((0u64, usize::MAX, target))]);
    while let Some(Reverse((delay_ns, by, node))) = heap.pop() {
        if std::mem::replace(&mut done[node], true) {
            continue;
        }
        best[node] = (by != usize::MAX).then_some(by);
        for number in &into[node] {
            let edge = edges[*number];
            if !done[edge.from] {
                heap.push(Reverse((delay_ns.saturating_add(edge.delay_ns), *number, edge.from)));
            }
        }
    }
    best.into_iter().enumerate().filter_map(|(node, by)| Some((node, by?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_of_least_delay_is_used() {
        let edge = |from, to, delay_ns| Edge { from, to, delay_ns };
        let edges = [edge(0, 2, 10), edge(0, 1, 3), edge(1, 2, 3), edge(2, 0, 1)];
        assert_eq!(towards(2, 4, &edges), [(0, 1), (1, 2)]);
    }
}
