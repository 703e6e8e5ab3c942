//! `namely.h` is generated from the sources by cbindgen: building the library needs no generator,
//! and the header cannot differ from it.

use std::path::Path;

#[test]
fn the_header_matches_the_sources() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).expect("its configuration");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(crate_dir.join("src/types.rs"))
        .with_src(crate_dir.join("src/abi.rs"))
        .generate()
        .expect("a header");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).expect("the header is text");
    let header = crate_dir.join("namely.h");
    if std::env::var_os("NAMELY_RENEW").is_some() {
        std::fs::write(&header, &made).expect("namely.h is written");
    }
    let kept = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        kept == made,
        "namely.h differs from the sources: `NAMELY_RENEW=1 cargo test -p namely-c --test integration header::` writes it"
    );
}
