//! Single packets and certificates, exchanged as files: one side signs, the other verifies.

use std::path::Path;
use std::sync::Arc;

use namely_interop::{Peer, SIGNATURE_TYPES, World};
use namely_security::{
    Certificate, HmacKey, KeyType, PrivateKey, Signer, TrustPolicy, Verdict, Verifier, read_certificate,
    sign_data, validity,
};
use namely_testkit::{Need, name, or_skip};
use namely_wire::{DataBuilder, DataView, key_name_of_locator};

const SECRET: [u8; 16] = *b"0123456789abcdef";

/// A moment in the tests' certificates' validity.
fn now_ns() -> u64 {
    namely_host::clock::unix_ns()
}

fn secret_hex() -> String {
    SECRET.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Returns true if namely believes `wire` under the policy that fits its kind of signature.
fn namely_believes(kind: &str, wire: Vec<u8>, certificate: &Path) -> bool {
    let mut policy = match kind {
        "digest" => TrustPolicy::digest_only(),
        "null" => TrustPolicy::insecure_accept_all(),
        _ => TrustPolicy::hierarchical(),
    };
    if kind == "hmac" {
        let view = DataView::parse(&wire).expect("a Data");
        let locator = view.signature_info().expect("a SignatureInfo").key_name().expect("a KeyLocator name");
        let key_name = key_name_of_locator(locator).expect("the name of a key");
        policy.add_shared_key(key_name.to_name(), HmacKey::new(&SECRET));
    } else if certificate.exists() {
        policy.add_anchor(read_certificate(certificate).expect("a certificate"));
    }
    matches!(Verifier::new(policy).verify(wire, now_ns()), Verdict::Verified(_))
}

fn namely_verifies_what_it_signs(peer: &Peer) {
    let world = World::new();
    for (kind, number) in SIGNATURE_TYPES {
        let (data, certificate) = (world.path(&format!("{kind}.data")), world.path(&format!("{kind}.cert")));
        let args = ["sign", "--sign", kind, "--identity", "/alice", "--hmac-key", &secret_hex()];
        let files = ["--write-data", text(&data), "--write-certificate", text(&certificate), "/alice/data"];
        peer.run(&world, &[&args[..], &files].concat()).success();
        let wire = std::fs::read(&data).expect("the signed Data");
        let view = DataView::parse(&wire).expect("a Data");
        assert_eq!(
            (view.name.to_string(), view.signature_type.number()),
            ("/alice/data".to_owned(), number),
            "{kind}"
        );
        assert!(namely_believes(kind, wire.clone(), &certificate), "{kind}");
        if kind != "null" {
            let mut forged = wire;
            *forged.last_mut().expect("it is not empty") ^= 1;
            assert!(!namely_believes(kind, forged, &certificate), "{kind} with a wrong signature");
        }
    }
}

/// A signer of `kind`, and the path of its certificate if it has one.
fn namely_signer(world: &World, kind: &str) -> (Signer, Option<std::path::PathBuf>) {
    let key_name = name("/alice/KEY/%01%02");
    let key_type = match kind {
        "digest" => return (Signer::digest_sha256(), None),
        "null" => return (Signer::null(), None),
        "hmac" => return (Signer::hmac(key_name, HmacKey::new(&SECRET)), None),
        "rsa" => KeyType::Rsa,
        "ecdsa" => KeyType::EcdsaP256,
        _ => KeyType::Ed25519,
    };
    let key = Arc::new(PrivateKey::generate(key_type).expect("a key"));
    let certificate = Certificate::self_signed(key_name.as_name(), &key, validity::days_from(now_ns(), 1), 1);
    let path = world.path(&format!("namely-{kind}.cert"));
    std::fs::write(&path, certificate.expect("a certificate").to_base64()).expect("a file");
    (Signer::new(key_name, key), Some(path))
}

fn it_verifies_what_namely_signs(peer: &Peer) {
    let world = World::new();
    let data = world.path("data");
    for (kind, number) in SIGNATURE_TYPES {
        let (signer, certificate) = namely_signer(&world, kind);
        let named = name("/alice/data");
        let wire =
            sign_data(&DataBuilder::new(named.as_name()), b"signed by namely", &signer).expect("a Data");
        let secret = secret_hex();
        let mut args = vec!["check", "--hmac-key", &secret, text(&data)];
        if kind == "null" {
            args.push("--accept-unsigned");
        }
        args.extend(certificate.iter().flat_map(|path| ["--certificate", text(path)]));
        std::fs::write(&data, &wire).expect("a file");
        let checked = peer.run(&world, &args).success().event("checked");
        assert_eq!(
            (checked["good"].as_bool(), checked["octets"].as_u64()),
            (Some(true), Some(16)),
            "{kind}: {checked}"
        );
        assert_eq!(checked["signature_types"][number.to_string()], 1, "{kind}: {checked}");
        if kind != "null" {
            let mut forged = wire;
            let content =
                forged.windows(6).position(|w| w == b"namely").expect("the content is in the packet");
            forged[content] ^= 1;
            std::fs::write(&data, &forged).expect("a file");
            assert_eq!(peer.run(&world, &args).success().event("checked")["good"], false, "{kind}, changed");
        }
    }
}

/// namely requests a certificate that the peer issues; then the peer requests one that namely
/// issues. Each signs with the issued certificate's key, and the other believes it by the issuer
/// alone.
fn certificates_are_issued_across(peer: &Peer) {
    for kind in ["rsa", "ecdsa", "ed25519"] {
        let world = World::new();
        let request = world.namely_key("/lab/alice", kind);
        let (issued, issuer) = (world.path("issued.cert"), world.path("issuer.cert"));
        let args = ["issue", "--sign", kind, "--identity", "/lab", "--write-certificate", text(&issuer)];
        peer.run(&world, &[&args[..], &["--out", text(&issued), text(&request)]].concat()).success();
        world.namely(["cert", "import", text(&issued)]).success();
        let imported = read_certificate(&issued).expect("a certificate");
        let mut policy = TrustPolicy::hierarchical();
        policy.add_anchor(read_certificate(&issuer).expect("a certificate"));
        let verdict = Verifier::new(policy).verify(imported.wire(), now_ns());
        assert!(matches!(verdict, Verdict::Verified(_)), "{kind}: {verdict:?}");

        let namely_issuer = world.namely_key("/lab", kind);
        let theirs = world.path("theirs.cert");
        let args = ["sign", "--sign", kind, "--identity", "/lab/bob", "--write-certificate", text(&theirs)];
        peer.run(&world, &[&args[..], &["--write-data", text(&world.path("x")), "/lab/bob/x"]].concat())
            .success();
        let signed = world.namely(["cert", "issue", text(&theirs), "--key", "/lab"]).success();
        let issued = world.path("issued-by-namely.cert");
        std::fs::write(&issued, signed.lines.join("\n")).expect("a file");
        let checked = peer.run(&world, &["check", "--certificate", text(&namely_issuer), text(&issued)]);
        let checked = checked.success().event("checked");
        assert_eq!(checked["good"], true, "{kind}: {checked}");
        assert!(
            checked["name"].as_str().is_some_and(|n| n.starts_with("/lab/bob/KEY/")),
            "{kind}: {checked}"
        );
    }
}

#[test]
fn namely_verifies_all_python_ndn_signatures() {
    let Some(peer) = or_skip(Need::Python, Peer::python_ndn()) else { return };
    namely_verifies_what_it_signs(&peer);
}

#[test]
fn namely_verifies_all_ndnts_signatures() {
    let Some(peer) = or_skip(Need::Node, Peer::ndnts()) else { return };
    namely_verifies_what_it_signs(&peer);
}

#[test]
fn python_ndn_verifies_all_namely_signatures() {
    let Some(peer) = or_skip(Need::Python, Peer::python_ndn()) else { return };
    it_verifies_what_namely_signs(&peer);
}

#[test]
fn ndnts_verifies_all_namely_signatures() {
    let Some(peer) = or_skip(Need::Node, Peer::ndnts()) else { return };
    it_verifies_what_namely_signs(&peer);
}

#[test]
fn python_ndn_and_namely_issue_certificates_mutually() {
    let Some(peer) = or_skip(Need::Python, Peer::python_ndn()) else { return };
    certificates_are_issued_across(&peer);
}

#[test]
fn ndnts_and_namely_issue_certificates_mutually() {
    let Some(peer) = or_skip(Need::Node, Peer::ndnts()) else { return };
    certificates_are_issued_across(&peer);
}

#[test]
fn safe_bags_exchange_keys_with_python_ndn() {
    let Some(peer) = or_skip(Need::Python, Peer::python_ndn()) else { return };
    for kind in ["rsa", "ecdsa", "ed25519"] {
        let world = World::new();
        let bag = world.path("theirs.safebag");
        let args =
            ["export-safe-bag", "--sign", kind, "--identity", "/bob", "--passphrase", World::PASSPHRASE];
        let exported =
            peer.run(&world, &[&args[..], &["--out", text(&bag)]].concat()).success().event("exported");
        world.namely(["cert", "import", "--private", text(&bag)]).success();
        let listed = world.namely(["key", "list"]).success().values();
        assert_eq!((listed.len(), listed[0]["type"].as_str()), (1, Some(kind)), "{listed:?}");
        let key = listed[0]["key"].as_str().expect("a key's name");
        assert!(
            exported["name"].as_str().is_some_and(|name| name.starts_with(key)),
            "{exported} is not of {key}"
        );

        let bag = world.path("ours.safebag");
        world.namely(["cert", "export", "/bob", "--private", "-o", text(&bag)]).success();
        let args = ["import-safe-bag", "--passphrase", World::PASSPHRASE, text(&bag)];
        let imported = peer.run(&world, &args).success().event("imported");
        assert_eq!(imported["name"], exported["name"], "{kind}");
    }
}
