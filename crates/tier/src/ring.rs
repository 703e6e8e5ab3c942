//! Requests in a ring that the kernel shares: io_uring. The only module of this crate with
//! `unsafe`.
//!
//! The ring owns every request, with its memory and its descriptor, from its submission to its
//! completion.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use super::buffer::Buffer;
use super::queue::Job;

/// Maximum number of requests that the kernel has at a time.
pub(crate) const DEPTH: usize = 256;

/// While the kernel has many requests, one wait covers an eighth of them, but lasts no longer than
/// [`TOGETHER_TIME`]. The disk is busy meanwhile, and each wake-up costs more than a request.
const TOGETHER_PART: usize = 8;
const TOGETHER_TIME: Duration = Duration::from_micros(100);

/// User data of the poll of the waker's descriptor.
const AWOKEN: u64 = u64::MAX;

/// A ring with its requests.
pub(crate) struct Ring<R> {
    ring: IoUring,
    /// Requests, each at the index that its completion carries. The slice never grows, so no
    /// request moves.
    jobs: Box<[Option<Job<R>>]>,
    free: Vec<usize>,
    is_polling: bool,
    /// Whether the ring is still disabled: see [`Ring::begin`].
    is_disabled: bool,
}

impl<R> std::fmt::Debug for Ring<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

