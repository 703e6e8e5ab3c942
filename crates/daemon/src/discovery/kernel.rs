//! The links of a router that forwards in the kernel. The faces of links and their routes are made
//! in the kernel. Messages of discovery use sockets of this thread, because the kernel's faces do
//! not support discovery.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use namely_datagrams::ethernet::DEFAULT_GROUP;
use namely_datagrams::ethernet::messages::Messages;
use namely_discovery::message::DISCOVERY;
use namely_discovery::{LinkAddress, Recipient, concerns_discovery};
use namely_forwarder::{Charge, FaceId};
use namely_messages::{Route, RouteOrigin, route_flags};
use namely_mgmt::{CreateFaceError, Faces, Tables};
use namely_wire::{FaceUri, MacAddress, Name};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::home::DiscoveryHost;
use super::link::{Link, LinkSnapshot};
use crate::kernel::Kernel;
use namely_dataplane::CapturedPacket;

/// Messages of one link that are read in a round. Others wait in the socket's buffer.
pub(crate) const HEARD_AT_ONCE_MAX: usize = 64;

/// The links, by their numbers.
pub(super) struct KernelLinks {
    kernel: Arc<Kernel>,
    /// `None` while the device does not exist.
    sockets: Vec<Option<Messages>>,
    /// The link and the remote address of each face, for groups and neighbors.
    far: HashMap<u64, (usize, MacAddress)>,
    /// Faces of neighbors that discovery did not make. It does not destroy them.
    borrowed: HashSet<u64>,
    routes: HashMap<u64, Vec<Name>>,
}

impl KernelLinks {
    pub(super) fn new(kernel: Arc<Kernel>) -> Self {
        let (far, borrowed, routes) = Default::default();
        KernelLinks { kernel, sockets: Vec::new(), far, borrowed, routes }
    }

    fn unregister(&self, face: u64, prefix: &Name) {
        self.kernel.rib_unregister(prefix.as_name(), FaceId(face), RouteOrigin::AUTOREG);
    }

    fn open_socket(&mut self, number: usize, own: MacAddress, index: u32, epoll: BorrowedFd<'_>) {
        let component = DISCOVERY.as_bytes().try_into().unwrap_or_default();
        let opened = Messages::open(index, own, component).and_then(|socket| {
            epoll::add(epoll, &socket, EventData::new_u64(0), EventFlags::IN)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => self.sockets[number] = Some(socket),
            Err(errno) => tracing::error!("no messages of neighbors on link {number}: {errno}"),
        }
    }
}

impl DiscoveryHost for KernelLinks {
    fn begin(&mut self, links: &[Link]) {
        self.sockets = links.iter().map(|_| None).collect();
        self.far.extend(links.iter().enumerate().map(|(n, link)| (link.group.0, (n, DEFAULT_GROUP))));
    }

    fn seen(
        &mut self,
        number: usize,
        link: &Link,
        now: Option<LinkSnapshot>,
        epoll: BorrowedFd<'_>,
    ) -> Option<FaceId> {
        let before = self.sockets.get_mut(number)?.take();
        let LinkSnapshot { index, state } = now?;
        let LinkAddress::Ether(own) = state.station else { return None };
        // Another number or address means another device. Otherwise the socket remains valid.
        let is_same =
            link.seen.is_some_and(|seen| (seen.index, seen.state.station) == (index, state.station));
        match before.filter(|_| is_same) {
            Some(socket) => self.sockets[number] = Some(socket),
            None => self.open_socket(number, MacAddress(own), index, epoll),
        }
        let group = self.kernel.listen_on(&link.watched.device, DEFAULT_GROUP).ok()?;
        self.far.insert(group, (number, DEFAULT_GROUP));
        (group != link.group.0).then_some(FaceId(group))
    }

    fn received(&mut self) -> Vec<CapturedPacket> {
        let mut received = Vec::new();
        for (number, socket) in self.sockets.iter_mut().enumerate() {
            let Some(socket) = socket else { continue };
            for _ in 0..HEARD_AT_ONCE_MAX {
                // The monitor reports a failure of the device.
                let Ok(Some(message)) = socket.receive() else { break };
                if concerns_discovery(message.packet) {
                    let source = LinkAddress::Ether(message.source.0);
                    let (link, packet) = (Some(number), message.packet.to_vec());
                    received.push(CapturedPacket { link, source, is_unicast: message.is_unicast, packet });
                }
            }
        }
        received
    }

