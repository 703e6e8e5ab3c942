//! Threads that process requests, so that one silent producer does not stop the others.
//!
//! A thread starts when no other one is idle, up to a limit. It ends with its pool.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Task = Box<dyn FnOnce() + Send>;

/// A pool of threads. Dropping it discards the waiting tasks; running ones end by themselves.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    threads_max: usize,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        while !state.is_closed {
            match state.tasks.pop_front() {
                Some(task) => {
                    drop(state);
                    task();
                    state = self.state();
                }
                None => {
                    state.idle += 1;
                    state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                }
            }
        }
        state.threads -= 1;
    }
}

impl Workers {
    pub(crate) fn new(threads_max: usize) -> Self {
        Workers { queue: Arc::default(), threads_max }
    }

    /// Runs `task` on a thread of the pool, in the order of the calls.
    pub(crate) fn run(&self, task: impl FnOnce() + Send + 'static) {
        let mut state = self.queue.state();
        state.tasks.push_back(Box::new(task));
        // An idle thread that was notified still counts as idle until it has the lock, so each
        // waiting task needs an idle thread of its own.
        if state.tasks.len() <= state.idle || state.threads >= self.threads_max {
            return self.queue.added.notify_one();
        }
        let queue = self.queue.clone();
        let thread = std::thread::Builder::new().name("namely-mount".into());
        if thread.spawn(move || queue.run()).is_ok() {
            state.threads += 1;
        } else if state.threads == 0 {
            // Without any thread, the caller's own thread processes the task.
            let task = state.tasks.pop_back();
            drop(state);
            if let Some(task) = task {
                task();
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.is_closed = true;
        state.tasks.clear();
        self.queue.added.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use namely_testkit::eventually;

    use super::*;

    #[test]
    fn tasks_over_the_limit_wait() {
        let workers = Workers::new(2);
        let started = Arc::new(AtomicUsize::new(0));
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..3 {
            let (started, gate) = (started.clone(), gate.clone());
            workers.run(move || {
                started.fetch_add(1, Ordering::SeqCst);
                let _ = gate.lock().unwrap().recv();
            });
        }
        eventually("two tasks run", || started.load(Ordering::SeqCst) == 2);
        {
            let state = workers.queue.state();
            assert_eq!((state.threads, state.tasks.len()), (2, 1));
        }
        release.send(()).unwrap();
        eventually("the third task runs", || started.load(Ordering::SeqCst) == 3);
        drop(release);
    }

    #[test]
    fn idle_threads_take_new_tasks() {
        let workers = Workers::new(4);
        for _ in 0..100 {
            let (done, is_done) = mpsc::channel();
            workers.run(move || done.send(()).unwrap());
            is_done.recv().unwrap();
            eventually("the thread is idle", || workers.queue.state().idle == 1);
        }
        assert_eq!(workers.queue.state().threads, 1);
    }

    #[test]
    fn a_dropped_pool_discards_waiting_tasks() {
        let workers = Workers::new(1);
        let (release, gate) = mpsc::channel::<()>();
        let (started, is_started) = mpsc::channel();
        workers.run(move || {
            started.send(()).unwrap();
            let _ = gate.recv();
        });
        is_started.recv().unwrap();
        let (ran, runs) = mpsc::channel::<()>();
        workers.run(move || drop(ran));
        drop(workers);
        // The task was dropped without a run, and its channel with it.
        assert!(runs.recv().is_err());
        drop(release);
    }
}
