//! Objects to publish, and the comparison of fetched files with them.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// An object to publish: one file in a directory of its own, so that a server of directories serves
/// only this file.
#[derive(Clone, Debug)]
pub struct Object {
    /// The file.
    pub path: PathBuf,
    /// The directory that holds it.
    pub dir: PathBuf,
    /// Its size.
    pub octets: u64,
    /// Number of the object within its run. It is also the seed of the content.
    pub number: u32,
}

impl Object {
    /// The file's name in its directory.
    pub const FILE_NAME: &str = "data.bin";

    /// Writes object `number` of `octets` octets below `base`. Its content does not compress. No
    /// two segments, and no two objects, are alike.
    pub fn create(base: &Path, number: u32, octets: u64) -> Result<Self, Error> {
        let dir = base.join(format!("object-{number}-{octets}"));
        let path = dir.join(Self::FILE_NAME);
        std::fs::create_dir_all(&dir)
            .and_then(|()| write_content(&path, number, octets))
            .map_err(|e| Error::environment(format!("cannot write {}", path.display()), e))?;
        Ok(Object { path, dir, octets, number })
    }
}

fn write_content(path: &Path, number: u32, octets: u64) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    // xorshift64*: the seed must not be 0.
    let mut state = u64::from(number) << 32 | 0x9E37_79B9;
    let mut left = octets;
    while left > 0 {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let word = state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes();
        let take = left.min(8) as usize;
        out.write_all(&word[..take])?;
        left -= take as u64;
    }
    out.flush()
}

/// Creates a directory, in memory if possible, so that no disk is measured.
pub(crate) fn directory(prefix: &str, base: Option<&Path>) -> Result<tempfile::TempDir, Error> {
    let memory = Path::new("/dev/shm");
    let base = match base {
        Some(base) => base.to_path_buf(),
        None if memory.is_dir() => memory.to_path_buf(),
        None => std::env::temp_dir(),
    };
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir_in(&base)
        .map_err(|e| Error::environment(format!("cannot create a directory in {}", base.display()), e))
}

/// Returns an error of the subject, with the first differing offset, unless both files hold the
/// same octets.
pub fn expect_same(source: &Path, output: &Path) -> Result<(), Error> {
    let missing = |e| Error::Subject(format!("the fetch left no file: {e}"));
    let unreadable = |e| Error::environment(format!("cannot open {}", source.display()), e);
    let read = |e| Error::environment("cannot compare source and output", e);
    let mut source = BufReader::with_capacity(1 << 20, File::open(source).map_err(unreadable)?);
    let mut output = BufReader::with_capacity(1 << 20, File::open(output).map_err(missing)?);
    let (mut a, mut b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut offset = 0u64;
    loop {
        let (n, m) = (fill(&mut source, &mut a).map_err(read)?, fill(&mut output, &mut b).map_err(read)?);
        if let Some(i) = (0..n.max(m)).find(|&i| i >= n || i >= m || a[i] != b[i]) {
            let at = offset + i as u64;
            return Err(Error::Subject(format!("the fetched file differs from its source at octet {at}")));
        }
        if n == 0 {
            return Ok(());
        }
        offset += n as u64;
    }
}

/// Reads until `buffer` is full or the input ends.
pub(crate) fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_objects_differ_and_have_their_size() {
        let base = tempfile::tempdir().expect("temporary directory");
        let one = Object::create(base.path(), 1, 10_001).expect("object");
        let two = Object::create(base.path(), 2, 10_001).expect("object");
        assert_eq!(std::fs::metadata(&one.path).map(|m| m.len()).ok(), Some(10_001));
        assert!(expect_same(&one.path, &one.path).is_ok());
        assert!(expect_same(&one.path, &two.path).is_err());
    }

    #[test]
    fn changed_and_truncated_files_are_detected() {
        let base = tempfile::tempdir().expect("temporary directory");
        let object = Object::create(base.path(), 1, 200_000).expect("object");
        let output = base.path().join("output");
        let mut octets = std::fs::read(&object.path).expect("read");
        octets[150_000] ^= 1;
        std::fs::write(&output, &octets).expect("write");
        let message = expect_same(&object.path, &output).unwrap_err().to_string();
        assert!(message.contains("150000"), "{message}");
        octets[150_000] ^= 1;
        std::fs::write(&output, &octets[..199_999]).expect("write");
        let message = expect_same(&object.path, &output).unwrap_err().to_string();
        assert!(message.contains("199999"), "{message}");
        octets.push(0);
        std::fs::write(&output, &octets).expect("write");
        assert!(expect_same(&object.path, &output).is_err());
        let absent = expect_same(&object.path, &base.path().join("absent"));
        assert!(matches!(absent, Err(Error::Subject(_))), "a client that writes nothing is at fault itself");
    }
}
