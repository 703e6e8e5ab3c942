//! Why an object could not be read: which name, which key. [`ObjectError::hint`] says what can be
//! done about it.

use std::fmt;
use std::io;

use namely_security::{CertificateError, ManifestError, Rejection, SegmentRejection};
use namely_wire::{DecodeError, NackReason, Name};

use crate::connection::ConnectionError;
use crate::fetch::Failure;

/// Why an object could not be read.
#[derive(Debug)]
pub enum ObjectError {
    /// The environment's: no router, or it went away.
    Connection(ConnectionError),
    /// The network's: the router refuses, usually because no producer is known.
    Refused {
        /// What was asked for.
        name: Name,
        /// The router's reason.
        reason: NackReason,
    },
    /// The network's: nobody answered.
    NoAnswer {
        /// What was asked for.
        name: Name,
    },
    /// The caller's: the producer says that there is no such object.
    NotFound {
        /// What was asked for.
        name: Name,
    },
    /// The peer's or the caller's: it is not believed.
    Untrusted(Rejection),
    /// The network's: a certificate that is needed cannot be had.
    NoCertificate {
        /// What it is needed for.
        name: Name,
        /// The certificate or key.
        certificate: Name,
        /// What came under its name, if something did.
        fault: Option<CertificateError>,
    },
    /// The peer's: what came is not what the manifest lists, however often it was asked for.
    Corrupt(SegmentRejection),
    /// The peer's: the manifest is of no use.
    Manifest {
        /// The manifest.
        name: Name,
        /// What is wrong with it.
        error: ManifestError,
    },
    /// The peer's: a packet that makes no sense.
    Malformed {
        /// The packet.
        name: Name,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The peer's: it answers with another name than it was asked for.
    Stray {
        /// What was asked for.
        asked: Name,
        /// What the answer leads to.
        led_to: Name,
    },
    /// The network's: the fetch did not finish.
    Fetch {
        /// What did not come.
        name: Name,
        /// Why.
        failure: Failure,
    },
    /// The environment's: the content cannot be stored.
    Sink(io::Error),
    /// The caller's: the object is larger than it is willing to take.
    TooLarge {
        /// The object.
        object: Name,
        /// The limit, octets.
        octets_max: u64,
    },
    /// The caller stopped it.
    Stopped,
}

impl From<ConnectionError> for ObjectError {
    fn from(error: ConnectionError) -> Self {
        ObjectError::Connection(error)
    }
}

impl ObjectError {
    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ObjectError::Refused { reason: NackReason::NoRoute, .. } => {
                Some("`namely route list` shows where the router can go; add one with `namely route add`")
            }
            ObjectError::Untrusted(rejection) if rejection.may_be_anothers() && rejection.key.is_some() => {
                Some(
                    "`namely cert trust --from NAME` shows the fingerprint to compare with its producer's; if that differs, somebody \
                 poisoned a cache on the way: `namely cs erase` empties this router's",
                )
            }
            ObjectError::Refused { reason: NackReason::Congestion, .. }
            | ObjectError::Fetch { failure: Failure::Congested { .. }, .. } => Some("try again later"),
            ObjectError::NoCertificate { fault: None, .. } => {
                Some("import it with `namely cert import`, or have it served")
            }
            _ => None,
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectError::Connection(error) => error.fmt(f),
            ObjectError::Refused { name, reason: NackReason::NoRoute } => {
                write!(f, "no route to {name}: the router knows no producer of it")
            }
            ObjectError::Refused { name, reason: NackReason::Congestion } => {
                write!(f, "the network is congested: routers refused {name}")
            }
            ObjectError::Refused { name, reason } => write!(f, "the router refused {name}: {reason}"),
            ObjectError::NoAnswer { name } => write!(f, "no answer for {name}"),
            ObjectError::NotFound { name } => {
                write!(f, "{name}: the producer says that there is no such object")
            }
            ObjectError::Untrusted(rejection) => rejection.fmt(f),
            ObjectError::NoCertificate { name, certificate, fault: None } => {
                write!(f, "{name} cannot be verified: nobody answers for certificate {certificate}")
            }
            ObjectError::NoCertificate { name, certificate, fault: Some(fault) } => {
                write!(
                    f,
                    "{name} cannot be verified: what is served as certificate {certificate} is none: {fault}"
                )
            }
            ObjectError::Corrupt(rejection) => rejection.fmt(f),
            ObjectError::Manifest { name, error } => write!(f, "{name}: {error}"),
            ObjectError::Malformed { name, error } => write!(f, "{name} is malformed: {error}"),
            ObjectError::Stray { asked, led_to } => {
                write!(f, "asked for {asked}, the producer leads to {led_to}, which is not below it")
            }
            ObjectError::Fetch { name, failure } => write!(f, "{name}: {failure}"),
            ObjectError::Sink(error) => write!(f, "cannot store the content: {error}"),
            ObjectError::TooLarge { object, octets_max } => {
                write!(f, "{object} is larger than {octets_max} octets")
            }
            ObjectError::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for ObjectError {}
