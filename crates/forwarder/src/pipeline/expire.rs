//! Time passes: pending Interests that have lasted long enough, and what released faces left
//! behind. Nothing here scans a table.

use lock_api::RawMutex;

use crate::forwarder::Forwarder;
use crate::packet::{Output, PacketBuf};
use crate::pit::Expired;
use crate::reserve::Reserve;
use crate::strategy::MemoryId;
use crate::trace::Tracer;

/// Maximum number of pending Interests, and of timers of strategies, that one call of
/// [`Forwarder::expire`] ends, so that a burst of deadlines cannot keep packets waiting. The rest
/// is due at once again.
pub(crate) const EXPIRED_PER_CALL_MAX: usize = 512;

/// How long after a turn of what tables hold of released faces the next one comes.
pub(crate) const TABLES_TURN_NS: u64 = 10_000_000;

/// How long after a turn of Data of objects that leave the next one comes.
pub(crate) const OBJECTS_TURN_NS: u64 = 1_000_000;

/// What one call of [`Forwarder::expire_within`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// When to call again; `None` if nothing waits.
    pub next_ns: Option<u64>,
    /// More is due now: the budget was used up.
    pub is_more: bool,
}

impl Expiry {
    /// What is due at the earliest of these times.
    pub(crate) fn of<const N: usize>(due_ns: [Option<u64>; N], now_ns: u64) -> Self {
        let next_ns = due_ns.into_iter().flatten().min();
        Expiry { next_ns, is_more: next_ns.is_some_and(|next_ns| next_ns <= now_ns) }
    }
}

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Ends pending Interests (guide 4.2.6, Interest Finalize) whose time is over, runs the
    /// timers of strategies, and returns when to call again; `None` if nothing waits. A pending
    /// Interest ends within about a millisecond after its lifetime, silently. `out` is for what is
    /// sent on a timer: announcements of a congested tier.
    pub fn expire<O: Output<B>>(&self, now_ns: u64, out: &mut O) -> Option<u64> {
        self.expire_within(now_ns, EXPIRED_PER_CALL_MAX, out).next_ns
    }

    /// The same, but of each kind of thing no more than `budget` are done: for a home under whose
    /// calls nothing else runs. What a call takes grows with the budget alone.
    pub fn expire_within<O: Output<B>>(&self, now_ns: u64, budget: usize, out: &mut O) -> Expiry {
        let budget = budget.max(1);
        self.end_pending(now_ns, budget, out);
        let pit = self.pit.next_deadline_ns();
        let strategies = self.memory.run_timers(now_ns, budget, &|| self.next_random());
        let (mut tables, mut pending) = (None, None);
        if self.has_departed() {
            tables = self.sweep_departed(budget).then(|| now_ns.saturating_add(TABLES_TURN_NS));
            pending = self.sweep_pending(now_ns, budget);
        }
        let objects = self.cs.evict_objects(budget, out);
        let objects = objects.then(|| now_ns.saturating_add(OBJECTS_TURN_NS));
        let kept = self.pit.give_back(now_ns, budget);
        let announced = if out.tier().is_some() { self.announce_due(now_ns, out) } else { None };
        Expiry::of([pit, strategies, tables, pending, objects, kept, announced], now_ns)
    }

    /// Ends up to `budget` pending Interests.
    #[inline(never)]
    fn end_pending<O: Output<B>>(&self, now_ns: u64, budget: usize, out: &mut O) {
        let reserve = Reserve::new(0);
        for _ in 0..budget {
            match self.pit.take_expired(now_ns, &reserve) {
                None => break,
                Some(Expired::Nothing) => {}
                Some(Expired::Entry(mut entry)) => {
                    self.counters.unsatisfied.add(1);
                    if entry.memory != MemoryId::NONE {
                        self.on_timeout(&entry, now_ns);
                        self.end_discovery(&entry, now_ns, out);
                    }
                    self.record_dead_nonces(&entry, now_ns);
                    if let Some(tracer) = out.tracer() {
                        tracer.ended(&entry.packet, entry.in_records.len(), entry.out_records.len());
                    }
                    self.pit.recycle(&mut entry);
                }
            }
        }
        self.settle(&reserve);
    }
}
