//! A worker's mailbox: all that other threads hand to it.
//!
//! One queue under one lock. What it carries is its owner's business, so that ports can hold a
//! mailbox without knowing who reads it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use namely_host::Waker;
use parking_lot::{Condvar, Mutex};

use crate::port::{PortRequest, ReadingWorker};

/// Maximum number of frames that wait to be handed to the worker that reads their transport.
pub(crate) const DELIVERIES_MAX: usize = 256;

/// Maximum number of commands that wait for a worker; whoever sends one more waits.
pub(crate) const COMMANDS_MAX: usize = 256;

/// What others may touch of a worker.
pub(crate) struct WorkerMailbox<M> {
    index: usize,
    epoll: OwnedFd,
    waker: Waker,
    /// Transports that are or will be read here.
    load: AtomicUsize,
    /// How long the worker's longest turn took, ns.
    longest_turn_ns: AtomicU64,
    /// The most processor time that one of those took whose processor time was measured, ns.
    longest_turn_cpu_ns: AtomicU64,
    /// Whether `queue` may hold something; read without the lock.
    has_messages: AtomicBool,
    queue: Mutex<Queue<M>>,
    /// Who waits for room for a command.
    room: Condvar,
    deliveries: AtomicUsize,
}

struct Queue<M> {
    messages: VecDeque<M>,
    /// Commands among the messages.
    commands: usize,
    /// The worker has ended: nobody reads what is put in.
    is_retired: bool,
}

