//! The faces to which the strategy self-learning sends discovery Interests.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::discovery_faces::Discovery;
use crate::face_id::{FaceId, FaceKey};
use crate::faces::{FaceError, Faces};

/// The discovery faces: [`crate::Forwarder::discovery`]. Each call takes their lock and no other
/// one.
pub struct DiscoveryControl<'a, R> {
    pub(crate) discovery: &'a Discovery<R>,
    pub(crate) faces: &'a Faces<R>,
}

impl<R: RawMutex> DiscoveryControl<'_, R> {
    /// Sets whether the strategy self-learning sends discoveries to a face. Groups and neighbors
    /// are discovery faces; a face that only sent an Interest is not.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face, [`FaceError::TableFull`] if
    /// [`DISCOVERY_FACES_MAX`](crate::DISCOVERY_FACES_MAX) faces are for discovery.
    pub fn set(&self, face: FaceId, is_wanted: bool) -> Result<(), FaceError> {
        self.choose(face, is_wanted, None)
    }

    /// Sends discoveries to a neighbor's face in addition to the face of its link's `group`. The
    /// group stays a discovery face, because other link addresses receive discoveries only through
    /// it.
    ///
    /// # Errors
    ///
    /// As [`DiscoveryControl::set`].
    pub fn set_beside(&self, face: FaceId, group: FaceId) -> Result<(), FaceError> {
        let group = self.faces.hold(group).ok_or(FaceError::NotFound)?.key();
        self.choose(face, true, Some(group))?;
        // The group's face may have been released since the lookup. Its release then missed this
        // entry, so it is removed here.
        if self.faces.was_released(group) {
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
        if self.faces.was_released(key) {
            self.discovery.lock().forget(key);
            return Err(FaceError::NotFound);
        }
        Ok(())
    }

    /// Accepts Data from these faces as answers to Interests that were sent to their link's
    /// `group`, because the embedder copies the group's packets to them by unicast. The list
    /// replaces the previous one.
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

    /// The faces to which discoveries are sent.
    pub fn faces(&self) -> Vec<FaceId> {
        self.discovery.lock().iter().map(|key| key.id()).collect()
    }
}
