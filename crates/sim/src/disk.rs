//! A model of a disk below a router's content store. Requests wait in one queue for threads with a
//! fixed time per request. The model includes the cost of a packet for the node's processor.

use std::collections::{BTreeMap, VecDeque};

use namely_forwarder::{Completion, EvictedData, Ticket, Tier, TierAnswer, TierRequest, TierWrite};
use namely_wire::Name;

use crate::packet::Packet;

/// Properties of a disk and its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// Time for a thread to read a Data in ns.
    pub read_ns: u64,
    /// Time for a thread to write a Data in ns.
    pub write_ns: u64,
    /// Delay from the end of a read to its report to the forwarder in ns.
    pub notice_ns: u64,
    /// Number of requests served at once.
    pub threads: usize,
    /// Number of pending requests from which the disk counts as busy; [`usize::MAX`]: never.
    pub threshold: usize,
    /// True if packets bypass a busy disk (the second-stage bypass). Otherwise the threshold
    /// applies to marks only.
    pub bypasses: bool,
    /// Maximum number of pending requests. Beyond it the disk accepts neither reads nor writes.
    pub pending_max: usize,
    /// Maximum number of Data. When full, the oldest is evicted, and Data of a behavior's plan last
    /// ([`crate::Context::disk_plan`]).
    pub packets_max: usize,
    /// True if a read renews a Data's age as a write does, and stored Data is not written again.
    pub renews: bool,
    /// True if Data evicted from memory is written.
    pub writes: bool,
    /// True if only Data that was requested while in memory, or that is planned, is written.
    pub writes_requested: bool,
    /// True if the node's processor serves each request itself, and everything else waits for it.
    pub blocking: bool,
    /// Cost of packets for the node's processor.
    pub processing: Processing,
}

impl Default for DiskSpec {
    /// 4 threads of 200 us per request, a threshold of 64, at most 4,096 requests and 65,536 Data.
    /// Processing takes no time.
    fn default() -> Self {
        DiskSpec {
            read_ns: 200_000,
            write_ns: 200_000,
            notice_ns: 0,
            threads: 4,
            threshold: 64,
            bypasses: true,
            pending_max: 4096,
            packets_max: 65_536,
            renews: false,
            writes: true,
            writes_requested: false,
            blocking: false,
            processing: Processing::default(),
        }
    }
}

/// Time for which packets occupy the processor of a node with a disk. Packets that arrive while it
/// is occupied wait in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processing {
    /// An Interest for Data that is not on the disk, in ns.
    pub absent_ns: u64,
    /// An Interest or a Data with a request to the disk's queue, in ns.
    pub issue_ns: u64,
    /// An Interest that bypasses the busy disk, in ns.
    pub bypass_ns: u64,
}

/// Counters and queue lengths of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Data on the disk.
    pub packets: usize,
    /// Pending requests.
    pub pending: usize,
    /// Packets waiting for the node's processor.
    pub waiting: usize,
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
}

/// A request.
pub(crate) enum Job {
    Read(Ticket, Vec<u8>),
    Write(EvictedData<Packet>),
}

/// The result of a read.
pub(crate) struct ReadResult {
    pub(crate) ticket: Ticket,
    pub(crate) completion: Completion<Packet>,
}

struct StoredData {
    packet: Packet,
    fresh_until_ns: u64,
    /// Key in the order of ages.
    age: u64,
}

pub(crate) struct Disk {
    spec: DiskSpec,
    /// Data by the octets of their names.
    held: BTreeMap<Vec<u8>, StoredData>,
    /// Names of the stored Data, the oldest first.
    order: BTreeMap<u64, Vec<u8>>,
    /// The youngest key in `order`.
    age: u64,
    /// Prefixes of the planned Data.
    planned: Vec<Name>,
    queue: VecDeque<Job>,
    running: usize,
    /// Requests that begin now, with their duration.
    pub(crate) begun: Vec<(u64, Job)>,
    /// Time for which the current packet occupies the processor.
    pub(crate) cost_ns: u64,
    /// Packets waiting for the processor.
    pub(crate) waiting: usize,
    reads: u64,
    writes: u64,
}

impl Tier<Packet> for Disk {
    fn is_busy(&self) -> bool {
        let before_it = if self.spec.blocking { self.waiting } else { self.pending() };
        before_it >= self.spec.threshold
    }

    fn read(&mut self, wanted: &TierRequest<'_>) -> TierAnswer {
        let name = wanted.name.as_bytes();
        if !self.held.contains_key(name) {
            self.cost_ns += self.spec.processing.absent_ns;
            return TierAnswer::Absent;
        }
        let is_to_pass = self.spec.bypasses && self.is_busy() && wanted.may_bypass;
        if is_to_pass || self.pending() >= self.spec.pending_max {
            self.cost_ns += self.spec.processing.bypass_ns;
            return TierAnswer::Busy;
        }
        self.begin(Job::Read(wanted.ticket, name.to_vec()));
        TierAnswer::Reading
    }

