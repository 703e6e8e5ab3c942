//! The write end of the log: records that were accepted and are not on the disk yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::buffer::Buffer;
use super::limits::{BLOCK_OCTETS, GROUPS_MAX, REINSERTED_PART};
use super::place::{Expiry, RecordPosition};
use super::record::{self, CHECK_AT, Checks, RECORD_OCTETS_MAX};
use super::segment::{IndexRecord, Segment};

/// Records that are written together.
#[derive(Debug)]
pub(crate) struct Group {
    /// Numbered in the order in which groups are written.
    pub(crate) number: u64,
    pub(crate) segment: Arc<Segment>,
    /// Start of the group in its segment, and the octets to write.
    pub(crate) start: u64,
    pub(crate) octets: usize,
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) records: Vec<IndexRecord>,
    /// Whether the group was submitted to the disk.
    pub(crate) is_queued: bool,
}

/// The group that is being filled.
#[derive(Debug)]
struct OpenGroup {
    segment: Arc<Segment>,
    start: u64,
    used: usize,
    limit: usize,
    buffer: Buffer,
    records: Vec<IndexRecord>,
}

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Log {
    group_octets: usize,
    groups_max: usize,
    filling: Option<OpenGroup>,
    /// The next segment.
    next: Option<Arc<Segment>>,
    /// Whether a part of the segment is reserved for records of the oldest segment that are written
    /// again.
    leaves_room: bool,
    /// Full groups that are not written, oldest first.
    groups: VecDeque<Group>,
    /// Segments that accept no more records, oldest first.
    ended: VecDeque<Arc<Segment>>,
    spare: Vec<Buffer>,
    groups_begun: u64,
}

impl Log {
    pub(crate) fn new(group_octets: u64, groups_max: usize) -> Self {
        Log {
            group_octets: group_octets as usize,
            groups_max,
            filling: None,
            next: None,
            leaves_room: false,
            groups: VecDeque::new(),
            ended: VecDeque::new(),
            spare: Vec::new(),
            groups_begun: 0,
        }
    }

    /// Returns whether the log lacks the next segment, which it needs when the present one is full.
    pub(crate) fn wants_segment(&self) -> bool {
        self.next.is_none()
    }

    /// Sets the next segment. `leaves_room` is true if the segment after it can be made only once
    /// another one is evicted.
    pub(crate) fn offer_segment(&mut self, segment: Arc<Segment>, leaves_room: bool) {
        self.next = Some(segment);
        self.leaves_room = leaves_room;
    }

    /// Appends a packet. Returns none if there is no room now. If another segment must be evicted
    /// before there is a next one, a part of the present segment is reserved for records that are
    /// written again. Otherwise heavy writes would displace records that were read or are pinned.
    pub(crate) fn append(
        &mut self,
        hash: u64,
        packet: &[u8],
        expires_ms: u64,
        expiry: Expiry,
    ) -> Option<RecordPosition> {
        let fits = |filling: &OpenGroup| {
            let used = filling.start + filling.used as u64 + record::record_octets(packet.len()) as u64;
            used + filling.segment.octets / REINSERTED_PART + self.group_octets as u64
                <= filling.segment.octets
        };
        let has_room = !self.leaves_room || self.next.is_some() || self.filling.as_ref().is_none_or(fits);
        if has_room { self.append_again(hash, packet, expires_ms, expiry) } else { None }
    }

    /// Appends a record that is written again; it may use the reserved part.
    pub(crate) fn append_again(
        &mut self,
        hash: u64,
        packet: &[u8],
        expires_ms: u64,
        expiry: Expiry,
    ) -> Option<RecordPosition> {
        let octets = record::record_octets(packet.len());
        if self.filling.as_ref().is_some_and(|filling| filling.used + octets > filling.limit) {
            self.end_group()?;
        }
        if self.filling.is_none() {
            let segment = self.next.take()?;
            self.begin_group(segment, BLOCK_OCTETS);
        }
        let filling = self.filling.as_mut()?;
        let place =
            RecordPosition::new(filling.segment.slot, filling.start + filling.used as u64, octets, expiry);
        record::write(packet, expires_ms, &mut filling.buffer[filling.used..filling.used + octets]);
        filling.used += octets;
        filling.records.push(IndexRecord { hash, place, expires_ms });
        Some(place)
    }

