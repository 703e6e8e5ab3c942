//! The network of NB-Cache (ToN 2021, its section VI) in virtual time: a consumer and four routers
//! with a disk each, whose stores hold parts of a catalogue, in the seven cases of the paper.
//!
//! R1 leads to R4 through R2 and R3. R4 holds all files, the others a share each; nobody else has
//! anything. What packets cost the routers' processors is what the paper measured in one router
//! (its Table II); the catalogue is smaller, by the same factor for all.

use namely_forwarder::TierMarking;
use namely_transport::congestion::Algorithm;
use namely_wire::{DataBuilder, Name, SignatureInfo};

use crate::behaviours::{Catalogue, Load};
use crate::disk::{DiskCounts, DiskSpec, Processing};
use crate::link::LinkSpec;
use crate::network::{AppId, Network};
use crate::node::RouterSpec;
use crate::packet::{NodeId, Packet};
use crate::random::Random;
use crate::{MS, SECOND};

/// Files of the catalogue.
const FILES: usize = 500;

/// Of these, those of R1, of R2 and of R3; R4 has all.
const HELD: [usize; 3] = [200, 75, 50];

/// Files have 1 to 63 Data: from one power of 2 to the next, each of these ranges as often as the
/// others.
const FILE_PACKETS_RANGES: u64 = 6;

/// A request to the paper's SSD in one thread, ns (Table II, case A).
pub const SSD_NS: u64 = 193_400;

/// The same of its HDD, which is slower by 4,700 to 414 (its Fig. 2), ns.
pub const HDD_NS: u64 = 2_195_000;

/// How much later the router hears of a read that another thread has done, ns: of the 18.7 ms that
/// the paper measured (Table II, case B) those in which 64 requests do not wait for the disk.
const NOTICE_NS: u64 = 12_500_000;

/// How long 64 requests take a router that does not wait for them, ns (Table II, case B).
const FULL_QUEUE_NS: u64 = 18_699_000;

/// How often busy routers say so.
const ANNOUNCE_NS: u64 = 10 * MS;

/// Requests that may pend, and wait, at a router.
const QUEUE: usize = 20_000;

/// When the simulation gives up.
const END_NS: u64 = 60 * SECOND;

/// The paper's cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// An index in memory, and requests for which all else waits.
    A,
    /// Both bypasses, and requests that nothing waits for.
    B,
    /// As A, with the filter of the first-stage bypass.
    C,
    /// As B, without the second-stage bypass.
    D,
    /// A, whose routers mark by the threshold.
    AEcn,
    /// B, whose routers mark by the threshold.
    BEcn,
    /// B, whose routers announce congestion and mark lazily.
    BNbCc,
}

impl Case {
    /// All of them, as the paper lists them.
    pub const ALL: [Case; 7] = [Case::A, Case::B, Case::C, Case::D, Case::AEcn, Case::BEcn, Case::BNbCc];

    /// Its name in the paper.
    pub fn label(self) -> &'static str {
        match self {
            Case::A => "A",
            Case::B => "B",
            Case::C => "C",
            Case::D => "D",
            Case::AEcn => "A+ECN",
            Case::BEcn => "B+ECN",
            Case::BNbCc => "B+NB-CC",
        }
    }

    fn is_blocking(self) -> bool {
        matches!(self, Case::A | Case::C | Case::AEcn)
    }

    fn bypasses(self) -> bool {
        matches!(self, Case::B | Case::BEcn | Case::BNbCc)
    }

    fn marking(self) -> TierMarking {
        match self {
            Case::AEcn | Case::BEcn => TierMarking::Threshold,
            Case::BNbCc => TierMarking::Lazy,
            _ => TierMarking::Never,
        }
    }
}

