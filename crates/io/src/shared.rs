//! What the workers share: limits over all of them, and a mailbox for each.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use namely_host::Waker;
use namely_wire::face_uri::FaceUri;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::ethernet::Links;
use crate::kind::{Acceptor, Receiver};
use crate::options::{DispatchedLinks, IoOptions};
use crate::port::Port;
use crate::transport::TransportId;
use crate::udp::Peers;

/// Most workers: a bit for each in every port.
pub const WORKERS_MAX: usize = 64;

/// Most frames that wait to be handed to the worker that reads their transport.
const DELIVERIES_MAX: usize = 256;

/// What all workers share.
pub(crate) struct Shared<P> {
    pub(crate) options: IoOptions,
    pub(crate) dispatched: DispatchedLinks,
    pub(crate) stations: Vec<Arc<Station<P>>>,
    /// What shared-memory transports may have mapped.
    pub(crate) memif_budget: namely_memif::Budget,
    open: AtomicUsize,
    /// Octets of memory that frames take in all queues. Workers add what they queued in steps, hence the sign.
    queued_octets: AtomicIsize,
    /// The UDP ports on which peers make themselves known.
    channels: Mutex<Vec<(SocketAddr, Weak<Peers<P>>)>>,
    /// The network devices in use.
    pub(crate) links: Links<P>,
}

impl<P> Shared<P> {
    pub(crate) fn new(
        options: IoOptions,
        dispatched: DispatchedLinks,
        stations: Vec<Arc<Station<P>>>,
    ) -> Arc<Self> {
        Arc::new(Shared {
            memif_budget: namely_memif::Budget::new(options.memif.mapped_octets_total_max),
            options,
            dispatched,
            stations,
            open: AtomicUsize::new(0),
            queued_octets: AtomicIsize::new(0),
            channels: Mutex::default(),
            links: Links::default(),
        })
    }

    pub(crate) fn queued_octets(&self) -> isize {
        self.queued_octets.load(Ordering::Relaxed)
    }

    pub(crate) fn charge(&self, octets: isize) {
        if octets != 0 {
            self.queued_octets.fetch_add(octets, Ordering::Relaxed);
        }
    }

    /// Takes up one of the transports that there may be; false if there are as many already.
    pub(crate) fn reserve(&self) -> bool {
        let max = self.options.transports_max;
        let more = |open: usize| (open < max).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.open.load(Ordering::Relaxed) < self.options.transports_max
    }

    pub(crate) fn release(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// The workers that read what is not dispatched.
    fn ordinary(&self) -> &[Arc<Station<P>>] {
        match &self.stations[..] {
            [_, others @ ..] if self.dispatched.own_worker && !others.is_empty() => others,
            all => all,
        }
    }

    /// The worker for a transport with these ends: the one with the fewest, of those that may have it.
    pub(crate) fn idlest_for(&self, local: &FaceUri, remote: &FaceUri) -> Option<&Arc<Station<P>>> {
        if self.dispatched.own_worker && self.dispatched.has(local, remote) {
            return self.stations.first();
        }
        self.ordinary().iter().min_by_key(|station| station.load.load(Ordering::Relaxed))
    }

    /// The workers that read from a network device.
    pub(crate) fn readers_of(&self, device: &FaceUri) -> &[Arc<Station<P>>] {
        if self.dispatched.has(device, device) { &self.stations[..1] } else { self.ordinary() }
    }

    pub(crate) fn add_channel(&self, address: SocketAddr, peers: &Arc<Peers<P>>) {
        let mut channels = self.channels.lock();
        channels.retain(|(_, peers)| peers.strong_count() > 0);
        channels.push((address, Arc::downgrade(peers)));
    }

    /// The first channel whose address suits.
    pub(crate) fn channel(&self, suits: impl Fn(&SocketAddr) -> bool) -> Option<(SocketAddr, Arc<Peers<P>>)> {
        let channels = self.channels.lock();
        channels
            .iter()
            .filter(|(address, _)| suits(address))
            .find_map(|(address, peers)| Some((*address, peers.upgrade()?)))
    }
}

/// What others may touch of a worker.
pub(crate) struct Station<P> {
    pub(crate) index: usize,
    pub(crate) epoll: OwnedFd,
    pub(crate) waker: Waker,
    /// Transports that are or will be read here.
    pub(crate) load: AtomicUsize,
    has_notes: AtomicBool,
    notes: Mutex<VecDeque<Note<P>>>,
    /// Whether the worker has ended; changed under the lock of `notes`.
    retired: AtomicBool,
    deliveries: AtomicUsize,
}

/// Something that only the worker that reads a transport can do.
pub(crate) enum Note<P> {
    /// Read this transport, which came to a listener; perhaps with its first datagram.
    Adopt {
        listener: TransportId,
        port: Arc<Port<P>>,
        receiver: Box<dyn Receiver<P>>,
        first: Option<Vec<u8>>,
    },
    /// Listen, too, on what another worker listens on.
    Listen(Box<dyn Acceptor<P>>, FaceUri),
    /// This datagram belongs to a transport that is read here.
    Deliver(Arc<Port<P>>, Vec<u8>),
    /// Writing failed.
    Failed(TransportId, Errno),
    /// The port was closed.
    Forget(TransportId),
    /// Something changed that the transport's timer is for.
    RunTimer(TransportId),
}

impl<P> Station<P> {
    pub(crate) fn new(index: usize, epoll: OwnedFd, waker: Waker) -> Arc<Self> {
        Arc::new(Station {
            index,
            epoll,
            waker,
            load: AtomicUsize::new(0),
            has_notes: AtomicBool::new(false),
            notes: Mutex::default(),
            retired: AtomicBool::new(false),
            deliveries: AtomicUsize::new(0),
        })
    }

