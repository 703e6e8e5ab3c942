//! Closing descriptors that peers passed, or sockets in which descriptors of peers may be queued.
//! No thread that serves peers waits for it.
//!
//! close(2) of a peer's descriptor can take as long as the peer chooses, for instance of a TCP
//! socket that lingers, or of a file in the peer's own file system. Dedicated threads therefore
//! close such descriptors, one thread for each holder that has some. The threads are few, and the
//! waiting descriptors are bounded as long as a caller checks [`Closer::is_full`] before it takes
//! descriptors.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::shares::Owner;

/// Threads that close descriptors, each for another holder.
///
/// # Limit
/// Further holders wait for a thread.
/// - Tests: `a_slow_close_blocks_no_other_holder`
pub const CLOSING_THREADS_MAX: usize = 16;

/// Descriptors of one local user that wait to be closed.
///
/// # Limit
/// Connections of the user are closed, and its handshakes are refused.
/// - Counter: `memif_descriptors_full` of the listener
/// - Tests: `a_slow_close_blocks_no_other_holder`,
///   `a_slowly_closing_descriptor_delays_nothing`,
///   `a_slowly_closing_descriptor_delays_no_handshake`
pub const CLOSING_PER_HOLDER_MAX: usize = 64;

/// Descriptors of all local users that wait to be closed.
///
/// From Linux 6.16 on the kernel can refuse the descriptors.
///
/// # Limit
/// Unix and memif listeners pause for 100 ms.
/// - Counter: `accept_failed` of the listener
/// - Tests: `a_slow_close_blocks_no_other_holder`,
///   `the_kernel_refuses_passed_descriptors`
pub const CLOSING_TOTAL_MAX: usize = 1024;

/// Closes descriptors. Clones share its threads.
#[derive(Clone, Debug, Default)]
pub struct Closer(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Owner, VecDeque<OwnedFd>>,
    /// The holders for which a thread is at work.
    served: BTreeSet<Owner>,
    /// Descriptors that wait or are being closed.
    count: usize,
}

impl Closer {
    /// Returns true if no more descriptors should be accepted from a holder, because too many of
    /// its own or of all holders wait to be closed.
    pub fn is_full(&self, holder: Owner) -> bool {
        let state = self.lock();
        let waiting = state.waiting.get(&holder).map_or(0, VecDeque::len);
        waiting >= CLOSING_PER_HOLDER_MAX || state.count >= CLOSING_TOTAL_MAX
    }

    /// Returns true if no more descriptors should be accepted from any holder.
    pub fn is_swamped(&self) -> bool {
        self.lock().count >= CLOSING_TOTAL_MAX
    }

    /// Passes a descriptor to the threads, which close it. Never blocks on the close.
    pub fn close(&self, holder: Owner, descriptor: OwnedFd) {
        let mut state = self.lock();
        state.count += 1;
        state.waiting.entry(holder).or_default().push_back(descriptor);
        if state.served.len() >= CLOSING_THREADS_MAX || !state.served.insert(holder) {
            return;
        }
        drop(state);
        let closer = self.clone();
        let thread = std::thread::Builder::new().name("closing".into());
        if thread.spawn(move || closer.work(holder)).is_err() {
            // The next descriptor tries again.
            self.lock().served.remove(&holder);
        }
    }

    /// The body of a thread: closes the waiting descriptors of a holder, then of other holders
    /// without a thread.
    fn work(&self, mut holder: Owner) {
        loop {
            let mut state = self.lock();
            let next = state.waiting.get_mut(&holder).and_then(VecDeque::pop_front);
            if let Some(descriptor) = next {
                drop(state);
                drop(descriptor);
                self.lock().count -= 1;
                continue;
            }
            state.waiting.remove(&holder);
            state.served.remove(&holder);
            let other = state.waiting.keys().find(|holder| !state.served.contains(holder)).copied();
            let Some(other) = other else { return };
            state.served.insert(other);
            holder = other;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent whenever the lock is free.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A descriptor. When this value is dropped, its [`Closer`] closes the descriptor, if it has one.
#[derive(Debug)]
pub struct DeferredDescriptor {
    /// `None` only while this is dropped.
    descriptor: Option<OwnedFd>,
    to: Option<Arc<(Closer, Owner)>>,
}

impl DeferredDescriptor {
    /// A descriptor that `closer` will close for `holder`.
    pub fn new(descriptor: OwnedFd, closer: Closer, holder: Owner) -> Self {
        DeferredDescriptor { descriptor: Some(descriptor), to: Some(Arc::new((closer, holder))) }
    }

    /// Another descriptor that is closed in the same manner as this one.
    pub fn like_this(&self, descriptor: OwnedFd) -> Self {
        DeferredDescriptor { descriptor: Some(descriptor), to: self.to.clone() }
    }

    /// Returns true if no more descriptors should be taken from this one's holder.
    pub fn is_full(&self) -> bool {
        self.to.as_ref().is_some_and(|to| to.0.is_full(to.1))
    }

    /// Takes the descriptor out. It is then closed like any other.
    pub fn into_owned(mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }
}

impl From<OwnedFd> for DeferredDescriptor {
    /// A descriptor that is closed by the thread that drops it.
    fn from(descriptor: OwnedFd) -> Self {
        DeferredDescriptor { descriptor: Some(descriptor), to: None }
    }
}

impl AsFd for DeferredDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.descriptor {
            Some(descriptor) => descriptor.as_fd(),
            None => unreachable!("it is taken out only with the last use of this"),
        }
    }
}

impl Drop for DeferredDescriptor {
    fn drop(&mut self) {
        if let Some((descriptor, to)) = self.descriptor.take().zip(self.to.take()) {
            to.0.close(to.1, descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use namely_testkit::eventually;

    use super::*;

    /// A socket that takes a minute to close, because its peer does not read; and the peer.
    fn slow() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(60))).unwrap();
        stream.set_nonblocking(true).unwrap();
        while rustix::io::write(&stream, &[0; 65536]).is_ok() {}
        (stream.into(), listener.accept().unwrap().0)
    }

    #[test]
    fn a_slow_close_blocks_no_other_holder() {
        let closer = Closer::default();
        let [slow_one, other] = [1, 2].map(Owner::uid);
        let (descriptor, mut peer) = slow();
        drop(DeferredDescriptor::new(descriptor, closer.clone(), slow_one));
        let files = || std::fs::File::open("/dev/null").unwrap().into();
        (0..CLOSING_PER_HOLDER_MAX).for_each(|_| closer.close(slow_one, files()));
        assert!(closer.is_full(slow_one) && !closer.is_full(other));
        (0..CLOSING_PER_HOLDER_MAX).for_each(|_| closer.close(other, files()));
        eventually("others are closed", || closer.lock().waiting.keys().all(|holder| *holder == slow_one));
        assert!(closer.is_full(slow_one), "the first is still being closed");
        // The peer reads, and the rest follows.
        std::thread::spawn(move || while peer.read(&mut [0; 65536]).is_ok_and(|octets| octets > 0) {});
        eventually("all are closed", || closer.lock().count == 0);
        eventually("nobody is served", || closer.lock().served.is_empty());
    }
}
