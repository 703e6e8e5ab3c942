//! Tests that exchange certificates and SafeBags with `ndnsec` (ndn-cxx). They are skipped if the
//! command is missing.

use std::path::Path;
use std::process::Command;

use namely_security::{Certificate, KeyChain, KeyType, NewKey, Passphrase, validity};
use namely_testkit::{Need, skip};
use namely_wire::Name;

/// Runs ndnsec with a home of its own; returns its output, or `None` without ndnsec.
fn ndnsec(home: &Path, arguments: &[&str]) -> Option<String> {
    let output = match Command::new("ndnsec").args(arguments).env("HOME", home).output() {
        Ok(output) => output,
        Err(e) => {
            skip(
                Need::Peers,
                format_args!("ndnsec does not run here ({e}); put it on PATH to run this test"),
            );
            return None;
        }
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ndnsec {arguments:?}: {error}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn generate(key_chain: &KeyChain, identity: &str, key_type: KeyType) -> Certificate {
    let identity: Name = identity.parse().unwrap();
    let period = validity::days_from(1_700_000_000_000_000_000, 36_500);
    let new =
        NewKey { identity: identity.as_name(), key_type, validity: period, version: 1, passphrase: None };
    key_chain.generate(&new).unwrap().certificates[0].clone()
}

#[test]
fn ndnsec_imports_namely_safe_bags() {
    let passphrase = Passphrase::new("hunter2");
    // ndnsec 0.9 knows no Ed25519.
    for key_type in [KeyType::EcdsaP256, KeyType::Rsa] {
        let home = tempfile::tempdir().unwrap();
        let key_chain = KeyChain::in_memory();
        let certificate = generate(&key_chain, "/namely/exported", key_type);
        let bag = key_chain.export_safe_bag(None, None, &passphrase).unwrap();
        let file = home.path().join("bag");
        std::fs::write(&file, bag.to_base64()).unwrap();
        let import = ["import", "-P", "hunter2", &file.display().to_string()];
        if ndnsec(home.path(), &import).is_none() {
            return;
        }
        let dumped = ndnsec(home.path(), &["cert-dump", "-i", "/namely/exported"]).unwrap();
        assert_eq!(Certificate::from_file_octets(dumped.as_bytes()).unwrap(), certificate);
    }
}

#[test]
fn namely_imports_ndnsec_safe_bags() {
    for kind in ["e", "r"] {
        let home = tempfile::tempdir().unwrap();
        if ndnsec(home.path(), &["key-gen", "-t", kind, "/ndnsec/made"]).is_none() {
            return;
        }
        let bag = ndnsec(home.path(), &["export", "-P", "hunter2", "/ndnsec/made"]).unwrap();
        let key_chain = KeyChain::in_memory();
        let certificate =
            key_chain.import_safe_bag(bag.as_bytes(), &Passphrase::new("hunter2"), None).unwrap();
        let dumped = ndnsec(home.path(), &["cert-dump", "-i", "/ndnsec/made"]).unwrap();
        assert_eq!(certificate.to_base64(), dumped);
    }
}
