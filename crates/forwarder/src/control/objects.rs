//! Registered objects.

use lock_api::RawMutex;
use namely_wire::NameRef;

use crate::counters::ObjectCounts;
use crate::cs::{Cs, NewObjects, ObjectHeld, ObjectPlan};
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
    /// Registers the objects of a catalogue by the names of their files, in the place of those
    /// before, and returns how many names there are. Packets are forwarded meanwhile, by the
    /// catalogue before until this one is whole; memory is made for both. Cached Data of objects
    /// that are no longer listed is gone when this returns.
    ///
    /// # Errors
    ///
    /// [`ObjectsError`]: the catalogue cannot be had, and the one before it stays.
    pub fn set<'a>(&self, names: impl IntoIterator<Item = ObjectName<'a>>) -> Result<usize, ObjectsError> {
        let mut hashes = boxed(1, NameHashes::new).map_err(|_| ObjectsError::OutOfMemory)?;
        let mut new = NewObjects::new(self.objects.objects_max()).map_err(|_| ObjectsError::OutOfMemory)?;
        let names = names.into_iter().inspect(|name| {
            if let Some(id) = new.ids.get_mut(name.object as usize) {
                *id = Some(name.id);
            }
        });
        let count = self.objects.exchange(&self.names.hasher, &mut hashes[0], names)?;
        self.cs.exchange_objects(new);
        Ok(count)
    }

    /// Gives Data of registered objects room in memory: a budget of their own beside that of the
    /// content store's policy, of which whole objects are kept by plan ([`ObjectControl::plan`]).
    /// Without any, as it is at first, they are Data as all others. Data beyond a smaller budget is
    /// evicted in rounds.
    pub fn room(&self, packets_max: usize, octets_max: u64) {
        self.cs.limit_objects(packets_max, octets_max);
    }

    /// Says whether Data that belong to no object are kept out of the content store, once there is
    /// a catalogue.
    pub fn only(&self, is_only: bool) {
        self.cs.refuse_unregistered(is_only);
    }

    /// Sets the plan for an object's Data. A new object is kept nowhere; one that was in the
    /// catalogue before has its plan still.
    pub fn plan(&self, object: u32, plan: ObjectPlan) {
        self.cs.plan_object(object, plan);
    }

    /// The Data of an object in memory.
    pub fn held(&self, object: u32) -> ObjectHeld {
        self.cs.held_object(object)
    }

    /// The Data of all objects in memory, and counts of admitted and evicted Data.
    pub fn counts(&self) -> ObjectCounts {
        self.cs.object_counts()
    }

    /// The object that a name belongs to.
    pub fn of(&self, name: NameRef<'_>) -> Option<u32> {
        self.names.with(name, |key| self.objects.find(key)).map(|found| found.object)
    }

    /// Sets which way the strategy `vip` asks for an object: where its lock has ended. A face that
    /// is not there is none.
    pub fn direct(&self, object: u32, face: Option<FaceId>) {
        self.objects.direct(object, face.and_then(|face| self.faces.key_of(face)));
    }

    /// The number of Interests for an object since the first catalogue, with those that the content
    /// store answered and those that joined a pending one. Retransmissions of a waiting face and
    /// Interests of neighbors ([`ObjectControl::neighbours`]) do not count.
    pub fn asked(&self, object: u32) -> u64 {
        self.objects.asked(object)
    }

    /// Says which faces' Interests are no demand, at most [`crate::OBJECT_NEIGHBOURS_MAX`].
    pub fn neighbours(&self, faces: &[FaceId]) {
        self.objects.set_neighbours(faces.iter().filter_map(|face| self.faces.key_of(*face)));
    }
}
