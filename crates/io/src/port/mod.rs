//! A port: the sending half of a face, which every worker may send on, and what is known of the
//! face.
//!
//! Behind one lock: the sending half of the link service, the frames that wait, and who writes
//! them. The lock is not held during a system call, but for the one that changes what is watched.

mod flush;
mod mtu;
mod send;
mod state;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::drops::DropCounters;
use namely_host::clock;
use namely_host::shares::Holder;
use namely_link::{Accepts, LinkConfig, LinkDrops, LinkKind, LinkSender};
use namely_wire::mgmt::FacePersistency;
use namely_wire::{FaceUri, LpView};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::error::CloseReason;
use crate::face_table::{Admission, Place};
use crate::id::SourceId;
use crate::limits::Limits;
use crate::owner::{self, OwnerError};
use crate::sender::Sender;
use crate::status::{Carrier, Credentials, FaceState, FaceTag, LinkInfo, PortStatus, Reach};
use state::PortState;
pub use state::SendError;
pub(crate) use state::{FlushEnd, FollowUp, SendContext};

/// The worker that reads a face, as its port knows it.
pub(crate) trait ReadingWorker: Send + Sync {
    /// Its number.
    fn index(&self) -> usize;

    /// Where it watches descriptors.
    fn epoll(&self) -> BorrowedFd<'_>;

    /// Asks it for something, and wakes it unless it is worker `from` itself.
    fn request(&self, request: PortRequest, from: Option<usize>);
}

/// What only the worker that reads a face can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortRequest {
    /// Writing failed.
    Failed(SourceId, Errno),
    /// The port was closed.
    Forget(SourceId),
    /// Something changed that the transport's timer is for.
    RunTimer(SourceId),
    /// The face must end.
    End(SourceId, CloseReason),
    /// The peer has taken nothing for long.
    Stalled(SourceId),
}

/// The sending half of a face.
pub struct FacePort<P> {
    pub(crate) info: LinkInfo,
    reader: Arc<dyn ReadingWorker>,
    limits: Arc<Limits>,
    /// Its place among all faces, until it ends.
    admission: Mutex<Option<Admission<P>>>,
    id: OnceLock<SourceId>,
    tag: OnceLock<FaceTag>,
    is_dispatched: bool,
    /// Its packets are shown to the handler before they are handed over.
    is_watched: AtomicBool,
    /// Only who said so makes its frames longer.
    holds_mtu: AtomicBool,
    is_closed: AtomicBool,
    /// These three are copies of what the lock protects, for the worker that reads without it. A
    /// change of settings may reach it a packet later.
    local_fields: AtomicBool,
    is_reliable: AtomicBool,
    is_unproven: AtomicBool,
    in_frames: AtomicU64,
    in_octets: AtomicU64,
    /// Packets that were to be sent, but for Nacks.
    answers: AtomicU64,
    /// When something last arrived, ns.
    pub(crate) active_ns: AtomicU64,
    /// Whether something was ever sent.
    pub(super) is_answered: AtomicBool,
    /// The longest frame that the link carries, octets; 0 where only the configuration can tell.
    mtu: AtomicUsize,
    /// The longest frame that reaches the peer in one piece, octets; 0 where there is no telling.
    path_octets: AtomicUsize,
    receive_drops: Mutex<DropCounters>,
    owner: OnceLock<Result<u32, OwnerError>>,
    state: Mutex<PortState<P>>,
}

/// What a port is made of.
pub(crate) struct NewPort<P> {
    pub(crate) sender: Box<dyn Sender<P>>,
    pub(crate) info: LinkInfo,
    pub(crate) local: FaceUri,
    pub(crate) persistency: FacePersistency,
    pub(crate) state: FaceState,
    /// Its packets go to other workers than the one that reads them.
    pub(crate) is_dispatched: bool,
}

impl<P> FacePort<P> {
    /// What the face is known by outside; `None` before it was told.
    #[inline]
    pub fn tag(&self) -> Option<FaceTag> {
        self.tag.get().copied()
    }

    /// The number of the worker that reads the face.
    pub(crate) fn worker(&self) -> usize {
        self.reader.index()
    }
}

impl<P: AsRef<[u8]> + Clone> FacePort<P> {
    /// The port of a transport that `reader` will read.
    pub(crate) fn new(
        new: NewPort<P>,
        admission: Admission<P>,
        reader: Arc<dyn ReadingWorker>,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        let NewPort { sender, info, local, persistency, state, is_dispatched } = new;
        let mtu = AtomicUsize::new(info.mtu.unwrap_or(0));
        let path_octets = AtomicUsize::new(info.path_octets.unwrap_or(0));
        Arc::new(FacePort {
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
            local_fields: AtomicBool::new(false),
            is_reliable: AtomicBool::new(false),
            is_unproven: AtomicBool::new(false),
            in_frames: AtomicU64::new(0),
            in_octets: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            active_ns: AtomicU64::new(clock::monotonic_ns()),
            is_answered: AtomicBool::new(false),
            mtu,
            path_octets,
            receive_drops: Mutex::default(),
            owner: OnceLock::new(),
            state: Mutex::new(PortState::new(sender, local, persistency, state)),
        })
    }

