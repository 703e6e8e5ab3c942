//! Sources that wait for their part of a worker's turn.
//!
//! They have it by whom they are counted for, and by what serving those has taken: who has had
//! least of the worker's time is served next, so that neither a thousand busy faces nor packets
//! that are dear give anybody more than another has. Whoever needs less than its share is served
//! as soon as it comes.
//!
//! Holders are of four classes, which share the worker's time by fixed parts as long as all of them
//! want it: however many hosts there are, and addresses cost nothing, they take nothing of what is
//! for root and for users of this machine. What one class does not use the others have.
//!
//! Not so those of whose packets hardly any is answered: Interests for what nobody has, Data that
//! nobody asked for, fragments without the rest. What is done for them is done for nothing, and on
//! a busy machine it takes the processors from the programs of others. However idle a worker is,
//! all of them together have a fixed part of its time; meanwhile their sockets are not watched, and
//! what does not fit there the kernel drops.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::{BitOr, BitOrAssign};

use namely_host::shares::Holder;

use crate::id::SourceId;

/// Sources that are served in any turn, if there are as many: a poll is not worth fewer.
const SERVED_MIN: usize = 4;

/// Most that one serving is charged, ns: a worker that has to wait for a processor meanwhile would
/// charge somebody for that.
const CHARGED_NS_MAX: u64 = 2_000_000;

/// By how much less a holder of whom nothing waited counts as having used when something comes, ns:
/// whoever needs little does not wait until each of many others has had a turn.
const COMING_CREDIT_NS: u64 = 1_000_000;

/// Holders without sources that wait whose use of time is remembered.
const ACCOUNTS_IDLE_MAX: usize = 1024;

/// What a class is charged for a ns: of a worker's time, while all want it, root has eight parts,
/// users, listeners and hosts have four each, and those who are not answered one.
const PRICES: [u64; CLASSES] = [1, 2, 2, 2, 8];

const CLASSES: usize = 5;

/// The class of those who are not answered.
const UNANSWERED: usize = 4;

/// What those who are not answered have of a worker's time, whether or not others want it: one ns
/// in so many.
pub(crate) const UNANSWERED_PART: u64 = 32;

/// For how long they may use no time and have more later, ns.
const UNANSWERED_CREDIT_NS: u64 = 20_000_000;

/// From how many packets on a holder is judged by how many of them are answered.
const JUDGED_PACKETS: u64 = 64;

/// How long a packet has to be answered before it is judged, ns: a consumer far away may have
/// asked for a whole window before the first answer is there.
const JUDGED_AFTER_NS: u64 = 200_000_000;

/// A holder is not answered if for so many of its packets that came by the judgement before less
/// than one was sent to it by now.
const PACKETS_PER_ANSWER: u64 = 8;

/// What a packet counts; a fragment that completes none counts one.
const PACKET_WEIGHT: u64 = 4;

/// Who is served in turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Whose {
    Listener(SourceId),
    Face(Holder),
}

impl Whose {
    fn class(self, is_answered: bool) -> usize {
        match self {
            Whose::Face(Holder::Root) => 0,
            Whose::Face(Holder::Uid(_)) if !is_answered => UNANSWERED,
            // Who listens to a group need not answer: it is not meant alone.
            Whose::Face(Holder::Address(address)) if !is_answered && !address.is_multicast() => UNANSWERED,
            Whose::Face(holder) if holder.is_local() => 1,
            Whose::Listener(_) => 2,
            Whose::Face(_) => 3,
        }
    }
}

/// What a source waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted(u8);

impl Wanted {
    pub(crate) const NOTHING: Wanted = Wanted(0);
    pub(crate) const READ: Wanted = Wanted(1);
    pub(crate) const WRITE: Wanted = Wanted(2);
    /// Its timer was due.
    pub(crate) const TIMER: Wanted = Wanted(4);

    pub(crate) fn has(self, other: Wanted) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Wanted {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Wanted(self.0 | other.0)
    }
}

