//! The loop of one worker: it sleeps until a socket is ready or a timer is due, reads, writes the
//! queued frames, and repeats.

use std::sync::Arc;

use namely_datagrams::mmsg;
use namely_host::{Waker, clock};
use namely_wire::FaceUri;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::error::OpenError;
use crate::faces::{Faces, Handler, Mailbox, Shared, WorkerMessage};
use crate::id::SourceId;
use crate::options::{DispatchedLinks, IoOptions};
use crate::shared::WORKERS_MAX;
use crate::waiting::Readiness;

/// Maximum ready sockets that one system call returns. The next turns return the others.
const READY_MAX: usize = 1024;

/// The epoll number of the waker. No source has this number.
const WAKER: u64 = u64::MAX;

/// The event loop of one worker. [`EventLoop::run`] starts it.
pub struct EventLoop<H: Handler> {
    faces: Faces<H>,
    scratch: Vec<u8>,
}

/// A handle through which other threads reach the workers.
pub struct Workers<H: Handler> {
    shared: Arc<Shared<H>>,
}

impl<H: Handler> Workers<H> {
    /// Makes the event loops of `workers` workers, at least one and at most [`WORKERS_MAX`], and
    /// the handle to them.
    ///
    /// # Errors
    /// Environment: the system cannot provide a descriptor.
    pub fn new(
        options: IoOptions,
        dispatched: DispatchedLinks,
        workers: usize,
    ) -> Result<(Self, Vec<EventLoop<H>>), OpenError> {
        let mailboxes: Vec<_> = (0..workers.clamp(1, WORKERS_MAX)).map(mailbox).collect::<Result<_, _>>()?;
        let shared = Shared::<H>::new(options, dispatched, mailboxes);
        let event_loop = |mailbox: &Arc<Mailbox<H>>| EventLoop {
            faces: Faces::new(shared.clone(), mailbox.clone()),
            // Streams and datagrams share the buffer.
            scratch: vec![0; mmsg::RECEIVE_OCTETS.max(shared.options.read_octets_per_turn)],
        };
        let loops = shared.mailboxes.iter().map(event_loop).collect();
        Ok((Workers { shared }, loops))
    }

    /// Returns the number of workers.
    pub fn count(&self) -> usize {
        self.shared.mailboxes.len()
    }

    /// Returns the duration of the longest turn of each worker since it began, us. A ready source
    /// may wait that long before its worker polls the sockets again.
    pub fn longest_turns_us(&self) -> impl Iterator<Item = u64> + '_ {
        self.shared.mailboxes.iter().map(|mailbox| mailbox.longest_turn_ns() / 1000)
    }

    /// Returns the most processor time that a turn of each worker used, us. Only turns after one of
    /// more than a millisecond are measured. If other processes compete for processors, it is less
    /// than [`Workers::longest_turns_us`], which includes their time.
    pub fn longest_turns_cpu_us(&self) -> impl Iterator<Item = u64> + '_ {
        self.shared.mailboxes.iter().map(|mailbox| mailbox.longest_turn_cpu_ns() / 1000)
    }

    /// Returns the worker that will read a face with these ends. It is the worker that reads the
    /// fewest faces, except for [`DispatchedLinks::own_worker`].
    pub fn choose(&self, local: &FaceUri, remote: &FaceUri) -> usize {
        self.shared.worker_for(local, remote).map_or(0, |mailbox| mailbox.index())
    }

    /// Sends a command to a worker. Blocks while too many commands wait for that worker. Returns
    /// false if the worker has ended.
    pub fn send(&self, worker: usize, command: H::Command) -> bool {
        let Some(mailbox) = self.shared.mailboxes.get(worker) else { return false };
        mailbox.send(WorkerMessage::Command(command))
    }

    /// Sends a command to a worker ahead of all waiting messages, without blocking. It is for the
    /// command that ends the worker.
    pub fn send_at_once(&self, worker: usize, command: H::Command) {
        if let Some(mailbox) = self.shared.mailboxes.get(worker) {
            mailbox.send_at_once(WorkerMessage::Command(command));
        }
    }
}

impl<H: Handler> EventLoop<H> {
    /// Returns a waker, with which another thread makes this loop run one turn.
    pub fn waker(&self) -> Waker {
        self.faces.mailbox.waker().clone()
    }

