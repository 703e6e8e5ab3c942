//! Faces and routes of the configuration: made at start, made again when they go, changed on
//! reload.
//!
//! Keeps what is wanted and how far each neighbour has come: its face is made, its routes are
//! registered. Whatever fails is tried again later and later. Reads no clock and makes no face
//! itself.

use std::collections::{BTreeMap, BTreeSet};

use namely_forwarder::{Charge, FaceId};
use namely_mgmt::{Control, CreateFaceError, FaceSettings, FaceSpec, UpdateFaceError};
use namely_wire::mgmt::{FacePersistency, FaceStatus, Route, RouteOrigin, route_flags};
use namely_wire::{FaceUri, Name};

use crate::config::{Config, StaticFace};

/// Wait before the second attempt, ns; doubled for each further one.
const RETRY_NS_MIN: u64 = 1_000_000_000;

/// Longest wait between attempts, ns.
const RETRY_NS_MAX: u64 = 60_000_000_000;

/// The neighbours of the configuration, by the text of their remote URI.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    entries: BTreeMap<String, Entry>,
    /// Prefixes routed to the face `local`.
    local: BTreeSet<Name>,
}

#[derive(Debug)]
struct Entry {
    wanted: Wanted,
    face: FaceProgress,
    /// Attempts that failed since something last worked.
    failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    remote: FaceUri,
    local: Option<FaceUri>,
    settings: FaceSettings,
    routes: BTreeMap<Name, WantedRoute>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WantedRoute {
    cost: u64,
    flags: u64,
}

/// How far a neighbour's face has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaceProgress {
    /// To be made when this time has come.
    Due { at_ns: u64 },
    /// Being made.
    InMaking,
    /// It exists.
    Made { face_id: u64 },
}

