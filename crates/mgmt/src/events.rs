//! The stream of face events: `/localhost/nfd/faces/events/seq=<n>`, one Data for each event.
//!
//! An Interest for a future event is held until the event happens. The last events are retained, so
//! that a late subscriber receives them one by one.

use std::collections::VecDeque;

use namely_messages::{Block, EventRequest, FaceEventNotification, Scope};

use crate::dataset::{Reader, largest};
use crate::reply;

/// Face events retained for late subscribers.
///
/// # Limit
/// The oldest event is dropped.
/// - Counter: `events_missed`
/// - Tests: `kept_events_have_a_limit`
pub(crate) const EVENTS_MAX: usize = 256;

/// Different Interests held for future face events.
///
/// Subscribers of the same event share one entry, because the router aggregates their Interests.
///
/// # Limit
/// The oldest entry of the reader with most entries is dropped; that reader must send its Interest
/// again.
/// - Counter: `subscriptions_dropped`
/// - Tests: `the_oldest_subscription_is_evicted`,
///   `a_busy_subscriber_displaces_no_other`
pub(crate) const SUBSCRIPTIONS_MAX: usize = 64;

/// Time for which the newest event answers a subscriber that requests no particular event, ns.
const NEWEST_FRESH_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Events {
    /// Number of the next event.
    next_seq: u64,
    /// The last events, the newest last.
    kept: VecDeque<Vec<u8>>,
    newest_ns: Option<u64>,
    held: VecDeque<HeldInterest>,
}

/// The result of a subscriber's Interest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// The event is retained.
    Event(Vec<u8>),
    /// The Interest is held.
    HeldInterest,
    /// The Interest is held, and an older one was dropped for it.
    HeldInsteadOfOldest,
    /// The event is no longer retained.
    Gone,
}

#[derive(Debug)]
struct HeldInterest {
    /// The requested event; `None` for the next one.
    seq_num: Option<u64>,
    expires_ns: u64,
    /// The reader of the first Interest.
    reader: Reader,
}

impl Events {
    /// A stream whose first event has the number `first_seq`. This number must be above those of
    /// earlier runs of the router. Otherwise an old subscriber would take new events for old ones.
    pub(crate) fn new(first_seq: u64) -> Self {
        Events { next_seq: first_seq, kept: VecDeque::new(), newest_ns: None, held: VecDeque::new() }
    }

    /// Answers a subscriber, or holds its Interest for `lifetime_ns`.
    pub(crate) fn subscribe(
        &mut self,
        request: EventRequest,
        reader: Reader,
        lifetime_ns: u64,
        now_ns: u64,
    ) -> Subscription {
        if let Some(data) = self.find(request.seq_num, now_ns) {
            return Subscription::Event(data.clone());
        }
        if request.seq_num.is_some_and(|seq| seq < self.next_seq) {
            return Subscription::Gone;
        }
        self.held.retain(|held| held.expires_ns > now_ns);
        let expires_ns = now_ns.saturating_add(lifetime_ns);
        let same = self.held.iter().position(|held| held.seq_num == request.seq_num);
        if let Some(held) = same.and_then(|index| self.held.remove(index)) {
            // The router aggregates these Interests, so one entry represents all of them. It is
            // held for the longest of their lifetimes.
            self.held.push_back(HeldInterest { expires_ns: held.expires_ns.max(expires_ns), ..held });
            return Subscription::HeldInterest;
        }
        self.held.push_back(HeldInterest { seq_num: request.seq_num, expires_ns, reader });
        if self.held.len() <= SUBSCRIPTIONS_MAX {
            return Subscription::HeldInterest;
        }
        let largest = largest(self.held.iter().map(|held| (held.reader, 1)));
        let oldest = self.held.iter().position(|held| Some(held.reader) == largest);
        self.held.remove(oldest.unwrap_or(0));
        Subscription::HeldInsteadOfOldest
    }

    fn find(&self, seq_num: Option<u64>, now_ns: u64) -> Option<&Vec<u8>> {
        let Some(seq) = seq_num else {
            let fresh = self.newest_ns.is_some_and(|newest| now_ns < newest + NEWEST_FRESH_NS);
            return self.kept.back().filter(|_| fresh);
        };
        let age = usize::try_from(self.next_seq.checked_sub(seq)?).ok()?;
        self.kept.get(self.kept.len().checked_sub(age)?)
    }

    /// Adds an event. Returns the answer to held Interests, if there are any.
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
        let is_for = |held: &HeldInterest| held.seq_num.is_none_or(|n| n == seq);
        let is_awaited = self.held.iter().any(|held| held.expires_ns > now_ns && is_for(held));
        self.held.retain(|held| !is_for(held));
        is_awaited.then_some(data)
    }
}

#[cfg(test)]
mod tests {
    use namely_messages::{FaceEventKind, FacePersistency, FaceScope, LinkType};
    use namely_wire::DataView;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const FIRST: u64 = 100;