impl<M> WorkerMailbox<M> {
    pub(crate) fn new(index: usize, epoll: OwnedFd, waker: Waker) -> Arc<Self> {
        Arc::new(WorkerMailbox {
            index,
            epoll,
            waker,
            load: AtomicUsize::new(0),
            longest_turn_ns: AtomicU64::new(0),
            longest_turn_cpu_ns: AtomicU64::new(0),
            has_messages: AtomicBool::new(false),
            queue: Mutex::new(Queue { messages: VecDeque::new(), commands: 0, is_retired: false }),
            room: Condvar::new(),
            deliveries: AtomicUsize::new(0),
        })
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// How many transports are or will be read here.
    pub(crate) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    pub(crate) fn add_load(&self) {
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_load(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    /// How long the worker's longest turn took, ns.
    pub(crate) fn longest_turn_ns(&self) -> u64 {
        self.longest_turn_ns.load(Ordering::Relaxed)
    }

    /// The worker, who alone writes this, had a turn of so many ns.
    #[inline]
    pub(crate) fn note_turn(&self, ns: u64) {
        if ns > self.longest_turn_ns() {
            self.longest_turn_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// The most processor time that a turn took which was measured, ns.
    pub(crate) fn longest_turn_cpu_ns(&self) -> u64 {
        self.longest_turn_cpu_ns.load(Ordering::Relaxed)
    }

    /// The worker, who alone writes this, had a turn of so many ns of processor time.
    pub(crate) fn note_turn_cpu(&self, ns: u64) {
        if ns > self.longest_turn_cpu_ns() {
            self.longest_turn_cpu_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Puts a message in, and wakes the worker unless it is the one that does so. A message for a
    /// worker that has ended is dropped: a transport that it should have adopted closes.
    pub(crate) fn post(&self, message: M, from: Option<usize>) {
        let mut queue = self.queue.lock();
        if queue.is_retired {
            // Not under the lock: what is dropped may be the last hold on a port.
            drop(queue);
            return drop(message);
        }
        queue.messages.push_back(message);
        drop(queue);
        self.announce(from);
    }

    /// Puts a command in, and waits while too many are there. False if the worker has ended.
    pub(crate) fn send(&self, command: M) -> bool {
        let mut queue = self.queue.lock();
        while queue.commands >= COMMANDS_MAX && !queue.is_retired {
            self.room.wait(&mut queue);
        }
        if queue.is_retired {
            drop(queue);
            drop(command);
            return false;
        }
        queue.messages.push_back(command);
        queue.commands += 1;
        drop(queue);
        self.announce(None);
        true
    }

    /// Puts a command in, however many are there, before those that wait. For the one that ends the
    /// worker: who sends it must not wait.
    pub(crate) fn send_at_once(&self, command: M) {
        let mut queue = self.queue.lock();
        if queue.is_retired {
            drop(queue);
            return drop(command);
        }
        queue.messages.push_front(command);
        drop(queue);
        self.announce(None);
    }

    /// Wakes the worker if nobody has since it last looked. The flag is set after the message is
    /// in, and cleared before the queue is emptied ([`WorkerMailbox::take`]): whoever finds it set
    /// knows that the worker has yet to look, and will find what he put in.
    fn announce(&self, from: Option<usize>) {
        let was_set = self.has_messages.swap(true, Ordering::AcqRel);
        if !was_set && from != Some(self.index) {
            self.waker.wake();
        }
    }

    /// Puts in what brings a frame; false if too many wait.
    pub(crate) fn deliver(&self, message: impl FnOnce() -> M, from: usize) -> bool {
        if self.deliveries.load(Ordering::Relaxed) >= DELIVERIES_MAX {
            return false;
        }
        self.deliveries.fetch_add(1, Ordering::Relaxed);
        self.post(message(), Some(from));
        true
    }

    #[inline]
    pub(crate) fn has_messages(&self) -> bool {
        self.has_messages.load(Ordering::Acquire)
    }

    /// Takes everything out, in the order in which it came.
    pub(crate) fn take(&self) -> VecDeque<M> {
        self.has_messages.store(false, Ordering::Release);
        let mut queue = self.queue.lock();
        let messages = std::mem::take(&mut queue.messages);
        let commands = std::mem::take(&mut queue.commands);
        drop(queue);
        if commands >= COMMANDS_MAX {
            self.room.notify_all();
        }
        self.deliveries.store(0, Ordering::Relaxed);
        messages
    }

    /// The worker has ended: drops what was put in, and what others put in from now on.
    pub(crate) fn retire(&self) {
        let mut queue = self.queue.lock();
        queue.is_retired = true;
        let left = std::mem::take(&mut queue.messages);
        queue.commands = 0;
        drop(queue);
        self.room.notify_all();
        drop(left);
    }
}

impl<M: From<PortRequest> + Send> ReadingWorker for WorkerMailbox<M> {
    fn index(&self) -> usize {
        self.index
    }

    fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn request(&self, request: PortRequest, from: Option<usize>) {
        self.post(request.into(), from);
    }
}

#[cfg(test)]
mod tests {
    use namely_skip::asleep;
    use rustix::event::epoll::{CreateFlags, create};

    use super::*;

    /// A mailbox for what counts its holders.
    fn mailbox() -> (Arc<WorkerMailbox<Arc<()>>>, Arc<()>) {
        let epoll = create(CreateFlags::CLOEXEC).unwrap();
        (WorkerMailbox::new(1, epoll, Waker::new().unwrap()), Arc::new(()))
    }

    #[test]
    fn frames_for_another_worker_are_taken_up_to_the_limit() {
        let (mailbox, message) = mailbox();
        assert!((0..DELIVERIES_MAX).all(|_| mailbox.deliver(|| message.clone(), 0)));
        assert!(!mailbox.deliver(|| message.clone(), 0), "one past the limit");
        assert_eq!(mailbox.take().len(), DELIVERIES_MAX);
        assert!(mailbox.deliver(|| message.clone(), 0));
    }

    #[test]
    fn one_command_more_than_allowed_waits_for_room() {
        let (mailbox, message) = mailbox();
        assert!((0..COMMANDS_MAX).all(|_| mailbox.send(message.clone())));
        let (sender, one_more) = (mailbox.clone(), message.clone());
        std::thread::scope(|scope| {
            let waiting = asleep(scope, move || sender.send(one_more));
            assert!(!waiting.is_finished());
            // What is no command goes in all the same.
            mailbox.post(message.clone(), Some(0));
            assert_eq!(mailbox.take().len(), COMMANDS_MAX + 1);
            assert!(waiting.join().unwrap());
        });
        assert_eq!(mailbox.take().len(), 1);
    }

    #[test]
    fn the_command_that_ends_a_worker_waits_for_no_room() {
        let (mailbox, message) = mailbox();
        assert!((0..COMMANDS_MAX).all(|_| mailbox.send(message.clone())));
        let last = Arc::new(());
        mailbox.send_at_once(last.clone());
        assert!(Arc::ptr_eq(&mailbox.take()[0], &last), "and comes first");
        mailbox.retire();
        mailbox.send_at_once(last.clone());
        assert_eq!(Arc::strong_count(&last), 1, "nobody keeps what comes later");
    }

    #[test]
    fn what_is_sent_to_a_worker_that_has_ended_is_dropped_and_nobody_waits_for_it() {
        let (mailbox, message) = mailbox();
        assert!((0..COMMANDS_MAX).all(|_| mailbox.send(message.clone())));
        let (sender, one_more) = (mailbox.clone(), message.clone());
        std::thread::scope(|scope| {
            let waiting = asleep(scope, move || sender.send(one_more));
            // Messages for a worker that ended would hold their ports, and these the mailbox, for
            // ever.
            mailbox.retire();
            assert!(!waiting.join().unwrap());
        });
        assert_eq!(Arc::strong_count(&message), 1, "what was left is gone");
        assert!(!mailbox.send(message.clone()));
        mailbox.post(message.clone(), Some(0));
        assert_eq!(Arc::strong_count(&message), 1, "and so is what comes later");
    }

    #[test]
    fn the_worker_is_woken_once_until_it_looks_and_not_by_itself() {
        let (mailbox, message) = mailbox();
        let is_woken = || {
            let mut fds = [rustix::event::PollFd::new(mailbox.waker(), rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())) == Ok(1)
        };
        mailbox.post(message.clone(), Some(1));
        assert!(mailbox.has_messages() && !is_woken());
        mailbox.take();
        mailbox.post(message.clone(), Some(0));
        assert!(is_woken());
        mailbox.waker().reset();
        mailbox.post(message.clone(), Some(0));
        assert!(!is_woken(), "it has yet to look");
        assert_eq!(mailbox.take().len(), 2);
        assert!(!mailbox.has_messages());
    }
}
