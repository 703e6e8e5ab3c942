//! Clears the entries of released faces in bounded rounds: bindings, next hops and pending
//! Interests.

use lock_api::RawMutex;

use crate::face_id::FaceKey;
use crate::packet::PacketBuf;
use crate::reserve::Reserve;
use crate::slab::Id;
use crate::strategy::FibChange;
use crate::tables::Tables;

/// Entries of each kind that the release of a face clears at once.
pub(crate) const SWEPT_AT_ONCE_MAX: usize = 256;

/// Table entries of released faces that one round clears, of each kind.
///
/// # Limit
/// The next rounds clear the rest; the face sends nothing meanwhile.
/// - Tests: `a_released_face_is_silent_at_once`
const SWEPT_PER_TURN_MAX: usize = 256;

/// Maximum number of released faces that one round handles.
const FACES_PER_TURN_MAX: usize = 256;

/// Slots of the PIT that one round checks for released faces.
///
/// A round every 10 ms checks 800,000 in a second.
///
/// # Limit
/// The rest is checked in the next round.
/// - Value: 8192, every 10 ms
/// - Tests: `a_released_face_leaves_nothing_pending`,
///   `a_pit_flood_blocks_no_application`,
///   `interests_of_removed_faces_end_in_turns`,
///   `entries_racing_a_release_are_swept`
const PIT_PLACES_PER_TURN: Id = 8192;

/// Slots of the PIT that one round checks for each entry of a caller's budget.
const PIT_PLACES_PER_ENTRY: usize = 16;
const PIT_TURN_NS: u64 = 10_000_000;

/// Pending Interests of released faces that one round removes.
///
/// # Limit
/// The next round is due at once.
/// - Tests: `interests_of_removed_faces_end_in_turns`,
///   `a_released_face_leaves_nothing_pending`
const PIT_SWEPT_PER_TURN_MAX: usize = 512;

/// Clears some entries of released faces in the tables of names; returns true if more remain.
#[inline(never)]
pub(crate) fn sweep_released<B: PacketBuf, R: RawMutex>(tables: &Tables<B, R>, budget: usize) -> bool {
    let mut left = budget.min(SWEPT_PER_TURN_MAX);
    for _ in 0..FACES_PER_TURN_MAX {
        let Some(face) = tables.departed.first() else { return false };
        if left == 0 || !sweep_tables(tables, face, &mut left) {
            return true;
        }
        tables.departed.cleared(face);
    }
    tables.departed.first().is_some()
}

/// Clears up to `left` entries of each table of a face; returns true if none remain.
fn sweep_tables<B: PacketBuf, R: RawMutex>(tables: &Tables<B, R>, face: FaceKey, left: &mut usize) -> bool {
    let mut work = tables.names.work();
    let hasher = &tables.names.hasher;
    let (most, mut nexthops) = (*left, 0);
    let bindings = tables.bpt.remove_face(hasher, &mut work, face, most);
    let are_left = tables.fib.remove_face(hasher, &mut work, face, most, |prefix| {
        nexthops += 1;
        tables.memory.fib_changed(prefix.hashes.whole(), FibChange::Removed(face));
    });
    // The larger of both counts, because each table has the whole budget for itself.
    *left -= bindings.max(nexthops).min(most);
    bindings < most && !are_left
}

/// Clears some pending Interests of released faces; returns the time of the next round if more
/// remain. A face counts as swept once every entry was checked after its last packet was processed.
#[inline(never)]
pub(super) fn sweep_pending<B: PacketBuf, R: RawMutex>(
    tables: &Tables<B, R>,
    now_ns: u64,
    budget: usize,
) -> Option<u64> {
    let from = tables.departed.sweep_start(&tables.faces, &tables.pit)?;
    // No lock is held over the slots. Another thread that sweeps meanwhile checks the same slots,
    // or none.
    let (next, is_more) = sweep_positions(tables, from, now_ns, budget);
    let again_ns = now_ns.saturating_add(if is_more { 0 } else { PIT_TURN_NS });
    tables.departed.end_sweep(from, next, &tables.pit).then_some(again_ns)
}

/// Ends pending Interests of released faces, from entry `from` on. Returns the entry to start from
/// next, and whether the budget is used up.
#[inline(never)]
fn sweep_positions<B: PacketBuf, R: RawMutex>(
    tables: &Tables<B, R>,
    from: Id,
    now_ns: u64,
    budget: usize,
) -> (Option<Id>, bool) {
    let reserve = Reserve::new(0);
    // All released faces and not only those of this sweep: their records are never valid again.
    let is_gone = |face| !tables.faces.is_registered(face);
    let mut left = budget.min(PIT_SWEPT_PER_TURN_MAX);
    let slots = budget.saturating_mul(PIT_PLACES_PER_ENTRY).min(PIT_PLACES_PER_TURN as usize) as Id;
    let next = tables.pit.sweep(from, slots, is_gone, &reserve, |entry| {
        left -= 1;
        tables.counters.unsatisfied.add(1);
        tables.dead_nonces.add_sent(entry, &tables.names.hasher, now_ns);
        tables.pit.recycle(entry);
        left > 0
    });
    tables.settle(&reserve);
    (next, left == 0)
}
