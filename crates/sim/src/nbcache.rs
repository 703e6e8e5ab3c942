//! The network of NB-Cache (ToN 2021, its section VI) in virtual time: a consumer and four routers
//! with a disk each. Their stores hold parts of a catalogue, in the seven cases of the paper.
//!
//! R1 leads to R4 through R2 and R3. R4 holds all files, and each of the others a part of them. The
//! processor cost of packets is that of the paper's measurement in one router (its Table II). The
//! catalogue is smaller, by the same factor for all.

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
use crate::units::{MS, SECOND};

/// Files of the catalogue.
const FILES: usize = 500;

/// Number of files at R1, R2 and R3; R4 has all.
const HELD: [usize; 3] = [200, 75, 50];

/// Files have 1 to 63 Data. The ranges from one power of 2 to the next are equally frequent.
const FILE_PACKETS_RANGES: u64 = 6;

/// Time of a request to the paper's SSD in one thread in ns (Table II, case A).
pub const SSD_NS: u64 = 193_400;

/// Time of a request to the paper's HDD in ns. It is slower by the factor 4,700 / 414 (its Fig. 2).
pub const HDD_NS: u64 = 2_195_000;

/// Delay of the report of a read by another thread in ns: the 18.7 ms that the paper measured
/// (Table II, case B) without the time in which 64 requests wait for the disk.
const NOTICE_NS: u64 = 12_500_000;

/// Time of 64 requests for a router that does not wait for them in ns (Table II, case B).
const FULL_QUEUE_NS: u64 = 18_699_000;

/// Interval of announcements by busy routers.
const ANNOUNCE_NS: u64 = 10 * MS;

/// Maximum number of pending requests, and of waiting packets, at a router.
const QUEUE: usize = 20_000;

/// Time limit of the simulation.
const END_NS: u64 = 60 * SECOND;

/// The paper's cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// An index in memory, and blocking requests.
    A,
    /// Both bypasses, and non-blocking requests.
    B,
    /// As A, with the filter of the first-stage bypass.
    C,
    /// As B, without the second-stage bypass.
    D,
    /// As A, with marks by the threshold.
    AEcn,
    /// As B, with marks by the threshold.
    BEcn,
    /// As B, with announcements of congestion and lazy marks.
    BNbCc,
}

impl Case {
    /// All cases, in the paper's order.
    pub const ALL: [Case; 7] = [Case::A, Case::B, Case::C, Case::D, Case::AEcn, Case::BEcn, Case::BNbCc];

    /// Returns the name in the paper.
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

/// Effect of several threads on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Four together do twice the work of one, and each read is reported 12.5 ms after its end.
    Faster,
    /// No more than one, because an HDD has one arm. Each read is reported with the same delay.
    OneArm,
    /// Table II taken literally: 64 requests take 18.7 ms, for a disk that takes [`SSD_NS`], and
    /// each read is reported at its end.
    TableTwo,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct NbCache {
    /// The case.
    pub case: Case,
    /// Number of pending requests from which a router is busy; in blocking cases, of waiting
    /// packets.
    pub threshold: usize,
    /// Number of requests that a disk serves at once, in cases that do not block.
    pub threads: usize,
    /// Time of a disk for a single request in ns.
    pub disk_ns: u64,
    /// Effect of several threads.
    pub together: Threads,
    /// The consumer's rate in cases without congestion control, Interests a second.
    pub offered: u64,
    /// The seed.
    pub seed: u64,
}

impl NbCache {
    /// The paper's defaults: a threshold of 64, an SSD, 100,000 Interests per second.
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

    /// Returns the time of a thread for a request while all threads are busy. Each further thread
    /// adds a third of the time of a single one. So four together do twice the work of one, and any
    /// number does at most three times as much.
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
            writes_requested: false,
            blocking: is_blocking,
            processing: Processing { absent_ns, issue_ns: 43_900, bypass_ns: 91_600 },
        };
        RouterSpec {
            // Data from upstream leaves at once for the disk.
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

    /// Runs the simulation; `watch` is called about every millisecond with the time and the
    /// counters of each router's disk.
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
            network.link_end_face(port)
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
            // The first choice for a file of R2 or R3 is its holder. For half of the other files it
            // is R2, and for the other half R3. The other router is the second choice.
            let second = usize::from(holder(file) == Some(2) || holder(file) != Some(1) && file % 2 == 1);
            let add = |node: NodeId, face, cost| {
                let fib = network.router(node).fib().add_nexthop(prefix.as_name(), face, cost);
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

/// Returns the router among R1, R2 and R3 that holds a file.
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

/// Results.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Data received.
    pub data: u64,
    /// Interests refused.
    pub refused: u64,
    /// Data received with a mark.
    pub marked: u64,
    /// The mean round trip, ms.
    pub rtt_ms: f64,
    /// 99th percentile of the round trip in ms.
    pub rtt_p99_ms: f64,
    /// Data per second from the first to the last.
    pub throughput: f64,
    /// The mean window, packets; 0 without one.
    pub window: f64,
    /// Announcements that R1 to R4 received.
    pub heard: [u64; 4],
    /// Interests for which they read their disks.
    pub reads: [u64; 4],
    /// Interests that bypassed their busy disks.
    pub bypassed: [u64; 4],
    /// Data that they did not write because their disks were busy.
    pub writes_bypassed: [u64; 4],
    /// Maximum of pending requests or waiting packets at each.
    pub peaks: [usize; 4],
}
