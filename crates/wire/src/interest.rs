//! Interest (packet spec, `interest.rst`): a checked view and a builder.

use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::name::{Name, NameRef};
use crate::signature::{SignatureInfo, SignatureInfoView};
use crate::tlv::{self, Reader, Writer};
use crate::types::*;

/// InterestLifetime when the element is absent, in ms.
pub(crate) const LIFETIME_MS_DEFAULT: u64 = 4000;

/// A checked view of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterestView<'a> {
    /// The whole packet.
    pub wire: &'a [u8],
    /// Name, with at least one component.
    pub name: NameRef<'a>,
    /// Offset in `wire` of the octet after the Name TLV, at which a missing Nonce may be inserted.
    pub name_end: usize,
    /// CanBePrefix.
    pub can_be_prefix: bool,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// ForwardingHint's VALUE: one or more Name TLVs, checked. See
    /// [`InterestView::forwarding_hint`].
    pub forwarding_hint_value: Option<&'a [u8]>,
    /// Nonce.
    pub nonce: Option<[u8; 4]>,
    /// InterestLifetime as sent, ms.
    pub lifetime_ms: Option<u64>,
    /// HopLimit.
    pub hop_limit: Option<u8>,
    /// Offset in `wire` of HopLimit's one octet.
    pub hop_limit_offset: usize,
    /// ApplicationParameters' VALUE.
    pub application_parameters: Option<&'a [u8]>,
    /// Octets that the parameters digest covers: from ApplicationParameters to the end.
    pub parameters_portion: &'a [u8],
    /// InterestSignatureInfo's VALUE; see [`InterestView::signature_info`].
    pub signature_info_value: Option<&'a [u8]>,
    /// InterestSignatureValue's VALUE.
    pub signature_value: Option<&'a [u8]>,
    /// The second part of the signed portion: from ApplicationParameters up to
    /// InterestSignatureValue.
    pub signed_parameters: &'a [u8],
}

impl<'a> InterestView<'a> {
    /// Checks `wire` as exactly one Interest.
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly one well-formed Interest.
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let outer = tlv::read_exactly(wire, INTEREST)?;
        let header = wire.len() - outer.value.len();
        let mut reader = outer.children();
        let name = NameRef::parse_value(reader.require(NAME)?.value)?;
        if name.is_empty() {
            return Err(DecodeError::EmptyName);
        }
        let mut view = InterestView {
            wire,
            name,
            name_end: header + reader.position(),
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint_value: None,
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
            hop_limit_offset: 0,
            application_parameters: None,
            parameters_portion: &[],
            signature_info_value: None,
            signature_value: None,
            signed_parameters: &[],
        };
        view.parse_elements(header, reader)?;
        if view.application_parameters.is_some() && !name.components().any(|c| c.is_parameters_digest()) {
            return Err(DecodeError::MissingParametersDigest);
        }
        Ok(view)
    }

    fn parse_elements(&mut self, header: usize, mut reader: Reader<'a>) -> Result<(), DecodeError> {
        let mut last_position = 0;
        let mut parameters_start = None;
        loop {
            let start = header + reader.position();
            let Some(tlv) = reader.next_tlv()? else { break };
            let position = position(tlv.typ);
            if position <= last_position {
                tlv::ignore_unknown(tlv.typ)?;
                continue;
            }
            last_position = position;
            match tlv.typ {
                CAN_BE_PREFIX => self.can_be_prefix = tlv.is_flag()?,
                MUST_BE_FRESH => self.must_be_fresh = tlv.is_flag()?,
                FORWARDING_HINT => {
                    check_names(tlv.value)?;
                    self.forwarding_hint_value = Some(tlv.value);
                }
                NONCE => self.nonce = Some(tlv.value.try_into().map_err(|_| DecodeError::BadLength(NONCE))?),
                INTEREST_LIFETIME => self.lifetime_ms = Some(tlv.nni()?),
                HOP_LIMIT => {
                    let [limit] = *tlv.value else { return Err(DecodeError::BadLength(HOP_LIMIT)) };
                    self.hop_limit = Some(limit);
                    self.hop_limit_offset = start + tlv.raw.len() - 1;
                }
                APPLICATION_PARAMETERS => {
                    self.application_parameters = Some(tlv.value);
                    self.parameters_portion = &self.wire[start..];
                    self.signed_parameters = self.parameters_portion;
                    parameters_start = Some(start);
                }
                INTEREST_SIGNATURE_INFO => self.signature_info_value = Some(tlv.value),
                _ => {
                    self.signature_value = Some(tlv.value);
                    self.signed_parameters = &self.wire[parameters_start.unwrap_or(start)..start];
                }
            }
        }
        Ok(())
    }

    /// Returns the names of the forwarding hint, in order.
    pub fn forwarding_hint(&self) -> impl Iterator<Item = NameRef<'a>> + use<'a> {
        names(self.forwarding_hint_value.unwrap_or(&[]))
    }

    /// Returns InterestLifetime in ms, or the default.
    pub fn lifetime_or_default_ms(&self) -> u64 {
        self.lifetime_ms.unwrap_or(LIFETIME_MS_DEFAULT)
    }

    /// Returns InterestSignatureInfo, if the Interest is signed.
    ///
    /// # Errors
    /// [`DecodeError`]: the element is malformed.
    pub fn signature_info(&self) -> Result<Option<SignatureInfoView<'a>>, DecodeError> {
        self.signature_info_value.map(SignatureInfoView::parse_value).transpose()
    }

    /// Returns the implicit digest at the end of the name, if there is one.
    pub fn implicit_digest(&self) -> Option<&'a [u8]> {
        self.name.last().filter(|c| c.is_implicit_digest()).map(|c| c.value)
    }

    /// Returns the parameters digest in the name, if there is one.
    pub fn parameters_digest(&self) -> Option<&'a [u8]> {
        self.name.components().find(|c| c.is_parameters_digest()).map(|c| c.value)
    }

    /// Returns the first part of the signed portion: the name's components before the parameters
    /// digest.
    pub fn signed_name(&self) -> &'a [u8] {
        let n = self.name.components().take_while(|c| !c.is_parameters_digest()).count();
        self.name.prefix(n).as_bytes()
    }
}

