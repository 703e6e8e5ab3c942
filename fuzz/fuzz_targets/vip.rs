#![no_main]
libfuzzer_sys::fuzz_target!(|octets: &[u8]| namely_fuzz_targets::run("vip", octets));
