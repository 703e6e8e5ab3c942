//! The receiving halves of link services at one worker: of the faces that it reads, and of faces
//! that another one reads on links whose senders are spread over workers.
//!
//! Follows NDNLPv2 as `namely_link` does; the rules are there, what they need of a worker is here:
//! where their state lives, and the timers of incomplete messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use namely_host::shares::Holder;
use namely_link::{LinkDrops, LinkReceiver, ReassemblyLimits, ReassemblyShare, ReassemblyTotal};
use parking_lot::Mutex;

use crate::id::SourceId;
use crate::port::FacePort;
use crate::status::Remote;

/// The receiving half of one face's link service.
pub(crate) struct LinkReader {
    pub(crate) link: LinkReceiver<Remote>,
    /// The time at which the worker serves it.
    timer_ns: Option<u64>,
}

impl LinkReader {
    pub(crate) fn new(limits: ReassemblyLimits, share: Arc<ReassemblyShare>) -> Self {
        LinkReader { link: LinkReceiver::of(limits, share), timer_ns: None }
    }

    /// What follows each call of the link service: its drops are counted at the port, and it is
    /// served when its incomplete messages must be dropped. A timer that is set too early is
    /// harmless, so that it need not follow each packet.
    #[inline]
    pub(crate) fn settle<P: AsRef<[u8]> + Clone>(
        &mut self,
        id: SourceId,
        port: &FacePort<P>,
        timers: &mut ReassemblyTimers,
        drops: &mut LinkDrops,
    ) {
        if !drops.is_empty() {
            port.count_receive_drops(&std::mem::take(drops));
        }
        let Some(due_ns) = self.link.due_ns() else { return };
        if self.timer_ns.is_some_and(|timer_ns| timer_ns <= due_ns) {
            return;
        }
        self.disarm(id, timers);
        self.timer_ns = Some(due_ns);
        timers.0.insert((due_ns, id));
    }

    /// Its timer is not needed any more.
    pub(crate) fn disarm(&mut self, id: SourceId, timers: &mut ReassemblyTimers) {
        if let Some(timer_ns) = self.timer_ns.take() {
            timers.0.remove(&(timer_ns, id));
        }
    }

    /// Its timer is due: drops messages that stayed incomplete for too long.
    pub(crate) fn tick<P: AsRef<[u8]> + Clone>(
        &mut self,
        id: SourceId,
        port: &FacePort<P>,
        now_ns: u64,
        timers: &mut ReassemblyTimers,
        drops: &mut LinkDrops,
    ) {
        self.timer_ns = None;
        self.link.tick(now_ns, drops);
        self.settle(id, port, timers, drops);
    }
}

/// Holders that may be remembered though they have no face any more, before they are looked for.
const HOLDERS_KEPT: usize = 64;

/// What the incomplete messages of each holder take.
pub(crate) struct ReassemblyShares {
    total: Arc<ReassemblyTotal>,
    holders: Mutex<Holders>,
}

#[derive(Default)]
struct Holders {
    shares: BTreeMap<Holder, Weak<ReassemblyShare>>,
    /// How many there may be before those without a face are forgotten.
    sweep_at: usize,
}

impl ReassemblyShares {
    /// Of so many octets.
    pub(crate) fn new(octets_max: usize) -> Self {
        ReassemblyShares { total: ReassemblyTotal::new(octets_max), holders: Mutex::default() }
    }

    /// The share of a holder, which its faces have together.
    pub(crate) fn of(&self, holder: Holder) -> Arc<ReassemblyShare> {
        let mut holders = self.holders.lock();
        if let Some(share) = holders.shares.get(&holder).and_then(Weak::upgrade) {
            return share;
        }
        if holders.shares.len() >= holders.sweep_at {
            holders.shares.retain(|_, share| share.strong_count() > 0);
            holders.sweep_at = 2 * holders.shares.len() + HOLDERS_KEPT;
        }
        let share = ReassemblyShare::new(self.total.clone());
        holders.shares.insert(holder, Arc::downgrade(&share));
        share
    }
}

/// When incomplete messages are dropped; at most one entry for each reader.
#[derive(Default)]
pub(crate) struct ReassemblyTimers(BTreeSet<(u64, SourceId)>);

impl ReassemblyTimers {
    /// When the first is due, ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.0.first().map(|(due_ns, _)| *due_ns)
    }

    /// Takes out one that is due.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<SourceId> {
        let (due_ns, id) = self.0.first().copied()?;
        (due_ns <= now_ns).then(|| {
            self.0.pop_first();
            id
        })
    }
}

/// The readers of faces that another worker reads.
pub(crate) struct ForeignReaders<P>(HashMap<SourceId, (Arc<FacePort<P>>, LinkReader)>);

impl<P> Default for ForeignReaders<P> {
    fn default() -> Self {
        ForeignReaders(HashMap::new())
    }
}

impl<P: AsRef<[u8]> + Clone> ForeignReaders<P> {
    pub(crate) fn get_mut(&mut self, id: SourceId) -> Option<(&Arc<FacePort<P>>, &mut LinkReader)> {
        self.0.get_mut(&id).map(|(port, reader)| (&*port, reader))
    }

    /// The reader of a face; a new one for a face of which nothing arrived here before.
    pub(crate) fn reader(
        &mut self,
        id: SourceId,
        port: &Arc<FacePort<P>>,
        new: impl FnOnce() -> LinkReader,
    ) -> &mut LinkReader {
        &mut self.0.entry(id).or_insert_with(|| (port.clone(), new())).1
    }

    /// Releases those of faces that have gone.
    pub(crate) fn sweep(&mut self, timers: &mut ReassemblyTimers) {
        self.0.retain(|id, (port, reader)| {
            let stays = !port.is_closed();
            if !stays {
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
    fn faces_of_a_holder_have_one_share_and_holders_that_have_gone_are_forgotten() {
        let shares = ReassemblyShares::new(1 << 20);
        let first = shares.of(Holder::uid(1));
        assert!(Arc::ptr_eq(&first, &shares.of(Holder::uid(1))));
        assert!(!Arc::ptr_eq(&first, &shares.of(Holder::uid(2))));
        (2..10_000).for_each(|uid| drop(shares.of(Holder::uid(uid))));
        assert!(shares.holders.lock().shares.len() <= HOLDERS_KEPT + 2);
        assert!(Arc::ptr_eq(&first, &shares.of(Holder::uid(1))), "who has a face stays");
    }
}
