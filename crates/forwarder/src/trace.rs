//! The steps of a packet that the core reports to the embedder's [`Tracer`].
//!
//! A step is a word and sometimes a number, without its cause: the embedder has the packet and can
//! examine it. Without a tracer no step is made.

use crate::counters::DropReason;

/// Receives the steps of packets while they are processed. Both methods may be called under a lock:
/// they must neither wait nor call back.
pub trait Tracer<B> {
    /// A decision on the packet that is being processed.
    fn decided(&mut self, step: Step);

    /// A pending Interest has ended without an answer. `waiting` and `upstreams` are the numbers of
    /// its downstreams and upstreams.
    fn ended(&mut self, interest: &B, waiting: usize, upstreams: usize);
}

/// No tracer.
impl<B> Tracer<B> for () {
    fn decided(&mut self, _: Step) {}

    fn ended(&mut self, _: &B, _: usize, _: usize) {}
}

/// A decision on a packet during its processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The content store's memory answers the Interest.
    CacheHit,
    /// The content store's memory does not answer the Interest.
    CacheMiss,
    /// The tier below reads for the Interest, which is parked meanwhile.
    TierReads,
    /// The tier has no Data for it.
    TierAbsent,
    /// The tier is overloaded, and is bypassed.
    TierBusy,
    /// The Data read from the tier answers the Interest.
    TierHit,
    /// The tier's read does not answer the Interest.
    TierMiss,
    /// The number of components of the FIB's longest match.
    Route(usize),
    /// The application chose the upstream itself.
    ChosenFace,
    /// The Interest joins a pending one with this number of other downstreams.
    Aggregated(usize),
    /// A retransmission of a pending Interest by the same face.
    Retransmission,
    /// The strategy that decides, by the last component of its name.
    // A static label, so that a step allocates nothing.
    Strategy(&'static str),
    /// The strategy suppresses the Interest, because one was sent recently.
    Suppressed,
    /// The strategy sends a probe to measure a next hop.
    Probes,
    /// The strategy sends a discovery.
    Discovers,
    /// The strategy follows a learned route.
    Follows,
    /// The Data satisfies this number of pending Interests.
    Satisfies(usize),
    /// The Data must not be cached.
    NotCached,
    /// Other next hops may still answer, so the Nack is not passed on.
    NackWaits,
    /// All upstreams have refused: the downstreams receive a Nack.
    NackForwarded,
    /// The packet is dropped.
    Drops(DropReason),
}

impl Step {
    /// The step in lower-case words, and its number if it has one.
    pub fn words(self) -> (&'static str, Option<usize>) {
        match self {
            Step::CacheHit => ("cs hit", None),
            Step::CacheMiss => ("cs miss", None),
            Step::TierReads => ("disk reads", None),
            Step::TierAbsent => ("disk absent", None),
            Step::TierBusy => ("disk busy", None),
            Step::TierHit => ("disk hit", None),
            Step::TierMiss => ("disk miss", None),
            Step::Route(components) => ("route", Some(components)),
            Step::ChosenFace => ("face chosen by application", None),
            Step::Aggregated(others) => ("aggregated", Some(others)),
            Step::Retransmission => ("retransmission", None),
            Step::Strategy(name) => (name, None),
            Step::Suppressed => ("suppressed", None),
            Step::Probes => ("probes", None),
            Step::Discovers => ("discovers", None),
            Step::Follows => ("follows learned route", None),
            Step::Satisfies(interests) => ("satisfies", Some(interests)),
            Step::NotCached => ("not cached", None),
            Step::NackWaits => ("waits for others", None),
            Step::NackForwarded => ("all refused", None),
            Step::Drops(reason) => (reason.label(), None),
        }
    }

    /// Returns true if the packet is not processed further.
    pub fn is_drop(self) -> bool {
        matches!(self, Step::Drops(_))
    }
}
