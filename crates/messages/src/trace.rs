//! The answer of the command `trace/read`, namely's own: packets of a prefix, each with the
//! decisions of the router.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::field::{block, choice_field};
use super::numbers::*;
use namely_wire::Name;
use namely_wire::types::NAME;

/// The kind of a traced event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TracedKind {
    /// An Interest was received or sent.
    #[default]
    Interest,
    /// A Data was received or sent.
    Data,
    /// A Nack was received or sent.
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

choice_field!(TracedKind);

block! {
    /// A packet of a trace, or a pending Interest that ended.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct TraceEntry: TRACE_ENTRY {
        /// Time of the event, us since the Unix epoch.
        pub time_us: u64 = TRACE_TIME;
        /// The kind of the event.
        pub kind: TracedKind = TRACE_KIND;
        /// Its name, or the beginning of it.
        pub name: Name = NAME;
        /// Whether the name is truncated.
        pub is_cut: bool = TRACE_CUT;
        /// The incoming face.
        pub face_id: Option<u64> = FACE_ID;
        /// Its octets.
        pub octets: u64 = TRACE_OCTETS;
        /// An Interest's Nonce, as a number.
        pub nonce: Option<u64> = TRACE_NONCE;
        /// An Interest's HopLimit as received.
        pub hop_limit: Option<u64> = TRACE_HOP_LIMIT;
        /// The reason of a Nack, as its number.
        pub nack: Option<u64> = EXPLAIN_NACK;
        /// Decisions, in their order.
        pub steps: Vec<TraceStep> = TRACE_STEP;
        /// Packets sent.
        pub sent: Vec<TraceSent> = TRACE_SENT;
        /// Number of steps and sent packets that are omitted for lack of room.
        pub left_out: u64 = COUNT, default;
    }
}

block! {
    /// A decision of the router.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct TraceStep: TRACE_STEP {
        /// The decision, in lower-case words.
        pub what: Cow<'static, str> = TRACE_WHAT;
        /// A count or a distance.
        pub number: Option<u64> = COUNT;
    }
}

block! {
    /// A packet that left.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TraceSent: TRACE_SENT {
        /// Its kind: an Interest, a Data or a Nack.
        pub kind: TracedKind = TRACE_KIND;
        /// The outgoing face.
        pub face_id: u64 = FACE_ID;
        /// The reason of a Nack, as its number.
        pub nack: Option<u64> = EXPLAIN_NACK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;

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
    fn a_trace_entry_survives_a_round_trip() {
        for entry in [whole(), TraceEntry::default()] {
            assert_eq!(TraceEntry::decode(&entry.to_vec()), Ok(entry));
        }
        for (kind, number, _) in TracedKind::ALL {
            assert_eq!(TracedKind::from_number(number), Some(kind));
        }
    }

    #[test]
    fn a_damaged_trace_entry_never_panics() {
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
