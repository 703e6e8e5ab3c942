//! Placeholders in a file's command lines, for values that the testbed chooses.

use std::path::Path;

use crate::file::Testbed;
use crate::network::{Device, devices};

/// Substitutes `{node}`, `{dir}` and `{socket}`, and, for a neighbor `b`, `{addr:b}`, `{mac:b}`
/// and `{dev:b}`: its IPv4 and Ethernet addresses, and the node's own device towards it. They refer
/// to the first network that has both nodes. Other braces stay unchanged.
pub(crate) fn fill(testbed: &Testbed, folder: &Path, node: &str, text: &str) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled += before;
        let inside = after.split_once('}').filter(|(inside, _)| !inside.contains(['{', '\n', '"']));
        let value = match inside.map(|(inside, _)| inside.split_once(':').unwrap_or((inside, ""))) {
            Some(("node", "")) => Some(node.to_owned()),
            Some(("dir", "")) => Some(folder.join(node).display().to_string()),
            Some(("socket", "")) => Some(format!("/run/{node}/namely.sock")),
            Some((what @ ("addr" | "mac" | "dev"), peer)) => Some(neighbour(testbed, node, what, peer)?),
            _ => None,
        };
        match (value, inside) {
            (Some(value), Some((_, after))) => {
                filled += &value;
                rest = after;
            }
            _ => {
                filled.push('{');
                rest = after;
            }
        }
    }
    Ok(filled + rest)
}

fn neighbour(testbed: &Testbed, node: &str, what: &str, peer: &str) -> Result<String, String> {
    let devices = devices(testbed);
    let of = |name: &str, network: usize| {
        devices.iter().find(|device| device.node == name && device.addresses.network == network)
    };
    let mut own = devices.iter().filter(|device| device.node == node);
    let pair: Option<(&Device, &Device)> =
        own.find_map(|device| Some((device, of(peer, device.addresses.network)?)));
    match (pair, what) {
        _ if node == peer => own_address(&devices, node, what),
        (Some((_, its)), "addr") => Ok(its.addresses.ipv4()),
        (Some((_, its)), "mac") => Ok(its.addresses.ethernet()),
        (Some((own, _)), _) => Ok(own.name.clone()),
        (None, _) => Err(format!("{{{what}:{peer}}} on `{node}`: no link or segment joins the two")),
    }
}

fn own_address(devices: &[Device], node: &str, what: &str) -> Result<String, String> {
    let first = devices.iter().find(|device| device.node == node);
    let first = first.ok_or_else(|| format!("{{{what}:{node}}}: `{node}` is on no link or segment"))?;
    Ok(match what {
        "addr" => first.addresses.ipv4(),
        "mac" => first.addresses.ethernet(),
        _ => first.name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[node]]\nname = \"c\"\n\
                        [[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\nbetween = [\"c\", \"b\"]\n";

    #[test]
    fn placeholders_become_neighbor_addresses() {
        let testbed = Testbed::parse(FILE, Path::new("t.toml")).unwrap();
        let fill = |node: &str, text: &str| fill(&testbed, Path::new("/r"), node, text);
        assert_eq!(fill("a", "{node} {dir} {socket}").unwrap(), "a /r/a /run/a/namely.sock");
        assert_eq!(fill("b", "{addr:c} {mac:c} {dev:c}").unwrap(), "10.0.1.1 02:00:00:00:01:01 eth1");
        assert_eq!(fill("b", "{addr:b}").unwrap(), "10.0.0.2");
        assert_eq!(
            fill("a", "awk '{print $1}' ${x} { a = 1 } {").unwrap(),
            "awk '{print $1}' ${x} { a = 1 } {"
        );
        assert!(fill("a", "{addr:c}").unwrap_err().contains("no link or segment joins"));
    }
}