    fn write(&mut self, leaving: EvictedData<Packet>) -> TierWrite {
        let is_eligible = leaving.was_requested || !self.spec.writes_requested;
        if !self.spec.writes || !is_eligible || self.spec.renews && self.holds(&leaving.packet) {
            return TierWrite::Refused;
        }
        if self.spec.bypasses && self.is_busy() || self.pending() >= self.spec.pending_max {
            return TierWrite::Busy;
        }
        self.begin(Job::Write(leaving));
        TierWrite::Accepted
    }
}

impl Disk {
    pub(crate) fn new(spec: DiskSpec) -> Self {
        Disk {
            spec,
            held: BTreeMap::new(),
            order: BTreeMap::new(),
            age: 0,
            planned: Vec::new(),
            queue: VecDeque::new(),
            running: 0,
            begun: Vec::new(),
            cost_ns: 0,
            waiting: 0,
            reads: 0,
            writes: 0,
        }
    }

    pub(crate) fn counts(&self) -> DiskCounts {
        DiskCounts {
            packets: self.held.len(),
            pending: self.pending(),
            waiting: self.waiting,
            reads: self.reads,
            writes: self.writes,
        }
    }

    /// Returns the delay from the end of a read to its report to the forwarder.
    pub(crate) fn notice_ns(&self) -> u64 {
        self.spec.notice_ns
    }

    fn pending(&self) -> usize {
        self.running + self.queue.len()
    }

    fn begin(&mut self, job: Job) {
        let service_ns = self.service_ns(&job);
        if self.spec.blocking {
            self.running += 1;
            self.cost_ns += service_ns;
            return self.begun.push((self.cost_ns, job));
        }
        self.cost_ns += self.spec.processing.issue_ns;
        if self.running < self.spec.threads {
            self.running += 1;
            self.begun.push((service_ns, job));
        } else {
            self.queue.push_back(job);
        }
    }

    fn service_ns(&self, job: &Job) -> u64 {
        match job {
            Job::Read(..) => self.spec.read_ns,
            Job::Write(_) => self.spec.write_ns,
        }
    }

    /// Completes a request, and begins another one.
    pub(crate) fn finish(&mut self, job: Job) -> Option<ReadResult> {
        // Check before the request is removed: it is one of those that make the disk busy.
        let is_busy = self.is_busy();
        self.running -= 1;
        if let Some(next) = self.queue.pop_front() {
            self.running += 1;
            self.begun.push((self.service_ns(&next), next));
        }
        match job {
            Job::Read(ticket, name) => {
                self.reads += 1;
                if self.spec.renews {
                    self.renew(&name);
                }
                let completion = match self.held.get(&name) {
                    Some(StoredData { packet, fresh_until_ns, .. }) => {
                        Completion::Found { packet: packet.clone(), fresh_until_ns: *fresh_until_ns, is_busy }
                    }
                    None => Completion::Absent,
                };
                Some(ReadResult { ticket, completion })
            }
            Job::Write(EvictedData { packet, fresh_until_ns, .. }) => {
                self.writes += 1;
                self.keep(packet, fresh_until_ns);
                None
            }
        }
    }

    /// Stores a Data on the disk, in no time.
    pub(crate) fn keep(&mut self, packet: Packet, fresh_until_ns: u64) {
        let Ok(data) = namely_wire::DataView::parse(&packet) else { return };
        let name = data.name.as_bytes().to_vec();
        let age = self.held.get(&name).map_or(self.age + 1, |known| known.age);
        self.age = self.age.max(age);
        self.order.insert(age, name.clone());
        self.held.insert(name, StoredData { packet, fresh_until_ns, age });
        while self.held.len() > self.spec.packets_max {
            self.evict_oldest();
        }
    }

    fn holds(&self, packet: &Packet) -> bool {
        let data = namely_wire::DataView::parse(packet);
        data.is_ok_and(|data| self.held.contains_key(data.name.as_bytes()))
    }

    /// Sets the prefixes of Data that is evicted last.
    pub(crate) fn plan(&mut self, names: Vec<Name>) {
        self.planned = names;
    }

    /// Makes a Data the youngest.
    fn renew(&mut self, name: &[u8]) {
        let Some(kept) = self.held.get_mut(name) else { return };
        self.age += 1;
        let before = std::mem::replace(&mut kept.age, self.age);
        if let Some(name) = self.order.remove(&before) {
            self.order.insert(self.age, name);
        }
    }

    /// Evicts the oldest Data that is not planned, or the oldest if all are planned. Planned Data
    /// that was skipped becomes the youngest, so that it is not checked again and again.
    fn evict_oldest(&mut self) {
        for _ in 0..self.held.len() {
            let Some((_, name)) = self.order.first_key_value() else { return };
            if !self.planned.iter().any(|prefix| name.starts_with(prefix.as_bytes())) {
                break;
            }
            let name = name.clone();
            self.renew(&name);
        }
        if let Some((_, oldest)) = self.order.pop_first() {
            self.held.remove(&oldest);
        }
    }
}
