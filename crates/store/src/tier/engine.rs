//! What serves the queue of requests: a ring, threads, or whoever waits.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::completion::Bells;
use super::queue::Job;
use super::ring::{DEPTH, Ring};
use super::shared::{For, Shared};

/// Takes one request and does it; whether there was one.
pub(crate) fn serve_one(shared: &Shared) -> bool {
    let Some(mut job) = shared.queue.try_take(false) else { return false };
    let due = shared.queue.due(&job);
    let result = job.run();
    wait_until(due);
    shared.finish(job, result, &mut Bells::default());
    true
}

/// Starts `threads` threads, each of which does one request at a time.
pub(crate) fn start_threads(shared: &Arc<Shared>, threads: usize) -> io::Result<Vec<JoinHandle<()>>> {
    (0..threads).map(|i| start(&format!("cs-disk-{i}"), shared, serve)).collect()
}

fn serve(shared: &Shared) {
    while let Some(mut job) = shared.queue.take() {
        let due = shared.queue.due(&job);
        let result = job.run();
        wait_until(due);
        shared.finish(job, result, &mut Bells::default());
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

/// Starts the thread that serves the queue by a ring.
pub(crate) fn start_ring(shared: &Arc<Shared>, ring: Ring<For>) -> io::Result<JoinHandle<()>> {
    start("cs-disk-ring", shared, |shared| serve_ring(shared, ring))
}

/// A request that is done, with what became of it, and is told of later: the disk is a slow one.
type Late = (Instant, Job<For>, io::Result<()>);

fn serve_ring(shared: &Shared, mut ring: Ring<For>) {
    if let Err(error) = ring.begin() {
        tracing::warn!(%error, "io_uring failed: the disk is served without it");
        return serve(shared);
    }
    let mut late: Vec<Late> = Vec::new();
    // When each that the kernel has is due, if the disk is a slow one: in the order of beginning.
    let mut due: Vec<(u64, Instant)> = Vec::new();
    loop {
        while ring.in_flight() + late.len() < DEPTH {
            let Some(job) = shared.queue.try_take(true) else { break };
            if let Some(at) = shared.queue.due(&job) {
                due.push((key(&job), at));
            }
            if let Err(mut job) = ring.push(job) {
                let result = job.run();
                shared.finish(job, result, &mut Bells::default());
            }
        }
        if ring.in_flight() + late.len() == 0 && shared.queue.is_closed() && shared.queue.pending() == 0 {
            return;
        }
        if let Some(waker) = shared.queue.waker() {
            ring.poll(waker);
        }
        let first = late.iter().map(|(at, ..)| *at).min();
        let time = first.map(|at| at.saturating_duration_since(Instant::now()));
        // Whoever waits for several of what is done is woken once.
        let mut bells = Bells::default();
        let waited = ring.wait(time, |job, result| {
            let at = due.iter().position(|(of, _)| *of == key(&job)).map(|at| due.swap_remove(at).1);
            match at.filter(|at| *at > Instant::now()) {
                Some(at) => late.push((at, job, result)),
                None => shared.finish(job, result, &mut bells),
            }
        });
        match waited {
            Ok(true) => shared.queue.awoken(),
            Ok(false) => {}
            Err(error) => {
                // What the ring has is given up with it; threads go on.
                tracing::warn!(%error, "io_uring failed: the disk is served without it");
                drop(ring);
                late.into_iter().for_each(|(_, job, result)| shared.finish(job, result, &mut bells));
                drop(bells);
                return serve(shared);
            }
        }
        let now = Instant::now();
        for (_, job, result) in late.extract_if(.., |(at, ..)| *at <= now) {
            shared.finish(job, result, &mut bells);
        }
    }
}

/// What tells requests apart that are under way.
fn key(job: &Job<For>) -> u64 {
    match job {
        Job::Read { buffer, .. } => buffer.as_ptr().addr() as u64,
        Job::Write(writing) => writing.buffer.as_ptr().addr() as u64,
    }
}
