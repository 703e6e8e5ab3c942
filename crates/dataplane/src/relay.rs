//! Faces of a router whose packets the kernel forwards (docs/kernel.md). Each has a socket of the
//! kernel's forwarder, through which its packets pass in both directions. Packets are inspected
//! here only to find Interests for this router's management.
//!
//! A face has two numbers: its number in this router's table of faces, used by workers, and the
//! number of its socket in the kernel, used everywhere else.

use std::collections::HashMap;
use std::sync::Arc;

use namely_forwarder::FaceId;
use namely_io::{FaceTag, PacketSocket, RemoteKind};
use namely_nnet::{OpenError, Socket};
use namely_wire::tlv;
use parking_lot::Mutex;

use crate::shared::FaceSender;

/// The bit that distinguishes the tag of a socket's port from the number of its face.
const OF_KERNEL: u64 = 1 << 63;

/// Returns the tag of the port through which the packets of a face reach the kernel.
pub(super) fn tag(face: FaceId) -> FaceTag {
    FaceTag(face.0 | OF_KERNEL)
}

/// Returns the face whose kernel port has this tag; `None` for a face's own tag.
pub(super) fn face_of(tag: FaceId) -> Option<FaceId> {
    (tag.0 & OF_KERNEL != 0).then_some(FaceId(tag.0 & !OF_KERNEL))
}

/// The faces and their sockets.
#[derive(Default)]
pub struct Relay(Mutex<RelayFaces>);

#[derive(Default)]
struct RelayFaces {
    by_face: HashMap<FaceId, RelayFace>,
    by_number: HashMap<u64, FaceId>,
}

/// A face and its socket.
struct RelayFace {
    /// The socket's face in the kernel.
    number: u64,
    /// `None` for the face by which the kernel's applications reach management.
    socket: Option<Arc<Socket>>,
    /// `None` until a worker serves the socket.
    port: Option<Arc<FaceSender>>,
}

impl Relay {
    /// Opens the socket of a new face.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open(&self, face: FaceId, reach: RemoteKind) -> Result<(), OpenError> {
        let socket = match reach {
            RemoteKind::Local => Socket::open(),
            RemoteKind::Neighbour | RemoteKind::Group => Socket::open_remote(reach == RemoteKind::Group),
        }?;
        let number = socket.face().map_err(OpenError::System)?;
        self.0.lock().enter(face, RelayFace { number, socket: Some(Arc::new(socket)), port: None });
        Ok(())
    }

    /// Records the face by which the kernel's applications reach this router. That face is itself a
    /// socket of the kernel, with this number.
    pub(super) fn know(&self, face: FaceId, number: u64) {
        self.0.lock().enter(face, RelayFace { number, socket: None, port: None });
    }

    /// Returns the socket of a face, for a worker to serve.
    pub(super) fn to_serve(&self, face: FaceId) -> Option<PacketSocket> {
        self.socket(face).map(|socket| socket as PacketSocket)
    }

    /// Records the port by which a worker serves the socket of a face. Returns false if the face
    /// was closed meanwhile.
    pub(super) fn serve(&self, face: FaceId, port: &Arc<FaceSender>) -> bool {
        let mut joints = self.0.lock();
        let joint = joints.by_face.get_mut(&face);
        joint.map(|joint| joint.port = Some(port.clone())).is_some()
    }

    /// The port of a face's socket.
    pub(super) fn port(&self, face: FaceId) -> Option<Arc<FaceSender>> {
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

    /// Removes a closed face with its socket.
    pub(super) fn forget(&self, face: FaceId) {
        let mut joints = self.0.lock();
        let Some(joint) = joints.by_face.remove(&face) else { return };
        // The kernel may have given the number to another face meanwhile.
        if joints.by_number.get(&joint.number) == Some(&face) {
            joints.by_number.remove(&joint.number);
        }
        // The lock is released first, because closing a port writes its waiting frames.
        drop(joints);
        if let Some(port) = joint.port {
            port.close();
        }
    }
}

impl RelayFaces {
    fn enter(&mut self, face: FaceId, joint: RelayFace) {
        self.by_number.insert(joint.number, face);
        self.by_face.insert(face, joint);
    }
}

/// Returns true if this is an Interest for a router's management: below /localhost/nfd or
/// /localhop/nfd.
pub(super) fn is_for_management(packet: &[u8]) -> bool {
    let Ok(interest) = tlv::read_tlv(packet) else { return false };
    if interest.typ != namely_wire::types::INTEREST {
        return false;
    }
    let Ok(name) = interest.children().require(namely_wire::types::NAME) else { return false };
    let Ok(first) = tlv::read_tlv(name.value) else { return false };
    let rest = name.value.get(first.raw.len()..).unwrap_or_default();
    // 0x08 is the TYPE of a GenericNameComponent (NDN packet format, Name).
    matches!(first.value, b"localhost" | b"localhop") && rest.starts_with(b"\x08\x03nfd")
}

#[cfg(test)]
mod tests {
    use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo, SignatureType};

    use super::*;

    #[test]
    fn a_port_tag_identifies_its_face() {
        let face = FaceId(300);
        assert_eq!(face_of(FaceId(tag(face).0)), Some(face));
        assert_eq!(face_of(face), None);
    }

    #[test]
    fn management_interests_are_recognized_by_name() {
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
