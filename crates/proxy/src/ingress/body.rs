//! Bodies: a blocking thread reads octets and hands them to the client piece by piece, at the
//! client's pace.

use std::convert::Infallible;
use std::io::Read;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use namely_wire::text::Plain;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::mpsc;

use super::clients::Client;
use super::{CLIENT_TIMEOUT, Counters};
use crate::ACCESS;

/// Octets of a piece; at most [`PIECES`] of them are queued for a client.
const PIECE_OCTETS: usize = 64 * 1024;

/// Maximum number of pieces queued for a client.
const PIECES: usize = 4;

pub(super) type Body = BoxBody<Bytes, BodyBroken>;

/// The object could not be read to its end. The connection is cut, so that the client does not take
/// a part for the whole.
#[derive(Debug, thiserror::Error)]
#[error("the object could not be fetched to its end")]
pub(super) struct BodyBroken;

fn never(never: Infallible) -> BodyBroken {
    match never {}
}

pub(super) fn empty() -> Body {
    Empty::new().map_err(never).boxed()
}

pub(super) fn text(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(never).boxed()
}

/// Streams the next `octets` of `reader`. Reading stays at most [`PIECES`] pieces ahead of the
/// client.
pub(super) fn streamed(reader: impl Read + Send + 'static, octets: u64, counters: Arc<Counters>) -> Body {
    let (pieces, queue) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || pump(reader, octets, &pieces, &counters));
    StreamBody::new(Pieces(queue)).boxed()
}

fn pump(
    reader: impl Read,
    octets: u64,
    pieces: &mpsc::Sender<Result<Frame<Bytes>, BodyBroken>>,
    counters: &Counters,
) {
    let handle = tokio::runtime::Handle::current();
    let mut reader = reader.take(octets);
    let mut left = octets;
    while left > 0 {
        let mut piece = vec![0; PIECE_OCTETS.min(usize::try_from(left).unwrap_or(PIECE_OCTETS))];
        let piece = match reader.read(&mut piece) {
            Ok(read) if read > 0 => {
                piece.truncate(read);
                Ok(Bytes::from(piece))
            }
            Ok(_) => Err(BodyBroken),
            Err(error) => {
                tracing::info!(%error, "a body ends early");
                Err(BodyBroken)
            }
        };
        let (read, broken) = piece.as_ref().map_or((0, true), |piece| (piece.len() as u64, false));
        let sent = handle.block_on(async {
            tokio::time::timeout(CLIENT_TIMEOUT, pieces.send(piece.map(Frame::data))).await
        });
        // The client is gone, or has stopped reading.
        if broken || !matches!(sent, Ok(Ok(()))) {
            return;
        }
        Counters::count(&counters.octets, read);
        left -= read;
    }
}

struct Pieces(mpsc::Receiver<Result<Frame<Bytes>, BodyBroken>>);

impl futures_core::Stream for Pieces {
    type Item = Result<Frame<Bytes>, BodyBroken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// Fields of a request's line in the log.
#[derive(Debug)]
pub(super) struct LogLine {
    address: SocketAddr,
    method: Method,
    uri: Uri,
    host: Option<String>,
    status: StatusCode,
    begun: Instant,
}

impl LogLine {
    pub(super) fn of<B>(address: SocketAddr, request: &Request<B>) -> Self {
        let host = request.headers().get(http::header::HOST).filter(|_| request.uri().host().is_none());
        LogLine {
            address,
            method: request.method().clone(),
            uri: request.uri().clone(),
            host: host.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned()),
            status: StatusCode::OK,
            begun: Instant::now(),
        }
    }

    pub(super) fn answered(self, status: StatusCode) -> Self {
        LogLine { status, ..self }
    }
}

/// A body on its way to its client. When it is sent or abandoned, the wait for the client's next
/// request begins, and a line is logged.
pub(super) struct BodyTransfer {
    body: Body,
    client: Arc<Client>,
    line: LogLine,
    octets: u64,
}

impl BodyTransfer {
    pub(super) fn new(body: Body, client: Arc<Client>, line: LogLine) -> Self {
        BodyTransfer { body, client, line, octets: 0 }
    }
}

impl HttpBody for BodyTransfer {
    type Data = Bytes;
    type Error = BodyBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.octets += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for BodyTransfer {
    fn drop(&mut self) {
        let now = Instant::now();
        self.client.pace().answered(now);
        let LogLine { address, method, uri, host, status, begun } = &self.line;
        // Text of a client must not look like another line of the log.
        let url = format!("{}{uri}", host.as_deref().unwrap_or_default());
        let (url, status, octets) = (Plain::new(url), status.as_u16(), self.octets);
        let ms = now.saturating_duration_since(*begun).as_millis();
        tracing::info!(target: ACCESS, "{address} {method} {url} {status} {octets} octets, {ms} ms");
    }
}
