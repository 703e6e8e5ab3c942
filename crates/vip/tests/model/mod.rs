//! The exact model's scenarios and answers, as `golden/extract.py` wrote them.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use namely_testkit::{Need, or_skip, skip};
use namely_vip::{Decay, NOWHERE, Object, Objects, PlacementSource, Plane, PlaneConfig, Tier, UNIT};
use serde_json::Value;

/// The folder of the model, if it is not beside the checkout.
const MODEL_FOLDER: &str = "NAMELY_VIP_MODEL";

/// The folder of `crates/vip`. The simulator's tests use this module, too.
fn here() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../vip"))
}

/// The recorded results.
pub(crate) fn golden(what: &str) -> Vec<Value> {
    let path = here().join("tests/golden").join(what).with_extension("json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    value.as_array().expect("a list").clone()
}

/// Runs the model again, if it is available, and compares.
pub(crate) fn compare_with_the_model(what: &str) {
    let folder = std::env::var_os(MODEL_FOLDER).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| here().join("../../../shared/oracles"));
    if !folder.join("vip_plane.py").exists() {
        return skip(Need::Requirements, "the model of VIP is not here: NAMELY_VIP_MODEL names its folder");
    }
    let script = here().join("tests/golden/extract.py");
    let mut python = Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).arg(folder).arg(what);
    let Some(output) = or_skip(Need::Python, python.output()) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(said.as_array() == Some(&golden(what)), "golden/{what}.json differs from the model");
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

pub(crate) fn numbers(value: &Value) -> Vec<u64> {
    list(value).iter().map(number).collect()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// A scenario of the virtual plane.
pub(crate) struct Scenario {
    pub(crate) value: Value,
    /// Links by sender: neighbor and VIPs of a slot.
    pub(crate) links: Vec<Vec<(usize, u64)>>,
    draw: u64,
}

/// The common size of all objects of a scenario, so that VIPs per slot are octets per slot.
pub(crate) const OCTETS: u64 = UNIT;

impl Scenario {
    pub(crate) fn all() -> Vec<Self> {
        golden("plane").into_iter().map(Self::new).collect()
    }

    fn new(value: Value) -> Self {
        let mut links = vec![Vec::new(); number(&value["nodes"]) as usize];
        for link in list(&value["links"]) {
            let link = numbers(link);
            links[link[0] as usize].push((link[1] as usize, link[2]));
        }
        links.iter_mut().for_each(|links| links.sort_unstable());
        let draw = value["arrivals"]["seed"].as_u64().unwrap_or(0);
        Scenario { value, links, draw }
    }

    pub(crate) fn name(&self) -> &str {
        self.value["name"].as_str().expect("a name")
    }

    pub(crate) fn nodes(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn objects(&self) -> usize {
        number(&self.value["objects"]) as usize
    }

    pub(crate) fn slots(&self) -> u64 {
        number(&self.value["slots"])
    }

    /// The place of neighbor `b` among those of `a`.
    pub(crate) fn place(&self, a: usize, b: usize) -> usize {
        self.links[a].iter().position(|(n, _)| *n == b).expect("a neighbor")
    }

    /// The objects, with ids in the order of their indices.
    pub(crate) fn catalogue(&self) -> Objects {
        let objects = (0..self.objects()).map(|k| Object { id: 1000 + k as u64, octets: OCTETS });
        Objects::new(objects.collect()).expect("a catalogue")
    }

    /// Returns the configuration of the plane of node `n`.
    pub(crate) fn config(&self, n: usize) -> PlaneConfig {
        let room = number(&self.value["room"][n]);
        let rate = number(&self.value["reads"][n]);
        PlaneConfig {
            amplification: number(&self.value["alpha"]) as u8,
            decay: Decay::from_factor(number(&self.value["decay"])),
            follow: if self.value["follow"] == "vip" {
                PlacementSource::Counts
            } else {
                PlacementSource::Scores
            },
            tiers: vec![Tier { octets: room * OCTETS, rate, admit: 0, evict: 0 }],
            weight: 0,
        }
    }

    /// Sets routes, capacities, sources and the objects that are cached at the start.
    pub(crate) fn set_up(&self, n: usize, plane: &mut Plane) {
        for (b, (_, octets)) in self.links[n].iter().enumerate() {
            plane.set_capacity(b, *octets);
        }
        for k in 0..self.objects() {
            let hops = numbers(&self.value["hops"][n][k]);
            plane.set_hops(k, hops.iter().map(|b| self.place(n, *b as usize)));
            plane.set_source(k, number(&self.value["source"][k]) == n as u64);
        }
        for k in numbers(&self.value["held"][n]) {
            plane.hold(k as usize, 0);
        }
    }

    /// The requests of the next slot: node, object, VIPs.
    pub(crate) fn arrivals(&mut self) -> Vec<(usize, usize, u64)> {
        let steady = self.value["arrivals"].get("steady");
        let from = steady.unwrap_or(&self.value["arrivals"]["below"]).as_object().expect("nodes");
        let mut rows: Vec<(usize, Vec<u64>)> =
            from.iter().map(|(n, v)| (n.parse().expect("a node"), numbers(v))).collect();
        rows.sort_unstable();
        let is_steady = steady.is_some();
        let mut arrivals = Vec::new();
        for (n, row) in rows {
            for (k, x) in row.into_iter().enumerate() {
                let vips = if is_steady { x } else { UNIT * u64::from(self.next32() < x) };
                if vips > 0 {
                    arrivals.push((n, k, vips));
                }
            }
        }
        arrivals
    }

    fn next32(&mut self) -> u64 {
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.draw >> 32
    }

    /// The result of a slot, in the form of the digests.
    pub(crate) fn record<'a>(
        &self,
        planes: impl Iterator<Item = &'a Plane> + Clone,
        counts: &mut Vec<u8>,
        moved: &mut Vec<u8>,
    ) {
        for plane in planes.clone() {
            for number in plane.counts().iter().chain(plane.scores()) {
                counts.extend(number.to_be_bytes());
            }
            moved.extend(plane.placed().iter().map(|tier| u8::from(*tier != NOWHERE)));
        }
        for (n, plane) in planes.enumerate() {
            for b in 0..self.links[n].len() {
                let mut row = vec![0u64; self.objects()];
                if let Some((k, sent)) = plane.sent(b) {
                    row[k] = sent;
                }
                row.iter().for_each(|sent| moved.extend(sent.to_be_bytes()));
            }
        }
    }

    /// Compares the kept objects and the next hops with the model's.
    pub(crate) fn compare_the_end<'a>(&self, planes: impl Iterator<Item = &'a Plane>) {
        for (n, plane) in planes.enumerate() {
            assert_eq!(plane.counts(), numbers(&self.value["counts"][n]), "{} node {n}", self.name());
            for k in 0..self.objects() {
                let direction = plane.direction(k).map(|b| self.links[n][b].0 as u64);
                assert_eq!(
                    direction,
                    self.value["direction"][n][k].as_u64(),
                    "{} node {n}, {k}",
                    self.name()
                );
            }
        }
    }
}

/// A digest in text.
pub(crate) fn hex(octets: &[u8]) -> String {
    namely_security::sha256(octets).iter().map(|octet| format!("{octet:02x}")).collect()
}
