//! The state that the workers and the control thread share: the core, the directory of faces, and
//! the messages to the control thread.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use namely_forwarder::{FaceId, FaceLayer, FaceProperties, Learned, OwnerId};
use namely_io::{DropCounters, FaceSnapshot, FaceState, FaceTag, RemoteKind};
use namely_link::{CodelConfig, LinkConfig, LinkSender};
use namely_messages::{
    FaceEventKind, FaceEventNotification, FacePersistency, FaceScope, FaceStatus, LinkType,
};
use namely_mgmt::{CreateFaceError, FaceSettings, UpdateFaceError};
use namely_wire::{FaceUri, Name, NameRef};
use parking_lot::{Mutex, MutexGuard};

use crate::application_announcements::ApplicationAnnouncements;
use crate::capture::CaptureQueue;
use crate::dispatcher::Queue;
use crate::group_faces::GroupFaces;
use crate::inbox::{ControlPacket, Full, Outbox};
use crate::labels::listener;
use crate::relay::Relay;
use crate::vip::VipInbox;
use crate::{Core, DataPlaneOptions, Packet, status};

/// The sending half of a face.
pub(super) type FaceSender = namely_io::FaceSender<Packet>;

/// The state that the workers and the control thread share.
pub(super) struct DataPlaneShared {
    pub(super) options: DataPlaneOptions,
    pub(super) core: Arc<Core>,
    /// The face of the router itself.
    pub(super) internal_face: FaceId,
    pub(super) outbox: Outbox,
    internal_drops: AtomicU64,
    /// Held while a face is created or closed, so that events are reported in their order.
    changes: Mutex<()>,
    directory: Mutex<Directory>,
    /// The first Sequence of the next link.
    next_sequence: AtomicU64,
    pub(super) expiry: Mutex<Expiry>,
    /// Packets that were dispatched, for each worker.
    pub(super) queues: Vec<Queue>,
    /// Faces that receive copies of packets to groups.
    pub(super) copies: GroupFaces,
    /// The queue of packets about neighbors.
    pub(super) tap: OnceLock<Arc<CaptureQueue>>,
    /// The queue of packets for VIP, if its plane runs.
    pub(super) vip: OnceLock<Arc<VipInbox>>,
    /// The announcements of applications.
    offers: Mutex<ApplicationAnnouncements>,
    /// Drops of closed faces, and of peers that were refused.
    retired_drops: Mutex<DropCounters>,
    /// The sockets of faces, if the kernel forwards.
    pub(super) relay: Option<Relay>,
}

/// The time at which the core has work due. The worker that holds the lock does that work.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// The time for which a worker has set its timer, ns.
    pub(super) armed_ns: Option<u64>,
}

/// The faces by the keys with which they are looked up.
#[derive(Default)]
struct Directory {
    by_id: BTreeMap<FaceId, Arc<FaceSender>>,
    by_remote: HashMap<Far, FaceId>,
    /// Octets received and sent on closed faces.
    closed_octets: [u64; 2],
    /// The URIs with the host names by which faces were made.
    given: HashMap<FaceId, String>,
}

/// A remote URI, and for Ethernet the device that leads there.
type Far = (FaceUri, Option<FaceUri>);

impl DataPlaneShared {
    pub(super) fn new(
        options: DataPlaneOptions,
        core: Arc<Core>,
        internal_face: FaceId,
        outbox: Outbox,
        queues: Vec<Queue>,
    ) -> Result<Self, String> {
        let random =
            namely_host::random().map_err(|errno| format!("the system gives no random numbers: {errno}"))?;
        Ok(DataPlaneShared {
            relay: options.kernel.then(Relay::default),
            options,
            core,
            internal_face,
            outbox,
            internal_drops: AtomicU64::new(0),
            changes: Mutex::default(),
            directory: Mutex::default(),
            // Random, so that peers do not join fragments of an earlier run with new ones.
            next_sequence: AtomicU64::new(u64::from_ne_bytes(random)),
            expiry: Mutex::default(),
            queues,
            copies: GroupFaces::default(),
            tap: OnceLock::new(),
            vip: OnceLock::new(),
            offers: Mutex::default(),
            retired_drops: Mutex::default(),
        })
    }

