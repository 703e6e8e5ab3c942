//! Metrics in the OpenMetrics text format, or in Prometheus' older one, over HTTP: a thread that
//! accepts connections, and a short one for each of them.
//!
//! What is shown is what management shows, read in the same way: a worker waits no longer for it
//! than for the counters of one face to be copied. The text is made once for all who ask within
//! [`AGE_MAX`], so that no number of scrapers takes more of a processor than one that is as quick.
//! It never changes anything.

mod collect;
mod http;
mod places;

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use namely_host::Waker;
use namely_host::web::PageHosts;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};

use self::collect::Source;
use self::places::{METRICS_CONNECTIONS_MAX, Places};
use crate::config::Metrics;
use crate::exit::{Exit, Failure};
use crate::services::{Service, Start};
use crate::threads::Thread;

/// Threads that answer, with those whose connections have given way to others; a further connection
/// is told to come back (503).
pub(crate) const METRICS_THREADS_MAX: usize = 4 * METRICS_CONNECTIONS_MAX;

/// A text that is no older than this is given again.
const AGE_MAX: Duration = Duration::from_millis(200);

/// Metrics as a service.
#[derive(Default)]
pub(crate) struct MetricsServer(OnceLock<Running>);

impl Service for MetricsServer {
    fn start(&self, start: &Start<'_>) -> Result<(), Failure> {
        let Metrics { listen, hosts, faces_max } = &start.config.metrics;
        if let Some(address) = listen {
            let source = Source {
                home: start.home.clone(),
                services: start.services.clone(),
                orders: start.orders.clone(),
                start_ms: start.time.unix_ms,
                faces_max: *faces_max,
            };
            let _ = self.0.set(Running::start(*address, hosts, source)?);
        }
        Ok(())
    }

    fn address(&self) -> Option<SocketAddr> {
        self.0.get().map(|running| running.local)
    }

    fn stop(&self) {
        self.0.get().into_iter().for_each(Running::stop);
    }
}

/// The thread that serves metrics.
struct Running {
    /// With the port that was given where 0 was asked for.
    local: SocketAddr,
    server: Arc<Server>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Thread,
}

impl Running {
    /// Listens on `address`, where browsers may call it by `names` beside addresses and
    /// `localhost`, and serves what `source` tells.
    ///
    /// # Errors
    /// [`Failure`]: the address cannot be had.
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
            Accepting { listener, server: server.clone(), stop: stop.clone(), waker: waker.clone() };
        // Those that it starts to answer are as it is.
        let thread = Thread::start("namely-metrics", move || accepting.run()).map_err(cannot)?;
        Ok(Running { local, server, stop, waker, thread })
    }

    /// Ends the thread, and drops its references to the router. The list of services holds this
    /// service and would otherwise live as long as the last connection.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.join();
        self.server.shown.lock().source = None;
    }
}

/// The thread that accepts connections.
struct Accepting {
    listener: TcpListener,
    server: Arc<Server>,
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl Accepting {
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
                // No descriptor is left, mostly: those of connections come back.
                Err(error) => {
                    tracing::debug!("no connection for metrics: {error}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

/// What the threads of all connections share.
struct Server {
    shown: Mutex<Shown>,
    hosts: PageHosts,
    places: Places,
    threads: Arc<AtomicUsize>,
    counts: Counts,
}

/// What is shown, and where it is read.
struct Shown {
    /// `None` when the router stops: a connection that is left over holds nothing of it.
    source: Option<Source>,
    /// The latest text, and when it was made.
    latest: Option<(Instant, Arc<str>)>,
}

/// What became of requests; `docs/counters.md` lists them as `metrics.`.
#[derive(Debug, Default)]
struct Counts {
    scrapes: AtomicU64,
    refused: AtomicU64,
    gave_way: AtomicU64,
    foreign: AtomicU64,
    malformed: AtomicU64,
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
        // The machine's own name leads here in every resolver.
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Server {
            shown: Mutex::new(Shown { source: Some(source), latest: None }),
            hosts: PageHosts::new(names.iter().cloned().chain([own]).collect()),
            places: Places::default(),
            threads: Arc::default(),
            counts: Counts::default(),
        }
    }

    /// Answers a connection in a thread of its own, for which an older one may have to go.
    fn take(self: Arc<Self>, stream: TcpStream, address: IpAddr) {
        let Some(slot) = ThreadSlot::take(&self.threads) else {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return http::refuse(&stream);
        };
        let server = self.clone();
        let thread = std::thread::Builder::new().name("namely-scrape".into()).spawn(move || {
            let _slot = slot;
            let stream = Arc::new(stream);
            let (_place, has_another_gone) = server.places.enter(&stream, address);
            server.counts.gave_way.fetch_add(u64::from(has_another_gone), Ordering::Relaxed);
            http::answer(&stream, &server.hosts, &server.counts, || server.text());
        });
        if thread.is_err() {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The metrics as they are now, or were less than [`AGE_MAX`] ago; `None` when the router
    /// stops. Who comes while they are read waits for that.
    fn text(&self) -> Option<Arc<str>> {
        let mut shown = self.shown.lock();
        let source = shown.source.as_ref()?;
        if let Some((made, text)) = &shown.latest
            && made.elapsed() < AGE_MAX
        {
            return Some(text.clone());
        }
        let text: Arc<str> = source.text(self.counts.all()).into();
        shown.latest = Some((Instant::now(), text.clone()));
        Some(text)
    }
}

/// One of [`METRICS_THREADS_MAX`] threads. Dropping it makes room for another, however the thread
/// ends.
struct ThreadSlot(Arc<AtomicUsize>);

impl ThreadSlot {
    /// A slot, if one is free.
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        // Counted before the comparison, so that two connections never share the last slot. A slot
        // beyond the limit is dropped at once, which takes it out of the count again.
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
    fn so_many_threads_answer_and_no_more() {
        let taken = Arc::default();
        let mut slots: Vec<_> = (0..METRICS_THREADS_MAX).filter_map(|_| ThreadSlot::take(&taken)).collect();
        assert_eq!(slots.len(), METRICS_THREADS_MAX);
        assert!(ThreadSlot::take(&taken).is_none() && ThreadSlot::take(&taken).is_none());
        slots.pop();
        assert!(ThreadSlot::take(&taken).is_some(), "a thread that ended makes room");
    }
}
