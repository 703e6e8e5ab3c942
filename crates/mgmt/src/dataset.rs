//! Datasets in segments. The first segment answers the request, and the snapshot is retained for a
//! while, for two reasons. A dataset must not change between its segments. And some clients (NDNts)
//! use the answer only for the version, and then fetch all segments, also the first.

use std::collections::{BTreeMap, VecDeque};

use namely_messages::DatasetRequest;
use namely_wire::types::SEGMENT_COMPONENT;
use namely_wire::{Component, Name, NameRef, tlv};

use crate::reply;

/// Octets of Content in one segment of a dataset.
///
/// The limit is that of NFD. It leaves room for name and signature.
///
/// # Limit
/// The dataset continues in the next segment.
/// - Tests: `a_dataset_is_segmented_and_reassembled`
pub(crate) const SEGMENT_OCTETS_MAX: usize = 8000;

/// Retained snapshots of datasets.
///
/// A snapshot of a single segment is evicted first, because its reader rarely needs it again.
///
/// # Limit
/// The reader with most snapshots loses its oldest one of a single segment, or else its oldest;
/// their segments no longer exist.
/// - Counter: `segments_missing`
/// - Tests: `only_the_newest_states_are_kept`, `short_datasets_do_not_evict_long_ones`,
///   `a_busy_reader_evicts_only_its_states`
pub(crate) const SNAPSHOTS_MAX: usize = 32;

/// Octets of all retained snapshots of datasets.
///
/// # Limit
/// The oldest snapshots of the reader with most octets are evicted; the newest is always retained,
/// whatever its size.
/// - Counter: `segments_missing`
/// - Tests: `kept_states_have_an_octet_limit`
pub(crate) const SNAPSHOT_OCTETS_MAX: usize = 64 << 20;

/// Time for which a snapshot of a dataset is retained.
///
/// # Limit
/// The snapshot is removed, and its segments no longer exist.
/// - Counter: `segments_missing`
/// - Tests: `a_state_is_kept_for_its_lifetime`,
///   `expired_states_are_dropped_without_requests`
pub(crate) const SNAPSHOT_LIFETIME_NS: u64 = 10_000_000_000;

/// Octets from which a snapshot of a dataset counts as large.
///
/// A larger snapshot is expensive to make.
///
/// # Limit
/// A larger snapshot is reused for `LARGE_FRESH_NS`.
/// - Counter: `datasets_repeated`
/// - Tests: `large_states_are_reused_for_a_second`
pub(crate) const LARGE_OCTETS: usize = 1 << 20;

/// Age of a large snapshot that answers another request.
///
/// For root and the router's own user, a new snapshot is made each time.
///
/// # Limit
/// A new snapshot is made.
/// - Counter: `datasets_repeated`
/// - Tests: `large_states_are_reused_for_a_second`
pub(crate) const LARGE_FRESH_NS: u64 = 1_000_000_000;

/// The reader that requested a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reader {
    /// A user of this machine.
    User(u32),
    /// An unidentified peer at this face.
    Face(u64),
}

/// The retained snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    kept: VecDeque<Snapshot>,
    last_version: u64,
}

#[derive(Debug)]
struct Snapshot {
    /// The name up to and including the version.
    name: Name,
    content: Vec<u8>,
    reader: Reader,
    made_ns: u64,
    /// True if a superuser's Interest expired before the snapshot was complete.
    is_owed: bool,
}

impl Snapshots {
    /// Stores a new snapshot of the dataset named `prefix` and returns its first segment.
    pub(crate) fn publish(
        &mut self,
        prefix: NameRef<'_>,
        content: Vec<u8>,
        reader: Reader,
        unix_ms: u64,
        now_ns: u64,
    ) -> Vec<u8> {
        // Each snapshot has a version of its own. A reader could otherwise mix the segments of two.
        self.last_version = unix_ms.max(self.last_version + 1);
        let name = prefix.to_name().join_version(self.last_version);
        let snapshot = Snapshot { name, content, reader, made_ns: now_ns, is_owed: false };
        let first = snapshot.segment(0);
        self.expire(now_ns);
        self.kept.push_back(snapshot);
        self.make_room();
        first.unwrap_or_default()
    }

    /// The first segment of a large snapshot of the dataset named `prefix` that is still fresh.
    pub(crate) fn large(&self, prefix: NameRef<'_>, now_ns: u64) -> Option<Vec<u8>> {
        let is_large =
            |snapshot: &&Snapshot| snapshot.content.len() > LARGE_OCTETS && snapshot.is_fresh(prefix, now_ns);
        self.kept.iter().rev().find(is_large)?.segment(0)
    }

