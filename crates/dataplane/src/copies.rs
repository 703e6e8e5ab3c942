//! Faces that receive what is sent to a group, each by itself: neighbours that frames of the group
//! are too long for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namely_forwarder::FaceId;
use parking_lot::RwLock;

/// The faces of each group.
#[derive(Default)]
pub(super) struct Copies {
    /// Most links have no such neighbour, and workers look here for each packet.
    are_there: AtomicBool,
    faces: RwLock<HashMap<FaceId, Arc<[FaceId]>>>,
}

impl Copies {
    /// From now on a group has these.
    pub(super) fn set(&self, group: FaceId, faces: Vec<FaceId>) {
        let mut all = self.faces.write();
        if faces.is_empty() {
            all.remove(&group);
        } else {
            all.insert(group, faces.into());
        }
        self.are_there.store(!all.is_empty(), Ordering::Relaxed);
    }

    /// The faces that receive what is sent to `face`, if it is a group that has such.
    #[inline]
    pub(super) fn of(&self, face: FaceId) -> Option<Arc<[FaceId]>> {
        if self.are_there.load(Ordering::Relaxed) { self.faces.read().get(&face).cloned() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_its_faces_until_it_has_others_or_none() {
        let copies = Copies::default();
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
