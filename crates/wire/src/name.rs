//! Names and their components (packet spec, `name.rst`): a borrowed view, an owned name, the URI
//! form, canonical order.
//!
//! A name is stored as the VALUE of its Name TLV. TYPE and LENGTH are always in their shortest
//! form. Therefore canonical order is the order of those octets, and names are equal if their
//! octets are equal.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

use crate::error::DecodeError;
use crate::tlv::{self, Writer};
use crate::types::*;

/// Components of a name.
///
/// A content store indexes every prefix of a Data name, so each component costs the forwarder work.
///
/// # Limit
/// The packet is refused.
/// - Counter: `too_many_components`
/// - Tests: `a_name_has_at_most_128_components`
pub const COMPONENTS_MAX: usize = 128;

/// One name component: its TYPE and VALUE.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Component<'a> {
    /// TYPE, 1..=65535.
    pub typ: u16,
    /// VALUE; may be empty.
    pub value: &'a [u8],
}

impl<'a> Component<'a> {
    /// Creates a GenericNameComponent.
    pub fn generic(value: &'a [u8]) -> Self {
        Component { typ: GENERIC_COMPONENT, value }
    }

    /// Creates a KeywordNameComponent, such as `32=metadata`.
    pub fn keyword(value: &'a [u8]) -> Self {
        Component { typ: KEYWORD_COMPONENT, value }
    }

    /// Returns the number in a component of TYPE `typ`; none for another TYPE or VALUE.
    pub fn number(&self, typ: u16) -> Option<u64> {
        if self.typ == typ { tlv::decode_nni(self.value).ok() } else { None }
    }

    /// Returns the segment number of a SegmentNameComponent.
    pub fn segment(&self) -> Option<u64> {
        self.number(SEGMENT_COMPONENT)
    }

    /// Returns the version of a VersionNameComponent.
    pub fn version(&self) -> Option<u64> {
        self.number(VERSION_COMPONENT)
    }

    /// Returns true if this is an implicit digest component.
    pub fn is_implicit_digest(&self) -> bool {
        self.typ == IMPLICIT_DIGEST_COMPONENT
    }

    /// Returns true if this is a parameters digest component.
    pub fn is_parameters_digest(&self) -> bool {
        self.typ == PARAMETERS_DIGEST_COMPONENT
    }

    /// Parses the VALUE of a TLV with exactly one component TLV (such as FinalBlockId).
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly one TLV, or not a component.
    pub fn parse(octets: &'a [u8]) -> Result<Self, DecodeError> {
        let tlv = tlv::read_tlv(octets)?;
        if tlv.raw.len() != octets.len() {
            return Err(DecodeError::TrailingOctets);
        }
        checked_component(tlv)
    }

    /// Appends the component's TLV.
    pub fn encode(&self, w: &mut Writer) {
        w.tlv(u32::from(self.typ), self.value);
    }
}

impl Ord for Component<'_> {
    /// Canonical order: TYPE, then LENGTH, then octets.
    fn cmp(&self, other: &Self) -> Ordering {
        self.typ
            .cmp(&other.typ)
            .then(self.value.len().cmp(&other.value.len()))
            .then_with(|| self.value.cmp(other.value))
    }
}

impl PartialOrd for Component<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[inline]
fn checked_component(tlv: tlv::Tlv<'_>) -> Result<Component<'_>, DecodeError> {
    let typ = u16::try_from(tlv.typ).map_err(|_| DecodeError::BadComponentType)?;
    if (typ == IMPLICIT_DIGEST_COMPONENT || typ == PARAMETERS_DIGEST_COMPONENT) && tlv.value.len() != 32 {
        return Err(DecodeError::BadDigestLength);
    }
    Ok(Component { typ, value: tlv.value })
}

/// A checked view of a name: the VALUE of a Name TLV.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NameRef<'a> {
    value: &'a [u8],
}

