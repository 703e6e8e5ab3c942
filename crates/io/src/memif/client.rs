//! The connecting side: a face to a packet processor that listens, such as VPP or NDN-DPDK.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use namely_memif::{Handshake, Options, Progress};
use namely_messages::FacePersistency;
use namely_wire::FaceUri;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler};
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::memif::{MemifReceiver, halves, info};
use crate::port::FaceSender;
use crate::queue::FrameQueue;
use crate::reconnect::Reconnect;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::sockets::Interest;
use crate::status::{FaceState, LinkInfo, RemoteKind};
use crate::tcp::refuses_on_demand;

impl<H: Handler> Faces<H> {
    /// Begins to connect to interface `id` of the memif server at `path`.
    /// [`Event::Up`](crate::Event::Up) reports success. [`Event::Closed`](crate::Event::Closed)
    /// reports the failure of a persistent face. A permanent face tries again.
    ///
    /// # Errors
    /// [`OpenError::TooManyFaces`], or the system's immediate error, unless the face is permanent.
    pub fn connect_memif(
        &mut self,
        path: &Path,
        id: u32,
        persistency: FacePersistency,
    ) -> Result<Arc<FaceSender<H::Packet>>, OpenError> {
        super::prepare()?;
        let shown = path.display().to_string();
        let doing = || format!("connecting to {shown}");
        let address = SocketAddrUnix::new(path).map_err(OpenError::system(doing()))?;
        // The limits of peers that connect do not apply to an interface that this end requests.
        let options = Options { id, ..Options::default() };
        let state = match start(&address, &options) {
            Ok(handshake) => ConnectionState::Handshaking(handshake),
            // The server may start later.
            Err(_) if persistency == FacePersistency::Permanent => ConnectionState::Resting,
            Err(errno) => return Err(OpenError::system(doing())(errno)),
        };
        let mut reconnect = Reconnect::default();
        let wait_ns = match state {
            ConnectionState::Resting => reconnect.next_wait_ns(self.options()),
            _ => self.options().tcp.connect_timeout_ns,
        };
        let remote = FaceUri::Memif { path: shown.clone(), id };
        let info = info(remote.clone(), RemoteKind::Neighbour, options.buffer_octets as usize, None);
        let port = self.add_transport(NewTransport {
            receiver: Box::new(Connection { state, address, options, reconnect }),
            sender: Box::new(NoSender),
            info: LinkInfo { refuses: refuses_on_demand, ..info },
            local: remote,
            persistency,
            state: FaceState::Connecting,
        })?;
        self.set_face_timer(&port, self.now_ns().saturating_add(wait_ns));
        Ok(port)
    }
}

/// Opens a socket to the server at `address`. The handshake begins with the server's first message.
fn start(address: &SocketAddrUnix, options: &Options) -> Result<Handshake, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, address)?;
    Ok(Handshake::client(socket, *options))
}

/// The receiving half of an interface that this end requests.
#[derive(Debug)]
struct Connection {
    state: ConnectionState,
    address: SocketAddrUnix,
    options: Options,
    reconnect: Reconnect,
}

#[derive(Debug)]
enum ConnectionState {
    /// Waiting to connect again, or failed.
    Resting,
    Handshaking(Handshake),
    Connected(Box<MemifReceiver>),
}

impl<H: Handler> Receiver<H> for Connection {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            ConnectionState::Handshaking(handshake) => Some(handshake.as_fd()),
            ConnectionState::Connected(receiver) => Some(receiver.link.as_fd()),
            ConnectionState::Resting => None,
        }
    }

    fn connected(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        // Taken out, because `proceed` consumes it. After a failure the state is `Resting`.
        let handshake = match std::mem::replace(&mut self.state, ConnectionState::Resting) {
            ConnectionState::Handshaking(handshake) => handshake,
            other => {
                self.state = other;
                return Ok(());
            }
        };
        // The socket was watched for writing while it connected. After the handshake only the
        // interface is watched.
        turn.rewatch(&handshake, Interest::Nothing);
        match handshake.proceed().map_err(CloseReason::Memif)? {
            Progress::Waiting(handshake) => {
                turn.rewatch(&handshake, Interest::Read);
                self.state = ConnectionState::Handshaking(handshake);
            }
            Progress::Connected(interface) => {
                let (receiver, sender, _) = halves(*interface);
                turn.watch(&receiver.link, Interest::Read);
                turn.port.set_sender(Box::new(sender));
                turn.set_timer(None);
                self.state = ConnectionState::Connected(Box::new(receiver));
                // After a success, the next wait is the shortest one again.
                self.reconnect = Reconnect::default();
                turn.up();
            }
        }
        Ok(())
    }

    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        match &mut self.state {
            ConnectionState::Connected(receiver) => receiver.read(turn, scratch),
            _ => Ok(()),
        }
    }

    /// Retries a ring, ends an attempt to connect that took too long, or connects again, depending
    /// on the state.
    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        match &mut self.state {
            ConnectionState::Connected(receiver) => return receiver.on_timer(turn),
            ConnectionState::Handshaking(_) => return Err(CloseReason::ConnectTimeout),
            ConnectionState::Resting => (),
        }
        match start(&self.address, &self.options) {
            Ok(handshake) => {
                turn.watch(&handshake, Interest::Write);
                self.state = ConnectionState::Handshaking(handshake);
                let timeout_ns = turn.options().tcp.connect_timeout_ns;
                turn.set_timer(Some(turn.now_ns().saturating_add(timeout_ns)));
            }
            Err(_) => self.reconnect.rest(turn),
        }
        Ok(())
    }

    fn take_down(&mut self, turn: &mut ReadContext<'_, H>) -> bool {
        self.state = ConnectionState::Resting;
        self.reconnect.rest(turn);
        true
    }
}

/// The sending half of a port that is not connected. Frames stay in the queue.
struct NoSender;

impl<P: AsRef<[u8]>> Sender<P> for NoSender {
    fn flush(&mut self, _: &mut FrameQueue<P>, _: &mut FlushReport) -> Result<FlushProgress, Errno> {
        Ok(FlushProgress::Blocked)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
