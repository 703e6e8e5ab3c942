//! The configured faces and routes. They are made at start, made again after a failure, and changed
//! by a reload.
//!
//! This module stores the target state of each neighbor, and the progress of making its face. A
//! failed step is retried with increasing delay. The module reads no clock and makes no faces
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use namely_forwarder::{Charge, FaceId};
use namely_messages::{FacePersistency, FaceState, FaceStatus, Route, RouteOrigin, route_flags};
use namely_mgmt::{Control, CreateFaceError, FaceSettings, FaceSpec, UpdateFaceError};
use namely_wire::{Endpoint, FaceUri, Name};

use crate::config::{Config, StaticFace};

/// Delay before the second attempt, ns. It is doubled for each later attempt.
const RETRY_NS_MIN: u64 = 1_000_000_000;

/// Longest delay between attempts, ns.
const RETRY_NS_MAX: u64 = 60_000_000_000;

/// Interval at which the name of a host is looked up again while its face is down, or sends and
/// receives nothing, ns.
const LOOKUP_NS: u64 = 30_000_000_000;

/// The configured neighbors, by the text of their remote URI.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    entries: BTreeMap<String, Entry>,
    /// Prefixes routed to the face `local`.
    local: BTreeSet<Name>,
}

#[derive(Debug)]
struct Entry {
    wanted: FaceTarget,
    face: FaceProgress,
    /// Failed attempts since the last success.
    failures: u32,
    /// The time at which the face is checked next, if its remote is a host name, ns.
    check_ns: u64,
    /// The octets that the face had received and sent at the last check.
    octets: [u64; 2],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FaceTarget {
    remote: FaceUri,
    local: Option<FaceUri>,
    settings: FaceSettings,
    routes: BTreeMap<Name, RouteTarget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RouteTarget {
    cost: u64,
    flags: u64,
}

/// The progress of a neighbor's face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaceProgress {
    /// The face is due to be created at this time.
    Due { at_ns: u64 },
    /// The face is being made.
    Creating,
    /// The face exists.
    Made { face_id: u64 },
}

impl Neighbours {
    /// Applies `config`. Faces and routes that it no longer contains are removed now;
    /// [`Neighbours::tick`] makes the others.
    pub(crate) fn configure(&mut self, config: &Config, control: Control<'_>, now_ns: u64) {
        self.route_to_local(config, control, now_ns);
        let mut wanted = wanted(config);
        self.entries.retain(|key, entry| {
            let stays = wanted.contains_key(key);
            if let (false, FaceProgress::Made { face_id }) = (stays, entry.face) {
                tracing::info!(face = face_id, remote = %key, "the face is no longer configured: destroyed");
                // It is not an error if the face is closed already.
                control.faces.destroy_face(FaceId(face_id)).ok();
            }
            stays
        });
        for (key, entry) in &mut self.entries {
            if let Some(new) = wanted.remove(key) {
                entry.change(new, control, now_ns);
            }
        }
        for (key, wanted) in wanted {
            self.entries.insert(key, Entry::new(wanted, now_ns));
        }
    }

    /// Routes the prefixes of this machine to the face `local`, which always exists.
    fn route_to_local(&mut self, config: &Config, control: Control<'_>, now_ns: u64) {
        let wanted: BTreeSet<Name> = config.network.local.iter().cloned().collect();
        for prefix in self.local.difference(&wanted) {
            control.tables.rib_unregister(prefix.as_name(), FaceId::LOCAL, RouteOrigin::STATIC);
        }
        let route = RouteTarget { cost: 0, flags: route_flags::CHILD_INHERIT };
        for prefix in wanted.difference(&self.local) {
            register(prefix, route, FaceId::LOCAL.0, control, now_ns);
        }
        self.local = wanted;
    }

    /// Requests the faces that are due. `make` is called with a face to make and the key for its
    /// result; it returns false if it refuses. Returns the time of the next call, unless an event
    /// requires an earlier one.
    pub(crate) fn tick(&mut self, now_ns: u64, make: &mut dyn FnMut(&str, FaceSpec) -> bool) -> Option<u64> {
        let mut next_ns = None;
        for (key, entry) in &mut self.entries {
            let FaceProgress::Due { at_ns } = entry.face else { continue };
            if at_ns <= now_ns && make(key, entry.wanted.spec()) {
                entry.face = FaceProgress::Creating;
                continue;
            }
            let at_ns = if at_ns <= now_ns { entry.try_later(now_ns) } else { at_ns };
            next_ns = Some(next_ns.map_or(at_ns, |next: u64| next.min(at_ns)));
        }
        next_ns
    }