    fn begin_group(&mut self, segment: Arc<Segment>, start: u64) {
        let limit = self.group_octets.min((segment.octets - start) as usize);
        // A spare buffer comes first, because a new one has to be cleared.
        let buffer = self.spare.pop().unwrap_or_else(|| Buffer::new(self.group_octets));
        self.filling = Some(OpenGroup { segment, start, used: 0, limit, buffer, records: Vec::new() });
    }

    /// Ends the group that is being filled. Returns none if the maximum number of groups waits
    /// already.
    pub(crate) fn end_group(&mut self) -> Option<()> {
        if self.filling.as_ref().is_none_or(|filling| filling.used == 0) {
            return Some(());
        }
        // The memory of waiting groups is bounded, so the packet is refused instead.
        if self.groups.len() >= self.groups_max {
            return None;
        }
        let OpenGroup { segment, start, used, mut buffer, records, .. } = self.filling.take()?;
        let octets = used.next_multiple_of(BLOCK_OCTETS as usize);
        // A used buffer may have old records here, which would pass for present ones.
        buffer[used..octets].fill(0);
        self.groups_begun += 1;
        // Relaxed: all changes are made under the log's lock.
        segment.groups.fetch_add(1, Ordering::Relaxed);
        let end = start + octets as u64;
        let (number, buffer) = (self.groups_begun, Arc::new(buffer));
        let segment_left = segment.octets - end;
        self.groups.push_back(Group {
            number,
            segment: segment.clone(),
            start,
            octets,
            buffer,
            records,
            is_queued: false,
        });
        // A further group might have no room for the next record.
        if segment_left < RECORD_OCTETS_MAX as u64 {
            self.ended.push_back(segment);
        } else {
            self.begin_group(segment, end);
        }
        Some(())
    }

    /// Ends the segment that is being filled; later records go to the next one. Returns none if the
    /// maximum number of groups waits already.
    pub(crate) fn end_segment(&mut self) -> Option<()> {
        self.end_group()?;
        if let Some(filling) = self.filling.take() {
            self.spare.push(filling.buffer);
            self.ended.push_back(filling.segment);
        }
        Some(())
    }

    /// Takes the next segment, which has no records yet.
    pub(crate) fn take_next(&mut self) -> Option<Arc<Segment>> {
        self.next.take()
    }

    /// Returns the next waiting group without checks, for [`Log::queue`].
    pub(crate) fn waiting(&self) -> Option<UncheckedGroup> {
        let group = self.groups.iter().find(|group| !group.is_queued)?;
        Some(UncheckedGroup {
            number: group.number,
            buffer: group.buffer.clone(),
            // A copy, because the checks are computed without the log's lock.
            places: group.records.iter().map(|record| record.place).collect(),
            start: group.start,
            salt: group.segment.extent.salt(),
        })
    }

    /// Writes the checks into a group's records. Returns the write to submit.
    pub(crate) fn queue(&mut self, number: u64, checks: &[[u8; 8]]) -> Option<GroupWrite> {
        let group = self.groups.iter_mut().find(|group| group.number == number)?;
        // The buffer has no other owner now: the thread that computed the checks has dropped its
        // reference.
        let buffer = Arc::get_mut(&mut group.buffer)?;
        for (record, check) in group.records.iter().zip(checks) {
            let at = (record.place.offset() - group.start) as usize;
            buffer[at..][CHECK_AT].copy_from_slice(check);
        }
        group.is_queued = true;
        Some(GroupWrite {
            number,
            segment: group.segment.clone(),
            start: group.start,
            octets: group.octets,
            buffer: group.buffer.clone(),
        })
    }

    /// Removes a group after its write succeeded or failed, and returns it.
    pub(crate) fn written(&mut self, number: u64) -> Option<Group> {
        let at = self.groups.iter().position(|group| group.number == number)?;
        self.groups.remove(at)
    }

    /// Keeps the memory of a group for reuse.
    pub(crate) fn reuse(&mut self, buffer: Arc<Buffer>) {
        // If another reference is left, the memory is freed with it.
        if let (Some(buffer), true) = (Arc::into_inner(buffer), self.spare.len() < GROUPS_MAX) {
            self.spare.push(buffer);
        }
    }

    /// Takes the oldest segment that accepts no more records, once all its groups are written.
    pub(crate) fn take_ended(&mut self) -> Option<Arc<Segment>> {
        // Acquire pairs with the Release of `finish_write`: the records of all written groups
        // are noted in the segment, so that its index is complete.
        let is_written = self.ended.front()?.groups.load(Ordering::Acquire) == 0;
        if is_written { self.ended.pop_front() } else { None }
    }

