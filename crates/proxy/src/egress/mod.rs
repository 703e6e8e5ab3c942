//! The gateway to origins. It fetches an unpublished resource once by HTTP and publishes it, so
//! that caches answer later requests. It connects only to the configured origins, and forwards
//! nothing that a client sent. It holds no body in memory: bodies under way are in unnamed files,
//! and share a budget of octets.

mod bodies;
mod origin;
mod site;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::{HeaderValue, Uri};
use namely_host::shares::{Owner, ShareLimits, SharePool};
use namely_socket::{BindError, Producer};

use self::bodies::Bodies;
use self::origin::Origin;
use self::site::Site;

/// Concurrent requests to origins.
///
/// # Limit
/// A further Interest is refused with a Congestion Nack.
/// - Value: 64; half of them for one of several sites
/// - Counter: `refused`
/// - Tests: `a_busy_gateway_still_answers_health_checks`
pub const REQUESTS_MAX: usize = 64;

/// Resources of a site whose version is remembered.
///
/// # Limit
/// The oldest is evicted, and gets a new version at its next request.
/// - Tests: `the_oldest_site_version_is_forgotten`
pub const RESOURCES_MAX: usize = 65_536;

/// Options for requests to origins and for publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressOptions {
    /// Freshness of responses without one of their own.
    pub unless_said: Duration,
    /// Octets of an origin's body.
    ///
    /// The limit is also three quarters of `bodies_octets_max`.
    ///
    /// # Limit
    /// The answer is 502 with the reason.
    /// - Value: 48 MiB, and three quarters of the output buffer of the site's producer
    /// - Counter: `unusable`
    /// - Tests:
    ///   `an_oversized_body_is_refused`,
    ///   `private_responses_are_refused_with_a_reason`
    pub body_octets_max: u64,
    /// Octets of all bodies under way from origins.
    ///
    /// # Limit
    /// A further Interest is refused with a Congestion Nack.
    /// - Value: 256 MiB; three quarters for bodies beyond 1 MiB, half for one of several sites
    /// - Counter: `bodies_full`
    /// - Tests: `bodies_share_a_byte_budget`,
    ///   `large_bodies_leave_a_quarter_for_small_ones`, `one_site_leaves_room_for_others`,
    ///   `large_bodies_stay_within_the_budget`
    pub bodies_octets_max: u64,
    /// Share of that budget, and of the concurrent requests, that one site may use, in percent.
    pub site_percent_max: u8,
    /// Maximum time for a whole response of an origin.
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

/// Counters of the gateway.
#[derive(Debug, Default)]
pub struct Counters {
    /// Interests that reached the gateway, because neither a cache nor its own buffer had the
    /// answer.
    pub asked: AtomicU64,
    /// Requests to origins.
    pub requests: AtomicU64,
    /// Octets of bodies that came from origins.
    pub octets: AtomicU64,
    /// Responses published.
    pub published: AtomicU64,
    /// Responses that are for one client only, and requests without a response from the origin.
    pub unusable: AtomicU64,
    /// Interests refused: the name is no URL, the version is gone, more than [`REQUESTS_MAX`]
    /// requests are under way, or the response was abandoned (`bodies_full`).
    pub refused: AtomicU64,
    /// Responses abandoned because the bodies under way leave no room. Their Interests are refused
    /// as congestion.
    pub bodies_full: AtomicU64,
}

/// The gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// Caller: the origin's address is not an `http://` or `https://` URL with a host and without a
    /// path.
    #[error("{0} is no origin: give http://HOST[:PORT] or https://HOST[:PORT], without a path")]
    Origin(Uri),
    /// The socket could not be bound.
    #[error(transparent)]
    Bind(BindError),
    /// Environment: the system has no room for the threads, or no certificates to verify origins.
    #[error(transparent)]
    System(io::Error),
}

/// A running gateway. Dropping it stops it.
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
    /// Creates a gateway without sites.
    ///
    /// # Errors
    /// The system has no threads or no certificates.
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

    /// Serves the site of `producer` from `origin`.
    ///
    /// # Errors
    /// The origin is no supported URL, or the system has no thread for the site.
    pub fn add(&mut self, producer: Producer, origin: &Uri) -> Result<(), EgressError> {
        let base = origin::base(origin).ok_or_else(|| EgressError::Origin(origin.clone()))?;
        let host = producer.local_prefix().components().last().map(|c| HeaderValue::from_bytes(c.value));
        let host = host.and_then(Result::ok).ok_or_else(|| EgressError::Origin(origin.clone()))?;
        let buffer = producer.option("buffer_octets").ok().and_then(|octets| octets.parse().ok());
        let body_octets_max = self
            .options
            .body_octets_max
            .min(self.bodies.body_octets_max())
            // A body larger than the buffer would never be complete in it.
            .min(buffer.unwrap_or(u64::MAX) / 4 * 3);
        let parts = site::Parts {
            producer: Arc::new(producer),
            holder: Owner::Site(u32::try_from(self.sites.len()).unwrap_or(u32::MAX)),
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

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the octets of bodies under way now, and their maximum so far.
    pub fn bodies_octets(&self) -> (u64, u64) {
        (self.bodies.used(), self.bodies.peak())
    }
}
