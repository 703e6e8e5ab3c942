//! Doubly linked lists of ids. All links are in one array that grows in pages.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::error::ConfigError;
use crate::pool::boxed;
use crate::slab::{Id, NONE};

/// Items of a page.
const PAGE: usize = 64;

/// An array that grows in pages and never moves its items. An insertion clears one page, and
/// sometimes copies the list of pages: 8 octets for each [`PAGE`] items.
pub(super) struct Paged<T> {
    pages: Vec<Box<[T; PAGE]>>,
}

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Paged { pages: Vec::new() }
    }
}

impl<T: Clone + Default> Paged<T> {
    /// Allocates items up to and including `id`; returns true if there was memory for them.
    #[inline]
    pub(super) fn reach(&mut self, id: Id) -> bool {
        self.pages.len() * PAGE > id as usize || self.add_pages(id).is_some()
    }

    #[cold]
    fn add_pages(&mut self, id: Id) -> Option<()> {
        while id as usize >= self.pages.len() * PAGE {
            let page: Box<[T; PAGE]> = boxed(PAGE, T::default).ok()?.try_into().ok()?;
            // `Vec::push` would abort without memory.
            self.pages.try_reserve(1).ok()?;
            self.pages.push(page);
        }
        Some(())
    }

    /// The item `id`, which must have been allocated.
    #[inline]
    pub(super) fn at(&self, id: Id) -> &T {
        &self.pages[id as usize / PAGE][id as usize % PAGE]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, id: Id) -> &mut T {
        &mut self.pages[id as usize / PAGE][id as usize % PAGE]
    }
}

/// The record of a Data for the policy and the limits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    newer: Id,
    older: Id,
    /// The hash of its name.
    pub(crate) hash: u64,
    /// [`super::super::index::Handle::generation`].
    pub(crate) generation: u32,
    pub(crate) octets: u32,
    pub(crate) components: u8,
    /// Identifies the policy whose list contains the Data: each change of policy flips the value
    /// for the new policy.
    pub(crate) turn: bool,
    /// The list that it is in; 0 for none.
    pub(crate) list: u32,
}

impl Record {
    /// The record of a Data that is in no list.
    pub(crate) fn new(hash: u64) -> Self {
        Record { hash, ..Record::default() }
    }
}

/// The records of all ids.
#[derive(Default)]
pub(crate) struct Records(Paged<Record>);

impl Records {
    /// Allocates the records of ids up to and including `id`.
    pub(crate) fn prepare(&mut self, id: Id) -> Result<(), ConfigError> {
        self.0.reach(id).then_some(()).ok_or(ConfigError::OutOfMemory)
    }

    /// Sets the record of a Data that is in no list; returns true if there was memory for it.
    pub(crate) fn set(&mut self, id: Id, record: Record) -> bool {
        let reached = self.0.reach(id);
        if reached {
            *self.0.at_mut(id) = record;
        }
        reached
    }

    /// The record of a Data that is in a list.
    pub(crate) fn listed(&self, id: Id) -> Option<&Record> {
        // A Data that is in the index but not admitted yet may have no record.
        let known = self.0.pages.len() * PAGE > id as usize;
        known.then(|| self.0.at(id)).filter(|record| record.list != 0)
    }

    pub(crate) fn set_turn(&mut self, id: Id, turn: bool) {
        self.0.at_mut(id).turn = turn;
    }

    pub(crate) fn hash(&self, id: Id) -> u64 {
        self.0.at(id).hash
    }

    /// The next newer Data in the list of `id`.
    pub(crate) fn newer(&self, id: Id) -> Option<Id> {
        let newer = self.0.at(id).newer;
        (newer != NONE).then_some(newer)
    }

    /// The list that `id` is in; 0 for none.
    pub(super) fn list(&self, id: Id) -> u32 {
        self.0.at(id).list
    }

    /// The last record that was set for `id`.
    pub(crate) fn record(&self, id: Id) -> Record {
        *self.0.at(id)
    }
}

/// A list of ids, each of which is in one list at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    number: u32,
    newest: Id,
    oldest: Id,
    len: usize,
}

impl List {
    /// An empty list with a unique number above 0.
    pub(crate) const fn new(number: u32) -> Self {
        List { number, newest: NONE, oldest: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn oldest(&self) -> Option<Id> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    pub(super) fn newest(&self) -> Option<Id> {
        (self.newest != NONE).then_some(self.newest)
    }

    /// The number of ids.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.len
    }

    /// All ids, the oldest first.
    pub(crate) fn iter<'a>(&self, records: &'a Records) -> impl Iterator<Item = Id> + use<'a> {
        core::iter::successors(self.oldest(), move |id| records.newer(*id))
    }

    pub(crate) fn push(&mut self, id: Id, records: &mut Records) {
        let older = core::mem::replace(&mut self.newest, id);
        let record = records.0.at_mut(id);
        (record.newer, record.older, record.list) = (NONE, older, self.number);
        match older {
            NONE => self.oldest = id,
            older => records.0.at_mut(older).newer = id,
        }
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, id: Id, records: &mut Records) {
        let record = records.0.at_mut(id);
        let (newer, older) = (record.newer, record.older);
        // From now on `Records::listed` yields nothing, so no other thread detaches the Data.
        record.list = 0;
        match newer {
            NONE => self.newest = older,
            newer => records.0.at_mut(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => records.0.at_mut(older).newer = newer,
        }
        self.len -= 1;
    }

    pub(super) fn pop_oldest(&mut self, records: &mut Records) -> Option<Id> {
        let id = self.oldest()?;
        self.remove(id, records);
        Some(id)
    }

    /// Moves an id of the list to its newest end.
    pub(super) fn renew(&mut self, id: Id, records: &mut Records) {
        // Repeated hits of the newest Data write nothing.
        if self.newest != id {
            self.remove(id, records);
            self.push(id, records);
        }
    }
}
