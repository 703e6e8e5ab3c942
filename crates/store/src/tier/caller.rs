//! Who reads from a tier: a worker, with its own queue of completions.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_host::Waker;
use namely_host::shares::Holder;
use namely_wire::NameRef;
use parking_lot::Mutex;

use super::buffer::Buffer;
use super::record::HEADER_OCTETS;
use super::shared::{Shared, Written};

/// A read that is under way, by the number that its caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// Whether a request may pass by the disk when that is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// There is another way for it: the threshold counts.
    Possible,
    /// There is none: only the ceiling counts.
    Impossible,
}

/// Whether Data below a name will do, or only that of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// An Interest with CanBePrefix: the first packet of an object, a certificate of a key.
    Wanted,
    /// The whole name.
    Unwanted,
}

/// What becomes of an Interest that asks a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// There is nothing for it: first-stage bypass.
    Absent,
    /// There may be something, but the disk has enough to do: second-stage bypass.
    Busy,
    /// It is being read: one [`Completion`] will say what there is.
    Reading,
}

/// Data from a tier.
#[derive(Clone, Debug)]
pub struct StoredData {
    pub(crate) octets: Arc<Buffer>,
    /// Where its record begins.
    pub(crate) start: usize,
    pub(crate) packet_octets: usize,
    pub(crate) expires_ms: u64,
}

impl StoredData {
    /// The packet: a Data whose name is what was asked for.
    pub fn packet(&self) -> &[u8] {
        let from = self.start + HEADER_OCTETS;
        &self.octets[from..from + self.packet_octets]
    }

    /// From when on it is no longer fresh, ms since the Unix epoch; 0: never.
    pub fn expires_ms(&self) -> u64 {
        self.expires_ms
    }

    /// For how long it is fresh from `now_ms` on, since the Unix epoch; none: for ever.
    pub fn fresh_for_ms(&self, now_ms: u64) -> Option<u64> {
        (self.expires_ms != 0).then(|| self.expires_ms.saturating_sub(now_ms))
    }
}

/// A read that is over.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which.
    pub id: ReadId,
    /// What it came to.
    pub outcome: Outcome,
}

/// What a read came to.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The Data was there.
    Found(StoredData),
    /// It was not there after all, or is not what was asked for.
    Absent,
    /// The disk failed.
    Failed,
}

impl Outcome {
    /// The Data, if it was there.
    pub fn found(self) -> Option<StoredData> {
        match self {
            Outcome::Found(data) => Some(data),
            Outcome::Absent | Outcome::Failed => None,
        }
    }
}

/// Who reads from a tier and writes to it. Its descriptor ([`AsFd`]) is readable when reads are
/// over; whoever polls it takes them by [`Caller::completed`] until there are none. One that is
/// dropped gives up what it reads.
#[derive(Debug)]
pub struct Caller {
    tier: Arc<Shared>,
    inbox: Arc<Inbox>,
    /// Whether nobody but this resets the inbox's waker.
    owns_waker: bool,
    taken: VecDeque<Completion>,
}

/// Where completions of a caller go.
#[derive(Debug)]
pub(crate) struct Inbox {
    completions: Mutex<VecDeque<Completion>>,
    waker: Waker,
}

impl Inbox {
    /// Puts a completion in; whoever waits for it is woken by `bells`.
    pub(crate) fn deliver(self: &Arc<Self>, id: ReadId, outcome: Outcome, bells: &mut Bells) {
        let mut completions = self.completions.lock();
        completions.push_back(Completion { id, outcome });
        let is_first = completions.len() == 1;
        drop(completions);
        if is_first {
            bells.add(self);
        }
    }
}

/// Who has completions and is to be woken: once for all that are done together, when this is
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    first: Option<Arc<Inbox>>,
    /// Others than the first, who are few: workers.
    more: Vec<Arc<Inbox>>,
}

impl Bells {
    fn add(&mut self, inbox: &Arc<Inbox>) {
        if self.first.iter().chain(&self.more).any(|known| Arc::ptr_eq(known, inbox)) {
            return;
        }
        match &self.first {
            None => self.first = Some(inbox.clone()),
            Some(_) => self.more.push(inbox.clone()),
        }
    }
}

impl Drop for Bells {
    fn drop(&mut self) {
        self.first.iter().chain(&self.more).for_each(|inbox| inbox.waker.wake());
    }
}

impl Caller {
    pub(crate) fn new(tier: Arc<Shared>, waker: Waker, owns_waker: bool) -> Self {
        let inbox = Arc::new(Inbox { completions: Mutex::default(), waker });
        Caller { tier, inbox, owns_waker, taken: VecDeque::new() }
    }

    /// Begins to read the Data of `name`, or says that there is none or that it is not worth to
    /// wait for. `id`: what the completion is to have; `fresh_at_ms`: it must be fresh then, ms
    /// since the Unix epoch. An implicit digest at the end of `name` is not looked at: whoever
    /// asked for one compares it.
    ///
    /// It never waits and makes no system call but the one that wakes who serves the disk.
    pub fn read(&self, id: ReadId, name: NameRef<'_>, fresh_at_ms: Option<u64>, bypass: Bypass) -> Asked {
        self.read_for(Holder::Root, id, (name, Below::Unwanted), fresh_at_ms, bypass)
    }

    /// The same for `holder`, who has a share of what may pend: from the threshold, and from the
    /// ceiling, on only who has had less than that finds room, and of those who wait each has its
    /// turn. Where Data below the name will do, and there is none of the name itself, it is what
    /// was written last below it, with one or two components more, as far as the tier knows it.
    pub fn read_for(
        &self,
        holder: Holder,
        id: ReadId,
        name: (NameRef<'_>, Below),
        fresh_at_ms: Option<u64>,
        bypass: Bypass,
    ) -> Asked {
        self.tier.read(name, fresh_at_ms, bypass, (&self.inbox, id, holder))
    }

    /// Offers Data: see [`Tier::write`](super::Tier::write).
    pub fn write(&self, name: NameRef<'_>, packet: &[u8], expires_ms: u64) -> Written {
        self.tier.write(name, packet, expires_ms)
    }

    /// Whether as many requests pend as the threshold says.
    pub fn is_busy(&self) -> bool {
        self.tier.is_busy()
    }

    /// The next read that is over; none: the descriptor says when there is one again.
    pub fn completed(&mut self) -> Option<Completion> {
        if self.taken.is_empty() {
            if self.owns_waker {
                self.inbox.waker.reset();
            }
            std::mem::swap(&mut self.taken, &mut self.inbox.completions.lock());
        }
        self.taken.pop_front()
    }
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.waker.as_fd()
    }
}