    /// Creates the face of a port that has none yet. A requested face (`is_requested`) is refused
    /// if a face to the same remote exists; another worker may have just created it. A face for a
    /// peer that sent over UDP is refused if a face to that peer has the same local address.
    ///
    /// # Errors
    /// [`CreateFaceError`]; the caller must close the port.
    pub(super) fn open_face(
        &self,
        port: &Arc<FaceSender>,
        settings: &FaceSettings,
        is_requested: bool,
        now_ns: u64,
    ) -> Result<FaceStatus, CreateFaceError> {
        let port_status = port.status();
        let config = LinkConfig {
            // The link to an application of this machine is lossless.
            codel: CodelConfig { drops: port_status.reach != RemoteKind::Local, ..self.options.codel },
            reassembly: self.options.io.reassembly,
            ..LinkConfig::new(status::link_kind(&port_status, self.options.udp_mtu))
        };
        let config =
            status::configure(config, settings, &port_status).map_err(CreateFaceError::BadSetting)?;
        // Far enough apart that the numbers of two links never overlap.
        let first_sequence = self.next_sequence.fetch_add(1 << 40, Ordering::Relaxed);
        port.set_link(LinkSender::new(config, first_sequence));
        // Until the face is reported, its number must not be reused.
        let _changing = self.changes.lock();
        let known =
            unique_remote(&port_status).and_then(|(remote, local)| self.by_remote(&remote, local.as_ref()));
        let is_udp = matches!(port_status.remote, FaceUri::Udp(_));
        let is_same = |face: &FaceStatus| is_udp && face.local_uri == status::shown(&port_status.local);
        if let Some(face) = known.filter(|face| is_requested || is_same(face)) {
            return Err(CreateFaceError::Exists(Box::new(face)));
        }
        let id = self
            .core
            .face_register_for(self.core_spec(&port_status, &config), OwnerId(port.holder().number()))
            .map_err(|_| CreateFaceError::TooManyFaces)?;
        if let Some(relay) = self.relay.as_ref().filter(|_| port_status.remote != FaceUri::Kernel)
            && let Err(error) = relay.open(id, port_status.reach)
        {
            let _ = self.core.face_release(id);
            return Err(CreateFaceError::Failed(error.to_string()));
        }
        let face = status::face_status(id, &port.status(), &config, now_ns);
        let mut directory = self.directory.lock();
        if let Some(remote) = unique_remote(&port_status) {
            directory.by_remote.insert(remote, id);
        }
        directory.by_id.insert(id, port.clone());
        drop(directory);
        if let Some(tap) = self.tap.get()
            && tap.know(id, port, &port_status.local)
        {
            port.inspect_first();
        }
        self.set_discovery(id, &face);
        // From here on its packets are delivered. The core has the face already, and its port can
        // be looked up.
        port.set_tag(FaceTag(id.0));
        // Read after the tag is set, because later changes are reported. The core takes a new face
        // for one that is up. A change between the reading and the call is in the next reading.
        let mut is_down = false;
        while is_down != (port.status().state != FaceState::Up) {
            is_down = !is_down;
            let _ = self.core.faces().set_down(id, is_down);
        }
        // A thread that receives the event may send on the face at once.
        self.report(FaceEventKind::Created, &face);
        Ok(face)
    }

