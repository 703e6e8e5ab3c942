//! The kernel's faces, for management.

use std::collections::HashMap;

use namely_forwarder::FaceId;
use namely_messages::{Counter, FacePersistency, FaceScope, FaceStatus, LinkType};
use namely_mgmt::{CreateFaceError, FaceSettings, FaceSpec, Faces, UpdateFaceError};
use namely_nnet::{ControlError, Face, FaceKind, device};
use namely_wire::{FaceUri, MacAddress};
use rustix::io::Errno;

use super::{Kernel, counters, of};

impl Kernel {
    /// Makes a face. The kernel makes a face to a device's address or group. The data plane makes
    /// any other face and connects it to the kernel by a socket. May block until a peer answers.
    ///
    /// # Errors
    /// [`CreateFaceError`].
    pub(crate) fn create_face(&self, spec: FaceSpec) -> Result<FaceStatus, CreateFaceError> {
        match (&spec.remote, &spec.local) {
            (FaceUri::Ether(address), Some(FaceUri::Device(device))) => self.create(device, *address),
            (FaceUri::Ether(_), _) => {
                Err(CreateFaceError::BadSetting("an ether:// face needs its device: LocalUri dev://NAME"))
            }
            _ => {
                self.plane.create_face(spec).map(|face| self.as_kernels(face)).map_err(|error| match error {
                    CreateFaceError::Exists(face) => {
                        CreateFaceError::Exists(Box::new(self.as_kernels(*face)))
                    }
                    error => error,
                })
            }
        }
    }

    /// Listens to a group of a device. A face that this call makes is closed when the router stops;
    /// an existing face stays. Returns the number of the face.
    ///
    /// # Errors
    /// [`CreateFaceError`].
    pub(crate) fn listen_on(&self, name: &str, group: MacAddress) -> Result<u64, CreateFaceError> {
        let (face, is_ours) = match self.create(name, group) {
            Ok(face) => (face.face_id, true),
            Err(CreateFaceError::Exists(face)) => (face.face_id, false),
            Err(error) => return Err(error),
        };
        let mut devices = self.devices.lock();
        let known = devices.entry((name.to_owned(), group)).or_default();
        // A later call may find the face that an earlier one made. The router still closes it.
        *known = is_ours.then_some(face).or(known.filter(|known| *known == face));
        Ok(face)
    }