    /// Marks the newest snapshot as owed to a superuser, whose Interest expired before the snapshot
    /// was complete.
    pub(crate) fn owe_newest(&mut self) {
        if let Some(newest) = self.kept.back_mut() {
            newest.is_owed = true;
        }
    }

    /// Returns the first segment of a fresh snapshot of the dataset named `prefix` that is owed,
    /// and clears the mark.
    pub(crate) fn owed(&mut self, prefix: NameRef<'_>, now_ns: u64) -> Option<Vec<u8>> {
        let is_owed = |snapshot: &&mut Snapshot| snapshot.is_owed && snapshot.is_fresh(prefix, now_ns);
        let snapshot = self.kept.iter_mut().rev().find(is_owed)?;
        snapshot.is_owed = false;
        snapshot.segment(0)
    }

    /// A segment of a retained snapshot.
    pub(crate) fn segment(
        &mut self,
        name: NameRef<'_>,
        request: &DatasetRequest,
        now_ns: u64,
    ) -> Option<Vec<u8>> {
        self.expire(now_ns);
        let versioned = name.prefix(request.prefix_components + 1);
        let snapshot = self.kept.iter().find(|snapshot| snapshot.name.as_name() == versioned)?;
        snapshot.segment(request.segment.unwrap_or(0))
    }

    /// Evicts snapshots above the limits, but never the newest one: its first segment has just been
    /// returned, and the reader fetches the others next.
    fn make_room(&mut self) {
        if self.kept.len() > SNAPSHOTS_MAX {
            let reader = self.largest(|_| 1);
            let mut older = self.kept.iter().take(SNAPSHOTS_MAX);
            let is_theirs = |snapshot: &&Snapshot| Some(snapshot.reader) == reader;
            let oldest = older.clone().position(|snapshot| is_theirs(&snapshot)).unwrap_or(0);
            let short = older.position(|snapshot| is_theirs(&snapshot) && snapshot.last_segment() == 0);
            self.kept.remove(short.unwrap_or(oldest));
        }
        let mut octets: usize = self.kept.iter().map(|snapshot| snapshot.content.len()).sum();
        while octets > SNAPSHOT_OCTETS_MAX && self.kept.len() > 1 {
            let reader = self.largest(|snapshot| snapshot.content.len());
            let older = self.kept.iter().take(self.kept.len() - 1);
            let oldest = older.clone().position(|snapshot| Some(snapshot.reader) == reader).unwrap_or(0);
            octets -= self.kept.remove(oldest).map_or(0, |oldest| oldest.content.len());
        }
    }

    /// The reader with the largest total weight.
    fn largest(&self, weight: impl Fn(&Snapshot) -> usize) -> Option<Reader> {
        largest(self.kept.iter().map(|snapshot| (snapshot.reader, weight(snapshot))))
    }

    /// Removes expired snapshots. Returns true if there were any.
    pub(crate) fn expire(&mut self, now_ns: u64) -> bool {
        let before = self.kept.len();
        self.kept.retain(|snapshot| now_ns.saturating_sub(snapshot.made_ns) < SNAPSHOT_LIFETIME_NS);
        self.kept.len() < before
    }

    /// The time of the next expiry.
    pub(crate) fn next_expiry_ns(&self) -> Option<u64> {
        self.kept.iter().map(|snapshot| snapshot.made_ns.saturating_add(SNAPSHOT_LIFETIME_NS)).min()
    }
}

/// The reader with the largest sum of weights.
pub(crate) fn largest(held: impl Iterator<Item = (Reader, usize)>) -> Option<Reader> {
    let mut sums: BTreeMap<Reader, usize> = BTreeMap::new();
    held.for_each(|(reader, weight)| *sums.entry(reader).or_default() += weight);
    sums.into_iter().max_by_key(|(_, sum)| *sum).map(|(reader, _)| reader)
}

impl Snapshot {
    /// Returns true for a snapshot of the dataset named `prefix` that was made less than a second
    /// ago.
    fn is_fresh(&self, prefix: NameRef<'_>, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.made_ns) < LARGE_FRESH_NS && self.name.as_name().without_last(1) == prefix
    }

    fn last_segment(&self) -> u64 {
        (self.content.len().saturating_sub(1) / SEGMENT_OCTETS_MAX) as u64
    }

