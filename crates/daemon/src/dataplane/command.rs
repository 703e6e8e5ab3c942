//! What the control thread asks of the data plane.

use std::sync::mpsc::SyncSender;

use namely_forwarder::FaceId;
use namely_link::DropCounters;
use namely_wire::{FaceUri, LpHeaders};

use super::{
    CreateFaceError, FaceSpec, FaceStatus, FaceUpdate, ListenError, ListenSpec, Packet, UpdateFaceError,
};

/// Where an answer goes. The control thread may have stopped waiting for it.
pub(super) type Reply<T> = SyncSender<T>;

/// A face, and the inode of its socket if it is one for datagrams.
pub(super) type FaceAndInode = (FaceStatus, Option<u64>);

pub(super) enum Command {
    Listen(ListenSpec, Reply<Result<FaceUri, ListenError>>),
    StopListening(FaceUri, Reply<bool>),
    Channels(Reply<Vec<FaceUri>>),
    CreateFace(FaceSpec, Reply<Result<FaceStatus, CreateFaceError>>),
    UpdateFace(FaceId, FaceUpdate, Reply<Result<FaceStatus, UpdateFaceError>>),
    DestroyFace(FaceId, Reply<Result<(), UpdateFaceError>>),
    Face(FaceId, Reply<Option<FaceAndInode>>),
    Faces(Reply<Vec<FaceAndInode>>),
    Drops(Reply<DropCounters>),
    Inject(Packet, LpHeaders),
    RefreshTimers,
    Stop,
}
