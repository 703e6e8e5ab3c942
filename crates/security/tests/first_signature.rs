//! The cost of a process's first signature, in a process of its own that has set up nothing.

use std::process::Command;

use namely_security::{KeyType, PrivateKey, Signer, sign_data, sign_interest};
use namely_testkit::eventually;
use namely_wire::{DataBuilder, InterestBuilder, Name};
use rustix::time::{ClockId, clock_gettime};

/// Maximum processor time of the first signatures. The first use of the cryptography library's own
/// generator would take ten times as long, because it measures the processor's jitter.
const CPU_NS_MAX: i64 = 5_000_000;

/// An Ed25519 key from RFC 8410, section 10.3: to make a key would use the generator.
const KEY: &str =
    "302e020100300506032b657004220420d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842";

/// Set in the process that measures.
const VARIABLE: &str = "NAMELY_TEST_FIRST_SIGNATURE";

/// This test runs itself in further processes. Beside busy processes one measurement may be long,
/// but with the generator each one is.
#[test]
fn first_signatures_need_no_random_generator() {
    if std::env::var_os(VARIABLE).is_some() {
        return measure();
    }
    eventually("the first signatures take little processor time", || {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "first_signature::first_signatures_need_no_random_generator"])
            .env(VARIABLE, "")
            .output()
            .unwrap();
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed")
    });
}

fn measure() {
    let name: Name = "/example/command".parse().unwrap();
    let der: Vec<u8> =
        (0..KEY.len() / 2).map(|i| u8::from_str_radix(&KEY[2 * i..2 * i + 2], 16).unwrap()).collect();
    let started = clock_gettime(ClockId::ThreadCPUTime);
    let key = PrivateKey::from_pkcs8(&der).unwrap();
    assert_eq!(key.key_type(), KeyType::Ed25519);
    for signer in [Signer::digest_sha256(), Signer::new("/example/KEY/1".parse().unwrap(), key.into())] {
        sign_interest(&InterestBuilder::new(name.clone()), &[], &signer, 1).unwrap();
        sign_data(&DataBuilder::new(name.as_name()), b"content", &signer).unwrap();
    }
    let ended = clock_gettime(ClockId::ThreadCPUTime);
    let cpu_ns = (ended.tv_sec - started.tv_sec) * 1_000_000_000 + ended.tv_nsec - started.tv_nsec;
    assert!(cpu_ns < CPU_NS_MAX, "{cpu_ns} ns");
}
