//! Who is asked for what no route leads to (strategy self-learning).
//!
//! Faces are asked at once, or *last*: where a link's neighbours are asked one by one in the place
//! of its group, the group is asked when these have refused, or have said nothing. So a station
//! that is no neighbour, because it knows no discovery, is found, and what neighbours have is never
//! asked of the group.
//!
//! A group that nobody has answered at lately is asked no more often than every
//! [`ASKED_IN_VAIN_NS`]: most links have no such station, and nobody is to pay for that.

use alloc::vec::Vec;

use namely_wire::NackReason;

use crate::faces::FaceKey;
use crate::inline_vec::InlineVec;
use crate::pit::{InRecords, OutRecords};

/// The most faces that discoveries of the strategy self-learning go to.
pub const DISCOVERY_FACES_MAX: usize = 256;

/// How long until a group is asked last again that has not answered such an Interest, ns.
pub(crate) const ASKED_IN_VAIN_NS: u64 = 1_000_000_000;

/// For so long a group that has answered is asked last without waiting, ns.
const ANSWERS_NS: u64 = 600_000_000_000;

/// How long what was asked of a group last waits for an answer, ns: then it is refused. Groups
/// refuse nothing.
pub(crate) const LAST_ANSWER_NS: u64 = 500_000_000;

/// Faces of one Interest.
pub(crate) type Keys = InlineVec<FaceKey, 8>;

/// An Interest that groups may be asked for last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last<'a> {
    /// Who waits for the answer.
    pub(crate) waiting: &'a InRecords,
    /// Who was asked.
    pub(crate) asked: &'a OutRecords,
    /// An application of this host waits.
    pub(crate) is_own: bool,
    /// Only groups whose neighbours have said nothing to the last Interest.
    pub(crate) only_due: bool,
}

/// The faces that are for discovery.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryFaces {
    faces: Vec<Asked>,
    groups: Vec<Group>,
}

/// A face that is asked at once.
#[derive(Clone, Copy, Debug)]
struct Asked {
    face: FaceKey,
    /// The face of the link's group, in whose place it is asked.
    group: Option<FaceKey>,
}

/// A face that is asked last.
#[derive(Clone, Copy, Debug)]
struct Group {
    face: FaceKey,
    answered_at_ns: Option<u64>,
    asked_at_ns: Option<u64>,
    /// Somebody who is asked in its place has said nothing to an Interest.
    is_due: bool,
}

impl Group {
    fn admits(&self, now_ns: u64) -> bool {
        let within =
            |at_ns: Option<u64>, span_ns| at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < span_ns);
        within(self.answered_at_ns, ANSWERS_NS) || !within(self.asked_at_ns, ASKED_IN_VAIN_NS)
    }
}

impl DiscoveryFaces {
    /// Has a face asked at once, in the place of `group` if one is given; one that is asked already
    /// stays as it is if none is. False if there is no room.
    pub(crate) fn add(&mut self, face: FaceKey, group: Option<FaceKey>) -> bool {
        let has_room = self.faces.len() < DISCOVERY_FACES_MAX && self.faces.try_reserve(1).is_ok();
        match self.faces.iter_mut().find(|own| own.face == face) {
            Some(own) => own.group = group.or(own.group),
            None if has_room => self.faces.push(Asked { face, group }),
            None => return false,
        }
        if let Some(face) = group
            && self.groups.iter().all(|own| own.face != face)
            && self.groups.len() < DISCOVERY_FACES_MAX
            && self.groups.try_reserve(1).is_ok()
        {
            self.groups.push(Group { face, answered_at_ns: None, asked_at_ns: None, is_due: false });
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
    }

    /// Those that are asked at once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FaceKey> {
        self.faces.iter().map(|asked| asked.face)
    }

    /// Adds the groups that are to be asked last, and counts them as asked: those in whose place
    /// others are asked, but of no link on which somebody waits for the answer, who asks there
    /// himself; with `only_due`, those alone whose neighbours have said nothing. False: no memory
    /// for one.
    ///
    /// Where a neighbour has seen the Interest of another host by another way (Duplicate), that way
    /// goes on, and the neighbour may have the answer before it hears the group.
    pub(crate) fn ask_last(&mut self, last: &Last<'_>, now_ns: u64, keys: &mut Keys) -> bool {
        let Last { waiting, asked, is_own, only_due } = *last;
        let DiscoveryFaces { faces, groups } = self;
        let mut has_room = true;
        for group in groups.iter_mut().filter(|group| group.admits(now_ns) && (group.is_due || !only_due)) {
            let is_of_link = |asked: &&Asked| asked.group == Some(group.face) || asked.face == group.face;
            let waits = |face: FaceKey| waiting.iter().any(|record| record.face == face);
            let goes_on = |own: &Asked| {
                let is_duplicate = |nack| nack == Some(NackReason::Duplicate);
                own.group == Some(group.face)
                    && asked.iter().any(|record| record.face == own.face && is_duplicate(record.nack))
            };
            let is_replaced = faces.iter().any(|asked| asked.group == Some(group.face))
                && faces.iter().all(|asked| asked.face != group.face);
            if is_replaced
                && (is_own || !faces.iter().any(goes_on))
                && !waits(group.face)
                && !faces.iter().filter(is_of_link).any(|asked| waits(asked.face))
            {
                (group.asked_at_ns, group.is_due) = (Some(now_ns), false);
                has_room &= keys.push(group.face);
            }
        }
        has_room
    }

    /// Whether all neighbours of a group that were asked have refused, so that an answer by the
    /// group is none of theirs. The group answers, then.
    pub(crate) fn answered(&mut self, face: FaceKey, asked: &OutRecords, now_ns: u64) -> bool {
        let DiscoveryFaces { faces, groups } = self;
        let Some(group) = groups.iter_mut().find(|group| group.face == face) else { return false };
        let is_neighbour = |key: FaceKey| faces.iter().any(|own| own.face == key && own.group == Some(face));
        let mut neighbours = asked.iter().filter(|record| is_neighbour(record.face)).peekable();
        let is_of_others = neighbours.peek().is_some() && neighbours.all(|record| record.nack.is_some());
        if is_of_others {
            group.answered_at_ns = Some(now_ns);
        }
        is_of_others
    }

    /// An Interest has ended without an answer: where neighbours have not even refused it, the next
    /// one is asked of their group too.
    pub(crate) fn unanswered(&mut self, asked: &OutRecords) {
        let DiscoveryFaces { faces, groups } = self;
        let is_silent =
            |own: &&Asked| asked.iter().any(|record| record.face == own.face && record.nack.is_none());
        for group in faces.iter().filter(is_silent).filter_map(|own| own.group) {
            groups.iter_mut().filter(|own| own.face == group).for_each(|own| own.is_due = true);
        }
    }
}
