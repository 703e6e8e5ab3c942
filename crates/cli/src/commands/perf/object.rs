//! `namely perf object`: the cost of a whole object from publishing to verified content, by suite,
//! manifest and mode of production, over sockets and the router (HT-27, HT-28).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use namely_security::validity;
use namely_security::{KeyChain, KeyType, NewKey, TrustPolicy};
use namely_socket::{
    Consumer, ConsumerOptions, ManifestUse, Producer, ProducerOptions, PublishOptions, Suite, Trust,
    VERIFY_THREADS_MAX,
};
use namely_transport::publish::SEGMENT_OCTETS_DEFAULT;
use namely_wire::Name;
use serde_json::json;

use super::sample::Sample;
use super::signing::payload;
use crate::context::Context;
use crate::failure::Failure;
use crate::fetching::bind_failure;
use crate::output::Cell;

/// Prefix of the objects and their producer's certificate.
pub(super) const PREFIX: &str = "/namely-perf-object";

/// How a packet or a manifest is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Signed {
    /// A digest without a check: the transport without cryptography
    None,
    /// RSA, 2048 bits
    Rsa,
    /// ECDSA on P-256
    Ecdsa,
    /// Ed25519
    Ed25519,
}

impl Signed {
    pub(super) fn suite(self) -> Suite {
        match self {
            Signed::None => Suite::DigestSha256,
            Signed::Rsa => Suite::Rsa2048,
            Signed::Ecdsa => Suite::EcdsaP256,
            Signed::Ed25519 => Suite::Ed25519,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Signed::None => "none",
            Signed::Rsa => "RSA-2048",
            Signed::Ecdsa => "ECDSA P-256",
            Signed::Ed25519 => "Ed25519",
        }
    }
}

/// The packets that are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ManifestBy {
    /// Each segment
    Off,
    /// Manifests of SHA-256 digests
    Sha256,
    /// Manifests of BLAKE3 digests
    Blake3,
}

impl ManifestBy {
    fn text(self) -> &'static str {
        match self {
            ManifestBy::Off => "each packet",
            ManifestBy::Sha256 => "manifests",
            ManifestBy::Blake3 => "manifests, BLAKE3",
        }
    }

    fn manifest(self) -> ManifestUse {
        match self {
            ManifestBy::Off => ManifestUse::Off,
            ManifestBy::Sha256 => ManifestUse::By(namely_security::ManifestHash::Sha256),
            ManifestBy::Blake3 => ManifestUse::By(namely_security::ManifestHash::Blake3),
        }
    }
}

/// The time at which an object is produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Production {
    /// Before the first request
    Async,
    /// At the request, as a part of the measured time
    Sync,
}

/// Measure whole objects: published, fetched and verified over sockets.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely perf object --size 16 --runs 5
  namely perf object --suite none --manifest off --consumers 1,2,3")]
