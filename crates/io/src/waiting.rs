//! Sources that wait for their part of a worker's turn.
//!
//! They are ordered by their holder and by the time that the holder has used. The holder that has
//! used the least of the worker's time is served next. A holder therefore gets no more than another
//! by a thousand busy faces or by expensive packets. A holder that needs less than its share is
//! served as soon as it has something.
//!
//! Holders are in classes, which share the worker's time by fixed parts while all of them have
//! work. Addresses cost nothing, so any number of hosts must not reduce the part of root and of the
//! users of this machine. Time that one class does not use is available to the others.
//!
//! Holders whose packets are hardly ever answered are an exception. They send Interests for absent
//! Data, unsolicited Data, or fragments without the rest. The work for them is wasted, and on a
//! busy machine it takes processors from other programs. All of them together have a fixed part of
//! a worker's time, however idle the worker is. Beyond it their sockets are not watched, and the
//! kernel drops the packets that do not fit its buffers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::{BitOr, BitOrAssign};

use namely_host::shares::Owner;

use crate::id::SourceId;

/// Sources that are served in any turn, if there are as many. Fewer are not worth a poll.
const SERVED_MIN: usize = 4;

/// Time that is charged to a holder for one serving.
///
/// Forwarding and writing for the holder count, too. A worker may be preempted while it serves, and
/// the holder must not pay for that.
///
/// # Limit
/// The rest of the time is charged to no holder.
/// - Tests: `one_serving_has_a_maximum_charge`
const CHARGED_NS_MAX: u64 = 2_000_000;

/// The credit of a holder without waiting sources when one of its sources becomes ready, ns. With
/// it, a holder that needs little does not wait until each of many others has been served.
const COMING_CREDIT_NS: u64 = 1_000_000;

/// Holders without waiting sources whose use of time is retained.
///
/// # Limit
/// Holders that have used no more time than others are forgotten, or all of them.
/// - Tests: `the_number_of_remembered_holders_is_bounded`
const ACCOUNTS_IDLE_MAX: usize = 1024;

/// Parts of a worker's time while more work waits than fits.
///
/// Each number is the charge of a class for one ns: of root and the router, of users, of listeners,
/// of hosts, and of unanswered holders. Within a class, each holder has as much as another, and the
/// holder that has used the least time is served next.
///
/// # Limit
/// The source waits, and the kernel drops datagrams that its socket cannot hold.
/// - Value: of 21 parts root has 8, users 4, listeners 4, hosts 4, and unanswered holders 1
/// - Counter: `kernel_buffer_full`
/// - Tests: `hosts_leave_root_and_users_their_shares`,
///   `many_sources_give_no_extra_turns`,
///   `slow_sources_are_served_less_often`,
///   `modest_sources_are_served_first`,
///   `unused_time_is_not_saved_up`, `unused_class_time_goes_to_others`
const PRICES: [u64; CLASSES] = [1, 2, 2, 2, 8];

const CLASSES: usize = 5;

/// The class of unanswered holders.
const UNANSWERED: usize = 4;

/// Part of a worker's time for holders that are not answered.
///
/// It holds whether or not others have work: one ns in so many. Unused time is saved up to
/// [`UNANSWERED_CREDIT_NS`].
///
/// # Limit
/// The sockets of these holders are not watched until they have time again.
/// - Value: one 32nd, of which 20 ms may be saved up
/// - Counter: `kernel_buffer_full`
/// - Tests: `unanswered_holders_get_a_small_share`,
///   `an_unanswered_peer_delays_no_other`,
///   `unanswered_hosts_delay_no_other_holder`
pub(crate) const UNANSWERED_PART: u64 = 32;

/// The longest idle time that counts as credit for unanswered holders, ns.
const UNANSWERED_CREDIT_NS: u64 = 20_000_000;

/// Packets of a holder before its answers are judged.
///
/// # Limit
/// The holder may count as not answered.
/// - Tests: `judgment_starts_at_a_packet_count`
const JUDGED_PACKETS: u64 = 64;

/// Time that a packet waits for its answer before it is judged.
///
/// A distant consumer may send a whole window of Interests before the first answer arrives.
///
/// # Limit
/// The packet counts in the judgement of its holder.
/// - Tests: `recent_requests_may_still_be_answered`
const JUDGED_AFTER_NS: u64 = 200_000_000;

