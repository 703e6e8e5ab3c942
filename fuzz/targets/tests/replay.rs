//! The committed corpora, by the ordinary tests: every input runs through its target.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use namely_fuzz_targets::{TARGETS, run, seeds::seeds};

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_committed_input_passes_its_target() {
    let mut count = 0;
    for target in TARGETS {
        let folder = fuzz_folder().join("corpus").join(target.name);
        for file in names_in(&folder) {
            let octets = fs::read(folder.join(&file)).unwrap();
            // Printed before the run, so that the name of a failing input is the last line.
            eprintln!("{}/{file}", target.name);
            (target.run)(&octets);
            count += 1;
        }
    }
    assert!(count >= seeds().len());
}

#[test]
fn inputs_pass_every_other_target() {
    for seed in seeds() {
        for target in TARGETS {
            eprintln!("{}/{} in {}", seed.target, seed.name, target.name);
            run(target.name, &seed.octets);
        }
    }
}

/// Finds the faults of a change of the forwarder that a few random inputs show. A fuzzer finds
/// more.
#[test]
fn random_steps_keep_the_forwarder_promises() {
    let inputs = std::env::var("NAMELY_RANDOM_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..inputs {
        let octets: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .take(1000)
        .collect();
        // The first steps create three faces, because most steps need some.
        run("forwarder", &[&[0, 0, 0, 1, 0, 3], &octets[..]].concat());
    }
}

/// With `NAMELY_WRITE_SEEDS=1` the files are written instead.
#[test]
fn the_corpora_hold_the_seeds() {
    let write = std::env::var_os("NAMELY_WRITE_SEEDS").is_some();
    for seed in seeds() {
        let folder = fuzz_folder().join("corpus").join(seed.target);
        let path = folder.join(seed.name);
        if write {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &seed.octets).unwrap();
        }
        let committed = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(
            committed == seed.octets,
            "{} is not what the seed is now; NAMELY_WRITE_SEEDS=1 writes it",
            path.display()
        );
    }
}

#[test]
fn targets_and_corpora_match() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_string()).collect();
    assert_eq!(targets.len(), TARGETS.len(), "names are unique");
    assert_eq!(names_in(&fuzz_folder().join("corpus")), targets);
}
