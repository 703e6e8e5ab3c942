//! Tests in which OpenSSL's command and namely check each other's keys and signatures. They are
//! skipped if the command is missing.

use std::path::Path;
use std::process::Command;

use namely_security::{
    KeyType, Passphrase, PrivateKey, encrypt_pkcs8, private_key_from_pem, private_key_to_pem,
};
use namely_testkit::{Need, skip};

const KINDS: [KeyType; 3] = [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa];
const MESSAGE: &[u8] = b"the octets that are signed";

/// Runs openssl in `folder`; returns its output, or `None` without openssl.
fn openssl(folder: &Path, arguments: &str) -> Option<String> {
    let mut command = Command::new("openssl");
    let output = match command.args(arguments.split_whitespace()).current_dir(folder).output() {
        Ok(output) => output,
        Err(e) => {
            skip(Need::Openssl, format_args!("openssl does not run here ({e})"));
            return None;
        }
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments}: {error}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The parameters of `openssl` to sign or verify with a key of this kind.
fn pkeyutl(kind: KeyType) -> &'static str {
    match kind {
        KeyType::Ed25519 => "pkeyutl -rawin",
        KeyType::EcdsaP256 | KeyType::Rsa => "pkeyutl -rawin -digest sha256",
    }
}

#[test]
fn openssl_and_namely_verify_each_others_signatures() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = |file: &str| folder.path().join(file);
        let key = PrivateKey::generate(kind).unwrap();
        std::fs::write(path("message"), MESSAGE).unwrap();
        std::fs::write(path("public.der"), key.public().spki()).unwrap();
        std::fs::write(path("private.pem"), private_key_to_pem(&key, None).unwrap().as_bytes()).unwrap();
        std::fs::write(path("signature"), key.sign(&[MESSAGE]).unwrap()).unwrap();
        let verify = "-verify -pubin -inkey public.der -keyform DER -in message -sigfile signature";
        let Some(output) = openssl(folder.path(), &format!("{} {verify}", pkeyutl(kind))) else { return };
        assert!(output.contains("Verified Successfully"), "{kind}: {output}");

        let sign = "-sign -inkey private.pem -in message -out theirs";
        openssl(folder.path(), &format!("{} {sign}", pkeyutl(kind))).unwrap();
        assert!(key.public().verify(&[MESSAGE], &std::fs::read(path("theirs")).unwrap()), "{kind}");
    }
}

#[test]
fn openssl_keys_are_parsed() {
    for (kind, parameters) in [
        (KeyType::Ed25519, "-algorithm ED25519"),
        (KeyType::EcdsaP256, "-algorithm EC -pkeyopt ec_paramgen_curve:P-256"),
        (KeyType::Rsa, "-algorithm RSA -pkeyopt rsa_keygen_bits:2048"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        if openssl(folder.path(), &format!("genpkey {parameters} -out private.pem")).is_none() {
            return;
        }
        let text = std::fs::read_to_string(folder.path().join("private.pem")).unwrap();
        let key = private_key_from_pem(&text, None).unwrap();
        assert_eq!(key.key_type(), kind);
        openssl(folder.path(), "pkey -in private.pem -pubout -outform DER -out public.der").unwrap();
        assert_eq!(std::fs::read(folder.path().join("public.der")).unwrap(), key.public().spki());
    }
}

#[test]
fn openssl_and_namely_decrypt_each_others_keys() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = |file: &str| folder.path().join(file);
        let (key, passphrase) = (PrivateKey::generate(kind).unwrap(), Passphrase::new("hunter2"));
        let plain = key.to_pkcs8().unwrap();
        std::fs::write(path("encrypted.der"), encrypt_pkcs8(&plain, &passphrase).unwrap()).unwrap();
        let decrypt =
            "pkey -in encrypted.der -inform DER -passin pass:hunter2 -pubout -outform DER -out public.der";
        if openssl(folder.path(), decrypt).is_none() {
            return;
        }
        assert_eq!(std::fs::read(path("public.der")).unwrap(), key.public().spki(), "{kind}");

        let encrypt = "pkcs8 -topk8 -inform DER -in encrypted.der -passin pass:hunter2 -passout pass:other \
                       -v2 aes-256-cbc -out theirs.pem";
        openssl(folder.path(), encrypt).unwrap();
        let theirs = std::fs::read_to_string(path("theirs.pem")).unwrap();
        let back = private_key_from_pem(&theirs, Some(&Passphrase::new("other"))).unwrap();
        assert_eq!(back.public(), key.public(), "{kind}");
    }
}
