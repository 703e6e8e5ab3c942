//! A port: the sending half of a face, which every worker may send on.
//!
//! Behind one lock: the sending half of the link service, the frames that wait, and who writes them. The lock is not
//! held during a system call: whoever flushes takes the writer out and puts it back, and others queue meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use namely_host::clock;
use namely_link::{Accepts, DropCounters, Frame, LinkConfig, LinkDrop, LinkKind, LinkSender, Outbound};
use namely_wire::LpView;
use namely_wire::face_uri::FaceUri;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::kind::{About, Flushed, NewTransport, Receiver, Sender};
use crate::options::Persistency;
use crate::queue::{FrameQueue, WaitingFrames};
use crate::shared::{Note, Shared, Station};
use crate::sockets::{self, Interest};
use crate::transport::{TransportCounters, TransportId, TransportStatus};

/// System calls' worth of frames that one flush of a port writes at most, while others go on queueing.
const ROUNDS_MAX: usize = 4;

/// Whether a transport can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportState {
    /// Connecting for the first time.
    Connecting,
    /// Frames pass.
    Up,
    /// A permanent transport without its peer.
    Down,
}

/// Why a packet cannot be sent now. Counted at the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The transport is closed.
    Gone,
    /// The transport has no peer at present.
    Down,
    /// As much waits as may wait.
    QueueFull,
    /// The link cannot carry the packet.
    Link(LinkDrop),
}

/// What one flush did.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) frames: u64,
    pub(crate) octets: u64,
    pub(crate) drops: DropCounters,
    /// The longest frame that reaches the peer in one piece, octets, when it has become another one.
    pub(crate) path_octets: Option<usize>,
}

/// The sending half of a face.
pub struct Port<P> {
    pub(crate) about: About,
    pub(crate) station: Arc<Station<P>>,
    shared: Arc<Shared<P>>,
    id: OnceLock<TransportId>,
    is_closed: AtomicBool,
    local_fields: AtomicBool,
    is_reliable: AtomicBool,
    in_frames: AtomicU64,
    in_octets: AtomicU64,
    pub(crate) active_ns: AtomicU64,
    /// The longest frame that the link carries, octets; 0 where only the configuration can tell.
    mtu: AtomicUsize,
    /// The longest frame that reaches the peer in one piece, octets; 0 where there is no telling.
    path_octets: AtomicUsize,
    receive_drops: Mutex<DropCounters>,
    outlet: Mutex<Outlet<P>>,
}

/// What the lock is for.
struct Outlet<P> {
    state: TransportState,
    persistency: Persistency,
    local: FaceUri,
    link: LinkSender<P>,
    queue: WaitingFrames<P>,
    /// None while someone writes.
    writer: Option<Box<Writer<P>>>,
    /// Counts up when a writer that is out must not come back.
    epoch: u32,
    /// What a writer that is out has with it, octets and octets of memory.
    in_flight: (usize, usize),
    /// Nothing more is taken: the reading worker waits until something is.
    is_blocked: bool,
    /// The workers that will flush at the end of their turn, a bit for each.
    flushers: u64,
    /// The earliest time at which some worker serves the link's timer.
    timer_ns: Option<u64>,
    counters: TransportCounters,
}

struct Writer<P> {
    sender: Box<dyn Sender<P>>,
    frames: FrameQueue<P>,
}

/// What a worker must do after it queued something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aftermath {
    /// Flush at the end of the turn.
    pub(crate) flush: bool,
    /// Serve the link's timer at this time.
    pub(crate) arm_ns: Option<u64>,
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushEnd {
    /// Nothing is left to do here.
    Done,
    /// Again in the next turn.
    More,
    Failed(Errno),
}

