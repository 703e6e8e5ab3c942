//! A consumer that requests names by Zipf's law at random times, and requests them again if they do
//! not come.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use namely_forwarder::Received;
use namely_transport::fetch::PieceInterest;
use namely_wire::{DataView, Name};

use crate::behaviour::{Behaviour, Context};
use crate::behaviours::Requests;
use crate::packet::Packet;
use crate::units::{MS, SECOND};
use crate::zipf::Zipf;

/// InterestLifetime in ms.
const LIFETIME_MS: u64 = 2_000;

/// Time without an answer after which a name is requested again.
const RTO_NS: u64 = 600 * MS;

/// Requests of one name.
const TRIES_MAX: u8 = 3;

/// Names that consumers request: ranks, spread over the prefixes of their producers.
#[derive(Debug)]
pub struct PopularNames {
    templates: Vec<PieceInterest>,
    zipf: Zipf,
}

impl PopularNames {
    /// Creates `count` names under `prefixes`, of which there is at least one. The most popular
    /// names are under different prefixes.
    pub fn new(prefixes: &[Name], count: u64, exponent: f64) -> Self {
        let templates = prefixes.iter().map(|prefix| PieceInterest::new(prefix.as_name(), LIFETIME_MS));
        PopularNames { templates: templates.collect(), zipf: Zipf::new(count, exponent) }
    }

    /// Appends the Interest for a rank.
    fn write(&self, rank: u64, nonce: [u8; 4], out: &mut Vec<u8>) {
        let count = self.templates.len().max(1) as u64;
        if let Some(template) = self.templates.get((rank % count) as usize) {
            template.write(rank, false, nonce, out);
        }
    }

    /// Returns the rank of a Data, if it is one of the names.
    fn rank(&self, data: &DataView<'_>) -> Option<u64> {
        let rank = data.name.last()?.segment()?;
        let template = self.templates.get((rank % self.templates.len().max(1) as u64) as usize)?;
        template.piece(data.name)
    }
}

/// An outstanding name.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    first_ns: u64,
    last_ns: u64,
    tries: u8,
}

/// A consumer. It requests a name that it has requested already only after that one was answered.
#[derive(Debug)]
pub struct ZipfConsumer {
    names: Arc<PopularNames>,
    mean_ns: u64,
    begins_ns: u64,
    ends_ns: u64,
    next_ns: u64,
    pending: BTreeMap<u64, Outstanding>,
    /// Ranks in the order of their latest Interests, with the times of these.
    expiries: VecDeque<Expiry>,
    /// Its measurements.
    pub requests: Requests,
}

#[derive(Clone, Copy, Debug)]
struct Expiry {
    sent_ns: u64,
    rank: u64,
}

impl ZipfConsumer {
    /// Creates a consumer that sends `per_second` Interests a second on average, at random times.
    pub fn new(names: Arc<PopularNames>, per_second: f64) -> Self {
        let mean_ns = (SECOND as f64 / per_second.max(1e-6)) as u64;
        ZipfConsumer {
            names,
            mean_ns: mean_ns.max(1),
            begins_ns: 0,
            ends_ns: u64::MAX,
            next_ns: 0,
            pending: BTreeMap::new(),
            expiries: VecDeque::new(),
            requests: Requests::default(),
        }
    }

    /// Requests names only from `begins_ns` to `ends_ns`.
    #[must_use]
    pub fn within(mut self, begins_ns: u64, ends_ns: u64) -> Self {
        (self.begins_ns, self.ends_ns) = (begins_ns, ends_ns);
        self
    }

    fn request(&mut self, context: &mut Context<'_>) {
        let (now_ns, random) = (context.now_ns(), context.random());
        let (rank, nonce) = (self.names.zipf.draw(random), random.nonce());
        self.next_ns = now_ns.saturating_add(random.exponential_ns(self.mean_ns).max(1));
        if self.pending.contains_key(&rank) {
            return;
        }
        self.requests.interests += 1;
        self.pending.insert(rank, Outstanding { first_ns: now_ns, last_ns: now_ns, tries: 1 });
        self.send(rank, nonce, context);
    }

    fn send(&mut self, rank: u64, nonce: [u8; 4], context: &mut Context<'_>) {
        self.expiries.push_back(Expiry { sent_ns: context.now_ns(), rank });
        context.send(Packet::new(|out| self.names.write(rank, nonce, out)));
    }

    /// Requests the names again that were not answered in time.
    fn expire(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        while let Some(Expiry { sent_ns, rank }) = self.expiries.front().copied() {
            if sent_ns + RTO_NS > now_ns {
                break;
            }
            self.expiries.pop_front();
            let Some(outstanding) = self.pending.get_mut(&rank).filter(|own| own.last_ns == sent_ns) else {
                continue;
            };
            if outstanding.tries == TRIES_MAX {
                self.pending.remove(&rank);
                self.requests.unanswered += 1;
                continue;
            }
            outstanding.tries += 1;
            outstanding.last_ns = now_ns;
            self.requests.again += 1;
            let nonce = context.random().nonce();
            self.send(rank, nonce, context);
        }
    }

    fn sleep(&self, context: &mut Context<'_>) {
        let expiry_ns = self.expiries.front().map_or(u64::MAX, |expiry| expiry.sent_ns + RTO_NS);
        let next_ns = if self.next_ns < self.ends_ns { self.next_ns } else { u64::MAX };
        context.wake_at(expiry_ns.min(next_ns));
    }
}

impl Behaviour for ZipfConsumer {
    fn start(&mut self, context: &mut Context<'_>) {
        let offset_ns = context.random().exponential_ns(self.mean_ns);
        self.next_ns = self.begins_ns.max(context.now_ns()).saturating_add(offset_ns);
        self.sleep(context);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        if packet.headers.nack.is_some() {
            // The name is requested again at its timeout, when routes may have changed.
            self.requests.nacks += 1;
            return;
        }
        let Ok(data) = DataView::parse(&packet.packet) else { return };
        let outstanding = self.names.rank(&data).and_then(|rank| self.pending.remove(&rank));
        if let Some(outstanding) = outstanding {
            self.requests.answered(context.now_ns() - outstanding.first_ns, packet.packet.len());
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.expire(context);
        if context.now_ns() >= self.next_ns && self.next_ns < self.ends_ns {
            self.request(context);
        }
        self.sleep(context);
    }
}
