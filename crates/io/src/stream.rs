//! Streams: cutting what arrives into packets, and writing what waits.

use std::os::fd::OwnedFd;

use namely_link::stream::packet_octets;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::error::CloseReason;
use crate::event_loop::Handler;
use crate::queue::FrameQueue;
use crate::sockets;
use crate::transport::{Kind, TransportCounters, TransportId};
use crate::transports::{Flushed, Transports};

/// Slices of one write: the system's limit.
const SLICES_MAX: usize = 1024;

/// Writes of one transport in one turn.
const WRITES_PER_TURN_MAX: usize = 8;

/// The beginning of a packet whose end has not arrived; less than one packet.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    octets: Vec<u8>,
}

impl Partial {
    fn keep(&mut self, octets: &[u8]) {
        self.octets.clear();
        self.octets.extend_from_slice(octets);
    }
}

/// Reads once, and hands over the packets that are complete.
pub(crate) fn read<P: AsRef<[u8]> + Clone, H: Handler<P>>(
    io: &mut Transports<P>,
    id: TransportId,
    scratch: &mut [u8],
    handler: &mut H,
) {
    let octets = match fill(io, id, scratch) {
        Ok(octets) => octets,
        Err(Errno::AGAIN | Errno::INTR) => return,
        Err(errno) => return io.fail(id, CloseReason::System(errno)),
    };
    let Some(octets) = octets else { return io.fail(id, CloseReason::Peer) };
    let (mut start, mut frames) = (0, 0);
    let cut = loop {
        match packet_octets(&scratch[start..octets]) {
            Ok(Some(length)) => {
                handler.frame(io, id, None, &scratch[start..start + length]);
                start += length;
                frames += 1;
                if !io.contains(id) {
                    return;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let Some(transport) = io.transport_mut(id) else { return };
    transport.counters.in_frames += frames;
    transport.counters.in_octets += start as u64;
    if let Kind::Stream { partial, .. } | Kind::Tcp { partial, .. } = &mut transport.kind {
        partial.keep(&scratch[start..octets]);
    }
    if let Err(error) = cut {
        transport.counters.drops.count(error.label());
        io.fail(id, CloseReason::BadStream(error));
    }
}

/// Puts what was kept and what arrived into `scratch`: its octets, or none at the end of the stream.
fn fill<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    scratch: &mut [u8],
) -> Result<Option<usize>, Errno> {
    let transport = io.transport_mut(id).ok_or(Errno::AGAIN)?;
    let (Kind::Stream { socket, partial } | Kind::Tcp { socket: Some(socket), partial, .. }) =
        &transport.kind
    else {
        return Err(Errno::AGAIN);
    };
    let kept = partial.octets.len();
    let (before, room) = scratch.split_at_mut(kept);
    before.copy_from_slice(&partial.octets);
    let (arrived, _) = rustix::net::recv(socket, room, RecvFlags::DONTWAIT)?;
    Ok((arrived > 0).then_some(kept + arrived))
}

/// Writes what waits, as far as the socket takes it.
pub(crate) fn flush<P: AsRef<[u8]>>(
    socket: &OwnedFd,
    queue: &mut FrameQueue<P>,
    counters: &mut TransportCounters,
) -> Result<Flushed, Errno> {
    for _ in 0..WRITES_PER_TURN_MAX {
        if queue.is_empty() {
            return Ok(Flushed::All);
        }
        let slices = queue.slices(SLICES_MAX);
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        match sockets::write(socket, &slices) {
            Ok(written) => {
                counters.out_octets += written as u64;
                counters.out_frames += queue.advance(written);
                if written < wanted {
                    return Ok(Flushed::Blocked);
                }
            }
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
            Err(errno) => return Err(errno),
        }
    }
    Ok(if queue.is_empty() { Flushed::All } else { Flushed::Some })
}
