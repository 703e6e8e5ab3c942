//! What a port's lock protects: the sending half of the link service, the frames that wait, and who
//! writes them.

use namely_link::{LinkConfig, LinkDrop, LinkKind, LinkSender};
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;
use rustix::io::Errno;

use crate::limits::{Limits, QUEUE_RESERVE_OCTETS};
use crate::queue::{FrameQueue, Freed, WaitingFrames};
use crate::sender::{Sender, Sent};
use crate::sockets::Interest;
use crate::status::{FaceState, PortCounters};
use crate::unproven::Unproven;

/// Why a packet cannot be sent now. Counted at the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The face is closed.
    Gone,
    /// The face has no peer at present.
    Down,
    /// As much waits as may wait.
    QueueFull,
    /// As much was sent as may be to a peer that has not proven that it receives.
    Unproven,
    /// The link cannot carry the packet.
    Link(LinkDrop),
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushEnd {
    /// Nothing is left to do here.
    Done,
    /// Nothing more is taken; a look is due at this time, ns, whether anything was.
    Stands(u64),
    /// Again in the next turn.
    More,
    /// Again at this time, ns.
    Later(u64),
    Failed(Errno),
}

/// How long frames are kept for a device that refuses them and takes none, ns. After that each is
/// dropped that it refuses, until it takes one: it may refuse them for ever.
pub(super) const REFUSED_NS_MAX: u64 = 200_000_000;

/// When a device that refused a frame is asked again, ns: nothing tells that its queue has room.
const RETRY_NS: u64 = 250_000;

/// What the lock is for.
pub(super) struct PortState<P> {
    pub(super) state: FaceState,
    pub(super) persistency: FacePersistency,
    pub(super) local: FaceUri,
    pub(super) link: LinkSender<P>,
    /// `None` once the peer has proven that it receives what is sent to it, and where it need not.
    pub(super) unproven: Option<Box<Unproven>>,
    pub(super) queue: WaitingFrames<P>,
    /// `None` while someone writes.
    pub(super) writer: Option<Box<Writer<P>>>,
    /// Counts up when a writer that is out must not come back: whoever has it compares, under the
    /// lock, the number that it took with the present one.
    pub(super) epoch: u32,
    /// What a writer that is out has with it, octets and octets of memory.
    pub(super) in_flight: (usize, usize),
    /// Nothing more is taken: the reading worker waits until something is.
    pub(super) is_blocked: bool,
    /// The device refuses what is sent, and is asked again in a while.
    pub(super) refused: Option<Refused>,
    /// What arrives is not read for some time. Only set where the sending half has the descriptor
    /// of the receiving one.
    pub(super) is_resting: bool,
    /// When something was last taken, or began to wait, ns.
    pub(super) progress_ns: u64,
    /// Some worker looks, when the time has come, whether anything was taken.
    pub(super) is_watched: bool,
    /// The workers that will flush at the end of their turn, a bit for each.
    pub(super) flushers: u64,
    /// The earliest time at which some worker serves the link's timer.
    pub(super) timer_ns: Option<u64>,
    pub(super) counters: PortCounters,
}

/// A device that refuses frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// Since when it has taken nothing, ns.
    pub(super) since_ns: u64,
    /// Nothing is sent before, ns.
    pub(super) again_ns: u64,
}

pub(super) struct Writer<P> {
    pub(super) sender: Box<dyn Sender<P>>,
    pub(super) frames: FrameQueue<P>,
}

/// What a worker must do after it queued something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FollowUp {
    /// Flush at the end of the turn.
    pub(crate) flush: bool,
    /// Serve the link's timer at this time.
    pub(crate) arm_ns: Option<u64>,
}

/// Who sends, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendContext {
    /// The bit of the worker.
    pub(crate) flusher: u64,
    pub(crate) now_ns: u64,
}

impl<P: AsRef<[u8]> + Clone> PortState<P> {
    /// The state of a port whose link service is not known yet.
    pub(super) fn new(
        sender: Box<dyn Sender<P>>,
        local: FaceUri,
        persistency: FacePersistency,
        state: FaceState,
    ) -> Self {
        let config = LinkConfig { marking: false, ..LinkConfig::new(LinkKind::Stream) };
        PortState {
            state,
            persistency,
            local,
            link: LinkSender::new(config, 0),
            unproven: None,
            queue: WaitingFrames::new(),
            writer: Some(Box::new(Writer { sender, frames: FrameQueue::new() })),
            epoch: 0,
            in_flight: (0, 0),
            is_blocked: false,
            refused: None,
            is_resting: false,
            progress_ns: 0,
            is_watched: false,
            flushers: 0,
            timer_ns: None,
            counters: PortCounters::default(),
        }
    }

    /// What the descriptor is watched for where both halves have the same.
    pub(super) fn interest(&self) -> Interest {
        match (self.is_resting, self.is_blocked) {
            (false, false) => Interest::Read,
            (false, true) => Interest::Both,
            (true, false) => Interest::Rest,
            (true, true) => Interest::WriteOnce,
        }
    }

    /// Octets that wait, and octets of memory.
    #[inline]
    pub(super) fn waiting(&self) -> (usize, usize) {
        // The writer's frames are counted as in flight, whether it is out or has come back.
        (self.queue.octets() + self.in_flight.0, self.queue.memory_octets() + self.in_flight.1)
    }

