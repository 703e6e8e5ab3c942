//! A worker's access to the content store's disk: requests of the forwarder are passed to the
//! store, and completed reads are returned. A worker of `namelyd` never waits for the disk; a
//! worker of an experiment that embeds a router can ([`DiskVariant`]).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namely_forwarder::{Completion, EvictedData, Ticket, Tier, TierAnswer, TierRequest, TierWrite};
use namely_host::shares::Owner;
use namely_host::{Waker, clock};
use namely_tier::{
    self as tier, Bypass, Caller, LookupResult, NameMatch, ReadId, ReadOutcome, StoredData, TierError,
    WriteOutcome,
};
use namely_wire::DataView;

use crate::times::{AllTimes, Path, TIMED_NS, Times};
use crate::variant::{DiskVariant, WorkerVariant};
use crate::{Core, Packet};

/// One ms, ns.
const MS_NS: u64 = 1_000_000;

/// The content store's disk, which all workers share.
#[derive(Debug)]
pub struct Disk {
    tier: tier::Tier,
    variant: Option<Arc<dyn DiskVariant>>,
    /// Packets in the queue of a variant.
    waiting: AtomicU64,
    /// The times that packets take, as workers measure them.
    times: AllTimes,
}

impl Disk {
    /// Creates the disk for the workers of one data plane, with the variant of an experiment.
    pub fn new(tier: tier::Tier, variant: Option<Arc<dyn DiskVariant>>) -> Self {
        Disk { tier, variant, waiting: AtomicU64::new(0), times: AllTimes::default() }
    }

    /// Returns the store on the disk.
    pub fn tier(&self) -> &tier::Tier {
        &self.tier
    }

    /// The times that packets take, as workers measure them.
    pub fn times(&self) -> &AllTimes {
        &self.times
    }

    /// Returns the length of a variant's queue, as a worker published it last.
    pub fn waiting(&self) -> u64 {
        // Relaxed: only the status reads the number.
        self.waiting.load(Ordering::Relaxed)
    }

    /// Closes the store, with all pending Data on the disk.
    ///
    /// # Errors
    /// [`TierError`]: some of the Data is not on the disk.
    pub fn close(self) -> Result<(), TierError> {
        self.tier.close()
    }
}

/// A worker's access to the disk.
#[derive(Debug)]
pub(super) struct WorkerDisk {
    disk: Arc<Disk>,
    caller: Caller,
    times: Arc<Times>,
    /// When each pending read began, ns, by its ticket.
    reading: HashMap<u64, u64>,
    /// The earliest start of the next timed batch, ns.
    timed_from_ns: u64,
    pub(super) variant: Option<Box<dyn WorkerVariant>>,
    /// Completed reads that are not reported yet, with the time of each report.
    late: VecDeque<(u64, tier::Completion)>,
}

impl WorkerDisk {
    /// `waker` makes the worker call [`WorkerDisk::completed`].
    pub(super) fn new(disk: Arc<Disk>, waker: Waker) -> Self {
        let (caller, times) = (disk.tier.caller_of(waker), disk.times.add());
        let variant = disk.variant.as_ref().map(|variant| variant.worker());
        WorkerDisk {
            caller,
            disk,
            times,
            reading: HashMap::new(),
            timed_from_ns: 0,
            variant,
            late: VecDeque::new(),
        }
    }

    /// Returns true if the disk's pending work has reached the threshold.
    fn is_busy(&self) -> bool {
        let of_variant = self.variant.as_ref().and_then(|variant| variant.is_busy(&self.disk.tier));
        of_variant.unwrap_or_else(|| self.caller.is_busy())
    }

    /// Publishes the length of the variant's queue to readers of the disk's status.
    pub(super) fn show_queue(&self) {
        let waiting = self.variant.as_ref().map_or(0, |variant| variant.len());
        self.disk.waiting.store(waiting as u64, Ordering::Relaxed);
    }

    fn requested(&mut self) {
        if let Some(variant) = &mut self.variant {
            variant.requested(&self.disk.tier);
        }
    }

