//! Accepts and serves clients, up to a maximum number at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::Counters;
use crate::answer::{Site, answer};
use crate::connection::{Connection, SLOW_TIMEOUT};
use crate::connection_slots::{ConnectionSlot, ConnectionSlots};

/// Octets of the request line and headers of a dashboard's client.
///
/// # Limit
/// The request is refused with 431.
/// - Counter: `refused`
/// - Tests: `oversized_heads_and_bodies_are_refused`
pub const REQUEST_OCTETS_MAX: usize = 16 * 1024;

/// Time for a client to send a request, or the next one.
///
/// # Limit
/// The connection is closed.
/// - Counter: `slow`
/// - Tests: `half_a_request_times_out`
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// [`REQUEST_TIMEOUT`] in a slot that is reserved for holders of the token.
const KEPT_TIMEOUT: Duration = Duration::from_secs(2);

const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

pub(crate) async fn accept(listener: TcpListener, site: Arc<Site>) {
    let slots = Arc::<ConnectionSlots>::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match slots.enter() {
                Some(slot) => {
                    let timeout = if slot.is_kept() { KEPT_TIMEOUT } else { REQUEST_TIMEOUT };
                    tokio::spawn(converse(stream, site.clone(), Arc::new(slot), timeout));
                }
                None => {
                    Counters::count(&site.counters.refused_full);
                    refuse(stream).await;
                }
            },
            // Probably no descriptor is left. A client that disconnects frees one.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Sends a refusal if the socket is writable within 10 ms. A longer wait would delay the next
/// client.
async fn refuse(stream: TcpStream) {
    if tokio::time::timeout(Duration::from_millis(10), stream.writable()).await.is_ok() {
        let _ = stream.try_write(FULL);
    }
}

async fn converse(stream: TcpStream, site: Arc<Site>, slot: Arc<ConnectionSlot>, timeout: Duration) {
    let counters = site.counters.clone();
    let connection = Connection::new(stream, counters.clone(), SLOW_TIMEOUT);
    let request_slot = slot.clone();
    let service = service_fn(move |request| {
        let (site, slot) = (site.clone(), request_slot.clone());
        async move { Ok::<_, Infallible>(answer(&site, &slot, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .max_buf_size(REQUEST_OCTETS_MAX)
        .serve_connection(TokioIo::new(connection), service);
    let served = tokio::select! {
        served = serving => served,
        () = slot.evicted() => {
            Counters::count(&counters.refused_full);
            return;
        }
    };
    if let Err(error) = served {
        if error.is_timeout() {
            Counters::count(&counters.slow);
        }
        tracing::debug!(%error, "a client's connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::feed::Feed;
    use crate::guard::Guard;
    use crate::{Dashboard, Options};

    /// Returns the response to `request` and the counters of a server with this `timeout` for
    /// requests.
    fn reply(request: &[u8], timeout: Duration) -> (Vec<u8>, Arc<Counters>) {
        let counters = Arc::new(Counters::default());
        let guard = Arc::new(Guard::new(([127, 0, 0, 1], 0).into(), Vec::new()).unwrap());
        let site = Site::new(Options::default(), guard, Feed::new(1, counters.clone()), counters.clone());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            let slot = Arc::new(Arc::<ConnectionSlots>::default().enter().unwrap());
            let (stream, _) = listener.accept().await.unwrap();
            converse(stream, Arc::new(site), slot, timeout).await;
        });
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        (answer, counters)
    }

    #[test]
    fn half_a_request_times_out() {
        let (answer, counters) = reply(b"GET / HTTP/1.1\r\nHost: localhost\r\n", Duration::from_millis(100));
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
        assert_eq!(counters.slow.load(Ordering::Relaxed), 1);
        let whole = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let (answer, counters) = reply(whole, Duration::from_secs(60));
        assert!(answer.starts_with(b"HTTP/1.1 200") && counters.slow.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn shown_routers_are_limited() {
        let options = |routers: usize| Options {
            routers: vec![Some("unix:///nowhere/namely.sock".into()); routers],
            ..Options::default()
        };
        assert!(Dashboard::start(options(crate::ROUTERS_MAX)).is_ok());
        for routers in [0, crate::ROUTERS_MAX + 1] {
            assert!(Dashboard::start(options(routers)).is_err());
        }
    }
}
