//! From this router's FIB to the kernel's: what the RIB makes of the one is entered into the other.
//!
//! Only what was entered here is taken out again: routes that somebody else has told the kernel
//! stay. Routes to a face go with it in the kernel by themselves, so nothing is told of these.

use std::collections::HashMap;

use namely_forwarder::FaceId;
use namely_nnet::ControlError;
use namely_wire::mgmt::RibEntry;
use namely_wire::{Name, NameRef};

use super::{Kernel, noted};

/// Names below one that a change follows at once; all the others of the FIB are looked through
/// after [`LOOK_NS`].
pub(super) const FOLLOWED_AT_ONCE_MAX: usize = 1000;

/// How long after a change that is not followed at once all of the FIB is looked through, ns, and
/// how long until that is done again.
pub(super) const LOOK_NS: u64 = 100_000_000;

/// What is in the kernel's FIB by this router's doing.
#[derive(Debug, Default)]
pub(super) struct Fib {
    /// The next hops of each prefix, as the kernel numbers them, with their costs.
    entered: HashMap<Name, Vec<(u64, u64)>>,
    /// Faces of devices, and what stands for them in the core.
    stand_ins: HashMap<u64, FaceId>,
    /// When all is to be looked through, ns.
    due_ns: Option<u64>,
}

impl Fib {
    /// Whether a next hop is there by this router's doing.
    fn has(&self, prefix: &Name, number: u64) -> bool {
        self.entered.get(prefix).is_some_and(|hops| hops.iter().any(|(face, _)| *face == number))
    }

    pub(super) fn number(&self, face: FaceId) -> Option<u64> {
        self.stand_ins.iter().find(|(_, known)| **known == face).map(|(number, _)| *number)
    }

    pub(super) fn face(&self, number: u64) -> Option<FaceId> {
        self.stand_ins.get(&number).copied()
    }

    pub(super) fn of_devices(&self) -> Vec<u64> {
        self.stand_ins.keys().copied().collect()
    }

    pub(super) fn know(&mut self, number: u64, face: FaceId) {
        self.stand_ins.insert(number, face);
    }

    /// A face has gone in the kernel: what stood for it.
    pub(super) fn gone(&mut self, number: u64, now_ns: u64) -> Option<FaceId> {
        self.entered.retain(|_, hops| {
            hops.retain(|(face, _)| *face != number);
            !hops.is_empty()
        });
        self.look_at(now_ns.saturating_add(LOOK_NS));
        self.stand_ins.remove(&number)
    }

    fn look_at(&mut self, due_ns: u64) {
        self.due_ns = Some(self.due_ns.map_or(due_ns, |known| known.min(due_ns)));
    }
}

impl Kernel {
    /// Enters what has become of `prefix`, and of the names below it that inherit its routes.
    ///
    /// # Errors
    /// The kernel's refusal of `prefix` itself. What it refuses of names below is logged.
    pub(super) fn follow(&self, prefix: NameRef<'_>, now_ns: u64) -> Result<(), ControlError> {
        let prefix = prefix.to_name();
        self.enter(&prefix)?;
        let mut entries: Vec<RibEntry> = Vec::new();
        let mut last = Some(prefix.clone());
        let mut followed = 0;
        while let Some(after) = last {
            entries.clear();
            last = self.core.rib_walk(Some(&after), now_ns, &mut entries);
            for RibEntry { prefix: below, .. } in &entries {
                if !prefix.is_prefix_of(below.as_name()) {
                    return Ok(());
                }
                if followed == FOLLOWED_AT_ONCE_MAX {
                    self.look_at(now_ns.saturating_add(LOOK_NS));
                    return Ok(());
                }
                followed += 1;
                if let Err(error) = self.enter(below) {
                    noted(&format!("the route of {below} is not in the kernel"), &error);
                }
            }
        }
        Ok(())
    }

    /// The kernel's routes that somebody else has told it, without those of management.
    pub(super) fn of_others(&self) -> Vec<namely_nnet::Route> {
        let mut routes = self.control().routes().unwrap_or_default();
        let fib = self.fib.lock();
        routes.retain(|route| route.face != self.own && !fib.has(&route.prefix, route.face));
        routes
    }

