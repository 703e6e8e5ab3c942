//! The order in which the pieces of an object are requested.
//!
//! Each manifest is requested one whole group of segments before the first segment that it covers:
//! manifest 0, then for each group g the manifest g+1 and the segments of g. A manifest thus
//! arrives and is verified before its segments, so that no segment waits for it. Pieces are
//! numbered in that order, those of several parts one part after the other. A manifest that two
//! parts need is a piece of the first.

use std::ops::Range;

use super::{Object, Part, SignatureMode};

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A manifest, by its index.
    Manifest(u64),
    /// A segment, by its number.
    Segment(u64),
}

/// The pieces of parts of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout(Vec<NumberedPart>);

/// A part and the numbers of its pieces: `first` corresponds to `own_first` in the part's own
/// layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberedPart {
    part: Part,
    layout: PartLayout,
    first: u64,
    own_first: u64,
}

impl Layout {
    /// Creates the layout of `parts` of `object`. Each part begins after the end of the previous
    /// one.
    pub(super) fn of(object: &Object, parts: &[Part]) -> Self {
        let mut numbered: Vec<NumberedPart> = Vec::with_capacity(parts.len());
        for part in parts {
            let layout = PartLayout::of(object, *part);
            let own = layout.pieces(part.first, part.end_of(object.segments).unwrap_or(part.end));
            let mut next = NumberedPart { part: *part, layout, first: own.start, own_first: own.start };
            if let Some(before) = numbered.last() {
                next.first = before.end(object.segments).unwrap_or(u64::MAX);
                let shared = before.layout.manifests_end().and_then(|end| end.checked_sub(1));
                // A manifest that both parts need is a piece of the earlier part.
                next.own_first += u64::from(shared.is_some() && shared == layout.first_manifest());
            }
            numbered.push(next);
        }
        Layout(numbered)
    }

    /// The number of the first piece.
    pub(super) fn first(&self) -> u64 {
        self.0.first().map_or(0, |numbered| numbered.first)
    }

    /// The number after the last piece, for an object of `segments`, if it is known.
    pub(super) fn end(&self, segments: Option<u64>) -> Option<u64> {
        let within =
            |numbered: &&NumberedPart| segments.is_none_or(|segments| numbered.part.first < segments);
        match self.0.iter().rev().find(within) {
            Some(last) => last.end(segments),
            // All parts begin after the object's end.
            None => Some(self.first().min(segments.unwrap_or(0))),
        }
    }

    /// Returns the piece with this `number`.
    pub(super) fn piece(&self, number: u64) -> Piece {
        let i = self.0.partition_point(|numbered| numbered.first <= number).saturating_sub(1);
        self.0.get(i).map_or(Piece::Segment(number), |numbered| {
            numbered.layout.piece(numbered.own_first + number.saturating_sub(numbered.first))
        })
    }

    /// Returns the number of a piece; none if it is in no part.
    pub(super) fn number(&self, piece: Piece) -> Option<u64> {
        let i = match piece {
            Piece::Segment(segment) => {
                self.0.partition_point(|numbered| numbered.part.first <= segment).checked_sub(1)?
            }
            Piece::Manifest(index) => self
                .0
                .partition_point(|numbered| numbered.layout.manifests_end().is_none_or(|end| end <= index)),
        };
        let numbered = self.0.get(i)?;
        if matches!(piece, Piece::Segment(segment) if segment >= numbered.part.end) {
            return None;
        }
        let own = numbered.layout.number(piece)?.checked_sub(numbered.own_first)?;
        numbered.first.checked_add(own)
    }
}

impl NumberedPart {
    /// The number after its last piece, for an object of `segments`, if it is known.
    fn end(&self, segments: Option<u64>) -> Option<u64> {
        let own_end = self.layout.pieces(self.part.first, self.part.end_of(segments)?).end;
        self.first.checked_add(own_end.saturating_sub(self.own_first))
    }
}

/// The pieces of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartLayout {
    /// Segments alone; piece numbers are segment numbers.
    Plain,
    /// Segments under manifests of `entries` each: groups `first_group..groups`. The first group is
    /// without its first `skipped` segments. There are `segments` segments in all.
    Manifests { entries: u64, first_group: u64, groups: u64, segments: u64, skipped: u64 },
}

