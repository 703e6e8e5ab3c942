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

/// Edges by their nodes.
pub(crate) struct Graph<'a> {
    edges: &'a [Edge],
    into: Vec<Vec<u32>>,
    out: Vec<Vec<u32>>,
}

/// Next hops of a node: numbers of edges, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NextHops {
    pub(crate) node: usize,
    pub(crate) edges: Vec<usize>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(nodes: usize, edges: &'a [Edge]) -> Self {
        let (mut into, mut out) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (number, edge) in edges.iter().enumerate() {
            into[edge.to].push(number as u32);
            out[edge.from].push(number as u32);
        }
        Graph { edges, into, out }
    }

    /// Returns, for each node that can reach `target` except itself, at most `paths` next hops. The
    /// first is the edge of the shortest path, of equal ones that with the lower-numbered edge. The
    /// others lead to nodes that are closer to the target, so that no combination is a loop.
    pub(crate) fn towards(&self, target: usize, paths: usize) -> Vec<NextHops> {
        let nodes = self.into.len();
        let mut best: Vec<Option<u32>> = vec![None; nodes];
        let mut distance_ns = vec![u64::MAX; nodes];
        let mut heap = BinaryHeap::from([Reverse((0u64, u32::MAX, target))]);
        while let Some(Reverse((delay_ns, by, node))) = heap.pop() {
            if distance_ns[node] != u64::MAX {
                continue;
            }
            distance_ns[node] = delay_ns.min(u64::MAX - 1);
            best[node] = (by != u32::MAX).then_some(by);
            for number in &self.into[node] {
                let edge = self.edges[*number as usize];
                if distance_ns[edge.from] == u64::MAX {
                    heap.push(Reverse((delay_ns.saturating_add(edge.delay_ns), *number, edge.from)));
                }
            }
        }
        let next_hops = |(node, by): (usize, &Option<u32>)| {
            let first = (*by)? as usize;
            let mut edges = vec![first];
            if paths > 1 {
                edges.extend(self.alternatives(node, first, &distance_ns).into_iter().take(paths - 1));
            }
            Some(NextHops { node, edges })
        };
        best.iter().enumerate().filter_map(next_hops).collect()
    }

    /// Returns the other edges of `node` to nodes that are closer to the target, the best first.
    fn alternatives(&self, node: usize, first: usize, distance_ns: &[u64]) -> Vec<usize> {
        let is_closer = |edge: &Edge| distance_ns[edge.to] < distance_ns[node];
        let others = self.out[node].iter().map(|number| *number as usize);
        let others = others.filter(|number| *number != first && is_closer(&self.edges[*number]));
        let mut others: Vec<usize> = others.collect();
        others.sort_by_key(|number| {
            let edge = self.edges[*number];
            distance_ns[edge.to].saturating_add(edge.delay_ns)
        });
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: usize, to: usize, delay_ns: u64) -> Edge {
        Edge { from, to, delay_ns }
    }

    #[test]
    fn the_route_of_least_delay_is_used() {
        let edges = [edge(0, 2, 10), edge(0, 1, 3), edge(1, 2, 3), edge(2, 0, 1)];
        let hops = Graph::new(4, &edges).towards(2, 1);
        assert_eq!(hops, [NextHops { node: 0, edges: vec![1] }, NextHops { node: 1, edges: vec![2] }]);
    }

    #[test]
    fn alternative_next_hops_cannot_loop() {
        // A square with a diagonal between two nodes that are equally far from the target.
        let mut edges = vec![edge(0, 1, 5), edge(0, 2, 5), edge(1, 3, 5), edge(2, 3, 5)];
        edges.extend([edge(1, 2, 1), edge(2, 1, 1), edge(1, 0, 5), edge(2, 0, 5), edge(0, 3, 30)]);
        let hops = Graph::new(4, &edges).towards(3, 3);
        let of = |node: usize| &hops.iter().find(|hops| hops.node == node).expect("a path").edges;
        assert_eq!(of(0), &[0, 1, 8]);
        assert_eq!((of(1)[..] == [2], of(2)[..] == [3]), (true, true));
        assert_eq!(Graph::new(4, &edges).towards(3, 2)[0].edges, [0, 1]);
    }
}
