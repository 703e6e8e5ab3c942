//! The listeners and transports of one worker: the halves that receive, timers, and what is to be flushed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_link::{DropCounters, Frame, LinkDrop, Outbound};
use namely_wire::LpView;
use namely_wire::face_uri::FaceUri;

use crate::error::{CloseReason, OpenError};
use crate::event_loop::{Handler, Remote, dispatch};
use crate::kind::{Acceptor, NewTransport, Receiver, Sender};
use crate::options::{IoOptions, Persistency};
use crate::port::{Aftermath, FlushEnd, Port, SendError, SendTurn, TransportState};
use crate::shared::{Note, Shared, Station};
use crate::sockets::{self, Interest};
use crate::transport::{TransportId, TransportStatus};
use crate::turn::{AcceptTurn, Turn};
use namely_host::clock;

/// Octets queued or sent before a worker adds them to the sum over all workers.
const CHARGE_OCTETS: isize = 64 << 10;

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

/// Something that makes transports.
pub(crate) struct Listener<P> {
    /// None during its turn.
    pub(crate) acceptor: Option<Box<dyn Acceptor<P>>>,
    pub(crate) local: FaceUri,
    pub(crate) drops: DropCounters,
}

/// A transport that is read here.
pub(crate) struct Transport<P> {
    pub(crate) port: Arc<Port<P>>,
    /// None during its turn.
    receiver: Option<Box<dyn Receiver<P>>>,
}

pub(crate) enum Source<P> {
    Listener(Listener<P>),
    Transport(Transport<P>),
}

struct Slot<P> {
    generation: u32,
    timer_ns: Option<u64>,
    source: Option<Source<P>>,
}

/// Everything a worker listens to and reads. A handler opens, sends on and closes transports here.
pub struct Transports<P> {
    pub(crate) shared: Arc<Shared<P>>,
    pub(crate) station: Arc<Station<P>>,
    slots: Vec<Slot<P>>,
    free: Vec<usize>,
    pub(crate) events: VecDeque<Event>,
    timers: BTreeSet<(u64, TransportId)>,
    /// Link services whose timers are served here.
    link_timers: BTreeMap<(u64, TransportId), Arc<Port<P>>>,
    to_flush: Vec<Arc<Port<P>>>,
    /// Octets queued here less octets sent here that the sum over all workers does not have yet.
    charge: isize,
    now_ns: u64,
}