impl PartLayout {
    /// Creates the layout of `part` of `object`. A part that ends before the object has the layout
    /// of an object that ends there, without later manifests.
    fn of(object: &Object, part: Part) -> Self {
        match (object.signature_mode, object.segments) {
            (SignatureMode::Manifests, Some(segments)) => {
                let end = part.end_of(Some(segments)).unwrap_or(segments);
                PartLayout::manifests(object.manifest_entries, part.first, end)
            }
            _ => PartLayout::Plain,
        }
    }

    /// Creates a layout under manifests of `entries`, from `first_segment` on, for an object of
    /// `segments` (each at least one).
    fn manifests(entries: u64, first_segment: u64, segments: u64) -> Self {
        // At least one, so that `groups - 1` does not underflow.
        let groups = segments.div_ceil(entries).max(1);
        // A part after the end of the object has the last group, with all its segments skipped.
        let first_group = (first_segment / entries).min(groups - 1);
        let skipped = first_segment.min(segments).saturating_sub(first_group * entries);
        PartLayout::Manifests { entries, first_group, groups, segments, skipped }
    }

    /// The index of its first manifest.
    fn first_manifest(&self) -> Option<u64> {
        match *self {
            PartLayout::Plain => None,
            PartLayout::Manifests { first_group, .. } => Some(first_group),
        }
    }

    /// The index after its last manifest.
    fn manifests_end(&self) -> Option<u64> {
        match *self {
            PartLayout::Plain => None,
            PartLayout::Manifests { groups, .. } => Some(groups),
        }
    }

    /// The piece numbers for an object of `segments`. A plain layout starts at `first_segment`.
    fn pieces(&self, first_segment: u64, segments: u64) -> Range<u64> {
        match *self {
            PartLayout::Plain => first_segment..segments,
            PartLayout::Manifests { entries, first_group, groups, segments, skipped } => {
                let full = groups - 1 - first_group;
                let last = segments.saturating_sub((groups - 1) * entries);
                0..1 + (full * pieces_of_group(entries) + last).saturating_sub(skipped)
            }
        }
    }

    /// Number of pieces before the first segment of the first group: its manifest, and the next one
    /// if there is one.
    fn ahead(first_group: u64, groups: u64) -> u64 {
        1 + u64::from(first_group < groups - 1)
    }

    /// Returns the piece with number `piece`.
    fn piece(&self, piece: u64) -> Piece {
        let PartLayout::Manifests { entries, first_group, groups, skipped, .. } = *self else {
            return Piece::Segment(piece);
        };
        let of_group = pieces_of_group(entries);
        // The skipped segments would follow the manifests that are requested ahead.
        let whole =
            if piece < Self::ahead(first_group, groups) { piece } else { piece.saturating_add(skipped) };
        let Some(rest) = whole.checked_sub(1) else { return Piece::Manifest(first_group) };
        let group = (first_group + rest / of_group).min(groups - 1);
        let offset = rest - (group - first_group) * of_group;
        match offset {
            // The last group has no next group, so no manifest precedes its segments.
            _ if group == groups - 1 => Piece::Segment(group * entries + offset),
            0 => Piece::Manifest(group + 1),
            _ => Piece::Segment(group * entries + offset - 1),
        }
    }

    /// Returns the number of a piece; none if it is before the first segment or past the last.
    fn number(&self, piece: Piece) -> Option<u64> {
        let PartLayout::Manifests { entries, first_group, groups, segments, skipped } = *self else {
            let Piece::Segment(segment) = piece else { return None };
            return Some(segment);
        };
        let of_group = pieces_of_group(entries);
        let whole = match piece {
            Piece::Manifest(index) if index == first_group => return Some(0),
            Piece::Manifest(index) if index < groups => 1 + index.checked_sub(first_group + 1)? * of_group,
            Piece::Segment(segment) if segment < segments => {
                let group = segment / entries;
                let ahead = u64::from(group < groups - 1);
                1 + group.checked_sub(first_group)? * of_group + ahead + segment % entries
            }
            _ => return None,
        };
        let ahead = Self::ahead(first_group, groups);
        // A lower number belongs to a skipped segment.
        if whole < ahead { Some(whole) } else { whole.checked_sub(skipped).filter(|number| *number >= ahead) }
    }
}

/// Number of pieces of a full group: its segments and the next manifest.
fn pieces_of_group(entries: u64) -> u64 {
    entries + 1
}

