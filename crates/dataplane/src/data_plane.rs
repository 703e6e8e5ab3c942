//! The control thread's handle on the data plane.

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use namely_forwarder::{FaceError, FaceId, FaceProperties, OwnerId};
use namely_io::labels::{received, sent};
use namely_io::{DropCounters, EventLoop, FaceSnapshot, OpenError, Workers};
#[cfg(feature = "vip")]
use namely_messages::FacePersistency;
use namely_messages::{Counter, FaceStatus};
use namely_mgmt::{CreateFaceError, FaceSettings, FaceSpec, Faces, UpdateFaceError};
use namely_nnet::Socket;
use namely_wire::{FaceUri, LpHeaders, Name};
use parking_lot::Mutex;

use crate::capture::CaptureQueue;
use crate::command::{Command, Reply};
use crate::disk::{Disk, WorkerDisk};
use crate::dispatcher::{Dispatcher, Queue};
use crate::inbox::{self, Inbox};
use crate::relay::Relay;
use crate::shared::DataPlaneShared;
use crate::trace::Trace;
#[cfg(feature = "vip")]
use crate::vip::VipInbox;
use crate::worker::Worker;
use crate::{Core, DataPlaneOptions, ListenError, ListenSpec, Packet, status};

/// The running data plane. Dropping it stops it.
pub struct DataPlane {
    shared: Arc<DataPlaneShared>,
    /// The first one listens.
    workers: Workers<Worker>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Addresses for whose devices the router waits.
    awaited: Mutex<Vec<String>>,
}

/// The reason for which the data plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Environment: the system refused a resource.
    #[error("the data plane did not start: {0}")]
    System(String),
    /// Configuration: the forwarder accepts no face.
    #[error("the data plane did not start: {0}")]
    Face(#[source] FaceError),
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> Self {
        StartError::System(error.to_string())
    }
}

impl DataPlane {
    /// Starts the data plane's workers. At first it has only the internal face, and no listener.
    ///
    /// # Errors
    /// [`StartError`]: the system provides no epoll instance, randomness or thread, or the
    /// forwarder accepts no face.
    pub fn start(options: DataPlaneOptions, core: Arc<Core>) -> Result<(DataPlane, Inbox), StartError> {
        Self::start_with(options, core, None)
    }

    /// Starts the workers with the disk of the content store.
    ///
    /// # Errors
    /// As [`DataPlane::start`].
    pub fn start_with(
        options: DataPlaneOptions,
        core: Arc<Core>,
        disk: Option<&Arc<Disk>>,
    ) -> Result<(DataPlane, Inbox), StartError> {
        let fit = namely_io::descriptors::make_room_for(options.io.faces_max);
        if fit < options.io.faces_max {
            tracing::warn!(
                "the system's limit on open files allows {fit} faces: raise it (ulimit -n) for more"
            );
        }
        let workers = options.workers();
        if options.dispatcher.links.own_worker && workers < 2 {
            tracing::warn!("the dispatcher has no core of its own: there is one worker only");
        }
        let (handles, loops) = Workers::new(options.io, options.dispatcher.links.clone(), workers)?;
        let spec = FaceProperties { local_fields: true, ..FaceProperties::application() };
        let internal_face = core.face_register_for(spec, OwnerId::ROUTER).map_err(StartError::Face)?;
        let (outbox, inbox) = inbox::pair();
        let wakers = loops.iter().map(EventLoop::waker);
        let queues = wakers.map(|waker| Queue::new(options.dispatcher.queue_packets, waker)).collect();
        let shared = DataPlaneShared::new(options, core, internal_face, outbox, queues);
        let shared = Arc::new(shared.map_err(StartError::System)?);
        // Random, so that no peer can choose names that all map to one worker. All workers share
        // it, so that each name maps to the same worker everywhere.
        let hasher = RandomState::new();
        // Created before the threads: if one of them cannot start, dropping `plane` stops the
        // others.
        let (threads, awaited) = Default::default();
        let plane = DataPlane { shared: shared.clone(), workers: handles, threads, awaited };
        for (index, event_loop) in loops.into_iter().enumerate() {
            let dispatcher = Dispatcher::new(&shared.options.dispatcher, hasher.clone(), index, workers);
            let disk = disk.map(|disk| WorkerDisk::new(disk.clone(), event_loop.waker()));
            let worker = Worker::new(shared.clone(), dispatcher, disk);
            let stopped = Stopped(shared.clone());
            let thread = std::thread::Builder::new()
                .name(format!("data-plane-{index}"))
                .spawn(move || {
                    let _stopped = stopped;
                    work(event_loop, worker);
                })
                .map_err(|error| StartError::System(error.to_string()))?;
            plane.threads.lock().push(thread);
        }
        Ok((plane, inbox))
    }

