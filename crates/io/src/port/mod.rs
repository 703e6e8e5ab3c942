//! A port: the sending half of a face, on which every worker may send, and the face's state.
//!
//! One lock protects the sending half of the link service, the waiting frames, and the writer. The
//! lock is not held during a system call, except the one that changes the watch of a descriptor.

mod flush;
mod mtu;
mod send;
mod since_arrival;
mod state;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::drops::DropCounters;
use namely_host::clock;
use namely_host::shares::Owner;
use namely_link::{LinkConfig, LinkDrops, LinkKind, LinkSender, ReceivePolicy};
use namely_messages::FacePersistency;
use namely_wire::{FaceUri, LpView};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::error::CloseReason;
use crate::face_table::{Admission, FaceKey};
use crate::id::SourceId;
use crate::limits::Limits;
use crate::owner::{self, OwnerError};
use crate::sender::Sender;
use crate::status::{Carrier, Credentials, FaceSnapshot, FaceState, FaceTag, LinkInfo, RemoteKind};
use state::FaceSenderState;
pub use state::SendError;
pub(crate) use state::{FlushOutcome, FollowUp, SendContext};

/// The interface of a port to the worker that reads the face.
pub(crate) trait ReadingWorker: Send + Sync {
    /// Returns its number.
    fn index(&self) -> usize;

    /// Returns its epoll instance.
    fn epoll(&self) -> BorrowedFd<'_>;

    /// Sends it a request, and wakes it unless it is worker `from` itself.
    fn request(&self, request: ReaderRequest, from: Option<usize>);
}

/// Requests that only the worker that reads a face can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderRequest {
    /// Writing failed.
    Failed(SourceId, Errno),
    /// The port was closed.
    Forget(SourceId),
    /// A condition of the transport's timer has changed, so its timer must run.
    RunTimer(SourceId),
    /// The face must end.
    End(SourceId, CloseReason),
    /// The peer has accepted no frame for too long.
    Stalled(SourceId),
}

/// The sending half of a face.
pub struct FaceSender<P> {
    pub(crate) info: LinkInfo,
    reader: Arc<dyn ReadingWorker>,
    limits: Arc<Limits>,
    /// Its slot in the table of faces. `None` after the face ended.
    admission: Mutex<Option<Admission<P>>>,
    id: OnceLock<SourceId>,
    tag: OnceLock<FaceTag>,
    is_dispatched: bool,
    /// Whether its packets are passed to `Handler::watched` before `Handler::packet`.
    is_watched: AtomicBool,
    /// Whether only a caller, and not a change of the link, may make frames longer.
    holds_mtu: AtomicBool,
    is_closed: AtomicBool,
    mirror: Mirror,
    arrivals: Arrivals,
    /// The number of packets that were admitted for sending, except Nacks.
    answers: AtomicU64,
    /// Whether a frame was ever sent.
    pub(super) is_answered: AtomicBool,
    /// The longest frame that the link carries, octets; 0 if only the configuration determines it.
    mtu: AtomicUsize,
    /// The longest frame that reaches the peer in one piece, octets; 0 if it is unknown.
    path_octets: AtomicUsize,
    owner: OnceLock<Result<u32, OwnerError>>,
    /// The inode of its datagram socket; 0 if it has none.
    socket_inode: AtomicU64,
    state: Mutex<FaceSenderState<P>>,
}

/// Copies of values under the lock, which the receiving side reads without the lock. A change of
/// settings may take effect a packet later.
#[derive(Debug, Default)]
struct Mirror {
    local_fields: AtomicBool,
    is_reliable: AtomicBool,
    is_unproven: AtomicBool,
}

/// Counters of arrivals.
#[derive(Debug, Default)]
struct Arrivals {
    frames: AtomicU64,
    octets: AtomicU64,
    /// The time of the last arrival, ns.
    last_ns: AtomicU64,
    drops: Mutex<DropCounters>,
}

/// The parts of a new port.
pub(crate) struct FaceSenderParts<P> {
    pub(crate) sender: Box<dyn Sender<P>>,
    pub(crate) info: LinkInfo,
    pub(crate) local: FaceUri,
    pub(crate) persistency: FacePersistency,
    pub(crate) state: FaceState,
    /// Whether the worker that reads its packets hands them to other workers.
    pub(crate) is_dispatched: bool,
}

impl<P> FaceSender<P> {
    /// Returns the tag by which other crates identify the face, or `None` before it is set.
    #[inline]
    pub fn tag(&self) -> Option<FaceTag> {
        self.tag.get().copied()
    }

    /// The number of the worker that reads the face.
    pub(crate) fn worker(&self) -> usize {
        self.reader.index()
    }
}