    /// Its id at the worker that reads it; `None` before that has adopted it.
    pub(crate) fn id(&self) -> Option<SourceId> {
        self.id.get().copied()
    }

    pub(crate) fn set_id(&self, id: SourceId) {
        // It is set once: a port is adopted by one worker.
        let _ = self.id.set(id);
    }

    /// Tells what the face is known by outside. From now on its packets are handed over; those
    /// that came before are dropped. A second tag changes nothing.
    pub fn set_tag(&self, tag: FaceTag) {
        let _ = self.tag.set(tag);
    }

    /// Returns true if it is closed. Nothing is sent on it then, and tables need not keep it.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns true if the configuration has the packets of this link dispatched to other workers
    /// than the one that reads them.
    #[inline]
    pub fn is_dispatched(&self) -> bool {
        self.is_dispatched
    }

    /// From now on the handler sees the face's packets before it is handed them.
    pub fn show_first(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// From now on the link makes the face's frames shorter when it must, and never longer: whoever
    /// calls this knows how long the peer's may be.
    pub fn hold_mtu(&self) {
        self.holds_mtu.store(true, Ordering::Relaxed);
    }

    /// Who is at the other end.
    pub fn remote(&self) -> &FaceUri {
        &self.info.remote
    }

    /// How far its packets go.
    pub fn reach(&self) -> Reach {
        self.info.reach
    }

    /// Who the face is counted for.
    pub fn holder(&self) -> Holder {
        self.info.holder
    }

    /// Returns true if something was ever sent to the peer, or its address needs no proof.
    pub(crate) fn is_answered(&self) -> bool {
        self.info.idle_ns.is_none() || self.is_answered.load(Ordering::Relaxed)
    }

    /// Its place among all faces.
    pub(crate) fn place(&self) -> Option<Place> {
        self.admission.lock().as_ref().map(Admission::place)
    }

    /// Gives its place among all faces to others.
    pub(crate) fn leave(&self) {
        let admission = self.admission.lock().take();
        // Not under the lock: the table has its own.
        drop(admission);
    }

    /// The peer's user, where the system tells it.
    pub fn credentials(&self) -> Option<Credentials> {
        self.info.credentials
    }

    /// The user of this machine at the other end of loopback: of a TCP or WebSocket connection that
    /// an application has made, or of the address that datagrams came from; `None` for any other
    /// face. The kernel is asked, of a connection once: not by a worker.
    pub fn look_up_owner(&self) -> Option<Result<u32, OwnerError>> {
        let state = self.state.lock();
        let is_accepted = state.persistency == FacePersistency::OnDemand;
        let local = state.local.address().filter(|_| is_accepted);
        drop(state);
        let (peer, local) = (self.info.remote.address()?, local?);
        match self.info.remote {
            FaceUri::Udp(_) if peer.ip().is_loopback() => Some(owner::datagram_owner(peer)),
            FaceUri::Tcp(_) | FaceUri::WsClient(_) if self.info.reach == Reach::Local => {
                Some(*self.owner.get_or_init(|| owner::owner(peer, local)))
            }
            _ => None,
        }
    }

    /// The user that [`FacePort::look_up_owner`] has found.
    pub fn owner(&self) -> Option<u32> {
        self.owner.get().and_then(|owner| owner.ok())
    }

    /// Gives the port its link service.
    pub fn set_link(&self, link: LinkSender<P>) {
        let mut state = self.state.lock();
        state.link = link;
        self.note_config(&mut state);
    }

    /// The settings of its link service.
    pub fn link_config(&self) -> LinkConfig {
        *self.state.lock().link.config()
    }

    /// Changes the settings of its link service.
    pub fn reconfigure(&self, config: LinkConfig) {
        let mut state = self.state.lock();
        state.link.reconfigure(config);
        self.note_config(&mut state);
    }

    /// What the receiving half of the link service accepts at present.
    #[inline]
    pub(crate) fn accepts(&self) -> Accepts {
        let kind = match self.info.carrier {
            Carrier::Stream => LinkKind::Stream,
            // The MTU is for sending only.
            Carrier::Datagrams => LinkKind::Datagram { mtu: 0 },
        };
        Accepts { kind, local_fields: self.local_fields.load(Ordering::Relaxed) }
    }

    /// Returns true if an arrived frame concerns the sending half of the link service. Of a group
    /// nobody answers probes: all would.
    #[inline]
    pub(crate) fn is_concerned(&self, view: &LpView<'_>) -> bool {
        self.is_reliable.load(Ordering::Relaxed) || view.fragment.is_none() && self.info.reach != Reach::Group
    }

    /// Returns true if the peer has yet to prove that it receives what is sent to it.
    #[inline]
    pub(crate) fn is_unproven(&self) -> bool {
        self.is_unproven.load(Ordering::Relaxed)
    }

    /// Counts what arrived.
    #[inline]
    pub(crate) fn count_arrived(&self, frames: u64, octets: u64) {
        self.in_frames.fetch_add(frames, Ordering::Relaxed);
        self.in_octets.fetch_add(octets, Ordering::Relaxed);
    }

    /// How many packets were to be sent here, but for Nacks.
    #[inline]
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Counts drops of the receiving half.
    pub(crate) fn count_receive_drops(&self, drops: &LinkDrops) {
        self.receive_drops.lock().merge_link(drops);
    }

    /// Counts one drop of the receiving half.
    pub fn count_receive_drop(&self, label: &'static str) {
        self.receive_drops.lock().count(label);
    }

    /// Returns whether it can send.
    pub(crate) fn state(&self) -> FaceState {
        self.state.lock().state
    }

    /// The face lost its peer, or has it back, or a new socket.
    pub(crate) fn set_state(&self, state: FaceState) {
        self.state.lock().state = state;
    }

    pub(crate) fn set_local(&self, local: FaceUri) {
        self.state.lock().local = local;
    }

    /// How long it stays.
    pub(crate) fn persistency(&self) -> FacePersistency {
        self.state.lock().persistency
    }

    /// When it is closed for being idle, ns.
    pub(crate) fn expires_ns(&self) -> Option<u64> {
        let idle = self.info.idle_ns.filter(|_| self.persistency() == FacePersistency::OnDemand)?;
        let is_heard_once = self.in_frames.load(Ordering::Relaxed) <= 1 && !self.is_answered();
        let idle_ns = if is_heard_once { idle.unanswered_ns } else { idle.answered_ns };
        Some(self.active_ns.load(Ordering::Relaxed).saturating_add(idle_ns))
    }

    /// What can be seen of it.
    pub fn status(&self) -> PortStatus {
        let expires_ns = self.expires_ns();
        let state = self.state.lock();
        let mut counters = state.counters.clone();
        counters.in_frames = self.in_frames.load(Ordering::Relaxed);
        counters.in_octets = self.in_octets.load(Ordering::Relaxed);
        counters.drops.merge(&self.receive_drops.lock());
        counters.drops.merge_link(state.link.drops());
        PortStatus {
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
            socket_inode: self.info.socket_inode,
            counters,
        }
    }

    /// Changes persistency.
    ///
    /// # Errors
    /// Caller: what is impossible on this kind of face, in words.
    pub fn set_persistency(&self, persistency: FacePersistency) -> Result<(), &'static str> {
        if let Some(why) = (self.info.refuses)(persistency) {
            return Err(why);
        }
        let mut state = self.state.lock();
        state.persistency = persistency;
        if persistency != FacePersistency::OnDemand {
            // Whoever keeps the face answers for its address.
            self.end_limits(&mut state);
        }
        drop(state);
        if let Some(id) = self.id()
            && persistency == FacePersistency::OnDemand
        {
            self.reader.request(PortRequest::RunTimer(id), None);
        }
        Ok(())
    }

