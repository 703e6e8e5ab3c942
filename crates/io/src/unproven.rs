//! What is sent to addresses that may be forged: the source address of a datagram proves nothing,
//! and Data is many times as long as the Interest that asks for it. Until a peer that came to a UDP
//! port has proven that it receives ([`namely_link::Proof`]), the rate is limited of what is sent
//! to its address, and of what is sent to all such addresses.
//!
//! Each limit is one number that workers change without a lock. A face whose peer has proven itself
//! has nothing of all this.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_host::shares::Holder;
use namely_link::{Frame, Proof, Shown};
use namely_wire::LpView;
use parking_lot::Mutex;

use crate::options::UnprovenLimits;

/// What a limit lets pass at once after a rest: as much as its rate brings in this time, ns.
pub const UNPROVEN_BURST_NS: u64 = 100_000_000;

/// The part of it that questions have for themselves, so that whoever can prove that it receives
/// can do so however many others take all there is.
const QUESTIONS_PART: u64 = 10;

/// Octets that each datagram takes beside its own: the headers of UDP and IPv6.
const DATAGRAM_HEADER_OCTETS: u64 = 48;

/// Octets that are sent to a peer before it is asked for a proof: most peers that want no more than
/// this are never asked.
const UNASKED_OCTETS: u64 = 16 << 10;

/// Addresses that may be remembered though they have no face any more, before they are looked for.
const ADDRESSES_KEPT: usize = 64;

/// A packet was dropped as its address had as much as an unproven one may have.
pub(crate) const ADDRESS_LABEL: &str = "unproven_address";

/// A packet was dropped as all unproven addresses together had as much as they may have.
pub(crate) const TOTAL_LABEL: &str = "unproven_total";

/// What wants to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Packet,
    Question,
}

/// A rate that is not exceeded but by one packet: the time at which all that was sent will be paid
/// (the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// Bits per second; 0: no limit.
    bps: u64,
    paid_ns: AtomicU64,
}

impl RateLimit {
    fn new(bps: u64) -> Self {
        RateLimit { bps, paid_ns: AtomicU64::new(0) }
    }

    fn has_room(&self, what: What, now_ns: u64) -> bool {
        let burst_ns = match what {
            What::Packet => UNPROVEN_BURST_NS - UNPROVEN_BURST_NS / QUESTIONS_PART,
            What::Question => UNPROVEN_BURST_NS,
        };
        // The number stands alone: nothing else is read because of it.
        self.bps == 0 || self.paid_ns.load(Ordering::Relaxed) < now_ns.saturating_add(burst_ns)
    }

    fn charge(&self, octets: u64, now_ns: u64) {
        if self.bps == 0 {
            return;
        }
        let cost_ns = octets.saturating_mul(8_000_000_000) / self.bps;
        let paid = |paid_ns: u64| Some(paid_ns.max(now_ns).saturating_add(cost_ns));
        // The closure returns a value each time, so that this does not fail.
        let _ = self.paid_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
    }

    /// Takes back the charge for `octets`.
    fn refund(&self, octets: u64) {
        if self.bps == 0 {
            return;
        }
        let cost_ns = octets.saturating_mul(8_000_000_000) / self.bps;
        let paid = |paid_ns: u64| Some(paid_ns.saturating_sub(cost_ns));
        // The closure returns a value each time, so that this does not fail.
        let _ = self.paid_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
    }

    fn is_at_rest(&self, now_ns: u64) -> bool {
        self.paid_ns.load(Ordering::Relaxed) <= now_ns
    }
}

/// The limits of all unproven addresses.
#[derive(Debug)]
pub(crate) struct UnprovenAddresses {
    limits: UnprovenLimits,
    total: Arc<RateLimit>,
    addresses: Mutex<Addresses>,
}

