//! The dataset `cs/list`, which only namely has: what the content store has in memory.

use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use super::parameters::ControlParameters;
use super::request::{Dataset, Scope};
use crate::error::DecodeError;
use crate::fields::Fields;
use crate::name::Name;
use crate::tlv::Writer;

/// What `cs/list` is asked for: a part of what is below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsListQuery {
    /// The prefix.
    pub prefix: Name,
    /// Where the part begins: 0, or [`CsList::next`] of the one before.
    pub from: u64,
}

impl CsListQuery {
    /// The name of the dataset.
    pub fn name(&self, scope: Scope) -> Name {
        let (name, count) = (Some(self.prefix.clone()), Some(self.from));
        let parameters = ControlParameters { name, count, ..ControlParameters::default() };
        Dataset::CsList.prefix(scope).join_generic(parameters.to_vec())
    }

    pub(super) fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let ControlParameters { name, count, .. } = ControlParameters::decode(octets)?;
        Ok(CsListQuery { prefix: name.unwrap_or_default(), from: count.unwrap_or_default() })
    }
}

/// The one entry of a part of `cs/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsList {
    /// Where the next part begins; none: this is the last.
    pub next: Option<u64>,
    /// Packets, in no order.
    pub packets: Vec<CsPacket>,
}

/// A packet in the content store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsPacket {
    /// Its name.
    pub name: Name,
    /// Its octets.
    pub octets: u64,
    /// For how long it is fresh, ms.
    pub fresh_ms: u64,
}

impl Block for CsList {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        let packets = fields.all(CS_LIST_PACKET).map(|tlv| CsPacket::decode_value(tlv.value));
        Ok(CsList { next: fields.nni_opt(CS_LIST_NEXT)?, packets: packets.collect::<Result<_, _>>()? })
    }

    fn encode_value(&self, w: &mut Writer) {
        if let Some(next) = self.next {
            w.nni(CS_LIST_NEXT, next);
        }
        for packet in &self.packets {
            w.nested(CS_LIST_PACKET, |w| packet.encode_value(w));
        }
    }
}

impl Block for CsPacket {
    const TYPE: u32 = CS_LIST_PACKET;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(CsPacket {
            name: fields.name()?,
            octets: fields.nni(CS_DISK_OCTETS)?,
            fresh_ms: fields.nni(CS_LIST_FRESH)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        self.name.as_name().encode(w);
        w.nni(CS_DISK_OCTETS, self.octets).nni(CS_LIST_FRESH, self.fresh_ms);
    }
}