    /// Closes a face with this port and status. Returns false if it is closed already. Numbers of
    /// faces are reused, so `port` identifies the face.
    pub(super) fn close_face(
        &self,
        id: FaceId,
        port: &Arc<FaceSender>,
        port_status: FaceSnapshot,
        now_ns: u64,
    ) -> bool {
        let _changing = self.changes.lock();
        let mut directory = self.directory.lock();
        if !directory.by_id.get(&id).is_some_and(|known| Arc::ptr_eq(known, port)) {
            return false;
        }
        directory.by_id.remove(&id);
        directory.given.remove(&id);
        // In the same critical section, so that a reader of the directory counts each face once.
        add(&mut directory.closed_octets, port.octets());
        if let Some(remote) = unique_remote(&port_status)
            && directory.by_remote.get(&remote) == Some(&id)
        {
            directory.by_remote.remove(&remote);
        }
        // Released before the core is called, because the core may hold its own locks while it
        // looks up a port.
        drop(directory);
        if let Some(tap) = self.tap.get() {
            tap.forget(id);
        }
        self.offers.lock().forget_face(id);
        // The release succeeds: faces are released nowhere else.
        let _ = self.core.face_release(id);
        self.retired_drops.lock().merge(&port_status.counters.drops);
        let face = status::face_status(id, &port_status, &port.link_config(), now_ns);
        self.report(FaceEventKind::Destroyed, &face);
        // After the event, which has the number of the face from the relay.
        if let Some(relay) = &self.relay {
            relay.forget(id);
        }
        true
    }

    /// Reports a face that went down or is up again.
    pub(super) fn report_state(&self, id: FaceId, kind: FaceEventKind) {
        // It fails only if the face ended meanwhile.
        let _ = self.core.faces().set_down(id, kind == FaceEventKind::Down);
        if let Some(face) = self.face(id) {
            self.report(kind, &face);
        }
    }

    fn report(&self, kind: FaceEventKind, face: &FaceStatus) {
        tracing::debug!(face = face.face_id, remote = face.uri, ?kind, "face");
        let mut event = FaceEventNotification::new(kind, face);
        if let Some(number) = self.relay.as_ref().and_then(|relay| relay.number(FaceId(face.face_id))) {
            event.face_id = number;
        }
        self.outbox.face(event);
    }

    pub(super) fn port(&self, id: FaceId) -> Option<Arc<FaceSender>> {
        self.directory.lock().by_id.get(&id).cloned()
    }

    /// Returns the face to a remote. `local` names the device of an Ethernet face.
    pub(super) fn by_remote(&self, remote: &FaceUri, local: Option<&FaceUri>) -> Option<FaceStatus> {
        let id = *self.directory.lock().by_remote.get(&far(remote, local))?;
        self.face(id)
    }

    /// Returns the status of a face for management, except its packets by kind.
    pub(super) fn face(&self, id: FaceId) -> Option<FaceStatus> {
        if id == self.internal_face {
            return Some(status::internal_status(id, ""));
        }
        if Some(id) == self.vip_face() {
            return Some(status::internal_status(id, "vip"));
        }
        if id == FaceId::LOCAL {
            return Some(status::local_status(self.core.counters().to_local));
        }
        let port = self.port(id)?;
        Some(self.describe(id, &port))
    }

    fn describe(&self, id: FaceId, port: &FaceSender) -> FaceStatus {
        let now_ns = namely_host::clock::monotonic_ns();
        let mut face = status::face_status(id, &port.status(), &port.link_config(), now_ns);
        let given = self.directory.lock().given.get(&id).cloned();
        face.details.iter_mut().for_each(|details| details.given_uri.clone_from(&given));
        face
    }

    /// Records the host name by which a face was made.
    pub(super) fn set_given_uri(&self, id: FaceId, uri: String) {
        let mut directory = self.directory.lock();
        // The face may have closed meanwhile.
        if directory.by_id.contains_key(&id) {
            directory.given.insert(id, uri);
        }
    }

    pub(super) fn faces(&self) -> Vec<FaceStatus> {
        let faces = self.ports().into_iter().map(|(id, port)| self.describe(id, &port));
        let own = [Some(self.internal_face), self.vip_face(), Some(FaceId::LOCAL)];
        faces.chain(own.into_iter().flatten().filter_map(|id| self.face(id))).collect()
    }

    /// The number of faces that [`DataPlaneShared::faces`] returns.
    pub(super) fn count_faces(&self) -> usize {
        // The internal face and `local` have no port.
        self.directory.lock().by_id.len() + 2 + usize::from(self.vip_face().is_some())
    }

