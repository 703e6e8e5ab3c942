//! The listening side. Applications connect and pass their memory. Each becomes a face when its
//! handshake is complete.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use namely_host::closing::{Closer, DeferredDescriptor};
use namely_host::rights;
use namely_memif::{Fault, Handshake, Progress};
use namely_messages::FacePersistency;
use namely_wire::FaceUri;
use rustix::net::{SocketFlags, SocketType};

use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::faces::{Faces, Handler};
use crate::handshakes::{self, Handshakes};
use crate::kind::{AcceptContext, Acceptor, NewTransport};
use crate::labels::listener;
use crate::mapped::MappedMemory;
use crate::memif::{halves, info};
use crate::status::{Credentials, FaceState, RemoteKind};
use crate::unix::{self, ACCEPTS_PER_TURN_MAX, SocketFile, accept_failed, credentials};

impl<H: Handler> Faces<H> {
    /// Listens for memif clients on a path with the given file mode. A stale socket file is
    /// replaced.
    ///
    /// # Errors
    /// The errors of [`Faces::listen_unix`], and the system's error if memif cannot be used.
    pub fn listen_memif(&mut self, path: &Path, mode: u32) -> Result<FaceUri, OpenError> {
        // `accept` could not return this error to a caller.
        super::prepare()?;
        let (socket, file) = unix::listen(path, mode, SocketType::SEQPACKET)?;
        let handshakes = Handshakes::new(&socket).map_err(handshakes::failed)?;
        // Accepted connections inherit the refusal. It is lifted for the time of a handshake.
        let refuses_rights = self.options().refuses_rights && rights::refuse(&socket);
        let local = FaceUri::Memif { path: path.display().to_string(), id: 0 };
        let acceptor = MemifAcceptor {
            mapped: self.shared.mapped.clone(),
            refuses_rights,
            closer: self.shared.closer.clone(),
            socket,
            local: local.clone(),
            handshakes,
            _file: file,
        };
        self.add_listener(Box::new(acceptor), local)
    }
}

struct MemifAcceptor<P> {
    socket: OwnedFd,
    local: FaceUri,
    mapped: Arc<MappedMemory<P>>,
    /// Whether the kernel refuses descriptors on a connection except during its handshake.
    refuses_rights: bool,
    /// Closes descriptors that arrived over the connections, and the connections.
    closer: Closer,
    handshakes: Handshakes<Application>,
    /// The socket file, which is removed with the listener.
    _file: SocketFile,
}

/// An application with a pending handshake.
struct Application {
    handshake: Handshake,
    credentials: Option<Credentials>,
}

impl AsFd for Application {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handshake.as_fd()
    }
}

impl<H: Handler> Acceptor<H> for MemifAcceptor<H::Packet> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.handshakes.as_fd()
    }

    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, _: &mut [u8]) {
        let Ok(ready) = self.handshakes.ready() else { return turn.count(listener::ACCEPT_FAILED) };
        turn.add_drops(listener::MEMIF_HANDSHAKE_TIMEOUT, ready.timed_out);
        // Handshakes that can proceed are served first, because a new connection may evict them.
        ready.numbers.into_iter().for_each(|number| self.proceed(number, turn));
        if ready.is_listener_ready {
            self.accept_connections(turn);
        }
    }
}

impl<P: Buffer> MemifAcceptor<P> {
    /// Begins handshakes with new connections.
    fn accept_connections<H: Handler<Packet = P>>(&mut self, turn: &mut AcceptContext<'_, H>) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if turn.is_over() {
                return;
            }
            if !self.refuses_rights && self.closer.is_swamped() {
                // Even a connection that is refused may carry descriptors to close.
                return turn.rest(&self.handshakes);
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => socket,
                Err(errno) if accept_failed(turn, &self.handshakes, errno) => return,
                Err(_) => continue,
            };
            let credentials = credentials(&socket);
            let holder = unix::holder(credentials);
            if self.refuses_rights && self.closer.is_full(holder) {
                turn.count(listener::MEMIF_DESCRIPTORS_FULL);
                continue;
            }
            let socket = DeferredDescriptor::new(socket, self.closer.clone(), holder);
            let begun =
                Handshake::server(socket, turn.options().memif.interface, &self.mapped.budget(holder));
            match begun.map(|handshake| self.handshakes.begin(holder, Application { handshake, credentials }))
            {
                Ok(Ok(evicted)) => turn.add_drops(listener::MEMIF_HANDSHAKES_FULL, evicted),
                Ok(Err(_)) => turn.count(listener::ACCEPT_FAILED),
                Err(fault) => turn.count(label(&fault)),
            }
        }
    }

    fn proceed<H: Handler<Packet = P>>(&mut self, number: u64, turn: &mut AcceptContext<'_, H>) {
        let Some(pending) = self.handshakes.take(number) else { return };
        let (Application { handshake, credentials }, holder, again) = pending.into_parts();
        match handshake.proceed() {
            Ok(Progress::Waiting(handshake)) => {
                if self.handshakes.put_back(again(Application { handshake, credentials })).is_err() {
                    turn.count(listener::ACCEPT_FAILED);
                }
            }
            Ok(Progress::Connected(mut interface)) => {
                // Admitted only now, so that a connection without a handshake uses no slot of the
                // face table.
                let Some(admission) = turn.admit(holder) else { return };
                let remote = FaceUri::Fd(interface.link.as_fd().as_raw_fd() as u64);
                // Taken out, because `halves` consumes the interface.
                let shares = std::mem::take(&mut interface.shares);
                let (receiver, sender, mtu) = halves(*interface);
                let new = NewTransport {
                    receiver: Box::new(receiver),
                    sender: Box::new(sender),
                    info: info(remote, RemoteKind::Local, mtu, credentials),
                    local: self.local.clone(),
                    persistency: FacePersistency::OnDemand,
                    state: FaceState::Up,
                };
                turn.adopt(new, admission, None, |port| self.mapped.know(port, &shares));
            }
            Err(fault) => turn.count(label(&fault)),
        }
    }
}

/// Returns the label of the counter for a failed handshake.
fn label(fault: &Fault) -> &'static str {
    match fault {
        Fault::Closed | Fault::Disconnected(_) => listener::MEMIF_GONE,
        Fault::BadSecret => listener::MEMIF_SECRET,
        Fault::TooMuch | Fault::NoBudget => listener::MEMIF_TOO_MUCH,
        Fault::BadMemory => listener::MEMIF_MEMORY,
        Fault::BadMessage(_) | Fault::Unexpected | Fault::BadVersion | Fault::BadMode => {
            listener::MEMIF_PROTOCOL
        }
        Fault::System(_) => listener::ACCEPT_FAILED,
    }
}
