//! What a worker reads a device from: a packet socket's ring, or XDP sockets.

use std::os::fd::{AsFd, BorrowedFd};

use namely_datagrams::ethernet::monitor::Device;
use namely_datagrams::ethernet::ring::{Arrived, Ring};

use super::xdp::Queue;

/// Drops of XDP sockets are asked for once in so many turns.
const TURNS_PER_LOOK: u32 = 16;

/// What a worker reads a device from.
#[derive(Debug)]
pub(super) enum Source {
    /// All frames, or those of a fanout group.
    Packet(Ring),
    /// Those of some receive queues, perhaps of none.
    Xdp { queues: Vec<Queue>, turns: u32 },
}

impl Source {
    /// What is readable when there are frames.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (ring, queues): (_, &[Queue]) = match self {
            Source::Packet(ring) => (Some(ring), &[]),
            Source::Xdp { queues, .. } => (None, queues),
        };
        ring.map(AsFd::as_fd).into_iter().chain(queues.iter().map(AsFd::as_fd))
    }

    /// What has not left of frames that count as sent.
    pub(super) fn pending(&self) -> u64 {
        match self {
            Source::Packet(_) => 0,
            Source::Xdp { queues, .. } => queues.iter().map(Queue::pending).sum(),
        }
    }

    /// Returns true if it can be kept when the device changes so.
    pub(super) fn suits(&self, before: &Device, now: &Device) -> bool {
        let is_xdp = matches!(self, Source::Xdp { .. });
        before.index == now.index && before.mtu == now.mtu && (!is_xdp || before.address == now.address)
    }

    /// Shows up to `max` frames of each socket to `take`. Returns how many there were, and how many
    /// the kernel dropped as far as that is known.
    pub(super) fn receive(&mut self, max: usize, mut take: impl FnMut(Arrived<'_>)) -> (usize, u64) {
        match self {
            Source::Packet(ring) => {
                let mut is_losing = false;
                let count = (0..max)
                    .take_while(|_| {
                        ring.receive(|arrived| {
                            is_losing |= arrived.is_losing;
                            take(arrived);
                        })
                    })
                    .count();
                (count, if is_losing { ring.drops() } else { 0 })
            }
            Source::Xdp { queues, turns } => {
                let count = queues.iter_mut().map(|queue| queue.receive(max, &mut take)).sum();
                *turns = turns.wrapping_add(1);
                let looks = count == 0 || turns.is_multiple_of(TURNS_PER_LOOK);
                (count, if looks { queues.iter_mut().map(Queue::drops).sum() } else { 0 })
            }
        }
    }
}
