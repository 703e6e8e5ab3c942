//! Frames that wait to be sent on one transport.
//!
//! A packet that waits on several faces is charged to each, so the memory in use may be less than
//! the charged sum. To charge it once would need a shared count that each queueing and each flush
//! updates.

use std::collections::VecDeque;
use std::io::IoSlice;

use namely_link::{Codel, CodelConfig, Frame, Verdict};

/// Octets charged for each waiting frame in addition to its own, so that the number of small frames
/// is bounded too.
pub(crate) const FRAME_OVERHEAD_OCTETS: usize = 256;

/// Capacity for frames that an emptied queue retains.
const IDLE_FRAMES_MAX: usize = 64;

/// Capacity for the times of frames that an emptied queue retains.
const JOINED_KEPT_MAX: usize = 1024;

/// Octets that a writer receives at a time from a standing queue. The number is small, because
/// CoDel does not control frames that the writer has.
const TAKEN_OCTETS: usize = 256 << 10;

/// A queue of frames to write to a socket.
#[derive(Debug)]
pub(crate) struct FrameQueue<P> {
    frames: VecDeque<Frame<P>>,
    octets: usize,
    /// On a stream, octets of the first frame that were sent already.
    sent_octets: usize,
}

impl<P: AsRef<[u8]>> FrameQueue<P> {
    pub(crate) fn new() -> Self {
        FrameQueue { frames: VecDeque::new(), octets: 0, sent_octets: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the octets that remain to be sent.
    pub(crate) fn octets(&self) -> usize {
        self.octets - self.sent_octets
    }

    /// Returns the octets of memory that the frames use.
    pub(crate) fn memory_octets(&self) -> usize {
        self.octets + self.frames.len() * FRAME_OVERHEAD_OCTETS
    }

    pub(crate) fn push(&mut self, frame: Frame<P>) {
        self.octets += frame.octets();
        self.frames.push_back(frame);
    }

    /// Iterates over the frames from the front.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame<P>> + Clone {
        self.frames.iter()
    }

    /// Returns the next octets to write on a stream, in at most `slices_max` slices.
    pub(crate) fn slices(&self, slices_max: usize) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(slices_max.min(self.frames.len() * 2 + 2));
        let mut skip = self.sent_octets;
        for frame in &self.frames {
            // A frame has at most four slices, and all of them are included or none.
            if slices.len() + 4 > slices_max {
                break;
            }
            for slice in frame.slices() {
                let skipped = skip.min(slice.len());
                skip -= skipped;
                if skipped < slice.len() {
                    slices.push(IoSlice::new(&slice[skipped..]));
                }
            }
        }
        slices
    }

    /// Removes `octets` octets that a stream has accepted. Returns the number of frames that are
    /// complete.
    pub(crate) fn advance(&mut self, octets: usize) -> u64 {
        self.sent_octets += octets;
        let mut complete = 0;
        while let Some(first) = self.frames.front().map(Frame::octets) {
            if self.sent_octets < first {
                break;
            }
            self.sent_octets -= first;
            self.pop();
            complete += 1;
        }
        complete
    }

    /// Removes and returns the first frame. No part of it may have been sent.
    fn take_first(&mut self) -> Option<Frame<P>> {
        let frame = self.frames.pop_front()?;
        self.octets -= frame.octets();
        Some(frame)
    }

    /// Removes the first frame. Returns its octets.
    pub(crate) fn pop(&mut self) -> usize {
        let octets = self.frames.pop_front().map_or(0, |frame| frame.octets());
        self.octets -= octets;
        // Otherwise each of thousands of idle faces would retain the memory of its longest queue.
        if self.frames.is_empty() && self.frames.capacity() > IDLE_FRAMES_MAX {
            self.frames.shrink_to(IDLE_FRAMES_MAX);
        }
        octets
    }

    /// Removes frames from the front until `octets` octets of memory are freed. A partly sent frame
    /// stays.
    pub(crate) fn drop_oldest(&mut self, octets: usize) -> EvictedFrames {
        // Without the rest of a partly sent frame the stream would be out of step.
        let first = usize::from(self.sent_octets > 0);
        let mut freed = EvictedFrames::default();
        while freed.memory_octets < octets
            && let Some(frame) = self.frames.remove(first)
        {
            self.octets -= frame.octets();
            freed.add(&frame);
        }
        freed
    }

    /// Removes all frames. Returns their number.
    pub(crate) fn clear(&mut self) -> u64 {
        let frames = self.frames.len() as u64;
        *self = FrameQueue::new();
        frames
    }
}

/// The frames that were dropped to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EvictedFrames {
    pub(crate) frames: u64,
    pub(crate) memory_octets: usize,
}

impl EvictedFrames {
    fn add<P: AsRef<[u8]>>(&mut self, frame: &Frame<P>) {
        self.frames += 1;
        self.memory_octets += frame.octets() + FRAME_OVERHEAD_OCTETS;
    }
}

