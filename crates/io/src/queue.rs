//! Frames that wait to be sent on one transport.

use std::collections::VecDeque;
use std::io::IoSlice;

use namely_link::Frame;

/// What a waiting frame is charged beside its octets, so that many small frames are bounded too.
pub(crate) const FRAME_OVERHEAD_OCTETS: usize = 256;

/// Room for frames that an emptied queue keeps.
const IDLE_FRAMES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct FrameQueue<P> {
    frames: VecDeque<Frame<P>>,
    octets: usize,
    /// Octets of the first frame that are sent already (streams).
    sent_octets: usize,
}

impl<P: AsRef<[u8]>> FrameQueue<P> {
    pub(crate) fn new() -> Self {
        FrameQueue { frames: VecDeque::new(), octets: 0, sent_octets: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Octets that wait.
    pub(crate) fn octets(&self) -> usize {
        self.octets - self.sent_octets
    }

    /// Memory that the waiting frames take.
    pub(crate) fn memory_octets(&self) -> usize {
        self.octets + self.frames.len() * FRAME_OVERHEAD_OCTETS
    }

    pub(crate) fn push(&mut self, frame: Frame<P>) {
        self.octets += frame.octets();
        self.frames.push_back(frame);
    }

    /// The frames from the front.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame<P>> {
        self.frames.iter()
    }

    /// What to write next on a stream: at most `slices_max` slices.
    pub(crate) fn slices(&self, slices_max: usize) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(slices_max.min(self.frames.len() * 2 + 2));
        let mut skip = self.sent_octets;
        for frame in &self.frames {
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

    /// Forgets `octets` that a stream has taken. Returns how many frames are complete.
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

    /// Forgets the first frame. Returns its octets.
    pub(crate) fn pop(&mut self) -> usize {
        let octets = self.frames.pop_front().map_or(0, |frame| frame.octets());
        self.octets -= octets;
        if self.frames.is_empty() && self.frames.capacity() > IDLE_FRAMES_MAX {
            self.frames.shrink_to(IDLE_FRAMES_MAX);
        }
        octets
    }

    /// Forgets everything. Returns how many frames that were.
    pub(crate) fn clear(&mut self) -> u64 {
        let frames = self.frames.len() as u64;
        *self = FrameQueue::new();
        frames
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
        link.send(Outbound { headers, packet: vec![fill; octets], hop_limit }, 0, 0, &mut |f| made = Some(f))
            .unwrap();
        made.unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_octet_leaves_once_and_in_order_however_writes_are_cut(
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
