//! What would become of an Interest for a name now, for people who ask why.
//!
//! Tables are read as a packet reads them and none is changed: no hit is counted, nothing is
//! pending afterwards, no strategy learns. What is told is of several moments, one for each table.
//! The order is that of the pipelines of an Interest (NFD developer guide, 4.2).

use crate::cs::status::CachedData;
use crate::pit::status::PendingInterest;
use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

use crate::face_id::FaceId;
use crate::packet::PacketBuf;
use crate::strategy::Measured;
use crate::tables::Tables;

/// Maximum number of pending Interests for one name that are told: others differ in selectors or
/// hint.
pub const EXPLAINED_PENDING_MAX: usize = 16;

/// What a forwarder knows of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Data that answers an Interest for the name, CanBePrefix included. Exact matches come first.
    pub cached: Option<CachedData>,
    /// Pending Interests for the very name.
    pub pending: Vec<PendingInterest>,
    /// The FIB's longest match, as its number of components; `None` if no prefix matches.
    pub fib_components: Option<usize>,
    /// Its next hops, cheapest first.
    pub next_hops: Vec<ExplainedHop>,
    /// The face that bound the name or a prefix of it.
    pub bound: Option<FaceId>,
    /// How many components of the name the choice of strategy is made for.
    pub strategy_components: usize,
    /// The strategy's full name.
    pub strategy: Name,
    /// The faces that the strategy self-learning asks when no route leads on.
    pub discovery: Vec<FaceId>,
    /// How many Interests are pending in all.
    pub pit_entries: usize,
    /// How many may be.
    pub pit_entries_max: usize,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainedHop {
    /// The face; [`FaceId::LOCAL`] leads to who bound the name.
    pub face: FaceId,
    /// Its cost.
    pub cost: u64,
    /// What the strategy has measured of it for this prefix.
    pub measured: Measured,
}

/// Explains how the tables would handle an Interest for `name`.
pub(crate) fn explain<B: PacketBuf, R: RawMutex>(tables: &Tables<B, R>, name: NameRef<'_>) -> Explanation {
    tables.names.with(name, |key| {
        let (strategy_components, named) = tables.strategies.find_choice(key);
        let (fib_components, hops) = tables.fib.longest_with_costs(key).unzip();
        let prefix_hash = fib_components.map(|n| key.hashes.hash(n));
        let mut memory = prefix_hash.and_then(|hash| tables.memory.lock_prefix(named.kind, hash));
        let mut measured = |face| memory.as_mut().map_or_else(Measured::default, |own| own.measured(face));
        let next_hops = hops.unwrap_or_default().into_iter().map(|hop| ExplainedHop {
            face: hop.face.id(),
            cost: hop.cost,
            measured: measured(hop.face),
        });
        let next_hops = next_hops.collect();
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