    /// Looks up the names of hosts whose faces are down, or receive nothing although they send.
    /// `look_up` is called with the key for the result and the host. Returns the time of the next
    /// call.
    pub(crate) fn check_names(
        &mut self,
        now_ns: u64,
        control: Control<'_>,
        look_up: &mut dyn FnMut(&str, Endpoint) -> bool,
    ) -> Option<u64> {
        let mut next_ns = None;
        for (key, entry) in &mut self.entries {
            let FaceProgress::Made { face_id } = entry.face else { continue };
            if host_of(&entry.wanted.remote).is_none() {
                continue;
            }
            if entry.check_ns <= now_ns {
                entry.check_ns = now_ns.saturating_add(LOOKUP_NS);
                let is_silent = entry.is_silent(face_id, control);
                if let Some(host) = host_of(&entry.wanted.remote).filter(|_| is_silent) {
                    // Without a thread for it, the next check looks the name up.
                    look_up(key, host.clone());
                }
            }
            next_ns = Some(next_ns.map_or(entry.check_ns, |next: u64| next.min(entry.check_ns)));
        }
        next_ns
    }

    /// Handles the result of looking up the host of `key`. If the host has other addresses than
    /// that of the face, the face is destroyed, and another one is made.
    pub(crate) fn looked_up(
        &mut self,
        key: &str,
        found: Result<Vec<SocketAddr>, String>,
        control: Control<'_>,
    ) {
        let Some(Entry { face: FaceProgress::Made { face_id }, .. }) = self.entries.get(key) else { return };
        let addresses = match found {
            Ok(addresses) => addresses,
            Err(why) => return tracing::debug!("face {face_id} keeps its address: {why}"),
        };
        let face = control.faces.face(FaceId(*face_id));
        let present = face.and_then(|face| face.uri.parse().ok()).and_then(|uri: FaceUri| uri.address());
        if let Some(present) = present
            && !addresses.contains(&present)
        {
            tracing::info!("{key} has another address than {present}: face {face_id} is made anew");
            // It is not an error if the face is closed already.
            control.faces.destroy_face(FaceId(*face_id)).ok();
        }
    }

    /// Handles the result of making the face of `key`.
    pub(crate) fn made(
        &mut self,
        key: &str,
        made: Result<FaceStatus, CreateFaceError>,
        control: Control<'_>,
        now_ns: u64,
    ) {
        let made = made.map(|face| face.face_id);
        match self.entries.get_mut(key) {
            Some(entry) => entry.made(key, made, control, now_ns),
            // A reload in the meantime has removed the neighbor.
            None => drop(made.map(|face_id| control.faces.destroy_face(FaceId(face_id)))),
        }
    }

    /// Handles a closed face. If it was the face of a configured neighbor, a new attempt is
    /// scheduled.
    pub(crate) fn face_closed(&mut self, face_id: u64, now_ns: u64) {
        for entry in self.entries.values_mut().filter(|entry| entry.face == FaceProgress::Made { face_id }) {
            entry.try_later(now_ns);
        }
    }
}

/// The target state of each neighbor in `config`.
fn wanted(config: &Config) -> BTreeMap<String, FaceTarget> {
    let mut wanted: BTreeMap<String, FaceTarget> = BTreeMap::new();
    for face in &config.face {
        let route = RouteTarget { cost: face.cost, flags: route_flags::CHILD_INHERIT };
        let routes = face.routes.iter().map(|name| (name.clone(), route)).collect();
        let (remote, local) = (face.remote.clone(), face.local.clone());
        let entry = FaceTarget { remote, local, settings: settings(face), routes };
        wanted.insert(face.remote.to_string(), entry);
    }
    for route in &config.route {
        let entry = wanted.entry(route.to.to_string()).or_insert_with(|| FaceTarget {
            remote: route.to.clone(),
            local: None,
            settings: FaceSettings { persistency: Some(FacePersistency::Permanent), ..Default::default() },
            routes: BTreeMap::new(),
        });
        let bit = |set: bool, mask: u64| if set { mask } else { 0 };
        let flags =
            bit(route.child_inherit, route_flags::CHILD_INHERIT) | bit(route.capture, route_flags::CAPTURE);
        entry.routes.insert(route.prefix.clone(), RouteTarget { cost: route.cost, flags });
    }
    wanted
}

/// The host of a remote URI, if it is a name.
fn host_of(remote: &FaceUri) -> Option<&Endpoint> {
    match remote {
        FaceUri::Tcp(endpoint) | FaceUri::Udp(endpoint) => Some(endpoint).filter(|host| host.ip().is_none()),
        _ => None,
    }
}

fn settings(face: &StaticFace) -> FaceSettings {
    FaceSettings {
        persistency: Some(face.persistency),
        // Streams do not lose packets: the setting is for datagrams only.
        reliability: matches!(face.remote, FaceUri::Udp(_) | FaceUri::Ether(_)).then_some(face.reliability),
        mtu: face.mtu,
        ..Default::default()
    }
}

impl FaceTarget {
    fn spec(&self) -> FaceSpec {
        FaceSpec { remote: self.remote.clone(), local: self.local.clone(), settings: self.settings }
    }
}

impl Entry {
    fn new(wanted: FaceTarget, now_ns: u64) -> Self {
        Entry { wanted, face: FaceProgress::Due { at_ns: now_ns }, failures: 0, check_ns: 0, octets: [0; 2] }
    }

