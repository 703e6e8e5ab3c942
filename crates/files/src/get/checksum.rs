//! Digests of files that the user knows from elsewhere, such as from a list of `sha256sum`.
//!
//! A signature proves the publisher of a file, and a digest proves that it is the expected content.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use namely_host::disk::{File, OpenError, read_named};
use namely_security::Sha256;
use namely_wire::Name;
use namely_wire::types::GENERIC_COMPONENT;

use super::GetError;

/// Octets of a list of checksums.
///
/// # Limit
/// A longer list is refused.
/// - Tests: `a_list_of_checksums_is_limited`
pub const LIST_OCTETS_MAX: u64 = 256 << 20;

/// Octets of a file that are read and digested at once.
const READ_OCTETS: usize = 256 << 10;

/// A list of files and their SHA-256 digests, in the form of `sha256sum`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checksums(BTreeMap<PathBuf, [u8; 32]>);

/// The reason for which a list of checksums is refused.
#[derive(Debug, thiserror::Error)]
pub enum ChecksumsError {
    /// The environment's: the list cannot be read, or is too long.
    #[error("it cannot be read: {0}")]
    Open(#[source] OpenError),
    /// The list's: a line has another form.
    #[error("line {line} is none of sha256sum")]
    Malformed {
        /// The number of the line, from 1 on.
        line: usize,
    },
    /// The list's: two lines give one file different digests.
    #[error("line {line} gives another digest of {} than a line before", .path.display())]
    Conflict {
        /// The number of the line, from 1 on.
        line: usize,
        /// The file.
        path: PathBuf,
    },
}

impl ChecksumsError {
    /// Returns a remedy, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ChecksumsError::Open(_) => None,
            ChecksumsError::Malformed { .. } => {
                Some("a line has 64 hexadecimal digits, two blanks and a file: `sha256sum FILES > LIST`")
            }
            ChecksumsError::Conflict { .. } => Some("remove the wrong line"),
        }
    }
}

impl Checksums {
    /// Reads the list at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is no such list.
    pub fn read(path: &Path) -> Result<Self, ChecksumsError> {
        Self::read_at_most(path, LIST_OCTETS_MAX)
    }

    fn read_at_most(path: &Path, octets_max: u64) -> Result<Self, ChecksumsError> {
        Self::parse(&read_named(path, octets_max).map_err(ChecksumsError::Open)?)
    }

    /// Parses a list. Blank lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// A line has another form, or contradicts another line.
    pub fn parse(text: &[u8]) -> Result<Self, ChecksumsError> {
        let mut digests = BTreeMap::new();
        for (line, text) in (1..).zip(text.split(|octet| *octet == b'\n')) {
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if text.iter().all(u8::is_ascii_whitespace) || text.starts_with(b"#") {
                continue;
            }
            let (path, digest) = entry(text).ok_or(ChecksumsError::Malformed { line })?;
            if digests.get(&path).is_some_and(|known| *known != digest) {
                return Err(ChecksumsError::Conflict { line, path });
            }
            digests.insert(path, digest);
        }
        Ok(Checksums(digests))
    }

    /// Returns the digest of the file at `path`.
    pub fn get(&self, path: &Path) -> Option<[u8; 32]> {
        self.0.get(path).copied()
    }

    /// Returns the digest of the longest listed path that ends the name `name`.
    pub fn of_name(&self, name: &Name) -> Option<[u8; 32]> {
        let generic = name.components().filter(|component| component.typ == GENERIC_COMPONENT);
        let parts: Vec<&OsStr> = generic.map(|component| OsStr::from_bytes(component.value)).collect();
        (0..parts.len()).find_map(|first| self.get(&parts.iter().skip(first).collect::<PathBuf>()))
    }

    /// The files of the list.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }
}

/// Parses a line: the digest, a blank, a blank or `*`, and the path. After a leading backslash,
/// the path has escapes.
fn entry(line: &[u8]) -> Option<(PathBuf, [u8; 32])> {
    let (line, is_escaped) = match line.strip_prefix(b"\\") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let (digits, rest) = line.split_at_checked(64)?;
    let path = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?;
    let path = if is_escaped { unescaped(path)? } else { path.to_vec() };
    Some((relative(Path::new(OsStr::from_bytes(&path)))?, digest(digits)?))
}

/// Parses 64 hexadecimal digits.
fn digest(digits: &[u8]) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    for (octet, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        let value = |digit: u8| char::from(digit).to_digit(16);
        // Two digits fit an octet.
        *octet = (16 * value(*high)? + value(*low)?) as u8;
    }
    Some(digest)
}

/// Reverts the escapes of coreutils: those of the backslash and of line ends.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut octets = text.iter();
    while let Some(octet) = octets.next() {
        path.push(match octet {
            b'\\' => match octets.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            octet => *octet,
        });
    }
    Some(path)
}

/// Returns the path without `.` and a leading slash. None if it has no name, or `..`.
fn relative(path: &Path) -> Option<PathBuf> {
    let mut below = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => below.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    (!below.as_os_str().is_empty()).then_some(below)
}

/// Returns the digest of the first `octets` of a file.
pub(super) fn digest_of(file: &File, octets: u64) -> io::Result<[u8; 32]> {
    let (mut hash, mut at) = (Sha256::new(), 0);
    let mut buffer = vec![0; READ_OCTETS];
    while at < octets {
        let length = usize::try_from(octets - at).unwrap_or(usize::MAX).min(READ_OCTETS);
        let part = buffer.get_mut(..length).unwrap_or_default();
        file.read_exact_at(part, at)?;
        hash.update(part);
        at += length as u64;
    }
    Ok(hash.finish())
}

