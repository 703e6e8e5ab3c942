//! Interests that nothing published answers: they wait for the application, or for whoever
//! publishes what they ask for (HT-22). A state machine without I/O; bounded by `requests_max`
//! names, [`WAITERS_MAX`] Interests each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use namely_wire::{InterestView, LpHeaders, NameRef};

/// Interests of one name that wait; the oldest gives way. A router sends one at a time.
pub(crate) const WAITERS_MAX: usize = 16;

/// Names that wait, by the number of the miss and by what is asked for.
#[derive(Debug)]
pub(super) struct Misses {
    by_name: BTreeMap<Vec<u8>, Miss>,
    /// Misses that the application has not seen yet, the oldest first; some may be gone.
    queue: VecDeque<Ticket>,
    names_max: usize,
    next_id: u64,
    /// No Interest is over before.
    due_ns: u64,
}

/// One name that is asked for.
#[derive(Debug)]
struct Miss {
    id: u64,
    interest: Arc<[u8]>,
    waiters: VecDeque<Waiter>,
    /// Whether the application has it: then it stays until the application is done with it.
    taken: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    headers: LpHeaders,
    until_ns: u64,
}

/// Names one miss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    key: Vec<u8>,
    id: u64,
}

/// What became of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It is the first for its name: the application is to be told.
    New,
    /// It waits with another one.
    Joined,
    /// There is no room for another name.
    Full,
}

impl Misses {
    pub(super) fn new(names_max: usize) -> Self {
        Misses { by_name: BTreeMap::new(), queue: VecDeque::new(), names_max, next_id: 0, due_ns: u64::MAX }
    }

    /// Lets `interest` wait until `until_ns`.
    pub(super) fn add(&mut self, interest: &InterestView<'_>, headers: LpHeaders, until_ns: u64) -> Added {
        let key = key(interest.name, interest.can_be_prefix);
        let waiter = Waiter { headers, until_ns };
        self.due_ns = self.due_ns.min(until_ns);
        if let Some(miss) = self.by_name.get_mut(&key) {
            // The router's own next try for the same entry of its PIT takes the place of the first.
            miss.waiters.retain(|known| known.headers.pit_token != headers.pit_token);
            if miss.waiters.len() == WAITERS_MAX {
                miss.waiters.pop_front();
            }
            miss.waiters.push_back(waiter);
            return Added::Joined;
        }
        if self.by_name.len() >= self.names_max {
            return Added::Full;
        }
        self.next_id += 1;
        let ticket = Ticket { key: key.clone(), id: self.next_id };
        let interest = Arc::from(interest.wire);
        let miss = Miss { id: ticket.id, interest, waiters: VecDeque::from([waiter]), taken: false };
        self.by_name.insert(key, miss);
        self.queue.push_back(ticket);
        Added::New
    }

    /// The next miss for the application: it stays until [`Misses::release`].
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

    /// Returns true if [`Misses::take`] has one.
    pub(super) fn is_waiting(&mut self) -> bool {
        while let Some(ticket) = self.queue.front() {
            if self.by_name.get(&ticket.key).is_some_and(|miss| miss.id == ticket.id) {
                return true;
            }
            self.queue.pop_front();
        }
        false
    }

    /// Who waits for a Data named `name`: they are answered. Their miss is over, unless the
    /// application has it.
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

