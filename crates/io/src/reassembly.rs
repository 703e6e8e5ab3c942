//! The receiving halves of link services at one worker. They belong to the faces that the worker
//! reads, and to faces that another worker reads on links with senders spread over the workers.
//!
//! `namely_link` implements the rules of NDNLPv2. This module stores the state of each face, and
//! serves the timers of incomplete messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use namely_host::shares::Owner;
use namely_link::{LinkDrops, LinkReceiver, ReassemblyLimits, ReassemblyShare, ReassemblyTotal};
use parking_lot::Mutex;

use crate::id::SourceId;
use crate::port::FaceSender;
use crate::status::Remote;

/// Time that overdue messages get while arrived frames wait to be read, ns. It is enough to read
/// the full buffers of the sockets after a stall.
const GRACE_NS: u64 = 100_000_000;

/// The receiving half of one face's link service.
pub(crate) struct LinkReader {
    pub(crate) link: LinkReceiver<Remote>,
    /// The time for which its timer is set.
    timer_ns: Option<u64>,
    /// Whether that time is the end of [`GRACE_NS`].
    is_postponed: bool,
}

impl LinkReader {
    pub(crate) fn new(limits: ReassemblyLimits, share: Arc<ReassemblyShare>) -> Self {
        LinkReader { link: LinkReceiver::of(limits, share), timer_ns: None, is_postponed: false }
    }

    /// Called after each call of the link service. Counts its drops at the port, and sets the timer
    /// for its incomplete messages. A timer that is too early is harmless, so it is not updated for
    /// each packet.
    #[inline]
    pub(crate) fn settle<P: AsRef<[u8]> + Clone>(
        &mut self,
        id: SourceId,
        port: &FaceSender<P>,
        timers: &mut ReassemblyTimers,
        drops: &mut LinkDrops,
    ) {
        if !drops.is_empty() {
            port.count_receive_drops(&std::mem::take(drops));
        }
        let Some(due_ns) = self.link.due_ns() else { return };
        // The timer of overdue messages stays at the end of their grace period.
        if self.timer_ns.is_some_and(|timer_ns| timer_ns <= due_ns || self.is_postponed) {
            return;
        }
        self.disarm(id, timers);
        self.timer_ns = Some(due_ns);
        timers.0.insert((due_ns, id));
    }

    /// Clears its timer.
    pub(crate) fn disarm(&mut self, id: SourceId, timers: &mut ReassemblyTimers) {
        if let Some(timer_ns) = self.timer_ns.take() {
            timers.0.remove(&(timer_ns, id));
        }
    }

    /// Called when its timer is due while arrived frames wait to be read. These may complete its
    /// messages, which therefore get [`GRACE_NS`] more, once. Returns false if they had it.
    pub(crate) fn postpone(&mut self, id: SourceId, now_ns: u64, timers: &mut ReassemblyTimers) -> bool {
        if std::mem::replace(&mut self.is_postponed, true) {
            return false;
        }
        let due_ns = now_ns.saturating_add(GRACE_NS);
        self.timer_ns = Some(due_ns);
        timers.0.insert((due_ns, id));
        true
    }

    /// Called when its timer is due. Drops messages that stayed incomplete for too long.
    pub(crate) fn tick<P: AsRef<[u8]> + Clone>(
        &mut self,
        id: SourceId,
        port: &FaceSender<P>,
        now_ns: u64,
        timers: &mut ReassemblyTimers,
        drops: &mut LinkDrops,
    ) {
        // `pop` has removed the entry.
        (self.timer_ns, self.is_postponed) = (None, false);
        self.link.tick(now_ns, drops);
        self.settle(id, port, timers, drops);
    }
}

/// The next sweep runs when the table has this many entries more than twice its size after the last
/// sweep.
const HOLDERS_KEPT: usize = 64;

/// Accounting of the memory that the incomplete messages of each owner use.
pub(crate) struct ReassemblyShares {
    total: Arc<ReassemblyTotal>,
    holders: Mutex<Holders>,
}

#[derive(Default)]
struct Holders {
    shares: BTreeMap<Owner, Weak<ReassemblyShare>>,
    /// The number of entries at which the next insertion removes the entries of owners without a
    /// face.
    sweep_at: usize,
}

