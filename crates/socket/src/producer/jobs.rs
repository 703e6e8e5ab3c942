//! What waits for the producer's second thread ([`super::fetcher`]).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use namely_wire::LpHeaders;

use namely_store::Location;

/// Packets that are being read, or wait to be.
pub(crate) const READS_MAX: usize = 1024;

/// One thing to do.
pub(super) enum Job {
    /// The packet at `location` answers `interest`, if it is what it seems.
    Read { location: Location, interest: Box<[u8]>, headers: LpHeaders },
    /// `interest` asks whether a certificate is revoked.
    Statement { interest: Box<[u8]>, headers: LpHeaders },
}

/// Where jobs are handed over.
pub(super) struct Jobs(Mutex<Option<SyncSender<Job>>>);

impl Jobs {
    pub(super) fn new() -> (Self, Receiver<Job>) {
        let (sender, receiver) = sync_channel(READS_MAX);
        (Jobs(Mutex::new(Some(sender))), receiver)
    }

    /// Returns true if there was room.
    pub(super) fn hand_over(&self, job: Job) -> bool {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(|sender| sender.try_send(job).is_ok())
    }

    /// No more: the thread ends.
    pub(super) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_taken_up_to_the_limit() {
        let job = || Job::Statement { interest: Box::default(), headers: LpHeaders::default() };
        let (jobs, receiver) = Jobs::new();
        assert!((0..READS_MAX).all(|_| jobs.hand_over(job())));
        assert!(!jobs.hand_over(job()));
        drop(receiver.recv().unwrap());
        assert!(jobs.hand_over(job()) && !jobs.hand_over(job()));
        jobs.close();
        assert!(!jobs.hand_over(job()));
        assert_eq!(receiver.iter().count(), READS_MAX, "what was taken is done");
    }
}
