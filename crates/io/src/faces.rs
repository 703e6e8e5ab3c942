//! The listeners and faces of one worker: receiving halves, timers, ports to flush, and the events
//! that the worker reports to its handler.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use crate::drops::DropCounters;
use namely_host::clock;
use namely_host::shares::Owner;
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
use crate::port::{
    FaceSender, FaceSenderParts, FlushOutcome, FollowUp, ReaderRequest, SendContext, SendError,
};
use crate::reassembly::{ForeignReaders, LinkReader, ReassemblyTimers};
use crate::sockets::{self, Interest};
use crate::status::{FaceSnapshot, FaceState, FaceTag};
use crate::turns::IterationClock;
use crate::waiting::{Readiness, Waiting};

/// Octets queued or sent before a worker adds them to the sum over all workers.
const CHARGE_OCTETS: isize = 64 << 10;

/// The callbacks of an event loop.
pub trait Handler: Sized + 'static {
    /// A packet in memory.
    type Packet: Buffer;

    /// Commands from other threads, sent by [`crate::Workers::send`].
    type Command: Send + 'static;

    /// A network packet arrived: an Interest or a Data by its first TYPE, otherwise unchecked.
    /// `headers` holds only fields that the peer may set.
    fn packet(&mut self, io: &mut Faces<Self>, face: FaceTag, headers: LpHeaders, packet: Self::Packet);

    /// The next packet carries this PrefixAnnouncement.
    fn announced(&mut self, _packet: &Self::Packet, _announcement: &[u8]) {}

    /// A packet arrived on a face that is watched ([`FaceSender::inspect_first`]). This is called
    /// before [`Handler::packet`]. `remote` is the sender within a group. Returns true if the
    /// packet needs no further handling.
    fn watched(&mut self, _face: FaceTag, _remote: Option<SocketAddr>, _packet: &[u8]) -> bool {
        false
    }

    /// The state of a face changed.
    fn event(&mut self, io: &mut Faces<Self>, event: Event<Self::Packet>);

    /// Another thread sent a command. `Break` ends the loop.
    fn command(&mut self, io: &mut Faces<Self>, command: Self::Command) -> ControlFlow<()>;

    /// Called once a turn, after all packets of the turn were handed over. Returns the latest time
    /// of the next call, ns of [`clock::monotonic_ns`].
    fn tick(&mut self, io: &mut Faces<Self>) -> Option<u64>;
}

/// A change of the state of a face.
#[derive(Debug)]
pub enum Event<P> {
    /// A listener accepted a peer, and the face to the peer exists now.
    Accepted(Arc<FaceSender<P>>),
    /// A face that was connecting or down can send now.
    Up(Arc<FaceSender<P>>),
    /// A face is down but not closed: a permanent face lost its peer and will try to reconnect, or
    /// the network device of an Ethernet face is down.
    Down(Arc<FaceSender<P>>, CloseReason),
    /// A face closed.
    Closed {
        /// The face.
        port: Arc<FaceSender<P>>,
        /// The reason.
        reason: CloseReason,
        /// Its status immediately before it closed.
        status: Box<FaceSnapshot>,
    },
}

/// A message in a worker's mailbox.
pub(crate) enum WorkerMessage<H: Handler> {
    /// A command for the handler.
    Command(H::Command),
    /// Read this transport, which a listener accepted. `first` is the datagram that made it, if
    /// any.
    Adopt { port: Arc<FaceSender<H::Packet>>, receiver: Box<dyn Receiver<H>>, first: Option<Vec<u8>> },
    /// Listen on an address on which another worker listens.
    Listen(Box<dyn Acceptor<H>>, FaceUri),
    /// This datagram belongs to a face that is read here.
    Deliver(Arc<FaceSender<H::Packet>>, Vec<u8>),
    /// A request that a port cannot serve by itself.
    Egress(ReaderRequest),
}

impl<H: Handler> From<ReaderRequest> for WorkerMessage<H> {
    fn from(request: ReaderRequest) -> Self {
        WorkerMessage::Egress(request)
    }
}

pub(crate) type Shared<H> = crate::shared::Shared<WorkerMessage<H>, <H as Handler>::Packet>;
pub(crate) type Mailbox<H> = WorkerMailbox<WorkerMessage<H>>;
type Egress<H> = FaceSender<<H as Handler>::Packet>;

/// Ports, each with the octets of memory that its waiting frames take.
type Queues<H> = Vec<(usize, Arc<Egress<H>>)>;

/// A listener, which makes transports.
pub(crate) struct Listener<H: Handler> {
    /// `None` while its turn runs.
    pub(crate) acceptor: Option<Box<dyn Acceptor<H>>>,
    pub(crate) local: FaceUri,
    pub(crate) drops: DropCounters,
}

