//! Writes the queue of a port. A flush takes the writer out under the lock, makes the system calls
//! without the lock, and puts the writer back. Meanwhile, other workers may queue frames. They find
//! no writer, and leave their frames to the flush.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use namely_link::LinkSender;

use super::FaceSender;
use super::state::{FaceSenderState, FlushOutcome, SendContext, Writer};
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::sockets::{self, Interest};
use crate::status::FaceState;

/// Maximum rounds of one flush of a port. The limit bounds a flush while other workers queue
/// frames.
const ROUNDS_MAX: usize = 4;

impl<P: AsRef<[u8]> + Clone> FaceSender<P> {
    /// Writes the waiting frames, as far as the socket accepts them. `context` identifies the
    /// worker.
    pub(crate) fn flush(&self, context: SendContext, charge: &mut isize) -> FlushOutcome {
        let mut state = self.state.lock();
        // The bit is cleared before the queue is read, so a worker that queues a frame after this
        // point requests another flush.
        state.flushers &= !context.flusher;
        for _ in 0..ROUNDS_MAX {
            if state.state != FaceState::Up || state.is_refused(context.now_ns) {
                return FlushOutcome::Done;
            }
            // If the writer is absent, another worker is writing. That worker will find the queued
            // frames, because it reads the queue again, under the lock, after it has put the writer
            // back.
            let Some(mut writer) = state.writer.take() else { return FlushOutcome::Done };
            if writer.frames.is_empty() {
                *charge -= state.refill(&mut writer, context.now_ns);
            }
            if writer.frames.is_empty() {
                state.writer = Some(writer);
                return FlushOutcome::Done;
            }
            let (epoch, before) = (state.epoch, writer.frames.memory_octets());
            // `in_flight` counts these frames while the writer is out, so that they still count
            // against the queue's limit.
            state.in_flight = (writer.frames.octets(), before);
            drop(state);
            let mut sent = FlushReport::default();
            let flushed = writer.sender.flush(&mut writer.frames, &mut sent);
            let after = writer.frames.memory_octets();
            *charge += after as isize - before as isize;
            state = self.state.lock();
            state.count(&sent, self.arrived());
            if sent.octets > 0 {
                state.progress_ns = context.now_ns;
                state.refused = None;
                // Relaxed: the flag only guides eviction and the idle time.
                self.is_answered.store(true, Ordering::Relaxed);
            }
            if let Some(octets) = sent.path_octets {
                self.follow_path_with(&mut state, octets);
            }
            // The port was closed, went down or got another sender while the lock was not held.
            // This writer is obsolete, and its remaining frames are dropped with it.
            if state.epoch != epoch {
                *charge -= after as isize;
                state.count_cleared(writer.frames.clear());
                return FlushOutcome::Done;
            }
            state.in_flight = (writer.frames.octets(), after);
            // The time of a stall begins when the socket blocks, not with the last accepted frame.
            if flushed == Ok(FlushProgress::Blocked) && !state.is_blocked {
                state.progress_ns = context.now_ns;
            }
            self.watch(&mut state, &*writer.sender, flushed == Ok(FlushProgress::Blocked));
            state.writer = Some(writer);
            match flushed {
                Ok(FlushProgress::All) => (),
                Ok(FlushProgress::Some) => return FlushOutcome::More,
                Ok(FlushProgress::Blocked) => return self.on_blocked(&mut state),
                Ok(FlushProgress::Refused) => {
                    if let Some(again_ns) = state.on_refused(context.now_ns, charge) {
                        return FlushOutcome::Later(again_ns);
                    }
                }
                Err(errno) => return FlushOutcome::Failed(errno),
            }
        }
        // Frames that other workers queued meanwhile wait for the next turn, so that a flush is
        // bounded.
        if state.waiting().0 == 0 { FlushOutcome::Done } else { FlushOutcome::More }
    }

    /// Schedules a check for progress on a socket that accepts no more, unless a check is scheduled
    /// already.
    fn on_blocked(&self, state: &mut FaceSenderState<P>) -> FlushOutcome {
        // A second check at the same time would have the same result.
        if !self.info.can_stall || state.is_watched {
            return FlushOutcome::Done;
        }
        state.is_watched = true;
        FlushOutcome::Blocked(state.progress_ns.saturating_add(self.limits.stall_ns))
    }

