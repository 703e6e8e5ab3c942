//! VIP on one router: its plane, and the exchange with its neighbors (VI-10, VI-11).
//!
//! One slot: [`Vip::tick`] freezes the counts and requests the counts of every neighbor (A). A
//! neighbor that receives A answers with its counts, and requests in turn the VIPs for it (B).
//! When all have answered, or after half a period, the objects of the links are chosen, and B is
//! answered. At the end of the period, the counts and scores are updated with the VIPs that
//! arrived.
//!
//! *Each VIP is entered once.* It is subtracted from the counts when it is first offered. It is
//! offered again until the neighbor acknowledges that slot; the neighbor enters a slot once.
//! Messages name the boots of both routers, so that nothing of a former boot counts. If a neighbor
//! restarts or is removed, its unacknowledged VIPs return: at most these can be counted twice.

use alloc::vec::Vec;

use namely_wire::Name;

use crate::count::{COUNT_MAX, octets_of, vips_of};
use crate::counters::{Counter, Counters};
use crate::limits::{
    COUNTS_PER_SEGMENT, COUNTS_PERIODS, NEIGHBOURS_MAX, OFFER_PERCENT_MAX, OFFERS_MAX, PERIOD_RATIO_MAX,
    ROUTER_OCTETS_MAX,
};
use crate::message::{self, Body, Message, MessageError, MessageName, Offer, RequestKind};
use crate::neighbour::{Neighbour, UnacknowledgedVips};
use crate::objects::{ObjectId, Objects};
use crate::plane::{Plane, PlaneConfig};

const MS: u64 = 1_000_000;

/// The configuration of a neighbor. Its index is its position in the list.
#[derive(Clone, Debug)]
pub struct NeighbourConfig {
    /// Its name in the exchange, 1 to [`ROUTER_OCTETS_MAX`] octets; `None` for a next hop without
    /// VIP, which accepts VIPs up to the capacity of its link.
    pub router: Option<Vec<u8>>,
    /// Capacity of the link for Data from it, octets per second.
    pub octets_per_s: u64,
    /// Capacity of the link for Data to it, octets per second.
    pub octets_per_s_out: u64,
}

/// The configuration of a router.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name in the exchange, 1 to [`ROUTER_OCTETS_MAX`] octets.
    pub router: Vec<u8>,
    /// A number for this boot, which differs from that of every former boot.
    pub boot: u64,
    /// Length of a slot, ms.
    pub period_ms: u32,
    /// The parameters of the plane.
    pub plane: PlaneConfig,
    /// Its neighbors, at most [`NEIGHBOURS_MAX`].
    pub neighbours: Vec<NeighbourConfig>,
}

/// The reason for which a configuration is refused. All are faults of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The period is 0.
    NoPeriod,
    /// There are more than [`NEIGHBOURS_MAX`].
    TooManyNeighbours,
    /// A router's name is empty or longer than [`ROUTER_OCTETS_MAX`].
    BadRouter,
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ConfigError::NoPeriod => write!(f, "a period of 0 ms"),
            ConfigError::TooManyNeighbours => write!(f, "more than {NEIGHBOURS_MAX} neighbors"),
            ConfigError::BadRouter => write!(f, "a router's name has 1 to {ROUTER_OCTETS_MAX} octets"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// A request to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send an Interest to a neighbor, with HopLimit 1; signed if it has parameters.
    Request {
        /// The receiver.
        neighbour: usize,
        /// Its name, to which the signer adds the parameters digest.
        name: Name,
        /// ApplicationParameters; `None` for a further segment, which is requested unsigned.
        parameters: Option<Vec<u8>>,
        /// Lifetime, ms.
        lifetime_ms: u64,
    },
    /// Send a signed Data to a neighbor. It must not be cached.
    Answer {
        /// The receiver.
        neighbour: usize,
        /// Its name.
        name: Name,
        /// Its Content.
        content: Vec<u8>,
        /// FinalBlockId, if there are further segments.
        last_segment: Option<u64>,
    },
}

/// The host's next step for a packet before [`Vip::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDecision {
    /// Drop the packet. It has been counted.
    Drop,
    /// Check its signature. If it is invalid, call [`Vip::bad_signature`].
    Verify,
    /// Pass it to [`Vip::receive`] without a check.
    Accept,
}

