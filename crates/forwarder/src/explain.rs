//! Explains how an Interest for a name would be handled now, for diagnosis.
//!
//! Tables are read as for a packet, and none is changed: no hit is counted, no Interest is pending
//! afterwards, no strategy learns. The tables are read one after the other, so they may change in
//! between. The order is that of the pipelines of an Interest (NFD developer guide, 4.2).

use crate::cs::status::CachedData;
use crate::pit::status::PendingInterest;
use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

use crate::face_id::FaceId;
use crate::packet::PacketBuf;
use crate::strategy::NextHopMeasurement;
use crate::tables::Tables;

/// Pending Interests that `name/explain` lists for one name.
///
/// They differ in selectors or hint.
///
/// # Limit
/// Further ones are not listed.
/// - Tests: `explain_lists_bounded_pending_interests`
pub const EXPLAINED_PENDING_MAX: usize = 16;

/// The state of the tables for a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Data that answers an Interest for the name, CanBePrefix included. Exact matches come first.
    pub cached: Option<CachedData>,
    /// Pending Interests for exactly the name.
    pub pending: Vec<PendingInterest>,
    /// The number of components of the FIB's longest match; `None` if no prefix matches.
    pub fib_components: Option<usize>,
    /// Its next hops, cheapest first.
    pub next_hops: Vec<ExplainedHop>,
    /// The face that bound the name or a prefix of it.
    pub bound: Option<FaceId>,
    /// The number of components of the prefix that the strategy was chosen for.
    pub strategy_components: usize,
    /// The strategy's full name.
    pub strategy: Name,
    /// The faces that the strategy self-learning sends discoveries to when there is no route.
    pub discovery: Vec<FaceId>,
    /// The number of all pending Interests.
    pub pit_entries: usize,
    /// Their maximum number.
    pub pit_entries_max: usize,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainedHop {
    /// The face; [`FaceId::LOCAL`] leads to the application that bound the name.
    pub face: FaceId,
    /// Its cost.
    pub cost: u64,
    /// The strategy's measurement of it for this prefix.
    pub measured: NextHopMeasurement,
}

/// Explains how the tables would handle an Interest for `name`.
pub(crate) fn explain<B: PacketBuf, R: RawMutex>(tables: &Tables<B, R>, name: NameRef<'_>) -> Explanation {
    tables.names.with(name, |key| {
        let (strategy_components, named) = tables.strategies.find_choice(key);
        let (fib_components, hops) = tables.fib.longest_with_costs(key).unzip();
        let prefix_hash = fib_components.map(|n| key.hashes.hash(n));
        let mut memory = prefix_hash.and_then(|hash| tables.memory.lock_prefix(named.kind, hash));
        let mut measured =
            |face| memory.as_mut().map_or_else(NextHopMeasurement::default, |own| own.measured(face));
        let next_hops = hops.unwrap_or_default().into_iter().map(|hop| ExplainedHop {
            face: hop.face.id(),
            cost: hop.cost,
            measured: measured(hop.face),
        });
        let next_hops = next_hops.collect();
        // No other lock may be taken while the strategy memory is locked.
        drop(memory);
        Explanation {
            cached: tables.cs.peek(key),
            pending: tables.pit.of_name(key, EXPLAINED_PENDING_MAX),
            fib_components,
            next_hops,
            bound: tables.bpt.find(key).map(|face| face.id()),
            strategy_components,
            strategy: named.name(),
            discovery: tables.discovery.lock().iter().map(|face| face.id()).collect(),
            pit_entries: tables.pit.len(),
            pit_entries_max: tables.config.pit.entries_max,
        }
    })
}
