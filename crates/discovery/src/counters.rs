//! What discovery did and what it refused, by reason.

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident => $label:literal),* $(,)?) => {
        /// Something that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $($(#[$doc])* $variant),*
        }

        impl Counter {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Counter] = &[$(Counter::$variant),*];

            /// Its name among the router's counters, after `discovery.`.
            pub fn label(self) -> &'static str {
                match self {
                    $(Counter::$variant => $label),*
                }
            }
        }
    };
}

counters! {
    /// Hellos that were multicast.
    HellosSent => "hellos_sent",
    /// Hellos that were sent to one station.
    ChallengesSent => "challenges_sent",
    /// Replies sent.
    RepliesSent => "replies_sent",
    /// Hellos heard whose signature was right.
    HellosHeard => "hellos_heard",
    /// Replies heard that were asked for and right.
    RepliesHeard => "replies_heard",
    /// Neighbours that were proven.
    NeighboursProven => "neighbours_proven",
    /// Neighbours that were not heard of any more.
    NeighboursExpired => "neighbours_expired",
    /// Neighbours that said goodbye.
    NeighboursLeft => "neighbours_left",
    /// Neighbours that never replied.
    NeighboursUnproven => "neighbours_unproven",
    /// Faces that could not be made.
    FacesRefused => "faces_refused",
    /// No message of discovery, though the name says so.
    Malformed => "malformed",
    /// The name and the frame's source do not agree.
    Spoofed => "spoofed",
    /// A station outside the network of the link.
    OtherNetwork => "other_network",
    /// A station that is bound to another key.
    OtherKey => "other_key",
    /// A hello no later than the last of its sender.
    Replayed => "replayed",
    /// A reply to no hello of this router.
    Unsolicited => "unsolicited",
    /// A reply that came too late.
    Late => "late",
    /// A signature that is wrong.
    BadSignature => "bad_signature",
    /// An MTU below what is configured.
    MtuTooSmall => "mtu_too_small",
    /// An MTU that was lowered too often.
    MtuLoweredTooOften => "mtu_lowered_too_often",
    /// Prefixes that no rule accepts.
    PrefixesRefused => "prefixes_refused",
    /// A station that sent too many messages.
    RateLimited => "rate_limited",
    /// Stations that are no neighbours sent too many messages together.
    StrangersLimited => "strangers_limited",
    /// A station in quarantine.
    Quarantined => "quarantined",
    /// There are as many neighbours as there may be.
    TooManyNeighbours => "too_many_neighbours",
    /// Too many signatures wait.
    VerifyFull => "verify_full",
    /// It came from an interface that is not there.
    NoInterface => "no_interface",
}

/// Counts, by [`Counter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Counters([0; Counter::ALL.len()])
    }
}

impl Counters {
    pub(crate) fn count(&mut self, counter: Counter) {
        if let Some(count) = self.0.get_mut(counter as usize) {
            *count += 1;
        }
    }

    /// How often.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    /// All, by label.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Counter::ALL.iter().map(|counter| (counter.label(), self.get(*counter)))
    }
}