/// Returns the position of an element among those after Name, counted from 1; 0 for others.
#[inline]
fn position(typ: u32) -> usize {
    match typ {
        CAN_BE_PREFIX => 1,
        MUST_BE_FRESH => 2,
        FORWARDING_HINT => 3,
        NONCE => 4,
        INTEREST_LIFETIME => 5,
        HOP_LIMIT => 6,
        APPLICATION_PARAMETERS => 7,
        INTEREST_SIGNATURE_INFO => 8,
        INTEREST_SIGNATURE_VALUE => 9,
        _ => 0,
    }
}

fn check_names(value: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(value);
    let mut count = 0;
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.typ == NAME {
            NameRef::parse_value(tlv.value)?;
            count += 1;
        } else {
            tlv::ignore_unknown(tlv.typ)?;
        }
    }
    if count == 0 { Err(DecodeError::Missing(NAME)) } else { Ok(()) }
}

fn names(value: &[u8]) -> impl Iterator<Item = NameRef<'_>> {
    let mut reader = Reader::new(value);
    core::iter::from_fn(move || {
        loop {
            let tlv = reader.next_tlv().ok()??;
            if tlv.typ == NAME {
                return NameRef::parse_value(tlv.value).ok();
            }
        }
    })
}

/// Builds an Interest.
///
/// ```
/// use namely_wire::{InterestBuilder, InterestView, Name};
/// let name: Name = "/a/b".parse().unwrap();
/// let builder = InterestBuilder::new(name).can_be_prefix().must_be_fresh();
/// let wire = builder.nonce([1, 2, 3, 4]).build();
/// assert_eq!(InterestView::parse(&wire).unwrap().nonce, Some([1, 2, 3, 4]));
/// ```
#[derive(Clone, Debug)]
pub struct InterestBuilder {
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: Vec<Name>,
    nonce: Option<[u8; 4]>,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
}

impl InterestBuilder {
    /// Creates a builder for an Interest for `name`.
    pub fn new(name: Name) -> Self {
        InterestBuilder {
            name,
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: Vec::new(),
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
        }
    }

