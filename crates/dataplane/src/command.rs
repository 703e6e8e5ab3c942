//! What is asked of a worker.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use namely_forwarder::FaceId;
use namely_io::DropCounters;
use namely_mgmt::{CreateFaceError, FaceSpec};
use namely_nnet::Socket;
use namely_wire::mgmt::FaceStatus;
use namely_wire::{FaceUri, LpHeaders};

use crate::trace::Traces;
use crate::{ListenError, ListenSpec, Packet};

/// Where an answer goes. Whoever asked may have stopped waiting for it.
pub(super) type Reply<T> = SyncSender<T>;

pub(super) enum Command {
    Listen(ListenSpec, Reply<Result<FaceUri, ListenError>>),
    StopListening(FaceUri, Reply<bool>),
    Channels(Reply<Vec<FaceUri>>),
    ListenerDrops(Reply<DropCounters>),
    CreateFace(FaceSpec, Reply<Result<FaceStatus, CreateFaceError>>),
    /// Answer for management to the kernel's applications, by this socket.
    Manage(Arc<Socket>, Reply<Result<FaceStatus, CreateFaceError>>),
    Inject(FaceId, Packet, LpHeaders),
    Send(FaceId, Packet),
    RefreshTimers,
    /// Take down packets of these from now on, and of no other.
    Trace(Traces, Reply<()>),
    Answer(Reply<()>),
    Stop,
}
