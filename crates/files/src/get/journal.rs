//! What is known of a partial file: a small text beside it, so that an interrupted fetch can go on.
//!
//! ```text
//! namely-journal 1
//! object /p/file/v=1700000000000000000
//! segments 480
//! octets 3840000
//! boot 3d1e6f7c-…
//! synced no
//! sha256 5e88…
//! ```
//!
//! The first `octets` octets of the partial file are the verified content of the first `segments`
//! segments. A process that is killed leaves the system's cache as it is, so what it wrote is
//! there; a machine that stops does not. So a journal of another boot counts only if the file had
//! been synchronised before.

use std::fmt::Write as _;

use namely_security::sha256;
use namely_wire::Name;

const HEADER: &str = "namely-journal 1";

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
}

impl Journal {
    /// The text.
    pub(super) fn encode(&self) -> String {
        let synced = if self.synced { "yes" } else { "no" };
        let mut text = format!(
            "{HEADER}\nobject {}\nsegments {}\noctets {}\nboot {}\nsynced {synced}\n",
            self.object, self.segments, self.octets, self.boot
        );
        let digest = hex(&sha256(text.as_bytes()));
        // Writing to a string does not fail.
        let _ = writeln!(text, "sha256 {digest}");
        text
    }

    /// Reads the text; none if it is damaged or of another version.
    pub(super) fn decode(text: &str) -> Option<Self> {
        let (body, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let body = format!("{body}\n");
        if last.strip_prefix("sha256 ")? != hex(&sha256(body.as_bytes())) {
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
        })
    }

    /// Returns true if a partial file of `file_octets` can be gone on with for `object`, on a
    /// machine in boot `boot`.
    pub(super) fn is_usable(&self, object: &Name, file_octets: u64, boot: &str) -> bool {
        let is_there = self.synced || (!boot.is_empty() && self.boot == boot);
        self.object == *object && self.octets <= file_octets && is_there
    }
}

/// What tells this boot of the machine from others; empty if the system does not say.
pub(super) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
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
        }
    }

    #[test]
    fn a_journal_survives_a_round_trip_and_no_damage() {
        let text = journal().encode();
        assert_eq!(Journal::decode(&text), Some(journal()));
        for i in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[i] ^= 1;
            assert_eq!(Journal::decode(&String::from_utf8_lossy(&damaged)), None, "octet {i}");
            assert_eq!(Journal::decode(&text[..i]), None, "cut at {i}");
        }
    }

    #[test]
    fn a_journal_counts_for_its_object_its_boot_and_what_is_there() {
        let object = journal().object;
        assert!(journal().is_usable(&object, 3_840_000, "b"));
        assert!(!journal().is_usable(&object, 3_839_999, "b"), "the file is shorter");
        assert!(!journal().is_usable(&object, 4_000_000, "c"), "the machine was started again");
        assert!(!journal().is_usable(&object, 4_000_000, ""), "nobody knows which boot this is");
        assert!(!journal().is_usable(&"/p/other/v=7".parse().unwrap(), 4_000_000, "b"));
        let synced = Journal { synced: true, ..journal() };
        assert!(synced.is_usable(&object, 3_840_000, "c"));
    }
}
