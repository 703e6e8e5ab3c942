//! Why a model cannot be made or solved: what was wrong, and what to give instead.

use std::fmt;

/// A model that makes no sense, or is too large.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A rate that is not above 0, or not finite.
    Rate {
        /// Whose rate.
        of: &'static str,
        /// What was given.
        given: f64,
    },
    /// A share that is not from 0 to 1.
    Share {
        /// The share of what.
        of: &'static str,
        /// What was given.
        given: f64,
    },
    /// More load than the router can take for long.
    Overload {
        /// What was given, packets a second.
        given: f64,
        /// The most that it can take, packets a second.
        most: f64,
        /// The stage that bounds it.
        stage: &'static str,
    },
    /// A number of queues or of states of a queue that no model has.
    Size {
        /// Of what.
        of: &'static str,
        /// What was given.
        given: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// More states in all than are solved.
    TooManyStates {
        /// Queues.
        queues: usize,
        /// States of each.
        states: usize,
        /// The most states in all.
        most: usize,
    },
    /// The probabilities still changed after as many sweeps as are made.
    Unsolved {
        /// The greatest relative change of the last sweep.
        change: f64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Rate { of, given } => {
                write!(f, "{of} is {given}: give a number of packets a second above 0")
            }
            Error::Share { of, given } => write!(f, "{of} is {given}: give a share from 0 to 1"),
            Error::Overload { given, most, stage } => write!(
                f,
                "{given} packets/s are more than {stage} takes for long: give less than {most}, or raise its rate"
            ),
            Error::Size { of, given, least, most } => {
                write!(f, "{given} {of}: give from {least} to {most}")
            }
            Error::TooManyStates { queues, states, most } => write!(
                f,
                "{queues} queues of {states} states have more than {most} states together: give fewer of either"
            ),
            Error::Unsolved { change } => write!(
                f,
                "the probabilities still change by {change:.1e} of themselves: give fewer states or another load"
            ),
        }
    }
}

impl std::error::Error for Error {}

/// `given`, if it is a rate.
pub(crate) fn rate(of: &'static str, given: f64) -> Result<f64, Error> {
    if given.is_finite() && given > 0.0 { Ok(given) } else { Err(Error::Rate { of, given }) }
}

/// `given`, if it is a share.
pub(crate) fn share(of: &'static str, given: f64) -> Result<f64, Error> {
    if (0.0..=1.0).contains(&given) { Ok(given) } else { Err(Error::Share { of, given }) }
}
