//! What applications offer here, told to a routing daemon on this machine: routes of the origins
//! that the configuration names become commands `/localhost/nlsr/rib/register` and `unregister`, as
//! NFD's `readvertise_nlsr` sends them. NLSR and NDNd's `dv` take them.
//!
//! A daemon that comes, or comes again, is told everything: it registers `/localhost/nlsr` then.
//! Its answers are not waited for. Sends nothing while there is no daemon.

use std::collections::BTreeMap;

use namely_mgmt::{Control, Now};
use namely_security::{Signer, sign_interest};
use namely_wire::mgmt::{Command, ControlParameters, RouteOrigin, Scope};
use namely_wire::{InterestBuilder, Name};

/// Changes that come within this time are told together.
const GATHER_NS: u64 = 50_000_000;

/// A look at the RIB without a known change: routes expire by themselves.
const LOOK_NS: u64 = 10_000_000_000;

/// Most commands that are sent at once; the next go after [`GATHER_NS`].
const COMMANDS_MAX: usize = 64;

/// Where a routing daemon takes commands.
const DAEMON: &str = "/localhost/nlsr";

/// What a routing daemon was told.
#[derive(Debug, Default)]
pub(super) struct Readvertiser {
    /// By prefix and face, its cost.
    told: BTreeMap<(Name, u64), u64>,
    due_ns: Option<u64>,
    last_ms: u64,
}

impl Readvertiser {
    /// The RIB has changed, or a face is gone.
    pub(super) fn changed(&mut self, now_ns: u64) {
        let due_ns = now_ns + GATHER_NS;
        self.due_ns = Some(self.due_ns.map_or(due_ns, |known| known.min(due_ns)));
    }

    /// Sends the commands that are due. Returns when to call it again.
    pub(super) fn tick(
        &mut self,
        origins: &[RouteOrigin],
        control: Control<'_>,
        now: Now,
        send: impl FnMut(Vec<u8>),
    ) -> Option<u64> {
        if origins.is_empty() && self.told.is_empty() {
            return None;
        }
        let due_ns = *self.due_ns.get_or_insert(now.ns);
        if due_ns > now.ns {
            return Some(due_ns);
        }
        let is_all_told = self.tell(origins, control, now, send);
        let next_ns = now.ns + if is_all_told { LOOK_NS } else { GATHER_NS };
        self.due_ns = Some(next_ns);
        Some(next_ns)
    }

    /// Returns false if more is left to tell.
    fn tell(
        &mut self,
        origins: &[RouteOrigin],
        control: Control<'_>,
        now: Now,
        mut send: impl FnMut(Vec<u8>),
    ) -> bool {
        let Ok(daemon) = DAEMON.parse::<Name>() else { return true };
        let rib = control.tables.whole_rib(now.ns);
        if !rib.iter().any(|entry| entry.prefix == daemon) {
            self.told.clear();
            return true;
        }
        let mut wanted = BTreeMap::new();
        for entry in rib.iter().filter(|entry| is_global(&entry.prefix)) {
            for route in entry.routes.iter().filter(|route| origins.contains(&route.origin)) {
                wanted.insert((entry.prefix.clone(), route.face_id), route.cost);
            }
        }
        let gone = self.told.keys().filter(|key| !wanted.contains_key(*key));
        let gone = gone.map(|key| (Command::RibUnregister, key.clone(), 0));
        let new = wanted.iter().filter(|(key, cost)| self.told.get(*key) != Some(*cost));
        let new = new.map(|(key, cost)| (Command::RibRegister, key.clone(), *cost));
        let changes: Vec<(Command, (Name, u64), u64)> = gone.chain(new).take(COMMANDS_MAX + 1).collect();
        for (command, key, cost) in changes.iter().take(COMMANDS_MAX) {
            let Some(interest) = self.interest(*command, key, *cost, now.unix_ms) else { return false };
            send(interest);
            match command {
                Command::RibUnregister => drop(self.told.remove(key)),
                _ => drop(self.told.insert(key.clone(), *cost)),
            }
        }
        changes.len() <= COMMANDS_MAX
    }

    fn interest(
        &mut self,
        command: Command,
        (prefix, face): &(Name, u64),
        cost: u64,
        now_ms: u64,
    ) -> Option<Vec<u8>> {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(*face),
            cost: (command == Command::RibRegister).then_some(cost),
            ..ControlParameters::default()
        };
        // The same words as of management, but for whom they are.
        let command = command.name(Scope::Localhost, &parameters);
        let name = command.components().skip(2).fold(DAEMON.parse().ok()?, |name: Name, c| name.join(c));
        self.last_ms = now_ms.max(self.last_ms + 1);
        let builder = InterestBuilder::new(name).nonce(namely_host::random().ok()?).lifetime_ms(1000);
        sign_interest(&builder, &[], &Signer::digest_sha256(), self.last_ms).ok()
    }
}

/// Whether a name is one that other hosts may ask for.
fn is_global(prefix: &Name) -> bool {
    let first = prefix.components().next().map(|component| component.value);
    !matches!(first, Some(b"localhost" | b"localhop") | None)
}
