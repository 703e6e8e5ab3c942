//! The listeners and transports of one event loop.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;

use namely_link::{DropCounters, Frame};
use namely_wire::face_uri::FaceUri;

use crate::clock;
use crate::error::{CloseReason, OpenError};
use crate::options::{IoOptions, Persistency};
use crate::queue::FRAME_OVERHEAD_OCTETS;
use crate::sockets::{self, Interest};
use crate::tcp;
use crate::transport::{Kind, Transport, TransportCounters, TransportId, TransportState, TransportStatus};
use crate::udp;
use crate::{stream, unix};

/// Something that happened to a transport.
#[derive(Debug)]
pub enum Event {
    /// A peer made itself known at a listener; there is a transport to it now.
    Accepted {
        /// Where.
        listener: TransportId,
        /// The new transport.
        transport: TransportId,
    },
    /// A transport that was connecting or down can send.
    Up(TransportId),
    /// A permanent transport lost its peer; it will be back.
    Down(TransportId, CloseReason),
    /// A transport has gone.
    Closed {
        /// Which.
        transport: TransportId,
        /// Why.
        reason: CloseReason,
        /// As it was at the end.
        status: Box<TransportStatus>,
    },
}

/// Why a packet cannot be sent now. Counted at the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no such transport.
    Gone,
    /// The transport has no peer at present.
    Down,
    /// As much waits as may wait.
    QueueFull,
}

/// How far a transport's queue was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    All,
    /// More can be written in the next turn.
    Some,
    /// The socket takes no more.
    Blocked,
}

/// A socket that makes transports.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) kind: ListenerKind,
    pub(crate) socket: OwnedFd,
    pub(crate) local: FaceUri,
    pub(crate) drops: DropCounters,
}

#[derive(Debug)]
pub(crate) enum ListenerKind {
    /// The file goes with the listener.
    Unix {
        _file: unix::SocketFile,
    },
    Tcp,
    Udp(udp::Channel),
}

#[derive(Debug)]
pub(crate) enum Source<P> {
    Listener(Box<Listener>),
    Transport(Box<Transport<P>>),
}

#[derive(Debug)]
struct Slot<P> {
    generation: u32,
    timer_ns: Option<u64>,
    source: Option<Source<P>>,
}

/// Everything an event loop listens to. A handler opens, sends on and closes transports here.
#[derive(Debug)]
pub struct Transports<P> {
    pub(crate) options: IoOptions,
    pub(crate) epoll: OwnedFd,
    slots: Vec<Slot<P>>,
    free: Vec<usize>,
    open: usize,
    queues_memory_octets: usize,
    dirty: Vec<TransportId>,
    pub(crate) events: VecDeque<Event>,
    timers: BTreeSet<(u64, TransportId)>,
    now_ns: u64,
}

impl<P: AsRef<[u8]> + Clone> Transports<P> {
    pub(crate) fn new(options: IoOptions, epoll: OwnedFd) -> Self {
        Transports {
            options,
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            queues_memory_octets: 0,
            dirty: Vec::new(),
            events: VecDeque::new(),
            timers: BTreeSet::new(),
            now_ns: clock::monotonic_ns(),
        }
    }

    /// The settings.
    pub fn options(&self) -> &IoOptions {
        &self.options
    }

    /// The time at which this turn began, ns of [`crate::clock`].
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Whether there is such a listener or transport.
    pub fn contains(&self, id: TransportId) -> bool {
        self.slots
            .get(id.index())
            .is_some_and(|slot| slot.generation == id.generation() && slot.source.is_some())
    }

