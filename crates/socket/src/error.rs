//! What can go wrong, one enum for each operation. `errno()` says the same as a number, in every
//! binding.

use std::fmt;
use std::io;

use namely_security::validity::UtcTime;
use namely_security::{CertificateError, KeyChainError, PolicyFileError, RejectionReason};
use namely_transport::connection::{CommandError, ConnectionError};
use namely_transport::fetch::Failure;
use namely_transport::object::ObjectError;
use namely_transport::publish;
use namely_wire::mgmt::status_code;
use namely_wire::{NackReason, Name, PACKET_OCTETS_MAX};
use rustix::io::Errno;

use crate::errno;
use crate::namespace::NameError;
use crate::options::OptionError;
use crate::session::PRODUCERS_MAX;
use namely_store::StoreError;

/// Why a call on a socket ended without a result; common to all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Environment: it would have to wait, and was asked not to (`EAGAIN`).
    WouldBlock,
    /// Environment: the time that the caller gave is over (`ETIMEDOUT`).
    TimedOut,
    /// Environment: a signal came while it waited (`EINTR`); call again.
    Interrupted,
    /// Caller: the socket was closed (`ECANCELED`).
    Closed,
    /// Caller: the process forked after the socket was made; only the parent may use it (`EBADFD`).
    Forked,
    /// Caller: more calls are under way than the socket takes (`ENOBUFS`).
    QueueFull,
    /// Environment: the router went away and did not come back (`ENOTCONN`).
    RouterLost,
    /// Environment: the system refuses something basic.
    System(Errno),
}

impl CallError {
    /// Of a system call that failed.
    pub(crate) fn from_io(error: &io::Error) -> Self {
        CallError::System(Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// As a system call would say it.
    pub fn errno(&self) -> i32 {
        match self {
            CallError::WouldBlock => errno::AGAIN,
            CallError::TimedOut => errno::TIMEDOUT,
            CallError::Interrupted => errno::INTR,
            CallError::Closed => errno::CANCELED,
            CallError::Forked => errno::BADFD,
            CallError::QueueFull => errno::NOBUFS,
            CallError::RouterLost => errno::NOTCONN,
            CallError::System(errno) => errno.raw_os_error(),
        }
    }

    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            CallError::Interrupted => Some("call again"),
            CallError::Forked => Some("bind another one in the child"),
            CallError::QueueFull => Some("wait for some of them"),
            CallError::RouterLost => Some("bind again once it runs"),
            _ => None,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::WouldBlock => f.write_str("nothing is there yet"),
            CallError::TimedOut => f.write_str("not in time"),
            CallError::Interrupted => f.write_str("interrupted by a signal"),
            CallError::Closed => f.write_str("the socket is closed"),
            CallError::Forked => {
                f.write_str("the process forked after this socket was made: only the parent may use it")
            }
            CallError::QueueFull => f.write_str("too many calls are under way on this socket"),
            CallError::RouterLost => f.write_str("the router went away and did not come back"),
            CallError::System(errno) => write!(f, "the system refused: {errno}"),
        }
    }
}

impl std::error::Error for CallError {}