/// Passes octets on to a writer, and compares their digest with the expected one.
pub struct CheckedWriter<'a> {
    writer: &'a mut dyn Write,
    octets: u64,
    expected: Option<[u8; 32]>,
    hash: Sha256,
}

impl<'a> CheckedWriter<'a> {
    /// Creates a writer. Without an expected digest, nothing is compared.
    pub fn new(writer: &'a mut dyn Write, expected: Option<[u8; 32]>) -> Self {
        CheckedWriter { writer, octets: 0, expected, hash: Sha256::new() }
    }

    /// The number of octets that were passed on.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Compares the digest of all octets with the expected one.
    ///
    /// # Errors
    /// [`GetError::Checksum`] of the file `path`.
    pub fn check(self, path: &Path) -> Result<(), GetError> {
        let Some(expected) = self.expected else { return Ok(()) };
        let found = self.hash.finish();
        if found == expected {
            return Ok(());
        }
        Err(GetError::Checksum { path: path.to_owned(), part: None, expected, found })
    }
}

impl Write for CheckedWriter<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(octets)?;
        self.octets += written as u64;
        if self.expected.is_some() {
            self.hash.update(octets.get(..written).unwrap_or_default());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use namely_security::sha256;

    use super::*;

    const DIGITS: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn parsed(text: &str) -> Checksums {
        Checksums::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn lists_of_sha256sum_are_read() {
        let upper = DIGITS.to_uppercase();
        let list = parsed(&format!(
            "# made today\n\n{DIGITS}  a b\n{upper} *./d//c\r\n\\{DIGITS}  new\\nline\\\\\n{DIGITS}  /e\n"
        ));
        let paths: Vec<&Path> = list.paths().collect();
        assert_eq!(paths, ["a b", "d/c", "e", "new\nline\\"].map(Path::new));
        assert!(paths.iter().all(|path| list.get(path) == Some(sha256(b"abc"))));
        assert_eq!(list.get(Path::new("b")), None);
        assert_eq!(parsed(&format!("{DIGITS}  a\n{DIGITS}  ./a")).paths().count(), 1);
        assert_eq!(parsed(""), Checksums::default());
    }

    #[test]
    fn malformed_checksum_lines_are_named() {
        for line in [
            DIGITS.to_owned(),
            format!("{DIGITS} a"),
            format!("{DIGITS}\ta"),
            format!("{DIGITS}  "),
            format!("{DIGITS}  ../a"),
            format!("{}  a", &DIGITS[1..]),
            format!("{}g  a", &DIGITS[1..]),
            format!("\\{DIGITS}  a\\x"),
            format!("\\{DIGITS}  a\\"),
            "é".repeat(40),
        ] {
            let error = Checksums::parse(format!("#\n{line}\n").as_bytes()).unwrap_err();
            assert!(matches!(error, ChecksumsError::Malformed { line: 2 }), "{line}: {error}");
        }
        let other = DIGITS.replace('b', "c");
        let error = Checksums::parse(format!("{DIGITS}  a\n{other}  ./a").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "line 2 gives another digest of a than a line before");
    }

    #[test]
    fn the_longest_path_that_ends_a_name_counts() {
        let other = DIGITS.replace('b', "c");
        let list = parsed(&format!("{DIGITS}  f\n{other}  d/f\n"));
        let of = |name: &str| list.of_name(&name.parse().unwrap());
        assert_eq!(of("/lab/e/f"), Some(sha256(b"abc")));
        assert_eq!(of("/lab/d/f/v=7"), list.get(Path::new("d/f")));
        assert_eq!((of("/lab/d"), of("/"), of("/lab/xf")), (None, None, None));
    }

    #[test]
    fn a_list_of_checksums_is_limited() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        let text = format!("{DIGITS}  a\n");
        std::fs::write(&path, &text).unwrap();
        let octets = text.len() as u64;
        assert_eq!(Checksums::read_at_most(&path, octets).unwrap(), parsed(&text));
        assert!(matches!(Checksums::read_at_most(&path, octets - 1), Err(ChecksumsError::Open(_))));
        assert!(Checksums::read(&directory.path().join("missing")).is_err());
    }

    #[test]
    fn a_written_stream_is_compared() {
        for (content, is_expected) in [("abc", true), ("abd", false)] {
            let mut written = Vec::new();
            let mut writer = CheckedWriter::new(&mut written, Some(sha256(b"abc")));
            writer.write_all(content.as_bytes()).unwrap();
            assert_eq!(writer.octets(), 3);
            assert_eq!(writer.check(Path::new("x")).is_ok(), is_expected, "{content}");
            assert_eq!(written, content.as_bytes());
        }
    }

    #[test]
    fn digests_of_long_files_are_whole() {
        let content: Vec<u8> = (0..2 * READ_OCTETS + 1).map(|i| (i / 7) as u8).collect();
        let file = tempfile::tempfile().unwrap();
        let file = File::from_inner(file);
        file.write_all_at(&content, 0).unwrap();
        let octets = content.len() as u64;
        assert_eq!(digest_of(&file, octets).unwrap(), sha256(&content));
        assert_eq!(digest_of(&file, 0).unwrap(), sha256(b""));
        assert!(digest_of(&file, octets + 1).is_err(), "the file is shorter");
    }
}
