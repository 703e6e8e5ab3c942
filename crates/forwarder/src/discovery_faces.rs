//! Who is asked for what no route leads to (strategy self-learning).
//!
//! The neighbours of a link are asked one by one *beside* its group, so that the answer of a
//! neighbour comes by unicast and teaches its own face, while a station that is no neighbour,
//! because it knows no discovery, is asked at the same time. A neighbour that refuses, or says
//! nothing, delays nobody.
//!
//! A neighbour whose Data consumers have refused is *doubted* for some time: only its group is
//! asked, which it is a member of.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::NackReason;
use namely_wire::mgmt::LinkType;

use crate::face_id::FaceKey;
use crate::faces::FaceHold;
use crate::inline_vec::InlineVec;
use crate::lock_order::{LeafGuard, LeafLock};
use crate::pit::entry::{InRecords, OutRecords, PitEntry};

/// The most faces that discoveries of the strategy self-learning go to.
pub const DISCOVERY_FACES_MAX: usize = 256;

/// For so long after an answer a group is one that answers, ns.
const ANSWERS_NS: u64 = 600_000_000_000;

/// How long groups are waited for when all others have refused, ns: those that answer, and those
/// that do not. Groups refuse nothing.
const ANSWERING_WAIT_NS: u64 = 2_000_000_000;
const SILENT_WAIT_NS: u64 = 500_000_000;

/// For how long a neighbour is asked through its group alone, once a consumer has refused its Data,
/// ns.
pub const DOUBTED_NS: u64 = 30_000_000_000;

/// Faces of one Interest.
pub(crate) type Keys = InlineVec<FaceKey, 8>;

/// The faces that are for discovery, behind their lock.
pub(crate) struct Discovery<R>(LeafLock<R, DiscoveryFaces>);

impl<R: RawMutex> Discovery<R> {
    pub(crate) fn new() -> Self {
        Discovery(LeafLock::new(DiscoveryFaces::default()))
    }

    /// The same under the lock of an entry, of which the faces that wait are read meanwhile.
    pub(crate) fn lock_under<B>(&self, entry: &PitEntry<B>) -> LeafGuard<'_, R, DiscoveryFaces> {
        self.0.lock_under(entry)
    }

    /// The faces, for a caller that holds no lock but perhaps that of a name.
    pub(crate) fn lock(&self) -> LeafGuard<'_, R, DiscoveryFaces> {
        self.0.lock()
    }

    /// The group that was asked in the place of a neighbour which receives that by unicast.
    #[cold]
    pub(crate) fn group_asked_with(&self, ingress: &FaceHold<'_>) -> Option<FaceKey> {
        let is_single = !ingress.is_local() && ingress.link_type() == LinkType::PointToPoint;
        is_single.then(|| self.lock().group_of_copied(ingress.key())).flatten()
    }

    /// Data has answered a discovery by this face, which several peers may be behind.
    #[cold]
    pub(crate) fn answered_by(&self, ingress: &FaceHold<'_>, now_ns: u64) {
        if ingress.link_type() != LinkType::PointToPoint {
            self.lock().answered(ingress.key(), now_ns);
        }
    }
}

/// The faces that are for discovery.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryFaces {
    faces: Vec<Asked>,
    /// Groups beside which neighbours are asked.
    groups: Vec<Group>,
    /// Faces of neighbours that receive by unicast what is sent to a group, and that group.
    copied: Vec<(FaceKey, FaceKey)>,
}

/// A face that is asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    face: FaceKey,
    /// The face of the link's group, beside which it is asked.
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
        self.answered_at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < ANSWERS_NS)
    }
}