    /// Makes a face to a device's address or group.
    ///
    /// # Errors
    /// [`CreateFaceError`].
    pub(crate) fn create(&self, name: &str, address: MacAddress) -> Result<FaceStatus, CreateFaceError> {
        let failed = |why: String| CreateFaceError::Failed(why);
        let index = device::index(name).map_err(|_| failed(format!("there is no network device {name}")))?;
        let made = self.control().face_new(index, Some(address));
        let is_it = |face: &Face| face.link == Some((index, address));
        match made {
            Ok(number) => self.face_status(number).ok_or_else(|| failed("it was closed meanwhile".into())),
            Err(ControlError::System(Errno::EXIST)) => {
                let faces = self.control().faces().map_err(|error| failed(error.to_string()))?;
                let face = faces.iter().find(|face| is_it(face));
                Err(face.map_or_else(
                    || failed("it was closed meanwhile".into()),
                    |face| CreateFaceError::Exists(Box::new(status(face))),
                ))
            }
            Err(ControlError::Full) => Err(CreateFaceError::TooManyFaces),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Replaces the number of a data-plane face by its number in the kernel.
    fn as_kernels(&self, face: FaceStatus) -> FaceStatus {
        match self.number(FaceId(face.face_id)) {
            Some(face_id) => FaceStatus { face_id, ..face },
            None => face,
        }
    }

    /// The status of a face, for management.
    fn face_status(&self, number: u64) -> Option<FaceStatus> {
        if number == FaceId::LOCAL.0 {
            return self.local();
        }
        if number == self.own {
            return Some(own(number));
        }
        if let Some(face) = self.relay().and_then(|relay| relay.face(number)) {
            return self.plane.face(face).map(|face| self.as_kernels(face));
        }
        self.control().faces().ok()?.iter().find(|face| face.id == number).map(status)
    }

    /// The face `local`.
    fn local(&self) -> Option<FaceStatus> {
        let to_local = of(&counters("stats"), "to_local");
        self.plane.face(FaceId::LOCAL).map(|face| FaceStatus { out_interests: to_local, ..face })
    }
}

impl Faces for Kernel {
    fn faces(&self) -> Vec<FaceStatus> {
        // Faces without a number in the kernel are internal to this router.
        let numbered = |face: FaceStatus| {
            let face_id = self.number(FaceId(face.face_id))?;
            Some((face_id, FaceStatus { face_id, ..face }))
        };
        let mut ours: HashMap<u64, FaceStatus> =
            self.plane.faces().into_iter().filter_map(numbered).collect();
        let listed = self.control().faces().unwrap_or_default();
        let of_kernel = listed.iter().map(|face| match face.id {
            id if id == self.own => own(id),
            id => ours.remove(&id).unwrap_or_else(|| status(face)),
        });
        let mut faces: Vec<FaceStatus> = of_kernel.collect();
        faces.extend(self.local());
        faces.sort_by_key(|face| face.face_id);
        faces
    }

    fn count(&self) -> usize {
        self.control().faces().map_or(0, |faces| faces.len() + 1)
    }

    fn face(&self, face: FaceId) -> Option<FaceStatus> {
        self.face_status(face.0)
    }

    fn update_face(&self, face: FaceId, settings: &FaceSettings) -> Result<FaceStatus, UpdateFaceError> {
        if settings.local_fields == Some(true) {
            return Err(UpdateFaceError::BadSetting(
                "the kernel's forwarder has no face numbers with packets",
            ));
        }
        if let Some(ours) = self.relay().and_then(|relay| relay.face(face.0)).filter(|_| face.0 != self.own) {
            return self.plane.update_face(ours, settings).map(|face| self.as_kernels(face));
        }
        let status = self.face_status(face.0).ok_or(UpdateFaceError::NoSuchFace)?;
        let is_kept = FaceSettings { persistency: None, ..*settings } == FaceSettings::default()
            && settings.persistency.is_none_or(|wanted| wanted == status.face_persistency);
        match is_kept {
            true => Ok(status),
            false => Err(UpdateFaceError::BadSetting("a face of the kernel has no such settings")),
        }
    }

    fn destroy_face(&self, face: FaceId) -> Result<(), UpdateFaceError> {
        if face.0 == self.own {
            return Err(UpdateFaceError::BadSetting("the router's own face cannot be destroyed"));
        }
        if let Some(ours) = self.relay().and_then(|relay| relay.face(face.0)) {
            return self.plane.destroy_face(ours);
        }
        let gone = self.control().face_del(face.0);
        match gone {
            Ok(()) => {
                self.face_closed(face.0, namely_host::clock::monotonic_ns());
                Ok(())
            }
            Err(ControlError::Permanent) => Err(UpdateFaceError::BadSetting(
                "it is the kernel's own, or that of a program's socket, with which it ends",
            )),
            Err(ControlError::NotFound) => Err(UpdateFaceError::NoSuchFace),
            Err(_) => Err(UpdateFaceError::BadSetting("the kernel does not remove it")),
        }
    }

    fn octets(&self) -> [u64; 2] {
        self.plane.octets()
    }

    fn channels(&self) -> Vec<FaceUri> {
        let devices = self.devices.lock();
        let devices = devices.keys().map(|(name, _)| FaceUri::Device(name.clone()));
        self.plane.channels().into_iter().chain(devices).collect()
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = self.plane.counters();
        for counter in &mut counters {
            let face = counter.face_id.map(FaceId);
            counter.face_id = face.and_then(|face| self.number(face)).or(counter.face_id);
        }
        counters
    }
}

/// The status of a face that only the kernel has: of a device, or of a program's socket.
pub(super) fn status(face: &Face) -> FaceStatus {
    let (uri, local_uri) = match face.link {
        Some((index, address)) => {
            let name = device::name(index).unwrap_or_else(|_| format!("if{index}"));
            (FaceUri::Ether(address), FaceUri::Device(name))
        }
        None => (FaceUri::Kernel, FaceUri::Kernel),
    };
    let is_socket = face.kind == FaceKind::Socket;
    FaceStatus {
        face_id: face.id,
        uri: uri.to_string(),
        local_uri: local_uri.to_string(),
        face_scope: if is_socket { FaceScope::Local } else { FaceScope::NonLocal },
        face_persistency: if is_socket { FacePersistency::OnDemand } else { FacePersistency::Permanent },
        link_type: match face.kind {
            FaceKind::Group => LinkType::MultiAccess,
            FaceKind::Socket | FaceKind::LinkAddress => LinkType::PointToPoint,
        },
        ..FaceStatus::default()
    }
}

/// The face on which the kernel's applications reach this router.
fn own(number: u64) -> FaceStatus {
    FaceStatus {
        face_id: number,
        uri: FaceUri::Internal.to_string(),
        local_uri: FaceUri::Kernel.to_string(),
        face_scope: FaceScope::Local,
        face_persistency: FacePersistency::Permanent,
        link_type: LinkType::PointToPoint,
        ..FaceStatus::default()
    }
}
