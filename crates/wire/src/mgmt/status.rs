//! The general status: the whole Content of `/localhost/nfd/status/general`, without a block around
//! it; and the entries of `status/counters`, which is namely's own.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni};
use crate::tlv::Writer;

/// The router's version, times, table sizes and packet counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneralStatus {
    /// NfdVersion: the router's name and version.
    pub version: String,
    /// StartTimestamp, ms since the Unix epoch.
    pub start_ms: u64,
    /// CurrentTimestamp, ms since the Unix epoch.
    pub current_ms: u64,
    /// NNameTreeEntries.
    pub name_tree_entries: u64,
    /// NFibEntries.
    pub fib_entries: u64,
    /// NPitEntries.
    pub pit_entries: u64,
    /// NMeasurementsEntries.
    pub measurements_entries: u64,
    /// NCsEntries.
    pub cs_entries: u64,
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
    /// NSatisfiedInterests: pending Interests that got Data.
    pub satisfied_interests: u64,
    /// NUnsatisfiedInterests: pending Interests that expired.
    pub unsatisfied_interests: u64,
    /// Routes of all names: namely's own, so that nobody reads the whole RIB to count them.
    pub routes: Option<u64>,
    /// Faces: namely's own, for the same reason.
    pub faces: Option<u64>,
}

impl GeneralStatus {
    /// Reads the dataset's octets.
    ///
    /// # Errors
    /// [`DecodeError`]: a field is malformed or missing.
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(content)?;
        Ok(GeneralStatus {
            version: fields.text(NFD_VERSION)?,
            start_ms: fields.nni(START_TIMESTAMP)?,
            current_ms: fields.nni(CURRENT_TIMESTAMP)?,
            name_tree_entries: fields.nni(N_NAME_TREE_ENTRIES)?,
            fib_entries: fields.nni(N_FIB_ENTRIES)?,
            pit_entries: fields.nni(N_PIT_ENTRIES)?,
            measurements_entries: fields.nni(N_MEASUREMENTS_ENTRIES)?,
            cs_entries: fields.nni(N_CS_ENTRIES)?,
            in_interests: fields.nni(N_IN_INTERESTS)?,
            in_data: fields.nni(N_IN_DATA)?,
            in_nacks: fields.nni(N_IN_NACKS)?,
            out_interests: fields.nni(N_OUT_INTERESTS)?,
            out_data: fields.nni(N_OUT_DATA)?,
            out_nacks: fields.nni(N_OUT_NACKS)?,
            // Routers older than NFD 0.7 do not send the last two.
            satisfied_interests: fields.nni_opt(N_SATISFIED_INTERESTS)?.unwrap_or(0),
            unsatisfied_interests: fields.nni_opt(N_UNSATISFIED_INTERESTS)?.unwrap_or(0),
            routes: fields.nni_opt(N_ROUTES)?,
            faces: fields.nni_opt(N_FACES)?,
        })
    }

    /// The dataset's octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.tlv(NFD_VERSION, self.version.as_bytes())
            .nni(START_TIMESTAMP, self.start_ms)
            .nni(CURRENT_TIMESTAMP, self.current_ms)
            .nni(N_NAME_TREE_ENTRIES, self.name_tree_entries)
            .nni(N_FIB_ENTRIES, self.fib_entries)
            .nni(N_PIT_ENTRIES, self.pit_entries)
            .nni(N_MEASUREMENTS_ENTRIES, self.measurements_entries)
            .nni(N_CS_ENTRIES, self.cs_entries)
            .nni(N_IN_INTERESTS, self.in_interests)
            .nni(N_IN_DATA, self.in_data)
            .nni(N_IN_NACKS, self.in_nacks)
            .nni(N_OUT_INTERESTS, self.out_interests)
            .nni(N_OUT_DATA, self.out_data)
            .nni(N_OUT_NACKS, self.out_nacks)
            .nni(N_SATISFIED_INTERESTS, self.satisfied_interests)
            .nni(N_UNSATISFIED_INTERESTS, self.unsatisfied_interests);
        put_nni(&mut w, N_ROUTES, self.routes);
        put_nni(&mut w, N_FACES, self.faces);
        w.into_vec()
    }
}

/// One counter of `status/counters`: a dataset that only namely has, for what NFD's datasets have
/// no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What is counted, such as `forwarder.no_route`; docs/counters.md lists them.
    pub label: String,
    /// The face that it belongs to; `None` for the whole router.
    pub face_id: Option<u64>,
    /// How many.
    pub value: u64,
}

impl Counter {
    /// A counter of the whole router.
    pub fn new(label: impl Into<String>, value: u64) -> Self {
        Counter { label: label.into(), face_id: None, value }
    }
}

impl Block for Counter {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(Counter {
            label: fields.text(COUNTER_LABEL)?,
            face_id: fields.nni_opt(FACE_ID)?,
            value: fields.nni(COUNTER_VALUE)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_nni(w, FACE_ID, self.face_id);
        w.tlv(COUNTER_LABEL, self.label.as_bytes()).nni(COUNTER_VALUE, self.value);
    }
}
