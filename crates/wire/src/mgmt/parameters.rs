//! ControlParameters: the argument of every command, and the body of its response.

use alloc::string::String;

use super::block::Block;
use super::numbers::*;
use super::values::{FacePersistency, RouteOrigin};
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni, put_text};
use crate::name::Name;
use crate::tlv::Writer;
use crate::types::NAME;

/// ControlParameters. All fields are optional here; each command says which it needs.
///
/// ```
/// use namely_wire::mgmt::{Block, ControlParameters};
/// let parameters = ControlParameters { face_id: Some(300), cost: Some(10), ..Default::default() };
/// assert_eq!(ControlParameters::decode(&parameters.to_vec()), Ok(parameters));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlParameters {
    /// Name: of a route, a strategy choice, or the content to erase.
    pub name: Option<Name>,
    /// FaceId; 0 means the face that the command came from.
    pub face_id: Option<u64>,
    /// Uri: the face's remote end.
    pub uri: Option<String>,
    /// LocalUri: the face's local end.
    pub local_uri: Option<String>,
    /// Origin of a route.
    pub origin: Option<RouteOrigin>,
    /// Cost of a route or next hop.
    pub cost: Option<u64>,
    /// Capacity of the content store, in packets.
    pub capacity: Option<u64>,
    /// Count of packets to erase.
    pub count: Option<u64>,
    /// Flags: see [`super::face_flags`], [`super::cs_flags`], [`super::route_flags`].
    pub flags: Option<u64>,
    /// Mask: which bits of Flags the command sets.
    pub mask: Option<u64>,
    /// Strategy.
    pub strategy: Option<Name>,
    /// ExpirationPeriod of a route, ms.
    pub expiration_period_ms: Option<u64>,
    /// FacePersistency.
    pub face_persistency: Option<FacePersistency>,
    /// BaseCongestionMarkingInterval, ns.
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// DefaultCongestionThreshold, octets of send queue.
    pub default_congestion_threshold_octets: Option<u64>,
    /// Mtu, octets.
    pub mtu: Option<u64>,
    /// CsPolicy: what leaves the content store first. Namely's own.
    pub cs_policy: Option<String>,
    /// Most octets of the content store's disk. Namely's own, as what follows.
    pub cs_disk_octets: Option<u64>,
    /// What is written to its disk.
    pub cs_disk_admission: Option<String>,
    /// Requests to its disk that pend from which on it is passed by.
    pub cs_disk_threshold: Option<u64>,
    /// In which order its disk reads and writes.
    pub cs_disk_queue: Option<String>,
    /// The number of a trace.
    pub trace_id: Option<u64>,
}

const KNOWN: [u32; 22] = [
    NAME,
    FACE_ID,
    URI,
    LOCAL_URI,
    ORIGIN,
    COST,
    CAPACITY,
    COUNT,
    FLAGS,
    MASK,
    STRATEGY,
    EXPIRATION_PERIOD,
    FACE_PERSISTENCY,
    BASE_CONGESTION_MARKING_INTERVAL,
    DEFAULT_CONGESTION_THRESHOLD,
    MTU,
    CS_POLICY,
    CS_DISK_OCTETS_MAX,
    CS_DISK_ADMISSION,
    CS_DISK_THRESHOLD,
    CS_DISK_QUEUE,
    TRACE_ID,
];

impl Block for ControlParameters {
    const TYPE: u32 = CONTROL_PARAMETERS;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::strict(value, &KNOWN)?;
        Ok(ControlParameters {
            name: fields.name_opt()?,
            face_id: fields.nni_opt(FACE_ID)?,
            uri: fields.text_opt(URI)?,
            local_uri: fields.text_opt(LOCAL_URI)?,
            origin: fields.nni_opt(ORIGIN)?.map(RouteOrigin),
            cost: fields.nni_opt(COST)?,
            capacity: fields.nni_opt(CAPACITY)?,
            count: fields.nni_opt(COUNT)?,
            flags: fields.nni_opt(FLAGS)?,
            mask: fields.nni_opt(MASK)?,
            strategy: fields.wrapped_name_opt(STRATEGY)?,
            expiration_period_ms: fields.nni_opt(EXPIRATION_PERIOD)?,
            face_persistency: fields.choice_opt(FACE_PERSISTENCY, FacePersistency::from_number)?,
            base_congestion_marking_interval_ns: fields.nni_opt(BASE_CONGESTION_MARKING_INTERVAL)?,
            default_congestion_threshold_octets: fields.nni_opt(DEFAULT_CONGESTION_THRESHOLD)?,
            mtu: fields.nni_opt(MTU)?,
            cs_policy: fields.text_opt(CS_POLICY)?,
            cs_disk_octets: fields.nni_opt(CS_DISK_OCTETS_MAX)?,
            cs_disk_admission: fields.text_opt(CS_DISK_ADMISSION)?,
            cs_disk_threshold: fields.nni_opt(CS_DISK_THRESHOLD)?,
            cs_disk_queue: fields.text_opt(CS_DISK_QUEUE)?,
            trace_id: fields.nni_opt(TRACE_ID)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        if let Some(name) = &self.name {
            name.as_name().encode(w);
        }
        put_nni(w, FACE_ID, self.face_id);
        put_text(w, URI, self.uri.as_deref());
        put_text(w, LOCAL_URI, self.local_uri.as_deref());
        put_nni(w, ORIGIN, self.origin.map(|o| o.0));
        put_nni(w, COST, self.cost);
        put_nni(w, CAPACITY, self.capacity);
        put_nni(w, COUNT, self.count);
        put_nni(w, FLAGS, self.flags);
        put_nni(w, MASK, self.mask);
        if let Some(strategy) = &self.strategy {
            w.nested(STRATEGY, |w| strategy.as_name().encode(w));
        }
        put_nni(w, EXPIRATION_PERIOD, self.expiration_period_ms);
        put_nni(w, FACE_PERSISTENCY, self.face_persistency.map(|p| p.number()));
        put_nni(w, BASE_CONGESTION_MARKING_INTERVAL, self.base_congestion_marking_interval_ns);
        put_nni(w, DEFAULT_CONGESTION_THRESHOLD, self.default_congestion_threshold_octets);
        put_nni(w, MTU, self.mtu);
        put_text(w, CS_POLICY, self.cs_policy.as_deref());
        put_nni(w, CS_DISK_OCTETS_MAX, self.cs_disk_octets);
        put_text(w, CS_DISK_ADMISSION, self.cs_disk_admission.as_deref());
        put_nni(w, CS_DISK_THRESHOLD, self.cs_disk_threshold);
        put_text(w, CS_DISK_QUEUE, self.cs_disk_queue.as_deref());
        put_nni(w, TRACE_ID, self.trace_id);
    }
}
