//! The dataset `cs/list`, namely's own: the packets that the content store has in memory.

use alloc::vec::Vec;

use super::block::Block;
use super::field::block;
use super::numbers::*;
use super::parameters::ControlParameters;
use super::request::{Dataset, Scope};
use namely_wire::DecodeError;
use namely_wire::Name;
use namely_wire::types::NAME;

/// The query of `cs/list`: a part of the packets below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsListQuery {
    /// The prefix.
    pub prefix: Name,
    /// The start of the part: 0, or [`CsList::next`] of the previous part.
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

block! {
    /// The one entry of a part of `cs/list`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CsList: ENTRY {
        /// The start of the next part; none in the last part.
        pub next: Option<u64> = CS_LIST_NEXT;
        /// Packets, in no order.
        pub packets: Vec<CsPacket> = CS_LIST_PACKET;
    }
}

block! {
    /// A packet in the content store.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CsPacket: CS_LIST_PACKET {
        /// Its name.
        pub name: Name = NAME;
        /// Its octets.
        pub octets: u64 = CS_DISK_OCTETS;
        /// The remaining time for which the packet is fresh, ms.
        pub fresh_ms: u64 = CS_LIST_FRESH;
    }
}
