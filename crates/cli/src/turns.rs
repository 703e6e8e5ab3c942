//! The order of the outputs of jobs that run at once: as if they ran one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Octets of the output of a job that wait for its turn.
///
/// # Limit
/// The job waits for its turn.
/// - Tests: `a_long_output_waits_for_its_turn`
const HELD_OCTETS_MAX: usize = 1 << 20;

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// For standard output.
    Answer(String),
    /// For standard error.
    Remark(String),
}

impl Piece {
    fn octets(&self) -> usize {
        match self {
            Piece::Answer(text) | Piece::Remark(text) => text.len(),
        }
    }
}

/// The turns of jobs, in the order of their numbers from 0 on. The first job that has not ended
/// prints at once. The output of later ones is held.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The job that prints.
    turn: usize,
    /// Later jobs that have ended.
    ended: BTreeSet<usize>,
    held: BTreeMap<usize, Vec<Piece>>,
}

impl State {
    fn has_room(&self, job: usize) -> bool {
        let held = self.held.get(&job).into_iter().flatten();
        held.map(Piece::octets).sum::<usize>() < HELD_OCTETS_MAX
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes `piece` of the job to `print`, in its turn.
    pub fn put(&self, job: usize, piece: Piece, print: &dyn Fn(&Piece)) {
        let mut state = self.lock();
        while state.turn != job && !state.has_room(job) {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.turn == job { print(&piece) } else { state.held.entry(job).or_default().push(piece) }
    }

    /// Ends the job. In its turn, the output of the next jobs follows.
    pub fn end(&self, job: usize, print: &dyn Fn(&Piece)) {
        let mut state = self.lock();
        state.ended.insert(job);
        loop {
            let turn = state.turn;
            if !state.ended.remove(&turn) {
                break;
            }
            state.turn += 1;
            let next = state.turn;
            state.held.remove(&next).unwrap_or_default().iter().for_each(print);
        }
        drop(state);
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn answer(text: &str) -> Piece {
        Piece::Answer(text.to_owned())
    }

    #[test]
    fn outputs_follow_the_order_of_jobs() {
        let (turns, printed) = (Turns::default(), RefCell::new(Vec::new()));
        let print = |piece: &Piece| printed.borrow_mut().push(piece.clone());
        turns.put(2, answer("2"), &print);
        turns.put(0, answer("0"), &print);
        turns.put(1, Piece::Remark("1".into()), &print);
        turns.end(1, &print);
        assert_eq!(*printed.borrow(), [answer("0")]);
        turns.put(0, answer("0 again"), &print);
        turns.end(0, &print);
        turns.put(2, answer("2 again"), &print);
        let rest = ["0 again", "1", "2", "2 again"];
        let texts: Vec<String> = printed.borrow().iter().skip(1).map(text).collect();
        assert_eq!(texts, rest);
    }

    fn text(piece: &Piece) -> String {
        match piece {
            Piece::Answer(text) | Piece::Remark(text) => text.clone(),
        }
    }

    #[test]
    fn a_long_output_waits_for_its_turn() {
        let (turns, printed) = (Turns::default(), Mutex::new(0));
        let print = |_: &Piece| *printed.lock().unwrap() += 1;
        turns.put(1, answer(&"x".repeat(HELD_OCTETS_MAX - 1)), &print);
        turns.put(1, answer("at the limit"), &print);
        std::thread::scope(|scope| {
            // It has no room before the turn of its job.
            let waiting = scope.spawn(|| turns.put(1, answer("past the limit"), &print));
            assert!(!turns.lock().has_room(1));
            turns.end(0, &print);
            waiting.join().unwrap();
        });
        assert_eq!(*printed.lock().unwrap(), 3);
    }
}