/// Why a socket cannot be bound.
#[derive(Debug)]
pub enum BindError {
    /// Caller: the prefix.
    Name(NameError),
    /// Caller: an option.
    Option(OptionError),
    /// Caller: the prefix overlaps that of another producer of this process (`EADDRINUSE`).
    InUse {
        /// What is bound already.
        by: Name,
    },
    /// Caller: no key in the key chain may sign below the prefix (`ENOKEY`).
    NoKey {
        /// The prefix.
        prefix: Name,
    },
    /// Environment: the key chain cannot be used.
    KeyChain(KeyChainError),
    /// Caller: the trust policy's file cannot be used.
    Policy(PolicyFileError),
    /// Caller: a trust anchor's file cannot be used.
    Anchor(namely_security::CertificateFileError),
    /// Environment: no router, or the system refuses.
    Connection(ConnectionError),
    /// Environment: the router does not take the prefix.
    Register(CommandError),
    /// Environment: no thread or descriptor to be had.
    System(io::Error),
    /// Caller: the process has as many producers as it may (`EMFILE`).
    TooManyProducers,
    /// Caller: the output buffers of all producers would be larger than a process may have
    /// (`ENOBUFS`).
    BufferTooLarge {
        /// What is left, octets.
        octets_max: usize,
    },
    /// Environment: the certificate of the identity, or the session's, which ends with it, has
    /// ended, and the key chain has no newer one (`EKEYEXPIRED`).
    Ended {
        /// The certificate.
        certificate: Name,
        /// Its last second, s since the Unix epoch.
        not_after_s: u64,
    },
    /// Caller: suite `hmac` without a shared key (`ENOKEY`).
    NoSharedKey,
    /// Caller: a reliable producer without a store (`EINVAL`).
    NoStore,
    /// Environment or caller: the store cannot be opened.
    Store(StoreError),
    /// Bug or environment: the session's certificate could not be made.
    Certificate(CertificateError),
}

impl BindError {
    /// As a system call would say it.
    pub fn errno(&self) -> i32 {
        match self {
            BindError::Name(error) => error.errno(),
            BindError::Option(error) => error.errno(),
            BindError::InUse { .. } => errno::ADDRINUSE,
            BindError::NoKey { .. } => errno::NOKEY,
            BindError::KeyChain(KeyChainError::Read(_, error) | KeyChainError::Write(_, error))
                if is_short_of_descriptors(error) =>
            {
                errno::MFILE
            }
            BindError::KeyChain(_) | BindError::Policy(_) | BindError::Anchor(_) => errno::KEYREJECTED,
            BindError::Connection(error) => error.errno(),
            BindError::Register(CommandError::Connection(error)) => error.errno(),
            BindError::Register(CommandError::Refused(refused)) if refused.code == status_code::CONFLICT => {
                errno::ADDRINUSE
            }
            BindError::Register(CommandError::NotBound(why)) => why.errno().raw_os_error(),
            BindError::Register(_) => errno::ACCESS,
            BindError::System(error) => error.raw_os_error().unwrap_or(errno::IO),
            BindError::TooManyProducers => errno::MFILE,
            BindError::BufferTooLarge { .. } => errno::NOBUFS,
            BindError::Ended { .. } => errno::KEYEXPIRED,
            BindError::NoSharedKey => errno::NOKEY,
            BindError::NoStore => errno::INVAL,
            BindError::Store(error) => error.errno(),
            BindError::Certificate(_) => errno::KEYREJECTED,
        }
    }

    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            BindError::Connection(error) | BindError::Register(CommandError::Connection(error)) => {
                error.hint()
            }
            BindError::Register(error) => error.hint(),
            BindError::TooManyProducers => Some("close some of them"),
            BindError::BufferTooLarge { .. } => Some("lower option buffer_octets, or close a producer"),
            BindError::Ended { .. } => Some(
                "have a newer one issued for the identity (`namely cert issue`) and take it in with \
                 `namely cert import FILE`",
            ),
            BindError::NoStore => Some("set option store"),
            _ => None,
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Name(error) => error.fmt(f),
            BindError::Option(error) => error.fmt(f),
            BindError::InUse { by } => write!(f, "another producer of this process has bound {by}"),
            BindError::NoKey { prefix } => write!(
                f,
                "no key of yours may sign below {prefix}: make one with `namely key new {prefix}`, or set option \
                 identity"
            ),
            BindError::KeyChain(error) => error.fmt(f),
            BindError::Policy(error) => error.fmt(f),
            BindError::Anchor(error) => error.fmt(f),
            BindError::Connection(error) => error.fmt(f),
            BindError::Register(error) => error.fmt(f),
            BindError::System(error) => write!(f, "the system refused: {error}"),
            BindError::TooManyProducers => {
                write!(f, "this process has {PRODUCERS_MAX} producers already")
            }
            BindError::BufferTooLarge { octets_max } => {
                write!(f, "the output buffers of this process have {octets_max} octets left")
            }
            BindError::Ended { certificate, not_after_s } => write!(
                f,
                "nothing is signed any more: certificate {certificate} ended on {}",
                UtcTime(*not_after_s)
            ),
            BindError::NoSharedKey => {
                f.write_str("suite hmac needs the key that is shared with the consumers")
            }
            BindError::NoStore => f.write_str("a reliable producer needs a directory for what it publishes"),
            BindError::Store(error) => error.fmt(f),
            BindError::Certificate(error) => write!(f, "the session's certificate: {error}"),
        }
    }
}

