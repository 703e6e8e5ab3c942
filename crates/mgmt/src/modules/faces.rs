//! `faces/create`, `faces/update`, `faces/destroy`, and what the face datasets show.

use namely_wire::FaceUri;
use namely_wire::mgmt::{
    ChannelStatus, ControlParameters, ControlResponse, FacePersistency, FaceQueryFilter, FaceStatus,
    encode_blocks, face_flags, status_code,
};

use super::{MaskedFlags, bad, face_or_own, not_found};
use crate::control::{CreateError, FaceSettings, FaceSpec, Faces, UpdateError};

/// What `faces/create` asks for.
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
pub(crate) fn created(made: Result<FaceStatus, CreateError>) -> ControlResponse {
    match made {
        Ok(face) => ControlResponse::ok(&describe(&face)),
        Err(CreateError::Exists(face)) => {
            let text = format!("face {} to {} exists", face.face_id, face.uri);
            ControlResponse::new(status_code::CONFLICT, text).with_parameters(&describe(&face))
        }
        Err(CreateError::Unsupported(why) | CreateError::BadSetting(why)) => {
            ControlResponse::new(status_code::UNSUPPORTED_PROTOCOL, why)
        }
        Err(CreateError::Failed(why)) => ControlResponse::new(status_code::FACE_CREATION_FAILED, why),
    }
}

pub(crate) fn update(
    parameters: &ControlParameters,
    own: u64,
    faces: &dyn Faces,
) -> Result<ControlResponse, ControlResponse> {
    let face_id = face_or_own(parameters, own);
    let response = match faces.update(face_id, &settings(parameters)?) {
        Ok(face) => ControlResponse::ok(&describe(&face)),
        Err(UpdateError::NoSuchFace) => not_found(format!("there is no face {face_id}"))
            .with_parameters(&ControlParameters { face_id: Some(face_id), ..Default::default() }),
        Err(UpdateError::BadSetting(why)) => {
            ControlResponse::new(status_code::CONFLICT, why).with_parameters(parameters)
        }
        Err(UpdateError::Failed(why)) => ControlResponse::new(status_code::INTERNAL_ERROR, why),
    };
    Ok(response)
}

pub(crate) fn destroy(
    parameters: &ControlParameters,
    faces: &dyn Faces,
) -> Result<ControlResponse, ControlResponse> {
    let face_id = parameters.face_id.ok_or_else(|| bad("FaceId is missing"))?;
    match faces.destroy(face_id) {
        Ok(()) => {
            Ok(ControlResponse::ok(&ControlParameters { face_id: Some(face_id), ..Default::default() }))
        }
        Err(UpdateError::NoSuchFace) => Err(not_found(format!("there is no face {face_id}"))),
        Err(UpdateError::BadSetting(why)) => Err(ControlResponse::new(status_code::CONFLICT, why)),
        Err(UpdateError::Failed(why)) => Err(ControlResponse::new(status_code::INTERNAL_ERROR, why)),
    }
}

/// The faces dataset, of those that `filter` lets through.
pub(crate) fn list(filter: &FaceQueryFilter, faces: &dyn Faces) -> Vec<u8> {
    let all = faces.faces();
    encode_blocks(all.iter().filter(|face| filter.matches(face)))
}

pub(crate) fn channels(faces: &dyn Faces) -> Vec<u8> {
    let channels: Vec<ChannelStatus> =
        faces.channels().into_iter().map(|local_uri| ChannelStatus { local_uri }).collect();
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
