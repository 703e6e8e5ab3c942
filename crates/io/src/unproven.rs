//! Limits on sending to addresses that may be forged. The source address of a datagram proves
//! nothing, and Data is many times as long as its Interest. Until a peer of a UDP port has proven
//! that it receives ([`namely_link::Proof`]), two rates are limited: that to its address, and that
//! to all unproven addresses.
//!
//! Each limit is one number that workers change without a lock. A face whose peer has proven itself
//! has none of this state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_host::shares::Owner;
use namely_link::{Evidence, Frame, Proof};
use namely_wire::LpView;
use parking_lot::Mutex;

use crate::labels::sent::{UNPROVEN_ADDRESS, UNPROVEN_TOTAL};
use crate::options::UnprovenLimits;

/// The burst of a limit: the octets of its rate in this time, ns.
pub const UNPROVEN_BURST_NS: u64 = 100_000_000;

/// The fraction of the burst that is reserved for questions, so that a peer can prove itself even
/// if other peers use up the rest.
const QUESTIONS_PART: u64 = 10;

/// Octets charged for each datagram beside its own: the headers of UDP and IPv6.
const DATAGRAM_HEADER_OCTETS: u64 = 48;

/// Octets to an unproven address before it is asked for a proof.
///
/// Most peers that want no more are never asked.
///
/// # Limit
/// The router asks for a proof with a later packet.
/// - Value: 16 KiB, or the first refused packet
/// - Tests: `only_well_served_peers_are_asked`,
///   `a_small_exchange_requires_no_proof`
const UNASKED_OCTETS: u64 = 16 << 10;

/// Addresses without a face that may be retained before a sweep.
const ADDRESSES_KEPT: usize = 64;

/// The kind of datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatagramKind {
    Packet,
    Question,
}

/// A limit on a rate, which is exceeded by at most one packet. It is stored as the time at which
/// all sent packets are paid for (the generic cell rate algorithm, ITU-T I.371).
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

    fn has_room(&self, what: DatagramKind, now_ns: u64) -> bool {
        let burst_ns = match what {
            DatagramKind::Packet => UNPROVEN_BURST_NS - UNPROVEN_BURST_NS / QUESTIONS_PART,
            DatagramKind::Question => UNPROVEN_BURST_NS,
        };
        // Relaxed suffices: this number guards no other memory.
        self.bps == 0 || self.paid_ns.load(Ordering::Relaxed) < now_ns.saturating_add(burst_ns)
    }

    fn charge(&self, octets: u64, now_ns: u64) {
        if self.bps == 0 {
            return;
        }
        let cost_ns = octets.saturating_mul(8_000_000_000) / self.bps;
        // Unused time before `now_ns` is not saved up.
        let paid = |paid_ns: u64| Some(paid_ns.max(now_ns).saturating_add(cost_ns));
        // The closure returns a value each time, so this does not fail.
        let _ = self.paid_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
    }

    /// Takes back the charge for `octets`.
    fn refund(&self, octets: u64) {
        if self.bps == 0 {
            return;
        }
        let cost_ns = octets.saturating_mul(8_000_000_000) / self.bps;
        // A time in the past is harmless, because `charge` begins from the present at the earliest.
        let paid = |paid_ns: u64| Some(paid_ns.saturating_sub(cost_ns));
        // The closure returns a value each time, so this does not fail.
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
    /// Addresses with a face, and addresses whose charge is not paid yet. The latter are retained,
    /// so that an address whose face closed does not begin with a full burst.
    limits: BTreeMap<Owner, Arc<RateLimit>>,
    /// The number of entries at which unused ones are removed.
    sweep_at: usize,
}

impl UnprovenAddresses {
    pub(crate) fn new(limits: UnprovenLimits) -> Self {
        let total = Arc::new(RateLimit::new(limits.total_bps));
        UnprovenAddresses { limits, total, addresses: Mutex::default() }
    }

    /// Returns the limits of a peer whose address belongs to `holder`; `None` if there are none.
    pub(crate) fn limits_of(&self, holder: Owner, now_ns: u64) -> Option<PeerLimits> {
        if self.limits == UnprovenLimits::NONE {
            return None;
        }
        let mut addresses = self.addresses.lock();
        let Addresses { limits, sweep_at } = &mut *addresses;
        if limits.len() >= *sweep_at {
            limits.retain(|_, limit| Arc::strong_count(limit) > 1 || !limit.is_at_rest(now_ns));
            // The threshold doubles with the table, so the cost of a sweep for each new address is
            // constant.
            *sweep_at = 2 * limits.len() + ADDRESSES_KEPT;
        }
        let new = || Arc::new(RateLimit::new(self.limits.address_bps));
        let address = limits.entry(holder).or_insert_with(new).clone();
        Some(PeerLimits { address, total: self.total.clone() })
    }
}

