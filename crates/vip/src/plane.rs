//! The virtual plane of one router (VI-09, VI-12…VI-15; Algorithm 1 of Yeh et al. 2014 and section
//! 3.2 of N-DISE): computes the counts of a slot from those of the last one.
//!
//! A slot consists of [`Plane::begin`], [`Plane::send`] after the neighbors have reported their
//! counts, [`Plane::add_demand`] and [`Plane::receive`] for arriving VIPs, and [`Plane::end`]. With
//! V the counts at its beginning:
//!
//! 1. Each open link carries the object whose V exceeds the neighbor's count most, if any does.
//! 2. The links that carry an object send by decreasing difference, each up to its capacity, and
//!    together at most V.
//! 3. Cached objects are placed by score, or by V ([`PlacementSource`]).
//! 4. `V <- max(0, V - sent + alpha x requested + received - read from the store)`; 0 at the
//!    source.
//! 5. `score <- score x decay + alpha x requested + received`, and the same for the VIPs sent on
//!    each link.

use alloc::vec::Vec;

use crate::count::{COUNT_MAX, Decay, add, vips_of};
use crate::hops::Hops;
use crate::limits::{NEIGHBOURS_MAX, TIERS_MAX};
use crate::link::Link;
use crate::objects::Objects;
use crate::placement::{Knapsack, NOWHERE, PlacementInput, Placer, Tier};

/// Skipped slots for which scores decay. A router that was stopped for longer does not apply them
/// all.
const DECAYS_MAX: u64 = 1024;

/// The placement that the virtual cache follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementSource {
    /// By scores: the drained objects are those that the store plans to cache.
    #[default]
    Scores,
    /// By the counts of the slot, as in Algorithm 1.
    Counts,
    /// The contents of the store, set by [`Plane::hold`].
    Store,
}

/// The parameters of a plane.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// VIPs that enter for each requested one; 1 or 2.
    pub amplification: u8,
    /// Decay of scores in a slot.
    pub decay: Decay,
    /// The placement of the virtual cache.
    pub follow: PlacementSource,
    /// The cache tiers; at most [`TIERS_MAX`] are used.
    pub tiers: Vec<Tier>,
    /// Weight of the tiers' costs.
    pub weight: u64,
}

/// VIPs by their destination, in [`crate::UNIT`], since the plane was created:
/// `counts + pending + departed + drained + arrived + saturated + withdrawn = entered`, to the
/// unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requested here, times the amplification, or received, or given back.
    pub entered: u64,
    /// Sent to neighbors, including those without VIP.
    pub departed: u64,
    /// Served by objects cached here.
    pub drained: u64,
    /// Arrived at a source on this router.
    pub arrived: u64,
    /// Cut off because a count had reached [`COUNT_MAX`].
    pub saturated: u64,
    /// Withdrawn with objects that were removed from the catalogue.
    pub withdrawn: u64,
}

/// The counts, scores and links of a router.
#[derive(Clone, Debug)]
pub struct Plane {
    config: PlaneConfig,
    sizes: Vec<u64>,
    /// V. VIPs sent in this slot are subtracted at once.
    counts: Vec<u64>,
    /// V at the beginning of the slot.
    reported: Vec<u64>,
    scores: Vec<u64>,
    /// VIPs requested and received in this slot.
    got: Vec<u64>,
    is_source: Vec<bool>,
    hops: Hops,
    links: Vec<Link>,
    placed: Vec<u8>,
    /// VIPs read of each object in a slot, by tier.
    reads: Vec<[u64; TIERS_MAX]>,
    totals: Totals,
    knapsack: Knapsack,
    placer: Placer,
    /// The values for a placement, and the placement that is being made.
    values: Vec<u64>,
    next: Vec<u8>,
}

