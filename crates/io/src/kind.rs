//! What a kind of face must bring: two halves of a transport, and where peers can connect, an
//! acceptor; and what each may do while it is served.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_host::clock;
use namely_host::shares::Holder;
use namely_link::Proof;
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;
use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::error::CloseReason;
use crate::face_table::{self, Admission};
use crate::faces::{Event, Faces, Handler, WorkerMessage};
use crate::id::SourceId;
use crate::options::IoOptions;
use crate::port::FacePort;
use crate::sender::Sender;
use crate::sockets::{self, Interest};
use crate::status::{FaceState, LinkInfo, Remote};
use crate::unproven::Unproven;

/// A frame in memory that is shared with its sender.
pub(crate) use namely_memif::Arrived as SharedFrame;

/// How long a listener rests when the process has no file descriptor left, ns.
const ACCEPT_REST_NS: u64 = 100_000_000;

/// How much of a worker's turn may be over before the next source is left to the next one, ns.
pub(crate) const SERVING_NS_MAX: u64 = 2_000_000;

/// How long a listener takes up those who come before it leaves the others to its next turn, ns:
/// each of them costs several system calls.
const ACCEPTING_NS_MAX: u64 = 1_000_000;

/// The receiving half of a transport. It belongs to one worker, which calls it when its descriptor
/// is ready.
pub(crate) trait Receiver<H: Handler>: Send {
    /// What is watched for packets; `None` while there is nothing to watch.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Reads what has arrived, within the budget of a turn, and delivers its frames. `scratch` is
    /// the worker's buffer, longer than any datagram; what must be kept until the next turn is kept
    /// elsewhere.
    ///
    /// # Errors
    /// Why the transport can go on no more.
    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason>;

    /// The descriptor is ready and the transport is not up: connecting came to its end.
    ///
    /// # Errors
    /// Why it failed.
    fn connected(&mut self, _turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        Ok(())
    }

    /// The time that was set by [`ReadContext::set_timer`] has come.
    ///
    /// # Errors
    /// Why the transport can go on no more.
    fn on_timer(&mut self, _turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        Ok(())
    }

    /// The transport failed and is permanent. True if it will come back by itself: it is then down,
    /// not closed.
    fn take_down(&mut self, _turn: &mut ReadContext<'_, H>) -> bool {
        false
    }
}

/// A listener: what makes transports when peers come. It belongs to the worker that opened it.
pub(crate) trait Acceptor<H: Handler>: Send {
    /// What is watched for peers.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Adopts peers that came, within the budget of a turn.
    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, scratch: &mut [u8]);
}

/// A transport that was opened and is not served by a worker yet.
pub(crate) struct NewTransport<H: Handler> {
    pub(crate) receiver: Box<dyn Receiver<H>>,
    pub(crate) sender: Box<dyn Sender<H::Packet>>,
    pub(crate) info: LinkInfo,
    pub(crate) local: FaceUri,
    pub(crate) persistency: FacePersistency,
    pub(crate) state: FaceState,
}

/// A transport's turn.
pub(crate) struct ReadContext<'a, H: Handler> {
    pub(crate) io: &'a mut Faces<H>,
    pub(crate) id: SourceId,
    pub(crate) port: Arc<FacePort<H::Packet>>,
    pub(crate) handler: &'a mut H,
    pub(crate) frames: u64,
    pub(crate) octets: u64,
    /// Not all was read that has arrived.
    pub(crate) has_more: bool,
}

