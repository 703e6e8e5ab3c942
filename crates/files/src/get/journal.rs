//! What is known of a partial file: a small text beside it, so that an interrupted fetch can go on.
//!
//! ```text
//! namely-journal 2
//! object /p/file/v=1700000000000000000
//! segments 480
//! octets 3840000
//! boot 3d1e6f7c-…
//! synced no
//! file 2049 131842
//! hmac-sha256 5e88…
//! ```
//!
//! The first `octets` octets of the partial file are the verified content of the first `segments`
//! segments. A process that is killed leaves the system's cache as it is, so what it wrote is
//! there; a machine that stops does not. So a journal of another boot counts only if the file had
//! been synchronised before. It counts for the file that it was written beside (device and inode)
//! only, and only under the code that a secret of this user makes of it: a folder may be others'
//! too, and its producers may choose names of files in it.

use std::fmt::{self, Write as _};

use namely_security::HmacKey;
use namely_wire::Name;

const HEADER: &str = "namely-journal 2";

/// What a journal's code is made of beside its text, so that it is of no use elsewhere.
const CONTEXT: &[u8] = b"namely partial file\0";

/// Longest journal read, octets: longer ones are none.
pub(super) const JOURNAL_OCTETS_MAX: u64 = 64 << 10;

/// The state of a partial file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Journal {
    /// The versioned name.
    pub(super) object: Name,
    /// Segments that are there, from the first.
    pub(super) segments: u64,
    /// Octets of them.
    pub(super) octets: u64,
    /// Which boot of the machine wrote it.
    pub(super) boot: String,
    /// Whether the octets had reached the disk.
    pub(super) synced: bool,
    /// Device and inode of the partial file.
    pub(super) file: (u64, u64),
}

impl Journal {
    /// The text, with a code made with `secret`.
    pub(super) fn encode(&self, secret: &ResumeSecret) -> String {
        let synced = if self.synced { "yes" } else { "no" };
        let mut text = format!(
            "{HEADER}\nobject {}\nsegments {}\noctets {}\nboot {}\nsynced {synced}\nfile {} {}\n",
            self.object, self.segments, self.octets, self.boot, self.file.0, self.file.1
        );
        let code = hex(&secret.code(&text));
        // Writing to a string does not fail.
        let _ = writeln!(text, "hmac-sha256 {code}");
        text
    }

    /// Reads the text; none if it is damaged, of another version, or not made with `secret`.
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
        Some(Journal {
            object: field("object")?.parse().ok()?,
            segments: field("segments")?.parse().ok()?,
            octets: field("octets")?.parse().ok()?,
            boot: field("boot")?.to_owned(),
            synced: field("synced")? == "yes",
            file: {
                let (device, inode) = field("file")?.split_once(' ')?;
                (device.parse().ok()?, inode.parse().ok()?)
            },
        })
    }

    /// Returns true if the partial file `file` of `file_octets` can be gone on with for `object`,
    /// on a machine in boot `boot`.
    pub(super) fn is_usable(&self, object: &Name, file: (u64, u64), file_octets: u64, boot: &str) -> bool {
        let is_there = self.synced || (!boot.is_empty() && self.boot == boot);
        self.object == *object && self.file == file && self.octets <= file_octets && is_there
    }
}

/// A secret of this user's own, by which it knows the journals that it wrote itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResumeSecret([u8; 32]);

impl ResumeSecret {
    /// The secret `octets`.
    pub const fn new(octets: [u8; 32]) -> Self {
        ResumeSecret(octets)
    }

    fn code(&self, text: &str) -> [u8; 32] {
        HmacKey::new(&self.0).sign(&[CONTEXT, text.as_bytes()])
    }

    fn is_code_of(&self, text: &str, code: &str) -> bool {
        // Compared as digests, so that the time says nothing of where they differ.
        let key = HmacKey::new(&self.0);
        key.verify(&[code.as_bytes()], &key.sign(&[hex(&self.code(text)).as_bytes()]))
    }
}

impl fmt::Debug for ResumeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeSecret")
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
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
            file: (2049, 131_842),
        }
    }

    const SECRET: ResumeSecret = ResumeSecret([7; 32]);

    #[test]
    fn a_journal_survives_a_round_trip_and_no_damage() {
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
    fn a_journal_counts_for_its_object_its_boot_and_what_is_there() {
        let object = journal().object;
        let file = journal().file;
        assert!(journal().is_usable(&object, file, 3_840_000, "b"));
        assert!(!journal().is_usable(&object, file, 3_839_999, "b"), "the file is shorter");
        assert!(!journal().is_usable(&object, (file.0, 1), 3_840_000, "b"), "it is another file");
        assert!(!journal().is_usable(&object, file, 4_000_000, "c"), "the machine was started again");
        assert!(!journal().is_usable(&object, file, 4_000_000, ""), "nobody knows which boot this is");
        assert!(!journal().is_usable(&"/p/other/v=7".parse().unwrap(), file, 4_000_000, "b"));
        let synced = Journal { synced: true, ..journal() };
        assert!(synced.is_usable(&object, file, 3_840_000, "c"));
    }
}