    /// Returns when the next delayed read is reported, if there is one.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.late.front().map(|(due_ns, _)| *due_ns)
    }

    /// Returns the next completed read whose report is due.
    fn next_completed(&mut self, now_ns: u64) -> Option<tier::Completion> {
        let late_ns = self.variant.as_ref().map_or(0, |variant| variant.report_delay().as_nanos() as u64);
        if late_ns == 0 {
            return self.caller.completed();
        }
        while let Some(read) = self.caller.completed() {
            self.late.push_back((now_ns + late_ns, read));
        }
        // All reports are delayed by the same time, so the queue is in their order.
        self.late.pop_front_if(|(due_ns, _)| *due_ns <= now_ns).map(|(_, read)| read)
    }

    /// Returns the start of the batch about to be forwarded, if it is timed.
    fn begin_timing(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns < self.timed_from_ns {
            return None;
        }
        self.timed_from_ns = now_ns + TIMED_NS;
        // Not `now_ns`, which is the start of the iteration: the batch begins later.
        Some(clock::monotonic_ns())
    }

    /// Returns the next completed read, for [`namely_forwarder::Forwarder::tier_completed`].
    pub(super) fn completed(&mut self, now_ns: u64) -> Option<(Ticket, Completion<Packet>)> {
        let read = self.next_completed(now_ns)?;
        // Removed for any outcome, so that the map has pending reads only.
        if let (Some(begun_ns), ReadOutcome::Found(_)) = (self.reading.remove(&read.id.0), &read.outcome) {
            self.times.record(Path::Disk, now_ns.saturating_sub(begun_ns));
        }
        let completion = match read.outcome {
            ReadOutcome::Found(data) => found(&data, now_ns, self.is_busy()),
            ReadOutcome::Absent => Completion::Absent,
            ReadOutcome::Failed => Completion::Failed,
        };
        Some((Ticket::from_bits(read.id.0), completion))
    }

    fn read(&mut self, wanted: &TierRequest<'_>, holder: Owner, now_ns: u64) -> TierAnswer {
        let fresh_at_ms = wanted.must_be_fresh.then(clock::unix_ms);
        let bypass = if wanted.may_bypass { Bypass::Possible } else { Bypass::Impossible };
        let below = if wanted.can_be_prefix { NameMatch::Prefix } else { NameMatch::Exact };
        let id = ReadId(wanted.ticket.to_bits());
        let lookup = self.caller.read_for(holder, id, wanted.name, below, fresh_at_ms, bypass);
        match lookup {
            LookupResult::Absent => TierAnswer::Absent,
            LookupResult::Busy => TierAnswer::Busy,
            LookupResult::Reading => {
                self.requested();
                self.reading.insert(id.0, now_ns);
                TierAnswer::Reading
            }
        }
    }

    fn write(&mut self, leaving: &EvictedData<Packet>, now_ns: u64) -> TierWrite {
        let Ok(data) = DataView::parse(&leaving.packet) else { return TierWrite::Refused };
        // The policy is not consulted about objects that VIP has placed on the disk.
        if !leaving.is_planned && !self.disk.tier.admits(data.name, leaving.was_requested) {
            return TierWrite::Refused;
        }
        let fresh_ms = leaving.fresh_until_ns.saturating_sub(now_ns) / MS_NS;
        // Wall-clock time, because the disk outlives the monotonic clock.
        let expires_ms = clock::unix_ms().saturating_add(fresh_ms);
        let written = self.caller.write(data.name, &leaving.packet, expires_ms);
        if written != WriteOutcome::Duplicate {
            self.requested();
        }
        match written {
            WriteOutcome::Accepted => TierWrite::Accepted,
            WriteOutcome::Busy => TierWrite::Busy,
            WriteOutcome::Duplicate => TierWrite::Refused,
        }
    }
}