    /// Admits another packet, or counts it as dropped.
    #[inline]
    pub(super) fn admit(
        &mut self,
        limits: &Limits,
        is_closed: impl FnOnce() -> bool,
        total_octets: isize,
    ) -> Result<(), SendError> {
        let (_, memory_octets) = self.waiting();
        let (refused, label) = match self.state {
            FaceState::Up if memory_octets >= limits.queue_octets_max => (SendError::QueueFull, "queue_full"),
            FaceState::Up
                if memory_octets >= QUEUE_RESERVE_OCTETS && limits.are_queues_full(total_octets) =>
            {
                (SendError::QueueFull, "queues_full")
            }
            FaceState::Up => return Ok(()),
            _ if is_closed() => (SendError::Gone, "down"),
            _ => (SendError::Down, "down"),
        };
        self.counters.drops.count(label);
        Err(refused)
    }

    /// Admits another packet to a peer that has not proven that it receives, or counts it as
    /// dropped. The peer is asked for a proof if it is time to. The frames of what is admitted are
    /// to be charged ([`PortState::charge_unproven`]).
    #[cold]
    pub(super) fn admit_unproven(&mut self, now_ns: u64) -> Result<(), SendError> {
        let Some(unproven) = &mut self.unproven else { return Ok(()) };
        let admitted = unproven.admit(now_ns);
        let before = self.queue.in_frames();
        unproven.ask(now_ns, &mut |frame| self.queue.push(frame, true, now_ns));
        self.charge_unproven(before, now_ns);
        admitted.map_err(|label| {
            self.counters.drops.count(label);
            SendError::Unproven
        })
    }

    /// Charges what has joined the queue since it had so many octets in so many frames.
    pub(super) fn charge_unproven(&mut self, (octets, frames): (usize, usize), now_ns: u64) {
        let after = self.queue.in_frames();
        if let Some(unproven) = &mut self.unproven {
            unproven.charge(after.0 - octets, after.1 - frames, now_ns);
        }
    }

    /// Gives the writer what it is to write next. Returns the octets of memory of what was dropped
    /// instead.
    pub(super) fn refill(&mut self, writer: &mut Writer<P>, now_ns: u64) -> isize {
        let judged = self.queue.take(&mut writer.frames, &self.link.config().codel, now_ns);
        self.link.mark_next(judged.marks);
        if judged.dropped > 0 {
            self.counters.drops.add("codel", judged.dropped);
        }
        judged.dropped_memory_octets as isize
    }

    /// What the worker that queued something must do. A worker that is to flush already need not be
    /// told again: it clears its bit, under the lock, before it looks at the queue.
    #[inline]
    pub(super) fn follow_up(&mut self, context: SendContext) -> FollowUp {
        let is_taken = !self.is_blocked && !self.is_refused(context.now_ns);
        let flush = !self.queue.is_empty() && is_taken && self.flushers & context.flusher == 0;
        if flush {
            self.flushers |= context.flusher;
        }
        let arm_ns =
            self.link.due_ns().filter(|due_ns| self.timer_ns.is_none_or(|timer_ns| timer_ns > *due_ns));
        if arm_ns.is_some() {
            self.timer_ns = arm_ns;
        }
        FollowUp { flush, arm_ns }
    }

    /// Returns true if the device is not to be asked yet.
    #[inline]
    pub(super) fn is_refused(&self, now_ns: u64) -> bool {
        self.refused.is_some_and(|refused| now_ns < refused.again_ns)
    }

    /// The device refused the first frame that the writer has. Returns when to send that again;
    /// `None` if the device has taken nothing for so long that this frame is dropped, and the next
    /// may be tried at once.
    pub(super) fn on_refused(&mut self, now_ns: u64, charge: &mut isize) -> Option<u64> {
        let since_ns = self.refused.map_or(now_ns, |refused| refused.since_ns);
        if now_ns.saturating_sub(since_ns) < REFUSED_NS_MAX {
            let again_ns = now_ns.saturating_add(RETRY_NS);
            self.refused = Some(Refused { since_ns, again_ns });
            return Some(again_ns);
        }
        let writer = self.writer.as_mut()?;
        let before = writer.frames.memory_octets();
        writer.frames.pop();
        let after = writer.frames.memory_octets();
        *charge -= (before - after) as isize;
        self.in_flight = (writer.frames.octets(), after);
        self.counters.drops.count("no_buffers");
        None
    }

    pub(super) fn count(&mut self, sent: &Sent) {
        self.counters.out_frames += sent.frames;
        self.counters.out_octets += sent.octets;
        self.counters.drops.merge(&sent.drops);
    }

    pub(super) fn count_cleared(&mut self, frames: u64) {
        if frames > 0 {
            self.counters.drops.add("down", frames);
        }
    }

    /// Drops what has waited longest, until that has freed so many octets of memory.
    pub(super) fn drop_oldest(&mut self, octets: usize) -> usize {
        let mut freed = Freed::default();
        if let Some(writer) = &mut self.writer {
            freed = writer.frames.drop_oldest(octets);
            self.in_flight = (writer.frames.octets(), writer.frames.memory_octets());
        }
        let waiting = self.queue.drop_oldest(octets.saturating_sub(freed.memory_octets));
        let frames = freed.frames + waiting.frames;
        if frames > 0 {
            self.counters.drops.add("queues_full", frames);
        }
        freed.memory_octets + waiting.memory_octets
    }

    /// Drops what waits, and the writer with it, wherever it is.
    pub(super) fn clear(&mut self, charge: &mut isize) {
        *charge -= self.queue.memory_octets() as isize;
        let mut frames = self.queue.clear();
        if let Some(mut writer) = self.writer.take() {
            *charge -= writer.frames.memory_octets() as isize;
            frames += writer.frames.clear();
        }
        self.count_cleared(frames);
        self.epoch = self.epoch.wrapping_add(1);
        self.in_flight = (0, 0);
        self.is_blocked = false;
        self.refused = None;
    }
}
