//! Reads and writes of a tier as its callers see them, and the way of a completion to its caller.

use std::collections::VecDeque;
use std::sync::Arc;

use namely_host::Waker;
use parking_lot::Mutex;

use super::buffer::Buffer;
use super::record::HEADER_OCTETS;

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

/// The result of offering Data to a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is taken. It can be read from now on, and is on the disk after the next synchronisation.
    Taken,
    /// It is there already.
    Known,
    /// The disk has enough to do, or rests after a fault: it is not taken.
    Busy,
}

/// Where completions of a caller go.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(super) completions: Mutex<VecDeque<Completion>>,
    pub(super) waker: Waker,
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