/// Frames that wait until a writer takes them. CoDel selects the frames that the writer receives.
#[derive(Debug)]
pub(crate) struct WaitingFrames<P> {
    frames: FrameQueue<P>,
    /// The time at which each frame joined, ns, and whether it is the first frame of a packet.
    joined: VecDeque<(u64, bool)>,
    codel: Codel,
    /// Whether the first frame of a packet was dropped, so that its other frames are dropped too.
    is_dropping: bool,
}

/// The marks and drops that CoDel decided while frames were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// The number of following packets that receive a congestion mark.
    pub(crate) marks: u32,
    /// Packets that were dropped.
    pub(crate) dropped: u64,
    /// Octets of memory of the dropped packets.
    pub(crate) dropped_memory_octets: usize,
}

impl<P: AsRef<[u8]>> WaitingFrames<P> {
    pub(crate) fn new() -> Self {
        WaitingFrames {
            frames: FrameQueue::new(),
            joined: VecDeque::new(),
            codel: Codel::default(),
            is_dropping: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn octets(&self) -> usize {
        self.frames.octets()
    }

    /// Returns the waiting octets and the number of their frames.
    pub(crate) fn in_frames(&self) -> (usize, usize) {
        (self.frames.octets(), self.joined.len())
    }

    pub(crate) fn memory_octets(&self) -> usize {
        self.frames.memory_octets()
    }

    #[inline]
    pub(crate) fn push(&mut self, frame: Frame<P>, begins_packet: bool, now_ns: u64) {
        self.frames.push(frame);
        self.joined.push_back((now_ns, begins_packet));
    }

    /// Moves frames from the front to `to`, which must be empty. Moves all of them if the oldest
    /// has not waited for long or the queue is short, and otherwise about [`TAKEN_OCTETS`].
    pub(crate) fn take(&mut self, to: &mut FrameQueue<P>, config: &CodelConfig, now_ns: u64) -> Judged {
        let mut judged = Judged::default();
        let Some((first_ns, _)) = self.joined.front() else { return judged };
        // Saturates: each worker has its own time, so a frame may have joined after `now_ns`.
        let is_fresh = now_ns.saturating_sub(*first_ns) < config.target_ns;
        // Excludes the case in which the first frames belong to a packet that is being dropped.
        if !self.is_dropping && (is_fresh || self.octets() <= config.threshold_octets) {
            // CoDel treats this as a queue without delay.
            self.codel.on_leave(config, 0, 0, now_ns);
            // `to` is empty, so a swap moves all frames at once.
            std::mem::swap(to, &mut self.frames);
            self.joined.clear();
            if self.joined.capacity() > JOINED_KEPT_MAX {
                self.joined.shrink_to(IDLE_FRAMES_MAX);
            }
            return judged;
        }
        while to.octets() < TAKEN_OCTETS
            && let Some((joined_ns, begins_packet)) = self.joined.pop_front()
            && let Some(frame) = self.frames.take_first()
        {
            // CoDel decides for each packet, because a packet that lost a fragment is lost.
            if begins_packet {
                let sojourn_ns = now_ns.saturating_sub(joined_ns);
                let verdict = self.codel.on_leave(config, sojourn_ns, self.frames.octets(), now_ns);
                self.is_dropping = verdict == Verdict::Drop;
                judged.marks += u32::from(verdict == Verdict::Mark);
                judged.dropped += u64::from(self.is_dropping);
            }
            if self.is_dropping {
                judged.dropped_memory_octets += frame.octets() + FRAME_OVERHEAD_OCTETS;
            } else {
                to.push(frame);
            }
        }
        judged
    }

    /// Removes whole packets from the front until `octets` octets of memory are freed.
    pub(crate) fn drop_oldest(&mut self, octets: usize) -> EvictedFrames {
        let mut freed = EvictedFrames::default();
        while let Some((_, begins_packet)) = self.joined.front()
            && (freed.memory_octets < octets || !begins_packet)
        {
            self.joined.pop_front();
            if let Some(frame) = self.frames.take_first() {
                freed.add(&frame);
            }
        }
        freed
    }

    /// Removes all frames. Returns their number.
    pub(crate) fn clear(&mut self) -> u64 {
        self.joined = VecDeque::new();
        self.frames.clear()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_link::{LinkConfig, LinkKind, LinkService, Outbound, Patch, ReassemblyTotal};
    use namely_wire::{LpHeaders, PitToken};
    use proptest::prelude::*;

    /// A frame with a header, a payload and a patched octet.
    fn frame(octets: usize, fill: u8) -> Frame<Vec<u8>> {
        let config = LinkConfig::new(LinkKind::Stream);
        let mut link: LinkService<Vec<u8>> = LinkService::new(config, ReassemblyTotal::new(0), 0);
        let headers = LpHeaders { pit_token: PitToken::new(&[fill; 4]), ..LpHeaders::default() };
        let hop_limit = Some(Patch { offset: octets / 2, value: 99 });
        let mut made = None;
        link.send(Outbound { headers, packet: vec![fill; octets], hop_limit }, 0, &mut |f| made = Some(f))
            .unwrap();
        made.unwrap()
    }

    const MS: u64 = 1_000_000;

    /// A packet of four frames joins every 10 ms; three frames can leave in that time.
    #[test]
    fn a_standing_queue_marks_then_drops() {
        let config = CodelConfig::default();
        let mut waiting = WaitingFrames::new();
        let (mut marks, mut dropped, mut sent) = (0, 0, Vec::new());
        let packet = |waiting: &mut WaitingFrames<Vec<u8>>, now_ns| {
            (0..4).for_each(|part| waiting.push(frame(100_000, part), part == 0, now_ns));
        };
        packet(&mut waiting, 0);
        for now_ns in (1..200).map(|n| n * 10 * MS) {
            packet(&mut waiting, now_ns);
            let mut taken = FrameQueue::new();
            let judged = waiting.take(&mut taken, &config, now_ns);
            marks += u64::from(judged.marks);
            dropped += judged.dropped;
            sent.extend(taken.frames().map(|frame| frame.slices()[1][0]));
        }
        assert!(marks >= 8 && dropped > 8, "{marks} marks, {dropped} drops");
        assert!(
            sent.iter().enumerate().all(|(n, part)| n % 4 == usize::from(*part)),
            "no packet lost a part"
        );
    }

    /// A UDP socket becomes writable when half of its buffer is free. On a slow link this happens
    /// seldom, and the socket then accepts many frames at once.
    #[test]
    fn each_burst_signal_marks_a_packet() {
        let config = CodelConfig::default();
        let mut waiting = WaitingFrames::new();
        (0..400).for_each(|n| waiting.push(frame(10_000, n as u8), true, 0));
        let mut in_bursts = Vec::new();
        for now_ms in [200, 400, 800] {
            let mut judged = Judged::default();
            for _ in 0..4 {
                let more = waiting.take(&mut FrameQueue::new(), &config, now_ms * MS);
                judged.marks += more.marks;
                judged.dropped += more.dropped;
            }
            in_bursts.push((judged.marks, judged.dropped > 0));
        }
        // After the first, signals fall due at 500, 570, 628, 678, 723 and 764 ms.
        assert_eq!(in_bursts, [(0, false), (1, false), (6, false)]);
    }

    #[test]
    fn fresh_frames_are_taken_at_once() {
        let mut waiting = WaitingFrames::new();
        (0..100).for_each(|n| waiting.push(frame(10_000, n), true, 5));
        let mut taken = FrameQueue::new();
        assert_eq!(waiting.take(&mut taken, &CodelConfig::default(), 5 * MS), Judged::default());
        assert_eq!((taken.frames().count(), waiting.is_empty(), waiting.memory_octets()), (100, true, 0));
    }

    #[test]
    fn the_oldest_unsent_frames_make_room() {
        let mut queue = FrameQueue::new();
        (0..5).for_each(|n| queue.push(frame(1000, n)));
        let memory = |queue: &FrameQueue<Vec<u8>>| queue.memory_octets();
        let one = memory(&queue) / 5;
        queue.advance(10);
        assert_eq!(queue.drop_oldest(one + 1), EvictedFrames { frames: 2, memory_octets: 2 * one });
        let left: Vec<u8> = queue.frames().map(|frame| frame.slices()[1][0]).collect();
        assert_eq!((left, memory(&queue)), (vec![0, 3, 4], 3 * one));
        assert_eq!(queue.drop_oldest(usize::MAX).frames, 2);
        assert_eq!(queue.frames().count(), 1);
    }

    #[test]
    fn whole_waiting_packets_make_room() {
        let mut waiting = WaitingFrames::new();
        (0..6).for_each(|n| waiting.push(frame(1000, n), n % 3 == 0, 0));
        assert_eq!(waiting.drop_oldest(1).frames, 3);
        assert_eq!(waiting.drop_oldest(usize::MAX).frames, 3);
        assert!(waiting.is_empty() && waiting.memory_octets() == 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn short_writes_keep_octets_in_order(
            sizes in prop::collection::vec(1usize..300, 1..30),
            writes in prop::collection::vec(1usize..500, 1..200),
            slices_max in 4usize..40,
        ) {
            let mut queue = FrameQueue::new();
            let mut expected = Vec::new();
            for (n, size) in sizes.iter().enumerate() {
                let frame = frame(*size, n as u8);
                expected.extend(frame.slices().concat());
                queue.push(frame);
            }
            prop_assert_eq!(queue.octets(), expected.len());
            prop_assert_eq!(queue.memory_octets(), expected.len() + sizes.len() * FRAME_OVERHEAD_OCTETS);
            let (mut sent, mut frames) = (Vec::new(), 0);
            for limit in writes.into_iter().cycle().take(100_000) {
                let offered: Vec<u8> = queue.slices(slices_max).iter().flat_map(|s| s.to_vec()).collect();
                let taken = offered.len().min(limit);
                sent.extend_from_slice(&offered[..taken]);
                frames += queue.advance(taken);
                if queue.is_empty() {
                    break;
                }
                prop_assert!(!offered.is_empty(), "what waits is offered");
            }
            prop_assert_eq!(sent, expected);
            prop_assert_eq!((frames, queue.memory_octets()), (sizes.len() as u64, 0));
        }
    }
}
