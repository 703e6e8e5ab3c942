use namely_testkit::name;
use namely_wire::{DataBuilder, SignatureInfo};

use super::*;
use crate::crypto::KeyType;
use crate::validity::{self, days_from};

fn root() -> (Arc<PrivateKey>, Certificate) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let certificate =
        Certificate::self_signed(name("/p/KEY/k").as_name(), &key, days_from(0, 10), 7).unwrap();
    (key, certificate)
}

#[test]
fn a_self_signed_certificate_has_its_inputs() {
    let (key, certificate) = root();
    assert_eq!(certificate.name(), name("/p/KEY/k/self/v=7").as_name());
    assert_eq!(certificate.key_name(), name("/p/KEY/k").as_name());
    assert_eq!(certificate.identity(), name("/p").as_name());
    assert_eq!(certificate.signer_name(), Some(name("/p/KEY/k").as_name()));
    assert_eq!(certificate.validity(), days_from(0, 10));
    assert_eq!(certificate.public_key(), key.public());
    assert!(certificate.is_self_signed());
    assert_eq!(Certificate::parse(certificate.wire()), Ok(certificate));
}

#[test]
fn an_issued_certificate_names_its_issuer() {
    let (key, issuer) = root();
    let owner = PrivateKey::generate(KeyType::EcdsaP256).unwrap();
    let signer = Signer::new(issuer.name().to_name(), key);
    let key_name = name("/p/site/KEY/s");
    let issued =
        Certificate::issue(key_name.as_name(), owner.public(), &signer, "root", validity::ALWAYS, 1).unwrap();
    assert_eq!(issued.name(), name("/p/site/KEY/s/root/v=1").as_name());
    assert_eq!(issued.signer_name(), Some(issuer.name()));
    assert!(!issued.is_self_signed());
    for bad in ["/p/site", "/p/KEY", "/p/KEY/k/self/v=1", "/"] {
        let outcome =
            Certificate::issue(name(bad).as_name(), owner.public(), &signer, "root", validity::ALWAYS, 1);
        assert_eq!(outcome, Err(CertificateError::BadName(name(bad))));
    }
}

#[test]
fn a_certificate_matches_only_its_key_names() {
    let (_, certificate) = root();
    for (locator, answers) in [
        ("/p/KEY/k", true),
        ("/p/KEY/k/self", true),
        ("/p/KEY/k/self/v=7", true),
        ("/p/KEY/k/self/v=8", false),
        ("/p/KEY/k/self/v=7/x", false),
        ("/p/KEY/other", false),
        ("/p/KEY", false),
        ("/p", false),
        ("/", false),
    ] {
        assert_eq!(certificate.answers_to(name(locator).as_name()), answers, "{locator}");
    }
}

#[test]
fn key_ids_are_eight_random_octets() {
    let identity = name("/p");
    let (a, b) = (new_key_name(identity.as_name()).unwrap(), new_key_name(identity.as_name()).unwrap());
    assert_ne!(a, b);
    assert_eq!(a.as_name().last().map(|id| id.value.len()), Some(KEY_ID_OCTETS));
    assert_eq!(identity_of(a.as_name()), identity.as_name());
}

#[test]
fn invalid_certificates_are_refused_with_a_reason() {
    let (key, certificate) = root();
    let spki = key.public().spki().to_vec();
    let info = |validity| SignatureInfo {
        validity,
        ..SignatureInfo::new(SignatureType::Ed25519, Some(name("/p/KEY/k")))
    };
    let make = |uri: &str, content_type, content: &[u8], info: &SignatureInfo| {
        let name = name(uri);
        let builder = DataBuilder::new(name.as_name()).content_type(content_type);
        Certificate::parse(&builder.build(content, info).finish(&[0; 64]))
    };
    let valid = Some(validity::ALWAYS.encode());
    let good = "/p/KEY/k/self/v=7";
    assert!(make(good, ContentType::Key, &spki, &info(valid)).is_ok());
    for (outcome, error) in [
        (make(good, ContentType::Blob, &spki, &info(valid)), CertificateError::NotAKey(0)),
        (make("/p/k", ContentType::Key, &spki, &info(valid)), CertificateError::BadName(name("/p/k"))),
        (make(good, ContentType::Key, &spki, &info(None)), CertificateError::NoValidity),
        (
            make(good, ContentType::Key, b"junk", &info(valid)),
            CertificateError::Key(CryptoError::BadPublicKey),
        ),
        (
            make(good, ContentType::Key, &spki, &info(Some((*b"20230229T000000", *b"20230301T000000")))),
            CertificateError::Encoding(DecodeError::BadText),
        ),
        (Certificate::parse(&[0; 9000]), CertificateError::TooLarge(9000)),
        (
            Certificate::parse(&certificate.wire()[1..]),
            CertificateError::Encoding(DecodeError::UnexpectedType(253)),
        ),
    ] {
        match (outcome, error) {
            (Err(CertificateError::Encoding(_)), CertificateError::Encoding(_)) => {}
            (outcome, error) => assert_eq!(outcome, Err(error)),
        }
    }
}

