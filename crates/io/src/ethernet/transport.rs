//! The two halves of a transport over Ethernet.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use namely_datagrams::ethernet::FrameSender;
use namely_datagrams::ethernet::monitor::Device;
use namely_wire::face_uri::{FaceUri, MacAddress};
use rustix::io::Errno;

use super::device::Link;
use crate::error::{CloseReason, OpenError};
use crate::kind::{About, Flushed, NewTransport, Receiver, Sender};
use crate::options::{IoOptions, Persistency};
use crate::port::{Sent, TransportState};
use crate::queue::FrameQueue;
use crate::sockets;
use crate::transport::{Carrier, Reach};
use crate::turn::Turn;

/// System calls of one transport in one turn; a failed frame takes one.
const WRITES_PER_TURN_MAX: usize = 64;

/// Makes a transport to a station or a group on a device.
pub(super) fn transport<P: AsRef<[u8]> + Clone + Send + 'static>(
    link: &Arc<Link<P>>,
    device: &Device,
    remote: MacAddress,
    persistency: Persistency,
    options: &IoOptions,
) -> Result<NewTransport<P>, OpenError> {
    let refuses =
        |persistency| (persistency == Persistency::OnDemand).then_some("a multicast face is not on demand");
    let about = About {
        remote: FaceUri::Ether(remote),
        reach: if remote.is_group() { Reach::Group } else { Reach::Neighbour },
        carrier: Carrier::Datagrams,
        mtu: Some(device.mtu),
        credentials: None,
        socket_inode: None,
        idle_ns: (!remote.is_group()).then_some(options.udp.idle_ns),
        refuses: if remote.is_group() { refuses } else { |_| None },
    };
    let sender =
        sender(device, remote, options).map_err(OpenError::system(format!("sending on {}", link.name())))?;
    Ok(NewTransport {
        receiver: Box::new(EtherReceiver { link: link.clone(), remote }),
        sender: Box::new(sender),
        about,
        local: FaceUri::Device(link.name().to_string()),
        persistency,
        state: if device.is_up { TransportState::Up } else { TransportState::Down },
    })
}

/// The sending half of a transport, from the device as it is now.
pub(super) fn sender(device: &Device, remote: MacAddress, options: &IoOptions) -> Result<EtherSender, Errno> {
    let socket = FrameSender::open(device.index, remote, device.address)?;
    sockets::set_buffers(&socket, options.send_buffer_octets, 0);
    Ok(EtherSender(socket))
}

/// The receiving half. The device's listener does the receiving.
struct EtherReceiver<P> {
    link: Arc<Link<P>>,
    remote: MacAddress,
}

impl<P: AsRef<[u8]> + Clone + Send + 'static> Receiver<P> for EtherReceiver<P> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn read(&mut self, _: &mut Turn<'_, P>, _: &mut [u8]) -> Result<(), CloseReason> {
        Ok(())
    }

    /// Ends an on-demand transport that was idle for long.
    fn on_timer(&mut self, turn: &mut Turn<'_, P>) -> Result<(), CloseReason> {
        turn.end_if_idle()
    }
}

impl<P> Drop for EtherReceiver<P> {
    fn drop(&mut self) {
        self.link.forget(self.remote);
    }
}

/// The sending half.
pub(super) struct EtherSender(FrameSender);

impl<P: AsRef<[u8]> + Clone + Send + 'static> Sender<P> for EtherSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Result<Flushed, Errno> {
        for _ in 0..WRITES_PER_TURN_MAX {
            if queue.is_empty() {
                return Ok(Flushed::All);
            }
            match self.0.send(queue.frames()) {
                Ok(frames) => {
                    for _ in 0..frames {
                        sent.octets += queue.pop() as u64;
                        sent.frames += 1;
                    }
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
                // When a device goes, its listener sees to it.
                Err(errno) => {
                    queue.pop();
                    sent.drops.count(label(errno));
                }
            }
        }
        Ok(if queue.is_empty() { Flushed::All } else { Flushed::Some })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn shares_descriptor(&self) -> bool {
        false
    }
}

/// The counter of a frame that the system did not send.
fn label(errno: Errno) -> &'static str {
    match errno {
        Errno::MSGSIZE => "datagram_too_large",
        Errno::NOBUFS | Errno::NOMEM => "no_buffers",
        Errno::NETDOWN | Errno::NXIO | Errno::NODEV => "unreachable",
        _ => "send_failed",
    }
}
