//! Why a connection cannot be made or kept.

use std::fmt;
use std::io;
use std::time::Duration;

use namely_wire::DecodeError;
use namely_wire::face_uri::FaceUri;

use crate::endpoint::{BadRouter, Candidate, NamedBy};

/// Why a connection cannot be made or kept.
#[derive(Debug)]
pub enum ConnectionError {
    /// The caller's: what names the router is no address.
    BadRouter(BadRouter),
    /// The caller's: the Interest to express is none.
    BadInterest(DecodeError),
    /// The environment's: no router answers.
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

impl fmt::Display for NoRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tried[..] {
            [(candidate, error)] if candidate.named_by != NamedBy::UsualPlace => {
                write!(f, "no router at {} (from {}): {error}; ", candidate.uri, candidate.named_by)?;
                f.write_str("start one there with `namely up`, or name another with --router")
            }
            tried => {
                f.write_str("no router at ")?;
                for (i, (candidate, error)) in tried.iter().enumerate() {
                    let separator = if i == 0 { "" } else { ", " };
                    write!(f, "{separator}{} ({error})", candidate.uri)?;
                }
                f.write_str("; start one with `namely up`, or name one with --router")
            }
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
                write!(f, "the router at {uri} went away and did not come back in {seconds} s; ")?;
                f.write_str("start it again with `namely up`")
            }
            ConnectionError::System(error) => write!(f, "the system refused: {error}"),
        }
    }
}

impl std::error::Error for ConnectionError {}
