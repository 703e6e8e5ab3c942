//! Reads and writes of a tier as its callers see them, and the delivery of completions.

use std::collections::VecDeque;
use std::sync::Arc;

use namely_host::Waker;
use parking_lot::Mutex;

use super::buffer::Buffer;
use super::record::HEADER_OCTETS;

/// A read in progress, by the number that its caller chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// Whether a request may bypass the disk when the disk is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// The request can go upstream: the threshold applies.
    Possible,
    /// The request cannot go upstream: only the ceiling applies.
    Impossible,
}

/// Whether Data below a name matches, or only Data of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// An Interest with CanBePrefix: the first packet of an object, a certificate of a key.
    Prefix,
    /// Only the whole name.
    Exact,
}

/// The immediate result of an Interest at a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The tier has no Data for the Interest: first-stage bypass.
    Absent,
    /// There may be Data, but the disk is too busy: second-stage bypass.
    Busy,
    /// A read is in progress: one [`Completion`] will report its outcome.
    Reading,
}

/// Data from a tier.
#[derive(Clone, Debug)]
pub struct StoredData {
    pub(crate) octets: Arc<Buffer>,
    /// Start of the record in `octets`.
    pub(crate) start: usize,
    pub(crate) packet_octets: usize,
    pub(crate) expires_ms: u64,
}

impl StoredData {
    /// The packet: a Data of the requested name, or below it.
    pub fn packet(&self) -> &[u8] {
        let from = self.start + HEADER_OCTETS;
        &self.octets[from..from + self.packet_octets]
    }

    /// End of the packet's freshness, in ms since the Unix epoch; 0: no end.
    pub fn expires_ms(&self) -> u64 {
        self.expires_ms
    }

    /// Returns the time for which the packet is still fresh at `now_ms`, which is in ms since the
    /// Unix epoch. Returns none if the freshness never ends.
    pub fn fresh_for_ms(&self, now_ms: u64) -> Option<u64> {
        (self.expires_ms != 0).then(|| self.expires_ms.saturating_sub(now_ms))
    }
}

/// A completed read.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The read.
    pub id: ReadId,
    /// Its outcome.
    pub outcome: ReadOutcome,
}

/// The outcome of a read.
#[derive(Clone, Debug)]
pub enum ReadOutcome {
    /// The Data was found.
    Found(StoredData),
    /// The record is gone, or is not the requested Data.
    Absent,
    /// The disk failed.
    Failed,
}

impl ReadOutcome {
    /// Returns the Data, if it was found.
    pub fn found(self) -> Option<StoredData> {
        match self {
            ReadOutcome::Found(data) => Some(data),
            ReadOutcome::Absent | ReadOutcome::Failed => None,
        }
    }
}

/// The result of offering Data to a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Accepted. Later reads find the Data, and it is on the disk after the next synchronization.
    Accepted,
    /// The tier has it already.
    Duplicate,
    /// Not accepted: the disk is too busy, or rests after a fault.
    Busy,
}

/// A caller's queue of completions.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(super) completions: Mutex<VecDeque<Completion>>,
    pub(super) waker: Waker,
}

impl Inbox {
    /// Queues a completion. If the queue was empty, adds the inbox to `bells`, which wake the
    /// caller.
    pub(crate) fn deliver(self: &Arc<Self>, id: ReadId, outcome: ReadOutcome, bells: &mut Wakeups) {
        let mut completions = self.completions.lock();
        completions.push_back(Completion { id, outcome });
        // The caller takes all completions at once, so only the first one has to wake it.
        let is_first = completions.len() == 1;
        drop(completions);
        if is_first {
            bells.add(self);
        }
    }
}

/// Callers to wake. When this is dropped, each caller is woken once for all completions of a batch.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    first: Option<Arc<Inbox>>,
    /// Inboxes after the first. They are few, one per worker.
    more: Vec<Arc<Inbox>>,
}

impl Wakeups {
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

impl Drop for Wakeups {
    fn drop(&mut self) {
        self.first.iter().chain(&self.more).for_each(|inbox| inbox.waker.wake());
    }
}
