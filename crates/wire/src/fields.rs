//! A block of named fields, as management and metadata use: each field at most once, in any order.
//!
//! Clients differ in the order they write (python-ndn and ndn-cxx already do), so order is not
//! checked; of a repeated field the first counts.

use alloc::borrow::ToOwned;
use alloc::string::String;

use crate::error::DecodeError;
use crate::name::{Name, NameRef};
use crate::tlv::{self, Reader, Tlv, Writer};
use crate::types::NAME;

/// The fields of one block; its octets were walked once, so that every element is whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    value: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Takes a block's VALUE and ignores what it does not know: for reports, which must stay
    /// readable when the sender is newer.
    pub(crate) fn lenient(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        while reader.next_tlv()?.is_some() {}
        Ok(Fields { value })
    }

    /// Takes a block's VALUE and refuses an unknown element of a critical TYPE: for commands, which
    /// must not be obeyed by halves.
    pub(crate) fn strict(value: &'a [u8], known: &[u32]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        while let Some(tlv) = reader.next_tlv()? {
            if !known.contains(&tlv.typ) {
                tlv::ignore_unknown(tlv.typ)?;
            }
        }
        Ok(Fields { value })
    }

    /// All elements of TYPE `typ`.
    pub(crate) fn all(&self, typ: u32) -> impl Iterator<Item = Tlv<'a>> + use<'a> {
        let mut reader = Reader::new(self.value);
        core::iter::from_fn(move || reader.next_tlv().ok().flatten()).filter(move |tlv| tlv.typ == typ)
    }

    pub(crate) fn find(&self, typ: u32) -> Option<Tlv<'a>> {
        self.all(typ).next()
    }

    pub(crate) fn nni_opt(&self, typ: u32) -> Result<Option<u64>, DecodeError> {
        self.find(typ).map(|tlv| tlv.nni()).transpose()
    }

    pub(crate) fn nni(&self, typ: u32) -> Result<u64, DecodeError> {
        self.nni_opt(typ)?.ok_or(DecodeError::Missing(typ))
    }

    /// A number that names one of a closed set of things.
    pub(crate) fn choice_opt<T>(
        &self,
        typ: u32,
        from_number: impl FnOnce(u64) -> Option<T>,
    ) -> Result<Option<T>, DecodeError> {
        let Some(n) = self.nni_opt(typ)? else { return Ok(None) };
        from_number(n).map(Some).ok_or(DecodeError::OutOfRange(typ))
    }

    pub(crate) fn choice<T>(
        &self,
        typ: u32,
        from_number: impl FnOnce(u64) -> Option<T>,
    ) -> Result<T, DecodeError> {
        self.choice_opt(typ, from_number)?.ok_or(DecodeError::Missing(typ))
    }

    pub(crate) fn text_opt(&self, typ: u32) -> Result<Option<String>, DecodeError> {
        self.find(typ).map(|tlv| text(tlv.value)).transpose()
    }

    pub(crate) fn text(&self, typ: u32) -> Result<String, DecodeError> {
        self.text_opt(typ)?.ok_or(DecodeError::Missing(typ))
    }

    pub(crate) fn name_opt(&self) -> Result<Option<Name>, DecodeError> {
        self.find(NAME).map(|tlv| Ok(NameRef::parse_value(tlv.value)?.to_name())).transpose()
    }

    pub(crate) fn name(&self) -> Result<Name, DecodeError> {
        self.name_opt()?.ok_or(DecodeError::Missing(NAME))
    }

    /// A name inside an element of its own, as Strategy.
    pub(crate) fn wrapped_name_opt(&self, typ: u32) -> Result<Option<Name>, DecodeError> {
        self.find(typ).map(|tlv| Fields::lenient(tlv.value)?.name()).transpose()
    }
}

fn text(octets: &[u8]) -> Result<String, DecodeError> {
    core::str::from_utf8(octets).map(ToOwned::to_owned).map_err(|_| DecodeError::BadText)
}

/// Appends an optional number.
pub(crate) fn put_nni(w: &mut Writer, typ: u32, n: Option<u64>) {
    if let Some(n) = n {
        w.nni(typ, n);
    }
}

/// Appends an optional text.
pub(crate) fn put_text(w: &mut Writer, typ: u32, text: Option<&str>) {
    if let Some(text) = text {
        w.tlv(typ, text.as_bytes());
    }
}
