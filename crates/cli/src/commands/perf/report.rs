//! The output of a measurement: a line for each second, and a summary.

use std::time::Duration;

use serde_json::{Value, json};

use super::flow::Tally;
use crate::output::octets_text;

/// Titles above the lines of the seconds.
pub(super) const TITLES: &str =
    "second     Mbit/s  exchanges/s    p50 us    p99 us  sent again  timeouts  Nacks";

/// Percentiles of the summary.
const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// One second, summed over all flows.
#[derive(Debug)]
pub(super) struct Second<'a> {
    /// The number of the second, from 1.
    pub(super) number: u64,
    pub(super) tally: &'a Tally,
    /// The length. The last second may be shorter than a second.
    pub(super) length: Duration,
}

impl Second<'_> {
    pub(super) fn text(&self) -> String {
        let (t, seconds) = (self.tally, self.length.as_secs_f64());
        let us = |percent| percentile_us(t, percent).map_or("-".to_owned(), |us| format!("{us:.0}"));
        format!(
            "{:>6}  {:>9.1}  {:>11.0}  {:>8}  {:>8}  {:>10}  {:>8}  {:>5}",
            self.number,
            mbps(t.payload_octets, seconds),
            t.exchanges as f64 / seconds,
            us(50.0),
            us(99.0),
            t.retransmissions,
            t.timeouts,
            t.nacks
        )
    }

    pub(super) fn json(&self) -> Value {
        let mut value = counts(self.tally, self.length);
        value["kind"] = "second".into();
        value["second"] = self.number.into();
        value["p50_us"] = percentile_us(self.tally, 50.0).into();
        value["p99_us"] = percentile_us(self.tally, 99.0).into();
        value
    }
}

/// The whole measurement.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) total: Tally,
    pub(super) length: Duration,
    /// Octets of payload that each flow received.
    pub(super) flow_octets: Vec<u64>,
}

impl Summary {
    pub(super) fn text(&self) -> Vec<String> {
        let (t, seconds) = (&self.total, self.length.as_secs_f64());
        let mut lines = vec![format!(
            "{seconds:.1} s: {:.1} Mbit/s of payload, {:.0} exchanges/s ({} exchanges, {})",
            mbps(t.payload_octets, seconds),
            t.exchanges as f64 / seconds,
            t.exchanges,
            octets_text(t.payload_octets),
        )];
        if t.exchanges > 0 {
            let us = PERCENTILES
                .iter()
                .filter_map(|(name, percent)| percentile_us(t, *percent).map(|us| format!("{name} {us:.0}")));
            lines.push(format!(
                "latency us: min {:.0}, {}, max {:.0}",
                t.latency_ns.min() as f64 / 1e3,
                us.collect::<Vec<_>>().join(", "),
                t.latency_ns.max() as f64 / 1e3
            ));
        }
        let mut text = format!(
            "{} Interests, {} sent again, {} timeouts, {} Nacks, {} marked, {} wrong, {} unexpected",
            t.interests, t.retransmissions, t.timeouts, t.nacks, t.marks, t.wrong, t.unexpected
        );
        if t.held_back > 0 {
            text += &format!(", {} held back by the window", t.held_back);
        }
        lines.push(text);
        lines
    }

    pub(super) fn json(&self) -> Value {
        let mut value = counts(&self.total, self.length);
        value["kind"] = "summary".into();
        let some = self.total.exchanges > 0;
        let us = |ns: u64| some.then(|| ns as f64 / 1e3);
        value["min_us"] = us(self.total.latency_ns.min()).into();
        value["max_us"] = us(self.total.latency_ns.max()).into();
        for (name, percent) in PERCENTILES {
            let key = format!("{}_us", name.replace('.', "_"));
            value[key] = percentile_us(&self.total, percent).into();
        }
        let seconds = self.length.as_secs_f64();
        let flows: Vec<f64> = self.flow_octets.iter().map(|octets| mbps(*octets, seconds)).collect();
        value["flow_goodput_mbps"] = flows.into();
        value
    }
}

fn counts(t: &Tally, length: Duration) -> Value {
    let seconds = length.as_secs_f64();
    json!({
        "seconds": seconds,
        "goodput_mbps": mbps(t.payload_octets, seconds),
        "exchanges_per_second": t.exchanges as f64 / seconds,
        "exchanges": t.exchanges,
        "payload_octets": t.payload_octets,
        "interests": t.interests,
        "retransmissions": t.retransmissions,
        "timeouts": t.timeouts,
        "nacks": t.nacks,
        "marks": t.marks,
        "wrong": t.wrong,
        "unexpected": t.unexpected,
        "held_back": t.held_back,
    })
}

fn mbps(octets: u64, seconds: f64) -> f64 {
    octets as f64 * 8.0 / seconds / 1e6
}

/// Returns the latency that `percent` of the answers did not exceed; `None` without answers.
fn percentile_us(tally: &Tally, percent: f64) -> Option<f64> {
    let some = !tally.latency_ns.is_empty();
    some.then(|| tally.latency_ns.value_at_quantile(percent / 100.0) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let mut tally = Tally::new();
        for us in 1..=1000u64 {
            tally.latency_ns.saturating_record(us * 1000);
        }
        (tally.exchanges, tally.payload_octets, tally.interests) = (1000, 1_000_000, 1001);
        tally
    }

    #[test]
    fn percentiles_stay_within_the_histogram_precision() {
        let length = Duration::from_secs(2);
        let value = Summary { total: tally(), length, flow_octets: vec![600_000, 400_000] }.json();
        let near = |key: &str, wanted: f64| {
            let is = value[key].as_f64().unwrap();
            assert!((is - wanted).abs() <= wanted / 500.0, "{key} is {is}, not {wanted}");
        };
        near("p50_us", 500.0);
        near("p90_us", 900.0);
        near("p99_us", 990.0);
        near("p99_9_us", 999.0);
        near("max_us", 1000.0);
        near("goodput_mbps", 4.0);
        near("exchanges_per_second", 500.0);
        assert_eq!(value["flow_goodput_mbps"], serde_json::json!([2.4, 1.6]));
    }

    #[test]
    fn flow_sums_count_all_answers() {
        let mut sum = tally();
        sum.add(&tally());
        assert_eq!((sum.exchanges, sum.interests, sum.latency_ns.len()), (2000, 2002, 2000));
    }

    #[test]
    fn without_answers_there_is_no_latency() {
        let total = Tally::new();
        let second = Second { number: 3, tally: &total, length: Duration::from_secs(1) };
        assert!(second.text().contains('-') && second.json()["p99_us"].is_null());
        let summary = Summary { total, length: Duration::from_secs(1), flow_octets: vec![0] };
        assert!(!summary.text().concat().contains("latency") && summary.json()["p99_9_us"].is_null());
    }

    #[test]
    fn report_columns_align_with_their_titles() {
        let total = tally();
        let text = Second { number: 1, tally: &total, length: Duration::from_secs(1) }.text();
        assert_eq!(text.len(), TITLES.len(), "\n{TITLES}\n{text}");
    }
}
