//! The listener: accepts connections and brings their handshakes to an end.
//!
//! Its descriptor is an epoll instance of its own, which watches the listening socket, the
//! connections whose handshake is under way, and a timer for the oldest of them: the worker sees
//! one source.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use namely_host::shares::Holder;
use namely_wire::FaceUri;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use tungstenite::HandshakeError;
use tungstenite::handshake::MidHandshake;
use tungstenite::handshake::server::{NoCallback, ServerHandshake};

use super::wire::Wire;
use super::{HANDSHAKE_NS_MAX, HANDSHAKE_OCTETS_MAX, HANDSHAKES_MAX, config, halves};
use crate::error::OpenError;
use crate::faces::Handler;
use crate::kind::{AcceptContext, Acceptor};
use crate::tcp;
use crate::unix::{ACCEPTS_PER_TURN_MAX, accept_failed};
use namely_host::clock;

/// Numbers of the epoll instance; connections have those below.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// What a client hears whose request is no opening handshake.
const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

type Handshake = MidHandshake<ServerHandshake<Wire, NoCallback>>;

/// A connection whose handshake is under way.
struct Pending {
    handshake: Handshake,
    socket: Arc<OwnedFd>,
    peer: SocketAddr,
    deadline_ns: u64,
}

pub(super) struct WebSocketAcceptor {
    epoll: OwnedFd,
    socket: OwnedFd,
    timer: OwnedFd,
    local: FaceUri,
    /// By the order of their coming, which is that of their deadlines.
    pending: BTreeMap<u64, Pending>,
    next: u64,
}

impl WebSocketAcceptor {
    pub(super) fn new(socket: OwnedFd, local: FaceUri) -> Result<Self, OpenError> {
        let failed = || OpenError::system("preparing a WebSocket listener");
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed())?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(failed())?;
        epoll::add(&epoll, &socket, EventData::new_u64(LISTENER), EventFlags::IN).map_err(failed())?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN).map_err(failed())?;
        Ok(WebSocketAcceptor { epoll, socket, timer, local, pending: BTreeMap::new(), next: 0 })
    }

    /// Accepts clients that connect.
    fn take_up<H: Handler>(&mut self, turn: &mut AcceptContext<'_, H>) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::acceptfrom_with(&self.socket, flags) {
                Ok((socket, peer)) => {
                    let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else { continue };
                    if turn.may_have_a_face(Holder::address(peer.ip())) {
                        self.begin(turn, socket, peer);
                    }
                }
                Err(errno) if accept_failed(turn, &self.epoll, errno) => return,
                Err(_) => (),
            }
        }
    }

    fn begin<H: Handler>(&mut self, turn: &mut AcceptContext<'_, H>, socket: OwnedFd, peer: SocketAddr) {
        tcp::prepare(&socket);
        if self.pending.len() >= HANDSHAKES_MAX {
            self.pending.pop_first();
            turn.count("websocket_handshakes_full");
        }
        let socket = Arc::new(socket);
        let number = self.next;
        if epoll::add(&self.epoll, &*socket, EventData::new_u64(number), EventFlags::IN).is_err() {
            return turn.count("accept_failed");
        }
        self.next += 1;
        let wire = Wire::new(socket.clone(), HANDSHAKE_OCTETS_MAX);
        let handshake = ServerHandshake::start(wire, NoCallback, Some(config()));
        let deadline_ns = clock::monotonic_ns().saturating_add(HANDSHAKE_NS_MAX);
        self.pending.insert(number, Pending { handshake, socket, peer, deadline_ns });
        if self.pending.len() == 1 {
            self.set_timer();
        }
    }

    /// Goes on with the handshake of a connection that sent something.
    fn go_on<H: Handler>(&mut self, turn: &mut AcceptContext<'_, H>, number: u64) {
        let Some(Pending { handshake, socket, peer, deadline_ns }) = self.pending.remove(&number) else {
            return;
        };
        match handshake.handshake() {
            Ok(connection) => {
                let _ = epoll::delete(&self.epoll, &*socket);
                let Some(admission) = turn.admit(Holder::address(peer.ip())) else { return };
                let new = halves::client(connection.into_inner(), peer, self.local.clone());
                turn.adopt(new, admission, None, |_| ());
            }
            Err(HandshakeError::Interrupted(handshake)) => {
                self.pending.insert(number, Pending { handshake, socket, peer, deadline_ns });
            }
            Err(HandshakeError::Failure(_)) => {
                // Whoever does not take it need not hear it.
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                let _ = rustix::net::send(&*socket, BAD_REQUEST, flags);
                turn.count("websocket_handshake_failed");
            }
        }
    }

    /// Drops connections that take too long.
    fn expire<H: Handler>(&mut self, turn: &mut AcceptContext<'_, H>) {
        let mut fired = [0; 8];
        let _ = rustix::io::read(&self.timer, &mut fired);
        let now_ns = clock::monotonic_ns();
        while self.pending.first_entry().is_some_and(|entry| entry.get().deadline_ns <= now_ns) {
            self.pending.pop_first();
            turn.count("websocket_handshake_timeout");
        }
        self.set_timer();
    }

    /// Has the timer fire when the oldest connection has had its time; without one, never.
    fn set_timer(&self) {
        let due_ns = self.pending.first_key_value().map_or(0, |(_, pending)| pending.deadline_ns);
        let it_value =
            Timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        // It fails on malformed times only.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once);
    }
}

impl<H: Handler> Acceptor<H> for WebSocketAcceptor {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, _scratch: &mut [u8]) {
        let mut ready = Vec::with_capacity(HANDSHAKES_MAX + 2);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spare = rustix::buffer::spare_capacity(&mut ready);
        match epoll::wait(&self.epoll, spare, Some(&now)) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(_) => return turn.count("accept_failed"),
        }
        for event in ready {
            match event.data.u64() {
                LISTENER => self.take_up(turn),
                TIMER => self.expire(turn),
                number => self.go_on(turn, number),
            }
        }
    }
}
