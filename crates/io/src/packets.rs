//! Sockets to a forwarder in the kernel. Each message is a link packet, and none is lost on the
//! way. The caller opens the socket, and the event loop serves it.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_datagrams::mmsg::{self, MESSAGES_OUT_MAX, Outgoing};
use namely_host::shares::Owner;
use namely_link::LinkDrop;
use namely_messages::FacePersistency;
use namely_wire::FaceUri;
use rustix::io::Errno;

use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler};
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::port::FaceSender;
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::sockets;
use crate::status::{FaceState, LinkInfo, RemoteKind};

/// A non-blocking socket whose messages are packets.
pub type PacketSocket = Arc<dyn AsFd + Send + Sync>;

/// Maximum system calls in one flush of a socket. A refused packet uses one.
const WRITES_PER_TURN_MAX: usize = 64;

/// Maximum messages that one system call reads.
const MESSAGES_PER_CALL: usize = 8;

impl<H: Handler> Faces<H> {
    /// Serves a socket to the forwarder in the kernel. It counts as a face of `holder`.
    ///
    /// # Errors
    /// [`OpenError::TooManyFaces`], or the system's error.
    pub fn open_packets(
        &mut self,
        socket: PacketSocket,
        holder: Owner,
    ) -> Result<Arc<FaceSender<H::Packet>>, OpenError> {
        let admitted = self.shared.faces.enter(holder).map_err(|_| OpenError::TooManyFaces)?;
        let (admission, evicted) = admitted;
        if let Some(port) = evicted {
            port.request_end(CloseReason::Evicted, self.worker());
        }
        let options = self.options();
        let (send, receive) = (options.send_buffer_octets, options.datagram_receive_buffer_octets);
        sockets::set_buffers(&*socket, send, receive);
        // The other end is this machine's kernel, so no peer is at fault.
        let can_stall = false;
        let info = LinkInfo::connection(FaceUri::Kernel, RemoteKind::Local, holder, |_| None);
        let info = LinkInfo { can_stall, ..info };
        self.add_admitted(
            NewTransport {
                receiver: Box::new(PacketReceiver(socket.clone())),
                sender: Box::new(PacketSender(socket)),
                info,
                local: FaceUri::Kernel,
                persistency: FacePersistency::Permanent,
                state: FaceState::Up,
            },
            admission,
        )
    }
}

struct PacketReceiver(PacketSocket);

impl<H: Handler> Receiver<H> for PacketReceiver {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        let room = mmsg::receive_octets(MESSAGES_PER_CALL).min(scratch.len());
        let mut count = 0;
        while count < turn.options().read_datagrams_per_turn {
            match mmsg::receive(&*self.0, &mut scratch[..room], false) {
                Ok(received) => {
                    for (range, _) in received.datagrams() {
                        count += 1;
                        if !turn.deliver(None, &scratch[range]) {
                            return Ok(());
                        }
                    }
                    turn.has_more = !received.is_last();
                    if received.is_last() || turn.is_over() {
                        return Ok(());
                    }
                }
                Err(Errno::AGAIN) => {
                    turn.has_more = false;
                    return Ok(());
                }
                Err(Errno::INTR) => (),
                Err(errno) => return Err(CloseReason::System(errno)),
            }
        }
        Ok(())
    }
}

struct PacketSender(PacketSocket);

impl<P: AsRef<[u8]>> Sender<P> for PacketSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut FlushReport) -> Result<FlushProgress, Errno> {
        for _ in 0..WRITES_PER_TURN_MAX {
            if queue.is_empty() {
                return Ok(FlushProgress::All);
            }
            match send(&self.0, queue) {
                Ok(taken) => {
                    for _ in 0..taken {
                        sent.octets += queue.pop() as u64;
                        sent.frames += 1;
                    }
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(FlushProgress::Blocked),
                Err(Errno::NOBUFS | Errno::NOMEM) => return Ok(FlushProgress::Refused),
                Err(Errno::MSGSIZE) => {
                    queue.pop();
                    sent.drops.count(LinkDrop::MessageTooLarge.label());
                }
                // The forwarder has stopped and accepts nothing more.
                Err(errno) => return Err(errno),
            }
        }
        Ok(if queue.is_empty() { FlushProgress::All } else { FlushProgress::Some })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// Sends waiting packets from the front, as many as one system call accepts. Returns their number.
fn send<P: AsRef<[u8]>>(socket: &PacketSocket, queue: &FrameQueue<P>) -> Result<usize, Errno> {
    let mut slices = [[IoSlice::new(&[]); 4]; MESSAGES_OUT_MAX];
    let mut count = 0;
    for (frame, slices) in queue.frames().zip(&mut slices) {
        *slices = frame.slices().map(IoSlice::new);
        count += 1;
    }
    let messages = slices[..count].iter().map(|slices| Outgoing { slices, segment_octets: None });
    mmsg::send(&**socket, messages)
}
