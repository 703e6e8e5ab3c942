//! The decoders and checks of `namely-security` for octets from peers and from files.

use std::sync::{Arc, OnceLock};

use namely_security::{
    Certificate, CertificateError, CertificateFileError, CommandTime, CommandVerifier, HmacKey, Manifest,
    PrivateKey, TrustPolicy, Verdict, Verifier,
};
use namely_wire::{DataView, InterestView, Name, ValidityPeriod};

/// The time of verification of every input, ns since the Unix epoch.
pub(crate) const NOW_NS: u64 = 1_750_000_000 * 1_000_000_000;

/// A published Ed25519 key in PKCS#8, for tests only.
const KEY_PKCS8: [u8; 48] =
    *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20a key that everyone knows: tests";

/// The key that signed the seeds.
pub(crate) fn key() -> Arc<PrivateKey> {
    static KEY: OnceLock<Arc<PrivateKey>> = OnceLock::new();
    Arc::clone(KEY.get_or_init(|| Arc::new(PrivateKey::from_pkcs8(&KEY_PKCS8).expect("a well-formed key"))))
}

/// The name of [`key`].
pub(crate) fn key_name() -> Name {
    Name::new().join_generic("a").join_generic("KEY").join_generic("1")
}

/// The certificate of [`key`], valid at [`NOW_NS`]. It is always the same, because Ed25519
/// signatures are deterministic.
pub(crate) fn anchor() -> Certificate {
    let validity = ValidityPeriod { not_before_s: 1_700_000_000, not_after_s: 1_800_000_000 };
    Certificate::self_signed(key_name().as_name(), &key(), validity, 1).expect("a well-formed key name")
}

fn policy() -> TrustPolicy {
    static POLICY: OnceLock<TrustPolicy> = OnceLock::new();
    POLICY
        .get_or_init(|| {
            let mut policy = TrustPolicy::hierarchical();
            policy.add_anchor(anchor());
            policy.add_shared_key("/h/KEY/1".parse().expect("a name"), HmacKey::new(b"shared"));
            policy
        })
        .clone()
}

/// Data, Interests and certificates from a stranger under a policy with one anchor. Verified octets
/// must have a signature by the anchor's key or by the shared key. A fuzzer has neither key, so
/// only the signatures of the seeds pass.
pub(crate) fn verifier(octets: &[u8]) {
    let mut verifier = Verifier::new(policy());
    let _ = verifier.supply(octets);
    if let Verdict::Verified(data) = verifier.verify(octets, NOW_NS) {
        let view = DataView::parse(octets).expect("what is verified is a Data");
        assert!(is_signed(view.signed_portion, view.signature_value), "{:?}", data.reason());
    }
    if let Ok(interest) = InterestView::parse(octets) {
        let mut commands = commands();
        if commands.verify(&interest, now()).is_ok() {
            assert!(commands.verify(&interest, now()).is_err(), "a command is accepted once");
        }
    }
}

/// A verifier of commands that has run for an hour.
fn commands() -> CommandVerifier {
    CommandVerifier::new(policy(), CommandTime::new(0, now_ms() - HOUR_MS))
}

fn now() -> CommandTime {
    CommandTime::new(HOUR_MS * 1_000_000, now_ms())
}

fn now_ms() -> u64 {
    NOW_NS / 1_000_000
}

const HOUR_MS: u64 = 3_600_000;

/// Returns true if `value` is a signature over `portion` by one of the keys of the policy.
fn is_signed(portion: &[u8], value: &[u8]) -> bool {
    key().public().verify(&[portion], value) || HmacKey::new(b"shared").verify(&[portion], value)
}

/// Files: certificates in each form, trust policies, manifests.
pub(crate) fn files(octets: &[u8]) {
    if let Ok(certificate) = Certificate::from_file_octets(octets) {
        for text in [certificate.to_pem(), certificate.to_base64()] {
            let again = Certificate::from_file_octets(text.as_bytes());
            assert_eq!(
                again.map(|c| c.wire().to_vec()),
                Ok::<_, CertificateError>(certificate.wire().to_vec())
            );
        }
    }
    let object = crate::seeds::object();
    if let Ok(manifest) = Manifest::decode(octets, object.as_name(), 1) {
        assert_eq!(manifest.encode(object.as_name()), octets, "a manifest is written in one way only");
    }
    if let Ok(text) = std::str::from_utf8(octets) {
        let _ = TrustPolicy::from_toml(text, |path| {
            Err(CertificateFileError::Content(path.to_owned(), CertificateError::NotText))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::seeds;

    #[test]
    fn only_seeds_of_known_keys_verify() {
        let mut believed = Vec::new();
        for seed in seeds().into_iter().filter(|s| s.target == "verifier") {
            let data = Verifier::new(policy()).verify(&seed.octets[..], NOW_NS);
            let command = InterestView::parse(&seed.octets)
                .is_ok_and(|interest| commands().verify(&interest, now()).is_ok());
            if command || matches!(data, Verdict::Verified(_)) {
                believed.push(seed.name);
            }
        }
        assert_eq!(believed, ["signed", "shared-key", "certificate", "command"]);
    }
}
