//! Misses: Interests without a published answer, which wait for the application or for a matching
//! publication (HT-22). A state machine without I/O, bounded by `requests_max` names with
//! [`WAITERS_MAX`] Interests each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use namely_wire::{InterestView, LpHeaders, NameRef};

/// Interests that wait for one name at a producer.
///
/// A router sends one at a time.
///
/// # Limit
/// The oldest Interest is evicted and not answered.
/// - Tests: `waiting_names_and_interests_are_limited`
pub(crate) const WAITERS_MAX: usize = 16;

/// The misses by requested name, and the queue of those that the application has not taken.
#[derive(Debug)]
pub(super) struct Misses {
    by_name: BTreeMap<Vec<u8>, Miss>,
    /// Misses that the application has not taken yet, the oldest first. Some may have been removed
    /// from `by_name`.
    queue: VecDeque<Ticket>,
    names_max: usize,
    next_id: u64,
    /// No Interest expires before this time.
    due_ns: u64,
}

/// One requested name.
#[derive(Debug)]
struct Miss {
    id: u64,
    interest: Arc<[u8]>,
    waiters: VecDeque<Waiter>,
    /// Whether the application has taken the miss. A taken miss stays until the application
    /// releases it.
    taken: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    headers: LpHeaders,
    until_ns: u64,
}

/// Identifies one miss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    key: Vec<u8>,
    id: u64,
}

/// The result of adding an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddOutcome {
    /// The Interest is the first for its name: the application must be notified.
    New,
    /// The Interest joined others for the same name.
    Joined,
    /// The table of names is full.
    Full,
}

impl Misses {
    pub(super) fn new(names_max: usize) -> Self {
        Misses { by_name: BTreeMap::new(), queue: VecDeque::new(), names_max, next_id: 0, due_ns: u64::MAX }
    }

    /// Adds `interest`, which waits until `until_ns`.
    pub(super) fn add(
        &mut self,
        interest: &InterestView<'_>,
        headers: LpHeaders,
        until_ns: u64,
    ) -> AddOutcome {
        let key = key(interest.name, interest.can_be_prefix);
        let waiter = Waiter { headers, until_ns };
        self.due_ns = self.due_ns.min(until_ns);
        if let Some(miss) = self.by_name.get_mut(&key) {
            // A retransmission for the same PIT entry of the router replaces the earlier Interest.
            miss.waiters.retain(|known| known.headers.pit_token != headers.pit_token);
            if miss.waiters.len() == WAITERS_MAX {
                miss.waiters.pop_front();
            }
            miss.waiters.push_back(waiter);
            return AddOutcome::Joined;
        }
        if self.by_name.len() >= self.names_max {
            return AddOutcome::Full;
        }
        self.next_id += 1;
        let ticket = Ticket { key: key.clone(), id: self.next_id };
        let interest = Arc::from(interest.wire);
        let miss = Miss { id: ticket.id, interest, waiters: VecDeque::from([waiter]), taken: false };
        self.by_name.insert(key, miss);
        self.queue.push_back(ticket);
        AddOutcome::New
    }

    /// Returns the next miss for the application. It stays until [`Misses::release`].
    pub(super) fn take(&mut self) -> Option<(Ticket, Arc<[u8]>)> {
        while let Some(ticket) = self.queue.pop_front() {
            if let Some(miss) = self.by_name.get_mut(&ticket.key)
                && miss.id == ticket.id
            {
                miss.taken = true;
                return Some((ticket, miss.interest.clone()));
            }
        }
        None
    }

    /// Returns true if [`Misses::take`] would return a miss.
    pub(super) fn is_waiting(&mut self) -> bool {
        while let Some(ticket) = self.queue.front() {
            if self.by_name.get(&ticket.key).is_some_and(|miss| miss.id == ticket.id) {
                return true;
            }
            self.queue.pop_front();
        }
        false
    }

    /// Calls `answered` for each Interest that Data named `name` satisfies. Their miss is removed,
    /// unless the application has taken it.
    pub(super) fn satisfy(&mut self, name: NameRef<'_>, answered: &mut dyn FnMut(LpHeaders)) {
        if self.by_name.is_empty() {
            return;
        }
        self.answer(&key(name, false), answered);
        for components in 0..=name.len() {
            self.answer(&key(name.prefix(components), true), answered);
        }
    }

    fn answer(&mut self, key: &[u8], answered: &mut dyn FnMut(LpHeaders)) {
        let Some(miss) = self.by_name.get_mut(key) else { return };
        miss.waiters.drain(..).for_each(|waiter| answered(waiter.headers));
        if !miss.taken {
            self.by_name.remove(key);
        }
    }

