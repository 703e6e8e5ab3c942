//! Errors of a router's management.

use std::fmt;
use std::io;

use namely_messages::status_code;
use namely_transport::connection::{CommandError, ConnectionError};
use namely_wire::{DecodeError, FaceUriError, NackReason, Name};
use rustix::io::Errno;

use crate::DATASET_SEGMENTS_MAX;

/// An operation of a router's management failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Environment or caller: no router was reached, or the connection closed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// Caller or router: the router refused a command, or did not answer.
    #[error(transparent)]
    Command(CommandError),
    /// Router: it has no such dataset, or no management at all.
    #[error(fmt = refused)]
    Refused(NackReason),
    /// Router: the caller may not read this, because it may not manage the router.
    #[error("the router reports that only to users who may manage it")]
    NotForYou,
    /// Router: no answer.
    #[error("the router's management does not answer")]
    NoAnswer,
    /// Router: the answer cannot be decoded.
    #[error("the router's answer is malformed: {0}")]
    Malformed(#[source] DecodeError),
    /// Router: a dataset has more than [`DATASET_SEGMENTS_MAX`] segments.
    #[error("{0} has more than {DATASET_SEGMENTS_MAX} segments")]
    TooLong(Name),
    /// Caller: the text is not an address of a face.
    #[error("{uri} is not the address of a face: {error}")]
    BadFaceUri {
        /// The text.
        uri: String,
        /// The parser's error.
        #[source]
        error: FaceUriError,
    },
    /// Caller or environment: a face's host has no address.
    #[error("no face can lead to {uri}: {error}")]
    Lookup {
        /// Address of the face.
        uri: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Caller: there is no such face.
    #[error("there is no face {0}")]
    NoSuchFace(String),
    /// Caller: the text is not a name of a strategy.
    #[error("{0} is not the name of a strategy")]
    BadStrategy(String),
}

impl ClientError {
    /// Returns a remedy for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ClientError::Connection(error) => error.hint(),
            ClientError::Command(error) => error.hint(),
            ClientError::Refused(_) => {
                Some("is it a router with the NFD management protocol? try its Unix socket")
            }
            ClientError::NotForYou => Some("ask as root or as the router's user, over its Unix socket"),
            _ => None,
        }
    }

    /// Returns the error number of the closest system error.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            ClientError::Connection(error) | ClientError::Command(CommandError::Connection(error)) => {
                return error.errno();
            }
            ClientError::Command(CommandError::Refused(response)) => match response.code {
                401 | status_code::UNAUTHORIZED => Errno::ACCESS,
                status_code::NOT_FOUND | status_code::FACE_NOT_FOUND => Errno::NOENT,
                status_code::CONFLICT => Errno::EXIST,
                status_code::NAME_TOO_LONG => Errno::NAMETOOLONG,
                500.. => Errno::IO,
                _ => Errno::INVAL,
            },
            ClientError::Command(CommandError::Nack(_)) | ClientError::Refused(_) => Errno::NETUNREACH,
            ClientError::Command(CommandError::NoAnswer) | ClientError::NoAnswer => Errno::TIMEDOUT,
            ClientError::NotForYou => Errno::ACCESS,
            ClientError::Command(CommandError::NotBound(why)) => why.errno(),
            ClientError::NoSuchFace(_) => Errno::NOENT,
            ClientError::BadFaceUri { .. } | ClientError::BadStrategy(_) => Errno::INVAL,
            ClientError::Lookup { .. } => Errno::ADDRNOTAVAIL,
            ClientError::Command(CommandError::Signing(_) | CommandError::BadAnswer(_))
            | ClientError::Malformed(_)
            | ClientError::TooLong(_) => Errno::IO,
        };
        errno.raw_os_error()
    }
}

impl From<CommandError> for ClientError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Connection(error) => ClientError::Connection(error),
            other => ClientError::Command(other),
        }
    }
}

fn refused(reason: &NackReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        NackReason::NoRoute => f.write_str("no route to the router's management"),
        reason => write!(f, "the router's management was refused: Nack {reason}"),
    }
}