    /// Checks whether the socket accepted a frame since the check was scheduled. Returns the time
    /// of the next check, ns. Returns `None` if the socket is not blocked any more, or has been
    /// blocked for too long. In the latter case it calls `close` before.
    pub(crate) fn check_progress(&self, now_ns: u64, close: impl FnOnce()) -> Option<u64> {
        let mut state = self.state.lock();
        let due_ns = state.progress_ns.saturating_add(self.limits.stall_ns);
        let is_blocked = state.is_blocked;
        if is_blocked && due_ns > now_ns {
            return Some(due_ns);
        }
        state.is_watched = false;
        // The lock is released first, because `close` takes the lock of a mailbox.
        drop(state);
        if is_blocked {
            close();
        }
        None
    }

    /// Returns the octets of memory that the waiting frames use.
    pub fn queued_memory_octets(&self) -> usize {
        self.state.lock().waiting().1
    }

    /// Drops the oldest frames until `octets` octets of memory are freed, or no frame is left.
    /// Returns the number of octets that were freed.
    pub(crate) fn drop_oldest(&self, octets: usize, charge: &mut isize) -> usize {
        let freed = self.state.lock().drop_oldest(octets);
        *charge -= freed as isize;
        freed
    }

    /// Starts or ends the reading worker's watch for writability. Called under the lock, so that
    /// the watch matches `is_blocked` whichever worker flushes.
    fn watch(&self, state: &mut FaceSenderState<P>, sender: &dyn Sender<P>, is_blocked: bool) {
        if is_blocked == state.is_blocked {
            return;
        }
        state.is_blocked = is_blocked;
        let (Some(socket), Some(id)) = (sender.descriptor(), self.id()) else { return };
        let epoll = self.reader.epoll();
        match (sender.shares_descriptor(), is_blocked) {
            (true, _) => sockets::rewatch(epoll, socket, id, state.interest()),
            (false, true) => {
                let _ = sockets::watch(epoll, socket, id, Interest::Write);
            }
            (false, false) => {
                let _ = rustix::event::epoll::delete(epoll, socket);
            }
        }
    }

    /// Stops or resumes watching the receiving half's descriptor for reading. Returns true if the
    /// watch is stopped afterwards.
    pub(crate) fn rest(&self, descriptor: BorrowedFd<'_>, is_resting: bool) -> bool {
        let mut state = self.state.lock();
        // While the writer is out, it is unknown whether its sender shares this descriptor, so the
        // watch is not stopped.
        let is_shared = state.writer.as_ref().is_some_and(|writer| writer.sender.shares_descriptor());
        let (Some(id), true) = (self.id(), is_shared || !is_resting) else { return false };
        if state.is_resting != is_resting {
            state.is_resting = is_resting;
            sockets::rewatch(self.reader.epoll(), descriptor, id, state.interest());
        }
        is_resting
    }

    /// Replaces the sender. The new one also sends the waiting frames. A flush that is using the
    /// previous sender drops the frames that it does not send.
    pub(crate) fn set_sender(&self, sender: Box<dyn Sender<P>>) {
        let mut state = self.state.lock();
        let frames = match state.writer.take() {
            Some(writer) => writer.frames,
            None => {
                // Epochs are compared for equality only, so they may wrap.
                state.epoch = state.epoch.wrapping_add(1);
                state.in_flight = (0, 0);
                FrameQueue::new()
            }
        };
        state.is_blocked = false;
        state.refused = None;
        state.writer = Some(Box::new(Writer { sender, frames }));
    }

    /// Takes the face down. Drops the waiting frames, and writes none until there is another
    /// sender. Returns true if the face was not down before.
    pub(crate) fn lose_sender(&self, charge: &mut isize) -> bool {
        let mut state = self.state.lock();
        let was_down = state.state == FaceState::Down;
        state.state = FaceState::Down;
        state.clear(charge);
        !was_down
    }

    /// Ends the sending half. `is_closed` is set before the number of closed ports changes, so a
    /// thread that reads the new number finds it set.
    pub(crate) fn shut(&self, charge: &mut isize) {
        // The flag is set before the state, so that a sender which finds the face down also finds
        // it closed.
        let was_closed = self.is_closed.swap(true, Ordering::AcqRel);
        let mut state = self.state.lock();
        state.state = FaceState::Down;
        state.clear(charge);
        // The frames of the reliability service are released now, not with the last reference to
        // the port.
        let config = *state.link.config();
        let link = std::mem::replace(&mut state.link, LinkSender::new(config, 0));
        drop(state);
        drop(link);
        // Several threads may shut the same face. It is counted once.
        if !was_closed {
            self.limits.count_closed();
        }
    }
}
