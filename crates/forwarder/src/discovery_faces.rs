//! The faces to which the strategy self-learning sends discovery Interests.
//!
//! Each neighbor of a link receives a discovery by unicast, *beside* the link's group. So a
//! neighbor answers by unicast, and its own face is learned. Link addresses that do not support
//! discovery are no neighbors; they receive the Interest through the group at the same time. A
//! neighbor that refuses, or does not answer, delays no other.
//!
//! A neighbor whose Data consumers have refused is *doubted* for some time: it receives discoveries
//! only through its group.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_messages::LinkType;
use namely_wire::NackReason;

use crate::face_id::FaceKey;
use crate::faces::FaceHold;
use crate::inline_vec::InlineVec;
use crate::lock_order::{LeafGuard, LeafLock};
use crate::pit::entry::{InRecords, OutRecords, PitEntry};

/// Faces that discoveries of self-learning are sent to.
///
/// # Limit
/// A further face receives no discoveries.
/// - Counter: `discovery_faces_full`
/// - Tests: `discovery_faces_end_at_their_limit`
pub const DISCOVERY_FACES_MAX: usize = 256;

/// The time after an answer for which a group counts as answering, ns.
const ANSWERS_NS: u64 = 600_000_000_000;

/// Wait for an answering group after all others have refused.
///
/// A group counts as answering if it has answered in the last ten minutes. Groups send no Nacks.
///
/// # Limit
/// The Interest is refused as without a route.
/// - Counter: `no_route`
/// - Tests: `neighbor_refusals_leave_the_group_time`
const ANSWERING_WAIT_NS: u64 = 2_000_000_000;

/// Wait for a silent group after all others have refused.
///
/// # Limit
/// The Interest is refused as without a route.
/// - Counter: `no_route`
/// - Tests: `neighbor_refusals_leave_the_group_time`
const SILENT_WAIT_NS: u64 = 500_000_000;

/// Time that a doubted neighbor receives discoveries through its group alone.
///
/// A neighbor is doubted once a consumer has refused its Data.
///
/// # Limit
/// The neighbor receives discoveries again.
/// - Tests: `refused_data_returns_routes_to_the_group`
pub const DOUBTED_NS: u64 = 30_000_000_000;

/// Discovery faces for one Interest.
pub(crate) type Keys = InlineVec<FaceKey, 8>;

/// The discovery faces, behind their lock.
pub(crate) struct Discovery<R>(LeafLock<R, DiscoveryFaces>);

impl<R: RawMutex> Discovery<R> {
    pub(crate) fn new() -> Self {
        Discovery(LeafLock::new(DiscoveryFaces::default()))
    }

    /// As `lock`, under the lock of an entry, whose downstreams are read meanwhile.
    pub(crate) fn lock_under<B>(&self, entry: &PitEntry<B>) -> LeafGuard<'_, R, DiscoveryFaces> {
        self.0.lock_under(entry)
    }

    /// Locks the faces. The caller may hold the lock of a name, and no other.
    pub(crate) fn lock(&self) -> LeafGuard<'_, R, DiscoveryFaces> {
        self.0.lock()
    }

    /// The group whose packets `ingress`, a neighbor, receives by unicast. Interests to the group
    /// have out-records of the group alone, not of `ingress`.
    #[cold]
    pub(crate) fn requested_group(&self, ingress: &FaceHold<'_>) -> Option<FaceKey> {
        let is_single = !ingress.is_local() && ingress.link_type() == LinkType::PointToPoint;
        // Only for Data that has satisfied nothing by its own face, so the lock is rarely taken.
        is_single.then(|| self.lock().group_of_copied(ingress.key())).flatten()
    }

    /// Records that Data answered a discovery through this face, which may have several peers.
    #[cold]
    pub(crate) fn answered_by(&self, ingress: &FaceHold<'_>, now_ns: u64) {
        // Only groups have a time of their last answer.
        if ingress.link_type() != LinkType::PointToPoint {
            self.lock().answered(ingress.key(), now_ns);
        }
    }
}