impl<P: AsRef<[u8]> + Clone> Port<P> {
    /// The port of a new transport that `station` will read, and the half that goes there.
    pub(crate) fn new(
        new: NewTransport<P>,
        station: Arc<Station<P>>,
        shared: Arc<Shared<P>>,
    ) -> (Arc<Self>, Box<dyn Receiver<P>>) {
        let NewTransport { receiver, sender, about, local, persistency, state } = new;
        let kind = LinkKind::Stream;
        let outlet = Outlet {
            state,
            persistency,
            local,
            link: LinkSender::new(LinkConfig { marking: false, ..LinkConfig::new(kind) }, 0),
            queue: WaitingFrames::new(),
            writer: Some(Box::new(Writer { sender, frames: FrameQueue::new() })),
            epoch: 0,
            in_flight: (0, 0),
            is_blocked: false,
            flushers: 0,
            timer_ns: None,
            counters: TransportCounters::default(),
        };
        let mtu = AtomicUsize::new(about.mtu.unwrap_or(0));
        let path_octets = AtomicUsize::new(about.path_octets.unwrap_or(0));
        let port = Port {
            about,
            station,
            shared,
            id: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            local_fields: AtomicBool::new(false),
            is_reliable: AtomicBool::new(false),
            in_frames: AtomicU64::new(0),
            in_octets: AtomicU64::new(0),
            active_ns: AtomicU64::new(0),
            mtu,
            path_octets,
            receive_drops: Mutex::default(),
            outlet: Mutex::new(outlet),
        };
        (Arc::new(port), receiver)
    }

    /// The id under which its worker reads it; none before the worker has taken it up.
    pub fn id(&self) -> Option<TransportId> {
        self.id.get().copied()
    }

    pub(crate) fn set_id(&self, id: TransportId) {
        // It is set once: a port is taken up by one worker.
        let _ = self.id.set(id);
    }

    /// Whether it is closed. Nothing is sent on it then, and its place in tables can be given up.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The peer's user, where the system tells it.
    pub fn credentials(&self) -> Option<crate::Credentials> {
        self.about.credentials
    }

    /// Gives the port its link service.
    pub fn set_link(&self, link: LinkSender<P>) {
        let mut outlet = self.outlet.lock();
        outlet.link = link;
        self.note_config(&mut outlet);
    }

    /// The settings of its link service.
    pub fn link_config(&self) -> LinkConfig {
        *self.outlet.lock().link.config()
    }

    /// Changes the settings of its link service.
    pub fn reconfigure(&self, config: LinkConfig) {
        let mut outlet = self.outlet.lock();
        outlet.link.reconfigure(config);
        self.note_config(&mut outlet);
    }

    /// The longest frame that the link carries is another one. What management set below it stays.
    pub(crate) fn set_mtu(&self, octets: usize, before: Option<usize>) {
        self.mtu.store(octets, Ordering::Relaxed);
        let mut outlet = self.outlet.lock();
        let mut config = *outlet.link.config();
        if let LinkKind::Datagram { mtu } = &mut config.kind
            && (*mtu > octets || before.is_none_or(|before| *mtu >= before))
        {
            *mtu = octets.clamp(namely_link::MTU_OCTETS_MIN, namely_wire::LP_PACKET_OCTETS_MAX);
            outlet.link.reconfigure(config);
        }
    }

    /// The path to the peer carries other frames in one piece than before. Fragments are made for it from now on, unless
    /// management set another length.
    pub(crate) fn follow_path(&self, octets: usize) {
        self.follow_path_with(&mut self.outlet.lock(), octets);
    }

    fn follow_path_with(&self, outlet: &mut Outlet<P>, octets: usize) {
        let before = self.path_octets.swap(octets, Ordering::Relaxed);
        let mut config = *outlet.link.config();
        if let LinkKind::Datagram { mtu } = &mut config.kind
            && *mtu == path_mtu(before)
            && before != octets
        {
            *mtu = path_mtu(octets);
            tracing::debug!(remote = %self.about.remote, mtu = *mtu, "the path's MTU");
            outlet.link.reconfigure(config);
            self.note_config(outlet);
        }
    }