impl BitOrAssign for Wanted {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// The sources that wait; each of them once.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    classes: [Class; CLASSES],
    accounts: Vec<Account>,
    numbers: BTreeMap<Whose, usize>,
    /// Numbers of accounts that nobody has.
    spares: Vec<usize>,
    /// Numbers its entries in the order in which they came.
    entered: u64,
    /// How many accounts have sources that wait.
    busy: usize,
    /// The time that the class served last had used when it was, by its price, ns.
    now_ns: u64,
    /// When the turn began, on the worker's clock, ns.
    begun_ns: u64,
    /// From when on those who are not answered have time, on the same clock, ns.
    unanswered_ns: u64,
    /// Whose source is being served.
    current: Option<usize>,
    /// How many are still to be served in this turn, if there is time.
    left: usize,
    /// Who was served in this turn, and how many frames came of it.
    served: Vec<(usize, u64)>,
    /// What of this turn was charged already, ns.
    charged_ns: u64,
    /// Nothing is left of somebody who was served in this turn.
    is_one_dry: bool,
}

/// Holders that share one part of the worker's time.
#[derive(Debug, Default)]
struct Class {
    /// Time used, by the class's price, ns.
    used_ns: u64,
    /// What the account served last had used when it was, ns.
    now_ns: u64,
    /// Accounts with sources that wait, each once, by what they had used when they were entered.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
}

#[derive(Debug)]
struct Account {
    whose: Whose,
    class: usize,
    /// What came from it, and what was sent to it, weighted; halved now and then.
    asked: u64,
    answered: u64,
    /// When it was judged last, ns, and what it had asked for by then: what came later may be
    /// answered yet.
    judged_ns: u64,
    judged_asked: u64,
    /// Time used, ns. Never less than what others of the class had used when it came.
    used_ns: u64,
    /// The same when it was entered into the order.
    entered_ns: u64,
    queue: VecDeque<SourceId>,
}

impl Account {
    /// Judges whether it is answered. Who was not is forgiven as soon as it is.
    fn judge(&mut self, now_ns: u64) {
        let is_due = now_ns.saturating_sub(self.judged_ns) >= JUDGED_AFTER_NS;
        let is_known = self.judged_asked >= JUDGED_PACKETS * PACKET_WEIGHT;
        let is_answered = self.answered * PACKETS_PER_ANSWER >= self.judged_asked;
        let is_forgiven = self.class == UNANSWERED && is_answered && self.judged_asked > 0;
        if (is_known && is_due) || is_forgiven {
            let class = self.whose.class(is_answered);
            if class != self.class {
                // Each class has a time of its own.
                (self.class, self.used_ns) = (class, 0);
            }
        }
        if is_known && is_due {
            (self.asked, self.answered) = (self.asked / 2, self.answered / 2);
        }
        if is_due || (!is_known && self.asked >= JUDGED_PACKETS * PACKET_WEIGHT) {
            (self.judged_ns, self.judged_asked) = (now_ns, self.asked);
        }
    }
}

impl Waiting {
    /// Whether something waits beside the source that is being served.
    pub(crate) fn has_more(&self) -> bool {
        let own = self.current.and_then(|number| self.accounts.get(number));
        self.busy > usize::from(own.is_some_and(|account| account.queue.is_empty()))
    }

    /// Puts in a source that is not in.
    pub(crate) fn push(&mut self, whose: Whose, id: SourceId) {
        let number = match self.numbers.get(&whose) {
            Some(number) => *number,
            None => self.open(whose),
        };
        let Some(account) = self.accounts.get_mut(number) else { return };
        account.queue.push_back(id);
        if account.queue.len() == 1 && self.current != Some(number) {
            self.busy += 1;
            self.enter(number, true);
        }
    }

    fn open(&mut self, whose: Whose) -> usize {
        if self.numbers.len() - self.busy > ACCOUNTS_IDLE_MAX {
            self.forget();
        }
        let number = self.spares.pop().unwrap_or(self.accounts.len());
        let class = whose.class(true);
        let mut account = Account {
            whose,
            class,
            asked: 0,
            answered: 0,
            judged_ns: self.begun_ns,
            judged_asked: 0,
            used_ns: 0,
            entered_ns: 0,
            queue: VecDeque::new(),
        };
        match self.accounts.get_mut(number) {
            Some(before) => {
                // It is empty, and keeps its memory.
                account.queue = std::mem::take(&mut before.queue);
                *before = account;
            }
            None => self.accounts.push(account),
        }
        self.numbers.insert(whose, number);
        number
    }

