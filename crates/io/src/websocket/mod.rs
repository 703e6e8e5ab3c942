//! WebSocket (RFC 6455): browser applications that connect. One binary message is one link packet.
//!
//! A face is made when the opening handshake is done. Until then a connection belongs to the
//! listener, which limits the number of such connections, their duration and their octets. TLS is
//! not supported here; a proxy in front of the router adds it.

mod acceptor;
mod halves;
mod outgoing;
mod wire;

use std::net::SocketAddr;

use namely_wire::{Endpoint, FaceUri, LP_PACKET_OCTETS_MAX};
use tungstenite::protocol::WebSocketConfig;

use crate::error::OpenError;
use crate::faces::{Faces, Handler};
use crate::tcp;

/// Octets of a WebSocket client's request.
///
/// # Limit
/// The request is refused with status 400, and the connection is closed.
/// - Value: 8 KiB
/// - Counter: `websocket_handshake_failed` of the listener
/// - Tests: `a_bad_websocket_handshake_is_refused`
pub const HANDSHAKE_OCTETS_MAX: usize = 8 << 10;

/// Octets of a WebSocket message, in any number of frames.
///
/// It is the longest link packet.
///
/// # Limit
/// The connection is closed.
/// - Value: 9312 octets
/// - Counter: `websocket_too_large`
/// - Tests: `an_oversized_message_ends_the_connection`
pub const MESSAGE_OCTETS_MAX: usize = LP_PACKET_OCTETS_MAX;

/// Octets read at once.
const READ_OCTETS: usize = 16 << 10;

impl<H: Handler> Faces<H> {
    /// Listens for WebSocket connections on an address. With port 0 the system chooses a free port,
    /// which the result and [`Faces::listeners`] report.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if the port is in use, otherwise the system's error.
    pub fn listen_websocket(&mut self, address: SocketAddr) -> Result<FaceUri, OpenError> {
        let (socket, local) = tcp::listen(address, |address| FaceUri::Ws(Endpoint::Address(address)))?;
        let acceptor = acceptor::WebSocketAcceptor::new(socket, local.clone())?;
        self.add_listener(Box::new(acceptor), local)
    }
}

fn config() -> WebSocketConfig {
    // The library writes only control frames, each of them at once. `Outgoing` writes the messages.
    WebSocketConfig::default()
        .read_buffer_size(READ_OCTETS)
        .write_buffer_size(0)
        .max_message_size(Some(MESSAGE_OCTETS_MAX))
        .max_frame_size(Some(MESSAGE_OCTETS_MAX))
}
