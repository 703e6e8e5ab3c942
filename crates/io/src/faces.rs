//! The listeners and faces of one worker: the halves that receive, timers, and what is to be
//! flushed; and what the worker tells whoever drives it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::drops::DropCounters;
use namely_host::clock;
use namely_host::shares::Holder;
use namely_link::{LinkDrop, LinkDrops, Outbound};
use namely_wire::{FaceUri, LpHeaders, LpView};

use crate::buffer::Buffer;
use crate::error::{CloseReason, OpenError};
use crate::face_table::Admission;
use crate::id::SourceId;
use crate::kind::{Acceptor, NewTransport, Receiver};
use crate::limits::{QUEUE_RESERVE_OCTETS, RELIEF};
use crate::mailbox::WorkerMailbox;
use crate::options::IoOptions;
use crate::port::{FacePort, FlushEnd, FollowUp, NewPort, PortRequest, SendContext, SendError};
use crate::reassembly::{ForeignReaders, LinkReader, ReassemblyTimers};
use crate::sockets::{self, Interest};
use crate::status::{FaceState, FaceTag, PortStatus};
use crate::turns::TurnClock;
use crate::waiting::{Waiting, Wanted};

/// Octets queued or sent before a worker adds them to the sum over all workers.
const CHARGE_OCTETS: isize = 64 << 10;

/// What an event loop drives.
pub trait Handler: Sized + 'static {
    /// A packet in memory.
    type Packet: Buffer;

    /// What other threads may ask for, by [`crate::Workers::send`].
    type Command: Send + 'static;

    /// A network packet arrived: an Interest or a Data by its first TYPE, otherwise unchecked. Its
    /// headers are those that the peer may set.
    fn packet(&mut self, io: &mut Faces<Self>, face: FaceTag, headers: LpHeaders, packet: Self::Packet);

    /// The packet that is handed over next came with this PrefixAnnouncement.
    fn announced(&mut self, _packet: &Self::Packet, _announcement: &[u8]) {}

    /// A packet arrived on a face that is watched ([`FacePort::show_first`]), before it is handed
    /// over; `remote` is who of a group sent it. True if that was all there is to do with it.
    fn watched(&mut self, _face: FaceTag, _remote: Option<SocketAddr>, _packet: &[u8]) -> bool {
        false
    }

    /// Something happened to a face.
    fn event(&mut self, io: &mut Faces<Self>, event: Event<Self::Packet>);

    /// Another thread sent a command. `Break` ends the loop.
    fn command(&mut self, io: &mut Faces<Self>, command: Self::Command) -> ControlFlow<()>;

    /// Called once a turn, when all packets of the turn were handed over. Returns when it must be
    /// called again at the latest, ns of [`clock::monotonic_ns`].
    fn tick(&mut self, io: &mut Faces<Self>) -> Option<u64>;
}

/// Something that happened to a face.
#[derive(Debug)]
pub enum Event<P> {
    /// A peer made itself known at a listener; there is a face to it now.
    Accepted(Arc<FacePort<P>>),
    /// A face that was connecting or down can send.
    Up(Arc<FacePort<P>>),
    /// A permanent face lost its peer; it will be back.
    Down(Arc<FacePort<P>>, CloseReason),
    /// A face has gone.
    Closed {
        /// Which.
        port: Arc<FacePort<P>>,
        /// Why.
        reason: CloseReason,
        /// As it was at the end.
        status: Box<PortStatus>,
    },
}

/// What a worker finds in its mailbox.
pub(crate) enum WorkerMessage<H: Handler> {
    /// Something for the handler.
    Command(H::Command),
    /// Read this transport, which came to a listener; perhaps with its first datagram.
    Adopt { port: Arc<FacePort<H::Packet>>, receiver: Box<dyn Receiver<H>>, first: Option<Vec<u8>> },
    /// Listen, too, on what another worker listens on.
    Listen(Box<dyn Acceptor<H>>, FaceUri),
    /// This datagram belongs to a face that is read here.
    Deliver(Arc<FacePort<H::Packet>>, Vec<u8>),
    /// Something that a port cannot do by itself.
    Port(PortRequest),
}

impl<H: Handler> From<PortRequest> for WorkerMessage<H> {
    fn from(request: PortRequest) -> Self {
        WorkerMessage::Port(request)
    }
}

pub(crate) type Shared<H> = crate::shared::Shared<WorkerMessage<H>, <H as Handler>::Packet>;
pub(crate) type Mailbox<H> = WorkerMailbox<WorkerMessage<H>>;
type Port<H> = FacePort<<H as Handler>::Packet>;