/// Converts Data that was read to the forwarder's completion.
fn found(data: &StoredData, now_ns: u64, is_busy: bool) -> Completion<Packet> {
    let fresh_ms = data.fresh_for_ms(clock::unix_ms());
    let fresh_until_ns = match fresh_ms {
        None => u64::MAX,
        Some(0) => 0,
        Some(ms) => now_ns.saturating_add(ms.saturating_mul(MS_NS)),
    };
    Completion::Found { packet: Packet::from(data.packet()), fresh_until_ns, is_busy }
}

/// The disk of a worker during one call of the core, with the timing of the packets of that call.
pub(super) struct DiskAccess<'a> {
    port: &'a mut WorkerDisk,
    now_ns: u64,
    /// The start of the packet that is being forwarded, if it is timed.
    timed_ns: Option<u64>,
    /// Whether that packet has ended, so that the next one begins.
    is_over: bool,
    /// The path of the packet, recorded when it is sent.
    path: Option<Path>,
}

impl<'a> DiskAccess<'a> {
    pub(super) fn new(port: &'a mut WorkerDisk, now_ns: u64) -> Self {
        DiskAccess { port, now_ns, timed_ns: None, is_over: true, path: None }
    }

    /// As `new`, for a batch that begins now. Its packets are timed if a measurement is due.
    pub(super) fn timed(port: &'a mut WorkerDisk, now_ns: u64) -> Self {
        let timed_ns = port.begin_timing(now_ns);
        DiskAccess { timed_ns, ..DiskAccess::new(port, now_ns) }
    }

    /// A packet was sent. Ends its timing.
    #[inline]
    pub(super) fn sent(&mut self) {
        if let Some(begun_ns) = self.timed_ns {
            let path = self.path.take();
            self.end_packet(begun_ns, path);
        }
    }

    /// Records the timed packet; the next one begins now.
    #[cold]
    fn end_packet(&mut self, begun_ns: u64, path: Option<Path>) {
        let now_ns = clock::monotonic_ns();
        if let Some(path) = path {
            self.port.times.record(path, now_ns.saturating_sub(begun_ns));
        }
        (self.timed_ns, self.is_over) = (Some(now_ns), true);
    }

    /// As [`Tier::read`], on behalf of the owner of a face.
    pub(super) fn read_for(&mut self, wanted: &TierRequest<'_>, holder: Owner) -> TierAnswer {
        let answer = self.port.read(wanted, holder, self.now_ns);
        self.path = match answer {
            TierAnswer::Absent => Some(Path::Absent),
            TierAnswer::Busy => Some(Path::Busy),
            TierAnswer::Reading | TierAnswer::NoTier => None,
        };
        if let (Some(begun_ns), TierAnswer::Reading) = (self.timed_ns, answer) {
            self.end_packet(begun_ns, Some(Path::Issue));
        }
        answer
    }
}

/// Reads of the router itself, on behalf of root.
impl Tier<Packet> for DiskAccess<'_> {
    fn read(&mut self, wanted: &TierRequest<'_>) -> TierAnswer {
        self.read_for(wanted, Owner::Root)
    }

    fn is_busy(&self) -> bool {
        self.port.is_busy()
    }

    fn write(&mut self, leaving: EvictedData<Packet>) -> TierWrite {
        self.port.write(&leaving, self.now_ns)
    }

    /// The previous packet may not have been sent. Its path must not be recorded for this one.
    #[inline]
    fn packet_begins(&mut self) {
        if let Some(begun_ns) = &mut self.timed_ns {
            self.path = None;
            if !std::mem::take(&mut self.is_over) {
                *begun_ns = clock::monotonic_ns();
            }
        }
    }

    fn answers_from_memory(&mut self) {
        self.path = Some(Path::Memory);
    }
}

/// Packets that are offered to the disk between two waits, when the router stops.
const SPILLED_AT_ONCE: usize = 256;

