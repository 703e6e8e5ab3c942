//! A content store without registered objects: the policy manages all Data.

use lock_api::RawMutex;

use super::accounting::Accounting;
use super::index::Handle;
use super::policy::lists::Record;
use super::{Cs, IncomingData};
use crate::counters::ObjectCounts;
use crate::objects::ObjectMatch;
use crate::packet::{Output, PacketBuf};
use crate::reserve::Reserve;
use crate::slab::Id;

impl<B: PacketBuf, R: RawMutex> Cs<B, R> {
    pub(crate) fn insert_object_data<O: Output<B>>(
        &self,
        _arriving: IncomingData<'_, B>,
        found: ObjectMatch,
        _reserve: &Reserve,
        _out: &mut O,
    ) {
        // Never called: without objects no `ObjectMatch` exists.
        match found {}
    }

    #[inline(always)]
    pub(crate) fn evict_objects<O: Output<B>>(&self, _budget: usize, _out: &mut O) -> bool {
        false
    }

    pub(crate) fn object_counts(&self) -> ObjectCounts {
        ObjectCounts::default()
    }

    #[inline(always)]
    pub(crate) fn refuses_unregistered(&self) -> bool {
        false
    }
}

impl Accounting {
    /// Returns true if the record is of a Data of an object.
    #[inline(always)]
    pub(super) fn is_object_record(_record: &Record) -> bool {
        false
    }

    pub(super) fn detach_object_data(&mut self, _handle: Handle) -> Option<Id> {
        None
    }

    #[inline(always)]
    pub(super) fn any_object_data(&self) -> Option<Id> {
        None
    }

    #[cfg(test)]
    pub(super) fn check_objects(&self) -> usize {
        0
    }
}
