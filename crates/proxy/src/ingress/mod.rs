//! The gateway for HTTP clients: each GET and HEAD becomes a named fetch, and its verified octets
//! are streamed to the client. It never answers with unverified data and never holds a whole body.
//! A client that does not use its slot is evicted when others wait.

mod body;
mod clients;
mod connection;
mod pace;
mod respond;

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

/// HTTP clients of an ingress.
///
/// # Limit
/// A client that uses its slot for nothing is evicted, the latest one of the address with most
/// clients; if all keep up, a new client waits.
/// - Counter: `shed`
/// - Tests: `a_full_ingress_drops_the_longest_waiting_client`,
///   `a_busy_gateway_still_answers_health_checks`,
///   `slow_clients_yield_to_an_honest_one`,
///   `the_largest_address_yields_a_slot`
pub const CLIENTS_MAX: usize = 256;

/// HTTP clients of an ingress that wait for a slot.
///
/// They may request the gateway's health, and get a slot when another client leaves.
///
/// # Limit
/// Further clients wait to be accepted.
/// - Tests: `a_full_ingress_drops_the_longest_waiting_client`,
///   `a_busy_gateway_still_answers_health_checks`
pub const NEWCOMERS_MAX: usize = 16;

/// HTTP clients of one address at an ingress, except the loopback.
///
/// All programs of this machine share a loopback address.
///
/// # Limit
/// The new connection is closed, and so is the latest client of the address if one is late.
/// - Counter: `refused_address`
/// - Tests: `the_idlest_client_of_an_address_leaves`,
///   `local_programs_share_all_client_slots`
pub const CLIENTS_PER_ADDRESS_MAX: usize = 64;

/// Concurrent bodies for clients of one address, except the loopback.
///
/// # Limit
/// A request waits, and is refused with 503 after 20 s.
/// - Counter: `refused_full`
/// - Tests: `an_address_has_a_stream_limit`
pub const STREAMS_PER_ADDRESS_MAX: usize = 32;

/// Time for a client to send a request's headers, or another request.
///
/// # Limit
/// The client is cut.
/// - Counter: `slow`
/// - Tests: `a_silent_client_never_blocks_the_gateway`,
///   `a_stalled_client_never_keeps_its_slot`
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Time for a request to wait for a slot.
///
/// # Limit
/// The request is refused with 503.
/// - Counter: `refused_full`
/// - Tests: `a_busy_gateway_still_answers_health_checks`,
///   `slow_clients_yield_to_an_honest_one`
pub const PLACE_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum time for a client to accept a piece of a body.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Octets of a request's line and headers at an ingress.
///
/// # Limit
/// The request is refused with 431.
/// - Tests: `a_silent_client_never_blocks_the_gateway`
pub const REQUEST_OCTETS_MAX: usize = 16 * 1024;

/// The names that requests map to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sites {
    /// Every host: the request's URL or Host is a component below this prefix, as a browser's proxy
    /// setting needs.
    All(Name),
    /// One site with this name, regardless of the host in the request, as a link to the gateway
    /// needs.
    One(Name),
}

impl Sites {
    /// Returns the prefix of all names that are fetched.
    pub fn prefix(&self) -> &Name {
        match self {
            Sites::All(prefix) | Sites::One(prefix) => prefix,
        }
    }
}

/// Counters of the gateway.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests answered with a body or without one (2xx, 3xx, and refusals by an origin itself).
    pub answered: AtomicU64,
    /// Requests that failed on the way: no route, no answer, or failed verification.
    pub failed: AtomicU64,
    /// Requests that no name can carry.
    pub refused: AtomicU64,
    /// Requests that got no slot in time.
    pub refused_full: AtomicU64,
    /// Clients refused because their address has reached its limit.
    pub refused_address: AtomicU64,
    /// Clients that were too slow to send a request, or to receive the response.
    pub slow: AtomicU64,
    /// Clients evicted, because they did not use their slot while others waited for one.
    pub shed: AtomicU64,
    /// Octets of bodies sent.
    pub octets: AtomicU64,
}

/// The gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum IngressError {
    /// Environment: the gateway cannot listen on the address.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// Environment: the system has no room for the threads.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

/// A listening gateway. Dropping it stops it.
#[derive(Debug)]
pub struct Ingress {
    address: SocketAddr,
    counters: Arc<Counters>,
    _runtime: tokio::runtime::Runtime,
}

/// Shared state for answering requests.
pub(crate) struct Gateway {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) sites: Sites,
    clients: Arc<Clients>,
    pub(crate) counters: Arc<Counters>,
}

impl Ingress {
    /// Listens on `address` (port 0: any) and answers with data that `consumer` fetches.
    ///
    /// # Errors
    /// The address is not available, or the system has no thread.
    pub fn start(
        address: SocketAddr,
        sites: Sites,
        consumer: impl Into<Arc<Consumer>>,
    ) -> Result<Self, IngressError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // Each body is read on a blocking thread, because the socket's reads block.
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

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters.
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
            // No descriptor is free. The next client that leaves frees one.
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
    let requester = client.clone();
    let answer =
        service_fn(move |request| respond::respond(gateway.clone(), requester.clone(), address, request));
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