impl ReassemblyShares {
    /// Makes the accounting for a total of `octets_max` octets.
    pub(crate) fn new(octets_max: usize) -> Self {
        ReassemblyShares { total: ReassemblyTotal::new(octets_max), holders: Mutex::default() }
    }

    /// Returns the account of an owner. All faces of the owner use the same one.
    pub(crate) fn of(&self, holder: Owner) -> Arc<ReassemblyShare> {
        let mut holders = self.holders.lock();
        if let Some(share) = holders.shares.get(&holder).and_then(Weak::upgrade) {
            return share;
        }
        if holders.shares.len() >= holders.sweep_at {
            holders.shares.retain(|_, share| share.strong_count() > 0);
            // The threshold is twice the size of the table, so the amortized cost for each new
            // owner is constant.
            holders.sweep_at = 2 * holders.shares.len() + HOLDERS_KEPT;
        }
        let share = ReassemblyShare::new(self.total.clone());
        // Weak, so that the account ends with the owner's last face.
        holders.shares.insert(holder, Arc::downgrade(&share));
        share
    }
}

/// The times at which incomplete messages are dropped, with at most one entry for each reader.
#[derive(Default)]
pub(crate) struct ReassemblyTimers(BTreeSet<(u64, SourceId)>);

impl ReassemblyTimers {
    /// Returns the time of the first timer, ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.0.first().map(|(due_ns, _)| *due_ns)
    }

    /// Removes and returns a timer that is due.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<SourceId> {
        let (due_ns, id) = self.0.first().copied()?;
        (due_ns <= now_ns).then(|| {
            self.0.pop_first();
            id
        })
    }
}

/// The readers of faces that another worker reads.
pub(crate) struct ForeignReaders<P>(HashMap<SourceId, (Arc<FaceSender<P>>, LinkReader)>);

impl<P> Default for ForeignReaders<P> {
    fn default() -> Self {
        ForeignReaders(HashMap::new())
    }
}

impl<P: AsRef<[u8]> + Clone> ForeignReaders<P> {
    pub(crate) fn get_mut(&mut self, id: SourceId) -> Option<(&Arc<FaceSender<P>>, &mut LinkReader)> {
        self.0.get_mut(&id).map(|(port, reader)| (&*port, reader))
    }

    /// Returns the reader of a face. Makes one if no frame of the face arrived here before.
    pub(crate) fn reader(
        &mut self,
        id: SourceId,
        port: &Arc<FaceSender<P>>,
        new: impl FnOnce() -> LinkReader,
    ) -> &mut LinkReader {
        &mut self.0.entry(id).or_insert_with(|| (port.clone(), new())).1
    }

    /// Releases the readers of closed faces.
    pub(crate) fn sweep(&mut self, timers: &mut ReassemblyTimers) {
        self.0.retain(|id, (port, reader)| {
            let stays = !port.is_closed();
            if !stays {
                // Otherwise the timer would outlive its reader.
                reader.disarm(*id, timers);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_messages_get_one_grace_period() {
        let (mut timers, id) = (ReassemblyTimers::default(), SourceId::new(0, 7, 0));
        let share = ReassemblyShares::new(1 << 20).of(Owner::uid(1));
        let mut reader = LinkReader::new(ReassemblyLimits::default(), share);
        timers.0.insert((5, id));
        assert_eq!(timers.pop(5), Some(id));
        assert!(reader.postpone(id, 5, &mut timers), "frames wait to be read");
        assert_eq!((timers.due_ns(), timers.pop(5)), (Some(5 + GRACE_NS), None));
        assert_eq!(timers.pop(5 + GRACE_NS), Some(id));
        assert!(!reader.postpone(id, 5 + GRACE_NS, &mut timers), "a flood does not prolong it");
    }

    #[test]
    fn faces_of_a_holder_share_reassembly() {
        let shares = ReassemblyShares::new(1 << 20);
        let first = shares.of(Owner::uid(1));
        assert!(Arc::ptr_eq(&first, &shares.of(Owner::uid(1))));
        assert!(!Arc::ptr_eq(&first, &shares.of(Owner::uid(2))));
        (2..10_000).for_each(|uid| drop(shares.of(Owner::uid(uid))));
        assert!(shares.holders.lock().shares.len() <= HOLDERS_KEPT + 2);
        assert!(Arc::ptr_eq(&first, &shares.of(Owner::uid(1))), "who has a face stays");
    }
}
