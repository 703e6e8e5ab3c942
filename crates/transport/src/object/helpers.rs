//! Threads that help one that checks pieces: they prepare what waits in its [`Backlog`] and believe nothing.
//!
//! They belong to the reading that called them: they start when more waits than its own thread gets to, end when there was nothing
//! to do for a while, and are gone when it is over, however it ends. All that share one [`Helpers`] have no more than its limit at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope};

use super::backlog::Backlog;

/// Threads that verify for one reader or one socket at most, the reading's own included.
pub const VERIFY_THREADS_MAX: usize = 64;

/// Threads that verify unless it is said how many, on a machine that has that many processors for this process.
pub const VERIFY_THREADS_DEFAULT: usize = 4;

/// How many threads verify unless it is said how many.
pub fn threads_default() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(VERIFY_THREADS_DEFAULT)
}

/// How many threads help at once.
#[derive(Debug, Default)]
pub struct Helpers {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Helpers {
    /// Runs `check`, which takes pieces out of `backlog` in their order, with its thread and as many helpers as make `threads` (0: the
    /// default) with it. It gets what calls one of them. The backlog is closed afterwards.
    pub fn with<E: Send, R>(
        &self,
        backlog: &Backlog<E>,
        threads: usize,
        check: impl FnOnce(&dyn Fn()) -> R,
    ) -> R {
        let threads = if threads == 0 { threads_default() } else { threads.min(VERIFY_THREADS_MAX) };
        thread::scope(|scope| {
            let _ends = Ends(backlog);
            check(&|| self.call(scope, backlog, threads - 1))
        })
    }

    /// The most that helped at once.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn call<'scope, E: Send>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        backlog: &'scope Backlog<E>,
        most: usize,
    ) {
        let taken = self
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now < most).then_some(now + 1));
        let Ok(before) = taken else { return };
        let place = Place(self);
        let thread = thread::Builder::new().name("namely-verify".into()).spawn_scoped(scope, move || {
            let _place = place;
            backlog.help();
        });
        match thread {
            Ok(_) => drop(self.most.fetch_max(before + 1, Ordering::Relaxed)),
            Err(error) => tracing::debug!(%error, "no thread to help to verify: it takes longer"),
        }
    }
}

/// The place of one that helps.
struct Place<'a>(&'a Helpers);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends helpers away, also when the thread that checks panics.
struct Ends<'a, E>(&'a Backlog<E>);

impl<E> Drop for Ends<'_, E> {
    fn drop(&mut self) {
        self.0.close();
    }
}