impl<H: Handler> ReadContext<'_, H> {
    pub(crate) fn now_ns(&self) -> u64 {
        self.io.now_ns()
    }

    pub(crate) fn options(&self) -> &IoOptions {
        self.io.options()
    }

    /// Whether the transport has had its part of the worker's turn: the rest comes in the next one.
    pub(crate) fn is_over(&self) -> bool {
        self.io.is_late(SERVING_NS_MAX)
    }

    /// Takes in a frame. False when the transport is no more: the turn must end.
    #[inline]
    pub(crate) fn deliver(&mut self, remote: Remote, frame: &[u8]) -> bool {
        self.frames += 1;
        self.octets += frame.len() as u64;
        self.io.receive(&self.port, self.id, remote, frame, self.handler);
        self.io.contains(self.id)
    }

    /// The same for a frame that nobody has copied yet: the one copy that is made of it is the
    /// packet that is handed over.
    #[inline]
    pub(crate) fn deliver_shared(&mut self, frame: SharedFrame<'_>) -> bool {
        self.frames += 1;
        self.octets += frame.octets() as u64;
        let whole = H::Packet::filled(frame.octets(), |room| frame.copy_to(room));
        self.io.receive_whole(&self.port, self.id, whole, self.handler);
        self.io.contains(self.id)
    }

    /// Counts a drop.
    pub(crate) fn count(&self, label: &'static str) {
        self.port.count_receive_drop(label);
    }

    /// Sets or clears the transport's timer.
    pub(crate) fn set_timer(&mut self, due_ns: Option<u64>) {
        self.io.set_timer(self.id, due_ns);
    }

    /// What an on-demand transport does when its timer is due: ends if it was idle for long, and
    /// otherwise sets the timer for when it will have been.
    pub(crate) fn end_if_idle(&mut self) -> Result<(), CloseReason> {
        let Some(due_ns) = self.port.expires_ns() else { return Ok(()) };
        if due_ns <= self.now_ns() {
            return Err(CloseReason::Idle);
        }
        self.set_timer(Some(due_ns));
        Ok(())
    }

    /// Writes what waits, as far as it is taken.
    pub(crate) fn flush(&mut self) {
        self.io.flush(&self.port);
    }

    /// Watches a descriptor that is not watched yet.
    pub(crate) fn watch(&self, descriptor: impl AsFd, interest: Interest) {
        // Without a watch nothing comes of a connection attempt, and its timeout ends it.
        let _ = sockets::watch(self.io.mailbox.epoll(), descriptor, self.id, interest);
    }

    /// Changes what a descriptor is watched for.
    pub(crate) fn rewatch(&self, descriptor: impl AsFd, interest: Interest) {
        sockets::rewatch(self.io.mailbox.epoll(), descriptor, self.id, interest);
    }

    /// The transport can send from now on.
    pub(crate) fn up(&mut self) {
        self.port.set_state(FaceState::Up);
        self.io.events.push_back(Event::Up(self.port.clone()));
    }
}

/// A listener's turn.
pub(crate) struct AcceptContext<'a, H: Handler> {
    pub(crate) io: &'a mut Faces<H>,
    id: SourceId,
    pub(crate) handler: &'a mut H,
    begun_ns: u64,
}

impl<'a, H: Handler> AcceptContext<'a, H> {
    /// Begins it.
    pub(crate) fn new(io: &'a mut Faces<H>, id: SourceId, handler: &'a mut H) -> Self {
        AcceptContext { io, id, handler, begun_ns: clock::monotonic_ns() }
    }

    pub(crate) fn options(&self) -> &IoOptions {
        self.io.options()
    }

    /// Whether the listener has had its part of the turn: the rest comes in the next one.
    pub(crate) fn is_over(&self) -> bool {
        clock::monotonic_ns().saturating_sub(self.begun_ns) >= ACCEPTING_NS_MAX
    }

    /// The right to make another transport for a holder, for which one that was idle for long may
    /// have to go; `None`, and counted, if there can be none.
    pub(crate) fn admit(&mut self, holder: Holder) -> Option<Admission<H::Packet>> {
        match self.io.shared.faces.enter(holder) {
            Ok((admission, evicted)) => {
                if let Some(port) = evicted {
                    self.count("transport_evicted");
                    port.request_end(CloseReason::Evicted, self.io.worker());
                }
                Some(admission)
            }
            Err(refusal) => {
                self.count(face_table::label(refusal));
                None
            }
        }
    }

