//! Measures the longest turns of a worker, by the clock and by processor time. The first is the
//! time for which a ready source may wait. The second excludes the time of other processes that
//! compete for processors.

use namely_host::clock;

use crate::mailbox::WorkerMailbox;

/// After a turn of at least this length, the processor time of the next one is measured, ns.
/// Reading it takes a system call, which is cheap compared with a long turn but not with a short
/// one.
const LONG_NS: u64 = 1_000_000;

/// Measures the consecutive turns of a worker.
#[derive(Debug, Default)]
pub(crate) struct IterationClock {
    was_long: bool,
    /// The processor time of the worker's thread at the start of the turn.
    begun_cpu_ns: Option<u64>,
}

impl IterationClock {
    /// Begins a turn.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.begun_cpu_ns = if self.was_long { Some(clock::thread_cpu_ns()) } else { None };
    }

    /// Ends a turn that took `ns`.
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
    fn long_turns_measure_the_next_processor_time() {
        let epoll = create(CreateFlags::CLOEXEC).unwrap();
        let mailbox = WorkerMailbox::<()>::new(0, epoll, Waker::new().unwrap());
        let mut turns = IterationClock::default();
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
