//! The faces of neighbors and their routes. They are made, changed and destroyed in the same way as
//! by management commands.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use namely_datagrams::ethernet::FrameSender;
use namely_discovery::{LinkAddress, Recipient};
use namely_forwarder::{Charge, FaceId};
use namely_host::clock;
use namely_io::udp;
use namely_link::{LinkConfig, LinkKind, LinkSender, MTU_OCTETS_MIN, Outbound};
use namely_messages::{FacePersistency, FaceStatus, Route, RouteOrigin, route_flags};
use namely_mgmt::{CreateFaceError, FaceSettings, FaceSpec, Faces, Tables};
use namely_wire::{Endpoint, FaceUri, LpHeaders, MacAddress, Name};

use super::home::DiscoveryHost;
use super::link::{Link, LinkSnapshot, Medium};
use namely_dataplane::{CapturedPacket, Core, DataPlane};

/// Attempts to make a face while a worker makes one to the same link address.
const ATTEMPTS: u32 = 4;

/// Delay, ns, and number of further attempts to set an MTU that the device does not support yet.
const AGAIN_NS: u64 = 50_000_000;
const AGAIN_MAX: u32 = 20;

/// The faces of neighbors.
pub(super) struct LinkFaces {
    plane: Arc<DataPlane>,
    core: Arc<Core>,
    /// Faces that discovery did not make and that are not on-demand. It does not destroy them.
    borrowed: HashSet<u64>,
    routes: HashMap<u64, Vec<Name>>,
    /// MTUs that must be set again: octets, time, ns, and remaining attempts.
    again: HashMap<u64, (usize, u64, u32)>,
}

impl LinkFaces {
    pub(super) fn new(plane: Arc<DataPlane>, core: Arc<Core>) -> Self {
        let (borrowed, routes, again) = Default::default();
        LinkFaces { plane, core, borrowed, routes, again }
    }

    fn adopt(&mut self, face: &FaceStatus, settings: FaceSettings) -> bool {
        let is_of_others = face.face_persistency != FacePersistency::OnDemand;
        let persistency = settings.persistency.filter(|_| !is_of_others);
        let settings = FaceSettings { persistency, ..settings };
        let id = FaceId(face.face_id);
        self.plane.hold_mtu(id);
        let is_adopted = self.plane.update_face(id, &settings).is_ok();
        if is_adopted && is_of_others {
            self.borrowed.insert(face.face_id);
        } else if is_adopted {
            self.set_discovery_face(id, false);
        }
        is_adopted
    }

    fn try_mtu(&mut self, face: u64, mtu: usize, now_ns: u64, attempts: u32) {
        self.again.remove(&face);
        let settings = FaceSettings { mtu: Some(mtu as u64), ..FaceSettings::default() };
        // `update_face` reduces an MTU above the device's to that of the device. The device's own
        // faces apply a new device MTU with a short delay, so the MTU is set again later.
        if let Ok(status) = self.plane.update_face(FaceId(face), &settings)
            && status.mtu.is_some_and(|now| now < mtu as u64)
            && attempts > 0
        {
            self.again.insert(face, (mtu, now_ns.saturating_add(AGAIN_NS), attempts - 1));
        }
    }

    fn unregister(&self, face: u64, prefix: &Name) {
        Tables::rib_unregister(&*self.core, prefix.as_name(), FaceId(face), RouteOrigin::AUTOREG);
    }
}

impl DiscoveryHost for LinkFaces {
    fn begin(&mut self, links: &[Link]) {
        links.iter().for_each(|link| self.plane.hold_mtu(link.group));
    }

    /// Makes the group's face of a device that was absent at the start. The data plane adapts the
    /// face to later changes of the device.
    fn seen(
        &mut self,
        _: usize,
        link: &Link,
        now: Option<LinkSnapshot>,
        _: BorrowedFd<'_>,
    ) -> Option<FaceId> {
        if link.group != FaceId::NONE || now.is_none() {
            return None;
        }
        let opened = link.watched.open_group(&self.plane);
        let opened = opened.inspect_err(|error| tracing::debug!("no neighbor discovery yet: {error}"));
        let group = opened.ok()?;
        self.plane.hold_mtu(group);
        Some(group)
    }

    /// The workers pass all packets of discovery to the capture queue.
    fn received(&mut self) -> Vec<CapturedPacket> {
        Vec::new()
    }

    fn send(&mut self, face: FaceId, packet: Vec<u8>) {
        self.plane.send(face, packet);
    }

    /// Discovery repeats a lost packet at its next timer.
    fn send_past_faces(&mut self, _: usize, link: &Link, to: Recipient, packet: Vec<u8>) {
        let Some(seen) = link.seen else { return };
        let frames = frames(packet, to.mtu);
        let sent = match (to.station, seen.state.station, link.watched.medium) {
            (LinkAddress::Ether(peer), LinkAddress::Ether(own), _) => {
                let sender = FrameSender::open(seen.index, MacAddress(peer), MacAddress(own));
                let sent = sender.and_then(|sender| sender.send(frames.iter().map(Vec::as_slice)));
                sent.map(drop).map_err(|errno| errno.to_string())
            }
            (LinkAddress::Udp(peer), _, Medium::Udp { listener, .. }) => {
                udp::send_beside(listener, peer, &frames).map_err(|error| error.to_string())
            }
            _ => return,
        };
        if let Err(why) = sent {
            tracing::debug!("no message to {}: {why}", to.station);
        }
    }

