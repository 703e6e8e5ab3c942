//! The reasons for which a connection cannot be made or was lost.

use std::fmt;
use std::io;
use std::time::Duration;

use namely_wire::{DecodeError, FaceUri};
use rustix::io::Errno;

use super::ndndpdk::ManagementError;
use super::peer;
use crate::endpoint::{AddressSource, BadRouter, Candidate};

/// The reason for which a connection cannot be made or was lost.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The caller's: the router's address is invalid.
    #[error(transparent)]
    BadRouter(BadRouter),
    /// The caller's: the Interest to express is not valid.
    #[error("not an Interest: {0}")]
    BadInterest(#[source] DecodeError),
    /// The environment's: no router answers, or none that the caller trusts.
    #[error(transparent)]
    NoRouter(NoRouter),
    /// The environment's: the connection to the router was lost and could not be restored in time.
    #[error(fmt = lost)]
    Lost {
        /// The router's address.
        uri: FaceUri,
        /// The duration of the attempts to reconnect.
        after: Duration,
    },
    /// The environment's: a system call failed.
    #[error("the system refused: {0}")]
    System(#[source] io::Error),
}

/// No router was reached; lists the attempts.
#[derive(Debug, thiserror::Error)]
pub struct NoRouter {
    /// Each address and the reason of its failure.
    pub tried: Vec<(Candidate, io::Error)>,
}

impl NoRouter {
    /// Returns the attempt if a single configured address was tried.
    fn named(&self) -> Option<&(Candidate, io::Error)> {
        match &self.tried[..] {
            [only] if only.0.named_by != AddressSource::DefaultAddress => Some(only),
            _ => None,
        }
    }

    /// Returns true if there is a router, but the caller does not trust its user.
    pub fn is_strangers(&self) -> bool {
        self.tried.iter().any(|(_, error)| peer::is_stranger(error))
    }

    /// Returns true if no address was configured, and no default address has a router.
    pub fn is_nowhere(&self) -> bool {
        self.named().is_none() && !self.is_strangers()
    }

    /// Advice for the user.
    pub fn hint(&self) -> &'static str {
        match self.named() {
            // There is a router at that address, so the user must not be advised to start one.
            _ if self.is_strangers() => {
                "put that user into NAMELY_TRUST_ROUTER_OF to trust its router, or name another router"
            }
            Some((Candidate { uri: FaceUri::Kernel, .. }, error))
                if error.kind() == io::ErrorKind::NotFound =>
            {
                "load it with `namely kernel load`, or name another router"
            }
            _ if self.tried.iter().any(|(candidate, _)| candidate.uri == FaceUri::Kernel) => {
                "see `namely kernel status`, or name another router"
            }
            Some((Candidate { uri: FaceUri::NdnDpdk { .. }, .. }, error)) => {
                let source = error.get_ref().and_then(|error| error.downcast_ref::<ManagementError>());
                source.map_or("see the log of ndndpdk-svc, or name another router", ManagementError::hint)
            }
            Some(_) => "start one there with `namely up`, or name another",
            None => "start one with `namely up`, or name one",
        }
    }
}

impl fmt::Display for NoRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((Candidate { uri, named_by }, error)) = self.named() {
            return match named_by {
                AddressSource::Caller => write!(f, "no router at {uri}: {error}"),
                named_by => write!(f, "no router at {uri} (from {named_by}): {error}"),
            };
        }
        // A missing socket is normal at an address without a router.
        let is_telling = |(_, error): &&(Candidate, io::Error)| {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        };
        let telling: Vec<_> = self.tried.iter().filter(is_telling).collect();
        if telling.is_empty() {
            f.write_str("no router is running: there is none at ")?;
            for (i, (candidate, _)) in self.tried.iter().enumerate() {
                let separator = if i == 0 { "" } else { ", " };
                write!(f, "{separator}{}", candidate.uri)?;
            }
            return Ok(());
        }
        f.write_str("no router at ")?;
        for (i, (candidate, error)) in telling.into_iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{} ({error})", candidate.uri)?;
        }
        Ok(())
    }
}

impl ConnectionError {
    /// The matching `errno` of a system call.
    pub fn errno(&self) -> i32 {
        let is_short_of_descriptors =
            |error: &io::Error| error.raw_os_error() == Some(Errno::MFILE.raw_os_error());
        let errno = match self {
            ConnectionError::BadRouter(_) | ConnectionError::BadInterest(_) => Errno::INVAL,
            // Without a free descriptor every attempt fails, even if a router is running.
            ConnectionError::NoRouter(NoRouter { tried })
                if tried.iter().any(|(_, error)| is_short_of_descriptors(error)) =>
            {
                Errno::MFILE
            }
            ConnectionError::NoRouter(none) if none.is_strangers() => Errno::ACCESS,
            ConnectionError::NoRouter(_) => Errno::CONNREFUSED,
            ConnectionError::Lost { .. } => Errno::NOTCONN,
            ConnectionError::System(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
        };
        errno.raw_os_error()
    }

    /// Advice for the user, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ConnectionError::NoRouter(none) => Some(none.hint()),
            ConnectionError::Lost { uri: FaceUri::Kernel, .. } => Some("see `namely kernel status`"),
            // Zero: reconnecting is off, as for a socket pair, whose other end need not be a
            // router.
            ConnectionError::Lost { after, .. } if !after.is_zero() => {
                Some("start it again with `namely up`")
            }
            _ => None,
        }
    }
}

fn lost(uri: &FaceUri, after: &Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match after.as_secs() {
        _ if after.is_zero() => write!(f, "the router at {uri} closed the connection"),
        seconds => write!(f, "the router at {uri} went away and did not come back in {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_router(named_by: AddressSource) -> ConnectionError {
        let candidate = Candidate { uri: FaceUri::Unix("/run/x.sock".into()), named_by };
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        ConnectionError::NoRouter(NoRouter { tried: vec![(candidate, error)] })
    }

    #[test]
    fn connection_errors_and_hints_name_no_flag() {
        for named_by in [
            AddressSource::Caller,
            AddressSource::Variable(crate::endpoint::ROUTER_VARIABLE),
            AddressSource::ClientConf("/etc/ndn/client.conf".into()),
            AddressSource::DefaultAddress,
        ] {
            let error = no_router(named_by.clone());
            let (text, hint) = (error.to_string(), error.hint().unwrap());
            match named_by {
                AddressSource::DefaultAddress => {
                    assert_eq!(text, "no router is running: there is none at unix:///run/x.sock");
                }
                _ => assert!(text.starts_with("no router at unix:///run/x.sock"), "{text}"),
            }
            assert!(!text.contains("; ") && !text.contains("--"), "{text}");
            let names_source = text.contains(&format!("from {named_by}"));
            assert_eq!(
                names_source,
                matches!(named_by, AddressSource::Variable(_) | AddressSource::ClientConf(_))
            );
            assert!(hint.contains("namely up") && !hint.contains("--"), "{hint}");
            assert_eq!(hint.contains("there"), named_by != AddressSource::DefaultAddress);
        }
        let uri = FaceUri::Unix("/run/x.sock".into());
        let lost = |after| ConnectionError::Lost { uri: uri.clone(), after };
        assert_eq!(lost(Duration::ZERO).hint(), None);
        assert!(lost(Duration::from_secs(3)).hint().unwrap().contains("namely up"));
    }
}
