//! The two halves of a transport over Ethernet.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_datagrams::ethernet::FrameSender;
use namely_datagrams::ethernet::frame;
use namely_datagrams::ethernet::monitor::Device;
use namely_host::shares::Holder;
use namely_wire::mgmt::FacePersistency;
use namely_wire::{FaceUri, MacAddress};
use rustix::io::Errno;

use super::link::Link;
use super::xdp::{TransmitQueue, Via, label};
use crate::error::{CloseReason, OpenError};
use crate::faces::Handler;
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::options::IoOptions;
use crate::queue::FrameQueue;
use crate::sender::{Flushed, Sender, Sent};
use crate::sockets;
use crate::status::{Carrier, FaceState, LinkInfo, Reach};

/// System calls of one transport in one turn; a failed frame takes one.
const WRITES_PER_TURN_MAX: usize = 64;

/// Makes a transport to a station or a group on a device.
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
        reach: if remote.is_group() { Reach::Group } else { Reach::Neighbour },
        holder: Holder::Station(remote.0),
        carrier: Carrier::Datagrams,
        mtu: Some(device.mtu),
        path_octets: None,
        credentials: None,
        socket_inode: None,
        idle_ns: (!remote.is_group()).then_some(options.udp.into()),
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

/// The sending half of a transport, from the device as it is now.
pub(super) fn sender<P>(
    link: &Link<P>,
    device: &Device,
    remote: MacAddress,
    options: &IoOptions,
) -> Result<EtherSender, Errno> {
    let socket = FrameSender::open(device.index, remote, device.address)?;
    sockets::set_buffers(&socket, options.send_buffer_octets, 0);
    let via = Via { remote, header: frame::header(remote, device.address), mtu: device.mtu };
    let transmit_queue = link.sockets().transmit_queue(remote);
    Ok(EtherSender { socket, transmit_queue, via, is_by_socket: true, is_blocked: false })
}

/// The receiving half. The device's listener does the receiving.
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

    /// Ends an on-demand transport that was idle for long.
    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        turn.end_if_idle()
    }
}

impl<P> Drop for EtherReceiver<P> {
    fn drop(&mut self) {
        self.link.forget(self.remote);
    }
}

/// The sending half: through an XDP socket of the device while there is one, otherwise through a
/// packet socket of its own, which a group is joined by in either case.
pub(super) struct EtherSender {
    socket: FrameSender,
    transmit_queue: Option<Arc<TransmitQueue>>,
    via: Via,
    /// Whether the last flush went through the packet socket, and whether that took no more.
    is_by_socket: bool,
    is_blocked: bool,
}

impl<P: AsRef<[u8]>> Sender<P> for EtherSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Result<Flushed, Errno> {
        // Who waits for the packet socket goes on there: whoever watches it must see the end of
        // that.
        let is_waiting = self.is_by_socket && self.is_blocked;
        if let (false, Some(transmit_queue)) = (is_waiting, &self.transmit_queue)
            && let Some(flushed) = transmit_queue.flush(&self.via, queue, sent)
        {
            self.is_by_socket = false;
            return Ok(flushed);
        }
        self.is_by_socket = true;
        let flushed = self.flush_by_socket(queue, sent);
        self.is_blocked = flushed == Flushed::Blocked;
        Ok(flushed)
    }

    /// Who waits for an XDP socket is flushed by the device's listener.
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
            transmit_queue.forget(self.via.remote);
        }
    }
}

impl EtherSender {
    fn flush_by_socket<P: AsRef<[u8]>>(&self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Flushed {
        for _ in 0..WRITES_PER_TURN_MAX {
            if queue.is_empty() {
                return Flushed::All;
            }
            match self.socket.send(queue.frames()) {
                Ok(frames) => {
                    for _ in 0..frames {
                        sent.octets += queue.pop() as u64;
                        sent.frames += 1;
                    }
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Flushed::Blocked,
                Err(Errno::NOBUFS | Errno::NOMEM) => return Flushed::Refused,
                // When a device goes, its listener takes its faces down.
                Err(errno) => {
                    queue.pop();
                    sent.drops.count(label(errno));
                }
            }
        }
        if queue.is_empty() { Flushed::All } else { Flushed::Some }
    }
}