    /// Who waits on `ticket`; the application is done with it.
    pub(super) fn release(&mut self, ticket: &Ticket) -> Vec<LpHeaders> {
        match self.by_name.get(&ticket.key) {
            Some(miss) if miss.id == ticket.id => {
                let miss = self.by_name.remove(&ticket.key);
                miss.into_iter().flat_map(|miss| miss.waiters).map(|waiter| waiter.headers).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Forgets Interests that are over; how many misses the application never saw.
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

    /// When to call [`Misses::expire`] next.
    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Names that wait.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

/// What is asked for: a name, or what is below it.
fn key(name: NameRef<'_>, can_be_prefix: bool) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + name.as_bytes().len());
    key.push(can_be_prefix.into());
    key.extend_from_slice(name.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use namely_wire::{InterestBuilder, Name, PitToken};

    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    fn headers(token: u8) -> LpHeaders {
        LpHeaders { pit_token: PitToken::new(&[token]), ..LpHeaders::default() }
    }

    fn add(misses: &mut Misses, interest: &InterestBuilder, token: u8, until_ns: u64) -> Added {
        misses.add(&InterestView::parse(&interest.build()).unwrap(), headers(token), until_ns)
    }

    fn answered(misses: &mut Misses, uri: &str) -> Vec<u8> {
        let mut tokens = Vec::new();
        let mut note = |headers: LpHeaders| tokens.push(headers.pit_token.unwrap().as_bytes()[0]);
        misses.satisfy(name(uri).as_name(), &mut note);
        tokens
    }

    #[test]
    fn a_name_waits_once_and_data_answers_all_who_ask_for_it_or_for_a_prefix() {
        let mut misses = Misses::new(10);
        let exact = InterestBuilder::new(name("/p/a/b"));
        assert_eq!(add(&mut misses, &exact, 1, 50), Added::New);
        assert_eq!(add(&mut misses, &exact, 2, 60), Added::Joined);
        assert_eq!(add(&mut misses, &exact, 1, 70), Added::Joined, "the same entry of a PIT");
        assert_eq!(add(&mut misses, &InterestBuilder::new(name("/p/a")).can_be_prefix(), 3, 70), Added::New);
        assert_eq!(add(&mut misses, &InterestBuilder::new(name("/p/a")), 4, 70), Added::New);
        assert_eq!(answered(&mut misses, "/p/a/c"), [3]);
        assert_eq!(answered(&mut misses, "/p/a/b"), [2, 1]);
        assert!(answered(&mut misses, "/p/a/b").is_empty());
        assert_eq!(misses.len(), 1);
        // Only what still waits reaches the application.
        let (ticket, interest) = misses.take().unwrap();
        assert_eq!(InterestView::parse(&interest).unwrap().name, name("/p/a").as_name());
        assert!(misses.take().is_none() && !misses.is_waiting());
        assert_eq!(misses.release(&ticket).len(), 1);
        assert_eq!(misses.len(), 0);
    }

    #[test]
    fn what_the_application_has_stays_until_it_is_done_and_is_not_shown_twice() {
        let mut misses = Misses::new(10);
        let interest = InterestBuilder::new(name("/p/a"));
        add(&mut misses, &interest, 1, 50);
        let (ticket, _) = misses.take().unwrap();
        assert_eq!(misses.expire(50), 0);
        assert_eq!(add(&mut misses, &interest, 2, 150), Added::Joined);
        assert!(!misses.is_waiting());
        assert_eq!(misses.release(&ticket).len(), 1);
        assert_eq!(add(&mut misses, &interest, 3, 150), Added::New);
        // A ticket of the past does not touch the new one.
        assert!(misses.release(&ticket).is_empty());
        assert!(misses.is_waiting());
    }

    #[test]
    fn interests_end_with_their_lifetime() {
        let mut misses = Misses::new(10);
        add(&mut misses, &InterestBuilder::new(name("/p/a")), 1, 50);
        add(&mut misses, &InterestBuilder::new(name("/p/b")), 1, 60);
        assert_eq!((misses.expire(49), misses.due_ns(), misses.len()), (0, 50, 2));
        assert_eq!((misses.expire(50), misses.due_ns(), misses.len()), (1, 60, 1));
        assert_eq!((misses.expire(60), misses.due_ns(), misses.len()), (1, u64::MAX, 0));
        assert!(!misses.is_waiting());
    }

    #[test]
    fn names_and_interests_of_a_name_are_limited() {
        let mut misses = Misses::new(2);
        for uri in ["/p/a", "/p/b"] {
            assert_eq!(add(&mut misses, &InterestBuilder::new(name(uri)), 1, 50), Added::New);
        }
        assert_eq!(add(&mut misses, &InterestBuilder::new(name("/p/c")), 1, 50), Added::Full);
        for token in 1..=WAITERS_MAX as u8 + 1 {
            add(&mut misses, &InterestBuilder::new(name("/p/a")), token, 50);
        }
        let tokens = answered(&mut misses, "/p/a");
        assert_eq!((tokens.len(), tokens[0]), (WAITERS_MAX, 2), "the oldest gave way");
    }
}
