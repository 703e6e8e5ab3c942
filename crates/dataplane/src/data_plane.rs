//! The control thread's handle on the data plane.

use std::collections::HashMap;
use std::fmt;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use namely_forwarder::{FaceError, FaceId, FaceProperties, HolderId};
use namely_io::{DropCounters, EventLoop, OpenError, PortStatus, Workers};
use namely_mgmt::{CreateFaceError, FaceSettings, FaceSpec, Faces, UpdateFaceError};
use namely_nnet::Socket;
#[cfg(feature = "vip")]
use namely_wire::mgmt::FacePersistency;
use namely_wire::mgmt::{Counter, FaceStatus};
use namely_wire::{FaceUri, LpHeaders, Name};
use parking_lot::Mutex;

use crate::command::{Command, Reply};
use crate::disk::{Disk, DiskPort};
use crate::dispatcher::{Dispatcher, Queue};
use crate::inbox::{self, Inbox};
use crate::relay::Relay;
use crate::shared::DataPlaneShared;
use crate::tap::Tap;
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
}

/// Why the data plane did not start.
#[derive(Debug)]
pub enum StartError {
    /// Environment: the system refused a resource.
    System(String),
    /// Configuration: the forwarder takes no face.
    Face(FaceError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::System(why) => write!(f, "the data plane did not start: {why}"),
            StartError::Face(error) => write!(f, "the data plane did not start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> Self {
        StartError::System(error.to_string())
    }
}

impl DataPlane {
    /// Starts the data plane's workers. It has one face, the internal one, and listens nowhere.
    ///
    /// # Errors
    /// When the system gives no epoll instance, randomness or thread.
    pub fn start(options: DataPlaneOptions, core: Arc<Core>) -> Result<(DataPlane, Inbox), StartError> {
        Self::start_with(options, core, None)
    }

