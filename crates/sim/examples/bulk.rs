//! The cost of a bulk transfer in the simulator: Data of 8,000 octets over one bottleneck, in
//! packets and events a second of processor time.
//!
//! `cargo run --release -p namely-sim --example bulk`

use namely_sim::bottleneck::Bottleneck;
use namely_transport::congestion::Algorithm;

/// Processor time of this process so far, s: it has one thread.
fn cpu_seconds() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns: f64 = schedstat.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
    ns / 1e9
}

fn main() {
    println!(
        "{:<8}  {:>5}  {:>9}  {:>9}  {:>12}  {:>12}",
        "control", "flows", "Data", "CPU s", "Data/s", "events/s"
    );
    for (algorithm, name) in [(Algorithm::Cubic, "CUBIC"), (Algorithm::Bbr, "BBR")] {
        for flows in [1, 10] {
            let before = cpu_seconds();
            let outcome = Bottleneck::new(algorithm, flows, 0).run(|_| ());
            let cpu = (cpu_seconds() - before).max(1e-9);
            let data: u64 = outcome.counters.iter().map(|of| of.data).sum();
            println!(
                "{name:<8}  {flows:>5}  {data:>9}  {cpu:>9.3}  {:>12.0}  {:>12.0}",
                data as f64 / cpu,
                outcome.events as f64 / cpu
            );
        }
    }
}
