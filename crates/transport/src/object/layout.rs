//! The order in which the pieces of an object are asked for.
//!
//! Under manifests each manifest is asked for one whole group of segments ahead of the first
//! segment it covers: manifest 0, then for each group g the manifest g+1 and the segments of g. So
//! a manifest is there, verified, before its segments come, and nobody waits for it. Pieces are
//! numbered in that order.

use std::ops::Range;

use super::{Object, Part, SignatureMode};

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A manifest, by its index.
    Manifest(u64),
    /// A segment, by its number.
    Segment(u64),
}

/// The pieces of one object from a segment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Segments alone; piece numbers are segment numbers.
    Plain,
    /// Segments under manifests of `entries` each: groups `first_group..groups`, of the first one
    /// without its first `skipped` segments; `segments` segments in all.
    Manifests { entries: u64, first_group: u64, groups: u64, segments: u64, skipped: u64 },
}

impl Layout {
    /// Of `part` of `object`. A part that ends early is laid out like an object that does: without
    /// the manifests behind it.
    pub(super) fn of(object: &Object, part: Part) -> Self {
        match (object.signature_mode, object.segments) {
            (SignatureMode::Manifests, Some(segments)) => {
                let end = part.end_of(Some(segments)).unwrap_or(segments);
                Layout::manifests(object.manifest_entries, part.first, end)
            }
            _ => Layout::Plain,
        }
    }

    /// Under manifests of `entries`, from `first_segment` on, of an object of `segments` (each at
    /// least one).
    pub(super) fn manifests(entries: u64, first_segment: u64, segments: u64) -> Self {
        let groups = segments.div_ceil(entries).max(1);
        let first_group = (first_segment / entries).min(groups - 1);
        let skipped = first_segment.min(segments).saturating_sub(first_group * entries);
        Layout::Manifests { entries, first_group, groups, segments, skipped }
    }

    /// The piece numbers, of an object of `segments`; `first_segment` is where a plain layout
    /// starts.
    pub(super) fn pieces(&self, first_segment: u64, segments: u64) -> Range<u64> {
        match *self {
            Layout::Plain => first_segment..segments,
            Layout::Manifests { entries, first_group, groups, segments, skipped } => {
                let full = groups - 1 - first_group;
                let last = segments.saturating_sub((groups - 1) * entries);
                0..1 + (full * pieces_of_group(entries) + last).saturating_sub(skipped)
            }
        }
    }

    /// Pieces before the first segment of the first group: its manifest, and the next one if there
    /// is one.
    fn ahead(first_group: u64, groups: u64) -> u64 {
        1 + u64::from(first_group < groups - 1)
    }

    /// What piece number `piece` is.
    pub(super) fn piece(&self, piece: u64) -> Piece {
        let Layout::Manifests { entries, first_group, groups, skipped, .. } = *self else {
            return Piece::Segment(piece);
        };
        let of_group = pieces_of_group(entries);
        let whole =
            if piece < Self::ahead(first_group, groups) { piece } else { piece.saturating_add(skipped) };
        let Some(rest) = whole.checked_sub(1) else { return Piece::Manifest(first_group) };
        let group = (first_group + rest / of_group).min(groups - 1);
        let place = rest - (group - first_group) * of_group;
        match place {
            _ if group == groups - 1 => Piece::Segment(group * entries + place),
            0 => Piece::Manifest(group + 1),
            _ => Piece::Segment(group * entries + place - 1),
        }
    }

    /// The number of a piece; none if it is before the first segment or past the last.
    pub(super) fn number(&self, piece: Piece) -> Option<u64> {
        let Layout::Manifests { entries, first_group, groups, segments, skipped } = *self else {
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
        if whole < ahead { Some(whole) } else { whole.checked_sub(skipped).filter(|number| *number >= ahead) }
    }
}

/// Pieces of a full group: its segments and the next manifest.
fn pieces_of_group(entries: u64) -> u64 {
    entries + 1
}

#[cfg(test)]
mod tests {
    use namely_security::MANIFEST_ENTRIES;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_manifest_comes_a_group_ahead_of_its_segments() {
        let layout = Layout::manifests(MANIFEST_ENTRIES, 0, 500);
        let order: Vec<Piece> = layout.pieces(0, 500).map(|piece| layout.piece(piece)).collect();
        assert_eq!(order[..3], [Piece::Manifest(0), Piece::Manifest(1), Piece::Segment(0)]);
        assert_eq!(order[241..243], [Piece::Segment(239), Piece::Manifest(2)]);
        assert_eq!(order.len(), 503);
        assert_eq!(order.last(), Some(&Piece::Segment(499)));
    }

    proptest! {
        #[test]
        fn every_piece_has_one_number_and_every_number_one_piece(
            entries in prop_oneof![1u64..=50, Just(MANIFEST_ENTRIES)], segments in 1u64..2000, first in 0u64..2000,
        ) {
            let first = first.min(segments - 1);
            let layout = Layout::manifests(entries, first, segments);
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
    }
}