    /// The face by which the router itself sends and receives: the next hop for management's
    /// prefixes.
    pub fn internal_face(&self) -> FaceId {
        self.shared.internal_face
    }

    /// Returns true if no packet waits to be sent. Waits until each worker has sent the answers to
    /// the packets that it was processing at the time of the call.
    pub fn has_sent_all(&self) -> bool {
        // A worker answers within a turn and sends at its end. So the second answer comes after the
        // frames of the turn of the first.
        let has_turned = self.answers() && self.answers();
        has_turned && self.shared.ports().iter().all(|(_, port)| port.queued_memory_octets() == 0)
    }

    /// Opens a listener. Returns its address, with the assigned port if the requested one is 0.
    ///
    /// # Errors
    /// [`ListenError`], with the action to take.
    pub fn listen(&self, spec: ListenSpec) -> Result<FaceUri, ListenError> {
        // A UDP multicast listener is a face. The worker that opens it also reads it.
        let worker = match &spec {
            ListenSpec::Multicast(options) => self
                .workers
                .choose(&FaceUri::Device(options.interface.clone()), &multicast_uri(options.group)),
            _ => LISTENING,
        };
        self.call(worker, |reply| Command::Listen(spec, reply))
            .unwrap_or_else(|| Err(ListenError::Refused(STOPPED.into())))
    }

    /// Stops listening on an address from [`DataPlane::channels`]. Returns false if no listener has
    /// the address. The faces of the listener stay.
    pub fn stop_listening(&self, local: FaceUri) -> bool {
        // Workers help each other to listen on a network device.
        let stop = |index| self.call(index, |reply| Command::StopListening(local.clone(), reply));
        let stopped: Vec<_> = (0..self.workers.count()).map(stop).collect();
        stopped.contains(&Some(true))
    }

    /// Creates a face. For a persistent TCP face the call waits until the peer has accepted the
    /// connection. All others are created at once.
    ///
    /// # Errors
    /// [`CreateFaceError`], by the party at fault.
    pub fn create_face(&self, spec: FaceSpec) -> Result<FaceStatus, CreateFaceError> {
        // The worker that listens has the list of network devices with listeners.
        let worker = match &spec.remote {
            FaceUri::Ether(_) => LISTENING,
            remote => self.workers.choose(spec.local.as_ref().unwrap_or(remote), remote),
        };
        let made = self.call(worker, |reply| Command::CreateFace(spec, reply));
        made.unwrap_or(Err(CreateFaceError::Stopped))
    }

    /// Returns the status that NFD's datasets lack: whether a face is up, the waiting octets, drops
    /// by reason including those of the kernel, and the peer's credentials. `None` for the internal
    /// face, and for an unknown one.
    pub fn port_status(&self, face: FaceId) -> Option<FaceSnapshot> {
        let port = self.shared.port(face)?;
        Some(with_kernel_drops(port.status(), &namely_io::udp::kernel_drops()))
    }

    /// Returns the user of an application of this machine that connected over loopback, or the
    /// reason why the user is unknown. The kernel is queried once for each TCP face. For UDP, if
    /// enabled, it is queried at each call. `None` for any other face.
    pub fn owner(&self, face: FaceId) -> Option<Result<u32, String>> {
        let port = self.shared.port(face)?;
        if matches!(port.remote(), FaceUri::Udp(_)) && !self.shared.options.loopback_udp {
            let is_here = port.remote().address().is_some_and(|far| far.ip().is_loopback());
            return is_here
                .then(|| Err("users are known over UDP only with authorization.loopback_udp".into()));
        }
        port.look_up_owner().map(|owner| owner.map_err(|why| why.to_string()))
    }