/// The limits on sending to one peer.
#[derive(Clone, Debug)]
pub(crate) struct PeerLimits {
    address: Arc<RateLimit>,
    total: Arc<RateLimit>,
}

impl PeerLimits {
    /// Returns the counter of the exceeded limit.
    fn exceeded(&self, what: DatagramKind, now_ns: u64) -> Option<&'static str> {
        if !self.address.has_room(what, now_ns) {
            return Some(UNPROVEN_ADDRESS);
        }
        (!self.total.has_room(what, now_ns)).then_some(UNPROVEN_TOTAL)
    }

    fn charge(&self, octets: u64, now_ns: u64) {
        self.address.charge(octets, now_ns);
        self.total.charge(octets, now_ns);
    }
}

/// A peer that has not proven that it receives.
#[derive(Debug)]
pub(crate) struct UnprovenPeer {
    limits: PeerLimits,
    proof: Proof,
    sent_octets: u64,
    was_refused: bool,
}

impl UnprovenPeer {
    pub(crate) fn new(limits: PeerLimits, proof: Proof) -> Self {
        UnprovenPeer { limits, proof, sent_octets: 0, was_refused: false }
    }

    /// Admits another packet, or returns the reason for which it may not be sent.
    ///
    /// # Errors
    /// The counter of the exceeded limit.
    pub(crate) fn admit(&mut self, now_ns: u64) -> Result<(), &'static str> {
        let exceeded = self.limits.exceeded(DatagramKind::Packet, now_ns);
        self.was_refused |= exceeded.is_some();
        exceeded.map_or(Ok(()), Err)
    }

    /// Charges `octets` sent octets in `datagrams` datagrams.
    pub(crate) fn charge(&mut self, octets: usize, datagrams: usize, now_ns: u64) {
        let octets = octets as u64 + datagrams as u64 * DATAGRAM_HEADER_OCTETS;
        self.sent_octets = self.sent_octets.saturating_add(octets);
        self.limits.charge(octets, now_ns);
    }

    /// Requests a proof from the peer if one is due. `emit` receives the frames, which the caller
    /// charges.
    pub(crate) fn request_proof<P>(&mut self, now_ns: u64, emit: &mut impl FnMut(Frame<P>)) {
        let is_wanted = self.was_refused || self.sent_octets >= UNASKED_OCTETS;
        if is_wanted
            && self.proof.is_due(now_ns)
            && self.limits.exceeded(DatagramKind::Question, now_ns).is_none()
        {
            self.proof.send_question(now_ns, emit);
        }
    }

    pub(crate) fn evidence_in(&self, view: &LpView<'_>) -> Evidence {
        self.proof.evidence_in(view)
    }

    /// The peer has proven that it receives. The octets sent before did not reach a victim, so they
    /// no longer count against other ports of its address. Programs of one host that start together
    /// therefore do not slow each other down. The limit of all addresses retains its charge, so a
    /// host that proves itself repeatedly does not raise it for others.
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

    fn host(n: u32) -> Owner {
        Owner::address(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into())
    }

    fn peer(addresses: &UnprovenAddresses, n: u32, now_ns: u64) -> UnprovenPeer {
        let limits = addresses.limits_of(host(n), now_ns).unwrap();
        UnprovenPeer::new(limits, Proof::new([n as u8; PROOF_RANDOM_OCTETS]))
    }

    /// Sends a packet with its question, as a port does. Returns the octets that left.
    fn send(peer: &mut UnprovenPeer, octets: usize, now_ns: u64) -> u64 {
        let admitted = peer.admit(now_ns).is_ok();
        let mut questions = Vec::new();
        peer.request_proof(now_ns, &mut |frame: Frame<Vec<u8>>| questions.push(frame.octets()));
        let requested: usize = questions.iter().sum();
        peer.charge(requested, questions.len(), now_ns);
        if admitted {
            peer.charge(octets, 1, now_ns);
        }
        let datagrams = questions.len() as u64 + u64::from(admitted);
        requested as u64 + if admitted { octets as u64 } else { 0 } + datagrams * DATAGRAM_HEADER_OCTETS
    }

    #[test]
    fn a_rate_limit_passes_its_rate() {
        // 8 Mbit/s: a packet of 1000 octets takes 1 ms, 90 of them are a burst.
        let limit = RateLimit::new(8 * MBIT);
        let passes = |now_ns| {
            let has_room = limit.has_room(DatagramKind::Packet, now_ns);
            if has_room {
                limit.charge(1000, now_ns);
            }
            has_room
        };
        assert_eq!((0..200).filter(|_| passes(0)).count(), 90);
        assert!(limit.has_room(DatagramKind::Question, 0), "questions have some for themselves");
        assert!(!passes(999_999) || !passes(999_999));
        let millisecond = |n: u64| SECOND_NS + n * 1_000_000;
        let passed = (0..1000).filter(|n| (0..5).filter(|_| passes(millisecond(*n))).count() > 0).count();
        assert!(passed >= 910, "{passed} of 1000 ms");
    }

    #[test]
    fn a_limit_of_zero_means_unlimited() {
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
        assert_eq!(refused, Some(UNPROVEN_TOTAL));
    }

    #[test]
    fn an_address_limit_outlives_its_faces() {
        let all = addresses(8 * MBIT, 0);
        let mut first = peer(&all, 1, 0);
        while first.admit(0).is_ok() {
            first.charge(1000, 1, 0);
        }
        assert_eq!(peer(&all, 1, 0).admit(0), Err(UNPROVEN_ADDRESS), "another port of the host");
        assert_eq!(peer(&all, 2, 0).admit(0), Ok(()), "another host");
        drop(first);
        // The result does not depend on the number of peers in between.
        (3..10_000).for_each(|n| drop(peer(&all, n, 0)));
        assert_eq!(peer(&all, 1, 0).admit(0), Err(UNPROVEN_ADDRESS), "a face that comes again");
        assert!(all.addresses.lock().limits.len() <= 2 * ADDRESSES_KEPT);
        assert_eq!(peer(&all, 1, SECOND_NS).admit(SECOND_NS), Ok(()));
    }

    #[test]
    fn a_proven_port_returns_its_charge() {
        let all = addresses(8 * MBIT, 8 * MBIT);
        let mut first = peer(&all, 1, 0);
        while first.admit(0).is_ok() {
            first.charge(1000, 1, 0);
        }
        let mut second = peer(&all, 1, 0);
        assert_eq!(second.admit(0), Err(UNPROVEN_ADDRESS));
        first.end();
        assert_eq!(second.admit(0), Err(UNPROVEN_TOTAL), "the limit of all addresses keeps its charge");
        assert!(second.limits.address.has_room(DatagramKind::Packet, 0));
    }

    #[test]
    fn only_well_served_peers_are_asked() {
        let is_due = |peer: &mut UnprovenPeer, now_ns| {
            let mut frames = 0;
            peer.request_proof(now_ns, &mut |_: Frame<Vec<u8>>| frames += 1);
            frames > 0
        };
        let all = addresses(8 * MBIT, 8 * MBIT);
        let mut little = peer(&all, 1, 0);
        little.charge(UNASKED_OCTETS as usize - 1 - DATAGRAM_HEADER_OCTETS as usize, 1, 0);
        assert!(!is_due(&mut little, 0));
        little.charge(1, 0, 0);
        assert!(is_due(&mut little, 0) && !is_due(&mut little, 0), "once until the pause is over");
        // Other peers have used up the packets' part, so the router requests a proof from a peer
        // immediately.
        let mut greedy = peer(&all, 2, SECOND_NS);
        while greedy.admit(SECOND_NS).is_ok() {
            greedy.charge(1000, 1, SECOND_NS);
        }
        let mut late = peer(&all, 3, SECOND_NS);
        assert_eq!(late.admit(SECOND_NS), Err(UNPROVEN_TOTAL));
        assert!(is_due(&mut late, SECOND_NS));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Sends to addresses that never answer, in any order and at any time. In no interval from
        /// the start does one address exceed its limit, nor do all of them exceed the total limit.
        #[test]
        fn silent_addresses_stay_within_the_limits(
            steps in prop::collection::vec((0..40u32, 40..8800usize, 0..3_000_000u64, any::<bool>()), 1..2000),
        ) {
            let (address_bps, total_bps) = (10 * MBIT, 30 * MBIT);
            let all = addresses(address_bps, total_bps);
            let mut peers: BTreeMap<u32, UnprovenPeer> = BTreeMap::new();
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
                    // The limit is exceeded by at most one packet or one question.
                    bps * lasted_ns / 8 / SECOND_NS + 8800 + PROOF_QUESTION_OCTETS_MAX as u64
                        + 3 * DATAGRAM_HEADER_OCTETS
                };
                prop_assert!(sent[&n] <= most(address_bps), "{} of {}", sent[&n], most(address_bps));
                prop_assert!(sent_all <= most(total_bps), "{sent_all} of {}", most(total_bps));
            }
        }
    }
}
