//! The control thread's handle on the data plane.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use namely_forwarder::{FaceError, FaceId, FaceSpec as CoreFaceSpec};
use namely_io::{EventLoop, OpenError, Waker};
use namely_link::DropCounters;
use namely_wire::{FaceUri, LpHeaders};
use parking_lot::Mutex;

use super::command::{Command, FaceAndInode, Reply};
use super::inbox::{self, Inbox};
use super::worker::Worker;
use super::{
    Core, CreateFaceError, DataPlaneOptions, FaceSpec, FaceStatus, FaceUpdate, ListenError, ListenSpec,
    Packet, UpdateFaceError,
};

/// Commands that wait for the data plane; whoever sends one more waits.
const COMMANDS_MAX: usize = 256;

/// The running data plane. Dropping it stops it.
pub struct DataPlane {
    commands: SyncSender<Command>,
    waker: Waker,
    core: Arc<Core>,
    internal_face: FaceId,
    thread: Mutex<Option<JoinHandle<()>>>,
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
    /// Starts the data plane's thread. It has one face, the internal one, and listens nowhere.
    ///
    /// # Errors
    /// When the system gives no epoll instance, randomness or thread.
    pub fn start(options: DataPlaneOptions, core: Arc<Core>) -> Result<(DataPlane, Inbox), StartError> {
        let fit = namely_io::descriptors::make_room_for(options.io.transports_max);
        if fit < options.io.transports_max {
            tracing::warn!(
                "the system's limit on open files allows {fit} faces: raise it (ulimit -n) for more"
            );
        }
        let mut event_loop = EventLoop::new(options.io)?;
        let waker = event_loop.waker();
        let spec = CoreFaceSpec { local_fields: true, ..CoreFaceSpec::application() };
        let internal_face = core.face_register(spec).map_err(StartError::Face)?;
        let (commands, receiver) = sync_channel(COMMANDS_MAX);
        let (outbox, inbox) = inbox::pair();
        let mut worker = Worker::new(options, core.clone(), internal_face, receiver, outbox)
            .map_err(StartError::System)?;
        let thread = std::thread::Builder::new()
            .name("data-plane".into())
            .spawn(move || {
                if let Err(errno) = event_loop.run(&mut worker) {
                    tracing::error!("the data plane cannot wait for its sockets: {errno}");
                }
            })
            .map_err(|error| StartError::System(error.to_string()))?;
        let handle = DataPlane { commands, waker, core, internal_face, thread: Mutex::new(Some(thread)) };
        Ok((handle, inbox))
    }

    /// The face by which the router itself sends and receives: the next hop for management's prefixes.
    pub fn internal_face(&self) -> FaceId {
        self.internal_face
    }

    /// Listens. Returns the address, with the port that was given where 0 was asked for.
    ///
    /// # Errors
    /// [`ListenError`] says what to do.
    pub fn listen(&self, spec: ListenSpec) -> Result<FaceUri, ListenError> {
        self.call(|reply| Command::Listen(spec, reply)).unwrap_or_else(|| Err(ListenError(STOPPED.into())))
    }

    /// Stops listening on an address that [`DataPlane::channels`] shows; false if there is none. Its faces stay.
    pub fn stop_listening(&self, local: FaceUri) -> bool {
        self.call(|reply| Command::StopListening(local, reply)).unwrap_or(false)
    }

    /// The addresses on which faces are accepted.
    pub fn channels(&self) -> Vec<FaceUri> {
        self.call(Command::Channels).unwrap_or_default()
    }

    /// Makes a face. A persistent TCP face is made when the peer has accepted the connection, which this call
    /// waits for; all others at once.
    ///
    /// # Errors
    /// [`CreateFaceError`] says whose fault it is.
    pub fn create_face(&self, spec: FaceSpec) -> Result<FaceStatus, CreateFaceError> {
        self.call(|reply| Command::CreateFace(spec, reply)).unwrap_or(Err(CreateFaceError::Stopped))
    }

    /// Changes a face.
    ///
    /// # Errors
    /// [`UpdateFaceError`]; the face is then as before.
    pub fn update_face(&self, face: FaceId, update: FaceUpdate) -> Result<FaceStatus, UpdateFaceError> {
        let status = self.call(|reply| Command::UpdateFace(face, update, reply));
        status.unwrap_or(Err(UpdateFaceError::Stopped))
    }

    /// Destroys a face with its routes. The internal face cannot be destroyed.
    ///
    /// # Errors
    /// [`UpdateFaceError`].
    pub fn destroy_face(&self, face: FaceId) -> Result<(), UpdateFaceError> {
        self.call(|reply| Command::DestroyFace(face, reply)).unwrap_or(Err(UpdateFaceError::Stopped))
    }

    /// One face.
    pub fn face(&self, face: FaceId) -> Option<FaceStatus> {
        let (mut status, inode) = self.call(|reply| Command::Face(face, reply)).flatten()?;
        if let Some(hold) = self.core.face_hold(face) {
            status.counters.set_packets(&hold.packets());
        }
        let kernel_drops = if inode.is_some() { namely_io::udp::kernel_drops() } else { HashMap::new() };
        Some(with_kernel_drops((status, inode), &kernel_drops))
    }

    /// Every face, in the order of numbers.
    pub fn faces(&self) -> Vec<FaceStatus> {
        let mut faces = self.call(Command::Faces).unwrap_or_default();
        let packets: HashMap<FaceId, _> =
            self.core.faces_snapshot().into_iter().map(|face| (face.id, face.packets)).collect();
        faces.sort_by_key(|(status, _)| status.face_id);
        let kernel_drops = namely_io::udp::kernel_drops();
        let complete = |(mut status, inode): FaceAndInode| {
            if let Some(packets) = packets.get(&status.face_id) {
                status.counters.set_packets(packets);
            }
            with_kernel_drops((status, inode), &kernel_drops)
        };
        faces.into_iter().map(complete).collect()
    }

    /// Drops of all faces and listeners that are or were, by reason.
    pub fn drops(&self) -> DropCounters {
        self.call(Command::Drops).unwrap_or_default()
    }

    /// Sends a packet into the forwarder from the internal face. False if the data plane has stopped.
    pub fn inject(&self, packet: impl Into<Packet>, headers: LpHeaders) -> bool {
        self.post(Command::Inject(packet.into(), headers))
    }

    /// Tells the data plane that something expires earlier than it knows: a route was added with an expiration.
    pub fn refresh_timers(&self) {
        self.post(Command::RefreshTimers);
    }

    /// Stops the data plane: what is queued is sent as far as sockets take it, then they close. Calls that wait
    /// on other threads end as refused.
    pub fn stop(&self) {
        self.post(Command::Stop);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the data plane ended by a panic");
        }
    }

    fn post(&self, command: Command) -> bool {
        let is_sent = self.commands.send(command).is_ok();
        self.waker.wake();
        is_sent
    }

    /// Sends a command and waits for its answer; none if the data plane has stopped.
    fn call<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Option<T> {
        let (reply, answer) = sync_channel(1);
        if !self.post(command(reply)) {
            return None;
        }
        answer.recv().ok()
    }
}

const STOPPED: &str = "the router is stopping";

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Adds what the kernel dropped before the router saw it.
fn with_kernel_drops((mut status, inode): FaceAndInode, kernel_drops: &HashMap<u64, u64>) -> FaceStatus {
    if let Some(drops) = inode.and_then(|inode| kernel_drops.get(&inode))
        && *drops > 0
    {
        status.counters.drops.push(("kernel_buffer_full", *drops));
    }
    status
}
