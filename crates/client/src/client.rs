//! The connection to a router, and commands over it. The other files add the calls of each table.

use std::time::Duration;

use namely_security::{KeyChain, Signer};
use namely_transport::connection::{Connection, Options};
use namely_wire::FaceUri;
use namely_wire::mgmt::{Command, ControlParameters};

use crate::error::ClientError;

/// A router's management, over one connection. Each call waits for the router's answer.
#[derive(Debug)]
pub struct Client {
    pub(crate) connection: Connection,
}

impl Client {
    /// Connects to the router at the address `router`, or to the first that [`Connection::find`]
    /// finds. `signer` signs commands; a digest does where the router knows the user by its socket.
    ///
    /// # Errors
    /// [`ClientError::Connection`]: no router was reached, or `router` is no address of one.
    pub fn find(router: Option<&str>, signer: Signer) -> Result<Self, ClientError> {
        let options = Options { reconnect: Duration::ZERO, signer, ..Options::default() };
        Ok(Client { connection: Connection::find(router, options)? })
    }

    /// Over a connection that is there already. What comes on it meanwhile is dropped.
    pub fn over(connection: Connection) -> Self {
        Client { connection }
    }

    /// The router's address.
    pub fn router(&self) -> &FaceUri {
        self.connection.uri()
    }

    /// The connection itself, for packets that are not management.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Carries out any command of the protocol, and returns the parameters in the router's answer.
    ///
    /// # Errors
    /// [`ClientError::Connection`] and [`ClientError::Command`]: the router is gone, refuses, or
    /// does not answer.
    pub fn command(
        &mut self,
        command: Command,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, ClientError> {
        let response = self.connection.command(command, parameters)?;
        Ok(response.parameters().map_err(ClientError::Malformed)?.unwrap_or_default())
    }
}

/// What signs commands unless told otherwise: the default key of the user's key chain, if there is
/// one that needs no passphrase; else a digest, which a router on the same host takes from its
/// users.
pub fn default_signer() -> Signer {
    let of_key = |chain: KeyChain| match chain.key(None) {
        Ok(entry) if !entry.encrypted => chain.signer(None, None).ok(),
        _ => None,
    };
    KeyChain::open_default().ok().and_then(of_key).unwrap_or_else(Signer::digest_sha256)
}

/// Mask and Flags that set those of `switches` that are there; `None` when none is.
pub(crate) fn flags(switches: &[(Option<bool>, u64)]) -> (Option<u64>, Option<u64>) {
    let mut set = None;
    for (switch, bit) in switches {
        let Some(is_on) = switch else { continue };
        let (mask, flags) = set.get_or_insert((0, 0));
        *mask |= bit;
        *flags |= if *is_on { *bit } else { 0 };
    }
    (set.map(|(mask, _)| mask), set.map(|(_, flags)| flags))
}