/// The status of a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// True if it runs VIP.
    pub speaks_vip: bool,
    /// Its current boot, if known.
    pub boot: Option<u64>,
    /// Expiry of its counts, ns.
    pub fresh_until_ns: u64,
    /// Number of slots with unacknowledged VIPs.
    pub slots_under_way: usize,
    /// The VIPs of these slots.
    pub vips_under_way: u64,
    /// The last of its slots that was entered here.
    pub entered: u64,
}

/// The phase of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No slot has begun.
    Idle,
    /// The neighbors' counts are requested.
    Requesting,
    /// The VIPs of the links are chosen.
    Sent,
}

/// The state machine. Its host calls [`Vip::tick`] at the time that it returned, passes the packets
/// of the neighbors to it, and carries out the actions that it appends to `out`.
#[derive(Clone, Debug)]
pub struct Vip {
    config: Config,
    objects: Objects,
    plane: Plane,
    /// `None` for a neighbor without VIP.
    neighbours: Vec<Option<Neighbour>>,
    phase: Phase,
    slot: u64,
    began_ns: u64,
    /// Time of the last request, us.
    request_us: u64,
    counters: Counters,
}

impl Vip {
    /// A router without routes: set next hops and sources with [`Vip::plane_mut`].
    ///
    /// # Errors
    /// [`ConfigError`], always the caller's fault.
    pub fn new(objects: Objects, config: Config) -> Result<Self, ConfigError> {
        if config.period_ms == 0 {
            return Err(ConfigError::NoPeriod);
        }
        if config.neighbours.len() > NEIGHBOURS_MAX {
            return Err(ConfigError::TooManyNeighbours);
        }
        let routers = config.neighbours.iter().filter_map(|n| n.router.as_ref());
        if routers.chain([&config.router]).any(|r| !(1..=ROUTER_OCTETS_MAX).contains(&r.len())) {
            return Err(ConfigError::BadRouter);
        }
        let mut plane = Plane::new(&objects, config.neighbours.len(), config.plane.clone());
        let mut neighbours = Vec::new();
        for (b, neighbour) in config.neighbours.iter().enumerate() {
            plane.set_capacity(b, octets_per_slot(neighbour.octets_per_s, config.period_ms.into()));
            let make =
                |router: &Vec<u8>| Neighbour::new(router.clone(), neighbour.octets_per_s_out, objects.len());
            neighbours.push(neighbour.router.as_ref().map(make));
        }
        let (phase, counters) = (Phase::Idle, Counters::default());
        Ok(Vip { config, objects, plane, neighbours, phase, slot: 0, began_ns: 0, request_us: 0, counters })
    }

    /// Replaces the catalogue and the settings in the middle of a slot. Objects keep their state by
    /// id, neighbors by name; the boot and its slots continue. VIPs for a removed neighbor
    /// return; those of a removed object are withdrawn. Routes must be set again.
    ///
    /// # Errors
    /// As for [`Vip::new`]; nothing has changed then.
    pub fn exchange(&mut self, objects: Objects, config: Config) -> Result<(), ConfigError> {
        let mut new = Vip::new(objects, Config { boot: self.config.boot, ..config })?;
        let before = &self.config.neighbours;
        let former_link = |(b, of): (usize, &NeighbourConfig)| match of.router {
            Some(_) => before.iter().position(|old| old.router == of.router),
            None => before.get(b).filter(|old| old.router.is_none()).map(|_| b),
        };
        let links: Vec<Option<usize>> = new.config.neighbours.iter().enumerate().map(former_link).collect();
        for b in (0..self.neighbours.len()).filter(|b| !links.contains(&Some(*b))) {
            self.neighbour_removed(b);
        }
        let former_index = |id: ObjectId| self.objects.index_of(id);
        let former_indices: Vec<_> =
            new.objects.as_slice().iter().map(|object| former_index(object.id)).collect();
        new.plane.take_over(&self.plane, &former_indices, &links);
        for (neighbour, former) in new.neighbours.iter_mut().zip(&links) {
            let old = former.and_then(|b| self.neighbours.get(b)).and_then(Option::as_ref);
            match (neighbour, old) {
                (Some(neighbour), Some(old)) => neighbour.take_over(old, &former_indices),
                // Its requests are answered at once, without waiting for the next slot.
                (Some(neighbour), None) => neighbour.allow(),
                (None, _) => {}
            }
        }
        (new.phase, new.slot, new.began_ns) = (self.phase, self.slot, self.began_ns);
        (new.request_us, new.counters) = (self.request_us, self.counters.clone());
        // A new neighbor may offer VIPs of one slot.
        let is_new = |b: &usize| links.get(*b).is_some_and(Option::is_none);
        (0..links.len()).filter(is_new).for_each(|b| new.allow_offers_of(b, 1));
        *self = new;
        Ok(())
    }