/// A transport that is read here.
pub(crate) struct Transport<H: Handler> {
    pub(crate) port: Arc<Egress<H>>,
    /// `None` while its turn runs.
    pub(crate) receiver: Option<Box<dyn Receiver<H>>>,
    pub(crate) reader: LinkReader,
    /// The value of [`FaceSender::answers`] when the transport was last served.
    pub(crate) answers: u64,
}

pub(crate) enum Source<H: Handler> {
    Listener(Listener<H>),
    Transport(Transport<H>),
}

pub(crate) struct Slot<H: Handler> {
    pub(crate) generation: u32,
    timer_ns: Option<u64>,
    /// The readiness for which it waits in `Faces::waiting`; nothing if it has no entry there.
    pub(crate) wanted: Readiness,
    /// Its descriptor is not watched for reading until it has been served.
    pub(crate) is_resting: bool,
    pub(crate) source: Option<Source<H>>,
}

/// The listeners and faces of a worker. A handler opens, closes and sends on faces here.
pub struct Faces<H: Handler> {
    pub(crate) shared: Arc<Shared<H>>,
    pub(crate) mailbox: Arc<Mailbox<H>>,
    pub(crate) slots: Vec<Slot<H>>,
    free: Vec<usize>,
    pub(crate) events: VecDeque<Event<H::Packet>>,
    pub(crate) timers: BTreeSet<(u64, SourceId)>,
    /// Link services whose timers this worker serves.
    pub(crate) link_timers: BTreeMap<(u64, SourceId), Arc<Egress<H>>>,
    /// Faces with a peer that accepts no frames, by the time of the next check.
    pub(crate) stall_timers: BTreeMap<(u64, SourceId), Weak<Egress<H>>>,
    /// Ports whose devices refused a frame, by the time of the next attempt.
    pub(crate) retry_timers: BTreeMap<(u64, SourceId), Weak<Egress<H>>>,
    /// Receiving halves of link services of faces that another worker reads.
    pub(crate) foreign: ForeignReaders<H::Packet>,
    pub(crate) reassembly_timers: ReassemblyTimers,
    /// Drops of a link service that the port has not counted yet.
    pub(crate) link_drops: LinkDrops,
    /// The number of closed ports when `foreign` was last swept.
    pub(crate) swept: u64,
    /// The sources to serve next.
    pub(crate) waiting: Waiting,
    /// Ports with queued frames, the one that waits longest first.
    pub(crate) to_flush: VecDeque<Arc<Egress<H>>>,
    /// Octets that this worker queued, less those that it sent, since it last added them to the sum
    /// over all workers.
    pub(crate) charge: isize,
    /// Messages that were taken from the mailbox and are not processed yet.
    pub(crate) messages: VecDeque<WorkerMessage<H>>,
    pub(crate) turns: IterationClock,
    /// The number of packets that were handed to the handler.
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
            turns: IterationClock::default(),
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

    /// The start of this turn, ns of [`clock::monotonic_ns`].
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the number of faces that all workers ever closed. A caller that caches ports checks
    /// them when this number has changed.
    #[inline]
    pub fn closed(&self) -> u64 {
        self.shared.limits.closed()
    }

    /// Returns true if this worker has a listener or transport with this id.
    #[inline]
    pub(crate) fn contains(&self, id: SourceId) -> bool {
        self.slots
            .get(id.index())
            .is_some_and(|slot| slot.generation == id.generation() && slot.source.is_some())
    }

    /// The addresses on which this worker listens, with their drops.
    pub fn listeners(&self) -> impl Iterator<Item = (&FaceUri, &DropCounters)> {
        self.slots.iter().filter_map(|slot| match &slot.source {
            Some(Source::Listener(listener)) => Some((&listener.local, &listener.drops)),
            _ => None,
        })
    }

    /// Stops listening on an address from [`Faces::listeners`]. Returns false if there is no such
    /// listener. Its faces stay.
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
    pub(crate) fn port(&self, id: SourceId) -> Option<&Arc<Egress<H>>> {
        let slot = self.slots.get(id.index()).filter(|slot| slot.generation == id.generation())?;
        match &slot.source {
            Some(Source::Transport(transport)) => Some(&transport.port),
            _ => None,
        }
    }

    /// Sends a packet. Its frames are written at the end of this turn.
    ///
    /// # Errors
    /// [`SendError`]; counted at the port.
    #[inline]
    pub fn send(&mut self, port: &Arc<Egress<H>>, outbound: Outbound<H::Packet>) -> Result<(), SendError> {
        let (mut total, context) = self.send_context();
        if self.shared.limits.are_queues_full(total) {
            self.relieve();
            // Read again, because the relief changes the sum.
            (total, _) = self.send_context();
        }
        let (sent, follow_up) = port.send(outbound, total, context, &mut self.charge);
        self.follow_up(port, follow_up);
        sent
    }

