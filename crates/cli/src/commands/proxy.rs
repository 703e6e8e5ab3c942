//! `namely proxy`: HTTP over named data. `ingress` answers browsers, players and `curl`; `egress`
//! fetches from origins.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use http::Uri;
use namely_proxy::egress::{Egress, EgressOptions};
use namely_proxy::ingress::{Ingress, Sites};
use namely_socket::{Producer, ProducerOptions};
use namely_wire::Name;
use serde_json::json;

use super::poke::STOP_POLL;
use crate::context::Context;
use crate::failure::Failure;
use crate::fetching::{bind_failure, consumer};
use crate::keys;
use crate::options::name;

/// Default limit of a response's size in MiB.
const SIZE_MAX_MIB: u64 = 48;

/// Carry HTTP over named data, so that caches on the path answer.
#[derive(Debug, Subcommand)]
pub enum Proxy {
    /// Answer HTTP clients from named data
    Ingress(IngressArgs),
    /// Answer Interests with resources of HTTP origins
    Egress(EgressArgs),
}

/// Answer HTTP clients from named data.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely proxy ingress --site /http/video.example     # http://localhost:8080/live/1.m3u8
  namely proxy ingress                                # http_proxy=http://localhost:8080 curl http://video.example/")]
pub struct IngressArgs {
    /// The address to listen on; :8080 is that port of every address of this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = crate::options::address)]
    listen: SocketAddr,
    /// The prefix of all sites; each has its host as the next component.
    #[arg(long, value_name = "NAME", default_value = "/http", value_parser = name)]
    prefix: Name,
    /// Answer for this one site, regardless of the requested host.
    #[arg(long, value_name = "NAME", conflicts_with = "prefix", value_parser = name)]
    site: Option<Name>,
    /// Log each request, one line on standard error.
    #[arg(long)]
    access_log: bool,
    #[command(flatten)]
    trust: keys::Trust,
}

/// Answer Interests with resources of HTTP origins.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely proxy egress video.example
  namely proxy egress video.example=http://10.0.0.7:8000 --fresh 2")]
pub struct EgressArgs {
    /// A site, and its origin if that is not http://SITE.
    #[arg(required = true, value_name = "SITE[=ORIGIN]", value_parser = site)]
    sites: Vec<(String, Uri)>,
    /// The prefix of all sites; each has its host as the next component.
    #[arg(long, value_name = "NAME", default_value = "/http", value_parser = name)]
    prefix: Name,
    /// Freshness of responses for which the origin gives none, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    fresh: u64,
    /// Largest response, MiB [default: 48, or 3/4 of --buffer or --bodies-max if that is less]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65536))]
    size_max: Option<u64>,
    /// Responses in transfer from all origins, MiB; further ones are refused as congestion.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65536))]
    bodies_max: u64,
    /// Responses retained for each site, MiB; evicted ones are requested again.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65536))]
    buffer: u64,
    /// Timeout of an origin, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Log each request to an origin, one line on standard error.
    #[arg(long)]
    access_log: bool,
}

/// Parses `SITE` or `SITE=ORIGIN`.
fn site(text: &str) -> Result<(String, Uri), String> {
    let (site, origin) = match text.split_once('=') {
        Some((site, origin)) => (site, origin.to_owned()),
        None => (text, format!("http://{text}")),
    };
    let origin = origin.parse().map_err(|e| format!("'{origin}' is not a URL: {e}"))?;
    if site.is_empty() || site.contains(['/', '@']) {
        return Err(format!("'{site}' is not a host: give SITE or SITE=http://HOST:PORT"));
    }
    Ok((site.to_ascii_lowercase(), origin))
}

impl Proxy {
    /// Returns true if the gateway logs each request.
    pub fn logs_access(&self) -> bool {
        match self {
            Proxy::Ingress(args) => args.access_log,
            Proxy::Egress(args) => args.access_log,
        }
    }

    /// Runs until the command is stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Proxy::Ingress(args) => args.run(ctx),
            Proxy::Egress(args) => args.run(ctx),
        }
    }
}

