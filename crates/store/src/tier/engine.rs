//! What serves the queue of requests: threads, or whoever waits.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::shared::Shared;

/// Takes one request and does it; whether there was one.
pub(crate) fn serve_one(shared: &Shared) -> bool {
    let Some(mut job) = shared.queue.try_take(false) else { return false };
    wait_until(shared.queue.due(&job));
    let result = job.run();
    shared.finish(job, result);
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
        shared.finish(job, result);
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