/// Ports, each with the octets of memory that its waiting frames take.
type Queues<H> = Vec<(usize, Arc<Port<H>>)>;

/// Something that makes transports.
pub(crate) struct Listener<H: Handler> {
    /// `None` during its turn.
    pub(crate) acceptor: Option<Box<dyn Acceptor<H>>>,
    pub(crate) local: FaceUri,
    pub(crate) drops: DropCounters,
}

/// A transport that is read here.
pub(crate) struct Transport<H: Handler> {
    pub(crate) port: Arc<Port<H>>,
    /// `None` during its turn.
    pub(crate) receiver: Option<Box<dyn Receiver<H>>>,
    pub(crate) reader: LinkReader,
    /// What [`FacePort::answers`] said when it was served last.
    pub(crate) answers: u64,
}

pub(crate) enum Source<H: Handler> {
    Listener(Listener<H>),
    Transport(Transport<H>),
}

pub(crate) struct Slot<H: Handler> {
    pub(crate) generation: u32,
    timer_ns: Option<u64>,
    /// What it waits for in `Faces::waiting`; nothing if it is not there.
    pub(crate) wanted: Wanted,
    /// Its descriptor is not watched for what arrives until it has been served.
    pub(crate) is_resting: bool,
    pub(crate) source: Option<Source<H>>,
}

/// Everything a worker listens to and reads. A handler opens, sends on and closes faces here.
pub struct Faces<H: Handler> {
    pub(crate) shared: Arc<Shared<H>>,
    pub(crate) mailbox: Arc<Mailbox<H>>,
    pub(crate) slots: Vec<Slot<H>>,
    free: Vec<usize>,
    pub(crate) events: VecDeque<Event<H::Packet>>,
    pub(crate) timers: BTreeSet<(u64, SourceId)>,
    /// Link services whose timers are served here.
    pub(crate) link_timers: BTreeMap<(u64, SourceId), Arc<Port<H>>>,
    /// Faces whose peers take nothing, by when that is looked at again.
    pub(crate) stall_timers: BTreeMap<(u64, SourceId), Weak<Port<H>>>,
    /// Ports whose devices refused a frame, and when they are asked again.
    pub(crate) retry_timers: BTreeMap<(u64, SourceId), Weak<Port<H>>>,
    /// Receiving halves of link services of faces that another worker reads.
    pub(crate) foreign: ForeignReaders<H::Packet>,
    pub(crate) reassembly_timers: ReassemblyTimers,
    /// What a link service has dropped, until it is counted at the port.
    pub(crate) link_drops: LinkDrops,
    /// How many ports were closed when `foreign` was last swept.
    pub(crate) swept: u64,
    /// What is served next.
    pub(crate) waiting: Waiting,
    /// Ports on which something was queued, from the one that waits longest.
    pub(crate) to_flush: VecDeque<Arc<Port<H>>>,
    /// Octets queued here less octets sent here that the sum over all workers does not have yet.
    pub(crate) charge: isize,
    /// What was taken out of the mailbox and is not done yet.
    pub(crate) messages: VecDeque<WorkerMessage<H>>,
    pub(crate) turns: TurnClock,
    /// Packets that were handed over.
    pub(crate) packets: u64,
    pub(crate) now_ns: u64,
}

impl<H: Handler> Faces<H> {
    pub(crate) fn new(shared: Arc<Shared<H>>, mailbox: Arc<Mailbox<H>>) -> Self {
        Faces {
            shared,
            mailbox,
            slots: Vec::new(),
            free: Vec::new(),
            events: VecDeque::new(),
            timers: BTreeSet::new(),
            link_timers: BTreeMap::new(),
            stall_timers: BTreeMap::new(),
            retry_timers: BTreeMap::new(),
            foreign: ForeignReaders::default(),
            reassembly_timers: ReassemblyTimers::default(),
            link_drops: LinkDrops::default(),
            swept: 0,
            waiting: Waiting::default(),
            to_flush: VecDeque::new(),
            charge: 0,
            messages: VecDeque::new(),
            turns: TurnClock::default(),
            packets: 0,
            now_ns: clock::monotonic_ns(),
        }
    }

    /// The settings.
    pub fn options(&self) -> &IoOptions {
        &self.shared.options
    }

    /// The number of this worker.
    #[inline]
    pub fn worker(&self) -> usize {
        self.mailbox.index()
    }

