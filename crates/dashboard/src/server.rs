//! Who comes is served, up to a number at once.

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
use crate::places::{Place, Places};

/// Longest request line and headers, octets.
pub const REQUEST_OCTETS_MAX: usize = 16 * 1024;

/// How long a client may take to send a request, or to send the next one.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The same in a place that is kept for who has the token.
const KEPT_TIMEOUT: Duration = Duration::from_secs(2);

const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

pub(crate) async fn accept(listener: TcpListener, site: Arc<Site>) {
    let places = Arc::<Places>::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match places.enter() {
                Some(place) => {
                    let timeout = if place.is_kept() { KEPT_TIMEOUT } else { REQUEST_TIMEOUT };
                    tokio::spawn(converse(stream, site.clone(), Arc::new(place), timeout));
                }
                None => {
                    Counters::count(&site.counters.refused_full);
                    refuse(stream).await;
                }
            },
            // No descriptor is left: a client that goes will free one.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// What a new socket does not take at once is not worth waiting for.
async fn refuse(stream: TcpStream) {
    if tokio::time::timeout(Duration::from_millis(10), stream.writable()).await.is_ok() {
        let _ = stream.try_write(FULL);
    }
}

async fn converse(stream: TcpStream, site: Arc<Site>, place: Arc<Place>, timeout: Duration) {
    let counters = site.counters.clone();
    let connection = Connection::new(stream, counters.clone(), SLOW_TIMEOUT);
    let asked_at = place.clone();
    let service = service_fn(move |request| {
        let (site, place) = (site.clone(), asked_at.clone());
        async move { Ok::<_, Infallible>(answer(&site, &place, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .max_buf_size(REQUEST_OCTETS_MAX)
        .serve_connection(TokioIo::new(connection), service);
    let served = tokio::select! {
        served = serving => served,
        () = place.gives_way() => {
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

    /// What a client hears that says `request`, where a request may take `timeout`.
    fn heard(request: &[u8], timeout: Duration) -> (Vec<u8>, Arc<Counters>) {
        let counters = Arc::new(Counters::default());
        let guard = Arc::new(Guard::new(([127, 0, 0, 1], 0).into(), Vec::new()).unwrap());
        let site = Site::new(Options::default(), guard, Feed::new(1, counters.clone()), counters.clone());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            let place = Arc::new(Arc::<Places>::default().enter().unwrap());
            let (stream, _) = listener.accept().await.unwrap();
            converse(stream, Arc::new(site), place, timeout).await;
        });
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        (answer, counters)
    }

    #[test]
    fn half_a_request_is_waited_for_so_long_and_no_longer() {
        let (answer, counters) = heard(b"GET / HTTP/1.1\r\nHost: localhost\r\n", Duration::from_millis(100));
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
        assert_eq!(counters.slow.load(Ordering::Relaxed), 1);
        let whole = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let (answer, counters) = heard(whole, Duration::from_secs(60));
        assert!(answer.starts_with(b"HTTP/1.1 200") && counters.slow.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn so_many_routers_are_shown_and_no_more() {
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
