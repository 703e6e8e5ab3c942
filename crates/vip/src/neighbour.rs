//! The state of a neighbor: its reports, unacknowledged VIPs, and entered slots.

use alloc::vec::Vec;

use namely_wire::Name;

use crate::limits::{OFFERS_MAX, REQUESTS_MAX, SEGMENTS_MAX, UNSIGNED_BURST, UNSIGNED_PER_SECOND};

/// VIPs that a neighbor has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnacknowledgedVips {
    pub(crate) slot: u64,
    pub(crate) object: usize,
    pub(crate) vips: u64,
}

/// Counts that are being assembled from segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assembly {
    /// Boot, slot and last segment of the first segment received.
    pub(crate) of: Option<(u64, u64, u64)>,
    /// Bit i is set if segment i was received.
    pub(crate) come: u16,
    pub(crate) counts: Vec<u64>,
}

impl Assembly {
    /// Returns true if every segment was received.
    pub(crate) fn is_whole(&self) -> bool {
        self.of.is_some_and(|(_, _, last)| self.come.count_ones() as u64 == last + 1)
    }
}

/// Token bucket of packets with an unverified signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnsignedBucket {
    /// The level, in billionths of a packet.
    left: u64,
    at_ns: u64,
}

const WHOLE: u64 = 1_000_000_000;

impl UnsignedBucket {
    fn new() -> Self {
        UnsignedBucket { left: UNSIGNED_BURST * WHOLE, at_ns: 0 }
    }

    /// Takes a token if there is one.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        let more = now_ns.saturating_sub(self.at_ns).saturating_mul(UNSIGNED_PER_SECOND);
        self.at_ns = now_ns;
        self.left = self.left.saturating_add(more).min(UNSIGNED_BURST * WHOLE);
        let has_one = self.left >= WHOLE;
        self.left -= if has_one { WHOLE } else { 0 };
        has_one
    }

    /// Returns a token after a signature was found valid.
    pub(crate) fn give_back(&mut self) {
        self.left = self.left.saturating_add(WHOLE).min(UNSIGNED_BURST * WHOLE);
    }
}

/// A neighbor with VIP.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    /// Its name in the exchange.
    pub(crate) router: Vec<u8>,
    /// Capacity of the link for Data to it, octets per second.
    pub(crate) octets_per_s_out: u64,
    /// Its current boot, if known.
    pub(crate) boot: Option<u64>,
    /// The period that it reported, ms.
    pub(crate) period_ms: u64,
    /// Times of its last requests in this boot, us: of A and of B.
    pub(crate) requests_us: [u64; 2],
    /// The latest time of a request in earlier boots, us.
    pub(crate) former_us: u64,
    /// Time of the request that was pending when its current boot began, us.
    pub(crate) life_requested_us: Option<u64>,
    /// The slot in which counts were last sent to it.
    pub(crate) reported_slot: u64,
    /// Limits packets before their signature is verified.
    pub(crate) unsigned: UnsignedBucket,
    /// Signed requests, and requests for segments, that may still be answered in this slot.
    pub(crate) requests_left: u32,
    pub(crate) segments_left: u32,
    /// Times of pending requests to it, us.
    pub(crate) counts_requested_us: Option<u64>,
    pub(crate) offers_requested_us: Option<u64>,
    pub(crate) assembly: Assembly,
    /// Expiry of its counts.
    pub(crate) fresh_until_ns: u64,
    /// The name of its request B, if the answer must wait for the choice of this slot.
    pub(crate) waiting: Option<Name>,
    /// Sorted by slot, at most [`OFFERS_MAX`].
    pub(crate) under_way: Vec<UnacknowledgedVips>,
    /// Its last slot whose VIPs were entered here.
    pub(crate) entered: u64,
    /// Remaining allowance for the VIPs that it offers, octets.
    pub(crate) offered_left: u64,
}

impl Neighbour {
    pub(crate) fn new(router: Vec<u8>, octets_per_s_out: u64, objects: usize) -> Self {
        let assembly = Assembly { counts: alloc::vec![0; objects], ..Assembly::default() };
        Neighbour {
            router,
            octets_per_s_out,
            boot: None,
            period_ms: 0,
            requests_us: [0; 2],
            former_us: 0,
            life_requested_us: None,
            reported_slot: 0,
            unsigned: UnsignedBucket::new(),
            requests_left: 0,
            segments_left: 0,
            counts_requested_us: None,
            offers_requested_us: None,
            assembly,
            fresh_until_ns: 0,
            waiting: None,
            under_way: Vec::with_capacity(OFFERS_MAX),
            entered: 0,
            offered_left: 0,
        }
    }

    /// Begins a slot with a request for counts at `time_us`.
    pub(crate) fn begin(&mut self, time_us: u64) {
        self.allow();
        self.counts_requested_us = Some(time_us);
        (self.assembly.of, self.assembly.come) = (None, 0);
        self.assembly.counts.fill(0);
    }

    /// Resets the limits of answered requests to those of a full slot.
    pub(crate) fn allow(&mut self) {
        (self.requests_left, self.segments_left) = (REQUESTS_MAX, REQUESTS_MAX * SEGMENTS_MAX as u32);
    }

    /// Returns true if requested counts are incomplete.
    pub(crate) fn is_awaited(&self) -> bool {
        self.counts_requested_us.is_some()
    }

    /// Begins another boot, from which no request was received yet.
    pub(crate) fn live(&mut self, boot: u64) {
        self.former_us = self.former_us.max(self.requests_us[0]).max(self.requests_us[1]);
        self.requests_us = [0; 2];
        self.life_requested_us = self.counts_requested_us;
        self.boot = Some(boot);
    }

    /// Clears the state of the former boot. Returns the unacknowledged VIPs, which the caller gives
    /// back.
    pub(crate) fn forget(&mut self) -> impl Iterator<Item = UnacknowledgedVips> + '_ {
        self.boot = None;
        self.entered = 0;
        self.fresh_until_ns = 0;
        self.offers_requested_us = None;
        self.waiting = None;
        self.under_way.drain(..)
    }

    /// Takes over the state of `old`; `objects` maps each object to its former index. Incomplete
    /// counts are not taken over, but requested again in the next slot.
    pub(crate) fn take_over(&mut self, old: &Neighbour, objects: &[Option<usize>]) {
        let index = |k: usize| objects.iter().position(|former| *former == Some(k));
        let moved =
            |u: &UnacknowledgedVips| index(u.object).map(|object| UnacknowledgedVips { object, ..*u });
        let under_way = old.under_way.iter().filter_map(moved).collect();
        let (router, assembly) = (core::mem::take(&mut self.router), core::mem::take(&mut self.assembly));
        let octets_per_s_out = self.octets_per_s_out;
        *self = Neighbour {
            router,
            octets_per_s_out,
            assembly,
            under_way,
            counts_requested_us: None,
            waiting: old.waiting.clone(),
            ..*old
        };
    }

    /// Removes the VIPs up to this slot, which the neighbor has entered.
    pub(crate) fn acknowledge(&mut self, slot: u64) {
        self.under_way.retain(|under_way| under_way.slot > slot);
    }
}
