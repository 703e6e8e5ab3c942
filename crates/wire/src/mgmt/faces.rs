//! Datasets and notifications about faces: `faces/list`, `faces/query`, `faces/channels`,
//! `faces/events`.

use alloc::string::String;

use super::block::Block;
use super::numbers::*;
use super::values::{FaceEventKind, FacePersistency, FaceScope, LinkType};
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni, put_text};
use crate::tlv::Writer;

/// FaceStatus: one face of `faces/list` or `faces/query`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaceStatus {
    /// FaceId.
    pub face_id: u64,
    /// Uri: the remote end.
    pub uri: String,
    /// LocalUri: the local end.
    pub local_uri: String,
    /// ExpirationPeriod: ms until an on-demand face goes if it stays idle.
    pub expiration_period_ms: Option<u64>,
    /// FaceScope.
    pub face_scope: FaceScope,
    /// FacePersistency.
    pub face_persistency: FacePersistency,
    /// LinkType.
    pub link_type: LinkType,
    /// BaseCongestionMarkingInterval, ns.
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// DefaultCongestionThreshold, octets of send queue.
    pub default_congestion_threshold_octets: Option<u64>,
    /// Mtu, octets.
    pub mtu: Option<u64>,
    /// NInInterests.
    pub in_interests: u64,
    /// NInData.
    pub in_data: u64,
    /// NInNacks.
    pub in_nacks: u64,
    /// NOutInterests.
    pub out_interests: u64,
    /// NOutData.
    pub out_data: u64,
    /// NOutNacks.
    pub out_nacks: u64,
    /// NInBytes: octets of link packets received.
    pub in_octets: u64,
    /// NOutBytes: octets of link packets sent.
    pub out_octets: u64,
    /// Flags: see [`super::face_flags`].
    pub flags: u64,
}

impl Block for FaceStatus {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(FaceStatus {
            face_id: fields.nni(FACE_ID)?,
            uri: fields.text(URI)?,
            local_uri: fields.text(LOCAL_URI)?,
            expiration_period_ms: fields.nni_opt(EXPIRATION_PERIOD)?,
            face_scope: fields.choice(FACE_SCOPE, FaceScope::from_number)?,
            face_persistency: fields.choice(FACE_PERSISTENCY, FacePersistency::from_number)?,
            link_type: fields.choice(LINK_TYPE, LinkType::from_number)?,
            base_congestion_marking_interval_ns: fields.nni_opt(BASE_CONGESTION_MARKING_INTERVAL)?,
            default_congestion_threshold_octets: fields.nni_opt(DEFAULT_CONGESTION_THRESHOLD)?,
            mtu: fields.nni_opt(MTU)?,
            in_interests: fields.nni(N_IN_INTERESTS)?,
            in_data: fields.nni(N_IN_DATA)?,
            in_nacks: fields.nni(N_IN_NACKS)?,
            out_interests: fields.nni(N_OUT_INTERESTS)?,
            out_data: fields.nni(N_OUT_DATA)?,
            out_nacks: fields.nni(N_OUT_NACKS)?,
            in_octets: fields.nni(N_IN_BYTES)?,
            out_octets: fields.nni(N_OUT_BYTES)?,
            flags: fields.nni(FLAGS)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(FACE_ID, self.face_id);
        w.tlv(URI, self.uri.as_bytes()).tlv(LOCAL_URI, self.local_uri.as_bytes());
        put_nni(w, EXPIRATION_PERIOD, self.expiration_period_ms);
        w.nni(FACE_SCOPE, self.face_scope.number());
        w.nni(FACE_PERSISTENCY, self.face_persistency.number());
        w.nni(LINK_TYPE, self.link_type.number());
        put_nni(w, BASE_CONGESTION_MARKING_INTERVAL, self.base_congestion_marking_interval_ns);
        put_nni(w, DEFAULT_CONGESTION_THRESHOLD, self.default_congestion_threshold_octets);
        put_nni(w, MTU, self.mtu);
        w.nni(N_IN_INTERESTS, self.in_interests)
            .nni(N_IN_DATA, self.in_data)
            .nni(N_IN_NACKS, self.in_nacks)
            .nni(N_OUT_INTERESTS, self.out_interests)
            .nni(N_OUT_DATA, self.out_data)
            .nni(N_OUT_NACKS, self.out_nacks)
            .nni(N_IN_BYTES, self.in_octets)
            .nni(N_OUT_BYTES, self.out_octets)
            .nni(FLAGS, self.flags);
    }
}

/// ChannelStatus: one local address of `faces/channels` on which faces are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelStatus {
    /// LocalUri.
    pub local_uri: String,
}

impl Block for ChannelStatus {
    const TYPE: u32 = CHANNEL_STATUS;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        Ok(ChannelStatus { local_uri: Fields::lenient(value)?.text(LOCAL_URI)? })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.tlv(LOCAL_URI, self.local_uri.as_bytes());
    }
}

