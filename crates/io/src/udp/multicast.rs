//! UDP multicast: one transport per group and interface.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use namely_datagrams::mmsg;
use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use namely_wire::FaceUri;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use socket2::{InterfaceIndexOrAddress, SockRef};

use super::datagrams;
use super::identity::{inode, uri};
use super::peer::DatagramSender;
use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler};
use crate::interfaces;
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::labels::received;
use crate::options::{IoOptions, MulticastOptions};
use crate::port::FaceSender;
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::sockets::{self, Interest};
use crate::status::{Carrier, FaceState, LinkInfo, RemoteKind};

impl<H: Handler> Faces<H> {
    /// Joins a group on an interface.
    ///
    /// # Errors
    /// [`OpenError::NoSuchInterface`], [`OpenError::BadAddress`] if the group is not a multicast
    /// address, or the system's error.
    pub fn open_multicast(
        &mut self,
        options: &MulticastOptions,
    ) -> Result<Arc<FaceSender<H::Packet>>, OpenError> {
        if !options.group.ip().is_multicast() {
            return Err(OpenError::BadAddress(format!("{} is no multicast address", options.group.ip())));
        }
        let GroupSockets { receiver, sender, own, index } = GroupSockets::open(options, self.options())?;
        let info = LinkInfo {
            remote: uri(options.group),
            reach: RemoteKind::Group,
            holder: Owner::address(options.group.ip()),
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
            receiver: Box::new(GroupReceiver {
                socket: Some(receiver),
                own,
                index,
                options: options.clone(),
            }),
            sender: Box::new(GroupSender(DatagramSender::to_group(Arc::new(sender)))),
            info,
            local: FaceUri::Device(options.interface.clone()),
            persistency: FacePersistency::Permanent,
            state: FaceState::Up,
        })
    }
}

/// The sockets of a group on an interface. There are two, because a socket that is connected to the
/// group receives nothing from its members.
struct GroupSockets {
    receiver: OwnedFd,
    sender: OwnedFd,
    /// The address of the sender.
    own: SocketAddr,
    /// The number of the interface.
    index: u32,
}

impl GroupSockets {
    fn open(options: &MulticastOptions, io: &IoOptions) -> Result<Self, OpenError> {
        let doing = format!("joining {} on {}", options.group, options.interface);
        let sender = sockets::open(sockets::family_of(&options.group), SocketType::DGRAM)?;
        let index = rustix::net::netdevice::name_to_index(&sender, &options.interface)
            .map_err(|_| OpenError::NoSuchInterface(options.interface.clone()))?;
        let group = on_interface(options.group, index);
        let receiver = receiver(&group, index).map_err(OpenError::std(doing.clone()))?;
        let own = prepare_sender(&sender, &group, index, options.same_host).map_err(OpenError::std(doing))?;
        sockets::set_buffers(&sender, io.send_buffer_octets, 0);
        sockets::set_buffers(&receiver, 0, io.datagram_receive_buffer_octets);
        Ok(GroupSockets { receiver, sender, own, index })
    }
}

/// Returns the address from which this host sends to a group on an interface, and the interface's
/// number.
///
/// # Errors
/// [`OpenError::NoSuchInterface`], or the system's error, usually because the interface has no
/// address.
pub fn address_towards(group: SocketAddr, interface: &str) -> Result<(SocketAddr, u32), OpenError> {
    let socket = sockets::open(sockets::family_of(&group), SocketType::DGRAM)?;
    let index = rustix::net::netdevice::name_to_index(&socket, interface)
        .map_err(|_| OpenError::NoSuchInterface(interface.to_owned()))?;
    let own = prepare_sender(&socket, &on_interface(group, index), index, false);
    Ok((own.map_err(OpenError::std(format!("asking for the address on {interface}")))?, index))
}

/// Returns the group's address. An IPv6 address receives the number of the interface as its scope.
fn on_interface(group: SocketAddr, index: u32) -> SocketAddr {
    match group {
        SocketAddr::V4(_) => group,
        SocketAddr::V6(group) => SocketAddrV6::new(*group.ip(), group.port(), 0, index).into(),
    }
}

