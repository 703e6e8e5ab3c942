//! Threads that process partitions of a network window by window, with the digits of one thread.
//!
//! All threads wait for one another twice in a window: before it, to know the time of the first
//! event of all, and after it, when the frames for other partitions are in their mailboxes. Events
//! of a mailbox are in no particular order; their keys order them in the queue.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::engine::Engine;
use crate::event::Event;

/// Processes the events of all engines before `end_ns`.
pub(crate) fn run(engines: &mut [Engine], window_ns: u64, end_ns: u64) {
    let shared = Shared {
        window_ns,
        end_ns,
        meeting: Meeting::new(engines.len()),
        next_ns: engines.iter().map(|_| AtomicU64::new(0)).collect(),
        mailboxes: engines.iter().map(|_| Mutex::new(Vec::new())).collect(),
    };
    let shared = &shared;
    let Some((first, others)) = engines.split_first_mut() else { return };
    std::thread::scope(|scope| {
        for (index, engine) in others.iter_mut().enumerate() {
            scope.spawn(move || work(engine, index + 1, shared));
        }
        work(first, 0, shared);
    });
}

struct Shared {
    window_ns: u64,
    end_ns: u64,
    meeting: Meeting,
    /// Time of each engine's first event.
    next_ns: Vec<AtomicU64>,
    /// Events for each engine by others.
    mailboxes: Vec<Mutex<Vec<Event>>>,
}

/// The loop of one thread.
fn work(engine: &mut Engine, own: usize, shared: &Shared) {
    let _ending = EndOnPanic(&shared.meeting);
    loop {
        engine.receive(&mut shared.mailboxes[own].lock());
        // Relaxed: the meeting orders the accesses.
        shared.next_ns[own].store(engine.next_ns(), Ordering::Relaxed);
        if !shared.meeting.wait() {
            return;
        }
        // All threads compute the same time, because nobody stores before the next meeting.
        let next_ns = shared.next_ns.iter().map(|next_ns| next_ns.load(Ordering::Relaxed));
        let begin_ns = next_ns.min().unwrap_or(u64::MAX);
        if begin_ns >= shared.end_ns {
            return;
        }
        engine.run_before(shared.end_ns.min(begin_ns.saturating_add(shared.window_ns)));
        engine.post(&shared.mailboxes);
        if !shared.meeting.wait() {
            return;
        }
    }
}

/// A barrier that ends when a thread panics. The others would otherwise wait for it forever.
struct Meeting {
    count: usize,
    state: Mutex<MeetingState>,
    changed: Condvar,
}

#[derive(Default)]
struct MeetingState {
    present: usize,
    round: u64,
    is_over: bool,
}

impl Meeting {
    fn new(count: usize) -> Self {
        Meeting { count, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for all threads. Returns false if one has panicked.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        state.present += 1;
        if state.present == self.count {
            state.present = 0;
            state.round += 1;
            self.changed.notify_all();
        } else {
            let round = state.round;
            while state.round == round && !state.is_over {
                self.changed.wait(&mut state);
            }
        }
        !state.is_over
    }

    fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// Ends the meeting if its thread panics.
struct EndOnPanic<'a>(&'a Meeting);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panic_in(meeting: &Meeting) {
        let _ending = EndOnPanic(meeting);
        panic!("as a behavior may");
    }

    #[test]
    fn a_panic_ends_the_meeting_of_all() {
        let meeting = Meeting::new(3);
        let results = std::thread::scope(|scope| {
            let waits = [(); 2].map(|()| scope.spawn(|| meeting.wait()));
            let panics = scope.spawn(|| panic_in(&meeting));
            assert!(panics.join().is_err());
            waits.map(|wait| wait.join().expect("a result"))
        });
        assert_eq!(results, [false, false]);
    }

    #[test]
    fn nobody_leaves_a_meeting_early() {
        let (meeting, entered) = (Meeting::new(3), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=100 {
                        entered.fetch_add(1, Ordering::SeqCst);
                        assert!(meeting.wait());
                        assert!(entered.load(Ordering::SeqCst) >= 3 * round);
                    }
                });
            }
        });
        assert_eq!(entered.into_inner(), 300);
    }
}
