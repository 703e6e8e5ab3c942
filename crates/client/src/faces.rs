//! Faces and channels (NFD Face Management).

use std::time::{Duration, Instant};

use namely_messages::{
    Block, ChannelStatus, Command, ControlParameters, Dataset, EventRequest, FaceEventNotification,
    FacePersistency, FaceQueryFilter, FaceStatus, face_flags, status_code,
};
use namely_transport::connection::{Answer, CommandError};
use namely_wire::{DataView, DecodeError, Endpoint, FaceUri, InterestBuilder, types};

use crate::bindings::{FACE_LOCAL, LOCAL};
use crate::client::flags;
use crate::{Client, ClientError};

/// Maximum lifetime of an Interest for the next face event.
const EVENT_LIFETIME: Duration = Duration::from_secs(60);

/// Properties of a face that can be changed. `None` leaves a property unchanged. A new face
/// receives the router's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceProperties {
    /// Condition for the removal of the face.
    pub persistency: Option<FacePersistency>,
    /// Largest link packet in octets.
    pub mtu: Option<u64>,
    /// Whether lost link packets are retransmitted.
    pub reliability: Option<bool>,
    /// Whether packets are marked while the send queue is long.
    pub congestion_marking: Option<bool>,
    /// Whether the face accepts NextHopFaceId, IncomingFaceId and CachePolicy.
    pub local_fields: Option<bool>,
}

impl FaceProperties {
    fn parameters(&self) -> ControlParameters {
        let (mask, flags) = flags(&[
            (self.local_fields, face_flags::LOCAL_FIELDS),
            (self.reliability, face_flags::LINK_RELIABILITY),
            (self.congestion_marking, face_flags::CONGESTION_MARKING),
        ]);
        let (face_persistency, mtu) = (self.persistency, self.mtu);
        ControlParameters { face_persistency, mtu, mask, flags, ..Default::default() }
    }
}

/// The result of [`Client::create_face`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedFace {
    /// FaceId.
    pub face_id: u64,
    /// Its remote URI in the router's canonical form.
    pub uri: String,
    /// Whether the face existed before.
    pub existed: bool,
}

impl Client {
    /// Returns all faces (`faces/list`).
    ///
    /// # Errors
    /// See [`ClientError`]: the router is gone, refuses, does not answer, or its answer is
    /// malformed.
    pub fn faces(&mut self) -> Result<Vec<FaceStatus>, ClientError> {
        self.entries(Dataset::FacesList)
    }

    /// Returns the faces that match `filter` (`faces/query`).
    ///
    /// # Errors
    /// Those of [`Client::faces`].
    pub fn query_faces(&mut self, filter: &FaceQueryFilter) -> Result<Vec<FaceStatus>, ClientError> {
        self.filtered(Dataset::FacesQuery, filter)
    }

    /// Returns the channels on which the router accepts new faces (`faces/channels`).
    ///
    /// # Errors
    /// Those of [`Client::faces`].
    pub fn channels(&mut self) -> Result<Vec<ChannelStatus>, ClientError> {
        self.entries(Dataset::FacesChannels)
    }

    /// Creates a face to `remote`, from `local` if the kind of face needs it, or finds the existing
    /// one (`faces/create`). A host name is resolved on the caller's host, not on the router's.
    ///
    /// # Errors
    /// [`ClientError::BadFaceUri`] and [`ClientError::Lookup`]: an address is not valid.
    /// [`ClientError::Command`]: the router refuses, or cannot create the face.
    pub fn create_face(
        &mut self,
        remote: &str,
        local: Option<&str>,
        properties: &FaceProperties,
    ) -> Result<CreatedFace, ClientError> {
        let uri = canonical(remote)?;
        let local_uri = local.map(canonical).transpose()?;
        let parameters = ControlParameters { uri: Some(uri.clone()), local_uri, ..properties.parameters() };
        let (response, existed) = match self.connection.command(Command::FacesCreate, &parameters) {
            Ok(response) => (response, false),
            // The answer to a conflict describes the existing face.
            Err(CommandError::Refused(refused))
                if refused.code == status_code::CONFLICT && !refused.body.is_empty() =>
            {
                (refused, true)
            }
            Err(error) => return Err(error.into()),
        };
        let face = response.parameters().map_err(ClientError::Malformed)?.unwrap_or_default();
        let face_id = face.face_id.ok_or(ClientError::Malformed(DecodeError::Truncated))?;
        Ok(CreatedFace { face_id, uri: face.uri.unwrap_or(uri), existed })
    }

    /// Changes a face (`faces/update`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: there is no such face, or it does not support the properties.
    pub fn update_face(
        &mut self,
        face_id: u64,
        properties: &FaceProperties,
    ) -> Result<ControlParameters, ClientError> {
        let parameters = ControlParameters { face_id: Some(face_id), ..properties.parameters() };
        self.command(Command::FacesUpdate, &parameters)
    }

