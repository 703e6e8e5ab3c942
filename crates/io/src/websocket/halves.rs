//! The two halves of a connection after its handshake.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_host::shares::Holder;
use namely_wire::mgmt::FacePersistency;
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
use crate::queue::FrameQueue;
use crate::sender::{Flushed, Sender, Sent};
use crate::status::{Carrier, FaceState, LinkInfo, Reach};
use crate::stream::Pace;
use crate::unix::refuses_permanent;

/// The transport of a client whose handshake is done. One that a browser made is not local: any
/// page that it shows can connect.
pub(super) fn client<H: Handler>(
    wire: Wire,
    peer: SocketAddr,
    local: FaceUri,
    is_browser: bool,
) -> NewTransport<H> {
    let sender =
        Box::new(WebSocketSender { socket: wire.socket().clone(), outgoing: wire.outgoing().clone() });
    let connection = WebSocket::from_raw_socket(wire, Role::Server, Some(config()));
    let info = LinkInfo {
        remote: FaceUri::WsClient(Endpoint::Address(peer)),
        reach: if peer.ip().is_loopback() && !is_browser { Reach::Local } else { Reach::Neighbour },
        holder: Holder::address(peer.ip()),
        carrier: Carrier::Stream,
        mtu: None,
        path_octets: None,
        credentials: None,
        socket_inode: None,
        idle_ns: None,
        can_stall: true,
        refuses: refuses_permanent,
    };
    NewTransport {
        receiver: Box::new(WebSocketReceiver {
            connection,
            farewell: Some(CloseCode::Away),
            pace: Pace::default(),
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
    /// What the peer is told when the face ends; `None` when it knows, or cannot be told.
    farewell: Option<CloseCode>,
    pace: Pace,
}

impl Drop for WebSocketReceiver {
    fn drop(&mut self) {
        if let Some(code) = self.farewell {
            self.connection.get_ref().outgoing().lock().close(code.into());
        }
    }
}

impl WebSocketReceiver {
    /// What an error of the protocol's state machine means.
    fn failure<H: Handler>(&mut self, turn: &ReadContext<'_, H>, error: Error) -> Result<(), CloseReason> {
        use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
        match error {
            Error::Io(error) => match Errno::from_io_error(&error) {
                Some(errno) if errno != Errno::AGAIN => {
                    self.farewell = None;
                    Err(CloseReason::System(errno))
                }
                _ if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.pace.learn(turn.frames, turn.octets);
                    Ok(())
                }
                // A peer that asks for pongs and reads none; the last may be half written.
                _ => Err(self.refuse(turn, "websocket_control_full", None)),
            },
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(ResetWithoutClosingHandshake) => {
                self.farewell = None;
                Err(CloseReason::Peer)
            }
            Error::Capacity(_) => Err(self.refuse(turn, "websocket_too_large", Some(CloseCode::Size))),
            _ => Err(self.refuse(turn, "websocket_malformed", Some(CloseCode::Protocol))),
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
                    return Err(self.refuse(turn, "websocket_text", Some(CloseCode::Unsupported)));
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
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Result<Flushed, Errno> {
        self.outgoing.lock().flush(queue, sent)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
