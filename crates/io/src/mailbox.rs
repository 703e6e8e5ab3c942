//! A worker's mailbox, for messages of other threads.
//!
//! It is one queue under one lock. The type of the messages is a parameter, so ports can hold a
//! mailbox without depending on the worker.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use namely_host::Waker;
use parking_lot::{Condvar, Mutex};

use crate::port::{ReaderRequest, ReadingWorker};

/// Frames that wait for the worker that reads their face.
///
/// # Limit
/// The frame is dropped.
/// - Counter: `handover_full` of the listener
/// - Tests: `frames_for_another_worker_are_limited`
pub(crate) const DELIVERIES_MAX: usize = 256;

/// Commands that wait for one worker.
///
/// # Limit
/// The thread that sends a further command blocks. The command that ends a worker does not.
/// - Tests: `an_excess_command_waits_for_room`,
///   `a_stop_command_needs_no_room`
pub(crate) const COMMANDS_MAX: usize = 256;

/// The part of a worker that other threads access.
pub(crate) struct WorkerMailbox<M> {
    index: usize,
    epoll: OwnedFd,
    waker: Waker,
    /// The number of transports that this worker reads or will read.
    load: AtomicUsize,
    /// Duration of the worker's longest turn, ns.
    longest_turn_ns: AtomicU64,
    /// The most processor time of a measured turn, ns.
    longest_turn_cpu_ns: AtomicU64,
    /// Whether `queue` may hold messages. It is read without the lock.
    has_messages: AtomicBool,
    queue: Mutex<Queue<M>>,
    /// Notified when there is room for a command.
    room: Condvar,
    deliveries: AtomicUsize,
}

struct Queue<M> {
    messages: VecDeque<M>,
    /// Commands among the messages.
    commands: usize,
    /// Whether the worker has ended and reads no more messages.
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

    /// Returns the number of transports that this worker reads or will read.
    pub(crate) fn load(&self) -> usize {
        // Relaxed: the number only guides the choice of a worker.
        self.load.load(Ordering::Relaxed)
    }