    /// Destroys a face, if it exists (`faces/destroy`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: the router refuses.
    pub fn destroy_face(&mut self, face_id: u64) -> Result<(), ClientError> {
        let parameters = ControlParameters { face_id: Some(face_id), ..Default::default() };
        self.command(Command::FacesDestroy, &parameters).map(drop)
    }

    /// Returns the FaceId of a face given by number, by remote URI, or as `local`.
    ///
    /// # Errors
    /// [`ClientError::NoSuchFace`]: no face has that URI. A number is not checked. Otherwise those
    /// of [`Client::faces`] and of an invalid URI.
    pub fn find_face(&mut self, face: &str) -> Result<u64, ClientError> {
        if let Some(face_id) = number(face) {
            return Ok(face_id);
        }
        let faces = self.faces()?;
        let typed = face.parse::<FaceUri>().map_or_else(|_| face.to_owned(), |uri| uri.to_string());
        let is_given = |status: &&FaceStatus| {
            let given = status.details.as_ref().and_then(|details| details.given_uri.as_ref());
            status.uri == typed || given == Some(&typed)
        };
        // Before the lookup, because the name of a face that is down may have no address now.
        if let Some(found) = faces.iter().find(is_given) {
            return Ok(found.face_id);
        }
        let wanted = canonical(face)?;
        let found = faces.iter().find(|status| status.uri == wanted);
        found.map(|status| status.face_id).ok_or_else(|| ClientError::NoSuchFace(face.into()))
    }

    /// Like [`Client::find_face`], but creates a face for a URI without one.
    ///
    /// # Errors
    /// Those of [`Client::create_face`].
    pub fn find_or_create_face(&mut self, face: &str) -> Result<u64, ClientError> {
        match number(face) {
            Some(face_id) => Ok(face_id),
            None => Ok(self.create_face(face, None, &FaceProperties::default())?.face_id),
        }
    }

    /// Waits for the face event that follows number `after`, or for the newest one without `after`
    /// (`faces/events`). Returns `None` after `timeout`; without a timeout it waits for ever.
    ///
    /// # Errors
    /// [`ClientError::Connection`]: the router is gone. [`ClientError::Refused`]: it answers with a
    /// Nack. [`ClientError::Malformed`]: its notification cannot be decoded.
    pub fn next_face_event(
        &mut self,
        after: Option<u64>,
        timeout: Option<Duration>,
    ) -> Result<Option<(u64, FaceEventNotification)>, ClientError> {
        let scope = self.connection.scope();
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let lifetime = left.unwrap_or(EVENT_LIFETIME).min(EVENT_LIFETIME);
            if lifetime.is_zero() {
                return Ok(None);
            }
            let interest = match after {
                Some(number) => InterestBuilder::new(EventRequest::name(scope, number + 1)),
                None => InterestBuilder::new(EventRequest::prefix(scope)).can_be_prefix().must_be_fresh(),
            };
            let interest = interest.lifetime_ms(lifetime.as_millis().max(1) as u64);
            let reply = match self.connection.express(&interest)? {
                Answer::Data(reply) => reply,
                Answer::Nack(reason) => return Err(ClientError::Refused(reason)),
                // The router answers only when an event occurs.
                Answer::Timeout => continue,
            };
            let view = DataView::parse(&reply.wire).map_err(ClientError::Malformed)?;
            let number = view.name.last().and_then(|c| c.number(types::SEQUENCE_NUM_COMPONENT));
            let number = number.ok_or(ClientError::Malformed(DecodeError::Truncated))?;
            let event = FaceEventNotification::decode(view.content).map_err(ClientError::Malformed)?;
            return Ok(Some((number, event)));
        }
    }
}

/// Returns the FaceId for a number or for `local`; `None` for a URI.
fn number(face: &str) -> Option<u64> {
    if face == LOCAL { Some(FACE_LOCAL) } else { face.parse().ok() }
}

/// Returns a URI in the router's canonical form. A URI of TCP or UDP has a family, a numeric
/// address and a port.
fn canonical(uri: &str) -> Result<String, ClientError> {
    let parsed: FaceUri = uri.parse().map_err(|error| ClientError::BadFaceUri { uri: uri.into(), error })?;
    let address = |endpoint: &Endpoint| {
        // Routers list an address with a zone by the name of the interface.
        if endpoint.ip().is_some() {
            return Ok(endpoint.clone());
        }
        let found = namely_host::lookup(endpoint);
        let addresses = found.map_err(|error| ClientError::Lookup { uri: uri.into(), error })?;
        Ok::<_, ClientError>(addresses.first().map_or_else(|| endpoint.clone(), |a| Endpoint::Address(*a)))
    };
    Ok(match &parsed {
        FaceUri::Tcp(endpoint) => FaceUri::Tcp(address(endpoint)?).to_string(),
        FaceUri::Udp(endpoint) => FaceUri::Udp(address(endpoint)?).to_string(),
        other => other.to_string(),
    })
}