/// Packets of a user or host for each packet sent to it.
///
/// Only packets that had arrived by the previous judgement count. Nacks are no answers, and four
/// frames that complete no packet count as one. Root, the router and groups are always answered.
///
/// # Limit
/// The holder counts as not answered.
/// - Tests: `rarely_answered_holders_count_as_unanswered`,
///   `root_and_groups_are_never_judged`
const PACKETS_PER_ANSWER: u64 = 8;

/// The weight of a packet. A fragment that completes none weighs one.
const PACKET_WEIGHT: u64 = 4;

/// The account to which a source belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AccountKey {
    Listener(SourceId),
    Face(Owner),
}

impl AccountKey {
    fn class(self, is_answered: bool) -> usize {
        match self {
            AccountKey::Face(Owner::Root) => 0,
            AccountKey::Face(Owner::Uid(_)) if !is_answered => UNANSWERED,
            // Members of a group need not answer, because packets to a group do not address one of
            // them.
            AccountKey::Face(Owner::Address(address)) if !is_answered && !address.is_multicast() => {
                UNANSWERED
            }
            AccountKey::Face(holder) if holder.is_local() => 1,
            AccountKey::Listener(_) => 2,
            AccountKey::Face(_) => 3,
        }
    }
}

/// The readiness for which a source waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Readiness(u8);

impl Readiness {
    pub(crate) const NOTHING: Readiness = Readiness(0);
    pub(crate) const READ: Readiness = Readiness(1);
    pub(crate) const WRITE: Readiness = Readiness(2);
    /// Its timer was due.
    pub(crate) const TIMER: Readiness = Readiness(4);