/// What several threads make of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Four together do twice what one does, and each read is heard of 12.5 ms after it is done.
    Faster,
    /// No more than one: an HDD has one arm. Each read is heard of as late.
    OneArm,
    /// As Table II has it, taken at its word: 64 requests take 18.7 ms, for a disk that takes
    /// [`SSD_NS`], and nothing is heard of later than it is done.
    TableTwo,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct NbCache {
    /// Which case.
    pub case: Case,
    /// Requests that pend, or in blocking cases packets that wait, at which a router is busy.
    pub threshold: usize,
    /// Requests that a disk carries out at once, in cases that do not block.
    pub threads: usize,
    /// How long a disk takes for one request alone, ns.
    pub disk_ns: u64,
    /// What the threads make of it.
    pub together: Threads,
    /// The consumer's rate in cases without congestion control, Interests a second.
    pub offered: u64,
    /// The seed.
    pub seed: u64,
}

impl NbCache {
    /// The paper's defaults: the threshold of 64, an SSD, 100,000 Interests a second.
    pub fn new(case: Case) -> Self {
        NbCache {
            case,
            threshold: 64,
            threads: 4,
            disk_ns: SSD_NS,
            together: Threads::Faster,
            offered: 100_000,
            seed: 1,
        }
    }

    /// How long a thread takes for a request while all are at work: each further one adds a third
    /// to what one takes alone, so that four together do twice what one does, and no number of them
    /// does more than three times that.
    fn request_ns(&self) -> u64 {
        let threads = self.threads as u64;
        match self.together {
            _ if self.case.is_blocking() => self.disk_ns,
            Threads::Faster => self.disk_ns * (threads + 2) / 3,
            Threads::OneArm => self.disk_ns * threads,
            Threads::TableTwo => FULL_QUEUE_NS * threads / 64 * self.disk_ns / SSD_NS,
        }
    }

    fn router(&self) -> RouterSpec {
        let (request_ns, is_blocking) = (self.request_ns(), self.case.is_blocking());
        let absent_ns = if matches!(self.case, Case::A | Case::AEcn) { 6_390 } else { 9_000 };
        let disk = DiskSpec {
            read_ns: request_ns,
            write_ns: request_ns,
            notice_ns: if is_blocking || self.together == Threads::TableTwo { 0 } else { NOTICE_NS },
            threads: self.threads,
            threshold: self.threshold,
            bypasses: self.case.bypasses(),
            pending_max: QUEUE,
            packets_max: usize::MAX,
            renews: false,
            writes: true,
            writes_asked: false,
            blocking: is_blocking,
            processing: Processing { absent_ns, issue_ns: 43_900, bypass_ns: 91_600 },
        };
        RouterSpec {
            // What comes from upstream leaves at once for the disk.
            cs_packets_max: 1,
            pit_entries_max: 32_768,
            pit_entries_per_face_max: 32_768,
            disk: Some(disk),
            cs_marking: self.case.marking(),
            cs_announce_ns: if self.case == Case::BNbCc { ANNOUNCE_NS } else { 0 },
            ..RouterSpec::default()
        }
    }

    fn load(&self) -> Load {
        match self.case {
            Case::A | Case::B | Case::C | Case::D => Load::Rate(self.offered),
            Case::AEcn | Case::BEcn | Case::BNbCc => Load::Window(Algorithm::NbCc),
        }
    }

    /// Runs it; `watch` is called about every millisecond with the time and what each router's disk
    /// has to do.
    pub fn run(&self, mut watch: impl FnMut(u64, [DiskCounts; 4])) -> Outcome {
        let mut network = Network::new(self.seed);
        let routers = [(); 4].map(|()| network.add_router(self.router()));
        let consumer = self.build(&mut network, &routers);
        let counts = |network: &Network| routers.map(|router| network.disk_counts(router));
        let mut peaks = [0; 4];
        while network.now_ns() < END_NS && !is_done(&network, consumer) {
            network.run_until(network.now_ns() + MS);
            let now = counts(&network);
            for (peak, counts) in peaks.iter_mut().zip(now) {
                *peak = (*peak).max(counts.pending.max(counts.waiting));
            }
            watch(network.now_ns(), now);
        }
        let tiers = routers.map(|router| network.router(router).counters().tier);
        let of: &Catalogue = network.behaviour(consumer).expect("the consumer");
        Outcome {
            data: of.data,
            refused: of.nacks,
            marked: of.marked,
            rtt_ms: of.rtt_ns.mean() / 1e6,
            rtt_p99_ms: of.rtt_ns.value_at_quantile(0.99) as f64 / 1e6,
            throughput: of.throughput(),
            window: of.window_mean(),
            heard: tiers.map(|tier| tier.announcements_heard),
            reads: tiers.map(|tier| tier.reads),
            bypassed: tiers.map(|tier| tier.bypass_busy),
            writes_bypassed: tiers.map(|tier| tier.writes_bypassed),
            peaks,
        }
    }