    /// The face of the virtual plane of VIP, if one runs.
    fn vip_face(&self) -> Option<FaceId> {
        self.vip.get().map(|inbox| inbox.face())
    }

    fn is_own(&self, id: FaceId) -> bool {
        id == self.internal_face || id == FaceId::LOCAL || Some(id) == self.vip_face()
    }

    /// The faces that have ports: all but the router's own.
    pub(super) fn ports(&self) -> Vec<(FaceId, Arc<FaceSender>)> {
        self.directory.lock().by_id.iter().map(|(id, port)| (*id, port.clone())).collect()
    }

    /// Packets that the internal face dropped because the control thread was behind.
    pub(super) fn internal_drops(&self) -> u64 {
        self.internal_drops.load(Ordering::Relaxed)
    }

    pub(super) fn update_face(
        &self,
        id: FaceId,
        settings: &FaceSettings,
    ) -> Result<FaceStatus, UpdateFaceError> {
        if self.is_own(id) {
            return Err(UpdateFaceError::BadSetting("the router's own face cannot be changed"));
        }
        let port = self.port(id).ok_or(UpdateFaceError::NoSuchFace)?;
        let config = status::configure(port.link_config(), settings, &port.status())
            .map_err(UpdateFaceError::BadSetting)?;
        // The last setting that can be refused, so a refusal changes nothing.
        if let Some(persistency) = settings.persistency {
            port.set_persistency(persistency).map_err(UpdateFaceError::BadSetting)?;
        }
        port.reconfigure(config);
        // It fails only if the face ended meanwhile.
        let _ = self.core.faces().set_local_fields(id, config.local_fields);
        let face = self.describe(id, &port);
        // An MTU or a flag does not change whether discoveries are sent to the face. Neighbor
        // discovery may have set that.
        if settings.persistency.is_some() {
            self.set_discovery(id, &face);
        }
        Ok(face)
    }

    /// Closes a face at once, regardless of the workers' state.
    pub(super) fn destroy_face(&self, id: FaceId) -> Result<(), UpdateFaceError> {
        if self.is_own(id) {
            return Err(UpdateFaceError::BadSetting("the router's own face cannot be destroyed"));
        }
        let port = self.port(id).ok_or(UpdateFaceError::NoSuchFace)?;
        // Read before the port is closed, which clears the drops of its link service.
        let port_status = port.status();
        // Before the face leaves the totals, because this sends frames that are counted there.
        port.close();
        let now_ns = namely_host::clock::monotonic_ns();
        let is_closed = self.close_face(id, &port, port_status, now_ns);
        if is_closed { Ok(()) } else { Err(UpdateFaceError::NoSuchFace) }
    }

    /// Octets of frames received and sent on all present and former faces.
    pub(super) fn octets(&self) -> [u64; 2] {
        let directory = self.directory.lock();
        let mut octets = directory.closed_octets;
        let ports: Vec<_> = directory.by_id.values().cloned().collect();
        // A port that closes from here on is still counted, because this list retains it.
        drop(directory);
        ports.iter().for_each(|port| add(&mut octets, port.octets()));
        octets
    }

    /// Drops of all present and former faces.
    pub(super) fn drops(&self) -> DropCounters {
        let mut drops = self.retired_drops.lock().clone();
        self.ports().iter().for_each(|(_, port)| drops.merge(&port.status().counters.drops));
        let internal = self.internal_drops();
        if internal > 0 {
            drops.add(listener::INTERNAL_QUEUE_FULL, internal);
        }
        drops
    }

    /// Counts a drop that no face counts.
    pub(super) fn count(&self, label: &'static str) {
        self.retired_drops.lock().count(label);
    }

    /// Hands a packet to the control thread.
    pub(super) fn send_internal(&self, packet: ControlPacket) {
        match self.outbox.packet(packet) {
            Ok(()) => {}
            Err(Full::All) => drop(self.internal_drops.fetch_add(1, Ordering::Relaxed)),
            Err(Full::Share) => self.count(listener::CONTROL_SHARE_FULL),
        }
    }