    /// The number of packets that other workers dispatched to each worker.
    pub fn dispatched(&self) -> Vec<u64> {
        self.shared.queues.iter().map(Queue::count).collect()
    }

    /// Drops of all present and former faces and listeners, by reason.
    pub fn drops(&self) -> DropCounters {
        let mut drops = self.shared.drops();
        for index in 0..self.workers.count() {
            drops.merge(&self.call(index, Command::ListenerDrops).unwrap_or_default());
        }
        drops
    }

    /// Passes a packet to the forwarder as if it had arrived on the internal face. Returns false if
    /// the data plane has stopped.
    pub fn inject(&self, packet: impl Into<Packet>, headers: LpHeaders) -> bool {
        self.inject_from(self.shared.internal_face, packet, headers)
    }

    /// As [`DataPlane::inject`], for another of the router's own faces.
    pub fn inject_from(&self, face: FaceId, packet: impl Into<Packet>, headers: LpHeaders) -> bool {
        self.workers.send(LISTENING, Command::Inject(face, packet.into(), headers))
    }

    /// Creates the face of VIP's virtual plane. The virtual plane takes the packets of this face
    /// from the returned inbox.
    ///
    /// # Errors
    /// The table of faces is full, or the plane has a face already.
    #[cfg(feature = "vip")]
    pub fn make_vip_face(&self) -> Result<Arc<VipInbox>, FaceError> {
        let spec = FaceProperties { local_fields: true, ..FaceProperties::application() };
        let face = self.shared.core.face_register_for(spec, OwnerId::ROUTER)?;
        let inbox = Arc::new(VipInbox::new(face));
        self.shared.vip.set(inbox.clone()).map_err(|_| FaceError::TableFull)?;
        Ok(inbox)
    }

    /// Returns the face to a peer. `local` names the device if there are several. A face that was
    /// created on request takes precedence over an on-demand face, which a worker creates when the
    /// peer happens to send first.
    #[cfg(feature = "vip")]
    pub fn face_to(&self, remote: &FaceUri, local: Option<&FaceUri>) -> Option<FaceId> {
        let known = self.shared.by_remote(remote, local)?;
        let is_asked_for = |status: &FaceSnapshot| {
            status.persistency != FacePersistency::OnDemand
                && status.remote == *remote
                && local.is_none_or(|local| status.local == *local)
        };
        let wanted = match known.face_persistency {
            FacePersistency::OnDemand => {
                self.shared.ports().into_iter().find(|(_, port)| is_asked_for(&port.status()))
            }
            _ => None,
        };
        Some(wanted.map_or(FaceId(known.face_id), |(id, _)| id))
    }

    /// Sends a packet on a face without the forwarder.
    pub fn send(&self, face: FaceId, packet: impl Into<Packet>) {
        self.workers.send(LISTENING, Command::Send(face, packet.into()));
    }

    /// Waits until the worker has processed the packets of earlier calls of [`DataPlane::send`].
    pub fn settle(&self) {
        self.call(LISTENING, Command::Answer);
    }

    /// Sets the queue for packets about neighbors. Must be called before the first face is created.
    pub fn set_tap(&self, tap: Arc<CaptureQueue>) {
        let _ = self.shared.tap.set(tap);
    }

    /// Sets the faces that receive copies of packets to a group.
    pub fn copy_to(&self, group: FaceId, faces: Vec<FaceId>) {
        self.shared.copies.set(group, faces);
    }

    /// Prevents a changed MTU of the link from making the face's frames longer. They may still
    /// become shorter.
    pub fn hold_mtu(&self, face: FaceId) {
        if let Some(port) = self.shared.port(face) {
            port.hold_mtu();
        }
    }

