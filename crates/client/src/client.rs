//! The connection to a router, and commands over it. Other files add the methods for each table.

use std::time::Duration;

use namely_messages::{Command, ControlParameters};
use namely_security::{KeyChain, Signer};
use namely_transport::connection::{Connection, Options};
use namely_wire::FaceUri;

use crate::error::ClientError;

/// A router's management, over one connection. Each call waits for the router's answer.
#[derive(Debug)]
pub struct Client {
    pub(crate) connection: Connection,
}

impl Client {
    /// Connects to the router at the address `router`. Without an address, connects to the first
    /// router that [`Connection::find`] finds. `signer` signs commands. A digest suffices if the
    /// router identifies the user by its socket.
    ///
    /// # Errors
    /// [`ClientError::Connection`]: no router was reached, or `router` is not a router's address.
    pub fn find(router: Option<&str>, signer: Signer) -> Result<Self, ClientError> {
        let options = Options { reconnect: Duration::ZERO, signer, ..Options::default() };
        Ok(Client { connection: Connection::find(router, options)? })
    }

    /// Creates a client over an existing connection. Each call drops unrelated packets that arrive
    /// meanwhile.
    pub fn over(connection: Connection) -> Self {
        Client { connection }
    }

    /// Returns the router's address.
    pub fn router(&self) -> &FaceUri {
        self.connection.uri()
    }

    /// Returns the connection, for packets that are not management.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Executes any command of the protocol, and returns the parameters in the router's answer.
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

/// Returns the default signer of commands: the default key of the user's key chain if it needs no
/// passphrase, otherwise a digest. A router on the same host accepts a digest from its users.
pub fn default_signer() -> Signer {
    let of_key = |chain: KeyChain| match chain.key(None) {
        Ok(entry) if !entry.encrypted => chain.signer(None, None).ok(),
        _ => None,
    };
    KeyChain::open_default().ok().and_then(of_key).unwrap_or_else(Signer::digest_sha256)
}

/// Returns Mask and Flags for the switches that are not `None`. If all switches are `None`, both
/// results are `None`.
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
