//! docs/imports.svg, the picture of the imports between crates, matches the manifests.
//!
//! Crates stand in layers, each above all that it imports. An arrow that follows from others is
//! left out: if a imports b and b imports c, nothing is drawn from a to c.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{list, metadata, root, text};

/// If this variable has any value, the test writes the picture.
const RENEW: &str = "NAMELY_RENEW";

const PICTURE: &str = "docs/imports.svg";

/// The imports of each crate, except those of tests.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// A node of the picture: a crate, or a bend of an arrow that passes a layer.
#[derive(Clone, Debug)]
struct Node {
    name: Option<String>,
    layer: usize,
    /// Nodes of the layer below to which lines lead.
    below: Vec<usize>,
    /// Left edge and width.
    x: i64,
    width: i64,
}

const HEIGHT: i64 = 30;
const STEP: i64 = 84;
const GAP: i64 = 18;
const MARGIN: i64 = 24;

#[test]
fn the_import_picture_matches_the_manifests() {
    let picture = draw(&reduced(&imports()));
    let path = root().join(PICTURE);
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, &picture).expect("the picture can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == picture,
        "{PICTURE} is stale: renew it with {RENEW}=1 cargo test -p namely --test integration rules::picture, and look at it"
    );
}

#[test]
fn implied_arrows_are_left_out() {
    let set = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
    let imports = [("a", set(&["b", "c"])), ("b", set(&["c"])), ("c", set(&[]))];
    let imports: Imports = imports.map(|(name, of)| (name.to_owned(), of)).into();
    assert_eq!(reduced(&imports)["a"], set(&["b"]));
    assert_eq!(layers(&imports), [("a", 2), ("b", 1), ("c", 0)].map(|(n, l)| (n.to_owned(), l)).into());
}

/// The crates of the workspace, and the imports of each.
fn imports() -> Imports {
    let metadata = metadata();
    let imported = |package| {
        let own = |import: &&serde_json::Value| import["path"].is_string() && import["kind"].is_null();
        list(package, "dependencies").iter().filter(own).map(|import| short(text(import, "name"))).collect()
    };
    let packages = list(&metadata, "packages").iter();
    packages.map(|package| (short(text(package, "name")), imported(package))).collect()
}

fn short(name: &str) -> String {
    name.strip_prefix("namely-").unwrap_or(name).to_owned()
}

/// Returns the imports that no other imports imply.
fn reduced(imports: &Imports) -> Imports {
    fn reaches(imports: &Imports, from: &str, to: &str) -> bool {
        imports.get(from).is_some_and(|of| of.iter().any(|next| next == to || reaches(imports, next, to)))
    }
    let is_needed = |of: &BTreeSet<String>, to: &String| !of.iter().any(|next| reaches(imports, next, to));
    let needed = |of: &BTreeSet<String>| of.iter().filter(|to| is_needed(of, to)).cloned().collect();
    imports.iter().map(|(name, of)| (name.clone(), needed(of))).collect()
}

/// Returns the number of imports in the longest chain below each crate.
fn layers(imports: &Imports) -> BTreeMap<String, usize> {
    fn depth(imports: &Imports, name: &str) -> usize {
        let of = imports.get(name).into_iter().flatten();
        of.map(|next| 1 + depth(imports, next)).max().unwrap_or(0)
    }
    imports.keys().map(|name| (name.clone(), depth(imports, name))).collect()
}

/// The nodes of all crates and bends, and the order of each layer from left to right.
fn layout(imports: &Imports) -> (Vec<Node>, Vec<Vec<usize>>) {
    let layers = layers(imports);
    let mut nodes: Vec<Node> = Vec::new();
    let mut numbers = BTreeMap::new();
    for (name, &layer) in &layers {
        numbers.insert(name.clone(), nodes.len());
        let width = 22 + 8 * name.len() as i64;
        nodes.push(Node { name: Some(name.clone()), layer, below: Vec::new(), x: 0, width });
    }
    for (name, of) in imports {
        for to in of {
            let mut upper = numbers[name];
            for layer in (layers[to] + 1..layers[name]).rev() {
                nodes.push(Node { name: None, layer, below: Vec::new(), x: 0, width: 4 });
                let bend = nodes.len() - 1;
                nodes[upper].below.push(bend);
                upper = bend;
            }
            nodes[upper].below.push(numbers[to]);
        }
    }
    let top = layers.values().copied().max().unwrap_or(0);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); top + 1];
    (0..nodes.len()).for_each(|n| rows[nodes[n].layer].push(n));
    (nodes, rows)
}

