//! The source from which a worker reads a device: a packet socket's ring, or XDP sockets.

use std::os::fd::{AsFd, BorrowedFd};

use namely_datagrams::ethernet::monitor::Device;
use namely_datagrams::ethernet::ring::{ReceivedFrame, Ring};

use super::xdp::Queue;

/// A busy listener reads the drop counts of its XDP sockets once in this many turns.
const TURNS_PER_LOOK: u32 = 16;

/// The source from which a worker reads a device.
#[derive(Debug)]
pub(super) enum Source {
    /// All frames, or the frames of one member of a fanout group.
    Packet(Ring),
    /// The frames of some receive queues. The list may be empty.
    Xdp { queues: Vec<Queue>, turns: u32 },
}

impl Source {
    /// The descriptors that are readable when frames have arrived.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (ring, queues): (_, &[Queue]) = match self {
            Source::Packet(ring) => (Some(ring), &[]),
            Source::Xdp { queues, .. } => (None, queues),
        };
        ring.map(AsFd::as_fd).into_iter().chain(queues.iter().map(AsFd::as_fd))
    }

    /// Returns the number of pieces in XDP rings that the kernel has not taken. Their frames were
    /// counted as sent.
    pub(super) fn pending(&self) -> u64 {
        match self {
            Source::Packet(_) => 0,
            Source::Xdp { queues, .. } => queues.iter().map(Queue::pending).sum(),
        }
    }

    /// Returns true if the source stays usable after this change of the device.
    pub(super) fn suits(&self, before: &Device, now: &Device) -> bool {
        let is_xdp = matches!(self, Source::Xdp { .. });
        // The slots depend on the MTU, and the XDP program selects frames by the device's address.
        before.index == now.index && before.mtu == now.mtu && (!is_xdp || before.address == now.address)
    }

    /// Passes up to `max` frames of each socket to `take`. Returns their number, and the number of
    /// frames that the kernel dropped. The latter is 0 if this call did not read it.
    pub(super) fn receive(&mut self, max: usize, mut take: impl FnMut(ReceivedFrame<'_>)) -> (usize, u64) {
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
                // Reading the drops is a system call, which is made only after the kernel has
                // flagged a loss.
                (count, if is_losing { ring.drops() } else { 0 })
            }
            Source::Xdp { queues, turns } => {
                let count = queues.iter_mut().map(|queue| queue.receive(max, &mut take)).sum();
                *turns = turns.wrapping_add(1);
                // XDP flags no loss. An idle turn therefore always makes the system call, and a
                // busy one once in `TURNS_PER_LOOK`.
                let looks = count == 0 || turns.is_multiple_of(TURNS_PER_LOOK);
                (count, if looks { queues.iter_mut().map(Queue::drops).sum() } else { 0 })
            }
        }
    }
}
