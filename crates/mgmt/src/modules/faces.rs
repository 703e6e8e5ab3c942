//! `faces/create`, `faces/update`, `faces/destroy`, and the face datasets.

use namely_forwarder::FaceId;
use namely_messages::{
    ChannelStatus, ControlParameters, ControlResponse, FacePersistency, FaceQueryFilter, FaceStatus,
    encode_blocks, face_flags, status_code,
};
use namely_wire::FaceUri;

use super::{CommandResult, MaskedFlags, bad, face_or_own, not_found};
use crate::control::{CreateFaceError, FaceSettings, FaceSpec, Faces, UpdateFaceError};

/// The face that `faces/create` requests.
pub(crate) fn face_spec(parameters: &ControlParameters) -> Result<FaceSpec, ControlResponse> {
    let uri = parameters.uri.as_deref().ok_or_else(|| bad("Uri is missing"))?;
    let remote: FaceUri = uri.parse().map_err(|error| bad(format!("Uri {uri}: {error}")))?;
    if !matches!(remote, FaceUri::Tcp(_) | FaceUri::Udp(_) | FaceUri::Ether(_) | FaceUri::Memif { .. }) {
        let text = format!("faces are made to udp, tcp, ether and memif URIs, not to {remote}");
        return Err(ControlResponse::new(status_code::UNSUPPORTED_PROTOCOL, text));
    }
    let local = parameters
        .local_uri
        .as_deref()
        .map(|uri| uri.parse::<FaceUri>().map_err(|error| bad(format!("LocalUri {uri}: {error}"))));
    let settings = settings(parameters)?;
    if settings.persistency == Some(FacePersistency::OnDemand) {
        let text = "on-demand faces are made by their peers: ask for persistent or permanent";
        return Err(ControlResponse::new(status_code::UNSUPPORTED_PROTOCOL, text));
    }
    Ok(FaceSpec { remote, local: local.transpose()?, settings })
}

/// The response to `faces/create`.
pub(crate) fn created(made: Result<FaceStatus, CreateFaceError>) -> ControlResponse {
    let error = match made {
        Ok(face) => return ControlResponse::ok(&describe(&face)),
        Err(error) => error,
    };
    let code = match &error {
        CreateFaceError::Exists(_) => status_code::CONFLICT,
        CreateFaceError::Unsupported(_) | CreateFaceError::BadSetting(_) => status_code::UNSUPPORTED_PROTOCOL,
        CreateFaceError::Failed(_) | CreateFaceError::TooManyFaces | CreateFaceError::Stopped => {
            status_code::FACE_CREATION_FAILED
        }
    };
    let response = ControlResponse::new(code, error.to_string());
    match error {
        CreateFaceError::Exists(face) => response.with_parameters(&describe(&face)),
        _ => response,
    }
}

pub(crate) fn update(parameters: &ControlParameters, own: u64, faces: &dyn Faces) -> CommandResult {
    let face_id = face_or_own(parameters, own);
    let settings = settings(parameters)?;
    let changed = faces.update_face(FaceId(face_id), &settings);
    changed.map(|face| ControlResponse::ok(&describe(&face))).map_err(|error| match error {
        UpdateFaceError::NoSuchFace => refusal(error, face_id)
            .with_parameters(&ControlParameters { face_id: Some(face_id), ..Default::default() }),
        UpdateFaceError::BadSetting(_) => refusal(error, face_id).with_parameters(parameters),
    })
}

pub(crate) fn destroy(parameters: &ControlParameters, faces: &dyn Faces) -> CommandResult {
    let face_id = parameters.face_id.ok_or_else(|| bad("FaceId is missing"))?;
    faces.destroy_face(FaceId(face_id)).map_err(|error| refusal(error, face_id))?;
    Ok(ControlResponse::ok(&ControlParameters { face_id: Some(face_id), ..Default::default() }))
}

fn refusal(error: UpdateFaceError, face_id: u64) -> ControlResponse {
    match error {
        UpdateFaceError::NoSuchFace => not_found(format!("there is no face {face_id}")),
        UpdateFaceError::BadSetting(why) => ControlResponse::new(status_code::CONFLICT, why),
    }
}

/// The faces dataset, restricted to the faces that match `filter`.
pub(crate) fn list(filter: &FaceQueryFilter, faces: &dyn Faces) -> Vec<u8> {
    let canonical = |uri: &Option<String>| uri.as_deref().map(|uri| faces.canonical(uri));
    let named = FaceQueryFilter {
        uri: canonical(&filter.uri),
        local_uri: canonical(&filter.local_uri),
        ..filter.clone()
    };
    let all = faces.faces();
    // A face that was made by a host name is found by it, too.
    let given = |face: &FaceStatus| {
        let given = face.details.as_ref().and_then(|details| details.given_uri.clone());
        given.is_some_and(|uri| named.matches(&FaceStatus { uri, ..face.clone() }))
    };
    encode_blocks(all.iter().filter(|face| named.matches(face) || given(face)))
}

pub(crate) fn channels(faces: &dyn Faces) -> Vec<u8> {
    let channels: Vec<ChannelStatus> =
        faces.channels().iter().map(|uri| ChannelStatus { local_uri: uri.to_string() }).collect();
    encode_blocks(&channels)
}

fn settings(parameters: &ControlParameters) -> Result<FaceSettings, ControlResponse> {
    let flags = MaskedFlags::of(parameters)?;
    Ok(FaceSettings {
        persistency: parameters.face_persistency,
        local_fields: flags.bit(face_flags::LOCAL_FIELDS),
        reliability: flags.bit(face_flags::LINK_RELIABILITY),
        congestion_marking: flags.bit(face_flags::CONGESTION_MARKING),
        marking_interval_ns: parameters.base_congestion_marking_interval_ns,
        marking_threshold_octets: parameters.default_congestion_threshold_octets,
        mtu: parameters.mtu,
    })
}

fn describe(face: &FaceStatus) -> ControlParameters {
    ControlParameters {
        face_id: Some(face.face_id),
        uri: Some(face.uri.clone()),
        local_uri: Some(face.local_uri.clone()),
        flags: Some(face.flags),
        face_persistency: Some(face.face_persistency),
        base_congestion_marking_interval_ns: face.base_congestion_marking_interval_ns,
        default_congestion_threshold_octets: face.default_congestion_threshold_octets,
        mtu: face.mtu,
        ..Default::default()
    }
}