    /// Leaves a note, and wakes the worker unless it is the one that leaves it. Nobody reads what is left for a worker that has
    /// ended: a transport that it should have taken up is closed.
    pub(crate) fn post(&self, note: Note<P>, from: Option<usize>) {
        let mut notes = self.notes.lock();
        if self.retired.load(Ordering::Relaxed) {
            drop(notes);
            return drop(note);
        }
        notes.push_back(note);
        drop(notes);
        let was_set = self.has_notes.swap(true, Ordering::AcqRel);
        if !was_set && from != Some(self.index) {
            self.waker.wake();
        }
    }

    /// Hands over a frame; false if too many wait.
    pub(crate) fn deliver(&self, port: &Arc<Port<P>>, frame: &[u8], from: usize) -> bool {
        if self.deliveries.load(Ordering::Relaxed) >= DELIVERIES_MAX {
            return false;
        }
        self.deliveries.fetch_add(1, Ordering::Relaxed);
        self.post(Note::Deliver(port.clone(), frame.to_vec()), Some(from));
        true
    }

    pub(crate) fn has_notes(&self) -> bool {
        self.has_notes.load(Ordering::Acquire)
    }

    /// The worker has ended: drops what was left for it, and what others leave from now on.
    pub(crate) fn retire(&self) {
        let mut notes = self.notes.lock();
        self.retired.store(true, Ordering::Relaxed);
        let left = std::mem::take(&mut *notes);
        drop(notes);
        drop(left);
    }

    pub(crate) fn take_notes(&self) -> VecDeque<Note<P>> {
        self.has_notes.store(false, Ordering::Release);
        let notes = std::mem::take(&mut *self.notes.lock());
        self.deliveries.store(0, Ordering::Relaxed);
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::EventLoop;
    use crate::transport::{Carrier, Reach};

    #[test]
    fn datagrams_for_another_worker_are_taken_up_to_the_limit() {
        let loops =
            EventLoop::<Vec<u8>>::workers(IoOptions::default(), DispatchedLinks::default(), 2).unwrap();
        let shared = loops[0].shared();
        let station = shared.stations[1].clone();
        let (receiver, sender) = crate::stream::StreamReceiver::pair(
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap(),
        );
        let new = crate::kind::NewTransport {
            receiver,
            sender,
            about: crate::kind::About {
                remote: namely_wire::face_uri::FaceUri::Internal,
                reach: Reach::Local,
                carrier: Carrier::Stream,
                mtu: None,
                path_octets: None,
                credentials: None,
                socket_inode: None,
                idle_ns: None,
                refuses: |_| None,
            },
            local: namely_wire::face_uri::FaceUri::Internal,
            persistency: crate::Persistency::OnDemand,
            state: crate::TransportState::Up,
        };
        let (port, _receiver) = Port::new(new, station.clone(), shared);
        assert!((0..DELIVERIES_MAX).all(|_| station.deliver(&port, &[5, 0], 0)));
        assert!(!station.deliver(&port, &[5, 0], 0), "one past the limit");
        assert_eq!(station.take_notes().len(), DELIVERIES_MAX);
        assert!(station.deliver(&port, &[5, 0], 0));
        // Notes for a worker that ended would hold their ports, and these the worker, for ever.
        assert!(Arc::strong_count(&port) > 1);
        station.retire();
        assert_eq!(Arc::strong_count(&port), 1, "what was left is gone");
        station.post(Note::Deliver(port.clone(), vec![5, 0]), Some(0));
        assert_eq!(Arc::strong_count(&port), 1, "and so is what comes later");
    }
}
