//! `namely perf request`: the round trip of one packet that is produced and signed on request, and
//! verified (HT-30).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;
use namely_socket::{Datagram, ManifestUse, Producer, PublishOptions};
use serde_json::json;

use super::object::{Keys, PREFIX, Signed, failed};
use super::sample::Sample;
use super::signing::payload;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Cell;

/// Maximum round trip of the histogram in ns.
const TIME_NS_MAX: u64 = 60_000_000_000;

/// Size of the producer's buffer in octets. It is small, because answered data is not requested
/// again.
const BUFFER_OCTETS: usize = 1 << 20;

/// Measure requests that are answered, signed and verified one at a time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely perf request --count 500\n  \
    namely --router unix:///run/a.sock perf request --producer-router unix:///run/b.sock --prefix /lab")]
pub struct Request {
    /// Signatures to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,rsa,ecdsa,ed25519")]
    suite: Vec<Signed>,
    /// Requests for each.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    count: u32,
    /// Octets of content in each answer.
    #[arg(long, value_name = "OCTETS", default_value_t = 1200, value_parser = clap::value_parser!(u64).range(0..=8000))]
    payload: u64,
    /// The producer's router, if it is not the consumer's. A route from there has to lead to it.
    #[arg(long, value_name = "URI")]
    producer_router: Option<String>,
    /// The prefix of the requested names.
    #[arg(long, value_name = "NAME", default_value = PREFIX)]
    prefix: String,
    /// Pause between requests, ms.
    #[arg(long, value_name = "MS", default_value_t = 2)]
    interval: u64,
}

impl Request {
    /// Measures and prints a table.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let keys = Keys::below(&self.prefix)?;
        let mut rows = Vec::new();
        let mut unsigned = None;
        for &suite in &self.suite {
            let (mean, times) = self.measure(ctx, &keys, suite)?;
            let us = |percent| times.value_at_percentile(percent) as f64 / 1e3;
            let p50 = us(50.0);
            if suite == Signed::None {
                unsigned = Some(p50);
            }
            if ctx.out.is_json() {
                let value = json!({
                    "kind": "request", "suite": suite.text(), "payload_octets": self.payload, "count": self.count,
                    "mean_us": mean.json(), "p50_us": p50, "p90_us": us(90.0), "p99_us": us(99.0),
                });
                ctx.out.answer(String::new, || value);
            }
            rows.push(vec![
                Cell::from(suite.text()),
                Cell::from(mean.text(0)),
                Cell::from(format!("{p50:.0}")),
                Cell::from(format!("{:.0}", us(90.0))),
                Cell::from(format!("{:.0}", us(99.0))),
                Cell::from(unsigned.map_or("-".to_owned(), |unsigned| format!("{:.2}", p50 / unsigned))),
            ]);
        }
        if !ctx.out.is_json() {
            ctx.out.table(
                &["signature", "mean us [99 %]", "p50 us", "p90 us", "p99 us", "p50 of none's"],
                &rows,
            );
        }
        Ok(())
    }

    fn measure(
        &self,
        ctx: &Context<'_>,
        keys: &Keys,
        suite: Signed,
    ) -> Result<(Sample, Histogram<u64>), Failure> {
        let prefix = keys.prefix.join_generic(format!("{}", namely_host::clock::unix_ns()));
        let producer =
            keys.producer(ctx, self.producer_router.as_deref(), prefix.clone(), suite, BUFFER_OCTETS)?;
        let consumer = keys.consumer(ctx, prefix.clone(), suite)?;
        let content = payload(self.payload as usize);
        let how = PublishOptions {
            suite: Some(suite.suite()),
            manifest: Some(ManifestUse::Off),
            ..PublishOptions::default()
        };
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| answer(&producer, &content, &how, &done));
            let measured = (|| {
                let mut times = Histogram::new_with_bounds(1, TIME_NS_MAX, 3).map_err(failed)?;
                let mut all = Vec::new();
                for number in 0..self.count {
                    let name = prefix.join_generic(format!("{number}"));
                    let started = Instant::now();
                    let received = consumer.request(&Datagram::new(name)).map_err(failed)?;
                    let elapsed = started.elapsed();
                    if received.content != content {
                        return Err(Failure::failed("the answer differs from the sent data"));
                    }
                    // The first round trip also fetches the certificate, so it is not recorded.
                    if number > 0 {
                        times.saturating_record(elapsed.as_nanos() as u64);
                        all.push(elapsed.as_secs_f64() * 1e6);
                    }
                    thread::sleep(Duration::from_millis(self.interval));
                }
                let mean = Sample::of(&all).ok_or_else(|| Failure::failed("nothing was measured"))?;
                Ok((mean, times))
            })();
            done.store(true, Ordering::Relaxed);
            measured
        })
    }
}

fn answer(producer: &Producer, content: &[u8], how: &PublishOptions, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        if let Ok(request) = producer.recv_timeout(Duration::from_millis(50)) {
            let _ = producer.reply(&request, content, how);
        }
    }
}
