//! Counters of the exchange: messages, and refusals by reason.

use namely_messages::counters;

counters! {
    /// A counted event. Its label follows `vip.` among the router's counters.
    Counter in Counters;
    /// Slots that began.
    Slots => "slots",
    /// Late timers that skipped slots.
    SlotsMissed => "slots_missed",
    /// Counts (A) of a neighbor received completely.
    CountsHeard => "counts_heard",
    /// Counts (A) sent to a neighbor.
    CountsTold => "counts_told",
    /// Offers of VIPs (B) received from a neighbor.
    OffersHeard => "offers_heard",
    /// Offers of VIPs (B) sent to a neighbor.
    OffersTold => "offers_told",
    /// Restarts of a neighbor.
    Restarts => "restarts",
    /// Slots in which nothing was sent to a neighbor because its counts were too old.
    CountsStale => "counts_stale",
    /// Slots in which nothing was sent to a neighbor because it had too many unacknowledged slots.
    OffersFull => "offers_full",
    /// Slots in which nothing was sent to a neighbor because some of its counts did not arrive.
    SegmentsMissing => "segments_missing",
    /// Packets with a name of the exchange that cannot be decoded.
    Malformed => "malformed",
    /// Messages of an unknown version.
    OtherVersion => "other_version",
    /// Requests of another router than the neighbor, or answers to another router's requests.
    OtherRouter => "other_router",
    /// Messages that name an earlier boot of either router.
    OtherBoot => "other_boot",
    /// Packets with an invalid signature.
    BadSignature => "bad_signature",
    /// Requests that are not newer than the last one of their sender.
    Replayed => "replayed",
    /// Requests over the limit of a slot.
    RateLimited => "rate_limited",
    /// Packets over the rate limit of unverified signatures.
    UnsignedLimited => "unsigned_limited",
    /// Answers that match no pending request.
    Unsolicited => "unsolicited",
    /// Requests or answers for segments of counts that are out of date.
    Late => "late",
    /// Periods outside the allowed ratio to the own one.
    BadPeriod => "bad_period",
    /// Acknowledgements of a slot that has not begun.
    BadAcknowledgement => "bad_acknowledgement",
    /// Messages with repeated or unsorted objects or slots.
    Unsorted => "unsorted",
    /// Entries skipped because their object is not registered here.
    UnknownObject => "unknown_object",
    /// Counts reduced to the largest possible one.
    CountCut => "count_cut",
    /// Offers reduced to the capacity of the link.
    OfferCut => "offer_cut",
}