impl DiscoveryFaces {
    /// Has a face asked, beside `group` if one is given; one that is asked already stays as it is
    /// if none is. False if there is no room.
    pub(crate) fn add(&mut self, face: FaceKey, group: Option<FaceKey>) -> bool {
        let has_room = self.faces.len() < DISCOVERY_FACES_MAX && self.faces.try_reserve(1).is_ok();
        match self.faces.iter_mut().find(|own| own.face == face) {
            Some(own) => own.group = group.or(own.group),
            None if has_room => self.faces.push(Asked { face, group, doubted_until_ns: 0 }),
            None => return false,
        }
        if let Some(face) = group
            && self.groups.iter().all(|own| own.face != face)
            && self.groups.len() < DISCOVERY_FACES_MAX
            && self.groups.try_reserve(1).is_ok()
        {
            self.groups.push(Group { face, answered_at_ns: None });
        }
        true
    }

    /// Has a face asked no longer.
    pub(crate) fn remove(&mut self, face: FaceKey) {
        self.faces.retain(|own| own.face != face);
    }

    /// A face has gone, or its number is another's.
    pub(crate) fn forget(&mut self, face: FaceKey) {
        self.remove(face);
        self.groups.retain(|own| own.face != face);
        self.copied.retain(|(own, group)| *own != face && *group != face);
    }

    /// These receive by unicast what is sent to a group, and no others do. False if there is no
    /// room.
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

    /// Those that are asked.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FaceKey> {
        self.faces.iter().map(|asked| asked.face)
    }

    /// Adds those that are asked for what `waiting` wait for: groups last, so that a neighbour
    /// receives its own Interest first and answers by unicast. Not the group of the one link on
    /// which all of these are, who ask there themselves, nor its neighbours if the Interest came by
    /// the group, as they have it. False: no memory for one.
    pub(crate) fn asked(&self, waiting: &InRecords, now_ns: u64, keys: &mut Keys) -> bool {
        let is_of_link = |face: FaceKey, group: FaceKey| {
            face == group || self.faces.iter().any(|own| own.face == face && own.group == Some(group))
        };
        let is_group = |face: FaceKey| self.groups.iter().any(|group| group.face == face);
        let came_by = |group: FaceKey| waiting.iter().all(|record| record.face == group);
        let single = self.faces.iter().filter(|own| !is_group(own.face) && !own.group.is_some_and(came_by));
        let believed = single.filter(|own| own.group.is_none() || own.doubted_until_ns <= now_ns);
        let groups = self.faces.iter().filter(|own| is_group(own.face));
        let groups = groups.filter(|own| !waiting.iter().all(|record| is_of_link(record.face, own.face)));
        believed.chain(groups).all(|own| keys.push(own.face))
    }

    /// Adds the neighbours that are asked beside a group that answers, except those that are
    /// doubted. False: no memory for one.
    pub(crate) fn beside(&self, group: FaceKey, now_ns: u64, keys: &mut Keys) -> bool {
        let answers = self.groups.iter().any(|own| own.face == group && own.answers(now_ns));
        self.faces
            .iter()
            .filter(|own| answers && own.group == Some(group) && own.doubted_until_ns <= now_ns)
            .all(|own| keys.push(own.face))
    }

    /// How long to wait still where all who were asked have refused but groups, ns; `None` if
    /// others may answer. A neighbour that has seen the Interest by another way (Duplicate) may
    /// have the answer there.
    pub(crate) fn wait_for_groups_ns(&self, asked: &OutRecords, now_ns: u64) -> Option<u64> {
        let mut wait_ns = SILENT_WAIT_NS;
        for record in asked.iter() {
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

    /// A discovery was answered by this face.
    pub(crate) fn answered(&mut self, face: FaceKey, now_ns: u64) {
        let groups = self.groups.iter_mut().filter(|group| group.face == face);
        groups.for_each(|group| group.answered_at_ns = Some(now_ns));
    }

    /// Asks a neighbour through its group alone for some time; false if it is none.
    pub(crate) fn doubt(&mut self, face: FaceKey, now_ns: u64) -> bool {
        let own = self.faces.iter_mut().find(|own| own.face == face && own.group.is_some());
        own.map(|own| own.doubted_until_ns = now_ns.saturating_add(DOUBTED_NS)).is_some()
    }
}