    fn note_config(&self, outlet: &mut Outlet<P>) {
        let config = *outlet.link.config();
        self.local_fields.store(config.local_fields, Ordering::Relaxed);
        self.is_reliable.store(config.reliability, Ordering::Relaxed);
        // What management set holds, whatever the path.
        let told = self.path_octets.load(Ordering::Relaxed);
        let follows = told > 0 && config.kind == LinkKind::Datagram { mtu: path_mtu(told) };
        outlet.link.discover_path(follows);
    }

    /// What the receiving half of the link service accepts at present.
    #[inline]
    pub fn accepts(&self) -> Accepts {
        let kind = match self.about.carrier {
            crate::Carrier::Stream => LinkKind::Stream,
            // The MTU is for sending only.
            crate::Carrier::Datagrams => LinkKind::Datagram { mtu: 0 },
        };
        Accepts { kind, local_fields: self.local_fields.load(Ordering::Relaxed) }
    }

    /// Whether an arrived frame concerns the sending half of the link service. Of a group nobody answers probes: all would.
    #[inline]
    pub(crate) fn is_concerned(&self, view: &LpView<'_>) -> bool {
        self.is_reliable.load(Ordering::Relaxed)
            || view.fragment.is_none() && self.about.reach != crate::Reach::Group
    }

    /// Counts what arrived.
    #[inline]
    pub(crate) fn count_arrived(&self, frames: u64, octets: u64) {
        self.in_frames.fetch_add(frames, Ordering::Relaxed);
        self.in_octets.fetch_add(octets, Ordering::Relaxed);
    }

    /// Counts drops of the receiving half.
    pub fn count_receive_drops(&self, drops: &DropCounters) {
        self.receive_drops.lock().merge(drops);
    }

    /// Counts one drop of the receiving half.
    pub fn count_receive_drop(&self, label: &'static str) {
        self.receive_drops.lock().count(label);
    }

    /// Whether it can send.
    pub fn state(&self) -> TransportState {
        self.outlet.lock().state
    }

    /// How long it stays.
    pub(crate) fn persistency(&self) -> Persistency {
        self.outlet.lock().persistency
    }

    /// When it is closed for being idle, ns.
    pub(crate) fn expires_ns(&self) -> Option<u64> {
        let idle_ns = self.about.idle_ns.filter(|_| self.persistency() == Persistency::OnDemand)?;
        Some(self.active_ns.load(Ordering::Relaxed).saturating_add(idle_ns))
    }

    /// What can be seen of it.
    pub fn status(&self) -> TransportStatus {
        let expires_ns = self.expires_ns();
        let outlet = self.outlet.lock();
        let mut counters = outlet.counters.clone();
        counters.in_frames = self.in_frames.load(Ordering::Relaxed);
        counters.in_octets = self.in_octets.load(Ordering::Relaxed);
        counters.drops.merge(&self.receive_drops.lock());
        counters.drops.merge(outlet.link.drops());
        TransportStatus {
            remote: self.about.remote.clone(),
            local: outlet.local.clone(),
            reach: self.about.reach,
            carrier: self.about.carrier,
            mtu: Some(self.mtu.load(Ordering::Relaxed)).filter(|mtu| *mtu > 0),
            path_mtu: Some(self.path_octets.load(Ordering::Relaxed)).filter(|path| *path > 0).map(path_mtu),
            frame_octets_max: outlet.link.mtu(),
            state: outlet.state,
            persistency: outlet.persistency,
            credentials: self.about.credentials,
            queue_octets: outlet.waiting().0,
            expires_ns,
            socket_inode: self.about.socket_inode,
            counters,
        }
    }

