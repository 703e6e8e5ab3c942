//! A client's connection, which reports the octets that it accepts to the client's
//! [`Pace`](super::pace::Pace).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::clients::Client;

/// Octets that may be queued in the kernel before a client's connection blocks. The number is
/// small, so that the octets that the connection accepts are close to those that the client has
/// received.
const UNSENT_OCTETS: u32 = 128 * 1024;

pub(super) struct Connection {
    stream: TcpStream,
    client: Arc<Client>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, client: Arc<Client>) -> Self {
        // A player requests the next piece only after the last octets of this one.
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_OCTETS);
        Connection { stream, client }
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        match &written {
            Poll::Pending => self.client.pace().blocks(now),
            Poll::Ready(Ok(octets)) => self.client.pace().took(*octets, now),
            Poll::Ready(Err(_)) => {}
        }
        written
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
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.wrote(written)
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