impl IngressArgs {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let sites = match &self.site {
            Some(site) => Sites::One(site.clone()),
            None => Sites::All(self.prefix.clone()),
        };
        let consumer = consumer(ctx, sites.prefix().clone(), self.trust.of_socket(), None)?;
        let router = consumer.router().to_owned();
        let gateway = Ingress::start(self.listen, sites.clone(), consumer)
            .map_err(|e| failed(e).hint("choose another address with --listen"))?;
        ctx.out.remark(format!(
            "http://{} answers for {} through {router}; Ctrl-C stops",
            gateway.address(),
            sites.prefix()
        ));
        let address = gateway.address().to_string();
        begun(
            ctx,
            json!({"kind": "listening", "address": address, "name": sites.prefix().to_string(), "router": router}),
        );
        wait(&stop);
        let c = gateway.counters();
        let (answered, failed, refused, octets) =
            (read(&c.answered), read(&c.failed), read(&c.refused), read(&c.octets));
        let (full, address, slow, shed) =
            (read(&c.refused_full), read(&c.refused_address), read(&c.slow), read(&c.shed));
        ctx.out.answer(
            || {
                format!(
                    "{answered} requests answered ({octets} octets), {failed} failed, {refused} refused; {full} without a free slot; \
                     clients closed: {slow} slow, {shed} for others, {address} over the limit of their address"
                )
            },
            || {
                json!({
                    "kind": "summary", "answered": answered, "failed": failed, "refused": refused, "octets": octets,
                    "refused_full": full, "refused_address": address, "slow": slow, "shed": shed,
                })
            },
        );
        Ok(())
    }
}

impl EgressArgs {
    /// Returns the maximum size of a response in octets, within the limits of the buffers.
    fn body_octets_max(&self) -> Result<u64, Failure> {
        let one = if self.sites.len() > 1 { self.bodies_max / 2 } else { self.bodies_max };
        let buffers = [("--buffer", self.buffer), ("--bodies-max", one)];
        // At least 768 KiB, so that each combination of options leaves room for a response.
        let fits = |mib: u64| (mib.max(1) << 20) / 4 * 3;
        let Some(requested) = self.size_max else {
            return Ok(buffers.iter().map(|&(_, mib)| fits(mib)).fold(SIZE_MAX_MIB << 20, u64::min));
        };
        match buffers.iter().find(|&&(_, mib)| requested << 20 > fits(mib)) {
            None => Ok(requested << 20),
            Some((option, _)) => Err(Failure::failed(format!(
                "responses of {requested} MiB exceed the share of {option} for one response"
            ))
            .hint(format!("raise {option}, or give a smaller --size-max"))),
        }
    }

    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let options = EgressOptions {
            unless_said: Duration::from_secs(self.fresh),
            body_octets_max: self.body_octets_max()?,
            bodies_octets_max: self.bodies_max << 20,
            // With several sites, one site may use half, so that the others have the rest.
            site_percent_max: if self.sites.len() > 1 { 50 } else { 100 },
            timeout: Duration::from_secs(self.timeout),
        };
        let mut gateway = Egress::new(options).map_err(failed)?;
        for (site, origin) in &self.sites {
            let name = self.prefix.join_generic(site);
            // A missing key is created at once, as by `namely serve`.
            keys::PublisherKey::find_or_make(&name)?.announce(ctx);
            let options = ProducerOptions {
                router: ctx.global.router.clone(),
                trust_router_of: ctx.global.trusted(),
                buffer_octets: (self.buffer as usize) << 20,
                ..ProducerOptions::default()
            };
            let producer = Producer::bind(name.clone(), options).map_err(bind_failure)?;
            let router = producer.router().to_owned();
            gateway.add(producer, origin).map_err(failed)?;
            ctx.out.remark(format!("{name} comes from {origin} at {router}; Ctrl-C stops"));
            begun(
                ctx,
                json!({"kind": "serving", "name": name.to_string(), "origin": origin.to_string(), "router": router}),
            );
        }
        wait(&stop);
        let c = gateway.counters();
        let (asked, requests, octets, published, unusable, refused) = (
            read(&c.asked),
            read(&c.requests),
            read(&c.octets),
            read(&c.published),
            read(&c.unusable),
            read(&c.refused),
        );
        let full = read(&c.bodies_full);
        ctx.out.answer(
            || {
                format!(
                    "{asked} requested, {requests} requests to origins ({octets} octets), {published} published, {unusable} unusable, \
                     {refused} refused, {full} without space"
                )
            },
            || {
                json!({
                    "kind": "summary", "asked": asked, "requests": requests, "octets": octets, "published": published,
                    "unusable": unusable, "refused": refused, "bodies_full": full,
                })
            },
        );
        Ok(())
    }
}

/// Reports the start to programs. For people, a remark is printed instead.
fn begun(ctx: &Context<'_>, value: serde_json::Value) {
    if ctx.out.is_json() {
        ctx.out.answer(String::new, || value);
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error.to_string())
}

fn wait(stop: &std::sync::atomic::AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(STOP_POLL);
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
