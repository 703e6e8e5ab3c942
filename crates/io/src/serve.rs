//! The steps of a worker's turn: serving ready sources, received frames, messages and timers, and
//! the writes at its end.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use namely_host::clock;
use namely_link::{LinkDrop, PacketLocation};
use namely_messages::FacePersistency;
use namely_wire::{LpHeaders, LpView};

use crate::buffer::Buffer;
use crate::error::CloseReason;
use crate::faces::{Event, Faces, Handler, Source, Transport, WorkerMessage};
use crate::id::SourceId;
use crate::kind::{AcceptContext, Acceptor, ReadContext, Receiver, SERVING_NS_MAX};
use crate::labels::{received, sent};
use crate::port::{FaceSender, ReaderRequest};
use crate::sender::Sender;
use crate::sockets::{self, Interest};
use crate::status::{FaceState, Remote};
use crate::waiting::{AccountKey, Readiness};

/// Time that a worker writes in one turn.
///
/// # Limit
/// The rest is written in the next turn.
/// - Tests: `one_hosts_faces_delay_no_other_host`
const FLUSHING_NS_MAX: u64 = 2_000_000;

/// Time that a worker serves requests of other threads in one turn.
///
/// # Limit
/// The rest is served in the next turn, in order.
/// - Tests: `worker_requests_run_in_order`
const MESSAGES_NS_MAX: u64 = 1_000_000;

/// Faces whose incomplete messages are checked in one turn.
///
/// # Limit
/// The rest is checked in the next turn.
/// - Tests: `a_fragment_flood_leaves_others_memory`
const REASSEMBLY_TICKS_MAX: usize = 16;

/// The PrefixAnnouncement of a packet, borrowed from its frame or copied from its first fragment.
type Announcement<'f> = Option<Cow<'f, [u8]>>;

