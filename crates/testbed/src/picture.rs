//! Draws a testbed as a picture (SVG).

use std::f64::consts::TAU;
use std::fmt::Write;

use crate::file::{Network, Testbed};
use crate::network::devices;

/// Distance between two positions of the grid.
const STEP: f64 = 150.0;

/// Margin around the picture.
const MARGIN: f64 = 90.0;

/// Draws nodes, links and segments. Nodes without a `place` are arranged on a circle.
pub fn svg(testbed: &Testbed) -> String {
    let places = places(testbed);
    let at = |name: &str| {
        let n = testbed.nodes.iter().position(|node| node.name.get_ref() == name);
        n.and_then(|n| places.get(n)).copied().unwrap_or_default()
    };
    let far = |axis: usize| places.iter().map(|place| place[axis]).fold(0.0, f64::max) + MARGIN;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0} {1:.0}\" width=\"{0:.0}\" height=\"{1:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n<title>{2}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
        far(0),
        far(1),
        escaped(testbed.name())
    );
    let devices = devices(testbed);
    for (n, network) in testbed.networks().iter().enumerate() {
        let ends: Vec<[f64; 2]> = network.nodes.iter().map(|node| at(node)).collect();
        let middle =
            [0, 1].map(|axis| ends.iter().map(|end| end[axis]).sum::<f64>() / ends.len().max(1) as f64);
        let own = devices.iter().filter(|device| device.addresses.network == n);
        for (end, device) in ends.iter().zip(own) {
            line(&mut svg, *end, middle);
            let near = [0, 1].map(|axis| end[axis] + (middle[axis] - end[axis]) * near(*end, middle));
            label(&mut svg, near, &device.name, "#666", 10);
        }
        if network.is_segment {
            let [x, y] = middle;
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"64\" height=\"22\" rx=\"4\" fill=\"#eee\" stroke=\"#888\"/>",
                x - 32.0,
                y - 11.0
            );
            label(&mut svg, [x, y + 4.0], &network.name, "#333", 12);
        }
        let below = if network.is_segment { 26.0 } else { -4.0 };
        label(&mut svg, [middle[0], middle[1] + below], &shape(network), "#06c", 10);
    }
    for (node, [x, y]) in testbed.nodes.iter().zip(&places) {
        let router = testbed.settings(node).router != Some(false);
        let fill = if router { "#dff0d8" } else { "#f5f5f5" };
        let _ =
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"26\" fill=\"{fill}\" stroke=\"#4a4\"/>");
        label(&mut svg, [*x, y + 4.0], node.name.get_ref(), "black", 12);
    }
    svg + "</svg>\n"
}

/// Returns the position of each node.
fn places(testbed: &Testbed) -> Vec<[f64; 2]> {
    let count = testbed.nodes.len();
    let radius = (count as f64 * STEP / TAU).max(STEP * 0.75);
    let nodes = testbed.nodes.iter().enumerate();
    let places: Vec<[f64; 2]> = nodes
        .map(|(n, node)| match node.place {
            Some(place) => place.map(|unit| unit * STEP),
            None => {
                let angle = n as f64 * TAU / count.max(1) as f64 - TAU / 4.0;
                [angle.cos() * radius, angle.sin() * radius]
            }
        })
        .collect();
    let least = [0, 1].map(|axis| places.iter().map(|place| place[axis]).fold(f64::INFINITY, f64::min));
    places.into_iter().map(|[x, y]| [x - least[0] + MARGIN, y - least[1] + MARGIN]).collect()
}

/// Returns the position of a device's name, as a share of the way from the node to the middle.
fn near(end: [f64; 2], middle: [f64; 2]) -> f64 {
    let far = (middle[0] - end[0]).hypot(middle[1] - end[1]);
    if far > 1.0 { (40.0 / far).min(0.6) } else { 0.0 }
}

fn shape(network: &Network<'_>) -> String {
    let mut words = Vec::new();
    if let Some(rate) = network.shape.rate {
        let (value, unit) = match rate.0 {
            bits @ 1_000_000_000.. => (bits as f64 / 1e9, "Gbit/s"),
            bits @ 1_000_000.. => (bits as f64 / 1e6, "Mbit/s"),
            bits => (bits as f64 / 1e3, "kbit/s"),
        };
        words.push(format!("{value} {unit}"));
    }
    words.extend(network.shape.delay.map(|delay| format!("{:?}", delay.0)));
    words.extend(network.shape.loss.map(|loss| format!("{:.3} % lost", loss.0 * 100.0)));
    let mut mtus = network.mtus.clone();
    mtus.dedup();
    if mtus != [1500] && !mtus.is_empty() {
        let mtus: Vec<String> = mtus.iter().map(u32::to_string).collect();
        words.push(format!("MTU {}", mtus.join("/")));
    }
    words.join(", ")
}

fn line(svg: &mut String, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#888\" stroke-width=\"1.5\"/>"
    );
}

fn label(svg: &mut String, [x, y]: [f64; 2], text: &str, colour: &str, size: u32) {
    if !text.is_empty() {
        let text = escaped(text);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\" font-size=\"{size}\">{text}</text>"
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_node_segment_and_shape_is_drawn() {
        let file = "[testbed]\nname = \"a <b>\"\n[[node]]\nname = \"x\"\nplace = [0, 0]\n[[node]]\nname = \"y\"\n\
                    [[segment]]\nname = \"lan\"\nnodes = [\"x\", \"y\"]\nrate = \"10mbit\"\nmtus = { y = 127 }\n";
        let svg = svg(&Testbed::parse(file, Path::new("t.toml")).unwrap());
        for part in ["<title>a &lt;b&gt;</title>", ">x<", ">y<", ">lan<", "10 Mbit/s, MTU 1500/127", "</svg>"]
        {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