    /// Runs until the handler returns `Break`. Queued frames are then written as far as the sockets
    /// accept them.
    ///
    /// # Errors
    /// Environment: waiting for the sockets failed.
    pub fn run(&mut self, handler: &mut H) -> Result<(), Errno> {
        let mut due_ns = None;
        let mut ready = Vec::with_capacity(READY_MAX);
        loop {
            self.wait(due_ns, &mut ready)?;
            let io = &mut self.faces;
            // One reading of the clock serves all frames and timers of the turn.
            io.begin_turn(clock::monotonic_ns());
            take_note(io, &ready);
            io.serve_waiting(&mut self.scratch, handler);
            io.run_timers();
            io.dispatch(handler);
            let flow = io.serve_messages(handler);
            io.tick_reassembly();
            // No packet is handed over after the tick, so the handler's batches are complete.
            due_ns = handler.tick(io);
            io.flush_all();
            io.dispatch(handler);
            io.end_turn();
            // The turn was completed first, so that packets in the handler's batch still leave.
            if flow.is_break() {
                io.finish();
                return Ok(());
            }
        }
    }

    /// Waits until a socket is ready or a timer is due.
    fn wait(&mut self, due_ns: Option<u64>, ready: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let due_ns = due_ns.into_iter().chain(self.faces.due_ns()).min();
        ready.clear();
        // Due work must not wait for the sockets, so they are only polled once below.
        if due_ns != Some(0) && self.busy_poll(due_ns, ready)? {
            return Ok(());
        }
        let timeout = due_ns.map(|due_ns| {
            // A due time of 0 means now, and needs no reading of the clock.
            let wait_ns = due_ns.saturating_sub(if due_ns == 0 { 0 } else { clock::monotonic_ns() });
            Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 }
        });
        self.poll(timeout.as_ref(), ready)
    }

    /// Polls repeatedly for the configured time. Returns false if no socket became ready.
    fn busy_poll(&self, due_ns: Option<u64>, ready: &mut Vec<epoll::Event>) -> Result<bool, Errno> {
        let spin_ns = u64::from(self.faces.options().busy_poll_us) * 1000;
        if spin_ns == 0 {
            return Ok(false);
        }
        let end_ns = (clock::monotonic_ns() + spin_ns).min(due_ns.unwrap_or(u64::MAX));
        loop {
            self.poll(Some(&Timespec::default()), ready)?;
            if !ready.is_empty() || clock::monotonic_ns() >= end_ns {
                return Ok(!ready.is_empty());
            }
            std::hint::spin_loop();
        }
    }

    /// Returns the ready sockets, after waiting up to `timeout` for one.
    fn poll(&self, timeout: Option<&Timespec>, ready: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let spare = rustix::buffer::spare_capacity(ready);
        match epoll::wait(self.faces.mailbox.epoll(), spare, timeout) {
            // A signal only ends the wait early.
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

fn mailbox<H: Handler>(index: usize) -> Result<Arc<Mailbox<H>>, OpenError> {
    let epoll =
        epoll::create(CreateFlags::CLOEXEC).map_err(OpenError::system("opening an epoll instance"))?;
    let waker = Waker::new().map_err(OpenError::system("opening an eventfd"))?;
    epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN)
        .map_err(OpenError::system("watching the eventfd"))?;
    Ok(Mailbox::<H>::new(index, epoll, waker))
}

/// Enqueues the ready sources, to be served in this turn or a later one.
fn take_note<H: Handler>(io: &mut Faces<H>, ready: &[epoll::Event]) {
    for event in ready {
        let (number, flags) = (event.data.u64(), event.flags);
        if number == WAKER {
            // The waker is reset before the mailbox is read, so a later message wakes the loop
            // again.
            io.mailbox.waker().reset();
            continue;
        }
        let mut wanted = Readiness::NOTHING;
        // A read of the socket returns the reason of a failure.
        if flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
            wanted |= Readiness::READ;
        }
        if flags.contains(EventFlags::OUT) {
            wanted |= Readiness::WRITE;
        }
        io.enqueue_source(SourceId(number), wanted);
    }
}
