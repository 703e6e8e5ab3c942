//! This router's regions: a few names, with which forwarding hints are compared.

use crate::lock_order::LeafLock;
use crate::sync::plain::{AtomicBool, Ordering::Relaxed};
use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

pub(crate) struct Regions<R> {
    // Most routers are in no region: then no lock is taken.
    any: AtomicBool,
    names: LeafLock<R, Vec<Name>>,
}

impl<R: RawMutex> Regions<R> {
    pub(crate) fn new(names: Vec<Name>) -> Self {
        Regions { any: AtomicBool::new(!names.is_empty()), names: LeafLock::new(names) }
    }

    pub(crate) fn set(&self, names: Vec<Name>) {
        let mut known = self.names.lock();
        self.any.store(!names.is_empty(), Relaxed);
        *known = names;
    }

    /// Returns true if one of `hints` is a region of this router or a prefix of one.
    pub(crate) fn any_of<'a>(&self, mut hints: impl Iterator<Item = NameRef<'a>>) -> bool {
        if !self.any.load(Relaxed) {
            return false;
        }
        let names = self.names.lock();
        hints.any(|hint| names.iter().any(|region| hint.is_prefix_of(region.as_name())))
    }
}
