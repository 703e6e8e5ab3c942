//! A stream to a router: a Unix socket or TCP.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_host::Waker;
use rustix::event::PollFlags;

use super::carrier::{Carrier, Delivery, Ready, poll};
use super::fault::Fault;
use super::inbox::{Inbox, ReadStatus};
use super::outbox::Outbox;

/// A connected stream and its receive buffer.
#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    inbox: Inbox,
}

impl Stream {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Stream { socket, inbox: Inbox::new() }
    }

    /// Delivers the whole packets in the buffer, while there is space for their answers.
    fn deliver(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        let mut handled = 0;
        delivery.begin_batch();
        while delivery.has_room()
            && let Some((frame, arrived_ns)) = self.inbox.next_packet()?
        {
            delivery.arrived_ns = Some(arrived_ns);
            handled += usize::from(delivery.take(frame));
        }
        Ok(handled)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Carrier for Stream {
    fn frame_octets_max(&self) -> Option<usize> {
        None
    }

    fn is_lossy(&self) -> bool {
        false
    }

    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Fault> {
        outbox.flush(&self.socket)?;
        Ok(())
    }

    fn take_pending(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        self.deliver(delivery)
    }

    fn wait(&mut self, outbox: &mut Outbox, waker: &Waker, wait_ns: u64) -> Result<Ready, Fault> {
        let ready = poll(&self.socket, outbox, waker, wait_ns)?;
        Ok(Ready {
            // A read reports the end of the stream, or its error.
            readable: ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            writable: ready.contains(PollFlags::OUT),
        })
    }

    fn receive(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        match self.inbox.fill(&self.socket, (delivery.clock)())? {
            ReadStatus::Some => self.deliver(delivery),
            ReadStatus::Nothing => Ok(0),
            ReadStatus::Closed => Err(Fault::Closed),
        }
    }
}