    /// Changes persistency.
    ///
    /// # Errors
    /// Caller: what is impossible on this kind of transport, in words.
    pub fn set_persistency(&self, persistency: Persistency) -> Result<(), &'static str> {
        if let Some(why) = (self.about.refuses)(persistency) {
            return Err(why);
        }
        self.outlet.lock().persistency = persistency;
        if let Some(id) = self.id()
            && persistency == Persistency::OnDemand
        {
            self.station.post(Note::RunTimer(id), None);
        }
        Ok(())
    }

    /// Closes the transport: what waits is written as far as it is taken now, and the rest is dropped. Nobody is
    /// waited for; the worker that reads it gives up its half soon.
    pub fn close(&self) {
        let mut charge = 0;
        self.flush(SendTurn { flusher: 0, now_ns: clock::monotonic_ns() }, &mut charge);
        self.shut(&mut charge);
        self.shared.charge(charge);
        if let Some(id) = self.id() {
            self.station.post(Note::Forget(id), None);
        }
    }

    /// Ends the sending half.
    pub(crate) fn shut(&self, charge: &mut isize) {
        self.is_closed.store(true, Ordering::Release);
        let mut outlet = self.outlet.lock();
        outlet.state = TransportState::Down;
        outlet.clear(charge);
    }

    /// Queues a packet's frames if there is room.
    #[inline]
    pub(crate) fn send(
        &self,
        outbound: Outbound<P>,
        total_octets: isize,
        turn: SendTurn,
        charge: &mut isize,
    ) -> Result<Aftermath, SendError> {
        let mut outlet = self.outlet.lock();
        outlet.admit(self, total_octets)?;
        let Outlet { link, queue, .. } = &mut *outlet;
        let before = queue.memory_octets();
        let mut begins_packet = true;
        let sent = link.send(outbound, turn.now_ns, &mut |frame| {
            queue.push(frame, std::mem::take(&mut begins_packet), turn.now_ns);
        });
        *charge += (queue.memory_octets() - before) as isize;
        sent.map_err(SendError::Link)?;
        Ok(outlet.aftermath(turn))
    }

    /// Queues a frame if there is room.
    pub(crate) fn push(
        &self,
        frame: Frame<P>,
        total_octets: isize,
        turn: SendTurn,
        charge: &mut isize,
    ) -> Result<Aftermath, SendError> {
        let mut outlet = self.outlet.lock();
        outlet.admit(self, total_octets)?;
        let before = outlet.queue.memory_octets();
        outlet.queue.push(frame, true, turn.now_ns);
        *charge += (outlet.queue.memory_octets() - before) as isize;
        Ok(outlet.aftermath(turn))
    }

    /// Shows an arrived frame to the reliability service.
    pub(crate) fn on_arrival(
        &self,
        view: &LpView<'_>,
        total_octets: isize,
        turn: SendTurn,
        charge: &mut isize,
    ) -> (Result<(), LinkDrop>, Aftermath) {
        let mut outlet = self.outlet.lock();
        let arrived = self.with_link(&mut outlet, total_octets, turn.now_ns, charge, |link, emit| {
            link.on_arrival(view, turn.now_ns, &mut |frame| emit(frame))
        });
        (arrived, outlet.aftermath(turn))
    }

    /// Serves the link's timer.
    pub(crate) fn tick(&self, total_octets: isize, turn: SendTurn, charge: &mut isize) -> Aftermath {
        let mut outlet = self.outlet.lock();
        if outlet.timer_ns.is_none_or(|timer_ns| timer_ns > turn.now_ns) {
            return Aftermath::default();
        }
        outlet.timer_ns = None;
        self.with_link(&mut outlet, total_octets, turn.now_ns, charge, |link, emit| {
            link.tick(turn.now_ns, &mut |frame| emit(frame));
        });
        outlet.aftermath(turn)
    }

    /// Lets the link service emit frames, each of which is queued if there is room.
    fn with_link<T>(
        &self,
        outlet: &mut Outlet<P>,
        total_octets: isize,
        now_ns: u64,
        charge: &mut isize,
        work: impl FnOnce(&mut LinkSender<P>, &mut dyn FnMut(Frame<P>)) -> T,
    ) -> T {
        let (mut frames, before) = (Vec::new(), outlet.link.mtu());
        let worked = work(&mut outlet.link, &mut |frame| frames.push(frame));
        let mtu = outlet.link.mtu();
        if mtu < before {
            let remote = &self.about.remote;
            tracing::info!(%remote, mtu, "the path loses long datagrams and nobody says so: the face makes shorter ones");
        }
        for frame in frames {
            if outlet.admit(self, total_octets).is_ok() {
                let before = outlet.queue.memory_octets();
                outlet.queue.push(frame, true, now_ns);
                *charge += (outlet.queue.memory_octets() - before) as isize;
            }
        }
        worked
    }

    /// Writes what waits, as far as it is taken. `turn` says who does so.
    pub(crate) fn flush(&self, turn: SendTurn, charge: &mut isize) -> FlushEnd {
        let mut outlet = self.outlet.lock();
        outlet.flushers &= !turn.flusher;
        for _ in 0..ROUNDS_MAX {
            if outlet.state != TransportState::Up {
                return FlushEnd::Done;
            }
            // Without a writer, someone else writes just now and will see what was queued.
            let Some(mut writer) = outlet.writer.take() else { return FlushEnd::Done };
            if writer.frames.is_empty() {
                *charge -= outlet.refill(&mut writer, turn.now_ns);
            }
            if writer.frames.is_empty() {
                outlet.writer = Some(writer);
                return FlushEnd::Done;
            }
            let (epoch, before) = (outlet.epoch, writer.frames.memory_octets());
            outlet.in_flight = (writer.frames.octets(), before);
            drop(outlet);
            let mut sent = Sent::default();
            let flushed = writer.sender.flush(&mut writer.frames, &mut sent);
            let after = writer.frames.memory_octets();
            *charge += after as isize - before as isize;
            outlet = self.outlet.lock();
            outlet.count(&sent);
            if let Some(octets) = sent.path_octets {
                self.follow_path_with(&mut outlet, octets);
            }
            if outlet.epoch != epoch {
                *charge -= after as isize;
                outlet.count_cleared(writer.frames.clear());
                return FlushEnd::Done;
            }
            outlet.in_flight = (writer.frames.octets(), after);
            self.watch(&mut outlet, &*writer.sender, flushed == Ok(Flushed::Blocked));
            outlet.writer = Some(writer);
            match flushed {
                Ok(Flushed::All) => (),
                Ok(Flushed::Some) => return FlushEnd::More,
                Ok(Flushed::Blocked) => return FlushEnd::Done,
                Err(errno) => return FlushEnd::Failed(errno),
            }
        }
        if outlet.queue.is_empty() { FlushEnd::Done } else { FlushEnd::More }
    }

    /// Has the reading worker wait until more is taken, or no longer.
    fn watch(&self, outlet: &mut Outlet<P>, sender: &dyn Sender<P>, is_blocked: bool) {
        if is_blocked == outlet.is_blocked {
            return;
        }
        outlet.is_blocked = is_blocked;
        let (Some(socket), Some(id)) = (sender.descriptor(), self.id()) else { return };
        let epoll = &self.station.epoll;
        match (sender.shares_descriptor(), is_blocked) {
            (true, true) => sockets::rewatch(epoll, socket, id, Interest::Both),
            (true, false) => sockets::rewatch(epoll, socket, id, Interest::Read),
            (false, true) => {
                let _ = sockets::watch(epoll, socket, id, Interest::Write);
            }
            (false, false) => {
                let _ = rustix::event::epoll::delete(epoll, socket);
            }
        }
    }

    /// The transport lost its peer, or has it back, or a new socket.
    pub(crate) fn set_state(&self, state: TransportState) {
        self.outlet.lock().state = state;
    }

    pub(crate) fn set_local(&self, local: FaceUri) {
        self.outlet.lock().local = local;
    }

    /// The transport is down: what waits is dropped, and nothing is written until there is another sender. Returns
    /// whether it was not down before.
    pub(crate) fn lose_sender(&self, charge: &mut isize) -> bool {
        let mut outlet = self.outlet.lock();
        let was_down = outlet.state == TransportState::Down;
        outlet.state = TransportState::Down;
        outlet.clear(charge);
        !was_down
    }

    /// Sends by another sender from now on, what the last one had as well. Whoever writes with that just now drops the rest.
    pub(crate) fn set_sender(&self, sender: Box<dyn Sender<P>>) {
        let mut outlet = self.outlet.lock();
        let frames = match outlet.writer.take() {
            Some(writer) => writer.frames,
            None => {
                outlet.epoch = outlet.epoch.wrapping_add(1);
                outlet.in_flight = (0, 0);
                FrameQueue::new()
            }
        };
        outlet.is_blocked = false;
        outlet.writer = Some(Box::new(Writer { sender, frames }));
    }
}

