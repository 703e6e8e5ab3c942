//! What the command `trace/read` answers with, which only namely has: packets of a prefix, each
//! with what became of it.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni};
use crate::name::Name;
use crate::tlv::Writer;

/// What was traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TracedKind {
    /// An Interest came, or left.
    #[default]
    Interest,
    /// A Data came, or left.
    Data,
    /// A Nack came, or left.
    Nack,
    /// A pending Interest ended without an answer.
    Expired,
    /// A read of the content store's disk ended.
    DiskRead,
}

impl TracedKind {
    const ALL: [(TracedKind, u64, &'static str); 5] = [
        (TracedKind::Interest, 0, "Interest"),
        (TracedKind::Data, 1, "Data"),
        (TracedKind::Nack, 2, "Nack"),
        (TracedKind::Expired, 3, "expired"),
        (TracedKind::DiskRead, 4, "disk read"),
    ];

    fn number(self) -> u64 {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or(0, |(_, number, _)| *number)
    }

    fn from_number(number: u64) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == number).map(|(kind, ..)| *kind)
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(.., word)| word)
    }
}

/// A packet of a trace, or a pending Interest that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceEntry {
    /// When, us since the Unix epoch.
    pub time_us: u64,
    /// What came.
    pub kind: TracedKind,
    /// Its name, or the beginning of it.
    pub name: Name,
    /// The name is longer.
    pub is_cut: bool,
    /// The face that it came from.
    pub face_id: Option<u64>,
    /// Its octets.
    pub octets: u64,
    /// An Interest's Nonce, as a number.
    pub nonce: Option<u64>,
    /// An Interest's HopLimit as it came.
    pub hop_limit: Option<u64>,
    /// The reason of a Nack, as its number.
    pub nack: Option<u64>,
    /// What was decided, in this order.
    pub steps: Vec<TraceStep>,
    /// What left.
    pub sent: Vec<TraceSent>,
    /// Steps and sendings that found no room here.
    pub left_out: u64,
}

/// Something that was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceStep {
    /// What, in words of lower case.
    pub what: Cow<'static, str>,
    /// How many, or how far.
    pub number: Option<u64>,
}

/// A packet that left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSent {
    /// What it is: an Interest, a Data or a Nack.
    pub kind: TracedKind,
    /// By which face.
    pub face_id: u64,
    /// The reason of a Nack, as its number.
    pub nack: Option<u64>,
}

fn kind(fields: &Fields<'_>) -> Result<TracedKind, DecodeError> {
    fields.choice(TRACE_KIND, TracedKind::from_number)
}

fn parts<T: Block>(fields: &Fields<'_>) -> Result<Vec<T>, DecodeError> {
    fields.all(T::TYPE).map(|tlv| T::decode_value(tlv.value)).collect()
}

impl Block for TraceEntry {
    const TYPE: u32 = TRACE_ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(TraceEntry {
            time_us: fields.nni(TRACE_TIME)?,
            kind: kind(&fields)?,
            name: fields.name()?,
            is_cut: fields.find(TRACE_CUT).is_some(),
            face_id: fields.nni_opt(FACE_ID)?,
            octets: fields.nni(TRACE_OCTETS)?,
            nonce: fields.nni_opt(TRACE_NONCE)?,
            hop_limit: fields.nni_opt(TRACE_HOP_LIMIT)?,
            nack: fields.nni_opt(EXPLAIN_NACK)?,
            steps: parts(&fields)?,
            sent: parts(&fields)?,
            left_out: fields.nni_opt(COUNT)?.unwrap_or_default(),
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(TRACE_TIME, self.time_us).nni(TRACE_KIND, self.kind.number());
        self.name.as_name().encode(w);
        if self.is_cut {
            w.tlv(TRACE_CUT, &[]);
        }
        put_nni(w, FACE_ID, self.face_id);
        w.nni(TRACE_OCTETS, self.octets);
        put_nni(w, TRACE_NONCE, self.nonce);
        put_nni(w, TRACE_HOP_LIMIT, self.hop_limit);
        put_nni(w, EXPLAIN_NACK, self.nack);
        self.steps.iter().for_each(|step| step.encode(w));
        self.sent.iter().for_each(|sent| sent.encode(w));
        put_nni(w, COUNT, (self.left_out > 0).then_some(self.left_out));
    }
}

impl Block for TraceStep {
    const TYPE: u32 = TRACE_STEP;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(TraceStep { what: Cow::Owned(fields.text(TRACE_WHAT)? as String), number: fields.nni_opt(COUNT)? })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.tlv(TRACE_WHAT, self.what.as_bytes());
        put_nni(w, COUNT, self.number);
    }
}

impl Block for TraceSent {
    const TYPE: u32 = TRACE_SENT;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(TraceSent {
            kind: kind(&fields)?,
            face_id: fields.nni(FACE_ID)?,
            nack: fields.nni_opt(EXPLAIN_NACK)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(TRACE_KIND, self.kind.number()).nni(FACE_ID, self.face_id);
        put_nni(w, EXPLAIN_NACK, self.nack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> TraceEntry {
        TraceEntry {
            time_us: 1_800_000_000_123_456,
            kind: TracedKind::Nack,
            name: "/a/b".parse().unwrap(),
            is_cut: true,
            face_id: Some(300),
            octets: 77,
            nonce: Some(0x1234_5678),
            hop_limit: Some(9),
            nack: Some(150),
            steps: alloc::vec![
                TraceStep { what: "route".into(), number: Some(1) },
                TraceStep { what: "suppressed".into(), number: None },
            ],
            sent: alloc::vec![TraceSent { kind: TracedKind::Nack, face_id: 301, nack: Some(50) }],
            left_out: 3,
        }
    }

    #[test]
    fn an_entry_of_a_trace_is_read_back_as_it_was_written_whole_and_least() {
        for entry in [whole(), TraceEntry::default()] {
            assert_eq!(TraceEntry::decode(&entry.to_vec()), Ok(entry));
        }
        for (kind, number, _) in TracedKind::ALL {
            assert_eq!(TracedKind::from_number(number), Some(kind));
        }
    }

    #[test]
    fn an_entry_that_is_cut_or_changed_anywhere_is_refused_or_read_and_nothing_else() {
        let octets = whole().to_vec();
        for i in 0..octets.len() {
            assert!(TraceEntry::decode(&octets[..i]).is_err());
            for bit in 0..8 {
                let mut changed = octets.clone();
                changed[i] ^= 1 << bit;
                let _ = TraceEntry::decode(&changed);
            }
        }
    }
}
