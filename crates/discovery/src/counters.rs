//! Counters of discovery: messages, neighbors, and refusals by reason.

use namely_messages::counters;

counters! {
    /// A counted event. Its label follows `discovery.` among the router's counters.
    Counter in Counters;
    /// Hellos sent to the multicast group.
    HellosSent => "hellos_sent",
    /// Hellos sent to one link address.
    ChallengesSent => "challenges_sent",
    /// Replies sent.
    RepliesSent => "replies_sent",
    /// Hellos received with a valid signature.
    HellosHeard => "hellos_heard",
    /// Replies received that answered a hello and had a valid signature.
    RepliesHeard => "replies_heard",
    /// Neighbors that were proven.
    NeighboursProven => "neighbours_proven",
    /// Neighbors removed after three heartbeats without a message.
    NeighboursExpired => "neighbours_expired",
    /// Neighbors that sent a goodbye.
    NeighboursLeft => "neighbours_left",
    /// Neighbors that never replied.
    NeighboursUnproven => "neighbours_unproven",
    /// Neighbors for which no face could be made.
    FacesRefused => "faces_refused",
    /// Packets with a name of discovery that cannot be decoded.
    Malformed => "malformed",
    /// Messages that name another link address than the source of the frame.
    Spoofed => "spoofed",
    /// Messages from outside the network of a UDP link, or from its broadcast address. Nothing is
    /// sent to such addresses.
    OtherNetwork => "other_network",
    /// Messages signed with another key than before from the same link address.
    OtherKey => "other_key",
    /// Hellos that are not newer than the last one of their sender.
    Replayed => "replayed",
    /// Replies that match no hello of this router.
    Unsolicited => "unsolicited",
    /// Replies that came too late.
    Late => "late",
    /// Messages with an invalid signature.
    BadSignature => "bad_signature",
    /// Messages with an MTU below the configured minimum.
    MtuTooSmall => "mtu_too_small",
    /// Messages that lower the MTU too often.
    MtuLoweredTooOften => "mtu_lowered_too_often",
    /// Prefixes that no rule accepts.
    PrefixesRefused => "prefixes_refused",
    /// Messages over the rate limit of their sender.
    RateLimited => "rate_limited",
    /// Messages over the rate limit of all peers that are no neighbors.
    StrangersLimited => "strangers_limited",
    /// Messages of a quarantined peer.
    Quarantined => "quarantined",
    /// New peers refused because the table of neighbors is full.
    TooManyNeighbours => "too_many_neighbours",
    /// Messages dropped because too many signatures wait to be checked.
    VerifyFull => "verify_full",
    /// Messages from an interface that is unknown or down.
    NoInterface => "no_interface",
}
