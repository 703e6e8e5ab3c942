//! Copies the FIB that results from this router's RIB to the kernel's FIB.
//!
//! Only entries that this router added are removed again; routes that other programs added stay.
//! The kernel removes the routes of a closed face on its own.

use std::collections::{HashMap, HashSet};

use namely_forwarder::{ExplainedHop, FaceId};
use namely_messages::RibEntry;
use namely_nnet::{Control, ControlError};
use namely_wire::{Name, NameRef};

use super::{Kernel, noted};
use namely_dataplane::Core;

/// Names below a changed prefix, updated in the kernel at once.
///
/// # Limit
/// The whole FIB is checked after 0.1 s (`LOOK_NS`), and the other names follow then.
/// - Tests: `inherited_routes_follow_up_to_the_limit`
pub(super) const FOLLOWED_AT_ONCE_MAX: usize = 1000;

/// Delay before the whole FIB is checked after a change that is not followed at once, ns. A failed
/// check is repeated after ten times this delay.
pub(super) const LOOK_NS: u64 = 100_000_000;

/// Ratio of the pause after a check to its duration.
const LOOK_PART: u64 = 9;

/// Next hops of a prefix: faces by their kernel numbers, and costs.
type Hops = Vec<(u64, u64)>;

/// A FIB that receives next hops.
trait Routes {
    fn add(&mut self, prefix: NameRef<'_>, face: u64, cost: u64) -> Result<(), ControlError>;
    fn remove(&mut self, prefix: NameRef<'_>, face: u64) -> Result<(), ControlError>;
}

impl Routes for Control {
    fn add(&mut self, prefix: NameRef<'_>, face: u64, cost: u64) -> Result<(), ControlError> {
        self.route_new(prefix, face, cost)
    }

    fn remove(&mut self, prefix: NameRef<'_>, face: u64) -> Result<(), ControlError> {
        self.route_del(prefix, face)
    }
}

/// Changes the next hops of a name from `entered` to `wanted`. A refused change is skipped, and the
/// last error is returned.
fn bring(
    kernel: &mut impl Routes,
    name: &Name,
    entered: &mut Hops,
    wanted: &Hops,
) -> Result<(), ControlError> {
    let before = entered.clone();
    let mut refused = Ok(());
    for hop @ (face, cost) in wanted.iter().filter(|hop| !before.contains(hop)) {
        match kernel.add(name.as_name(), *face, *cost) {
            Ok(()) => {
                entered.retain(|(known, _)| known != face);
                entered.push(*hop);
            }
            // The face was closed a moment ago.
            Err(ControlError::NotFound) => entered.retain(|(known, _)| known != face),
            Err(error) => refused = Err(error),
        }
    }
    for (face, _) in before.iter().filter(|(face, _)| !wanted.iter().any(|(known, _)| known == face)) {
        match kernel.remove(name.as_name(), *face) {
            Ok(()) | Err(ControlError::NotFound) => entered.retain(|(known, _)| known != face),
            Err(error) => refused = Err(error),
        }
    }
    refused
}

/// Returns up to [`FOLLOWED_AT_ONCE_MAX`] names of the RIB below a prefix, and true if these are
/// all. The names may inherit the routes of the prefix.
fn below(core: &Core, prefix: &Name, now_ns: u64) -> (Vec<Name>, bool) {
    let (mut names, mut entries) = (Vec::new(), Vec::new());
    let mut last = Some(prefix.clone());
    while let Some(after) = last {
        last = core.rib_walk(Some(&after), now_ns, &mut entries);
        for RibEntry { prefix: name, .. } in entries.drain(..) {
            if !prefix.is_prefix_of(name.as_name()) {
                return (names, true);
            }
            if names.len() == FOLLOWED_AT_ONCE_MAX {
                return (names, false);
            }
            names.push(name);
        }
    }
    (names, true)
}

/// The entries of the kernel's FIB that this router added.
#[derive(Debug, Default)]
pub(super) struct Fib {
    /// The next hops of each prefix, by kernel number, with their costs.
    entered: HashMap<Name, Hops>,
    /// Faces of devices, and the core's faces that represent them.
    stand_ins: HashMap<u64, FaceId>,
    /// Time of the next check of the whole FIB, ns.
    due_ns: Option<u64>,
    /// Earliest time of the next check, ns. It bounds the load of the control thread when faces are
    /// created and closed often.
    rests_until_ns: u64,
}

impl Fib {
    /// Returns true if this router added a next hop.
    fn has(&self, prefix: &Name, number: u64) -> bool {
        self.entered.get(prefix).is_some_and(|hops| hops.iter().any(|(face, _)| *face == number))
    }

    pub(super) fn number(&self, face: FaceId) -> Option<u64> {
        self.stand_ins.iter().find(|(_, known)| **known == face).map(|(number, _)| *number)
    }

    pub(super) fn face(&self, number: u64) -> Option<FaceId> {
        self.stand_ins.get(&number).copied()
    }

    pub(super) fn device_faces(&self) -> Vec<u64> {
        self.stand_ins.keys().copied().collect()
    }

    pub(super) fn know(&mut self, number: u64, face: FaceId) {
        self.stand_ins.insert(number, face);
    }

    /// A face was closed in the kernel. Returns the core's face that represented it.
    pub(super) fn gone(&mut self, number: u64, now_ns: u64) -> Option<FaceId> {
        let mut had_some = false;
        self.entered.retain(|_, hops| {
            let before = hops.len();
            hops.retain(|(face, _)| *face != number);
            had_some |= hops.len() < before;
            !hops.is_empty()
        });
        // Routes that a capturing route had hidden may be inherited now.
        if had_some {
            self.look_at(now_ns.saturating_add(LOOK_NS));
        }
        self.stand_ins.remove(&number)
    }

    /// Delays the next check after one that took from `from_ns` to `to_ns`.
    fn rest(&mut self, from_ns: u64, to_ns: u64) {
        let took_ns = to_ns.saturating_sub(from_ns);
        self.rests_until_ns = to_ns.saturating_add(took_ns.saturating_mul(LOOK_PART));
        if let Some(due_ns) = self.due_ns {
            self.look_at(due_ns);
        }
    }

    fn look_at(&mut self, due_ns: u64) {
        let due_ns = self.due_ns.map_or(due_ns, |known| known.min(due_ns));
        self.due_ns = Some(due_ns.max(self.rests_until_ns));
    }
}

impl Kernel {
    /// Updates `prefix` in the kernel, and the names below it that inherit its routes.
    ///
    /// # Errors
    /// The kernel's error for `prefix` itself. Errors for names below it are logged.
    pub(super) fn follow(&self, prefix: NameRef<'_>, now_ns: u64) -> Result<(), ControlError> {
        let prefix = prefix.to_name();
        self.enter(&prefix)?;
        let (below, is_all) = below(&self.core, &prefix, now_ns);
        for name in &below {
            if let Err(error) = self.enter(name) {
                noted(&format!("the route of {name} is not in the kernel"), &error);
            }
        }
        if !is_all {
            self.look_at(now_ns.saturating_add(LOOK_NS));
        }
        Ok(())
    }

    /// The kernel's routes of other programs, without those of management.
    pub(super) fn foreign_routes(&self) -> Vec<namely_nnet::Route> {
        let mut routes = self.control().routes().unwrap_or_default();
        let fib = self.fib.lock();
        routes.retain(|route| route.face != self.own && !fib.has(&route.prefix, route.face));
        routes
    }

    /// Schedules a check of the whole FIB.
    pub(super) fn look_at(&self, due_ns: u64) {
        self.fib.lock().look_at(due_ns);
    }

    /// Changes the kernel's next hops of a name to those of the core. Other programs' next hops
    /// stay.
    fn enter(&self, name: &Name) -> Result<(), ControlError> {
        // Neighbor discovery and management call this from different threads.
        let _changing = self.changing.lock();
        let found = self.core.explain(name.as_name());
        let is_own = found.fib_components == Some(name.len());
        // A face without a number in the kernel is internal to this router.
        let hop = |hop: &ExplainedHop| Some((self.number(hop.face)?, hop.cost));
        let wanted: Hops = found.next_hops.iter().filter(|_| is_own).filter_map(hop).collect();
        let mut entered = self.fib.lock().entered.get(name).cloned().unwrap_or_default();
        let brought = bring(&mut *self.control(), name, &mut entered, &wanted);
        let mut fib = self.fib.lock();
        match entered.is_empty() {
            true => drop(fib.entered.remove(name)),
            false => drop(fib.entered.insert(name.clone(), entered)),
        }
        brought
    }

    /// Runs the check if it is due. Returns the time of the next one, ns.
    pub(crate) fn tick(&self, now_ns: u64) -> Option<u64> {
        let due_ns = self.fib.lock().due_ns?;
        if due_ns > now_ns {
            return Some(due_ns);
        }
        self.fib.lock().due_ns = None;
        // Removes expired routes before the check.
        self.plane.refresh_timers();
        self.look(now_ns);
        let mut fib = self.fib.lock();
        fib.rest(now_ns, namely_host::clock::monotonic_ns());
        fib.due_ns
    }

    /// Checks the whole FIB, and schedules the next check for the next expiry of a route.
    fn look(&self, now_ns: u64) {
        let mut names: HashSet<Name> =
            self.core.fib().snapshot().into_iter().map(|entry| entry.prefix).collect();
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

    /// Removes this router's entries and faces from the kernel, which would otherwise retain them
    /// after the router has stopped.
    pub(crate) fn leave(&self) {
        let entered = std::mem::take(&mut self.fib.lock().entered);
        let devices = std::mem::take(&mut *self.devices.lock());
        let mut control = self.control();
        for (name, hops) in entered {
            for (face, _) in hops {
                // It is not an error if the route is removed already.
                let _ = control.route_del(name.as_name(), face);
            }
        }
        for face in devices.into_values().flatten() {
            let _ = control.face_del(face);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use namely_forwarder::FaceProperties;
    use namely_messages::{Route, route_flags};

    use namely_testkit::name;

    use super::*;
    use crate::config::Config;

    /// A FIB with space for `room` next hops. Faces with numbers from 100 on do not exist.
    struct Fake {
        routes: Vec<(u64, u64)>,
        room: usize,
    }

    impl Routes for Fake {
        fn add(&mut self, _: NameRef<'_>, face: u64, cost: u64) -> Result<(), ControlError> {
            if face >= 100 {
                return Err(ControlError::NotFound);
            }
            self.routes.retain(|(known, _)| *known != face);
            if self.routes.len() == self.room {
                return Err(ControlError::Full);
            }
            self.routes.push((face, cost));
            Ok(())
        }

        fn remove(&mut self, _: NameRef<'_>, face: u64) -> Result<(), ControlError> {
            let before = self.routes.len();
            self.routes.retain(|(known, _)| *known != face);
            if self.routes.len() < before { Ok(()) } else { Err(ControlError::NotFound) }
        }
    }

    #[test]
    fn foreign_kernel_nexthops_stay_unchanged() {
        let mut kernel = Fake { routes: vec![(5, 0)], room: 9 };
        let mut entered = Vec::new();
        let mut wants = |wanted: &[(u64, u64)]| {
            bring(&mut kernel, &name("/a"), &mut entered, &wanted.to_vec()).unwrap();
            (kernel.routes.clone(), entered.clone())
        };
        assert_eq!(wants(&[(7, 1), (8, 2)]), (vec![(5, 0), (7, 1), (8, 2)], vec![(7, 1), (8, 2)]));
        assert_eq!(wants(&[(7, 3), (9, 0)]), (vec![(5, 0), (7, 3), (9, 0)], vec![(7, 3), (9, 0)]));
        // A face that the kernel has closed is removed from the entries.
        assert_eq!(wants(&[(100, 0)]), (vec![(5, 0)], vec![]));
        assert_eq!(wants(&[]), (vec![(5, 0)], vec![]));
    }

    #[test]
    fn a_refused_kernel_route_is_not_recorded() {
        let mut kernel = Fake { routes: Vec::new(), room: 1 };
        let mut entered = Vec::new();
        let wanted = vec![(7, 0), (8, 0)];
        let refused = bring(&mut kernel, &name("/a"), &mut entered, &wanted);
        assert_eq!((refused, &entered), (Err(ControlError::Full), &vec![(7, 0)]));
        kernel.room = 2;
        assert_eq!(bring(&mut kernel, &name("/a"), &mut entered, &wanted), Ok(()));
        assert_eq!((kernel.routes, entered), (wanted.clone(), wanted));
    }

    #[test]
    fn inherited_routes_follow_up_to_the_limit() {
        let config = Config::parse("", Path::new("x")).unwrap();
        let core: Core = config.forwarder(1).unwrap();
        let face = core.face_register(FaceProperties::application()).unwrap();
        let flags = route_flags::CHILD_INHERIT;
        let route = Route { face_id: face.0, flags, ..Route::default() };
        let enter = |name: Name| core.rib_register(&name, &route, 0).unwrap();
        ["/a", "/b", "/ab", "/"].into_iter().for_each(|text| enter(name(text)));
        for n in 0..FOLLOWED_AT_ONCE_MAX as u64 {
            enter(name("/a").join_number(50, n));
        }
        let (names, is_all) = below(&core, &name("/a"), 0);
        assert_eq!((names.len(), is_all), (FOLLOWED_AT_ONCE_MAX, true));
        assert!(names.iter().all(|below| name("/a").is_prefix_of(below.as_name()) && *below != name("/a")));
        enter(name("/a/one-more"));
        let (names, is_all) = below(&core, &name("/a"), 0);
        assert_eq!((names.len(), is_all), (FOLLOWED_AT_ONCE_MAX, false));
        assert_eq!(below(&core, &name("/b"), 0), (vec![], true));
    }

    #[test]
    fn routes_to_a_gone_face_are_forgotten() {
        let mut fib = Fib::default();
        fib.know(9, FaceId(300));
        fib.entered.insert(name("/a"), vec![(9, 0), (7, 0)]);
        fib.entered.insert(name("/b"), vec![(9, 0)]);
        assert!(fib.has(&name("/b"), 9) && fib.face(9) == Some(FaceId(300)));
        assert_eq!(fib.gone(9, 0), Some(FaceId(300)));
        assert_eq!((fib.entered.len(), fib.has(&name("/a"), 7)), (1, true));
        assert_eq!((fib.gone(9, 0), fib.number(FaceId(300)), fib.due_ns), (None, None, Some(LOOK_NS)));
    }

    #[test]
    fn full_checks_use_a_tenth_of_time() {
        let mut fib = Fib::default();
        // Faces without routes do not cause a check.
        (0..9).for_each(|number| assert_eq!(fib.gone(number, 5), None));
        assert_eq!(fib.due_ns, None);
        fib.rest(1000, 3000);
        fib.look_at(3001);
        assert_eq!(fib.due_ns, Some(3000 + 2000 * LOOK_PART), "two of twenty");
        fib.look_at(3002);
        assert_eq!(fib.due_ns, Some(21_000));
    }
}
