//! Which publications append to a store at once, and what can be cut off again when some of them
//! fail.
//!
//! Records of publications that run at once lie between each other. Those of one that failed are
//! cut off as soon as nothing lies behind where it began but records of others that failed too.

use std::collections::BTreeMap;

/// Maximum number of publications that failed while others appended, and whose records may still be
/// cut off; those of the oldest stay as dead octets.
const FAILED_MAX: usize = 64;

/// A place in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number of the file; 0: there was none yet.
    pub(crate) file: u64,
    /// Octets of that file.
    pub(crate) octets: u64,
    /// Octets that had been appended.
    pub(crate) appended: u64,
}

/// Publications that are under way or failed, by number: in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    publications: BTreeMap<u64, Publication>,
    last: u64,
}

#[derive(Debug)]
struct Publication {
    began: Mark,
    /// How often the disk had failed when it began.
    failures: u64,
    /// Packets and octets that it appended, if it failed.
    failed: Option<(usize, u64)>,
}

impl Undo {
    /// One begins at `began`, after the disk failed so often; its number.
    pub(crate) fn begin(&mut self, began: Mark, failures: u64) -> u64 {
        self.last += 1;
        self.publications.insert(self.last, Publication { began, failures, failed: None });
        self.last
    }

    /// How often the disk had failed when the publication `number` began.
    pub(crate) fn failures_before(&self, number: u64) -> Option<u64> {
        self.publications.get(&number).map(|known| known.failures)
    }

    /// What it appended stays.
    pub(crate) fn commit(&mut self, number: u64) {
        self.publications.remove(&number);
    }

    /// It failed after it had appended so much.
    pub(crate) fn fail(&mut self, number: u64, packets: usize, octets: u64) {
        if let Some(publication) = self.publications.get_mut(&number) {
            publication.failed = Some((packets, octets));
        }
        let failed: Vec<u64> = self.failed().map(|(number, ..)| number).collect();
        if failed.len() > FAILED_MAX {
            self.publications.remove(&failed[0]);
        }
    }

    /// Where a store to which `appended` octets were appended can be cut off, and how many packets
    /// lie behind it; `is_there` returns true for a file that still is.
    pub(crate) fn cut(&mut self, appended: u64, is_there: impl Fn(u64) -> bool) -> Option<(Mark, usize)> {
        // Of the last one and all before it, as far as they have everything that lies behind them.
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
        // Those under way that began behind it have appended nothing yet that is still there.
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
    fn what_failed_is_cut_off_once_nothing_else_lies_behind_it() {
        let mut undo = Undo::default();
        // One after the other: a has 0..10, b 10..30, and c nothing yet.
        let [a, b, c] = [0, 10, 30].map(|appended| undo.begin(mark(appended), 0));
        undo.fail(a, 1, 10);
        assert_eq!(undo.cut(30, |_| true), None, "b is behind it");
        undo.fail(b, 2, 20);
        assert_eq!(undo.cut(30, |_| true), Some((mark(0), 3)));
        // c goes on from there.
        undo.fail(c, 1, 5);
        assert_eq!(undo.cut(5, |_| true), Some((mark(0), 1)));
        assert!(undo.publications.is_empty());
        // Between each other: the last one alone can be cut off, and what one keeps never.
        let [a, b, c] = [0, 5, 40].map(|appended| undo.begin(mark(appended), 0));
        undo.fail(a, 1, 20);
        undo.commit(b);
        assert_eq!(undo.cut(40, |_| true), None);
        undo.fail(c, 1, 10);
        assert_eq!(undo.cut(50, |_| true), Some((mark(40), 1)));
        assert_eq!(undo.cut(40, |_| true), None);
        // Its file may have been given up.
        let d = undo.begin(mark(40), 0);
        undo.fail(d, 1, 10);
        assert_eq!(undo.cut(50, |_| false), None);
    }

    #[test]
    fn so_many_that_failed_are_known_and_the_oldest_is_forgotten() {
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
