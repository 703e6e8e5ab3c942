//! The state under a port's lock: the sending half of the link service, the waiting frames, and the
//! writer.

use namely_link::{LinkConfig, LinkDrop, LinkKind, LinkSender};
use namely_messages::FacePersistency;
use namely_wire::FaceUri;
use rustix::io::Errno;

use super::since_arrival::SinceArrival;
use crate::labels::sent;
use crate::limits::{Limits, QUEUE_RESERVE_OCTETS};
use crate::queue::{EvictedFrames, FrameQueue, WaitingFrames};
use crate::sender::{FlushReport, Sender};
use crate::sockets::Interest;
use crate::status::{FaceCounters, FaceState};
use crate::unproven::UnprovenPeer;

/// The reason for which a packet cannot be sent now. The port counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The face is closed.
    Gone,
    /// The face is down, or still connecting.
    Down,
    /// The queue of the face is full, or all queues together are.
    QueueFull,
    /// The limit on sending to a peer that has not proven that it receives is used up.
    UnprovenPeer,
    /// The link cannot carry the packet.
    Link(LinkDrop),
}

/// The outcome of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushOutcome {
    /// The caller has nothing left to do.
    Done,
    /// The socket accepts no more. A check for progress is due at this time, ns.
    Blocked(u64),
    /// More frames can be written in the next turn.
    More,
    /// The device refused a frame. The next attempt is due at this time, ns.
    Later(u64),
    Failed(Errno),
}

/// Time that frames wait for a network device that accepts none.
///
/// The device may refuse frames for ever.
///
/// # Limit
/// Each refused frame is dropped until the device accepts one.
/// - Counter: `no_buffers`
/// - Tests: `frames_refused_for_long_are_dropped`,
///   `frames_refused_by_a_device_wait_in_order`,
///   `packets_waiting_for_a_device_are_marked`
pub(super) const REFUSED_NS_MAX: u64 = 200_000_000;

/// Wait before a network device that refused a frame is tried again.
///
/// No event reports that its queue has room.
///
/// # Limit
/// The worker tries to send the frame again.
/// - Counter: `no_buffers`
/// - Tests: `frames_refused_by_a_device_wait_in_order`
const RETRY_NS: u64 = 250_000;

/// Labels of frames that the system reported as not received.
const FAILURES: [&str; 3] = [sent::REFUSED, sent::UNREACHABLE, sent::NOT_PERMITTED];

/// The state under the lock.
pub(super) struct FaceSenderState<P> {
    pub(super) state: FaceState,
    pub(super) persistency: FacePersistency,
    pub(super) local: FaceUri,
    pub(super) link: LinkSender<P>,
    /// The limits of an unproven peer. `None` if the peer has proven that it receives, or need not.
    pub(super) unproven: Option<Box<UnprovenPeer>>,
    pub(super) queue: WaitingFrames<P>,
    /// `None` while a worker writes, and while the face has no sender.
    pub(super) writer: Option<Box<Writer<P>>>,
    /// Incremented when a writer that a flush has taken out must not be put back. The flush
    /// compares, under the lock, the number that it read before with the present one.
    pub(super) epoch: u32,
    /// The octets of the writer's frames, and their octets of memory.
    pub(super) in_flight: (usize, usize),
    /// Whether the socket accepts no more, and the reading worker waits until it does.
    pub(super) is_blocked: bool,
    /// Set while the device refuses frames.
    pub(super) refused: Option<DeviceRefusal>,
    /// Whether the descriptor is not watched for reading at present. Set only if the two halves
    /// share the descriptor.
    pub(super) is_resting: bool,
    /// The time at which the socket last accepted frames or became blocked, ns.
    pub(super) progress_ns: u64,
    /// Whether a check for progress is scheduled.
    pub(super) is_watched: bool,
    /// The workers that will flush at the end of their turn, one bit each.
    pub(super) flushers: u64,
    /// The earliest time at which some worker serves the link's timer.
    pub(super) timer_ns: Option<u64>,
    pub(super) since_arrival: SinceArrival,
    pub(super) counters: FaceCounters,
}

/// A device that refuses frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceRefusal {
    /// The time of the first refusal since the device last accepted a frame, ns.
    pub(super) since_ns: u64,
    /// The time of the next attempt, ns.
    pub(super) again_ns: u64,
}