pub struct Object {
    /// Signatures to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,rsa,ecdsa,ed25519")]
    suite: Vec<Signed>,
    /// The packets that are signed.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "off,sha256,blake3")]
    manifest: Vec<ManifestBy>,
    /// The time at which objects are produced.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "async,sync")]
    production: Vec<Production>,
    /// Consumers at once, each with an object of its own.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    consumers: Vec<u16>,
    /// Size of an object, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1024))]
    size: u64,
    /// Octets of content in each segment.
    #[arg(long, value_name = "OCTETS", default_value_t = SEGMENT_OCTETS_DEFAULT as u64, value_parser = clap::value_parser!(u64).range(200..=8400))]
    segment: u64,
    /// Threads with which a consumer verifies; 0: one for each processor, 4 at most.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=VERIFY_THREADS_MAX as i64))]
    verify_threads: u16,
    /// Runs of each case.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
struct Case {
    suite: Signed,
    manifest: ManifestBy,
    production: Production,
    consumers: u16,
}

/// Result of one run.
struct Run {
    mbps: f64,
    signatures: u64,
    segments: u64,
    fairness: f64,
}

impl Object {
    /// Measures and prints a table.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let keys = Keys::new()?;
        let mut rows = Vec::new();
        for case in self.cases() {
            let mut runs = Vec::new();
            for run in 0..self.runs {
                ctx.out.remark(format!("{}, {}, run {}", case.suite.text(), case.manifest.text(), run + 1));
                runs.push(self.measure(ctx, &keys, case)?);
            }
            let mbps: Vec<f64> = runs.iter().map(|run| run.mbps).collect();
            let (Some(mbps), Some(last)) = (Sample::of(&mbps), runs.last()) else { continue };
            let fairness = runs.iter().map(|run| run.fairness).fold(1.0, f64::min);
            let fewer = 100.0 - last.signatures as f64 / last.segments.max(1) as f64 * 100.0;
            if ctx.out.is_json() {
                let value = json!({
                    "kind": "object", "suite": case.suite.text(), "signed": case.manifest.text(),
                    "production": format!("{:?}", case.production).to_lowercase(), "consumers": case.consumers,
                    "goodput_mbps": mbps.json(), "signatures": last.signatures, "segments": last.segments,
                    "fewer_percent": fewer, "fairness_least": fairness, "runs": self.runs,
                    "segment_octets": self.segment, "size_mib": self.size, "verify_threads": self.verify_threads,
                });
                ctx.out.answer(String::new, || value);
            }
            rows.push(vec![
                Cell::from(format!("{:?}", case.production).to_lowercase()),
                Cell::from(case.suite.text()),
                Cell::from(case.manifest.text()),
                Cell::from(u64::from(case.consumers)),
                Cell::from(mbps.text(0)),
                Cell::from(last.signatures),
                Cell::from(last.segments),
                Cell::from(format!("{fewer:.1}")),
                Cell::from(format!("{fairness:.3}")),
            ]);
        }
        if !ctx.out.is_json() {
            let columns = [
                "production",
                "suite",
                "signed",
                "consumers",
                "Mbit/s [99 %]",
                "verified signatures",
                "segments",
                "fewer %",
                "least fairness",
            ];
            ctx.out.table(&columns, &rows);
        }
        Ok(())
    }

    /// Returns all combinations of the options. Manifests without signatures are left out, because
    /// they have no effect.
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &production in &self.production {
            for &suite in &self.suite {
                for &manifest in &self.manifest {
                    for &consumers in &self.consumers {
                        if suite != Signed::None || manifest == ManifestBy::Off {
                            cases.push(Case { suite, manifest, production, consumers });
                        }
                    }
                }
            }
        }
        cases
    }

    fn measure(&self, ctx: &Context<'_>, keys: &Keys, case: Case) -> Result<Run, Failure> {
        let prefix = keys.prefix.join_generic(format!("{}", namely_host::clock::unix_ns()));
        let room = self.buffer_octets(case);
        let producer = Arc::new(keys.producer(ctx, None, prefix.clone(), case.suite, room)?);
        let content: Arc<[u8]> = payload((self.size << 20) as usize).into();
        let how = PublishOptions {
            suite: Some(case.suite.suite()),
            manifest: Some(case.manifest.manifest()),
            ..PublishOptions::default()
        };
        producer.set_option("segment_octets", &self.segment.to_string()).map_err(failed)?;
        let names: Vec<Name> = (0..case.consumers).map(|n| prefix.join_generic(format!("{n}"))).collect();
        if case.production == Production::Async {
            for name in &names {
                producer.publish(name, &content, &how).map_err(failed)?;
            }
        }
        let consumers = names
            .iter()
            .map(|name| {
                let consumer = keys.consumer(ctx, prefix.clone(), case.suite)?;
                consumer.set_option("verify_threads", &self.verify_threads.to_string()).map_err(failed)?;
                Ok((consumer, name))
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        let done = AtomicBool::new(false);
        let started = Instant::now();
        let rates = thread::scope(|scope| {
            if case.production == Production::Sync {
                scope.spawn(|| produce(&producer, &content, &how, &done));
            }
            let fetching: Vec<_> = consumers
                .iter()
                .map(|(consumer, name)| scope.spawn(move || read(consumer, name, started)))
                .collect();
            let rates: Result<Vec<f64>, Failure> = fetching
                .into_iter()
                .map(|fetch| fetch.join().map_err(|_| super::limits::thread_failure())?)
                .collect();
            // Also set after a failure, because the scope waits for the producing thread.
            done.store(true, Ordering::Relaxed);
            rates
        })?;
        let elapsed = started.elapsed().as_secs_f64();
        let stats: Vec<_> = consumers.iter().map(|(consumer, _)| consumer.stats()).collect();
        let octets = content.len() as f64 * f64::from(case.consumers);
        Ok(Run {
            mbps: octets * 8.0 / elapsed / 1e6,
            signatures: stats.iter().map(|stats| stats.signatures).sum(),
            segments: stats.iter().map(|stats| stats.segments).sum(),
            fairness: jain(&rates),
        })
    }

    /// Returns the size of a buffer for all objects of a run, with the overhead of their packets.
    fn buffer_octets(&self, case: Case) -> usize {
        (self.size << 20) as usize * usize::from(case.consumers) * 2
    }
}

/// Produces each object when its newest version is requested.
fn produce(producer: &Producer, content: &[u8], how: &PublishOptions, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        if let Ok(request) = producer.recv_timeout(Duration::from_millis(50))
            && request.is_discovery()
        {
            let _ = producer.publish(&request.object(), content, how);
        }
    }
}