    fn segment(&self, segment: u64) -> Option<Vec<u8>> {
        let last = self.last_segment();
        if segment > last {
            return None;
        }
        let start = segment as usize * SEGMENT_OCTETS_MAX;
        let end = self.content.len().min(start + SEGMENT_OCTETS_MAX);
        let octets = last.to_be_bytes();
        let final_block = Component { typ: SEGMENT_COMPONENT, value: &octets[8 - tlv::nni_octets(last)..] };
        let name = self.name.join_segment(segment);
        Some(reply::data(name.as_name(), Some(final_block), &self.content[start..end]))
    }
}

#[cfg(test)]
mod tests {
    use namely_messages::{CsListQuery, Dataset, FaceQueryFilter, Scope};
    use namely_wire::{DataView, tlv::decode_nni};

    use super::*;

    const ONE: Reader = Reader::User(1);

    fn prefix() -> Name {
        Dataset::FibList.prefix(Scope::Localhost)
    }

    fn request(version: u64, segment: u64) -> (Name, DatasetRequest) {
        let request = DatasetRequest {
            scope: Scope::Localhost,
            dataset: Dataset::FibList,
            filter: FaceQueryFilter::default(),
            list: CsListQuery::default(),
            prefix_components: prefix().len(),
            version: Some(version),
            segment: Some(segment),
        };
        (prefix().join_version(version).join_segment(segment), request)
    }

    fn content(octets: usize) -> Vec<u8> {
        (0..octets).map(|i| i as u8).collect()
    }

    /// Reads a whole dataset as a client does. Returns the content and the number of segments.
    fn read(snapshots: &mut Snapshots, first: Vec<u8>) -> (Vec<u8>, u64) {
        let mut content = Vec::new();
        let mut wire = first;
        for segment in 0.. {
            let data = DataView::parse(&wire).unwrap();
            let version = data.name.component(prefix().len()).unwrap().version().unwrap();
            assert_eq!(data.name.last().unwrap().segment(), Some(segment));
            content.extend_from_slice(data.content);
            let last = decode_nni(data.final_block_id.unwrap().value).unwrap();
            if segment == last {
                return (content, last + 1);
            }
            let (name, request) = request(version, segment + 1);
            wire = snapshots.segment(name.as_name(), &request, 0).unwrap();
        }
        unreachable!()
    }

    #[test]
    fn a_dataset_is_segmented_and_reassembled() {
        for (octets, segments) in [
            (0, 1),
            (1, 1),
            (SEGMENT_OCTETS_MAX, 1),
            (SEGMENT_OCTETS_MAX + 1, 2),
            (3 * SEGMENT_OCTETS_MAX, 3),
            (3 * SEGMENT_OCTETS_MAX + 1, 4),
        ] {
            let mut snapshots = Snapshots::default();
            let first = snapshots.publish(prefix().as_name(), content(octets), ONE, 1000, 0);
            assert!(first.len() <= namely_wire::PACKET_OCTETS_MAX);
            assert_eq!(read(&mut snapshots, first), (content(octets), segments), "{octets}");
        }
    }

    #[test]
    fn simultaneous_states_have_different_versions() {
        let mut snapshots = Snapshots::default();
        let mut version = |unix_ms| {
            let wire = snapshots.publish(prefix().as_name(), content(1), ONE, unix_ms, 0);
            let name = DataView::parse(&wire).unwrap().name.to_name();
            name.as_name().component(prefix().len()).unwrap().version().unwrap()
        };
        assert_eq!((version(1000), version(1000), version(900), version(2000)), (1000, 1001, 1002, 2000));
    }

    #[test]
    fn a_state_is_kept_for_its_lifetime() {
        let mut snapshots = Snapshots::default();
        snapshots.publish(prefix().as_name(), content(SEGMENT_OCTETS_MAX + 1), ONE, 5, 0);
        let (name, wanted) = request(5, 1);
        assert!(snapshots.segment(name.as_name(), &wanted, SNAPSHOT_LIFETIME_NS - 1).is_some());
        assert!(snapshots.segment(name.as_name(), &wanted, SNAPSHOT_LIFETIME_NS).is_none());
    }

    #[test]
    fn expired_states_are_dropped_without_requests() {
        let mut snapshots = Snapshots::default();
        assert_eq!(snapshots.next_expiry_ns(), None);
        for (unix_ms, made_ns) in [(5, 10), (6, 20)] {
            snapshots.publish(prefix().as_name(), content(1), ONE, unix_ms, made_ns);
        }
        let first_ns = snapshots.next_expiry_ns().unwrap();
        assert_eq!(first_ns, 10 + SNAPSHOT_LIFETIME_NS);
        assert!(!snapshots.expire(first_ns - 1) && snapshots.expire(first_ns));
        assert_eq!((snapshots.kept.len(), snapshots.next_expiry_ns()), (1, Some(first_ns + 10)));
        assert!(snapshots.expire(first_ns + 10));
        assert_eq!((snapshots.kept.len(), snapshots.next_expiry_ns()), (0, None));
    }

