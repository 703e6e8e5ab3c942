//! A client's connection, which ends when the client reads nothing for too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::Counters;

/// Time for which a client reads none of its waiting octets.
///
/// # Limit
/// The connection is closed.
/// - Counter: `slow`
/// - Tests: `a_stalled_client_is_disconnected`, `a_stalled_client_over_tls_is_disconnected`
pub const SLOW_TIMEOUT: Duration = Duration::from_secs(10);

/// Octets that wait in the kernel until a client reads them. They are few, so that a slow page does
/// not show an old state.
const UNSENT_OCTETS: u32 = 256 * 1024;

pub(crate) struct Connection {
    stream: TcpStream,
    counters: Arc<Counters>,
    timeout: Duration,
    /// The timer of a blocked write: when it ends, the connection is too slow.
    blocked: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, counters: Arc<Counters>, timeout: Duration) -> Self {
        // Each change is one small event and must not wait for the next.
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_OCTETS);
        Connection { stream, counters, timeout, blocked: None }
    }

    fn wrote<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.blocked = None;
            return written;
        }
        let timeout = self.timeout;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(timeout)));
        match blocked.as_mut().poll(context) {
            Poll::Ready(()) => {
                Counters::count(&self.counters.slow);
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, octets);
        self.wrote(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.wrote(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use tokio::net::TcpListener;

    use super::*;

    /// Writes to a peer that reads some octets after each `pause`, until the connection fails, or
    /// for a second.
    async fn write_to(pause: Option<Duration>) -> (io::Result<()>, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let counters = Arc::new(Counters::default());
        let timeout = Duration::from_millis(300);
        let mut connection = Connection::new(listener.accept().await.unwrap().0, counters.clone(), timeout);
        let reads = tokio::spawn(async move {
            let mut octets = vec![0; 1 << 20];
            while let Some(pause) = pause {
                sleep(pause).await;
                let _ = peer.try_read(&mut octets);
            }
            sleep(Duration::from_secs(60)).await;
            drop(peer);
        });
        let end = Instant::now() + Duration::from_secs(1);
        let octets = vec![0; 64 * 1024];
        let mut done = Ok(());
        while done.is_ok() && (Instant::now() < end || pause.is_none()) {
            done = poll_fn(|context| Pin::new(&mut connection).poll_write(context, &octets)).await.map(drop);
        }
        reads.abort();
        (done, counters.slow.load(Ordering::Relaxed))
    }

    #[test]
    fn a_stalled_client_is_disconnected() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (done, slow) = runtime.block_on(write_to(None));
        assert_eq!((done.unwrap_err().kind(), slow), (io::ErrorKind::TimedOut, 1));
        // If this thread waits for a processor longer than the timeout, the timer fires before the
        // peer reads. So one of several tries has to succeed.
        let goes_on = || {
            let (done, slow) = runtime.block_on(write_to(Some(Duration::from_millis(20))));
            done.is_ok() && slow == 0
        };
        assert!((0..10).any(|_| goes_on()));
    }
}