    /// Advances to `now_ns`; `wall_us` is the time since 1970, us. Returns the time of the next
    /// call, ns.
    pub fn tick(&mut self, now_ns: u64, wall_us: u64, out: &mut Vec<Action>) -> u64 {
        let period_ns = u64::from(self.config.period_ms) * MS;
        if self.phase == Phase::Idle {
            self.began_ns = now_ns;
            self.allow_offers(1);
            self.begin(wall_us, out);
        }
        self.send_if_due(now_ns, out);
        if now_ns >= self.began_ns + period_ns {
            self.plane.end();
            // A timer that is late by more than a slot skips slots, because the neighbors have
            // continued meanwhile.
            let missed = (now_ns - self.began_ns) / period_ns - 1;
            if missed > 0 {
                self.counters.count(Counter::SlotsMissed);
                self.plane.decay(missed);
            }
            self.began_ns += (missed + 1) * period_ns;
            self.allow_offers(missed + 1);
            self.begin(wall_us, out);
            self.send_if_due(now_ns, out);
        }
        let until = if self.phase == Phase::Requesting { period_ns / 2 } else { period_ns };
        self.began_ns + until
    }

    /// Increases the allowance for offers by the capacity of the links in this many slots.
    fn allow_offers(&mut self, slots: u64) {
        (0..self.neighbours.len()).for_each(|b| self.allow_offers_of(b, slots));
    }

    fn allow_offers_of(&mut self, b: usize, slots: u64) {
        let own_ms = u64::from(self.config.period_ms);
        if let Some(Some(neighbour)) = self.neighbours.get_mut(b) {
            let of = |ms: u64| {
                let octets = octets_per_slot(neighbour.octets_per_s_out, ms);
                (octets / 100).saturating_mul(OFFER_PERCENT_MAX)
            };
            let most = of(own_ms.max(neighbour.period_ms)).saturating_mul(OFFERS_MAX as u64);
            let more = of(own_ms).saturating_mul(slots);
            neighbour.offered_left = neighbour.offered_left.saturating_add(more).min(most);
        }
    }

    fn begin(&mut self, wall_us: u64, out: &mut Vec<Action>) {
        self.slot += 1;
        self.phase = Phase::Requesting;
        self.counters.count(Counter::Slots);
        self.plane.begin();
        for b in 0..self.neighbours.len() {
            let time_us = self.next_time_us(wall_us);
            let Some(neighbour) = &mut self.neighbours[b] else { continue };
            if neighbour.assembly.of.is_some() && !neighbour.assembly.is_whole() {
                self.counters.count(Counter::SegmentsMissing);
            }
            neighbour.begin(time_us);
            let period_ms = self.config.period_ms;
            let parameters = message::counts_request(self.config.boot, self.slot, period_ms.into());
            out.push(self.request(b, RequestKind::Counts, time_us, 0, Some(parameters)));
        }
    }

    /// Returns the time for a request. It rises even if the clock does not.
    fn next_time_us(&mut self, wall_us: u64) -> u64 {
        self.request_us = wall_us.max(self.request_us + 1);
        self.request_us
    }

    fn request(
        &self,
        neighbour: usize,
        about: RequestKind,
        time_us: u64,
        segment: u64,
        parameters: Option<Vec<u8>>,
    ) -> Action {
        let name = MessageName { about, router: &self.config.router, time_us, segment }.to_name();
        Action::Request { neighbour, name, parameters, lifetime_ms: self.config.period_ms.into() }
    }

