//! The control channel: messages over a connected SOCK_SEQPACKET socket, some of them with a file
//! descriptor.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use namely_host::closing::DeferredDescriptor;
use namely_host::rights;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use crate::handshake::Fault;
use crate::message::{MESSAGE_OCTETS, Message};

/// Maximum number of descriptors of one message: the system's limit.
const DESCRIPTORS_MAX: usize = 253;

/// One end of a control channel.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: DeferredDescriptor,
}

impl Channel {
    pub(crate) fn new(socket: DeferredDescriptor) -> Self {
        Channel { socket }
    }

    /// Sets whether messages may carry descriptors, if the kernel can refuse them.
    pub(crate) fn take_descriptors(&self, take: bool) {
        if take {
            rights::accept(&self.socket)
        } else {
            rights::refuse(&self.socket)
        };
    }

    /// Sends a message; never waits.
    pub(crate) fn send(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let octets = message.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = fd.map(|fd| [fd]);
        if let Some(fds) = &fds {
            // There is room for one.
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(&octets)], &mut ancillary, flags)?;
        Ok(())
    }

    /// Returns the next message and its descriptor; `None` if no message has arrived. Never waits.
    ///
    /// # Errors
    /// [`Fault::Closed`] at the end of the channel; otherwise the fault of the message.
    pub(crate) fn receive(&self) -> Result<Option<(Message, Option<DeferredDescriptor>)>, Fault> {
        if self.socket.is_full() {
            return Err(Fault::TooMuch);
        }
        // One octet more, so that a message that is too long is recognized.
        let mut octets = [0; MESSAGE_OCTETS + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            let slices = &mut [IoSliceMut::new(&mut octets)];
            match rustix::net::recvmsg(&self.socket, slices, &mut ancillary, flags) {
                Ok(received) => break received,
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::CONNRESET) => return Err(Fault::Closed),
                Err(errno) => return Err(Fault::System(errno)),
            }
        };
        // Unused descriptors are closed in the same manner as the socket. The buffer has room for
        // all of them, because the kernel would close further ones in this thread.
        let mut fd = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fd = fds.map(|fd| self.socket.like_this(fd)).last().or(fd);
            }
        }
        if received.bytes == 0 {
            return Err(Fault::Closed);
        }
        let message = Message::decode(&octets[..received.bytes]).map_err(Fault::BadMessage)?;
        Ok(Some((message, fd)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
