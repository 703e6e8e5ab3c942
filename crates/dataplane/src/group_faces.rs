//! Faces that receive a unicast copy of each packet to a group: neighbors for which the frames of
//! the group are too long.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namely_forwarder::FaceId;
use parking_lot::RwLock;

/// The faces of each group.
#[derive(Default)]
pub(super) struct GroupFaces {
    /// Whether any group has such faces. Workers read this for each packet, and most links have no
    /// such neighbor.
    are_there: AtomicBool,
    faces: RwLock<HashMap<FaceId, Arc<[FaceId]>>>,
}

impl GroupFaces {
    /// Replaces the faces of a group.
    pub(super) fn set(&self, group: FaceId, faces: Vec<FaceId>) {
        let mut all = self.faces.write();
        if faces.is_empty() {
            all.remove(&group);
        } else {
            all.insert(group, faces.into());
        }
        // Relaxed: a worker may see the change a moment late, and reads the faces under the lock.
        self.are_there.store(!all.is_empty(), Ordering::Relaxed);
    }

    /// Returns the faces that receive copies of packets to `face`, if it is a group with such
    /// faces.
    #[inline]
    pub(super) fn of(&self, face: FaceId) -> Option<Arc<[FaceId]>> {
        if self.are_there.load(Ordering::Relaxed) { self.faces.read().get(&face).cloned() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_keeps_its_latest_faces() {
        let copies = GroupFaces::default();
        let [group, other, a, b] = [300, 301, 302, 303].map(FaceId);
        assert!(copies.of(group).is_none());
        copies.set(group, vec![a, b]);
        assert_eq!(copies.of(group).as_deref(), Some(&[a, b][..]));
        assert!(copies.of(other).is_none());
        copies.set(group, vec![b]);
        assert_eq!(copies.of(group).as_deref(), Some(&[b][..]));
        copies.set(group, Vec::new());
        assert!(copies.of(group).is_none());
    }
}