    fn all_reported(&self) -> bool {
        self.neighbours.iter().flatten().all(|neighbour| !neighbour.is_awaited())
    }

    /// Sends when all neighbors have reported their counts, or after half of the slot.
    fn send_if_due(&mut self, now_ns: u64, out: &mut Vec<Action>) {
        let half_ns = u64::from(self.config.period_ms) * MS / 2;
        if self.phase == Phase::Requesting && (self.all_reported() || now_ns >= self.began_ns + half_ns) {
            self.send(now_ns, out);
        }
    }

    /// Chooses the VIPs of the links, and answers waiting requests.
    fn send(&mut self, now_ns: u64, out: &mut Vec<Action>) {
        for (b, neighbour) in self.neighbours.iter().enumerate() {
            let (is_fresh, has_room) = neighbour.as_ref().map_or((true, true), |neighbour| {
                (now_ns <= neighbour.fresh_until_ns, neighbour.under_way.len() < OFFERS_MAX)
            });
            match (is_fresh, has_room) {
                (false, _) => self.counters.count(Counter::CountsStale),
                (true, false) => self.counters.count(Counter::OffersFull),
                (true, true) => {}
            }
            self.plane.open(b, is_fresh && has_room);
            // Without this, Interests would follow old VIPs to a silent neighbor for a long time.
            self.plane.set_silent(b, !is_fresh);
        }
        self.plane.send();
        self.phase = Phase::Sent;
        for b in 0..self.neighbours.len() {
            let Some(neighbour) = &mut self.neighbours[b] else { continue };
            if let Some((object, vips)) = self.plane.sent(b) {
                neighbour.under_way.push(UnacknowledgedVips { slot: self.slot, object, vips });
            }
            if let Some(name) = neighbour.waiting.take() {
                self.send_offers(b, name, out);
            }
        }
    }

    fn send_offers(&mut self, b: usize, name: Name, out: &mut Vec<Action>) {
        let Some(neighbour) = &self.neighbours[b] else { return };
        let objects = self.objects.as_slice();
        let offers = neighbour.under_way.iter();
        let offers = offers.map(|u| Offer { slot: u.slot, id: objects[u.object].id, vips: u.vips });
        let peer_boot = neighbour.boot.unwrap_or(0);
        let content = message::offers(self.config.boot, peer_boot, self.slot, offers);
        self.counters.count(Counter::OffersTold);
        out.push(Action::Answer { neighbour: b, name, content, last_segment: None });
    }

    /// Checks a packet of neighbor `b` before any costly step. Anyone can send packets in its
    /// name, so an unverified packet does not reduce the number of requests that it may send in a
    /// slot. A rate limit bounds useless verifications.
    pub fn look(&mut self, b: usize, packet: &[u8], now_ns: u64) -> PacketDecision {
        let message = match Message::parse(packet) {
            Ok(message) => message,
            Err(refused) => return self.drop(refused.into()),
        };
        let Some(Some(neighbour)) = self.neighbours.get_mut(b) else {
            return self.drop(Counter::OtherRouter);
        };
        match message.body {
            Body::Segment => return PacketDecision::Accept,
            Body::Counts { .. } | Body::Offers { .. } => {
                if !is_requested(neighbour, &self.config.router, &message.title) {
                    return self.drop(Counter::Unsolicited);
                }
            }
            Body::CountsRequest { .. } | Body::OffersRequest { .. } => {
                if message.title.router != neighbour.router {
                    return self.drop(Counter::OtherRouter);
                }
            }
        }
        if neighbour.unsigned.take(now_ns) {
            PacketDecision::Verify
        } else {
            self.drop(Counter::UnsignedLimited)
        }
    }

    fn drop(&mut self, counter: Counter) -> PacketDecision {
        self.counters.count(counter);
        PacketDecision::Drop
    }

    /// Counts a packet with an invalid signature.
    pub fn bad_signature(&mut self) {
        self.counters.count(Counter::BadSignature);
    }

