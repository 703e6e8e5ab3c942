//! A worker's turn: sources that are ready, frames that arrived, messages, timers, and at the end
//! what is to be written.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_host::clock;
use namely_link::{Carried, LinkDrop};
use namely_wire::mgmt::FacePersistency;
use namely_wire::{LpHeaders, LpView};

use crate::buffer::Buffer;
use crate::error::CloseReason;
use crate::faces::{Event, Faces, Handler, Source, Transport, WorkerMessage};
use crate::id::SourceId;
use crate::kind::{AcceptContext, Acceptor, ReadContext, Receiver, SERVING_NS_MAX};
use crate::port::{FacePort, PortRequest};
use crate::sender::Sender;
use crate::sockets::{self, Interest};
use crate::status::{FaceState, Remote};
use crate::waiting::{Wanted, Whose};

/// How long a turn may write before the rest is left to the next one, ns.
const FLUSHING_NS_MAX: u64 = 2_000_000;

/// The same for what others ask for.
const MESSAGES_NS_MAX: u64 = 1_000_000;

/// Faces whose incomplete messages are looked through in one turn.
const REASSEMBLY_TICKS_MAX: usize = 16;

/// What came with a packet, in its frame or kept of its first fragment.
type Announcement<'f> = Option<Cow<'f, [u8]>>;

