//! What the exchange did and what it refused, by reason.

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

            /// Its name among the router's counters, after `vip.`.
            pub fn label(self) -> &'static str {
                match self {
                    $(Counter::$variant => $label),*
                }
            }
        }
    };
}

counters! {
    /// Slots that began.
    Slots => "slots",
    /// Times slots were left out because the timer came too late.
    SlotsMissed => "slots_missed",
    /// Times a neighbour told its counts.
    CountsHeard => "counts_heard",
    /// Times a neighbour was told the counts.
    CountsTold => "counts_told",
    /// Times a neighbour's VIPs were heard of.
    OffersHeard => "offers_heard",
    /// Times a neighbour was told its VIPs.
    OffersTold => "offers_told",
    /// Neighbours that had started anew.
    Restarts => "restarts",
    /// Slots in which a neighbour was sent nothing, because its counts were too old.
    CountsStale => "counts_stale",
    /// Slots in which a neighbour was sent nothing, because it had not acknowledged enough.
    OffersFull => "offers_full",
    /// No message of the exchange, though its name says so.
    Malformed => "malformed",
    /// A version of the exchange that is not known.
    OtherVersion => "other_version",
    /// A request in the name of another router than the neighbour, or an answer to another's.
    OtherRouter => "other_router",
    /// A message of, or for, a router before it was started anew.
    OtherBoot => "other_boot",
    /// A signature that is wrong.
    BadSignature => "bad_signature",
    /// A request no later than the last of its sender.
    Replayed => "replayed",
    /// Too many requests in a slot.
    RateLimited => "rate_limited",
    /// Too many packets whose signatures were wrong, or not looked at yet.
    UnsignedLimited => "unsigned_limited",
    /// An answer to nothing that is asked, or is not asked any more.
    Unsolicited => "unsolicited",
    /// A further segment of counts that are not told any more.
    Late => "late",
    /// Segments of a neighbour's counts that did not come in the slot.
    SegmentsMissing => "segments_missing",
    /// A period too different from one's own.
    BadPeriod => "bad_period",
    /// An acknowledgement of what was never sent.
    BadAcknowledgement => "bad_acknowledgement",
    /// Objects or slots that are named twice or out of order.
    Unsorted => "unsorted",
    /// Objects that are not registered here.
    UnknownObject => "unknown_object",
    /// Counts that were cut to the largest one.
    CountCut => "count_cut",
    /// VIPs that were cut to what the link carries.
    OfferCut => "offer_cut",
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
