//! The virtual plane of one router (VI-09, VI-12…VI-15; Algorithm 1 of Yeh et al. 2014 and section
//! 3.2 of N-DISE): the counts of a slot follow from those of the last one.
//!
//! A slot is [`Plane::begin`], [`Plane::send`] when the neighbours have told their counts,
//! [`Plane::ask`] and [`Plane::receive`] for what comes meanwhile, and [`Plane::end`]. With V the
//! counts at its beginning:
//!
//! 1. Each open link carries the object of which V exceeds the neighbour's most, if any does.
//! 2. Of an object, links that carry it send by falling difference, each what it takes, and
//!    together never more than there is.
//! 3. What is kept is placed by score, or by V ([`Follow`]).
//! 4. `V <- max(0, V - sent + alpha x asked + received - what was read of the store)`; 0 at the
//!    source.
//! 5. `score <- score x decay + alpha x asked + received`, and the same for what each link was
//!    sent.

use alloc::vec::Vec;

use crate::count::{COUNT_MAX, Decay, add, vips_of};
use crate::hops::Hops;
use crate::limits::{NEIGHBOURS_MAX, TIERS_MAX};
use crate::link::Link;
use crate::objects::Objects;
use crate::placement::{Given, Knapsack, NOWHERE, Placer, Tier};

/// Slots left out for which scores decay: a router that was stopped for longer does not count them
/// all.
const DECAYS_MAX: u64 = 1024;

/// What the virtual cache follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// Scores: what is drained is what the store plans to keep.
    #[default]
    Scores,
    /// The counts of the slot, as Algorithm 1 has it.
    Counts,
    /// What [`Plane::hold`] says that the store holds.
    Store,
}

/// How a plane is computed.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// VIPs that enter for each that is asked for; 1 or 2.
    pub amplification: u8,
    /// What is left of scores after a slot.
    pub decay: Decay,
    /// What the virtual cache follows.
    pub follow: Follow,
    /// Where objects are kept; at most [`TIERS_MAX`] count.
    pub tiers: Vec<Tier>,
    /// Weight of the tiers' costs.
    pub weight: u64,
}

/// VIPs by what became of them, in [`crate::UNIT`], since the plane was made: `counts + pending +
/// departed + drained + arrived + saturated + withdrawn = entered`, to the unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Asked for here, times the amplification, or received, or given back.
    pub entered: u64,
    /// Sent to neighbours, those that do not speak VIP among them.
    pub departed: u64,
    /// Served by what is kept here.
    pub drained: u64,
    /// Arrived at a source, which is here.
    pub arrived: u64,
    /// Cut off because a count was at [`COUNT_MAX`].
    pub saturated: u64,
    /// Of objects that left the catalogue.
    pub withdrawn: u64,
}

/// The counts, scores and links of a router.
#[derive(Clone, Debug)]
pub struct Plane {
    config: PlaneConfig,
    sizes: Vec<u64>,
    /// V, of which what is sent in this slot is taken at once.
    counts: Vec<u64>,
    /// V as it was when the slot began.
    told: Vec<u64>,
    scores: Vec<u64>,
    /// What was asked for and received in this slot.
    got: Vec<u64>,
    is_source: Vec<bool>,
    hops: Hops,
    links: Vec<Link>,
    placed: Vec<u8>,
    /// What is read of each object in a slot, by tier.
    reads: Vec<[u64; TIERS_MAX]>,
    totals: Totals,
    knapsack: Knapsack,
    placer: Placer,
    /// Values of a placement, and the one that is being made.
    values: Vec<u64>,
    next: Vec<u8>,
}

impl Plane {
    /// A plane of these objects with `neighbours` links, at most [`NEIGHBOURS_MAX`], none of which
    /// is open.
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
            told: zeros(),
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

