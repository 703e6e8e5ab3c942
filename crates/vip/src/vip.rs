//! A router's part in VIP: its plane, and the exchange with its neighbours (VI-10, VI-11).
//!
//! One slot: [`Vip::tick`] freezes the counts and asks every neighbour for its own (A). A neighbour
//! that is asked tells its counts and asks in turn what VIPs there are for it (B). When all have
//! told, or after half a period, the links' objects are chosen, and B is answered. At the end of
//! the period counts and scores are made of what came meanwhile.
//!
//! *Each VIP is entered once.* It is taken out of the counts when it is first offered, and offered
//! again until the neighbour says that it has entered that slot; the neighbour enters a slot once.
//! Both name the lives of both routers, so that nothing of a former life counts. If a neighbour
//! starts anew or goes, what it has not acknowledged returns: at most that can be counted twice.

use alloc::vec::Vec;

use namely_wire::Name;

use crate::count::{COUNT_MAX, octets_of, vips_of};
use crate::counters::{Counter, Counters};
use crate::limits::{
    COUNTS_PER_SEGMENT, COUNTS_PERIODS, NEIGHBOURS_MAX, OFFER_PERCENT_MAX, OFFERS_MAX, PERIOD_RATIO_MAX,
    ROUTER_OCTETS_MAX,
};
use crate::message::{self, About, Body, Message, Offer, Refused, Title};
use crate::neighbour::{Neighbour, UnderWay};
use crate::objects::{ObjectId, Objects};
use crate::plane::{Plane, PlaneConfig};

const MS: u64 = 1_000_000;

/// What a router is told of a neighbour. Its index is its place in the list.
#[derive(Clone, Debug)]
pub struct NeighbourConfig {
    /// Its name in the exchange, 1 to [`ROUTER_OCTETS_MAX`] octets; `None` for a next hop that does
    /// not speak VIP, which takes what its link carries.
    pub router: Option<Vec<u8>>,
    /// What the link carries of Data from it, octets per second.
    pub octets_per_s: u64,
    /// What the link carries of Data to it, octets per second.
    pub octets_per_s_out: u64,
}

/// What a router is told of itself.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name in the exchange, 1 to [`ROUTER_OCTETS_MAX`] octets.
    pub router: Vec<u8>,
    /// A number for this life, which differs from that of every former one.
    pub boot: u64,
    /// Length of a slot, ms.
    pub period_ms: u32,
    /// How the plane is computed.
    pub plane: PlaneConfig,
    /// Its neighbours, at most [`NEIGHBOURS_MAX`].
    pub neighbours: Vec<NeighbourConfig>,
}

/// Why a configuration is refused. All are the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A period of 0.
    NoPeriod,
    /// More than [`NEIGHBOURS_MAX`].
    TooManyNeighbours,
    /// A router's name is empty or longer than [`ROUTER_OCTETS_MAX`].
    BadRouter,
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ConfigError::NoPeriod => write!(f, "a period of 0 ms"),
            ConfigError::TooManyNeighbours => write!(f, "more than {NEIGHBOURS_MAX} neighbours"),
            ConfigError::BadRouter => write!(f, "a router's name has 1 to {ROUTER_OCTETS_MAX} octets"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// What the home is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send an Interest to a neighbour, with HopLimit 1; signed if it has parameters.
    Ask {
        /// To whom.
        neighbour: usize,
        /// Its name, to which signing adds the parameters digest.
        name: Name,
        /// ApplicationParameters; `None` for a further segment, which is asked for unsigned.
        parameters: Option<Vec<u8>>,
        /// Lifetime, ms.
        lifetime_ms: u64,
    },
    /// Send a Data to a neighbour, signed, that no store keeps.
    Answer {
        /// To whom.
        neighbour: usize,
        /// Its name.
        name: Name,
        /// Its Content.
        content: Vec<u8>,
        /// FinalBlockId, if there are further segments.
        last_segment: Option<u64>,
    },
}

/// What the home is to do with a packet before [`Vip::hear`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing: it is refused, and counted.
    Drop,
    /// Check its signature. If that is wrong, [`Vip::bad_signature`].
    Verify,
    /// Hand it to [`Vip::hear`] as it is.
    Take,
}

/// How a neighbour stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// It speaks VIP.
    pub speaks_vip: bool,
    /// Its life that is known.
    pub boot: Option<u64>,
    /// Until when its counts are used, ns.
    pub fresh_until_ns: u64,
    /// Slots whose VIPs it has not acknowledged.
    pub slots_under_way: usize,
    /// VIPs of these.
    pub vips_under_way: u64,
    /// The last of its slots that was entered here.
    pub entered: u64,
}

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No slot has begun.
    Idle,
    /// Neighbours were asked for their counts.
    Asking,
    /// What links carry is chosen.
    Sent,
}

