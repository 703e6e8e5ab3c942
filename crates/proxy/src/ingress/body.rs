//! Bodies: octets read by a blocking thread, handed to the client piece by piece as it takes them
//! in.

use std::convert::Infallible;
use std::io::Read;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

use super::{CLIENT_TIMEOUT, Counters};

/// Octets of a piece; at most [`PIECES`] of them wait for a client.
const PIECE_OCTETS: usize = 64 * 1024;

/// Pieces that wait for a client at most.
const PIECES: usize = 4;

pub(super) type Body = BoxBody<Bytes, BodyBroken>;

/// The object could not be read to its end: the connection is cut, so that the client does not take
/// a part for the whole.
#[derive(Debug)]
pub(super) struct BodyBroken;

impl std::fmt::Display for BodyBroken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the object could not be fetched to its end")
    }
}

impl std::error::Error for BodyBroken {}

fn never(never: Infallible) -> BodyBroken {
    match never {}
}

pub(super) fn empty() -> Body {
    Empty::new().map_err(never).boxed()
}

pub(super) fn text(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(never).boxed()
}

/// The next `octets` of `reader`. Reading goes no further than the client does.
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
        // The client is gone, or takes nothing in.
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
