//! Errors, one enum for each operation. `errno()` returns the matching error number, which is the
//! same in every binding.

use std::io;

use namely_messages::status_code;
use namely_security::validity::UtcTime;
use namely_security::{CertificateError, KeyChainError, PolicyFileError, RejectionReason};
use namely_transport::connection::{CommandError, ConnectionError};
use namely_transport::fetch::Failure;
use namely_transport::object::ObjectError;
use namely_transport::publish;
use namely_wire::{NackReason, Name, PACKET_OCTETS_MAX};
use rustix::io::Errno;

use crate::errno;
use crate::namespace::NameError;
use crate::options::OptionError;
use crate::session::PRODUCERS_MAX;
use namely_store::StoreError;

/// The reason for which a call on a socket ended without a result; common to all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Environment: the call would block, and the caller requested no wait (`EAGAIN`).
    #[error("nothing is there yet")]
    WouldBlock,
    /// Environment: the caller's timeout passed (`ETIMEDOUT`).
    #[error("not in time")]
    TimedOut,
    /// Environment: a signal interrupted the wait (`EINTR`); call again.
    #[error("interrupted by a signal")]
    Interrupted,
    /// Caller: the socket was closed (`ECANCELED`).
    #[error("the socket is closed")]
    Closed,
    /// Caller: the process forked after the socket was made; only the parent may use it (`EBADFD`).
    #[error("the process forked after this socket was made: only the parent may use it")]
    Forked,
    /// Caller: too many calls are in progress on the socket (`ENOBUFS`).
    #[error("too many calls are under way on this socket")]
    QueueFull,
    /// Environment: the connection to the router was lost and could not be restored (`ENOTCONN`).
    #[error("the router went away and did not come back")]
    RouterLost,
    /// Environment: a system call failed.
    #[error("the system refused: {0}")]
    System(#[source] Errno),
}

impl CallError {
    /// Converts the error of a system call.
    pub(crate) fn from_io(error: &io::Error) -> Self {
        CallError::System(Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// The matching `errno` of a system call.
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

    /// Advice for the caller, if there is any.
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

/// The reason for which a socket cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Caller: the prefix is too long.
    #[error(transparent)]
    Name(NameError),
    /// Caller: an option cannot be set.
    #[error(transparent)]
    Option(OptionError),
    /// Caller: the prefix overlaps that of another producer of this process (`EADDRINUSE`).
    #[error("another producer of this process has bound {by}")]
    InUse {
        /// The prefix that is bound already.
        by: Name,
    },
    /// Caller: no key in the key chain may sign below the prefix (`ENOKEY`).
    #[error(
        "no key of yours may sign below {prefix}: make one with `namely key new {prefix}`, or set \
         option identity"
    )]
    NoKey {
        /// The prefix.
        prefix: Name,
    },
    /// Environment: the key chain cannot be used.
    #[error(transparent)]
    KeyChain(KeyChainError),
    /// Caller: the trust policy's file cannot be used.
    #[error(transparent)]
    Policy(PolicyFileError),
    /// Caller: a trust anchor's file cannot be used.
    #[error(transparent)]
    Anchor(namely_security::CertificateFileError),
    /// Environment: no router answers, or a system call failed.
    #[error(transparent)]
    Connection(ConnectionError),
    /// Environment: the router refuses the prefix.
    #[error(transparent)]
    Register(CommandError),
    /// Environment: no thread or descriptor is available.
    #[error("the system refused: {0}")]
    System(#[source] io::Error),
    /// Caller: the process has the maximum number of producers (`EMFILE`).
    #[error("this process has {PRODUCERS_MAX} producers already")]
    TooManyProducers,
    /// Caller: the output buffers of all producers would be larger than a process may have
    /// (`ENOBUFS`).
    #[error("the output buffers of this process have {octets_max} octets left")]
    BufferTooLarge {
        /// Octets left.
        octets_max: usize,
    },
    /// Environment: the certificate of the identity has expired, and with it that of the session,
    /// and the key chain has no newer one (`EKEYEXPIRED`).
    #[error("nothing is signed any more: certificate {certificate} ended on {}", UtcTime(*.not_after_s))]
    Ended {
        /// The certificate.
        certificate: Name,
        /// Its last second, s since the Unix epoch.
        not_after_s: u64,
    },
    /// Caller: suite `hmac` without a shared key (`ENOKEY`).
    #[error("suite hmac needs the key that is shared with the consumers")]
    NoSharedKey,
    /// Caller: a reliable producer without a store (`EINVAL`).
    #[error("a reliable producer needs a directory for its publications")]
    NoStore,
    /// Environment or caller: the store cannot be opened.
    #[error(transparent)]
    Store(StoreError),
    /// Bug or environment: the session's certificate could not be made.
    #[error("the session's certificate: {0}")]
    Certificate(#[source] CertificateError),
}

impl BindError {
    /// The matching `errno` of a system call.
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

    /// Advice for the caller, if there is any.
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

/// The reason for which an object was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Caller: the name.
    #[error(transparent)]
    Name(NameError),
    /// The call ended before the object arrived.
    #[error(transparent)]
    Call(CallError),
    /// Peer, network or caller: the object could not be read.
    #[error(transparent)]
    Object(ObjectError),
    /// Network: this segment did not arrive, and the consumer is unreliable (`ENODATA`). A stream
    /// continues after it.
    #[error("{segment} was lost, and option reliable is false: a stream goes on behind it")]
    Lost {
        /// The segment.
        segment: Name,
    },
    /// Peer: a certificate that authenticates the object was revoked (`EKEYREVOKED`).
    #[error("certificate {certificate} was revoked")]
    Revoked {
        /// The certificate.
        certificate: Name,
    },
    /// Peer or network: no authorized signer stated that the certificate is not revoked, and option
    /// `revocation` is `require` (`EKEYREJECTED`).
    #[error(
        "nobody says that certificate {certificate} is not revoked: its producer is gone, or does not \
         make such statements"
    )]
    NotKnownGood {
        /// The certificate.
        certificate: Name,
    },
}

