//! A modelled disk below a router's content store: requests wait in one queue for threads that take
//! a fixed time for each, and what a packet costs the node's processor because of it.

use std::collections::{BTreeMap, VecDeque};

use namely_forwarder::{Completion, Leaving, Ticket, Tier, TierAnswer, TierWrite, Wanted};
use namely_wire::Name;

use crate::packet::Packet;

/// What a disk is like, and the store on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// How long a thread takes to read a Data, ns.
    pub read_ns: u64,
    /// How long it takes to write one, ns.
    pub write_ns: u64,
    /// How much later than it is done the forwarder hears of a read, ns.
    pub notice_ns: u64,
    /// Requests that are carried out at once.
    pub threads: usize,
    /// Requests that pend when it counts as busy; [`usize::MAX`]: never.
    pub threshold: usize,
    /// True if what comes to a busy disk goes on without it (the second-stage bypass). Otherwise
    /// the threshold is for marks alone.
    pub bypasses: bool,
    /// Requests that may pend: beyond them it reads for nobody and writes nothing.
    pub pending_max: usize,
    /// Data that it holds. When full, the oldest leaves, and what a behaviour has planned for it
    /// last ([`crate::Context::disk_plan`]).
    pub packets_max: usize,
    /// True if a read makes a Data as new as a write does, and what it has is not written again.
    pub renews: bool,
    /// True if what leaves the memory is written.
    pub writes: bool,
    /// True if of that only what was asked for in memory is, and what is planned.
    pub writes_asked: bool,
    /// True if the node's processor carries out each request itself, and all else waits for it.
    pub blocking: bool,
    /// What packets cost the node's processor.
    pub processing: Processing,
}

impl Default for DiskSpec {
    /// 4 threads of 200 us a request, the threshold of 64, 4,096 requests and 65,536 Data at most;
    /// processing takes no time.
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
            writes_asked: false,
            blocking: false,
            processing: Processing::default(),
        }
    }
}

/// How long packets occupy the processor of a node with a disk. Packets that find it occupied wait
/// in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processing {
    /// An Interest for what is not on the disk, ns.
    pub absent_ns: u64,
    /// An Interest or a Data for which a request is put into the disk's queue, ns.
    pub issue_ns: u64,
    /// An Interest that finds the disk busy, ns.
    pub bypass_ns: u64,
}

/// What a disk has done, and has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Data that it holds.
    pub packets: usize,
    /// Requests that pend.
    pub pending: usize,
    /// Packets that wait for the node's processor.
    pub waiting: usize,
    /// Reads that it has done.
    pub reads: u64,
    /// Writes that it has done.
    pub writes: u64,
}

/// A request.
pub(crate) enum Job {
    Read(Ticket, Vec<u8>),
    Write(Leaving<Packet>),
}

/// What came of one.
pub(crate) struct Done {
    pub(crate) ticket: Ticket,
    pub(crate) completion: Completion<Packet>,
}

struct Kept {
    packet: Packet,
    fresh_until_ns: u64,
    /// Its key in the order.
    age: u64,
}

pub(crate) struct Disk {
    spec: DiskSpec,
    /// By the octets of their names.
    held: BTreeMap<Vec<u8>, Kept>,
    /// Names of what it holds, the oldest first.
    order: BTreeMap<u64, Vec<u8>>,
    /// The youngest's key in it.
    age: u64,
    /// Names below which all is planned for it.
    planned: Vec<Name>,
    queue: VecDeque<Job>,
    running: usize,
    /// Requests that begin now, each with how long it takes.
    pub(crate) begun: Vec<(u64, Job)>,
    /// How long the packet that is being processed occupies the processor.
    pub(crate) cost_ns: u64,
    /// Packets that wait for the processor.
    pub(crate) waiting: usize,
    reads: u64,
    writes: u64,
}

impl Tier<Packet> for Disk {
    fn is_busy(&self) -> bool {
        let before_it = if self.spec.blocking { self.waiting } else { self.pending() };
        before_it >= self.spec.threshold
    }

    fn read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
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

    fn write(&mut self, leaving: Leaving<Packet>) -> TierWrite {
        let is_asked = leaving.was_asked_for || !self.spec.writes_asked;
        if !self.spec.writes || !is_asked || self.spec.renews && self.holds(&leaving.packet) {
            return TierWrite::Refused;
        }
        if self.spec.bypasses && self.is_busy() || self.pending() >= self.spec.pending_max {
            return TierWrite::Busy;
        }
        self.begin(Job::Write(leaving));
        TierWrite::Taken
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

    /// How much later than it is done the forwarder hears of a read.
    pub(crate) fn notice_ns(&self) -> u64 {
        self.spec.notice_ns
    }

    fn pending(&self) -> usize {
        self.running + self.queue.len()
    }

    fn begin(&mut self, job: Job) {
        let takes_ns = self.takes_ns(&job);
        if self.spec.blocking {
            self.running += 1;
            self.cost_ns += takes_ns;
            return self.begun.push((self.cost_ns, job));
        }
        self.cost_ns += self.spec.processing.issue_ns;
        if self.running < self.spec.threads {
            self.running += 1;
            self.begun.push((takes_ns, job));
        } else {
            self.queue.push_back(job);
        }
    }

    fn takes_ns(&self, job: &Job) -> u64 {
        match job {
            Job::Read(..) => self.spec.read_ns,
            Job::Write(_) => self.spec.write_ns,
        }
    }

    /// A request that had begun is done, and another one begins.
    pub(crate) fn finish(&mut self, job: Job) -> Option<Done> {
        // Before it is taken off: it was one of those that make the disk busy.
        let is_busy = self.is_busy();
        self.running -= 1;
        if let Some(next) = self.queue.pop_front() {
            self.running += 1;
            self.begun.push((self.takes_ns(&next), next));
        }
        match job {
            Job::Read(ticket, name) => {
                self.reads += 1;
                if self.spec.renews {
                    self.renew(&name);
                }
                let completion = match self.held.get(&name) {
                    Some(Kept { packet, fresh_until_ns, .. }) => {
                        Completion::Found { packet: packet.clone(), fresh_until_ns: *fresh_until_ns, is_busy }
                    }
                    None => Completion::Absent,
                };
                Some(Done { ticket, completion })
            }
            Job::Write(Leaving { packet, fresh_until_ns, .. }) => {
                self.writes += 1;
                self.keep(packet, fresh_until_ns);
                None
            }
        }
    }

    /// Puts a Data on the disk, in no time.
    pub(crate) fn keep(&mut self, packet: Packet, fresh_until_ns: u64) {
        let Ok(data) = namely_wire::DataView::parse(&packet) else { return };
        let name = data.name.as_bytes().to_vec();
        let age = self.held.get(&name).map_or(self.age + 1, |known| known.age);
        self.age = self.age.max(age);
        self.order.insert(age, name.clone());
        self.held.insert(name, Kept { packet, fresh_until_ns, age });
        while self.held.len() > self.spec.packets_max {
            self.let_oldest_go();
        }
    }

    fn holds(&self, packet: &Packet) -> bool {
        let data = namely_wire::DataView::parse(packet);
        data.is_ok_and(|data| self.held.contains_key(data.name.as_bytes()))
    }

    /// What is below these names leaves last.
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

    /// The oldest that is not planned leaves, or the oldest if all are. What is passed over becomes
    /// young, so that it is not looked at again and again.
    fn let_oldest_go(&mut self) {
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
