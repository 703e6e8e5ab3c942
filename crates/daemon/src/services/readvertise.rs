//! Reports the routes of local applications to a routing daemon on this machine. Routes with the
//! configured origins become commands `/localhost/nlsr/rib/register` and `unregister`, like those
//! of NFD's `readvertise_nlsr`. NLSR and NDNd's `dv` accept them.
//!
//! A daemon registers `/localhost/nlsr` when it starts or restarts. It then receives all routes.
//! The RIB is read in parts, and the number of pending commands is bounded. A command without an
//! answer is sent again later. Without a daemon, nothing is sent.

use std::collections::BTreeMap;
use std::ops::Bound;

use namely_messages::{
    Block, Command, ControlParameters, ControlResponse, FaceEventKind, FaceEventNotification, RibEntry,
    Route, RouteOrigin, Scope,
};
use namely_mgmt::{Now, Tables};
use namely_security::{Signer, sign_interest};
use namely_wire::{DataView, InterestBuilder, InterestView, LpHeaders, Name};
use parking_lot::Mutex;

use super::{Service, StartContext};
use crate::config::Config;
use crate::exit::Failure;
use crate::home::RouterHandle;

/// Changes within this time are reported together.
const GATHER_NS: u64 = 50_000_000;

/// Interval between passes over the RIB without a known change, because routes expire.
const LOOK_NS: u64 = 10_000_000_000;

/// Commands to a routing daemon without an answer.
///
/// # Limit
/// Further commands are sent after some are answered.
/// - Tests: `outstanding_readvertise_commands_are_bounded`
const COMMANDS_MAX: usize = 64;

/// Time for an answer of a routing daemon.
///
/// # Limit
/// The command is sent again later.
/// - Tests: `unanswered_readvertise_commands_are_retried`
const ANSWER_NS: u64 = 1_000_000_000;

/// Delay before the RIB is read again after a routing daemon's timeout.
///
/// # Limit
/// Unconfirmed routes are sent to the routing daemon again.
/// - Tests: `unanswered_readvertise_commands_are_retried`,
///   `readvertise_retries_until_the_daemon_answers`
const RETRY_NS: u64 = 5_000_000_000;

/// The prefix for commands to a routing daemon.
const DAEMON: &str = "/localhost/nlsr";

/// A route, by prefix and face.
type Key = (Name, u64);

/// Readvertisement as a service.
#[derive(Default)]
pub(super) struct Readvertise(Mutex<State>);

#[derive(Default)]
struct State {
    /// The configured origins.
    origins: Vec<RouteOrigin>,
    readvertiser: Readvertiser,
}

impl Service for Readvertise {
    fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        self.apply(start.config);
        Ok(())
    }

    fn apply(&self, config: &Config) {
        self.0.lock().origins.clone_from(&config.readvertise.origins);
    }

    fn face_event(&self, _: &RouterHandle, event: &FaceEventNotification, now_ns: u64) {
        if event.kind == FaceEventKind::Destroyed {
            self.0.lock().readvertiser.changed(now_ns);
        }
    }

    /// Withdraws all routes.
    fn drain(&self, _: &RouterHandle, now_ns: u64) {
        let State { origins, readvertiser } = &mut *self.0.lock();
        origins.clear();
        readvertiser.end(now_ns);
    }

    fn take_packet(&self, packet: &[u8], now_ns: u64) -> bool {
        self.0.lock().readvertiser.take_answer(packet, now_ns)
    }

    fn management_handled(&self, now_ns: u64) {
        self.0.lock().readvertiser.changed(now_ns);
    }

    fn tick(&self, home: &RouterHandle, now: Now) -> Option<u64> {
        let State { origins, readvertiser } = &mut *self.0.lock();
        readvertiser.tick(origins, &*home.core, now, |command| {
            home.plane.inject(command, LpHeaders::default());
        })
    }
}