impl Neighbours {
    /// Adopts what `config` wants. What is no longer wanted is undone now; the rest is up to
    /// [`Neighbours::tick`].
    pub(crate) fn configure(&mut self, config: &Config, control: Control<'_>, now_ns: u64) {
        self.route_to_local(config, control, now_ns);
        let mut wanted = wanted(config);
        self.entries.retain(|key, entry| {
            let stays = wanted.contains_key(key);
            if let (false, FaceProgress::Made { face_id }) = (stays, entry.face) {
                tracing::info!("face {face_id} to {key} is no longer configured: destroyed");
                // Gone already is as good.
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

    /// Leads the prefixes of this machine to the face `local`, which is always there.
    fn route_to_local(&mut self, config: &Config, control: Control<'_>, now_ns: u64) {
        let wanted: BTreeSet<Name> = config.network.local.iter().cloned().collect();
        for prefix in self.local.difference(&wanted) {
            control.tables.rib_unregister(prefix.as_name(), FaceId::LOCAL, RouteOrigin::STATIC);
        }
        let route = WantedRoute { cost: 0, flags: route_flags::CHILD_INHERIT };
        for prefix in wanted.difference(&self.local) {
            register(prefix, route, FaceId::LOCAL.0, control, now_ns);
        }
        self.local = wanted;
    }

    /// Does what is due. `make` is given faces to make, with the key under which to answer, and
    /// says whether it takes one. When to call again, if nothing happens before.
    pub(crate) fn tick(&mut self, now_ns: u64, make: &mut dyn FnMut(&str, FaceSpec) -> bool) -> Option<u64> {
        let mut next_ns = None;
        for (key, entry) in &mut self.entries {
            let FaceProgress::Due { at_ns } = entry.face else { continue };
            if at_ns <= now_ns && make(key, entry.wanted.spec()) {
                entry.face = FaceProgress::InMaking;
                continue;
            }
            let at_ns = if at_ns <= now_ns { entry.try_later(now_ns) } else { at_ns };
            next_ns = Some(next_ns.map_or(at_ns, |next: u64| next.min(at_ns)));
        }
        next_ns
    }

    /// The outcome of making the face of `key`.
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
            // A reload came in between: the face is not wanted any more.
            None => drop(made.map(|face_id| control.faces.destroy_face(FaceId(face_id)))),
        }
    }

    /// A face is gone: if it was a neighbour's, it is made again.
    pub(crate) fn face_gone(&mut self, face_id: u64, now_ns: u64) {
        for entry in self.entries.values_mut().filter(|entry| entry.face == FaceProgress::Made { face_id }) {
            entry.try_later(now_ns);
        }
    }
}

/// What `config` wants of each neighbour.
fn wanted(config: &Config) -> BTreeMap<String, Wanted> {
    let mut wanted: BTreeMap<String, Wanted> = BTreeMap::new();
    for face in &config.face {
        let route = WantedRoute { cost: face.cost, flags: route_flags::CHILD_INHERIT };
        let routes = face.routes.iter().map(|name| (name.clone(), route)).collect();
        let (remote, local) = (face.remote.clone(), face.local.clone());
        let entry = Wanted { remote, local, settings: settings(face), routes };
        wanted.insert(face.remote.to_string(), entry);
    }
    for route in &config.route {
        let entry = wanted.entry(route.to.to_string()).or_insert_with(|| Wanted {
            remote: route.to.clone(),
            local: None,
            settings: FaceSettings { persistency: Some(FacePersistency::Permanent), ..Default::default() },
            routes: BTreeMap::new(),
        });
        let bit = |set: bool, mask: u64| if set { mask } else { 0 };
        let flags =
            bit(route.child_inherit, route_flags::CHILD_INHERIT) | bit(route.capture, route_flags::CAPTURE);
        entry.routes.insert(route.prefix.clone(), WantedRoute { cost: route.cost, flags });
    }
    wanted
}

fn settings(face: &StaticFace) -> FaceSettings {
    FaceSettings {
        persistency: Some(face.persistency),
        // Streams lose nothing: the setting is for datagrams only.
        reliability: matches!(face.remote, FaceUri::Udp(_) | FaceUri::Ether(_)).then_some(face.reliability),
        mtu: face.mtu,
        ..Default::default()
    }
}

impl Wanted {
    fn spec(&self) -> FaceSpec {
        FaceSpec { remote: self.remote.clone(), local: self.local.clone(), settings: self.settings }
    }
}

impl Entry {
    fn new(wanted: Wanted, now_ns: u64) -> Self {
        Entry { wanted, face: FaceProgress::Due { at_ns: now_ns }, failures: 0 }
    }

    /// When the next attempt is due.
    fn try_later(&mut self, now_ns: u64) -> u64 {
        let wait_ns = (RETRY_NS_MIN << self.failures.min(6)).min(RETRY_NS_MAX);
        self.failures = self.failures.saturating_add(1);
        let at_ns = now_ns.saturating_add(wait_ns);
        self.face = FaceProgress::Due { at_ns };
        at_ns
    }

    fn made(&mut self, key: &str, made: Result<u64, CreateFaceError>, control: Control<'_>, now_ns: u64) {
        let made = match made {
            // A neighbour who spoke first has an on-demand face: it becomes the configured one.
            Err(CreateFaceError::Exists(face)) => self.adopt(face.face_id, control),
            Err(error) => Err(error.to_string()),
            Ok(face_id) => Ok(face_id),
        };
        match made {
            Ok(face_id) => {
                tracing::info!("face {face_id} to {key}");
                self.failures = 0;
                self.face = FaceProgress::Made { face_id };
                for (prefix, route) in &self.wanted.routes {
                    register(prefix, *route, face_id, control, now_ns);
                }
            }
            Err(why) => {
                tracing::warn!("no face to {key} yet: {why}");
                self.try_later(now_ns);
            }
        }
    }

    fn adopt(&self, face_id: u64, control: Control<'_>) -> Result<u64, String> {
        match control.faces.update_face(FaceId(face_id), &self.wanted.settings) {
            Ok(_) => Ok(face_id),
            Err(UpdateFaceError::BadSetting(why)) => {
                tracing::warn!("face {face_id} to {} keeps its settings: {why}", self.wanted.remote);
                Ok(face_id)
            }
            Err(UpdateFaceError::NoSuchFace) => Err("it went at the same moment".into()),
        }
    }

    /// Switches to `new`, which has the same remote.
    fn change(&mut self, new: Wanted, control: Control<'_>, now_ns: u64) {
        let old = std::mem::replace(&mut self.wanted, new);
        let FaceProgress::Made { face_id } = self.face else { return };
        if old.settings != self.wanted.settings
            && let Err(error) = control.faces.update_face(FaceId(face_id), &self.wanted.settings)
        {
            tracing::warn!("face {face_id} keeps its settings: {error}");
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

fn register(prefix: &Name, wanted: WantedRoute, face_id: u64, control: Control<'_>, now_ns: u64) {
    let route = Route {
        face_id,
        origin: RouteOrigin::STATIC,
        cost: wanted.cost,
        flags: wanted.flags,
        expiration_period_ms: None,
    };
    match control.tables.rib_register(Charge::Router, prefix.as_name(), &route, now_ns) {
        Ok(()) => tracing::info!("route {prefix} to face {face_id}, cost {}", wanted.cost),
        Err(error) => tracing::warn!("no route {prefix} to face {face_id}: {error}"),
    }
}
