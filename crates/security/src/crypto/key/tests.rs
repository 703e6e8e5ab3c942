use super::*;
use crate::crypto::{Passphrase, decrypt_pkcs8, encrypt_pkcs8};

const KINDS: [KeyType; 3] = [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa];

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// The key of an Ed25519 seed. In PKCS#8, the octets before the seed are the same for every key
/// (RFC 8410).
fn ed25519(seed: &str) -> PrivateKey {
    let mut der = unhex("302e020100300506032b657004220420");
    der.extend(unhex(seed));
    PrivateKey::from_pkcs8(&der).unwrap()
}

#[test]
fn ed25519_agrees_with_rfc_8032() {
    for (seed, public, message, signature) in [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd\
             25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594\
             a7c15e9716ed28dc027beceea1ec40a",
        ),
    ] {
        let key = ed25519(seed);
        let (message, signature) = (unhex(message), unhex(signature));
        assert!(key.public().spki().ends_with(&unhex(public)));
        assert_eq!(key.sign(&[&message]), Ok(signature.clone()));
        assert!(key.public().verify(&[&message], &signature));
    }
}

/// RFC 6979, A.2.5: P-256 with SHA-256, message "sample".
#[test]
fn ecdsa_verifies_the_example_of_rfc_6979() {
    let spki = unhex(
        "3059301306072a8648ce3d020106082a8648ce3d03010703420004\
         60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6\
         7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299",
    );
    let signature = unhex(
        "3046022100efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716\
         022100f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
    );
    let key = PublicKey::from_spki(&spki).unwrap();
    assert!(key.verify(&[b"sample"], &signature));
    assert!(!key.verify(&[b"Sample"], &signature));
}

#[test]
fn every_key_type_verifies_only_its_signatures() {
    for kind in KINDS {
        let (key, other) = (PrivateKey::generate(kind).unwrap(), PrivateKey::generate(kind).unwrap());
        let signature = key.sign(&[b"mess", b"age"]).unwrap();
        assert!(key.public().verify(&[b"message"], &signature), "{kind}");
        assert!(!key.public().verify(&[b"massage"], &signature), "{kind}");
        assert!(!other.public().verify(&[b"message"], &signature), "{kind}");
        for i in 0..signature.len() {
            let mut tampered = signature.clone();
            tampered[i] ^= 0x10;
            assert!(!key.public().verify(&[b"message"], &tampered), "{kind}, octet {i}");
        }
        for length in [0, 1, signature.len() - 1] {
            assert!(!key.public().verify(&[b"message"], &signature[..length]), "{kind}, {length} octets");
        }
    }
}

#[test]
fn every_key_type_survives_pkcs8() {
    let passphrase = Passphrase::new("pass");
    for kind in KINDS {
        let key = PrivateKey::generate(kind).unwrap();
        let plain = key.to_pkcs8().unwrap();
        assert_eq!(PrivateKey::from_pkcs8(&plain).unwrap().public(), key.public());
        let encrypted = encrypt_pkcs8(&plain, &passphrase).unwrap();
        assert!(!encrypted.windows(16).any(|w| plain.windows(16).any(|p| p == w)), "{kind}");
        assert_eq!(decrypt_pkcs8(&encrypted, &passphrase).unwrap(), plain);
        assert_eq!(decrypt_pkcs8(&encrypted, &Passphrase::new("Pass")), Err(CryptoError::WrongPassphrase));
    }
}

#[test]
fn unsupported_key_types_are_refused() {
    // SubjectPublicKeyInfo headers of X25519 and of ECDSA on P-384.
    let x25519 = unhex(&format!("302a300506032b656e032100{}", "11".repeat(32)));
    assert_eq!(PublicKey::from_spki(&x25519), Err(CryptoError::UnsupportedKey));
    let p384 = unhex(&format!("3076301006072a8648ce3d020106052b8104002203620004{}", "11".repeat(96)));
    assert_eq!(PublicKey::from_spki(&p384), Err(CryptoError::UnsupportedKey));
}

#[test]
fn malformed_public_keys_are_refused() {
    let spki = PrivateKey::generate(KeyType::EcdsaP256).unwrap().public().spki().to_vec();
    assert_eq!(PublicKey::from_spki(&[]), Err(CryptoError::BadPublicKey));
    for length in 1..spki.len() {
        assert!(PublicKey::from_spki(&spki[..length]).is_err(), "{length} octets");
    }
    let mut off_curve = spki;
    let last = off_curve.len() - 1;
    off_curve[last] ^= 1;
    assert_eq!(PublicKey::from_spki(&off_curve), Err(CryptoError::BadPublicKey));
}

/// The SubjectPublicKeyInfo of an RSA key with a modulus of `octets` octets.
fn rsa_spki(octets: usize) -> Vec<u8> {
    let der = |tag: u8, value: &[u8]| {
        let mut tlv = vec![tag, 0x82];
        tlv.extend_from_slice(&(value.len() as u16).to_be_bytes());
        tlv.extend_from_slice(value);
        tlv
    };
    let mut modulus = vec![0x00];
    modulus.extend(std::iter::repeat_n(0xc3, octets));
    let key = der(0x30, &[der(0x02, &modulus), vec![0x02, 3, 1, 0, 1]].concat());
    let algorithm = unhex("300d06092a864886f70d0101010500");
    der(0x30, &[algorithm, der(0x03, &[vec![0], key].concat())].concat())
}

#[test]
fn rsa_keys_have_from_2048_to_4096_bits() {
    for (octets, accepted) in [
        (RSA_MODULUS_OCTETS_MIN - 1, false),
        (RSA_MODULUS_OCTETS_MIN, true),
        (RSA_MODULUS_OCTETS_MAX, true),
        (RSA_MODULUS_OCTETS_MAX + 1, false),
    ] {
        let outcome = PublicKey::from_spki(&rsa_spki(octets)).map(|_| ());
        assert_eq!(outcome, if accepted { Ok(()) } else { Err(CryptoError::RsaSize) }, "{octets} octets");
    }
}

#[test]
fn a_private_key_never_prints_its_secret() {
    let key = ed25519("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    assert_eq!(format!("{key:?}"), "PrivateKey(Ed25519)");
    assert!(format!("{:?}", key.public()).starts_with("PublicKey(Ed25519, "));
}