    /// Closes the face: what waits is written as far as it is taken now, and the rest is dropped.
    /// Nobody is waited for; the worker that reads it releases its half soon.
    pub fn close(&self) {
        let mut charge = 0;
        self.flush(SendContext { flusher: 0, now_ns: clock::monotonic_ns() }, &mut charge);
        self.shut(&mut charge);
        self.limits.charge(charge);
        if let Some(id) = self.id() {
            self.reader.request(PortRequest::Forget(id), None);
        }
    }

    /// Has the worker that reads the face end it; worker `from` asks for it.
    pub(crate) fn request_end(&self, reason: CloseReason, from: usize) {
        if self.id().is_none() {
            // It is on its way to its worker, which looks whether it is closed when it has an id.
            self.shut(&mut 0);
        }
        if let Some(id) = self.id() {
            self.reader.request(PortRequest::End(id, reason), Some(from));
        }
    }

    /// Tells the worker that reads the face that its peer takes nothing; worker `from` noticed it.
    pub(crate) fn report_stall(&self, from: usize) {
        if let Some(id) = self.id() {
            self.reader.request(PortRequest::Stalled(id), Some(from));
        }
    }

    /// Tells the worker that reads the face that writing failed; worker `from` noticed it.
    pub(crate) fn report_failure(&self, errno: Errno, from: usize) {
        if let Some(id) = self.id() {
            self.reader.request(PortRequest::Failed(id, errno), Some(from));
        }
    }
}

impl<P> fmt::Debug for FacePort<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FacePort").field("tag", &self.tag).field("remote", &self.info.remote).finish()
    }
}
