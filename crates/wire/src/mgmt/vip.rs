//! The datasets `vip/status`, `vip/objects` and `vip/neighbours`, which only namely has: what a
//! router's virtual plane of VIP does, knows of objects, and hears of neighbours.
//!
//! VIPs are told in units of 2^-20, as routers count them.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use super::status::Counter;
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni, put_text};
use crate::tlv::Writer;

/// The one entry of `vip/status`. A router that does not run VIP has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VipStatus {
    /// Its name in the exchange.
    pub router: String,
    /// Its Ed25519 public key, which neighbours are to believe.
    pub key: Vec<u8>,
    /// Whether it believes neighbours without a signature.
    pub is_open: bool,
    /// The number of its slot.
    pub slot: u64,
    /// How long a slot lasts, ms.
    pub period_ms: u64,
    /// The file of its catalogue.
    pub catalogue: String,
    /// The version of that.
    pub version: u64,
    /// Objects that are registered.
    pub objects: u64,
    /// Blocks of the catalogue, of which these are some.
    pub blocks: u64,
    /// Files of these.
    pub files: u64,
    /// Octets of these.
    pub octets: u64,
    /// Room for what is kept in memory, octets.
    pub room: u64,
    /// The same on disk, if there is one for objects.
    pub disk_room: Option<u64>,
    /// What can be read of it, octets in a second.
    pub disk_octets_per_s: Option<u64>,
    /// What happened so far; docs/counters.md lists it.
    pub counters: Vec<Counter>,
}

/// An entry of `vip/objects`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VipObject {
    /// Its name in the catalogue.
    pub name: String,
    /// By what routers name it to each other.
    pub id: u64,
    /// Octets.
    pub octets: u64,
    /// V: VIPs that wait here.
    pub count: u64,
    /// What is left of the VIPs that came.
    pub score: u64,
    /// VIPs that were asked for here since it was registered.
    pub asked: u64,
    /// Octets of memory that the content store has of it.
    pub held: u64,
    /// The tier in which it is kept; `None` if it is not.
    pub tier: Option<u64>,
    /// Whether it comes from here.
    pub is_source: bool,
    /// The face by which it is asked for; `None` if no neighbour leads to it.
    pub face_id: Option<u64>,
}

/// An entry of `vip/neighbours`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VipNeighbour {
    /// The face's remote URI, as the configuration has it.
    pub remote: String,
    /// Its name in the exchange; empty if it does not speak VIP.
    pub router: String,
    /// The face that leads there; `None` while there is none.
    pub face_id: Option<u64>,
    /// Its life that is known.
    pub boot: Option<u64>,
    /// For how long its counts are still used, ms; `None` if they are not.
    pub fresh_ms: Option<u64>,
    /// VIPs that it has not acknowledged.
    pub under_way: u64,
    /// Slots of these.
    pub slots_under_way: u64,
    /// The last of its slots whose VIPs were entered here.
    pub entered: u64,
    /// What of its packets was refused, by reason.
    pub counters: Vec<Counter>,
}

fn counters(fields: &Fields<'_>) -> Result<Vec<Counter>, DecodeError> {
    fields.all(VIP_COUNTER).map(|tlv| Counter::decode_value(tlv.value)).collect()
}

fn put_counters(w: &mut Writer, counters: &[Counter]) {
    for counter in counters {
        w.nested(VIP_COUNTER, |w| counter.encode_value(w));
    }
}

impl Block for VipStatus {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(VipStatus {
            router: fields.text(VIP_ROUTER)?,
            key: fields.find(NEIGHBOR_KEY).map(|tlv| tlv.value.to_vec()).unwrap_or_default(),
            is_open: fields.find(VIP_OPEN).is_some(),
            slot: fields.nni(VIP_SLOT)?,
            period_ms: fields.nni(VIP_PERIOD)?,
            catalogue: fields.text(VIP_CATALOGUE)?,
            version: fields.nni(VIP_VERSION)?,
            objects: fields.nni(VIP_OBJECTS)?,
            blocks: fields.nni(VIP_BLOCKS)?,
            files: fields.nni(VIP_FILES)?,
            octets: fields.nni(VIP_OCTETS)?,
            room: fields.nni(VIP_ROOM)?,
            disk_room: fields.nni_opt(VIP_DISK_ROOM)?,
            disk_octets_per_s: fields.nni_opt(VIP_DISK_RATE)?,
            counters: counters(&fields)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_text(w, VIP_ROUTER, Some(&self.router));
        w.tlv(NEIGHBOR_KEY, &self.key);
        if self.is_open {
            w.tlv(VIP_OPEN, &[]);
        }
        w.nni(VIP_SLOT, self.slot).nni(VIP_PERIOD, self.period_ms);
        put_text(w, VIP_CATALOGUE, Some(&self.catalogue));
        w.nni(VIP_VERSION, self.version)
            .nni(VIP_OBJECTS, self.objects)
            .nni(VIP_BLOCKS, self.blocks)
            .nni(VIP_FILES, self.files)
            .nni(VIP_OCTETS, self.octets)
            .nni(VIP_ROOM, self.room);
        put_nni(w, VIP_DISK_ROOM, self.disk_room);
        put_nni(w, VIP_DISK_RATE, self.disk_octets_per_s);
        put_counters(w, &self.counters);
    }
}

impl Block for VipObject {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(VipObject {
            name: fields.text(VIP_OBJECT)?,
            id: fields.nni(VIP_ID)?,
            octets: fields.nni(VIP_OCTETS)?,
            count: fields.nni(VIP_COUNT)?,
            score: fields.nni(VIP_SCORE)?,
            asked: fields.nni(VIP_ASKED)?,
            held: fields.nni(VIP_HELD)?,
            tier: fields.nni_opt(VIP_TIER)?,
            is_source: fields.find(VIP_SOURCE).is_some(),
            face_id: fields.nni_opt(FACE_ID)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_nni(w, FACE_ID, self.face_id);
        put_text(w, VIP_OBJECT, Some(&self.name));
        w.nni(VIP_ID, self.id)
            .nni(VIP_OCTETS, self.octets)
            .nni(VIP_COUNT, self.count)
            .nni(VIP_SCORE, self.score)
            .nni(VIP_ASKED, self.asked)
            .nni(VIP_HELD, self.held);
        put_nni(w, VIP_TIER, self.tier);
        if self.is_source {
            w.tlv(VIP_SOURCE, &[]);
        }
    }
}

impl Block for VipNeighbour {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(VipNeighbour {
            remote: fields.text(URI)?,
            router: fields.text_opt(VIP_ROUTER)?.unwrap_or_default(),
            face_id: fields.nni_opt(FACE_ID)?,
            boot: fields.nni_opt(VIP_BOOT)?,
            fresh_ms: fields.nni_opt(VIP_FRESH)?,
            under_way: fields.nni(VIP_UNDER_WAY)?,
            slots_under_way: fields.nni(VIP_SLOTS_UNDER_WAY)?,
            entered: fields.nni(VIP_ENTERED)?,
            counters: counters(&fields)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_nni(w, FACE_ID, self.face_id);
        put_text(w, URI, Some(&self.remote));
        put_text(w, VIP_ROUTER, Some(&self.router));
        put_nni(w, VIP_BOOT, self.boot);
        put_nni(w, VIP_FRESH, self.fresh_ms);
        w.nni(VIP_UNDER_WAY, self.under_way)
            .nni(VIP_SLOTS_UNDER_WAY, self.slots_under_way)
            .nni(VIP_ENTERED, self.entered);
        put_counters(w, &self.counters);
    }
}