    /// Forgets who has nothing that waits, but for those that have used more than others of their
    /// class; and these too if they are too many.
    fn forget(&mut self) {
        let Waiting { classes, accounts, numbers, spares, current, served, .. } = self;
        let mut forget = |may_owe: bool| {
            numbers.retain(|_, number| {
                let account = &accounts[*number];
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

    /// Enters an account into the order of its class. One that comes is before those that wait on
    /// and have used a little less.
    fn enter(&mut self, number: usize, comes: bool) {
        let Some(account) = self.accounts.get_mut(number) else { return };
        let class = &mut self.classes[account.class];
        // Nobody saves up time that he did not want. Who wanted it has not had less.
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

    /// The source that is served next; [`Waiting::end`] tells when it was. `None` at the end of a
    /// turn: when nothing waits, or as many were served as waited and one of them, of whom nothing
    /// waits now, may have more by the next look at what is ready.
    pub(crate) fn next(&mut self) -> Option<SourceId> {
        // One that has gone had its turn for nothing.
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
            // It was charged for the rest of a turn meanwhile.
            if account.used_ns > account.entered_ns {
                self.enter(number, false);
                continue;
            }
            (class.now_ns, self.now_ns) = (class.now_ns.max(key_ns), self.now_ns.max(class.used_ns));
            (self.current, self.left) = (Some(number), self.left.saturating_sub(1));
            self.served.push((number, 0));
            return account.queue.pop_front();
        }
    }

    /// Notes what came of the source that is being served: frames, the packets that were complete
    /// with them, and how many packets were sent there since it was served last.
    pub(crate) fn note(&mut self, frames: u64, packets: u64, answers: u64) {
        let (Some(number), Some((_, all))) = (self.current, self.served.last_mut()) else { return };
        *all += frames;
        let Some(account) = self.accounts.get_mut(number) else { return };
        account.asked += packets * PACKET_WEIGHT + frames.saturating_sub(packets);
        account.answered += answers * PACKET_WEIGHT;
        account.judge(self.begun_ns);
    }

    /// Whether those who are not answered have had their time.
    fn is_closed(&self) -> bool {
        self.unanswered_ns > self.begun_ns
    }

    /// Whether a holder whose source is ready has to wait until [`Waiting::due_ns`].
    pub(crate) fn must_rest(&self, whose: Whose) -> bool {
        let is_unanswered =
            |number: &usize| self.accounts.get(*number).is_some_and(|account| account.class == UNANSWERED);
        self.is_closed() && self.numbers.get(&whose).is_some_and(is_unanswered)
    }

    /// When a source may be served, ns: 0 for at once.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let waits = |class: &Class| !class.order.is_empty();
        let (unanswered, others) = self.classes.split_last()?;
        if others.iter().any(waits) {
            return Some(0);
        }
        waits(unanswered).then_some(self.unanswered_ns)
    }

    /// The source was served, so many ns after the turn began; where nobody looked at the clock it
    /// is charged with the rest of the turn.
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

    /// The turn is over after so many ns. What is not charged yet was done for all that were
    /// served, for each as far as frames came of it: these were forwarded, and what came of them
    /// was written.
    pub(crate) fn end_turn(&mut self, turn_ns: u64) {
        let rest_ns = turn_ns.saturating_sub(self.charged_ns);
        let all: u64 = self.served.iter().map(|(_, frames)| frames + 1).sum();
        while let Some((number, frames)) = self.served.pop() {
            let part_ns = u128::from(rest_ns) * u128::from(frames + 1) / u128::from(all.max(1));
            self.charge(number, (part_ns as u64).min(CHARGED_NS_MAX));
        }
    }

    fn charge(&mut self, number: usize, ns: u64) {
        let Some(account) = self.accounts.get_mut(number) else { return };
        account.used_ns = account.used_ns.saturating_add(ns);
        let class = account.class;
        if class == UNANSWERED {
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
