//! Packets as text.

use namely_dissect::{DEPTH_MAX, NODES_MAX, Node, summary, to_text};

/// Any octets can be dissected, within the limits.
pub(crate) fn dissect(octets: &[u8]) {
    let nodes = namely_dissect::dissect(octets);
    let mut count = 0;
    nodes.iter().for_each(|node| check(node, octets, 1, &mut count));
    // Each level may end with one note that nodes were left out.
    assert!(count <= NODES_MAX + DEPTH_MAX);
    assert_eq!(nodes.is_empty(), octets.is_empty());
    assert_eq!(to_text(octets).lines().count(), count);
    assert_eq!(summary(octets).lines().count(), 1);
}

fn check(node: &Node, octets: &[u8], depth: usize, count: &mut usize) {
    *count += 1;
    assert!(depth <= DEPTH_MAX);
    assert!(node.offset + node.length <= octets.len());
    assert!(!node.text.contains('\n'));
    node.children.iter().for_each(|child| check(child, octets, depth + 1, count));
}
