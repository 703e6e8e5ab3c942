//! Engines that serve the queue of requests: a ring, threads, or the waiting caller.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::completion::Wakeups;
use super::queue::Job;
use super::ring::{DEPTH, Ring};
use super::shared::{Readers, Shared};

/// Takes one request and performs it. Returns whether there was one.
pub(crate) fn serve_one(shared: &Shared) -> bool {
    let Some(mut job) = shared.queue.try_take(false) else { return false };
    let due = shared.queue.due(&job);
    let result = job.run();
    wait_until(due);
    shared.finish(job, result, &mut Wakeups::default());
    true
}

/// Starts `threads` threads, each of which performs one request at a time.
pub(crate) fn start_threads(shared: &Arc<Shared>, threads: usize) -> io::Result<Vec<JoinHandle<()>>> {
    (0..threads).map(|i| start(&format!("cs-disk-{i}"), shared, serve)).collect()
}

fn serve(shared: &Shared) {
    while let Some(mut job) = shared.queue.take() {
        let due = shared.queue.due(&job);
        let result = job.run();
        wait_until(due);
        shared.finish(job, result, &mut Wakeups::default());
    }
}

fn wait_until(due: Option<Instant>) {
    if let Some(left) = due.and_then(|due| due.checked_duration_since(Instant::now())) {
        std::thread::sleep(left);
    }
}

/// Starts a thread of the tier.
pub(crate) fn start(
    name: &str,
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared))
}

/// Starts the thread that serves the queue with a ring.
pub(crate) fn start_ring(shared: &Arc<Shared>, ring: Ring<Readers>) -> io::Result<JoinHandle<()>> {
    start("cs-disk-ring", shared, |shared| serve_ring(shared, ring))
}

/// A performed request and its result. The simulated slow disk reports it at this instant.
type DelayedCompletion = (Instant, Job<Readers>, io::Result<()>);

fn serve_ring(shared: &Shared, mut ring: Ring<Readers>) {
    if let Err(error) = ring.begin() {
        tracing::warn!(%error, "io_uring failed: the disk is served without it");
        return serve(shared);
    }
    let mut delayed: Vec<DelayedCompletion> = Vec::new();
    // Due times of the requests that the kernel has, by their keys, if a slow disk is simulated.
    let mut due: Vec<(u64, Instant)> = Vec::new();
    loop {
        while ring.in_flight() + delayed.len() < DEPTH {
            // A request that is pushed between this call and `ring.poll` is not missed, because the
            // waker stays readable until it is reset.
            let Some(job) = shared.queue.try_take(true) else { break };
            if let Some(at) = shared.queue.due(&job) {
                due.push((key(&job), at));
            }
            // A request that the ring does not accept is performed by this thread, so that it is
            // not lost.
            if let Err(mut job) = ring.push(job) {
                let result = job.run();
                shared.finish(job, result, &mut Wakeups::default());
            }
        }
        // Requests that were queued before the closing are still performed.
        if ring.in_flight() + delayed.len() == 0 && shared.queue.is_closed() && shared.queue.pending() == 0 {
            return;
        }
        if let Some(waker) = shared.queue.waker() {
            ring.poll(waker);
        }
        let first = delayed.iter().map(|(at, ..)| *at).min();
        let time = first.map(|at| at.saturating_duration_since(Instant::now()));
        // A caller with several completions in this batch is woken once.
        let mut bells = Wakeups::default();
        let waited = ring.wait(time, |job, result| {
            let due_at = due.iter().position(|(of, _)| *of == key(&job)).map(|at| due.swap_remove(at).1);
            match due_at.filter(|at| *at > Instant::now()) {
                Some(at) => delayed.push((at, job, result)),
                None => shared.finish(job, result, &mut bells),
            }
        });
        match waited {
            Ok(true) => shared.queue.awoken(),
            Ok(false) => {}
            Err(error) => {
                // This thread serves the queue without a ring from now on. A request that was in
                // the ring is reported, so that its caller does not wait for ever.
                tracing::warn!(%error, "io_uring failed: the disk is served without it");
                ring.finish(|job, result| shared.finish(job, result, &mut bells));
                drop(ring);
                delayed.into_iter().for_each(|(_, job, result)| shared.finish(job, result, &mut bells));
                // The callers of this batch are woken before `serve`, which returns only when the
                // queue is closed.
                drop(bells);
                return serve(shared);
            }
        }
        let now = Instant::now();
        for (_, job, result) in delayed.extract_if(.., |(at, ..)| *at <= now) {
            shared.finish(job, result, &mut bells);
        }
    }
}

/// Key of a request in progress: the address of its buffer.
fn key(job: &Job<Readers>) -> u64 {
    match job {
        Job::Read { buffer, .. } => buffer.as_ptr().addr() as u64,
        Job::Write(writing) => writing.buffer.as_ptr().addr() as u64,
    }
}