    /// The time at which this turn began, ns of [`clock::monotonic_ns`].
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How many faces of all workers were ever closed: who keeps ports looks through them when this
    /// has changed.
    #[inline]
    pub fn closed(&self) -> u64 {
        self.shared.limits.closed()
    }

    /// Returns true if there is such a listener or transport here.
    #[inline]
    pub(crate) fn contains(&self, id: SourceId) -> bool {
        self.slots
            .get(id.index())
            .is_some_and(|slot| slot.generation == id.generation() && slot.source.is_some())
    }

    /// What listens here, and what was dropped there.
    pub fn listeners(&self) -> impl Iterator<Item = (&FaceUri, &DropCounters)> {
        self.slots.iter().filter_map(|slot| match &slot.source {
            Some(Source::Listener(listener)) => Some((&listener.local, &listener.drops)),
            _ => None,
        })
    }

    /// Stops listening on an address that [`Faces::listeners`] shows; false if nothing listens
    /// there. Its faces stay.
    pub fn stop_listening(&mut self, local: &FaceUri) -> bool {
        let index = self.slots.iter().position(
            |slot| matches!(&slot.source, Some(Source::Listener(listener)) if listener.local == *local),
        );
        let Some(index) = index else { return false };
        self.remove(self.id_at(index));
        true
    }

