//! Maps of Rocketfuel (Spring et al., 2002), in both published formats.
//!
//! A router-level map (`.cch`) has a line for each router:
//! `uid @loc [+] [bb] (neighbors) [&external] -> <uid> … {-external} … =name[!] rN`. Lines that
//! begin with a negative number are addresses outside of the network, and are left out as links to
//! them are.
//!
//! A map with weights or latencies (`weights.intra`, `latencies.intra`) has a line for each
//! direction of a link: two names of routers, and a number.

use std::collections::{BTreeMap, BTreeSet};

use super::{NODES_MAX, Topology};
use crate::link::LinkSpec;
use crate::units::MS;

/// Octets of a map.
///
/// # Limit
/// A larger map is refused.
/// - Tests: `maps_have_limits`
pub const MAP_OCTETS_MAX: usize = 16 << 20;

/// Links of a map.
///
/// # Limit
/// A map with more links is refused.
/// - Tests: `maps_have_limits`
pub const MAP_LINKS_MAX: usize = 1_000_000;

/// Links within one location are so many times shorter than others in a router-level map, which has
/// no delays.
const NEARER: u64 = 10;

/// Longest delay in a map with latencies, ms.
const DELAY_MS_MAX: f64 = 10_000.0;

/// A map is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// It has too many octets.
    #[error("a map of more than {MAP_OCTETS_MAX} octets")]
    TooLong,
    /// It has no links.
    #[error("a map without links")]
    Empty,
    /// It has too many routers or links.
    #[error("line {line}: more than {NODES_MAX} routers or {MAP_LINKS_MAX} links")]
    TooLarge {
        /// The line, counted from 1.
        line: usize,
    },
    /// A line of a router-level map does not begin with a number.
    #[error("line {line}: no number of a router")]
    NoRouter {
        /// The line, counted from 1.
        line: usize,
    },
    /// A neighbor of a router-level map is no number.
    #[error("line {line}: a neighbor that is no number")]
    NoNeighbor {
        /// The line, counted from 1.
        line: usize,
    },
    /// A line of a map with weights is not two names and a number from 0 to 10,000.
    #[error("line {line}: not two names and a number from 0 to 10,000")]
    NoWeight {
        /// The line, counted from 1.
        line: usize,
    },
}

/// Reads a router-level map. Links between locations have the properties `spec`, and those within
/// one a tenth of its delay.
///
/// # Errors
/// The first line that is not usable.
pub fn parse_cch(text: &str, spec: LinkSpec) -> Result<Topology, MapError> {
    let mut map = Map::of(text)?;
    let mut locations: BTreeMap<usize, &str> = BTreeMap::new();
    for (line, fields) in lines(text) {
        let mut fields = fields.split_whitespace();
        let uid = fields.next().and_then(|uid| uid.parse::<i64>().ok()).ok_or(MapError::NoRouter { line })?;
        if uid < 0 {
            continue;
        }
        let router = map.router(uid, line)?;
        for field in fields {
            if let Some(location) = field.strip_prefix('@') {
                locations.insert(router, location);
            }
            let Some(neighbor) = field.strip_prefix('<') else { continue };
            let neighbor = neighbor.strip_suffix('>').and_then(|uid| uid.parse::<u32>().ok());
            let neighbor = map.router(i64::from(neighbor.ok_or(MapError::NoNeighbor { line })?), line)?;
            map.link(router, neighbor, line)?;
        }
    }
    map.topology(|[a, b]| {
        let is_near = locations.get(&a).is_some_and(|location| locations.get(&b) == Some(location));
        let delay_ns = if is_near { spec.delay_ns / NEARER } else { spec.delay_ns };
        LinkSpec { delay_ns, ..spec }
    })
}

/// Reads a map with weights or latencies, in milliseconds. Links have the other properties of
/// `spec`.
///
/// # Errors
/// The first line that is not usable.
pub fn parse_weights(text: &str, spec: LinkSpec) -> Result<Topology, MapError> {
    let mut map = Map::of(text)?;
    let mut delays: BTreeMap<[usize; 2], u64> = BTreeMap::new();
    for (line, fields) in lines(text) {
        let fields: Vec<&str> = fields.split_whitespace().take(4).collect();
        let [one, other, weight] = fields[..] else { return Err(MapError::NoWeight { line }) };
        let weight = weight.parse::<f64>().ok().filter(|weight| (0.0..=DELAY_MS_MAX).contains(weight));
        let delay_ns = (weight.ok_or(MapError::NoWeight { line })? * MS as f64) as u64;
        let (one, other) = (map.router(one, line)?, map.router(other, line)?);
        if let Some(ends) = map.link(one, other, line)? {
            // Of different directions the shorter delay counts.
            let known = delays.entry(ends).or_insert(delay_ns);
            *known = delay_ns.min(*known);
        }
    }
    map.topology(|ends| LinkSpec { delay_ns: delays.get(&ends).copied().unwrap_or(spec.delay_ns), ..spec })
}