    /// Goes on where `old` is: `objects` has the place there of each object of this plane, `links`
    /// that of each link. What is new begins with nothing.
    pub(crate) fn take_over(&mut self, old: &Plane, objects: &[Option<usize>], links: &[Option<usize>]) {
        self.totals = old.totals;
        let sum = |counts: &[u64]| counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        let all = sum(&old.counts).saturating_add(sum(&old.got));
        for (k, place) in objects.iter().enumerate() {
            let Some(before) = *place else { continue };
            (self.counts[k], self.got[k]) = (old.counts[before], old.got[before]);
            (self.told[k], self.scores[k]) = (old.told[before], old.scores[before]);
            self.set_source(k, old.is_source[before]);
            self.hold(k, old.placed[before]);
        }
        let kept = sum(&self.counts).saturating_add(sum(&self.got));
        self.totals.withdrawn = self.totals.withdrawn.saturating_add(all.saturating_sub(kept));
        for (link, place) in self.links.iter_mut().zip(links) {
            let Some(before) = place.and_then(|b| old.links.get(b)) else { continue };
            (link.is_open, link.is_silent) = (before.is_open, before.is_silent);
            for (k, place) in objects.iter().enumerate() {
                let Some(place) = *place else { continue };
                link.heard[k] = before.heard[place];
                link.sent_score[k] = before.sent_score[place];
                if let Some((_, vips)) = before.sent.filter(|(object, _)| *object == place) {
                    link.sent = Some((k, vips));
                }
            }
        }
    }

    /// Objects.
    pub fn objects(&self) -> usize {
        self.counts.len()
    }

    /// Sets what the link to neighbour `b` carries of Data towards here, octets in a slot.
    pub fn set_capacity(&mut self, b: usize, octets_per_slot: u64) {
        for (takes, size) in self.links[b].takes.iter_mut().zip(&self.sizes) {
            *takes = vips_of(octets_per_slot, *size);
        }
    }

    /// Sets to which neighbours VIPs of `k` may go, cheapest first.
    pub fn set_hops(&mut self, k: usize, neighbours: impl IntoIterator<Item = usize>) {
        let links = self.links.len();
        self.hops.set(k, neighbours.into_iter().filter(|b| *b < links));
    }

    /// Says whether `k`'s source is here.
    pub fn set_source(&mut self, k: usize, is_source: bool) {
        self.is_source[k] = is_source;
        if is_source {
            self.placed[k] = NOWHERE;
        }
    }

    /// Whether `k`'s source is here.
    pub fn is_source(&self, k: usize) -> bool {
        self.is_source[k]
    }

    /// Says in which tier `k` is held, for [`Follow::Store`] and as where it begins.
    pub fn hold(&mut self, k: usize, tier: u8) {
        let is_tier = usize::from(tier) < self.config.tiers.len();
        self.placed[k] = if is_tier && !self.is_source[k] { tier } else { NOWHERE };
    }

    /// Sets what a tier is like now: its room, 0 where nothing can be kept for a while, and the
    /// rate at which it is read, as it was measured.
    pub fn set_tier(&mut self, tier: usize, now: Tier) {
        let Some(config) = self.config.tiers.get_mut(tier) else { return };
        *config = now;
        for (reads, size) in self.reads.iter_mut().zip(&self.sizes) {
            reads[tier] = vips_of(now.rate, *size);
        }
    }

    /// The link to `b` takes VIPs in the slots to come, or does not.
    pub fn open(&mut self, b: usize, is_open: bool) {
        self.links[b].is_open = is_open;
    }

    /// Neighbour `b` tells nothing, so that Interests are not directed to it, or is heard again.
    pub fn set_silent(&mut self, b: usize, is_silent: bool) {
        self.links[b].is_silent = is_silent;
    }

    /// The counts of neighbour `b`, to be written.
    pub fn heard_mut(&mut self, b: usize) -> &mut [u64] {
        &mut self.links[b].heard
    }

    /// VIPs of `k` were asked for here: a share of the object, in [`crate::UNIT`].
    pub fn ask(&mut self, k: usize, vips: u64) {
        self.enter(k, vips.saturating_mul(u64::from(self.config.amplification)));
    }

    /// VIPs of `k` came from a neighbour.
    pub fn receive(&mut self, k: usize, vips: u64) {
        self.enter(k, vips);
    }

