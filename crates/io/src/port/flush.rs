//! What leaves a port: whoever flushes takes the writer out from under the lock, makes the system
//! calls without it, and puts the writer back. Others queue meanwhile, and find no writer.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use namely_link::LinkSender;

use super::FacePort;
use super::state::{FlushEnd, PortState, SendContext, Writer};
use crate::queue::FrameQueue;
use crate::sender::{Flushed, Sender, Sent};
use crate::sockets::{self, Interest};
use crate::status::FaceState;

/// System calls' worth of frames that one flush of a port writes at most, while others go on
/// queueing.
const ROUNDS_MAX: usize = 4;

impl<P: AsRef<[u8]> + Clone> FacePort<P> {
    /// Writes what waits, as far as it is taken. `context` says who does so.
    pub(crate) fn flush(&self, context: SendContext, charge: &mut isize) -> FlushEnd {
        let mut state = self.state.lock();
        // Before the queue is looked at: whoever queues after this flush asks for another one.
        state.flushers &= !context.flusher;
        for _ in 0..ROUNDS_MAX {
            if state.state != FaceState::Up || state.is_refused(context.now_ns) {
                return FlushEnd::Done;
            }
            // Without a writer, someone else writes just now, and will see what was queued: he
            // looks at the queue again, under the lock, after he has put the writer back.
            let Some(mut writer) = state.writer.take() else { return FlushEnd::Done };
            if writer.frames.is_empty() {
                *charge -= state.refill(&mut writer, context.now_ns);
            }
            if writer.frames.is_empty() {
                state.writer = Some(writer);
                return FlushEnd::Done;
            }
            let (epoch, before) = (state.epoch, writer.frames.memory_octets());
            state.in_flight = (writer.frames.octets(), before);
            drop(state);
            let mut sent = Sent::default();
            let flushed = writer.sender.flush(&mut writer.frames, &mut sent);
            let after = writer.frames.memory_octets();
            *charge += after as isize - before as isize;
            state = self.state.lock();
            state.count(&sent);
            if sent.octets > 0 {
                state.progress_ns = context.now_ns;
                state.refused = None;
                self.is_answered.store(true, Ordering::Relaxed);
            }
            if let Some(octets) = sent.path_octets {
                self.follow_path_with(&mut state, octets);
            }
            // The port was closed, went down or got another sender while the lock was not held:
            // this writer is nobody's any more, and what it still has goes with it.
            if state.epoch != epoch {
                *charge -= after as isize;
                state.count_cleared(writer.frames.clear());
                return FlushEnd::Done;
            }
            state.in_flight = (writer.frames.octets(), after);
            if flushed == Ok(Flushed::Blocked) && !state.is_blocked {
                state.progress_ns = context.now_ns;
            }
            self.watch(&mut state, &*writer.sender, flushed == Ok(Flushed::Blocked));
            state.writer = Some(writer);
            match flushed {
                Ok(Flushed::All) => (),
                Ok(Flushed::Some) => return FlushEnd::More,
                Ok(Flushed::Blocked) => return self.stands(&mut state),
                Ok(Flushed::Refused) => {
                    if let Some(again_ns) = state.on_refused(context.now_ns, charge) {
                        return FlushEnd::Later(again_ns);
                    }
                }
                Err(errno) => return FlushEnd::Failed(errno),
            }
        }
        if state.waiting().0 == 0 { FlushEnd::Done } else { FlushEnd::More }
    }

    /// Nothing more is taken: has somebody look later whether anything was, unless somebody does.
    fn stands(&self, state: &mut PortState<P>) -> FlushEnd {
        if !self.info.can_stall || state.is_watched {
            return FlushEnd::Done;
        }
        state.is_watched = true;
        FlushEnd::Stands(state.progress_ns.saturating_add(self.limits.stall_ns))
    }

    /// Looks whether anything was taken since it last was said to stand. Returns when to look
    /// again, ns; `None` if it stands no more, or has stood for so long that it is to be closed,
    /// which `close` is called for.
    pub(crate) fn look_whether_it_stands(&self, now_ns: u64, close: impl FnOnce()) -> Option<u64> {
        let mut state = self.state.lock();
        let due_ns = state.progress_ns.saturating_add(self.limits.stall_ns);
        let stands = state.is_blocked;
        if stands && due_ns > now_ns {
            return Some(due_ns);
        }
        state.is_watched = false;
        drop(state);
        if stands {
            close();
        }
        None
    }

    /// Octets of memory that the waiting frames take.
    pub(crate) fn queued_memory_octets(&self) -> usize {
        self.state.lock().waiting().1
    }

    /// Drops what has waited longest, until that has freed so many octets of memory. Returns how
    /// many were freed.
    pub(crate) fn drop_oldest(&self, octets: usize, charge: &mut isize) -> usize {
        let freed = self.state.lock().drop_oldest(octets);
        *charge -= freed as isize;
        freed
    }

    /// Has the reading worker wait until more is taken, or no longer. Under the lock, so that what
    /// is watched follows `is_blocked` whichever worker flushes.
    fn watch(&self, state: &mut PortState<P>, sender: &dyn Sender<P>, is_blocked: bool) {
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

    /// Has the descriptor that the receiving half reads watched no more for what arrives, or again.
    /// Returns whether it rests then.
    pub(crate) fn rest(&self, descriptor: BorrowedFd<'_>, is_resting: bool) -> bool {
        let mut state = self.state.lock();
        // Who writes just now knows whether he needs the same descriptor; it rests another time.
        let is_shared = state.writer.as_ref().is_some_and(|writer| writer.sender.shares_descriptor());
        let (Some(id), true) = (self.id(), is_shared || !is_resting) else { return false };
        if state.is_resting != is_resting {
            state.is_resting = is_resting;
            sockets::rewatch(self.reader.epoll(), descriptor, id, state.interest());
        }
        is_resting
    }

    /// Sends by another sender from now on, what the last one had as well. Whoever writes with that
    /// just now drops the rest.
    pub(crate) fn set_sender(&self, sender: Box<dyn Sender<P>>) {
        let mut state = self.state.lock();
        let frames = match state.writer.take() {
            Some(writer) => writer.frames,
            None => {
                state.epoch = state.epoch.wrapping_add(1);
                state.in_flight = (0, 0);
                FrameQueue::new()
            }
        };
        state.is_blocked = false;
        state.refused = None;
        state.writer = Some(Box::new(Writer { sender, frames }));
    }

    /// The face is down: what waits is dropped, and nothing is written until there is another
    /// sender. Returns true if it was not down before.
    pub(crate) fn lose_sender(&self, charge: &mut isize) -> bool {
        let mut state = self.state.lock();
        let was_down = state.state == FaceState::Down;
        state.state = FaceState::Down;
        state.clear(charge);
        !was_down
    }

    /// Ends the sending half. The flag is set before the count of closed ports: whoever sees that
    /// count finds the flag set.
    pub(crate) fn shut(&self, charge: &mut isize) {
        let was_closed = self.is_closed.swap(true, Ordering::AcqRel);
        let mut state = self.state.lock();
        state.state = FaceState::Down;
        state.clear(charge);
        // What the reliability service keeps goes now, not with the last hold on the port.
        let config = *state.link.config();
        let link = std::mem::replace(&mut state.link, LinkSender::new(config, 0));
        drop(state);
        drop(link);
        if !was_closed {
            self.limits.count_closed();
        }
    }
}