impl<'a> NameRef<'a> {
    /// Checks the VALUE of a Name TLV: every component well formed, at most [`COMPONENTS_MAX`] of
    /// them.
    ///
    /// # Errors
    /// [`DecodeError`]: a component is malformed, or there are more than [`COMPONENTS_MAX`].
    pub fn parse_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        let (mut rest, mut count) = (value, 0);
        while !rest.is_empty() {
            let component = tlv::read_tlv(rest)?;
            checked_component(component)?;
            rest = &rest[component.raw.len()..];
            count += 1;
            if count > COMPONENTS_MAX {
                return Err(DecodeError::TooManyComponents);
            }
        }
        Ok(NameRef { value })
    }

    /// Checks a whole Name TLV.
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly one Name TLV, or its VALUE is refused.
    pub fn parse(octets: &'a [u8]) -> Result<Self, DecodeError> {
        Self::parse_value(tlv::read_exactly(octets, NAME)?.value)
    }

    /// Returns the octets of the components (the Name TLV's VALUE).
    pub fn as_bytes(&self) -> &'a [u8] {
        self.value
    }

    /// Returns the components, first to last.
    pub fn components(&self) -> Components<'a> {
        Components { rest: self.value }
    }

    /// Returns the number of components.
    pub fn len(&self) -> usize {
        self.components().count()
    }

    /// Returns true if this is the empty name `/`.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Returns component `i`, counted from 0.
    pub fn component(&self, i: usize) -> Option<Component<'a>> {
        self.components().nth(i)
    }

    /// Returns the last component.
    pub fn last(&self) -> Option<Component<'a>> {
        self.components().last()
    }

    /// Returns the name of the first `n` components, or all of it if there are fewer.
    pub fn prefix(&self, n: usize) -> NameRef<'a> {
        let mut components = self.components();
        for _ in 0..n {
            if components.next().is_none() {
                break;
            }
        }
        NameRef { value: &self.value[..self.value.len() - components.rest.len()] }
    }

    /// Returns the name without its last `n` components.
    pub fn without_last(&self, n: usize) -> NameRef<'a> {
        self.prefix(self.len().saturating_sub(n))
    }

    /// Returns true if `self` is `other` or a prefix of it. Comparing octets suffices: if the
    /// octets agree, the shorter sequence of components ends on a boundary of `other`.
    pub fn is_prefix_of(&self, other: NameRef<'_>) -> bool {
        other.value.starts_with(self.value)
    }

    /// Copies the name.
    pub fn to_name(&self) -> Name {
        Name { value: self.value.to_owned() }
    }

    /// Returns the octets of the whole Name TLV.
    pub fn encoded_octets(&self) -> usize {
        tlv::tlv_octets(NAME, self.value.len())
    }

    /// Appends the Name TLV.
    pub fn encode(&self, w: &mut Writer) {
        w.tlv(NAME, self.value);
    }
}

impl Ord for NameRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Canonical order (packet spec, Name) compares component by component: TYPE, then LENGTH,
        // then VALUE. Comparing the octets of both TLV-VALUEs does just that:
        // - Every number was checked to be in its shortest form, so the larger TYPE or LENGTH is
        //   also the larger run of octets: a longer form starts with 253 or more, which no number
        //   of one octet does, and within one form octets are big-endian.
        // - If TYPE and LENGTH agree, both VALUEs are at the same place and of one length, and the
        //   next components follow at the same place.
        // - A name that is a prefix of the other is also a prefix of its octets, and comes first.
        self.value.cmp(other.value)
    }
}

impl PartialOrd for NameRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Iterator over a name's components. The name was checked when its view was created.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    fn next(&mut self) -> Option<Component<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let tlv = tlv::read_tlv(self.rest).ok()?;
        self.rest = &self.rest[tlv.raw.len()..];
        Some(Component { typ: tlv.typ as u16, value: tlv.value })
    }
}

/// An owned name.
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Name {
    value: Vec<u8>,
}

impl Name {
    /// The empty name `/`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Borrows the name.
    pub fn as_name(&self) -> NameRef<'_> {
        NameRef { value: &self.value }
    }

    /// Returns the octets of the components.
    pub fn as_bytes(&self) -> &[u8] {
        &self.value
    }

    /// Returns the components, first to last.
    pub fn components(&self) -> Components<'_> {
        self.as_name().components()
    }

    /// Returns the number of components.
    pub fn len(&self) -> usize {
        self.as_name().len()
    }

    /// Returns true if this is the empty name `/`.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Returns true if `self` is `other` or a prefix of it.
    pub fn is_prefix_of(&self, other: NameRef<'_>) -> bool {
        self.as_name().is_prefix_of(other)
    }

    /// Appends a component.
    pub fn push(&mut self, component: Component<'_>) -> &mut Self {
        let mut w = Writer::from_vec(core::mem::take(&mut self.value));
        component.encode(&mut w);
        self.value = w.into_vec();
        self
    }

    /// Returns the name with `component` appended.
    pub fn join(&self, component: Component<'_>) -> Name {
        let mut name = self.clone();
        name.push(component);
        name
    }

    /// Returns the name with a GenericNameComponent appended.
    pub fn join_generic(&self, value: impl AsRef<[u8]>) -> Name {
        self.join(Component::generic(value.as_ref()))
    }

    /// Returns the name with a component of TYPE `typ` and number `n` appended.
    pub fn join_number(&self, typ: u16, n: u64) -> Name {
        let octets = n.to_be_bytes();
        self.join(Component { typ, value: &octets[8 - tlv::nni_octets(n)..] })
    }

    /// Returns the name with a SegmentNameComponent appended.
    pub fn join_segment(&self, segment: u64) -> Name {
        self.join_number(SEGMENT_COMPONENT, segment)
    }

    /// Returns the name with a VersionNameComponent appended.
    pub fn join_version(&self, version: u64) -> Name {
        self.join_number(VERSION_COMPONENT, version)
    }

    /// Returns the name followed by all components of `suffix`.
    pub fn join_name(&self, suffix: NameRef<'_>) -> Name {
        let mut value = self.value.clone();
        value.extend_from_slice(suffix.value);
        Name { value }
    }
}

impl From<NameRef<'_>> for Name {
    fn from(name: NameRef<'_>) -> Name {
        name.to_name()
    }
}

impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An integer that is not in its shortest form is another component, so it is printed as
        // octets.
        if let Some((marker, _)) = NUMBERED.iter().find(|(_, typ)| *typ == self.typ)
            && let Ok(n) = tlv::decode_nni(self.value)
            && tlv::nni_octets(n) == self.value.len()
        {
            return write!(f, "{marker}={n}");
        }
        match self.typ {
            IMPLICIT_DIGEST_COMPONENT => write_hex(f, "sha256digest=", self.value),
            PARAMETERS_DIGEST_COMPONENT => write_hex(f, "params-sha256=", self.value),
            GENERIC_COMPONENT => write_escaped(f, self.value),
            typ => {
                write!(f, "{typ}=")?;
                write_escaped(f, self.value)
            }
        }
    }
}

const NUMBERED: [(&str, u16); 5] = [
    ("seg", SEGMENT_COMPONENT),
    ("off", BYTE_OFFSET_COMPONENT),
    ("v", VERSION_COMPONENT),
    ("t", TIMESTAMP_COMPONENT),
    ("seq", SEQUENCE_NUM_COMPONENT),
];

fn write_hex(f: &mut fmt::Formatter<'_>, marker: &str, octets: &[u8]) -> fmt::Result {
    f.write_str(marker)?;
    octets.iter().try_for_each(|b| write!(f, "{b:02x}"))
}

fn write_escaped(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    if octets.iter().all(|b| *b == b'.') {
        f.write_str("...")?;
    }
    for b in octets {
        if b.is_ascii_alphanumeric() || b"-._~".contains(b) {
            write!(f, "{}", char::from(*b))?;
        } else {
            write!(f, "%{b:02X}")?;
        }
    }
    Ok(())
}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("/");
        }
        self.components().try_for_each(|c| write!(f, "/{c}"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

impl fmt::Debug for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Name {
    type Err = DecodeError;

    /// Parses a name URI: `/a/b`, `ndn:/a/b` or `ndn:///a/b`. Text without the first slash is not a
    /// name: it may be a file, a keyword, or the authority of a URI (RFC 3986, 3.2).
    fn from_str(uri: &str) -> Result<Self, DecodeError> {
        let path = match uri.strip_prefix("ndn:") {
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            None => uri,
        };
        let path = path.strip_prefix('/').ok_or(DecodeError::NoSlash)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut name = Name::new();
        if path.is_empty() {
            return Ok(name);
        }
        for (i, part) in path.split('/').enumerate() {
            if i >= COMPONENTS_MAX {
                return Err(DecodeError::TooManyComponents);
            }
            push_part(&mut name, part)?;
        }
        Ok(name)
    }
}

/// Parses one component of a URI and appends it.
fn push_part(name: &mut Name, part: &str) -> Result<(), DecodeError> {
    let Some((marker, value)) = part.split_once('=') else {
        name.push(Component::generic(&unescape(part)?));
        return Ok(());
    };
    if let Some((_, typ)) = NUMBERED.iter().find(|(m, _)| *m == marker) {
        let n = decimal(value).ok_or(DecodeError::BadUri)?;
        *name = name.join_number(*typ, n);
        return Ok(());
    }
    let (typ, octets) = match marker {
        "sha256digest" => (IMPLICIT_DIGEST_COMPONENT, unhex(value)?),
        "params-sha256" => (PARAMETERS_DIGEST_COMPONENT, unhex(value)?),
        _ => {
            let typ = decimal(marker).filter(|_| !marker.starts_with('0'));
            let typ = typ.and_then(|t| u16::try_from(t).ok()).ok_or(DecodeError::BadUri)?;
            (typ, unescape(value)?)
        }
    };
    if typ <= PARAMETERS_DIGEST_COMPONENT && octets.len() != 32 {
        return Err(DecodeError::BadDigestLength);
    }
    name.push(Component { typ, value: &octets });
    Ok(())
}

/// Digits only: `str::parse` would accept a sign.
fn decimal(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn unescape(text: &str) -> Result<Vec<u8>, DecodeError> {
    let mut octets = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        match b {
            b'%' => {
                let (Some(high), Some(low)) = (bytes.next().and_then(hex), bytes.next().and_then(hex)) else {
                    return Err(DecodeError::BadUri);
                };
                octets.push(high << 4 | low);
            }
            _ => octets.push(b),
        }
    }
    if octets.iter().all(|b| *b == b'.') {
        // The URI form adds three periods to a component that consists only of periods. A part with
        // fewer than three is not a component.
        let kept = octets.len().checked_sub(3).ok_or(DecodeError::BadUri)?;
        octets.truncate(kept);
    }
    Ok(octets)
}

fn hex(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).map(|d| d as u8)
}

fn unhex(text: &str) -> Result<Vec<u8>, DecodeError> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return Err(DecodeError::BadUri);
    }
    bytes
        .chunks(2)
        .map(|pair| Some(hex(pair[0])? << 4 | hex(pair[1])?))
        .collect::<Option<_>>()
        .ok_or(DecodeError::BadUri)
}
