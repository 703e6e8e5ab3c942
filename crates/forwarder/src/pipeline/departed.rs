//! What released faces left behind, which is cleared in bounded turns: bindings, next hops, and the
//! Interests that they waited for.

use lock_api::RawMutex;

use crate::face_id::FaceKey;
use crate::forwarder::{Forwarder, Scratch};
use crate::ordered::{NoMemory, Ordered};
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

/// Released faces that tables still mention. Room for a face is made when it is registered, so that
/// its release needs none.
#[derive(Default)]
pub(crate) struct Departed {
    /// Faces that are registered.
    registered: usize,
    /// By FIB or BPT.
    tables: Ordered<FaceKey, ()>,
    /// By the PIT: whether the sweep of it that is under way looks for them, or they wait for one.
    pending: Ordered<FaceKey, bool>,
    /// Where the sweep goes on.
    next: Option<Id>,
}

impl Departed {
    /// A face is to be registered.
    pub(crate) fn promise(&mut self) -> Result<(), NoMemory> {
        let registered = self.registered + 1;
        self.tables.reserve_for(self.tables.len() + registered)?;
        self.pending.reserve_for(self.pending.len() + registered)?;
        self.registered = registered;
        Ok(())
    }

    /// It was not.
    pub(crate) fn take_back(&mut self) {
        self.registered -= 1;
    }

    /// A face was released.
    pub(crate) fn add(&mut self, face: FaceKey) {
        self.registered -= 1;
        // There is room, as was promised.
        let _ = self.tables.insert(face, ());
        let _ = self.pending.insert(face, false);
    }

    /// The first face that FIB or BPT may mention.
    fn first(&self) -> Option<FaceKey> {
        self.tables.first_from(&FaceKey::FIRST).map(|(face, ())| face)
    }

    /// Those that the PIT may mention: whether they are swept.
    fn pending(&self) -> impl Iterator<Item = (FaceKey, bool)> {
        let first = self.pending.first_from(&FaceKey::FIRST);
        core::iter::successors(first, |(face, _)| self.pending.first_after(face))
    }
}

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Returns true if something may be left to clear.
    pub(super) fn has_departed(&self) -> bool {
        let Departed { tables, pending, .. } = &*self.departed.lock();
        tables.len() + pending.len() > 0
    }

    /// Clears some of what tables hold by name of released faces; returns true if more remains.
    #[inline(never)]
    pub(crate) fn sweep_departed(&self, budget: usize) -> bool {
        let mut left = budget.min(SWEPT_PER_TURN_MAX);
        for _ in 0..FACES_PER_TURN_MAX {
            let Some(face) = self.departed.lock().first() else { return false };
            if left == 0 || !self.sweep_tables(face, &mut left) {
                return true;
            }
            self.departed.lock().tables.remove(&face);
        }
        self.departed.lock().first().is_some()
    }

    /// Clears up to `left` entries of each table of a face; returns true if none remain.
    fn sweep_tables(&self, face: FaceKey, left: &mut usize) -> bool {
        let Scratch { hashes, octets } = &mut *self.scratch.lock();
        let (most, mut nexthops) = (*left, 0);
        let bindings = self.bpt.remove_face(&self.hasher, (&mut hashes[0], octets), face, most);
        let are_left = self.fib.remove_face(&self.hasher, (&mut hashes[0], octets), face, most, |prefix| {
            nexthops += 1;
            self.fib_changed(prefix, FibChange::Removed(face));
        });
        *left -= bindings.max(nexthops).min(most);
        bindings < most && !are_left
    }

    /// Clears some of what released faces waited for; returns when to go on if more remains. A face
    /// counts as swept when all places were looked at since nobody processed packets of it any
    /// more.
    #[inline(never)]
    pub(super) fn sweep_pending(&self, now_ns: u64, budget: usize) -> Option<u64> {
        let mut departed = self.departed.lock();
        if departed.next.is_none() && !self.begin_sweep(&mut departed) {
            return None;
        }
        let from = departed.next.unwrap_or(1);
        // Another thread that comes meanwhile looks at the same places, or at none.
        drop(departed);
        let (next, is_more) = self.sweep_places(from, now_ns, budget);
        let again_ns = now_ns.saturating_add(if is_more { 0 } else { PIT_TURN_NS });
        let mut departed = self.departed.lock();
        if departed.next.is_none_or(|at| at != from) {
            return Some(again_ns);
        }
        departed.next = next;
        if next.is_none() {
            let mut next = departed.pending.first_from(&FaceKey::FIRST);
            while let Some((face, is_swept)) = next {
                next = departed.pending.first_after(&face);
                if is_swept {
                    departed.pending.remove(&face);
                    self.pit.close(face);
                }
            }
        }
        (departed.pending.len() > 0).then_some(again_ns)
    }

    /// Ends what waits for nobody but faces that have gone, in some places from `from` on. Returns
    /// where to go on, and whether as much has ended as may at once.
    #[inline(never)]
    fn sweep_places(&self, from: Id, now_ns: u64, budget: usize) -> (Option<Id>, bool) {
        let reserve = Reserve::new(0);
        let is_gone = |face| !self.faces.is_registered(face);
        let mut left = budget.min(PIT_SWEPT_PER_TURN_MAX);
        let places = budget.saturating_mul(PIT_PLACES_PER_ENTRY).min(PIT_PLACES_PER_TURN as usize) as Id;
        let next = self.pit.sweep(from, places, is_gone, &reserve, |entry| {
            left -= 1;
            self.counters.unsatisfied.add(1);
            self.record_dead_nonces(entry, now_ns);
            self.pit.recycle(entry);
            left > 0
        });
        self.settle(&reserve);
        (next, left == 0)
    }

    /// Begins a sweep for the faces that wait for one and have records; returns false if none has.
    fn begin_sweep(&self, departed: &mut Departed) -> bool {
        let has_records = |face| !self.faces.is_put(face) || self.pit.has_records_of(face);
        let is_needed = departed.pending().any(|(face, _)| has_records(face));
        // What a packet that is being processed just now enters may be missed: such a face is swept
        // again.
        let mut next = departed.pending.first_from(&FaceKey::FIRST);
        while let Some((face, _)) = next {
            next = departed.pending.first_after(&face);
            if !self.faces.is_put(face) {
                continue;
            }
            if is_needed {
                let _ = departed.pending.insert(face, true);
            } else {
                departed.pending.remove(&face);
                self.pit.close(face);
            }
        }
        departed.next = is_needed.then_some(1);
        is_needed
    }
}