/// Opens a socket that receives only this group, and only on this interface.
fn receiver(group: &SocketAddr, index: u32) -> std::io::Result<OwnedFd> {
    let receiver =
        sockets::open(sockets::family_of(group), SocketType::DGRAM).map_err(std::io::Error::other)?;
    let socket = SockRef::from(&receiver);
    // Other programs on this machine may join the group too.
    socket.set_reuse_address(true)?;
    mmsg::coalesce(&receiver);
    match group {
        SocketAddr::V4(group) => {
            // Otherwise the socket would receive all groups that other programs of this machine
            // have joined (ip(7)).
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
    // Bound to the device, so that routes of other interfaces do not apply to the group. If the
    // system does not permit this, those routes apply.
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
    /// `None` while the interface is absent.
    socket: Option<OwnedFd>,
    /// The source address of this end.
    own: SocketAddr,
    /// The number of the interface, which changes when the device is removed and added again.
    index: u32,
    options: MulticastOptions,
}

impl GroupReceiver {
    /// Returns true if the device of the sockets is gone, given the error of opening others.
    fn is_gone(&self, error: &OpenError) -> bool {
        let is_another = || interfaces::index_of(&self.options.interface).is_some_and(|i| i != self.index);
        matches!(error, OpenError::NoSuchInterface(_)) || is_another()
    }
}

impl<H: Handler> Receiver<H> for GroupReceiver {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(OwnedFd::as_fd)
    }

    /// Reads the datagrams of one turn. Datagrams that this transport sent are skipped.
    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut count = 0;
        while count < turn.options().read_datagrams_per_turn {
            match mmsg::receive(socket, datagrams::room(scratch), true) {
                Ok(received) => {
                    for (range, from) in received.datagrams() {
                        count += 1;
                        // With `same_host`, the kernel loops this end's datagrams back.
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
                    turn.count(received::RECEIVE_FAILED);
                    count += 1;
                }
            }
        }
        Ok(())
    }

    /// Joins the group again if the interface has another number, or this host another address.
    fn addresses_changed(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        let is_down = self.socket.is_none();
        let GroupSockets { receiver, sender, own, index } =
            match GroupSockets::open(&self.options, turn.options()) {
                Ok(opened) => opened,
                Err(error) if !is_down && self.is_gone(&error) => return Err(reason(&error)),
                // The interface has lost its address, or the system lacks memory or descriptors.
                Err(_) => return Ok(()),
            };
        if !is_down && (index, own.ip()) == (self.index, self.own.ip()) {
            return Ok(());
        }
        tracing::info!(
            interface = self.options.interface,
            "the group {} is joined again",
            self.options.group
        );
        if let Some(inode) = inode(&receiver) {
            turn.port.set_socket_inode(inode);
        }
        turn.watch(&receiver, Interest::Read);
        (self.socket, self.own, self.index) = (Some(receiver), own, index);
        turn.bring_up(Box::new(GroupSender(DatagramSender::to_group(Arc::new(sender)))));
        Ok(())
    }

    /// The device is gone. The next change of devices may bring it back.
    fn take_down(&mut self, _: &mut ReadContext<'_, H>) -> bool {
        self.socket = None;
        true
    }
}

/// Returns the reason for which a group is down after its sockets could not be opened.
fn reason(error: &OpenError) -> CloseReason {
    match error {
        OpenError::System { errno, .. } => CloseReason::System(*errno),
        _ => CloseReason::DeviceGone,
    }
}

/// The sending half of a group, with its own socket.
struct GroupSender(DatagramSender);

impl<P: AsRef<[u8]>> Sender<P> for GroupSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut FlushReport) -> Result<FlushProgress, Errno> {
        self.0.flush(queue, sent)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Sender::<P>::descriptor(&self.0)
    }

    fn shares_descriptor(&self) -> bool {
        false
    }
}

/// Returns true if two addresses are equal except for flow label and scope.
fn is_same(a: &SocketAddr, b: &SocketAddr) -> bool {
    a.ip() == b.ip() && a.port() == b.port()
}
