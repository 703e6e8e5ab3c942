//! A block of named fields, as in management and metadata: each field at most once, in any order.
//!
//! Clients differ in the order of fields (python-ndn and ndn-cxx already do), so the order is not
//! checked. Of a repeated field the first is used.

use alloc::borrow::ToOwned;
use alloc::string::String;

use crate::error::DecodeError;
use crate::name::{Name, NameRef};
use crate::tlv::{self, Reader, Tlv, Writer};
use crate::types::NAME;

/// The fields of one block. Its octets were parsed once, so every element is complete.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    value: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Parses a block's VALUE and ignores unknown elements. For reports, which have to be readable
    /// even if the sender is newer.
    ///
    /// # Errors
    /// [`DecodeError`]: the VALUE is not a sequence of TLVs.
    pub fn lenient(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        while reader.next_tlv()?.is_some() {}
        Ok(Fields { value })
    }

    /// Parses a block's VALUE and refuses an unknown element of a critical TYPE. For commands,
    /// which must not be executed in part.
    ///
    /// # Errors
    /// [`DecodeError`]: an unknown critical element, or the VALUE is not a sequence of TLVs.
    pub fn strict(value: &'a [u8], known: &[u32]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        while let Some(tlv) = reader.next_tlv()? {
            if !known.contains(&tlv.typ) {
                tlv::ignore_unknown(tlv.typ)?;
            }
        }
        Ok(Fields { value })
    }

    /// Returns all elements of TYPE `typ`.
    pub fn all(&self, typ: u32) -> impl Iterator<Item = Tlv<'a>> + use<'a> {
        let mut reader = Reader::new(self.value);
        core::iter::from_fn(move || reader.next_tlv().ok().flatten()).filter(move |tlv| tlv.typ == typ)
    }

    /// Returns the first element of TYPE `typ`.
    pub fn find(&self, typ: u32) -> Option<Tlv<'a>> {
        self.all(typ).next()
    }

    /// Returns the number of an element, if it is present.
    ///
    /// # Errors
    /// [`DecodeError`]: the element is not a number.
    pub fn nni_opt(&self, typ: u32) -> Result<Option<u64>, DecodeError> {
        self.find(typ).map(|tlv| tlv.nni()).transpose()
    }

    /// Returns the number of an element.
    ///
    /// # Errors
    /// [`DecodeError`]: the element is absent or not a number.
    pub fn nni(&self, typ: u32) -> Result<u64, DecodeError> {
        self.nni_opt(typ)?.ok_or(DecodeError::Missing(typ))
    }

    /// Returns the value of an enumeration, if it is present.
    ///
    /// # Errors
    /// [`DecodeError`]: the number is not in the enumeration.
    pub fn choice_opt<T>(
        &self,
        typ: u32,
        from_number: impl FnOnce(u64) -> Option<T>,
    ) -> Result<Option<T>, DecodeError> {
        let Some(n) = self.nni_opt(typ)? else { return Ok(None) };
        from_number(n).map(Some).ok_or(DecodeError::OutOfRange(typ))
    }

    /// Returns the value of an enumeration.
    ///
    /// # Errors
    /// [`DecodeError`]: the element is absent, or the number is not in the enumeration.
    pub fn choice<T>(&self, typ: u32, from_number: impl FnOnce(u64) -> Option<T>) -> Result<T, DecodeError> {
        self.choice_opt(typ, from_number)?.ok_or(DecodeError::Missing(typ))
    }

    /// Returns the text of an element, if it is present.
    ///
    /// # Errors
    /// [`DecodeError`]: it is not UTF-8.
    pub fn text_opt(&self, typ: u32) -> Result<Option<String>, DecodeError> {
        self.find(typ).map(|tlv| text(tlv.value)).transpose()
    }

    /// Returns the text of an element.
    ///
    /// # Errors
    /// [`DecodeError`]: it is absent or not UTF-8.
    pub fn text(&self, typ: u32) -> Result<String, DecodeError> {
        self.text_opt(typ)?.ok_or(DecodeError::Missing(typ))
    }

    /// Returns the Name, if it is present.
    ///
    /// # Errors
    /// [`DecodeError`]: it is malformed.
    pub fn name_opt(&self) -> Result<Option<Name>, DecodeError> {
        self.find(NAME).map(|tlv| Ok(NameRef::parse_value(tlv.value)?.to_name())).transpose()
    }

    /// Returns the Name.
    ///
    /// # Errors
    /// [`DecodeError`]: it is absent or malformed.
    pub fn name(&self) -> Result<Name, DecodeError> {
        self.name_opt()?.ok_or(DecodeError::Missing(NAME))
    }
}

fn text(octets: &[u8]) -> Result<String, DecodeError> {
    core::str::from_utf8(octets).map(ToOwned::to_owned).map_err(|_| DecodeError::BadText)
}

/// Appends an optional number.
pub fn put_nni(w: &mut Writer, typ: u32, n: Option<u64>) {
    if let Some(n) = n {
        w.nni(typ, n);
    }
}
