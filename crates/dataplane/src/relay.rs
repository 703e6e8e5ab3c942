//! Faces of a router that forwards by the kernel (docs/kernel.md): each has a socket of the
//! kernel's forwarder, by which its packets go there and come back. What that does with them is its
//! own: here nothing is looked at but whether an Interest is for this router's management.
//!
//! A face has two numbers, that of this router's table of faces, by which workers know it, and that
//! which its socket has in the kernel, by which everybody else does.

use std::collections::HashMap;
use std::sync::Arc;

use namely_forwarder::FaceId;
use namely_io::{FaceTag, PacketSocket, Reach};
use namely_nnet::{OpenError, Socket};
use namely_wire::tlv;
use parking_lot::Mutex;

use crate::shared::Port;

/// What marks the tag of a socket's port beside the number of the face that it belongs to.
const OF_KERNEL: u64 = 1 << 63;

/// The tag of the port by which the packets of a face go to the kernel.
pub(super) fn tag(face: FaceId) -> FaceTag {
    FaceTag(face.0 | OF_KERNEL)
}

/// The face whose packets a tag's port carries to the kernel; `None` for a face's own tag.
pub(super) fn face_of(tag: FaceId) -> Option<FaceId> {
    (tag.0 & OF_KERNEL != 0).then_some(FaceId(tag.0 & !OF_KERNEL))
}

/// The faces and their sockets.
#[derive(Default)]
pub struct Relay(Mutex<Joints>);

#[derive(Default)]
struct Joints {
    by_face: HashMap<FaceId, Joint>,
    by_number: HashMap<u64, FaceId>,
}

/// A face and its socket.
struct Joint {
    /// The socket's face in the kernel.
    number: u64,
    /// `None` of the face by which the kernel's applications reach management.
    socket: Option<Arc<Socket>>,
    /// `None` until a worker serves the socket.
    port: Option<Arc<Port>>,
}

impl Relay {
    /// Opens the socket of a new face.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open(&self, face: FaceId, reach: Reach) -> Result<(), OpenError> {
        let socket = match reach {
            Reach::Local => Socket::open(),
            Reach::Neighbour | Reach::Group => Socket::open_remote(reach == Reach::Group),
        }?;
        let number = socket.face().map_err(OpenError::System)?;
        self.0.lock().enter(face, Joint { number, socket: Some(Arc::new(socket)), port: None });
        Ok(())
    }

    /// The face by which the kernel's applications reach this router: it is itself such a socket,
    /// with this number.
    pub(super) fn know(&self, face: FaceId, number: u64) {
        self.0.lock().enter(face, Joint { number, socket: None, port: None });
    }

    /// The socket of a face, to be served.
    pub(super) fn to_serve(&self, face: FaceId) -> Option<PacketSocket> {
        self.socket(face).map(|socket| socket as PacketSocket)
    }

    /// A worker serves the socket of a face by this port. False if the face has gone meanwhile.
    pub(super) fn serve(&self, face: FaceId, port: &Arc<Port>) -> bool {
        let mut joints = self.0.lock();
        let joint = joints.by_face.get_mut(&face);
        joint.map(|joint| joint.port = Some(port.clone())).is_some()
    }

    /// The port of a face's socket.
    pub(super) fn port(&self, face: FaceId) -> Option<Arc<Port>> {
        self.0.lock().by_face.get(&face)?.port.clone()
    }

    /// The socket of a face.
    pub fn socket(&self, face: FaceId) -> Option<Arc<Socket>> {
        self.0.lock().by_face.get(&face)?.socket.clone()
    }

    /// The number that a face has in the kernel.
    pub fn number(&self, face: FaceId) -> Option<u64> {
        Some(self.0.lock().by_face.get(&face)?.number)
    }

    /// The face whose socket has this number in the kernel.
    pub fn face(&self, number: u64) -> Option<FaceId> {
        self.0.lock().by_number.get(&number).copied()
    }

    /// A face has gone, and its socket goes with it.
    pub(super) fn forget(&self, face: FaceId) {
        let mut joints = self.0.lock();
        let Some(joint) = joints.by_face.remove(&face) else { return };
        if joints.by_number.get(&joint.number) == Some(&face) {
            joints.by_number.remove(&joint.number);
        }
        drop(joints);
        if let Some(port) = joint.port {
            port.close();
        }
    }
}

impl Joints {
    fn enter(&mut self, face: FaceId, joint: Joint) {
        self.by_number.insert(joint.number, face);
        self.by_face.insert(face, joint);
    }
}

/// Whether this is an Interest for a router's management: below /localhost/nfd or /localhop/nfd.
pub(super) fn is_for_management(packet: &[u8]) -> bool {
    let Ok(interest) = tlv::read_tlv(packet) else { return false };
    if interest.typ != namely_wire::types::INTEREST {
        return false;
    }
    let Ok(name) = interest.children().require(namely_wire::types::NAME) else { return false };
    let Ok(first) = tlv::read_tlv(name.value) else { return false };
    let rest = name.value.get(first.raw.len()..).unwrap_or_default();
    matches!(first.value, b"localhost" | b"localhop") && rest.starts_with(b"\x08\x03nfd")
}

#[cfg(test)]
mod tests {
    use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo, SignatureType};

    use super::*;

    #[test]
    fn a_tag_says_whose_packets_a_port_carries() {
        let face = FaceId(300);
        assert_eq!(face_of(FaceId(tag(face).0)), Some(face));
        assert_eq!(face_of(face), None);
    }

    #[test]
    fn interests_for_management_are_told_by_their_names() {
        let interest = |name: &str| InterestBuilder::new(name.parse().unwrap()).build();
        for name in ["/localhost/nfd/rib/register", "/localhop/nfd/rib", "/localhost/nfd"] {
            assert!(is_for_management(&interest(name)), "{name}");
        }
        for name in ["/localhost/nlsr", "/localhost", "/a/nfd", "/", "/localhost/nfd2"] {
            assert!(!is_for_management(&interest(name)), "{name}");
        }
        let name: Name = "/localhost/nfd/status".parse().unwrap();
        let info = SignatureInfo::new(SignatureType::DigestSha256, None);
        let data = DataBuilder::new(name.as_name()).build(b"", &info).finish(&[0; 32]);
        assert!(!is_for_management(&data) && !is_for_management(&[]) && !is_for_management(&[5, 0]));
        let whole = interest("/localhost/nfd/x");
        (0..whole.len()).for_each(|octets| assert!(!is_for_management(&whole[..octets])));
    }
}
