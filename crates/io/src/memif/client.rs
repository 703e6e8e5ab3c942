//! The connecting end: a face to a packet processor that listens, such as VPP or NDN-DPDK.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use namely_memif::{Handshake, Options, Progress};
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler};
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::memif::{MemifReceiver, halves, info};
use crate::port::FacePort;
use crate::queue::FrameQueue;
use crate::reconnect::Reconnect;
use crate::sender::{Flushed, Sender, Sent};
use crate::sockets::Interest;
use crate::status::{FaceState, LinkInfo, Reach};
use crate::tcp::refuses_on_demand;

impl<H: Handler> Faces<H> {
    /// Begins to connect to interface `id` of the memif server at `path`.
    /// [`Event::Up`](crate::Event::Up) tells of success; a persistent face that fails is
    /// [`Event::Closed`](crate::Event::Closed), a permanent one tries again.
    ///
    /// # Errors
    /// [`OpenError::TooManyFaces`], or what the system says at once, unless the face is
    /// permanent.
    pub fn connect_memif(
        &mut self,
        path: &Path,
        id: u32,
        persistency: FacePersistency,
    ) -> Result<Arc<FacePort<H::Packet>>, OpenError> {
        super::prepare()?;
        let shown = path.display().to_string();
        let doing = || format!("connecting to {shown}");
        let address = SocketAddrUnix::new(path).map_err(OpenError::system(doing()))?;
        // What peers may have here is no measure of what to ask for there.
        let options = Options { id, ..Options::default() };
        let state = match start(&address, &options) {
            Ok(handshake) => ConnectionState::Shaking(handshake),
            Err(_) if persistency == FacePersistency::Permanent => ConnectionState::Resting,
            Err(errno) => return Err(OpenError::system(doing())(errno)),
        };
        let mut reconnect = Reconnect::default();
        let wait_ns = match state {
            ConnectionState::Resting => reconnect.next_wait_ns(self.options()),
            _ => self.options().tcp.connect_timeout_ns,
        };
        let remote = FaceUri::Memif { path: shown.clone(), id };
        let info = info(remote.clone(), Reach::Neighbour, options.buffer_octets as usize, None);
        let port = self.add_transport(NewTransport {
            receiver: Box::new(Connection { state, address, options, reconnect }),
            sender: Box::new(NoSender),
            info: LinkInfo { refuses: refuses_on_demand, ..info },
            local: remote,
            persistency,
            state: FaceState::Connecting,
        })?;
        self.set_port_timer(&port, self.now_ns().saturating_add(wait_ns));
        Ok(port)
    }
}

/// Opens a socket to the server at `address`, which has not said anything yet.
fn start(address: &SocketAddrUnix, options: &Options) -> Result<Handshake, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, address)?;
    Ok(Handshake::client(socket, *options))
}

/// The receiving half of an interface that this end asks for.
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
    Shaking(Handshake),
    Connected(Box<MemifReceiver>),
}

impl<H: Handler> Receiver<H> for Connection {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            ConnectionState::Shaking(handshake) => Some(handshake.as_fd()),
            ConnectionState::Connected(receiver) => Some(receiver.link.as_fd()),
            ConnectionState::Resting => None,
        }
    }

    fn connected(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        let handshake = match std::mem::replace(&mut self.state, ConnectionState::Resting) {
            ConnectionState::Shaking(handshake) => handshake,
            other => {
                self.state = other;
                return Ok(());
            }
        };
        // Watched for writing so far, as a connection that is being made; after success only the
        // interface is.
        turn.rewatch(&handshake, Interest::Nothing);
        match handshake.proceed().map_err(CloseReason::Memif)? {
            Progress::Waiting(handshake) => {
                turn.rewatch(&handshake, Interest::Read);
                self.state = ConnectionState::Shaking(handshake);
            }
            Progress::Connected(interface) => {
                let (receiver, sender, _) = halves(*interface);
                turn.watch(&receiver.link, Interest::Read);
                turn.port.set_sender(Box::new(sender));
                turn.set_timer(None);
                self.state = ConnectionState::Connected(Box::new(receiver));
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

    /// A ring is to be looked at, connecting took too long, or it is time to connect again.
    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        match &mut self.state {
            ConnectionState::Connected(receiver) => return receiver.on_timer(turn),
            ConnectionState::Shaking(_) => return Err(CloseReason::ConnectTimeout),
            ConnectionState::Resting => (),
        }
        match start(&self.address, &self.options) {
            Ok(handshake) => {
                turn.watch(&handshake, Interest::Write);
                self.state = ConnectionState::Shaking(handshake);
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

/// In the place of a sending half that there is not yet.
struct NoSender;

impl<P: AsRef<[u8]>> Sender<P> for NoSender {
    fn flush(&mut self, _: &mut FrameQueue<P>, _: &mut Sent) -> Result<Flushed, Errno> {
        Ok(Flushed::Blocked)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