/// The discovery faces.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryFaces {
    faces: Vec<DiscoveryFace>,
    /// Groups with neighbors beside them.
    groups: Vec<Group>,
    /// Faces of neighbors that receive a group's packets by unicast, and that group.
    copied: Vec<(FaceKey, FaceKey)>,
}

/// A discovery face.
#[derive(Clone, Copy, Debug)]
struct DiscoveryFace {
    face: FaceKey,
    /// The face of its link's group, if it is beside one.
    group: Option<FaceKey>,
    doubted_until_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    face: FaceKey,
    answered_at_ns: Option<u64>,
}

impl Group {
    fn answers(&self, now_ns: u64) -> bool {
        // Saturating: workers have the times of different batches.
        self.answered_at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < ANSWERS_NS)
    }
}

impl DiscoveryFaces {
    /// Adds a discovery face, beside `group` if one is given; without one, a known face keeps its
    /// group. Returns false if there is no room.
    pub(crate) fn add(&mut self, face: FaceKey, group: Option<FaceKey>) -> bool {
        // Memory is reserved first, because `push` would abort without it.
        let has_room = self.faces.len() < DISCOVERY_FACES_MAX && self.faces.try_reserve(1).is_ok();
        match self.faces.iter_mut().find(|own| own.face == face) {
            Some(own) => own.group = group.or(own.group),
            None if has_room => self.faces.push(DiscoveryFace { face, group, doubted_until_ns: 0 }),
            None => return false,
        }
        // Without room the group still receives discoveries, but in the order of neighbors.
        if let Some(face) = group
            && self.groups.iter().all(|own| own.face != face)
            && self.groups.len() < DISCOVERY_FACES_MAX
            && self.groups.try_reserve(1).is_ok()
        {
            self.groups.push(Group { face, answered_at_ns: None });
        }
        true
    }

    /// Removes a discovery face.
    pub(crate) fn remove(&mut self, face: FaceKey) {
        self.faces.retain(|own| own.face != face);
    }

    /// Removes a released face, and every reference to it.
    pub(crate) fn forget(&mut self, face: FaceKey) {
        self.remove(face);
        self.groups.retain(|own| own.face != face);
        self.copied.retain(|(own, group)| *own != face && *group != face);
    }

    /// Sets the faces that receive a group's packets by unicast, in place of the previous ones.
    /// Returns false if there is no room.
    pub(crate) fn set_copied(&mut self, group: FaceKey, faces: impl Iterator<Item = FaceKey>) -> bool {
        self.copied.retain(|(_, own)| *own != group);
        let mut has_room = true;
        for face in faces {
            has_room &= self.copied.len() < DISCOVERY_FACES_MAX && self.copied.try_reserve(1).is_ok();
            if has_room {
                self.copied.push((face, group));
            }
        }
        has_room
    }

    /// The group whose packets a face receives as well.
    pub(crate) fn group_of_copied(&self, face: FaceKey) -> Option<FaceKey> {
        self.copied.iter().find(|(own, _)| *own == face).map(|(_, group)| *group)
    }