    fn event(face_id: u64) -> FaceEventNotification {
        FaceEventNotification {
            kind: FaceEventKind::Created,
            face_id,
            uri: "fd://1".into(),
            local_uri: "unix:///x".into(),
            face_scope: FaceScope::Local,
            face_persistency: FacePersistency::OnDemand,
            link_type: LinkType::PointToPoint,
            flags: 0,
        }
    }

    fn subscribe(events: &mut Events, seq_num: Option<u64>, now_ns: u64) -> Subscription {
        events.subscribe(EventRequest { seq_num }, Reader::User(1), 4 * SECOND_NS, now_ns)
    }

    fn read(data: &[u8]) -> (u64, u64) {
        let data = DataView::parse(data).unwrap();
        let seq = data.name.last().unwrap().number(namely_wire::types::SEQUENCE_NUM_COMPONENT).unwrap();
        (seq, FaceEventNotification::decode(data.content).unwrap().face_id)
    }

    fn answer(subscription: Subscription) -> Option<(u64, u64)> {
        match subscription {
            Subscription::Event(data) => Some(read(&data)),
            _ => None,
        }
    }

    #[test]
    fn a_subscriber_waits_for_each_event() {
        let mut events = Events::new(FIRST);
        assert_eq!(subscribe(&mut events, None, 0), Subscription::HeldInterest);
        assert_eq!(read(&events.push(&event(1), 1).unwrap()), (FIRST, 1));
        assert_eq!(subscribe(&mut events, Some(FIRST + 1), 2), Subscription::HeldInterest);
        assert_eq!(read(&events.push(&event(2), 3).unwrap()), (FIRST + 1, 2));
        assert_eq!(events.push(&event(3), 4), None, "nobody waits");
    }

    #[test]
    fn a_late_subscriber_receives_every_event() {
        let mut events = Events::new(FIRST);
        for face_id in 0..5 {
            events.push(&event(face_id), 0);
        }
        let late = 100 * SECOND_NS;
        for n in 0..5 {
            assert_eq!(answer(subscribe(&mut events, Some(FIRST + n), late)), Some((FIRST + n, n)));
        }
        assert_eq!(subscribe(&mut events, Some(FIRST + 5), late), Subscription::HeldInterest);
    }

    #[test]
    fn a_new_subscriber_gets_the_newest_event() {
        let mut events = Events::new(FIRST);
        events.push(&event(1), 0);
        assert_eq!(answer(subscribe(&mut events, None, SECOND_NS - 1)), Some((FIRST, 1)));
        assert_eq!(subscribe(&mut events, None, SECOND_NS), Subscription::HeldInterest);
    }

    #[test]
    fn an_expired_subscription_is_not_answered() {
        let mut events = Events::new(FIRST);
        subscribe(&mut events, Some(FIRST), 0);
        assert_eq!(events.push(&event(1), 4 * SECOND_NS), None);
    }

    #[test]
    fn kept_events_have_a_limit() {
        for (pushed, expected) in [(EVENTS_MAX, true), (EVENTS_MAX + 1, false)] {
            let mut events = Events::new(FIRST);
            for face_id in 0..pushed {
                events.push(&event(face_id as u64), 0);
            }
            let first = subscribe(&mut events, Some(FIRST), 0);
            assert_eq!(answer(first) == Some((FIRST, 0)), expected);
            assert!(expected || subscribe(&mut events, Some(FIRST), 0) == Subscription::Gone);
        }
    }

    #[test]
    fn the_oldest_subscription_is_evicted() {
        let mut events = Events::new(FIRST);
        for n in 0..SUBSCRIPTIONS_MAX as u64 {
            assert_eq!(subscribe(&mut events, Some(FIRST + n), 0), Subscription::HeldInterest);
        }
        assert_eq!(
            subscribe(&mut events, Some(FIRST), 0),
            Subscription::HeldInterest,
            "the same one again takes no room"
        );
        assert_eq!(subscribe(&mut events, Some(FIRST + 999), 0), Subscription::HeldInsteadOfOldest);
        assert_eq!(events.held.len(), SUBSCRIPTIONS_MAX);
        assert!(events.push(&event(1), 1).is_some(), "the renewed one is not the oldest");
        assert!(events.push(&event(2), 1).is_none(), "the oldest gave way");
    }

    #[test]
    fn a_busy_subscriber_displaces_no_other() {
        let mut events = Events::new(FIRST);
        let mut subscribe = |reader, seq_num, lifetime_ns| {
            events.subscribe(EventRequest { seq_num: Some(seq_num) }, reader, lifetime_ns, 0)
        };
        subscribe(Reader::Face(7), FIRST, SECOND_NS);
        subscribe(Reader::User(1), FIRST, 1);
        for n in 1..2 * SUBSCRIPTIONS_MAX as u64 {
            subscribe(Reader::User(1), FIRST + n, SECOND_NS);
        }
        assert!(events.push(&event(1), SECOND_NS - 1).is_some());
    }
}
