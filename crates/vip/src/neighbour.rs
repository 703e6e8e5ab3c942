//! What is kept of a neighbour: what it told, what is on its way to it, and what came from it.

use alloc::vec::Vec;

use namely_wire::Name;

use crate::limits::{OFFERS_MAX, REQUESTS_MAX, SEGMENTS_MAX, UNSIGNED_BURST, UNSIGNED_PER_SECOND};

/// VIPs that a neighbour has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub(crate) slot: u64,
    pub(crate) object: usize,
    pub(crate) vips: u64,
}

/// Counts of which segments are still to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assembly {
    /// Boot, slot and last segment of the first that came.
    pub(crate) of: Option<(u64, u64, u64)>,
    /// Bit i: segment i has come.
    pub(crate) come: u16,
    pub(crate) counts: Vec<u64>,
}

impl Assembly {
    /// Returns true if every segment has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.of.is_some_and(|(_, _, last)| self.come.count_ones() as u64 == last + 1)
    }
}

/// Packets whose signature is not known to be right, by time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsigned {
    /// Billionths of a packet.
    left: u64,
    at_ns: u64,
}

const WHOLE: u64 = 1_000_000_000;

impl Unsigned {
    fn new() -> Self {
        Unsigned { left: UNSIGNED_BURST * WHOLE, at_ns: 0 }
    }

    /// Takes one, if there is one.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        let more = now_ns.saturating_sub(self.at_ns).saturating_mul(UNSIGNED_PER_SECOND);
        self.at_ns = now_ns;
        self.left = self.left.saturating_add(more).min(UNSIGNED_BURST * WHOLE);
        let has_one = self.left >= WHOLE;
        self.left -= if has_one { WHOLE } else { 0 };
        has_one
    }

    /// One was signed rightly.
    pub(crate) fn give_back(&mut self) {
        self.left = self.left.saturating_add(WHOLE).min(UNSIGNED_BURST * WHOLE);
    }
}

/// A neighbour that speaks VIP.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    /// Its name in the exchange.
    pub(crate) router: Vec<u8>,
    /// What the link carries of Data to it, octets per second.
    pub(crate) octets_per_s_out: u64,
    /// Its life that is known.
    pub(crate) boot: Option<u64>,
    /// Its period, as it told, ms.
    pub(crate) period_ms: u64,
    /// Times of its last requests in this life, us: of A and of B.
    pub(crate) asked_us: [u64; 2],
    /// The latest time of a request of former lives, us.
    pub(crate) former_us: u64,
    /// What was asked of it last when it began another life, us.
    pub(crate) life_asked_us: Option<u64>,
    /// Slot in which it was told counts last.
    pub(crate) told_slot: u64,
    /// Packets that are to be verified.
    pub(crate) unsigned: Unsigned,
    /// Signed requests, and requests for segments, that are still answered in this slot.
    pub(crate) requests_left: u32,
    pub(crate) segments_left: u32,
    /// Times of what was asked of it and is not answered, us.
    pub(crate) counts_asked_us: Option<u64>,
    pub(crate) offers_asked_us: Option<u64>,
    pub(crate) assembly: Assembly,
    /// Until when its counts are used.
    pub(crate) fresh_until_ns: u64,
    /// B as it asked it, when the answer has to wait for this slot's choice.
    pub(crate) waiting: Option<Name>,
    /// By rising slot, at most [`OFFERS_MAX`].
    pub(crate) under_way: Vec<UnderWay>,
    /// Its last slot whose VIPs were entered here.
    pub(crate) entered: u64,
    /// What the VIPs that it offers may come to just now, octets.
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
            asked_us: [0; 2],
            former_us: 0,
            life_asked_us: None,
            told_slot: 0,
            unsigned: Unsigned::new(),
            requests_left: 0,
            segments_left: 0,
            counts_asked_us: None,
            offers_asked_us: None,
            assembly,
            fresh_until_ns: 0,
            waiting: None,
            under_way: Vec::with_capacity(OFFERS_MAX),
            entered: 0,
            offered_left: 0,
        }
    }

    /// A slot of one's own begins, in which counts are asked for at `time_us`.
    pub(crate) fn begin(&mut self, time_us: u64) {
        self.allow();
        self.counts_asked_us = Some(time_us);
        (self.assembly.of, self.assembly.come) = (None, 0);
        self.assembly.counts.fill(0);
    }

    /// Requests of it are looked at, as many as in a slot.
    pub(crate) fn allow(&mut self) {
        (self.requests_left, self.segments_left) = (REQUESTS_MAX, REQUESTS_MAX * SEGMENTS_MAX as u32);
    }

    /// Returns true if counts were asked for and are not whole.
    pub(crate) fn is_awaited(&self) -> bool {
        self.counts_asked_us.is_some()
    }

    /// Another life begins, of whose requests none was heard.
    pub(crate) fn live(&mut self, boot: u64) {
        self.former_us = self.former_us.max(self.asked_us[0]).max(self.asked_us[1]);
        self.asked_us = [0; 2];
        self.life_asked_us = self.counts_asked_us;
        self.boot = Some(boot);
    }

    /// Forgets a former life. What it has not acknowledged is taken out, to go back.
    pub(crate) fn forget(&mut self) -> impl Iterator<Item = UnderWay> + '_ {
        self.boot = None;
        self.entered = 0;
        self.fresh_until_ns = 0;
        self.offers_asked_us = None;
        self.waiting = None;
        self.under_way.drain(..)
    }

    /// Goes on where `old` is; `objects` has the place there of each object. Counts that are only
    /// in part there are asked for again with the next slot.
    pub(crate) fn take_over(&mut self, old: &Neighbour, objects: &[Option<usize>]) {
        let place = |k: usize| objects.iter().position(|place| *place == Some(k));
        let moved = |u: &UnderWay| place(u.object).map(|object| UnderWay { object, ..*u });
        let under_way = old.under_way.iter().filter_map(moved).collect();
        let (router, assembly) = (core::mem::take(&mut self.router), core::mem::take(&mut self.assembly));
        let octets_per_s_out = self.octets_per_s_out;
        *self = Neighbour {
            router,
            octets_per_s_out,
            assembly,
            under_way,
            counts_asked_us: None,
            waiting: old.waiting.clone(),
            ..*old
        };
    }

    /// It has entered all up to this slot.
    pub(crate) fn acknowledge(&mut self, slot: u64) {
        self.under_way.retain(|under_way| under_way.slot > slot);
    }
}
