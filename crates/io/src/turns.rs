//! How long a worker's turns take: by the clock, which is how long others may have waited for it,
//! and by the processor time that it had, which is what it did itself where others compete for
//! processors.

use namely_host::clock;

use crate::mailbox::WorkerMailbox;

/// A turn that takes longer has the processor time of the next one measured, ns: the clock for that
/// is a system call, which is nothing beside such a turn and much beside a short one.
const LONG_NS: u64 = 1_000_000;

/// Times a worker's turns, one after the other.
#[derive(Debug, Default)]
pub(crate) struct TurnClock {
    was_long: bool,
    /// What the worker had used up when the turn began.
    begun_cpu_ns: Option<u64>,
}

impl TurnClock {
    /// A turn begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.begun_cpu_ns = if self.was_long { Some(clock::thread_cpu_ns()) } else { None };
    }

    /// It ends, after so many ns.
    #[inline]
    pub(crate) fn end<M>(&mut self, ns: u64, mailbox: &WorkerMailbox<M>) {
        mailbox.note_turn(ns);
        if let Some(begun_cpu_ns) = self.begun_cpu_ns {
            mailbox.note_turn_cpu(clock::thread_cpu_ns().saturating_sub(begun_cpu_ns));
        }
        self.was_long = ns >= LONG_NS;
    }
}

#[cfg(test)]
mod tests {
    use namely_host::Waker;
    use rustix::event::epoll::{CreateFlags, create};

    use super::*;

    #[test]
    fn the_processor_time_of_a_turn_after_a_long_one_is_told() {
        let epoll = create(CreateFlags::CLOEXEC).unwrap();
        let mailbox = WorkerMailbox::<()>::new(0, epoll, Waker::new().unwrap());
        let mut turns = TurnClock::default();
        let mut turn = |ns| {
            turns.begin();
            let begun_cpu_ns = clock::thread_cpu_ns();
            while clock::thread_cpu_ns() - begun_cpu_ns < 100_000 {}
            turns.end(ns, &mailbox);
            (mailbox.longest_turn_ns(), mailbox.longest_turn_cpu_ns() >= 100_000)
        };
        assert_eq!(turn(LONG_NS - 1), (LONG_NS - 1, false));
        assert_eq!(turn(LONG_NS), (LONG_NS, false), "the turn before was short");
        assert_eq!(turn(5), (LONG_NS, true));
    }
}
