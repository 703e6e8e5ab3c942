//! Several fetches through one bottleneck: the scenario by which congestion control is judged.
//!
//! Two routers and one link; producers behind the far one, consumers behind the near one. All Data
//! cross the link's queue. Frames are lost in both directions. Utilisation counts Data packets that
//! were new to their consumer, so what is lost, and what is sent twice, counts for nothing.

use namely_link::CodelConfig;
use namely_transport::congestion::Algorithm;
use namely_transport::fetch::{Counters, Failure, Options};
use namely_wire::Name;

use crate::table::jain;
use crate::{AppId, FileFetch, LinkSpec, MS, Network, PortId, Producer, RouterSpec, SECOND};

/// The scenario.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    /// How the fetches decide how much to request.
    pub congestion: Algorithm,
    /// How many fetches.
    pub flows: usize,
    /// Rate of the link, bit/s.
    pub rate_bps: u64,
    /// Round trip without queue, ns.
    pub rtt_ns: u64,
    /// Frames lost of a million, each way.
    pub loss_ppm: u32,
    /// Octets that the queue holds.
    pub queue_octets_max: usize,
    /// True if the router in front of the queue judges it (CoDel: marks, then drops). Otherwise a
    /// full queue drops what comes, and nobody says anything.
    pub marks: bool,
    /// Octets of Content in each Data.
    pub content_octets: usize,
    /// How much later each fetch begins than the one before, ns.
    pub stagger_ns: u64,
    /// When measuring begins, ns.
    pub warm_up_ns: u64,
    /// For how long it measures, ns.
    pub measured_ns: u64,
    /// The seed.
    pub seed: u64,
}

impl Bottleneck {
    /// 100 Mbit/s, a round trip of 40 ms, a queue that holds 40 ms, Data of 8,000 octets of
    /// Content; fetches begin one second apart, and the 40 seconds after the tenth count.
    pub fn new(congestion: Algorithm, flows: usize, loss_ppm: u32) -> Self {
        Bottleneck {
            congestion,
            flows,
            rate_bps: 100_000_000,
            rtt_ns: 40 * MS,
            loss_ppm,
            queue_octets_max: 500_000,
            marks: true,
            content_octets: 8_000,
            stagger_ns: SECOND,
            warm_up_ns: 10 * SECOND,
            measured_ns: 40 * SECOND,
            seed: 1,
        }
    }

    /// Runs it; `watch` is called about every 100 ms.
    pub fn run(&self, mut watch: impl FnMut(&Running<'_>)) -> Outcome {
        let mut network = Network::new(self.seed);
        let spec = RouterSpec { cs_packets_max: 0, ..RouterSpec::default() };
        let (near, far) = (network.add_router(spec), network.add_router(spec));
        let link = LinkSpec {
            rate_bps: self.rate_bps,
            delay_ns: self.rtt_ns / 2,
            queue_octets_max: self.queue_octets_max,
            loss_ppm: self.loss_ppm,
            codel: self.marks.then(CodelConfig::default),
            ..LinkSpec::default()
        };
        let queue = network.connect(far, near, link);
        let options = Options { congestion: self.congestion, ..Options::default() };
        let flows: Vec<AppId> = (0..self.flows)
            .map(|flow| {
                let prefix: Name = Name::new().join_generic(format!("flow-{flow}"));
                network.announce(&prefix, far);
                network.attach(far, Box::new(Producer::new(prefix.clone(), self.content_octets)));
                let start_ns = flow as u64 * self.stagger_ns;
                network.attach(near, Box::new(FileFetch::new(prefix, options, start_ns)))
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
            wait_ms_p99: waits_us.map_or(0.0, |waits| wait_ms(waits.value_at_quantile(0.99))),
            rates_bps,
            queue_full: network.link_counts(queue).queue_full + network.link_counts(queue).codel,
            marked: network.link_counts(queue).marked,
            counters: fetches(&network, &flows).map(FileFetch::counters).collect(),
            failures: fetches(&network, &flows).filter_map(FileFetch::failure).collect(),
            events: network.events(),
        }
    }
}

fn fetches<'a>(network: &'a Network, flows: &'a [AppId]) -> impl Iterator<Item = &'a FileFetch> {
    flows.iter().filter_map(|flow| network.behaviour(*flow))
}

fn octets(network: &Network, flows: &[AppId]) -> Vec<u64> {
    fetches(network, flows).map(|fetch| fetch.octets).collect()
}

/// The scenario while it runs.
pub struct Running<'a> {
    network: &'a Network,
    queue: PortId,
    flows: &'a [AppId],
}

impl Running<'_> {
    /// Now, ns.
    pub fn now_ns(&self) -> u64 {
        self.network.now_ns()
    }

    /// How long a Data that joins the queue now waits, ns.
    pub fn wait_ns(&self) -> u64 {
        self.network.wait_ns(self.queue)
    }

    /// Each fetch's window, packets.
    pub fn windows(&self) -> Vec<usize> {
        fetches(self.network, self.flows).map(FileFetch::window).collect()
    }

    /// Octets that have come, of each fetch.
    pub fn octets(&self) -> Vec<u64> {
        octets(self.network, self.flows)
    }
}

/// What came of it, in the measured time unless said otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Data that were new, of each fetch, bit/s.
    pub rates_bps: Vec<f64>,
    /// Their sum as a share of the link's rate.
    pub utilisation: f64,
    /// Jain's index of them.
    pub jain: f64,
    /// How long Data waited in the queue, ms: on average.
    pub wait_ms_mean: f64,
    /// The same, at most for 99 of 100.
    pub wait_ms_p99: f64,
    /// Data that the queue dropped, because it was full or bad, from the start.
    pub queue_full: u64,
    /// Data that got a mark, from the start.
    pub marked: u64,
    /// What each fetch did, from the start.
    pub counters: Vec<Counters>,
    /// Why fetches ended early, of those that did.
    pub failures: Vec<Failure>,
    /// Events of the simulation, from the start.
    pub events: u64,
}
