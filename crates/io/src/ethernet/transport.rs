//! The two halves of a transport over Ethernet.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_datagrams::ethernet::FrameSender;
use namely_datagrams::ethernet::frame;
use namely_datagrams::ethernet::monitor::Device;
use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use namely_wire::{FaceUri, MacAddress};
use rustix::io::Errno;

use super::link::Link;
use super::xdp::{TransmitContext, TransmitQueue, label};
use crate::error::{CloseReason, OpenError};
use crate::faces::Handler;
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::options::IoOptions;
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::sockets;
use crate::status::{Carrier, FaceState, LinkInfo, RemoteKind};

/// Maximum system calls in one flush of a transport. A failed frame uses one.
const WRITES_PER_TURN_MAX: usize = 64;

/// Makes a transport to a peer or a group on a device.
pub(super) fn transport<H: Handler>(
    link: &Arc<Link<H::Packet>>,
    device: &Device,
    remote: MacAddress,
    persistency: FacePersistency,
    options: &IoOptions,
) -> Result<NewTransport<H>, OpenError> {
    let refuses = |persistency| {
        (persistency == FacePersistency::OnDemand).then_some("a multicast face is not on demand")
    };
    let info = LinkInfo {
        remote: FaceUri::Ether(remote),
        reach: if remote.is_group() { RemoteKind::Group } else { RemoteKind::Neighbour },
        holder: Owner::Station(remote.0),
        carrier: Carrier::Datagrams,
        mtu: Some(device.mtu),
        path_octets: None,
        credentials: None,
        socket_inode: None,
        // A group is never on demand, so it does not expire.
        idle_ns: (!remote.is_group()).then_some(options.udp.into()),
        // A device that accepts nothing is not the fault of the peer.
        can_stall: false,
        refuses: if remote.is_group() { refuses } else { |_| None },
    };
    let sender = sender(link, device, remote, options)
        .map_err(OpenError::system(format!("sending on {}", link.name())))?;
    Ok(NewTransport {
        receiver: Box::new(EtherReceiver { link: link.clone(), remote }),
        sender: Box::new(sender),
        info,
        local: FaceUri::Device(link.name().to_string()),
        persistency,
        state: if device.is_up { FaceState::Up } else { FaceState::Down },
    })
}

/// Makes the sending half of a transport from the present state of the device.
pub(super) fn sender<P>(
    link: &Link<P>,
    device: &Device,
    remote: MacAddress,
    options: &IoOptions,
) -> Result<EtherSender, Errno> {
    let socket = FrameSender::open(device.index, remote, device.address)?;
    // The device's listener receives, so this socket only sends.
    sockets::set_buffers(&socket, options.send_buffer_octets, 0);
    let via = TransmitContext { remote, header: frame::header(remote, device.address), mtu: device.mtu };
    let transmit_queue = link.sockets().transmit_queue(remote);
    Ok(EtherSender { socket, transmit_queue, via, is_by_socket: true, is_blocked: false })
}

/// The receiving half. It reads nothing, because the device's listener receives the frames.
struct EtherReceiver<P> {
    link: Arc<Link<P>>,
    remote: MacAddress,
}

impl<H: Handler> Receiver<H> for EtherReceiver<H::Packet> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn read(&mut self, _: &mut ReadContext<'_, H>, _: &mut [u8]) -> Result<(), CloseReason> {
        Ok(())
    }

    /// Ends an on-demand transport that was idle for its timeout.
    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        turn.end_if_idle()
    }
}

impl<P> Drop for EtherReceiver<P> {
    fn drop(&mut self) {
        self.link.forget(self.remote);
    }
}

/// The sending half. It sends through an XDP socket while the device has one, and otherwise through
/// its own packet socket. The packet socket joins a multicast group in either case.
pub(super) struct EtherSender {
    socket: FrameSender,
    transmit_queue: Option<Arc<TransmitQueue>>,
    via: TransmitContext,
    /// Whether the last flush used the packet socket. `is_blocked`: whether that socket was full.
    is_by_socket: bool,
    is_blocked: bool,
}

impl<P: AsRef<[u8]>> Sender<P> for EtherSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut FlushReport) -> Result<FlushProgress, Errno> {
        // A transport that waits for the packet socket continues with it, because only a flush of
        // that socket can end the wait.
        let is_waiting = self.is_by_socket && self.is_blocked;
        if let (false, Some(transmit_queue)) = (is_waiting, &self.transmit_queue)
            && let Some(flushed) = transmit_queue.flush(&self.via, queue, sent)
        {
            self.is_by_socket = false;
            return Ok(flushed);
        }
        self.is_by_socket = true;
        let flushed = self.flush_by_socket(queue, sent);
        self.is_blocked = flushed == FlushProgress::Blocked;
        Ok(flushed)
    }

    /// Returns `None` while it waits for an XDP socket, because the device's listener flushes it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.is_by_socket.then(|| self.socket.as_fd())
    }

    fn shares_descriptor(&self) -> bool {
        false
    }
}

impl Drop for EtherSender {
    fn drop(&mut self) {
        if let Some(transmit_queue) = &self.transmit_queue {
            // The queue outlives this sender. Without this call it would retain the address as
            // waiting.
            transmit_queue.forget(self.via.remote);
        }
    }
}

impl EtherSender {
    fn flush_by_socket<P: AsRef<[u8]>>(
        &self,
        queue: &mut FrameQueue<P>,
        sent: &mut FlushReport,
    ) -> FlushProgress {
        for _ in 0..WRITES_PER_TURN_MAX {
            if queue.is_empty() {
                return FlushProgress::All;
            }
            match self.socket.send(queue.frames()) {
                Ok(frames) => {
                    for _ in 0..frames {
                        sent.octets += queue.pop() as u64;
                        sent.frames += 1;
                    }
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return FlushProgress::Blocked,
                Err(Errno::NOBUFS | Errno::NOMEM) => return FlushProgress::Refused,
                // When a device is removed, its listener takes its faces down.
                Err(errno) => {
                    queue.pop();
                    sent.drops.count(label(errno));
                }
            }
        }
        if queue.is_empty() { FlushProgress::All } else { FlushProgress::Some }
    }
}
