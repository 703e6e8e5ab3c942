//! `namely ping`: measures the round trip to a name, one Interest after another, as ndnping does.

use std::sync::atomic::Ordering;

use clap::Args;
use namely_transport::connection::{Answer, Connection, Options};
use namely_wire::{Component, InterestBuilder, Name};
use serde_json::json;

use super::poke::STOP_POLL;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::router::{connection_failure, open};

/// Measure the round trip to a name.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely ping /lab/here --count 5 --interval 200")]
pub struct Ping {
    /// The prefix that a ping server answers.
    #[arg(value_parser = name)]
    prefix: Name,
    /// Stop after this many pings.
    #[arg(long, short, value_name = "N")]
    count: Option<u64>,
    /// Pause between two pings, ms; as `0.2` or `0.2s` in seconds.
    #[arg(long, short, value_name = "MS", default_value = "1000", value_parser = interval)]
    interval: u64,
    /// How long to wait for a reply, ms.
    #[arg(long, value_name = "MS", default_value_t = 4000)]
    timeout: u64,
}

/// Parses a time: whole milliseconds, or seconds. Seconds have a decimal point, as in ping(8), or
/// end in `s`.
fn interval(text: &str) -> Result<u64, String> {
    let seconds = text.strip_suffix('s').filter(|rest| !rest.ends_with('m'));
    let plain = text.strip_suffix("ms").unwrap_or(text);
    let ms = match seconds.or(plain.contains('.').then_some(plain)) {
        Some(seconds) if !text.ends_with("ms") => seconds.parse::<f64>().ok().map(|s| s * 1000.0),
        _ => plain.parse::<u32>().ok().map(f64::from),
    };
    match ms {
        Some(ms) if (0.0..=f64::from(u32::MAX)).contains(&ms) => Ok(ms.round() as u64),
        _ => Err("a time in ms such as 200, or in seconds such as 0.2 or 1s".into()),
    }
}

/// Number of round trips retained for the percentiles. A further one replaces the oldest.
const SAMPLES_MAX: usize = 1 << 20;

/// Results of the pings.
#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    nacks: u64,
    timeouts: u64,
    rtts_ns: Vec<u64>,
}

impl Ping {
    /// Sends pings until the count is reached or the command is stopped. Fails if there is no
    /// answer.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let options = Options { reconnect: std::time::Duration::ZERO, ..Options::default() };
        let mut connection = open(ctx, options)?;
        let prefix = self.prefix.join(Component::generic(b"ping"));
        // Each run begins with another number, so that no cached reply of an earlier run answers.
        let mut number = namely_host::clock::unix_ns() >> 10;
        let mut tally = Tally::default();
        while !stop.load(Ordering::Relaxed) && self.count.is_none_or(|c| tally.sent < c) {
            let started_ns = connection.now_ns();
            let name = prefix.join(Component::generic(number.to_string().as_bytes()));
            self.once(ctx, &mut connection, &name, &mut tally)?;
            number += 1;
            let next_ns = started_ns.saturating_add(self.interval.saturating_mul(1_000_000));
            if self.count.is_none_or(|c| tally.sent < c) {
                pause(&connection, next_ns, &stop);
            }
        }
        tally.report(ctx, &self.prefix)
    }

    fn once(
        &self,
        ctx: &Context<'_>,
        connection: &mut Connection,
        name: &Name,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let interest = InterestBuilder::new(name.clone()).must_be_fresh().lifetime_ms(self.timeout);
        let answer = connection.express(&interest).map_err(connection_failure)?;
        tally.sent += 1;
        let text = match &answer {
            Answer::Data(reply) => {
                if tally.rtts_ns.len() < SAMPLES_MAX {
                    tally.rtts_ns.push(reply.rtt_ns);
                } else {
                    let oldest = (tally.sent as usize) % SAMPLES_MAX;
                    tally.rtts_ns[oldest] = reply.rtt_ns;
                }
                format!("{name}  {:.3} ms", reply.rtt_ns as f64 / 1e6)
            }
            Answer::Nack(reason) => {
                tally.nacks += 1;
                format!("{name}  Nack {reason}")
            }
            Answer::Timeout => {
                tally.timeouts += 1;
                format!("{name}  no reply in {} ms", self.timeout)
            }
        };
        ctx.out.remark(text);
        Ok(())
    }
}

fn pause(connection: &Connection, until_ns: u64, stop: &std::sync::atomic::AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left_ns = until_ns.saturating_sub(connection.now_ns());
        if left_ns == 0 {
            return;
        }
        std::thread::sleep(STOP_POLL.min(std::time::Duration::from_nanos(left_ns)));
    }
}

impl Tally {
    fn report(mut self, ctx: &Context<'_>, prefix: &Name) -> Result<(), Failure> {
        self.rtts_ns.sort_unstable();
        let received = self.sent - self.nacks - self.timeouts;
        let us = |q| percentile(&self.rtts_ns, q).map(|ns| ns as f64 / 1e3);
        ctx.out.answer(
            || {
                let counts = format!(
                    "{} sent, {received} answered, {} refused, {} lost",
                    self.sent, self.nacks, self.timeouts
                );
                match (us(0), us(50), us(99), us(100)) {
                    (Some(min), Some(p50), Some(p99), Some(max)) => vec![
                        counts,
                        format!("rtt min {min:.0} us, p50 {p50:.0} us, p99 {p99:.0} us, max {max:.0} us"),
                    ],
                    _ => vec![counts],
                }
            },
            || {
                json!({
                    "prefix": prefix.to_string(), "sent": self.sent, "answered": received, "nacks": self.nacks,
                    "timeouts": self.timeouts, "min_us": us(0), "p50_us": us(50), "p90_us": us(90), "p99_us": us(99),
                    "max_us": us(100),
                })
            },
        );
        match (received, self.nacks) {
            (0, 0) if self.sent > 0 => Err(Failure::new(Exit::Timeout, format!("no reply from {prefix}"))
                .hint("is `namely pingserver` running for this prefix?")),
            (0, nacks) if nacks > 0 => Err(Failure::new(Exit::NotFound, format!("no route to {prefix}"))
                .hint("is `namely pingserver` running for this prefix, and is there a route to it?")
                .unrouted(prefix)),
            _ => Ok(()),
        }
    }
}

/// Returns the smallest of the sorted samples that `percent` of all samples do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::{interval, percentile};

    #[test]
    fn pauses_accept_milliseconds_and_seconds() {
        for (text, ms) in [("200", 200), ("0.2", 200), ("0.2s", 200), ("1s", 1000), ("5ms", 5), ("0", 0)] {
            assert_eq!(interval(text), Ok(ms), "{text}");
        }
        for text in ["", "s", "-1", "0.2ms", "x"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let samples: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&samples, 0), Some(1));
        assert_eq!(percentile(&samples, 50), Some(100));
        assert_eq!(percentile(&samples, 99), Some(198));
        assert_eq!(percentile(&samples, 100), Some(200));
        assert_eq!(percentile(&[], 50), None);
    }
}