    fn build(&self, network: &mut Network, routers: &[NodeId; 4]) -> AppId {
        let [r1, r2, r3, r4] = *routers;
        let link = LinkSpec {
            rate_bps: 100_000_000_000,
            delay_ns: 10_000,
            queue_octets_max: 1 << 30,
            codel: None,
            ..LinkSpec::default()
        };
        let down = [(r1, r2), (r1, r3), (r2, r4), (r3, r4)];
        let faces = down.map(|(from, to)| {
            let port = network.connect(from, to, link);
            network.face_of_port(port)
        });
        let mut random = Random::new(self.seed);
        let mut names = Vec::new();
        for file in 0..FILES {
            let prefix = Name::new().join_generic(format!("file-{file}"));
            let least = 1 << random.below(FILE_PACKETS_RANGES);
            let packets = least + random.below(least);
            let held: Vec<Name> =
                (0..packets).map(|packet| prefix.join_generic(format!("{packet}"))).collect();
            network.store(r4, held.iter().map(data));
            if let Some(holder) = holder(file) {
                network.store(routers[holder], held.iter().map(data));
            }
            // Half of the files lead through R2, half through R3, and the other way second.
            let second = usize::from(holder(file) == Some(2) || holder(file) != Some(1) && file % 2 == 1);
            let add = |node: NodeId, face, cost| {
                let fib = network.router(node).fib_add_nexthop(prefix.as_name(), face, cost);
                fib.expect("room in the FIB");
            };
            add(r1, faces[second], 0);
            add(r1, faces[1 - second], 1);
            add(r2, faces[2], 0);
            add(r3, faces[3], 0);
            names.extend(held);
        }
        for i in (1..names.len()).rev() {
            names.swap(i, random.below(i as u64 + 1) as usize);
        }
        network.attach(r1, Box::new(Catalogue::new(names, self.load())))
    }
}

/// Which of R1, R2 and R3 holds a file.
fn holder(file: usize) -> Option<usize> {
    let mut end = 0;
    HELD.iter().position(|held| {
        end += held;
        file < end
    })
}

fn data(name: &Name) -> Packet {
    DataBuilder::new(name.as_name()).build(&[], &SignatureInfo::null()).finish(&[]).into()
}

fn is_done(network: &Network, consumer: AppId) -> bool {
    network.behaviour(consumer).is_some_and(Catalogue::is_done)
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Data that came.
    pub data: u64,
    /// Interests that were refused.
    pub refused: u64,
    /// Data that came with a mark.
    pub marked: u64,
    /// The mean round trip, ms.
    pub rtt_ms: f64,
    /// The round trip of 99 of 100, ms.
    pub rtt_p99_ms: f64,
    /// Data a second from the first to the last.
    pub throughput: f64,
    /// The mean window, packets; 0 without one.
    pub window: f64,
    /// Announcements that R1 to R4 heard.
    pub heard: [u64; 4],
    /// Interests for which they read.
    pub reads: [u64; 4],
    /// Interests that they passed on because their disks were busy.
    pub bypassed: [u64; 4],
    /// Data that they did not write for the same reason.
    pub writes_bypassed: [u64; 4],
    /// The most requests that pended, or packets that waited, at each.
    pub peaks: [usize; 4],
}
