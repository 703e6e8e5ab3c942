//! The connecting end: a face to a packet processor that listens, such as VPP or NDN-DPDK.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use namely_memif::{Handshake, Options, Progress};
use namely_wire::face_uri::FaceUri;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::error::{CloseReason, OpenError};
use crate::kind::{Flushed, NewTransport, Receiver, Sender};
use crate::memif::{MemifReceiver, about, halves};
use crate::options::Persistency;
use crate::port::{Sent, TransportState};
use crate::queue::FrameQueue;
use crate::sockets::{self, Interest};
use crate::transport::{Reach, TransportId};
use crate::transports::Transports;
use crate::turn::Turn;

impl<P: AsRef<[u8]> + Clone + Send + 'static> Transports<P> {
    /// Begins to connect to interface `id` of the memif server at `path`. [`Event::Up`](crate::Event::Up) tells of
    /// success, [`Event::Closed`](crate::Event::Closed) of failure.
    ///
    /// # Errors
    /// [`OpenError::TooManyTransports`], or what the system says at once.
    pub fn connect_memif(&mut self, path: &Path, id: u32) -> Result<TransportId, OpenError> {
        let shown = path.display().to_string();
        let doing = || format!("connecting to {shown}");
        let address = SocketAddrUnix::new(path).map_err(OpenError::system(doing()))?;
        let socket = sockets::open(AddressFamily::UNIX, SocketType::SEQPACKET)?;
        rustix::net::connect(&socket, &address).map_err(OpenError::system(doing()))?;
        // What peers may have here is no measure of what to ask for there.
        let options = Options { id, ..Options::default() };
        let remote = FaceUri::Memif { path: shown.clone(), id };
        let new = NewTransport {
            receiver: Box::new(Connection::Shaking(Handshake::client(socket, options))),
            sender: Box::new(NoSender),
            about: about(remote.clone(), Reach::Neighbour, options.buffer_octets as usize, None),
            local: remote,
            persistency: Persistency::Persistent,
            state: TransportState::Connecting,
        };
        let transport = self.add_transport(new)?;
        let timeout_ns = self.options().tcp.connect_timeout_ns;
        self.set_timer(transport, Some(self.now_ns().saturating_add(timeout_ns)));
        Ok(transport)
    }
}

/// The receiving half of an interface that this end asked for.
#[derive(Debug)]
enum Connection {
    Shaking(Handshake),
    Connected(Box<MemifReceiver>),
    Failed,
}

impl<P: AsRef<[u8]> + Clone + Send + 'static> Receiver<P> for Connection {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Connection::Shaking(handshake) => Some(handshake.as_fd()),
            Connection::Connected(receiver) => Some(receiver.link.as_fd()),
            Connection::Failed => None,
        }
    }

    fn connected(&mut self, turn: &mut Turn<'_, P>) -> Result<(), CloseReason> {
        let Connection::Shaking(handshake) = std::mem::replace(self, Connection::Failed) else {
            return Ok(());
        };
        // Watched for writing so far, as a connection that is being made; after success only the interface is.
        turn.rewatch(&handshake, Interest::Nothing);
        match handshake.proceed().map_err(CloseReason::Memif)? {
            Progress::Waiting(handshake) => {
                turn.rewatch(&handshake, Interest::Read);
                *self = Connection::Shaking(handshake);
            }
            Progress::Connected(interface) => {
                let (receiver, sender, _) = halves(*interface);
                turn.watch(&receiver.link, Interest::Read);
                turn.port.set_sender(Box::new(sender));
                turn.set_timer(None);
                *self = Connection::Connected(Box::new(receiver));
                turn.up();
            }
        }
        Ok(())
    }

    fn read(&mut self, turn: &mut Turn<'_, P>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        match self {
            Connection::Connected(receiver) => receiver.read(turn, scratch),
            _ => Ok(()),
        }
    }

    fn on_timer(&mut self, turn: &mut Turn<'_, P>) -> Result<(), CloseReason> {
        match self {
            Connection::Connected(receiver) => receiver.on_timer(turn),
            _ => Err(CloseReason::ConnectTimeout),
        }
    }
}

/// In the place of a sending half that there is not yet.
struct NoSender;

impl<P: AsRef<[u8]> + Clone + Send + 'static> Sender<P> for NoSender {
    fn flush(&mut self, _: &mut FrameQueue<P>, _: &mut Sent) -> Result<Flushed, Errno> {
        Ok(Flushed::Blocked)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