    /// Removes the miss of `ticket`, which the application no longer needs, and returns its waiting
    /// Interests.
    pub(super) fn release(&mut self, ticket: &Ticket) -> Vec<LpHeaders> {
        match self.by_name.get(&ticket.key) {
            Some(miss) if miss.id == ticket.id => {
                let miss = self.by_name.remove(&ticket.key);
                miss.into_iter().flat_map(|miss| miss.waiters).map(|waiter| waiter.headers).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Removes expired Interests. Returns the number of misses that the application never took.
    pub(super) fn expire(&mut self, now_ns: u64) -> u64 {
        if now_ns < self.due_ns {
            return 0;
        }
        let (mut unseen, mut due_ns) = (0, u64::MAX);
        self.by_name.retain(|_, miss| {
            miss.waiters.retain(|waiter| waiter.until_ns > now_ns);
            due_ns = miss.waiters.iter().map(|waiter| waiter.until_ns).fold(due_ns, u64::min);
            let stays = miss.taken || !miss.waiters.is_empty();
            unseen += u64::from(!stays);
            stays
        });
        self.due_ns = due_ns;
        unseen
    }

    /// The time of the next [`Misses::expire`].
    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Number of waiting names.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

/// The key of a miss: a name and whether longer names match.
fn key(name: NameRef<'_>, can_be_prefix: bool) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + name.as_bytes().len());
    key.push(can_be_prefix.into());
    key.extend_from_slice(name.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use namely_testkit::name;
    use namely_wire::{InterestBuilder, PitToken};

    use super::*;

    fn headers(token: u8) -> LpHeaders {
        LpHeaders { pit_token: PitToken::new(&[token]), ..LpHeaders::default() }
    }

    fn add(misses: &mut Misses, interest: &InterestBuilder, token: u8, until_ns: u64) -> AddOutcome {
        misses.add(&InterestView::parse(&interest.build()).unwrap(), headers(token), until_ns)
    }

    fn answered(misses: &mut Misses, uri: &str) -> Vec<u8> {
        let mut tokens = Vec::new();
        let mut note = |headers: LpHeaders| tokens.push(headers.pit_token.unwrap().as_bytes()[0]);
        misses.satisfy(name(uri).as_name(), &mut note);
        tokens
    }

    #[test]
    fn data_answers_all_interests_waiting_for_it() {
        let mut misses = Misses::new(10);
        let exact = InterestBuilder::new(name("/p/a/b"));
        assert_eq!(add(&mut misses, &exact, 1, 50), AddOutcome::New);
        assert_eq!(add(&mut misses, &exact, 2, 60), AddOutcome::Joined);
        assert_eq!(add(&mut misses, &exact, 1, 70), AddOutcome::Joined, "the same entry of a PIT");
        assert_eq!(
            add(&mut misses, &InterestBuilder::new(name("/p/a")).can_be_prefix(), 3, 70),
            AddOutcome::New
        );
        assert_eq!(add(&mut misses, &InterestBuilder::new(name("/p/a")), 4, 70), AddOutcome::New);
        assert_eq!(answered(&mut misses, "/p/a/c"), [3]);
        assert_eq!(answered(&mut misses, "/p/a/b"), [2, 1]);
        assert!(answered(&mut misses, "/p/a/b").is_empty());
        assert_eq!(misses.len(), 1);
        // Only misses with waiting Interests reach the application.
        let (ticket, interest) = misses.take().unwrap();
        assert_eq!(InterestView::parse(&interest).unwrap().name, name("/p/a").as_name());
        assert!(misses.take().is_none() && !misses.is_waiting());
        assert_eq!(misses.release(&ticket).len(), 1);
        assert_eq!(misses.len(), 0);
    }

    #[test]
    fn a_taken_miss_is_not_delivered_twice() {
        let mut misses = Misses::new(10);
        let interest = InterestBuilder::new(name("/p/a"));
        add(&mut misses, &interest, 1, 50);
        let (ticket, _) = misses.take().unwrap();
        assert_eq!(misses.expire(50), 0);
        assert_eq!(add(&mut misses, &interest, 2, 150), AddOutcome::Joined);
        assert!(!misses.is_waiting());
        assert_eq!(misses.release(&ticket).len(), 1);
        assert_eq!(add(&mut misses, &interest, 3, 150), AddOutcome::New);
        // An outdated ticket does not affect the new miss.
        assert!(misses.release(&ticket).is_empty());
        assert!(misses.is_waiting());
    }

    #[test]
    fn pending_misses_end_with_their_interest_lifetime() {
        let mut misses = Misses::new(10);
        add(&mut misses, &InterestBuilder::new(name("/p/a")), 1, 50);
        add(&mut misses, &InterestBuilder::new(name("/p/b")), 1, 60);
        assert_eq!((misses.expire(49), misses.due_ns(), misses.len()), (0, 50, 2));
        assert_eq!((misses.expire(50), misses.due_ns(), misses.len()), (1, 60, 1));
        assert_eq!((misses.expire(60), misses.due_ns(), misses.len()), (1, u64::MAX, 0));
        assert!(!misses.is_waiting());
    }

    #[test]
    fn waiting_names_and_interests_are_limited() {
        let mut misses = Misses::new(2);
        for uri in ["/p/a", "/p/b"] {
            assert_eq!(add(&mut misses, &InterestBuilder::new(name(uri)), 1, 50), AddOutcome::New);
        }
        assert_eq!(add(&mut misses, &InterestBuilder::new(name("/p/c")), 1, 50), AddOutcome::Full);
        for token in 1..=WAITERS_MAX as u8 + 1 {
            add(&mut misses, &InterestBuilder::new(name("/p/a")), token, 50);
        }
        let tokens = answered(&mut misses, "/p/a");
        assert_eq!((tokens.len(), tokens[0]), (WAITERS_MAX, 2), "the oldest gave way");
    }
}
