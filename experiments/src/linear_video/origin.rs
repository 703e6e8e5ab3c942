//! The origin: an HTTP server that makes playlists and segments of every channel while they are on
//! air, and counts its requests. The paths are `/<channel>/<quality>/live.m3u8` and
//! `/<channel>/<quality>/<number>.ts`. A Host of `ch<channel>` replaces the first part.

use namely_bench::output;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::live;

/// Time for which a cache may answer with a playlist, s: half a segment.
const PLAYLIST_FRESH_S: u64 = live::SEGMENT_MS / 2000;

/// Serves on `address` until the process ends; prints the number of requests every second.
pub(crate) fn run(address: SocketAddr, scale: f64) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        let requests = Arc::new(AtomicU64::new(0));
        output::line(listener.local_addr()?);
        tokio::spawn(report(requests.clone()));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let requests = requests.clone();
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    requests.fetch_add(1, Ordering::Relaxed);
                    async move { Ok::<_, Infallible>(answer(&request, scale)) }
                });
                // A viewer that leaves ends its connection. This needs no report.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    })
}

async fn report(requests: Arc<AtomicU64>) {
    let mut last = None;
    loop {
        let now = requests.load(Ordering::Relaxed);
        if last != Some(now) {
            output::line(now);
            last = Some(now);
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

fn answer(request: &Request<Incoming>, scale: f64) -> Response<Full<Bytes>> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    match content(host, request.uri().path(), scale) {
        Some((content, kind, fresh_s)) => {
            let mut response = Response::new(Full::new(Bytes::from(content)));
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
            if let Ok(value) = http::HeaderValue::from_str(&format!("max-age={fresh_s}")) {
                headers.insert(header::CACHE_CONTROL, value);
            }
            response
        }
        None => {
            let mut response = Response::new(Full::new(Bytes::from_static(b"not on air\n")));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}

/// The content of a path, its media type, and the time for which it is fresh.
fn content(host: &str, path: &str, scale: f64) -> Option<(Vec<u8>, &'static str, u64)> {
    let path = path.strip_prefix('/')?;
    let (channel, path) = match host.strip_prefix("ch").and_then(|channel| channel.parse().ok()) {
        Some(channel) => (channel, path),
        None => {
            let (channel, path) = path.split_once('/')?;
            (channel.parse().ok()?, path)
        }
    };
    let (quality, file) = path.split_once('/')?;
    let quality = quality.parse().ok().filter(|quality| *quality < live::RATES.len())?;
    let now_ms = live::now_ms();
    if file == "live.m3u8" {
        return Some((
            live::playlist(now_ms).into_bytes(),
            "application/vnd.apple.mpegurl",
            PLAYLIST_FRESH_S,
        ));
    }
    let number: u64 = file.strip_suffix(".ts")?.parse().ok()?;
    // A segment that is not on air yet, or long past, does not exist.
    let on_air = number <= live::newest(now_ms) && number + 4 * live::LISTED > live::newest(now_ms);
    on_air.then(|| (live::segment(channel, quality, number, scale), "video/mp2t", 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_segments_are_served_by_path_and_host() {
        let newest = live::newest(live::now_ms());
        let by_path = content("127.0.0.1", &format!("/7/1/{newest}.ts"), 0.01).unwrap();
        let by_host = content("ch7", &format!("/1/{newest}.ts"), 0.01).unwrap();
        assert_eq!(by_path, by_host);
        assert_eq!(by_path.0, live::segment(7, 1, newest, 0.01));
        assert!(content("ch7", "/1/live.m3u8", 0.01).is_some());
        for path in ["/1/0.ts", "/9/live.m3u8", "/1", "/1/x.ts", "/"] {
            assert_eq!(content("ch7", path, 0.01), None, "{path}");
        }
        assert_eq!(content("ch7", &format!("/1/{}.ts", newest + 9), 0.01), None);
    }
}
