//! The pending Interest table: a separate-chaining hash table keyed by Interest name, whose entries point
//! into the one packet each keeps (`IS-27`).
//!
//! An Interest whose name ends in an implicit digest is filed under its name without the digest, so that a
//! Data finds it by the name it carries; the digest of a Data is needed only if such an entry is found.

mod entry;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use namely_wire::NameRef;
use namely_wire::name::COMPONENTS_MAX;

use crate::ask::Ask;
use crate::chains::Chains;
use crate::config::Config;
use crate::faces::FaceKey;
use crate::hash::NameHashes;
use crate::slab::Id;
use crate::wheel::Wheel;

pub(crate) use entry::{InRecord, OutRecord, OutRecords, PitEntry, Span};

/// The table of pending Interests.
pub(crate) struct Pit<B> {
    entries: Chains<PitEntry<B>>,
    deadlines: Wheel,
    // How many entries with CanBePrefix have n components: a Data probes no other proper prefix.
    prefix_lengths: Box<[u32]>,
    by_face: PendingByFace,
    entries_max: usize,
    entries_per_face_max: usize,
    in_records_max: usize,
}

/// Why a new Interest or a new downstream was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PitFull {
    Table,
    Face,
    InRecords,
}

/// What a Data finds.
pub(crate) enum DataMatch<B> {
    /// An entry that it satisfies, taken out of the table.
    Entry(PitEntry<B>),
    /// An entry asks for this name by digest: compute the Data's and ask again.
    DigestNeeded,
    /// No (further) entry.
    None,
}