impl std::error::Error for BindError {}

/// Why an object was not fetched.
#[derive(Debug)]
pub enum FetchError {
    /// Caller: the name.
    Name(NameError),
    /// The call ended before it was there.
    Call(CallError),
    /// Peer, network or caller: why it could not be read.
    Object(ObjectError),
    /// Network: this segment did not come, and the consumer is unreliable (`ENODATA`). A stream
    /// goes on behind it.
    Lost {
        /// The segment.
        segment: Name,
    },
    /// Peer: it is signed with a key whose certificate was revoked (`EKEYREVOKED`).
    Revoked {
        /// The certificate.
        certificate: Name,
    },
    /// Peer or network: nobody who may say so said that the certificate is not revoked, and option
    /// `revocation` is `require` (`EKEYREJECTED`).
    NotKnownGood {
        /// The certificate.
        certificate: Name,
    },
}

impl FetchError {
    /// As a system call would say it.
    pub fn errno(&self) -> i32 {
        match self {
            FetchError::Name(error) => error.errno(),
            FetchError::Call(error) => error.errno(),
            FetchError::Object(error) => of_object(error),
            FetchError::Lost { .. } => errno::NODATA,
            FetchError::Revoked { .. } => errno::KEYREVOKED,
            FetchError::NotKnownGood { .. } => errno::KEYREJECTED,
        }
    }

    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            FetchError::Call(error) => error.hint(),
            FetchError::Object(error) => error.hint(),
            FetchError::NotKnownGood { .. } => Some("option revocation can be check or off"),
            _ => None,
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Name(error) => error.fmt(f),
            FetchError::Call(error) => error.fmt(f),
            FetchError::Object(error) => error.fmt(f),
            FetchError::Lost { segment } => {
                write!(f, "{segment} was lost, and option reliable is false: a stream goes on behind it")
            }
            FetchError::Revoked { certificate } => write!(f, "certificate {certificate} was revoked"),
            FetchError::NotKnownGood { certificate } => {
                write!(
                    f,
                    "nobody says that certificate {certificate} is not revoked: its producer is gone, or does not "
                )?;
                f.write_str("make such statements")
            }
        }
    }
}

impl std::error::Error for FetchError {}

/// Why content was not published.
#[derive(Debug)]
pub enum PublishError {
    /// Caller: the name.
    Name(NameError),
    /// The call ended before it was there.
    Call(CallError),
    /// Caller or environment: its packets cannot be made.
    Make(publish::PublishError),
    /// Caller: this version of the object is published already, and names are immutable (`EEXIST`).
    Exists(Name),
    /// Caller: an answer to one Interest is one packet, and this takes more (`EMSGSIZE`).
    TooLong {
        /// The octets that the packet would have.
        octets: usize,
    },
    /// Environment: it cannot be stored.
    Store(StoreError),
    /// Environment or caller: no key for the suite asked for.
    Key(Box<BindError>),
}

