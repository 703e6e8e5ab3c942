//! The listening end: applications connect, bring their memory, and are faces when they have.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use namely_host::closing::{Closer, Entrusted};
use namely_host::rights;
use namely_memif::{Budget, Fault, Handshake, Progress};
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{SocketFlags, SocketType};

use crate::error::OpenError;
use crate::faces::{Faces, Handler};
use crate::kind::{AcceptContext, Acceptor, NewTransport};
use crate::memif::{halves, info};
use crate::status::{Credentials, FaceState, Reach};
use crate::unix::{self, ACCEPTS_PER_TURN_MAX, SocketFile, accept_failed, credentials};

/// Applications that connected and have not brought everything yet. One more puts out the one that
/// waited longest.
const HANDSHAKES_MAX: usize = 64;

/// What the listening socket is known by among the handshakes.
const LISTENER: u64 = u64::MAX;

impl<H: Handler> Faces<H> {
    /// Listens for memif clients on a path with the given file mode. A stale socket file is
    /// replaced.
    ///
    /// # Errors
    /// As [`Faces::listen_unix`].
    pub fn listen_memif(&mut self, path: &Path, mode: u32) -> Result<FaceUri, OpenError> {
        super::prepare()?;
        let (socket, file) = unix::listen(path, mode, SocketType::SEQPACKET)?;
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(OpenError::system("opening an epoll instance"))?;
        epoll::add(&epoll, &socket, EventData::new_u64(LISTENER), EventFlags::IN)
            .map_err(OpenError::system("watching a socket"))?;
        // Connections take them while their handshakes are under way.
        let refuses_rights = self.options().refuses_rights && rights::refuse(&socket);
        let local = FaceUri::Memif { path: path.display().to_string(), id: 0 };
        let acceptor = MemifAcceptor {
            budget: self.shared.memif_budget.clone(),
            refuses_rights,
            closer: self.shared.closer.clone(),
            socket,
            epoll,
            local: local.clone(),
            pending: BTreeMap::new(),
            next: 0,
            _file: file,
        };
        self.add_listener(Box::new(acceptor), local)
    }
}

struct MemifAcceptor {
    socket: OwnedFd,
    /// Watches the socket and the handshakes.
    epoll: OwnedFd,
    local: FaceUri,
    budget: Budget,
    /// A connection takes descriptors only while its handshake is under way.
    refuses_rights: bool,
    /// Closes what came over the connections, and these.
    closer: Closer,
    /// In the order of their coming.
    pending: BTreeMap<u64, Pending>,
    next: u64,
    /// The file goes with the listener.
    _file: SocketFile,
}

struct Pending {
    handshake: Handshake,
    credentials: Option<Credentials>,
}

impl<H: Handler> Acceptor<H> for MemifAcceptor {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, _: &mut [u8]) {
        let mut ready = Vec::with_capacity(HANDSHAKES_MAX + 1);
        let spare = rustix::buffer::spare_capacity(&mut ready);
        if epoll::wait(&self.epoll, spare, Some(&Timespec::default())).is_err() {
            return;
        }
        for event in &ready {
            match event.data.u64() {
                LISTENER => self.accept_connections(turn),
                number => self.proceed(number, turn),
            }
        }
    }
}

impl MemifAcceptor {
    /// Begins handshakes with those who connected.
    fn accept_connections<H: Handler>(&mut self, turn: &mut AcceptContext<'_, H>) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if !self.refuses_rights && self.closer.is_swamped() {
                // A connection that is refused may hold descriptors too.
                return turn.rest(&self.epoll);
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => socket,
                Err(errno) if accept_failed(turn, &self.epoll, errno) => return,
                Err(_) => continue,
            };
            let credentials = credentials(&socket);
            let holder = unix::holder(credentials);
            if self.refuses_rights && self.closer.is_full(holder) {
                turn.count("memif_descriptors_full");
                continue;
            }
            let socket = Entrusted::new(socket, self.closer.clone(), holder);
            match Handshake::server(socket, turn.options().memif.interface, &self.budget) {
                Ok(handshake) => self.wait_for(turn, Pending { handshake, credentials }),
                Err(fault) => turn.count(label(&fault)),
            }
        }
    }

    fn wait_for<H: Handler>(&mut self, turn: &mut AcceptContext<'_, H>, pending: Pending) {
        if self.pending.len() >= HANDSHAKES_MAX && self.pending.pop_first().is_some() {
            turn.count("memif_handshakes_full");
        }
        self.next += 1;
        let watched =
            epoll::add(&self.epoll, &pending.handshake, EventData::new_u64(self.next), EventFlags::IN);
        match watched {
            Ok(()) => {
                self.pending.insert(self.next, pending);
            }
            Err(_) => turn.count("accept_failed"),
        }
    }

    fn proceed<H: Handler>(&mut self, number: u64, turn: &mut AcceptContext<'_, H>) {
        let Some(Pending { handshake, credentials }) = self.pending.remove(&number) else { return };
        // A face is watched elsewhere.
        let _ = epoll::delete(&self.epoll, &handshake);
        match handshake.proceed() {
            Ok(Progress::Waiting(handshake)) => self.wait_for(turn, Pending { handshake, credentials }),
            Ok(Progress::Connected(interface)) => {
                let Some(admission) = turn.admit(unix::holder(credentials)) else { return };
                let remote = FaceUri::Fd(interface.link.as_fd().as_raw_fd() as u64);
                let (receiver, sender, mtu) = halves(*interface);
                let new = NewTransport {
                    receiver: Box::new(receiver),
                    sender: Box::new(sender),
                    info: info(remote, Reach::Local, mtu, credentials),
                    local: self.local.clone(),
                    persistency: FacePersistency::OnDemand,
                    state: FaceState::Up,
                };
                turn.adopt(new, admission, None, |_| ());
            }
            Err(fault) => turn.count(label(&fault)),
        }
    }
}

/// The name under which a handshake that failed is counted.
fn label(fault: &Fault) -> &'static str {
    match fault {
        Fault::Closed | Fault::Disconnected(_) => "memif_gone",
        Fault::BadSecret => "memif_secret",
        Fault::TooMuch | Fault::NoBudget => "memif_too_much",
        Fault::BadMemory => "memif_memory",
        Fault::BadMessage(_) | Fault::Unexpected | Fault::BadVersion | Fault::BadMode => "memif_protocol",
        Fault::System(_) => "accept_failed",
    }
}
