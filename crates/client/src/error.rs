//! Why a router's management did not do what was asked.

use std::fmt;
use std::io;

use namely_transport::connection::{CommandError, ConnectionError};
use namely_wire::mgmt::status_code;
use namely_wire::{DecodeError, FaceUriError, NackReason, Name};
use rustix::io::Errno;

use crate::DATASET_SEGMENTS_MAX;

/// Why a router's management did not do what was asked.
#[derive(Debug)]
pub enum ClientError {
    /// Environment or caller: no router was reached, or it went away.
    Connection(ConnectionError),
    /// Caller or router: a command was refused, or not answered.
    Command(CommandError),
    /// Router: it has no such dataset, or no management at all.
    Refused(NackReason),
    /// Router: who asks may not see that, since he may not manage it.
    NotForYou,
    /// Router: it does not answer.
    NoAnswer,
    /// Router: its answer cannot be read.
    Malformed(DecodeError),
    /// Router: a dataset has more than [`DATASET_SEGMENTS_MAX`] segments.
    TooLong(Name),
    /// Caller: the text is no address of a face.
    BadFaceUri {
        /// The text.
        uri: String,
        /// What is wrong with it.
        error: FaceUriError,
    },
    /// Caller or environment: a face's host has no address.
    Lookup {
        /// The face's address.
        uri: String,
        /// What the system says.
        error: io::Error,
    },
    /// Caller: there is no such face.
    NoSuchFace(String),
    /// Caller: the text is no name of a strategy.
    BadStrategy(String),
}

impl ClientError {
    /// What the person can do about it, if anything.
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

    /// The number by which a system call would tell it.
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

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Connection(error) => error.fmt(f),
            ClientError::Command(error) => error.fmt(f),
            ClientError::Refused(NackReason::NoRoute) => f.write_str("no route to the router's management"),
            ClientError::Refused(reason) => {
                write!(f, "the router's management was refused: Nack {reason}")
            }
            ClientError::NotForYou => f.write_str("the router tells that only who may manage it"),
            ClientError::NoAnswer => f.write_str("the router's management does not answer"),
            ClientError::Malformed(error) => write!(f, "the router's answer is malformed: {error}"),
            ClientError::TooLong(name) => {
                write!(f, "{name} has more than {DATASET_SEGMENTS_MAX} segments")
            }
            ClientError::BadFaceUri { uri, error } => {
                write!(f, "{uri} is not the address of a face: {error}")
            }
            ClientError::Lookup { uri, error } => write!(f, "no face can lead to {uri}: {error}"),
            ClientError::NoSuchFace(face) => write!(f, "there is no face {face}"),
            ClientError::BadStrategy(text) => write!(f, "{text} is not the name of a strategy"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<ConnectionError> for ClientError {
    fn from(error: ConnectionError) -> Self {
        ClientError::Connection(error)
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
