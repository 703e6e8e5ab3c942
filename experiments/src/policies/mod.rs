//! `policies`: hit ratios of the content store's policies on traces, at two sizes of the store.
//!
//! The policies are those that run in the router; names and packets are left out.

mod numpy;
mod tier;
mod traces;

use namely_forwarder::{CsPolicy, PolicyModel};
use serde_json::json;

use clap::Args;
use namely_bench::error::Error;
use namely_bench::output;
use traces::{REQUESTS, Trace};

/// Options of `policies`.
#[derive(Debug, Args)]
pub struct Policies {
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Requests of each trace [default: 2000000, all of them]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=2_000_000))]
    pub requests: Option<usize>,
    /// Instead measure hits of memory over a disk, and the writes to it
    #[arg(long)]
    pub disk: bool,
}

/// Packets of the small and of the large store.
const SIZES: [usize; 2] = [2_500, 25_000];

/// Returns the hit ratio of `policy` with room for `packets_max` packets.
fn hit_ratio(policy: CsPolicy, packets_max: usize, keys: &[u32]) -> Result<f64, Error> {
    let mut cache = PolicyModel::new(policy, packets_max).map_err(|e| Error::Usage(e.to_string()))?;
    let hits = keys.iter().filter(|key| cache.request(**key)).count();
    Ok(hits as f64 / keys.len() as f64)
}

/// Prints the table, or a line for each of its values.
pub fn run(options: &Policies) -> Result<(), Error> {
    if options.disk {
        return tier::run(options);
    }
    let policies = || CsPolicy::ALL.into_iter().filter(|policy| *policy != CsPolicy::Noop);
    if !options.json {
        let names = policies().map(|policy| policy.name().to_owned());
        output::line(row(&format!("{} / {} packets", SIZES[0], SIZES[1]), names));
    }
    for trace in Trace::ALL {
        let keys = trace.keys(options.requests.unwrap_or(REQUESTS));
        let of_policy =
            |policy| Ok([hit_ratio(policy, SIZES[0], &keys)?, hit_ratio(policy, SIZES[1], &keys)?]);
        let ratios: Vec<[f64; 2]> = policies().map(of_policy).collect::<Result<_, Error>>()?;
        if !options.json {
            let cells = ratios.iter().map(|[small, large]| format!("{small:.3}/{large:.3}"));
            output::line(row(trace.title(), cells));
            continue;
        }
        for (policy, ratios) in policies().zip(ratios) {
            for (packets_max, hit_ratio) in SIZES.into_iter().zip(ratios) {
                let (trace, policy, requests) = (trace.title(), policy.name(), keys.len());
                let line = json!({
                    "trace": trace, "policy": policy, "packets_max": packets_max, "requests": requests,
                    "hit_ratio": hit_ratio,
                });
                output::line(line);
            }
        }
    }
    Ok(())
}

fn row(title: &str, cells: impl Iterator<Item = String>) -> String {
    cells.fold(format!("{title:20}"), |row, cell| row + &format!("  {cell:>11}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICIES: [CsPolicy; 4] = [CsPolicy::Lru, CsPolicy::Arc, CsPolicy::S3Fifo, CsPolicy::Sieve];

    /// Hit ratios of [`POLICIES`] with a small and with a large store.
    fn published(trace: Trace) -> [(f64, f64); 4] {
        match trace {
            Trace::Zipf => [(0.233, 0.510), (0.336, 0.570), (0.342, 0.580), (0.330, 0.573)],
            Trace::Segments => [(0.206, 0.552), (0.340, 0.616), (0.352, 0.622), (0.356, 0.618)],
            Trace::Scan => [(0.211, 0.417), (0.359, 0.494), (0.357, 0.489), (0.359, 0.480)],
            Trace::Drift => [(0.256, 0.528), (0.362, 0.591), (0.372, 0.582), (0.245, 0.510)],
        }
    }

    /// Maximum difference from a published ratio. Published ratios have three digits.
    const TOLERANCE: f64 = 0.005;

    /// `IS-36`.
    fn check(trace: Trace) {
        let keys = trace.keys(REQUESTS);
        for (policy, (small, large)) in POLICIES.into_iter().zip(published(trace)) {
            for (packets_max, expected) in [(SIZES[0], small), (SIZES[1], large)] {
                let ratio = hit_ratio(policy, packets_max, &keys).expect("memory");
                let title = trace.title();
                assert!(
                    (ratio - expected).abs() < TOLERANCE,
                    "{title}, {policy:?}, {packets_max}: {ratio:.4}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn zipf_hit_ratios_match_the_published_table() {
        check(Trace::Zipf);
    }

    #[test]
    fn segment_hit_ratios_match_the_published_table() {
        check(Trace::Segments);
    }

    #[test]
    fn scan_hit_ratios_match_the_published_table() {
        check(Trace::Scan);
    }

    #[test]
    fn drift_hit_ratios_match_the_published_table() {
        check(Trace::Drift);
    }

    /// The hashes were made once from the keys that the published generator wrote.
    #[test]
    fn traces_match_the_published_hashes() {
        let hashes = Trace::ALL.map(|trace| {
            let mix = |hash: u64, key: u32| (hash ^ u64::from(key)).wrapping_mul(0x0100_0000_01b3);
            trace.keys(REQUESTS).into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
        });
        let published =
            [0xac81_1b32_2b83_d582, 0x478c_2d18_8a99_332e, 0xd1b6_8cf0_86f9_21da, 0xa05e_438b_338b_c2a4];
        assert_eq!(hashes, published);
    }
}
