//! Objects that are fetched at once.
//!
//! The next object is opened while others are in flight: over a long path, one small object after
//! another would use a fraction of the window. Each has a congestion window of its own. Their
//! octets in flight share the limits of the consumer.

use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Objects that a command fetches at once.
///
/// # Limit
/// A larger number counts as this one.
/// - Tests: `the_number_of_jobs_is_limited`
pub const JOBS_MAX: usize = 64;

/// Objects that are fetched at once if the caller gives no number, and if they are small: see
/// [`JOBS_OCTETS`].
pub const JOBS_DEFAULT: usize = 16;

/// Octets of the objects in progress that have not arrived, unless the caller gives a number of
/// objects.
///
/// A fetch requests as much before it has measured its path.
///
/// # Limit
/// The content of a further object is requested later.
/// - Tests: `large_objects_begin_one_after_another`
pub const JOBS_OCTETS: u64 = 16 << 20;

/// Messages of each thread that wait for the calling thread.
const MESSAGES_MAX: usize = 4;

/// Interval at which a waiting object checks if it is stopped.
const LOOK: Duration = Duration::from_millis(50);

/// The objects that are fetched at once.
#[derive(Debug)]
pub struct Jobs {
    count: usize,
    octets_max: u64,
    in_progress: Mutex<InProgress>,
    room: Condvar,
}

/// The objects whose content is requested.
#[derive(Debug, Default)]
struct InProgress {
    objects: usize,
    /// Octets that have not arrived.
    octets: u64,
}

impl Jobs {
    /// Allows `count` objects, or, without a number, as many as fill a window: [`JOBS_DEFAULT`]
    /// and [`JOBS_OCTETS`].
    pub fn new(count: Option<usize>) -> Self {
        let (count, octets_max) = match count {
            Some(count) => (count.clamp(1, JOBS_MAX), u64::MAX),
            None => (JOBS_DEFAULT, JOBS_OCTETS),
        };
        Jobs { count, octets_max, in_progress: Mutex::default(), room: Condvar::new() }
    }

    /// The number of objects.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Waits until the content of an object of `octets` may be requested. Returns none if the fetch
    /// is stopped before.
    pub fn begin(&self, octets: u64, is_stopped: &dyn Fn() -> bool) -> Option<JobInProgress<'_>> {
        // Metadata may announce any size. The sum of all objects does not overflow.
        let octets = octets.min(u64::MAX / JOBS_MAX as u64);
        let mut in_progress = self.lock();
        while in_progress.objects > 0 && in_progress.octets >= self.octets_max {
            if is_stopped() {
                return None;
            }
            in_progress = self.room.wait_timeout(in_progress, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        in_progress.objects += 1;
        in_progress.octets += octets;
        Some(JobInProgress { jobs: self, octets })
    }

    fn lock(&self) -> MutexGuard<'_, InProgress> {
        self.in_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` for the `items`, on as many threads as there are jobs. The items begin in their
    /// order. `take` receives the messages of `work` on the calling thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn run<T: Send, M: Send>(
        &self,
        items: impl Iterator<Item = T> + Send,
        work: impl Fn(T, &dyn Fn(M)) + Sync,
        take: &mut dyn FnMut(M),
    ) -> io::Result<()> {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return Ok(());
        }
        let items = Mutex::new(items);
        let (sender, messages) = sync_channel(self.count * MESSAGES_MAX);
        let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
        thread::scope(|scope| {
            for number in 0..self.count {
                if number > 0 && items.lock().unwrap_or_else(PoisonError::into_inner).peek().is_none() {
                    break;
                }
                let (sender, next, work) = (sender.clone(), &next, &work);
                let run = move || {
                    while let Some(item) = next() {
                        // The calling thread takes messages until all threads have ended.
                        work(item, &|message| drop(sender.send(message)));
                    }
                };
                match thread::Builder::new().name("namely-job".into()).spawn_scoped(scope, run) {
                    Err(error) if number == 0 => return Err(error),
                    Err(error) => {
                        tracing::debug!(%error, "fewer objects are fetched at once");
                        break;
                    }
                    Ok(_) => {}
                }
            }
            drop(sender);
            messages.iter().for_each(take);
            Ok(())
        })
    }
}

/// An object whose content is requested, until it is dropped.
#[derive(Debug)]
pub struct JobInProgress<'a> {
    jobs: &'a Jobs,
    /// Octets that have not arrived.
    octets: u64,
}

impl JobInProgress<'_> {
    /// Records that `octets` have not arrived yet.
    pub fn left(&mut self, octets: u64) {
        let arrived = self.octets.saturating_sub(octets);
        self.octets -= arrived;
        self.jobs.lock().octets -= arrived;
        self.jobs.room.notify_one();
    }
}

impl Drop for JobInProgress<'_> {
    fn drop(&mut self) {
        let mut in_progress = self.jobs.lock();
        in_progress.octets -= self.octets;
        in_progress.objects -= 1;
        drop(in_progress);
        self.jobs.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn the_number_of_jobs_is_limited() {
        let count = |number| Jobs::new(number).count();
        assert_eq!([Some(0), Some(1), Some(JOBS_MAX), Some(JOBS_MAX + 1)].map(count), [1, 1, 64, 64]);
        assert_eq!(count(None), JOBS_DEFAULT);
    }

    #[test]
    fn large_objects_begin_one_after_another() {
        let jobs = Jobs::new(None);
        let begin = |octets| jobs.begin(octets, &|| true);
        let mut large = begin(JOBS_OCTETS + 1).expect("the first begins at any size");
        assert!(begin(1).is_none());
        large.left(JOBS_OCTETS);
        assert!(begin(1).is_none());
        large.left(JOBS_OCTETS - 1);
        let small = begin(u64::MAX).expect("less than the limit has not arrived");
        assert!(begin(0).is_none());
        drop((large, small));
        assert!(begin(7).is_some());
        let numbered = Jobs::new(Some(2));
        let two = [u64::MAX, 1].map(|octets| numbered.begin(octets, &|| true));
        assert!(two.iter().all(Option::is_some), "a number admits any size");
    }

    #[test]
    fn items_run_at_once_in_order() {
        let (jobs, barrier) = (Jobs::new(Some(3)), Barrier::new(3));
        let mut taken = Vec::new();
        let work = |item: u32, send: &dyn Fn(u32)| {
            // It returns only if three items are in progress.
            barrier.wait();
            send(item);
        };
        jobs.run(0..6, work, &mut |item| taken.push(item)).unwrap();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
        let mut taken = Vec::new();
        Jobs::new(Some(1)).run(0..6, |item: u32, send| send(item), &mut |item| taken.push(item)).unwrap();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
        jobs.run(0..0, |_: u32, _: &dyn Fn(u32)| (), &mut |_| ()).unwrap();
    }
}
