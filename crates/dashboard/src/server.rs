//! Who comes is served, up to a number at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Counters;
use crate::answer::{Site, answer};
use crate::connection::{Connection, SLOW_TIMEOUT};

/// Connections at once; who comes when there are as many hears 503.
pub const CONNECTIONS_MAX: usize = 64;

/// Longest request line and headers, octets.
pub const REQUEST_OCTETS_MAX: usize = 16 * 1024;

/// How long a client may take to send a request, or to send the next one.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

pub(crate) async fn accept(listener: TcpListener, site: Arc<Site>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match places.clone().try_acquire_owned() {
                Ok(place) => drop(tokio::spawn(converse(stream, site.clone(), place))),
                Err(_) => {
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

async fn converse(stream: TcpStream, site: Arc<Site>, _place: OwnedSemaphorePermit) {
    let counters = site.counters.clone();
    let connection = Connection::new(stream, counters.clone(), SLOW_TIMEOUT);
    let service = service_fn(move |request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(answer(&site, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(REQUEST_OCTETS_MAX)
        .serve_connection(TokioIo::new(connection), service)
        .await;
    if let Err(error) = served {
        if error.is_timeout() {
            Counters::count(&counters.slow);
        }
        tracing::debug!(%error, "a client's connection ended early");
    }
}