/// The state of reports to a routing daemon.
#[derive(Debug, Default)]
struct Readvertiser {
    /// The confirmed routes, with their costs.
    confirmed: BTreeMap<Key, u64>,
    /// The pending commands.
    pending: BTreeMap<Key, PendingCommand>,
    /// The faces of the daemon at the time of the reports.
    daemon: Vec<u64>,
    /// The last name of the RIB that was read, during a pass.
    at: Option<Name>,
    /// True if the RIB has changed since the pass began.
    is_stale: bool,
    /// True while the pass waits for answers.
    is_held: bool,
    /// True once the router drains: a route is withdrawn as soon as its last command is answered.
    is_ending: bool,
    due_ns: Option<u64>,
    last_ms: u64,
}

/// A pending command.
#[derive(Debug)]
struct PendingCommand {
    name: Name,
    /// `None` if the route is withdrawn.
    cost: Option<u64>,
    until_ns: u64,
}

impl Readvertiser {
    /// The RIB has changed, or a face was closed.
    fn changed(&mut self, now_ns: u64) {
        self.changed_at(now_ns + GATHER_NS);
    }

    /// As `changed`, with the time of the next pass.
    fn changed_at(&mut self, due_ns: u64) {
        self.is_stale |= self.at.is_some();
        self.schedule_check(due_ns);
    }

    /// The router drains: there are no routes to report any more.
    fn end(&mut self, now_ns: u64) {
        self.is_ending = true;
        self.changed_at(now_ns);
    }

    fn schedule_check(&mut self, due_ns: u64) {
        self.due_ns = Some(self.due_ns.map_or(due_ns, |known| known.min(due_ns)));
    }

    /// Runs the next step, if it is due. Returns the time of the next call.
    fn tick(
        &mut self,
        origins: &[RouteOrigin],
        tables: &dyn Tables,
        now: Now,
        send: impl FnMut(Vec<u8>),
    ) -> Option<u64> {
        if origins.is_empty() && self.confirmed.is_empty() && self.pending.is_empty() {
            return None;
        }
        self.give_up(now.ns);
        let mut due_ns = *self.due_ns.get_or_insert(now.ns);
        if due_ns <= now.ns {
            due_ns = self.step(origins, tables, now, send);
            self.due_ns = Some(due_ns);
        }
        self.pending.values().map(|pending| pending.until_ns).chain([due_ns]).min()
    }

    /// Processes a packet for the router. Returns false if it is no answer to a command.
    fn take_answer(&mut self, packet: &[u8], now_ns: u64) -> bool {
        let Ok(data) = DataView::parse(packet) else { return false };
        let key = self.pending.iter().find(|(_, pending)| pending.name.as_name() == data.name);
        let Some(key) = key.map(|(key, _)| key.clone()) else { return false };
        let Some(pending) = self.pending.remove(&key) else { return false };
        let response = ControlResponse::decode(data.content);
        if !response.as_ref().is_ok_and(ControlResponse::is_ok) {
            // A refused route is not offered again, because the daemon would refuse it again.
            tracing::warn!(prefix = %key.0, ?response, "the routing daemon refuses a route");
        }
        match pending.cost {
            Some(cost) => drop(self.confirmed.insert(key, cost)),
            None => drop(self.confirmed.remove(&key)),
        }
        if std::mem::take(&mut self.is_held) || self.is_ending {
            self.schedule_check(now_ns);
        }
        true
    }

    /// Removes commands that timed out: their routes count as not reported.
    fn give_up(&mut self, now_ns: u64) {
        let before = self.pending.len();
        self.pending.retain(|_, pending| pending.until_ns > now_ns);
        if self.pending.len() < before {
            self.is_held = false;
            self.schedule_check(now_ns + RETRY_NS);
        }
    }