impl<P: AsRef<[u8]> + Clone> FaceSender<P> {
    /// Makes the port of a transport that `reader` will read.
    pub(crate) fn new(
        new: FaceSenderParts<P>,
        admission: Admission<P>,
        reader: Arc<dyn ReadingWorker>,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        let FaceSenderParts { sender, info, local, persistency, state, is_dispatched } = new;
        let mtu = AtomicUsize::new(info.mtu.unwrap_or(0));
        let path_octets = AtomicUsize::new(info.path_octets.unwrap_or(0));
        let socket_inode = AtomicU64::new(info.socket_inode.unwrap_or(0));
        Arc::new(FaceSender {
            info,
            reader,
            limits,
            admission: Mutex::new(Some(admission)),
            id: OnceLock::new(),
            tag: OnceLock::new(),
            is_dispatched,
            is_watched: AtomicBool::new(false),
            holds_mtu: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            mirror: Mirror::default(),
            // The idle time of a new face begins now.
            arrivals: Arrivals { last_ns: AtomicU64::new(clock::monotonic_ns()), ..Arrivals::default() },
            answers: AtomicU64::new(0),
            is_answered: AtomicBool::new(false),
            mtu,
            path_octets,
            owner: OnceLock::new(),
            socket_inode,
            state: Mutex::new(FaceSenderState::new(sender, local, persistency, state)),
        })
    }

    /// Returns its id at the worker that reads it, or `None` before that worker has adopted it.
    pub(crate) fn id(&self) -> Option<SourceId> {
        self.id.get().copied()
    }

    pub(crate) fn set_id(&self, id: SourceId) {
        // It is set once, because one worker adopts a port.
        let _ = self.id.set(id);
    }

    /// Sets the tag by which other crates identify the face. Its packets are handed to the handler
    /// from now on. Packets that arrived earlier were dropped. A second tag is ignored.
    pub fn set_tag(&self, tag: FaceTag) {
        let _ = self.tag.set(tag);
    }

    /// Returns true if it is closed. A closed port sends nothing, and tables can drop it.
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the swap in `shut`.
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns true if, by the configuration, the reading worker hands packets of this link to
    /// other workers.
    #[inline]
    pub fn is_dispatched(&self) -> bool {
        self.is_dispatched
    }