/// The longest frame to send where `octets` reach the peer in one piece.
fn path_mtu(octets: usize) -> usize {
    octets.clamp(namely_link::MTU_OCTETS_MIN, namely_wire::PACKET_OCTETS_MAX)
}

/// Who sends, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendTurn {
    /// The bit of the worker.
    pub(crate) flusher: u64,
    pub(crate) now_ns: u64,
}

impl<P: AsRef<[u8]> + Clone> Outlet<P> {
    /// Octets that wait, and octets of memory.
    #[inline]
    fn waiting(&self) -> (usize, usize) {
        // The writer's frames are counted as in flight, whether it is out or has come back.
        (self.queue.octets() + self.in_flight.0, self.queue.memory_octets() + self.in_flight.1)
    }

    /// Whether another packet is taken. Otherwise it counts as dropped.
    #[inline]
    fn admit(&mut self, port: &Port<P>, total_octets: isize) -> Result<(), SendError> {
        let options = &port.shared.options;
        let (_, memory_octets) = self.waiting();
        let (refused, label) = match self.state {
            TransportState::Up if memory_octets >= options.queue_octets_max => {
                (SendError::QueueFull, "queue_full")
            }
            TransportState::Up
                if total_octets >= 0 && total_octets as usize >= options.queue_octets_total_max =>
            {
                (SendError::QueueFull, "queues_full")
            }
            TransportState::Up => return Ok(()),
            _ if port.is_closed() => (SendError::Gone, "down"),
            _ => (SendError::Down, "down"),
        };
        self.counters.drops.count(label);
        Err(refused)
    }

