//! The journal of a partial file: a small text beside it, by which an interrupted fetch can be
//! resumed.
//!
//! ```text
//! namely-journal 4
//! object /p/file/v=1700000000000000000
//! segments 480
//! octets 3840000
//! boot 3d1e6f7c-…
//! synced no
//! file 2049 131842
//! check spans
//! span 1048576 2cf2…
//! …
//! hmac-sha256 5e88…
//! ```
//!
//! The first `octets` octets of the partial file are the verified content of the first `segments`
//! segments. A later fetch checks them: `check manifests` means by the digests in the manifests of
//! the object. The spans are digests of consecutive octets from the beginning on (`spans`). They
//! may reach beyond `octets`.
//!
//! A killed process loses none of its writes, because they are in the system's cache; a machine
//! that stops loses the cache. So a journal of another boot counts only if the file had been
//! synchronized before. A journal counts only for the file that it was written beside (device and
//! inode), and only with a code made with a secret of this user. The reason is that other users may
//! write to the folder, and producers may choose names of files in it.

use std::fmt::{self, Write as _};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use namely_security::HmacKey;
use namely_wire::Name;

use super::spans::{SPANS_MAX, Span, Spans};

const HEADER: &str = "namely-journal 4";

/// Input to a journal's code in addition to its text, so that the code is valid for journals only.
const CONTEXT: &[u8] = b"namely partial file\0";

/// Maximum octets of a journal; a longer file is no journal.
pub(super) const JOURNAL_OCTETS_MAX: u64 = (64 << 10) + SPANS_MAX as u64 * 100;

/// The state of a partial file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Journal {
    /// The versioned name.
    pub(super) object: Name,
    /// Number of segments present, from the first on.
    pub(super) segments: u64,
    /// Octets of these segments.
    pub(super) octets: u64,
    /// The boot of the machine in which the journal was written.
    pub(super) boot: String,
    /// Whether the octets were synchronized.
    pub(super) synced: bool,
    pub(super) file: FileId,
    pub(super) check: Check,
}

/// The digests by which a later fetch checks the octets of a partial file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Those in the manifests of the object, so that the fetch computes none.
    Manifests,
    /// Those in the journal. They may cover more octets.
    Spans(Spans),
}

/// Identifies the partial file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    pub(super) fn of(found: &Metadata) -> Self {
        FileId { device: found.dev(), inode: found.ino() }
    }
}

impl Journal {
    /// Encodes the text, with a code made with `secret`.
    pub(super) fn encode(&self, secret: &ResumeSecret) -> String {
        let synced = if self.synced { "yes" } else { "no" };
        let mut text = format!(
            "{HEADER}\nobject {}\nsegments {}\noctets {}\nboot {}\nsynced {synced}\nfile {} {}\n",
            self.object, self.segments, self.octets, self.boot, self.file.device, self.file.inode
        );
        match &self.check {
            Check::Manifests => text.push_str("check manifests\n"),
            Check::Spans(spans) => {
                text.push_str("check spans\n");
                for Span { octets, digest } in spans.list() {
                    // Writing to a string does not fail.
                    let _ = writeln!(text, "span {octets} {}", hex(digest));
                }
            }
        }
        let code = hex(&secret.code(&text));
        let _ = writeln!(text, "hmac-sha256 {code}");
        text
    }

    /// Decodes the text; none if it is damaged, of another version, or not made with `secret`.
    pub(super) fn decode(text: &str, secret: &ResumeSecret) -> Option<Self> {
        let (body, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let body = format!("{body}\n");
        if !secret.is_code_of(&body, last.strip_prefix("hmac-sha256 ")?) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != HEADER {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let object = field("object")?.parse().ok()?;
        let segments = field("segments")?.parse().ok()?;
        let octets = field("octets")?.parse().ok()?;
        let boot = field("boot")?.to_owned();
        let synced = field("synced")? == "yes";
        let (device, inode) = field("file")?.split_once(' ')?;
        let file = FileId { device: device.parse().ok()?, inode: inode.parse().ok()? };
        let is_listed = match field("check")? {
            "manifests" => true,
            "spans" => false,
            _ => return None,
        };
        let spans = lines.map(span_of).collect::<Option<Vec<Span>>>()?;
        let check = match is_listed {
            true => spans.is_empty().then_some(Check::Manifests)?,
            false => Check::Spans(Spans::from_list(spans).filter(|spans| spans.octets() >= octets)?),
        };
        Some(Journal { object, segments, octets, boot, synced, file, check })
    }

    /// Returns true if a fetch of another version of `object` wrote the partial file `file`.
    pub(super) fn is_of_other_version(&self, object: &Name, file: FileId) -> bool {
        let (ours, theirs) = (self.object.as_name(), object.as_name());
        self.file == file && ours != theirs && ours.without_last(1) == theirs.without_last(1)
    }

    /// Returns true if a fetch of `object` can resume the partial file `file` of `file_octets`, on
    /// a machine in boot `boot`.
    pub(super) fn is_usable(&self, object: &Name, file: FileId, file_octets: u64, boot: &str) -> bool {
        let is_there = self.synced || (!boot.is_empty() && self.boot == boot);
        self.object == *object && self.file == file && self.octets <= file_octets && is_there
    }
}

fn span_of(line: &str) -> Option<Span> {
    let (octets, text) = line.strip_prefix("span ")?.split_once(' ')?;
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (i, octet) in digest.iter_mut().enumerate() {
        *octet = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(Span { octets: octets.parse().ok()?, digest })
}

/// A secret of this user that authenticates the journals it wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResumeSecret([u8; 32]);

impl ResumeSecret {
    /// Creates a secret from `octets`.
    pub const fn new(octets: [u8; 32]) -> Self {
        ResumeSecret(octets)
    }

    fn code(&self, text: &str) -> [u8; 32] {
        HmacKey::new(&self.0).sign(&[CONTEXT, text.as_bytes()])
    }

    fn is_code_of(&self, text: &str, code: &str) -> bool {
        // Compared as digests, so that the time does not reveal the first difference.
        let key = HmacKey::new(&self.0);
        key.verify(&[code.as_bytes()], &key.sign(&[hex(&self.code(text)).as_bytes()]))
    }
}

impl fmt::Debug for ResumeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeSecret")
    }
}

/// Encodes octets. A journal has thousands of them, so each takes no formatting machinery.
fn hex(octets: &[u8]) -> String {
    let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 0xf]);
    let mut text = String::with_capacity(2 * octets.len());
    text.extend(digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        Journal {
            object: "/p/file with space/v=7".parse().unwrap(),
            segments: 480,
            octets: 3_840_000,
            boot: "b".into(),
            synced: false,
            file: FileId { device: 2049, inode: 131_842 },
            check: spans(3_840_000),
        }
    }

    /// A span, as of a fetch that has received more octets than the journal counts.
    fn spans(octets: u64) -> Check {
        Check::Spans(Spans::from_list(vec![Span { octets, digest: [0xa5; 32] }]).unwrap())
    }

    const SECRET: ResumeSecret = ResumeSecret([7; 32]);

    /// The journal as release 0.1.0 writes it. It cannot show that the octets are undamaged.
    const OF_0_1_0: &str = "namely-journal 2