impl<H: Handler> Faces<H> {
    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.turns.begin();
    }

    /// Ends the turn.
    pub(crate) fn end_turn(&mut self) {
        let turn_ns = clock::monotonic_ns().saturating_sub(self.now_ns);
        self.waiting.end_turn(turn_ns);
        self.turns.end(turn_ns, &self.mailbox);
    }

    /// Returns true if `ns` of the turn have passed. The caller then leaves the rest of its work to
    /// the next turn, after other sources.
    pub(crate) fn is_late(&self, ns: u64) -> bool {
        clock::monotonic_ns() >= self.now_ns.saturating_add(ns)
    }

    /// Returns the time at which work is due that does not depend on a ready socket, ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        // A message of this worker to itself does not wake it, so the mailbox is checked, too.
        if !self.to_flush.is_empty()
            || !self.events.is_empty()
            || !self.messages.is_empty()
            || self.mailbox.has_messages()
        {
            return Some(0);
        }
        let transports = self.timers.first().map(|(due_ns, _)| *due_ns);
        let links = self.link_timers.first_key_value().map(|((due_ns, _), _)| *due_ns);
        let stalls = self.stall_timers.first_key_value().map(|((due_ns, _), _)| *due_ns);
        let retries = self.retry_timers.first_key_value().map(|((due_ns, _), _)| *due_ns);
        let waiting = self.waiting.due_ns();
        transports
            .into_iter()
            .chain(retries)
            .chain(waiting)
            .chain(links)
            .chain(stalls)
            .chain(self.reassembly_timers.due_ns())
            .min()
    }

    /// Enqueues a source unless it is queued already, and adds `wanted` to its readiness.
    pub(crate) fn enqueue_source(&mut self, id: SourceId, wanted: Readiness) {
        let slot = self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation());
        let Some(slot) = slot else { return };
        let key = match &slot.source {
            Some(Source::Listener(_)) => AccountKey::Listener(id),
            Some(Source::Transport(transport)) => AccountKey::Face(transport.port.holder()),
            None => return,
        };
        // A source has one entry, however often it becomes ready.
        if slot.wanted == Readiness::NOTHING {
            self.waiting.push(key, id);
        }
        slot.wanted |= wanted;
        // epoll is level-triggered, so a source that is not served would wake the loop at once.
        if wanted.has(Readiness::READ) && self.waiting.must_rest(key) {
            self.rest(id, true);
        }
    }

    /// Stops or resumes watching a transport's descriptor for reading.
    fn rest(&mut self, id: SourceId, is_resting: bool) {
        let slot = self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation());
        let Some(slot) = slot else { return };
        let Some(Source::Transport(Transport { port, receiver: Some(receiver), .. })) = &slot.source else {
            return;
        };
        if let Some(descriptor) = receiver.descriptor() {
            slot.is_resting = port.rest(descriptor, is_resting);
        }
    }

    /// Serves the waiting sources and those with due timers, for at most [`SERVING_NS_MAX`]. The
    /// source of the owner that has used the least time is served next.
    pub(crate) fn serve_waiting(&mut self, scratch: &mut [u8], handler: &mut H) {
        while let Some((due_ns, id)) = self.timers.first().copied()
            && due_ns <= self.now_ns
        {
            self.set_timer(id, None);
            // Enqueued like a ready source, so that the work of timers is charged to the owner.
            self.enqueue_source(id, Readiness::TIMER);
        }
        self.waiting.begin(self.now_ns);
        while let Some(id) = self.waiting.next() {
            let slot = self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation());
            // The source was removed meanwhile.
            let Some(slot) = slot else { continue };
            let wanted = std::mem::replace(&mut slot.wanted, Readiness::NOTHING);
            self.serve_ready(id, wanted, scratch, handler);
            self.dispatch(handler);
            // If no other source waits, the clock is not read: `end_turn` charges the rest of the
            // turn.
            let since_ns = self.waiting.has_more().then(|| clock::monotonic_ns().saturating_sub(self.now_ns));
            self.waiting.end(since_ns);
            // The source was served and has not become ready again, so it is watched again.
            if self
                .slots
                .get(id.index())
                .is_some_and(|slot| slot.is_resting && slot.wanted == Readiness::NOTHING)
            {
                self.rest(id, false);
            }
            if since_ns.is_some_and(|since_ns| since_ns >= SERVING_NS_MAX) {
                break;
            }
        }
    }

    /// Serves a source with a ready descriptor or a due timer.
    fn serve_ready(&mut self, id: SourceId, wanted: Readiness, scratch: &mut [u8], handler: &mut H) {
        if wanted.has(Readiness::READ | Readiness::WRITE) {
            self.serve_descriptor(id, wanted, scratch, handler);
        }
        if wanted.has(Readiness::TIMER) {
            self.run_timer(id, handler);
        }
    }

    fn serve_descriptor(&mut self, id: SourceId, wanted: Readiness, scratch: &mut [u8], handler: &mut H) {
        match self.source_mut(id) {
            Some(Source::Listener(listener)) => {
                // Taken out of the slot, because the acceptor changes `self` while it runs.
                let Some(mut acceptor) = listener.acceptor.take() else { return };
                acceptor.accept(&mut AcceptContext::new(self, id, handler), scratch);
                self.put_back(id, acceptor);
            }
            Some(Source::Transport(transport)) => {
                let port = transport.port.clone();
                if port.state() != FaceState::Up {
                    return self.serve(id, handler, |receiver, turn| receiver.connected(turn));
                }
                if wanted.has(Readiness::WRITE) {
                    self.flush(&port);
                }
                if wanted.has(Readiness::READ) {
                    self.serve(id, handler, |receiver, turn| receiver.read(turn, scratch));
                }
            }
            None => (),
        }
    }

    fn put_back(&mut self, id: SourceId, acceptor: Box<dyn Acceptor<H>>) {
        if let Some(listener) = self.listener_mut(id) {
            listener.acceptor = Some(acceptor);
        }
    }

    /// Calls a transport's receiving half. The half is out of its slot during the call, because the
    /// handler may close the transport. If the slot is empty afterwards, the half is dropped.
    fn serve(
        &mut self,
        id: SourceId,
        handler: &mut H,
        work: impl FnOnce(&mut dyn Receiver<H>, &mut ReadContext<'_, H>) -> Result<(), CloseReason>,
    ) {
        let Some(Source::Transport(transport)) = self.source_mut(id) else { return };
        let Some(mut receiver) = transport.receiver.take() else { return };
        let port = transport.port.clone();
        let answers = port.answers();
        // The counter may wrap, so the difference wraps, too.
        let answers = answers.wrapping_sub(std::mem::replace(&mut transport.answers, answers));
        let packets = self.packets;
        let mut turn = ReadContext { io: self, id, port, handler, frames: 0, octets: 0, has_more: false };
        let worked = work(&mut *receiver, &mut turn);
        if turn.frames > 0 {
            turn.io.waiting.note(turn.frames, turn.io.packets.wrapping_sub(packets), answers);
            turn.port.count_arrived(turn.frames, turn.octets);
            turn.port.note_active(turn.io.now_ns());
        }
        let (port, has_more) = (turn.port, turn.has_more);
        let Some(Source::Transport(transport)) = self.source_mut(id) else { return };
        transport.receiver = Some(receiver);
        match worked {
            Err(reason) => self.fail(&port, reason, handler),
            // More has arrived, so the source is enqueued without another poll.
            Ok(()) if has_more => self.enqueue_source(id, Readiness::READ),
            Ok(()) => (),
        }
    }

    /// Ends a transport that failed, or takes it down if it will reconnect by itself.
    pub(crate) fn fail(&mut self, port: &Arc<FaceSender<H::Packet>>, reason: CloseReason, handler: &mut H) {
        // It may have ended already, for instance by a failure of its other half.
        let Some(id) = port.id().filter(|id| self.port(*id).is_some()) else { return };
        if port.persistency() == FacePersistency::Permanent {
            let mut comes_back = false;
            self.serve(id, handler, |receiver, turn| {
                comes_back = receiver.take_down(turn);
                Ok(())
            });
            if comes_back {
                return self.take_down(port, reason);
            }
        }
        self.end(port.clone(), reason);
    }

    /// Makes the transports that are read here check their sockets, because the addresses or the
    /// network devices of this machine have changed.
    pub fn addresses_changed(&mut self, handler: &mut H) {
        for index in 0..self.slots.len() {
            self.serve(self.id_at(index), handler, |receiver, turn| receiver.addresses_changed(turn));
        }
    }

    /// Brings a transport up with a new sender.
    pub(crate) fn bring_up(&mut self, port: &Arc<FaceSender<H::Packet>>, sender: Box<dyn Sender<H::Packet>>) {
        let was_up = port.state() == FaceState::Up;
        port.set_sender(sender);
        port.set_state(FaceState::Up);
        self.flush(port);
        if !was_up {
            self.events.push_back(Event::Up(port.clone()));
        }
    }

    /// Delivers a frame that did not arrive on its transport's own descriptor. Any worker may call
    /// this.
    pub(crate) fn deliver(
        &mut self,
        port: &Arc<FaceSender<H::Packet>>,
        remote: Remote,
        frame: &[u8],
        handler: &mut H,
    ) {
        let Some(id) = port.id().filter(|_| !port.is_closed()) else { return };
        port.count_arrived(1, frame.len() as u64);
        self.receive(port, id, remote, frame, handler);
    }

    /// Passes a frame through its face's link service. Hands the network packet that it completes,
    /// if any, to the handler.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        port: &Arc<FaceSender<H::Packet>>,
        id: SourceId,
        remote: Remote,
        frame: &[u8],
        handler: &mut H,
    ) {
        if let Some((packet, headers, announcement)) =
            self.read_link(port, id, remote, frame, |carried| H::Packet::copied(carried.octets(frame)))
            && let Some(face) = port.tag()
            && !(port.is_watched() && handler.watched(face, remote, packet.as_ref()))
        {
            if let Some(announcement) = announcement {
                handler.announced(&packet, &announcement);
            }
            self.packets = self.packets.wrapping_add(1);
            handler.packet(self, face, headers, packet);
        }
    }

    /// Delivers a frame that has a packet buffer of its own. The network packet becomes a part of
    /// that buffer. A packet that was reassembled from fragments is copied.
    pub(crate) fn receive_whole(
        &mut self,
        port: &Arc<FaceSender<H::Packet>>,
        id: SourceId,
        whole: H::Packet,
        handler: &mut H,
    ) {
        let frame = whole.as_ref();
        let read = self.read_link(port, id, None, frame, |carried| match carried {
            PacketLocation::InFrame(range) => FramePacket::Here(range.clone()),
            PacketLocation::Reassembled(buffer) => FramePacket::Elsewhere(H::Packet::copied(buffer)),
        });
        let (Some((kept, headers, announcement)), Some(face)) = (read, port.tag()) else { return };
        // Copied, because it borrows from the frame, which becomes the packet.
        let announcement = announcement.map(Cow::into_owned);
        let packet = match kept {
            FramePacket::Here(range) => whole.into_part(range),
            FramePacket::Elsewhere(packet) => packet,
        };
        if let Some(announcement) = announcement {
            handler.announced(&packet, &announcement);
        }
        self.packets = self.packets.wrapping_add(1);
        handler.packet(self, face, headers, packet);
    }

    /// Passes a frame through the link service. If the frame completes a network packet, returns
    /// the result of `keep` on the packet, its headers, and its PrefixAnnouncement. The sending
    /// half receives the frame first. A frame that it recognizes as a duplicate is dropped.
    #[inline]
    fn read_link<'f, T>(
        &mut self,
        port: &Arc<FaceSender<H::Packet>>,
        id: SourceId,
        remote: Remote,
        frame: &'f [u8],
        keep: impl FnOnce(&PacketLocation) -> T,
    ) -> Option<(T, LpHeaders, Announcement<'f>)> {
        if port.is_closed() {
            return None;
        }
        if port.tag().is_none() {
            // The handler has not set up the face yet.
            port.count_receive_drop(received::NO_FACE);
            return None;
        }
        let view = match LpView::parse(frame) {
            Ok(view) => view,
            Err(error) => {
                port.count_receive_drop(LinkDrop::Malformed(error).label());
                return None;
            }
        };
        // Checked before the link service, because a frame that is only a proof has no packet for
        // the handler.
        if port.is_unproven() && port.takes_proof(&view) {
            return None;
        }
        if let Err(drop) = self.on_arrival(port, &view) {
            port.count_receive_drop(drop.label());
            return None;
        }
        let (here, now_ns) = (self.worker(), self.now_ns);
        let Faces { slots, foreign, reassembly_timers, link_drops, shared, .. } = self;
        let reader = if id.worker() == here {
            let slot = slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation())?;
            let Some(Source::Transport(transport)) = &mut slot.source else { return None };
            &mut transport.reader
        } else {
            foreign.reader(id, port, || shared.new_reader(port.holder()))
        };
        // The link service counts the drops.
        let received = reader.link.receive(&view, remote, port.accepts(), now_ns, link_drops).ok().flatten();
        let received = received.map(|delivered| {
            let kept = keep(&delivered.packet);
            // The next fragmented message reuses the buffer.
            if let PacketLocation::Reassembled(buffer) = delivered.packet {
                reader.link.recycle(buffer);
            }
            (kept, delivered.headers, delivered.announcement)
        });
        reader.settle(id, port, reassembly_timers, link_drops);
        received
    }

    /// Serves the requests of other threads in order, for at most [`MESSAGES_NS_MAX`].
    pub(crate) fn serve_messages(&mut self, handler: &mut H) -> ControlFlow<()> {
        // Messages that arrive meanwhile wait in the mailbox, which limits commands and frames.
        if self.messages.is_empty() {
            if !self.mailbox.has_messages() {
                return ControlFlow::Continue(());
            }
            self.messages = self.mailbox.take();
        }
        let begun_ns = clock::monotonic_ns();
        while let Some(message) = self.messages.pop_front() {
            match message {
                WorkerMessage::Command(command) => handler.command(self, command)?,
                WorkerMessage::Adopt { port, receiver, first } => {
                    if self.adopt(port.clone(), receiver).is_err() {
                        continue;
                    }
                    self.dispatch(handler);
                    // It was evicted on its way here.
                    if port.is_closed() {
                        self.end(port, CloseReason::Evicted);
                        continue;
                    }
                    if let Some(first) = first {
                        self.deliver(&port, None, &first, handler);
                    }
                }
                WorkerMessage::Listen(acceptor, local) => self.help_to_listen(acceptor, local),
                WorkerMessage::Deliver(port, frame) => self.deliver(&port, None, &frame, handler),
                WorkerMessage::Egress(request) => self.serve_reader_request(request, handler),
            }
            self.dispatch(handler);
            if clock::monotonic_ns().saturating_sub(begun_ns) >= MESSAGES_NS_MAX {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    fn serve_reader_request(&mut self, request: ReaderRequest, handler: &mut H) {
        match request {
            ReaderRequest::Failed(id, errno) => {
                if let Some(port) = self.port(id).cloned() {
                    self.fail(&port, CloseReason::System(errno), handler);
                }
            }
            ReaderRequest::Forget(id) => self.remove(id),
            ReaderRequest::RunTimer(id) => {
                self.set_timer(id, None);
                self.run_timer(id, handler);
            }
            ReaderRequest::Stalled(id) => {
                if let Some(port) = self.port(id).cloned() {
                    port.count_receive_drop(sent::STALLED);
                    self.fail(&port, CloseReason::Stalled, handler);
                }
            }
            ReaderRequest::End(id, reason) => {
                if let Some(port) = self.port(id).cloned() {
                    self.end(port, reason);
                }
            }
        }
    }

    /// Listens on an address of another worker, unless this worker does so already.
    fn help_to_listen(&mut self, acceptor: Box<dyn Acceptor<H>>, local: namely_wire::FaceUri) {
        if self.listeners().any(|(known, _)| *known == local) {
            return;
        }
        if let Err(error) = self.add_listener(acceptor, local.clone()) {
            tracing::warn!(%local, worker = self.worker(), %error, "a worker cannot listen");
        }
    }

    /// Retries devices that refused frames, serves the timers of link services, and checks the
    /// progress of blocked connections.
    pub(crate) fn run_timers(&mut self) {
        while let Some(entry) = self.retry_timers.first_entry()
            && entry.key().0 <= self.now_ns
        {
            if let Some(port) = entry.remove().upgrade() {
                self.flush(&port);
            }
        }
        while let Some(entry) = self.link_timers.first_entry()
            && entry.key().0 <= self.now_ns
        {
            // Another worker may have served the timer already, which `tick` checks.
            let port = entry.remove();
            let (total, context) = self.send_context();
            let follow_up = port.tick(total, context, &mut self.charge);
            self.follow_up(&port, follow_up);
        }
        while let Some(entry) = self.stall_timers.first_entry()
            && entry.key().0 <= self.now_ns
        {
            let (_, id) = *entry.key();
            let port = entry.remove();
            let Some(port) = port.upgrade() else { continue };
            let again_ns = port.check_progress(self.now_ns, || port.report_stall(self.worker()));
            if let Some(due_ns) = again_ns {
                self.stall_timers.insert((due_ns, id), Arc::downgrade(&port));
            }
        }
    }

    /// Runs the timer of a source, which is due or was requested.
    fn run_timer(&mut self, id: SourceId, handler: &mut H) {
        match self.source_mut(id) {
            Some(Source::Listener(listener)) => {
                // A listener has a timer only while it rests (`AcceptContext::rest`).
                let Some(acceptor) = listener.acceptor.take() else { return };
                sockets::rewatch(self.mailbox.epoll(), acceptor.descriptor(), id, Interest::Read);
                self.put_back(id, acceptor);
            }
            Some(Source::Transport(_)) => self.serve(id, handler, |receiver, turn| receiver.on_timer(turn)),
            None => (),
        }
    }

    /// Drops messages that stayed incomplete for too long, and the readers of closed faces.
    pub(crate) fn tick_reassembly(&mut self) {
        // The number is read before the flags of ports, so a port that is closed later changes it
        // again.
        let closed = self.closed();
        if closed != self.swept {
            self.swept = closed;
            self.foreign.sweep(&mut self.reassembly_timers);
        }
        let (here, now_ns) = (self.worker(), self.now_ns);
        // After a stall of this process, fragments that arrived in time may not have been read yet.
        let has_unread = self.waiting.has_more() || !self.messages.is_empty();
        for _ in 0..REASSEMBLY_TICKS_MAX {
            let Some(id) = self.reassembly_timers.pop(now_ns) else { break };
            let Faces { slots, foreign, reassembly_timers, link_drops, .. } = self;
            let (port, reader) = if id.worker() == here {
                let slot = slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation());
                let Some(Some(Source::Transport(transport))) = slot.map(|slot| &mut slot.source) else {
                    continue;
                };
                (&transport.port, &mut transport.reader)
            } else {
                let Some(found) = foreign.get_mut(id) else { continue };
                found
            };
            if has_unread && reader.postpone(id, now_ns, reassembly_timers) {
                continue;
            }
            reader.tick(id, port, now_ns, reassembly_timers, link_drops);
        }
    }

    /// Flushes each queued port once, for at most [`FLUSHING_NS_MAX`]. The remaining ports are
    /// flushed in the next turn, before those that are queued in it.
    pub(crate) fn flush_all(&mut self) {
        let begun_ns = clock::monotonic_ns();
        // Ports that are queued again meanwhile wait for the next turn.
        for _ in 0..self.to_flush.len() {
            let Some(port) = self.to_flush.pop_front() else { break };
            self.flush(&port);
            if clock::monotonic_ns().saturating_sub(begun_ns) >= FLUSHING_NS_MAX {
                break;
            }
        }
        // Settled once in a turn, so that the sum over all workers lacks at most the charge of a
        // turn.
        self.settle();
    }

    /// Closes all faces and listeners. Writes the waiting frames as far as the sockets accept them
    /// now.
    pub(crate) fn finish(&mut self) {
        for index in 0..self.slots.len() {
            let id = self.id_at(index);
            if let Some(port) = self.port(id).cloned() {
                self.flush(&port);
            }
            self.remove(id);
        }
        self.settle();
        // Last, so that messages posted while faces close are dropped too.
        self.mailbox.retire();
    }
}

/// The location of a network packet that a frame completes.
enum FramePacket<P> {
    /// In the frame.
    Here(Range<usize>),
    Elsewhere(P),
}