    /// Reads the next part of the RIB and reports its changes. Returns the time of the next step.
    fn step(
        &mut self,
        origins: &[RouteOrigin],
        tables: &dyn Tables,
        now: Now,
        mut send: impl FnMut(Vec<u8>),
    ) -> u64 {
        let faces = DAEMON.parse().map_or(Vec::new(), |name: Name| tables.rib_faces(name.as_name()));
        if faces != self.daemon {
            // A new daemon has no routes yet.
            *self = Readvertiser { daemon: faces, last_ms: self.last_ms, ..Readvertiser::default() };
        }
        if self.daemon.is_empty() {
            return now.ns + LOOK_NS;
        }
        let mut part = Vec::new();
        let next = tables.rib(self.at.as_ref(), now.ns, &mut part);
        for (key, cost) in self.changes(&part, next.as_ref(), origins) {
            if self.pending.len() >= COMMANDS_MAX {
                // The same part is read again later. Routes that are reported by then no longer
                // count as changes.
                self.is_held = true;
                return now.ns + ANSWER_NS;
            }
            let Some((name, interest)) = self.interest(&key, cost, now.unix_ms) else {
                return now.ns + RETRY_NS;
            };
            self.pending.insert(key, PendingCommand { name, cost, until_ns: now.ns + ANSWER_NS });
            send(interest);
        }
        self.at = next;
        match self.at {
            Some(_) => now.ns,
            None if std::mem::take(&mut self.is_stale) => now.ns + GATHER_NS,
            None => now.ns + LOOK_NS,
        }
    }

    /// Returns the changes of the names after `self.at` up to `last`. `part` contains all routes of
    /// these names. A new or changed route has its cost, and a removed one has none.
    fn changes(
        &self,
        part: &[RibEntry],
        last: Option<&Name>,
        origins: &[RouteOrigin],
    ) -> Vec<(Key, Option<u64>)> {
        let mut wanted = BTreeMap::new();
        // Routes to the daemon itself are not reported to it.
        let counts =
            |route: &&Route| origins.contains(&route.origin) && !self.daemon.contains(&route.face_id);
        for entry in part.iter().filter(|entry| is_global(&entry.prefix)) {
            for route in entry.routes.iter().filter(counts) {
                wanted.insert((entry.prefix.clone(), route.face_id), route.cost);
            }
        }
        let from = self.at.clone().map_or(Bound::Unbounded, |at| Bound::Excluded((at, u64::MAX)));
        let to = last.map_or(Bound::Unbounded, |last| Bound::Included((last.clone(), u64::MAX)));
        let gone =
            self.confirmed.range((from, to)).map(|(key, _)| key).filter(|key| !wanted.contains_key(*key));
        let gone: Vec<_> = gone.map(|key| (key.clone(), None)).collect();
        let new = wanted.into_iter().filter(|(key, cost)| self.confirmed.get(key) != Some(cost));
        let changes = gone.into_iter().chain(new.map(|(key, cost)| (key, Some(cost))));
        changes.filter(|(key, _)| !self.pending.contains_key(key)).collect()
    }

    /// A command and its name.
    fn interest(&mut self, (prefix, face): &Key, cost: Option<u64>, now_ms: u64) -> Option<(Name, Vec<u8>)> {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(*face),
            cost,
            ..ControlParameters::default()
        };
        let command = if cost.is_some() { Command::RibRegister } else { Command::RibUnregister };
        // The same command as for management, with another prefix.
        let command = command.name(Scope::Localhost, &parameters);
        let name = command.components().skip(2).fold(DAEMON.parse().ok()?, |name: Name, c| name.join(c));
        self.last_ms = now_ms.max(self.last_ms + 1);
        let lifetime_ms = ANSWER_NS / 1_000_000;
        let builder = InterestBuilder::new(name).nonce(namely_host::random().ok()?).lifetime_ms(lifetime_ms);
        let interest = sign_interest(&builder, &[], &Signer::digest_sha256(), self.last_ms).ok()?;
        let name = InterestView::parse(&interest).ok()?.name.to_name();
        Some((name, interest))
    }
}

