//! What released faces left behind, which is cleared in bounded turns: bindings, next hops, and the
//! Interests that they waited for.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::faces::FaceKey;
use crate::forwarder::Forwarder;
use crate::packet::PacketBuf;
use crate::reserve::Reserve;
use crate::slab::Id;
use crate::strategy::FibChange;

/// Maximum number of table entries of released faces that are cleared in one turn, of each kind.
const SWEPT_PER_TURN_MAX: usize = 256;

/// Released faces that are looked at in one turn.
const FACES_PER_TURN_MAX: usize = 256;

/// Places of the PIT that one turn looks at. A turn every 10 ms looks at 800,000 in a second.
const PIT_PLACES_PER_TURN: Id = 8192;

/// The same for each entry of a caller's budget.
const PIT_PLACES_PER_ENTRY: usize = 16;
const PIT_TURN_NS: u64 = 10_000_000;

/// Pending Interests that one turn takes out; after so many the next turn is due at once.
const PIT_SWEPT_PER_TURN_MAX: usize = 512;

/// Released faces that tables still mention.
#[derive(Default)]
pub(crate) struct Departed {
    /// By FIB or BPT.
    tables: VecDeque<FaceKey>,
    /// By the PIT: these wait for a sweep to begin.
    waiting: Vec<FaceKey>,
    /// The sweep of these is under way.
    swept: Vec<FaceKey>,
    /// Where it goes on.
    next: Option<Id>,
}

impl Departed {
    /// A face was released.
    pub(crate) fn add(&mut self, face: FaceKey) {
        self.tables.push_back(face);
        self.waiting.push(face);
    }

    /// Something was entered by name for a face that had been released.
    pub(crate) fn add_late(&mut self, face: FaceKey) {
        self.tables.push_back(face);
    }
}

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Returns true if something may be left to clear.
    pub(super) fn has_departed(&self) -> bool {
        let Departed { tables, waiting, next, .. } = &*self.departed.lock();
        next.is_some() || !tables.is_empty() || !waiting.is_empty()
    }

    /// Clears some of what tables hold by name of released faces; returns true if more remains.
    #[inline(never)]
    pub(crate) fn sweep_departed(&self, budget: usize) -> bool {
        let mut left = budget.min(SWEPT_PER_TURN_MAX);
        for _ in 0..FACES_PER_TURN_MAX {
            let Some(face) = self.departed.lock().tables.front().copied() else { return false };
            if left == 0 || !self.sweep_tables(face, &mut left) {
                return true;
            }
            let tables = &mut self.departed.lock().tables;
            if tables.front() == Some(&face) {
                tables.pop_front();
            }
        }
        !self.departed.lock().tables.is_empty()
    }

    /// Clears up to `left` entries of each table of a face; returns true if none remain.
    fn sweep_tables(&self, face: FaceKey, left: &mut usize) -> bool {
        let most = *left;
        let bindings = self.sweep_bindings(face, most);
        let (nexthops, nexthops_left) = self.sweep_nexthops(face, most);
        *left -= bindings.max(nexthops).min(most);
        bindings < most && !nexthops_left
    }

    /// Removes up to `count` next hops of a face; returns how many, and whether more may remain.
    fn sweep_nexthops(&self, face: FaceKey, count: usize) -> (usize, bool) {
        let mut hashes = self.hashes.lock();
        let mut nexthops = 0;
        let are_left = self.fib.remove_face((&self.hasher, &mut hashes[0]), face, count, |prefix| {
            nexthops += 1;
            self.fib_changed(prefix, FibChange::Removed(face));
        });
        (nexthops, are_left)
    }

    /// Unbinds up to `count` names of a face; returns how many.
    fn sweep_bindings(&self, face: FaceKey, count: usize) -> usize {
        let names = self.bpt.names_of(face, count);
        for name in &names {
            self.with_key(name.as_name(), |key| self.bpt.unbind(key, name, face));
        }
        names.len()
    }

    /// Clears some of what released faces waited for; returns when to go on if more remains. A face
    /// counts as swept when all places were looked at since nobody processed packets of it any
    /// more.
    #[inline(never)]
    pub(super) fn sweep_pending(&self, now_ns: u64, budget: usize) -> Option<u64> {
        let mut departed = self.departed.lock();
        let Departed { waiting, swept, .. } = &mut *departed;
        if swept.try_reserve(waiting.len()).is_err() {
            return Some(now_ns.saturating_add(PIT_TURN_NS));
        }
        if departed.next.is_none() && !self.begin_sweep(&mut departed) {
            return None;
        }
        let from = departed.next.unwrap_or(1);
        // Another thread that comes meanwhile looks at the same places, or at none.
        drop(departed);
        let reserve = Reserve::new(0);
        let is_gone = |face| !self.faces.is_registered(face);
        let mut left = budget.min(PIT_SWEPT_PER_TURN_MAX);
        let places = budget.saturating_mul(PIT_PLACES_PER_ENTRY).min(PIT_PLACES_PER_TURN as usize) as Id;
        let next = self.pit.sweep(from, places, is_gone, &reserve, |mut entry| {
            left -= 1;
            self.counters.unsatisfied.add(1);
            self.record_dead_nonces(&entry, now_ns);
            self.pit.recycle(&mut entry);
            left > 0
        });
        self.settle(&reserve);
        let again_ns = now_ns.saturating_add(if left > 0 { PIT_TURN_NS } else { 0 });
        let mut departed = self.departed.lock();
        if departed.next.is_none_or(|at| at != from) {
            return Some(again_ns);
        }
        departed.next = next;
        if next.is_none() {
            departed.swept.drain(..).for_each(|face| self.pit.close(face));
        }
        (next.is_some() || !departed.waiting.is_empty()).then_some(again_ns)
    }

    /// Begins a sweep for the faces that wait for one and have records; returns false if none has.
    fn begin_sweep(&self, departed: &mut Departed) -> bool {
        let Departed { waiting, swept, next, .. } = departed;
        let is_needed = !waiting.is_empty()
            && waiting.iter().any(|face| !self.faces.is_put(*face) || self.pit.has_records_of(*face));
        // What a packet that is being processed just now enters may be missed: such a face is swept
        // again.
        waiting.retain(|face| {
            let is_put = self.faces.is_put(*face);
            if is_put && is_needed {
                swept.push(*face);
            } else if is_put {
                self.pit.close(*face);
            }
            !is_put
        });
        *next = is_needed.then_some(1);
        is_needed
    }
}
