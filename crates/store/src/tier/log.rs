//! What was given to be written and is not on its way to the disk yet, or not there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::buffer::Buffer;
use super::limits::{BLOCK_OCTETS, GROUPS_MAX, REINSERTED_PART};
use super::place::{Expiry, Place};
use super::record::{self, CHECK_AT, Checks, RECORD_OCTETS_MAX};
use super::segment::{Recorded, Segment};

/// Records that are written at once.
#[derive(Debug)]
pub(crate) struct Group {
    /// The later it was begun, the higher.
    pub(crate) number: u64,
    pub(crate) segment: Arc<Segment>,
    /// Where it begins in its segment, and how many octets are written.
    pub(crate) start: u64,
    pub(crate) octets: usize,
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) records: Vec<Recorded>,
    /// Whether it is on its way.
    pub(crate) is_queued: bool,
}

/// The group that is being filled.
#[derive(Debug)]
struct Filling {
    segment: Arc<Segment>,
    start: u64,
    used: usize,
    limit: usize,
    buffer: Buffer,
    records: Vec<Recorded>,
}

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Log {
    group_octets: usize,
    groups_max: usize,
    filling: Option<Filling>,
    /// Segments to go on in.
    next: Option<Arc<Segment>>,
    /// Whether room is left in it for what of the oldest segment is written again.
    leaves_room: bool,
    /// Full groups that are not written, the oldest first.
    groups: VecDeque<Group>,
    /// Segments to which nothing is added any more, the oldest first.
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

    /// Whether a segment is wanted, to go on in when the present one is full.
    pub(crate) fn wants_segment(&self) -> bool {
        self.next.is_none()
    }

    /// `leaves_room`: before the one after it can be made another must go.
    pub(crate) fn offer_segment(&mut self, segment: Arc<Segment>, leaves_room: bool) {
        self.next = Some(segment);
        self.leaves_room = leaves_room;
    }

    /// Appends a packet; none if there is no room for it now. Where a segment must go before there
    /// is one to go on in, a part of the present one is left for what of it is written again: else
    /// who writes much would put out what was read or is pinned.
    pub(crate) fn append(&mut self, hash: u64, packet: &[u8], expires: (u64, Expiry)) -> Option<Place> {
        let left = |filling: &Filling| {
            let used = filling.start + filling.used as u64 + record::record_octets(packet.len()) as u64;
            used + filling.segment.octets / REINSERTED_PART + self.group_octets as u64
                <= filling.segment.octets
        };
        let has_room = !self.leaves_room || self.next.is_some() || self.filling.as_ref().is_none_or(left);
        if has_room { self.append_again(hash, packet, expires) } else { None }
    }

    /// The same for what is written again.
    pub(crate) fn append_again(
        &mut self,
        hash: u64,
        packet: &[u8],
        (expires_ms, expiry): (u64, Expiry),
    ) -> Option<Place> {
        let octets = record::record_octets(packet.len());
        if self.filling.as_ref().is_some_and(|filling| filling.used + octets > filling.limit) {
            self.end_group()?;
        }
        if self.filling.is_none() {
            let segment = self.next.take()?;
            self.begin_group(segment, BLOCK_OCTETS);
        }
        let filling = self.filling.as_mut()?;
        let place = Place::new(filling.segment.slot, filling.start + filling.used as u64, octets, expiry);
        record::write(packet, expires_ms, &mut filling.buffer[filling.used..filling.used + octets]);
        filling.used += octets;
        filling.records.push(Recorded { hash, place, expires_ms });
        Some(place)
    }

    fn begin_group(&mut self, segment: Arc<Segment>, start: u64) {
        let limit = self.group_octets.min((segment.octets - start) as usize);
        let buffer = self.spare.pop().unwrap_or_else(|| Buffer::new(self.group_octets));
        self.filling = Some(Filling { segment, start, used: 0, limit, buffer, records: Vec::new() });
    }

    /// Ends the group that is being filled, if there is room for one more that waits.
    pub(crate) fn end_group(&mut self) -> Option<()> {
        if self.filling.as_ref().is_none_or(|filling| filling.used == 0) {
            return Some(());
        }
        if self.groups.len() >= self.groups_max {
            return None;
        }
        let Filling { segment, start, used, mut buffer, records, .. } = self.filling.take()?;
        let octets = used.next_multiple_of(BLOCK_OCTETS as usize);
        buffer[used..octets].fill(0);
        self.groups_begun += 1;
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
        if segment_left < RECORD_OCTETS_MAX as u64 {
            self.ended.push_back(segment);
        } else {
            self.begin_group(segment, end);
        }
        Some(())
    }

    /// Ends the segment that is being filled: what comes goes to the next one. None if there is no
    /// room for one more group that waits.
    pub(crate) fn end_segment(&mut self) -> Option<()> {
        self.end_group()?;
        if let Some(filling) = self.filling.take() {
            self.spare.push(filling.buffer);
            self.ended.push_back(filling.segment);
        }
        Some(())
    }

    /// The segment that was offered and not begun.
    pub(crate) fn take_next(&mut self) -> Option<Arc<Segment>> {
        self.next.take()
    }

    /// The next group that waits without its checks, for [`Log::queue`].
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let group = self.groups.iter().find(|group| !group.is_queued)?;
        Some(Waiting {
            number: group.number,
            buffer: group.buffer.clone(),
            places: group.records.iter().map(|record| record.place).collect(),
            start: group.start,
            salt: group.segment.extent.salt(),
        })
    }

    /// Gives the records of a group their checks; what is to be written then, and where.
    pub(crate) fn queue(&mut self, number: u64, checks: &[[u8; 8]]) -> Option<Writing> {
        let group = self.groups.iter_mut().find(|group| group.number == number)?;
        // Nobody has the buffer but this and who computed the checks, who gave it back.
        let buffer = Arc::get_mut(&mut group.buffer)?;
        for (record, check) in group.records.iter().zip(checks) {
            let at = (record.place.offset() - group.start) as usize;
            buffer[at..][CHECK_AT].copy_from_slice(check);
        }
        group.is_queued = true;
        Some(Writing {
            number,
            segment: group.segment.clone(),
            start: group.start,
            octets: group.octets,
            buffer: group.buffer.clone(),
        })
    }

    /// A group has been written, or could not be: it is given back.
    pub(crate) fn written(&mut self, number: u64) -> Option<Group> {
        let at = self.groups.iter().position(|group| group.number == number)?;
        self.groups.remove(at)
    }

    /// Takes the memory of a group back.
    pub(crate) fn reuse(&mut self, buffer: Arc<Buffer>) {
        if let (Some(buffer), true) = (Arc::into_inner(buffer), self.spare.len() < GROUPS_MAX) {
            self.spare.push(buffer);
        }
    }

    /// The oldest segment to which nothing is added and whose groups are all written.
    pub(crate) fn take_ended(&mut self) -> Option<Arc<Segment>> {
        let is_written = self.ended.front()?.groups.load(Ordering::Acquire) == 0;
        if is_written { self.ended.pop_front() } else { None }
    }

    /// The number of the last group, and of the oldest one that is not written.
    pub(crate) fn progress(&self) -> (u64, Option<u64>) {
        (self.groups_begun, self.groups.front().map(|group| group.number))
    }

    /// Groups that wait or are on their way.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The segment that is being filled.
    pub(crate) fn filled(&self) -> Option<&Arc<Segment>> {
        self.filling.as_ref().map(|filling| &filling.segment)
    }

    /// The record at `place` of `segment`, if it is not on the disk yet.
    pub(crate) fn record(&self, segment: &Arc<Segment>, place: Place) -> Option<&[u8]> {
        let filling = self.filling.iter().map(|f| (&f.segment, f.start, &f.buffer, f.used));
        let groups = self.groups.iter().map(|g| (&g.segment, g.start, &*g.buffer, g.octets));
        let (_, start, buffer, _) = filling.chain(groups).find(|(of, start, _, used)| {
            Arc::ptr_eq(of, segment) && place.offset() >= *start && place.end() <= start + *used as u64
        })?;
        let at = (place.offset() - start) as usize;
        buffer.get(at..at + place.octets())
    }
}