    /// The same, with the disk of the content store.
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
        let internal_face = core.face_register_for(spec, HolderId::ROUTER).map_err(StartError::Face)?;
        let (outbox, inbox) = inbox::pair();
        let wakers = loops.iter().map(EventLoop::waker);
        let queues = wakers.map(|waker| Queue::new(options.dispatcher.queue_packets, waker)).collect();
        let shared = DataPlaneShared::new(options, core, internal_face, outbox, queues);
        let shared = Arc::new(shared.map_err(StartError::System)?);
        let hasher = RandomState::new();
        let plane = DataPlane { shared: shared.clone(), workers: handles, threads: Mutex::default() };
        for (index, event_loop) in loops.into_iter().enumerate() {
            let dispatcher = Dispatcher::new(&shared.options.dispatcher, hasher.clone(), index, workers);
            let disk = disk.map(|disk| DiskPort::new(disk.clone(), event_loop.waker()));
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

    /// Listens. Returns the address, with the port that was given where 0 was asked for.
    ///
    /// # Errors
    /// [`ListenError`] says what to do.
    pub fn listen(&self, spec: ListenSpec) -> Result<FaceUri, ListenError> {
        // What becomes a face at once is read by the worker that opens it.
        let worker = match &spec {
            ListenSpec::Multicast(options) => self
                .workers
                .choose(&FaceUri::Device(options.interface.clone()), &multicast_uri(options.group)),
            _ => LISTENING,
        };
        self.call(worker, |reply| Command::Listen(spec, reply))
            .unwrap_or_else(|| Err(ListenError(STOPPED.into())))
    }

    /// Stops listening on an address that [`DataPlane::channels`] shows; false if there is none.
    /// Its faces stay.
    pub fn stop_listening(&self, local: FaceUri) -> bool {
        // Workers help each other to listen on a network device.
        let stop = |index| self.call(index, |reply| Command::StopListening(local.clone(), reply));
        let stopped: Vec<_> = (0..self.workers.count()).map(stop).collect();
        stopped.contains(&Some(true))
    }

    /// Makes a face. A persistent TCP face is made when the peer has accepted the connection, which
    /// this call waits for; all others at once.
    ///
    /// # Errors
    /// [`CreateFaceError`] says whose fault it is.
    pub fn create_face(&self, spec: FaceSpec) -> Result<FaceStatus, CreateFaceError> {
        // The worker that listens knows which network devices are listened on.
        let worker = match &spec.remote {
            FaceUri::Ether(_) => LISTENING,
            remote => self.workers.choose(spec.local.as_ref().unwrap_or(remote), remote),
        };
        let made = self.call(worker, |reply| Command::CreateFace(spec, reply));
        made.unwrap_or(Err(CreateFaceError::Stopped))
    }

    /// What NFD's datasets have no place for: whether a face is up, what waits to be sent, drops by
    /// reason with those of the kernel, and who is at the other end. The internal face has no port.
    pub fn port_status(&self, face: FaceId) -> Option<PortStatus> {
        let port = self.shared.port(face)?;
        Some(with_kernel_drops(port.status(), &namely_io::udp::kernel_drops()))
    }

    /// The user at the other end of a connection that an application of this machine has made over
    /// loopback, or else why nobody can say: of TCP the kernel is asked once for each face, of UDP,
    /// where that is wanted, each time. `None` for any other face.
    pub fn owner(&self, face: FaceId) -> Option<Result<u32, String>> {
        let port = self.shared.port(face)?;
        if matches!(port.remote(), FaceUri::Udp(_)) && !self.shared.options.loopback_udp {
            let is_here = port.remote().address().is_some_and(|far| far.ip().is_loopback());
            return is_here
                .then(|| Err("users are known over UDP only with authorization.loopback_udp".into()));
        }
        port.look_up_owner().map(|owner| owner.map_err(|why| why.to_string()))
    }

    /// How many packets were dispatched to each worker by another one.
    pub fn dispatched(&self) -> Vec<u64> {
        self.shared.queues.iter().map(Queue::count).collect()
    }

    /// Drops of all faces and listeners that are or were, by reason.
    pub fn drops(&self) -> DropCounters {
        let mut drops = self.shared.drops();
        for index in 0..self.workers.count() {
            drops.merge(&self.call(index, Command::ListenerDrops).unwrap_or_default());
        }
        drops
    }

    /// Sends a packet into the forwarder from the internal face. False if the data plane has
    /// stopped.
    pub fn inject(&self, packet: impl Into<Packet>, headers: LpHeaders) -> bool {
        self.inject_from(self.shared.internal_face, packet, headers)
    }

    /// The same from another face of the router's own.
    pub fn inject_from(&self, face: FaceId, packet: impl Into<Packet>, headers: LpHeaders) -> bool {
        self.workers.send(LISTENING, Command::Inject(face, packet.into(), headers))
    }

    /// Makes the face of the virtual plane of VIP, which gets what it is sent from the inbox.
    ///
    /// # Errors
    /// There are as many faces as may be, or the plane has one.
    #[cfg(feature = "vip")]
    pub fn make_vip_face(&self) -> Result<Arc<VipInbox>, FaceError> {
        let spec = FaceProperties { local_fields: true, ..FaceProperties::application() };
        let face = self.shared.core.face_register_for(spec, HolderId::ROUTER)?;
        let inbox = Arc::new(VipInbox::new(face));
        self.shared.vip.set(inbox.clone()).map_err(|_| FaceError::TableFull)?;
        Ok(inbox)
    }

    /// The face that leads to a far end, by a device if there are several. One that was asked for
    /// comes before one that a worker made because the peer had spoken just then.
    #[cfg(feature = "vip")]
    pub fn face_to(&self, remote: &FaceUri, local: Option<&FaceUri>) -> Option<FaceId> {
        let known = self.shared.by_remote(remote, local)?;
        let is_asked_for = |status: &PortStatus| {
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

    /// Sends a packet on a face, past the forwarder.
    pub fn send(&self, face: FaceId, packet: impl Into<Packet>) {
        self.workers.send(LISTENING, Command::Send(face, packet.into()));
    }

    /// Waits until what was sent by [`DataPlane::send`] is on its way.
    pub fn settle(&self) {
        self.call(LISTENING, Command::Answer);
    }

    /// Where packets about neighbours go from now on: before the first face is there.
    pub fn set_tap(&self, tap: Arc<Tap>) {
        let _ = self.shared.tap.set(tap);
    }

    /// From now on these faces, and no others, receive what is sent to a group.
    pub fn copy_to(&self, group: FaceId, faces: Vec<FaceId>) {
        self.shared.copies.set(group, faces);
    }

    /// From now on the MTU of a face grows only when somebody says so.
    pub fn hold_mtu(&self, face: FaceId) {
        if let Some(port) = self.shared.port(face) {
            port.hold_mtu();
        }
    }

    /// Tells the data plane that something expires earlier than it knows: a route was added with an
    /// expiration.
    pub fn refresh_timers(&self) {
        self.workers.send(LISTENING, Command::RefreshTimers);
    }

    /// The sockets of faces, where the kernel forwards.
    pub fn relay(&self) -> Option<&Relay> {
        self.shared.relay.as_ref()
    }

    /// Answers for management to the kernel's applications, by this socket.
    ///
    /// # Errors
    /// [`CreateFaceError`].
    pub fn manage(&self, socket: Arc<Socket>) -> Result<FaceStatus, CreateFaceError> {
        let made = self.call(LISTENING, |reply| Command::Manage(socket, reply));
        made.unwrap_or(Err(CreateFaceError::Stopped))
    }

    /// Has every worker take a turn, in which it shares its spare buffers; waits for none.
    pub fn wake_workers(&self) {
        (0..self.workers.count()).for_each(|index| {
            self.workers.send(index, Command::RefreshTimers);
        });
    }

    /// Whether questions that follow a name hop by hop, and end here, come to the internal face.
    pub fn explain_to_network(&self, is_on: bool) {
        let face = if is_on { self.shared.internal_face } else { FaceId::NONE };
        self.shared.core.set_explainer(face);
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.count()
    }

    /// Has every worker take down packets of these traces from now on, and of no other; waits for
    /// all.
    pub fn trace(&self, traces: &[Arc<Trace>]) {
        (0..self.workers.count()).for_each(|index| {
            self.call(index, |reply| Command::Trace(traces.to_vec(), reply));
        });
    }

    /// Returns true if every worker answers. Waits for the slowest.
    pub fn answers(&self) -> bool {
        (0..self.workers.count()).all(|index| self.call(index, Command::Answer).is_some())
    }

    /// Tells the workers to stop, and waits for nobody: what is queued is sent as far as sockets
    /// take it, then they close. Calls that wait on other threads end as refused.
    pub fn request_stop(&self) {
        for index in 0..self.workers.count() {
            self.workers.send_at_once(index, Command::Stop);
        }
    }

    /// Stops the data plane, and waits until its workers have ended.
    pub fn stop(&self) {
        self.request_stop();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!("the data plane ended by a panic");
            }
        }
    }

    /// Sends a command and waits for its answer; `None` if the data plane has stopped.
    fn call<T>(&self, worker: usize, command: impl FnOnce(Reply<T>) -> Command) -> Option<T> {
        let (reply, answer) = sync_channel(1);
        if !self.workers.send(worker, command(reply)) {
            return None;
        }
        answer.recv().ok()
    }
}

/// The worker that listens, and does what any could do.
const LISTENING: usize = 0;

fn multicast_uri(group: std::net::SocketAddr) -> FaceUri {
    FaceUri::Udp(namely_wire::Endpoint::Address(group))
}

/// A worker's thread.
fn work(mut event_loop: EventLoop<Worker>, mut worker: Worker) {
    if let Err(errno) = event_loop.run(&mut worker) {
        tracing::error!("the data plane cannot wait for its sockets: {errno}");
    }
}

/// Tells the control thread that a worker has ended, however it did.
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
        for face in &mut faces {
            if let Some(packets) = packets.get(&face.face_id) {
                status::set_packets(face, packets);
            }
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

    fn update_face(&self, face: FaceId, settings: &FaceSettings) -> Result<FaceStatus, UpdateFaceError> {
        self.shared.update_face(face, settings)
    }

    /// Waits for no worker.
    fn destroy_face(&self, face: FaceId) -> Result<(), UpdateFaceError> {
        self.shared.destroy_face(face)?;
        // What tables hold of it is swept in turns.
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
        counters.push(counter(Some(internal.0.0), "queue_full", internal.1));
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
        counters.retain(|counter| counter.value > 0);
        counters
    }
}

/// Adds what the kernel dropped before the router saw it.
fn with_kernel_drops(mut port: PortStatus, kernel_drops: &HashMap<u64, u64>) -> PortStatus {
    if let Some(drops) = port.socket_inode.and_then(|inode| kernel_drops.get(&inode))
        && *drops > 0
    {
        port.counters.drops.add("kernel_buffer_full", *drops);
    }
    port
}
