//! Several fetches through one bottleneck: the scenario for the evaluation of congestion control.
//!
//! Two routers are joined by one link, with producers behind the far one and consumers behind the
//! near one. All Data cross the link's queue. Frames are lost in both directions. Utilization
//! counts only Data packets that are new to their consumer, so lost and duplicate packets do not
//! count.

use namely_link::CodelConfig;
use namely_transport::congestion::Algorithm;
use namely_transport::fetch::{Counters, Failure, Options};
use namely_wire::Name;

use crate::table::jain;
use crate::{AppId, FileFetch, LinkEndId, LinkSpec, MS, Network, NodeId, Producer, RouterSpec, SECOND};

/// Largest window of a fetch, in pieces: more than any path of the experiments has, so that the
/// rule decides.
const WINDOW_MAX: usize = 1 << 16;

/// Pending Interests of a router: several such windows.
const PIT_ENTRIES_MAX: usize = 1 << 18;

/// The scenario.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    /// Congestion control of the fetches.
    pub congestion: Algorithm,
    /// Congestion control of every second fetch; none: the same.
    pub beside: Option<Algorithm>,
    /// Number of fetches.
    pub flows: usize,
    /// Rate of the link, bit/s.
    pub rate_bps: u64,
    /// Round trip without queue, ns.
    pub rtt_ns: u64,
    /// Additional round trip of the second fetch, twice that of the third, and so on, ns.
    pub rtt_step_ns: u64,
    /// Frames lost of a million, each way.
    pub loss_ppm: u32,
    /// Size of the queue in octets.
    pub queue_octets_max: usize,
    /// True if the router before the queue applies CoDel (marks, then drops). Otherwise a full
    /// queue drops new packets, without a signal.
    pub marks: bool,
    /// True if its CoDel also drops packets of a queue that stays bad in spite of marks.
    pub drops: bool,
    /// Octets of Content in each Data.
    pub content_octets: usize,
    /// Delay between the starts of two fetches in ns.
    pub stagger_ns: u64,
    /// Start of the measurement in ns.
    pub warm_up_ns: u64,
    /// Duration of the measurement in ns.
    pub measured_ns: u64,
    /// The seed.
    pub seed: u64,
}

impl Bottleneck {
    /// 100 Mbit/s, a round trip of 40 ms, a queue of 40 ms, Data of 8,000 octets of Content.
    /// Fetches begin one second apart, and the measurement is the 40 seconds after the tenth.
    pub fn new(congestion: Algorithm, flows: usize, loss_ppm: u32) -> Self {
        Bottleneck {
            congestion,
            beside: None,
            flows,
            rate_bps: 100_000_000,
            rtt_ns: 40 * MS,
            rtt_step_ns: 0,
            loss_ppm,
            queue_octets_max: 500_000,
            marks: true,
            drops: true,
            content_octets: 8_000,
            stagger_ns: SECOND,
            warm_up_ns: 10 * SECOND,
            measured_ns: 40 * SECOND,
            seed: 1,
        }
    }