    pub(crate) fn id_at(&self, index: usize) -> SourceId {
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation);
        SourceId::new(self.worker(), index, generation)
    }

    /// The port of a transport that is read here.
    pub(crate) fn port(&self, id: SourceId) -> Option<&Arc<Port<H>>> {
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
    pub fn send(&mut self, port: &Arc<Port<H>>, outbound: Outbound<H::Packet>) -> Result<(), SendError> {
        let (mut total, context) = self.send_context();
        if self.shared.limits.are_queues_full(total) {
            self.relieve();
            (total, _) = self.send_context();
        }
        let (sent, follow_up) = port.send(outbound, total, context, &mut self.charge);
        self.follow_up(port, follow_up);
        sent
    }

    /// Sends a packet with the PrefixAnnouncement that belongs to it, or without where that finds
    /// no room in its first frame.
    ///
    /// # Errors
    /// [`SendError`]; counted at the port.
    #[cold]
    pub fn send_announced(
        &mut self,
        port: &Arc<Port<H>>,
        outbound: Outbound<H::Packet>,
        announcement: &[u8],
    ) -> Result<(), SendError> {
        let (total, context) = self.send_context();
        let share = |octets: Vec<u8>| H::Packet::copied(&octets);
        let (sent, follow_up) =
            port.send_announced(outbound, announcement, share, total, context, &mut self.charge);
        self.follow_up(port, follow_up);
        sent
    }

    /// Makes room in the queues: what has waited longest in the longest ones of the holder with
    /// most is dropped; root's only where nobody else has more than the reserve. Each look at all
    /// ports frees a part of the whole, so that it costs a packet little.
    #[cold]
    fn relieve(&mut self) {
        if !self.shared.limits.may_relieve(self.now_ns) {
            return;
        }
        let mut by_holder: BTreeMap<Holder, Queues<H>> = BTreeMap::new();
        for port in self.shared.faces.ports() {
            let octets = port.queued_memory_octets();
            if octets > QUEUE_RESERVE_OCTETS {
                by_holder.entry(port.holder()).or_default().push((octets, port));
            }
        }
        let sum = |ports: &Queues<H>| ports.iter().map(|(octets, _)| *octets).sum::<usize>();
        let payer = by_holder.into_iter().max_by_key(|(holder, ports)| (*holder != Holder::Root, sum(ports)));
        let mut ports = payer.map(|(_, ports)| ports).unwrap_or_default();
        ports.sort_by_key(|(octets, _)| std::cmp::Reverse(*octets));
        let mut wanted = (self.shared.limits.queue_octets_total_max / RELIEF).max(1);
        let before = self.charge;
        for (octets, port) in ports {
            let most = wanted.min(octets - QUEUE_RESERVE_OCTETS);
            wanted = wanted.saturating_sub(port.drop_oldest(most, &mut self.charge));
            if wanted == 0 {
                break;
            }
        }
        if self.charge == before {
            self.shared.limits.rest(self.now_ns);
        }
        self.settle();
    }

    /// Shows an arrived frame to the sending half of the port's link service, if it concerns that:
    /// its reliability service, or probes of the path.
    ///
    /// # Errors
    /// The frame came before.
    #[inline]
    pub(crate) fn on_arrival(&mut self, port: &Arc<Port<H>>, view: &LpView<'_>) -> Result<(), LinkDrop> {
        if !port.is_concerned(view) {
            return Ok(());
        }
        let (total, context) = self.send_context();
        let (arrived, follow_up) = port.on_arrival(view, total, context, &mut self.charge);
        self.follow_up(port, follow_up);
        arrived
    }

    #[inline]
    pub(crate) fn send_context(&self) -> (isize, SendContext) {
        let context = SendContext { flusher: 1 << self.worker(), now_ns: self.now_ns };
        (self.shared.limits.queued_octets() + self.charge, context)
    }

    #[inline]
    pub(crate) fn follow_up(&mut self, port: &Arc<Port<H>>, follow_up: FollowUp) {
        if follow_up.flush {
            self.to_flush.push_back(port.clone());
        }
        if let Some((due_ns, id)) = follow_up.arm_ns.zip(port.id()) {
            self.link_timers.insert((due_ns, id), port.clone());
        }
        if self.charge.abs() > CHARGE_OCTETS {
            self.settle();
        }
    }

    pub(crate) fn settle(&mut self) {
        self.shared.limits.charge(std::mem::take(&mut self.charge));
    }

    /// Closes a face. What waits is written as far as it is taken now. No event tells of it.
    pub fn close(&mut self, port: &Arc<Port<H>>) {
        self.flush(port);
        match port.id().filter(|id| id.worker() == self.worker()) {
            Some(id) => self.remove(id),
            None => port.close(),
        }
    }

    /// Ends a transport, and tells why.
    pub(crate) fn end(&mut self, port: Arc<Port<H>>, reason: CloseReason) {
        let Some(id) = port.id() else { return };
        let status = port.status();
        self.remove(id);
        self.events.push_back(Event::Closed { port, reason, status: Box::new(status) });
    }

    /// Takes a transport down that comes back by itself.
    pub(crate) fn take_down(&mut self, port: &Arc<Port<H>>, reason: CloseReason) {
        if port.lose_sender(&mut self.charge) {
            self.events.push_back(Event::Down(port.clone(), reason));
        }
    }

    pub(crate) fn remove(&mut self, id: SourceId) {
        self.set_timer(id, None);
        let Some(slot) = self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation())
        else {
            return;
        };
        let Some(source) = slot.source.take() else { return };
        // From here on the id leads nowhere, and events of its descriptor that are ready already
        // are passed over.
        slot.generation = slot.generation.wrapping_add(1);
        (slot.wanted, slot.is_resting) = (Wanted::NOTHING, false);
        self.free.push(id.index());
        if let Source::Transport(mut transport) = source {
            transport.port.shut(&mut self.charge);
            transport.reader.disarm(id, &mut self.reassembly_timers);
            self.mailbox.remove_load();
            transport.port.leave();
        }
    }

    /// The two halves of a new transport, which the worker of `mailbox` will read. It is counted
    /// there from now on.
    pub(crate) fn new_port(
        &self,
        new: NewTransport<H>,
        admission: Admission<H::Packet>,
        mailbox: &Arc<Mailbox<H>>,
    ) -> (Arc<Port<H>>, Box<dyn Receiver<H>>) {
        let NewTransport { receiver, sender, info, local, persistency, state } = new;
        mailbox.add_load();
        let is_dispatched = self.shared.dispatched.has(&local, &info.remote);
        let new = NewPort { sender, info, local, persistency, state, is_dispatched };
        let port = FacePort::new(new, admission, mailbox.clone(), self.shared.limits.clone());
        self.shared.faces.know(&port);
        (port, receiver)
    }

    /// Opens a transport that this worker reads.
    pub(crate) fn add_transport(&mut self, new: NewTransport<H>) -> Result<Arc<Port<H>>, OpenError> {
        // What the router opens by itself, it opens for itself.
        let (admission, evicted) =
            self.shared.faces.enter(Holder::Root).map_err(|_| OpenError::TooManyFaces)?;
        if let Some(port) = evicted {
            port.request_end(CloseReason::Evicted, self.worker());
        }
        self.add_admitted(new, admission)
    }

    /// The same for one that a peer came with.
    pub(crate) fn add_admitted(
        &mut self,
        new: NewTransport<H>,
        admission: Admission<H::Packet>,
    ) -> Result<Arc<Port<H>>, OpenError> {
        let (port, receiver) = self.new_port(new, admission, &self.mailbox.clone());
        self.install(port.clone(), receiver)?;
        Ok(port)
    }

    /// Adopts a transport that came to a listener.
    pub(crate) fn adopt(
        &mut self,
        port: Arc<Port<H>>,
        receiver: Box<dyn Receiver<H>>,
    ) -> Result<(), OpenError> {
        self.install(port.clone(), receiver)?;
        self.events.push_back(Event::Accepted(port));
        Ok(())
    }

    /// Watches a transport that has been counted already.
    fn install(&mut self, port: Arc<Port<H>>, receiver: Box<dyn Receiver<H>>) -> Result<(), OpenError> {
        let id = self.next_id();
        port.set_id(id);
        port.active_ns.store(self.now_ns, Ordering::Relaxed);
        let interest = if port.state() == FaceState::Connecting { Interest::Write } else { Interest::Read };
        if let Some(descriptor) = receiver.descriptor()
            && let Err(error) = sockets::watch(self.mailbox.epoll(), descriptor, id, interest)
        {
            port.shut(&mut self.charge);
            self.mailbox.remove_load();
            port.leave();
            return Err(error);
        }
        if let Some(descriptor) = receiver.descriptor() {
            sockets::busy_poll(descriptor, self.options().busy_poll_us);
        }
        let expires_ns = port.expires_ns();
        let reader = self.shared.new_reader(port.holder());
        self.fill_slot(Source::Transport(Transport { port, receiver: Some(receiver), reader, answers: 0 }));
        if expires_ns.is_some() {
            self.set_timer(id, expires_ns);
        }
        Ok(())
    }

    /// Listens. Returns the address.
    pub(crate) fn add_listener(
        &mut self,
        acceptor: Box<dyn Acceptor<H>>,
        local: FaceUri,
    ) -> Result<FaceUri, OpenError> {
        let id = self.next_id();
        sockets::watch(self.mailbox.epoll(), acceptor.descriptor(), id, Interest::Read)?;
        let (acceptor, drops) = (Some(acceptor), DropCounters::default());
        self.fill_slot(Source::Listener(Listener { acceptor, local: local.clone(), drops }));
        Ok(local)
    }

    /// The id that [`Faces::fill_slot`] will use.
    fn next_id(&self) -> SourceId {
        self.id_at(self.free.last().copied().unwrap_or(self.slots.len()))
    }

    fn fill_slot(&mut self, source: Source<H>) {
        match self.free.pop().and_then(|index| self.slots.get_mut(index)) {
            Some(slot) => slot.source = Some(source),
            None => self.slots.push(Slot {
                generation: 0,
                timer_ns: None,
                wanted: Wanted::NOTHING,
                is_resting: false,
                source: Some(source),
            }),
        }
    }

    #[inline]
    pub(crate) fn source_mut(&mut self, id: SourceId) -> Option<&mut Source<H>> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation == id.generation() { slot.source.as_mut() } else { None }
    }

    pub(crate) fn listener_mut(&mut self, id: SourceId) -> Option<&mut Listener<H>> {
        match self.source_mut(id) {
            Some(Source::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    /// Sets or clears the one timer of a listener or transport.
    pub(crate) fn set_timer(&mut self, id: SourceId, due_ns: Option<u64>) {
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

    /// Sets the timer of the transport of `port`, which is read here.
    pub(crate) fn set_port_timer(&mut self, port: &Port<H>, due_ns: u64) {
        if let Some(id) = port.id() {
            self.set_timer(id, Some(due_ns));
        }
    }

    /// Tells the handler what happened.
    pub(crate) fn dispatch(&mut self, handler: &mut H) {
        while let Some(event) = self.events.pop_front() {
            handler.event(self, event);
        }
    }

    /// Writes what waits on a port, as far as it is taken.
    pub(crate) fn flush(&mut self, port: &Arc<Port<H>>) {
        let (_, context) = self.send_context();
        match port.flush(context, &mut self.charge) {
            FlushEnd::Done => (),
            FlushEnd::Stands(due_ns) => {
                if let Some(id) = port.id() {
                    self.stall_timers.insert((due_ns, id), Arc::downgrade(port));
                }
            }
            FlushEnd::More => self.to_flush.push_back(port.clone()),
            FlushEnd::Later(due_ns) => {
                if let Some(id) = port.id() {
                    self.retry_timers.insert((due_ns, id), Arc::downgrade(port));
                }
            }
            FlushEnd::Failed(errno) => port.report_failure(errno, self.worker()),
        }
    }
}

impl<H: Handler> Drop for Faces<H> {
    /// However the worker ended, nobody may wait for it, and what was put into its mailbox must not
    /// keep ports, and these the mailbox, for ever.
    fn drop(&mut self) {
        self.mailbox.retire();
    }
}
