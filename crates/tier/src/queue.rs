//! The queue of requests to the disk, and their order.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use namely_host::Waker;
use namely_host::shares::Owner;
use parking_lot::{Condvar, Mutex};

use super::buffer::Buffer;
use super::fair_queue::FairQueue;
use super::log::GroupWrite;
use super::options::{Fairness, Slowness};
use super::segment::Segment;

/// A request to the disk.
#[derive(Debug)]
pub(crate) enum Job<R> {
    /// Fills a buffer from a segment, for `reader`.
    Read {
        segment: Arc<Segment>,
        offset: u64,
        buffer: Buffer,
        reader: R,
        /// The holder; the request counts against its share of the pending requests.
        holder: Owner,
    },
    Write(GroupWrite),
}

impl<R> Job<R> {
    fn octets(&self) -> u64 {
        match self {
            Job::Read { buffer, .. } => buffer.len() as u64,
            Job::Write(writing) => writing.octets as u64,
        }
    }

    /// Performs the request and blocks until it is done.
    pub(crate) fn run(&mut self) -> std::io::Result<()> {
        match self {
            Job::Read { segment, offset, buffer, .. } => segment.extent.read_exact_at(buffer, *offset),
            Job::Write(writing) => {
                writing.segment.extent.write_all_at(&writing.buffer[..writing.octets], writing.start)
            }
        }
    }
}

/// Waiting requests.
#[derive(Debug)]
pub(crate) struct Queue<R> {
    state: Mutex<State<R>>,
    bell: Condvar,
    /// Wakes an engine that polls more than this queue.
    waker: Option<Waker>,
    pending: AtomicUsize,
}

#[derive(Debug)]
struct State<R> {
    reads: FairQueue<Job<R>>,
    writes: VecDeque<(u64, Job<R>)>,
    pushed: u64,
    fairness: Fairness,
    /// Octets of reads and of writes since both began to wait, each divided by its share.
    served: [u64; 2],
    is_closed: bool,
    /// Threads that wait for a request.
    waiting: usize,
    device: Device,
    reading: ReadTime,
}

impl<R> Queue<R> {
    pub(crate) fn new(fairness: Fairness, slowness: Slowness, waker: Option<Waker>) -> Self {
        Queue {
            state: Mutex::new(State {
                reads: FairQueue::new(),
                writes: VecDeque::new(),
                pushed: 0,
                fairness,
                served: [0; 2],
                is_closed: false,
                waiting: 0,
                device: Device { slowness, free_at: None },
                reading: ReadTime::default(),
            }),
            bell: Condvar::new(),
            waker,
            pending: AtomicUsize::new(0),
        }
    }

    /// Returns the number of requests that wait or are being performed.
    pub(crate) fn pending(&self) -> usize {
        // Relaxed: a threshold needs no exact number.
        self.pending.load(Ordering::Relaxed)
    }

    /// Adds a request. Makes a system call only if the engine sleeps.
    pub(crate) fn push(&self, job: Job<R>) {
        // Counted before the request is visible, so that its end does not make the counter
        // negative.
        self.pending.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.pushed += 1;
        let number = state.pushed;
        match job {
            Job::Read { holder, .. } => {
                state.reading.begin(Instant::now());
                state.reads.push(holder, number, job.octets(), job);
            }
            Job::Write(_) => state.writes.push_back((number, job)),
        }
        // An engine that found no request has counted itself in `waiting` under this lock, so no
        // wake-up is lost. The engine is woken after the lock is released, because it takes the
        // lock at once.
        let sleeps = state.waiting > 0;
        drop(state);
        if sleeps {
            self.bell.notify_one();
            if let Some(waker) = &self.waker {
                waker.wake();
            }
        }
    }

    /// Returns whether one more read of `holder` may pend: fewer than `limit` pend, or the holder
    /// is below its share.
    pub(crate) fn has_room(&self, holder: Owner, limit: usize) -> bool {
        let pending = self.pending();
        // Below the limit no lock is needed. A limit of 0 refuses all, because no holder has a
        // share of it.
        pending < limit || (limit > 0 && self.state.lock().reads.has_room(holder, pending, limit))
    }

