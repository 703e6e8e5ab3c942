//! Bindings.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

use crate::bpt::{BindError, Bound, Bpt};
use crate::error::ConfigError;
use crate::face_id::{FaceId, FaceKey};
use crate::faces::{FaceLayer, Faces};
use crate::fib::Fib;
use crate::limits::WALK_PLACES;
use crate::name_keys::NameKeys;
use crate::packet::PacketBuf;
use crate::pit::Pit;

/// The BPT, in which applications bind prefixes: [`crate::Forwarder::bindings`].
///
/// A change takes the lock of the name's work memory, and under it that of the BPT's writers. It
/// reads the PIT (for the owner of a face) and the FIB while it holds only the first lock.
pub struct BindingControl<'a, B, R> {
    pub(crate) names: &'a NameKeys<R>,
    pub(crate) bpt: &'a Bpt<R>,
    pub(crate) fib: &'a Fib<R>,
    pub(crate) pit: &'a Pit<B, R>,
    pub(crate) faces: &'a Faces<R>,
}

impl<B: PacketBuf, R: RawMutex> BindingControl<'_, B, R> {
    /// Binds a prefix to an application's face (`IS-06`, `IS-07`).
    ///
    /// # Errors
    ///
    /// [`BindError`]: the prefix overlaps a bound one, there is no such face or it may not bind, or
    /// a limit on bindings is reached.
    pub fn bind(&self, face: FaceId, prefix: NameRef<'_>) -> Result<Bound, BindError> {
        let hold = self.faces.hold(face).ok_or(BindError::NoFace)?;
        if hold.layer() != FaceLayer::Upper {
            return Err(BindError::NotUpper);
        }
        self.enter_binding(prefix, hold.key())
    }

    pub(crate) fn enter_binding(&self, prefix: NameRef<'_>, key: FaceKey) -> Result<Bound, BindError> {
        let bound = self.names.with_entering(prefix, |name| {
            self.bpt.bind(name, key, self.pit.owner_of(key))?;
            let routed = self.fib.leads_to(name, FaceKey::LOCAL).is_some();
            Ok::<_, BindError>(if routed { Bound::Routed } else { Bound::NotRouted })
        });
        let bound = bound.unwrap_or(Err(BindError::NoMemory))?;
        // As for next hops: if the face was released meanwhile, the removal of its bindings may
        // have run before this one was added.
        if !self.faces.was_released(key) {
            return Ok(bound);
        }
        self.names.with(prefix, |name| self.bpt.unbind(name, key));
        Err(BindError::NoFace)
    }

    /// The number of components of the routable prefix that leads `name` to the face `local`;
    /// `None` if the FIB leads it elsewhere, or nowhere.
    pub fn routed(&self, name: NameRef<'_>) -> Option<usize> {
        self.names.with(name, |key| self.fib.leads_to(key, FaceKey::LOCAL))
    }

    /// Removes a binding; returns true if there was one.
    pub fn unbind(&self, face: FaceId, prefix: NameRef<'_>) -> bool {
        let Some(key) = self.faces.key_of(face) else { return false };
        self.names.with(prefix, |name| self.bpt.unbind(name, key))
    }

    /// The number of prefixes that a face has bound.
    pub fn count(&self, face: FaceId) -> usize {
        self.faces.key_of(face).map_or(0, |key| self.bpt.count_of(key))
    }

    /// Returns true if this face has bound exactly this prefix.
    pub fn holds(&self, face: FaceId, prefix: &Name) -> bool {
        let Some(face) = self.faces.key_of(face) else { return false };
        self.names.with(prefix.as_name(), |key| self.bpt.holds(key, face))
    }

    /// The face that has bound `name` or a prefix of it.
    pub fn bound_to(&self, name: NameRef<'_>) -> Option<FaceId> {
        self.names.with(name, |key| self.bpt.find(key)).map(FaceKey::id)
    }

    /// Adds some bindings, from at most [`WALK_PLACES`] slots, to `bindings`; see
    /// [`super::FibControl::walk`].
    pub fn walk(&self, from: Option<u32>, bindings: &mut Vec<(Name, FaceId)>) -> Option<u32> {
        self.show(from, WALK_PLACES, |name, face| {
            bindings.push((name.into(), face));
            true
        })
    }

    /// Visits the bindings of `slots` slots of the table; see [`super::FibControl::show`].
    pub fn show(
        &self,
        from: Option<u32>,
        slots: u32,
        show: impl FnMut(NameRef<'_>, FaceId) -> bool,
    ) -> Option<u32> {
        self.bpt.walk(from.unwrap_or(1), slots, &mut self.names.work().octets, show)
    }

    /// All bindings, in the order of their faces and names.
    pub fn snapshot(&self) -> Vec<(Name, FaceId)> {
        let (mut bindings, mut from) = (Vec::new(), None);
        loop {
            from = self.walk(from, &mut bindings);
            if from.is_none() {
                break;
            }
        }
        // The order of slots in the table depends on earlier bindings.
        bindings.sort_unstable_by(|(name, face), (other, of)| (face, name).cmp(&(of, other)));
        bindings
    }

    /// As [`super::FibControl::make_room`], for [`BindingControl::bind`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.bpt.make_room(names, octets)
    }
}