    /// What a peer at a holder's address has until it has proven that it receives; `None` if there
    /// are no limits.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn unproven(&self, holder: Holder) -> Result<Option<Unproven>, Errno> {
        let limits = self.io.shared.unproven.limits_of(holder, self.io.now_ns());
        limits.map(|limits| Ok(Unproven::new(limits, Proof::new(namely_host::random()?)))).transpose()
    }

    /// Whether a holder may have another transport as things are; counted if not.
    #[allow(dead_code, reason = "only a kind with a handshake checks before it admits")]
    pub(crate) fn may_have_a_face(&mut self, holder: Holder) -> bool {
        let checked = self.io.shared.faces.check(holder);
        checked.inspect_err(|refusal| self.count(face_table::label(*refusal))).is_ok()
    }

    /// Counts a drop at the listener.
    pub(crate) fn count(&mut self, label: &'static str) {
        self.add_drops(label, 1);
    }

    /// Counts drops at the listener.
    pub(crate) fn add_drops(&mut self, label: &'static str, drops: u64) {
        if let Some(listener) = self.io.listener_mut(self.id).filter(|_| drops > 0) {
            listener.drops.add(label, drops);
        }
    }

    /// Has a new transport adopted, here or by another worker, with the datagram that made it
    /// known. `made` sees its port before anybody else does.
    pub(crate) fn adopt(
        &mut self,
        new: NewTransport<H>,
        admission: Admission<H::Packet>,
        first: Option<&[u8]>,
        made: impl FnOnce(&Arc<FacePort<H::Packet>>),
    ) {
        let here = self.io.worker();
        let shared = self.io.shared.clone();
        let mailbox = shared.worker_for(&new.local, &new.info.remote).unwrap_or(&self.io.mailbox).clone();
        let (port, receiver) = self.io.new_port(new, admission, &mailbox);
        made(&port);
        if mailbox.index() != here {
            let first = first.map(<[u8]>::to_vec);
            return mailbox.post(WorkerMessage::Adopt { port, receiver, first }, Some(here));
        }
        if self.io.adopt(port.clone(), receiver).is_err() {
            return self.count("accept_failed");
        }
        // The face must be known before its first frame is.
        self.io.dispatch(self.handler);
        if let Some(first) = first {
            self.deliver(&port, first);
        }
    }

    /// Takes in a frame that reached the listener's socket instead of the transport's own.
    pub(crate) fn deliver(&mut self, port: &Arc<FacePort<H::Packet>>, frame: &[u8]) {
        let here = self.io.worker();
        if port.worker() == here {
            return self.io.deliver(port, None, frame, self.handler);
        }
        let Some(mailbox) = self.io.shared.mailboxes.get(port.worker()).cloned() else { return };
        let message = || WorkerMessage::Deliver(port.clone(), frame.to_vec());
        if !mailbox.deliver(message, here) {
            self.count("handover_full");
        }
    }

    /// Adopts a new transport at this very worker, with the frame that made it known.
    pub(crate) fn adopt_here(
        &mut self,
        new: NewTransport<H>,
        admission: Admission<H::Packet>,
        first: &[u8],
        made: impl FnOnce(&Arc<FacePort<H::Packet>>),
    ) {
        let Ok(port) = self.io.add_admitted(new, admission) else { return self.count("accept_failed") };
        made(&port);
        self.io.events.push_back(Event::Accepted(port.clone()));
        self.io.dispatch(self.handler);
        self.deliver_here(&port, None, first);
    }

    /// Takes in a frame, whichever worker reads its transport, and tells who sent it. Only for
    /// links that bring all frames of one sender to one worker, so that the fragments of a packet
    /// meet.
    pub(crate) fn deliver_here(&mut self, port: &Arc<FacePort<H::Packet>>, remote: Remote, frame: &[u8]) {
        self.io.deliver(port, remote, frame, self.handler);
    }

    /// Adopts nobody for some time, since the system has no descriptor to give.
    pub(crate) fn rest(&mut self, socket: impl AsFd) {
        self.count("accept_failed");
        self.io.set_timer(self.id, Some(self.io.now_ns().saturating_add(ACCEPT_REST_NS)));
        sockets::rewatch(self.io.mailbox.epoll(), socket, self.id, Interest::Nothing);
    }
}
