//! The data plane's faces as management sees them.

use namely_forwarder::FaceId;
use namely_mgmt::{CreateError, FaceSettings, FaceSpec, Faces, UpdateError};
use namely_wire::mgmt::{
    Counter, FaceEventKind, FaceEventNotification, FacePersistency, FaceScope, FaceStatus, LinkType,
    face_flags,
};

use crate::dataplane::{
    self, CreateFaceError, DataPlane, FaceEvent, FaceOptions, FaceUpdate, Persistency, UpdateFaceError,
};

const MS_NS: u64 = 1_000_000;

/// Makes a face to a numeric address; waits for the peer where the kind of face needs it.
pub(super) fn create(plane: &DataPlane, spec: &FaceSpec) -> Result<FaceStatus, CreateError> {
    let spec = dataplane::FaceSpec {
        remote: spec.remote.clone(),
        local: spec.local.clone(),
        persistency: spec.settings.persistency.map_or(Persistency::Persistent, persistency),
        options: options(&spec.settings),
    };
    plane.create_face(spec).map(|face| status(&face)).map_err(|error| match error {
        CreateFaceError::Exists(face) => CreateError::Exists(Box::new(status(&face))),
        CreateFaceError::Unsupported(why) => CreateError::Unsupported(why),
        CreateFaceError::BadOption(why) => CreateError::BadSetting(why.into()),
        CreateFaceError::Failed(why) => CreateError::Failed(why),
        error @ (CreateFaceError::TooManyFaces | CreateFaceError::Stopped) => {
            CreateError::Failed(error.to_string())
        }
    })
}

impl Faces for DataPlane {
    fn faces(&self) -> Vec<FaceStatus> {
        self.faces().iter().map(status).collect()
    }

    fn face(&self, face_id: u64) -> Option<FaceStatus> {
        self.face(FaceId(face_id)).map(|face| status(&face))
    }

    fn update(&self, face_id: u64, settings: &FaceSettings) -> Result<FaceStatus, UpdateError> {
        let update =
            FaceUpdate { persistency: settings.persistency.map(persistency), options: options(settings) };
        self.update_face(FaceId(face_id), update).map(|face| status(&face)).map_err(refusal)
    }

    fn destroy(&self, face_id: u64) -> Result<(), UpdateError> {
        self.destroy_face(FaceId(face_id)).map_err(refusal)
    }

    fn counters(&self) -> Vec<Counter> {
        let label = |reason: &str| format!("link.{reason}");
        let total = self.drops();
        let mut counters: Vec<Counter> =
            total.iter().map(|(reason, n)| Counter::new(label(reason), n)).collect();
        for face in self.faces() {
            let of_face = |(reason, value): &(&'static str, u64)| Counter {
                label: label(reason),
                face_id: Some(face.face_id.0),
                value: *value,
            };
            counters.extend(face.counters.drops.iter().map(of_face));
        }
        counters.retain(|counter| counter.value > 0);
        counters
    }

    fn channels(&self) -> Vec<String> {
        self.channels().iter().map(ToString::to_string).collect()
    }
}

/// The notification of a change.
pub(super) fn notification(event: &FaceEvent) -> FaceEventNotification {
    let face = status(&event.face);
    FaceEventNotification {
        kind: match event.kind {
            dataplane::FaceEventKind::Created => FaceEventKind::Created,
            dataplane::FaceEventKind::Destroyed => FaceEventKind::Destroyed,
            dataplane::FaceEventKind::Up => FaceEventKind::Up,
            dataplane::FaceEventKind::Down => FaceEventKind::Down,
        },
        face_id: face.face_id,
        uri: face.uri,
        local_uri: face.local_uri,
        face_scope: face.face_scope,
        face_persistency: face.face_persistency,
        link_type: face.link_type,
        flags: face.flags,
    }
}

fn status(face: &dataplane::FaceStatus) -> FaceStatus {
    let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    let flags = flag(face.local_fields, face_flags::LOCAL_FIELDS)
        | flag(face.reliability, face_flags::LINK_RELIABILITY)
        | flag(face.congestion_marking, face_flags::CONGESTION_MARKING);
    FaceStatus {
        face_id: face.face_id.0,
        uri: face.remote.to_string(),
        local_uri: face.local.to_string(),
        expiration_period_ms: face.expires_in_ns.map(|ns| ns / MS_NS),
        face_scope: if face.is_local { FaceScope::Local } else { FaceScope::NonLocal },
        face_persistency: match face.persistency {
            Persistency::Persistent => FacePersistency::Persistent,
            Persistency::OnDemand => FacePersistency::OnDemand,
            Persistency::Permanent => FacePersistency::Permanent,
        },
        link_type: if face.is_multi_access { LinkType::MultiAccess } else { LinkType::PointToPoint },
        base_congestion_marking_interval_ns: Some(face.marking_interval_ns),
        default_congestion_threshold_octets: Some(face.marking_threshold_octets),
        mtu: face.mtu,
        in_interests: face.counters.in_interests,
        in_data: face.counters.in_data,
        in_nacks: face.counters.in_nacks,
        out_interests: face.counters.out_interests,
        out_data: face.counters.out_data,
        out_nacks: face.counters.out_nacks,
        in_octets: face.counters.in_octets,
        out_octets: face.counters.out_octets,
        flags,
    }
}

fn persistency(persistency: FacePersistency) -> Persistency {
    match persistency {
        FacePersistency::Persistent => Persistency::Persistent,
        FacePersistency::OnDemand => Persistency::OnDemand,
        FacePersistency::Permanent => Persistency::Permanent,
    }
}

fn options(settings: &FaceSettings) -> FaceOptions {
    FaceOptions {
        local_fields: settings.local_fields,
        reliability: settings.reliability,
        congestion_marking: settings.congestion_marking,
        marking_interval_ns: settings.marking_interval_ns,
        marking_threshold_octets: settings.marking_threshold_octets,
        mtu: settings.mtu,
    }
}

fn refusal(error: UpdateFaceError) -> UpdateError {
    match error {
        UpdateFaceError::NoSuchFace => UpdateError::NoSuchFace,
        UpdateFaceError::BadOption(why) => UpdateError::BadSetting(why.into()),
        UpdateFaceError::Stopped => UpdateError::Failed(error.to_string()),
    }
}
