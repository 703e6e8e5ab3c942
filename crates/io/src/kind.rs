//! The interface that each kind of face implements: the two halves of a transport, and an acceptor
//! if peers can connect. The event loop passes a context to each of their calls.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_host::clock;
use namely_host::shares::Owner;
use namely_link::Proof;
use namely_messages::FacePersistency;
use namely_wire::FaceUri;
use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::error::CloseReason;
use crate::face_table::{self, Admission};
use crate::faces::{Event, Faces, Handler, WorkerMessage};
use crate::id::SourceId;
use crate::labels::listener;
use crate::options::IoOptions;
use crate::port::FaceSender;
use crate::sender::Sender;
use crate::sockets::{self, Interest};
use crate::status::{FaceState, LinkInfo, Remote};
use crate::unproven::UnprovenPeer;

/// A frame in memory that is shared with its sender.
pub(crate) use namely_memif::ReceivedPacket as SharedFrame;

/// Time for which a listener accepts no peer after the process ran out of file descriptors, ns.
const ACCEPT_REST_NS: u64 = 100_000_000;

/// Time that a worker serves its sources in one turn.
///
/// A turn serves as many sources as holders wait (users, hosts and listeners), and more until one
/// of them has no other source that waits.
///
/// # Limit
/// The rest is served in the next turn.
/// - Counter: `kernel_buffer_full`
/// - Tests: `a_turn_ends_at_a_refilled_source`,
///   `sources_of_one_holder_take_turns`,
///   `one_hosts_faces_delay_no_other_host`,
///   `datagram_runs_get_no_longer_turns`
pub(crate) const SERVING_NS_MAX: u64 = 2_000_000;

/// Time that a listener accepts peers in one turn.
///
/// Each accept costs several system calls.
///
/// # Limit
/// The rest is accepted in the next turn of the listener.
/// - Value: 1 ms, and 64 connections or datagrams
/// - Tests: `a_flood_of_senders_admits_others`
const ACCEPTING_NS_MAX: u64 = 1_000_000;

/// The receiving half of a transport. It belongs to one worker, which calls it when its descriptor
/// is ready.
pub(crate) trait Receiver<H: Handler>: Send {
    /// Returns the descriptor to watch for packets, or `None` while there is none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Reads arrived octets within the budget of a turn, and delivers their frames. `scratch` is
    /// the worker's buffer, longer than any datagram. It is shared, so data for the next turn must
    /// be stored elsewhere.
    ///
    /// # Errors
    /// The reason for which the transport ends.
    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason>;

    /// The descriptor is ready and the transport is not up: the connection attempt completed or
    /// failed.
    ///
    /// # Errors
    /// The reason of the failure.
    fn connected(&mut self, _turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        Ok(())
    }

    /// The time set by [`ReadContext::set_timer`] has come.
    ///
    /// # Errors
    /// The reason for which the transport ends.
    fn on_timer(&mut self, _turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        Ok(())
    }

    /// The addresses or the network devices of this machine have changed. A transport whose socket
    /// depends on them opens another one.
    ///
    /// # Errors
    /// The reason for which the transport cannot send at present.
    fn addresses_changed(&mut self, _turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        Ok(())
    }

    /// Called when a permanent transport failed. Returns true if it will reconnect by itself, and
    /// is therefore down instead of closed.
    fn take_down(&mut self, _turn: &mut ReadContext<'_, H>) -> bool {
        false
    }
}

/// A listener, which makes a transport for each peer. It belongs to one worker.
pub(crate) trait Acceptor<H: Handler>: Send {
    /// The descriptor to watch for peers.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Adopts new peers, within the budget of a turn.
    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, scratch: &mut [u8]);
}

/// A transport that was opened and has no worker yet.
pub(crate) struct NewTransport<H: Handler> {
    pub(crate) receiver: Box<dyn Receiver<H>>,
    pub(crate) sender: Box<dyn Sender<H::Packet>>,
    pub(crate) info: LinkInfo,
    pub(crate) local: FaceUri,
    pub(crate) persistency: FacePersistency,
    pub(crate) state: FaceState,
}

/// The context of a call of a [`Receiver`].
pub(crate) struct ReadContext<'a, H: Handler> {
    pub(crate) io: &'a mut Faces<H>,
    pub(crate) id: SourceId,
    pub(crate) port: Arc<FaceSender<H::Packet>>,
    pub(crate) handler: &'a mut H,
    pub(crate) frames: u64,
    pub(crate) octets: u64,
    /// Whether octets that have arrived remain to be read.
    pub(crate) has_more: bool,
}