impl Plane {
    /// A plane of these objects with `neighbours` links, at most [`NEIGHBOURS_MAX`]. All links are
    /// closed.
    pub fn new(objects: &Objects, neighbours: usize, mut config: PlaneConfig) -> Self {
        let count = objects.len();
        let zeros = || alloc::vec![0; count];
        config.tiers.truncate(TIERS_MAX);
        let sizes: Vec<u64> = objects.as_slice().iter().map(|o| o.octets).collect();
        let reads = |octets: &u64| {
            let mut reads = [0; TIERS_MAX];
            for (reads, tier) in reads.iter_mut().zip(&config.tiers) {
                *reads = vips_of(tier.rate, *octets);
            }
            reads
        };
        Plane {
            reads: sizes.iter().map(reads).collect(),
            sizes,
            counts: zeros(),
            reported: zeros(),
            scores: zeros(),
            got: zeros(),
            is_source: alloc::vec![false; count],
            hops: Hops::new(count),
            links: (0..neighbours.min(NEIGHBOURS_MAX)).map(|_| Link::new(count)).collect(),
            placed: alloc::vec![NOWHERE; count],
            totals: Totals::default(),
            knapsack: Knapsack::new(count),
            placer: Placer::new(count),
            values: zeros(),
            next: alloc::vec![NOWHERE; count],
            config,
        }
    }

    /// Takes over the state of `old`. `objects` maps each object to its former index, `links` each
    /// link. New objects and links start with zeros.
    pub(crate) fn take_over(&mut self, old: &Plane, objects: &[Option<usize>], links: &[Option<usize>]) {
        self.totals = old.totals;
        let sum = |counts: &[u64]| counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        let all = sum(&old.counts).saturating_add(sum(&old.got));
        for (k, former) in objects.iter().enumerate() {
            let Some(before) = *former else { continue };
            (self.counts[k], self.got[k]) = (old.counts[before], old.got[before]);
            (self.reported[k], self.scores[k]) = (old.reported[before], old.scores[before]);
            self.set_source(k, old.is_source[before]);
            self.hold(k, old.placed[before]);
        }
        let kept = sum(&self.counts).saturating_add(sum(&self.got));
        self.totals.withdrawn = self.totals.withdrawn.saturating_add(all.saturating_sub(kept));
        for (link, former) in self.links.iter_mut().zip(links) {
            let Some(before) = former.and_then(|b| old.links.get(b)) else { continue };
            (link.is_open, link.is_silent) = (before.is_open, before.is_silent);
            for (k, former) in objects.iter().enumerate() {
                let Some(former) = *former else { continue };
                link.received[k] = before.received[former];
                link.sent_score[k] = before.sent_score[former];
                if let Some((_, vips)) = before.sent.filter(|(object, _)| *object == former) {
                    link.sent = Some((k, vips));
                }
            }
        }
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.counts.len()
    }

    /// Sets the capacity of the link for Data from neighbor `b`, octets in a slot.
    pub fn set_capacity(&mut self, b: usize, octets_per_slot: u64) {
        for (takes, size) in self.links[b].takes.iter_mut().zip(&self.sizes) {
            *takes = vips_of(octets_per_slot, *size);
        }
    }

    /// Sets the neighbors that may receive VIPs of `k`, cheapest first.
    pub fn set_hops(&mut self, k: usize, neighbours: impl IntoIterator<Item = usize>) {
        let links = self.links.len();
        self.hops.set(k, neighbours.into_iter().filter(|b| *b < links));
    }

    /// Sets whether this router is the source of `k`.
    pub fn set_source(&mut self, k: usize, is_source: bool) {
        self.is_source[k] = is_source;
        if is_source {
            self.placed[k] = NOWHERE;
        }
    }

    /// Returns true if this router is the source of `k`.
    pub fn is_source(&self, k: usize) -> bool {
        self.is_source[k]
    }

    /// Sets the tier of `k`, for [`PlacementSource::Store`] and as its initial one.
    pub fn hold(&mut self, k: usize, tier: u8) {
        let is_tier = usize::from(tier) < self.config.tiers.len();
        self.placed[k] = if is_tier && !self.is_source[k] { tier } else { NOWHERE };
    }

    /// Updates a tier: its capacity, which is 0 while it cannot store anything, and its measured
    /// read rate.
    pub fn set_tier(&mut self, tier: usize, now: Tier) {
        let Some(config) = self.config.tiers.get_mut(tier) else { return };
        *config = now;
        for (reads, size) in self.reads.iter_mut().zip(&self.sizes) {
            reads[tier] = vips_of(now.rate, *size);
        }
    }

