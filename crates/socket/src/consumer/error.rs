//! Errors of datagrams.

use namely_security::CryptoError;
use namely_wire::{Name, PACKET_OCTETS_MAX};

use crate::errno;
use crate::error::{CallError, FetchError};
use crate::namespace::NameError;

/// The reason for which a datagram was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Caller: the name is too long, or outside the socket's prefix.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Caller: name and parameters do not fit a packet (`EMSGSIZE`).
    #[error("an Interest of {octets} octets does not fit a packet of {PACKET_OCTETS_MAX}")]
    TooLong {
        /// The octets that the Interest would have.
        octets: usize,
    },
    /// Environment: the Interest cannot be signed (`EIO`).
    #[error("the Interest cannot be signed: {0}")]
    Signing(#[from] CryptoError),
    /// The socket does not accept the datagram; `ENOBUFS` when [`super::DATAGRAMS_MAX`] answers are
    /// outstanding.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The reason for which there is no answer to a datagram, or none yet.
#[derive(Debug, thiserror::Error)]
pub enum RecvError {
    /// Caller: the request was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The call ended before an answer arrived.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Peer or network: the request was sent, but no answer arrived, it was refused, or the answer
    /// failed verification.
    #[error("{error}")]
    Failed {
        /// The requested name.
        name: Name,
        /// The reason.
        #[source]
        error: Box<FetchError>,
    },
}

impl SendError {
    /// The matching `errno` of a system call.
    pub fn errno(&self) -> i32 {
        match self {
            SendError::Name(error) => error.errno(),
            SendError::TooLong { .. } => errno::MSGSIZE,
            SendError::Signing(_) => errno::IO,
            SendError::Call(error) => error.errno(),
        }
    }

    /// Advice for the caller, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SendError::Name(_) | SendError::Signing(_) => None,
            SendError::TooLong { .. } => Some("send fewer parameters, or push the content"),
            SendError::Call(error) => error.hint(),
        }
    }
}

impl RecvError {
    /// The matching `errno` of a system call.
    pub fn errno(&self) -> i32 {
        match self {
            RecvError::Send(error) => error.errno(),
            RecvError::Call(error) => error.errno(),
            RecvError::Failed { error, .. } => error.errno(),
        }
    }

    /// Advice for the caller, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RecvError::Send(error) => error.hint(),
            RecvError::Call(error) => error.hint(),
            RecvError::Failed { error, .. } => error.hint(),
        }
    }
}
