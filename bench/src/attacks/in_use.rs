//! Memory of the entries in a router's tables. It is not memory that an attack leaves behind: the
//! content store grows while consumers fetch, and Interests of neighbors are pending for a minute.

use namely_testbed::Interrupt;

use super::world::{ATTACKER_GRACE, Link, World, most_of};

/// Octets of the content store's index per packet (row `cs-hit-1M` of `namely-bench tables`).
const INDEX_OCTETS: f64 = 264.0;

/// Octets per pending Interest: its PIT entry (row `pit-1M` of `namely-bench tables`) and the
/// buffer of a short packet.
const PENDING_OCTETS: f64 = 268.0 + 320.0;

/// The numbers of entries in a router's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct InUse {
    /// Packets in the content store.
    pub(crate) cached: f64,
    /// Octets of the buffers of these packets.
    pub(crate) cached_octets: f64,
    /// Pending Interests.
    pub(crate) pending: f64,
}

impl InUse {
    /// Returns the counts that a namely router reports; `None` for other routers.
    pub(crate) fn now(world: &World, interrupt: &Interrupt) -> Option<Self> {
        let namely = world.namely(Link::Unix);
        let output = namely.dir().join("in-use");
        let query = |arguments: &[&str]| namely.query(arguments, &output, ATTACKER_GRACE, interrupt);
        let counters = query(&["--json", "status", "--counters"])?;
        let status: serde_json::Value = serde_json::from_str(query(&["--json", "status"])?.trim()).ok()?;
        Some(InUse {
            cached: status["cs"]["entries"].as_f64()?,
            cached_octets: most_of(&counters, "cs_octets")?,
            pending: status["pit_entries"].as_f64()?,
        })
    }

    /// Returns the memory of these entries, MiB.
    pub(crate) fn mib(&self) -> f64 {
        (self.cached_octets + self.cached * INDEX_OCTETS + self.pending * PENDING_OCTETS) / 1_048_576.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_sums_cache_and_pit() {
        let mib = 1_048_576.0;
        assert_eq!(InUse::default().mib(), 0.0);
        let cached = InUse { cached: 1000.0, cached_octets: 2.0 * mib, pending: 0.0 };
        assert_eq!(cached.mib(), 2.0 + 264_000.0 / mib);
        assert_eq!(InUse { pending: mib, ..InUse::default() }.mib(), 588.0);
    }
}