pub(super) struct Writer<P> {
    pub(super) sender: Box<dyn Sender<P>>,
    pub(super) frames: FrameQueue<P>,
}

/// The actions due for a worker after it queued frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FollowUp {
    /// Flush at the end of the turn.
    pub(crate) flush: bool,
    /// Serve the link's timer at this time.
    pub(crate) arm_ns: Option<u64>,
}

/// The worker that sends, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendContext {
    /// The bit of the worker.
    pub(crate) flusher: u64,
    pub(crate) now_ns: u64,
}

impl<P: AsRef<[u8]> + Clone> FaceSenderState<P> {
    /// Makes the state of a port that has no link service yet.
    pub(super) fn new(
        sender: Box<dyn Sender<P>>,
        local: FaceUri,
        persistency: FacePersistency,
        state: FaceState,
    ) -> Self {
        // A placeholder until `set_link`. Nothing is sent before.
        let config = LinkConfig { marking: false, ..LinkConfig::new(LinkKind::Stream) };
        FaceSenderState {
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
            since_arrival: SinceArrival::default(),
            counters: FaceCounters::default(),
        }
    }

    /// Returns the readiness for which a shared descriptor is watched.
    pub(super) fn interest(&self) -> Interest {
        match (self.is_resting, self.is_blocked) {
            (false, false) => Interest::Read,
            (false, true) => Interest::Both,
            (true, false) => Interest::Rest,
            (true, true) => Interest::WriteOnce,
        }
    }

