//! The content store's disk as a worker has it: what the forwarder asks goes to the store, and what
//! the store has read comes back here. No worker of `namelyd` waits for it; one of an experiment
//! that hosts a router can ([`Prototype`]).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namely_forwarder::{Completion, Leaving, Ticket, Tier, TierAnswer, TierWrite, Wanted};
use namely_host::shares::Holder;
use namely_host::{Waker, clock};
use namely_store::tier::{
    self, Asked, Below, Bypass, Caller, Outcome, ReadId, StoredData, TierError, Written,
};
use namely_wire::DataView;

use crate::line::Line;
use crate::times::{AllTimes, Path, TIMED_NS, Times};
use crate::{Core, Packet};

/// One ms, ns.
const MS_NS: u64 = 1_000_000;

/// The content store's disk, which all workers share.
#[derive(Debug)]
pub struct Disk {
    tier: tier::Tier,
    prototype: Prototype,
    /// Packets that wait for a worker which waits for the disk.
    waiting: AtomicU64,
    /// How long packets take, as workers time them.
    times: AllTimes,
}

/// The behavior of NB-Cache's prototype. Only experiments select it, to compare with it; no
/// configuration key does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prototype {
    /// The worker reads and writes, and waits meanwhile.
    pub blocks: bool,
    /// It hears so much later of a read than it is done.
    pub heard_late: Duration,
}

impl Disk {
    /// A disk for the workers of one data plane.
    pub fn new(tier: tier::Tier, prototype: Prototype) -> Self {
        Disk { tier, prototype, waiting: AtomicU64::new(0), times: AllTimes::default() }
    }

    /// The store on it.
    pub fn tier(&self) -> &tier::Tier {
        &self.tier
    }

    /// How long packets take, as workers time them.
    pub fn times(&self) -> &AllTimes {
        &self.times
    }

    /// Packets that wait for a worker which waits for the disk.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Puts everything on the disk.
    ///
    /// # Errors
    /// [`TierError`]: not everything is there.
    pub fn close(self) -> Result<(), TierError> {
        self.tier.close()
    }
}

/// A worker's access to the disk.
#[derive(Debug)]
pub(super) struct DiskPort {
    disk: Arc<Disk>,
    caller: Caller,
    times: Arc<Times>,
    /// When each read began that is not over, ns, by its ticket: as many as pend at most.
    reading: HashMap<u64, u64>,
    /// From then on a batch is timed again, ns.
    timed_from_ns: u64,
    /// What waits for a worker that waits for the disk.
    pub(super) line: Option<Line>,
    /// Whether it has waited since it was last asked.
    has_waited: bool,
    /// Reads that are over and are not told of yet, with when they are.
    late: VecDeque<(u64, tier::Completion)>,
}

impl DiskPort {
    /// `waker` makes the worker call [`DiskPort::completed`].
    pub(super) fn new(disk: Arc<Disk>, waker: Waker) -> Self {
        let (caller, times) = (disk.tier.caller_of(waker), disk.times.add());
        let line = disk.prototype.blocks.then(Line::default);
        DiskPort {
            caller,
            disk,
            times,
            reading: HashMap::new(),
            timed_from_ns: 0,
            line,
            has_waited: false,
            late: VecDeque::new(),
        }
    }

    /// Whether the disk has as much to do as the threshold says: what pends at it or, where the
    /// worker waits for it, what waits for the worker.
    fn is_busy(&self) -> bool {
        match &self.line {
            None => self.caller.is_busy(),
            Some(line) => line.len() >= self.disk.tier.pending_threshold(),
        }
    }

    /// Tells who looks at the disk how much waits in the line.
    pub(super) fn show_line(&self) {
        let waiting = self.line.as_ref().map_or(0, Line::len);
        self.disk.waiting.store(waiting as u64, Ordering::Relaxed);
    }

    /// Does what the disk is to do, and waits for it, in a router that waits.
    fn wait(&mut self) {
        if self.line.is_some() {
            self.disk.tier.turn();
            self.has_waited = true;
        }
    }

