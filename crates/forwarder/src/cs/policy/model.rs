//! A stand-alone policy over keys instead of Data, to compute its hits.

use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;

use super::lists::Record;
use super::{AnyPolicy, CsPolicy};
use crate::cs::policy::eviction::{Marks, OnHit, Policy};
use crate::cs::policy::lists::Records;
use crate::error::ConfigError;
use crate::hash::mix;
use crate::slab::{Id, NONE};

/// A cache of keys under one of the content store's policies: for traces, without packets or names.
///
/// ```
/// use namely_forwarder::{CsPolicy, PolicyModel};
/// let mut lru = PolicyModel::new(CsPolicy::Lru, 2).unwrap();
/// let hits = [1, 2, 1, 3, 2].map(|key| lru.request(key));
/// assert_eq!(hits, [false, false, true, false, false]);
/// ```
pub struct PolicyModel {
    policy: AnyPolicy,
    records: Records,
    marks: PlainMarks,
    keys_max: usize,
    /// The id of each key that is cached.
    ids: Vec<Id>,
    /// The key of each id, and whether it was found since its insertion.
    keys: Vec<u32>,
    found: Vec<bool>,
    left: Option<(u32, bool)>,
    free: Vec<Id>,
    len: usize,
}

#[derive(Default)]
struct PlainMarks(Vec<Cell<u8>>);

impl Marks for PlainMarks {
    fn mark(&self, id: Id) -> u8 {
        self.0[id as usize].get()
    }

    fn set_mark(&self, id: Id, mark: u8) {
        self.0[id as usize].set(mark);
    }
}

impl fmt::Debug for PolicyModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyModel").field("keys_max", &self.keys_max).field("len", &self.len).finish()
    }
}

impl PolicyModel {
    /// An empty cache of `keys_max` keys, at least 1.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn new(policy: CsPolicy, keys_max: usize) -> Result<Self, ConfigError> {
        Ok(PolicyModel {
            policy: AnyPolicy::new(policy, keys_max)?,
            records: Records::default(),
            marks: PlainMarks::default(),
            keys_max: keys_max.max(1),
            ids: Vec::new(),
            // Id 0 is `NONE`, so the first element is never used.
            keys: Vec::from([0]),
            found: Vec::from([false]),
            left: None,
            free: Vec::new(),
            len: 0,
        })
    }

    /// Looks up `key`, and caches it if it was missing; returns true if it was there. Keys should
    /// be small: memory is allocated for each up to the largest.
    pub fn request(&mut self, key: u32) -> bool {
        if key as usize >= self.ids.len() {
            // May abort without memory, unlike the forwarder's tables: the model processes no
            // packets.
            self.ids.resize(key as usize + 1, NONE);
        }
        self.left = None;
        match self.ids[key as usize] {
            NONE => {
                self.insert(key);
                false
            }
            id => {
                self.found[id as usize] = true;
                match self.policy.on_hit() {
                    OnHit::Lock => self.policy.hit(id, &mut self.records),
                    OnHit::Mark(most) if self.marks.mark(id) < most => {
                        self.marks.set_mark(id, self.marks.mark(id) + 1);
                    }
                    OnHit::Mark(_) => {}
                }
                true
            }
        }
    }

    /// The key that the last request evicted, and true if it was found while it was cached. The
    /// content store would offer it to a tier.
    pub fn left(&self) -> Option<(u32, bool)> {
        self.left
    }

    fn insert(&mut self, key: u32) {
        // The policies select their sets by the bits of the hash, which must be spread.
        let hash = mix(u64::from(key));
        let arrival = self.policy.arriving(hash);
        if self.len == self.keys_max
            && let Some(id) = self.policy.evict(arrival, &mut self.records, &self.marks)
        {
            self.left = Some((self.keys[id as usize], self.found[id as usize]));
            self.forget(id);
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.keys.push(0);
            self.found.push(false);
            self.marks.0.resize(self.keys.len(), Cell::new(0));
            self.keys.len() as Id - 1
        });
        self.keys[id as usize] = key;
        self.found[id as usize] = false;
        self.ids[key as usize] = id;
        self.len += 1;
        // The id may still have the mark of the key that used it before.
        self.marks.set_mark(id, 0);
        self.records.set(id, Record::new(hash));
        self.policy.inserted(id, arrival, &mut self.records);
    }

    fn forget(&mut self, id: Id) {
        self.ids[self.keys[id as usize] as usize] = NONE;
        self.len -= 1;
        self.free.push(id);
    }

    /// Erases `key`.
    #[cfg(test)]
    pub(super) fn erase(&mut self, key: u32) {
        let id = self.ids.get(key as usize).copied().unwrap_or(NONE);
        if id != NONE {
            self.policy.removed(id, &mut self.records);
            self.forget(id);
        }
    }

    /// The cached keys.
    #[cfg(test)]
    pub(super) fn cached(&self) -> alloc::collections::BTreeSet<u32> {
        (0..self.ids.len() as u32).filter(|key| self.ids[*key as usize] != NONE).collect()
    }

    #[cfg(test)]
    pub(super) fn ghosts(&self) -> usize {
        self.policy.ghosts()
    }
}