    /// Returns the octets of the waiting frames, and their octets of memory.
    #[inline]
    pub(super) fn waiting(&self) -> (usize, usize) {
        // The writer's frames are counted in `in_flight`, whether the writer is out or back.
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
            FaceState::Up if memory_octets >= limits.queue_octets_max => {
                (SendError::QueueFull, sent::QUEUE_FULL)
            }
            FaceState::Up
                if memory_octets >= QUEUE_RESERVE_OCTETS && limits.are_queues_full(total_octets) =>
            {
                (SendError::QueueFull, sent::QUEUES_FULL)
            }
            FaceState::Up => return Ok(()),
            // The flag is not read for a face that is up.
            _ if is_closed() => (SendError::Gone, sent::DOWN),
            _ => (SendError::Down, sent::DOWN),
        };
        self.counters.drops.count(label);
        Err(refused)
    }

    /// Admits another packet to a peer that has not proven that it receives, or counts it as
    /// dropped. Requests a proof from the peer if it is due. The caller charges the frames of an
    /// admitted packet ([`FaceSenderState::charge_unproven`]).
    #[cold]
    pub(super) fn admit_unproven(&mut self, now_ns: u64) -> Result<(), SendError> {
        let Some(unproven) = &mut self.unproven else { return Ok(()) };
        // Called before `request_proof` for two reasons. A refusal makes a request for proof due.
        // The charge of that request must not cause the refusal of this packet.
        let admitted = unproven.admit(now_ns);
        let (octets_before, frames_before) = self.queue.in_frames();
        unproven.request_proof(now_ns, &mut |frame| self.queue.push(frame, true, now_ns));
        self.charge_unproven(octets_before, frames_before, now_ns);
        admitted.map_err(|label| {
            self.counters.drops.count(label);
            SendError::UnprovenPeer
        })
    }

    /// Charges the frames that joined the queue since it had `octets_before` octets in
    /// `frames_before` frames.
    pub(super) fn charge_unproven(&mut self, octets_before: usize, frames_before: usize, now_ns: u64) {
        let (octets, frames) = self.queue.in_frames();
        if let Some(unproven) = &mut self.unproven {
            unproven.charge(octets - octets_before, frames - frames_before, now_ns);
        }
    }

    /// Moves the next frames to the writer. Returns the octets of memory of the frames that were
    /// dropped instead.
    pub(super) fn refill(&mut self, writer: &mut Writer<P>, now_ns: u64) -> isize {
        let judged = self.queue.take(&mut writer.frames, &self.link.config().codel, now_ns);
        // Later packets are marked, because these frames are encoded already.
        self.link.mark_next(judged.marks);
        if judged.dropped > 0 {
            self.counters.drops.add(sent::CODEL, judged.dropped);
        }
        judged.dropped_memory_octets as isize
    }

    /// Returns the actions due for the worker that queued frames. If its bit is set already, it
    /// needs no second flush, because a flush clears the bit, under the lock, before it reads the
    /// queue.
    #[inline]
    pub(super) fn follow_up(&mut self, context: SendContext) -> FollowUp {
        // If the socket accepts no frames, the reading worker or a timer flushes later.
        let is_taken = !self.is_blocked && !self.is_refused(context.now_ns);
        let flush = !self.queue.is_empty() && is_taken && self.flushers & context.flusher == 0;
        if flush {
            self.flushers |= context.flusher;
        }
        // A timer that is set already also serves any later time.
        let arm_ns =
            self.link.due_ns().filter(|due_ns| self.timer_ns.is_none_or(|timer_ns| timer_ns > *due_ns));
        if arm_ns.is_some() {
            self.timer_ns = arm_ns;
        }
        FollowUp { flush, arm_ns }
    }

    /// Returns true if the device refused a frame and the next attempt is not due yet.
    #[inline]
    pub(super) fn is_refused(&self, now_ns: u64) -> bool {
        self.refused.is_some_and(|refused| now_ns < refused.again_ns)
    }

    /// Handles the refusal of the writer's first frame by the device. Returns the time at which to
    /// send it again. If the device has accepted no frame for too long, drops the frame and returns
    /// `None`, and the next frame may be tried at once.
    pub(super) fn on_refused(&mut self, now_ns: u64, charge: &mut isize) -> Option<u64> {
        let since_ns = self.refused.map_or(now_ns, |refused| refused.since_ns);
        if now_ns.saturating_sub(since_ns) < REFUSED_NS_MAX {
            let again_ns = now_ns.saturating_add(RETRY_NS);
            self.refused = Some(DeviceRefusal { since_ns, again_ns });
            return Some(again_ns);
        }
        let writer = self.writer.as_mut()?;
        let before = writer.frames.memory_octets();
        writer.frames.pop();
        let after = writer.frames.memory_octets();
        *charge -= (before - after) as isize;
        self.in_flight = (writer.frames.octets(), after);
        self.counters.drops.count(sent::NO_BUFFERS);
        None
    }

    /// Counts the outcome of a flush. `arrived` frames have arrived so far.
    pub(super) fn count(&mut self, sent: &FlushReport, arrived: u64) {
        let failures: u64 = FAILURES.iter().map(|label| sent.drops.of(label)).sum();
        if failures > 0 {
            self.since_arrival.on_failure(arrived, failures);
        }
        self.counters.out_frames += sent.frames;
        self.counters.out_octets += sent.octets;
        self.counters.drops.merge(&sent.drops);
    }

    pub(super) fn count_cleared(&mut self, frames: u64) {
        if frames > 0 {
            self.counters.drops.add(sent::DOWN, frames);
        }
    }

    /// Drops the oldest frames until `octets` octets of memory are freed, or no frame is left.
    /// Returns the number of octets that were freed.
    pub(super) fn drop_oldest(&mut self, octets: usize) -> usize {
        let mut freed = EvictedFrames::default();
        // The writer's frames are older than the queue's. They cannot be dropped while a flush has
        // taken the writer out.
        if let Some(writer) = &mut self.writer {
            freed = writer.frames.drop_oldest(octets);
            self.in_flight = (writer.frames.octets(), writer.frames.memory_octets());
        }
        let waiting = self.queue.drop_oldest(octets.saturating_sub(freed.memory_octets));
        let frames = freed.frames + waiting.frames;
        if frames > 0 {
            self.counters.drops.add(sent::QUEUES_FULL, frames);
        }
        freed.memory_octets + waiting.memory_octets
    }

    /// Drops the waiting frames, and invalidates the writer even if a flush has taken it out.
    pub(super) fn clear(&mut self, charge: &mut isize) {
        *charge -= self.queue.memory_octets() as isize;
        let mut frames = self.queue.clear();
        if let Some(mut writer) = self.writer.take() {
            *charge -= writer.frames.memory_octets() as isize;
            frames += writer.frames.clear();
        }
        self.count_cleared(frames);
        // After this, the flush that has the writer drops its frames (`FaceSender::flush`).
        self.epoch = self.epoch.wrapping_add(1);
        self.in_flight = (0, 0);
        self.is_blocked = false;
        self.refused = None;
    }
}
