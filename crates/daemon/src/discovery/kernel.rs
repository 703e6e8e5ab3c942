//! The links of a router that forwards by the kernel: lower faces and routes are made there, and
//! what is said about neighbours goes by sockets of this thread's own, as the kernel's faces know
//! nothing of discovery.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use namely_datagrams::ethernet::DEFAULT_GROUP;
use namely_datagrams::ethernet::messages::Messages;
use namely_discovery::message::DISCOVERY;
use namely_discovery::{Recipient, Station, concerns_discovery};
use namely_forwarder::{Charge, FaceId};
use namely_mgmt::{CreateFaceError, Faces, Tables};
use namely_wire::mgmt::{Route, RouteOrigin, route_flags};
use namely_wire::{FaceUri, MacAddress, Name};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::home::Home;
use super::link::{Link, Seen};
use crate::kernel::Kernel;
use namely_dataplane::Overheard;

/// Messages of one link that are read at a time; what comes meanwhile waits in its socket's buffer.
pub(crate) const HEARD_AT_ONCE_MAX: usize = 64;

/// The links, by their numbers.
pub(super) struct KernelLinks {
    kernel: Arc<Kernel>,
    /// None while a device is not there.
    sockets: Vec<Option<Messages>>,
    /// Where faces lead: those of groups, and those of neighbours.
    far: HashMap<u64, (usize, MacAddress)>,
    /// Faces of neighbours that somebody else has made: these are not destroyed.
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

    fn hear(&mut self, number: usize, own: MacAddress, index: u32, epoll: BorrowedFd<'_>) {
        let component = DISCOVERY.as_bytes().try_into().unwrap_or_default();
        let opened = Messages::open(index, own, component).and_then(|socket| {
            epoll::add(epoll, &socket, EventData::new_u64(0), EventFlags::IN)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => self.sockets[number] = Some(socket),
            Err(errno) => tracing::error!("no neighbours are heard on link {number}: {errno}"),
        }
    }
}

impl Home for KernelLinks {
    fn begin(&mut self, links: &[Link]) {
        self.sockets = links.iter().map(|_| None).collect();
        self.far.extend(links.iter().enumerate().map(|(n, link)| (link.group.0, (n, DEFAULT_GROUP))));
    }

    fn seen(
        &mut self,
        number: usize,
        link: &Link,
        now: Option<Seen>,
        epoll: BorrowedFd<'_>,
    ) -> Option<FaceId> {
        let before = self.sockets.get_mut(number)?.take();
        let Seen { index, state } = now?;
        let Station::Ether(own) = state.station else { return None };
        // A device of another number or address is another one; else the socket serves on.
        let is_same =
            link.seen.is_some_and(|seen| (seen.index, seen.state.station) == (index, state.station));
        match before.filter(|_| is_same) {
            Some(socket) => self.sockets[number] = Some(socket),
            None => self.hear(number, MacAddress(own), index, epoll),
        }
        let group = self.kernel.listen_on(&link.watched.device, DEFAULT_GROUP).ok()?;
        self.far.insert(group, (number, DEFAULT_GROUP));
        (group != link.group.0).then_some(FaceId(group))
    }

    fn heard(&mut self) -> Vec<Overheard> {
        let mut heard = Vec::new();
        for (number, socket) in self.sockets.iter_mut().enumerate() {
            let Some(socket) = socket else { continue };
            for _ in 0..HEARD_AT_ONCE_MAX {
                // What becomes of the device, the monitor tells.
                let Ok(Some(message)) = socket.receive() else { break };
                if concerns_discovery(message.packet) {
                    let source = Station::Ether(message.source.0);
                    let (link, packet) = (Some(number), message.packet.to_vec());
                    heard.push(Overheard { link, source, is_unicast: message.is_unicast, packet });
                }
            }
        }
        heard
    }

    fn send(&mut self, face: FaceId, packet: Vec<u8>) {
        let Some((link, to)) = self.far.get(&face.0) else { return };
        let socket = self.sockets.get(*link).and_then(Option::as_ref);
        // What is lost here is said again at the next heartbeat.
        if let Some(Err(errno)) = socket.map(|socket| socket.send(*to, &packet)) {
            tracing::debug!("nothing is said to {to}: {errno}");
        }
    }

    fn send_past_faces(&mut self, number: usize, _: &Link, to: Recipient, packet: Vec<u8>) {
        let Station::Ether(octets) = to.station else { return };
        let socket = self.sockets.get(number).and_then(Option::as_ref);
        if let Some(Err(errno)) = socket.map(|socket| socket.send(MacAddress(octets), &packet)) {
            tracing::debug!("nothing is said to {}: {errno}", to.station);
        }
    }

    /// What is sent is on its way when that returns.
    fn settle(&self) {}

    /// The kernel's faces are as long as their device's frames.
    fn make(&mut self, link: usize, local: FaceUri, station: Station, _: usize) -> Option<u64> {
        let (Station::Ether(octets), FaceUri::Device(device)) = (station, local) else { return None };
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
        // Gone already is as good.
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
    fn ask(&self, _: FaceId, _: bool) {}

    fn ask_beside(&self, _: FaceId, _: FaceId) {}

    /// The kernel's groups are as long as their device's frames, whoever hears them.
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
            Err(error) => tracing::warn!("no route {prefix} to face {face}: {error}"),
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