/// A group that has no checks yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) number: u64,
    buffer: Arc<Buffer>,
    places: Vec<Place>,
    start: u64,
    /// What goes into the checks beside the key.
    pub(crate) salt: Option<u64>,
}

impl Waiting {
    /// The checks of its records.
    pub(crate) fn checks(&self, checks: &Checks) -> Vec<[u8; 8]> {
        let check = |place: &Place| {
            let at = (place.offset() - self.start) as usize;
            record::check_of(checks, &self.buffer[at..at + place.octets()]).unwrap_or_default()
        };
        self.places.iter().map(check).collect()
    }
}

/// A group on its way to the disk.
#[derive(Debug)]
pub(crate) struct Writing {
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
    fn until_there_is_a_segment_to_go_on_in_room_is_left_for_what_is_written_again() {
        let file = File::from_inner(tempfile::tempfile().unwrap());
        let segment = Arc::new(Segment::new(1, 0, file.into(), 64 << 10, false));
        let mut log = Log::new(16 << 10, GROUPS_MAX);
        log.offer_segment(segment.clone(), true);
        let expires = (0, Expiry::new(0, 0));
        let taken = (0..100).take_while(|_| log.append(1, &[7; 4000], expires).is_some()).count();
        assert!((4..8).contains(&taken), "about half of fifteen: {taken}");
        let again = (0..100).take_while(|_| log.append_again(1, &[7; 4000], expires).is_some()).count();
        assert!(again >= 4, "a quarter at least: {again}");
        log.offer_segment(segment, true);
        assert!(log.append(1, &[7; 4000], expires).is_some());
    }

    #[test]
    fn so_many_groups_wait_and_what_comes_then_finds_no_room() {
        let file = File::from_inner(tempfile::tempfile().unwrap());
        let segment = Arc::new(Segment::new(1, 0, file.into(), 1 << 20, false));
        let mut log = Log::new(16 << 10, GROUPS_MAX);
        let append = |log: &mut Log| log.append(1, &[7; 8000], (0, Expiry::new(0, 0)));
        assert!(append(&mut log).is_none() && log.wants_segment());
        log.offer_segment(segment.clone(), false);
        // Two records in each group, and two in the one that is being filled.
        for _ in 0..2 * (GROUPS_MAX + 1) {
            assert!(append(&mut log).is_some());
        }
        assert_eq!((append(&mut log), log.groups()), (None, GROUPS_MAX));
        let number = log.waiting().unwrap().number;
        let checks = [[1; 8]; 2];
        let writing = log.queue(number, &checks).unwrap();
        let place = Place::new(0, BLOCK_OCTETS, 8020, Expiry::new(0, 0));
        assert_eq!(log.record(&segment, place).unwrap()[CHECK_AT], checks[0], "it can be read meanwhile");
        assert!(append(&mut log).is_none());
        drop(writing);
        let group = log.written(number).unwrap();
        log.reuse(group.buffer);
        assert!(append(&mut log).is_some() && log.record(&segment, place).is_none());
    }
}
