//! The loop of one worker: sleep until a socket is ready or a timer is due, read, write what was
//! queued, again.

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
use crate::waiting::Wanted;

/// Sockets of which a worker learns at once that they are ready; of the others it does in its next
/// turns.
const READY_MAX: usize = 1024;

/// The epoll number of the waker; no source has it.
const WAKER: u64 = u64::MAX;

/// The event loop of one worker; it does nothing until [`EventLoop::run`].
pub struct EventLoop<H: Handler> {
    faces: Faces<H>,
    scratch: Vec<u8>,
}

/// All workers, as other threads reach them.
pub struct Workers<H: Handler> {
    shared: Arc<Shared<H>>,
}

impl<H: Handler> Workers<H> {
    /// The loops of so many workers, at least one and at most [`WORKERS_MAX`], and the way to reach
    /// them.
    ///
    /// # Errors
    /// Environment: the system refused a resource.
    pub fn new(
        options: IoOptions,
        dispatched: DispatchedLinks,
        workers: usize,
    ) -> Result<(Self, Vec<EventLoop<H>>), OpenError> {
        let mailboxes: Vec<_> = (0..workers.clamp(1, WORKERS_MAX)).map(mailbox).collect::<Result<_, _>>()?;
        let shared = Shared::<H>::new(options, dispatched, mailboxes);
        let event_loop = |mailbox: &Arc<Mailbox<H>>| EventLoop {
            faces: Faces::new(shared.clone(), mailbox.clone()),
            scratch: vec![0; mmsg::RECEIVE_OCTETS.max(shared.options.read_octets_per_turn)],
        };
        let loops = shared.mailboxes.iter().map(event_loop).collect();
        Ok((Workers { shared }, loops))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.shared.mailboxes.len()
    }

    /// How long the longest turn of each worker took since it began, us: how long others may have
    /// waited for it.
    pub fn longest_turns_us(&self) -> impl Iterator<Item = u64> + '_ {
        self.shared.mailboxes.iter().map(|mailbox| mailbox.longest_turn_ns() / 1000)
    }

    /// The most processor time that a turn of each worker took, us, of those turns that followed
    /// one of more than a millisecond: what a turn of [`Workers::longest_turns_us`] took itself,
    /// where others compete for processors.
    pub fn longest_turns_cpu_us(&self) -> impl Iterator<Item = u64> + '_ {
        self.shared.mailboxes.iter().map(|mailbox| mailbox.longest_turn_cpu_ns() / 1000)
    }

    /// The worker that is to read a face with these ends: the one that reads the fewest, but see
    /// [`DispatchedLinks::own_worker`].
    pub fn choose(&self, local: &FaceUri, remote: &FaceUri) -> usize {
        self.shared.worker_for(local, remote).map_or(0, |mailbox| mailbox.index())
    }

    /// Sends a command to a worker, and waits while too many are on their way to it. False if there
    /// is no such worker any more.
    pub fn send(&self, worker: usize, command: H::Command) -> bool {
        let Some(mailbox) = self.shared.mailboxes.get(worker) else { return false };
        mailbox.send(WorkerMessage::Command(command))
    }

    /// Sends a command to a worker before all that wait, and never waits: for one that ends it.
    pub fn send_at_once(&self, worker: usize, command: H::Command) {
        if let Some(mailbox) = self.shared.mailboxes.get(worker) {
            mailbox.send_at_once(WorkerMessage::Command(command));
        }
    }
}

impl<H: Handler> EventLoop<H> {
    /// Wakes this loop from another thread: it makes a turn.
    pub fn waker(&self) -> Waker {
        self.faces.mailbox.waker().clone()
    }

    /// Runs until the handler breaks. What was queued then is written as far as the sockets take
    /// it.
    ///
    /// # Errors
    /// Environment: the system cannot wait for sockets any more.
    pub fn run(&mut self, handler: &mut H) -> Result<(), Errno> {
        let mut due_ns = None;
        let mut ready = Vec::with_capacity(READY_MAX);
        loop {
            self.wait(due_ns, &mut ready)?;
            let io = &mut self.faces;
            io.begin_turn(clock::monotonic_ns());
            take_note(io, &ready);
            io.serve_waiting(&mut self.scratch, handler);
            io.run_timers();
            io.dispatch(handler);
            let flow = io.serve_messages(handler);
            io.tick_reassembly();
            // Nothing is handed over after the tick: what the handler has put together is complete.
            due_ns = handler.tick(io);
            io.flush_all();
            io.dispatch(handler);
            io.end_turn();
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
        if due_ns != Some(0) && self.busy_poll(due_ns, ready)? {
            return Ok(());
        }
        let timeout = due_ns.map(|due_ns| {
            let wait_ns = due_ns.saturating_sub(if due_ns == 0 { 0 } else { clock::monotonic_ns() });
            Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 }
        });
        self.poll(timeout.as_ref(), ready)
    }

    /// Looks again and again for as long as that is wanted. False if nothing has come.
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

    /// Asks which sockets are ready, after waiting for one for so long.
    fn poll(&self, timeout: Option<&Timespec>, ready: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let spare = rustix::buffer::spare_capacity(ready);
        match epoll::wait(self.faces.mailbox.epoll(), spare, timeout) {
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

/// Notes what is ready.
fn take_note<H: Handler>(io: &mut Faces<H>, ready: &[epoll::Event]) {
    for event in ready {
        let (number, flags) = (event.data.u64(), event.flags);
        if number == WAKER {
            // Before the mailbox is looked at, so that what is put in later wakes again.
            io.mailbox.waker().reset();
            continue;
        }
        let mut wanted = Wanted::NOTHING;
        if flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
            wanted |= Wanted::READ;
        }
        if flags.contains(EventFlags::OUT) {
            wanted |= Wanted::WRITE;
        }
        io.wait_for_turn(SourceId(number), wanted);
    }
}
