//! `packaging/bom` lists the linked packages: every package with code in the program `namely` is in
//! the bill of materials, with a license that deny.toml allows.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::packages::{deny, is_satisfied};
use super::{list, root, text};

/// The packages of a registry, as `name-version`, whose source paths occur in a program. Panic
/// messages and debug information contain these paths.
fn named_in(program: &[u8]) -> BTreeSet<String> {
    let mark = b"/registry/src/";
    let starts = program.windows(mark.len()).enumerate().filter(|(_, window)| window == mark);
    let package = |start: usize| {
        let path = &program[start + mark.len()..];
        let mut parts = path.split(|octet| *octet == b'/' || !octet.is_ascii_graphic());
        let (_registry, package) = (parts.next()?, parts.next()?);
        let package = std::str::from_utf8(package).ok()?;
        package.contains('-').then(|| package.to_owned())
    };
    starts.filter_map(|(start, _)| package(start)).collect()
}

#[test]
fn the_bill_of_materials_is_complete() {
    let into = tempfile::tempdir().expect("a folder");
    let mut bom = Command::new(root().join("packaging/bom"));
    let output = bom.arg(into.path()).output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = std::fs::read_to_string(into.path().join("sbom.cdx.json")).expect("UTF-8");
    let bom: Value = serde_json::from_str(&file).expect("JSON");
    assert_eq!((text(&bom, "bomFormat"), text(&bom, "specVersion")), ("CycloneDX", "1.5"));
    let report = std::fs::read_to_string(into.path().join("licences.txt")).expect("UTF-8");
    let allowed = deny().licenses.allow;
    let mut listed = BTreeMap::new();
    for component in list(&bom, "components") {
        let id = format!("{}-{}", text(component, "name"), text(component, "version"));
        let licence = text(&list(component, "licenses")[0], "expression");
        assert!(is_satisfied(licence, &allowed, &mut BTreeSet::new()), "{id} is under {licence}");
        let is_ours = id.starts_with("namely-") || id.starts_with("std-");
        if !is_ours {
            let sum = text(&list(component, "hashes")[0], "content");
            assert_eq!(sum.len(), 64, "{id}: the sum of Cargo.lock");
            let purl = format!("pkg:cargo/{}@{}", text(component, "name"), text(component, "version"));
            assert_eq!(text(component, "purl"), purl);
        }
        assert!(report.lines().any(|line| line.starts_with(text(component, "name"))), "{id} is reported");
        listed.insert(id, is_ours);
    }
    let linked = named_in(&std::fs::read(env!("CARGO_BIN_EXE_namely")).expect("the program"));
    assert!(linked.len() > 20 && linked.iter().any(|id| id.starts_with("clap_builder-")), "{linked:?}");
    let missing: Vec<_> = linked.iter().filter(|id| !listed.contains_key(*id)).collect();
    assert!(missing.is_empty(), "linked, and not in the bill of materials: {missing:?}");
    let texts = report.lines().filter(|line| line.starts_with("==== ") && line.ends_with(" ===="));
    assert!(texts.count() > 50, "the report has the licences' texts");
}