/// Returns true if other hosts may request a name.
fn is_global(prefix: &Name) -> bool {
    let first = prefix.components().next().map(|component| component.value);
    !matches!(first, Some(b"localhost" | b"localhop") | None)
}

#[cfg(test)]
mod tests {
    use namely_forwarder::{Config, FaceId, FaceProperties, Router};
    use namely_messages::route_flags;
    use namely_wire::DataBuilder;

    use super::*;

    type Core = Router<std::sync::Arc<[u8]>, namely_host::CoreLock>;

    const ORIGINS: [RouteOrigin; 1] = [RouteOrigin::APP];

    struct World {
        core: Core,
        daemon: FaceId,
        app: FaceId,
        now: Now,
        readvertiser: Readvertiser,
    }

    impl World {
        fn new() -> Self {
            let core = Core::new(Config::new(namely_security::sha256), 1).unwrap();
            let [daemon, app] = [(); 2].map(|()| core.face_register(FaceProperties::application()).unwrap());
            let now = Now { ns: 1_000_000_000, unix_ms: 5000 };
            World { core, daemon, app, now, readvertiser: Readvertiser::default() }
        }

        fn register(&self, uri: &str, face: FaceId) {
            let route = Route {
                face_id: face.0,
                origin: RouteOrigin::APP,
                cost: 7,
                flags: route_flags::CHILD_INHERIT,
                expiration_period_ms: None,
            };
            self.core.rib_register(&uri.parse().unwrap(), &route, self.now.ns).unwrap();
        }

        /// The commands that are sent until nothing is due for `wait_ns`.
        fn commands(&mut self, wait_ns: u64) -> Vec<Vec<u8>> {
            let (mut sent, end_ns) = (Vec::new(), self.now.ns + wait_ns);
            while let Some(next_ns) =
                self.readvertiser.tick(&ORIGINS, &self.core, self.now, |command| sent.push(command))
                && next_ns <= end_ns
            {
                self.now.ns = self.now.ns.max(next_ns);
            }
            self.now.ns = end_ns;
            sent
        }

        fn answer(&mut self, command: &[u8], code: u64) -> bool {
            let name = InterestView::parse(command).unwrap().name;
            let response = ControlResponse::new(code, "").to_vec();
            let data =
                namely_security::sign_data(&DataBuilder::new(name), &response, &Signer::digest_sha256());
            self.readvertiser.take_answer(&data.unwrap(), self.now.ns)
        }
    }

    /// The verb and prefix of a command.
    fn read(command: &[u8]) -> (String, String) {
        let name = InterestView::parse(command).unwrap().name.to_name();
        let words: Vec<String> = name.components().take(4).map(|c| c.to_string()).collect();
        assert_eq!(words[..3], ["localhost", "nlsr", "rib"]);
        let parameters = name.components().nth(4).unwrap();
        let parameters = ControlParameters::decode(parameters.value).unwrap();
        (words[3].clone(), parameters.name.unwrap().to_string())
    }

    #[test]
    fn a_new_daemon_receives_every_prefix_once() {
        let mut world = World::new();
        world.register("/app/1", world.app);
        assert!(world.commands(0).is_empty(), "no daemon is there");
        world.register("/localhost/nlsr", world.daemon);
        world.readvertiser.changed(world.now.ns);
        let sent = world.commands(GATHER_NS);
        assert_eq!(sent.iter().map(|c| read(c)).collect::<Vec<_>>(), [("register".into(), "/app/1".into())]);
        assert!(world.answer(&sent[0], 200) && !world.answer(&sent[0], 200), "one answer is enough");
        assert!(world.commands(3 * LOOK_NS).is_empty());
        assert!(world.core.rib_unregister(&"/app/1".parse().unwrap(), world.app, RouteOrigin::APP));
        let sent = world.commands(LOOK_NS);
        assert_eq!(read(&sent[0]), ("unregister".into(), "/app/1".into()));
    }

