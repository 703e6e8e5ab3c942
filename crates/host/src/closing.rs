//! Closing descriptors that came from peers, or in which descriptors of peers may lie, where nobody
//! waits for it.
//!
//! close(2) of what a peer chose can take as long as the peer likes: a TCP socket that lingers, a
//! file of its own file system. So threads that do nothing else close such descriptors, one for
//! each holder that has some, and nobody waits for a thread. They are few and the descriptors that
//! wait are bounded as long as whoever takes descriptors asks [`Closer::is_full`] before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::shares::Holder;

/// Maximum number of threads that close, each for another holder.
pub const CLOSING_THREADS_MAX: usize = 16;

/// Descriptors of one holder that may wait to be closed before nothing more is taken of it.
pub const CLOSING_PER_HOLDER_MAX: usize = 64;

/// The same for all holders together.
pub const CLOSING_TOTAL_MAX: usize = 1024;

/// Closes descriptors. Clones share its threads.
#[derive(Clone, Debug, Default)]
pub struct Closer(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Holder, VecDeque<OwnedFd>>,
    /// Those for which a thread is at work.
    served: BTreeSet<Holder>,
    /// Descriptors that wait or are being closed.
    count: usize,
}

impl Closer {
    /// Returns true if nothing should be taken of a holder, since too many of its descriptors wait
    /// to be closed, or of all.
    pub fn is_full(&self, holder: Holder) -> bool {
        let state = self.lock();
        let waiting = state.waiting.get(&holder).map_or(0, VecDeque::len);
        waiting >= CLOSING_PER_HOLDER_MAX || state.count >= CLOSING_TOTAL_MAX
    }

    /// Returns true if nothing should be taken of anybody.
    pub fn is_swamped(&self) -> bool {
        self.lock().count >= CLOSING_TOTAL_MAX
    }

    /// Has a descriptor closed. Never waits.
    pub fn close(&self, holder: Holder, descriptor: OwnedFd) {
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

    /// A thread: closes what waits of a holder, then of others that nobody serves.
    fn work(&self, mut holder: Holder) {
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
        // It is complete whenever the lock is free.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A descriptor that a [`Closer`] closes, if there is one, when this is dropped.
#[derive(Debug)]
pub struct Entrusted {
    /// `None` only while this is dropped.
    descriptor: Option<OwnedFd>,
    to: Option<Arc<(Closer, Holder)>>,
}

impl Entrusted {
    /// A descriptor that `closer` will close for `holder`.
    pub fn new(descriptor: OwnedFd, closer: Closer, holder: Holder) -> Self {
        Entrusted { descriptor: Some(descriptor), to: Some(Arc::new((closer, holder))) }
    }

    /// Another descriptor that goes the way of this one.
    pub fn like_this(&self, descriptor: OwnedFd) -> Self {
        Entrusted { descriptor: Some(descriptor), to: self.to.clone() }
    }

    /// Returns true if no more descriptors should be taken from this one's holder.
    pub fn is_full(&self) -> bool {
        self.to.as_ref().is_some_and(|to| to.0.is_full(to.1))
    }

    /// The descriptor, which closes without a wait after all.
    pub fn into_owned(mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }
}

impl From<OwnedFd> for Entrusted {
    /// It closes where it is dropped.
    fn from(descriptor: OwnedFd) -> Self {
        Entrusted { descriptor: Some(descriptor), to: None }
    }
}

impl AsFd for Entrusted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.descriptor {
            Some(descriptor) => descriptor.as_fd(),
            None => unreachable!("it is taken out only with the last use of this"),
        }
    }
}

impl Drop for Entrusted {
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

    use namely_skip::eventually;

    use super::*;

    /// A socket whose close takes a minute, since its peer does not read; and the peer.
    fn slow() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(60))).unwrap();
        stream.set_nonblocking(true).unwrap();
        while rustix::io::write(&stream, &[0; 65536]).is_ok() {}
        (stream.into(), listener.accept().unwrap().0)
    }

    #[test]
    fn a_close_that_takes_long_holds_up_neither_the_caller_nor_other_holders() {
        let closer = Closer::default();
        let [slow_one, other] = [1, 2].map(Holder::uid);
        let (descriptor, mut peer) = slow();
        drop(Entrusted::new(descriptor, closer.clone(), slow_one));
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
