//! Helper threads of the thread that verifies pieces. They only prepare the pieces that wait in its
//! [`VerifyQueue`]; the verifying thread alone accepts them.
//!
//! Helpers belong to one fetch. They start when more pieces wait than the verifying thread can
//! process, and end after an idle period. They are scoped threads, so they are joined when the
//! fetch succeeds or fails. A fetch starts a helper only while the helpers of all fetches that
//! share one [`Helpers`] are fewer than its limit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope};

use super::queue::VerifyQueue;
use crate::options::VERIFY_THREADS_MAX;

/// Maximum number of verifying threads if the options set none.
const VERIFY_THREADS_DEFAULT: usize = 4;

/// Number of verifying threads if the options set none: one for each processor that this process
/// may use, at most [`VERIFY_THREADS_DEFAULT`].
fn threads_default() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(VERIFY_THREADS_DEFAULT)
}

/// Counts the helpers that run at the same time.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Helpers {
    /// Runs `check`, which takes pieces out of `queue` in order, on the calling thread. Up to
    /// `threads` threads (0: the default), this one included, verify. `check` receives a function
    /// that starts a helper. The queue is closed afterwards.
    pub(super) fn with<E: Send, R>(
        &self,
        queue: &VerifyQueue<E>,
        threads: usize,
        check: impl FnOnce(&dyn Fn()) -> R,
    ) -> R {
        let threads = if threads == 0 { threads_default() } else { threads.min(VERIFY_THREADS_MAX) };
        thread::scope(|scope| {
            let _ends = QueueCloser(queue);
            check(&|| self.call(scope, queue, threads - 1))
        })
    }

    /// The largest number of helpers that ran at once.
    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn call<'scope, E: Send>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queue: &'scope VerifyQueue<E>,
        helpers_max: usize,
    ) {
        let taken = self
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now < helpers_max).then_some(now + 1));
        let Ok(before) = taken else { return };
        let helping = HelperGuard(self);
        let thread = thread::Builder::new().name("namely-verify".into()).spawn_scoped(scope, move || {
            let _helping = helping;
            queue.help();
        });
        match thread {
            Ok(_) => drop(self.most.fetch_max(before + 1, Ordering::Relaxed)),
            Err(error) => tracing::debug!(%error, "no thread to help to verify: it takes longer"),
        }
    }
}

/// A running helper, counted in [`Helpers::now`] until it is dropped.
struct HelperGuard<'a>(&'a Helpers);

impl Drop for HelperGuard<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Closes the queue on drop, so that helpers end also when the checking thread panics.
struct QueueCloser<'a, E>(&'a VerifyQueue<E>);

impl<E> Drop for QueueCloser<'_, E> {
    fn drop(&mut self) {
        self.0.close();
    }
}
