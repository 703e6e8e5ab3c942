//! The control channel: messages over a connected SOCK_SEQPACKET socket, some of them with a file
//! descriptor.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use crate::handshake::Fault;
use crate::message::{MESSAGE_OCTETS, Message};

/// One end of a control channel.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Channel { socket }
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

    /// The next message and its descriptor; `None` if there is none now. Never waits.
    ///
    /// # Errors
    /// [`Fault::Closed`] at the end of the channel; otherwise what is wrong with the message.
    pub(crate) fn receive(&self) -> Result<Option<(Message, Option<OwnedFd>)>, Fault> {
        // One octet more, so that a message that is too long shows.
        let mut octets = [0; MESSAGE_OCTETS + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
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
        // Descriptors that are not wanted are closed here; those that there was no room for, by the
        // kernel.
        let mut fd = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fd = fds.last().or(fd);
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