impl<R> Ring<R> {
    /// Creates a ring, if the kernel allows this process to have one, for the thread that calls
    /// [`Ring::begin`].
    pub(crate) fn new() -> io::Result<Self> {
        // One entry more than requests: the poll of a descriptor.
        let entries = (DEPTH + 1).next_power_of_two() as u32;
        // From Linux 6.1 on, the kernel wakes the thread once for several completions, not for
        // each, if only one thread submits. Older kernels save an interrupt per completion, or
        // nothing.
        let deferred =
            IoUring::builder().setup_r_disabled().setup_single_issuer().setup_defer_taskrun().build(entries);
        let is_disabled = deferred.is_ok();
        let ring = deferred
            .or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries))
            .or_else(|_| IoUring::new(entries))?;
        if !ring.params().is_feature_ext_arg() {
            // Before Linux 5.11 a wait had no timeout.
            return Err(Errno::OPNOTSUPP.into());
        }
        let jobs = (0..DEPTH).map(|_| None).collect();
        Ok(Ring { ring, jobs, free: (0..DEPTH).rev().collect(), is_polling: false, is_disabled })
    }

    /// Binds the ring to the calling thread. Must be called before any other method.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_disabled) {
            self.ring.submitter().register_enable_rings()?;
        }
        Ok(())
    }

    /// Returns the number of requests that the kernel has.
    pub(crate) fn in_flight(&self) -> usize {
        DEPTH - self.free.len()
    }

    /// Submits a request. Returns it if the kernel has [`DEPTH`] of them.
    pub(crate) fn push(&mut self, job: Job<R>) -> Result<(), Job<R>> {
        let Some(at) = self.free.pop() else { return Err(job) };
        let entry = match self.jobs[at].insert(job) {
            Job::Read { segment, offset, buffer, .. } => {
                let fd = types::Fd(segment.extent.as_raw_fd());
                let offset = segment.extent.position(*offset);
                opcode::Read::new(fd, buffer.as_mut_ptr(), buffer.len() as u32).offset(offset).build()
            }
            Job::Write(writing) => {
                let fd = types::Fd(writing.segment.extent.as_raw_fd());
                let octets = &writing.buffer[..writing.octets];
                let offset = writing.segment.extent.position(writing.start);
                opcode::Write::new(fd, octets.as_ptr(), octets.len() as u32).offset(offset).build()
            }
        };
        if self.enter(&entry.user_data(at as u64)) {
            return Ok(());
        }
        self.free.push(at);
        // The job was inserted above.
        self.jobs[at].take().map_or(Ok(()), Err)
    }

    /// Makes [`Ring::wait`] return when the descriptor becomes readable. The descriptor must stay
    /// open as long as the ring.
    pub(crate) fn poll(&mut self, fd: BorrowedFd<'_>) {
        if !self.is_polling {
            let readable = u32::from(rustix::event::PollFlags::IN.bits());
            let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), readable).build();
            self.is_polling = self.enter(&entry.user_data(AWOKEN));
        }
    }

    /// Pushes an entry into the ring. Returns whether there was room.
    fn enter(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the kernel uses the memory and the descriptor of the entry until its completion.
        // - A request lies in `self.jobs` from before this call until `reap` has seen its
        //   completion. `finish`, which `drop` calls, waits for all completions. If it cannot, it
        //   leaks the octets, which stay on the heap. In `self.jobs` a request owns its buffer,
        //   whose octets are on the heap and do not move with it, and its segment, which keeps the
        //   file open. Nothing accesses the buffer meanwhile: a read's buffer has no other owner,
        //   and a group's is in an `Arc` whose other owners only read.
        // - The poll of a descriptor names no memory.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.is_ok()
    }

    /// Submits the pushed entries and waits until requests complete or `time` is over. While many
    /// requests are in flight, the wait is at most [`TOGETHER_TIME`]. Calls `done` with each
    /// request and its result. Returns whether the descriptor was readable.
    pub(crate) fn wait(
        &mut self,
        time: Option<Duration>,
        done: impl FnMut(Job<R>, io::Result<()>),
    ) -> io::Result<bool> {
        let together = (self.in_flight() / TOGETHER_PART).max(1);
        let time = match together {
            1 => time,
            _ => Some(time.map_or(TOGETHER_TIME, |time| time.min(TOGETHER_TIME))),
        };
        let waited = match time {
            None => self.ring.submit_and_wait(together),
            Some(time) => {
                let time = types::Timespec::from(time);
                let arguments = types::SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(together, &arguments)
            }
        };
        // The listed errors only end the wait early.
        let result = match waited {
            Err(error)
                if !matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN)
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        };
        // Completions are reaped after an error, too, because requests may have completed.
        let is_awoken = self.reap(done);
        result.map(|()| is_awoken)
    }

    /// Waits until every request in flight is done, and calls `done` with each. Used when the ring
    /// ends, also after [`Ring::wait`] failed: no request is lost. The memory of requests whose
    /// completions cannot be received is leaked, because the kernel may still use it.
    pub(crate) fn finish(&mut self, mut done: impl FnMut(Job<R>, io::Result<()>)) {
        while self.in_flight() > 0 {
            if self.wait(None, &mut done).is_err() {
                break;
            }
        }
        for (at, slot) in self.jobs.iter_mut().enumerate() {
            if let Some(job) = slot.take() {
                self.free.push(at);
                let (job, result) = abandon(job);
                done(job, result);
            }
        }
    }

    fn reap(&mut self, mut done: impl FnMut(Job<R>, io::Result<()>)) -> bool {
        let mut is_awoken = false;
        for completion in self.ring.completion() {
            if completion.user_data() == AWOKEN {
                (self.is_polling, is_awoken) = (false, true);
                continue;
            }
            let at = completion.user_data() as usize;
            // The kernel returns submitted indexes only. Any other is ignored, so that it cannot
            // cause a panic.
            let Some(mut job) = self.jobs.get_mut(at).and_then(Option::take) else { continue };
            self.free.push(at);
            let octets = match &job {
                Job::Read { buffer, .. } => buffer.len(),
                Job::Write(writing) => writing.octets,
            };
            let result = match completion.result() {
                error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                whole if whole as usize == octets => Ok(()),
                // Partial transfer, which is rare: a signal, or the end of the file.
                _ => job.run(),
            };
            done(job, result);
        }
        is_awoken
    }
}

impl<R> Drop for Ring<R> {
    fn drop(&mut self) {
        self.finish(|job, _| drop(job));
    }
}