    /// Enters the route to an object that Data has revealed. The route is entered at once, because
    /// the receiver of the Data may send Interests along it before any other thread runs. The
    /// control thread does the rest; it receives the route with the announcement of the Data.
    pub(super) fn learned(&self, learned: Learned<'_>, announcement: &[u8], now_ns: u64) {
        let Some(object) = learned.object() else { return };
        if self.core.learn(&object.to_name(), learned.face, now_ns).is_err() {
            self.count(listener::ROUTE_NOT_LEARNED);
        }
        if !self.outbox.learned(&learned, object, announcement) {
            self.count(listener::LEARNED_QUEUE_FULL);
        }
    }

    /// Records that an application has announced a prefix until `ends_ns`, or has withdrawn it.
    pub(super) fn announce(&self, id: FaceId, prefix: &Name, announcement: Option<(&[u8], u64)>) {
        let is_local = self.port(id).is_some_and(|port| port.status().reach == RemoteKind::Local);
        let mut offers = self.offers.lock();
        let Some((octets, ends_ns)) = announcement.filter(|_| is_local) else {
            return offers.forget(id, prefix);
        };
        let now_ns = namely_host::clock::monotonic_ns();
        if !offers.keep(id, prefix, octets, ends_ns, now_ns) {
            // The counters have a lock of their own.
            drop(offers);
            self.count(listener::ANNOUNCED_PREFIXES_FULL);
        }
    }

    /// Returns the announcement to attach to Data of an application that answers a discovery.
    pub(super) fn offered(&self, id: FaceId, data: NameRef<'_>, now_ns: u64) -> Option<Arc<[u8]>> {
        self.offers.lock().find(id, data, now_ns)
    }

    /// Returns the forwarder's properties of the face of a port.
    fn core_spec(&self, port_status: &FaceSnapshot, config: &LinkConfig) -> FaceProperties {
        let scope = status::scope(port_status.reach);
        FaceProperties {
            layer: if scope == FaceScope::Local { FaceLayer::Upper } else { FaceLayer::Lower },
            scope,
            link_type: status::link_type(port_status.reach),
            local_fields: config.local_fields,
            is_management_client: self.options.loopback_udp && is_udp_of_this_machine(port_status),
        }
    }

    /// Sets whether discoveries are sent to a face: to groups and to requested faces, but not to
    /// any peer that happened to send something.
    fn set_discovery(&self, id: FaceId, status: &FaceStatus) {
        let is_wanted = status.face_scope == FaceScope::NonLocal
            && (status.link_type != LinkType::PointToPoint
                || status.face_persistency != FacePersistency::OnDemand);
        if self.core.discovery().set(id, is_wanted).is_err() {
            self.count(listener::DISCOVERY_FACES_FULL);
        }
    }

    /// Returns the right to do the work due in the core; `None` while another worker does it.
    pub(super) fn try_expiry(&self) -> Option<MutexGuard<'_, Expiry>> {
        self.expiry.try_lock()
    }
}

fn add(sum: &mut [u64; 2], more: [u64; 2]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
}

/// Returns the remote end if only one face may lead to it.
fn unique_remote(port_status: &FaceSnapshot) -> Option<Far> {
    match port_status.remote {
        FaceUri::Tcp(_) | FaceUri::Udp(_) | FaceUri::Ether(_) | FaceUri::Memif { .. }
            if port_status.reach != RemoteKind::Group =>
        {
            Some(far(&port_status.remote, Some(&port_status.local)))
        }
        _ => None,
    }
}

fn far(remote: &FaceUri, local: Option<&FaceUri>) -> Far {
    let device = local.filter(|_| matches!(remote, FaceUri::Ether(_)));
    (remote.clone(), device.cloned())
}

/// Returns true for the on-demand face of a program of this machine that sends over UDP.
fn is_udp_of_this_machine(port_status: &FaceSnapshot) -> bool {
    let address = match &port_status.remote {
        FaceUri::Udp(_) => port_status.remote.address(),
        _ => None,
    };
    port_status.persistency == FacePersistency::OnDemand && address.is_some_and(|far| far.ip().is_loopback())
}