    /// Whether the worker has waited for the disk since this was last asked.
    pub(super) fn take_has_waited(&mut self) -> bool {
        std::mem::take(&mut self.has_waited)
    }

    /// When a read is told of that is over, if there is one.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.late.front().map(|(due_ns, _)| *due_ns)
    }

    /// The next read that is over, and told of.
    fn next_completed(&mut self, now_ns: u64) -> Option<tier::Completion> {
        let late_ns = self.disk.prototype.heard_late.as_nanos() as u64;
        if late_ns == 0 {
            return self.caller.completed();
        }
        while let Some(read) = self.caller.completed() {
            self.late.push_back((now_ns + late_ns, read));
        }
        self.late.pop_front_if(|(due_ns, _)| *due_ns <= now_ns).map(|(_, read)| read)
    }

    /// When the batch began that is about to be forwarded, if it is one that is timed.
    fn begin_timing(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns < self.timed_from_ns {
            return None;
        }
        self.timed_from_ns = now_ns + TIMED_NS;
        Some(clock::monotonic_ns())
    }

    /// A read that is over, for [`namely_forwarder::Forwarder::tier_completed`].
    pub(super) fn completed(&mut self, now_ns: u64) -> Option<(Ticket, Completion<Packet>)> {
        let read = self.next_completed(now_ns)?;
        if let (Some(begun_ns), Outcome::Found(_)) = (self.reading.remove(&read.id.0), &read.outcome) {
            self.times.record(Path::Disk, now_ns.saturating_sub(begun_ns));
        }
        let completion = match read.outcome {
            Outcome::Found(data) => found(&data, now_ns, self.is_busy()),
            Outcome::Absent => Completion::Absent,
            Outcome::Failed => Completion::Failed,
        };
        Some((Ticket::from_bits(read.id.0), completion))
    }

    fn read(&mut self, wanted: &Wanted<'_>, holder: Holder, now_ns: u64) -> TierAnswer {
        let fresh_at_ms = wanted.must_be_fresh.then(clock::unix_ms);
        let bypass = if wanted.may_bypass { Bypass::Possible } else { Bypass::Impossible };
        let below = if wanted.can_be_prefix { Below::Wanted } else { Below::Unwanted };
        let id = ReadId(wanted.ticket.to_bits());
        let asked = self.caller.read_for(holder, id, (wanted.name, below), fresh_at_ms, bypass);
        match asked {
            Asked::Absent => TierAnswer::Absent,
            Asked::Busy => TierAnswer::Busy,
            Asked::Reading => {
                self.wait();
                self.reading.insert(id.0, now_ns);
                TierAnswer::Reading
            }
        }
    }

    fn write(&mut self, leaving: &Leaving<Packet>, now_ns: u64) -> TierWrite {
        let Ok(data) = DataView::parse(&leaving.packet) else { return TierWrite::Refused };
        if !leaving.is_planned && !self.disk.tier.admits(data.name, leaving.was_asked_for) {
            return TierWrite::Refused;
        }
        let fresh_ms = leaving.fresh_until_ns.saturating_sub(now_ns) / MS_NS;
        let expires_ms = clock::unix_ms().saturating_add(fresh_ms);
        let written = self.caller.write(data.name, &leaving.packet, expires_ms);
        if written != Written::Known {
            self.wait();
        }
        match written {
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

/// The disk of a worker during one call of the core, and how long the packets of that call take.
pub(super) struct DiskAccess<'a> {
    port: &'a mut DiskPort,
    now_ns: u64,
    /// When the packet began that is being forwarded, if it is timed.
    timed_ns: Option<u64>,
    /// Whether that one is over, so that the next one begins then.
    is_over: bool,
    /// The path that it takes and that ends when it is sent.
    path: Option<Path>,
}

impl<'a> DiskAccess<'a> {
    pub(super) fn new(port: &'a mut DiskPort, now_ns: u64) -> Self {
        DiskAccess { port, now_ns, timed_ns: None, is_over: true, path: None }
    }

    /// For a batch that begins now, whose packets are timed if it is time for that.
    pub(super) fn timed(port: &'a mut DiskPort, now_ns: u64) -> Self {
        let timed_ns = port.begin_timing(now_ns);
        DiskAccess { timed_ns, ..DiskAccess::new(port, now_ns) }
    }

    /// A packet was sent: one that is timed is over.
    #[inline]
    pub(super) fn sent(&mut self) {
        if let Some(begun_ns) = self.timed_ns {
            let path = self.path.take();
            self.end_packet(begun_ns, path);
        }
    }

    /// The packet that was timed is over, and the next one begins.
    #[cold]
    fn end_packet(&mut self, begun_ns: u64, path: Option<Path>) {
        let now_ns = clock::monotonic_ns();
        if let Some(path) = path {
            self.port.times.record(path, now_ns.saturating_sub(begun_ns));
        }
        (self.timed_ns, self.is_over) = (Some(now_ns), true);
    }

    /// [`Tier::read`] for the holder of a face.
    pub(super) fn read_for(&mut self, wanted: &Wanted<'_>, holder: Holder) -> TierAnswer {
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

/// The router itself reads.
impl Tier<Packet> for DiskAccess<'_> {
    fn read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
        self.read_for(wanted, Holder::Root)
    }

    fn is_busy(&self) -> bool {
        self.port.is_busy()
    }

    fn write(&mut self, leaving: Leaving<Packet>) -> TierWrite {
        self.port.write(&leaving, self.now_ns)
    }

    /// What came before may have been sent nowhere: its path is not this one's.
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

/// Data that is offered to the disk before it is waited for, when the router ends.
const SPILLED_AT_ONCE: usize = 256;

/// Offers what is in memory to the disk, as far as it takes that within `time`: for a router that
/// ends.
pub fn spill(core: &Core, disk: &Arc<Disk>, time: Duration) {
    let end = Instant::now() + time;
    let Ok(waker) = Waker::new() else { return };
    let mut port = DiskPort::new(disk.clone(), waker);
    let mut tier = DiskAccess::new(&mut port, clock::monotonic_ns());
    let mut spilled = 0;
    while Instant::now() < end {
        match core.cs().spill(SPILLED_AT_ONCE, &mut tier) {
            0 => break,
            gone => spilled += gone,
        }
        if let Err(error) = disk.tier.sync() {
            return tracing::warn!("what is in memory does not get to the disk: {error}");
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

    /// The forwarder of a router with a disk, and what a worker has of that.
    fn with_disk() -> (Core, DiskPort, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let tier = tier::Tier::open(&folder.path().join("cs"), &tier::Options::new(1 << 30)).unwrap();
        let disk = Arc::new(Disk::new(tier, Prototype::default()));
        let core = Core::new(Config::new(namely_security::sha256), 1).unwrap();
        (core, DiskPort::new(disk, Waker::new().unwrap()), folder)
    }

    fn received(packet: Vec<u8>) -> Received<Packet> {
        Received { packet: Packet::from(packet), headers: LpHeaders::default() }
    }

    fn interest(name: &Name) -> Received<Packet> {
        received(InterestBuilder::new(name.clone()).nonce([1; 4]).build())
    }

    #[test]
    fn an_interest_that_is_sent_nowhere_gives_the_next_packet_no_path() {
        let (core, mut port, _folder) = with_disk();
        // Who is many hears no Nack.
        let many = core.face_register(FaceProperties::group()).unwrap();
        let [consumer, producer] =
            [(); 2].map(|()| core.face_register(FaceProperties::application()).unwrap());
        let (asked, nowhere): (Name, Name) = ("/a/1".parse().unwrap(), "/b".parse().unwrap());
        core.fib().add_nexthop(asked.as_name(), producer, 0).unwrap();
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
        assert_eq!(forward(vec![(consumer, interest(&asked))]), (1, 1), "it goes on");
        let data = DataBuilder::new(asked.as_name()).build(&[7], &SignatureInfo::null()).finish(&[]);
        let batch = vec![(many, interest(&nowhere)), (producer, received(data.to_vec()))];
        assert_eq!(forward(batch), (1, 1), "the Data is sent, and passed no disk");
    }
}
