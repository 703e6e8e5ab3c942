//! One run of one subject in one scenario. Everything is started afresh, measured once, and ended.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::files::{Object, expect_same};
use crate::load::Load;
use crate::metric::Metric;
use crate::rtt::Pings;
use crate::scenario::{Kind, Plan};
use crate::subject::{Network, Publication, Site, Subject};
use namely_testbed::{Outcome, Process};

/// Samples of one run.
pub type Samples = Vec<(Metric, f64)>;

/// Time for memory and CPU time to settle before they are read.
const SETTLE: Duration = Duration::from_millis(500);

/// Bounds and sizes of one run.
#[derive(Clone, Copy, Debug)]
pub struct Measure<'a> {
    /// Sizes.
    pub plan: &'a Plan,
    /// Maximum time of one fetch.
    pub fetch_limit: Duration,
    /// Directory of the objects.
    pub objects: &'a Path,
}

impl Measure<'_> {
    /// Measures `subject` at `site` once.
    pub fn run(&self, subject: &dyn Subject, site: &Site<'_>) -> Result<Samples, Error> {
        match site.scenario.kind() {
            Kind::Transfer => self.transfer(subject, site),
            Kind::Cached => self.cached(subject, site),
            Kind::Flows => self.flows(subject, site),
            Kind::Ping => self.ping(subject, site),
            Kind::Memory => self.memory(subject, site),
            Kind::Idle => self.idle(subject, site),
        }
    }

    fn transfer(&self, subject: &dyn Subject, site: &Site<'_>) -> Result<Samples, Error> {
        let object = object_of(site)?;
        let network = subject.start(site)?;
        let publication = subject.publish(site, &network, object)?;
        let mut samples = self.timed_fetch(subject, site, &network, &publication, &publication.name)?;
        samples.extend(publication.publish_time.map(|time| (Metric::PublishTime, time.as_secs_f64())));
        Ok(samples)
    }

    fn cached(&self, subject: &dyn Subject, site: &Site<'_>) -> Result<Samples, Error> {
        let object = object_of(site)?;
        let network = subject.start(site)?;
        let mut publication = subject.publish(site, &network, object)?;
        if let Some(producer) = publication.producer.take() {
            self.fetch(subject, site, &network, &publication.name, object)?;
            producer.stop();
        }
        self.timed_fetch(subject, site, &network, &publication, &publication.versioned_name)
    }

    fn timed_fetch(
        &self,
        subject: &dyn Subject,
        site: &Site<'_>,
        network: &Network,
        publication: &Publication,
        name: &str,
    ) -> Result<Samples, Error> {
        let object = object_of(site)?;
        let used = |before: &Usage| Usage::now(network, publication).since(before);
        let before = Usage::now(network, publication);
        let outcome = self.fetch(subject, site, network, name, object)?;
        let used = used(&before);
        let exchanges = site.scenario.exchanges(object.octets) as f64;
        let seconds = outcome.elapsed.as_secs_f64();
        let gib = object.octets as f64 / f64::from(1u32 << 30);
        let per_router = used.routers.as_secs_f64() / network.routers.len().max(1) as f64;
        let mut samples = vec![
            (Metric::Goodput, object.octets as f64 * 8.0 / seconds / 1e6),
            (Metric::Exchanges, exchanges / seconds),
            (Metric::CpuPerExchange, per_router * 1e6 / exchanges),
            (Metric::CpuPerExchangeConsumer, outcome.cpu.as_secs_f64() * 1e6 / exchanges),
            (Metric::CpuPerGibRouter, used.routers.as_secs_f64() / gib),
            (Metric::CpuPerGibConsumer, outcome.cpu.as_secs_f64() / gib),
        ];
        if let Some(producer) = used.producer {
            samples.push((Metric::CpuPerExchangeProducer, producer.as_secs_f64() * 1e6 / exchanges));
            samples.push((Metric::CpuPerGibProducer, producer.as_secs_f64() / gib));
        }
        Ok(samples)
    }

    /// Fetches `name` and compares the result with `object`.
    fn fetch(
        &self,
        subject: &dyn Subject,
        site: &Site<'_>,
        network: &Network,
        name: &str,
        object: &Object,
    ) -> Result<Outcome, Error> {
        let output = site.dir.join("output");
        remove_if_there(&output)?;
        let fetch = subject.fetch(site, network, name, &output);
        let on_stdout: Option<&PathBuf> = fetch.content_on_stdout.then_some(&output);
        let outcome = Process::run(
            "the fetch",
            fetch.command,
            site.dir,
            on_stdout.map(PathBuf::as_path),
            self.fetch_limit,
            site.interrupt,
        )?;
        expect_same(&object.path, &output)?;
        remove_if_there(&output)?;
        Ok(outcome)
    }

    fn flows(&self, subject: &dyn Subject, site: &Site<'_>) -> Result<Samples, Error> {
        let load = Load::find()?;
        let network = subject.start(site)?;
        let _server = load.serve(site, &network)?;
        let cpu_time = || network.routers.iter().map(Process::cpu_time).sum::<Duration>();
        let before = cpu_time();
        let measured = load.run(site, &network, Duration::from_secs(self.plan.load_s))?;
        let used = cpu_time().saturating_sub(before);
        let mut samples = measured.samples;
        samples.push((Metric::CpuPerExchange, used.as_secs_f64() * 1e6 / measured.exchanges.max(1.0)));
        Ok(samples)
    }

    fn ping(&self, subject: &dyn Subject, site: &Site<'_>) -> Result<Samples, Error> {
        let network = subject.start(site)?;
        let _server = subject.serve_pings(site, &network)?;
        let (count, interval_ms) = (self.plan.pings, Plan::PING_INTERVAL_MS);
        let output = site.dir.join("pings");
        let command = subject.ping(site, &network, count, interval_ms);
        let limit = self.fetch_limit + Duration::from_millis(interval_ms * u64::from(count));
        Process::run("the pings", command, site.dir, Some(&output), limit, site.interrupt)?;
        let printed = std::fs::read_to_string(&output)
            .map_err(|e| Error::environment("cannot read the pings' output", e))?;
        let pings = Pings::read(&printed);
        let lost = u64::from(count).saturating_sub(pings.answered);
        let p50 = pings.p50_us.map(|us| (Metric::P50, us));
        let p99 = pings.p99_us.map(|us| (Metric::P99, us));
        Ok(p50.into_iter().chain(p99).chain([(Metric::Failed, lost as f64)]).collect())
    }

    fn memory(&self, subject: &dyn Subject, site: &Site<'_>) -> Result<Samples, Error> {
        let network = subject.start(site)?;
        site.interrupt.sleep(SETTLE)?;
        let idle = rss_mib(&network)?;
        for number in 1..=self.plan.memory_objects {
            let octets = self.plan.object_octets_of(site.scenario);
            let object = Object::create(self.objects, number, octets)?;
            let publication = subject.publish(site, &network, &object)?;
            self.fetch(subject, site, &network, &publication.name, &object)?;
        }
        site.interrupt.sleep(SETTLE)?;
        Ok(vec![(Metric::RssIdle, idle), (Metric::Rss, rss_mib(&network)?)])
    }

    fn idle(&self, subject: &dyn Subject, site: &Site<'_>) -> Result<Samples, Error> {
        let network = subject.start(site)?;
        site.interrupt.sleep(2 * SETTLE)?;
        let cpu_time = || network.routers.iter().map(Process::cpu_time).sum::<Duration>();
        let (before, started) = (cpu_time(), Instant::now());
        site.interrupt.sleep(Duration::from_millis(self.plan.idle_ms))?;
        let (used, elapsed) = (cpu_time().saturating_sub(before), started.elapsed());
        let percent = used.as_secs_f64() / elapsed.as_secs_f64() * 100.0;
        Ok(vec![(Metric::CpuIdle, percent), (Metric::Rss, rss_mib(&network)?)])
    }
}

/// CPU time used so far by the processes that serve a fetch.
struct Usage {
    routers: Duration,
    producer: Option<Duration>,
}

impl Usage {
    fn now(network: &Network, publication: &Publication) -> Self {
        Usage {
            routers: network.routers.iter().map(Process::cpu_time).sum(),
            producer: publication.producer.as_ref().map(Process::cpu_time),
        }
    }

    fn since(&self, before: &Usage) -> Usage {
        let producer = self.producer.zip(before.producer).map(|(now, then)| now.saturating_sub(then));
        Usage { routers: self.routers.saturating_sub(before.routers), producer }
    }
}

fn rss_mib(network: &Network) -> Result<f64, Error> {
    let router = network.routers.first();
    router.and_then(Process::rss_mib).ok_or_else(|| Error::Subject("the router has ended".to_owned()))
}

fn object_of<'a>(site: &Site<'a>) -> Result<&'a Object, Error> {
    site.object.ok_or_else(|| Error::Usage(format!("{} has no object", site.scenario.name())))
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::environment(format!("cannot remove {}", path.display()), e))
        }
        _ => Ok(()),
    }
}
