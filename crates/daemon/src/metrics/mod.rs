//! Metrics in the OpenMetrics text format, or in Prometheus' older one, and the router's health,
//! over HTTP: a thread that accepts connections, and a short-lived thread for each of them.
//!
//! The metrics are read like the datasets of management: a worker only waits while the counters of
//! one face are copied. The text is made once for all requests within [`AGE_MAX`], so that the load
//! does not grow with the number of scrapers. Nothing is ever changed.

mod collect;
mod connection_slots;
mod http;
mod process;

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use namely_host::Waker;
use namely_host::web::PageHosts;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};

use self::collect::Source;
use self::connection_slots::{ConnectionSlots, METRICS_CONNECTIONS_MAX};
use crate::config::Metrics;
use crate::exit::{Exit, Failure};
use crate::home::RouterHandle;
use crate::services::{Service, StartContext};
use crate::threads::Thread;

/// Threads that answer requests for metrics.
///
/// They include those whose connections were evicted.
///
/// # Limit
/// A further connection is refused with 503.
/// - Value: 32
/// - Counter: `metrics.refused`
/// - Tests: `metrics_threads_have_a_limit`
pub(crate) const METRICS_THREADS_MAX: usize = 4 * METRICS_CONNECTIONS_MAX;

/// Maximum age of a reused text or check of the health.
const AGE_MAX: Duration = Duration::from_millis(200);

/// Time for the control thread and each worker to respond to a check of the health.
const HEALTH_PATIENCE: Duration = Duration::from_secs(2);

/// Metrics as a service.
#[derive(Default)]
pub(crate) struct MetricsServer(OnceLock<Running>);

impl Service for MetricsServer {
    fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        let Metrics { listen, hosts, faces_max } = &start.config.metrics;
        if let Some(address) = listen {
            let source = Source {
                home: start.home.clone(),
                services: start.services.clone(),
                orders: start.orders.clone(),
                start: start.time,
                faces_max: *faces_max,
            };
            let _ = self.0.set(Running::start(*address, hosts, source)?);
        }
        Ok(())
    }

    fn address(&self) -> Option<SocketAddr> {
        self.0.get().map(|running| running.local)
    }

    fn drain(&self, _: &RouterHandle, _: u64) {
        self.0
            .get()
            .into_iter()
            .for_each(|running| running.server.is_draining.store(true, Ordering::Relaxed));
    }

    fn stop(&self) {
        self.0.get().into_iter().for_each(Running::stop);
    }
}

/// The handle of the thread that serves metrics.
struct Running {
    /// The address, with the assigned port if 0 was configured.
    local: SocketAddr,
    server: Arc<Server>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Thread,
}

