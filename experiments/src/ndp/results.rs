//! The measurements of the experiments, for tables and plots.

use serde_json::Value;

use super::arm::Arm;

/// A metric: its title, the paper's figures with NDN-NDP and with NDNLP alone.
pub(super) const METRICS: [(&str, &str, &str); 6] = [
    ("multicast Interests", "733.6±181.3", "1403.6±320.9"),
    ("multicast Data", "448.0±50.7", "1091.5±236.9"),
    ("throughput, Mbit/s", "10.4±1.8", "7.2±0.6"),
    ("delay, ms", "5.9±1.2", "16.5±1.5"),
    // Interests that consumers sent beyond the Data that arrived, as the paper defines it.
    ("unsatisfied Interests", "10.1±4.5", "33.7±13.4"),
    // The count of all routers, as NFD counts it. It includes refused Interests without a route.
    ("ended without Data", "-", "-"),
];

/// A run's metrics, in the order of [`METRICS`].
pub(super) type Row = [f64; METRICS.len()];

/// The result for a producer's MTU, a consumer's MTU, and an arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) producer: u32,
    pub(super) consumer: u32,
    pub(super) arm: Arm,
    pub(super) succeeded: u32,
    pub(super) runs: u32,
}

/// The result for an interval between hellos.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) heartbeat_ms: u64,
    /// Multicast Interests that a node received per minute, at rest: the mean, and half of its
    /// interval.
    pub(super) heard_per_min: (f64, Option<f64>),
    /// From the start of a router that was killed until its four neighbors have faces again, ms.
    pub(super) set_up_ms: (f64, Option<f64>),
}

/// The hellos of discovery that a router has received, from its counters. No face counts them.
pub(super) fn hellos(counters: &[Value]) -> u64 {
    let heard = counters.iter().filter(|row| row["counter"] == "discovery.hellos_heard");
    heard.filter_map(|row| row["value"].as_u64()).sum()
}