    pub(crate) fn add_load(&self) {
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_load(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    /// Duration of the worker's longest turn, ns.
    pub(crate) fn longest_turn_ns(&self) -> u64 {
        self.longest_turn_ns.load(Ordering::Relaxed)
    }

    /// Records the duration of a turn, ns. Only the worker calls this.
    #[inline]
    pub(crate) fn note_turn(&self, ns: u64) {
        if ns > self.longest_turn_ns() {
            self.longest_turn_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// The most processor time of a measured turn, ns.
    pub(crate) fn longest_turn_cpu_ns(&self) -> u64 {
        self.longest_turn_cpu_ns.load(Ordering::Relaxed)
    }

    /// Records the processor time of a turn, ns. Only the worker calls this.
    pub(crate) fn note_turn_cpu(&self, ns: u64) {
        if ns > self.longest_turn_cpu_ns() {
            self.longest_turn_cpu_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Adds a message, and wakes the worker unless it is the sender itself. A message for a worker
    /// that has ended is dropped, and a transport in it closes.
    pub(crate) fn post(&self, message: M, from: Option<usize>) {
        let mut queue = self.queue.lock();
        if queue.is_retired {
            // Not under the lock: the message may be the last reference to a port.
            drop(queue);
            return drop(message);
        }
        queue.messages.push_back(message);
        drop(queue);
        // Announced without the lock, which the woken worker takes at once.
        self.announce(from);
    }

    /// Adds a command. Blocks while too many commands wait. Returns false if the worker has ended.
    pub(crate) fn send(&self, command: M) -> bool {
        let mut queue = self.queue.lock();
        // A worker that has ended makes no room.
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

    /// Adds a command ahead of all messages, even past the limit. It is for the command that ends
    /// the worker, because its sender must not block.
    pub(crate) fn send_at_once(&self, command: M) {
        let mut queue = self.queue.lock();
        if queue.is_retired {
            drop(queue);
            return drop(command);
        }
        // Not counted in `commands`, because it is exempt from their limit.
        queue.messages.push_front(command);
        drop(queue);
        self.announce(None);
    }

    /// Wakes the worker unless it was woken since it last read the mailbox. The flag is set after
    /// the message is in, and cleared before the queue is emptied ([`WorkerMailbox::take`]). If the
    /// flag was set already, the worker has yet to read the queue and will find this message too.
    fn announce(&self, from: Option<usize>) {
        let was_set = self.has_messages.swap(true, Ordering::AcqRel);
        if !was_set && from != Some(self.index) {
            self.waker.wake();
        }
    }

    /// Adds a message that carries a frame. Returns false if too many such messages wait.
    pub(crate) fn deliver(&self, message: impl FnOnce() -> M, from: usize) -> bool {
        // Not exact: several senders may pass the check at once, and `take` also clears deliveries
        // that arrive after its critical section. The limit bounds memory only.
        if self.deliveries.load(Ordering::Relaxed) >= DELIVERIES_MAX {
            return false;
        }
        self.deliveries.fetch_add(1, Ordering::Relaxed);
        self.post(message(), Some(from));
        true
    }

    #[inline]
    pub(crate) fn has_messages(&self) -> bool {
        // Acquire: pairs with the swap in `announce`. The messages themselves are under the lock.
        self.has_messages.load(Ordering::Acquire)
    }

    /// Removes and returns all messages, in the order in which the worker must process them.
    pub(crate) fn take(&self) -> VecDeque<M> {
        // Cleared before the lock is taken. A sender that adds a message after this critical
        // section therefore finds the flag cleared, and wakes the worker.
        self.has_messages.store(false, Ordering::Release);
        let mut queue = self.queue.lock();
        let messages = std::mem::take(&mut queue.messages);
        let commands = std::mem::take(&mut queue.commands);
        drop(queue);
        // Below the limit no thread waits for room.
        if commands >= COMMANDS_MAX {
            self.room.notify_all();
        }
        // A frame that was posted since the lock was released is no longer counted, which only
        // makes room for one more.
        self.deliveries.store(0, Ordering::Relaxed);
        messages
    }

    /// Marks the worker as ended. Drops the waiting messages and all later ones.
    pub(crate) fn retire(&self) {
        let mut queue = self.queue.lock();
        queue.is_retired = true;
        let left = std::mem::take(&mut queue.messages);
        queue.commands = 0;
        drop(queue);
        // Waiting threads must return, because no room is made any more.
        self.room.notify_all();
        // Not under the lock: the messages may hold the last references to ports.
        drop(left);
    }
}

impl<M: From<ReaderRequest> + Send> ReadingWorker for WorkerMailbox<M> {
    fn index(&self) -> usize {
        self.index
    }

    fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn request(&self, request: ReaderRequest, from: Option<usize>) {
        self.post(request.into(), from);
    }
}

#[cfg(test)]
mod tests {
    use namely_testkit::asleep;
    use rustix::event::epoll::{CreateFlags, create};

    use super::*;

    /// A mailbox for messages that count their references.
    fn mailbox() -> (Arc<WorkerMailbox<Arc<()>>>, Arc<()>) {
        let epoll = create(CreateFlags::CLOEXEC).unwrap();
        (WorkerMailbox::new(1, epoll, Waker::new().unwrap()), Arc::new(()))
    }

    #[test]
    fn frames_for_another_worker_are_limited() {
        let (mailbox, message) = mailbox();
        assert!((0..DELIVERIES_MAX).all(|_| mailbox.deliver(|| message.clone(), 0)));
        assert!(!mailbox.deliver(|| message.clone(), 0), "one past the limit");
        assert_eq!(mailbox.take().len(), DELIVERIES_MAX);
        assert!(mailbox.deliver(|| message.clone(), 0));
    }

    #[test]
    fn an_excess_command_waits_for_room() {
        let (mailbox, message) = mailbox();
        assert!((0..COMMANDS_MAX).all(|_| mailbox.send(message.clone())));
        let (sender, one_more) = (mailbox.clone(), message.clone());
        std::thread::scope(|scope| {
            let waiting = asleep(scope, move || sender.send(one_more));
            assert!(!waiting.is_finished());
            // A message that is not a command is accepted nevertheless.
            mailbox.post(message.clone(), Some(0));
            assert_eq!(mailbox.take().len(), COMMANDS_MAX + 1);
            assert!(waiting.join().unwrap());
        });
        assert_eq!(mailbox.take().len(), 1);
    }

    #[test]
    fn a_stop_command_needs_no_room() {
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
    fn messages_to_an_ended_worker_are_dropped() {
        let (mailbox, message) = mailbox();
        assert!((0..COMMANDS_MAX).all(|_| mailbox.send(message.clone())));
        let (sender, one_more) = (mailbox.clone(), message.clone());
        std::thread::scope(|scope| {
            let waiting = asleep(scope, move || sender.send(one_more));
            // Without `retire`, messages for an ended worker would hold their ports, and the ports
            // the mailbox, for ever.
            mailbox.retire();
            assert!(!waiting.join().unwrap());
        });
        assert_eq!(Arc::strong_count(&message), 1, "what was left is gone");
        assert!(!mailbox.send(message.clone()));
        mailbox.post(message.clone(), Some(0));
        assert_eq!(Arc::strong_count(&message), 1, "and so is what comes later");
    }

    #[test]
    fn a_worker_is_woken_only_once() {
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