    fn send(&mut self, face: FaceId, packet: Vec<u8>) {
        let Some((link, to)) = self.far.get(&face.0) else { return };
        let socket = self.sockets.get(*link).and_then(Option::as_ref);
        // A lost packet is repeated at the next heartbeat.
        if let Some(Err(errno)) = socket.map(|socket| socket.send(*to, &packet)) {
            tracing::debug!("no message to {to}: {errno}");
        }
    }

    fn send_past_faces(&mut self, number: usize, _: &Link, to: Recipient, packet: Vec<u8>) {
        let LinkAddress::Ether(octets) = to.station else { return };
        let socket = self.sockets.get(number).and_then(Option::as_ref);
        if let Some(Err(errno)) = socket.map(|socket| socket.send(MacAddress(octets), &packet)) {
            tracing::debug!("no message to {}: {errno}", to.station);
        }
    }

    /// A packet is handed to the device when the call of send returns.
    fn settle(&self) {}

    /// The MTU of the kernel's faces is that of their device.
    fn make(&mut self, link: usize, local: FaceUri, station: LinkAddress, _: usize) -> Option<u64> {
        let (LinkAddress::Ether(octets), FaceUri::Device(device)) = (station, local) else { return None };
        let address = MacAddress(octets);
        let face = match self.kernel.create(&device, address) {
            Ok(face) => face.face_id,
            Err(CreateFaceError::Exists(face)) => {
                self.borrowed.insert(face.face_id);
                face.face_id
            }
            Err(error) => {
                tracing::debug!("no face to {address} on {device}: {error}");
                return None;
            }
        };
        self.far.insert(face, (link, address));
        Some(face)
    }

    fn destroy(&mut self, face: u64) {
        let routes = self.routes.remove(&face).unwrap_or_default();
        self.far.remove(&face);
        if self.borrowed.remove(&face) {
            return routes.iter().for_each(|prefix| self.unregister(face, prefix));
        }
        // It is not an error if the face is closed already.
        let _ = self.kernel.destroy_face(FaceId(face));
    }

    fn gone(&mut self, face: u64) {
        self.routes.remove(&face);
        self.borrowed.remove(&face);
        self.far.remove(&face);
    }

    fn set_mtu(&mut self, _: u64, _: usize, _: u64) {}

    fn retry(&mut self, _: u64) -> Option<u64> {
        None
    }

    /// The kernel's strategies learn no routes.
    fn set_discovery_face(&self, _: FaceId, _: bool) {}

    fn add_discovery_face(&self, _: FaceId, _: FaceId) {}

    /// The MTU of the kernel's groups is that of their device, regardless of their members.
    fn copy_to(&self, _: FaceId, _: &[u64]) {}

    fn add_route(&mut self, face: u64, prefix: &Name, now_ns: u64) {
        let route = Route {
            face_id: face,
            origin: RouteOrigin::AUTOREG,
            cost: 0,
            flags: route_flags::CHILD_INHERIT,
            expiration_period_ms: None,
        };
        match self.kernel.rib_register(Charge::Router, prefix.as_name(), &route, now_ns) {
            Ok(()) => self.routes.entry(face).or_default().push(prefix.clone()),
            Err(error) => tracing::warn!(%prefix, face, %error, "no route to the neighbor"),
        }
    }

    fn remove_route(&mut self, face: u64, prefix: &Name) {
        if let Some(routes) = self.routes.get_mut(&face) {
            routes.retain(|known| known != prefix);
        }
        self.unregister(face, prefix);
    }

    fn leave(&mut self) {
        let neighbours = self.far.iter().filter(|(_, (_, to))| !to.is_group()).map(|(face, _)| *face);
        let neighbours: Vec<u64> = neighbours.collect();
        neighbours.into_iter().for_each(|face| self.destroy(face));
    }
}