#[test]
fn a_certificate_file_has_three_formats() {
    let (_, certificate) = root();
    let pem = certificate.to_pem();
    let with_headers = pem.replacen("-----\n", "-----\nName: /p/KEY/k/self/v=7\nSigType: Ed25519\n\n", 1);
    for octets in [
        certificate.wire(),
        certificate.to_base64().as_bytes(),
        pem.as_bytes(),
        with_headers.as_bytes(),
        format!("explanatory text\n{pem}more").as_bytes(),
        certificate.to_base64().replace('\n', "\r\n").as_bytes(),
    ] {
        assert_eq!(Certificate::from_file_octets(octets), Ok(certificate.clone()));
    }
    assert!(certificate.to_base64().lines().all(|line| line.len() <= 64));
    let cut = pem.replace("-----END", "");
    for octets in [&b""[..], b"\n", b"not base64!", b"\xff\xfe", cut.as_bytes()] {
        assert_eq!(Certificate::from_file_octets(octets), Err(CertificateError::NotText));
    }
}

#[test]
fn ndnsec_certificates_are_parsed_and_verified() {
    let files = [
        (include_str!("../../tests/data/ndnsec-ecdsa.ndncert"), KeyType::EcdsaP256),
        (include_str!("../../tests/data/ndnsec-rsa.ndncert"), KeyType::Rsa),
    ];
    for (text, key_type) in files {
        let certificate = Certificate::from_file_octets(text.as_bytes()).unwrap();
        assert_eq!(certificate.public_key().key_type(), key_type);
        assert!(certificate.is_self_signed());
        assert_eq!(certificate.to_base64(), text);
        let data = DataView::parse(certificate.wire()).unwrap();
        assert!(certificate.public_key().verify(&[data.signed_portion], data.signature_value));
        assert!(!certificate.public_key().verify(&[&data.signed_portion[1..]], data.signature_value));
    }
}

#[test]
fn an_oversized_certificate_file_is_refused() {
    use crate::text::{CERTIFICATE_FILE_OCTETS_MAX, read_certificate};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.ndncert");
    let (_, certificate) = root();
    let mut text = certificate.to_base64();
    text.push_str(&" ".repeat(CERTIFICATE_FILE_OCTETS_MAX as usize - text.len()));
    std::fs::write(&path, &text).unwrap();
    assert_eq!(read_certificate(&path).unwrap(), certificate);
    text.push(' ');
    std::fs::write(&path, &text).unwrap();
    let message = read_certificate(&path).unwrap_err().to_string();
    assert!(message.contains("c.ndncert") && message.contains("larger than"), "{message}");
}

#[test]
fn arbitrary_octets_never_panic_certificate_parsers() {
    use proptest::prelude::*;
    let (_, certificate) = root();
    let wire = certificate.wire().to_vec();
    let edits = proptest::collection::vec((0..wire.len(), any::<u8>()), 1..8);
    proptest!(ProptestConfig::with_cases(64), |(edits in edits, junk in proptest::collection::vec(any::<u8>(), 0..200))| {
        let mut edited = wire.clone();
        edits.iter().for_each(|(at, octet)| edited[*at] = *octet);
        let _ = Certificate::parse(&edited);
        let _ = Certificate::from_file_octets(&junk);
        let _ = PublicKey::from_spki(&junk);
        let _ = PrivateKey::from_pkcs8(&junk);
    });
}
