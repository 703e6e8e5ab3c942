//! The interface of discovery to the faces of links, in the data plane or in the kernel.

use std::os::fd::BorrowedFd;

use namely_discovery::{LinkAddress, Recipient};
use namely_forwarder::FaceId;
use namely_wire::{FaceUri, Name};

use super::link::{Link, LinkSnapshot};
use namely_dataplane::CapturedPacket;

/// Carries out the actions of the state machine on faces.
pub(super) trait DiscoveryHost: Send {
    /// Discovery starts on these links.
    fn begin(&mut self, links: &[Link]);

    /// Handles a change of a link. A socket that receives packets of the link must be added to
    /// `epoll`. Returns the face of its group, if that has changed.
    fn seen(
        &mut self,
        number: usize,
        link: &Link,
        now: Option<LinkSnapshot>,
        epoll: BorrowedFd<'_>,
    ) -> Option<FaceId>;

    /// The packets received since the last call, in addition to those in the capture queue.
    fn received(&mut self) -> Vec<CapturedPacket>;

    /// Sends a packet directly on a face, bypassing the forwarder.
    fn send(&mut self, face: FaceId, packet: Vec<u8>);

    /// Sends a packet to a link address without a face.
    fn send_past_faces(&mut self, number: usize, link: &Link, to: Recipient, packet: Vec<u8>);

    /// Waits until all packets are handed to the device.
    fn settle(&self);

    /// Makes a face to a link address.
    fn make(&mut self, link: usize, local: FaceUri, station: LinkAddress, mtu: usize) -> Option<u64>;

    /// Destroys a face. From a borrowed face, which discovery does not own, only removes the
    /// routes.
    fn destroy(&mut self, face: u64);

    /// A face was closed, together with its routes.
    fn gone(&mut self, face: u64);

    /// Sets the MTU of a face.
    fn set_mtu(&mut self, face: u64, mtu: usize, now_ns: u64);

    /// Retries postponed actions. Returns the time of the next one, ns.
    fn retry(&mut self, now_ns: u64) -> Option<u64>;

    /// Sets whether a face receives Interests without a route.
    fn set_discovery_face(&self, face: FaceId, is_on: bool);

    /// Makes a neighbor receive Interests without a route, in addition to its group.
    fn add_discovery_face(&self, face: FaceId, group: FaceId);

    /// Sets the faces that receive copies of packets to a group: those of neighbors with an MTU
    /// below that of the group.
    fn copy_to(&self, group: FaceId, faces: &[u64]);

    /// Adds a route to a neighbor.
    fn add_route(&mut self, face: u64, prefix: &Name, now_ns: u64);

    /// Removes such a route.
    fn remove_route(&mut self, face: u64, prefix: &Name);

    /// Discovery stops and removes its faces and routes.
    fn leave(&mut self);
}