impl<H: Handler> ReadContext<'_, H> {
    pub(crate) fn now_ns(&self) -> u64 {
        self.io.now_ns()
    }

    pub(crate) fn options(&self) -> &IoOptions {
        self.io.options()
    }

    /// Returns true if the transport has used its part of the worker's turn. The rest is read in
    /// the next turn.
    pub(crate) fn is_over(&self) -> bool {
        self.io.is_late(SERVING_NS_MAX)
    }

    /// Delivers a frame. Returns false if the transport was removed, and its caller must return.
    #[inline]
    pub(crate) fn deliver(&mut self, remote: Remote, frame: &[u8]) -> bool {
        self.frames += 1;
        self.octets += frame.len() as u64;
        self.io.receive(&self.port, self.id, remote, frame, self.handler);
        // The handler may have closed the face while it processed the packet.
        self.io.contains(self.id)
    }

    /// Delivers a frame in memory that the peer shares. It is copied once, into the packet for the
    /// handler. The result is that of [`ReadContext::deliver`].
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

    /// Handles the timer of an on-demand transport. If the transport was idle for its timeout,
    /// returns the error that ends it. Otherwise sets the timer to the end of that timeout.
    pub(crate) fn end_if_idle(&mut self) -> Result<(), CloseReason> {
        // Management may have made the face persistent since the timer was set.
        let Some(due_ns) = self.port.expires_ns() else { return Ok(()) };
        if due_ns <= self.now_ns() {
            return Err(CloseReason::Idle);
        }
        self.set_timer(Some(due_ns));
        Ok(())
    }

    /// Writes the waiting frames, as far as the socket accepts them.
    pub(crate) fn flush(&mut self) {
        self.io.flush(&self.port);
    }

    /// Watches a descriptor that is not watched yet.
    pub(crate) fn watch(&self, descriptor: impl AsFd, interest: Interest) {
        // If the watch fails, the connection attempt ends by its timeout.
        let _ = sockets::watch(self.io.mailbox.epoll(), descriptor, self.id, interest);
    }

    /// Changes the readiness for which a descriptor is watched.
    pub(crate) fn rewatch(&self, descriptor: impl AsFd, interest: Interest) {
        sockets::rewatch(self.io.mailbox.epoll(), descriptor, self.id, interest);
    }

    /// Continues with another sender. Reports the transport as up if it was down.
    pub(crate) fn bring_up(&mut self, sender: Box<dyn Sender<H::Packet>>) {
        let port = self.port.clone();
        self.io.bring_up(&port, sender);
    }

    /// Marks the transport as up, and reports the event.
    pub(crate) fn up(&mut self) {
        self.port.set_state(FaceState::Up);
        self.io.events.push_back(Event::Up(self.port.clone()));
    }
}

/// The context of a call of an [`Acceptor`].
pub(crate) struct AcceptContext<'a, H: Handler> {
    pub(crate) io: &'a mut Faces<H>,
    id: SourceId,
    pub(crate) handler: &'a mut H,
    begun_ns: u64,
}

impl<'a, H: Handler> AcceptContext<'a, H> {
    /// Makes the context. The time that a listener has in one turn begins now.
    pub(crate) fn new(io: &'a mut Faces<H>, id: SourceId, handler: &'a mut H) -> Self {
        AcceptContext { io, id, handler, begun_ns: clock::monotonic_ns() }
    }

    pub(crate) fn options(&self) -> &IoOptions {
        self.io.options()
    }

    /// Returns true if the listener has used its part of the turn. The rest is accepted in the next
    /// turn.
    pub(crate) fn is_over(&self) -> bool {
        clock::monotonic_ns().saturating_sub(self.begun_ns) >= ACCEPTING_NS_MAX
    }