/// Lines that are neither empty nor comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Routers by their keys, and links.
struct Map<K> {
    routers: BTreeMap<K, usize>,
    links: BTreeSet<[usize; 2]>,
}

impl<K: Ord> Map<K> {
    fn of(text: &str) -> Result<Self, MapError> {
        if text.len() > MAP_OCTETS_MAX {
            return Err(MapError::TooLong);
        }
        Ok(Map { routers: BTreeMap::new(), links: BTreeSet::new() })
    }

    /// Returns the index of a router, which may be new.
    fn router(&mut self, key: K, line: usize) -> Result<usize, MapError> {
        let count = self.routers.len();
        let index = *self.routers.entry(key).or_insert(count);
        if index < NODES_MAX { Ok(index) } else { Err(MapError::TooLarge { line }) }
    }

    /// Adds a link, if it is new. Returns its ends in ascending order; none for a router's link to
    /// itself.
    fn link(&mut self, a: usize, b: usize, line: usize) -> Result<Option<[usize; 2]>, MapError> {
        if a == b {
            return Ok(None);
        }
        let ends = [a.min(b), a.max(b)];
        self.links.insert(ends);
        if self.links.len() <= MAP_LINKS_MAX { Ok(Some(ends)) } else { Err(MapError::TooLarge { line }) }
    }

    fn topology(self, spec: impl Fn([usize; 2]) -> LinkSpec) -> Result<Topology, MapError> {
        if self.links.is_empty() {
            return Err(MapError::Empty);
        }
        let nodes = self.routers.len();
        let mut topology = Topology { nodes, edge: (0..nodes).collect(), ..Topology::default() };
        self.links.into_iter().for_each(|[a, b]| topology.link(a, b, spec([a, b])));
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made for this test; it describes no network.
    const CCH: &str = "\
7 @East,+XX + bb (2) &1 -> <12> <9> {-5} =r7.example r0
12 @East,+XX (1) -> <7> =r12.example! r1
9 @West,+XX bb (1) -> <7> <9> =r9.example r0
-5 =192.0.2.5 r1
";

    const WEIGHTS: &str = "\
# two names and a number
East,+XX7 West,+XX9 12.5
West,+XX9 East,+XX7 13
East,+XX7 East,+XX12 0
";

    #[test]
    fn router_level_maps_have_locations() {
        let topology = parse_cch(CCH, LinkSpec::default()).unwrap();
        assert_eq!((topology.nodes, topology.edge.len()), (3, 3));
        let links: Vec<_> = topology.links.iter().map(|link| (link.ends, link.spec.delay_ns)).collect();
        assert_eq!(links, [([0, 1], MS / 10), ([0, 2], MS)]);
    }

    #[test]
    fn weights_are_delays_of_links() {
        let topology = parse_weights(WEIGHTS, LinkSpec::default()).unwrap();
        let links: Vec<_> = topology.links.iter().map(|link| (link.ends, link.spec.delay_ns)).collect();
        assert_eq!(links, [([0, 1], 12_500_000), ([0, 2], 0)]);
    }

    #[test]
    fn an_invalid_map_is_refused_by_line() {
        let cch = |text: &str| parse_cch(text, LinkSpec::default()).unwrap_err();
        assert_eq!(cch(""), MapError::Empty);
        assert_eq!(cch("1 @A -> <2>\nx @B"), MapError::NoRouter { line: 2 });
        assert_eq!(cch("1 @A -> <2>\n\n3 -> <x>"), MapError::NoNeighbor { line: 3 });
        assert_eq!(cch("1 -> <-2>"), MapError::NoNeighbor { line: 1 });
        let weights = |text: &str| parse_weights(text, LinkSpec::default()).unwrap_err();
        for text in ["a b", "a b x", "a b -1", "a b 10001", "a b nan", "a b 1 2"] {
            assert_eq!(weights(text), MapError::NoWeight { line: 1 }, "{text}");
        }
        assert!(parse_weights("a b 10000", LinkSpec::default()).is_ok());
    }

    #[test]
    fn maps_have_limits() {
        let spaces = " ".repeat(MAP_OCTETS_MAX);
        assert_eq!(parse_cch(&spaces, LinkSpec::default()), Err(MapError::Empty));
        assert_eq!(parse_cch(&(spaces + " "), LinkSpec::default()), Err(MapError::TooLong));
        let mut map: Map<usize> = Map::of("").unwrap();
        assert!((0..NODES_MAX).all(|key| map.router(key, 1) == Ok(key)));
        assert_eq!(map.router(NODES_MAX, 2), Err(MapError::TooLarge { line: 2 }));
        map.links = (0..MAP_LINKS_MAX).map(|n| [n, n + 1]).collect();
        assert_eq!(map.link(1, 0, 3), Ok(Some([0, 1])), "it is there already");
        assert_eq!(map.link(2, 0, 3), Err(MapError::TooLarge { line: 3 }));
    }
}
