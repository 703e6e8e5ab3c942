//! Queue of the producer's second thread ([`super::fetcher`]).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use namely_wire::LpHeaders;

use namely_store::Location;

/// Packets that are being read from a store or wait for it.
///
/// # Limit
/// The Interest is dropped.
/// - Counter: `dropped_reads_full`
/// - Tests: `producer_jobs_are_limited`
pub(crate) const READS_MAX: usize = 1024;

/// A task.
pub(super) enum Job {
    /// Read the packet at `location`, and send it if it answers `interest`.
    Read { location: Location, interest: Box<[u8]>, headers: LpHeaders },
    /// `interest` requests the revocation status of a certificate.
    Statement { interest: Box<[u8]>, headers: LpHeaders },
}

/// The sending end of the queue.
pub(super) struct Jobs(Mutex<Option<SyncSender<Job>>>);

impl Jobs {
    pub(super) fn new() -> (Self, Receiver<Job>) {
        let (sender, receiver) = sync_channel(READS_MAX);
        (Jobs(Mutex::new(Some(sender))), receiver)
    }

    /// Returns true if the queue accepted the job.
    pub(super) fn hand_over(&self, job: Job) -> bool {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(|sender| sender.try_send(job).is_ok())
    }

    /// Closes the queue, so that the thread ends.
    pub(super) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producer_jobs_are_limited() {
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
