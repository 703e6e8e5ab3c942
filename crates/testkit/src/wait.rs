//! Waits of tests: for a condition, never for a time that is assumed to be long enough.

use std::fmt::Display;
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Longest wait for a condition. Only a failing test waits so long, so a busy machine may take its
/// time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Longest pause between two checks of a condition.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Waits until `condition` holds; `what` describes it.
///
/// # Panics
/// If it does not hold within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: impl Display, mut condition: impl FnMut() -> bool) {
    until(what, || condition().then_some(()));
}

/// Waits until `found` finds a value; `what` describes it.
///
/// # Panics
/// If it finds none within [`PATIENCE`].
#[track_caller]
pub fn until<T>(what: impl Display, found: impl FnMut() -> Option<T>) -> T {
    match found_within(PATIENCE, found) {
        Some(value) => value,
        None => panic!("waited in vain: {what}"),
    }
}

/// Waits until `condition` holds; false if it does not within [`PATIENCE`]. For a test that has to
/// act or to print before it fails.
pub fn wait_until_true(mut condition: impl FnMut() -> bool) -> bool {
    found_within(PATIENCE, || condition().then_some(())).is_some()
}

/// The value that `found` finds; `None` if it finds none within `limit`. For waits longer than
/// [`PATIENCE`], and for waits in which a timeout is no failure.
pub fn found_within<T>(limit: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let (begun, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        // A check may take long itself. The last one begins when the time is over.
        let is_last = begun.elapsed() >= limit;
        let value = found();
        if value.is_some() || is_last {
            return value;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Runs `work` on a thread of `scope`. Returns once that thread sleeps in the kernel, because it
/// waits for the test's next step, or has ended.
///
/// A thread may also sleep for a moment before that step. A test must not fail if it did.
///
/// # Panics
/// If it does neither within [`PATIENCE`].
#[track_caller]
pub fn asleep<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let (sender, place) = channel();
    let thread = scope.spawn(move || {
        // PID/task/TID: of this thread.
        let _ = sender.send(std::fs::read_link("/proc/thread-self"));
        drop(sender);
        work()
    });
    eventually("the thread waits", is_asleep(&place, || thread.is_finished()));
    thread
}

/// Returns true if the thread at this place below `/proc` sleeps, or has ended.
fn is_asleep(
    place: &Receiver<std::io::Result<std::path::PathBuf>>,
    has_ended: impl Fn() -> bool,
) -> impl FnMut() -> bool {
    let place = place.recv().expect("the thread begins").expect("a thread knows its place");
    let stat = std::path::Path::new("/proc").join(place).join("stat");
    move || {
        // The state follows the name, which is in parentheses.
        let state = std::fs::read_to_string(&stat).ok().and_then(|stat| {
            let (_, fields) = stat.rsplit_once(") ")?;
            fields.chars().next()
        });
        has_ended() || state == Some('S')
    }
}

/// Calls `receive` again after an interruption. A system call that waits with a timeout fails when
/// its process was stopped or frozen and continues (signal(7)): a suspended machine is no fault of
/// the peer.
///
/// # Errors
/// Those of `receive`, except [`io::ErrorKind::Interrupted`].
pub fn uninterrupted<T>(mut receive: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match receive() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            received => return received,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_condition_is_polled_until_true() {
        let mut looks = 0;
        eventually("the third look", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
        assert_eq!(until("a value", || Some(7)), 7);
        assert!(wait_until_true(|| true));
    }

    #[test]
    fn a_panic_in_a_condition_fails_at_once() {
        assert!(catch_unwind(|| eventually("never", || panic!("broken"))).is_err());
    }

    #[test]
    fn a_sleeping_thread_counts_as_waiting() {
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            let waiting = asleep(scope, move || receiver.recv());
            assert!(!waiting.is_finished());
            sender.send(1).unwrap();
            assert_eq!(waiting.join().unwrap(), Ok(1));
            assert_eq!(asleep(scope, || 2).join().unwrap(), 2, "one that ends waits for nothing");
        });
    }
}
