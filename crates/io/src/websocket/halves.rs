//! The two halves of a connection after its handshake.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use namely_wire::{Endpoint, FaceUri};
use parking_lot::Mutex;
use rustix::io::Errno;
use tungstenite::protocol::Role;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use super::outgoing::Outgoing;
use super::wire::Wire;
use super::{READ_OCTETS, config};
use crate::error::CloseReason;
use crate::faces::Handler;
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::labels::received;
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::status::{FaceState, LinkInfo, RemoteKind};
use crate::stream::ReadBudget;
use crate::unix::refuses_permanent;

/// The transport of a client after its handshake. A connection from a browser is not local, because
/// any page that it displays can connect.
pub(super) fn client<H: Handler>(
    wire: Wire,
    peer: SocketAddr,
    local: FaceUri,
    is_browser: bool,
) -> NewTransport<H> {
    let sender =
        Box::new(WebSocketSender { socket: wire.socket().clone(), outgoing: wire.outgoing().clone() });
    let connection = WebSocket::from_raw_socket(wire, Role::Server, Some(config()));
    let is_local = peer.ip().is_loopback() && !is_browser;
    let reach = if is_local { RemoteKind::Local } else { RemoteKind::Neighbour };
    let (remote, holder) = (FaceUri::WsClient(Endpoint::Address(peer)), Owner::address(peer.ip()));
    let info = LinkInfo::connection(remote, reach, holder, refuses_permanent);
    NewTransport {
        receiver: Box::new(WebSocketReceiver {
            connection,
            // Status 1001: this end goes away (RFC 6455, 7.4.1), unless a fault is found.
            farewell: Some(CloseCode::Away),
            pace: ReadBudget::default(),
        }),
        sender,
        info,
        local,
        persistency: FacePersistency::OnDemand,
        state: FaceState::Up,
    }
}

struct WebSocketReceiver {
    connection: WebSocket<Wire>,
    /// The status code to send when the face ends; `None` if the peer knows it or cannot receive
    /// it.
    farewell: Option<CloseCode>,
    pace: ReadBudget,
}

impl Drop for WebSocketReceiver {
    fn drop(&mut self) {
        if let Some(code) = self.farewell {
            self.connection.get_ref().outgoing().lock().close(code.into());
        }
    }
}

impl WebSocketReceiver {
    /// Maps an error of the protocol's state machine to a close reason.
    fn failure<H: Handler>(&mut self, turn: &ReadContext<'_, H>, error: Error) -> Result<(), CloseReason> {
        use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
        match error {
            Error::Io(error) => match Errno::from_io_error(&error) {
                Some(errno) if errno != Errno::AGAIN => {
                    self.farewell = None;
                    Err(CloseReason::System(errno))
                }
                _ if error.kind() == std::io::ErrorKind::WouldBlock => {
                    // A turn usually ends here, when the budget is spent or nothing is left.
                    self.pace.learn(turn.frames, turn.octets);
                    Ok(())
                }
                // The peer requests pongs and reads none; the last one may be half written.
                _ => Err(self.refuse(turn, received::WEBSOCKET_CONTROL_FULL, None)),
            },
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(ResetWithoutClosingHandshake) => {
                self.farewell = None;
                Err(CloseReason::Peer)
            }
            Error::Capacity(_) => {
                Err(self.refuse(turn, received::WEBSOCKET_TOO_LARGE, Some(CloseCode::Size)))
            }
            _ => Err(self.refuse(turn, received::WEBSOCKET_MALFORMED, Some(CloseCode::Protocol))),
        }
    }

    fn refuse<H: Handler>(
        &mut self,
        turn: &ReadContext<'_, H>,
        label: &'static str,
        farewell: Option<CloseCode>,
    ) -> CloseReason {
        turn.count(label);
        self.farewell = farewell;
        CloseReason::BadWebSocket(label)
    }
}

impl<H: Handler> Receiver<H> for WebSocketReceiver {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.connection.get_ref().socket().as_fd())
    }

    fn read(&mut self, turn: &mut ReadContext<'_, H>, _scratch: &mut [u8]) -> Result<(), CloseReason> {
        let budget = self.pace.octets(READ_OCTETS, turn.options().read_octets_per_turn.max(READ_OCTETS));
        self.connection.get_mut().begin_turn(budget);
        loop {
            match self.connection.read() {
                Ok(Message::Binary(message)) => {
                    if !turn.deliver(None, &message) {
                        return Ok(());
                    }
                }
                Ok(Message::Text(_)) => {
                    // Status 1003: link packets are binary (RFC 6455, 7.4.1).
                    return Err(self.refuse(turn, received::WEBSOCKET_TEXT, Some(CloseCode::Unsupported)));
                }
                // Answered by the library.
                Ok(Message::Close(_)) => self.farewell = None,
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => (),
                Err(error) => return self.failure(turn, error),
            }
        }
    }
}

struct WebSocketSender {
    socket: Arc<std::os::fd::OwnedFd>,
    outgoing: Arc<Mutex<Outgoing>>,
}

impl<P: AsRef<[u8]>> Sender<P> for WebSocketSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut FlushReport) -> Result<FlushProgress, Errno> {
        self.outgoing.lock().flush(queue, sent)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
