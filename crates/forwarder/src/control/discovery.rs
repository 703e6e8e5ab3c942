//! The faces that discoveries of the strategy self-learning go to.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::discovery_faces::Discovery;
use crate::face_id::{FaceId, FaceKey};
use crate::faces::{FaceError, Faces};

/// The faces that are for discovery: [`crate::Forwarder::discovery`]. Each call takes their lock
/// alone.
pub struct DiscoveryControl<'a, R> {
    pub(crate) discovery: &'a Discovery<R>,
    pub(crate) faces: &'a Faces<R>,
}

impl<R: RawMutex> DiscoveryControl<'_, R> {
    /// Whether discoveries of the strategy self-learning go to a face: to groups and neighbors, not
    /// to a face that only sent an Interest.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face, [`FaceError::TableFull`] if
    /// [`DISCOVERY_FACES_MAX`](crate::DISCOVERY_FACES_MAX) faces are for discovery.
    pub fn set(&self, face: FaceId, is_wanted: bool) -> Result<(), FaceError> {
        self.choose(face, is_wanted, None)
    }

    /// Has discoveries go to a neighbour's face beside the face of its link's `group`, which is for
    /// discovery as well: for stations that are no neighbours.
    ///
    /// # Errors
    ///
    /// As [`DiscoveryControl::set`].
    pub fn set_beside(&self, face: FaceId, group: FaceId) -> Result<(), FaceError> {
        let group = self.faces.hold(group).ok_or(FaceError::NotFound)?.key();
        self.choose(face, true, Some(group))?;
        // The face may be gone since the lookup. Its release then missed this entry, so it is
        // removed again.
        if self.faces.has_gone(group) {
            self.discovery.lock().forget(group);
        }
        Ok(())
    }

    fn choose(&self, face: FaceId, is_wanted: bool, group: Option<FaceKey>) -> Result<(), FaceError> {
        let key = self.faces.hold(face).ok_or(FaceError::NotFound)?.key();
        let mut faces = self.discovery.lock();
        if !is_wanted {
            faces.remove(key);
        } else if !faces.add(key, group) {
            return Err(FaceError::TableFull);
        }
        drop(faces);
        if self.faces.has_gone(key) {
            self.discovery.lock().forget(key);
            return Err(FaceError::NotFound);
        }
        Ok(())
    }

    /// Data from these faces answers Interests that went to their link's `group`, because the home
    /// copies the group's packets to them by unicast. The list replaces the one before.
    ///
    /// # Errors
    ///
    /// As [`DiscoveryControl::set`].
    pub fn set_copied(&self, group: FaceId, faces: &[FaceId]) -> Result<(), FaceError> {
        let group = self.faces.hold(group).ok_or(FaceError::NotFound)?.key();
        let keys = faces.iter().filter_map(|face| self.faces.hold(*face)).map(|face| face.key());
        let has_room = self.discovery.lock().set_copied(group, keys);
        let held: bool = faces.iter().all(|face| self.faces.hold(*face).is_some());
        match (has_room, held) {
            (false, _) => Err(FaceError::TableFull),
            (true, false) => Err(FaceError::NotFound),
            (true, true) => Ok(()),
        }
    }

    /// The faces that discoveries go to.
    pub fn faces(&self) -> Vec<FaceId> {
        self.discovery.lock().iter().map(|key| key.id()).collect()
    }
}
