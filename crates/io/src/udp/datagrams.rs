//! Datagrams in and out of one socket.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, sendmmsg};

use crate::queue::FrameQueue;
use crate::transport::TransportCounters;
use crate::transports::Flushed;

/// Datagrams of one system call.
const BATCH_MAX: usize = 64;

/// System calls of one transport in one turn; a failed datagram takes one.
const WRITES_PER_TURN_MAX: usize = 64;

/// Reads one datagram: its length and sender. None when there is none, or one from no address.
pub(crate) fn receive(socket: impl AsFd, scratch: &mut [u8]) -> Result<(usize, Option<SocketAddr>), Errno> {
    let (_, octets, from) = rustix::net::recvfrom(socket, &mut *scratch, RecvFlags::DONTWAIT)?;
    Ok((octets.min(scratch.len()), from.and_then(|from| SocketAddr::try_from(from).ok())))
}

/// Sends what waits, as far as the socket takes it. A datagram that the system refuses is dropped and counted.
pub(crate) fn flush<P: AsRef<[u8]>>(
    socket: &OwnedFd,
    queue: &mut FrameQueue<P>,
    counters: &mut TransportCounters,
) -> Result<Flushed, Errno> {
    let mut was_refused = false;
    for _ in 0..WRITES_PER_TURN_MAX {
        if queue.is_empty() {
            return Ok(Flushed::All);
        }
        match send_batch(socket, queue) {
            Ok(sent) => {
                for _ in 0..sent {
                    counters.out_octets += queue.pop() as u64;
                    counters.out_frames += 1;
                }
                was_refused = false;
            }
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
            // The peer's answer to an earlier datagram; this one was not tried yet.
            Err(Errno::CONNREFUSED) if !was_refused => {
                was_refused = true;
                counters.drops.count("refused");
            }
            Err(errno) => {
                queue.pop();
                counters.drops.count(label(errno));
            }
        }
    }
    Ok(if queue.is_empty() { Flushed::All } else { Flushed::Some })
}

/// Sends up to [`BATCH_MAX`] datagrams by one system call. Returns how many.
fn send_batch<P: AsRef<[u8]>>(socket: &OwnedFd, queue: &FrameQueue<P>) -> Result<usize, Errno> {
    let slices: Vec<[IoSlice<'_>; 4]> =
        queue.frames().take(BATCH_MAX).map(|frame| frame.slices().map(IoSlice::new)).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        slices.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let mut messages: Vec<MMsgHdr<'_>> =
        slices.iter().zip(&mut controls).map(|(slices, control)| MMsgHdr::new(slices, control)).collect();
    sendmmsg(socket, &mut messages, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

/// The counter of a datagram that the system did not send.
fn label(errno: Errno) -> &'static str {
    match errno {
        Errno::MSGSIZE => "datagram_too_large",
        Errno::NOBUFS | Errno::NOMEM => "no_buffers",
        Errno::CONNREFUSED => "refused",
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::NODEV => "unreachable",
        Errno::PERM | Errno::ACCESS => "not_permitted",
        _ => "send_failed",
    }
}
