//! Packets of a measurement, written from templates. An Interest is a copy of its template, with
//! the number and the Nonce filled in. A Data is the requested name before a constant tail.

use std::ops::Range;

use namely_security::CryptoError;
use namely_wire::tlv::{Writer, tlv_octets};
use namely_wire::types::*;
use namely_wire::{Component, InterestBuilder, InterestView, Name, NameRef};

use super::signing::Signing;

/// Octets of the number that ends a name.
const NUMBER_OCTETS: usize = 8;

/// FreshnessPeriod of generated Data, ms. It is long, so that caches that honor it answer the names
/// of `--cached`.
const FRESHNESS_MS: u64 = 60_000;

/// The Interests of one flow. They differ in the number at the end of the name, and in the Nonce.
#[derive(Clone, Debug)]
pub(super) struct InterestTemplate {
    wire: Vec<u8>,
    /// Range of the name's components in `wire`.
    name: Range<usize>,
    nonce_at: usize,
}

impl InterestTemplate {
    /// Creates a template for the names `<base>/<8 octets>`; `None` if the names are too long for a
    /// packet.
    pub(super) fn new(base: &Name, lifetime_ms: u64) -> Option<Self> {
        let name = base.join(Component::generic(&[0; NUMBER_OCTETS]));
        let wire = InterestBuilder::new(name.clone()).nonce([0; 4]).lifetime_ms(lifetime_ms).build();
        let end = InterestView::parse(&wire).ok()?.name_end;
        // Nonce follows the name: its TYPE and LENGTH take two octets.
        Some(InterestTemplate { name: end - name.as_bytes().len()..end, nonce_at: end + 2, wire })
    }

    /// Returns the octets of each Interest.
    pub(super) fn octets(&self) -> usize {
        self.wire.len()
    }

    /// Appends the Interest with this number.
    pub(super) fn write(&self, number: u64, nonce: [u8; 4], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.wire);
        let number_at = start + self.name.end - NUMBER_OCTETS;
        out[number_at..number_at + NUMBER_OCTETS].copy_from_slice(&number.to_be_bytes());
        let nonce_at = start + self.nonce_at;
        out[nonce_at..nonce_at + nonce.len()].copy_from_slice(&nonce);
    }

    /// Returns the number at the end of `name`, if the name is of this template.
    pub(super) fn number(&self, name: NameRef<'_>) -> Option<u64> {
        let base = &self.wire[self.name.start..self.name.end - NUMBER_OCTETS];
        let rest = name.as_bytes().strip_prefix(base)?;
        Some(u64::from_be_bytes(rest.try_into().ok()?))
    }
}

/// The Data of one server. They differ in the name and, if the signature covers the name, in the
/// signature.
#[derive(Clone, Debug)]
pub(super) struct DataTemplate {
    /// MetaInfo, Content and SignatureInfo.
    tail: Vec<u8>,
    signing: Signing,
}

impl DataTemplate {
    /// Creates a template with `payload` as content.
    pub(super) fn new(payload: &[u8], signing: Signing) -> Self {
        let mut w = Writer::with_capacity(payload.len() + 128);
        w.nested(META_INFO, |w| {
            w.nni(FRESHNESS_PERIOD, FRESHNESS_MS);
        });
        w.tlv(CONTENT, payload);
        signing.info().encode(SIGNATURE_INFO, &mut w);
        DataTemplate { tail: w.into_vec(), signing }
    }

    fn value_octets(&self, name: NameRef<'_>) -> usize {
        let signature = tlv_octets(SIGNATURE_VALUE, self.signing.value_octets());
        name.encoded_octets() + self.tail.len() + signature
    }

    /// Returns the octets of the Data with this name.
    pub(super) fn octets(&self, name: NameRef<'_>) -> usize {
        tlv_octets(DATA, self.value_octets(name))
    }

    /// Appends the Data with this name.
    pub(super) fn write(&self, name: NameRef<'_>, out: &mut Vec<u8>) -> Result<(), CryptoError> {
        let mut w = Writer::from_vec(std::mem::take(out));
        w.header(DATA, self.value_octets(name));
        let signed_from = w.len();
        name.encode(&mut w);
        w.raw(&self.tail);
        *out = w.into_vec();
        self.signing.append_value(signed_from, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::perf::signing::{Checker, SignWith};
    use namely_wire::DataView;

    fn base() -> Name {
        "/perf/0/x".parse().unwrap()
    }

    #[test]
    fn the_interest_template_matches_the_builder() {
        let template = InterestTemplate::new(&base(), 4000).unwrap();
        let mut out = b"before".to_vec();
        template.write(0x0102_0304_0506_0708, [9, 8, 7, 6], &mut out);
        let name = base().join_generic([1, 2, 3, 4, 5, 6, 7, 8]);
        let built = InterestBuilder::new(name.clone()).nonce([9, 8, 7, 6]).lifetime_ms(4000).build();
        assert_eq!(out[6..], built);
        assert_eq!(template.octets(), built.len());
        assert_eq!(template.number(name.as_name()), Some(0x0102_0304_0506_0708));
        assert_eq!(template.number(base().as_name()), None);
        assert_eq!(template.number(name.join_generic("y").as_name()), None);
    }

    #[test]
    fn data_verify_under_every_signature_type() {
        let name = base().join_generic([7; 8]);
        for payload in [0, 1, 253, 8000] {
            for sign in [SignWith::Null, SignWith::Sha256, SignWith::Ed25519, SignWith::Hmac] {
                let content = super::super::signing::payload(payload);
                let template = DataTemplate::new(&content, sign.signing().unwrap());
                let mut out = b"before".to_vec();
                template.write(name.as_name(), &mut out).unwrap();
                assert_eq!(out.len() - 6, template.octets(name.as_name()), "{sign:?} {payload}");
                let data = DataView::parse(&out[6..]).unwrap();
                assert_eq!((data.name, data.content), (name.as_name(), &content[..]));
                assert!(Checker::new().unwrap().is_right(&data), "{sign:?} {payload}");
            }
        }
    }

    #[test]
    fn every_signature_detects_a_changed_octet() {
        let name = base().join_generic([7; 8]);
        for sign in [SignWith::Null, SignWith::Sha256, SignWith::Ed25519, SignWith::Hmac] {
            let content = super::super::signing::payload(100);
            let mut out = Vec::new();
            DataTemplate::new(&content, sign.signing().unwrap()).write(name.as_name(), &mut out).unwrap();
            let at = out.len() - 100;
            out[at] ^= 1;
            let data = DataView::parse(&out).unwrap();
            assert!(!Checker::new().unwrap().is_right(&data), "{sign:?}");
        }
    }
}