    /// Notifies the data plane of a new earliest expiry: a route with an expiration was added.
    pub fn refresh_timers(&self) {
        self.workers.send(LISTENING, Command::RefreshTimers);
    }

    /// Makes the workers check their sockets, because the addresses or the network devices of this
    /// machine have changed. Does not wait.
    pub fn addresses_changed(&self) {
        for index in 0..self.workers.count() {
            self.workers.send(index, Command::AddressesChanged);
        }
    }

    /// Sets the addresses for whose devices the router waits, for the general status.
    pub fn set_awaited(&self, awaited: Vec<String>) {
        *self.awaited.lock() = awaited;
    }

    /// Records the host name by which a face was made, for its status.
    pub fn set_given_uri(&self, face: FaceId, uri: &FaceUri) {
        self.shared.set_given_uri(face, uri.to_string());
    }

    /// The sockets of faces, if the kernel forwards.
    pub fn relay(&self) -> Option<&Relay> {
        self.shared.relay.as_ref()
    }

    /// Serves management to the kernel's applications through this socket.
    ///
    /// # Errors
    /// [`CreateFaceError`].
    pub fn manage(&self, socket: Arc<Socket>) -> Result<FaceStatus, CreateFaceError> {
        let made = self.call(LISTENING, |reply| Command::Manage(socket, reply));
        made.unwrap_or(Err(CreateFaceError::Stopped))
    }

    /// Makes every worker run one iteration of its loop, in which it shares its spare buffers. Does
    /// not wait.
    pub fn wake_workers(&self) {
        (0..self.workers.count()).for_each(|index| {
            // Any command wakes the worker. This one has no other effect.
            self.workers.send(index, Command::RefreshTimers);
        });
    }

    /// Sets whether hop-by-hop explain requests that end at this router are sent to the internal
    /// face.
    pub fn explain_to_network(&self, is_on: bool) {
        let face = if is_on { self.shared.internal_face } else { FaceId::NONE };
        self.shared.core.set_explainer(face);
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers.count()
    }

    /// Replaces the traces of every worker by `traces`. Waits for all workers.
    pub fn trace(&self, traces: &[Arc<Trace>]) {
        (0..self.workers.count()).for_each(|index| {
            self.call(index, |reply| Command::Trace(traces.to_vec(), reply));
        });
    }

    /// Returns true if every worker answers. Waits for the slowest.
    pub fn answers(&self) -> bool {
        (0..self.workers.count()).all(|index| self.call(index, Command::Answer).is_some())
    }

    /// Requests the workers to stop, without waiting. Queued frames are sent as far as the sockets
    /// accept them, then the sockets close. Pending calls of other threads fail.
    pub fn request_stop(&self) {
        for index in 0..self.workers.count() {
            self.workers.send_at_once(index, Command::Stop);
        }
    }

    /// Stops the data plane, and waits until its workers have ended.
    pub fn stop(&self) {
        self.request_stop();
        // Locked until all have ended, so that a concurrent call waits for them, too. Taken out, so
        // that a later call joins nothing.
        let mut threads = self.threads.lock();
        for thread in std::mem::take(&mut *threads) {
            if thread.join().is_err() {
                tracing::error!("the data plane ended by a panic");
            }
        }
    }

    /// Sends a command and waits for its answer; `None` if the data plane has stopped.
    fn call<T>(&self, worker: usize, command: impl FnOnce(Reply<T>) -> Command) -> Option<T> {
        // Room for the answer, so that the worker never waits for the caller.
        let (reply, answer) = sync_channel(1);
        if !self.workers.send(worker, command(reply)) {
            return None;
        }
        // A worker that ends drops the command, and with it the other end of the channel.
        answer.recv().ok()
    }
}

/// The worker with the listeners. It also serves the commands that any worker could serve.
const LISTENING: usize = 0;

fn multicast_uri(group: std::net::SocketAddr) -> FaceUri {
    FaceUri::Udp(namely_wire::Endpoint::Address(group))
}