    /// Processes a packet of neighbor `b` that passed [`Vip::look`] and has a valid signature.
    pub fn receive(&mut self, b: usize, packet: &[u8], now_ns: u64, wall_us: u64, out: &mut Vec<Action>) {
        let message = match Message::parse(packet) {
            Ok(message) => message,
            Err(refused) => return self.counters.count(refused.into()),
        };
        let Some(Some(neighbour)) = self.neighbours.get_mut(b) else {
            return self.counters.count(Counter::OtherRouter);
        };
        let is_request = !matches!(message.body, Body::Counts { .. } | Body::Offers { .. });
        if is_request && message.title.router != neighbour.router {
            return self.counters.count(Counter::OtherRouter);
        }
        if message.body != Body::Segment {
            neighbour.unsigned.give_back();
        }
        if is_request && message.body != Body::Segment {
            if neighbour.requests_left == 0 {
                return self.counters.count(Counter::RateLimited);
            }
            neighbour.requests_left -= 1;
        }
        let result = match message.body {
            Body::Segment => self.receive_segment_request(b, &message, out),
            Body::CountsRequest { .. } => self.receive_counts_request(b, &message, wall_us, out),
            Body::OffersRequest { .. } => self.receive_offers_request(b, &message, out),
            Body::Counts { .. } => self.receive_counts(b, &message, now_ns, out),
            Body::Offers { .. } => self.receive_offers(b, &message),
        };
        if let Err(counter) = result {
            self.counters.count(counter);
        }
        self.send_if_due(now_ns, out);
    }

    fn receive_segment_request(
        &mut self,
        b: usize,
        message: &Message<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), Counter> {
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        // A sender that knows the time of the request has received or signed that request.
        if neighbour.reported_slot != self.slot || neighbour.requests_us[0] != message.title.time_us {
            return Err(Counter::Late);
        }
        if neighbour.segments_left == 0 {
            return Err(Counter::RateLimited);
        }
        neighbour.segments_left -= 1;
        if message.title.segment > self.last_segment() {
            return Err(Counter::Late);
        }
        self.send_counts(b, message, out);
        Ok(())
    }