    /// Returns the number of the last group, and of the oldest group that is not written.
    pub(crate) fn progress(&self) -> (u64, Option<u64>) {
        (self.groups_begun, self.groups.front().map(|group| group.number))
    }

    /// Returns the number of groups that wait or are being written.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns the segment that is being filled.
    pub(crate) fn filled(&self) -> Option<&Arc<Segment>> {
        self.filling.as_ref().map(|filling| &filling.segment)
    }

    /// Returns the record at `place` of `segment`, if it is not on the disk yet.
    pub(crate) fn record(&self, segment: &Arc<Segment>, place: RecordPosition) -> Option<&[u8]> {
        let filling = self.filling.iter().map(|f| (&f.segment, f.start, &f.buffer, f.used));
        let groups = self.groups.iter().map(|g| (&g.segment, g.start, &*g.buffer, g.octets));
        let (_, start, buffer, _) = filling.chain(groups).find(|(of, start, _, used)| {
            Arc::ptr_eq(of, segment) && place.offset() >= *start && place.end() <= start + *used as u64
        })?;
        let at = (place.offset() - start) as usize;
        buffer.get(at..at + place.octets())
    }
}

/// A group without checks.
#[derive(Debug)]
pub(crate) struct UncheckedGroup {
    pub(crate) number: u64,
    buffer: Arc<Buffer>,
    places: Vec<RecordPosition>,
    start: u64,
    /// Input to the checks, in addition to the key.
    pub(crate) salt: Option<u64>,
}

impl UncheckedGroup {
    /// Computes the checks of its records.
    pub(crate) fn checks(&self, checks: &Checks) -> Vec<[u8; 8]> {
        let check = |place: &RecordPosition| {
            let at = (place.offset() - self.start) as usize;
            record::check_of(checks, &self.buffer[at..at + place.octets()]).unwrap_or_default()
        };
        self.places.iter().map(check).collect()
    }
}

/// A group that is being written.
#[derive(Debug)]
pub(crate) struct GroupWrite {
    pub(crate) number: u64,
    pub(crate) segment: Arc<Segment>,
    pub(crate) start: u64,
    pub(crate) octets: usize,
    pub(crate) buffer: Arc<Buffer>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_host::disk::File;

    #[test]
    fn the_last_segment_reserves_room_for_reinsertion() {
        let file = File::from_inner(tempfile::tempfile().unwrap());
        let segment = Arc::new(Segment::new(1, 0, file.into(), 64 << 10, false));
        let mut log = Log::new(16 << 10, GROUPS_MAX);
        log.offer_segment(segment.clone(), true);
        let expiry = Expiry::new(0, 0);
        let taken = (0..100).take_while(|_| log.append(1, &[7; 4000], 0, expiry).is_some()).count();
        assert!((4..8).contains(&taken), "about half of fifteen: {taken}");
        let again = (0..100).take_while(|_| log.append_again(1, &[7; 4000], 0, expiry).is_some()).count();
        assert!(again >= 4, "a quarter at least: {again}");
        log.offer_segment(segment, true);
        assert!(log.append(1, &[7; 4000], 0, expiry).is_some());
    }

    #[test]
    fn waiting_write_groups_are_limited() {
        let file = File::from_inner(tempfile::tempfile().unwrap());
        let segment = Arc::new(Segment::new(1, 0, file.into(), 1 << 20, false));
        let mut log = Log::new(16 << 10, GROUPS_MAX);
        let append = |log: &mut Log| log.append(1, &[7; 8000], 0, Expiry::new(0, 0));
        assert!(append(&mut log).is_none() && log.wants_segment());
        log.offer_segment(segment.clone(), false);
        // Two records in each group, and two in the group that is being filled.
        for _ in 0..2 * (GROUPS_MAX + 1) {
            assert!(append(&mut log).is_some());
        }
        assert_eq!((append(&mut log), log.groups()), (None, GROUPS_MAX));
        let number = log.waiting().unwrap().number;
        let checks = [[1; 8]; 2];
        let writing = log.queue(number, &checks).unwrap();
        let place = RecordPosition::new(0, BLOCK_OCTETS, 8020, Expiry::new(0, 0));
        assert_eq!(log.record(&segment, place).unwrap()[CHECK_AT], checks[0], "it can be read meanwhile");
        assert!(append(&mut log).is_none());
        drop(writing);
        let group = log.written(number).unwrap();
        log.reuse(group.buffer);
        assert!(append(&mut log).is_some() && log.record(&segment, place).is_none());
    }
}