    /// Has all be looked through then.
    pub(super) fn look_at(&self, due_ns: u64) {
        self.fib.lock().look_at(due_ns);
    }

    /// Makes the kernel's next hops of a name those of the core, as far as they are ours.
    fn enter(&self, name: &Name) -> Result<(), ControlError> {
        // Neighbour discovery and management come by threads of their own.
        let _changing = self.changing.lock();
        let found = self.core.explain(name.as_name());
        let own = found.fib_components == Some(name.len());
        let hops = found.next_hops.iter().filter(|_| own);
        self.set(name, hops.map(|hop| (hop.face, hop.cost)).collect())
    }

    fn set(&self, name: &Name, hops: Vec<(FaceId, u64)>) -> Result<(), ControlError> {
        // Who has no number in the kernel is this router itself.
        let wanted: Vec<(u64, u64)> =
            hops.into_iter().filter_map(|(face, cost)| Some((self.number(face)?, cost))).collect();
        let before = self.fib.lock().entered.get(name).cloned().unwrap_or_default();
        let mut control = self.control();
        let mut entered = before.clone();
        let mut refused = Ok(());
        for hop @ (face, cost) in wanted.iter().filter(|hop| !before.contains(hop)) {
            match control.route_new(name.as_name(), *face, *cost) {
                Ok(()) => {
                    entered.retain(|(known, _)| known != face);
                    entered.push(*hop);
                }
                // It has just gone.
                Err(ControlError::NotFound) => {}
                Err(error) => refused = Err(error),
            }
        }
        for (face, _) in before.iter().filter(|(face, _)| !wanted.iter().any(|(known, _)| known == face)) {
            match control.route_del(name.as_name(), *face) {
                Ok(()) | Err(ControlError::NotFound) => entered.retain(|(known, _)| known != face),
                Err(error) => refused = Err(error),
            }
        }
        drop(control);
        let mut fib = self.fib.lock();
        match entered.is_empty() {
            true => drop(fib.entered.remove(name)),
            false => drop(fib.entered.insert(name.clone(), entered)),
        }
        refused
    }

    /// Does what is due; when to call again, ns.
    pub(crate) fn tick(&self, now_ns: u64) -> Option<u64> {
        let due_ns = self.fib.lock().due_ns?;
        if due_ns > now_ns {
            return Some(due_ns);
        }
        self.fib.lock().due_ns = None;
        // What has expired by now is to have gone before it is looked for.
        self.plane.refresh_timers();
        self.look(now_ns);
        self.fib.lock().due_ns
    }

    /// Looks through all of the FIB, and for when the next route expires.
    fn look(&self, now_ns: u64) {
        let mut names: std::collections::HashSet<Name> =
            self.core.fib_snapshot().into_iter().map(|entry| entry.prefix).collect();
        names.extend(self.fib.lock().entered.keys().cloned());
        for name in names {
            if let Err(error) = self.enter(&name) {
                noted(&format!("the route of {name} is not in the kernel"), &error);
                self.look_at(now_ns.saturating_add(10 * LOOK_NS));
            }
        }
        let left_ms = |entry: RibEntry| entry.routes.into_iter().filter_map(|r| r.expiration_period_ms).min();
        if let Some(left_ms) = self.core.rib_snapshot(now_ns).into_iter().filter_map(left_ms).min() {
            self.look_at(now_ns.saturating_add(left_ms.saturating_mul(1_000_000)).saturating_add(LOOK_NS));
        }
    }

    /// Takes out of the kernel what this router has made there and what would stay when it ends.
    pub(crate) fn leave(&self) {
        let entered = std::mem::take(&mut self.fib.lock().entered);
        let devices = std::mem::take(&mut *self.devices.lock());
        let mut control = self.control();
        for (name, hops) in entered {
            for (face, _) in hops {
                // Gone already is as good.
                let _ = control.route_del(name.as_name(), face);
            }
        }
        for face in devices.into_values().flatten() {
            let _ = control.face_del(face);
        }
    }
}