    pub(crate) fn has(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Readiness(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// The sources that wait; each of them once.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    classes: [Class; CLASSES],
    accounts: Vec<Account>,
    numbers: BTreeMap<AccountKey, usize>,
    /// Free numbers of accounts.
    spares: Vec<usize>,
    /// The number of the latest entry. It orders entries with equal keys by their arrival.
    entered: u64,
    /// Number of accounts with sources that wait.
    busy: usize,
    /// The used time of the class that was served last, multiplied by its price, ns.
    now_ns: u64,
    /// The start of the turn on the worker's clock, ns.
    begun_ns: u64,
    /// The time from which unanswered holders may be served, on the same clock, ns.
    unanswered_ns: u64,
    /// The account whose source is being served.
    current: Option<usize>,
    /// Number of accounts that are still to be served in this turn, if there is time.
    left: usize,
    /// The accounts served in this turn, with the number of frames of each.
    served: Vec<(usize, u64)>,
    /// The part of this turn that was charged already, ns.
    charged_ns: u64,
    /// Whether an account that was served in this turn has no waiting source left.
    is_one_dry: bool,
}

/// Holders that share one part of the worker's time.
#[derive(Debug, Default)]
struct Class {
    /// Time used, multiplied by the class's price, ns.
    used_ns: u64,
    /// The used time of the account that was served last, ns.
    now_ns: u64,
    /// Accounts with waiting sources, each once, by their used time when they were entered.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
}

#[derive(Debug)]
struct Account {
    key: AccountKey,
    class: usize,
    /// The weights of the packets from the account and of those sent to it. Each judgment halves
    /// both.
    received: u64,
    answered: u64,
    /// Time of the last judgment, ns, and the weight of its packets by then. Later packets may
    /// still be answered.
    judged_ns: u64,
    judged_received: u64,
    /// Time used, ns. Raised to that of its class when the account becomes busy.
    used_ns: u64,
    /// `used_ns` at the time when the account was entered into the order.
    entered_ns: u64,
    queue: VecDeque<SourceId>,
}

impl Account {
    /// Judges whether it is answered. An unanswered account recovers as soon as it is answered.
    fn judge(&mut self, now_ns: u64) {
        let is_due = now_ns.saturating_sub(self.judged_ns) >= JUDGED_AFTER_NS;
        let is_known = self.judged_received >= JUDGED_PACKETS * PACKET_WEIGHT;
        let is_answered = self.answered * PACKETS_PER_ANSWER >= self.judged_received;
        let is_forgiven = self.class == UNANSWERED && is_answered && self.judged_received > 0;
        if (is_known && is_due) || is_forgiven {
            let class = self.key.class(is_answered);
            if class != self.class {
                // Each class counts its own time.
                (self.class, self.used_ns) = (class, 0);
            }
        }
        if is_known && is_due {
            // Halved, so that older packets weigh ever less.
            (self.received, self.answered) = (self.received / 2, self.answered / 2);
        }
        if is_due || (!is_known && self.received >= JUDGED_PACKETS * PACKET_WEIGHT) {
            (self.judged_ns, self.judged_received) = (now_ns, self.received);
        }
    }
}

impl Waiting {
    /// Returns true if a source waits beside the one that is being served.
    pub(crate) fn has_more(&self) -> bool {
        let own = self.current.and_then(|number| self.accounts.get(number));
        self.busy > usize::from(own.is_some_and(|account| account.queue.is_empty()))
    }

    /// Puts in a source that does not wait yet.
    pub(crate) fn push(&mut self, key: AccountKey, id: SourceId) {
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => self.open(key),
        };
        let Some(account) = self.accounts.get_mut(number) else { return };
        account.queue.push_back(id);
        // The account that is being served is entered by `end`.
        if account.queue.len() == 1 && self.current != Some(number) {
            self.busy += 1;
            self.enter(number, true);
        }
    }

    fn open(&mut self, key: AccountKey) -> usize {
        if self.numbers.len() - self.busy > ACCOUNTS_IDLE_MAX {
            self.forget();
        }
        let number = self.spares.pop().unwrap_or(self.accounts.len());
        // An unknown holder counts as answered until it is judged.
        let class = key.class(true);
        let mut account = Account {
            key,
            class,
            received: 0,
            answered: 0,
            judged_ns: self.begun_ns,
            judged_received: 0,
            used_ns: 0,
            entered_ns: 0,
            queue: VecDeque::new(),
        };
        match self.accounts.get_mut(number) {
            Some(before) => {
                // The queue is empty, and its memory is reused.
                account.queue = std::mem::take(&mut before.queue);
                *before = account;
            }
            None => self.accounts.push(account),
        }
        self.numbers.insert(key, number);
        number
    }

    /// Removes idle accounts. Those that have used more time than others of their class stay,
    /// unless there are too many of them.
    fn forget(&mut self) {
        let Waiting { classes, accounts, numbers, spares, current, served, .. } = self;
        let mut forget = |may_owe: bool| {
            numbers.retain(|_, number| {
                let account = &accounts[*number];
                // `end_turn` still charges the accounts that were served in this turn.
                let is_idle = account.queue.is_empty()
                    && *current != Some(*number)
                    && served.iter().all(|(served, _)| served != number);
                let owes = account.used_ns > classes[account.class].now_ns;
                let keeps = !is_idle || (owes && may_owe);
                if !keeps {
                    spares.push(*number);
                }
                keeps
            });
            numbers.len()
        };
        if forget(true) > ACCOUNTS_IDLE_MAX / 2 {
            forget(false);
        }
    }

    /// Enters an account into the order of its class. One that has just become busy precedes
    /// accounts that still wait and have used a little less.
    fn enter(&mut self, number: usize, comes: bool) {
        let Some(account) = self.accounts.get_mut(number) else { return };
        let class = &mut self.classes[account.class];
        // An account cannot save up time while it is idle. An account that was busy has not used
        // less than this.
        account.used_ns = account.used_ns.max(class.now_ns);
        class.used_ns = class.used_ns.max(self.now_ns);
        self.entered += 1;
        account.entered_ns = account.used_ns;
        let credit_ns = if comes { COMING_CREDIT_NS } else { 0 };
        let key_ns = account.used_ns.saturating_sub(credit_ns);
        class.order.push(Reverse((key_ns, self.entered, number)));
    }

    /// Begins a turn at this time.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
        (self.left, self.is_one_dry) = (self.busy, false);
        (self.charged_ns, self.current) = (0, None);
        self.served.clear();
    }

