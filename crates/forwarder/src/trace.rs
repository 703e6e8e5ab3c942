//! The steps of a packet that the core reports to the [`Tracer`] of a home.
//!
//! A step is a word and perhaps a number, without its cause: the home has the packet and can look
//! there. No step is made for a home without a tracer.

use crate::counters::DropReason;

/// Receives the steps of packets while they are processed. Both methods may be called under a lock:
/// they must neither wait nor call back.
pub trait Tracer<B> {
    /// Something was decided of the packet that is being processed.
    fn decided(&mut self, step: Step);

    /// A pending Interest has ended without an answer, for which so many faces waited and so many
    /// were asked.
    fn ended(&mut self, interest: &B, waiting: usize, asked: usize);
}

/// No tracer.
impl<B> Tracer<B> for () {
    fn decided(&mut self, _: Step) {}

    fn ended(&mut self, _: &B, _: usize, _: usize) {}
}

/// Something that was decided of a packet while it was processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The content store's memory answers the Interest.
    CacheHit,
    /// It does not.
    CacheMiss,
    /// The tier below reads for the Interest, which is parked meanwhile.
    TierReads,
    /// The tier has nothing for it.
    TierAbsent,
    /// The tier has too much to do, and is passed by.
    TierBusy,
    /// What the tier has read answers.
    TierHit,
    /// What the tier has read does not answer.
    TierMiss,
    /// The FIB's longest match has so many components.
    Route(usize),
    /// The application said itself by which face the Interest goes.
    ChosenFace,
    /// The Interest joins a pending one, for which so many other faces wait.
    Aggregated(usize),
    /// The same face asks again for what is pending.
    Retransmission,
    /// This strategy decides, by the last component of its name.
    Strategy(&'static str),
    /// It holds the Interest back, as one was sent just now.
    Suppressed,
    /// It sends one more, to measure.
    Probes,
    /// It asks who is there.
    Discovers,
    /// It follows a learned route.
    Follows,
    /// The Data satisfies so many pending Interests.
    Satisfies(usize),
    /// The Data is not to be cached.
    NotCached,
    /// Other next hops may still answer, and the Nack goes no further.
    NackWaits,
    /// All have refused: downstreams are told.
    NackGoesOn,
    /// The packet is dropped.
    Drops(DropReason),
}

impl Step {
    /// In words of lower case, and a number where there is one.
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
            Step::NackGoesOn => ("all refused", None),
            Step::Drops(reason) => (reason.label(), None),
        }
    }

    /// Returns true if nothing more becomes of the packet.
    pub fn is_drop(self) -> bool {
        matches!(self, Step::Drops(_))
    }
}