/// Offers the Data in memory to the disk, as far as the disk accepts it within `time`. Called when
/// the router stops.
pub fn spill(core: &Core, disk: &Arc<Disk>, time: Duration) {
    let end = Instant::now() + time;
    // Without a descriptor nothing is offered. Only cached Data is lost.
    let Ok(waker) = Waker::new() else { return };
    let mut port = WorkerDisk::new(disk.clone(), waker);
    let mut tier = DiskAccess::new(&mut port, clock::monotonic_ns());
    let mut spilled = 0;
    while Instant::now() < end {
        match core.cs().spill(SPILLED_AT_ONCE, &mut tier) {
            0 => break,
            gone => spilled += gone,
        }
        // Waits for the disk, which refuses further Data while too much is pending.
        if let Err(error) = disk.tier.sync() {
            return tracing::warn!("cannot write the packets in memory to the disk: {error}");
        }
    }
    tracing::debug!(packets = spilled, "the content store's memory was offered to its disk");
}

#[cfg(test)]
mod tests {
    use namely_forwarder::{Batch, Config, FaceId, FaceProperties, Outgoing, Output, Received};
    use namely_wire::{DataBuilder, InterestBuilder, LpHeaders, Name, SignatureInfo};

    use super::*;

    /// Counts sent packets, and has a disk.
    struct Sink<'a>(usize, DiskAccess<'a>);

    impl<'a> Output<Packet> for Sink<'a> {
        type Tier = DiskAccess<'a>;
        type Tracer = ();

        fn send(&mut self, _: FaceId, _: Outgoing<Packet>) {
            self.0 += 1;
            self.1.sent();
        }

        fn tier(&mut self) -> Option<&mut DiskAccess<'a>> {
            Some(&mut self.1)
        }
    }

    /// The forwarder of a router with a disk, and a worker's access to the disk.
    fn with_disk() -> (Core, WorkerDisk, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let tier = tier::Tier::open(&folder.path().join("cs"), &tier::Options::new(1 << 30)).unwrap();
        let disk = Arc::new(Disk::new(tier, None));
        let core = Core::new(Config::new(namely_security::sha256), 1).unwrap();
        (core, WorkerDisk::new(disk, Waker::new().unwrap()), folder)
    }

    fn received(packet: Vec<u8>) -> Received<Packet> {
        Received { packet: Packet::from(packet), headers: LpHeaders::default() }
    }

    fn interest(name: &Name) -> Received<Packet> {
        received(InterestBuilder::new(name.clone()).nonce([1; 4]).build())
    }

    #[test]
    fn an_unsent_interest_leaves_no_path_behind() {
        let (core, mut port, _folder) = with_disk();
        // A group receives no Nack.
        let many = core.face_register(FaceProperties::group()).unwrap();
        let [consumer, producer] =
            [(); 2].map(|()| core.face_register(FaceProperties::application()).unwrap());
        let (routed, nowhere): (Name, Name) = ("/a/1".parse().unwrap(), "/b".parse().unwrap());
        core.fib().add_nexthop(routed.as_name(), producer, 0).unwrap();
        let mut forward = |packets: Vec<(FaceId, Received<Packet>)>| {
            let mut batch = Batch::new();
            packets.into_iter().for_each(|(face, packet)| batch.push(face, packet).unwrap());
            let now_ns = clock::monotonic_ns();
            port.timed_from_ns = 0;
            let mut out = Sink(0, DiskAccess::timed(&mut port, now_ns));
            core.receive_batch(&mut batch, now_ns, &mut out);
            let sent = out.0;
            let times = port.disk.times.counters();
            let absent = times.iter().find(|counter| counter.label == "time_absent").unwrap().value;
            (sent, absent)
        };
        assert_eq!(forward(vec![(consumer, interest(&routed))]), (1, 1), "it goes on");
        let data = DataBuilder::new(routed.as_name()).build(&[7], &SignatureInfo::null()).finish(&[]);
        let batch = vec![(many, interest(&nowhere)), (producer, received(data.to_vec()))];
        assert_eq!(forward(batch), (1, 1), "the Data is sent, and passed no disk");
    }
}
