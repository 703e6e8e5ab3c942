//! A tree of small files, and the comparison of its copy.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::Error;

/// Files per directory.
const PER_DIRECTORY: u32 = 100;

/// The modification time of the first file. Each file has another one.
const FIRST_MTIME: Duration = Duration::from_secs(1_600_000_000);

/// Creates a tree of `files` files with `octets` octets each. No two of them are alike.
pub(super) fn make(tree: &Path, files: u32, octets: u32) -> Result<(), Error> {
    let make = || {
        for n in 0..files {
            let directory = tree.join(format!("d{:04}", n / PER_DIRECTORY));
            if n % PER_DIRECTORY == 0 {
                fs::create_dir_all(&directory)?;
            }
            let path = directory.join(format!("file-{n:06}.txt"));
            fs::write(&path, content(n, octets))?;
            let mtime = SystemTime::UNIX_EPOCH + FIRST_MTIME + Duration::from_millis(u64::from(n));
            File::options().write(true).open(&path)?.set_times(FileTimes::new().set_modified(mtime))?;
        }
        Ok(())
    };
    make().map_err(|e: io::Error| Error::environment(format!("cannot make a tree in {}", tree.display()), e))
}

fn content(n: u32, octets: u32) -> Vec<u8> {
    // xorshift64*: the seed must not be 0.
    let mut state = u64::from(n) << 32 | 0x9E37_79B9;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 56) as u8
    };
    (0..octets).map(|_| next()).collect()
}

/// Returns an error of the contender unless `copy` has the same files, with the same octets and
/// times.
pub(super) fn expect_same(tree: &Path, copy: &Path) -> Result<(), Error> {
    let list =
        |of: &Path| list(of).map_err(|e| Error::environment(format!("cannot read {}", of.display()), e));
    let (wanted, found) = (list(tree)?, list(copy)?);
    if let Some(path) = wanted.keys().find(|path| !found.contains_key(*path)) {
        return Err(Error::Subject(format!("{} is missing in the copy", path.display())));
    }
    if let Some(path) = found.keys().find(|path| !wanted.contains_key(*path)) {
        return Err(Error::Subject(format!("{} is in the copy only", path.display())));
    }
    for (path, mtime) in &wanted {
        let read = |of: &Path| fs::read(of.join(path));
        let is_same = read(tree).ok().is_some_and(|octets| read(copy).is_ok_and(|copied| copied == octets));
        if !is_same || found.get(path) != Some(mtime) {
            return Err(Error::Subject(format!("{} differs from its source", path.display())));
        }
    }
    Ok(())
}

/// Returns the files below a directory, and their modification times.
fn list(tree: &Path) -> io::Result<BTreeMap<PathBuf, SystemTime>> {
    let (mut files, mut directories) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(below) = directories.pop() {
        for entry in fs::read_dir(tree.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else {
                files.insert(path, entry.metadata()?.modified()?);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_matches_in_names_content_and_times() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (tree, copy) = (dir.path().join("tree"), dir.path().join("copy"));
        make(&tree, 150, 10).expect("tree");
        make(&copy, 150, 10).expect("copy");
        assert!(expect_same(&tree, &copy).is_ok());
        let file = "d0001/file-000120.txt";
        fs::write(copy.join(file), content(120, 10)).expect("write");
        let message = expect_same(&tree, &copy).unwrap_err().to_string();
        assert!(message.contains("000120"), "its time differs: {message}");
        fs::remove_file(copy.join(file)).expect("remove");
        assert!(expect_same(&tree, &copy).is_err() && expect_same(&copy, &tree).is_err());
    }
}
