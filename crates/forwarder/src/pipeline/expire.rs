//! Expiry: ends pending Interests past their deadline, and clears the entries of released faces.
//! Nothing here scans a table.

use lock_api::RawMutex;

use super::hooks::Hooks;
use super::learning::end_discovery;
use super::sweep::{sweep_pending, sweep_released};
use crate::packet::{Output, PacketBuf};
use crate::pit::Expired;
use crate::pit::entry::PitEntry;
use crate::reserve::Reserve;
use crate::strategy::memory_id::MemoryId;
use crate::tables::Tables;
use crate::trace::Tracer;

/// Pending Interests, and timers of strategies, that one `expire` ends.
///
/// A burst of deadlines does not delay packets.
///
/// # Limit
/// The rest is due again at once.
/// - Tests: `a_burst_of_deadlines_ends_in_turns`
pub(crate) const EXPIRED_PER_CALL_MAX: usize = 512;

/// The interval of rounds that clear the entries of released faces in the tables of names.
pub(crate) const TABLES_TURN_NS: u64 = 10_000_000;

/// The interval of rounds that remove Data of evicted objects.
pub(crate) const OBJECTS_TURN_NS: u64 = 1_000_000;

/// The result of one call of [`crate::Forwarder::expire_within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The time of the next call; `None` if nothing is due later.
    pub next_ns: Option<u64>,
    /// More is due now, because the budget was used up.
    pub is_more: bool,
}

impl Expiry {
    /// The earliest of these times.
    pub(crate) fn of<const N: usize>(due_ns: [Option<u64>; N], now_ns: u64) -> Self {
        let next_ns = due_ns.into_iter().flatten().min();
        Expiry { next_ns, is_more: next_ns.is_some_and(|next_ns| next_ns <= now_ns) }
    }
}

/// Ends the entries that are due at `now_ns`; see [`crate::Forwarder::expire_within`].
pub(crate) fn expire_within<B: PacketBuf, R: RawMutex, O: Output<B>>(
    tables: &Tables<B, R>,
    now_ns: u64,
    budget: usize,
    out: &mut O,
) -> Expiry {
    let budget = budget.max(1);
    // Expired Interests end first, so that their records are removed before the sweeps look for
    // records of released faces.
    if tables.pit.is_due(now_ns) {
        end_pending(tables, now_ns, budget, out);
    }
    // Read after the Interests have ended; otherwise it would be the deadline of one of them.
    let pit = tables.pit.next_deadline_ns();
    let strategies = tables.memory.run_timers(now_ns, budget, &|| tables.random.next());
    let (mut cleared, mut pending) = (None, None);
    if tables.departed.is_any() {
        cleared = sweep_released(tables, budget).then(|| now_ns.saturating_add(TABLES_TURN_NS));
        pending = sweep_pending(tables, now_ns, budget);
    }
    let objects = tables.cs.evict_objects(budget, out);
    let objects = objects.then(|| now_ns.saturating_add(OBJECTS_TURN_NS));
    let kept = tables.pit.give_back(now_ns, budget);
    let announced = if out.tier().is_some() {
        tables.announcements.announce_due(&tables.faces, tables.announcing(), now_ns, out)
    } else {
        None
    };
    Expiry::of([pit, strategies, cleared, pending, objects, kept, announced], now_ns)
}

/// Ends up to `budget` pending Interests.
#[inline(never)]
fn end_pending<B: PacketBuf, R: RawMutex, O: Output<B>>(
    tables: &Tables<B, R>,
    now_ns: u64,
    budget: usize,
    out: &mut O,
) {
    let reserve = Reserve::new(0);
    for _ in 0..budget {
        match tables.pit.take_expired(now_ns, &reserve) {
            None => break,
            Some(Expired::Nothing) => {}
            Some(Expired::Entry(mut entry)) => {
                end_entry(tables, &entry, now_ns, out);
                tables.pit.recycle(&mut entry);
            }
        }
    }
    // Once for all entries, so that the ids of one call return to their stripes together.
    tables.settle(&reserve);
}

/// Ends one pending Interest that was not answered. It is not inlined, because its caller's frame
/// holds the entry, and a kernel allows 1,024 octets for each frame.
#[inline(never)]
fn end_entry<B: PacketBuf, R: RawMutex, O: Output<B>>(
    tables: &Tables<B, R>,
    entry: &PitEntry<B>,
    now_ns: u64,
    out: &mut O,
) {
    tables.counters.unsatisfied.add(1);
    if entry.memory != MemoryId::NONE {
        Hooks::of(tables).on_timeout(entry, now_ns);
        end_discovery(&tables.faces, &tables.counters, entry, now_ns, out);
    }
    tables.dead_nonces.add_sent(entry, &tables.names.hasher, now_ns);
    if let Some(tracer) = out.tracer() {
        tracer.ended(&entry.packet, entry.in_records.len(), entry.out_records.len());
    }
}
