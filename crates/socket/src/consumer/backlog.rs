//! What lies between the socket's thread, which takes Data in as the window brings them, and the thread that checks them
//! (HT-19): pieces by number, handed over in runs, in order. At most `span_max` of them, because no further ones are asked
//! for before earlier ones were handed over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::FetchError;

/// Pieces taken at once: a lock for each run, not for each piece.
pub(super) const RUN_MAX: usize = 32;

/// How often a waiting thread looks whether the call was given up.
const LOOK: Duration = Duration::from_millis(50);

/// The pieces of one object that came and were not checked.
#[derive(Debug)]
pub(super) struct Backlog {
    state: Mutex<State>,
    arrived: Condvar,
    /// Every piece before this number was handed over.
    handed: AtomicU64,
    /// Whether the socket's thread has something to learn from `state`.
    news: AtomicBool,
    over: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// The number of the first of `pieces`.
    base: u64,
    pieces: VecDeque<Option<Vec<u8>>>,
    filled: usize,
    most: usize,
    corrupt: Option<u64>,
    last_segment: Option<u64>,
    ended: Option<FetchError>,
}

/// What the checking thread found out.
#[derive(Debug, Default)]
pub(super) struct News {
    /// This piece is to be asked for again.
    pub(super) corrupt: Option<u64>,
    /// This segment is the last one.
    pub(super) last_segment: Option<u64>,
}

impl Backlog {
    /// For pieces from `first` on.
    pub(super) fn new(first: u64) -> Self {
        Backlog {
            state: Mutex::new(State {
                base: first,
                pieces: VecDeque::new(),
                filled: 0,
                most: 0,
                corrupt: None,
                last_segment: None,
                ended: None,
            }),
            arrived: Condvar::new(),
            handed: AtomicU64::new(first),
            news: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what came.
    pub(super) fn add(&self, fresh: &mut Vec<(u64, Vec<u8>)>) {
        let mut state = self.lock();
        for (number, wire) in fresh.drain(..) {
            state.put(number, wire);
        }
        state.most = state.most.max(state.filled);
        if matches!(state.pieces.front(), Some(Some(_))) {
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Piece `number` is lost for good: an empty one takes its place.
    pub(super) fn give_up(&self, number: u64) {
        self.add(&mut vec![(number, Vec::new())]);
    }

    /// Nothing further comes.
    pub(super) fn end(&self, error: FetchError) {
        self.lock().ended.get_or_insert(error);
        self.arrived.notify_all();
    }

    /// The next pieces in order, at least one and at most [`RUN_MAX`], those that are lost for good empty; waits for them until `given_up`.
    pub(super) fn take(&self, given_up: &dyn Fn() -> bool) -> Result<VecDeque<Vec<u8>>, Stopped> {
        let mut state = self.lock();
        loop {
            let run = state.run();
            if !run.is_empty() {
                return Ok(run);
            }
            if let Some(error) = state.ended.take() {
                return Err(Stopped::Ended(error));
            }
            if given_up() {
                return Err(Stopped::GivenUp);
            }
            state = self.arrived.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives back what could not be checked yet: pieces from `number` on, behind one that came wrong.
    pub(super) fn give_back(&self, corrupt: u64, pieces: VecDeque<Vec<u8>>) {
        let mut state = self.lock();
        state.filled += pieces.len();
        for wire in pieces.into_iter().rev() {
            state.pieces.push_front(Some(wire));
        }
        state.pieces.push_front(None);
        state.base = corrupt;
        state.corrupt = Some(corrupt);
        self.news.store(true, Ordering::Release);
    }

    /// A verified segment said that `segment` is the last one.
    pub(super) fn tell_last(&self, segment: u64) {
        self.lock().last_segment = Some(segment);
        self.news.store(true, Ordering::Release);
    }

    /// Everything before piece `number` was handed over.
    pub(super) fn hand_over(&self, number: u64) {
        self.handed.store(number, Ordering::Release);
    }

    /// See [`Backlog::hand_over`].
    pub(super) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    /// What the checking thread found out since this was asked last.
    pub(super) fn news(&self) -> Option<News> {
        if !self.news.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut state = self.lock();
        Some(News { corrupt: state.corrupt.take(), last_segment: state.last_segment.take() })
    }

    /// Nobody takes from it any more.
    pub(super) fn close(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether that is so.
    pub(super) fn is_closed(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The most pieces that waited at once.
    pub(super) fn most(&self) -> usize {
        self.lock().most
    }
}

/// Why no further pieces come.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The socket's thread says why.
    Ended(FetchError),
    /// Nobody waits for the result.
    GivenUp,
}

impl State {
    fn put(&mut self, number: u64, wire: Vec<u8>) {
        let Some(i) = number.checked_sub(self.base).and_then(|i| usize::try_from(i).ok()) else { return };
        if self.pieces.len() <= i {
            self.pieces.resize(i + 1, None);
        }
        self.filled += usize::from(self.pieces[i].is_none());
        self.pieces[i] = Some(wire);
    }

    fn run(&mut self) -> VecDeque<Vec<u8>> {
        let ready = self.pieces.iter().take(RUN_MAX).take_while(|piece| piece.is_some()).count();
        self.base += ready as u64;
        self.filled -= ready;
        self.pieces.drain(..ready).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_order_and_a_corrupt_one_is_waited_for_again() {
        let backlog = Backlog::new(3);
        backlog.add(&mut vec![
            (5, b"5".to_vec()),
            (3, b"3".to_vec()),
            (4, b"4".to_vec()),
            (7, b"7".to_vec()),
        ]);
        let mut run = backlog.take(&|| false).unwrap();
        assert_eq!(run, [b"3", b"4", b"5"]);
        assert!(matches!(backlog.take(&|| true), Err(Stopped::GivenUp)), "6 is not there");
        run.pop_front();
        run.pop_front();
        backlog.give_back(4, run);
        assert_eq!(backlog.news().unwrap().corrupt, Some(4));
        assert!(backlog.news().is_none());
        backlog.add(&mut vec![(4, b"four".to_vec()), (6, b"6".to_vec())]);
        assert_eq!(backlog.take(&|| false).unwrap(), [&b"four"[..], b"5", b"6", b"7"]);
        assert_eq!(backlog.most(), 4);
    }
}
