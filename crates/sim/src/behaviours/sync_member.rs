//! A member of a synchronization group, after State Vector Sync: members multicast vectors of how
//! much each has published, and fetch what they lack. Signatures are not simulated.

use std::collections::BTreeMap;
use std::sync::Arc;

use namely_forwarder::Received;
use namely_transport::fetch::PieceInterest;
use namely_wire::{DataBuilder, DataView, InterestBuilder, InterestView, LpHeaders, Name, SignatureInfo};

use crate::behaviour::{Behaviour, Context};
use crate::behaviours::Requests;
use crate::packet::Packet;
use crate::units::MS;

/// Maximum number of members: a vector of eight octets for each fits a packet.
pub const MEMBERS_MAX: usize = 1000;

/// InterestLifetime of vectors, which nobody answers, and of fetches in ms.
const VECTOR_LIFETIME_MS: u64 = 500;
const FETCH_LIFETIME_MS: u64 = 2_000;

/// Mean time between vectors without a reason.
const PERIOD_NS: u64 = 10_000 * MS;

/// Maximum delay of an answer to a vector that lacks publications. An equal vector of another
/// member in this time makes it unnecessary.
const SUPPRESSION_NS: u64 = 200 * MS;

/// Time after which a publication is requested again, and its requests.
const RTO_NS: u64 = 600 * MS;
const TRIES_MAX: u8 = 5;

/// Publications that a member requests at once.
const FETCHES_MAX: usize = 256;

/// A group: a prefix for vectors, and one for the publications of each member.
#[derive(Clone, Debug)]
pub struct SyncGroup {
    prefix: Name,
    members: Vec<Name>,
    templates: Vec<PieceInterest>,
}