impl<P: AsRef<[u8]> + Clone + Send + 'static> Transports<P> {
    pub(crate) fn new(shared: Arc<Shared<P>>, station: Arc<Station<P>>) -> Self {
        Transports {
            shared,
            station,
            slots: Vec::new(),
            free: Vec::new(),
            events: VecDeque::new(),
            timers: BTreeSet::new(),
            link_timers: BTreeMap::new(),
            to_flush: Vec::new(),
            charge: 0,
            now_ns: clock::monotonic_ns(),
        }
    }

    /// The settings.
    pub fn options(&self) -> &IoOptions {
        &self.shared.options
    }

    /// The number of this worker.
    pub fn worker(&self) -> usize {
        self.station.index
    }

    /// The time at which this turn began, ns of [`crate::clock`].
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Whether there is such a listener or transport here.
    #[inline]
    pub fn contains(&self, id: TransportId) -> bool {
        self.slots
            .get(id.index())
            .is_some_and(|slot| slot.generation == id.generation() && slot.source.is_some())
    }

    /// What listens here.
    pub fn listeners(&self) -> impl Iterator<Item = (TransportId, &FaceUri, &DropCounters)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.source {
            Some(Source::Listener(listener)) => {
                let id = TransportId::new(self.station.index, index, slot.generation);
                Some((id, &listener.local, &listener.drops))
            }
            _ => None,
        })
    }

    /// The port of a transport that is read here. It can be kept, and sent on from any worker.
    pub fn port(&self, id: TransportId) -> Option<&Arc<Port<P>>> {
        let slot = self.slots.get(id.index()).filter(|slot| slot.generation == id.generation())?;
        match &slot.source {
            Some(Source::Transport(transport)) => Some(&transport.port),
            _ => None,
        }
    }

    /// Sends a packet: its frames leave at the end of this turn.
    ///
    /// # Errors
    /// [`SendError`]; counted at the port.
    #[inline]
    pub fn send(&mut self, port: &Arc<Port<P>>, outbound: Outbound<P>) -> Result<(), SendError> {
        let (total, turn) = self.send_turn();
        let aftermath = port.send(outbound, total, turn, &mut self.charge)?;
        self.follow(port, aftermath);
        Ok(())
    }

    /// Sends one frame as it is.
    ///
    /// # Errors
    /// [`SendError`]; counted at the port.
    pub fn push(&mut self, port: &Arc<Port<P>>, frame: Frame<P>) -> Result<(), SendError> {
        let (total, turn) = self.send_turn();
        let aftermath = port.push(frame, total, turn, &mut self.charge)?;
        self.follow(port, aftermath);
        Ok(())
    }

    /// Shows an arrived frame to the port's link service, if it concerns that: its reliability service, or probes of the path.
    ///
    /// # Errors
    /// The frame came before.
    #[inline]
    pub fn on_arrival(&mut self, port: &Arc<Port<P>>, view: &LpView<'_>) -> Result<(), LinkDrop> {
        if !port.is_concerned(view) {
            return Ok(());
        }
        let (total, turn) = self.send_turn();
        let (arrived, aftermath) = port.on_arrival(view, total, turn, &mut self.charge);
        self.follow(port, aftermath);
        arrived
    }

    #[inline]
    fn send_turn(&self) -> (isize, SendTurn) {
        let turn = SendTurn { flusher: self.flusher(), now_ns: self.now_ns };
        (self.shared.queued_octets() + self.charge, turn)
    }

    fn flusher(&self) -> u64 {
        1 << self.station.index
    }

    #[inline]
    fn follow(&mut self, port: &Arc<Port<P>>, aftermath: Aftermath) {
        if aftermath.flush {
            self.to_flush.push(port.clone());
        }
        if let Some((due_ns, id)) = aftermath.arm_ns.zip(port.id()) {
            self.link_timers.insert((due_ns, id), port.clone());
        }
        if self.charge.abs() > CHARGE_OCTETS {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.shared.charge(std::mem::take(&mut self.charge));
    }

    /// Closes a listener or transport that is served here. No event tells of it.
    pub fn close(&mut self, id: TransportId) -> Option<TransportStatus> {
        let port = self.port(id).cloned();
        if let Some(port) = &port {
            self.flush(port);
        }
        self.remove(id);
        port.map(|port| port.status())
    }

    /// Ends a transport that failed, or takes it down if it comes back by itself.
    pub(crate) fn fail(&mut self, id: TransportId, reason: CloseReason, handler: &mut dyn Handler<P>) {
        let Some(port) = self.port(id).cloned() else { return };
        if port.persistency() == Persistency::Permanent {
            let mut comes_back = false;
            self.serve(id, handler, |receiver, turn| {
                comes_back = receiver.take_down(turn);
                Ok(())
            });
            if comes_back {
                if port.lose_sender(&mut self.charge) {
                    self.events.push_back(Event::Down(id, reason));
                }
                return;
            }
        }
        let status = port.status();
        self.remove(id);
        self.events.push_back(Event::Closed { transport: id, reason, status: Box::new(status) });
    }

    /// Takes a transport down that comes back by itself.
    pub(crate) fn take_down(&mut self, port: &Arc<Port<P>>, reason: CloseReason) {
        if port.lose_sender(&mut self.charge)
            && let Some(id) = port.id()
        {
            self.events.push_back(Event::Down(id, reason));
        }
    }

    /// Takes a transport up again.
    pub(crate) fn bring_up(&mut self, port: &Arc<Port<P>>, sender: Box<dyn Sender<P>>) {
        let was_up = port.state() == TransportState::Up;
        port.set_sender(sender);
        port.set_state(TransportState::Up);
        self.flush(port);
        if let Some(id) = port.id().filter(|_| !was_up) {
            self.events.push_back(Event::Up(id));
        }
    }

    fn remove(&mut self, id: TransportId) {
        self.set_timer(id, None);
        if let Some(port) = self.port(id).cloned() {
            port.shut(&mut self.charge);
            self.station.load.fetch_sub(1, Ordering::Relaxed);
            self.shared.release();
        }
        let Some(slot) = self.slots.get_mut(id.index()) else { return };
        if slot.generation == id.generation() && slot.source.take().is_some() {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.index());
        }
    }

    /// Opens a transport that this worker reads.
    pub(crate) fn add_transport(&mut self, new: NewTransport<P>) -> Result<TransportId, OpenError> {
        if !self.shared.reserve() {
            return Err(OpenError::TooManyTransports);
        }
        self.station.load.fetch_add(1, Ordering::Relaxed);
        let (port, receiver) = Port::new(new, self.station.clone(), self.shared.clone());
        self.take_up(port, receiver)
    }

    /// Takes up a transport that came to a listener.
    pub(crate) fn adopt(
        &mut self,
        listener: TransportId,
        port: Arc<Port<P>>,
        receiver: Box<dyn Receiver<P>>,
    ) -> Result<(), OpenError> {
        let transport = self.take_up(port, receiver)?;
        self.events.push_back(Event::Accepted { listener, transport });
        Ok(())
    }

    /// Watches a transport that has been counted already.
    fn take_up(
        &mut self,
        port: Arc<Port<P>>,
        receiver: Box<dyn Receiver<P>>,
    ) -> Result<TransportId, OpenError> {
        let id = self.next_id();
        port.set_id(id);
        port.active_ns.store(self.now_ns, Ordering::Relaxed);
        let interest =
            if port.state() == TransportState::Connecting { Interest::Write } else { Interest::Read };
        if let Some(descriptor) = receiver.descriptor()
            && let Err(error) = sockets::watch(&self.station.epoll, descriptor, id, interest)
        {
            port.shut(&mut self.charge);
            self.station.load.fetch_sub(1, Ordering::Relaxed);
            self.shared.release();
            return Err(error);
        }
        if let Some(descriptor) = receiver.descriptor() {
            sockets::busy_poll(descriptor, self.options().busy_poll_us);
        }
        let expires_ns = port.expires_ns();
        self.place(Source::Transport(Transport { port, receiver: Some(receiver) }));
        if expires_ns.is_some() {
            self.set_timer(id, expires_ns);
        }
        Ok(id)
    }

    pub(crate) fn add_listener(
        &mut self,
        acceptor: Box<dyn Acceptor<P>>,
        local: FaceUri,
    ) -> Result<TransportId, OpenError> {
        let id = self.next_id();
        sockets::watch(&self.station.epoll, acceptor.descriptor(), id, Interest::Read)?;
        let drops = DropCounters::default();
        self.place(Source::Listener(Listener { acceptor: Some(acceptor), local, drops }));
        Ok(id)
    }

    /// The id that [`Transports::place`] will use.
    fn next_id(&self) -> TransportId {
        let index = self.free.last().copied().unwrap_or(self.slots.len());
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation);
        TransportId::new(self.station.index, index, generation)
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
        if !self.to_flush.is_empty() || !self.events.is_empty() || self.station.has_notes() {
            return Some(0);
        }
        let transports = self.timers.first().map(|(due_ns, _)| *due_ns);
        let links = self.link_timers.first_key_value().map(|((due_ns, _), _)| *due_ns);
        transports.into_iter().chain(links).min()
    }

    /// Serves a source whose descriptor is ready.
    pub(crate) fn serve_ready(
        &mut self,
        id: TransportId,
        is_readable: bool,
        is_writable: bool,
        scratch: &mut [u8],
        handler: &mut dyn Handler<P>,
    ) {
        match self.source_mut(id) {
            Some(Source::Listener(listener)) => {
                let Some(mut acceptor) = listener.acceptor.take() else { return };
                acceptor.accept(&mut AcceptTurn { io: self, id, handler }, scratch);
                if let Some(Source::Listener(listener)) = self.source_mut(id) {
                    listener.acceptor = Some(acceptor);
                }
            }
            Some(Source::Transport(transport)) => {
                let port = transport.port.clone();
                if port.state() != TransportState::Up {
                    return self.serve(id, handler, |receiver, turn| receiver.connected(turn));
                }
                if is_writable {
                    self.flush(&port);
                }
                if is_readable {
                    self.serve(id, handler, |receiver, turn| receiver.read(turn, scratch));
                }
            }
            None => (),
        }
    }

    /// Gives a transport its turn.
    fn serve(
        &mut self,
        id: TransportId,
        handler: &mut dyn Handler<P>,
        work: impl FnOnce(&mut dyn Receiver<P>, &mut Turn<'_, P>) -> Result<(), CloseReason>,
    ) {
        let Some(Source::Transport(transport)) = self.source_mut(id) else { return };
        let Some(mut receiver) = transport.receiver.take() else { return };
        let port = transport.port.clone();
        let mut turn = Turn { io: self, id, port, handler, frames: 0, octets: 0 };
        let worked = work(&mut *receiver, &mut turn);
        if turn.frames > 0 {
            turn.port.count_arrived(turn.frames, turn.octets);
        }
        let Some(Source::Transport(transport)) = self.source_mut(id) else { return };
        transport.receiver = Some(receiver);
        if let Err(reason) = worked {
            self.fail(id, reason, handler);
        }
    }

    /// Listens on what another worker listens on, unless that is so already.
    fn help_to_listen(&mut self, acceptor: Box<dyn Acceptor<P>>, local: FaceUri) {
        if self.listeners().any(|(_, known, _)| *known == local) {
            return;
        }
        if let Err(error) = self.add_listener(acceptor, local.clone()) {
            tracing::warn!(%local, worker = self.station.index, %error, "a worker cannot listen");
        }
    }

    /// Hands over a frame of a transport that another worker reads.
    pub(crate) fn deliver_foreign(
        &mut self,
        port: &Arc<Port<P>>,
        remote: Remote,
        frame: &[u8],
        handler: &mut dyn Handler<P>,
    ) {
        if !port.is_closed() {
            port.count_arrived(1, frame.len() as u64);
            handler.foreign(self, port, remote, frame);
        }
    }

    /// Hands over a frame of a transport that another socket received.
    pub(crate) fn deliver_early(
        &mut self,
        port: &Arc<Port<P>>,
        remote: Remote,
        frame: &[u8],
        handler: &mut dyn Handler<P>,
    ) {
        let Some(id) = port.id().filter(|id| self.contains(*id)) else { return };
        port.count_arrived(1, frame.len() as u64);
        handler.frame(self, id, remote, frame);
    }

    /// Does what others asked for.
    pub(crate) fn serve_notes(&mut self, handler: &mut dyn Handler<P>) {
        if !self.station.has_notes() {
            return;
        }
        for note in self.station.take_notes() {
            match note {
                Note::Adopt { listener, port, receiver, first } => {
                    if self.adopt(listener, port.clone(), receiver).is_err() {
                        continue;
                    }
                    dispatch(self, handler);
                    if let Some(first) = first {
                        self.deliver_early(&port, None, &first, handler);
                    }
                }
                Note::Listen(acceptor, local) => self.help_to_listen(acceptor, local),
                Note::Deliver(port, frame) => self.deliver_early(&port, None, &frame, handler),
                Note::Failed(id, errno) => self.fail(id, CloseReason::System(errno), handler),
                Note::Forget(id) => self.remove(id),
                Note::RunTimer(id) => self.run_timer(id, handler),
            }
            dispatch(self, handler);
        }
    }

    pub(crate) fn run_timers(&mut self, handler: &mut dyn Handler<P>) {
        while let Some((due_ns, id)) = self.timers.first().copied()
            && due_ns <= self.now_ns
        {
            self.run_timer(id, handler);
        }
        while let Some(entry) = self.link_timers.first_entry()
            && entry.key().0 <= self.now_ns
        {
            let port = entry.remove();
            let (total, turn) = self.send_turn();
            let aftermath = port.tick(total, turn, &mut self.charge);
            self.follow(&port, aftermath);
        }
    }

    fn run_timer(&mut self, id: TransportId, handler: &mut dyn Handler<P>) {
        self.set_timer(id, None);
        match self.source_mut(id) {
            Some(Source::Listener(listener)) => {
                let Some(acceptor) = listener.acceptor.take() else { return };
                sockets::rewatch(&self.station.epoll, acceptor.descriptor(), id, Interest::Read);
                if let Some(Source::Listener(listener)) = self.source_mut(id) {
                    listener.acceptor = Some(acceptor);
                }
            }
            Some(Source::Transport(_)) => self.serve(id, handler, |receiver, turn| receiver.on_timer(turn)),
            None => (),
        }
    }

    /// Writes what was queued in this turn.
    pub(crate) fn flush_all(&mut self) {
        let mut ports = std::mem::take(&mut self.to_flush);
        for port in ports.drain(..) {
            self.flush(&port);
        }
        if self.to_flush.is_empty() {
            self.to_flush = ports;
        }
        self.settle();
    }

    /// Closes everything: what waits is written as far as it is taken now.
    pub(crate) fn finish(&mut self) {
        let ids: Vec<TransportId> = (0..self.slots.len())
            .filter_map(|index| {
                let slot = self.slots.get(index).filter(|slot| slot.source.is_some())?;
                Some(TransportId::new(self.station.index, index, slot.generation))
            })
            .collect();
        for id in ids {
            self.close(id);
        }
        self.settle();
        self.station.retire();
    }

    /// Writes what waits on a port, as far as it is taken.
    pub(crate) fn flush(&mut self, port: &Arc<Port<P>>) {
        let (_, turn) = self.send_turn();
        match port.flush(turn, &mut self.charge) {
            FlushEnd::Done => (),
            FlushEnd::More => self.to_flush.push(port.clone()),
            FlushEnd::Failed(errno) => {
                if let Some(id) = port.id() {
                    port.station.post(Note::Failed(id, errno), Some(self.station.index));
                }
            }
        }
    }
}
