//! The peers of UDP channels, by address.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::port::FaceSender;

/// The peers of a channel. The maximum number of faces bounds the map.
pub(crate) struct Peers<P> {
    ports: Mutex<HashMap<SocketAddr, Arc<FaceSender<P>>>>,
}

impl<P> Default for Peers<P> {
    fn default() -> Self {
        Peers { ports: Mutex::default() }
    }
}

impl<P> Peers<P> {
    pub(super) fn insert(&self, peer: SocketAddr, port: &Arc<FaceSender<P>>) {
        self.ports.lock().insert(peer, port.clone());
    }

    pub(super) fn remove(&self, peer: &SocketAddr) {
        let port = self.ports.lock().remove(peer);
        // Dropped after the lock is released: it may be the last reference to the port.
        drop(port);
    }

    pub(super) fn get(&self, peer: &SocketAddr) -> Option<Arc<FaceSender<P>>> {
        // Cloned, so that the lock is not held while the datagram is delivered.
        self.ports.lock().get(peer).cloned()
    }
}

/// The channels, by the address on which each listens.
pub(crate) struct Channels<P>(Mutex<Vec<(SocketAddr, Weak<Peers<P>>)>>);

impl<P> Default for Channels<P> {
    fn default() -> Self {
        Channels(Mutex::default())
    }
}

impl<P> Channels<P> {
    pub(super) fn add(&self, address: SocketAddr, peers: &Arc<Peers<P>>) {
        let mut channels = self.0.lock();
        // Nothing else removes a channel whose listener was closed.
        channels.retain(|(_, peers)| peers.strong_count() > 0);
        channels.push((address, Arc::downgrade(peers)));
    }

    /// Returns the first channel with a suitable address.
    pub(super) fn find(&self, suits: impl Fn(&SocketAddr) -> bool) -> Option<(SocketAddr, Arc<Peers<P>>)> {
        let channels = self.0.lock();
        channels
            .iter()
            .filter(|(address, _)| suits(address))
            .find_map(|(address, peers)| Some((*address, peers.upgrade()?)))
    }
}