impl<H: Handler> Faces<H> {
    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.turns.begin();
    }

    /// Ends it.
    pub(crate) fn end_turn(&mut self) {
        let turn_ns = clock::monotonic_ns().saturating_sub(self.now_ns);
        self.waiting.end_turn(turn_ns);
        self.turns.end(turn_ns, &self.mailbox);
    }

    /// Whether so much of the turn is over; the rest is done in the next one, after others.
    pub(crate) fn is_late(&self, ns: u64) -> bool {
        clock::monotonic_ns() >= self.now_ns.saturating_add(ns)
    }

    /// When there is something to do without any socket's being ready, ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
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

    /// Has a source wait until it is served.
    pub(crate) fn wait_for_turn(&mut self, id: SourceId, wanted: Wanted) {
        let slot = self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation());
        let Some(slot) = slot else { return };
        let whose = match &slot.source {
            Some(Source::Listener(_)) => Whose::Listener(id),
            Some(Source::Transport(transport)) => Whose::Face(transport.port.holder()),
            None => return,
        };
        if slot.wanted == Wanted::NOTHING {
            self.waiting.push(whose, id);
        }
        slot.wanted |= wanted;
        if wanted.has(Wanted::READ) && self.waiting.must_rest(whose) {
            self.rest(id, true);
        }
    }

    /// Has a transport's descriptor watched no more for what arrives, or again.
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

    /// Serves those that wait and those whose timers are due, by turns and as long as a turn may
    /// take.
    pub(crate) fn serve_waiting(&mut self, scratch: &mut [u8], handler: &mut H) {
        while let Some((due_ns, id)) = self.timers.first().copied()
            && due_ns <= self.now_ns
        {
            self.set_timer(id, None);
            self.wait_for_turn(id, Wanted::TIMER);
        }
        self.waiting.begin(self.now_ns);
        while let Some(id) = self.waiting.next() {
            let slot = self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation());
            // One that has gone had its turn for nothing.
            let Some(slot) = slot else { continue };
            let wanted = std::mem::replace(&mut slot.wanted, Wanted::NOTHING);
            self.serve_ready(id, wanted, scratch, handler);
            self.dispatch(handler);
            let since_ns = self.waiting.has_more().then(|| clock::monotonic_ns().saturating_sub(self.now_ns));
            self.waiting.end(since_ns);
            // It has been read, and nothing more is known of.
            if self
                .slots
                .get(id.index())
                .is_some_and(|slot| slot.is_resting && slot.wanted == Wanted::NOTHING)
            {
                self.rest(id, false);
            }
            if since_ns.is_some_and(|since_ns| since_ns >= SERVING_NS_MAX) {
                break;
            }
        }
    }

    /// Serves a source whose descriptor is ready, or whose timer was due.
    fn serve_ready(&mut self, id: SourceId, wanted: Wanted, scratch: &mut [u8], handler: &mut H) {
        if wanted.has(Wanted::READ | Wanted::WRITE) {
            self.serve_descriptor(id, wanted, scratch, handler);
        }
        if wanted.has(Wanted::TIMER) {
            self.run_timer(id, handler);
        }
    }

    fn serve_descriptor(&mut self, id: SourceId, wanted: Wanted, scratch: &mut [u8], handler: &mut H) {
        match self.source_mut(id) {
            Some(Source::Listener(listener)) => {
                let Some(mut acceptor) = listener.acceptor.take() else { return };
                acceptor.accept(&mut AcceptContext::new(self, id, handler), scratch);
                self.put_back(id, acceptor);
            }
            Some(Source::Transport(transport)) => {
                let port = transport.port.clone();
                if port.state() != FaceState::Up {
                    return self.serve(id, handler, |receiver, turn| receiver.connected(turn));
                }
                if wanted.has(Wanted::WRITE) {
                    self.flush(&port);
                }
                if wanted.has(Wanted::READ) {
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

    /// Gives a transport its turn. Its receiving half is out of its slot meanwhile: the handler may
    /// close the transport, and what comes back to an empty slot is dropped.
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
        let answers = answers.wrapping_sub(std::mem::replace(&mut transport.answers, answers));
        let packets = self.packets;
        let mut turn = ReadContext { io: self, id, port, handler, frames: 0, octets: 0, has_more: false };
        let worked = work(&mut *receiver, &mut turn);
        if turn.frames > 0 {
            turn.io.waiting.note(turn.frames, turn.io.packets.wrapping_sub(packets), answers);
            turn.port.count_arrived(turn.frames, turn.octets);
            turn.port.active_ns.store(turn.io.now_ns(), Ordering::Relaxed);
        }
        let (port, has_more) = (turn.port, turn.has_more);
        let Some(Source::Transport(transport)) = self.source_mut(id) else { return };
        transport.receiver = Some(receiver);
        match worked {
            Err(reason) => self.fail(&port, reason, handler),
            // It waits on without another look at what is ready.
            Ok(()) if has_more => self.wait_for_turn(id, Wanted::READ),
            Ok(()) => (),
        }
    }

    /// Ends a transport that failed, or takes it down if it comes back by itself.
    pub(crate) fn fail(&mut self, port: &Arc<FacePort<H::Packet>>, reason: CloseReason, handler: &mut H) {
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

    /// Takes a transport up again.
    pub(crate) fn bring_up(&mut self, port: &Arc<FacePort<H::Packet>>, sender: Box<dyn Sender<H::Packet>>) {
        let was_up = port.state() == FaceState::Up;
        port.set_sender(sender);
        port.set_state(FaceState::Up);
        self.flush(port);
        if !was_up {
            self.events.push_back(Event::Up(port.clone()));
        }
    }

    /// Takes in a frame that did not come by its transport's own descriptor, whichever worker reads
    /// that.
    pub(crate) fn deliver(
        &mut self,
        port: &Arc<FacePort<H::Packet>>,
        remote: Remote,
        frame: &[u8],
        handler: &mut H,
    ) {
        let Some(id) = port.id().filter(|_| !port.is_closed()) else { return };
        port.count_arrived(1, frame.len() as u64);
        self.receive(port, id, remote, frame, handler);
    }

    /// Runs a frame through its face's link service, and hands over the network packet that is
    /// complete with it.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        port: &Arc<FacePort<H::Packet>>,
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

    /// The same for a frame that is in a packet already. What it carries stays there, unless it
    /// completes a packet whose fragments came before.
    pub(crate) fn receive_whole(
        &mut self,
        port: &Arc<FacePort<H::Packet>>,
        id: SourceId,
        whole: H::Packet,
        handler: &mut H,
    ) {
        let frame = whole.as_ref();
        let read = self.read_link(port, id, None, frame, |carried| match carried {
            Carried::Whole(place) => Kept::Here(place.clone()),
            Carried::Completed(buffer) => Kept::Elsewhere(H::Packet::copied(buffer)),
        });
        let (Some((kept, headers, announcement)), Some(face)) = (read, port.tag()) else { return };
        let announcement = announcement.map(Cow::into_owned);
        let packet = match kept {
            Kept::Here(place) => whole.into_part(place),
            Kept::Elsewhere(packet) => packet,
        };
        if let Some(announcement) = announcement {
            handler.announced(&packet, &announcement);
        }
        self.packets = self.packets.wrapping_add(1);
        handler.packet(self, face, headers, packet);
    }

    /// Runs a frame through the link service. Returns what `keep` makes of the network packet that
    /// is complete with it, its headers, and the PrefixAnnouncement that came with it. The sending
    /// half sees the frame first: what it knows for a repetition goes no further.
    #[inline]
    fn read_link<'f, T>(
        &mut self,
        port: &Arc<FacePort<H::Packet>>,
        id: SourceId,
        remote: Remote,
        frame: &'f [u8],
        keep: impl FnOnce(&Carried) -> T,
    ) -> Option<(T, LpHeaders, Announcement<'f>)> {
        if port.is_closed() {
            return None;
        }
        if port.tag().is_none() {
            // The face is not made yet.
            port.count_receive_drop("no_face");
            return None;
        }
        let view = match LpView::parse(frame) {
            Ok(view) => view,
            Err(error) => {
                port.count_receive_drop(LinkDrop::Malformed(error).label());
                return None;
            }
        };
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
        // Drops are counted by the link service.
        let received = reader.link.receive(&view, remote, port.accepts(), now_ns, link_drops).ok().flatten();
        let received = received.map(|delivered| {
            let kept = keep(&delivered.packet);
            if let Carried::Completed(buffer) = delivered.packet {
                reader.link.recycle(buffer);
            }
            (kept, delivered.headers, delivered.announcement)
        });
        reader.settle(id, port, reassembly_timers, link_drops);
        received
    }

    /// Does what others ask for, in their order and as long as a turn may take.
    pub(crate) fn serve_messages(&mut self, handler: &mut H) -> ControlFlow<()> {
        // What comes meanwhile waits in the mailbox, which is bounded.
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
                    // It was on its way when another needed its room.
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
                WorkerMessage::Port(request) => self.serve_port(request, handler),
            }
            self.dispatch(handler);
            if clock::monotonic_ns().saturating_sub(begun_ns) >= MESSAGES_NS_MAX {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    fn serve_port(&mut self, request: PortRequest, handler: &mut H) {
        match request {
            PortRequest::Failed(id, errno) => {
                if let Some(port) = self.port(id).cloned() {
                    self.fail(&port, CloseReason::System(errno), handler);
                }
            }
            PortRequest::Forget(id) => self.remove(id),
            PortRequest::RunTimer(id) => {
                self.set_timer(id, None);
                self.run_timer(id, handler);
            }
            PortRequest::Stalled(id) => {
                if let Some(port) = self.port(id).cloned() {
                    port.count_receive_drop("stalled");
                    self.fail(&port, CloseReason::Stalled, handler);
                }
            }
            PortRequest::End(id, reason) => {
                if let Some(port) = self.port(id).cloned() {
                    self.end(port, reason);
                }
            }
        }
    }

    /// Listens on what another worker listens on, unless that is so already.
    fn help_to_listen(&mut self, acceptor: Box<dyn Acceptor<H>>, local: namely_wire::FaceUri) {
        if self.listeners().any(|(known, _)| *known == local) {
            return;
        }
        if let Err(error) = self.add_listener(acceptor, local.clone()) {
            tracing::warn!(%local, worker = self.worker(), %error, "a worker cannot listen");
        }
    }

    /// Does what is due at link services, looks at connections that take nothing, and asks devices
    /// again that refused frames.
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
            // The port may have been closed, or served by another worker: `tick` looks.
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
            let again_ns = port.look_whether_it_stands(self.now_ns, || port.report_stall(self.worker()));
            if let Some(due_ns) = again_ns {
                self.stall_timers.insert((due_ns, id), Arc::downgrade(&port));
            }
        }
    }

    /// The timer of a source was due, or is wanted now.
    fn run_timer(&mut self, id: SourceId, handler: &mut H) {
        match self.source_mut(id) {
            Some(Source::Listener(listener)) => {
                let Some(acceptor) = listener.acceptor.take() else { return };
                sockets::rewatch(self.mailbox.epoll(), acceptor.descriptor(), id, Interest::Read);
                self.put_back(id, acceptor);
            }
            Some(Source::Transport(_)) => self.serve(id, handler, |receiver, turn| receiver.on_timer(turn)),
            None => (),
        }
    }

    /// Drops messages that stayed incomplete for too long, and the readers of faces that have gone.
    pub(crate) fn tick_reassembly(&mut self) {
        // The number is read before the flags of ports: one that is closed later changes it again.
        let closed = self.closed();
        if closed != self.swept {
            self.swept = closed;
            self.foreign.sweep(&mut self.reassembly_timers);
        }
        let (here, now_ns) = (self.worker(), self.now_ns);
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
            reader.tick(id, port, now_ns, reassembly_timers, link_drops);
        }
    }

    /// Writes what was queued, as far as a turn may take: of each port once. What is left is
    /// written in the next turn, before what is queued there.
    pub(crate) fn flush_all(&mut self) {
        let begun_ns = clock::monotonic_ns();
        for _ in 0..self.to_flush.len() {
            let Some(port) = self.to_flush.pop_front() else { break };
            self.flush(&port);
            if clock::monotonic_ns().saturating_sub(begun_ns) >= FLUSHING_NS_MAX {
                break;
            }
        }
        self.settle();
    }

    /// Closes everything: what waits is written as far as it is taken now.
    pub(crate) fn finish(&mut self) {
        for index in 0..self.slots.len() {
            let id = self.id_at(index);
            if let Some(port) = self.port(id).cloned() {
                self.flush(&port);
            }
            self.remove(id);
        }
        self.settle();
        // Last: what is posted while faces close is dropped with the rest.
        self.mailbox.retire();
    }
}

/// Where the network packet of a frame is.
enum Kept<P> {
    /// In the frame.
    Here(Range<usize>),
    Elsewhere(P),
}
