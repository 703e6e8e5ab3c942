//! The trait of all blocks of management, and the iterator over a dataset's blocks.

use alloc::vec::Vec;
use core::iter::FusedIterator;
use core::marker::PhantomData;

use namely_wire::DecodeError;
use namely_wire::tlv::{self, Reader, Writer};

/// A management structure that is one TLV.
pub trait Block: Sized {
    /// TYPE of the TLV.
    const TYPE: u32;

    /// Reads the TLV's VALUE.
    ///
    /// # Errors
    /// [`DecodeError`]: a field is malformed, repeated or missing.
    fn decode_value(value: &[u8]) -> Result<Self, DecodeError>;

    /// Appends the TLV's VALUE.
    fn encode_value(&self, w: &mut Writer);

    /// Reads `octets` as exactly one such TLV.
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly one TLV of this TYPE, or its VALUE is refused.
    fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_value(tlv::read_exactly(octets, Self::TYPE)?.value)
    }

    /// Appends the TLV.
    fn encode(&self, w: &mut Writer) {
        w.nested(Self::TYPE, |w| self.encode_value(w));
    }

    /// The TLV's octets.
    fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.encode(&mut w);
        w.into_vec()
    }
}

/// The entries of a dataset: `content` is the concatenation of all segments' Content.
pub fn blocks<T: Block>(content: &[u8]) -> Blocks<'_, T> {
    Blocks { reader: Reader::new(content), ended: false, entry: PhantomData }
}

/// The octets of a dataset with these entries, before it is cut into segments.
pub fn encode_blocks<'a, T: Block + 'a>(entries: impl IntoIterator<Item = &'a T>) -> Vec<u8> {
    let mut w = Writer::new();
    entries.into_iter().for_each(|entry| entry.encode(&mut w));
    w.into_vec()
}

/// Iterator over a dataset's entries. It ends after the first error.
#[derive(Clone, Debug)]
pub struct Blocks<'a, T> {
    reader: Reader<'a>,
    ended: bool,
    entry: PhantomData<fn() -> T>,
}

impl<T: Block> Iterator for Blocks<'_, T> {
    type Item = Result<T, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let entry = match self.reader.next_tlv() {
            Ok(Some(tlv)) if tlv.typ == T::TYPE => T::decode_value(tlv.value),
            Ok(Some(tlv)) => Err(DecodeError::UnexpectedType(tlv.typ)),
            Ok(None) => {
                self.ended = true;
                return None;
            }
            Err(error) => Err(error),
        };
        self.ended = entry.is_err();
        Some(entry)
    }
}

impl<T: Block> FusedIterator for Blocks<'_, T> {}