    /// Sends a packet with its PrefixAnnouncement, or without it if the first frame has no room for
    /// both.
    ///
    /// # Errors
    /// [`SendError`]; counted at the port.
    #[cold]
    pub fn send_announced(
        &mut self,
        port: &Arc<Egress<H>>,
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

    /// Frees memory of the queues. Drops the oldest frames in the longest queues of the owner with
    /// the most queued memory. Root loses frames only if no other owner has a port above its
    /// reserve. Each scan of all ports frees a fixed fraction of the limit, so its cost per packet
    /// is small.
    #[cold]
    fn relieve(&mut self) {
        if !self.shared.limits.may_relieve(self.now_ns) {
            return;
        }
        let mut by_holder: BTreeMap<Owner, Queues<H>> = BTreeMap::new();
        for port in self.shared.faces.ports() {
            let octets = port.queued_memory_octets();
            // A port within its reserve loses no frame.
            if octets > QUEUE_RESERVE_OCTETS {
                by_holder.entry(port.holder()).or_default().push((octets, port));
            }
        }
        let sum = |ports: &Queues<H>| ports.iter().map(|(octets, _)| *octets).sum::<usize>();
        // `false` is less than `true`, so root is chosen only if no other owner has such a port.
        let payer = by_holder.into_iter().max_by_key(|(holder, ports)| (*holder != Owner::Root, sum(ports)));
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
        // Nothing could be freed, so the next packets must not scan all ports again.
        if self.charge == before {
            self.shared.limits.rest(self.now_ns);
        }
        // Added to the sum now, so that other workers need no scan of their own.
        self.settle();
    }

    /// Passes an arrived frame to the sending half of the port's link service if it concerns
    /// reliability or probes of the path.
    ///
    /// # Errors
    /// The frame is a duplicate.
    #[inline]
    pub(crate) fn on_arrival(&mut self, port: &Arc<Egress<H>>, view: &LpView<'_>) -> Result<(), LinkDrop> {
        // Most frames do not concern the sending half, and its lock is not taken for them.
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
        // This worker's charge is not in the sum yet.
        (self.shared.limits.queued_octets() + self.charge, context)
    }

    #[inline]
    pub(crate) fn follow_up(&mut self, port: &Arc<Egress<H>>, follow_up: FollowUp) {
        if follow_up.flush {
            self.to_flush.push_back(port.clone());
        }
        if let Some((due_ns, id)) = follow_up.arm_ns.zip(port.id()) {
            self.link_timers.insert((due_ns, id), port.clone());
        }
        // Added in batches, because all workers contend for the cache line of the sum.
        if self.charge.abs() > CHARGE_OCTETS {
            self.settle();
        }
    }

    pub(crate) fn settle(&mut self) {
        self.shared.limits.charge(std::mem::take(&mut self.charge));
    }

    /// Closes a face. Writes its waiting frames as far as the socket accepts them now. Reports no
    /// event.
    pub fn close(&mut self, port: &Arc<Egress<H>>) {
        self.flush(port);
        // Only the worker that reads the face may change the slot.
        match port.id().filter(|id| id.worker() == self.worker()) {
            Some(id) => self.remove(id),
            None => port.close(),
        }
    }

    /// Ends a transport, and reports the reason.
    pub(crate) fn end(&mut self, port: Arc<Egress<H>>, reason: CloseReason) {
        let Some(id) = port.id() else { return };
        // Read before the removal, which clears the queue and the link service.
        let status = port.status();
        self.remove(id);
        self.events.push_back(Event::Closed { port, reason, status: Box::new(status) });
    }

    /// Takes down a transport that may come up again, without closing it.
    pub(crate) fn take_down(&mut self, port: &Arc<Egress<H>>, reason: CloseReason) {
        if port.lose_sender(&mut self.charge) {
            self.events.push_back(Event::Down(port.clone(), reason));
        }
    }

    pub(crate) fn remove(&mut self, id: SourceId) {
        // Cleared before the generation changes, because the id identifies the timer.
        self.set_timer(id, None);
        let Some(slot) = self.slots.get_mut(id.index()).filter(|slot| slot.generation == id.generation())
        else {
            return;
        };
        let Some(source) = slot.source.take() else { return };
        // From here on the id is invalid, and its pending events are ignored.
        slot.generation = slot.generation.wrapping_add(1);
        (slot.wanted, slot.is_resting) = (Readiness::NOTHING, false);
        self.free.push(id.index());
        if let Source::Transport(mut transport) = source {
            transport.port.shut(&mut self.charge);
            transport.reader.disarm(id, &mut self.reassembly_timers);
            self.mailbox.remove_load();
            // Last, so that a new face takes this slot of the table only after the port is shut.
            transport.port.leave();
        }
    }

    /// Makes the two halves of a new transport for the worker of `mailbox`, and adds it to the
    /// worker's load.
    pub(crate) fn new_face_sender(
        &self,
        new: NewTransport<H>,
        admission: Admission<H::Packet>,
        mailbox: &Arc<Mailbox<H>>,
    ) -> (Arc<Egress<H>>, Box<dyn Receiver<H>>) {
        let NewTransport { receiver, sender, info, local, persistency, state } = new;
        // Counted before the worker adopts it, so that a burst of new faces is spread over the
        // workers.
        mailbox.add_load();
        let is_dispatched = self.shared.dispatched.has(&local, &info.remote);
        let new = FaceSenderParts { sender, info, local, persistency, state, is_dispatched };
        let port = FaceSender::new(new, admission, mailbox.clone(), self.shared.limits.clone());
        self.shared.faces.know(&port);
        (port, receiver)
    }

    /// Opens a transport that this worker reads.
    pub(crate) fn add_transport(&mut self, new: NewTransport<H>) -> Result<Arc<Egress<H>>, OpenError> {
        // Faces that the router opens count for root.
        let (admission, evicted) =
            self.shared.faces.enter(Owner::Root).map_err(|_| OpenError::TooManyFaces)?;
        if let Some(port) = evicted {
            port.request_end(CloseReason::Evicted, self.worker());
        }
        self.add_admitted(new, admission)
    }

    /// Adds a transport that a peer opened.
    pub(crate) fn add_admitted(
        &mut self,
        new: NewTransport<H>,
        admission: Admission<H::Packet>,
    ) -> Result<Arc<Egress<H>>, OpenError> {
        let (port, receiver) = self.new_face_sender(new, admission, &self.mailbox.clone());
        self.install(port.clone(), receiver)?;
        Ok(port)
    }

    /// Adopts a transport accepted by a listener.
    pub(crate) fn adopt(
        &mut self,
        port: Arc<Egress<H>>,
        receiver: Box<dyn Receiver<H>>,
    ) -> Result<(), OpenError> {
        self.install(port.clone(), receiver)?;
        self.events.push_back(Event::Accepted(port));
        Ok(())
    }

    /// Watches a transport that the worker's load includes already.
    fn install(&mut self, port: Arc<Egress<H>>, receiver: Box<dyn Receiver<H>>) -> Result<(), OpenError> {
        let id = self.next_id();
        port.set_id(id);
        // The time in the mailbox does not count as idle.
        port.note_active(self.now_ns);
        // A socket that connects becomes writable when the attempt has ended (connect(2)).
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

    /// Adds a listener. Returns its address.
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
                wanted: Readiness::NOTHING,
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
    pub(crate) fn set_face_timer(&mut self, port: &Egress<H>, due_ns: u64) {
        if let Some(id) = port.id() {
            self.set_timer(id, Some(due_ns));
        }
    }

    /// Passes the pending events to the handler.
    pub(crate) fn dispatch(&mut self, handler: &mut H) {
        // Taken one by one, because the handler may cause further events.
        while let Some(event) = self.events.pop_front() {
            handler.event(self, event);
        }
    }

    /// Writes the waiting frames of a port, as far as the socket accepts them.
    pub(crate) fn flush(&mut self, port: &Arc<Egress<H>>) {
        let (_, context) = self.send_context();
        match port.flush(context, &mut self.charge) {
            FlushOutcome::Done => (),
            // The timer holds a weak reference, so that it does not retain a closed port.
            FlushOutcome::Blocked(due_ns) => {
                if let Some(id) = port.id() {
                    self.stall_timers.insert((due_ns, id), Arc::downgrade(port));
                }
            }
            // Queued behind the other ports, so that a fast peer does not delay them.
            FlushOutcome::More => self.to_flush.push_back(port.clone()),
            FlushOutcome::Later(due_ns) => {
                if let Some(id) = port.id() {
                    self.retry_timers.insert((due_ns, id), Arc::downgrade(port));
                }
            }
            // Only the worker that reads the face can end it.
            FlushOutcome::Failed(errno) => port.report_failure(errno, self.worker()),
        }
    }
}

impl<H: Handler> Drop for Faces<H> {
    /// When the worker ends for any reason, no thread may wait for it any longer. Messages in its
    /// mailbox hold ports, and ports hold the mailbox; the mailbox is emptied to break that cycle.
    fn drop(&mut self) {
        self.mailbox.retire();
    }
}