    /// What a listener listens on.
    pub fn listeners(&self) -> impl Iterator<Item = (TransportId, &FaceUri, &DropCounters)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.source {
            Some(Source::Listener(listener)) => {
                Some((TransportId::new(index, slot.generation), &listener.local, &listener.drops))
            }
            _ => None,
        })
    }

    /// What can be seen of a transport.
    pub fn status(&self, id: TransportId) -> Option<TransportStatus> {
        let transport = self.transport(id)?;
        let expires_ns = match (&transport.kind, transport.persistency) {
            (Kind::Udp { active_ns, .. }, Persistency::OnDemand) => {
                Some(active_ns.saturating_add(self.options.udp.idle_ns))
            }
            _ => None,
        };
        Some(TransportStatus {
            remote: transport.remote.clone(),
            local: transport.local.clone(),
            state: transport.state,
            persistency: transport.persistency,
            credentials: transport.credentials,
            queue_octets: transport.queue.octets(),
            expires_ns,
            socket_inode: transport.kind.datagram_inode(),
            counters: transport.counters.clone(),
        })
    }

    /// Changes persistency.
    ///
    /// # Errors
    /// Caller: a transport that a peer connected cannot be connected again from here, hence not be permanent.
    pub fn set_persistency(&mut self, id: TransportId, persistency: Persistency) -> Result<(), &'static str> {
        let Some(transport) = self.transport_mut(id) else { return Ok(()) };
        match (&transport.kind, persistency) {
            (Kind::Stream { .. }, Persistency::Permanent) => {
                return Err("a connection that the peer opened cannot be permanent");
            }
            (Kind::Multicast { .. }, Persistency::OnDemand) => {
                return Err("a multicast face is not on demand");
            }
            (Kind::Tcp { .. }, Persistency::OnDemand) => {
                return Err("a connection that the router opened is not on demand");
            }
            _ => transport.persistency = persistency,
        }
        if matches!(transport.kind, Kind::Udp { .. }) && persistency == Persistency::OnDemand {
            let idle_ns = self.options.udp.idle_ns;
            self.set_timer(id, Some(self.now_ns.saturating_add(idle_ns)));
        }
        Ok(())
    }

    /// Whether the transport takes another packet: the octets that wait before it. Otherwise the packet counts as
    /// dropped.
    #[inline]
    pub fn admit(&mut self, id: TransportId) -> Result<usize, SendError> {
        let (each_max, total_max) = (self.options.queue_octets_max, self.options.queue_octets_total_max);
        let total = self.queues_memory_octets;
        let transport = self.transport_mut(id).ok_or(SendError::Gone)?;
        if transport.state != TransportState::Up {
            transport.counters.drops.count("down");
            return Err(SendError::Down);
        }
        if transport.queue.memory_octets() >= each_max {
            transport.counters.drops.count("queue_full");
            return Err(SendError::QueueFull);
        }
        if total >= total_max {
            transport.counters.drops.count("queues_full");
            return Err(SendError::QueueFull);
        }
        Ok(transport.queue.octets())
    }

    /// Queues a frame of a packet that was admitted. It leaves at the end of this turn.
    #[inline]
    pub fn push(&mut self, id: TransportId, frame: Frame<P>) {
        let Some(Source::Transport(transport)) = self.source_mut(id) else { return };
        let memory_octets = frame.octets() + FRAME_OVERHEAD_OCTETS;
        transport.queue.push(frame);
        let is_new = !transport.is_dirty && !transport.is_blocked;
        transport.is_dirty |= is_new;
        self.queues_memory_octets += memory_octets;
        if is_new {
            self.dirty.push(id);
        }
    }

    /// Closes a listener or transport. No event tells of it.
    pub fn close(&mut self, id: TransportId) -> Option<TransportStatus> {
        let status = self.status(id);
        self.flush(id);
        self.remove(id);
        status
    }

    /// Ends a transport whose socket failed, or takes it down if it is permanent.
    pub(crate) fn fail(&mut self, id: TransportId, reason: CloseReason) {
        let Some(transport) = self.transport(id) else { return };
        if transport.persistency == Persistency::Permanent && matches!(transport.kind, Kind::Tcp { .. }) {
            return tcp::take_down(self, id, reason);
        }
        let Some(status) = self.status(id) else { return };
        self.remove(id);
        self.events.push_back(Event::Closed { transport: id, reason, status: Box::new(status) });
    }

    fn remove(&mut self, id: TransportId) {
        self.set_timer(id, None);
        if let Some(transport) = self.transport_mut(id) {
            let memory_octets = transport.queue.memory_octets();
            let channel = match &transport.kind {
                Kind::Udp { channel: Some(channel), peer, .. } => Some((*channel, *peer)),
                _ => None,
            };
            self.queues_memory_octets -= memory_octets;
            self.open -= 1;
            if let Some((channel, peer)) = channel {
                udp::forget(self, channel, peer);
            }
        }
        let Some(slot) = self.slots.get_mut(id.index()) else { return };
        if slot.generation == id.generation() && slot.source.take().is_some() {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.index());
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.open < self.options.transports_max
    }

    /// Takes up a new transport and watches its socket.
    pub(crate) fn add_transport(&mut self, transport: Transport<P>) -> Result<TransportId, OpenError> {
        if !self.has_room() {
            return Err(OpenError::TooManyTransports);
        }
        let interest =
            if transport.state == TransportState::Connecting { Interest::Write } else { Interest::Read };
        let id = self.next_id();
        let watched = match &transport.kind {
            Kind::Stream { socket, .. } | Kind::Udp { socket, .. } => Some(socket),
            Kind::Tcp { socket, .. } => socket.as_ref(),
            Kind::Multicast { receiver, .. } => Some(receiver),
        };
        if let Some(socket) = watched {
            sockets::watch(&self.epoll, socket, id, interest)?;
        }
        self.place(Source::Transport(Box::new(transport)));
        self.open += 1;
        Ok(id)
    }

    pub(crate) fn add_listener(&mut self, listener: Listener) -> Result<TransportId, OpenError> {
        let id = self.next_id();
        sockets::watch(&self.epoll, &listener.socket, id, Interest::Read)?;
        self.place(Source::Listener(Box::new(listener)));
        Ok(id)
    }

    /// The id that [`Transports::place`] will use.
    fn next_id(&self) -> TransportId {
        match self.free.last() {
            Some(index) => TransportId::new(*index, self.slots.get(*index).map_or(0, |slot| slot.generation)),
            None => TransportId::new(self.slots.len(), 0),
        }
    }

    fn place(&mut self, source: Source<P>) {
        match self.free.pop().and_then(|index| self.slots.get_mut(index)) {
            Some(slot) => slot.source = Some(source),
            None => self.slots.push(Slot { generation: 0, timer_ns: None, source: Some(source) }),
        }
    }

    #[inline]
    pub(crate) fn source_mut(&mut self, id: TransportId) -> Option<&mut Source<P>> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation == id.generation() { slot.source.as_mut() } else { None }
    }

    fn transport(&self, id: TransportId) -> Option<&Transport<P>> {
        let slot = self.slots.get(id.index()).filter(|slot| slot.generation == id.generation())?;
        match &slot.source {
            Some(Source::Transport(transport)) => Some(transport),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn transport_mut(&mut self, id: TransportId) -> Option<&mut Transport<P>> {
        match self.source_mut(id) {
            Some(Source::Transport(transport)) => Some(transport),
            _ => None,
        }
    }

    pub(crate) fn listener_mut(&mut self, id: TransportId) -> Option<&mut Listener> {
        match self.source_mut(id) {
            Some(Source::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    pub(crate) fn udp_channels(&self) -> impl Iterator<Item = (TransportId, std::net::SocketAddr)> {
        self.listeners().filter_map(|(id, local, _)| match local {
            FaceUri::Udp(_) => local.address().map(|address| (id, address)),
            _ => None,
        })
    }

    /// Sets or clears the one timer of a listener or transport.
    pub(crate) fn set_timer(&mut self, id: TransportId, due_ns: Option<u64>) {
        let Some(slot) = self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation())
        else {
            return;
        };
        if let Some(old_ns) = std::mem::replace(&mut slot.timer_ns, due_ns) {
            self.timers.remove(&(old_ns, id));
        }
        if let Some(due_ns) = due_ns {
            self.timers.insert((due_ns, id));
        }
    }

    /// Begins a turn.
    pub(crate) fn set_now(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// When there is something to do without any socket's being ready, ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        if !self.dirty.is_empty() || !self.events.is_empty() {
            return Some(0);
        }
        self.timers.first().map(|(due_ns, _)| *due_ns)
    }

    pub(crate) fn run_timers(&mut self) {
        while let Some((due_ns, id)) = self.timers.first().copied()
            && due_ns <= self.now_ns
        {
            self.set_timer(id, None);
            match self.slots.get(id.index()).and_then(|slot| slot.source.as_ref()) {
                Some(Source::Listener(listener)) => {
                    sockets::rewatch(&self.epoll, &listener.socket, id, Interest::Read);
                }
                Some(Source::Transport(transport)) => match &transport.kind {
                    Kind::Tcp { .. } => tcp::on_timer(self, id),
                    Kind::Udp { .. } => udp::on_timer(self, id),
                    Kind::Stream { .. } | Kind::Multicast { .. } => (),
                },
                None => (),
            }
        }
    }

    /// Writes what was queued in this turn.
    pub(crate) fn flush_dirty(&mut self) {
        for id in std::mem::take(&mut self.dirty) {
            if let Some(transport) = self.transport_mut(id) {
                transport.is_dirty = false;
                self.flush(id);
            }
        }
    }

    /// Writes what waits on a transport, as far as its socket takes it.
    pub(crate) fn flush(&mut self, id: TransportId) {
        let Some(transport) = self.transport_mut(id) else { return };
        if transport.state != TransportState::Up || transport.queue.is_empty() {
            return;
        }
        let before = transport.queue.memory_octets();
        let Transport { kind, queue, counters, .. } = transport;
        let flushed = match kind.sender() {
            Some(socket) if kind.is_stream() => stream::flush(socket, queue, counters),
            Some(socket) => udp::flush(socket, queue, counters),
            None => return,
        };
        let after = queue.memory_octets();
        self.queues_memory_octets = self.queues_memory_octets - before + after;
        match flushed {
            Ok(flushed) => self.after_flush(id, flushed),
            Err(errno) => self.fail(id, CloseReason::System(errno)),
        }
    }

    /// Waits for the socket, or no longer, or marks the transport for the next turn.
    fn after_flush(&mut self, id: TransportId, flushed: Flushed) {
        let Some(Slot { source: Some(Source::Transport(transport)), .. }) = self.slots.get_mut(id.index())
        else {
            return;
        };
        let is_blocked = flushed == Flushed::Blocked;
        if is_blocked != transport.is_blocked {
            transport.is_blocked = is_blocked;
            match &transport.kind {
                Kind::Multicast { sender, .. } if is_blocked => {
                    let _ = sockets::watch(&self.epoll, sender, id, Interest::Write);
                }
                Kind::Multicast { sender, .. } => {
                    let _ = rustix::event::epoll::delete(&self.epoll, sender);
                }
                kind => {
                    if let Some(socket) = kind.sender() {
                        let interest = if is_blocked { Interest::Both } else { Interest::Read };
                        sockets::rewatch(&self.epoll, socket, id, interest);
                    }
                }
            }
        }
        if flushed == Flushed::Some && !transport.is_dirty {
            transport.is_dirty = true;
            self.dirty.push(id);
        }
    }

    /// Changes what a transport's socket is watched for; `is_new` for a socket that is not watched yet.
    pub(crate) fn watch_transport(&mut self, id: TransportId, interest: Interest, is_new: bool) {
        let Some(Slot { source: Some(Source::Transport(transport)), .. }) = self.slots.get(id.index()) else {
            return;
        };
        let Some(socket) = transport.kind.sender() else { return };
        if is_new {
            // Without a watch nothing comes of the attempt, and its timeout ends it.
            let _ = sockets::watch(&self.epoll, socket, id, interest);
        } else {
            sockets::rewatch(&self.epoll, socket, id, interest);
        }
    }

    /// Lets a listener rest until the given time.
    pub(crate) fn rest_listener(&mut self, id: TransportId, due_ns: u64) {
        self.set_timer(id, Some(due_ns));
        let Some(Slot { source: Some(Source::Listener(listener)), .. }) = self.slots.get_mut(id.index())
        else {
            return;
        };
        listener.drops.count("accept_failed");
        sockets::rewatch(&self.epoll, &listener.socket, id, Interest::Nothing);
    }

    /// Drops what waits on a transport, under the given reason.
    pub(crate) fn clear_queue(&mut self, id: TransportId, label: &'static str) {
        let Some(transport) = self.transport_mut(id) else { return };
        let memory_octets = transport.queue.memory_octets();
        let frames = transport.queue.clear();
        if frames > 0 {
            transport.counters.drops.add(label, frames);
        }
        transport.is_blocked = false;
        self.queues_memory_octets -= memory_octets;
    }

    /// Adds up the counters of every transport.
    pub fn totals(&self) -> TransportCounters {
        let mut totals = TransportCounters::default();
        for slot in &self.slots {
            if let Some(Source::Transport(transport)) = &slot.source {
                let counters = &transport.counters;
                totals.in_frames += counters.in_frames;
                totals.in_octets += counters.in_octets;
                totals.out_frames += counters.out_frames;
                totals.out_octets += counters.out_octets;
                totals.drops.merge(&counters.drops);
            }
        }
        totals
    }
}
