//! Undoes failed publications, several of which may append at the same time.
//!
//! Records of concurrent publications are interleaved. The records of a failed publication are cut
//! off once only records of failed publications lie after its start.

use std::collections::BTreeMap;

/// Failed publications whose records may still be cut off.
///
/// # Limit
/// The records of the oldest stay as dead octets.
/// - Tests: `remembered_failures_are_limited`
const FAILED_MAX: usize = 64;

/// A position in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number of the file; 0: there was no file yet.
    pub(crate) file: u64,
    /// Octets of that file.
    pub(crate) octets: u64,
    /// Octets appended to the store before this position.
    pub(crate) appended: u64,
}

/// Publications in progress or failed, by number. Numbers ascend in the order in which the
/// publications began.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    publications: BTreeMap<u64, Publication>,
    last: u64,
}

#[derive(Debug)]
struct Publication {
    began: Mark,
    /// Number of failed synchronizations before the publication began.
    failures: u64,
    /// Packets and octets that the publication appended, if it has failed.
    failed: Option<(usize, u64)>,
}

impl Undo {
    /// Begins a publication at `began`, after `failures` failed synchronizations. Returns its
    /// number.
    pub(crate) fn begin(&mut self, began: Mark, failures: u64) -> u64 {
        self.last += 1;
        self.publications.insert(self.last, Publication { began, failures, failed: None });
        self.last
    }

    /// Returns the number of failed synchronizations before the publication `number` began.
    pub(crate) fn failures_before(&self, number: u64) -> Option<u64> {
        self.publications.get(&number).map(|known| known.failures)
    }

    /// Ends a publication; its records stay.
    pub(crate) fn commit(&mut self, number: u64) {
        self.publications.remove(&number);
    }

    /// Records that a publication failed after it appended these packets and octets.
    pub(crate) fn fail(&mut self, number: u64, packets: usize, octets: u64) {
        if let Some(publication) = self.publications.get_mut(&number) {
            publication.failed = Some((packets, octets));
        }
        // Numbers ascend, so the first one is the oldest.
        let failed: Vec<u64> = self.failed().map(|(number, ..)| number).collect();
        if failed.len() > FAILED_MAX {
            self.publications.remove(&failed[0]);
        }
    }

    /// Returns the position at which a store with `appended` appended octets can be cut off, and
    /// the number of packets after that position. `is_there` returns true for a file that still
    /// exists.
    pub(crate) fn cut(&mut self, appended: u64, is_there: impl Fn(u64) -> bool) -> Option<(Mark, usize)> {
        // Walk back from the last failed publication. A cut at the start of a publication is
        // possible if all octets after it belong to failed publications.
        let failed: Vec<_> = self.failed().collect();
        let (mut packets, mut octets, mut cut) = (0, 0, None);
        for (_, began, (its_packets, its_octets)) in failed.into_iter().rev() {
            packets += its_packets;
            octets += its_octets;
            if began.appended + octets == appended && is_there(began.file) {
                cut = Some((began, packets));
            }
        }
        let (mark, packets) = cut?;
        self.publications.retain(|_, known| known.failed.is_none() || known.began.appended < mark.appended);
        // A publication in progress that began after the cut has appended nothing, because failed
        // publications had appended all octets after the cut.
        for known in self.publications.values_mut().filter(|known| known.began.appended > mark.appended) {
            known.began = mark;
        }
        Some((mark, packets))
    }

    fn failed(&self) -> impl Iterator<Item = (u64, Mark, (usize, u64))> {
        self.publications.iter().filter_map(|(number, known)| Some((*number, known.began, known.failed?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(appended: u64) -> Mark {
        Mark { file: 1, octets: 16 + appended, appended }
    }

    #[test]
    fn failed_appends_are_truncated_from_the_end() {
        let mut undo = Undo::default();
        // One after the other: a has 0..10, b 10..30, and c nothing yet.
        let [a, b, c] = [0, 10, 30].map(|appended| undo.begin(mark(appended), 0));
        undo.fail(a, 1, 10);
        assert_eq!(undo.cut(30, |_| true), None, "b is behind it");
        undo.fail(b, 2, 20);
        assert_eq!(undo.cut(30, |_| true), Some((mark(0), 3)));
        // c begins at the cut.
        undo.fail(c, 1, 5);
        assert_eq!(undo.cut(5, |_| true), Some((mark(0), 1)));
        assert!(undo.publications.is_empty());
        // Interleaved: only the last publication can be cut off, and committed records never.
        let [a, b, c] = [0, 5, 40].map(|appended| undo.begin(mark(appended), 0));
        undo.fail(a, 1, 20);
        undo.commit(b);
        assert_eq!(undo.cut(40, |_| true), None);
        undo.fail(c, 1, 10);
        assert_eq!(undo.cut(50, |_| true), Some((mark(40), 1)));
        assert_eq!(undo.cut(40, |_| true), None);
        // The file of d may have been dropped.
        let d = undo.begin(mark(40), 0);
        undo.fail(d, 1, 10);
        assert_eq!(undo.cut(50, |_| false), None);
    }

    #[test]
    fn remembered_failures_are_limited() {
        let mut undo = Undo::default();
        let keeps = undo.begin(mark(0), 0);
        let numbers: Vec<u64> = (0..FAILED_MAX as u64 + 1).map(|i| undo.begin(mark(10 * i), 0)).collect();
        for number in &numbers {
            undo.fail(*number, 1, 10);
        }
        undo.commit(keeps);
        let appended = 10 * numbers.len() as u64;
        assert_eq!(undo.cut(appended, |_| true), Some((mark(10), FAILED_MAX)), "all but the oldest");
        assert!(undo.publications.is_empty());
    }
}