impl<B: AsRef<[u8]> + Clone> Pit<B> {
    pub(crate) fn new(config: &Config) -> Self {
        Pit {
            entries: Chains::new(config.pit_entries_max),
            deadlines: Wheel::new(),
            prefix_lengths: vec![0; COMPONENTS_MAX + 1].into(),
            by_face: PendingByFace::default(),
            entries_max: config.pit_entries_max,
            entries_per_face_max: config.pit_entries_per_face_max,
            in_records_max: config.in_records_max,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry that asks the same.
    pub(crate) fn find(&self, ask: &Ask<'_>) -> Option<Id> {
        self.entries.find(ask.hash(), |entry| entry.is_same_as(ask))
    }

    /// The entry of this name and these selectors that was last sent to `upstream` with `nonce`. The
    /// forwarding hint does not count: a router in the producer's region takes it out before it refuses.
    pub(crate) fn find_sent(&self, ask: &Ask<'_>, upstream: FaceKey, nonce: [u8; 4]) -> Option<Id> {
        self.entries.find(ask.hash(), |entry| {
            entry.has_name_and_selectors(ask)
                && entry.out_records.iter().any(|r| r.face == upstream && r.nonce == nonce)
        })
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut PitEntry<B>> {
        self.entries.get_mut(id)
    }

    /// Makes an entry for an Interest that has none, with `record` as its downstream.
    pub(crate) fn insert(
        &mut self,
        packet: &B,
        ask: &Ask<'_>,
        record: InRecord,
        now_ns: u64,
    ) -> Result<Id, PitFull> {
        if self.entries.len() >= self.entries_max {
            return Err(PitFull::Table);
        }
        if self.by_face.count(record.face) >= self.entries_per_face_max {
            return Err(PitFull::Face);
        }
        let mut entry = PitEntry::new(packet.clone(), ask);
        entry.in_records.push(record);
        entry.expires_at_ns = record.expires_at_ns;
        if entry.can_be_prefix() {
            self.prefix_lengths[ask.components] += 1;
        }
        self.by_face.add(record.face);
        let id = self.entries.insert(entry);
        self.deadlines.set(id, record.expires_at_ns, now_ns);
        Ok(id)
    }

    /// Enters `record` as a downstream of an entry, new or renewed, and moves the entry's deadline to that of
    /// its last downstream.
    pub(crate) fn add_downstream(&mut self, id: Id, record: InRecord, now_ns: u64) -> Result<(), PitFull> {
        let Some(entry) = self.entries.get_mut(id) else { return Ok(()) };
        if let Some(own) = entry.in_records.iter_mut().find(|r| r.face == record.face) {
            *own = record;
        } else {
            if self.by_face.count(record.face) >= self.entries_per_face_max {
                return Err(PitFull::Face);
            }
            if entry.in_records.len() >= self.in_records_max {
                for expired in entry.in_records.iter().filter(|r| r.expires_at_ns <= now_ns) {
                    self.by_face.sub(expired.face);
                }
                entry.in_records.retain(|r| r.expires_at_ns > now_ns);
            }
            if entry.in_records.len() >= self.in_records_max {
                return Err(PitFull::InRecords);
            }
            entry.in_records.push(record);
            self.by_face.add(record.face);
        }
        let last = entry.in_records.iter().map(|r| r.expires_at_ns).max().unwrap_or(now_ns);
        if last != entry.expires_at_ns {
            entry.expires_at_ns = last;
            self.deadlines.set(id, last, now_ns);
        }
        Ok(())
    }

    /// Takes `face` out of an entry's downstreams, as a Nack to it does.
    pub(crate) fn take_downstream(&mut self, id: Id, face: FaceKey) -> Option<InRecord> {
        let entry = self.entries.get_mut(id)?;
        let record = entry.in_records.iter().find(|r| r.face == face).copied()?;
        entry.in_records.retain(|r| r.face != face);
        self.by_face.sub(face);
        Some(record)
    }

    /// Takes an entry out.
    pub(crate) fn take(&mut self, id: Id) -> Option<PitEntry<B>> {
        let entry = self.entries.remove(id)?;
        self.deadlines.remove(id);
        if entry.can_be_prefix() {
            self.prefix_lengths[usize::from(entry.components)] -= 1;
        }
        entry.in_records.iter().for_each(|record| self.by_face.sub(record.face));
        Some(entry)
    }

    /// Takes out one entry that Data named `name` satisfies (`IS-28`): first those of its whole name, then
    /// for each proper prefix, longest first, those with CanBePrefix. `digest` is the Data's, once known.
    pub(crate) fn take_match(
        &mut self,
        name: NameRef<'_>,
        hashes: &NameHashes,
        digest: Option<&[u8; 32]>,
    ) -> DataMatch<B> {
        let components = hashes.len();
        let mut digest_needed = false;
        for n in (0..=components).rev() {
            if n < components && self.prefix_lengths[n] == 0 {
                continue;
            }
            let found = self.entries.find(hashes.hash(n), |entry| {
                usize::from(entry.components) == n
                    && entry.may_match(name, components)
                    && match (entry.digest(), digest) {
                        (None, _) => true,
                        (Some(asked), Some(digest)) => asked == digest,
                        (Some(_), None) => {
                            digest_needed = true;
                            false
                        }
                    }
            });
            if let Some(entry) = found.and_then(|id| self.take(id)) {
                return DataMatch::Entry(entry);
            }
        }
        if digest_needed { DataMatch::DigestNeeded } else { DataMatch::None }
    }

    /// Takes out one entry whose time is over.
    pub(crate) fn take_expired(&mut self, now_ns: u64) -> Option<PitEntry<B>> {
        let id = self.deadlines.pop_due(now_ns)?;
        self.take(id)
    }

    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.deadlines.next_deadline_ns()
    }

    /// Visits the entries of `count` places from `from`; says where to go on.
    pub(crate) fn walk(&self, from: Id, count: Id, mut visit: impl FnMut(&PitEntry<B>)) -> Option<Id> {
        let until = from.saturating_add(count).min(self.entries.end());
        (from.max(1)..until).filter_map(|id| self.entries.get(id)).for_each(&mut visit);
        (until < self.entries.end()).then_some(until)
    }
}

/// How many downstream records each face has. A face that is gone leaves its records to expire; its slot's
/// next user starts from 0.
#[derive(Debug, Default)]
struct PendingByFace {
    slots: Vec<(u32, usize)>,
}

impl PendingByFace {
    fn count(&self, face: FaceKey) -> usize {
        match self.slots.get(face.slot as usize) {
            Some((generation, count)) if *generation == face.generation => *count,
            _ => 0,
        }
    }

    fn add(&mut self, face: FaceKey) {
        let slot = face.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, (0, 0));
        }
        if self.slots[slot].0 == face.generation {
            self.slots[slot].1 += 1;
        } else {
            self.slots[slot] = (face.generation, 1);
        }
    }

    fn sub(&mut self, face: FaceKey) {
        match self.slots.get_mut(face.slot as usize) {
            Some((generation, count)) if *generation == face.generation => *count = count.saturating_sub(1),
            _ => {}
        }
    }
}