    /// Sets CanBePrefix: Data with a longer name may answer.
    pub fn can_be_prefix(mut self) -> Self {
        self.can_be_prefix = true;
        self
    }

    /// Sets MustBeFresh: stale Data may not answer.
    pub fn must_be_fresh(mut self) -> Self {
        self.must_be_fresh = true;
        self
    }

    /// Adds a name to the forwarding hint.
    pub fn forwarding_hint(mut self, name: Name) -> Self {
        self.forwarding_hint.push(name);
        self
    }

    /// Sets Nonce.
    pub fn nonce(mut self, nonce: [u8; 4]) -> Self {
        self.nonce = Some(nonce);
        self
    }

    /// Sets InterestLifetime, ms.
    pub fn lifetime_ms(mut self, lifetime_ms: u64) -> Self {
        self.lifetime_ms = Some(lifetime_ms);
        self
    }

    /// Sets HopLimit.
    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = Some(hop_limit);
        self
    }

    /// Builds the Interest.
    pub fn build(&self) -> Vec<u8> {
        self.encode(self.name.as_name(), &[])
    }

    /// Builds an Interest with parameters. `digest` is SHA-256 and receives the octets to hash.
    pub fn build_with_parameters(
        &self,
        parameters: &[u8],
        digest: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Vec<u8> {
        let mut w = Writer::new();
        w.tlv(APPLICATION_PARAMETERS, parameters);
        let digest = digest(w.as_bytes());
        self.encode(self.name_with_digest(&digest).as_name(), w.as_bytes())
    }

    /// Builds a signed Interest (packet spec, `signed-interest.rst`). `sign` receives the two parts
    /// of the signed portion in order (name components, then parameters and signature info) and
    /// returns the signature value; `digest` is SHA-256.
    ///
    /// # Errors
    /// The error of `sign`.
    pub fn build_signed<E>(
        &self,
        parameters: &[u8],
        info: &SignatureInfo,
        sign: impl FnOnce(&[&[u8]]) -> Result<Vec<u8>, E>,
        digest: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<Vec<u8>, E> {
        let mut w = Writer::new();
        w.tlv(APPLICATION_PARAMETERS, parameters);
        info.encode(INTEREST_SIGNATURE_INFO, &mut w);
        let value = sign(&[self.undigested_name().as_bytes(), w.as_bytes()])?;
        w.tlv(INTEREST_SIGNATURE_VALUE, &value);
        let digest = digest(w.as_bytes());
        Ok(self.encode(self.name_with_digest(&digest).as_name(), w.as_bytes()))
    }

    fn undigested_name(&self) -> Name {
        let mut name = Name::new();
        self.name.components().filter(|c| !c.is_parameters_digest()).for_each(|c| {
            name.push(c);
        });
        name
    }

    fn name_with_digest(&self, digest: &[u8; 32]) -> Name {
        self.undigested_name().join(crate::Component { typ: PARAMETERS_DIGEST_COMPONENT, value: digest })
    }

    fn encode(&self, name: NameRef<'_>, parameters: &[u8]) -> Vec<u8> {
        let mut w = Writer::with_capacity(name.encoded_octets() + parameters.len() + 40);
        w.nested(INTEREST, |w| {
            name.encode(w);
            if self.can_be_prefix {
                w.tlv(CAN_BE_PREFIX, &[]);
            }
            if self.must_be_fresh {
                w.tlv(MUST_BE_FRESH, &[]);
            }
            if !self.forwarding_hint.is_empty() {
                w.nested(FORWARDING_HINT, |w| {
                    self.forwarding_hint.iter().for_each(|n| n.as_name().encode(w))
                });
            }
            if let Some(nonce) = &self.nonce {
                w.tlv(NONCE, nonce);
            }
            if let Some(lifetime_ms) = self.lifetime_ms {
                w.nni(INTEREST_LIFETIME, lifetime_ms);
            }
            if let Some(hop_limit) = self.hop_limit {
                w.tlv(HOP_LIMIT, &[hop_limit]);
            }
            w.raw(parameters);
        });
        w.into_vec()
    }
}