    /// Gives the writer what it is to write next. Returns the octets of memory of what was dropped instead.
    fn refill(&mut self, writer: &mut Writer<P>, now_ns: u64) -> isize {
        let judged = self.queue.take(&mut writer.frames, &self.link.config().codel, now_ns);
        if judged.marks {
            self.link.mark_next();
        }
        if judged.dropped > 0 {
            self.counters.drops.add("codel", judged.dropped);
        }
        judged.dropped_memory_octets as isize
    }

    /// What the worker that queued something must do.
    #[inline]
    fn aftermath(&mut self, turn: SendTurn) -> Aftermath {
        let flush = !self.queue.is_empty() && !self.is_blocked && self.flushers & turn.flusher == 0;
        if flush {
            self.flushers |= turn.flusher;
        }
        let arm_ns =
            self.link.due_ns().filter(|due_ns| self.timer_ns.is_none_or(|timer_ns| timer_ns > *due_ns));
        if arm_ns.is_some() {
            self.timer_ns = arm_ns;
        }
        Aftermath { flush, arm_ns }
    }

    fn count(&mut self, sent: &Sent) {
        self.counters.out_frames += sent.frames;
        self.counters.out_octets += sent.octets;
        self.counters.drops.merge(&sent.drops);
    }

    fn count_cleared(&mut self, frames: u64) {
        if frames > 0 {
            self.counters.drops.add("down", frames);
        }
    }

    /// Drops what waits, and the writer with it, wherever it is.
    fn clear(&mut self, charge: &mut isize) {
        *charge -= self.queue.memory_octets() as isize;
        let mut frames = self.queue.clear();
        if let Some(mut writer) = self.writer.take() {
            *charge -= writer.frames.memory_octets() as isize;
            frames += writer.frames.clear();
        }
        self.count_cleared(frames);
        self.epoch = self.epoch.wrapping_add(1);
        self.in_flight = (0, 0);
        self.is_blocked = false;
    }
}