    fn receive_counts_request(
        &mut self,
        b: usize,
        message: &Message<'_>,
        wall_us: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Counter> {
        let Body::CountsRequest { boot, slot, period_ms } = message.body else { return Ok(()) };
        let own_ms = u64::from(self.config.period_ms);
        let longest_ms = own_ms * PERIOD_RATIO_MAX;
        if period_ms > longest_ms || period_ms.saturating_mul(PERIOD_RATIO_MAX) < own_ms || period_ms == 0 {
            return Err(Counter::BadPeriod);
        }
        self.note_request(b, message, boot)?;
        let time_us = self.next_time_us(wall_us);
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        (neighbour.period_ms, neighbour.reported_slot) = (period_ms, self.slot);
        neighbour.offers_requested_us = Some(time_us);
        let parameters = message::offers_request(self.config.boot, boot, slot, neighbour.entered);
        self.counters.count(Counter::CountsTold);
        self.send_counts(b, message, out);
        out.push(self.request(b, RequestKind::Offers, time_us, 0, Some(parameters)));
        Ok(())
    }

    /// Checks that the request is the latest of its kind and of the latest boot.
    fn note_request(&mut self, b: usize, message: &Message<'_>, boot: u64) -> Result<(), Counter> {
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        let (time_us, kind) =
            (message.title.time_us, usize::from(message.title.about == RequestKind::Offers));
        let latest_us = neighbour.former_us.max(neighbour.requests_us[0]).max(neighbour.requests_us[1]);
        let is_new_life = neighbour.boot != Some(boot);
        if time_us <= if is_new_life { latest_us } else { neighbour.requests_us[kind] } {
            return Err(Counter::Replayed);
        }
        if is_new_life {
            self.begin_life(b, boot);
        }
        if let Some(neighbour) = &mut self.neighbours[b] {
            neighbour.requests_us[kind] = time_us;
        }
        Ok(())
    }

    /// A neighbor has restarted: clears the state of its former boot.
    fn begin_life(&mut self, b: usize, boot: u64) {
        let Some(neighbour) = &mut self.neighbours[b] else { return };
        if neighbour.boot.is_some() {
            self.counters.count(Counter::Restarts);
        }
        neighbour.forget().for_each(|u| self.plane.give_back(u.object, u.vips));
        neighbour.live(boot);
    }

    fn send_counts(&self, b: usize, message: &Message<'_>, out: &mut Vec<Action>) {
        let reported = self.plane.reported();
        let counts = self.objects.by_id().iter().map(|(id, k)| (*id, reported[*k as usize]));
        let counts = counts.filter(|(_, count)| *count > 0);
        let counts = counts.skip(message.title.segment as usize * COUNTS_PER_SEGMENT);
        let content = message::counts(self.config.boot, self.slot, self.config.period_ms.into(), counts);
        let last = self.last_segment();
        let (name, last_segment) = (message.name.to_name(), (last > 0).then_some(last));
        out.push(Action::Answer { neighbour: b, name, content, last_segment });
    }

    fn last_segment(&self) -> u64 {
        let counts = self.plane.reported().iter().filter(|count| **count > 0).count();
        (counts.div_ceil(COUNTS_PER_SEGMENT).max(1) - 1) as u64
    }

    fn receive_offers_request(
        &mut self,
        b: usize,
        message: &Message<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), Counter> {
        let Body::OffersRequest { boot, peer_boot, acknowledged, .. } = message.body else { return Ok(()) };
        if peer_boot != self.config.boot {
            return Err(Counter::OtherBoot);
        }
        if acknowledged > self.slot {
            return Err(Counter::BadAcknowledgement);
        }
        self.note_request(b, message, boot)?;
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        neighbour.acknowledge(acknowledged);
        if self.phase == Phase::Sent {
            self.send_offers(b, message.name.to_name(), out);
        } else {
            neighbour.waiting = Some(message.name.to_name());
        }
        Ok(())
    }

    fn receive_counts(
        &mut self,
        b: usize,
        message: &Message<'_>,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Counter> {
        let Body::Counts { boot, slot, period_ms, last_segment, counts } = message.body else {
            return Ok(());
        };
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        if !is_requested(neighbour, &self.config.router, &message.title) {
            return Err(Counter::Unsolicited);
        }
        if neighbour.boot != Some(boot) {
            // Its clock may be behind that of its former boot, so its requests may be refused. But
            // this answers a recent request, so its boot is the current one, unless a request of a
            // later boot has arrived meanwhile.
            if neighbour.life_requested_us == neighbour.counts_requested_us {
                return Err(Counter::OtherBoot);
            }
            self.begin_life(b, boot);
        }
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        let assembly = &mut neighbour.assembly;
        let segment = message.title.segment;
        let is_first = assembly.of.is_none();
        if *assembly.of.get_or_insert((boot, slot, last_segment)) != (boot, slot, last_segment) {
            return Err(Counter::Late);
        }
        assembly.come |= 1 << segment;
        for (id, count) in counts.counts() {
            match self.objects.index_of(id) {
                Some(k) => assembly.counts[k] = count.min(COUNT_MAX),
                None => self.counters.count(Counter::UnknownObject),
            }
            if count > COUNT_MAX {
                self.counters.count(Counter::CountCut);
            }
        }
        if assembly.is_whole() {
            // Limits the lifetime to that of the longest allowed period, regardless of the reported
            // one.
            let longest_ms = u64::from(self.config.period_ms) * PERIOD_RATIO_MAX;
            neighbour.counts_requested_us = None;
            neighbour.fresh_until_ns = now_ns + COUNTS_PERIODS * period_ms.min(longest_ms) * MS;
            self.plane.neighbour_counts_mut(b).copy_from_slice(&assembly.counts);
            self.counters.count(Counter::CountsHeard);
        } else if is_first && segment == 0 {
            let rest = 1..=last_segment;
            rest.for_each(|segment| {
                out.push(self.request(b, RequestKind::Counts, message.title.time_us, segment, None))
            });
        }
        Ok(())
    }

    fn receive_offers(&mut self, b: usize, message: &Message<'_>) -> Result<(), Counter> {
        let Body::Offers { boot, peer_boot, offers, .. } = message.body else { return Ok(()) };
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        if !is_requested(neighbour, &self.config.router, &message.title) {
            return Err(Counter::Unsolicited);
        }
        if neighbour.boot != Some(boot) || peer_boot != self.config.boot {
            return Err(Counter::OtherBoot);
        }
        neighbour.offers_requested_us = None;
        let octets = octets_per_slot(neighbour.octets_per_s_out, neighbour.period_ms);
        let octets = (octets / 100).saturating_mul(OFFER_PERCENT_MAX);
        let entered = neighbour.entered;
        for Offer { slot, id, vips } in offers.offers().filter(|offer| offer.slot > entered) {
            neighbour.entered = slot;
            let Some(k) = self.objects.index_of(id) else {
                self.counters.count(Counter::UnknownObject);
                continue;
            };
            // The offers together, and each of them, are limited by the capacity of the link.
            let size = self.objects.as_slice()[k].octets;
            let most = vips_of(octets.min(neighbour.offered_left), size);
            if vips > most {
                self.counters.count(Counter::OfferCut);
            }
            let taken = vips.min(most);
            neighbour.offered_left = neighbour.offered_left.saturating_sub(octets_of(taken, size));
            self.plane.receive(k, taken);
        }
        self.counters.count(Counter::OffersHeard);
        Ok(())
    }

    /// A neighbor was removed: its unacknowledged VIPs return, and its counts expire.
    pub fn neighbour_removed(&mut self, b: usize) {
        if let Some(Some(neighbour)) = self.neighbours.get_mut(b) {
            neighbour.forget().for_each(|u| self.plane.give_back(u.object, u.vips));
        }
    }

    /// The plane, to set requests, next hops, sources and read rates.
    pub fn plane_mut(&mut self) -> &mut Plane {
        &mut self.plane
    }

    /// The plane, to read counts, scores, directions and placements.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// The registered objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The number of this boot.
    pub fn boot(&self) -> u64 {
        self.config.boot
    }

    /// The number of the slot, from 1.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// The status of a neighbor.
    pub fn neighbour(&self, b: usize) -> Option<NeighbourStatus> {
        let neighbour = self.neighbours.get(b)?;
        let status = NeighbourStatus {
            speaks_vip: neighbour.is_some(),
            boot: neighbour.as_ref().and_then(|n| n.boot),
            fresh_until_ns: neighbour.as_ref().map_or(0, |n| n.fresh_until_ns),
            slots_under_way: neighbour.as_ref().map_or(0, |n| n.under_way.len()),
            vips_under_way: neighbour.as_ref().map_or(0, |n| n.under_way.iter().map(|u| u.vips).sum()),
            entered: neighbour.as_ref().map_or(0, |n| n.entered),
        };
        Some(status)
    }

    /// VIPs that neighbor `b` has not acknowledged, by slot.
    pub fn under_way(&self, b: usize) -> impl Iterator<Item = Offer> + '_ {
        let neighbour = self.neighbours.get(b).and_then(Option::as_ref);
        let id = |k: usize| -> ObjectId { self.objects.as_slice()[k].id };
        let under_way = neighbour.into_iter().flat_map(|neighbour| &neighbour.under_way);
        under_way.map(move |u| Offer { slot: u.slot, id: id(u.object), vips: u.vips })
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl From<MessageError> for Counter {
    fn from(refused: MessageError) -> Self {
        match refused {
            MessageError::Malformed => Counter::Malformed,
            MessageError::OtherVersion => Counter::OtherVersion,
            MessageError::Unsorted => Counter::Unsorted,
        }
    }
}

/// Returns true if an answer matches the last request to this neighbor.
fn is_requested(neighbour: &Neighbour, own: &[u8], title: &MessageName<'_>) -> bool {
    let requested_us = match title.about {
        RequestKind::Counts => neighbour.counts_requested_us,
        RequestKind::Offers => neighbour.offers_requested_us,
    };
    title.router == own && requested_us == Some(title.time_us)
}

/// Octets at a rate in a period.
fn octets_per_slot(octets_per_s: u64, period_ms: u64) -> u64 {
    let (seconds, rest_ms) = (period_ms / 1000, period_ms % 1000);
    let rest = (octets_per_s / 1000).saturating_mul(rest_ms) + octets_per_s % 1000 * rest_ms / 1000;
    octets_per_s.saturating_mul(seconds).saturating_add(rest)
}