    /// Returns true if the face is down, or has received nothing since the last check although it
    /// has sent. An idle face proves nothing, and a host of several addresses may list others each
    /// time.
    fn is_silent(&mut self, face_id: u64, control: Control<'_>) -> bool {
        let Some(face) = control.faces.face(FaceId(face_id)) else { return false };
        let [received, sent] = std::mem::replace(&mut self.octets, [face.in_octets, face.out_octets]);
        let is_unanswered = face.in_octets == received && face.out_octets != sent;
        is_unanswered || face.state().is_some_and(|state| state != FaceState::Up)
    }

    /// Schedules the next attempt and returns its time.
    fn try_later(&mut self, now_ns: u64) -> u64 {
        let wait_ns = (RETRY_NS_MIN << self.failures.min(6)).min(RETRY_NS_MAX);
        self.failures = self.failures.saturating_add(1);
        let at_ns = now_ns.saturating_add(wait_ns);
        self.face = FaceProgress::Due { at_ns };
        at_ns
    }

    fn made(&mut self, key: &str, made: Result<u64, CreateFaceError>, control: Control<'_>, now_ns: u64) {
        let made = match made {
            // A neighbor that connected first has an on-demand face. It becomes the configured
            // face.
            Err(CreateFaceError::Exists(face)) => self.adopt(face.face_id, control),
            Err(error) => Err(error.to_string()),
            Ok(face_id) => Ok(face_id),
        };
        match made {
            Ok(face_id) => {
                tracing::info!(face = face_id, remote = %key, "the face to a configured neighbor is made");
                self.failures = 0;
                self.face = FaceProgress::Made { face_id };
                (self.check_ns, self.octets) = (now_ns.saturating_add(LOOKUP_NS), [0; 2]);
                for (prefix, route) in &self.wanted.routes {
                    register(prefix, *route, face_id, control, now_ns);
                }
            }
            Err(why) => {
                tracing::warn!(remote = %key, error = %why, "no face to the neighbor yet");
                self.try_later(now_ns);
            }
        }
    }

    fn adopt(&self, face_id: u64, control: Control<'_>) -> Result<u64, String> {
        match control.faces.update_face(FaceId(face_id), &self.wanted.settings) {
            Ok(_) => Ok(face_id),
            Err(UpdateFaceError::BadSetting(why)) => {
                let remote = &self.wanted.remote;
                tracing::warn!(face = face_id, %remote, error = %why, "the face keeps its settings");
                Ok(face_id)
            }
            Err(UpdateFaceError::NoSuchFace) => Err("it was closed meanwhile".into()),
        }
    }

