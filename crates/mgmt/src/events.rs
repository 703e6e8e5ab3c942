//! The stream of face events: `/localhost/nfd/faces/events/seq=<n>`, one Data for each event.
//!
//! An Interest for an event that has not happened is held until it does. The last events are kept, so a
//! subscriber who is behind gets them one by one.

use std::collections::VecDeque;

use namely_wire::mgmt::{Block, EventRequest, FaceEventNotification, Scope};

use crate::reply;

/// Events kept for subscribers who are behind.
pub const EVENTS_MAX: usize = 256;

/// Interests held for events to come. Subscribers of the same event share one, as the router aggregates
/// their Interests. When there is one more, the oldest is forgotten and its subscriber asks again.
pub const SUBSCRIPTIONS_MAX: usize = 64;

/// How long the newest event answers a subscriber who asks for no particular one, ns.
const NEWEST_FRESH_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Events {
    /// Number of the next event.
    next_seq: u64,
    /// The last events, the newest last.
    kept: VecDeque<Vec<u8>>,
    newest_ns: Option<u64>,
    held: VecDeque<Held>,
}

/// What became of a subscriber's Interest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// The event is there.
    Event(Vec<u8>),
    /// The Interest waits.
    Held,
    /// The Interest waits, and the one that waited longest no longer does.
    HeldInsteadOfOldest,
    /// The event is no longer kept.
    Gone,
}

#[derive(Debug)]
struct Held {
    /// None: whatever comes next.
    seq_num: Option<u64>,
    expires_ns: u64,
}

impl Events {
    /// A stream whose first event is `first_seq`. It must be above every number that the router used before
    /// it was started again, or an old subscriber would take old numbers for new ones.
    pub(crate) fn new(first_seq: u64) -> Self {
        Events { next_seq: first_seq, kept: VecDeque::new(), newest_ns: None, held: VecDeque::new() }
    }

    /// Answers a subscriber, or holds the Interest for `lifetime_ns`.
    pub(crate) fn subscribe(&mut self, request: EventRequest, lifetime_ns: u64, now_ns: u64) -> Subscription {
        if let Some(data) = self.find(request.seq_num, now_ns) {
            return Subscription::Event(data.clone());
        }
        if request.seq_num.is_some_and(|seq| seq < self.next_seq) {
            return Subscription::Gone;
        }
        self.held.retain(|held| held.expires_ns > now_ns && held.seq_num != request.seq_num);
        let full = self.held.len() == SUBSCRIPTIONS_MAX;
        if full {
            self.held.pop_front();
        }
        let expires_ns = now_ns.saturating_add(lifetime_ns);
        self.held.push_back(Held { seq_num: request.seq_num, expires_ns });
        if full { Subscription::HeldInsteadOfOldest } else { Subscription::Held }
    }

    fn find(&self, seq_num: Option<u64>, now_ns: u64) -> Option<&Vec<u8>> {
        let Some(seq) = seq_num else {
            let fresh = self.newest_ns.is_some_and(|newest| now_ns < newest + NEWEST_FRESH_NS);
            return self.kept.back().filter(|_| fresh);
        };
        let age = usize::try_from(self.next_seq.checked_sub(seq)?).ok()?;
        self.kept.get(self.kept.len().checked_sub(age)?)
    }

    /// Adds an event; the answer to those who wait for it, if somebody does.
    pub(crate) fn push(&mut self, event: &FaceEventNotification, now_ns: u64) -> Option<Vec<u8>> {
        let seq = self.next_seq;
        self.next_seq += 1;
        let name = EventRequest::name(Scope::Localhost, seq);
        let data = reply::data(name.as_name(), None, &event.to_vec());
        if self.kept.len() == EVENTS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(data.clone());
        self.newest_ns = Some(now_ns);
        let is_for = |held: &Held| held.seq_num.is_none_or(|n| n == seq);
        let someone_waits = self.held.iter().any(|held| held.expires_ns > now_ns && is_for(held));
        self.held.retain(|held| !is_for(held));
        someone_waits.then_some(data)
    }
}