#[derive(Debug, Default)]
struct Addresses {
    /// Those with a face, and those that have not paid yet: an address whose face has gone does not
    /// begin anew.
    limits: BTreeMap<Holder, Arc<RateLimit>>,
    /// How many there may be before others are looked for.
    sweep_at: usize,
}

impl UnprovenAddresses {
    pub(crate) fn new(limits: UnprovenLimits) -> Self {
        let total = Arc::new(RateLimit::new(limits.total_bps));
        UnprovenAddresses { limits, total, addresses: Mutex::default() }
    }

    /// The limits of a peer whose address belongs to `holder`; `None` if there are none.
    pub(crate) fn limits_of(&self, holder: Holder, now_ns: u64) -> Option<PeerLimits> {
        if self.limits == UnprovenLimits::NONE {
            return None;
        }
        let mut addresses = self.addresses.lock();
        let Addresses { limits, sweep_at } = &mut *addresses;
        if limits.len() >= *sweep_at {
            limits.retain(|_, limit| Arc::strong_count(limit) > 1 || !limit.is_at_rest(now_ns));
            *sweep_at = 2 * limits.len() + ADDRESSES_KEPT;
        }
        let new = || Arc::new(RateLimit::new(self.limits.address_bps));
        let address = limits.entry(holder).or_insert_with(new).clone();
        Some(PeerLimits { address, total: self.total.clone() })
    }
}

/// The limits of what is sent to one peer.
#[derive(Clone, Debug)]
pub(crate) struct PeerLimits {
    address: Arc<RateLimit>,
    total: Arc<RateLimit>,
}

impl PeerLimits {
    /// The name of the limit that something exceeds.
    fn exceeded(&self, what: What, now_ns: u64) -> Option<&'static str> {
        if !self.address.has_room(what, now_ns) {
            return Some(ADDRESS_LABEL);
        }
        (!self.total.has_room(what, now_ns)).then_some(TOTAL_LABEL)
    }

    fn charge(&self, octets: u64, now_ns: u64) {
        self.address.charge(octets, now_ns);
        self.total.charge(octets, now_ns);
    }
}

/// A peer that has not proven that it receives what is sent to it.
#[derive(Debug)]
pub(crate) struct Unproven {
    limits: PeerLimits,
    proof: Proof,
    sent_octets: u64,
    was_refused: bool,
}

impl Unproven {
    pub(crate) fn new(limits: PeerLimits, proof: Proof) -> Self {
        Unproven { limits, proof, sent_octets: 0, was_refused: false }
    }

