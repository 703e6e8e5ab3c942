//! Why a connection cannot be made or kept.

use std::fmt;
use std::io;
use std::time::Duration;

use namely_wire::{DecodeError, FaceUri};
use rustix::io::Errno;

use super::ndndpdk::ManagementError;
use super::peer;
use crate::endpoint::{BadRouter, Candidate, NamedBy};

/// Why a connection cannot be made or kept.
#[derive(Debug)]
pub enum ConnectionError {
    /// The caller's: what names the router is no address.
    BadRouter(BadRouter),
    /// The caller's: the Interest to express is none.
    BadInterest(DecodeError),
    /// The environment's: no router answers, or none that the caller trusts.
    NoRouter(NoRouter),
    /// The environment's: the router went away and did not come back in time.
    Lost {
        /// The router's address.
        uri: FaceUri,
        /// For how long it was looked for.
        after: Duration,
    },
    /// The environment's: the system refuses something basic.
    System(io::Error),
}

/// No router was reached; what was tried.
#[derive(Debug)]
pub struct NoRouter {
    /// Each place and why it failed.
    pub tried: Vec<(Candidate, io::Error)>,
}

impl NoRouter {
    /// The one place that was tried, if somebody named it.
    fn named(&self) -> Option<&(Candidate, io::Error)> {
        match &self.tried[..] {
            [only] if only.0.named_by != NamedBy::UsualPlace => Some(only),
            _ => None,
        }
    }

    /// Returns true if there is a router, run by a user whom the caller does not trust.
    pub fn is_strangers(&self) -> bool {
        self.tried.iter().any(|(_, error)| peer::is_stranger(error))
    }

    /// What the person can do about it.
    pub fn hint(&self) -> &'static str {
        match self.named() {
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
                let told = error.get_ref().and_then(|error| error.downcast_ref::<ManagementError>());
                told.map_or("see the log of ndndpdk-svc, or name another router", ManagementError::hint)
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
                NamedBy::Caller => write!(f, "no router at {uri}: {error}"),
                named_by => write!(f, "no router at {uri} (from {named_by}): {error}"),
            };
        }
        // That nothing is there is what one expects of a place where no router is.
        let is_telling = |(_, error): &&(Candidate, io::Error)| {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        };
        let telling: Vec<_> = self.tried.iter().filter(is_telling).collect();
        if telling.is_empty() {
            return write!(f, "no router is running: none of the {} usual places has one", self.tried.len());
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
    /// The number by which a system call would tell it.
    pub fn errno(&self) -> i32 {
        let is_short_of_descriptors =
            |error: &io::Error| error.raw_os_error() == Some(Errno::MFILE.raw_os_error());
        let errno = match self {
            ConnectionError::BadRouter(_) | ConnectionError::BadInterest(_) => Errno::INVAL,
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

    /// What the person can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ConnectionError::NoRouter(none) => Some(none.hint()),
            ConnectionError::Lost { uri: FaceUri::Kernel, .. } => Some("see `namely kernel status`"),
            ConnectionError::Lost { after, .. } if !after.is_zero() => {
                Some("start it again with `namely up`")
            }
            _ => None,
        }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionError::BadRouter(bad) => bad.fmt(f),
            ConnectionError::BadInterest(error) => write!(f, "not an Interest: {error}"),
            ConnectionError::NoRouter(none) => none.fmt(f),
            ConnectionError::Lost { uri, after } if after.is_zero() => {
                write!(f, "the router at {uri} closed the connection")
            }
            ConnectionError::Lost { uri, after } => {
                let seconds = after.as_secs();
                write!(f, "the router at {uri} went away and did not come back in {seconds} s")
            }
            ConnectionError::System(error) => write!(f, "the system refused: {error}"),
        }
    }
}

impl std::error::Error for ConnectionError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_router(named_by: NamedBy) -> ConnectionError {
        let candidate = Candidate { uri: FaceUri::Unix("/run/x.sock".into()), named_by };
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        ConnectionError::NoRouter(NoRouter { tried: vec![(candidate, error)] })
    }

    #[test]
    fn a_message_says_what_and_a_hint_what_to_do_and_neither_names_a_flag() {
        for named_by in [
            NamedBy::Caller,
            NamedBy::Variable(crate::endpoint::ROUTER_VARIABLE),
            NamedBy::ClientConf("/etc/ndn/client.conf".into()),
            NamedBy::UsualPlace,
        ] {
            let error = no_router(named_by.clone());
            let (text, hint) = (error.to_string(), error.hint().unwrap());
            match named_by {
                NamedBy::UsualPlace => assert!(text.starts_with("no router is running"), "{text}"),
                _ => assert!(text.starts_with("no router at unix:///run/x.sock"), "{text}"),
            }
            assert!(!text.contains("; ") && !text.contains("--"), "{text}");
            let says_who = text.contains(&format!("from {named_by}"));
            assert_eq!(says_who, matches!(named_by, NamedBy::Variable(_) | NamedBy::ClientConf(_)));
            assert!(hint.contains("namely up") && !hint.contains("--"), "{hint}");
            assert_eq!(hint.contains("there"), named_by != NamedBy::UsualPlace);
        }
        let uri = FaceUri::Unix("/run/x.sock".into());
        let lost = |after| ConnectionError::Lost { uri: uri.clone(), after };
        assert_eq!(lost(Duration::ZERO).hint(), None);
        assert!(lost(Duration::from_secs(3)).hint().unwrap().contains("namely up"));
    }
}