    /// Runs the scenario; `watch` is called about every 100 ms.
    pub fn run(&self, mut watch: impl FnMut(&Running<'_>)) -> Outcome {
        let mut network = Network::new(self.seed);
        let spec = RouterSpec {
            cs_packets_max: 0,
            pit_entries_max: PIT_ENTRIES_MAX,
            pit_entries_per_face_max: PIT_ENTRIES_MAX,
            ..RouterSpec::default()
        };
        let (near, far) = (network.add_router(spec), network.add_router(spec));
        let link = LinkSpec {
            rate_bps: self.rate_bps,
            delay_ns: self.rtt_ns / 2,
            queue_octets_max: self.queue_octets_max,
            loss_ppm: self.loss_ppm,
            codel: self.marks.then(|| CodelConfig { drops: self.drops, ..CodelConfig::default() }),
            ..LinkSpec::default()
        };
        let queue = network.connect(far, near, link);
        let flows: Vec<AppId> = (0..self.flows)
            .map(|flow| {
                let prefix: Name = Name::new().join_generic(format!("flow-{flow}"));
                // Before the announcement, which routes on the nodes that exist.
                let at = self.consumers_router(&mut network, near, spec, flow);
                network.announce(&prefix, far);
                network.attach(far, Box::new(Producer::new(prefix.clone(), self.content_octets)));
                let start_ns = flow as u64 * self.stagger_ns;
                network.attach(at, Box::new(FileFetch::new(prefix, self.options(flow), start_ns)))
            })
            .collect();
        let mut step = |network: &mut Network, until_ns: u64| {
            while network.now_ns() < until_ns {
                network.run_until((network.now_ns() + 100 * MS).min(until_ns));
                watch(&Running { network, queue, flows: &flows });
            }
        };
        step(&mut network, self.warm_up_ns);
        let before = octets(&network, &flows);
        network.watch(queue);
        step(&mut network, self.warm_up_ns + self.measured_ns);
        let seconds = self.measured_ns as f64 / 1e9;
        let rate = |(after, before): (u64, u64)| (after - before) as f64 * 8.0 / seconds;
        let rates_bps: Vec<f64> = octets(&network, &flows).into_iter().zip(before).map(rate).collect();
        let wait_ms = |us: u64| us as f64 / 1e3;
        let waits_us = network.waits_us(queue);
        Outcome {
            utilisation: rates_bps.iter().sum::<f64>() / self.rate_bps as f64,
            jain: jain(&rates_bps),
            wait_ms_mean: waits_us.map_or(0.0, |waits| waits.mean() / 1e3),
            wait_ms_p95: waits_us.map_or(0.0, |waits| wait_ms(waits.value_at_quantile(0.95))),
            wait_ms_p99: waits_us.map_or(0.0, |waits| wait_ms(waits.value_at_quantile(0.99))),
            rates_bps,
            queue_full: network.link_counts(queue).queue_full + network.link_counts(queue).codel,
            marked: network.link_counts(queue).marked,
            counters: fetches(&network, &flows).map(FileFetch::counters).collect(),
            failures: fetches(&network, &flows).filter_map(FileFetch::failure).collect(),
            events: network.events(),
        }
    }

    fn options(&self, flow: usize) -> Options {
        let congestion = self.beside.filter(|_| flow % 2 == 1).unwrap_or(self.congestion);
        Options { congestion, window_max: WINDOW_MAX, ..Options::default() }
    }

    /// Returns the router of a consumer: `near`, or one behind it if its round trip is longer.
    fn consumers_router(&self, network: &mut Network, near: NodeId, spec: RouterSpec, flow: usize) -> NodeId {
        let further_ns = flow as u64 * self.rtt_step_ns;
        if further_ns == 0 {
            return near;
        }
        let router = network.add_router(spec);
        let link = LinkSpec {
            rate_bps: 10 * self.rate_bps,
            delay_ns: further_ns / 2,
            queue_octets_max: usize::MAX,
            codel: None,
            ..LinkSpec::default()
        };
        network.connect(near, router, link);
        router
    }
}

fn fetches<'a>(network: &'a Network, flows: &'a [AppId]) -> impl Iterator<Item = &'a FileFetch> {
    flows.iter().filter_map(|flow| network.behaviour(*flow))
}

fn octets(network: &Network, flows: &[AppId]) -> Vec<u64> {
    fetches(network, flows).map(|fetch| fetch.octets).collect()
}

/// The running scenario.
pub struct Running<'a> {
    network: &'a Network,
    queue: LinkEndId,
    flows: &'a [AppId],
}

impl Running<'_> {
    /// Returns the current time in ns.
    pub fn now_ns(&self) -> u64 {
        self.network.now_ns()
    }

    /// Returns the wait of a Data that joins the queue now, in ns.
    pub fn wait_ns(&self) -> u64 {
        self.network.wait_ns(self.queue)
    }

    /// Returns each fetch's window in packets.
    pub fn windows(&self) -> Vec<usize> {
        fetches(self.network, self.flows).map(FileFetch::window).collect()
    }

    /// Returns the received octets of each fetch.
    pub fn octets(&self) -> Vec<u64> {
        octets(self.network, self.flows)
    }
}

/// Results, within the measured time unless noted otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Rate of new Data of each fetch in bit/s.
    pub rates_bps: Vec<f64>,
    /// Sum of the rates as a share of the link's rate.
    pub utilisation: f64,
    /// Jain's index of the rates.
    pub jain: f64,
    /// Mean wait of Data in the queue in ms.
    pub wait_ms_mean: f64,
    /// 95th percentile of the wait in ms.
    pub wait_ms_p95: f64,
    /// 99th percentile of the wait in ms.
    pub wait_ms_p99: f64,
    /// Data that the queue or CoDel dropped, from the start.
    pub queue_full: u64,
    /// Data that were marked, from the start.
    pub marked: u64,
    /// Counters of each fetch, from the start.
    pub counters: Vec<Counters>,
    /// Reasons of fetches that ended early.
    pub failures: Vec<Failure>,
    /// Events of the simulation, from the start.
    pub events: u64,
}