impl Running {
    /// Listens on `address` and serves the metrics of `source`. Browsers may use `names` as its
    /// host name, in addition to addresses and `localhost`.
    ///
    /// # Errors
    /// [`Failure`]: the address is not available.
    fn start(address: SocketAddr, names: &[String], source: Source) -> Result<Self, Failure> {
        let cannot = |error: std::io::Error| {
            Failure::new(Exit::CannotListen, format!("serving metrics on {address}: {error}"))
                .hint("`--metrics ADDRESS:PORT` chooses another address")
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let local = listener.local_addr().map_err(cannot)?;
        let waker = Waker::new().map_err(|errno| cannot(errno.into()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let server = Arc::new(Server::new(names, source));
        let accepting =
            AcceptThread { listener, server: server.clone(), stop: stop.clone(), waker: waker.clone() };
        // The threads for connections inherit its scheduling.
        let thread = Thread::start("namely-metrics", move || accepting.run()).map_err(cannot)?;
        Ok(Running { local, server, stop, waker, thread })
    }

    /// Stops the thread, and drops its references to the router. Otherwise the list of services,
    /// which holds this service, would live as long as the last connection.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.join();
        self.server.cache.lock().source = None;
    }
}

/// The thread that accepts connections.
struct AcceptThread {
    listener: TcpListener,
    server: Arc<Server>,
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl AcceptThread {
    fn run(self) {
        while !self.stop.load(Ordering::Relaxed) {
            let mut waits =
                [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.waker, PollFlags::IN)];
            if let Err(errno) = poll(&mut waits, None)
                && errno != rustix::io::Errno::INTR
            {
                tracing::error!("metrics are no longer served: {errno}");
                return;
            }
            self.waker.reset();
            match self.listener.accept() {
                Ok((stream, from)) => self.server.clone().take(stream, from.ip()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Usually no descriptor is left until other connections close.
                Err(error) => {
                    tracing::debug!("no connection for metrics: {error}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

/// The state of the router for a load balancer, which uses only a router that is well.
enum Health {
    Well,
    /// It is about to stop.
    Draining,
    /// It does not respond.
    Silent,
}

/// The state shared by all connections.
struct Server {
    cache: Mutex<MetricsCache>,
    /// The latest check of the health, and its time.
    health: Mutex<Option<(Instant, bool)>>,
    is_draining: AtomicBool,
    hosts: PageHosts,
    slots: ConnectionSlots,
    threads: Arc<AtomicUsize>,
    counts: Counts,
}

/// The source of metrics, and the latest text.
struct MetricsCache {
    /// `None` after the stop, so that a remaining connection holds no part of the router.
    source: Option<Source>,
    /// The latest text, and its time.
    latest: Option<(Instant, Arc<str>)>,
}

/// Counters of requests; `docs/counters.md` lists them as `metrics.`.
#[derive(Debug, Default)]
struct Counts {
    /// Requests for metrics that were answered.
    scrapes: AtomicU64,
    /// Requests refused (503) because too many were being answered.
    refused: AtomicU64,
    /// Requests ended for a newer one because all slots were in use.
    gave_way: AtomicU64,
    /// Requests by another host name, or of a page of another site.
    foreign: AtomicU64,
    /// Requests for another path, or not by HTTP.
    malformed: AtomicU64,
    /// Requests that were not complete, or whose answer was not read, in time.
    too_slow: AtomicU64,
}

impl Counts {
    fn all(&self) -> [(&'static str, u64); 6] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("metrics.scrapes", of(&self.scrapes)),
            ("metrics.refused", of(&self.refused)),
            ("metrics.gave_way", of(&self.gave_way)),
            ("metrics.foreign", of(&self.foreign)),
            ("metrics.malformed", of(&self.malformed)),
            ("metrics.too_slow", of(&self.too_slow)),
        ]
    }
}

impl Server {
    fn new(names: &[String], source: Source) -> Self {
        // Every resolver maps the machine's own name to this machine.
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Server {
            cache: Mutex::new(MetricsCache { source: Some(source), latest: None }),
            health: Mutex::default(),
            is_draining: AtomicBool::new(false),
            hosts: PageHosts::new(names.iter().cloned().chain([own]).collect()),
            slots: ConnectionSlots::default(),
            threads: Arc::default(),
            counts: Counts::default(),
        }
    }

    /// Answers a connection in a separate thread. An older connection may be evicted for it.
    fn take(self: Arc<Self>, stream: TcpStream, address: IpAddr) {
        let Some(slot) = ThreadSlot::take(&self.threads) else {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return http::refuse(&stream);
        };
        let server = self.clone();
        let thread = std::thread::Builder::new().name("namely-scrape".into()).spawn(move || {
            let _slot = slot;
            let stream = Arc::new(stream);
            let (_connection_slot, has_another_gone) = server.slots.enter(&stream, address);
            server.counts.gave_way.fetch_add(u64::from(has_another_gone), Ordering::Relaxed);
            http::answer(&stream, &server);
        });
        if thread.is_err() {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The state of the router for a load balancer.
    fn health(&self) -> Health {
        match self.is_well() {
            true if self.is_draining.load(Ordering::Relaxed) => Health::Draining,
            true => Health::Well,
            false => Health::Silent,
        }
    }

    /// Returns true if the router responds now, or did less than [`AGE_MAX`] ago. Concurrent
    /// requests wait for the lock, so they cause one check.
    fn is_well(&self) -> bool {
        // Released before the check, so that a stop does not wait for it.
        let orders = self.cache.lock().source.as_ref().map(|source| source.orders.clone());
        let Some(orders) = orders else { return false };
        let mut health = self.health.lock();
        if let Some((checked, is_well)) = *health
            && checked.elapsed() < AGE_MAX
        {
            return is_well;
        }
        let is_well = orders.is_answered(HEALTH_PATIENCE);
        *health = Some((Instant::now(), is_well));
        is_well
    }

    /// The current metrics, or those of less than [`AGE_MAX`] ago; `None` after the stop.
    /// Concurrent requests wait for the lock, and then receive the same text.
    fn text(&self) -> Option<Arc<str>> {
        let mut cache = self.cache.lock();
        let source = cache.source.as_ref()?;
        if let Some((made, text)) = &cache.latest
            && made.elapsed() < AGE_MAX
        {
            return Some(text.clone());
        }
        let text: Arc<str> = source.text(self.counts.all()).into();
        cache.latest = Some((Instant::now(), text.clone()));
        Some(text)
    }
}

/// One of [`METRICS_THREADS_MAX`] threads. Dropping it frees the slot, even after a panic.
struct ThreadSlot(Arc<AtomicUsize>);

impl ThreadSlot {
    /// Takes a slot, if one is free.
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        // Counted before the comparison, so that two connections never share the last slot. A slot
        // beyond the limit is dropped at once, which decrements the count again.
        let before = taken.fetch_add(1, Ordering::Relaxed);
        Some(ThreadSlot(taken.clone())).filter(|_| before < METRICS_THREADS_MAX)
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_threads_have_a_limit() {
        let taken = Arc::default();
        let mut slots: Vec<_> = (0..METRICS_THREADS_MAX).filter_map(|_| ThreadSlot::take(&taken)).collect();
        assert_eq!(slots.len(), METRICS_THREADS_MAX);
        assert!(ThreadSlot::take(&taken).is_none() && ThreadSlot::take(&taken).is_none());
        slots.pop();
        assert!(ThreadSlot::take(&taken).is_some(), "a thread that ended makes room");
    }
}
