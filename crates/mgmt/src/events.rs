//! The stream of face events: `/localhost/nfd/faces/events/seq=<n>`, one Data for each event.
//!
//! An Interest for an event that has not happened is held until it does. The last events are kept,
//! so a subscriber who is behind gets them one by one.

use std::collections::VecDeque;

use namely_wire::mgmt::{Block, EventRequest, FaceEventNotification, Scope};

use crate::dataset::{Reader, largest};
use crate::reply;

/// Events kept for subscribers who are behind.
pub(crate) const EVENTS_MAX: usize = 256;

/// Interests held for events to come. Subscribers of the same event share one, as the router
/// aggregates their Interests. When there is one more, whoever holds most has the oldest forgotten,
/// and asks again.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 64;

/// How long the newest event answers a subscriber who requests no particular one, ns.
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
    /// Who asked for it first.
    reader: Reader,
}

impl Events {
    /// A stream whose first event is `first_seq`. It must be above every number that the router
    /// used before it was started again, or an old subscriber would take old numbers for new ones.
    pub(crate) fn new(first_seq: u64) -> Self {
        Events { next_seq: first_seq, kept: VecDeque::new(), newest_ns: None, held: VecDeque::new() }
    }

    /// Answers a subscriber, or holds the Interest for `lifetime_ns`.
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
            // The router has made one of their Interests, which waits for the longest.
            self.held.push_back(Held { expires_ns: held.expires_ns.max(expires_ns), ..held });
            return Subscription::Held;
        }
        self.held.push_back(Held { seq_num: request.seq_num, expires_ns, reader });
        if self.held.len() <= SUBSCRIPTIONS_MAX {
            return Subscription::Held;
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

#[cfg(test)]
mod tests {
    use namely_wire::DataView;
    use namely_wire::mgmt::{FaceEventKind, FacePersistency, FaceScope, LinkType};

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

    fn ask(events: &mut Events, seq_num: Option<u64>, now_ns: u64) -> Subscription {
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
    fn a_subscriber_waits_for_the_next_event_and_then_for_the_one_after() {
        let mut events = Events::new(FIRST);
        assert_eq!(ask(&mut events, None, 0), Subscription::Held);
        assert_eq!(read(&events.push(&event(1), 1).unwrap()), (FIRST, 1));
        assert_eq!(ask(&mut events, Some(FIRST + 1), 2), Subscription::Held);
        assert_eq!(read(&events.push(&event(2), 3).unwrap()), (FIRST + 1, 2));
        assert_eq!(events.push(&event(3), 4), None, "nobody waits");
    }

    #[test]
    fn a_subscriber_who_is_behind_gets_every_event() {
        let mut events = Events::new(FIRST);
        for face_id in 0..5 {
            events.push(&event(face_id), 0);
        }
        let late = 100 * SECOND_NS;
        for n in 0..5 {
            assert_eq!(answer(ask(&mut events, Some(FIRST + n), late)), Some((FIRST + n, n)));
        }
        assert_eq!(ask(&mut events, Some(FIRST + 5), late), Subscription::Held);
    }

    #[test]
    fn the_newest_event_answers_a_new_subscriber_for_a_second() {
        let mut events = Events::new(FIRST);
        events.push(&event(1), 0);
        assert_eq!(answer(ask(&mut events, None, SECOND_NS - 1)), Some((FIRST, 1)));
        assert_eq!(ask(&mut events, None, SECOND_NS), Subscription::Held);
    }

    #[test]
    fn an_interest_is_not_answered_after_its_lifetime() {
        let mut events = Events::new(FIRST);
        ask(&mut events, Some(FIRST), 0);
        assert_eq!(events.push(&event(1), 4 * SECOND_NS), None);
    }

    #[test]
    fn an_event_is_kept_until_there_are_too_many() {
        for (pushed, expected) in [(EVENTS_MAX, true), (EVENTS_MAX + 1, false)] {
            let mut events = Events::new(FIRST);
            for face_id in 0..pushed {
                events.push(&event(face_id as u64), 0);
            }
            let first = ask(&mut events, Some(FIRST), 0);
            assert_eq!(answer(first) == Some((FIRST, 0)), expected);
            assert!(expected || ask(&mut events, Some(FIRST), 0) == Subscription::Gone);
        }
    }

    #[test]
    fn subscriptions_are_bounded_and_the_oldest_gives_way() {
        let mut events = Events::new(FIRST);
        for n in 0..SUBSCRIPTIONS_MAX as u64 {
            assert_eq!(ask(&mut events, Some(FIRST + n), 0), Subscription::Held);
        }
        assert_eq!(ask(&mut events, Some(FIRST), 0), Subscription::Held, "the same one again takes no room");
        assert_eq!(ask(&mut events, Some(FIRST + 999), 0), Subscription::HeldInsteadOfOldest);
        assert_eq!(events.held.len(), SUBSCRIPTIONS_MAX);
        assert!(events.push(&event(1), 1).is_some(), "the renewed one is not the oldest");
        assert!(events.push(&event(2), 1).is_none(), "the oldest gave way");
    }

    #[test]
    fn who_subscribes_without_pause_neither_pushes_out_nor_shortens_anothers_wait() {
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
