//! The gateway that asks origins: what nobody has published yet is fetched once by HTTP and
//! published, so that caches answer the next who asks. It asks only the origins that it was given,
//! and sends them nothing that a client sent. It holds no body in memory: what is under way lies in
//! files without a name, and all of it together within a budget of octets.

mod bodies;
mod origin;
mod site;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::{HeaderValue, Uri};
use namely_host::shares::{Holder, ShareLimits, SharePool};
use namely_socket::{BindError, Producer};

use self::bodies::Bodies;
use self::origin::Origin;
use self::site::Site;

/// Requests to origins at once; what comes beyond is refused as congestion.
pub const REQUESTS_MAX: usize = 64;

/// Resources of a site whose version is remembered; the oldest is forgotten, and gets a new version
/// when it is asked for again.
pub const RESOURCES_MAX: usize = 65_536;

/// How origins are asked, and what of them is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressOptions {
    /// Freshness of responses whose origin says nothing about it.
    pub unless_said: Duration,
    /// Largest body, octets; no larger ones than three quarters of the output buffer of its site's
    /// producer or of `bodies_octets_max` in any case.
    pub body_octets_max: u64,
    /// Octets of all bodies that are under way from origins. A quarter of it is for small ones.
    pub bodies_octets_max: u64,
    /// How much of that, and of the requests at once, one site may have, percent.
    pub site_percent_max: u8,
    /// How long an origin may take for a whole response.
    pub timeout: Duration,
}

impl Default for EgressOptions {
    fn default() -> Self {
        EgressOptions {
            unless_said: Duration::from_secs(1),
            body_octets_max: 48 << 20,
            bodies_octets_max: 256 << 20,
            site_percent_max: 100,
            timeout: Duration::from_secs(30),
        }
    }
}

/// What went through.
#[derive(Debug, Default)]
pub struct Counters {
    /// Interests that reached the gateway, since no cache and not its own buffer had the answer.
    pub asked: AtomicU64,
    /// Requests to origins.
    pub requests: AtomicU64,
    /// Octets of bodies that came from origins.
    pub octets: AtomicU64,
    /// Responses published.
    pub published: AtomicU64,
    /// Responses that are for one client only, and requests that origins did not answer.
    pub unusable: AtomicU64,
    /// Interests refused: names of no URL, versions that are gone, more than [`REQUESTS_MAX`] at
    /// once, and those for which `bodies_full` counts.
    pub refused: AtomicU64,
    /// Responses given up, and their Interests refused as congestion, since the bodies under way
    /// leave no room for another.
    pub bodies_full: AtomicU64,
}

/// Why the gateway could not begin.
#[derive(Debug)]
pub enum EgressError {
    /// Caller: the origin's address is no `http://` or `https://` URL with a host and without path.
    Origin(Uri),
    /// The socket.
    Bind(BindError),
    /// Environment: the system has no room for its threads, or no certificates to know origins by.
    System(io::Error),
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EgressError::Origin(uri) => {
                write!(
                    f,
                    "{uri} is no origin: give http://HOST[:PORT] or https://HOST[:PORT], without a path"
                )
            }
            EgressError::Bind(error) => error.fmt(f),
            EgressError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EgressError {}

/// A gateway that runs. Dropping it ends it.
pub struct Egress {
    sites: Vec<Site>,
    counters: Arc<Counters>,
    runtime: tokio::runtime::Runtime,
    origin: Origin,
    options: EgressOptions,
    requests: SharePool,
    bodies: Bodies,
}

impl Egress {
    /// A gateway without sites.
    ///
    /// # Errors
    /// The system has no threads or certificates to begin with.
    pub fn new(options: EgressOptions) -> Result<Self, EgressError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("namely-egress")
            .enable_all()
            .build()
            .map_err(EgressError::System)?;
        let counters = Arc::new(Counters::default());
        let origin = Origin::new().map_err(EgressError::System)?;
        let total = REQUESTS_MAX as u64;
        let ceiling = (total * u64::from(options.site_percent_max) / 100).max(1);
        let requests = SharePool::new(ShareLimits { total, ceiling, ..ShareLimits::default() });
        let bodies = Bodies::new(options.bodies_octets_max, options.site_percent_max);
        Ok(Egress { sites: Vec::new(), counters, runtime, origin, options, requests, bodies })
    }

    /// Serves the site that `producer` is bound to from `origin`.
    ///
    /// # Errors
    /// The origin is no URL that is supported, or the system has no thread for it.
    pub fn add(&mut self, producer: Producer, origin: &Uri) -> Result<(), EgressError> {
        let base = origin::base(origin).ok_or_else(|| EgressError::Origin(origin.clone()))?;
        let host = producer.local_prefix().components().last().map(|c| HeaderValue::from_bytes(c.value));
        let host = host.and_then(Result::ok).ok_or_else(|| EgressError::Origin(origin.clone()))?;
        let buffer = producer.option("buffer_octets").ok().and_then(|octets| octets.parse().ok());
        let body_octets_max = self
            .options
            .body_octets_max
            .min(self.bodies.body_octets_max())
            // What is larger than the buffer is never all there.
            .min(buffer.unwrap_or(u64::MAX) / 4 * 3);
        let parts = site::Parts {
            producer: Arc::new(producer),
            holder: Holder::Site(u32::try_from(self.sites.len()).unwrap_or(u32::MAX)),
            base,
            host,
            origin: self.origin.clone(),
            options: EgressOptions { body_octets_max, ..self.options },
            counters: self.counters.clone(),
            requests: self.requests.clone(),
            bodies: self.bodies.clone(),
        };
        let site = Site::start(parts, self.runtime.handle().clone()).map_err(EgressError::System)?;
        self.sites.push(site);
        Ok(())
    }

    /// What went through.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Octets of bodies that are under way now, and the most that were.
    pub fn bodies_octets(&self) -> (u64, u64) {
        (self.bodies.used(), self.bodies.peak())
    }
}
