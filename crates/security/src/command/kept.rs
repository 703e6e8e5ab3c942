//! What was taken, as it is kept beyond the process: a router that starts again must not take it
//! again, also from hosts whose clock is ahead.
//!
//! A record is of one key: the first 16 octets of the SHA-256 of its name; first and last
//! SignatureTime of the era; [`COMMAND_SPANS_MAX`](super::history::COMMAND_SPANS_MAX) spans of
//! earlier eras; and the first 8 octets of the SHA-256 of all that. Numbers are big-endian ms, and
//! a span of two zeros is none. A record whose end does not fit is none.

use std::{fmt, io};

use namely_wire::Name;

use super::COMMAND_KEYS_MAX;
use crate::crypto::sha256;

/// Octets of a record.
pub const TAKEN_RECORD_OCTETS: usize = KEY_OCTETS + SPAN_OCTETS * (1 + SPANS) + CHECK_OCTETS;

/// Places for records: one of each key, and one of all keys that were forgotten.
pub const TAKEN_RECORDS_MAX: usize = COMMAND_KEYS_MAX + 1;

const KEY_OCTETS: usize = 16;
const SPAN_OCTETS: usize = 16;
const CHECK_OCTETS: usize = 8;
const SPANS: usize = super::history::COMMAND_SPANS_MAX;

/// A record.
pub type TakenRecord = [u8; TAKEN_RECORD_OCTETS];

/// Keeps what was taken for the next process.
pub trait TakenStore: fmt::Debug + Send {
    /// Puts `record` into a place below [`TAKEN_RECORDS_MAX`]. When this returns it is there though
    /// the process is killed.
    ///
    /// # Errors
    /// The environment's; the command is refused then.
    fn keep(&mut self, place: usize, record: &TakenRecord) -> io::Result<()>;
}

/// By what a key is known in records.
pub(super) type KeyDigest = [u8; KEY_OCTETS];

pub(super) fn digest(key: &Name) -> KeyDigest {
    let mut digest = [0; KEY_OCTETS];
    digest.copy_from_slice(&sha256(key.as_bytes())[..KEY_OCTETS]);
    digest
}

/// A key's times: those of this era, and spans of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) taken: Option<(u64, u64)>,
    pub(super) past: Vec<(u64, u64)>,
}

pub(super) fn encode(key: KeyDigest, times: &Times) -> TakenRecord {
    let mut record = [0; TAKEN_RECORD_OCTETS];
    record[..KEY_OCTETS].copy_from_slice(&key);
    let spans = [times.taken.unwrap_or_default()].into_iter().chain(times.past.iter().copied());
    let places = record[KEY_OCTETS..TAKEN_RECORD_OCTETS - CHECK_OCTETS].chunks_exact_mut(SPAN_OCTETS);
    for (place, (first_ms, last_ms)) in places.zip(spans) {
        let (first, last) = place.split_at_mut(SPAN_OCTETS / 2);
        first.copy_from_slice(&first_ms.to_be_bytes());
        last.copy_from_slice(&last_ms.to_be_bytes());
    }
    let (all, check) = record.split_at_mut(TAKEN_RECORD_OCTETS - CHECK_OCTETS);
    check.copy_from_slice(&sha256(all)[..CHECK_OCTETS]);
    record
}

/// What a record says; `None` if it is none.
pub(super) fn decode(record: &TakenRecord) -> Option<(KeyDigest, Times)> {
    let (all, check) = record.split_at(TAKEN_RECORD_OCTETS - CHECK_OCTETS);
    if sha256(all)[..CHECK_OCTETS] != *check {
        return None;
    }
    let (key, spans) = all.split_first_chunk()?;
    let number = |octets: &[u8]| octets.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet));
    let mut spans = spans
        .chunks_exact(SPAN_OCTETS)
        .map(|span| (number(&span[..SPAN_OCTETS / 2]), number(&span[SPAN_OCTETS / 2..])))
        .map(|span| (span != (0, 0)).then_some(span));
    let taken = spans.next()?;
    Some((*key, Times { taken, past: spans.flatten().collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_says_what_was_kept_and_a_damaged_one_nothing(
            key in any::<KeyDigest>(),
            taken in prop::option::of((1u64.., any::<u64>())),
            past in prop::collection::vec((1u64.., any::<u64>()), 0..=SPANS),
            damage in (0..TAKEN_RECORD_OCTETS, 1u8..),
        ) {
            let times = Times { taken, past };
            let mut record = encode(key, &times);
            prop_assert_eq!(decode(&record), Some((key, times)));
            record[damage.0] ^= damage.1;
            prop_assert_eq!(decode(&record), None);
        }
    }

    #[test]
    fn a_place_that_was_never_written_is_no_record() {
        assert_eq!(decode(&[0; TAKEN_RECORD_OCTETS]), None);
    }
}
