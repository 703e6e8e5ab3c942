//! The caller of a tier: a worker, with its own queue of completions.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_host::Waker;
use namely_host::shares::Owner;
use namely_wire::NameRef;
use parking_lot::Mutex;

use super::completion::{Bypass, Completion, Inbox, LookupResult, NameMatch, ReadId, WriteOutcome};
use super::shared::{ReadRequester, Shared};

/// A reader and writer of a tier. Its descriptor ([`AsFd`]) is readable when reads are complete.
/// The worker polls the descriptor, and then calls [`Caller::completed`] until no completion is
/// left. Dropping a caller abandons its reads.
#[derive(Debug)]
pub struct Caller {
    tier: Arc<Shared>,
    inbox: Arc<Inbox>,
    /// Whether this caller alone resets the inbox's waker.
    owns_waker: bool,
    taken: VecDeque<Completion>,
}

impl Caller {
    pub(crate) fn new(tier: Arc<Shared>, waker: Waker, owns_waker: bool) -> Self {
        let inbox = Arc::new(Inbox { completions: Mutex::default(), waker });
        Caller { tier, inbox, owns_waker, taken: VecDeque::new() }
    }

    /// Begins to read the Data of `name`, unless the tier has none or the disk is too busy. The
    /// completion carries `id`. If `fresh_at_ms` is given, the Data must be fresh at that time, in
    /// ms since the Unix epoch. An implicit digest at the end of `name` is ignored: the caller must
    /// compare it.
    ///
    /// Never blocks. The only system call is the one that wakes the thread that serves the disk.
    pub fn read(
        &self,
        id: ReadId,
        name: NameRef<'_>,
        fresh_at_ms: Option<u64>,
        bypass: Bypass,
    ) -> LookupResult {
        self.read_for(Owner::Root, id, name, NameMatch::Exact, fresh_at_ms, bypass)
    }

    /// Like `read`, for `holder`, which has a share of the pending requests. Above the threshold,
    /// and above the ceiling, a holder may enqueue only while it has less than its share; waiting
    /// holders are served round-robin. With [`NameMatch::Prefix`], and if the tier has no Data of
    /// the name itself, the read returns the Data below the name that was written last. Such Data
    /// has one or two more components, and is found as long as the tier remembers the name above
    /// it.
    pub fn read_for(
        &self,
        holder: Owner,
        id: ReadId,
        name: NameRef<'_>,
        below: NameMatch,
        fresh_at_ms: Option<u64>,
        bypass: Bypass,
    ) -> LookupResult {
        self.tier.read(name, below, fresh_at_ms, bypass, ReadRequester { inbox: &self.inbox, id, holder })
    }

    /// Offers Data: see [`Tier::write`](super::Tier::write).
    pub fn write(&self, name: NameRef<'_>, packet: &[u8], expires_ms: u64) -> WriteOutcome {
        self.tier.write(name, packet, expires_ms)
    }

    /// Returns whether the number of pending requests has reached the threshold.
    pub fn is_busy(&self) -> bool {
        self.tier.is_busy()
    }

    /// Returns the next completed read. Once this has returned none, the descriptor becomes
    /// readable when a further read completes.
    pub fn completed(&mut self) -> Option<Completion> {
        if self.taken.is_empty() {
            // The waker is reset before the completions are taken, so that a completion that
            // arrives in between wakes the caller again.
            if self.owns_waker {
                self.inbox.waker.reset();
            }
            // All are taken at once, so that the engine's threads seldom wait for the lock.
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
