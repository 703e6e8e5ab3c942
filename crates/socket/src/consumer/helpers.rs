//! Threads that help one that verifies pieces: they prepare what waits in its [`VerifyQueue`] and
//! believe nothing.
//!
//! They belong to the fetch that called them: they start when more waits than its own thread gets
//! to, end when there was nothing to do for a while, and are gone when it is over, however it ends:
//! they are scoped threads. All that share one [`Helpers`] have no more than its limit at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope};

use super::queue::VerifyQueue;
use crate::options::VERIFY_THREADS_MAX;

/// Maximum number of threads that verify where the options do not say how many.
const VERIFY_THREADS_DEFAULT: usize = 4;

/// Number of threads that verify where the options do not say: one for each processor of this
/// process.
fn threads_default() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(VERIFY_THREADS_DEFAULT)
}

/// How many threads help at once.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Helpers {
    /// Runs `check`, which takes pieces out of `queue` in their order, with its thread and as many
    /// helpers as make `threads` (0: the default) with it. It gets what calls one of them. The
    /// queue is closed afterwards.
    pub(super) fn with<E: Send, R>(
        &self,
        queue: &VerifyQueue<E>,
        threads: usize,
        check: impl FnOnce(&dyn Fn()) -> R,
    ) -> R {
        let threads = if threads == 0 { threads_default() } else { threads.min(VERIFY_THREADS_MAX) };
        thread::scope(|scope| {
            let _ends = Ends(queue);
            check(&|| self.call(scope, queue, threads - 1))
        })
    }

    /// The largest number that helped at once.
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
        let helping = Helping(self);
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

/// One that helps, counted in [`Helpers::now`] for as long as it lives.
struct Helping<'a>(&'a Helpers);

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends helpers away, also when the thread that checks panics.
struct Ends<'a, E>(&'a VerifyQueue<E>);

impl<E> Drop for Ends<'_, E> {
    fn drop(&mut self) {
        self.0.close();
    }
}
