//! What is known of a network device: who is on it, and what its workers share to read it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use namely_datagrams::ethernet::fanout::Group;
use namely_wire::MacAddress;
use parking_lot::Mutex;

use super::xdp;
use crate::port::FacePort;

/// What the listener of a device and its transports share.
pub(crate) struct Link<P> {
    pub(super) name: String,
    /// The transports by their remote address: stations and groups; `None` while one is being made.
    /// There are no more than transports.
    ports: Mutex<HashMap<MacAddress, Option<Arc<FacePort<P>>>>>,
    /// The rings of the workers.
    pub(super) group: Mutex<Group>,
    /// Their XDP sockets.
    pub(super) xdp: xdp::Sockets,
    /// Whether stations that are not known get transports.
    pub(super) is_open: AtomicBool,
    /// Whether people were told of frames with the tag of a VLAN.
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
        // Not under the lock: it may be the last hold on the port.
        drop(port);
    }

    pub(super) fn get(&self, remote: MacAddress) -> Option<Arc<FacePort<P>>> {
        self.ports.lock().get(&remote).cloned().flatten()
    }

    /// Takes the right to make a transport; false if there is one or somebody makes it just now.
    pub(super) fn claim(&self, remote: MacAddress) -> bool {
        match self.ports.lock().entry(remote) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(None);
                true
            }
        }
    }

    pub(super) fn insert(&self, remote: MacAddress, port: &Arc<FacePort<P>>) {
        self.ports.lock().insert(remote, Some(port.clone()));
    }

    /// The transports that a worker has.
    pub(super) fn of_worker(&self, worker: usize) -> Vec<(MacAddress, Arc<FacePort<P>>)> {
        let ports = self.ports.lock();
        let there = ports.iter().filter_map(|(remote, port)| Some((*remote, port.clone()?)));
        there.filter(|(_, port)| port.worker() == worker).collect()
    }
}

/// The devices that are listened on.
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
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(link));
    }
}
