//! The content store's disk as a worker has it: what the forwarder asks goes to the store, and what
//! the store has read comes back here. No worker waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use namely_forwarder::{
    Completion, FaceId, Learned, Leaving, Outgoing, Output, Ticket, TierAnswer, TierWrite, Wanted,
};
use namely_host::{Waker, clock};
use namely_store::tier::{Asked, Bypass, Caller, Outcome, ReadId, StoredData, Written};
use namely_wire::DataView;

use super::{Core, Packet};
use crate::disk::Disk;

/// One ms, ns.
const MS_NS: u64 = 1_000_000;

/// A worker's access to the disk.
#[derive(Debug)]
pub(super) struct DiskPort {
    disk: Arc<Disk>,
    caller: Caller,
}

impl DiskPort {
    /// `waker` makes the worker call [`DiskPort::completed`].
    pub(super) fn new(disk: Arc<Disk>, waker: Waker) -> Self {
        DiskPort { caller: disk.tier.caller_of(waker), disk }
    }

    /// A read that is over, for [`namely_forwarder::Forwarder::tier_completed`].
    pub(super) fn completed(&mut self, now_ns: u64) -> Option<(Ticket, Completion<Packet>)> {
        let read = self.caller.completed()?;
        let completion = match read.outcome {
            Outcome::Found(data) => found(&data, now_ns, self.caller.is_busy()),
            Outcome::Absent => Completion::Absent,
            Outcome::Failed => Completion::Failed,
        };
        Some((Ticket::from_bits(read.id.0), completion))
    }

    fn read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
        let fresh_at_ms = wanted.must_be_fresh.then(clock::unix_ms);
        let bypass = if wanted.may_bypass { Bypass::Possible } else { Bypass::Impossible };
        let id = ReadId(wanted.ticket.to_bits());
        match self.caller.read(id, wanted.name, fresh_at_ms, bypass) {
            Asked::Absent => TierAnswer::Absent,
            Asked::Busy => TierAnswer::Busy,
            Asked::Reading => TierAnswer::Reading,
        }
    }

    fn write(&self, leaving: &Leaving<Packet>, now_ns: u64) -> TierWrite {
        let Ok(data) = DataView::parse(&leaving.packet) else { return TierWrite::Refused };
        if !self.disk.admits(data.name, leaving.was_asked_for) {
            return TierWrite::Refused;
        }
        let fresh_ms = leaving.fresh_until_ns.saturating_sub(now_ns) / MS_NS;
        match self.caller.write(data.name, &leaving.packet, clock::unix_ms().saturating_add(fresh_ms)) {
            Written::Taken => TierWrite::Taken,
            Written::Busy => TierWrite::Busy,
            Written::Known => TierWrite::Refused,
        }
    }
}

/// What the forwarder is told of Data that was read.
fn found(data: &StoredData, now_ns: u64, is_busy: bool) -> Completion<Packet> {
    let fresh_ms = data.fresh_for_ms(clock::unix_ms());
    let fresh_until_ns = match fresh_ms {
        None => u64::MAX,
        Some(0) => 0,
        Some(ms) => now_ns.saturating_add(ms.saturating_mul(MS_NS)),
    };
    Completion::Found { packet: Packet::from(data.packet()), fresh_until_ns, is_busy }
}

/// Takes what the forwarder sends as `sink` does, of a router whose content store has a disk.
pub(super) struct WithDisk<'a, S> {
    pub(super) sink: S,
    pub(super) disk: &'a mut DiskPort,
    pub(super) now_ns: u64,
}

impl<S: Output<Packet>> Output<Packet> for WithDisk<'_, S> {
    const HAS_TIER: bool = true;

    #[inline]
    fn send(&mut self, id: FaceId, outgoing: Outgoing<Packet>) {
        self.sink.send(id, outgoing);
    }

    #[cold]
    fn learned(&mut self, learned: Learned<'_>) {
        self.sink.learned(learned);
    }

    fn tier_read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
        self.disk.read(wanted)
    }

    fn tier_is_busy(&self) -> bool {
        self.disk.caller.is_busy()
    }

    fn tier_write(&mut self, leaving: Leaving<Packet>) -> TierWrite {
        self.disk.write(&leaving, self.now_ns)
    }
}

/// Data that is offered to the disk before it is waited for, when the router ends.
const SPILLED_AT_ONCE: usize = 256;

/// Offers what is in memory to the disk, as far as it takes that within `time`: for a router that
/// ends.
pub(crate) fn spill(core: &Core, disk: &Arc<Disk>, time: Duration) {
    let end = Instant::now() + time;
    let Ok(waker) = Waker::new() else { return };
    let mut port = DiskPort::new(disk.clone(), waker);
    let (sink, now_ns) = (Vec::new(), clock::monotonic_ns());
    let mut out = WithDisk { sink, disk: &mut port, now_ns };
    let mut spilled = 0;
    while Instant::now() < end {
        match core.cs_spill(SPILLED_AT_ONCE, &mut out) {
            0 => break,
            gone => spilled += gone,
        }
        if let Err(error) = disk.tier.sync() {
            return tracing::warn!("what is in memory does not get to the disk: {error}");
        }
    }
    tracing::debug!(packets = spilled, "the content store's memory was offered to its disk");
}
