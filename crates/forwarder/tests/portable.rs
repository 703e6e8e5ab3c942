//! The crates that a kernel can host use no floats: this test searches their sources. A build for
//! targets without `std` and without 64-bit atomics proves that they need neither (`no_std` in
//! `.ci/run`).
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 4] = ["wire", "forwarder", "link", "discovery"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// Returns true if a line of code contains the type or a literal of a float.
fn has_float(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    // Quoted text is not code.
    let code: String = code.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let words = code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .into_iter()
        .any(|word| word == "f32" || word == "f64" || word.ends_with("_f32") || word.ends_with("_f64"))
}

fn all_sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    CRATES.iter().for_each(|name| sources(&crates.join(name).join("src"), &mut found));
    assert!(found.len() > 50, "the sources are where they are looked for");
    found
}

#[test]
fn there_are_no_floats() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        let line = text.lines().position(has_float);
        assert_eq!(line, None, "{}: a float, in the line after this many", path.display());
    }
}

/// Only one module of a crate depends on the atomics of the processor.
#[test]
fn atomics_are_named_only_in_sync() {
    let (sync, others): (Vec<_>, Vec<_>) = all_sources().into_iter().partition(|path| {
        path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("sync"))
    });
    let names_atomics =
        |line: &str| line.split("//").next().is_some_and(|code| code.contains("sync::atomic"));
    let of = |path: &PathBuf| fs::read_to_string(path).unwrap().lines().position(names_atomics);
    assert!(sync.iter().any(|path| of(path).is_some()), "the modules are where they are looked for");
    for path in others {
        assert_eq!(of(&path), None, "{}: an atomic, in the line after this many", path.display());
    }
}

#[test]
fn a_float_is_recognized() {
    for line in ["let x: f64 = 1;", "fn f(x: &[f32])", "x as f64", "2_f32", "use core::f64::consts::PI;"] {
        assert!(has_float(line), "{line}");
    }
    for line in ["// an f64", "let text = \"f64\";", "let leaf64 = 1;", "0xf64"] {
        assert!(!has_float(line), "{line}");
    }
}