/// The state machine. Its home calls [`Vip::tick`] when the time that it returned has come, hands
/// it the packets of its neighbours, and carries out what it appends to `out`.
#[derive(Clone, Debug)]
pub struct Vip {
    config: Config,
    objects: Objects,
    plane: Plane,
    /// `None`: does not speak VIP.
    neighbours: Vec<Option<Neighbour>>,
    phase: Phase,
    slot: u64,
    began_ns: u64,
    /// Time of the last request, us.
    asked_us: u64,
    counters: Counters,
}

impl Vip {
    /// A router without routes: [`Vip::plane_mut`] sets next hops and sources.
    ///
    /// # Errors
    /// [`ConfigError`], always of the caller.
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
            plane.set_capacity(b, of_slot(neighbour.octets_per_s, config.period_ms.into()));
            let make =
                |router: &Vec<u8>| Neighbour::new(router.clone(), neighbour.octets_per_s_out, objects.len());
            neighbours.push(neighbour.router.as_ref().map(make));
        }
        let (phase, counters) = (Phase::Idle, Counters::default());
        Ok(Vip { config, objects, plane, neighbours, phase, slot: 0, began_ns: 0, asked_us: 0, counters })
    }

    /// Goes on with another catalogue and other settings in the middle of a slot. Objects keep what
    /// they have by their ids, neighbours by their names; the life and its slots go on. VIPs for a
    /// neighbour that is left out return; those of an object that is left out are withdrawn.
    /// Routes are to be set anew.
    ///
    /// # Errors
    /// As of [`Vip::new`]; all is as before then.
    pub fn exchange(&mut self, objects: Objects, config: Config) -> Result<(), ConfigError> {
        let mut new = Vip::new(objects, Config { boot: self.config.boot, ..config })?;
        let before = &self.config.neighbours;
        let place = |(b, of): (usize, &NeighbourConfig)| match of.router {
            Some(_) => before.iter().position(|old| old.router == of.router),
            None => before.get(b).filter(|old| old.router.is_none()).map(|_| b),
        };
        let links: Vec<Option<usize>> = new.config.neighbours.iter().enumerate().map(place).collect();
        for b in (0..self.neighbours.len()).filter(|b| !links.contains(&Some(*b))) {
            self.neighbour_gone(b);
        }
        let place = |id: ObjectId| self.objects.index_of(id);
        let places: Vec<_> = new.objects.as_slice().iter().map(|object| place(object.id)).collect();
        new.plane.take_over(&self.plane, &places, &links);
        for (neighbour, place) in new.neighbours.iter_mut().zip(&links) {
            let old = place.and_then(|b| self.neighbours.get(b)).and_then(Option::as_ref);
            match (neighbour, old) {
                (Some(neighbour), Some(old)) => neighbour.take_over(old, &places),
                // It need not wait for the next slot.
                (Some(neighbour), None) => neighbour.allow(),
                (None, _) => {}
            }
        }
        (new.phase, new.slot, new.began_ns) = (self.phase, self.slot, self.began_ns);
        (new.asked_us, new.counters) = (self.asked_us, self.counters.clone());
        // A neighbour that is new may offer what comes to one slot.
        let is_new = |b: &usize| links.get(*b).is_some_and(Option::is_none);
        (0..links.len()).filter(is_new).for_each(|b| new.allow_offers_of(b, 1));
        *self = new;
        Ok(())
    }

    /// Goes on to `now_ns`; `wall_us` is the time since 1970, us. Returns when to call again, ns.
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
            // A timer that comes more than a slot late leaves slots out: neighbours go on anyway.
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
        let until = if self.phase == Phase::Asking { period_ns / 2 } else { period_ns };
        self.began_ns + until
    }

    /// So many slots have passed: neighbours may offer what their links carry in that time.
    fn allow_offers(&mut self, slots: u64) {
        (0..self.neighbours.len()).for_each(|b| self.allow_offers_of(b, slots));
    }

    fn allow_offers_of(&mut self, b: usize, slots: u64) {
        let own_ms = u64::from(self.config.period_ms);
        if let Some(Some(neighbour)) = self.neighbours.get_mut(b) {
            let of = |ms: u64| {
                let octets = of_slot(neighbour.octets_per_s_out, ms);
                (octets / 100).saturating_mul(OFFER_PERCENT_MAX)
            };
            let most = of(own_ms.max(neighbour.period_ms)).saturating_mul(OFFERS_MAX as u64);
            let more = of(own_ms).saturating_mul(slots);
            neighbour.offered_left = neighbour.offered_left.saturating_add(more).min(most);
        }
    }

    fn begin(&mut self, wall_us: u64, out: &mut Vec<Action>) {
        self.slot += 1;
        self.phase = Phase::Asking;
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
            let parameters = message::ask_counts(self.config.boot, self.slot, period_ms.into());
            out.push(self.ask(b, About::Counts, time_us, 0, Some(parameters)));
        }
    }

    /// Times of requests rise, whatever the clock does.
    fn next_time_us(&mut self, wall_us: u64) -> u64 {
        self.asked_us = wall_us.max(self.asked_us + 1);
        self.asked_us
    }

    fn ask(
        &self,
        neighbour: usize,
        about: About,
        time_us: u64,
        segment: u64,
        parameters: Option<Vec<u8>>,
    ) -> Action {
        let name = Title { about, router: &self.config.router, time_us, segment }.to_name();
        Action::Ask { neighbour, name, parameters, lifetime_ms: self.config.period_ms.into() }
    }

    fn all_told(&self) -> bool {
        self.neighbours.iter().flatten().all(|neighbour| !neighbour.is_awaited())
    }

    /// Sends when all have told their counts, or half the slot has gone.
    fn send_if_due(&mut self, now_ns: u64, out: &mut Vec<Action>) {
        let half_ns = u64::from(self.config.period_ms) * MS / 2;
        if self.phase == Phase::Asking && (self.all_told() || now_ns >= self.began_ns + half_ns) {
            self.send(now_ns, out);
        }
    }

    /// Chooses what links carry, and answers who has asked for it.
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
            // What once went there would have Interests go there for long after it went silent.
            self.plane.set_silent(b, !is_fresh);
        }
        self.plane.send();
        self.phase = Phase::Sent;
        for b in 0..self.neighbours.len() {
            let Some(neighbour) = &mut self.neighbours[b] else { continue };
            if let Some((object, vips)) = self.plane.sent(b) {
                neighbour.under_way.push(UnderWay { slot: self.slot, object, vips });
            }
            if let Some(name) = neighbour.waiting.take() {
                self.tell_offers(b, name, out);
            }
        }
    }

    fn tell_offers(&mut self, b: usize, name: Name, out: &mut Vec<Action>) {
        let Some(neighbour) = &self.neighbours[b] else { return };
        let objects = self.objects.as_slice();
        let offers = neighbour.under_way.iter();
        let offers = offers.map(|u| Offer { slot: u.slot, id: objects[u.object].id, vips: u.vips });
        let peer_boot = neighbour.boot.unwrap_or(0);
        let content = message::offers(self.config.boot, peer_boot, self.slot, offers);
        self.counters.count(Counter::OffersTold);
        out.push(Action::Answer { neighbour: b, name, content, last_segment: None });
    }

    /// Looks at a packet of neighbour `b` before anything costly is done with it. What is not known
    /// to be signed by it uses up nothing of what it may ask in a slot, as anybody can send packets
    /// in its name; there is a limit by time for what is verified in vain.
    pub fn look(&mut self, b: usize, packet: &[u8], now_ns: u64) -> Look {
        let message = match Message::parse(packet) {
            Ok(message) => message,
            Err(refused) => return self.drop(refused.into()),
        };
        let Some(Some(neighbour)) = self.neighbours.get_mut(b) else {
            return self.drop(Counter::OtherRouter);
        };
        match message.body {
            Body::Segment => return Look::Take,
            Body::Counts { .. } | Body::Offers { .. } => {
                if !is_asked(neighbour, &self.config.router, &message.title) {
                    return self.drop(Counter::Unsolicited);
                }
            }
            Body::AskCounts { .. } | Body::AskOffers { .. } => {
                if message.title.router != neighbour.router {
                    return self.drop(Counter::OtherRouter);
                }
            }
        }
        if neighbour.unsigned.take(now_ns) { Look::Verify } else { self.drop(Counter::UnsignedLimited) }
    }

    fn drop(&mut self, counter: Counter) -> Look {
        self.counters.count(counter);
        Look::Drop
    }

    /// A packet had a wrong signature.
    pub fn bad_signature(&mut self) {
        self.counters.count(Counter::BadSignature);
    }

    /// Takes a packet of neighbour `b` that [`Vip::look`] let pass and whose signature was right.
    pub fn hear(&mut self, b: usize, packet: &[u8], now_ns: u64, wall_us: u64, out: &mut Vec<Action>) {
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
        let heard = match message.body {
            Body::Segment => self.hear_segment_request(b, &message, out),
            Body::AskCounts { .. } => self.hear_counts_request(b, &message, wall_us, out),
            Body::AskOffers { .. } => self.hear_offers_request(b, &message, out),
            Body::Counts { .. } => self.hear_counts(b, &message, now_ns, out),
            Body::Offers { .. } => self.hear_offers(b, &message),
        };
        if let Err(counter) = heard {
            self.counters.count(counter);
        }
        self.send_if_due(now_ns, out);
    }

    fn hear_segment_request(
        &mut self,
        b: usize,
        message: &Message<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), Counter> {
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        // Who names the time of what was asked has received it, or signed it.
        if neighbour.told_slot != self.slot || neighbour.asked_us[0] != message.title.time_us {
            return Err(Counter::Late);
        }
        if neighbour.segments_left == 0 {
            return Err(Counter::RateLimited);
        }
        neighbour.segments_left -= 1;
        if message.title.segment > self.last_segment() {
            return Err(Counter::Late);
        }
        self.tell_counts(b, message, out);
        Ok(())
    }

    fn hear_counts_request(
        &mut self,
        b: usize,
        message: &Message<'_>,
        wall_us: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Counter> {
        let Body::AskCounts { boot, slot, period_ms } = message.body else { return Ok(()) };
        let own_ms = u64::from(self.config.period_ms);
        let longest_ms = own_ms * PERIOD_RATIO_MAX;
        if period_ms > longest_ms || period_ms.saturating_mul(PERIOD_RATIO_MAX) < own_ms || period_ms == 0 {
            return Err(Counter::BadPeriod);
        }
        self.note_request(b, message, boot)?;
        let time_us = self.next_time_us(wall_us);
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        (neighbour.period_ms, neighbour.told_slot) = (period_ms, self.slot);
        neighbour.offers_asked_us = Some(time_us);
        let parameters = message::ask_offers(self.config.boot, boot, slot, neighbour.entered);
        self.counters.count(Counter::CountsTold);
        self.tell_counts(b, message, out);
        out.push(self.ask(b, About::Offers, time_us, 0, Some(parameters)));
        Ok(())
    }

    /// The request is the latest of its kind, and of the latest life.
    fn note_request(&mut self, b: usize, message: &Message<'_>, boot: u64) -> Result<(), Counter> {
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        let (time_us, kind) = (message.title.time_us, usize::from(message.title.about == About::Offers));
        let latest_us = neighbour.former_us.max(neighbour.asked_us[0]).max(neighbour.asked_us[1]);
        let is_new_life = neighbour.boot != Some(boot);
        if time_us <= if is_new_life { latest_us } else { neighbour.asked_us[kind] } {
            return Err(Counter::Replayed);
        }
        if is_new_life {
            self.begin_life(b, boot);
        }
        if let Some(neighbour) = &mut self.neighbours[b] {
            neighbour.asked_us[kind] = time_us;
        }
        Ok(())
    }

    /// A neighbour has started anew: nothing of its former life counts.
    fn begin_life(&mut self, b: usize, boot: u64) {
        let Some(neighbour) = &mut self.neighbours[b] else { return };
        if neighbour.boot.is_some() {
            self.counters.count(Counter::Restarts);
        }
        neighbour.forget().for_each(|u| self.plane.give_back(u.object, u.vips));
        neighbour.live(boot);
    }

    fn tell_counts(&self, b: usize, message: &Message<'_>, out: &mut Vec<Action>) {
        let told = self.plane.told();
        let counts = self.objects.by_id().iter().map(|(id, k)| (*id, told[*k as usize]));
        let counts = counts.filter(|(_, count)| *count > 0);
        let counts = counts.skip(message.title.segment as usize * COUNTS_PER_SEGMENT);
        let content = message::counts(self.config.boot, self.slot, self.config.period_ms.into(), counts);
        let last = self.last_segment();
        let (name, last_segment) = (message.name.to_name(), (last > 0).then_some(last));
        out.push(Action::Answer { neighbour: b, name, content, last_segment });
    }

    fn last_segment(&self) -> u64 {
        let counts = self.plane.told().iter().filter(|count| **count > 0).count();
        (counts.div_ceil(COUNTS_PER_SEGMENT).max(1) - 1) as u64
    }

    fn hear_offers_request(
        &mut self,
        b: usize,
        message: &Message<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), Counter> {
        let Body::AskOffers { boot, peer_boot, acknowledged, .. } = message.body else { return Ok(()) };
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
            self.tell_offers(b, message.name.to_name(), out);
        } else {
            neighbour.waiting = Some(message.name.to_name());
        }
        Ok(())
    }

    fn hear_counts(
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
        if !is_asked(neighbour, &self.config.router, &message.title) {
            return Err(Counter::Unsolicited);
        }
        if neighbour.boot != Some(boot) {
            // Its clock may be behind that of its former life, so that its requests are refused.
            // But it answers what it was asked just now: this life is the present one, unless a
            // request of a later one has come meanwhile.
            if neighbour.life_asked_us == neighbour.counts_asked_us {
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
            // No longer than a neighbour's longest period lasts, whatever it says.
            let longest_ms = u64::from(self.config.period_ms) * PERIOD_RATIO_MAX;
            neighbour.counts_asked_us = None;
            neighbour.fresh_until_ns = now_ns + COUNTS_PERIODS * period_ms.min(longest_ms) * MS;
            self.plane.heard_mut(b).copy_from_slice(&assembly.counts);
            self.counters.count(Counter::CountsHeard);
        } else if is_first && segment == 0 {
            let rest = 1..=last_segment;
            rest.for_each(|segment| {
                out.push(self.ask(b, About::Counts, message.title.time_us, segment, None))
            });
        }
        Ok(())
    }

    fn hear_offers(&mut self, b: usize, message: &Message<'_>) -> Result<(), Counter> {
        let Body::Offers { boot, peer_boot, offers, .. } = message.body else { return Ok(()) };
        let Some(neighbour) = &mut self.neighbours[b] else { return Ok(()) };
        if !is_asked(neighbour, &self.config.router, &message.title) {
            return Err(Counter::Unsolicited);
        }
        if neighbour.boot != Some(boot) || peer_boot != self.config.boot {
            return Err(Counter::OtherBoot);
        }
        neighbour.offers_asked_us = None;
        let octets = of_slot(neighbour.octets_per_s_out, neighbour.period_ms);
        let octets = (octets / 100).saturating_mul(OFFER_PERCENT_MAX);
        let entered = neighbour.entered;
        for Offer { slot, id, vips } in offers.offers().filter(|offer| offer.slot > entered) {
            neighbour.entered = slot;
            let Some(k) = self.objects.index_of(id) else {
                self.counters.count(Counter::UnknownObject);
                continue;
            };
            // All offers together are no more than the link carries, and none of them alone.
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

    /// A neighbour has gone: what it has not acknowledged returns, and its counts are not used.
    pub fn neighbour_gone(&mut self, b: usize) {
        if let Some(Some(neighbour)) = self.neighbours.get_mut(b) {
            neighbour.forget().for_each(|u| self.plane.give_back(u.object, u.vips));
        }
    }

    /// The plane: what was asked for, next hops, sources, read rates.
    pub fn plane_mut(&mut self) -> &mut Plane {
        &mut self.plane
    }

    /// The plane: counts, scores, directions, what is kept.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// The registered objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The number of this life.
    pub fn boot(&self) -> u64 {
        self.config.boot
    }

    /// The number of the slot, from 1.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// How a neighbour stands.
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

    /// VIPs that neighbour `b` has not acknowledged, by slot.
    pub fn under_way(&self, b: usize) -> impl Iterator<Item = Offer> + '_ {
        let neighbour = self.neighbours.get(b).and_then(Option::as_ref);
        let id = |k: usize| -> ObjectId { self.objects.as_slice()[k].id };
        let under_way = neighbour.into_iter().flat_map(|neighbour| &neighbour.under_way);
        under_way.map(move |u| Offer { slot: u.slot, id: id(u.object), vips: u.vips })
    }

    /// What was done and refused.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl From<Refused> for Counter {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Malformed => Counter::Malformed,
            Refused::OtherVersion => Counter::OtherVersion,
            Refused::Unsorted => Counter::Unsorted,
        }
    }
}

/// Returns true if an answer is to what was asked of this neighbour last.
fn is_asked(neighbour: &Neighbour, own: &[u8], title: &Title<'_>) -> bool {
    let asked_us = match title.about {
        About::Counts => neighbour.counts_asked_us,
        About::Offers => neighbour.offers_asked_us,
    };
    title.router == own && asked_us == Some(title.time_us)
}

/// Octets that a rate is in a period.
fn of_slot(octets_per_s: u64, period_ms: u64) -> u64 {
    let (seconds, rest_ms) = (period_ms / 1000, period_ms % 1000);
    let rest = (octets_per_s / 1000).saturating_mul(rest_ms) + octets_per_s % 1000 * rest_ms / 1000;
    octets_per_s.saturating_mul(seconds).saturating_add(rest)
}
