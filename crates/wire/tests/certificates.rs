//! Certificates and SafeBags: encodings are compared with octets written by hand, names are split
//! into their parts, and malformed packets are refused.

use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{
    CertificateName, CertificateView, Component, ContentType, DataBuilder, DecodeError, Name, SafeBagView,
    SignatureInfo, SignatureType, ValidityPeriod, build_certificate, encode_safe_bag, key_name,
    key_name_of_locator,
};

const VALIDITY: ValidityPeriod = ValidityPeriod { not_before_s: 1_700_000_000, not_after_s: 1_800_000_000 };

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn certificate(signer: SignatureInfo) -> Vec<u8> {
    let key = key_name(name("/a/b").as_name(), Component::generic(b"k1"));
    build_certificate(key.as_name(), Component::generic(b"self"), 7, b"public key", &VALIDITY, signer)
        .finish(b"signature")
}

fn self_signer() -> SignatureInfo {
    SignatureInfo::new(SignatureType::Ed25519, Some(name("/a/b/KEY/k1")))
}

#[test]
fn a_certificate_matches_the_specification() {
    let mut expected = Writer::new();
    expected.nested(6, |w| {
        w.nested(7, |w| {
            w.tlv(8, b"a").tlv(8, b"b").tlv(8, b"KEY").tlv(8, b"k1").tlv(8, b"self").tlv(54, &[7]);
        });
        w.tlv(20, &[24, 1, 2, 25, 4, 0x00, 0x36, 0xee, 0x80]);
        w.tlv(21, b"public key");
        w.nested(22, |w| {
            w.tlv(27, &[5]);
            w.nested(28, |w| {
                w.nested(7, |w| {
                    w.tlv(8, b"a").tlv(8, b"b").tlv(8, b"KEY").tlv(8, b"k1");
                });
            });
            // A TYPE of 253 or more takes three octets: 253 is encoded as fd 00 fd.
            w.raw(&[0xfd, 0x00, 0xfd, 38]);
            w.raw(&[0xfd, 0x00, 0xfe, 15]).raw(b"20231114T221320");
            w.raw(&[0xfd, 0x00, 0xff, 15]).raw(b"20270115T080000");
        });
        w.tlv(23, b"signature");
    });
    assert_eq!(certificate(self_signer()), expected.into_vec());
}

#[test]
fn a_certificate_view_gives_the_parts() {
    let wire = certificate(self_signer());
    let view = CertificateView::parse(&wire).unwrap();
    assert_eq!(view.name.name(), name("/a/b/KEY/k1/self/v=7").as_name());
    assert_eq!(view.name.identity(), name("/a/b").as_name());
    assert_eq!(view.name.key_name(), name("/a/b/KEY/k1").as_name());
    assert_eq!(view.name.key_id(), Component::generic(b"k1"));
    assert_eq!(view.name.issuer_id(), Component::generic(b"self"));
    assert_eq!(view.name.version(), Some(7));
    assert_eq!(view.public_key_der(), b"public key");
    assert_eq!(view.validity, VALIDITY);
    assert_eq!(view.descriptions(), Ok(vec![]));
    assert!(view.is_self_signed());
}

#[test]
fn another_signer_means_not_self_signed() {
    for (locator, self_signed) in [
        ("/a/b/KEY/k1", true),
        ("/a/b/KEY/k1/self", true),
        ("/a/b/KEY/k1/self/v=7", true),
        ("/a/b/KEY/k2", false),
        ("/a/KEY/k1", false),
        ("/a/b", false),
    ] {
        let wire = certificate(SignatureInfo::new(SignatureType::Ed25519, Some(name(locator))));
        assert_eq!(CertificateView::parse(&wire).unwrap().is_self_signed(), self_signed, "{locator}");
    }
    let wire = certificate(SignatureInfo::digest_sha256());
    assert!(!CertificateView::parse(&wire).unwrap().is_self_signed());
}

#[test]
fn a_locator_names_key_or_certificate() {
    let key_of = |uri: &str| key_name_of_locator(name(uri).as_name()).map(|n| n.to_string());
    assert_eq!(key_of("/a/KEY/k"), Ok("/a/KEY/k".into()));
    assert_eq!(key_of("/a/KEY/k/issuer/v=1"), Ok("/a/KEY/k".into()));
    assert_eq!(key_of("/KEY/k"), Ok("/KEY/k".into()));
    // If an identity contains KEY, too, the last KEY component separates identity and key.
    assert_eq!(key_of("/a/KEY/b/KEY/k"), Ok("/a/KEY/b/KEY/k".into()));
    assert_eq!(key_of("/a/b"), Err(DecodeError::BadName));
    assert_eq!(key_of("/a/32=KEY/k"), Err(DecodeError::BadName));
    assert_eq!(key_of("/"), Err(DecodeError::BadName));
}

#[test]
fn descriptions_survive_a_round_trip() {
    let descriptions = vec![("fullname".into(), "Ada Löve".into()), ("group".into(), String::new())];
    let wire = certificate(SignatureInfo { descriptions: descriptions.clone(), ..self_signer() });
    assert_eq!(CertificateView::parse(&wire).unwrap().descriptions(), Ok(descriptions));
}

#[test]
fn non_certificates_are_refused() {
    let info = SignatureInfo { validity: Some(VALIDITY.encode()), ..self_signer() };
    let build = |uri: &str, content_type, info: &SignatureInfo| {
        DataBuilder::new(name(uri).as_name()).content_type(content_type).build(b"", info).finish(b"")
    };
    let refused = |wire: &[u8]| CertificateView::parse(wire).unwrap_err();
    assert_eq!(refused(&build("/KEY/k/i", ContentType::Key, &info)), DecodeError::BadName);
    assert_eq!(refused(&build("/a/key/k/i/v=1", ContentType::Key, &info)), DecodeError::BadName);
    assert_eq!(refused(&build("/KEY/k/i/v=1", ContentType::Blob, &info)), DecodeError::OutOfRange(24));
    assert_eq!(refused(&build("/KEY/k/i/v=1", ContentType::Key, &self_signer())), DecodeError::Missing(253));
    let bad = SignatureInfo { validity: Some((*b"20230229T000000", *b"20240101T000000")), ..info.clone() };
    assert_eq!(refused(&build("/KEY/k/i/v=1", ContentType::Key, &bad)), DecodeError::BadText);
    assert!(CertificateView::parse(&build("/KEY/k/i/v=1", ContentType::Key, &info)).is_ok());
}

#[test]
fn an_old_version_component_is_accepted() {
    let old = name("/a/KEY/k/i/%FD%00%00%01");
    let parsed = CertificateName::parse(old.as_name()).unwrap();
    assert_eq!(parsed.version(), None);
    assert_eq!(parsed.identity(), name("/a").as_name());
}

#[test]
fn a_safe_bag_holds_certificate_and_key() {
    let certificate = certificate(self_signer());
    let bag = encode_safe_bag(&certificate, b"secret");
    assert_eq!(bag[0], 128);
    assert_eq!(bag[bag.len() - 8..], [129, 6, b's', b'e', b'c', b'r', b'e', b't']);
    let view = SafeBagView::parse(&bag).unwrap();
    assert_eq!(view.certificate.data.wire, certificate);
    assert_eq!(view.encrypted_key, b"secret");
    for length in 0..bag.len() {
        assert!(SafeBagView::parse(&bag[..length]).is_err());
    }
    let mut keyless = Writer::new();
    keyless.tlv(SAFE_BAG, &certificate);
    assert_eq!(SafeBagView::parse(keyless.as_bytes()), Err(DecodeError::Missing(129)));
}