impl PublishError {
    /// As a system call would say it.
    pub fn errno(&self) -> i32 {
        match self {
            PublishError::Name(error) => error.errno(),
            PublishError::Call(error) => error.errno(),
            PublishError::Make(publish::PublishError::Signing(_)) => errno::KEYREJECTED,
            PublishError::Make(publish::PublishError::Content(_)) => errno::IO,
            PublishError::Make(_) => errno::MSGSIZE,
            PublishError::Exists(_) => errno::EXIST,
            PublishError::TooLong { .. } => errno::MSGSIZE,
            PublishError::Store(error) => error.errno(),
            PublishError::Key(error) => error.errno(),
        }
    }

    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PublishError::Call(error) => error.hint(),
            PublishError::Exists(_) => Some("publish another version"),
            PublishError::TooLong { .. } => Some("publish an object and reply with its name"),
            PublishError::Store(StoreError::Full { .. }) => Some("raise store_octets"),
            PublishError::Key(error) => error.hint(),
            _ => None,
        }
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::Name(error) => error.fmt(f),
            PublishError::Call(error) => error.fmt(f),
            PublishError::Make(error) => error.fmt(f),
            PublishError::Exists(name) => {
                write!(f, "{name} is published already and stays as it is")
            }
            PublishError::TooLong { octets } => write!(
                f,
                "one packet has to answer, and it would have {octets} octets, more than {PACKET_OCTETS_MAX}"
            ),
            PublishError::Store(error) => error.fmt(f),
            PublishError::Key(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PublishError {}

macro_rules! from {
    ($($part:ty => $whole:ident::$variant:ident),* $(,)?) => {
        $(impl From<$part> for $whole {
            fn from(error: $part) -> Self {
                $whole::$variant(error)
            }
        })*
    };
}

from! {
    NameError => BindError::Name, OptionError => BindError::Option, KeyChainError => BindError::KeyChain,
    ConnectionError => BindError::Connection, CommandError => BindError::Register, io::Error => BindError::System,
    NameError => FetchError::Name, CallError => FetchError::Call, ObjectError => FetchError::Object,
    NameError => PublishError::Name, CallError => PublishError::Call,
    publish::PublishError => PublishError::Make, StoreError => PublishError::Store, StoreError => BindError::Store,
}

/// Returns true if the process has no descriptor left, which is nothing that keys or routers could
/// do anything about.
fn is_short_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error() == Some(errno::MFILE)
}

fn of_object(error: &ObjectError) -> i32 {
    match error {
        ObjectError::Connection(error) => error.errno(),
        ObjectError::Refused { reason: NackReason::NoRoute, .. } => errno::NETUNREACH,
        ObjectError::Fetch { failure: Failure::EndMoved { .. }, .. } => errno::BADMSG,
        ObjectError::Refused { .. } | ObjectError::NoAnswer { .. } | ObjectError::Fetch { .. } => {
            errno::TIMEDOUT
        }
        ObjectError::NotFound { .. } => errno::NOENT,
        ObjectError::Untrusted(rejection) => match rejection.why {
            RejectionReason::Expired { .. } | RejectionReason::NotYetValid { .. } => errno::KEYEXPIRED,
            RejectionReason::Revoked => errno::KEYREVOKED,
            RejectionReason::Malformed(_) | RejectionReason::BadDigest | RejectionReason::BadSignature => {
                errno::BADMSG
            }
            _ => errno::KEYREJECTED,
        },
        ObjectError::NoCertificate { .. } => errno::NOKEY,
        ObjectError::Corrupt(_)
        | ObjectError::Manifest { .. }
        | ObjectError::Malformed { .. }
        | ObjectError::Stray { .. } => errno::BADMSG,
        ObjectError::Sink(error) => error.raw_os_error().unwrap_or(errno::IO),
        ObjectError::TooLarge { .. } => errno::FBIG,
        ObjectError::Stopped => errno::CANCELED,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use namely_wire::FaceUri;

    use super::*;

    #[test]
    fn a_sentence_does_not_repeat_its_hint() {
        let uri = FaceUri::Unix("/run/x.sock".into());
        let error = BindError::from(ConnectionError::Lost { uri, after: Duration::from_secs(3) });
        let hint = error.hint().unwrap();
        assert!(!error.to_string().contains(hint), "{error}; {hint}");
    }
}
