//! Reasons why a model cannot be made or solved: the wrong value, and the valid range.

/// A model that makes no sense, or is too large.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A rate that is not above 0, or not finite.
    #[error("{of} is {given}: give a number of packets a second above 0")]
    Rate {
        /// The name of the rate.
        of: &'static str,
        /// The given value.
        given: f64,
    },
    /// A share that is not from 0 to 1.
    #[error("{of} is {given}: give a share from 0 to 1")]
    Share {
        /// The name of the share.
        of: &'static str,
        /// The given value.
        given: f64,
    },
    /// A load that the router cannot sustain.
    #[error(
        "{given} packets/s are more than {stage} takes for long: give less than {most}, or raise \
         its rate"
    )]
    Overload {
        /// The given load, packets a second.
        given: f64,
        /// The maximum sustained load, packets a second.
        most: f64,
        /// The stage that bounds it.
        stage: &'static str,
    },
    /// A number of queues, or of states of a queue, outside the valid range.
    #[error("{given} {of}: give from {least} to {most}")]
    Size {
        /// The name of the value.
        of: &'static str,
        /// The given value.
        given: usize,
        /// The minimum.
        least: usize,
        /// The maximum.
        most: usize,
    },
    /// More states in total than the solver accepts.
    #[error("{queues} queues of {states} states have more than {most} states together: give fewer of either")]
    TooManyStates {
        /// Queues.
        queues: usize,
        /// States of each.
        states: usize,
        /// The maximum number of states in total.
        most: usize,
    },
    /// The probabilities still changed in the last permitted sweep.
    #[error(
        "the probabilities still change by {change:.1e} of themselves: give fewer states or \
         another load"
    )]
    Unsolved {
        /// The greatest relative change of the last sweep.
        change: f64,
    },
}

/// `given`, if it is a rate.
pub(crate) fn rate(of: &'static str, given: f64) -> Result<f64, Error> {
    if given.is_finite() && given > 0.0 { Ok(given) } else { Err(Error::Rate { of, given }) }
}

/// `given`, if it is a share.
pub(crate) fn share(of: &'static str, given: f64) -> Result<f64, Error> {
    if (0.0..=1.0).contains(&given) { Ok(given) } else { Err(Error::Share { of, given }) }
}
