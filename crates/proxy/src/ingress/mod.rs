//! The gateway that HTTP clients ask: each GET and HEAD becomes a named fetch, whose verified
//! octets are streamed to the client. It never answers with what was not verified, never holds a
//! whole body, and lets no client keep a place that it does not use while others wait for it.

mod body;
mod clients;
mod connection;
mod pace;
mod respond;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use namely_socket::Consumer;
use namely_wire::Name;
use tokio::net::{TcpListener, TcpStream};

use self::clients::{Client, Clients};
use self::connection::Connection;
pub use self::pace::{GRACE, RATE_OCTETS_MIN, SHED_GRACE, SHED_RATE_OCTETS};

/// Clients at once.
pub const CLIENTS_MAX: usize = 256;

/// Clients that are let in beyond those: they may ask how the gateway is, and get a place when
/// another goes. Further ones wait to be accepted.
pub const NEWCOMERS_MAX: usize = 16;

/// Clients of one address, but for those of this machine.
pub const CLIENTS_PER_ADDRESS_MAX: usize = 64;

/// Bodies that clients of one address are sent at once, but for those of this machine.
pub const STREAMS_PER_ADDRESS_MAX: usize = 32;

/// How long a client may take to send a request's headers, or to send the next request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a request may wait for a place; then it is refused with 503.
pub const PLACE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a client may take to take in a piece of a body.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest request line and headers, octets.
pub const REQUEST_OCTETS_MAX: usize = 16 * 1024;

/// Which names requests are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sites {
    /// Every host, named below this prefix by the request's URL or Host: what a browser's proxy
    /// setting needs.
    All(Name),
    /// One site, whose name this is, whatever host the request names: what a link to the gateway
    /// needs.
    One(Name),
}

impl Sites {
    /// The prefix below which everything is asked for.
    pub fn prefix(&self) -> &Name {
        match self {
            Sites::All(prefix) | Sites::One(prefix) => prefix,
        }
    }
}

/// What went through.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests answered with a body or its absence (2xx, 3xx, and what an origin itself refused).
    pub answered: AtomicU64,
    /// Requests that failed on the way: no route, no answer, not verified.
    pub failed: AtomicU64,
    /// Requests that no name can carry.
    pub refused: AtomicU64,
    /// Requests that got no place in time.
    pub refused_full: AtomicU64,
    /// Clients whose address has as many places as one may have.
    pub refused_address: AtomicU64,
    /// Clients that were too slow to ask, or to take in what they asked for.
    pub slow: AtomicU64,
    /// Clients that kept a place for nothing when others waited for one.
    pub shed: AtomicU64,
    /// Octets of bodies sent.
    pub octets: AtomicU64,
}

/// Why the gateway could not begin.
#[derive(Debug)]
pub enum IngressError {
    /// Environment: the address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// Environment: the system has no room for its threads.
    Threads(io::Error),
}

impl fmt::Display for IngressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IngressError::Listen(address, e) => write!(f, "cannot listen on {address}: {e}"),
            IngressError::Threads(e) => write!(f, "cannot start threads: {e}"),
        }
    }
}

impl std::error::Error for IngressError {}

/// A gateway that listens. Dropping it ends it.
#[derive(Debug)]
pub struct Ingress {
    address: SocketAddr,
    counters: Arc<Counters>,
    _runtime: tokio::runtime::Runtime,
}

/// What the answer to a request needs.
pub(crate) struct Gateway {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) sites: Sites,
    clients: Arc<Clients>,
    pub(crate) counters: Arc<Counters>,
}

impl Ingress {
    /// Listens on `address` (port 0: any) and answers from what `consumer` fetches.
    ///
    /// # Errors
    /// The address cannot be listened on, or the system has no thread.
    pub fn start(
        address: SocketAddr,
        sites: Sites,
        consumer: impl Into<Arc<Consumer>>,
    ) -> Result<Self, IngressError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // A body is read by a thread of its own, as sockets that wait are.
            .max_blocking_threads(CLIENTS_MAX)
            .thread_name("namely-gateway")
            .enable_all()
            .build()
            .map_err(IngressError::Threads)?;
        let failed = |e| IngressError::Listen(address, e);
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let counters = Arc::new(Counters::default());
        let gateway = Arc::new(Gateway {
            consumer: consumer.into(),
            sites,
            clients: Clients::new(counters.clone()),
            counters: counters.clone(),
        });
        runtime.spawn(accept(listener, gateway));
        Ok(Ingress { address, counters, _runtime: runtime })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What went through.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

async fn accept(listener: TcpListener, gateway: Arc<Gateway>) {
    loop {
        gateway.clients.room().await;
        match listener.accept().await {
            Ok((stream, address)) => {
                if let Some(client) = gateway.clients.admit(address.ip()) {
                    tokio::spawn(converse(stream, address, client, gateway.clone()));
                }
            }
            // No descriptor is left: a client that goes will free one.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, address: SocketAddr, client: Client, gateway: Arc<Gateway>) {
    let client = Arc::new(client);
    let counters = gateway.counters.clone();
    let connection = Connection::new(stream, client.clone());
    let asking = client.clone();
    let answer =
        service_fn(move |request| respond::respond(gateway.clone(), asking.clone(), address, request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(REQUEST_OCTETS_MAX)
        .serve_connection(TokioIo::new(connection), answer);
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                Counters::count(&counters.slow, u64::from(error.is_timeout()));
                tracing::debug!(%error, "a client's connection ended early");
            }
        }
        () = client.leaves() => tracing::debug!(%address, "a client is too slow, and was closed"),
    }
}

impl Counters {
    pub(crate) fn count(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}
