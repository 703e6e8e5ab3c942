//! The peers that were met at UDP ports, by their addresses.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::port::FacePort;

/// The peers that were met at a port. There are no more than faces.
pub(crate) struct Peers<P> {
    ports: Mutex<HashMap<SocketAddr, Arc<FacePort<P>>>>,
}

impl<P> Default for Peers<P> {
    fn default() -> Self {
        Peers { ports: Mutex::default() }
    }
}

impl<P> Peers<P> {
    pub(super) fn insert(&self, peer: SocketAddr, port: &Arc<FacePort<P>>) {
        self.ports.lock().insert(peer, port.clone());
    }

    pub(super) fn remove(&self, peer: &SocketAddr) {
        let port = self.ports.lock().remove(peer);
        // Not under the lock: it may be the last hold on the port.
        drop(port);
    }

    pub(super) fn get(&self, peer: &SocketAddr) -> Option<Arc<FacePort<P>>> {
        self.ports.lock().get(peer).cloned()
    }
}

/// The UDP ports on which peers make themselves known, by their addresses.
pub(crate) struct Channels<P>(Mutex<Vec<(SocketAddr, Weak<Peers<P>>)>>);

impl<P> Default for Channels<P> {
    fn default() -> Self {
        Channels(Mutex::default())
    }
}

impl<P> Channels<P> {
    pub(super) fn add(&self, address: SocketAddr, peers: &Arc<Peers<P>>) {
        let mut channels = self.0.lock();
        channels.retain(|(_, peers)| peers.strong_count() > 0);
        channels.push((address, Arc::downgrade(peers)));
    }

    /// The first channel whose address suits.
    pub(super) fn find(&self, suits: impl Fn(&SocketAddr) -> bool) -> Option<(SocketAddr, Arc<Peers<P>>)> {
        let channels = self.0.lock();
        channels
            .iter()
            .filter(|(address, _)| suits(address))
            .find_map(|(address, peers)| Some((*address, peers.upgrade()?)))
    }
}
