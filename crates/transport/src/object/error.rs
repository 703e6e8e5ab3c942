//! The reasons for which an object could not be read. Errors contain the name or the key.
//! [`ObjectError::hint`] returns advice.

use std::fmt;
use std::io;

use namely_security::{CertificateError, ManifestError, Rejection, RejectionReason, SegmentRejection};
use namely_wire::{DecodeError, NackReason, Name};

use crate::connection::ConnectionError;
use crate::fetch::Failure;

/// The reason for which an object could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The environment's: no router, or the connection to it was lost.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The network's: the router refuses, usually because it, or a router behind it, knows no
    /// producer.
    #[error(fmt = refused)]
    Refused {
        /// The requested name.
        name: Name,
        /// The router's reason.
        reason: NackReason,
    },
    /// The network's: there was no answer.
    #[error("no answer for {name}")]
    NoAnswer {
        /// The requested name.
        name: Name,
    },
    /// The caller's: the producer states that there is no such object.
    #[error("{name}: the producer says that there is no such object")]
    NotFound {
        /// The requested name.
        name: Name,
    },
    /// The caller's: the name is that of a directory, and its content was requested.
    #[error("{name} is a directory")]
    IsDirectory {
        /// The requested name.
        name: Name,
    },
    /// The producer's: the directory that it serves is missing, so it does not know its objects.
    #[error("{name}: the directory that its producer serves is missing")]
    SourceMissing {
        /// The requested name.
        name: Name,
    },
    /// The peer's or the caller's: the object fails verification.
    #[error(transparent)]
    Untrusted(Rejection),
    /// The network's: a required certificate cannot be fetched.
    #[error(fmt = no_certificate)]
    NoCertificate {
        /// The name that requires it.
        name: Name,
        /// The certificate or key.
        certificate: Name,
        /// The defect of the packet that was received under its name, if there was one.
        #[source]
        fault: Option<CertificateError>,
    },
    /// The peer's: received segments do not match the manifest after all attempts.
    #[error(transparent)]
    Corrupt(SegmentRejection),
    /// The peer's: the manifest is unusable.
    #[error("{name}: {error}")]
    Manifest {
        /// The manifest.
        name: Name,
        /// The defect of the manifest.
        #[source]
        error: ManifestError,
    },
    /// The peer's: a malformed packet.
    #[error("{name} is malformed: {error}")]
    Malformed {
        /// The packet.
        name: Name,
        /// The defect of the packet.
        #[source]
        error: DecodeError,
    },
    /// The peer's: it answers with a name that is not below the requested one.
    #[error("asked for {asked}, the producer leads to {led_to}, which is not below it")]
    Stray {
        /// The requested name.
        asked: Name,
        /// The name in the answer.
        led_to: Name,
    },
    /// The network's: the fetch did not finish.
    #[error("{name}: {failure}")]
    Fetch {
        /// The name that did not arrive.
        name: Name,
        /// The reason.
        #[source]
        failure: Failure,
    },
    /// The environment's: the content cannot be stored.
    #[error("cannot store the content: {0}")]
    Sink(#[source] io::Error),
    /// The caller's: the object is larger than the caller's limit.
    #[error("{object} is larger than {octets_max} octets")]
    TooLarge {
        /// The object.
        object: Name,
        /// The limit, octets.
        octets_max: u64,
    },
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

impl ObjectError {
    /// Advice for the caller, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ObjectError::Refused { reason: NackReason::NoRoute, .. } => Some(
                "`namely why NAME --trace` finds the router without a route; `namely route add` adds one",
            ),
            // The usual first fetch from a producer: nothing indicates another sender.
            ObjectError::Untrusted(Rejection { why: RejectionReason::NoAnchor, .. }) => {
                Some("`namely cert trust --from NAME` shows the fingerprint to compare with its producer's")
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

fn refused(name: &Name, reason: &NackReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        NackReason::NoRoute => {
            write!(f, "no route to {name}: the router, or one behind it, knows no producer of it")
        }
        NackReason::Congestion => write!(f, "the network is congested: routers refused {name}"),
        reason => write!(f, "the router refused {name}: {reason}"),
    }
}

fn no_certificate(
    name: &Name,
    certificate: &Name,
    fault: &Option<CertificateError>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "{name} cannot be verified: ")?;
    match fault {
        None => write!(f, "nobody answers for certificate {certificate}"),
        Some(fault) => write!(f, "what is served as certificate {certificate} is none: {fault}"),
    }
}