    #[test]
    fn one_segment_datasets_answer_by_version() {
        let mut snapshots = Snapshots::default();
        let first = snapshots.publish(prefix().as_name(), content(1), ONE, 5, 0);
        let (name, again) = request(5, 0);
        assert_eq!(snapshots.segment(name.as_name(), &again, 0), Some(first));
    }

    #[test]
    fn short_datasets_do_not_evict_long_ones() {
        let mut snapshots = Snapshots::default();
        snapshots.publish(prefix().as_name(), content(SEGMENT_OCTETS_MAX + 1), ONE, 1, 0);
        for n in 0..2 * SNAPSHOTS_MAX {
            snapshots.publish(prefix().as_name(), content(1), ONE, 2 + n as u64, 0);
        }
        let (name, long) = request(1, 1);
        assert!(snapshots.segment(name.as_name(), &long, 0).is_some());
        assert_eq!(snapshots.kept.len(), SNAPSHOTS_MAX);
    }

    #[test]
    fn a_busy_reader_evicts_only_its_states() {
        let mut snapshots = Snapshots::default();
        snapshots.publish(prefix().as_name(), content(SEGMENT_OCTETS_MAX + 1), Reader::Face(7), 1, 0);
        for n in 0..2 * SNAPSHOTS_MAX as u64 {
            snapshots.publish(prefix().as_name(), content(SEGMENT_OCTETS_MAX + 1), ONE, 2 + n, 0);
        }
        let large = vec![0; SNAPSHOT_OCTETS_MAX / 4];
        for n in 0..8 {
            snapshots.publish(prefix().as_name(), large.clone(), ONE, 1000 + n, 0);
        }
        let (name, long) = request(1, 1);
        assert!(snapshots.segment(name.as_name(), &long, 0).is_some());
    }

    #[test]
    fn large_states_are_reused_for_a_second() {
        for (octets, age_ns, answers) in [
            (LARGE_OCTETS, 0, false),
            (LARGE_OCTETS + 1, LARGE_FRESH_NS - 1, true),
            (LARGE_OCTETS + 1, LARGE_FRESH_NS, false),
        ] {
            let mut snapshots = Snapshots::default();
            let first = snapshots.publish(prefix().as_name(), content(octets), ONE, 5, 0);
            let again = snapshots.large(prefix().as_name(), age_ns);
            assert_eq!(again, answers.then_some(first), "{octets} {age_ns}");
            assert_eq!(snapshots.large(prefix().join_generic("x").as_name(), 0), None);
        }
    }

    #[test]
    fn segments_beyond_the_last_are_absent() {
        let mut snapshots = Snapshots::default();
        snapshots.publish(prefix().as_name(), content(SEGMENT_OCTETS_MAX + 1), ONE, 5, 0);
        for (version, segment, exists) in [(5, 1, true), (5, 2, false), (5, u64::MAX, false), (6, 1, false)] {
            let (name, request) = request(version, segment);
            assert_eq!(
                snapshots.segment(name.as_name(), &request, 0).is_some(),
                exists,
                "{version} {segment}"
            );
        }
    }

    #[test]
    fn kept_states_have_an_octet_limit() {
        let half = SNAPSHOT_OCTETS_MAX / 2;
        for (sizes, kept) in
            [([half, half], 2), ([half, half + 1], 1), ([1 << 20, SNAPSHOT_OCTETS_MAX + 1], 1)]
        {
            let mut snapshots = Snapshots::default();
            for octets in sizes {
                snapshots.publish(prefix().as_name(), vec![0; octets], ONE, 1000, 0);
            }
            assert_eq!(snapshots.kept.len(), kept, "{sizes:?}");
            assert_eq!(snapshots.kept.back().unwrap().content.len(), sizes[1]);
        }
    }

    #[test]
    fn only_the_newest_states_are_kept() {
        for (states, oldest_is_kept) in [(SNAPSHOTS_MAX, true), (SNAPSHOTS_MAX + 1, false)] {
            let mut snapshots = Snapshots::default();
            for n in 0..states {
                snapshots.publish(prefix().as_name(), content(SEGMENT_OCTETS_MAX + 1), ONE, 1 + n as u64, 0);
            }
            let (name, oldest) = request(1, 1);
            assert_eq!(snapshots.segment(name.as_name(), &oldest, 0).is_some(), oldest_is_kept);
            assert_eq!(snapshots.kept.len(), SNAPSHOTS_MAX);
        }
    }
}
