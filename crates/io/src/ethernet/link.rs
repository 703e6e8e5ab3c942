//! The state of a network device: its transports, and the sockets that its workers share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use namely_datagrams::ethernet::fanout::Group;
use namely_wire::MacAddress;
use parking_lot::Mutex;

use super::xdp;
use crate::port::FaceSender;

/// The state that a device's listener and its transports share.
pub(crate) struct Link<P> {
    pub(super) name: String,
    /// The transports by remote address, which is the address of a peer or a group. The value is
    /// `None` while a worker makes the transport. The maximum number of faces bounds the map.
    ports: Mutex<HashMap<MacAddress, Option<Arc<FaceSender<P>>>>>,
    /// The fanout group of the workers' packet sockets.
    pub(super) group: Mutex<Group>,
    /// The XDP sockets of the workers.
    pub(super) xdp: xdp::Sockets,
    /// Whether unknown link addresses receive transports.
    pub(super) is_open: AtomicBool,
    /// Whether a warning about frames with a VLAN tag was logged.
    pub(super) is_tag_noted: AtomicBool,
}

impl<P> Link<P> {
    pub(super) fn new(name: &str) -> Arc<Self> {
        let (ports, group, xdp) = Default::default();
        Arc::new(Link {
            name: name.to_string(),
            ports,
            group,
            xdp,
            is_open: AtomicBool::new(false),
            is_tag_noted: AtomicBool::new(false),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn sockets(&self) -> &xdp::Sockets {
        &self.xdp
    }

    pub(super) fn forget(&self, remote: MacAddress) {
        let port = self.ports.lock().remove(&remote);
        // Dropped after the lock is released: it may be the last reference to the port.
        drop(port);
    }

    pub(super) fn get(&self, remote: MacAddress) -> Option<Arc<FaceSender<P>>> {
        // Cloned, so that the lock is not held while the frame is processed.
        self.ports.lock().get(&remote).cloned().flatten()
    }

    /// Claims the right to make a transport. Returns false if the transport exists or another
    /// worker is making it.
    pub(super) fn claim(&self, remote: MacAddress) -> bool {
        match self.ports.lock().entry(remote) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(None);
                true
            }
        }
    }

    pub(super) fn insert(&self, remote: MacAddress, port: &Arc<FaceSender<P>>) {
        self.ports.lock().insert(remote, Some(port.clone()));
    }

    /// Returns the transports of a worker.
    pub(super) fn of_worker(&self, worker: usize) -> Vec<(MacAddress, Arc<FaceSender<P>>)> {
        let ports = self.ports.lock();
        let there = ports.iter().filter_map(|(remote, port)| Some((*remote, port.clone()?)));
        there.filter(|(_, port)| port.worker() == worker).collect()
    }
}

/// The devices that have a listener or a transport.
pub(crate) struct Links<P>(Mutex<Vec<Weak<Link<P>>>>);

impl<P> Default for Links<P> {
    fn default() -> Self {
        Links(Mutex::default())
    }
}

impl<P> Links<P> {
    pub(super) fn get(&self, name: &str) -> Option<Arc<Link<P>>> {
        self.0.lock().iter().filter_map(Weak::upgrade).find(|link| link.name == name)
    }

    pub(super) fn add(&self, link: &Arc<Link<P>>) {
        let mut links = self.0.lock();
        // Nothing else removes the entries of devices without listener and transport.
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(link));
    }
}