/// FaceQueryFilter: which faces `faces/query` lists. A field that is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaceQueryFilter {
    /// FaceId.
    pub face_id: Option<u64>,
    /// UriScheme: of either end.
    pub uri_scheme: Option<String>,
    /// Uri: the remote end.
    pub uri: Option<String>,
    /// LocalUri: the local end.
    pub local_uri: Option<String>,
    /// FaceScope.
    pub face_scope: Option<FaceScope>,
    /// FacePersistency.
    pub face_persistency: Option<FacePersistency>,
    /// LinkType.
    pub link_type: Option<LinkType>,
}

impl FaceQueryFilter {
    /// Returns true if the filter lets `face` through.
    pub fn matches(&self, face: &FaceStatus) -> bool {
        fn same<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        }
        let scheme_of = |uri: &str, scheme: &str| uri.split_once("://").is_some_and(|(s, _)| s == scheme);
        same(&self.face_id, &face.face_id)
            && same(&self.uri, &face.uri)
            && same(&self.local_uri, &face.local_uri)
            && same(&self.face_scope, &face.face_scope)
            && same(&self.face_persistency, &face.face_persistency)
            && same(&self.link_type, &face.link_type)
            && self
                .uri_scheme
                .as_ref()
                .is_none_or(|scheme| scheme_of(&face.uri, scheme) || scheme_of(&face.local_uri, scheme))
    }
}

impl Block for FaceQueryFilter {
    const TYPE: u32 = FACE_QUERY_FILTER;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let known = [FACE_ID, URI_SCHEME, URI, LOCAL_URI, FACE_SCOPE, FACE_PERSISTENCY, LINK_TYPE];
        let fields = Fields::strict(value, &known)?;
        Ok(FaceQueryFilter {
            face_id: fields.nni_opt(FACE_ID)?,
            uri_scheme: fields.text_opt(URI_SCHEME)?,
            uri: fields.text_opt(URI)?,
            local_uri: fields.text_opt(LOCAL_URI)?,
            face_scope: fields.choice_opt(FACE_SCOPE, FaceScope::from_number)?,
            face_persistency: fields.choice_opt(FACE_PERSISTENCY, FacePersistency::from_number)?,
            link_type: fields.choice_opt(LINK_TYPE, LinkType::from_number)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_nni(w, FACE_ID, self.face_id);
        put_text(w, URI_SCHEME, self.uri_scheme.as_deref());
        put_text(w, URI, self.uri.as_deref());
        put_text(w, LOCAL_URI, self.local_uri.as_deref());
        put_nni(w, FACE_SCOPE, self.face_scope.map(|v| v.number()));
        put_nni(w, FACE_PERSISTENCY, self.face_persistency.map(|v| v.number()));
        put_nni(w, LINK_TYPE, self.link_type.map(|v| v.number()));
    }
}

/// FaceEventNotification: the Content of `/localhost/nfd/faces/events/seq=<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceEventNotification {
    /// FaceEventKind.
    pub kind: FaceEventKind,
    /// FaceId.
    pub face_id: u64,
    /// Uri: the remote end.
    pub uri: String,
    /// LocalUri: the local end.
    pub local_uri: String,
    /// FaceScope.
    pub face_scope: FaceScope,
    /// FacePersistency.
    pub face_persistency: FacePersistency,
    /// LinkType.
    pub link_type: LinkType,
    /// Flags: see [`super::face_flags`].
    pub flags: u64,
}

impl FaceEventNotification {
    /// What happened to `face`.
    pub fn new(kind: FaceEventKind, face: &FaceStatus) -> Self {
        FaceEventNotification {
            kind,
            face_id: face.face_id,
            uri: face.uri.clone(),
            local_uri: face.local_uri.clone(),
            face_scope: face.face_scope,
            face_persistency: face.face_persistency,
            link_type: face.link_type,
            flags: face.flags,
        }
    }
}

impl Block for FaceEventNotification {
    const TYPE: u32 = FACE_EVENT_NOTIFICATION;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(FaceEventNotification {
            kind: fields.choice(FACE_EVENT_KIND, FaceEventKind::from_number)?,
            face_id: fields.nni(FACE_ID)?,
            uri: fields.text(URI)?,
            local_uri: fields.text(LOCAL_URI)?,
            face_scope: fields.choice(FACE_SCOPE, FaceScope::from_number)?,
            face_persistency: fields.choice(FACE_PERSISTENCY, FacePersistency::from_number)?,
            link_type: fields.choice(LINK_TYPE, LinkType::from_number)?,
            flags: fields.nni(FLAGS)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(FACE_EVENT_KIND, self.kind.number())
            .nni(FACE_ID, self.face_id)
            .tlv(URI, self.uri.as_bytes())
            .tlv(LOCAL_URI, self.local_uri.as_bytes())
            .nni(FACE_SCOPE, self.face_scope.number())
            .nni(FACE_PERSISTENCY, self.face_persistency.number())
            .nni(LINK_TYPE, self.link_type.number())
            .nni(FLAGS, self.flags);
    }
}