    /// Opens or closes the link to `b` for VIPs in the following slots.
    pub fn open(&mut self, b: usize, is_open: bool) {
        self.links[b].is_open = is_open;
    }

    /// Marks neighbor `b` as silent, so that Interests are not directed to it, or clears the mark.
    pub fn set_silent(&mut self, b: usize, is_silent: bool) {
        self.links[b].is_silent = is_silent;
    }

    /// The counts of neighbor `b`, for writing.
    pub fn neighbour_counts_mut(&mut self, b: usize) -> &mut [u64] {
        &mut self.links[b].received
    }

    /// Enters VIPs of `k` that were requested here: a share of the object, in [`crate::UNIT`].
    pub fn add_demand(&mut self, k: usize, vips: u64) {
        self.enter(k, vips.saturating_mul(u64::from(self.config.amplification)));
    }

    /// Enters VIPs of `k` from a neighbor.
    pub fn receive(&mut self, k: usize, vips: u64) {
        self.enter(k, vips);
    }

    fn enter(&mut self, k: usize, vips: u64) {
        let (got, cut) = add(self.got[k], vips);
        self.got[k] = got;
        self.totals.entered = self.totals.entered.saturating_add(vips);
        self.totals.saturated = self.totals.saturated.saturating_add(cut);
    }

    /// Returns VIPs of `k` that a neighbor never entered. They are no new demand, so they do not
    /// change the score.
    pub fn give_back(&mut self, k: usize, vips: u64) {
        let (count, cut) = add(self.counts[k], vips);
        self.counts[k] = count;
        self.totals.entered = self.totals.entered.saturating_add(vips);
        self.totals.saturated = self.totals.saturated.saturating_add(cut);
    }

    /// Begins a slot and freezes [`Plane::reported`], the counts for the neighbors.
    pub fn begin(&mut self) {
        self.reported.copy_from_slice(&self.counts);
        self.links.iter_mut().for_each(|link| link.sent = None);
    }

    /// Chooses the VIPs of open links and subtracts them from the counts ([`Plane::sent`]).
    pub fn send(&mut self) {
        // The choice of each link, most urgent first: object, inverted difference, link.
        let mut carried = [(usize::MAX, 0, 0); NEIGHBOURS_MAX];
        let mut links = 0;
        for (b, link) in self.links.iter().enumerate().filter(|(_, link)| link.is_open) {
            let mut best = (0, usize::MAX);
            for (k, (reported, received)) in self.reported.iter().zip(&link.received).enumerate() {
                let excess = reported.saturating_sub(*received);
                if excess > best.0 && self.hops.contains(k, b) && !self.is_source[k] {
                    best = (excess, k);
                }
            }
            if best.0 > 0 {
                carried[links] = (best.1, u64::MAX - best.0, b);
                links += 1;
            }
        }
        carried[..links].sort_unstable();
        for &(k, _, b) in &carried[..links] {
            let sent = self.links[b].takes[k].min(self.counts[k]);
            self.counts[k] -= sent;
            self.totals.departed = self.totals.departed.saturating_add(sent);
            self.links[b].sent = (sent > 0).then_some((k, sent));
        }
    }

    /// Ends the slot: updates the placement, the counts and the scores.
    pub fn end(&mut self) {
        self.place();
        let decay = self.config.decay;
        for k in 0..self.counts.len() {
            let (got, tier) = (core::mem::take(&mut self.got[k]), self.placed[k]);
            let (count, cut) = add(self.counts[k], got);
            let read = self.reads[k].get(usize::from(tier)).copied().unwrap_or(0);
            let drained = if self.is_source[k] { count } else { count.min(read) };
            self.counts[k] = count - drained;
            let into = if self.is_source[k] { &mut self.totals.arrived } else { &mut self.totals.drained };
            *into = into.saturating_add(drained);
            self.totals.saturated = self.totals.saturated.saturating_add(cut);
            self.scores[k] = add(decay.of(self.scores[k]), got).0;
        }
        for link in &mut self.links {
            link.sent_score.iter_mut().for_each(|score| *score = decay.of(*score));
            if let Some((k, sent)) = link.sent {
                link.sent_score[k] = add(link.sent_score[k], sent).0;
            }
        }
    }

