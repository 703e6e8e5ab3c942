//! Digests of files that the user knows from elsewhere, such as from a list of `sha256sum` or of a
//! catalogue.
//!
//! A signature proves the publisher of a file, and a digest proves that it is the expected content.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use namely_host::disk::{File, OpenError, read_named};
use namely_security::{ContentDigest, ContentHash, DigestAlgorithm};
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

/// A list of files and their digests, in the forms of `sha256sum`, `md5sum --tag` and `xrdadler32`.
/// Of several digests of a file, that of the strongest algorithm counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checksums(BTreeMap<PathBuf, ContentDigest>);

/// The reason for which a list of checksums is refused.
#[derive(Debug, thiserror::Error)]
pub enum ChecksumsError {
    /// The environment's: the list cannot be read, or is too long.
    #[error("it cannot be read: {0}")]
    Open(#[source] OpenError),
    /// The list's: a line has another form.
    #[error("line {line} is no digest of a file")]
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
            ChecksumsError::Malformed { .. } => Some(
                "lines are those of sha256sum, sha512sum, sha1sum, md5sum, each also with --tag, \
                     and of xrdadler32: `sha256sum FILES > LIST`",
            ),
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
            let known: Option<&ContentDigest> = digests.get(&path);
            match known.map(|known| (known.algorithm().cmp(&digest.algorithm()), *known == digest)) {
                Some((Ordering::Equal, false)) => return Err(ChecksumsError::Conflict { line, path }),
                Some((Ordering::Equal | Ordering::Greater, _)) => {}
                Some((Ordering::Less, _)) | None => drop(digests.insert(path, digest)),
            }
        }
        Ok(Checksums(digests))
    }

    /// Returns the digest of the file at `path`.
    pub fn get(&self, path: &Path) -> Option<ContentDigest> {
        self.0.get(path).copied()
    }

    /// Returns the digest of the longest listed path that ends the name `name`.
    pub fn of_name(&self, name: &Name) -> Option<ContentDigest> {
        let generic = name.components().filter(|component| component.typ == GENERIC_COMPONENT);
        let parts: Vec<&OsStr> = generic.map(|component| OsStr::from_bytes(component.value)).collect();
        (0..parts.len()).find_map(|first| self.get(&parts.iter().skip(first).collect::<PathBuf>()))
    }

    /// The files of the list.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }
}

/// Parses a line: `DIGITS  FILE` of sha256sum, `DIGITS FILE` of xrdadler32, either with the name of
/// the algorithm and a colon before it, or `NAME (FILE) = DIGITS` of `--tag`. After a leading
/// backslash, the path has escapes.
fn entry(line: &[u8]) -> Option<(PathBuf, ContentDigest)> {
    let (line, is_escaped) = match line.strip_prefix(b"\\") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let (digest, path) = tagged(line).or_else(|| leading(line))?;
    let path = if is_escaped { unescaped(path)? } else { path.to_vec() };
    Some((relative(Path::new(OsStr::from_bytes(&path)))?, digest))
}

/// Parses `NAME (FILE) = DIGITS`.
fn tagged(line: &[u8]) -> Option<(ContentDigest, &[u8])> {
    let (name, rest) = line.split_at_checked(line.iter().position(|octet| *octet == b' ')?)?;
    let algorithm = DigestAlgorithm::of_name(name)?;
    let rest = rest.strip_prefix(b" (")?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(2 * algorithm.octets())?)?;
    Some((ContentDigest::parse(algorithm, digits)?, rest.strip_suffix(b") = ")?))
}

