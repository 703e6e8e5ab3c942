//! Commands to a worker.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use namely_forwarder::FaceId;
use namely_io::DropCounters;
use namely_messages::FaceStatus;
use namely_mgmt::{CreateFaceError, FaceSpec};
use namely_nnet::Socket;
use namely_wire::{FaceUri, LpHeaders};

use crate::trace::Traces;
use crate::{ListenError, ListenSpec, Packet};

/// The channel of an answer. The caller may have stopped waiting for it.
pub(super) type Reply<T> = SyncSender<T>;

pub(super) enum Command {
    Listen(ListenSpec, Reply<Result<FaceUri, ListenError>>),
    StopListening(FaceUri, Reply<bool>),
    Channels(Reply<Vec<FaceUri>>),
    ListenerDrops(Reply<DropCounters>),
    CreateFace(FaceSpec, Reply<Result<FaceStatus, CreateFaceError>>),
    /// Serve management to the kernel's applications through this socket.
    Manage(Arc<Socket>, Reply<Result<FaceStatus, CreateFaceError>>),
    Inject(FaceId, Packet, LpHeaders),
    Send(FaceId, Packet),
    RefreshTimers,
    /// Check the sockets, because addresses or network devices have changed.
    AddressesChanged,
    /// Record packets of exactly these traces from now on.
    Trace(Traces, Reply<()>),
    Answer(Reply<()>),
    Stop,
}