    /// Returns a slot for another transport of an owner. An idle transport may be evicted for it.
    /// Returns `None` if there is no slot, and counts the refusal.
    pub(crate) fn admit(&mut self, holder: Owner) -> Option<Admission<H::Packet>> {
        match self.io.shared.faces.enter(holder) {
            Ok((admission, evicted)) => {
                if let Some(port) = evicted {
                    self.count(listener::TRANSPORT_EVICTED);
                    // Another worker may read the evicted face, and only that worker can end it.
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

    /// Returns the limits that apply to a peer at an owner's address until the peer has proven that
    /// it receives packets there. Returns `None` if there are no limits.
    ///
    /// # Errors
    /// The system cannot provide random octets.
    pub(crate) fn unproven(&self, holder: Owner) -> Result<Option<UnprovenPeer>, Errno> {
        let limits = self.io.shared.unproven.limits_of(holder, self.io.now_ns());
        limits.map(|limits| Ok(UnprovenPeer::new(limits, Proof::new(namely_host::random()?)))).transpose()
    }

    /// Returns true if an owner may have another transport now. Counts a refusal.
    #[allow(dead_code, reason = "only a kind with a handshake checks before it admits")]
    pub(crate) fn may_have_a_face(&mut self, holder: Owner) -> bool {
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

    /// Assigns a new transport, with its first datagram, to this worker or another one. `made`
    /// receives the port before any other worker does.
    pub(crate) fn adopt(
        &mut self,
        new: NewTransport<H>,
        admission: Admission<H::Packet>,
        first: Option<&[u8]>,
        made: impl FnOnce(&Arc<FaceSender<H::Packet>>),
    ) {
        let here = self.io.worker();
        // Cloned, because the mailbox below is borrowed from it while `self` changes.
        let shared = self.io.shared.clone();
        let mailbox = shared.worker_for(&new.local, &new.info.remote).unwrap_or(&self.io.mailbox).clone();
        let (port, receiver) = self.io.new_face_sender(new, admission, &mailbox);
        made(&port);
        if mailbox.index() != here {
            // Copied, because this worker reuses the buffer of the datagram.
            let first = first.map(<[u8]>::to_vec);
            return mailbox.post(WorkerMessage::Adopt { port, receiver, first }, Some(here));
        }
        if self.io.adopt(port.clone(), receiver).is_err() {
            return self.count(listener::ACCEPT_FAILED);
        }
        // The face must be reported before its first frame.
        self.io.dispatch(self.handler);
        if let Some(first) = first {
            self.deliver(&port, first);
        }
    }

    /// Delivers a frame that arrived at the listener's socket instead of the transport's.
    pub(crate) fn deliver(&mut self, port: &Arc<FaceSender<H::Packet>>, frame: &[u8]) {
        let here = self.io.worker();
        if port.worker() == here {
            return self.io.deliver(port, None, frame, self.handler);
        }
        let Some(mailbox) = self.io.shared.mailboxes.get(port.worker()).cloned() else { return };
        // A closure, so that nothing is copied for a full mailbox.
        let message = || WorkerMessage::Deliver(port.clone(), frame.to_vec());
        if !mailbox.deliver(message, here) {
            self.count(listener::HANDOVER_FULL);
        }
    }

    /// Adopts a new transport at this worker, with the frame that made it.
    pub(crate) fn adopt_local(
        &mut self,
        new: NewTransport<H>,
        admission: Admission<H::Packet>,
        first: &[u8],
        made: impl FnOnce(&Arc<FaceSender<H::Packet>>),
    ) {
        let Ok(port) = self.io.add_admitted(new, admission) else {
            return self.count(listener::ACCEPT_FAILED);
        };
        made(&port);
        self.io.events.push_back(Event::Accepted(port.clone()));
        // As in `adopt`, the face is reported before its first frame.
        self.io.dispatch(self.handler);
        self.deliver_local(&port, None, first);
    }

    /// Delivers a frame with its sender at this worker, even if another worker reads the transport.
    /// The link must bring all frames of one sender to one worker, because that worker reassembles
    /// the fragments of a packet.
    pub(crate) fn deliver_local(&mut self, port: &Arc<FaceSender<H::Packet>>, remote: Remote, frame: &[u8]) {
        self.io.deliver(port, remote, frame, self.handler);
    }

    /// Accepts no peers for some time, because the process has no free descriptor.
    pub(crate) fn rest(&mut self, socket: impl AsFd) {
        self.count(listener::ACCEPT_FAILED);
        self.io.set_timer(self.id, Some(self.io.now_ns().saturating_add(ACCEPT_REST_NS)));
        sockets::rewatch(self.io.mailbox.epoll(), socket, self.id, Interest::Nothing);
    }
}
