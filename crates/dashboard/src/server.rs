//! Accepts and serves clients, up to a maximum number at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::Counters;
use crate::answer::{Site, answer};
use crate::connection::{Connection, SLOW_TIMEOUT};
use crate::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::tls::{HANDSHAKE_TIMEOUT, Tls};

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

/// [`REQUEST_TIMEOUT`] and [`HANDSHAKE_TIMEOUT`] in a slot that is reserved for holders of the
/// token.
const KEPT_TIMEOUT: Duration = Duration::from_secs(2);

const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Serves clients, over `tls` if there is one.
pub(crate) async fn accept(listener: TcpListener, site: Arc<Site>, tls: Option<Arc<Tls>>) {
    let slots = Arc::<ConnectionSlots>::default();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => match slots.enter(client.ip()) {
                Some(slot) => {
                    tokio::spawn(converse(
                        stream,
                        site.clone(),
                        tls.clone(),
                        Times::of(&slot),
                        Arc::new(slot),
                    ));
                }
                None => {
                    Counters::count(&site.counters.refused_full);
                    // A client of TLS could not read it.
                    if tls.is_none() {
                        refuse(stream).await;
                    }
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

/// The time that a client has for each step.
#[derive(Clone, Copy, Debug)]
struct Times {
    handshake: Duration,
    request: Duration,
}

impl Times {
    fn of(slot: &ConnectionSlot) -> Self {
        if slot.is_kept() {
            Times { handshake: KEPT_TIMEOUT, request: KEPT_TIMEOUT }
        } else {
            Times { handshake: HANDSHAKE_TIMEOUT, request: REQUEST_TIMEOUT }
        }
    }
}

/// Serves a client until one of the two ends the connection, or the slot is needed for another.
async fn converse(
    stream: TcpStream,
    site: Arc<Site>,
    tls: Option<Arc<Tls>>,
    times: Times,
    slot: Arc<ConnectionSlot>,
) {
    let counters = site.counters.clone();
    let serving = async {
        match tls {
            None => serve(Connection::new(stream, counters.clone(), SLOW_TIMEOUT), site, &slot, times).await,
            Some(tls) => match tls.negotiate(stream, &counters, times.handshake).await {
                Some(connection) => serve(connection, site, &slot, times).await,
                None => Ok(()),
            },
        }
    };
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

async fn serve(
    connection: impl AsyncRead + AsyncWrite + Unpin,
    site: Arc<Site>,
    slot: &Arc<ConnectionSlot>,
    times: Times,
) -> hyper::Result<()> {
    let service = service_fn(|request| {
        let (site, slot) = (site.clone(), slot.clone());
        async move { Ok::<_, Infallible>(answer(&site, &slot, request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(times.request)
        .max_buf_size(REQUEST_OCTETS_MAX)
        .serve_connection(TokioIo::new(connection), service)
        .await
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::atomic::Ordering;

    use namely_host::web::PageHosts;

    use super::*;
    use crate::feed::Feed;
    use crate::guard::Guard;
    use crate::{Dashboard, Options};

    /// Returns the response to `request` and the counters of a server with this `timeout` for
    /// requests.
    fn reply(request: &[u8], timeout: Duration) -> (Vec<u8>, Arc<Counters>) {
        let counters = Arc::new(Counters::default());
        let guard = Arc::new(Guard::new(([127, 0, 0, 1], 0).into(), PageHosts::default()).unwrap());
        let site = Site::new(Options::default(), guard, Feed::new(1, counters.clone()), counters.clone());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            let (stream, client) = listener.accept().await.unwrap();
            let slot = Arc::new(Arc::<ConnectionSlots>::default().enter(client.ip()).unwrap());
            let times = Times { handshake: timeout, request: timeout };
            converse(stream, Arc::new(site), None, times, slot).await;
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
