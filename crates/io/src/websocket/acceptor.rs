//! The listener: accepts connections and brings their handshakes to an end.
//!
//! Its descriptor is an epoll instance. It watches the listening socket, the connections whose
//! handshake is under way, and a timer for the oldest of them, so the worker sees one source.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namely_host::shares::Owner;
use namely_wire::FaceUri;
use rustix::net::{SendFlags, SocketFlags};
use tungstenite::HandshakeError;
use tungstenite::handshake::MidHandshake;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response, ServerHandshake};

use super::wire::Wire;
use super::{HANDSHAKE_OCTETS_MAX, config, halves};
use crate::error::OpenError;
use crate::faces::Handler;
use crate::handshakes::{self, Handshakes};
use crate::kind::{AcceptContext, Acceptor};
use crate::labels::listener;
use crate::tcp;
use crate::unix::{ACCEPTS_PER_TURN_MAX, accept_failed};

/// The answer to a request that is no opening handshake.
const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

type Handshake = MidHandshake<ServerHandshake<Wire, NoteOrigin>>;

/// Records whether the client is a browser. A browser names its page in the header Origin, which no
/// page can suppress (RFC 6455, section 4.1; Fetch, section 3.2).
struct NoteOrigin(Arc<AtomicBool>);

impl Callback for NoteOrigin {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        // Relaxed: the worker that runs the handshake also reads the flag.
        self.0.store(request.headers().contains_key("origin"), Ordering::Relaxed);
        Ok(response)
    }
}

/// A connection with a handshake under way.
struct Client {
    handshake: Handshake,
    is_browser: Arc<AtomicBool>,
    socket: Arc<OwnedFd>,
    peer: SocketAddr,
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(super) struct WebSocketAcceptor {
    socket: OwnedFd,
    local: FaceUri,
    handshakes: Handshakes<Client>,
}

impl WebSocketAcceptor {
    pub(super) fn new(socket: OwnedFd, local: FaceUri) -> Result<Self, OpenError> {
        let handshakes = Handshakes::new(&socket).map_err(handshakes::failed)?;
        Ok(WebSocketAcceptor { socket, local, handshakes })
    }

    /// Accepts clients that connect.
    fn take_up<H: Handler>(&mut self, turn: &mut AcceptContext<'_, H>) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if turn.is_over() {
                return;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::acceptfrom_with(&self.socket, flags) {
                Ok((socket, peer)) => {
                    let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else { continue };
                    let holder = Owner::address(peer.ip());
                    // Checked before the handshake, which a full table would make useless.
                    if turn.may_have_a_face(holder) {
                        self.begin(turn, socket, peer, holder);
                    }
                }
                Err(errno) if accept_failed(turn, &self.handshakes, errno) => return,
                Err(_) => (),
            }
        }
    }

    fn begin<H: Handler>(
        &mut self,
        turn: &mut AcceptContext<'_, H>,
        socket: OwnedFd,
        peer: SocketAddr,
        holder: Owner,
    ) {
        tcp::prepare(&socket);
        let socket = Arc::new(socket);
        let wire = Wire::new(socket.clone(), HANDSHAKE_OCTETS_MAX);
        let is_browser = Arc::new(AtomicBool::new(false));
        let handshake = ServerHandshake::start(wire, NoteOrigin(is_browser.clone()), Some(config()));
        match self.handshakes.begin(holder, Client { handshake, is_browser, socket, peer }) {
            Ok(evicted) => turn.add_drops(listener::WEBSOCKET_HANDSHAKES_FULL, evicted),
            Err(_) => turn.count(listener::ACCEPT_FAILED),
        }
    }

    /// Continues the handshake of a connection that sent something.
    fn go_on<H: Handler>(&mut self, turn: &mut AcceptContext<'_, H>, number: u64) {
        let Some(pending) = self.handshakes.take(number) else { return };
        let (Client { handshake, is_browser, socket, peer }, holder, again) = pending.into_parts();
        match handshake.handshake() {
            Ok(connection) => {
                let Some(admission) = turn.admit(holder) else { return };
                let by_browser = is_browser.load(Ordering::Relaxed);
                let new = halves::client(connection.into_inner(), peer, self.local.clone(), by_browser);
                turn.adopt(new, admission, None, |_| ());
            }
            Err(HandshakeError::Interrupted(handshake)) => {
                if self.handshakes.put_back(again(Client { handshake, is_browser, socket, peer })).is_err() {
                    turn.count(listener::ACCEPT_FAILED);
                }
            }
            Err(HandshakeError::Failure(_)) => {
                // The result is ignored: a client that does not read the answer does not need it.
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                let _ = rustix::net::send(&*socket, BAD_REQUEST, flags);
                turn.count(listener::WEBSOCKET_HANDSHAKE_FAILED);
            }
        }
    }
}

impl<H: Handler> Acceptor<H> for WebSocketAcceptor {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.handshakes.as_fd()
    }

    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, _scratch: &mut [u8]) {
        let Ok(ready) = self.handshakes.ready() else { return turn.count(listener::ACCEPT_FAILED) };
        turn.add_drops(listener::WEBSOCKET_HANDSHAKE_TIMEOUT, ready.timed_out);
        // Handshakes that can proceed are served first, because a new connection may evict them.
        ready.numbers.into_iter().for_each(|number| self.go_on(turn, number));
        if ready.is_listener_ready {
            self.take_up(turn);
        }
    }
}
