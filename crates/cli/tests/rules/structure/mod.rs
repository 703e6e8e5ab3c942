//! The structure of the code: which files import one another, and how large types and parameter
//! lists are.

mod modules;
mod rings;
mod shapes;

use std::collections::BTreeMap;
use std::path::Path;

use self::modules::Modules;
use super::{list, metadata, text};

/// Maximum number of files that may import one another.
const RING_FILES_MAX: usize = 5;

/// The largest ring of each crate that has one: its files, each with those that it imports.
fn largest_rings() -> BTreeMap<String, Vec<String>> {
    let mut largest = BTreeMap::new();
    for package in list(&metadata(), "packages") {
        for target in list(package, "targets") {
            let kind = list(target, "kind").first().and_then(|kind| kind.as_str()).unwrap_or_default();
            if ["test", "example", "bench", "custom-build"].contains(&kind) {
                continue;
            }
            let file = Path::new(text(target, "src_path"));
            let modules = Modules::read(file);
            let imports = modules.imports();
            let Some(ring) = rings::rings(&imports).into_iter().next() else { continue };
            let name = format!("{} {}", text(package, "name"), text(target, "name"));
            let short = |file: &Path| {
                let below =
                    file.strip_prefix(file.ancestors().find(|above| above.ends_with("src")).unwrap_or(file));
                below.unwrap_or(file).display().to_string()
            };
            let line = |file: &&Path| {
                let others = imports[*file].iter().filter(|other| ring.contains(other));
                let others: Vec<String> = others.map(|other| short(other)).collect();
                format!("{} imports {}", short(file), others.join(", "))
            };
            largest.insert(name, ring.iter().map(line).collect());
        }
    }
    largest
}

#[test]
fn few_files_import_one_another() {
    let rings = largest_rings();
    let too_large = rings.iter().filter(|(_, files)| files.len() > RING_FILES_MAX);
    let lines: Vec<String> = too_large
        .map(|(name, files)| {
            format!("{name}: {} files import one another:\n  {}", files.len(), files.join("\n  "))
        })
        .collect();
    assert!(
        lines.is_empty(),
        "move what they share into a file that imports none of them:\n{}",
        lines.join("\n")
    );
}