impl SyncGroup {
    /// Creates a group of as many members as there are prefixes, at most [`MEMBERS_MAX`].
    pub fn new(prefix: Name, members: Vec<Name>) -> Self {
        let members: Vec<Name> = members.into_iter().take(MEMBERS_MAX).collect();
        let template = |name: &Name| PieceInterest::new(name.as_name(), FETCH_LIFETIME_MS);
        let templates = members.iter().map(template).collect();
        SyncGroup { prefix, members, templates }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// A publication that is being fetched.
#[derive(Clone, Copy, Debug)]
struct Fetching {
    again_ns: u64,
    tries: u8,
}

/// A member.
#[derive(Debug)]
pub struct SyncMember {
    group: Arc<SyncGroup>,
    own: usize,
    mean_ns: u64,
    /// Number of publications of each member, as far as this one knows.
    vector: Vec<u64>,
    /// Times of the own publications.
    published_ns: Vec<u64>,
    publish_ns: u64,
    sync_ns: u64,
    /// True if the next vector answers one that lacks publications.
    is_answer: bool,
    sent: u64,
    /// Publications that are being fetched, by member and number.
    fetching: BTreeMap<[u64; 2], Fetching>,
    /// Vectors sent.
    pub vectors: u64,
    /// Vectors that another member's made unnecessary.
    pub suppressed: u64,
    /// Publications of others: times from their publication to their Data.
    pub requests: Requests,
}

impl SyncMember {
    /// Creates the member `own` of a group, which publishes at random times with a mean of
    /// `mean_ns` between them.
    pub fn new(group: Arc<SyncGroup>, own: usize, mean_ns: u64) -> Self {
        SyncMember {
            own,
            mean_ns: mean_ns.max(1),
            vector: vec![0; group.len()],
            group,
            published_ns: Vec::new(),
            publish_ns: u64::MAX,
            sync_ns: u64::MAX,
            is_answer: false,
            sent: 0,
            fetching: BTreeMap::new(),
            vectors: 0,
            suppressed: 0,
            requests: Requests::default(),
        }
    }

    /// Returns the number of known publications of each member.
    pub fn vector(&self) -> &[u64] {
        &self.vector
    }

    fn publish(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        self.publish_ns = now_ns.saturating_add(context.random().exponential_ns(self.mean_ns).max(1));
        let Some(count) = self.vector.get_mut(self.own) else { return };
        *count += 1;
        self.published_ns.push(now_ns);
        self.send_vector(context);
    }

    fn send_vector(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        self.vectors += 1;
        self.sent += 1;
        self.is_answer = false;
        self.sync_ns = now_ns + PERIOD_NS - PERIOD_NS / 10 + context.random().below(PERIOD_NS / 5);
        let octets: Vec<u8> = self.vector.iter().flat_map(|count| count.to_be_bytes()).collect();
        // Numbers keep the names unique, because the digest of the parameters is not computed.
        let name = self.group.prefix.join_segment(self.own as u64).join_segment(self.sent);
        let interest = InterestBuilder::new(name).nonce(context.random().nonce());
        let interest = interest.lifetime_ms(VECTOR_LIFETIME_MS);
        context.send(interest.build_with_parameters(&octets, |_| [0; 32]));
    }

    /// Takes over the counts of another member's vector.
    fn compare(&mut self, octets: &[u8], context: &mut Context<'_>) {
        let (counts, []) = octets.as_chunks::<8>() else { return };
        if counts.len() != self.vector.len() {
            return;
        }
        let mut is_behind = false;
        for (member, count) in counts.iter().enumerate() {
            let (count, known) = (u64::from_be_bytes(*count), self.vector[member]);
            is_behind |= count < known;
            // Nobody else knows better what this member has published.
            if count > known && member != self.own {
                self.vector[member] = count;
                self.fetch(member as u64, known, context);
            }
        }
        if is_behind && !self.is_answer {
            let delay_ns = context.random().below(SUPPRESSION_NS);
            self.sync_ns = self.sync_ns.min(context.now_ns() + delay_ns);
            self.is_answer = true;
        } else if !is_behind && self.is_answer {
            self.is_answer = false;
            self.suppressed += 1;
            self.sync_ns = context.now_ns() + PERIOD_NS;
        }
    }

    /// Requests the publications of a member after the first `known` ones, as many as there is room
    /// for. A vector may claim any number.
    fn fetch(&mut self, member: u64, known: u64, context: &mut Context<'_>) {
        let missing = self.vector[member as usize] - known;
        let room = (FETCHES_MAX - self.fetching.len()) as u64;
        self.requests.interests = self.requests.interests.saturating_add(missing);
        self.requests.unanswered = self.requests.unanswered.saturating_add(missing.saturating_sub(room));
        for number in known..known + missing.min(room) {
            let fetching = Fetching { again_ns: context.now_ns() + RTO_NS, tries: 1 };
            self.fetching.insert([member, number], fetching);
            self.send_fetch(member, number, context);
        }
    }

    fn send_fetch(&self, member: u64, number: u64, context: &mut Context<'_>) {
        let nonce = context.random().nonce();
        if let Some(template) = self.group.templates.get(member as usize) {
            context.send(Packet::new(|out| template.write(number, false, nonce, out)));
        }
    }

    fn expire(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let late = self.fetching.iter().filter(|(_, fetching)| fetching.again_ns <= now_ns);
        let late: Vec<[u64; 2]> = late.map(|(key, _)| *key).collect();
        for key in late {
            let Some(fetching) = self.fetching.get_mut(&key) else { continue };
            if fetching.tries == TRIES_MAX {
                self.fetching.remove(&key);
                self.requests.unanswered += 1;
                continue;
            }
            *fetching = Fetching { again_ns: now_ns + RTO_NS, tries: fetching.tries + 1 };
            self.requests.again += 1;
            self.send_fetch(key[0], key[1], context);
        }
    }

    /// Answers an Interest for an own publication.
    fn answer(&self, interest: &InterestView<'_>, headers: &LpHeaders, context: &mut Context<'_>) {
        let number = self.group.templates.get(self.own).and_then(|own| own.piece(interest.name));
        let published_ns = number.and_then(|number| self.published_ns.get(number as usize));
        let Some(published_ns) = published_ns else { return };
        let builder = DataBuilder::new(interest.name).freshness_ms(10_000);
        let data = builder.build(&published_ns.to_be_bytes(), &SignatureInfo::null()).finish(&[]);
        let headers = LpHeaders { pit_token: headers.pit_token, ..LpHeaders::default() };
        context.send_with(data, headers);
    }

    /// Takes a publication of another member.
    fn take(&mut self, data: &DataView<'_>, context: &Context<'_>) {
        let piece_of =
            |(member, template): (usize, &PieceInterest)| Some((member, template.piece(data.name)?));
        let Some((member, number)) = self.group.templates.iter().enumerate().find_map(piece_of) else {
            return;
        };
        let published_ns = <[u8; 8]>::try_from(data.content).map(u64::from_be_bytes);
        if let (Some(_), Ok(published_ns)) = (self.fetching.remove(&[member as u64, number]), published_ns) {
            self.requests.answered(context.now_ns().saturating_sub(published_ns), data.wire.len());
        }
    }

    fn sleep(&self, context: &mut Context<'_>) {
        let again_ns = self.fetching.values().map(|fetching| fetching.again_ns).min();
        context.wake_at(self.publish_ns.min(self.sync_ns).min(again_ns.unwrap_or(u64::MAX)));
    }
}

impl Behaviour for SyncMember {
    fn start(&mut self, context: &mut Context<'_>) {
        let face = context.face();
        for prefix in [Some(&self.group.prefix), self.group.members.get(self.own)].into_iter().flatten() {
            // Without the route no packet arrives here, which the counters show.
            let _ = context.forwarder().fib().add_nexthop(prefix.as_name(), face, 0);
        }
        self.publish_ns = context.now_ns() + context.random().exponential_ns(self.mean_ns).max(1);
        self.sync_ns = context.now_ns() + context.random().below(PERIOD_NS);
        self.sleep(context);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        if packet.headers.nack.is_some() {
            self.requests.nacks += 1;
            return;
        }
        if let Ok(interest) = InterestView::parse(&packet.packet) {
            if !self.group.prefix.is_prefix_of(interest.name) {
                return self.answer(&interest, &packet.headers, context);
            }
            self.compare(interest.application_parameters.unwrap_or_default(), context);
        } else if let Ok(data) = DataView::parse(&packet.packet) {
            self.take(&data, context);
        }
        self.sleep(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        self.expire(context);
        if now_ns >= self.publish_ns {
            self.publish(context);
        }
        if now_ns >= self.sync_ns {
            self.send_vector(context);
        }
        self.sleep(context);
    }
}
