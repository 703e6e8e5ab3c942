//! Time passes: pending Interests that have lasted long enough, and what released faces left
//! behind. Nothing here scans a table.

use lock_api::RawMutex;

use super::hooks::Hooks;
use super::learning::end_discovery;
use super::sweep::{sweep_departed, sweep_pending};
use crate::packet::{Output, PacketBuf};
use crate::pit::Expired;
use crate::pit::entry::PitEntry;
use crate::reserve::Reserve;
use crate::strategy::memory_id::MemoryId;
use crate::tables::Tables;
use crate::trace::Tracer;

/// Maximum number of pending Interests, and of timers of strategies, that one call of
/// [`crate::Forwarder::expire`] ends: a burst of deadlines does not keep packets waiting. The rest
/// is due again at once.
pub(crate) const EXPIRED_PER_CALL_MAX: usize = 512;

/// How long after a turn of what tables hold of released faces the next one comes.
pub(crate) const TABLES_TURN_NS: u64 = 10_000_000;

/// How long after a turn of Data of objects that leave the next one comes.
pub(crate) const OBJECTS_TURN_NS: u64 = 1_000_000;

/// The result of one call of [`crate::Forwarder::expire_within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// When to call again; `None` if nothing waits.
    pub next_ns: Option<u64>,
    /// More is due now: the budget was used up.
    pub is_more: bool,
}

impl Expiry {
    /// What is due at the earliest of these times.
    pub(crate) fn of<const N: usize>(due_ns: [Option<u64>; N], now_ns: u64) -> Self {
        let next_ns = due_ns.into_iter().flatten().min();
        Expiry { next_ns, is_more: next_ns.is_some_and(|next_ns| next_ns <= now_ns) }
    }
}

/// Lets time pass; see [`crate::Forwarder::expire_within`].
pub(crate) fn expire_within<B: PacketBuf, R: RawMutex, O: Output<B>>(
    tables: &Tables<B, R>,
    now_ns: u64,
    budget: usize,
    out: &mut O,
) -> Expiry {
    let budget = budget.max(1);
    // Expired Interests end first: their records are then gone before the sweeps look for records
    // of released faces.
    end_pending(tables, now_ns, budget, out);
    let pit = tables.pit.next_deadline_ns();
    let strategies = tables.memory.run_timers(now_ns, budget, &|| tables.random.next());
    let (mut cleared, mut pending) = (None, None);
    if tables.departed.is_any() {
        cleared = sweep_departed(tables, budget).then(|| now_ns.saturating_add(TABLES_TURN_NS));
        pending = sweep_pending(tables, now_ns, budget);
    }
    let objects = tables.cs.evict_objects(budget, out);
    let objects = objects.then(|| now_ns.saturating_add(OBJECTS_TURN_NS));
    let kept = tables.pit.give_back(now_ns, budget);
    let announced = if out.tier().is_some() {
        tables.announcements.tell_due(&tables.faces, tables.announcing(), now_ns, out)
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
    // Once for all: the ids of one call go back to their stripes in one go.
    tables.settle(&reserve);
}

/// Ends one pending Interest that nothing has answered. It has a frame of its own: that of its
/// caller holds the entry, and a kernel allows 1,024 octets for each.
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