#[cfg(test)]
mod tests {
    use namely_security::MANIFEST_ENTRIES;
    use namely_wire::Name;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_manifest_precedes_its_segments_by_a_group() {
        let layout = PartLayout::manifests(MANIFEST_ENTRIES, 0, 500);
        let order: Vec<Piece> = layout.pieces(0, 500).map(|piece| layout.piece(piece)).collect();
        assert_eq!(order[..3], [Piece::Manifest(0), Piece::Manifest(1), Piece::Segment(0)]);
        assert_eq!(order[241..243], [Piece::Segment(239), Piece::Manifest(2)]);
        assert_eq!(order.len(), 503);
        assert_eq!(order.last(), Some(&Piece::Segment(499)));
    }

    proptest! {
        #[test]
        fn pieces_and_numbers_map_one_to_one(
            entries in prop_oneof![1u64..=50, Just(MANIFEST_ENTRIES)], segments in 1u64..2000, first in 0u64..2000,
        ) {
            let first = first.min(segments - 1);
            let layout = PartLayout::manifests(entries, first, segments);
            let mut wanted = first..segments;
            let mut manifest_known = None;
            for number in layout.pieces(first, segments) {
                let piece = layout.piece(number);
                prop_assert_eq!(layout.number(piece), Some(number));
                match piece {
                    Piece::Manifest(index) => manifest_known = Some(index),
                    Piece::Segment(segment) => {
                        prop_assert_eq!(wanted.next(), Some(segment));
                        prop_assert!(manifest_known >= Some(segment / entries));
                    }
                }
            }
            prop_assert_eq!(wanted.next(), None);
            prop_assert_eq!(layout.number(Piece::Segment(segments)), None);
            let before = first.checked_sub(1).map(Piece::Segment);
            prop_assert_eq!(before.and_then(|piece| layout.number(piece)), None);
            prop_assert_eq!(layout.number(Piece::Manifest(segments.div_ceil(entries))), None);
        }

        #[test]
        fn pieces_of_several_parts_are_consecutive(
            signature_mode in prop_oneof![Just(SignatureMode::Manifests), Just(SignatureMode::Segments)],
            entries in 1u64..=50, segments in 1u64..2000, is_end_known: bool,
            cuts in prop::collection::btree_set(0u64..2100, 2..40),
        ) {
            let known = is_end_known || signature_mode == SignatureMode::Manifests;
            let object = Object {
                name: Name::new(), segments: known.then_some(segments), signature_mode,
                manifest_entries: entries, metadata: None, as_of_ns: None, reason: None, whole: None,
            };
            let cuts: Vec<_> = cuts.into_iter().filter(|cut| !known || *cut <= segments).collect();
            let parts: Vec<_> = cuts.chunks_exact(2).map(|cut| Part { first: cut[0], end: cut[1] }).collect();
            prop_assume!(!parts.is_empty());
            let layout = Layout::of(&object, &parts);
            let within = |segment: &u64| parts.iter().any(|part| (part.first..part.end).contains(segment));
            let mut wanted = (0..2100).filter(within);
            let mut manifests = Vec::new();
            for number in layout.first()..layout.end(object.segments).unwrap() {
                let piece = layout.piece(number);
                prop_assert_eq!(layout.number(piece), Some(number), "{:?}", piece);
                match piece {
                    Piece::Manifest(index) => manifests.push(index),
                    Piece::Segment(segment) => {
                        prop_assert_eq!(wanted.next(), Some(segment));
                        let listed = manifests.contains(&(segment / entries));
                        prop_assert!(listed || signature_mode == SignatureMode::Segments);
                    }
                }
            }
            prop_assert_eq!(wanted.next(), None);
            prop_assert!(manifests.windows(2).all(|two| two[0] < two[1]), "{:?}", manifests);
            let outside = (0..2100).filter(|segment| !within(segment));
            prop_assert_eq!(outside.filter_map(|segment| layout.number(Piece::Segment(segment))).next(), None);
            // An end that becomes known later limits the requests.
            let before = parts.iter().map(|part| part.end.min(segments).saturating_sub(part.first)).sum::<u64>();
            if signature_mode == SignatureMode::Segments && parts[0].first < segments {
                prop_assert_eq!(layout.end(Some(segments)), Some(layout.first() + before));
            }
        }
    }
}