object /p/file%20with%20space/v=7
segments 480
octets 3840000
boot b
synced no
file 2049 131842
hmac-sha256 94c13985a3225f215a59244471697399c95e3335620a62487120271494d169be
";

    #[test]
    fn a_journal_without_digests_starts_again() {
        assert_eq!(Journal::decode(OF_0_1_0, &SECRET), None);
        let too_short = Journal { check: spans(3_839_999), ..journal() };
        assert_eq!(Journal::decode(&too_short.encode(&SECRET), &SECRET), None);
        let longer = Journal { check: spans(3_840_001), ..journal() };
        assert_eq!(Journal::decode(&longer.encode(&SECRET), &SECRET), Some(longer));
    }

    /// Signs lines as a journal.
    fn signed(body: &str) -> String {
        format!("{body}hmac-sha256 {}\n", hex(&SECRET.code(body)))
    }

    #[test]
    fn a_journal_has_one_kind_of_check() {
        let listed = Journal { check: Check::Manifests, ..journal() };
        let text = listed.encode(&SECRET);
        assert_eq!(Journal::decode(&text, &SECRET), Some(listed));
        let (body, _) = text.trim_end().rsplit_once('\n').unwrap();
        let body = format!("{body}\n");
        assert_eq!(signed(&body), text);
        let with_span = format!("{body}span 3840000 {}\n", "a5".repeat(32));
        let unknown = body.replace("check manifests", "check nothing");
        let of_version_3 = body.replace("check manifests\n", "").replace("journal 4", "journal 3");
        for body in [with_span, unknown, of_version_3] {
            assert_eq!(Journal::decode(&signed(&body), &SECRET), None, "{body}");
        }
    }

    #[test]
    fn the_longest_journal_is_read() {
        let span = Span { octets: 1 << 40, digest: [0xff; 32] };
        let spans = Spans::from_list(vec![span; SPANS_MAX + 64]).unwrap();
        let name: Name = format!("/{}", "x".repeat(8000)).parse().unwrap();
        let check = Check::Spans(spans);
        let longest = Journal { object: name.join_version(u64::MAX), check, ..journal() };
        assert!((longest.encode(&SECRET).len() as u64) < JOURNAL_OCTETS_MAX);
    }

    #[test]
    fn a_journal_of_another_version_is_recognized() {
        let file = journal().file;
        let of = |uri: &str, file| journal().is_of_other_version(&uri.parse().unwrap(), file);
        assert!(of("/p/file with space/v=8", file));
        assert!(!of("/p/file with space/v=7", file) && !of("/p/other/v=8", file));
        assert!(!of("/p/file with space/v=8", FileId { inode: 1, ..file }));
    }

    #[test]
    fn a_damaged_journal_is_refused() {
        let text = journal().encode(&SECRET);
        let decode = |text: &str| Journal::decode(text, &SECRET);
        assert_eq!(decode(&text), Some(journal()));
        assert_eq!(Journal::decode(&text, &ResumeSecret([8; 32])), None, "another user's");
        assert_eq!(format!("{SECRET:?}"), "ResumeSecret");
        for i in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[i] ^= 1;
            assert_eq!(decode(&String::from_utf8_lossy(&damaged)), None, "octet {i}");
            assert_eq!(decode(&text[..i]), None, "cut at {i}");
        }
    }

    #[test]
    fn a_journal_holds_for_one_object_and_boot() {
        let object = journal().object;
        let file = journal().file;
        assert!(journal().is_usable(&object, file, 3_840_000, "b"));
        assert!(!journal().is_usable(&object, file, 3_839_999, "b"), "the file is shorter");
        assert!(
            !journal().is_usable(&object, FileId { inode: 1, ..file }, 3_840_000, "b"),
            "it is another file"
        );
        assert!(!journal().is_usable(&object, file, 4_000_000, "c"), "the machine was started again");
        assert!(!journal().is_usable(&object, file, 4_000_000, ""), "nobody knows which boot this is");
        assert!(!journal().is_usable(&"/p/other/v=7".parse().unwrap(), file, 4_000_000, "b"));
        let synced = Journal { synced: true, ..journal() };
        assert!(synced.is_usable(&object, file, 3_840_000, "c"));
    }
}