/// Orders each layer by the positions of the neighbors, downwards and upwards in turn. Sets `x` of
/// each node.
fn arrange(nodes: &mut [Node], rows: &mut [Vec<usize>]) {
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (n, node) in nodes.iter().enumerate() {
        node.below.iter().for_each(|&lower| above[lower].push(n));
    }
    spread(nodes, rows);
    for round in 0..24 {
        let downwards = round % 2 == 0;
        let order: Vec<usize> =
            if downwards { (0..rows.len()).rev().collect() } else { (0..rows.len()).collect() };
        for row in order {
            let middle = |n: usize| {
                let beside = if downwards { &above[n] } else { &nodes[n].below };
                let sum: i64 = beside.iter().map(|&m| centre(&nodes[m])).sum();
                if beside.is_empty() { centre(&nodes[n]) } else { sum / beside.len() as i64 }
            };
            let wished: BTreeMap<usize, i64> = rows[row].iter().map(|&n| (n, middle(n))).collect();
            rows[row].sort_by_key(|n| wished[n]);
            settle(nodes, &rows[row], &wished);
        }
    }
    let left = nodes.iter().map(|node| node.x).min().unwrap_or(0);
    nodes.iter_mut().for_each(|node| node.x += MARGIN - left);
}

fn centre(node: &Node) -> i64 {
    node.x + node.width / 2
}

/// Places the nodes of every layer from the left.
fn spread(nodes: &mut [Node], rows: &[Vec<usize>]) {
    for row in rows {
        let mut x = 0;
        for &n in row {
            nodes[n].x = x;
            x += nodes[n].width + GAP;
        }
    }
}

/// Places the nodes of a layer, in their order, as near to the desired positions as their widths
/// allow.
fn settle(nodes: &mut [Node], row: &[usize], wished: &BTreeMap<usize, i64>) {
    let mut least = i64::MIN / 2;
    let mut shift = 0;
    for &n in row {
        let wish = wished[&n] - nodes[n].width / 2;
        nodes[n].x = wish.max(least);
        shift += nodes[n].x - wish;
        least = nodes[n].x + nodes[n].width + GAP;
    }
    // Nodes that were pushed to the right move back together, so that the layer keeps its middle.
    let back = shift / row.len().max(1) as i64;
    row.iter().for_each(|&n| nodes[n].x -= back);
}

fn draw(imports: &Imports) -> String {
    let (mut nodes, mut rows) = layout(imports);
    arrange(&mut nodes, &mut rows);
    let width = nodes.iter().map(|node| node.x + node.width).max().unwrap_or(0) + MARGIN;
    let y = |layer: usize| MARGIN + (rows.len() - 1 - layer) as i64 * STEP;
    let height = y(0) + HEIGHT + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>Which crate imports which; arrows that follow from others are left out</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0 0 8 4 0 8z\" fill=\"#789\"/></marker></defs>\n\
         <g fill=\"none\" stroke=\"#789\" stroke-width=\"1.2\">\n"
    );
    for node in nodes.iter().filter(|node| node.name.is_some()) {
        for &lower in &node.below {
            let _ = writeln!(svg, "{}", arrow(&nodes, node, lower, &y));
        }
    }
    svg += "</g>\n<g font-family=\"sans-serif\" font-size=\"14\" text-anchor=\"middle\">\n";
    for node in &nodes {
        let Some(name) = &node.name else { continue };
        let (x, top, width) = (node.x, y(node.layer), node.width);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"6\" fill=\"#eef3f8\" stroke=\"#345\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"#123\">{name}</text>",
            centre(node),
            top + 20
        );
    }
    svg + "</g>\n</svg>\n"
}

/// The arrow from a crate, around the nodes between, to an imported crate.
fn arrow(nodes: &[Node], from: &Node, first: usize, y: &impl Fn(usize) -> i64) -> String {
    let (mut x, mut at) = (centre(from), y(from.layer) + HEIGHT);
    let mut path = format!("<path d=\"M{x} {at}");
    let mut next = first;
    loop {
        let node = &nodes[next];
        let (to, top) = (centre(node), y(node.layer));
        let middle = (at + top) / 2;
        let _ = write!(path, "C{x} {middle} {to} {middle} {to} {top}");
        (x, at) = (to, top);
        match node.name {
            Some(_) => return path + "\" marker-end=\"url(#tip)\"/>",
            None => {
                at += HEIGHT;
                let _ = write!(path, "V{at}");
                next = node.below[0];
            }
        }
    }
}