    fn settle(&self) {
        self.plane.settle();
    }

    /// Makes a face to a link address. An existing on-demand face is adopted.
    fn make(&mut self, _: usize, local: FaceUri, station: LinkAddress, mtu: usize) -> Option<u64> {
        let settings = FaceSettings {
            persistency: Some(FacePersistency::Persistent),
            mtu: Some(mtu as u64),
            ..FaceSettings::default()
        };
        let (remote, local) = match station {
            LinkAddress::Ether(octets) => (FaceUri::Ether(MacAddress(octets)), Some(local)),
            LinkAddress::Udp(address) => (FaceUri::Udp(Endpoint::Address(address)), None),
        };
        let spec = FaceSpec { remote, local, settings };
        for _ in 0..ATTEMPTS {
            match self.plane.create_face(spec.clone()) {
                Ok(face) => {
                    self.plane.hold_mtu(FaceId(face.face_id));
                    // The face receives no Interests without a route until the neighbor is known to
                    // be reachable.
                    self.set_discovery_face(FaceId(face.face_id), false);
                    return Some(face.face_id);
                }
                Err(CreateFaceError::Exists(face)) => {
                    if self.adopt(&face, settings) {
                        return Some(face.face_id);
                    }
                }
                // A worker is making a face because a frame of the same peer has arrived.
                Err(CreateFaceError::Failed(_)) => std::thread::yield_now(),
                Err(error) => {
                    tracing::debug!("no face to {}: {error}", spec.remote);
                    return None;
                }
            }
        }
        tracing::debug!("no face to {}", spec.remote);
        None
    }

    fn destroy(&mut self, face: u64) {
        let routes = self.routes.remove(&face).unwrap_or_default();
        self.again.remove(&face);
        if self.borrowed.remove(&face) {
            return routes.iter().for_each(|prefix| self.unregister(face, prefix));
        }
        // It is not an error if the face is closed already.
        let _ = self.plane.destroy_face(FaceId(face));
    }

    /// A face was closed, together with its routes.
    fn gone(&mut self, face: u64) {
        self.routes.remove(&face);
        self.again.remove(&face);
        self.borrowed.remove(&face);
    }

    fn set_mtu(&mut self, face: u64, mtu: usize, now_ns: u64) {
        self.try_mtu(face, mtu, now_ns, AGAIN_MAX);
    }

    /// Sets the MTUs that are due. Returns the time of the next one, ns.
    fn retry(&mut self, now_ns: u64) -> Option<u64> {
        let due = self.again.iter().filter(|(_, (_, at_ns, _))| *at_ns <= now_ns);
        let due: Vec<(u64, usize, u32)> = due.map(|(face, (mtu, _, left))| (*face, *mtu, *left)).collect();
        due.into_iter().for_each(|(face, mtu, left)| self.try_mtu(face, mtu, now_ns, left));
        self.again.values().map(|(_, at_ns, _)| *at_ns).min()
    }

    /// Sets whether a face receives Interests without a route.
    fn set_discovery_face(&self, face: FaceId, is_on: bool) {
        // It is not an error if the face was closed meanwhile.
        let _ = self.core.discovery().set(face, is_on);
    }

    fn add_discovery_face(&self, face: FaceId, group: FaceId) {
        let _ = self.core.discovery().set_beside(face, group);
    }

    fn copy_to(&self, group: FaceId, faces: &[u64]) {
        let faces: Vec<FaceId> = faces.iter().copied().map(FaceId).collect();
        // It is not an error if a face was closed meanwhile.
        let _ = self.core.discovery().set_copied(group, &faces);
        self.plane.copy_to(group, faces);
    }

    fn add_route(&mut self, face: u64, prefix: &Name, now_ns: u64) {
        let route = Route {
            face_id: face,
            origin: RouteOrigin::AUTOREG,
            cost: 0,
            flags: route_flags::CHILD_INHERIT,
            expiration_period_ms: None,
        };
        match Tables::rib_register(&*self.core, Charge::Router, prefix.as_name(), &route, now_ns) {
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

    /// These faces close with the router.
    fn leave(&mut self) {}
}

/// The frames of a packet, of at most `mtu` octets. The sequence numbers start with the time, so
/// that those of different packets do not overlap.
fn frames(packet: Vec<u8>, mtu: usize) -> Vec<Vec<u8>> {
    let mtu = mtu.max(MTU_OCTETS_MIN);
    let now_ns = clock::monotonic_ns();
    let mut sender = LinkSender::new(LinkConfig::new(LinkKind::Datagram { mtu }), now_ns);
    let mut frames = Vec::new();
    let outbound = Outbound { headers: LpHeaders::default(), packet, hop_limit: None };
    // A packet of discovery fits the maximum number of fragments at any MTU.
    let _ = sender.send(outbound, now_ns, &mut |frame| frames.push(frame.slices().concat()));
    frames
}