/// Reads an object to its end, and returns its rate.
fn read(consumer: &Consumer, name: &Name, started: Instant) -> Result<f64, Failure> {
    let mut stream = consumer.stream(name).map_err(failed)?;
    let octets = io::copy(&mut stream, &mut io::sink()).map_err(failed)?;
    Ok(octets as f64 / started.elapsed().as_secs_f64())
}

/// A key chain for the duration of the measurement, and sockets that use it.
pub(super) struct Keys {
    dir: tempfile::TempDir,
    pub(super) prefix: Name,
}

impl Keys {
    pub(super) fn new() -> Result<Self, Failure> {
        Self::below(PREFIX)
    }

    pub(super) fn below(prefix: &str) -> Result<Self, Failure> {
        let dir = tempfile::tempdir().map_err(failed)?;
        let prefix: Name = prefix.parse().map_err(failed)?;
        let prefix = prefix.join_generic(format!("{}", std::process::id()));
        let chain = KeyChain::open(dir.path().to_owned()).map_err(crate::keys::key_failure)?;
        let key = NewKey {
            identity: prefix.as_name(),
            key_type: KeyType::Ed25519,
            validity: validity::ALWAYS,
            version: 1,
            passphrase: None,
        };
        chain.generate(&key).map_err(crate::keys::key_failure)?;
        Ok(Keys { dir, prefix })
    }

    /// Creates a producer at `router`, or else at the router of the consumers.
    pub(super) fn producer(
        &self,
        ctx: &Context<'_>,
        router: Option<&str>,
        prefix: Name,
        suite: Signed,
        buffer_octets: usize,
    ) -> Result<Producer, Failure> {
        let mut options = ProducerOptions {
            router: router.map(str::to_owned).or_else(|| ctx.global.router.clone()),
            trust_router_of: ctx.global.trusted(),
            keychain: Some(self.dir.path().to_owned()),
            ..ProducerOptions::default()
        };
        options.suite = suite.suite();
        options.buffer_octets = buffer_octets;
        Producer::bind(prefix, options).map_err(bind_failure)
    }

    pub(super) fn consumer(
        &self,
        ctx: &Context<'_>,
        prefix: Name,
        suite: Signed,
    ) -> Result<Consumer, Failure> {
        let mut options = ConsumerOptions {
            router: ctx.global.router.clone(),
            trust_router_of: ctx.global.trusted(),
            keychain: Some(self.dir.path().to_owned()),
            ..ConsumerOptions::default()
        };
        if suite == Signed::None {
            options.trust = Trust::Policy(Box::new(TrustPolicy::insecure_accept_all()));
        }
        Consumer::bind(prefix, options).map_err(bind_failure)
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error.to_string())
}

/// Jain's index of rates: 1 if all rates are equal.
fn jain(rates: &[f64]) -> f64 {
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    rates.iter().sum::<f64>().powi(2) / (rates.len() as f64 * squares)
}
