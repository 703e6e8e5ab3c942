//! Registered objects.

use lock_api::RawMutex;
use namely_wire::NameRef;

use crate::counters::ObjectCounts;
use crate::cs::{Cs, NewObjects, ObjectPlan, ObjectUsage};
use crate::face_id::FaceId;
use crate::faces::Faces;
use crate::hash::NameHashes;
use crate::name_keys::NameKeys;
use crate::objects::{ObjectName, Objects, ObjectsError};
use crate::packet::PacketBuf;
use crate::pool::boxed;

/// The registered objects, and their Data in the content store: [`crate::Forwarder::objects`].
pub struct ObjectControl<'a, B, R> {
    pub(crate) names: &'a NameKeys<R>,
    pub(crate) objects: &'a Objects<R>,
    pub(crate) cs: &'a Cs<B, R>,
    pub(crate) faces: &'a Faces<R>,
}

impl<B: PacketBuf, R: RawMutex> ObjectControl<'_, B, R> {
    /// Registers the objects of a catalogue by the names of their files, in place of the previous
    /// catalogue, and returns the number of names. Packets are forwarded meanwhile by the previous
    /// catalogue; memory is allocated for both. Cached Data of objects that are no longer listed is
    /// removed before this returns.
    ///
    /// # Errors
    ///
    /// [`ObjectsError`]: the catalogue is refused, and the previous one stays.
    pub fn set<'a>(&self, names: impl IntoIterator<Item = ObjectName<'a>>) -> Result<usize, ObjectsError> {
        let mut hashes = boxed(1, NameHashes::new).map_err(|_| ObjectsError::OutOfMemory)?;
        // All memory first: after the exchange of the names nothing may fail.
        let mut new = NewObjects::new(self.objects.objects_max()).map_err(|_| ObjectsError::OutOfMemory)?;
        let names = names.into_iter().inspect(|name| {
            if let Some(id) = new.ids.get_mut(name.object as usize) {
                *id = Some(name.id);
            }
        });
        let count = self.objects.exchange(&self.names.hasher, &mut hashes[0], names)?;
        // After the names were accepted, so that a refused catalogue evicts nothing.
        self.cs.exchange_objects(new);
        Ok(count)
    }

    /// Packets and octets in memory for Data of registered objects.
    ///
    /// This call sets a budget that is separate from that of the content store's policy, and whole
    /// objects are cached in it by plan ([`ObjectControl::plan`]). Without a budget, as initially,
    /// they are cached as any other Data. Data beyond a smaller budget is evicted in rounds.
    ///
    /// # Limit
    /// A whole object that is worth less is evicted; if there is none, the Data is refused.
    /// - Value: no budget at the start; then that of the caller
    /// - Counter: `objects_evicted`, `objects_refused_data`
    /// - Tests: `the_object_budget_is_filled_exactly`,
    ///   `an_object_that_cannot_fit_evicts_nothing`
    pub fn room(&self, packets_max: usize, octets_max: u64) {
        self.cs.limit_objects(packets_max, octets_max);
    }

    /// Sets whether Data that belongs to no object is excluded from the content store, once there
    /// is a catalogue.
    pub fn only(&self, is_only: bool) {
        self.cs.refuse_unregistered(is_only);
    }

    /// Sets the plan for an object's Data. A new object is cached nowhere. An object that was in
    /// the previous catalogue keeps its plan.
    pub fn plan(&self, object: u32, plan: ObjectPlan) {
        self.cs.plan_object(object, plan);
    }

    /// The Data of an object in memory.
    pub fn held(&self, object: u32) -> ObjectUsage {
        self.cs.object_usage(object)
    }

    /// The Data of all objects in memory, and counts of admitted and evicted Data.
    pub fn counts(&self) -> ObjectCounts {
        self.cs.object_counts()
    }

    /// The object that a name belongs to.
    pub fn of(&self, name: NameRef<'_>) -> Option<u32> {
        self.names.with(name, |key| self.objects.find(key)).map(|found| found.object)
    }

    /// Sets the face to which the strategy `vip` sends Interests for an object that has no locked
    /// face. A face that does not exist counts as none.
    pub fn direct(&self, object: u32, face: Option<FaceId>) {
        self.objects.direct(object, face.and_then(|face| self.faces.key_of(face)));
    }

    /// The number of Interests for an object since the first catalogue, including those that the
    /// content store answered and those that joined a pending one. Retransmissions of a waiting
    /// face and Interests of neighbors ([`ObjectControl::neighbours`]) do not count.
    pub fn requests(&self, object: u32) -> u64 {
        self.objects.requests(object)
    }

    /// Sets the faces whose Interests do not count as demand, at most
    /// [`crate::OBJECT_NEIGHBOURS_MAX`].
    pub fn neighbours(&self, faces: &[FaceId]) {
        self.objects.set_neighbours(faces.iter().filter_map(|face| self.faces.key_of(*face)));
    }
}
