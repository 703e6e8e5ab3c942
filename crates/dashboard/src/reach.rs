//! The connection to one of the routers, for its management and for fetching through it.

use std::time::Duration;

use namely_client::{Client, ClientError, default_signer};
use namely_socket::{ConsumerOptions, Trust};
use namely_transport::connection::{Connection, Options};
use namely_wire::FaceUri;

/// A router of the page.
#[derive(Debug)]
pub(crate) struct RouterLink {
    pub(crate) router: Option<String>,
    pub(crate) trust_router_of: String,
    pub(crate) trust: Trust,
}

/// An error and a hint for its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouterError {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

impl From<ClientError> for RouterError {
    fn from(error: ClientError) -> Self {
        RouterError { what: error.to_string(), hint: error.hint().map(Into::into) }
    }
}

impl RouterLink {
    /// Its management, by a connection of its own.
    pub(crate) fn client(&self) -> Result<Client, RouterError> {
        let options = Options {
            reconnect: Duration::ZERO,
            signer: default_signer(),
            trust_router_of: self.trust_router_of.clone(),
        };
        let connection = Connection::find(self.router.as_deref(), options)
            .map_err(|error| RouterError::from(ClientError::from(error)))?;
        if *connection.uri() == FaceUri::Kernel {
            return Err(RouterError {
                what: "the kernel's forwarder does not support the management protocol".into(),
                hint: Some("name another router with --router".into()),
            });
        }
        Ok(Client::over(connection))
    }

    /// A socket that fetches through it, for at most `timeout` a call.
    pub(crate) fn consumer(&self, timeout: Duration, octets_max: u64) -> ConsumerOptions {
        ConsumerOptions {
            router: self.router.clone(),
            trust_router_of: self.trust_router_of.clone(),
            trust: self.trust.clone(),
            timeout: Some(timeout),
            object_octets_max: octets_max,
            ..ConsumerOptions::default()
        }
    }
}
