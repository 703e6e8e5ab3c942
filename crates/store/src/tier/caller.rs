//! Who reads from a tier: a worker, with its own queue of completions.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_host::Waker;
use namely_host::shares::Holder;
use namely_wire::NameRef;
use parking_lot::Mutex;

use super::completion::{Asked, Below, Bypass, Completion, Inbox, ReadId, Written};
use super::shared::Shared;

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
