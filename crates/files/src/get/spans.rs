//! Digests of the octets of a partial file, by which a later fetch detects octets that were lost or
//! changed: by a disk that lost a write, or by a program that touched the file. Only a fetch of an
//! object without manifests needs them.
//!
//! The octets are cut into leaves of [`LEAF_OCTETS`]. The digest of a leaf is its BLAKE3, that of a
//! longer span the SHA-256 of the digests of its halves. Spans grow with the file, so that their
//! number is bounded.

use std::io;
use std::ops::Range;

use namely_host::disk::File;
use namely_security::{Sha256, blake3};
use namely_socket::Flow;

/// Octets of a leaf. They are written at once, and few enough to be still in the processor's cache.
/// Tests write fewer octets at once, more often.
pub(super) const LEAF_OCTETS: usize = if cfg!(test) { 4 << 10 } else { 256 << 10 };

/// Octets of a full span of a short file.
const SPAN_OCTETS: u64 = 4 * LEAF_OCTETS as u64;

/// Full spans of a partial file.
///
/// # Limit
/// Spans of twice as many octets replace them.
/// - Value: 1024
/// - Tests: `spans_grow_with_the_file`
pub(super) const SPANS_MAX: usize = if cfg!(test) { 16 } else { 1024 };

#[cfg(test)]
thread_local! {
    /// The number of leaves that this thread has digested for a journal.
    pub(super) static PUSHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A digest of consecutive octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) octets: u64,
    pub(super) digest: [u8; 32],
}

/// The spans of the beginning of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spans {
    list: Vec<Span>,
    octets: u64,
    /// Octets of a full span.
    full_octets: u64,
}

impl Spans {
    pub(super) fn new() -> Self {
        Spans { list: Vec::new(), octets: 0, full_octets: SPAN_OCTETS }
    }

    /// The spans in a journal.
    pub(super) fn from_list(list: Vec<Span>) -> Option<Self> {
        let octets = list.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.octets))?;
        let longest = list.iter().map(|span| span.octets).max().unwrap_or(0);
        Some(Spans { list, octets, full_octets: longest.max(SPAN_OCTETS) })
    }

    pub(super) fn list(&self) -> &[Span] {
        &self.list
    }

    /// The octets of all spans.
    pub(super) fn octets(&self) -> u64 {
        self.octets
    }

    /// Adds the octets that follow. Only the last leaf of a file may be shorter than the others.
    pub(super) fn push(&mut self, leaf: &[u8]) {
        #[cfg(test)]
        PUSHED.set(PUSHED.get() + 1);
        self.octets += leaf.len() as u64;
        self.list.push(Span { octets: leaf.len() as u64, digest: blake3(leaf) });
        self.join_last();
        if self.octets > self.full_octets.saturating_mul(SPANS_MAX as u64) {
            self.grow();
        }
    }

    /// Joins the last two spans while they have the same length and are not full.
    fn join_last(&mut self) {
        while let [.., a, b] = self.list[..]
            && a.octets == b.octets
            && a.octets < self.full_octets
            && a.octets >= LEAF_OCTETS as u64
        {
            self.list.truncate(self.list.len() - 2);
            self.list.push(joined(&a, &b));
        }
    }

    /// Doubles the octets of a full span.
    fn grow(&mut self) {
        self.full_octets = self.full_octets.saturating_mul(2);
        for span in std::mem::take(&mut self.list) {
            self.list.push(span);
            self.join_last();
        }
    }

    /// Removes the spans that do not end before `octets`, and a last leaf that is not full: further
    /// octets follow. So each fetch that continues leaves no more spans than one that never ended.
    pub(super) fn truncate(&mut self, octets: u64) {
        let leaf = LEAF_OCTETS as u64;
        while let Some(last) =
            self.list.pop_if(|last| self.octets > octets || !last.octets.is_multiple_of(leaf))
        {
            self.octets -= last.octets;
        }
    }

    /// Reads the file and returns the ranges whose octets have changed. `look` receives the number
    /// of octets that were read so far, after each leaf. If it stops the reading, the error is
    /// [`io::ErrorKind::Interrupted`].
    pub(super) fn damaged(
        &self,
        file: &File,
        look: &mut dyn FnMut(u64) -> Flow,
    ) -> io::Result<Vec<Range<u64>>> {
        let mut damaged: Vec<Range<u64>> = Vec::new();
        let (mut at, mut buffer) = (0, vec![0; LEAF_OCTETS]);
        for span in &self.list {
            let end = at + span.octets;
            let found = match digest_of(file, at, span.octets, &mut buffer, look) {
                Ok(digest) => Some(digest),
                // The file is shorter.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
                Err(error) => return Err(error),
            };
            if found != Some(span.digest) {
                match damaged.last_mut() {
                    Some(last) if last.end == at => last.end = end,
                    _ => damaged.push(at..end),
                }
            }
            at = end;
        }
        Ok(damaged)
    }
}

fn joined(a: &Span, b: &Span) -> Span {
    Span { octets: a.octets + b.octets, digest: pair(&a.digest, &b.digest) }
}