    /// Decays scores for skipped slots, in which nothing arrived.
    pub(crate) fn decay(&mut self, slots: u64) {
        let decay = self.config.decay;
        for _ in 0..slots.min(DECAYS_MAX) {
            self.scores.iter_mut().for_each(|score| *score = decay.of(*score));
            for link in &mut self.links {
                link.sent_score.iter_mut().for_each(|score| *score = decay.of(*score));
            }
        }
    }

    /// Updates the placement. A cached object stays until an object with a positive value replaces
    /// it.
    fn place(&mut self) {
        let (keys, tiers) = match self.config.follow {
            PlacementSource::Store => return,
            PlacementSource::Scores => (&self.scores, &self.config.tiers[..]),
            PlacementSource::Counts => (&self.reported, &self.config.tiers[..]),
        };
        for ((value, key), is_source) in self.values.iter_mut().zip(keys).zip(&self.is_source) {
            *value = if *is_source { 0 } else { *key };
        }
        match tiers {
            [] => self.next.fill(NOWHERE),
            [tier] if self.config.weight == 0 || tier.admit == 0 && tier.evict == 0 => {
                let placed = &self.placed;
                let is_held = |k: usize| placed[k] != NOWHERE;
                self.next.fill(NOWHERE);
                let kept = self.knapsack.fill(&self.values, &self.sizes, tier.octets, is_held);
                let mut left = tier.octets;
                for k in kept.iter().map(|k| *k as usize) {
                    self.next[k] = 0;
                    left -= self.sizes[k];
                }
                for k in (0..placed.len()).filter(|k| is_held(*k)) {
                    if self.values[k] == 0 && self.sizes[k] <= left {
                        self.next[k] = 0;
                        left -= self.sizes[k];
                    }
                }
            }
            _ => {
                let (scores, sizes, now) = (&self.values[..], &self.sizes[..], &self.placed[..]);
                let given = PlacementInput { scores, sizes, tiers, weight: self.config.weight, now };
                self.placer.place(&given, &mut self.next);
            }
        }
        core::mem::swap(&mut self.placed, &mut self.next);
    }

    /// V at the beginning of the slot: the counts that neighbors receive.
    pub fn reported(&self) -> &[u64] {
        &self.reported
    }

    /// The current V.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Scores of all objects.
    pub fn scores(&self) -> &[u64] {
        &self.scores
    }

    /// VIPs that entered in this slot and are not part of V yet.
    pub fn pending(&self) -> &[u64] {
        &self.got
    }

    /// The virtual tier of each object, or [`NOWHERE`].
    pub fn placed(&self) -> &[u8] {
        &self.placed
    }

    /// The VIPs sent to `b` in this slot: object and number.
    pub fn sent(&self, b: usize) -> Option<(usize, u64)> {
        self.links[b].sent
    }

    /// Decayed number of VIPs of `k` sent to `b`.
    pub fn sent_score(&self, b: usize, k: usize) -> u64 {
        self.links[b].sent_score[k]
    }

    /// Capacity of the link to `b` in VIPs of `k`, per slot.
    pub fn takes(&self, b: usize, k: usize) -> u64 {
        self.links[b].takes[k]
    }

    /// The next hop for Interests of `k`: the one that recently received most of its VIPs, or the
    /// cheapest of equal ones (VI-15). Silent neighbors are excluded.
    pub fn direction(&self, k: usize) -> Option<usize> {
        let score = |b: usize| self.links[b].sent_score[k];
        let better = |best: usize, b: usize| if score(b) > score(best) { b } else { best };
        self.hops.of(k).filter(|b| !self.links[*b].is_silent).reduce(better)
    }

    /// All VIPs by their destination.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}

const _: () = assert!(COUNT_MAX < u64::MAX / 8, "sums of a few counts do not overflow");
