//! A web page that shows routers while they work: the traffic of their faces, routes and
//! strategies, the content store, drops with their meaning, and the objects below a name
//! (docs/dashboard.md).
//!
//! It runs in a process of its own and is a client of each router, like every other. It reads
//! management's datasets while a page watches, and streams the changes to the page by server-sent
//! events. It never runs inside a router, never requests a part of the page from another host, and
//! changes a router only for a holder of its token.
//!
//! ```no_run
//! use namely_dashboard::{Dashboard, Options};
//!
//! let dashboard = Dashboard::start(Options::default())?;
//! println!("{}", dashboard.url());
//! # Ok::<(), namely_dashboard::StartError>(())
//! ```
#![forbid(unsafe_code)]

mod act;
mod answer;
mod certificate;
mod connection;
mod connection_slots;
mod counters;
mod explore;
mod feed;
mod guard;
mod history;
mod look;
mod options;
mod page;
mod reach;
mod server;
mod tls;
mod words;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use namely_host::web::PageHosts;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use self::feed::Feed;
use self::guard::{Guard, is_loopback};
use self::tls::Tls;

pub use self::act::{ACTIONS_MAX, BODY_OCTETS_MAX};
pub use self::certificate::{CERTIFICATE_OCTETS_MAX, CertificateError, CertificateFiles, CertificateSummary};
pub use self::connection::SLOW_TIMEOUT;
pub use self::connection_slots::{CONNECTIONS_FOR_TOKEN, CONNECTIONS_MAX};
pub use self::counters::Counters;
pub use self::explore::{ENTRIES_MAX, EXPLORATIONS_MAX, LISTING_OCTETS_MAX, PREVIEW_OCTETS_MAX};
pub use self::feed::{CHANGES_WAITING_MAX, STREAMS_FOR_TOKEN, STREAMS_MAX};
pub use self::history::{
    HISTORIES_MAX, HISTORY_OCTETS_MAX, HISTORY_TIME_MAX, PrometheusUrl, PrometheusUrlError,
};
pub use self::look::{COUNTERS_MAX, FACES_MAX, OBJECTS_MAX, ROUTES_MAX, TEXT_CHARS_MAX};
pub use self::options::{Options, ROUTERS_MAX};
pub use self::server::{REQUEST_OCTETS_MAX, REQUEST_TIMEOUT};
pub use self::tls::HANDSHAKE_TIMEOUT;
pub use self::words::{Meaning, meanings};

/// The reason for which the dashboard did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Caller: other machines can reach the address, and no certificate is given.
    #[error("{0} can be reached from other machines, and without TLS they could read the token")]
    Unencrypted(SocketAddr),
    /// Caller, environment: see [`CertificateError`].
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Environment: the address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// Environment: the system has no room for its threads.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
    /// Environment: the system has no randomness for a token.
    #[error("the system has no randomness for a token")]
    Token,
    /// Caller: no router, or more than [`ROUTERS_MAX`].
    #[error("{0} routers are more than the {ROUTERS_MAX} of one page")]
    Routers(usize),
}

/// A page that is served. Dropping it ends it.
#[derive(Debug)]
pub struct Dashboard {
    address: SocketAddr,
    /// The configured names.
    hosts: Vec<String>,
    tls: Option<Arc<Tls>>,
    guard: Arc<Guard>,
    counters: Arc<Counters>,
    feed: Arc<Feed>,
    /// The threads of the page and of handshakes. None are left when it ends.
    runtimes: Vec<Runtime>,
}

