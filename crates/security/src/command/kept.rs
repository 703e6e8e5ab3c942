//! Records of accepted commands that outlive the process. A restarted router must not accept the
//! same commands again, even from hosts whose clock is ahead.
//!
//! A record belongs to one key. Its fields are, in this order:
//!
//! - the first 16 octets of the SHA-256 of the key's name,
//! - the first and the last SignatureTime of the era,
//! - [`COMMAND_SPANS_MAX`](super::history::COMMAND_SPANS_MAX) spans of earlier eras,
//! - the first 8 octets of the SHA-256 of all fields above, as a checksum.
//!
//! Numbers are big-endian ms. A span of two zeros is empty. A record with a wrong checksum is
//! ignored.

use std::{fmt, io};

use namely_wire::Name;

use super::COMMAND_KEYS_MAX;
use crate::crypto::sha256;

/// Octets of a record.
pub const TAKEN_RECORD_OCTETS: usize = KEY_OCTETS + SPAN_OCTETS * (1 + SPANS) + CHECK_OCTETS;

/// Records of keys that are stored for the next router.
///
/// There is one record for each key, and one for all evicted keys. A key can be evicted as soon as
/// with [`COMMAND_KEYS_MAX`].
///
/// # Limit
/// A command of a further key is refused until one of the last commands is old enough.
/// - Value: 1024 keys, in a file of 1025 records of 168 octets
/// - Counter: `too_many_keys`
/// - Tests: `command_keys_are_limited`
pub const TAKEN_RECORDS_MAX: usize = COMMAND_KEYS_MAX + 1;

const KEY_OCTETS: usize = 16;
const SPAN_OCTETS: usize = 16;
const CHECK_OCTETS: usize = 8;
const SPANS: usize = super::history::COMMAND_SPANS_MAX;

/// A record.
pub type AcceptedCommand = [u8; TAKEN_RECORD_OCTETS];

/// Persists accepted commands for the next process.
pub trait AcceptedCommandStore: fmt::Debug + Send {
    /// Writes `record` to a slot below [`TAKEN_RECORDS_MAX`]. Once this returns, the record
    /// survives a kill of the process.
    ///
    /// # Errors
    /// The environment's. The command is refused then.
    fn keep(&mut self, slot: usize, record: &AcceptedCommand) -> io::Result<()>;
}

/// The digest that identifies a key in records.
pub(super) type KeyDigest = [u8; KEY_OCTETS];

pub(super) fn digest(key: &Name) -> KeyDigest {
    let mut digest = [0; KEY_OCTETS];
    digest.copy_from_slice(&sha256(key.as_bytes())[..KEY_OCTETS]);
    digest
}

/// The times of a key's accepted commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// First and last SignatureTime of this era.
    pub(super) accepted: Option<(u64, u64)>,
    /// The spans of earlier eras.
    pub(super) past: Vec<(u64, u64)>,
}

pub(super) fn encode(key: KeyDigest, times: &Times) -> AcceptedCommand {
    let mut record = [0; TAKEN_RECORD_OCTETS];
    record[..KEY_OCTETS].copy_from_slice(&key);
    let spans = [times.accepted.unwrap_or_default()].into_iter().chain(times.past.iter().copied());
    let fields = record[KEY_OCTETS..TAKEN_RECORD_OCTETS - CHECK_OCTETS].chunks_exact_mut(SPAN_OCTETS);
    for (field, (first_ms, last_ms)) in fields.zip(spans) {
        let (first, last) = field.split_at_mut(SPAN_OCTETS / 2);
        first.copy_from_slice(&first_ms.to_be_bytes());
        last.copy_from_slice(&last_ms.to_be_bytes());
    }
    let (all, check) = record.split_at_mut(TAKEN_RECORD_OCTETS - CHECK_OCTETS);
    check.copy_from_slice(&sha256(all)[..CHECK_OCTETS]);
    record
}

/// Decodes a record; `None` if it is invalid.
pub(super) fn decode(record: &AcceptedCommand) -> Option<(KeyDigest, Times)> {
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
    let accepted = spans.next()?;
    Some((*key, Times { accepted, past: spans.flatten().collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_damaged_command_record_is_rejected(
            key in any::<KeyDigest>(),
            accepted in prop::option::of((1u64.., any::<u64>())),
            past in prop::collection::vec((1u64.., any::<u64>()), 0..=SPANS),
            damage in (0..TAKEN_RECORD_OCTETS, 1u8..),
        ) {
            let times = Times { accepted, past };
            let mut record = encode(key, &times);
            prop_assert_eq!(decode(&record), Some((key, times)));
            record[damage.0] ^= damage.1;
            prop_assert_eq!(decode(&record), None);
        }
    }

    #[test]
    fn an_unwritten_slot_is_no_record() {
        assert_eq!(decode(&[0; TAKEN_RECORD_OCTETS]), None);
    }
}