/// Runs a worker's event loop until it stops.
fn work(mut event_loop: EventLoop<Worker>, mut worker: Worker) {
    if let Err(errno) = event_loop.run(&mut worker) {
        tracing::error!("the data plane cannot wait for its sockets: {errno}");
    }
}

/// Notifies the control thread when a worker ends, even by a panic.
struct Stopped(Arc<DataPlaneShared>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.outbox.stop();
    }
}

const STOPPED: &str = "the router is stopping";

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Faces for DataPlane {
    fn faces(&self) -> Vec<FaceStatus> {
        let mut faces = self.shared.faces();
        let packets: HashMap<u64, _> =
            self.shared.core.faces().snapshot().into_iter().map(|face| (face.id.0, face.packets)).collect();
        faces.sort_by_key(|face| face.face_id);
        let mut users = status::Users::default();
        for face in &mut faces {
            if let Some(packets) = packets.get(&face.face_id) {
                status::set_packets(face, packets);
            }
            users.name(face);
        }
        faces
    }

    fn count(&self) -> usize {
        self.shared.count_faces()
    }

    fn face(&self, face: FaceId) -> Option<FaceStatus> {
        let mut status = self.shared.face(face)?;
        if let Some(hold) = self.shared.core.faces().hold(face) {
            status::set_packets(&mut status, &hold.packets());
        }
        Some(status)
    }

    fn awaited(&self) -> Vec<String> {
        self.awaited.lock().clone()
    }

    fn canonical(&self, uri: &str) -> String {
        status::canonical(uri)
    }

    fn octets(&self) -> [u64; 2] {
        self.shared.octets()
    }

    fn update_face(&self, face: FaceId, settings: &FaceSettings) -> Result<FaceStatus, UpdateFaceError> {
        self.shared.update_face(face, settings)
    }

    /// Waits for no worker.
    fn destroy_face(&self, face: FaceId) -> Result<(), UpdateFaceError> {
        self.shared.destroy_face(face)?;
        // Table entries that refer to it are swept gradually.
        self.refresh_timers();
        Ok(())
    }

    fn announce(&self, face: FaceId, prefix: &Name, announcement: Option<(&[u8], u64)>) {
        self.shared.announce(face, prefix, announcement);
    }

    fn channels(&self) -> Vec<FaceUri> {
        self.call(LISTENING, Command::Channels).unwrap_or_default()
    }

    fn counters(&self) -> Vec<Counter> {
        let counter =
            |face_id, reason: &str, value| Counter { label: format!("link.{reason}"), face_id, value };
        let total = self.drops();
        let mut counters: Vec<Counter> = total.iter().map(|(reason, n)| counter(None, reason, n)).collect();
        let internal = (self.shared.internal_face, self.shared.internal_drops());
        counters.push(counter(Some(internal.0.0), sent::QUEUE_FULL, internal.1));
        let kernel_drops = namely_io::udp::kernel_drops();
        for (face, port) in self.shared.ports() {
            let drops = with_kernel_drops(port.status(), &kernel_drops).counters.drops;
            counters.extend(drops.iter().map(|(reason, n)| counter(Some(face.0), reason, n)));
        }
        let turn = |what: &str, worker, value| Counter {
            label: format!("worker{worker}.{what}"),
            face_id: None,
            value,
        };
        let turns = self.workers.longest_turns_us().enumerate();
        counters.extend(turns.map(|(worker, us)| turn("longest_turn_us", worker, us)));
        let turns = self.workers.longest_turns_cpu_us().enumerate();
        counters.extend(turns.map(|(worker, us)| turn("longest_turn_cpu_us", worker, us)));
        // A counter of 0 would only make the dataset longer.
        counters.retain(|counter| counter.value > 0);
        counters
    }
}

/// Adds the frames that the kernel dropped before the router could read them.
fn with_kernel_drops(mut port: FaceSnapshot, kernel_drops: &HashMap<u64, u64>) -> FaceSnapshot {
    if let Some(drops) = port.socket_inode.and_then(|inode| kernel_drops.get(&inode))
        && *drops > 0
    {
        port.counters.drops.add(received::KERNEL_BUFFER_FULL, *drops);
    }
    port
}