impl Dashboard {
    /// Listens, and polls the routers once a page watches.
    ///
    /// # Errors
    /// See [`StartError`]. An unreachable router is not an error: the page shows it.
    pub fn start(mut options: Options) -> Result<Self, StartError> {
        let routers = options.routers.len();
        if !(1..=ROUTERS_MAX).contains(&routers) {
            return Err(StartError::Routers(routers));
        }
        if options.certificate.is_none() && !is_loopback(options.listen) {
            return Err(StartError::Unencrypted(options.listen));
        }
        let mut runtimes = Vec::new();
        let tls = match options.certificate.take() {
            Some(files) => {
                let handshakes = tls::handshake_thread().map_err(StartError::Threads)?;
                let opened = Tls::open(files, handshakes.handle().clone());
                runtimes.push(handshakes);
                Some(Arc::new(opened?))
            }
            None => None,
        };
        let runtime = page_thread().map_err(StartError::Threads)?;
        let failed = |error| StartError::Listen(options.listen, error);
        let listener = runtime.block_on(TcpListener::bind(options.listen)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let hosts = options.hosts.clone();
        let guard = Guard::new(address, page_hosts(&hosts, tls.as_deref())).ok_or(StartError::Token)?;
        let (guard, counters) = (Arc::new(guard), Arc::new(Counters::default()));
        let feed = Feed::new(routers, counters.clone());
        let site = Arc::new(answer::Site::new(options, guard.clone(), feed.clone(), counters.clone()));
        for router in 0..routers {
            let site = site.clone();
            thread::Builder::new()
                .name(format!("look-{router}"))
                .spawn(move || look::poll_router(&site.feed, router, &site.reach[router], site.interval))
                .map_err(StartError::Threads)?;
        }
        runtime.spawn(server::accept(listener, site, tls.clone()));
        runtimes.push(runtime);
        Ok(Dashboard { address, hosts, tls, guard, counters, feed, runtimes })
    }

    /// The address at which the dashboard listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The page's address with the token. The token is in the fragment, which a browser does not
    /// send. Over TLS, the host is the first configured name, or else the first one of the
    /// certificate.
    pub fn url(&self) -> String {
        let (address, token) = (self.address, self.guard.token());
        let Some(certificate) = self.certificate() else { return format!("http://{address}/#token={token}") };
        match self.hosts.iter().chain(&certificate.names).next() {
            Some(name) => format!("https://{name}:{}/#token={token}", address.port()),
            None => format!("https://{address}/#token={token}"),
        }
    }

    /// The certificate in use; `None` without TLS.
    pub fn certificate(&self) -> Option<CertificateSummary> {
        Some(self.tls.as_ref()?.certificates.summary())
    }

    /// Reads the files of the certificate again. Returns the certificate if it is another one. It
    /// is used from the next handshake on, and its names are permitted. A faulty one is not used,
    /// and is reported once, when a second call finds the fault, too.
    ///
    /// # Errors
    /// See [`CertificateError`].
    pub fn renew_certificate(&self) -> Result<Option<CertificateSummary>, CertificateError> {
        let Some(tls) = &self.tls else { return Ok(None) };
        let renewed = tls.certificates.renew()?;
        if renewed.is_some() {
            self.guard.set_hosts(page_hosts(&self.hosts, Some(tls)));
        }
        Ok(renewed)
    }

    /// The token alone.
    pub fn token(&self) -> &str {
        self.guard.token()
    }

    /// Returns true if programs of other machines may connect, so that reading needs the token,
    /// too.
    pub fn is_reachable_remotely(&self) -> bool {
        self.guard.reading_needs_token()
    }

    /// The counters of served and refused requests.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.feed.stop();
        // The shutdown does not wait for requests that wait for a router's response.
        self.runtimes.drain(..).for_each(Runtime::shutdown_background);
    }
}

fn page_thread() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(EXPLORATIONS_MAX + ACTIONS_MAX)
        .thread_name("namely-page")
        .enable_all()
        .build()
}

/// The hosts by which browsers may address the page: `names`, and those of the certificate.
fn page_hosts(names: &[String], tls: Option<&Tls>) -> PageHosts {
    let Some(tls) = tls else { return PageHosts::new(names.to_vec()) };
    PageHosts::new(names.iter().cloned().chain(tls.certificates.summary().names).collect()).over_tls()
}