    /// Records that a request is done; `reader` is the holder of a read.
    pub(crate) fn done(&self, reader: Option<Owner>) {
        self.pending.fetch_sub(1, Ordering::Relaxed);
        if let Some(reader) = reader {
            let mut state = self.state.lock();
            state.reads.done(reader);
            state.reading.end(Instant::now());
        }
    }

    /// Returns the total time during which at least one read was pending.
    pub(crate) fn reading(&self) -> Duration {
        self.state.lock().reading.total(Instant::now())
    }

    /// Returns the next request; waits until there is one. Returns none once the queue is closed
    /// and empty.
    pub(crate) fn take(&self) -> Option<Job<R>> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.next() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.waiting += 1;
            self.bell.wait(&mut state);
            state.waiting -= 1;
        }
    }

    /// Returns the next request, if there is one. If there is none and `sleeps` is true, the next
    /// push makes the queue's waker readable.
    pub(crate) fn try_take(&self, sleeps: bool) -> Option<Job<R>> {
        let mut state = self.state.lock();
        let job = state.next();
        // Only one thread polls, so the number is 0 or 1.
        state.waiting = usize::from(job.is_none() && sleeps);
        job
    }

    /// Returns the descriptor that becomes readable when a request arrives while the engine sleeps.
    pub(crate) fn waker(&self) -> Option<BorrowedFd<'_>> {
        self.waker.as_ref().map(AsFd::as_fd)
    }

    /// Resets the waker after the engine has woken.
    pub(crate) fn awoken(&self) {
        if let Some(waker) = &self.waker {
            waker.reset();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Closes the queue: engines end once it is empty.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.bell.notify_all();
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// Returns the time at which the simulated disk completes a request that is begun now; none if
    /// no disk is simulated.
    pub(crate) fn due(&self, job: &Job<R>) -> Option<Instant> {
        let mut state = self.state.lock();
        if state.device.is_plain() {
            return None;
        }
        Some(state.device.due(Instant::now(), job.octets()))
    }

    /// Stalls the disk for `time`.
    pub(crate) fn stall(&self, time: Duration) {
        let device = &mut self.state.lock().device;
        let from = device.free_at.map_or_else(Instant::now, |free_at| free_at.max(Instant::now()));
        device.free_at = Some(from + time);
    }

    pub(crate) fn set_slowness(&self, slowness: Slowness) {
        self.state.lock().device.slowness = slowness;
    }

    pub(crate) fn set_fairness(&self, fairness: Fairness) {
        let mut state = self.state.lock();
        state.fairness = fairness;
        state.served = [0; 2];
    }
}

impl<R> State<R> {
    fn next(&mut self) -> Option<Job<R>> {
        let (Some((read, read_octets)), Some((write, first_write))) =
            (self.reads.first(), self.writes.front())
        else {
            // Shares count only while both kinds wait, so that an idle kind saves up nothing.
            self.served = [0; 2];
            return self.reads.take().or_else(|| self.writes.pop_front().map(|(_, job)| job));
        };
        let (write, write_octets) = (*write, first_write.octets());
        let reads = match self.fairness {
            Fairness::Fifo => read < write,
            Fairness::DataFirst => false,
            Fairness::Weighted { reads, writes } => {
                // Serve the kind that has been served less, counting this request.
                let after = |served: u64, octets: u64, part: u32| {
                    served.saturating_add(octets.saturating_mul(1 << 10) / u64::from(part.max(1)))
                };
                let read = after(self.served[0], read_octets, reads);
                let write = after(self.served[1], write_octets, writes);
                let is_read = read <= write;
                if is_read {
                    self.served[0] = read
                } else {
                    self.served[1] = write
                }
                is_read
            }
        };
        if reads { self.reads.take() } else { self.writes.pop_front().map(|(_, job)| job) }
    }
}

/// The total time during which at least one read was pending.
#[derive(Debug, Default)]
struct ReadTime {
    pending: usize,
    since: Option<Instant>,
    before: Duration,
}

impl ReadTime {
    fn begin(&mut self, now: Instant) {
        self.pending += 1;
        self.since.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        self.pending = self.pending.saturating_sub(1);
        if self.pending == 0 {
            self.before = self.total(now);
            self.since = None;
        }
    }

    fn total(&self, now: Instant) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

/// A simulated disk, which performs one request after another and takes some time for each.
#[derive(Debug)]
struct Device {
    slowness: Slowness,
    free_at: Option<Instant>,
}

impl Device {
    fn is_plain(&mut self) -> bool {
        if self.free_at.is_some_and(|free_at| free_at <= Instant::now()) {
            self.free_at = None;
        }
        self.slowness == Slowness::default() && self.free_at.is_none()
    }

    fn due(&mut self, now: Instant, octets: u64) -> Instant {
        let Slowness { delay, requests_per_s, octets_per_s } = self.slowness;
        let mut takes = Duration::ZERO;
        if requests_per_s > 0 {
            takes += Duration::from_secs(1) / requests_per_s;
        }
        if octets_per_s > 0 {
            takes +=
                Duration::from_nanos((u128::from(octets) * 1_000_000_000 / u128::from(octets_per_s)) as u64);
        }
        let free_at = self.free_at.map_or(now, |free_at| free_at.max(now)) + takes;
        self.free_at = Some(free_at);
        free_at + delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which waiting reads of 4 KiB and writes of 16 KiB are taken: `r`, `w`.
    fn order(fairness: Fairness, pushed: &str) -> String {
        let file = namely_host::disk::File::from_inner(tempfile::tempfile().unwrap());
        let segment = Arc::new(Segment::new(1, 0, file.into(), 1 << 20, false));
        let queue: Queue<()> = Queue::new(fairness, Slowness::default(), None);
        for kind in pushed.chars() {
            let segment = segment.clone();
            queue.push(match kind {
                'r' => {
                    let (buffer, holder) = (Buffer::new(4096), Owner::Root);
                    Job::Read { segment, offset: 0, buffer, reader: (), holder }
                }
                _ => {
                    let buffer = Arc::new(Buffer::new(16384));
                    Job::Write(GroupWrite { number: 0, segment, start: 0, octets: 16384, buffer })
                }
            });
        }
        assert_eq!(queue.pending(), pushed.len());
        std::iter::from_fn(|| queue.try_take(false))
            .map(|job| if matches!(job, Job::Read { .. }) { 'r' } else { 'w' })
            .collect()
    }

    #[test]
    fn each_fairness_orders_reads_and_writes() {
        assert_eq!(order(Fairness::Fifo, "rwrrww"), "rwrrww");
        assert_eq!(order(Fairness::DataFirst, "rwrrww"), "wwwrrr");
        let shared = order(Fairness::Weighted { reads: 1, writes: 1 }, "rrrrrrrrrrrrwwww");
        assert_eq!(shared, "rrrrwrrrrwrrrrww", "four reads are as long as a write");
        let mostly_reads = order(Fairness::Weighted { reads: 2, writes: 1 }, "rrrrrrrrrrrrrrrrwww");
        assert_eq!(mostly_reads, "rrrrrrrrwrrrrrrrrww");
    }

    #[test]
    fn overlapping_reads_count_their_time_once() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut reading = ReadTime::default();
        reading.begin(start);
        reading.begin(start + second);
        reading.end(start + second * 2);
        assert_eq!(reading.total(start + second * 2), second * 2);
        reading.end(start + second * 3);
        assert_eq!(reading.total(start + second * 9), second * 3);
        reading.begin(start + second * 9);
        reading.end(start + second * 10);
        assert_eq!(reading.total(start + second * 20), second * 4);
    }

    #[test]
    fn a_slow_disk_serves_one_request_at_once() {
        let second = Duration::from_secs(1);
        let slowness = Slowness { delay: second, requests_per_s: 2, octets_per_s: 0 };
        let mut device = Device { slowness, free_at: None };
        let now = Instant::now();
        assert_eq!(device.due(now, 4096), now + second * 3 / 2);
        assert_eq!(device.due(now, 4096), now + second * 2);
        assert_eq!(device.due(now + second * 10, 4096), now + second * 23 / 2);
        let slowness = Slowness { octets_per_s: 4096, ..Slowness::default() };
        let mut device = Device { slowness, free_at: None };
        assert_eq!(device.due(now, 8192), now + second * 2);
    }
}
