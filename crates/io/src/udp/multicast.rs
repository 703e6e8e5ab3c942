//! UDP multicast: one transport per group and interface.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use namely_datagrams::mmsg;
use namely_host::shares::Holder;
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use socket2::{InterfaceIndexOrAddress, SockRef};

use super::datagrams;
use super::identity::{inode, uri};
use super::peer::DatagramSender;
use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler};
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::options::MulticastOptions;
use crate::port::FacePort;
use crate::queue::FrameQueue;
use crate::sender::{Flushed, Sender, Sent};
use crate::sockets;
use crate::status::{Carrier, FaceState, LinkInfo, Reach};

impl<H: Handler> Faces<H> {
    /// Joins a group on an interface.
    ///
    /// # Errors
    /// [`OpenError::NoSuchInterface`], [`OpenError::BadAddress`] when the group is none, or what
    /// the system says.
    pub fn open_multicast(
        &mut self,
        options: &MulticastOptions,
    ) -> Result<Arc<FacePort<H::Packet>>, OpenError> {
        if !options.group.ip().is_multicast() {
            return Err(OpenError::BadAddress(format!("{} is no multicast address", options.group.ip())));
        }
        let doing = format!("joining {} on {}", options.group, options.interface);
        let sender = sockets::open(sockets::family_of(&options.group), SocketType::DGRAM)?;
        let index = rustix::net::netdevice::name_to_index(&sender, &options.interface)
            .map_err(|_| OpenError::NoSuchInterface(options.interface.clone()))?;
        let group = on_interface(options.group, index);
        let receiver = receiver(&group, index).map_err(OpenError::std(doing.clone()))?;
        let own = prepare_sender(&sender, &group, index, options.same_host)
            .map_err(OpenError::std(doing.clone()))?;
        let (send_octets, receive_octets) =
            (self.options().send_buffer_octets, self.options().datagram_receive_buffer_octets);
        sockets::set_buffers(&sender, send_octets, 0);
        sockets::set_buffers(&receiver, 0, receive_octets);
        let info = LinkInfo {
            remote: uri(options.group),
            reach: Reach::Group,
            holder: Holder::address(options.group.ip()),
            carrier: Carrier::Datagrams,
            mtu: None,
            path_octets: None,
            credentials: None,
            socket_inode: inode(&receiver),
            idle_ns: None,
            can_stall: false,
            refuses: |persistency| {
                (persistency == FacePersistency::OnDemand).then_some("a multicast face is not on demand")
            },
        };
        self.add_transport(NewTransport {
            receiver: Box::new(GroupReceiver { socket: receiver, own }),
            sender: Box::new(GroupSender(DatagramSender::to_group(Arc::new(sender)))),
            info,
            local: FaceUri::Device(options.interface.clone()),
            persistency: FacePersistency::Permanent,
            state: FaceState::Up,
        })
    }
}

/// The address by which this host speaks to a group on an interface, and the interface's number.
///
/// # Errors
/// [`OpenError::NoSuchInterface`], or what the system says: mostly that there is no address.
pub fn address_towards(group: SocketAddr, interface: &str) -> Result<(SocketAddr, u32), OpenError> {
    let socket = sockets::open(sockets::family_of(&group), SocketType::DGRAM)?;
    let index = rustix::net::netdevice::name_to_index(&socket, interface)
        .map_err(|_| OpenError::NoSuchInterface(interface.to_owned()))?;
    let own = prepare_sender(&socket, &on_interface(group, index), index, false);
    Ok((own.map_err(OpenError::std(format!("asking for the address on {interface}")))?, index))
}

/// The group, where the address of a link-local one must name the interface.
fn on_interface(group: SocketAddr, index: u32) -> SocketAddr {
    match group {
        SocketAddr::V4(_) => group,
        SocketAddr::V6(group) => SocketAddrV6::new(*group.ip(), group.port(), 0, index).into(),
    }
}

/// A socket that hears the group on that interface and nothing else.
fn receiver(group: &SocketAddr, index: u32) -> std::io::Result<OwnedFd> {
    let receiver =
        sockets::open(sockets::family_of(group), SocketType::DGRAM).map_err(std::io::Error::other)?;
    let socket = SockRef::from(&receiver);
    // Other programs on this machine may listen to the group too.
    socket.set_reuse_address(true)?;
    mmsg::coalesce(&receiver);
    match group {
        SocketAddr::V4(group) => {
            socket.set_multicast_all_v4(false)?;
            rustix::net::bind(&receiver, group)?;
            socket.join_multicast_v4_n(group.ip(), &InterfaceIndexOrAddress::Index(index))?;
        }
        SocketAddr::V6(group) => {
            socket.set_only_v6(true)?;
            socket.set_multicast_all_v6(false)?;
            rustix::net::bind(&receiver, group)?;
            socket.join_multicast_v6(group.ip(), index)?;
        }
    }
    Ok(receiver)
}

/// Binds the sender to the interface. Returns the address from which it sends.
fn prepare_sender(
    sender: &OwnedFd,
    group: &SocketAddr,
    index: u32,
    same_host: bool,
) -> std::io::Result<SocketAddr> {
    let any = match group {
        SocketAddr::V4(_) => {
            sockopt::set_ip_multicast_if_with_ifindex(
                sender,
                &Ipv4Addr::UNSPECIFIED,
                &Ipv4Addr::UNSPECIFIED,
                index,
            )?;
            sockopt::set_ip_multicast_loop(sender, same_host)?;
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
        }
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_multicast_if(sender, index)?;
            sockopt::set_ipv6_multicast_loop(sender, same_host)?;
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
        }
    };
    // Routes of other interfaces must not decide where the group is. Where the system does not
    // allow this, they do.
    let _ = match group {
        SocketAddr::V4(_) => SockRef::from(sender).bind_device_by_index_v4(NonZeroU32::new(index)),
        SocketAddr::V6(_) => SockRef::from(sender).bind_device_by_index_v6(NonZeroU32::new(index)),
    };
    rustix::net::bind(sender, &any)?;
    rustix::net::connect(sender, group)?;
    Ok(sockets::local_address(sender)?)
}

/// The receiving half of a group.
struct GroupReceiver {
    socket: OwnedFd,
    /// Where this end sends from.
    own: SocketAddr,
}

impl<H: Handler> Receiver<H> for GroupReceiver {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    /// Reads a turn's worth of datagrams. What this transport sent itself is passed over.
    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        let mut count = 0;
        while count < turn.options().read_datagrams_per_turn {
            match mmsg::receive(&self.socket, datagrams::room(scratch), true) {
                Ok(received) => {
                    for (range, from) in received.datagrams() {
                        count += 1;
                        let is_own = from.is_some_and(|from| is_same(&from, &self.own));
                        if !is_own && !turn.deliver(from, &scratch[range]) {
                            return Ok(());
                        }
                    }
                    if received.is_last() || turn.is_over() {
                        return Ok(());
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => {
                    turn.count("receive_failed");
                    count += 1;
                }
            }
        }
        Ok(())
    }
}

/// The sending half of a group, which has a socket of its own.
struct GroupSender(DatagramSender);

impl<P: AsRef<[u8]>> Sender<P> for GroupSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Result<Flushed, Errno> {
        self.0.flush(queue, sent)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Sender::<P>::descriptor(&self.0)
    }

    fn shares_descriptor(&self) -> bool {
        false
    }
}

/// Returns true if two addresses are one, their flow labels and scopes aside.
fn is_same(a: &SocketAddr, b: &SocketAddr) -> bool {
    a.ip() == b.ip() && a.port() == b.port()
}