    /// The discovery faces.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FaceKey> {
        self.faces.iter().map(|own| own.face)
    }

    /// Adds the discovery faces for an Interest with the downstreams `waiting`. Groups come last,
    /// so that a neighbor receives its own Interest first and answers by unicast. A group is
    /// omitted if all downstreams are on its link, because they have sent the Interest there
    /// themselves. The neighbors of a group are omitted if the group is the only downstream,
    /// because they have received the Interest. Returns false if there is no memory for a face.
    pub(crate) fn select(&self, waiting: &InRecords, now_ns: u64, keys: &mut Keys) -> bool {
        let is_of_link = |face: FaceKey, group: FaceKey| {
            face == group || self.faces.iter().any(|own| own.face == face && own.group == Some(group))
        };
        let is_group = |face: FaceKey| self.groups.iter().any(|group| group.face == face);
        let came_by = |group: FaceKey| waiting.iter().all(|record| record.face == group);
        let single = self.faces.iter().filter(|own| !is_group(own.face) && !own.group.is_some_and(came_by));
        // The group is the way to a doubted neighbor, as long as it is a discovery face.
        let has_group = |own: &DiscoveryFace| self.iter().any(|face| own.group == Some(face));
        let believed = single.filter(|own| own.doubted_until_ns <= now_ns || !has_group(own));
        let groups = self.faces.iter().filter(|own| is_group(own.face));
        let groups = groups.filter(|own| !waiting.iter().all(|record| is_of_link(record.face, own.face)));
        believed.chain(groups).all(|own| keys.push(own.face))
    }

    /// Adds the neighbors beside `group`, except doubted ones, if the group counts as answering.
    /// Returns false if there is no memory for a face.
    pub(crate) fn beside(&self, group: FaceKey, now_ns: u64, keys: &mut Keys) -> bool {
        let answers = self.groups.iter().any(|own| own.face == group && own.answers(now_ns));
        self.faces
            .iter()
            .filter(|own| answers && own.group == Some(group) && own.doubted_until_ns <= now_ns)
            .all(|own| keys.push(own.face))
    }

    /// The time to wait for groups if all other faces have refused, ns; `None` if one of these may
    /// still answer. A neighbor that refused with Duplicate has received the Interest on another
    /// path, and may have the answer there.
    pub(crate) fn wait_for_groups_ns(&self, out_records: &OutRecords, now_ns: u64) -> Option<u64> {
        let mut wait_ns = SILENT_WAIT_NS;
        for record in out_records.iter() {
            match record.nack {
                None => {
                    let group = self.groups.iter().find(|group| group.face == record.face)?;
                    wait_ns = if group.answers(now_ns) { ANSWERING_WAIT_NS } else { wait_ns };
                }
                Some(NackReason::Duplicate) => return None,
                Some(_) => {}
            }
        }
        Some(wait_ns)
    }

    /// Records that this face answered a discovery.
    pub(crate) fn answered(&mut self, face: FaceKey, now_ns: u64) {
        let groups = self.groups.iter_mut().filter(|group| group.face == face);
        groups.for_each(|group| group.answered_at_ns = Some(now_ns));
    }

    /// Sends discoveries to a neighbor only through its group for some time; returns false if it is
    /// no neighbor.
    pub(crate) fn doubt(&mut self, face: FaceKey, now_ns: u64) -> bool {
        let own = self.faces.iter_mut().find(|own| own.face == face && own.group.is_some());
        own.map(|own| own.doubted_until_ns = now_ns.saturating_add(DOUBTED_NS)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pit::entry::InRecord;

    const NEIGHBOR: FaceKey = FaceKey { slot: 1, generation: 1 };
    const GROUP: FaceKey = FaceKey { slot: 2, generation: 1 };

    fn selected(faces: &DiscoveryFaces) -> Vec<FaceKey> {
        let consumer = FaceKey { slot: 3, generation: 1 };
        let mut waiting = InRecords::new();
        assert!(waiting.push(InRecord { face: consumer, nonce: [0; 4], token: None, expires_at_ns: 2 }));
        let mut keys = Keys::new();
        assert!(faces.select(&waiting, 1, &mut keys));
        keys.iter().copied().collect()
    }

    /// A neighbor beside its group, doubted longer than the test.
    fn with_doubted() -> DiscoveryFaces {
        let mut faces = DiscoveryFaces::default();
        assert!(faces.add(GROUP, None) && faces.add(NEIGHBOR, Some(GROUP)));
        assert!(faces.doubt(NEIGHBOR, 0));
        faces
    }

    #[test]
    fn doubted_neighbors_get_discoveries_by_group() {
        assert_eq!(selected(&with_doubted()), [GROUP]);
    }

    #[test]
    fn doubted_neighbors_without_group_get_discoveries() {
        let mut faces = with_doubted();
        faces.remove(GROUP);
        assert_eq!(selected(&faces), [NEIGHBOR], "the group is no discovery face any more");
        let mut faces = with_doubted();
        faces.forget(GROUP);
        assert_eq!(selected(&faces), [NEIGHBOR], "the group was released");
    }
}