/// Parses the digits, or the name of the algorithm, a colon and the digits; then a blank, a blank
/// or `*`, and the path. Adler-32 may have one blank.
fn leading(line: &[u8]) -> Option<(ContentDigest, &[u8])> {
    let (word, rest) = line.split_at_checked(line.iter().position(|octet| *octet == b' ')?)?;
    let named = word.iter().position(|octet| *octet == b':').and_then(|colon| word.split_at_checked(colon));
    let (algorithm, digits) = match named {
        Some((name, digits)) => (DigestAlgorithm::of_name(name)?, digits.strip_prefix(b":")?),
        None => (DigestAlgorithm::of_digits(word.len())?, word),
    };
    let is_short = named.is_some() || algorithm == DigestAlgorithm::Adler32;
    let short = || rest.strip_prefix(b" ").filter(|_| is_short);
    let path = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *")).or_else(short)?;
    Some((ContentDigest::parse(algorithm, digits)?, path))
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
pub(super) fn digest_of(file: &File, octets: u64, algorithm: DigestAlgorithm) -> io::Result<ContentDigest> {
    let (mut hash, mut at) = (ContentHash::new(algorithm), 0);
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
    expected: Option<(ContentDigest, ContentHash)>,
}

impl<'a> CheckedWriter<'a> {
    /// Creates a writer. Without an expected digest, nothing is compared.
    pub fn new(writer: &'a mut dyn Write, expected: Option<ContentDigest>) -> Self {
        let hash = |expected: ContentDigest| (expected, ContentHash::new(expected.algorithm()));
        CheckedWriter { writer, octets: 0, expected: expected.map(hash) }
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
        let Some((expected, hash)) = self.expected else { return Ok(()) };
        let found = hash.finish();
        if found == expected {
            return Ok(());
        }
        Err(GetError::Checksum {
            path: path.to_owned(),
            part: None,
            expected: expected.into(),
            found: found.into(),
        })
    }
}

impl Write for CheckedWriter<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(octets)?;
        self.octets += written as u64;
        if let Some((_, hash)) = &mut self.expected {
            hash.update(octets.get(..written).unwrap_or_default());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn sha256(content: &[u8]) -> ContentDigest {
        ContentDigest::of(DigestAlgorithm::Sha256, content)
    }

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
    fn digits_or_tags_decide_the_algorithm() {
        // Lines of md5sum, sha1sum, sha512sum --tag, xrdadler32, and of a catalogue, for `abc`.
        let list = parsed(
            "900150983cd24fb0d6963f7d28e17f72  a\n\
             \\SHA1 (b\\nc) = a9993e364706816aba3e25717850c26c9cd0d89d\n\
             024d0127 /d e\n\
             adler32:024d0127  f\n\
             MD5 (x) = y) = 900150983cd24fb0d6963f7d28e17f72\n",
        );
        for (path, algorithm) in [
            ("a", DigestAlgorithm::Md5),
            ("b\nc", DigestAlgorithm::Sha1),
            ("d e", DigestAlgorithm::Adler32),
            ("f", DigestAlgorithm::Adler32),
            ("x) = y", DigestAlgorithm::Md5),
        ] {
            assert_eq!(list.get(Path::new(path)), Some(ContentDigest::of(algorithm, b"abc")), "{path}");
        }
        for line in ["024d012  a", "md5:024d0127  a", "SHA256 (a) = 024d0127", "crc32:024d0127 a", "MD5 (a)="]
        {
            assert!(Checksums::parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn the_strongest_digest_of_a_file_counts() {
        let weak = "900150983cd24fb0d6963f7d28e17f72";
        for text in [format!("{weak}  a\n{DIGITS}  a\n"), format!("{DIGITS}  a\n{weak}  a\n")] {
            assert_eq!(parsed(&text).get(Path::new("a")), Some(sha256(b"abc")));
        }
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
        assert_eq!(digest_of(&file, octets, DigestAlgorithm::Sha256).unwrap(), sha256(&content));
        assert_eq!(digest_of(&file, 0, DigestAlgorithm::Sha256).unwrap(), sha256(b""));
        assert!(digest_of(&file, octets + 1, DigestAlgorithm::Md5).is_err(), "the file is shorter");
    }
}