impl FetchError {
    /// The matching `errno` of a system call.
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

    /// Advice for the caller, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            FetchError::Call(error) => error.hint(),
            FetchError::Object(error) => error.hint(),
            FetchError::NotKnownGood { .. } => Some("option revocation can be check or off"),
            _ => None,
        }
    }
}

/// The reason for which content was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Caller: the name.
    #[error(transparent)]
    Name(NameError),
    /// The call ended before the content was published.
    #[error(transparent)]
    Call(CallError),
    /// Caller or environment: the packets cannot be made.
    #[error(transparent)]
    Make(publish::PublishError),
    /// Caller: this version of the object is published already, and names are immutable (`EEXIST`).
    #[error("{0} is published already and stays as it is")]
    Exists(Name),
    /// Caller: an answer to one Interest is one packet, and the content does not fit (`EMSGSIZE`).
    #[error("one packet has to answer, and it would have {octets} octets, more than {PACKET_OCTETS_MAX}")]
    TooLong {
        /// The octets that the packet would have.
        octets: usize,
    },
    /// Environment: the packets cannot be stored.
    #[error(transparent)]
    Store(StoreError),
    /// Environment or caller: there is no key for the requested suite.
    #[error(transparent)]
    Key(Box<BindError>),
}

impl PublishError {
    /// The matching `errno` of a system call.
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

    /// Advice for the caller, if there is any.
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

/// Returns true if the process has no descriptor left. In this case another key or router does not
/// help.
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
        ObjectError::IsDirectory { .. } => errno::ISDIR,
        ObjectError::SourceMissing { .. } => errno::IO,
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
    fn an_error_message_never_repeats_its_hint() {
        let uri = FaceUri::Unix("/run/x.sock".into());
        let error = BindError::from(ConnectionError::Lost { uri, after: Duration::from_secs(3) });
        let hint = error.hint().unwrap();
        assert!(!error.to_string().contains(hint), "{error}; {hint}");
    }
}