    /// Passes each packet of the face to [`Handler::watched`](crate::Handler::watched) first from
    /// now on.
    pub fn inspect_first(&self) {
        // Relaxed: the tag is set after this, and packets are handed over only with a tag.
        self.is_watched.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Prevents changes of the link's MTU from making the face's frames longer. They may still make
    /// them shorter. It is for callers that know the peer's maximum.
    pub fn hold_mtu(&self) {
        // Relaxed: a change of the MTU at this moment may precede the call.
        self.holds_mtu.store(true, Ordering::Relaxed);
    }

    /// Returns the far end.
    pub fn remote(&self) -> &FaceUri {
        &self.info.remote
    }

    /// Returns the kind of the far end.
    pub fn reach(&self) -> RemoteKind {
        self.info.reach
    }

    /// Returns the owner to whose quota the face counts.
    pub fn holder(&self) -> Owner {
        self.info.holder
    }

    /// Returns true if a frame was ever sent to the peer, or the face has no idle timeout.
    pub(crate) fn is_answered(&self) -> bool {
        self.info.idle_ns.is_none() || self.is_answered.load(Ordering::Relaxed)
    }

    /// Returns its key in the table of faces.
    pub(crate) fn face_key(&self) -> Option<FaceKey> {
        self.admission.lock().as_ref().map(Admission::face_key)
    }

    /// Releases its slot in the table of faces.
    pub(crate) fn leave(&self) {
        let admission = self.admission.lock().take();
        // Dropped without this lock, because the drop locks the table.
        drop(admission);
    }

    /// Returns the credentials of the peer, if the system reports them.
    pub fn credentials(&self) -> Option<Credentials> {
        self.info.credentials
    }

    /// Returns the local user at the other end of the loopback: the owner of a TCP or WebSocket
    /// connection that an application made, or of the source address of datagrams. Returns `None`
    /// for any other face. A worker must not call this, because it queries the kernel. For a
    /// connection it does so once.
    pub fn look_up_owner(&self) -> Option<Result<u32, OwnerError>> {
        let state = self.state.lock();
        let is_accepted = state.persistency == FacePersistency::OnDemand;
        let local = state.local.address().filter(|_| is_accepted);
        // Released before the kernel is queried.
        drop(state);
        let (peer, local) = (self.info.remote.address()?, local?);
        match self.info.remote {
            FaceUri::Udp(_) if peer.ip().is_loopback() => Some(owner::datagram_owner(peer)),
            FaceUri::Tcp(_) | FaceUri::WsClient(_) if self.info.reach == RemoteKind::Local => {
                // A connection keeps its owner. Each datagram may have another one.
                Some(*self.owner.get_or_init(|| owner::owner(peer, local)))
            }
            _ => None,
        }
    }

    /// Returns the owner of a connection that [`FaceSender::look_up_owner`] has found.
    pub fn owner(&self) -> Option<u32> {
        self.owner.get().and_then(|owner| owner.ok())
    }

    /// Sets the sending half of the link service.
    pub fn set_link(&self, link: LinkSender<P>) {
        let mut state = self.state.lock();
        state.link = link;
        self.note_config(&mut state);
    }

    /// Returns the settings of its link service.
    pub fn link_config(&self) -> LinkConfig {
        *self.state.lock().link.config()
    }

    /// Changes the settings of its link service.
    pub fn reconfigure(&self, config: LinkConfig) {
        let mut state = self.state.lock();
        state.link.reconfigure(config);
        self.note_config(&mut state);
    }

    /// Returns the kind of frames and the fields that the receiving half of the link service
    /// accepts now.
    #[inline]
    pub(crate) fn accepts(&self) -> ReceivePolicy {
        let kind = match self.info.carrier {
            Carrier::Stream => LinkKind::Stream,
            // The MTU is for sending only.
            Carrier::Datagrams => LinkKind::Datagram { mtu: 0 },
        };
        ReceivePolicy { kind, local_fields: self.mirror.local_fields.load(Ordering::Relaxed) }
    }

    /// Returns true if an arrived frame concerns the sending half of the link service. Probes to a
    /// group are not answered, because all its members would.
    #[inline]
    pub(crate) fn is_concerned(&self, view: &LpView<'_>) -> bool {
        self.mirror.is_reliable.load(Ordering::Relaxed)
            || view.fragment.is_none() && self.info.reach != RemoteKind::Group
    }

    /// Returns true if the peer has not proven yet that it receives the frames sent to it.
    #[inline]
    pub(crate) fn is_unproven(&self) -> bool {
        self.mirror.is_unproven.load(Ordering::Relaxed)
    }

    /// Counts arrived frames and octets.
    #[inline]
    pub(crate) fn count_arrived(&self, frames: u64, octets: u64) {
        // Additions, not stores: frames of a group may arrive at several workers.
        self.arrivals.frames.fetch_add(frames, Ordering::Relaxed);
        self.arrivals.octets.fetch_add(octets, Ordering::Relaxed);
    }

    /// Returns the time of the last arrival, ns.
    #[inline]
    pub(crate) fn active_ns(&self) -> u64 {
        self.arrivals.last_ns.load(Ordering::Relaxed)
    }

    /// Records the time of an arrival.
    #[inline]
    pub(crate) fn note_active(&self, now_ns: u64) {
        // Relaxed: a stale time only shifts an eviction or the end of an idle face.
        self.arrivals.last_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Returns the number of packets that were admitted for sending, except Nacks.
    #[inline]
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Counts drops of the receiving half.
    pub(crate) fn count_receive_drops(&self, drops: &LinkDrops) {
        self.arrivals.drops.lock().merge_link(drops);
    }

    /// Counts one drop of the receiving half.
    pub fn count_receive_drop(&self, label: &'static str) {
        self.arrivals.drops.lock().count(label);
    }

    /// Counts a frame that the system reported as not received.
    pub(crate) fn count_failure(&self) {
        self.state.lock().since_arrival.on_failure(self.arrived(), 1);
    }

    /// Returns the number of frames that have arrived.
    #[inline]
    pub(super) fn arrived(&self) -> u64 {
        // Relaxed: a count that is a frame old only delays a reset.
        self.arrivals.frames.load(Ordering::Relaxed)
    }

    /// Returns true if it can send.
    pub(crate) fn state(&self) -> FaceState {
        self.state.lock().state
    }

    /// Sets whether the face can send.
    pub(crate) fn set_state(&self, state: FaceState) {
        self.state.lock().state = state;
    }

    pub(crate) fn set_local(&self, local: FaceUri) {
        self.state.lock().local = local;
    }

    /// Sets the inode of its new socket. Drops that the kernel counted for the former one are lost.
    pub(crate) fn set_socket_inode(&self, inode: u64) {
        // Relaxed: only the status reads it.
        self.socket_inode.store(inode, Ordering::Relaxed);
    }

    /// Returns its persistency.
    pub(crate) fn persistency(&self) -> FacePersistency {
        self.state.lock().persistency
    }

    /// Returns the time at which it will be closed if it stays idle, ns. Returns `None` if it has
    /// no idle timeout.
    pub(crate) fn expires_ns(&self) -> Option<u64> {
        let idle = self.info.idle_ns.filter(|_| self.persistency() == FacePersistency::OnDemand)?;
        // A single frame without an answer may have a forged source.
        let is_single_frame = self.arrivals.frames.load(Ordering::Relaxed) <= 1 && !self.is_answered();
        let idle_ns = if is_single_frame { idle.unanswered_ns } else { idle.answered_ns };
        Some(self.active_ns().saturating_add(idle_ns))
    }

    /// Returns the octets of the frames that it has received and sent.
    pub fn octets(&self) -> [u64; 2] {
        [self.arrivals.octets.load(Ordering::Relaxed), self.state.lock().counters.out_octets]
    }

    /// Returns a snapshot of its state and counters.
    pub fn status(&self) -> FaceSnapshot {
        // Called before the lock is taken, because it takes the lock itself.
        let expires_ns = self.expires_ns();
        let state = self.state.lock();
        let mut counters = state.counters.clone();
        counters.in_frames = self.arrivals.frames.load(Ordering::Relaxed);
        counters.in_octets = self.arrivals.octets.load(Ordering::Relaxed);
        // This lock nests under that of the state. No code takes the two in the other order.
        counters.drops.merge(&self.arrivals.drops.lock());
        counters.drops.merge_link(state.link.drops());
        FaceSnapshot {
            remote: self.info.remote.clone(),
            local: state.local.clone(),
            reach: self.info.reach,
            carrier: self.info.carrier,
            mtu: Some(self.mtu.load(Ordering::Relaxed)).filter(|mtu| *mtu > 0),
            path_mtu: self.path_mtu(),
            frame_octets_max: state.link.mtu(),
            state: state.state,
            persistency: state.persistency,
            credentials: self.info.credentials,
            queue_octets: state.waiting().0,
            expires_ns,
            socket_inode: Some(self.socket_inode.load(Ordering::Relaxed)).filter(|inode| *inode > 0),
            active_ns: self.active_ns(),
            unanswered: state.since_arrival.report(counters.in_frames),
            counters,
        }
    }

    /// Changes the persistency.
    ///
    /// # Errors
    /// Caller: this kind of face cannot have the persistency. The text names the reason.
    pub fn set_persistency(&self, persistency: FacePersistency) -> Result<(), &'static str> {
        if let Some(why) = (self.info.refuses)(persistency) {
            return Err(why);
        }
        let mut state = self.state.lock();
        state.persistency = persistency;
        if persistency != FacePersistency::OnDemand {
            // A caller that makes the face persistent trusts its address.
            self.end_limits(&mut state);
        }
        drop(state);
        // The worker sets the idle timer, which a face has only while it is on demand.
        if let Some(id) = self.id()
            && persistency == FacePersistency::OnDemand
        {
            self.reader.request(ReaderRequest::RunTimer(id), None);
        }
        Ok(())
    }

    /// Closes the face. Writes the waiting frames as far as the socket accepts them now, and drops
    /// the rest. The call does not block. The worker that reads the face releases its half later.
    pub fn close(&self) {
        let mut charge = 0;
        // The caller need not be a worker, so no worker's bit is cleared.
        self.flush(SendContext { flusher: 0, now_ns: clock::monotonic_ns() }, &mut charge);
        self.shut(&mut charge);
        self.limits.charge(charge);
        if let Some(id) = self.id() {
            self.reader.request(ReaderRequest::Forget(id), None);
        }
    }

    /// Requests the worker that reads the face to end it. `from` is the worker that makes the
    /// request.
    pub(crate) fn request_end(&self, reason: CloseReason, from: usize) {
        if self.id().is_none() {
            // The face is on its way to its worker. That worker checks whether it is closed once it
            // has an id.
            self.shut(&mut 0);
        }
        // Read again, because the worker may have set the id meanwhile.
        if let Some(id) = self.id() {
            self.reader.request(ReaderRequest::End(id, reason), Some(from));
        }
    }

    /// Notifies the worker that reads the face that the peer accepts no frames. `from` is the
    /// worker that noticed it.
    pub(crate) fn report_stall(&self, from: usize) {
        if let Some(id) = self.id() {
            self.reader.request(ReaderRequest::Stalled(id), Some(from));
        }
    }

    /// Notifies the worker that reads the face of a failed write. `from` is the worker that noticed
    /// it.
    pub(crate) fn report_failure(&self, errno: Errno, from: usize) {
        if let Some(id) = self.id() {
            self.reader.request(ReaderRequest::Failed(id, errno), Some(from));
        }
    }
}

impl<P> fmt::Debug for FaceSender<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaceSender").field("tag", &self.tag).field("remote", &self.info.remote).finish()
    }
}
