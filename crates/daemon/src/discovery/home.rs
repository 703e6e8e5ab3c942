//! Where links are: with this router's own faces, or with the kernel's.

use std::os::fd::BorrowedFd;

use namely_discovery::{Recipient, Station};
use namely_forwarder::FaceId;
use namely_wire::{FaceUri, Name};

use super::link::{Link, Seen};
use namely_dataplane::Overheard;

/// What carries out at faces what the state machine wants.
pub(super) trait Home: Send {
    /// Discovery begins on these links.
    fn begin(&mut self, links: &[Link]);

    /// A link has become this; `epoll` ends the wait when something is heard there. The face of its
    /// group, if that is another one now.
    fn seen(
        &mut self,
        number: usize,
        link: &Link,
        now: Option<Seen>,
        epoll: BorrowedFd<'_>,
    ) -> Option<FaceId>;

    /// What was heard since, beside what workers have put into the tap.
    fn heard(&mut self) -> Vec<Overheard>;

    /// Sends a packet past the forwarder.
    fn send(&mut self, face: FaceId, packet: Vec<u8>);

    /// Sends a packet to a station of a link that has no face.
    fn send_past_faces(&mut self, number: usize, link: &Link, to: Recipient, packet: Vec<u8>);

    /// Waits until what was sent is on its way.
    fn settle(&self);

    /// A face to a station of a link.
    fn make(&mut self, link: usize, local: FaceUri, station: Station, mtu: usize) -> Option<u64>;

    /// Ends a face that was made, or gives it back.
    fn destroy(&mut self, face: u64);

    /// A face has gone, and its routes with it.
    fn gone(&mut self, face: u64);

    /// Frames to a face are at most so long from now on.
    fn set_mtu(&mut self, face: u64, mtu: usize, now_ns: u64);

    /// Does again what was put off; when the next is due, ns.
    fn retry(&mut self, now_ns: u64) -> Option<u64>;

    /// Whether a face is asked for what no route leads to.
    fn ask(&self, face: FaceId, is_asked: bool);

    /// Asks a neighbour beside its group.
    fn ask_beside(&self, face: FaceId, group: FaceId);

    /// Has these faces, and no others, receive what is sent to a group: of neighbours whose MTU is
    /// below that of the group.
    fn copy_to(&self, group: FaceId, faces: &[u64]);

    /// A route to a neighbour.
    fn add_route(&mut self, face: u64, prefix: &Name, now_ns: u64);

    /// It is no more.
    fn remove_route(&mut self, face: u64, prefix: &Name);

    /// Discovery ends, and what it has made with it.
    fn leave(&mut self);
}