    /// Whether another packet may be sent.
    ///
    /// # Errors
    /// The name of the limit that it exceeds.
    pub(crate) fn admit(&mut self, now_ns: u64) -> Result<(), &'static str> {
        let exceeded = self.limits.exceeded(What::Packet, now_ns);
        self.was_refused |= exceeded.is_some();
        exceeded.map_or(Ok(()), Err)
    }

    /// So many octets in so many datagrams were sent.
    pub(crate) fn charge(&mut self, octets: usize, datagrams: usize, now_ns: u64) {
        let octets = octets as u64 + datagrams as u64 * DATAGRAM_HEADER_OCTETS;
        self.sent_octets = self.sent_octets.saturating_add(octets);
        self.limits.charge(octets, now_ns);
    }

    /// Asks the peer for a proof, if it is time to: `emit` gets what is sent, which is to be
    /// charged.
    pub(crate) fn ask<P>(&mut self, now_ns: u64, emit: &mut impl FnMut(Frame<P>)) {
        let is_wanted = self.was_refused || self.sent_octets >= UNASKED_OCTETS;
        if is_wanted && self.proof.is_due(now_ns) && self.limits.exceeded(What::Question, now_ns).is_none() {
            self.proof.ask(now_ns, emit);
        }
    }

    pub(crate) fn shown_by(&self, view: &LpView<'_>) -> Shown {
        self.proof.shown_by(view)
    }

    /// The peer has proven that it receives. The octets that it received before were not sent to a
    /// victim, so they no longer count against other ports of its address: programs of one host
    /// that start together do not slow each other down. The limit of all addresses keeps its
    /// charge, so that a host that proves itself again and again does not raise it for the others.
    pub(crate) fn end(self) {
        self.limits.address.refund(self.sent_octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_link::{PROOF_QUESTION_OCTETS_MAX, PROOF_RANDOM_OCTETS};
    use proptest::prelude::*;

    const MBIT: u64 = 1_000_000;
    const SECOND_NS: u64 = 1_000_000_000;

    fn addresses(address_bps: u64, total_bps: u64) -> UnprovenAddresses {
        UnprovenAddresses::new(UnprovenLimits { address_bps, total_bps })
    }

    fn host(n: u32) -> Holder {
        Holder::address(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into())
    }

    fn peer(addresses: &UnprovenAddresses, n: u32, now_ns: u64) -> Unproven {
        let limits = addresses.limits_of(host(n), now_ns).unwrap();
        Unproven::new(limits, Proof::new([n as u8; PROOF_RANDOM_OCTETS]))
    }

    /// Sends a packet with its question, as a port does. Returns the octets that left.
    fn send(peer: &mut Unproven, octets: usize, now_ns: u64) -> u64 {
        let admitted = peer.admit(now_ns).is_ok();
        let mut questions = Vec::new();
        peer.ask(now_ns, &mut |frame: Frame<Vec<u8>>| questions.push(frame.octets()));
        let asked: usize = questions.iter().sum();
        peer.charge(asked, questions.len(), now_ns);
        if admitted {
            peer.charge(octets, 1, now_ns);
        }
        let datagrams = questions.len() as u64 + u64::from(admitted);
        asked as u64 + if admitted { octets as u64 } else { 0 } + datagrams * DATAGRAM_HEADER_OCTETS
    }

    #[test]
    fn a_limit_lets_its_rate_pass_and_one_packet_more() {
        // 8 Mbit/s: a packet of 1000 octets takes 1 ms, 90 of them are a burst.
        let limit = RateLimit::new(8 * MBIT);
        let passes = |now_ns| {
            let has_room = limit.has_room(What::Packet, now_ns);
            if has_room {
                limit.charge(1000, now_ns);
            }
            has_room
        };
        assert_eq!((0..200).filter(|_| passes(0)).count(), 90);
        assert!(limit.has_room(What::Question, 0), "questions have some for themselves");
        assert!(!passes(999_999) || !passes(999_999));
        let millisecond = |n: u64| SECOND_NS + n * 1_000_000;
        let passed = (0..1000).filter(|n| (0..5).filter(|_| passes(millisecond(*n))).count() > 0).count();
        assert!(passed >= 910, "{passed} of 1000 ms");
    }

    #[test]
    fn no_limit_is_set_by_nought() {
        assert!(addresses(0, 0).limits_of(host(1), 0).is_none());
        let unlimited = addresses(0, 8 * MBIT);
        let mut peer = peer(&unlimited, 1, 0);
        let refused = (0..1000).find_map(|_| match peer.admit(0) {
            Ok(()) => {
                peer.charge(1000, 1, 0);
                None
            }
            Err(label) => Some(label),
        });
        assert_eq!(refused, Some(TOTAL_LABEL));
    }

    #[test]
    fn all_ports_of_an_address_have_one_limit_and_keep_it_when_their_faces_go() {
        let all = addresses(8 * MBIT, 0);
        let mut first = peer(&all, 1, 0);
        while first.admit(0).is_ok() {
            first.charge(1000, 1, 0);
        }
        assert_eq!(peer(&all, 1, 0).admit(0), Err(ADDRESS_LABEL), "another port of the host");
        assert_eq!(peer(&all, 2, 0).admit(0), Ok(()), "another host");
        drop(first);
        // However many come between.
        (3..10_000).for_each(|n| drop(peer(&all, n, 0)));
        assert_eq!(peer(&all, 1, 0).admit(0), Err(ADDRESS_LABEL), "a face that comes again");
        assert!(all.addresses.lock().limits.len() <= 2 * ADDRESSES_KEPT);
        assert_eq!(peer(&all, 1, SECOND_NS).admit(SECOND_NS), Ok(()));
    }

    #[test]
    fn a_proven_port_returns_its_charge_to_the_address() {
        let all = addresses(8 * MBIT, 8 * MBIT);
        let mut first = peer(&all, 1, 0);
        while first.admit(0).is_ok() {
            first.charge(1000, 1, 0);
        }
        let mut second = peer(&all, 1, 0);
        assert_eq!(second.admit(0), Err(ADDRESS_LABEL));
        first.end();
        assert_eq!(second.admit(0), Err(TOTAL_LABEL), "the limit of all addresses keeps its charge");
        assert!(second.limits.address.has_room(What::Packet, 0));
    }

    #[test]
    fn a_peer_that_gets_little_is_not_asked_and_one_that_is_refused_is() {
        let asked = |peer: &mut Unproven, now_ns| {
            let mut frames = 0;
            peer.ask(now_ns, &mut |_: Frame<Vec<u8>>| frames += 1);
            frames > 0
        };
        let all = addresses(8 * MBIT, 8 * MBIT);
        let mut little = peer(&all, 1, 0);
        little.charge(UNASKED_OCTETS as usize - 1 - DATAGRAM_HEADER_OCTETS as usize, 1, 0);
        assert!(!asked(&mut little, 0));
        little.charge(1, 0, 0);
        assert!(asked(&mut little, 0) && !asked(&mut little, 0), "once until the pause is over");
        // Others have taken all there is: whoever can prove itself is asked at once.
        let mut greedy = peer(&all, 2, SECOND_NS);
        while greedy.admit(SECOND_NS).is_ok() {
            greedy.charge(1000, 1, SECOND_NS);
        }
        let mut late = peer(&all, 3, SECOND_NS);
        assert_eq!(late.admit(SECOND_NS), Err(TOTAL_LABEL));
        assert!(asked(&mut late, SECOND_NS));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Addresses that never answer, in any order and at any times: none gets more than its
        /// limit, nor all together more than theirs, in any interval from the start on.
        #[test]
        fn silent_addresses_get_no_more_than_the_limits(
            steps in prop::collection::vec((0..40u32, 40..8800usize, 0..3_000_000u64, any::<bool>()), 1..2000),
        ) {
            let (address_bps, total_bps) = (10 * MBIT, 30 * MBIT);
            let all = addresses(address_bps, total_bps);
            let mut peers: BTreeMap<u32, Unproven> = BTreeMap::new();
            let (mut now_ns, mut sent, mut sent_all) = (SECOND_NS, BTreeMap::<u32, u64>::new(), 0);
            for (n, octets, later_ns, goes) in steps {
                now_ns += later_ns;
                let peer = peers.entry(n).or_insert_with(|| peer(&all, n, now_ns));
                let left = send(peer, octets, now_ns);
                *sent.entry(n).or_default() += left;
                sent_all += left;
                if goes {
                    peers.remove(&n);
                }
                let most = |bps: u64| {
                    let lasted_ns = now_ns - SECOND_NS + UNPROVEN_BURST_NS;
                    // What passes the limit is one packet, or one question.
                    bps * lasted_ns / 8 / SECOND_NS + 8800 + PROOF_QUESTION_OCTETS_MAX as u64
                        + 3 * DATAGRAM_HEADER_OCTETS
                };
                prop_assert!(sent[&n] <= most(address_bps), "{} of {}", sent[&n], most(address_bps));
                prop_assert!(sent_all <= most(total_bps), "{sent_all} of {}", most(total_bps));
            }
        }
    }
}
