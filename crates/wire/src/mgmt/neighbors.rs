//! The dataset `neighbors/list`, which only namely has: who is on the links of a router.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni, put_text};
use crate::name::{Name, NameRef};
use crate::tlv::Writer;

/// What an entry of `neighbors/list` is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NeighborState {
    /// The router itself on this link.
    #[default]
    Own,
    /// The same, and it believes everybody on the link.
    OwnOpen,
    /// A neighbour that was heard and has not shown yet that it is there.
    Found,
    /// A neighbour.
    Proven,
    /// A station that is not listened to.
    Quarantined,
}

impl NeighborState {
    const ALL: [(Self, u64, &'static str); 5] = [
        (NeighborState::Own, 0, "own"),
        (NeighborState::OwnOpen, 1, "own, open"),
        (NeighborState::Found, 2, "found"),
        (NeighborState::Proven, 3, "neighbour"),
        (NeighborState::Quarantined, 4, "quarantined"),
    ];

    /// How people call it.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(state, _, _)| *state == self).map_or("", |(_, _, word)| word)
    }

    fn number(self) -> u64 {
        Self::ALL.iter().find(|(state, _, _)| *state == self).map_or(0, |(_, number, _)| *number)
    }
}

/// An entry of `neighbors/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeighborStatus {
    /// The link: LocalUri of its faces.
    pub local_uri: String,
    /// The neighbour's address there; empty for the router itself.
    pub station: String,
    /// What this is about.
    pub state: NeighborState,
    /// FaceId, once there is a face.
    pub face_id: Option<u64>,
    /// Mtu of the face, octets.
    pub mtu: Option<u64>,
    /// The MTU that the neighbour says it has, octets.
    pub peer_mtu: Option<u64>,
    /// Ed25519 public key; empty where it is not known.
    pub key: Vec<u8>,
    /// How long ago it was last heard, or how long it is still in quarantine, ms.
    pub silent_ms: Option<u64>,
    /// Prefixes that it announces and that are routes.
    pub accepted: Vec<Name>,
    /// Prefixes that it announces and that no rule accepts.
    pub refused: Vec<Name>,
}

impl Block for NeighborStatus {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        let number = fields.nni(NEIGHBOR_STATE)?;
        let state = NeighborState::ALL.iter().find(|(_, known, _)| *known == number);
        let names = |typ| -> Result<Vec<Name>, DecodeError> {
            fields.all(typ).map(|tlv| NameRef::parse(tlv.value).map(|name| name.to_name())).collect()
        };
        Ok(NeighborStatus {
            local_uri: fields.text_opt(LOCAL_URI)?.unwrap_or_default(),
            station: fields.text_opt(URI)?.unwrap_or_default(),
            state: state.ok_or(DecodeError::BadLength(NEIGHBOR_STATE))?.0,
            face_id: fields.nni_opt(FACE_ID)?,
            mtu: fields.nni_opt(MTU)?,
            peer_mtu: fields.nni_opt(NEIGHBOR_MTU)?,
            key: fields.find(NEIGHBOR_KEY).map(|tlv| tlv.value.to_vec()).unwrap_or_default(),
            silent_ms: fields.nni_opt(NEIGHBOR_SILENT)?,
            accepted: names(NEIGHBOR_ACCEPTED)?,
            refused: names(NEIGHBOR_REFUSED)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_nni(w, FACE_ID, self.face_id);
        put_text(w, URI, Some(&self.station));
        put_text(w, LOCAL_URI, Some(&self.local_uri));
        put_nni(w, MTU, self.mtu);
        w.nni(NEIGHBOR_STATE, self.state.number());
        put_nni(w, NEIGHBOR_MTU, self.peer_mtu);
        w.tlv(NEIGHBOR_KEY, &self.key);
        put_nni(w, NEIGHBOR_SILENT, self.silent_ms);
        let names = |w: &mut Writer, typ, names: &[Name]| {
            names.iter().for_each(|name| {
                w.nested(typ, |w| name.as_name().encode(w));
            });
        };
        names(w, NEIGHBOR_ACCEPTED, &self.accepted);
        names(w, NEIGHBOR_REFUSED, &self.refused);
    }
}