    /// Changes the target to `new`, which has the same remote.
    fn change(&mut self, new: FaceTarget, control: Control<'_>, now_ns: u64) {
        let old = std::mem::replace(&mut self.wanted, new);
        let FaceProgress::Made { face_id } = self.face else { return };
        if old.settings != self.wanted.settings
            && let Err(error) = control.faces.update_face(FaceId(face_id), &self.wanted.settings)
        {
            tracing::warn!(face = face_id, %error, "the face keeps its settings");
        }
        for prefix in old.routes.keys().filter(|prefix| !self.wanted.routes.contains_key(*prefix)) {
            control.tables.rib_unregister(prefix.as_name(), FaceId(face_id), RouteOrigin::STATIC);
        }
        for (prefix, route) in &self.wanted.routes {
            if old.routes.get(prefix) != Some(route) {
                register(prefix, *route, face_id, control, now_ns);
            }
        }
    }
}

fn register(prefix: &Name, wanted: RouteTarget, face_id: u64, control: Control<'_>, now_ns: u64) {
    let route = Route {
        face_id,
        origin: RouteOrigin::STATIC,
        cost: wanted.cost,
        flags: wanted.flags,
        expiration_period_ms: None,
    };
    match control.tables.rib_register(Charge::Router, prefix.as_name(), &route, now_ns) {
        Ok(()) => tracing::info!(%prefix, face = face_id, cost = wanted.cost, "the route is made"),
        Err(error) => tracing::warn!(%prefix, face = face_id, %error, "the route is not made"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::path::Path;

    use namely_dataplane::Core;
    use namely_messages::Counter;
    use namely_mgmt::Faces;

    use super::*;

    /// A router with one face.
    struct OneFace {
        status: RefCell<FaceStatus>,
        destroyed: Cell<u32>,
    }

    impl Faces for OneFace {
        fn faces(&self) -> Vec<FaceStatus> {
            vec![self.status.borrow().clone()]
        }

        fn count(&self) -> usize {
            1
        }

        fn face(&self, _: FaceId) -> Option<FaceStatus> {
            Some(self.status.borrow().clone())
        }

        fn update_face(&self, _: FaceId, _: &FaceSettings) -> Result<FaceStatus, UpdateFaceError> {
            Err(UpdateFaceError::NoSuchFace)
        }

        fn destroy_face(&self, _: FaceId) -> Result<(), UpdateFaceError> {
            self.destroyed.set(self.destroyed.get() + 1);
            Ok(())
        }

        fn channels(&self) -> Vec<FaceUri> {
            Vec::new()
        }

        fn counters(&self) -> Vec<Counter> {
            Vec::new()
        }
    }

    #[test]
    fn a_host_that_moved_gets_another_face() {
        let key = "udp://router.example:6363";
        let config = Config::parse(&format!("[[face]]\nremote = \"{key}\"\n"), Path::new("x.toml")).unwrap();
        let core: Core = config.forwarder(0).unwrap();
        let uri = "udp4://192.0.2.1:6363".to_owned();
        let status = FaceStatus { face_id: 300, uri, ..FaceStatus::default() };
        let faces = OneFace { status: RefCell::new(status.clone()), destroyed: Cell::new(0) };
        let (neighbors, disk, vip, traces) = (None, None, None, None);
        let control = Control { faces: &faces, tables: &core, neighbors, disk, vip, traces, draining: None };
        let mut neighbours = Neighbours::default();
        neighbours.configure(&config, control, 0);
        let mut made = 0;
        let mut tick = |neighbours: &mut Neighbours, now_ns| {
            neighbours.tick(now_ns, &mut |_, _| {
                made += 1;
                true
            });
            made
        };
        assert_eq!(tick(&mut neighbours, 0), 1);
        neighbours.made(key, Ok(status), control, 0);

        let mut hosts = Vec::new();
        let mut check = |neighbours: &mut Neighbours, now_ns| {
            neighbours.check_names(now_ns, control, &mut |_, host| {
                hosts.push(host.to_string());
                true
            });
            hosts.len()
        };
        let moved = |in_octets, out_octets| {
            let mut status = faces.status.borrow_mut();
            (status.in_octets, status.out_octets) = (in_octets, out_octets);
        };
        moved(0, 9);
        assert_eq!(check(&mut neighbours, LOOKUP_NS - 1), 0);
        assert_eq!(check(&mut neighbours, LOOKUP_NS), 1, "it has received nothing");
        moved(5, 18);
        assert_eq!(check(&mut neighbours, 2 * LOOKUP_NS), 1, "it is alive");
        assert_eq!(check(&mut neighbours, 3 * LOOKUP_NS), 1, "and idle");
        moved(5, 27);
        assert_eq!(check(&mut neighbours, 4 * LOOKUP_NS), 2, "and silent");

        let address = |text: &str| vec![text.parse().unwrap()];
        neighbours.looked_up(key, Err("no name server".into()), control);
        neighbours.looked_up(key, Ok(address("192.0.2.1:6363")), control);
        assert_eq!(faces.destroyed.get(), 0);
        neighbours.looked_up(key, Ok(address("192.0.2.2:6363")), control);
        assert_eq!(faces.destroyed.get(), 1);
        neighbours.face_closed(300, 4 * LOOKUP_NS);
        assert_eq!(tick(&mut neighbours, 4 * LOOKUP_NS + RETRY_NS_MIN), 2, "a new face, by a new lookup");
    }
}