fn pair(a: &[u8; 32], b: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(a).update(b);
    hash.finish()
}

/// The digest of a span of `octets` from `start` on. `buffer` has room for a leaf.
fn digest_of(
    file: &File,
    start: u64,
    octets: u64,
    buffer: &mut [u8],
    look: &mut dyn FnMut(u64) -> Flow,
) -> io::Result<[u8; 32]> {
    if octets <= LEAF_OCTETS as u64 {
        // At most a leaf.
        let leaf = buffer.get_mut(..octets as usize).ok_or(io::ErrorKind::InvalidInput)?;
        file.read_exact_at(leaf, start)?;
        return match look(start + octets) {
            Flow::Continue => Ok(blake3(leaf)),
            Flow::Stop => Err(io::ErrorKind::Interrupted.into()),
        };
    }
    // Spans are joined in pairs of the same length. Another length is from no journal of ours.
    if !octets.is_multiple_of(2) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let half = octets / 2;
    let first = digest_of(file, start, half, buffer, look)?;
    Ok(pair(&first, &digest_of(file, start + half, half, buffer, look)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const LEAF: u64 = LEAF_OCTETS as u64;

    fn content(octets: u64) -> Vec<u8> {
        (0..octets).map(|i| (i / 7 + i % 251) as u8).collect()
    }

    fn spans_of(content: &[u8]) -> Spans {
        let mut spans = Spans::new();
        content.chunks(LEAF_OCTETS).for_each(|leaf| spans.push(leaf));
        spans
    }

    fn file_of(content: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(content, 0).unwrap();
        File::from_inner(file)
    }

    fn damaged(spans: &Spans, file: &File) -> Vec<Range<u64>> {
        spans.damaged(file, &mut |_| Flow::Continue).unwrap()
    }

    #[test]
    fn a_damaged_span_is_found() {
        let content = content(13 * LEAF + 5);
        let (spans, file) = (spans_of(&content), file_of(&content));
        assert_eq!(spans.octets(), content.len() as u64);
        assert!(damaged(&spans, &file).is_empty());
        file.write_all_at(&[!content[0]], 0).unwrap();
        let last = 13 * LEAF + 4;
        file.write_all_at(&[!content[last as usize]], last).unwrap();
        assert_eq!(damaged(&spans, &file), [0..4 * LEAF, 13 * LEAF..13 * LEAF + 5]);
        file.set_len(6 * LEAF).unwrap();
        let found = damaged(&spans, &file);
        assert_eq!((found.len(), found[0].clone()), (1, 0..13 * LEAF + 5));
    }

    #[test]
    fn spans_grow_with_the_file() {
        let content = content(SPANS_MAX as u64 * SPAN_OCTETS * 2 + LEAF);
        let at_the_limit = &content[..SPANS_MAX * SPAN_OCTETS as usize];
        let spans = spans_of(at_the_limit);
        assert_eq!(spans.list().len(), SPANS_MAX);
        assert!(spans.list().iter().all(|span| span.octets == SPAN_OCTETS));
        let more = spans_of(&content[..at_the_limit.len() + LEAF_OCTETS]);
        assert_eq!((more.list().len(), more.list()[0].octets), (SPANS_MAX / 2 + 1, 2 * SPAN_OCTETS));
        let all = spans_of(&content);
        assert!(all.list().len() <= SPANS_MAX + 8, "{}", all.list().len());
        assert!(damaged(&all, &file_of(&content)).is_empty());
    }

    #[test]
    fn truncated_spans_continue() {
        let content = content(11 * LEAF);
        let mut spans = spans_of(&content);
        spans.truncate(9 * LEAF + 5);
        assert_eq!(spans.octets(), 8 * LEAF);
        for leaf in content[spans.octets() as usize..].chunks(LEAF_OCTETS) {
            spans.push(leaf);
        }
        assert_eq!(spans, spans_of(&content));
        let read = Spans::from_list(spans.list().to_vec()).unwrap();
        assert_eq!(read, spans);
    }

    #[test]
    fn a_watcher_sees_and_stops_the_check() {
        let content = content(6 * LEAF + 5);
        let (spans, file) = (spans_of(&content), file_of(&content));
        let mut seen = Vec::new();
        let stopped = spans.damaged(&file, &mut |octets| {
            seen.push(octets);
            if octets < 5 * LEAF { Flow::Continue } else { Flow::Stop }
        });
        assert_eq!(stopped.unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(seen, [LEAF, 2 * LEAF, 3 * LEAF, 4 * LEAF, 5 * LEAF]);
    }

    #[test]
    fn interruptions_leave_no_additional_spans() {
        let leaf = [7; LEAF_OCTETS];
        let mut spans = Spans::new();
        for _ in 0..10 * SPANS_MAX {
            // The end of an interrupted fetch, and of the next one.
            spans.push(&leaf[..9]);
            spans.truncate(spans.octets());
            spans.push(&leaf);
        }
        let uninterrupted = spans_of(&leaf.repeat(10 * SPANS_MAX));
        assert_eq!(spans, uninterrupted);
    }
}