    /// Returns the source to serve next. [`Waiting::end`] must be called after it was served.
    /// Returns `None` at the end of a turn. A turn ends when no source waits. It also ends when as
    /// many sources were served as accounts waited, and one of these accounts has no source left:
    /// the next poll may find more of its sources.
    pub(crate) fn next(&mut self) -> Option<SourceId> {
        // Ends the serving of a source that was removed meanwhile.
        self.end(None);
        if self.left == 0 {
            if self.is_one_dry && self.served.len() >= SERVED_MIN {
                return None;
            }
            self.left = self.busy;
        }
        loop {
            let may = |number: usize| number != UNANSWERED || !self.is_closed();
            let waits = |number: &usize| !self.classes[*number].order.is_empty() && may(*number);
            let class = (0..CLASSES).filter(waits).min_by_key(|number| self.classes[*number].used_ns)?;
            let class = &mut self.classes[class];
            let Reverse((key_ns, _, number)) = class.order.pop()?;
            let account = self.accounts.get_mut(number)?;
            // The account was charged for the rest of a turn after it was entered, so its key is
            // too low.
            if account.used_ns > account.entered_ns {
                self.enter(number, false);
                continue;
            }
            // Time never goes back, although the credit places keys before the present.
            (class.now_ns, self.now_ns) = (class.now_ns.max(key_ns), self.now_ns.max(class.used_ns));
            (self.current, self.left) = (Some(number), self.left.saturating_sub(1));
            self.served.push((number, 0));
            return account.queue.pop_front();
        }
    }

    /// Records the results of the source that is being served: frames, packets completed by them,
    /// and packets sent to it since it was last served.
    pub(crate) fn note(&mut self, frames: u64, packets: u64, answers: u64) {
        let (Some(number), Some((_, all))) = (self.current, self.served.last_mut()) else { return };
        *all += frames;
        let Some(account) = self.accounts.get_mut(number) else { return };
        account.received += packets * PACKET_WEIGHT + frames.saturating_sub(packets);
        account.answered += answers * PACKET_WEIGHT;
        account.judge(self.begun_ns);
    }

    /// Returns true if the unanswered holders have used up their time.
    fn is_closed(&self) -> bool {
        self.unanswered_ns > self.begun_ns
    }

    /// Returns true if a holder whose source is ready has to wait until [`Waiting::due_ns`].
    pub(crate) fn must_rest(&self, key: AccountKey) -> bool {
        let is_unanswered =
            |number: &usize| self.accounts.get(*number).is_some_and(|account| account.class == UNANSWERED);
        self.is_closed() && self.numbers.get(&key).is_some_and(is_unanswered)
    }

    /// Returns the time at which a source may be served, ns. 0 means at once.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let waits = |class: &Class| !class.order.is_empty();
        let (unanswered, others) = self.classes.split_last()?;
        if others.iter().any(waits) {
            return Some(0);
        }
        waits(unanswered).then_some(self.unanswered_ns)
    }

    /// Ends the service of the source, `since_ns` after the turn began. If the clock was not read,
    /// `end_turn` charges that time.
    pub(crate) fn end(&mut self, since_ns: Option<u64>) {
        let Some(number) = self.current.take() else { return };
        if let Some(since_ns) = since_ns {
            let spent_ns = since_ns.saturating_sub(self.charged_ns);
            self.charged_ns = since_ns;
            self.charge(number, spent_ns.min(CHARGED_NS_MAX));
        }
        if self.accounts.get(number).is_some_and(|account| !account.queue.is_empty()) {
            self.enter(number, false);
        } else {
            (self.is_one_dry, self.busy) = (true, self.busy.saturating_sub(1));
        }
    }

    /// Ends the turn, which took `turn_ns`. The uncharged rest is split among the served accounts
    /// by their frames, because forwarding and writing these took that time.
    pub(crate) fn end_turn(&mut self, turn_ns: u64) {
        let rest_ns = turn_ns.saturating_sub(self.charged_ns);
        // One is added, because a source without frames took time, too.
        let all: u64 = self.served.iter().map(|(_, frames)| frames + 1).sum();
        while let Some((number, frames)) = self.served.pop() {
            // The product of nanoseconds and frames may exceed 64 bits.
            let part_ns = u128::from(rest_ns) * u128::from(frames + 1) / u128::from(all.max(1));
            self.charge(number, (part_ns as u64).min(CHARGED_NS_MAX));
        }
    }

    fn charge(&mut self, number: usize, ns: u64) {
        let Some(account) = self.accounts.get_mut(number) else { return };
        account.used_ns = account.used_ns.saturating_add(ns);
        let class = account.class;
        if class == UNANSWERED {
            // Idle time counts as credit up to its limit.
            let from_ns = self.unanswered_ns.max(self.begun_ns.saturating_sub(UNANSWERED_CREDIT_NS));
            self.unanswered_ns = from_ns.saturating_add(ns.saturating_mul(UNANSWERED_PART));
        }
        let used_ns = &mut self.classes[class].used_ns;
        *used_ns = used_ns.saturating_add(ns.saturating_mul(PRICES[class]));
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