/// Takes the request from memory that the kernel may still use, and leaks that memory. The request
/// gets other memory; a write is performed again from it, and a read has failed.
fn abandon<R>(mut job: Job<R>) -> (Job<R>, io::Result<()>) {
    match &mut job {
        Job::Read { buffer, .. } => {
            std::mem::forget(std::mem::replace(buffer, Buffer::new(buffer.len())));
            (job, Err(Errno::IO.into()))
        }
        // The kernel only reads these octets, so this process may read them, too. Two writes of the
        // same octets to the same position leave them there in either order.
        Job::Write(writing) => {
            std::mem::forget(writing.buffer.clone());
            let result = job.run();
            (job, result)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
    use std::sync::Arc;

    use namely_host::disk::File;
    use namely_host::shares::Owner;
    use namely_testkit::{Need, or_skip};

    use super::super::log::GroupWrite;
    use super::super::segment::Segment;
    use super::*;

    const OCTETS: u64 = 4096;

    fn segment() -> Arc<Segment> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * OCTETS).unwrap();
        Arc::new(Segment::new(1, 0, File::from_inner(file).into(), 2 * OCTETS, false))
    }

    /// A read of the first block and a write of the second one.
    fn jobs(segment: &Arc<Segment>) -> [Job<()>; 2] {
        let mut octets = Buffer::new(OCTETS as usize);
        octets.fill(7);
        let read = Job::Read {
            segment: segment.clone(),
            offset: 0,
            buffer: Buffer::new(OCTETS as usize),
            reader: (),
            holder: Owner::Root,
        };
        let write = GroupWrite {
            number: 1,
            segment: segment.clone(),
            start: OCTETS,
            octets: OCTETS as usize,
            buffer: Arc::new(octets),
        };
        [read, Job::Write(write)]
    }

    /// The result of a request: whether it was the read, and whether it succeeded.
    type RequestResult = (bool, bool);

    /// Pushes both jobs and ends the ring, after `spoil`. Returns the results of the write and of
    /// the read, and the octets of the second block.
    fn ended(spoil: impl FnOnce(&mut Ring<()>)) -> Option<(Vec<RequestResult>, Vec<u8>)> {
        let mut ring = or_skip(Need::Kernel, Ring::new())?;
        ring.begin().unwrap();
        let segment = segment();
        for job in jobs(&segment) {
            assert!(ring.push(job).is_ok());
        }
        spoil(&mut ring);
        let mut results = Vec::new();
        ring.finish(|job, result| results.push((matches!(job, Job::Read { .. }), result.is_ok())));
        assert_eq!(ring.in_flight(), 0);
        results.sort_unstable();
        let mut octets = vec![0; OCTETS as usize];
        segment.extent.read_exact_at(&mut octets, OCTETS).unwrap();
        Some((results, octets))
    }

    #[test]
    fn an_ended_ring_finishes_its_requests() {
        let Some((results, octets)) = ended(|_| {}) else { return };
        assert_eq!(results, [(false, true), (true, true)]);
        assert!(octets.iter().all(|octet| *octet == 7));
    }

    #[test]
    fn a_broken_ring_reports_its_requests() {
        let spoil = |ring: &mut Ring<()>| {
            let null = std::fs::File::open("/dev/null").unwrap();
            // SAFETY: the descriptor is the ring's and stays open: `into_raw_fd` releases it again
            // below. The ring closes it, then as that of /dev/null.
            let mut own = unsafe { OwnedFd::from_raw_fd(ring.ring.as_raw_fd()) };
            rustix::io::dup2(&null, &mut own).unwrap();
            let _ = own.into_raw_fd();
            assert!(ring.wait(None, |_, _| panic!("nothing was submitted")).is_err());
        };
        let Some((results, octets)) = ended(spoil) else { return };
        assert_eq!(results, [(false, true), (true, false)], "the read fails, the write is repeated");
        assert!(octets.iter().all(|octet| *octet == 7));
    }
}