    fn enter(&mut self, k: usize, vips: u64) {
        let (got, cut) = add(self.got[k], vips);
        self.got[k] = got;
        self.totals.entered = self.totals.entered.saturating_add(vips);
        self.totals.saturated = self.totals.saturated.saturating_add(cut);
    }

    /// VIPs of `k` come back that a neighbour never took. They are no demand, and score nothing.
    pub fn give_back(&mut self, k: usize, vips: u64) {
        let (count, cut) = add(self.counts[k], vips);
        self.counts[k] = count;
        self.totals.entered = self.totals.entered.saturating_add(vips);
        self.totals.saturated = self.totals.saturated.saturating_add(cut);
    }

    /// A slot begins: [`Plane::told`] is what neighbours are told from now on.
    pub fn begin(&mut self) {
        self.told.copy_from_slice(&self.counts);
        self.links.iter_mut().for_each(|link| link.sent = None);
    }

    /// Chooses what open links carry, and takes it out of the counts ([`Plane::sent`]).
    pub fn send(&mut self) {
        // What a link carries, most urgent first: object, difference, link.
        let mut carried = [(usize::MAX, 0, 0); NEIGHBOURS_MAX];
        let mut links = 0;
        for (b, link) in self.links.iter().enumerate().filter(|(_, link)| link.is_open) {
            let mut best = (0, usize::MAX);
            for (k, (told, heard)) in self.told.iter().zip(&link.heard).enumerate() {
                let excess = told.saturating_sub(*heard);
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

    /// The slot ends: what is kept is placed, and counts and scores are made.
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

    /// So many slots were left out, in which nothing came: scores decay as in these.
    pub(crate) fn decay(&mut self, slots: u64) {
        let decay = self.config.decay;
        for _ in 0..slots.min(DECAYS_MAX) {
            self.scores.iter_mut().for_each(|score| *score = decay.of(*score));
            for link in &mut self.links {
                link.sent_score.iter_mut().for_each(|score| *score = decay.of(*score));
            }
        }
    }

    /// Places what is kept. What is kept already stays until something of more than nothing takes
    /// its place.
    fn place(&mut self) {
        let (keys, tiers) = match self.config.follow {
            Follow::Store => return,
            Follow::Scores => (&self.scores, &self.config.tiers[..]),
            Follow::Counts => (&self.told, &self.config.tiers[..]),
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
                let given = Given { scores, sizes, tiers, weight: self.config.weight, now };
                self.placer.place(&given, &mut self.next);
            }
        }
        core::mem::swap(&mut self.placed, &mut self.next);
    }

    /// V as it was when the slot began: what neighbours are told.
    pub fn told(&self) -> &[u64] {
        &self.told
    }

    /// V now.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Scores of all objects.
    pub fn scores(&self) -> &[u64] {
        &self.scores
    }

    /// VIPs that entered in this slot and are not counted yet.
    pub fn pending(&self) -> &[u64] {
        &self.got
    }

    /// In which tier each object is virtually kept, or [`NOWHERE`].
    pub fn placed(&self) -> &[u8] {
        &self.placed
    }

    /// What goes to `b` in this slot: object and VIPs.
    pub fn sent(&self, b: usize) -> Option<(usize, u64)> {
        self.links[b].sent
    }

    /// VIPs of `k` sent to `b`, those of former slots decayed.
    pub fn sent_score(&self, b: usize, k: usize) -> u64 {
        self.links[b].sent_score[k]
    }

    /// VIPs of `k` that the link to `b` takes in a slot.
    pub fn takes(&self, b: usize, k: usize) -> u64 {
        self.links[b].takes[k]
    }

    /// Which way Interests of `k` go: the next hop that most of its VIPs went to of late; of equal
    /// ones the cheapest (VI-15). None to which it would go is silent.
    pub fn direction(&self, k: usize) -> Option<usize> {
        let score = |b: usize| self.links[b].sent_score[k];
        let better = |best: usize, b: usize| if score(b) > score(best) { b } else { best };
        self.hops.of(k).filter(|b| !self.links[*b].is_silent).reduce(better)
    }

    /// What became of all VIPs.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}

const _: () = assert!(COUNT_MAX < u64::MAX / 8, "sums of a few counts do not overflow");
