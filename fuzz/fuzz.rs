//! One program with the fuzzers of all targets: NAMELY_FUZZ_TARGET names the target to run.
#![no_main]

use std::sync::LazyLock;

use namely_fuzz_targets::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("NAMELY_FUZZ_TARGET").expect("NAMELY_FUZZ_TARGET names a target");
    *TARGETS.iter().find(|target| target.name == name).expect("a name from TARGETS")
});

libfuzzer_sys::fuzz_target!(|octets: &[u8]| (TARGET.run)(octets));