    /// NLSR registers its own prefixes as an application does.
    #[test]
    fn a_daemons_own_prefixes_are_not_readvertised() {
        let mut world = World::new();
        world.register("/localhost/nlsr", world.daemon);
        world.register("/lab/r1/nlsr", world.daemon);
        world.register("/app/1", world.app);
        let sent = world.commands(0);
        assert_eq!(sent.iter().map(|c| read(c)).collect::<Vec<_>>(), [("register".into(), "/app/1".into())]);
    }

    #[test]
    fn outstanding_readvertise_commands_are_bounded() {
        let mut world = World::new();
        world.register("/localhost/nlsr", world.daemon);
        (0..COMMANDS_MAX + 3).for_each(|n| world.register(&format!("/app/{n}"), world.app));
        let first = world.commands(0);
        assert_eq!(first.len(), COMMANDS_MAX);
        assert!(world.answer(&first[0], 200) && world.answer(&first[1], 403), "refused is answered too");
        assert_eq!(world.commands(0).len(), 2);
        first[2..].iter().for_each(|command| assert!(world.answer(command, 200)));
        assert_eq!(world.commands(0).len(), 1);
    }

    #[test]
    fn unanswered_readvertise_commands_are_retried() {
        let mut world = World::new();
        world.register("/localhost/nlsr", world.daemon);
        world.register("/app/1", world.app);
        assert_eq!(world.commands(0).len(), 1);
        assert!(world.commands(ANSWER_NS + RETRY_NS - 1).is_empty());
        let again = world.commands(1);
        assert_eq!(again.len(), 1);
        assert!(world.answer(&again[0], 200));
        let other = world.core.face_register(FaceProperties::application()).unwrap();
        world.core.rib_unregister(&"/localhost/nlsr".parse().unwrap(), world.daemon, RouteOrigin::APP);
        world.register("/localhost/nlsr", other);
        world.readvertiser.changed(world.now.ns);
        assert_eq!(world.commands(GATHER_NS).len(), 1);
    }

    #[test]
    fn a_route_in_the_making_is_withdrawn_at_once() {
        let mut world = World::new();
        world.register("/localhost/nlsr", world.daemon);
        world.register("/app/1", world.app);
        let registers = world.commands(0);
        let mut sent = Vec::new();
        world.readvertiser.end(world.now.ns);
        world.readvertiser.tick(&[], &world.core, world.now, |command| sent.push(command));
        assert!(sent.is_empty(), "its registration is not answered yet");
        assert!(world.answer(&registers[0], 200));
        world.readvertiser.tick(&[], &world.core, world.now, |command| sent.push(command));
        let read: Vec<_> = sent.iter().map(|command| read(command)).collect();
        assert_eq!(read, [("unregister".into(), "/app/1".into())]);
    }

    /// A long RIB is read in parts: no step reads all of it.
    #[test]
    fn a_long_rib_is_readvertised_in_steps() {
        let mut world = World::new();
        world.register("/localhost/nlsr", world.daemon);
        // Three parts.
        let count = 3000;
        (0..count).for_each(|n| world.register(&format!("/app/{n}"), world.app));
        let (mut steps, mut seen) = (0, 0);
        loop {
            let mut sent = Vec::new();
            let next_ns = world.readvertiser.tick(&ORIGINS, &world.core, world.now, |c| sent.push(c));
            assert!(sent.len() <= COMMANDS_MAX);
            sent.iter().for_each(|command| assert!(world.answer(command, 200)));
            (steps, seen) = (steps + 1, seen + sent.len());
            if sent.is_empty() && next_ns.is_some_and(|next_ns| next_ns > world.now.ns) {
                break;
            }
        }
        assert_eq!(seen, count);
        assert!(steps >= count / COMMANDS_MAX);
    }
}
