//! A content store without registered objects: all Data are the policy's.

use lock_api::RawMutex;

use super::accounting::Accounting;
use super::index::Handle;
use super::policy::lists::Record;
use super::{Arriving, Cs};
use crate::counters::ObjectCounts;
use crate::objects::Found;
use crate::packet::{Output, PacketBuf};
use crate::reserve::Reserve;
use crate::slab::Id;

impl<B: PacketBuf, R: RawMutex> Cs<B, R> {
    pub(crate) fn insert_of_object<O: Output<B>>(
        &self,
        _arriving: Arriving<'_, B>,
        found: Found,
        _reserve: &Reserve,
        _out: &mut O,
    ) {
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
    pub(super) fn is_of_object(_record: &Record) -> bool {
        false
    }

    pub(super) fn detach_of_object(&mut self, _handle: Handle) -> Option<Id> {
        None
    }

    #[inline(always)]
    pub(super) fn any_of_objects(&self) -> Option<Id> {
        None
    }

    #[cfg(test)]
    pub(super) fn check_objects(&self) -> usize {
        0
    }
}
