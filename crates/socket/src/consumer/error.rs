//! What can go wrong with datagrams.

use std::fmt;

use namely_security::CryptoError;
use namely_wire::{Name, PACKET_OCTETS_MAX};

use crate::errno;
use crate::error::{CallError, FetchError};
use crate::namespace::NameError;

/// Why a datagram was not sent.
#[derive(Debug)]
pub enum SendError {
    /// Caller: the name.
    Name(NameError),
    /// Caller: name and parameters do not fit a packet (`EMSGSIZE`).
    TooLong {
        /// The octets that the Interest would have.
        octets: usize,
    },
    /// Environment: it cannot be signed (`EIO`).
    Signing(CryptoError),
    /// The socket does not take it; `ENOBUFS` when [`super::DATAGRAMS_MAX`] answers are awaited
    /// already.
    Call(CallError),
}

/// Why there is no answer to a datagram, or none yet.
#[derive(Debug)]
pub enum RecvError {
    /// Caller: the request was not sent.
    Send(SendError),
    /// The call ended before there was one.
    Call(CallError),
    /// Peer or network: it was asked for, and this came of it: no answer, a refusal, or one that is
    /// not believed.
    Failed {
        /// The name that was asked for.
        name: Name,
        /// Why.
        error: Box<FetchError>,
    },
}

impl SendError {
    /// As a system call would say it.
    pub fn errno(&self) -> i32 {
        match self {
            SendError::Name(error) => error.errno(),
            SendError::TooLong { .. } => errno::MSGSIZE,
            SendError::Signing(_) => errno::IO,
            SendError::Call(error) => error.errno(),
        }
    }

    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SendError::Name(_) | SendError::Signing(_) => None,
            SendError::TooLong { .. } => Some("send fewer parameters, or push the content"),
            SendError::Call(error) => error.hint(),
        }
    }
}

impl RecvError {
    /// As a system call would say it.
    pub fn errno(&self) -> i32 {
        match self {
            RecvError::Send(error) => error.errno(),
            RecvError::Call(error) => error.errno(),
            RecvError::Failed { error, .. } => error.errno(),
        }
    }

    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RecvError::Send(error) => error.hint(),
            RecvError::Call(error) => error.hint(),
            RecvError::Failed { error, .. } => error.hint(),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Name(error) => error.fmt(f),
            SendError::TooLong { octets } => {
                write!(f, "an Interest of {octets} octets does not fit a packet of {PACKET_OCTETS_MAX}")
            }
            SendError::Signing(error) => write!(f, "the Interest cannot be signed: {error}"),
            SendError::Call(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Send(error) => error.fmt(f),
            RecvError::Call(error) => error.fmt(f),
            RecvError::Failed { error, .. } => error.fmt(f),
        }
    }
}

impl std::error::Error for SendError {}
impl std::error::Error for RecvError {}

impl From<NameError> for SendError {
    fn from(error: NameError) -> Self {
        SendError::Name(error)
    }
}

impl From<CryptoError> for SendError {
    fn from(error: CryptoError) -> Self {
        SendError::Signing(error)
    }
}

impl From<CallError> for SendError {
    fn from(error: CallError) -> Self {
        SendError::Call(error)
    }
}

impl From<CallError> for RecvError {
    fn from(error: CallError) -> Self {
        RecvError::Call(error)
    }
}

impl From<SendError> for RecvError {
    fn from(error: SendError) -> Self {
        RecvError::Send(error)
    }
}
