//! The prefixes that this client serves. They are registered with the router, and again after each
//! reconnection. The connection drives this state machine with time and packets, or passes it a
//! link that binds prefixes itself.

use namely_messages::{
    Command, ControlParameters, ControlResponse, Dataset, GeneralStatus, Scope, bind_flags, status_code,
};
use namely_wire::{InterestBuilder, InterestView, LpHeaders, Name};

use rustix::io::Errno;

use super::carrier::Bindings;
use super::command::{
    COMMAND_ATTEMPTS, COMMAND_LIFETIME_MS, CommandError, CommandSigner, FORBIDDEN, OVERTAKEN_PAUSE_NS,
    checked_response,
};
use super::incoming::{Incoming, Packet};
use super::outbox::Outbox;
use super::reach::{NotBound, Reachability};
use super::{Connection, ConnectionError};
use crate::nonce::Nonces;

/// Pause before a failed registration is repeated.
const PAUSE_NS: u64 = 500_000_000;

/// Period of repeated registrations over datagrams. Over datagrams a restarted router looks like an
/// idle one, and routers close faces that have been idle for minutes.
const REFRESH_NS: u64 = 60_000_000_000;

const LIFETIME_NS: u64 = COMMAND_LIFETIME_MS * 1_000_000;

/// Time for the router to report its version. If it does not, prefixes are registered and never
/// bound.
const KIND_LIFETIME_MS: u64 = 1_000;

/// Prefix of the versions of routers that have a binding prefix table.
const BINDING_ROUTERS: &str = "namely-";

/// Maximum number of requests for a prefix that overlaps a bound one, and the pause in between. The
/// router may not have noticed yet that the previous owner is gone.
const CONFLICT_ATTEMPTS: u32 = 8;
const CONFLICT_PAUSE_NS: u64 = 50_000_000;

/// The prefixes of one connection.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    entries: Vec<Entry>,
    router: RouterKind,
}

/// Whether the router has a binding prefix table.
#[derive(Debug, Default)]
enum RouterKind {
    #[default]
    Unknown,
    /// The version was requested; the request ends at the deadline.
    Queried {
        deadline_ns: u64,
    },
    Known {
        binds: bool,
    },
}

#[derive(Debug)]
struct Entry {
    prefix: Name,
    /// Whether other clients may answer below it, too, as below the name of a key.
    is_shared: bool,
    state: Registration,
    /// The index of the present step in [`steps`].
    step: usize,
    attempts: u32,
    reach: Reachability,
    /// Whether it succeeded once. Later failures are not reported but retried.
    established: bool,
    /// Whether a refusal may only mean that another command arrived first.
    may_be_overtaken: bool,
}

/// A method to register a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Bind it, if the operator routes it to this host's applications.
    BindIfRouted,
    /// Register it, if that is permitted.
    Register,
    /// Bind it, so that this application owns it once there is a route.
    Bind,
}

/// Returns the methods in the order of attempts. A shared prefix is never bound, because a bound
/// prefix belongs to one application, and no other can bind below or above it.
fn steps(binds: bool, is_shared: bool) -> &'static [Step] {
    match (binds, is_shared) {
        (false, _) | (true, true) => &[Step::Register],
        (true, false) => &[Step::BindIfRouted, Step::Register, Step::Bind],
    }
}

#[derive(Debug)]
enum Registration {
    /// To be requested at this time.
    Wanted { at_ns: u64 },
    /// Requested by this Interest; the request ends at the deadline.
    Requested { interest: Vec<u8>, deadline_ns: u64 },
    /// Registered; it is requested again at this time.
    Registered { refresh_at_ns: u64 },
    /// The router refused.
    Failed(CommandError),
}

/// The state of the connection that a registration needs.
pub(super) struct Context<'a> {
    pub(super) now_ns: u64,
    /// The packets that arrived before this time were processed.
    pub(super) read_ns: u64,
    pub(super) scope: Scope,
    pub(super) datagrams: bool,
    pub(super) commands: &'a mut CommandSigner,
    pub(super) nonces: &'a mut Nonces,
}

impl Registrations {
    /// For a peer that is not a router, or a router without a binding prefix table.
    pub(super) fn without_binding() -> Self {
        Registrations { entries: Vec::new(), router: RouterKind::Known { binds: false } }
    }

    /// Returns true if the router is known to bind prefixes.
    pub(super) fn binds(&self) -> bool {
        matches!(self.router, RouterKind::Known { binds: true })
    }

    /// Returns true if there are no prefixes.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds `prefix`, unless it is there already.
    pub(super) fn add(&mut self, prefix: &Name, is_shared: bool) {
        if self.entries.iter().all(|entry| entry.prefix != *prefix) {
            self.entries.push(Entry {
                prefix: prefix.clone(),
                is_shared,
                state: Registration::Wanted { at_ns: 0 },
                step: 0,
                attempts: 0,
                reach: Reachability::Route,
                established: false,
                may_be_overtaken: false,
            });
        }
    }

    fn remove(&mut self, prefix: &Name) -> Option<Entry> {
        let i = self.entries.iter().position(|entry| entry.prefix == *prefix)?;
        Some(self.entries.remove(i))
    }

    /// Schedules all prefixes for registration with a new router.
    pub(super) fn restart(&mut self) {
        // The new router may be of another kind.
        self.router = RouterKind::Unknown;
        for entry in &mut self.entries {
            entry.state = Registration::Wanted { at_ns: 0 };
            (entry.step, entry.attempts) = (0, 0);
        }
    }

    /// Sends the commands that are due. Returns the time of the next call.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, outbox: &mut Outbox) -> u64 {
        // A client that serves no prefix need not know the kind of its router.
        if self.entries.is_empty() {
            return u64::MAX;
        }
        let Some(binds) = self.find_out(context, outbox) else {
            return match self.router {
                RouterKind::Queried { deadline_ns } => deadline_ns,
                _ => u64::MAX,
            };
        };
        let mut next_ns = u64::MAX;
        for entry in &mut self.entries {
            entry.poll(binds, context, outbox);
            next_ns = next_ns.min(entry.due_ns());
        }
        next_ns
    }

    /// Binds the prefixes that are due through the link. Returns the time of the next call, which
    /// is `now_ns` if the state of a prefix changed.
    pub(super) fn bind(&mut self, link: &mut dyn Bindings, now_ns: u64) -> Result<u64, Errno> {
        let mut next_ns = u64::MAX;
        for entry in &mut self.entries {
            if entry.bind(link, now_ns)? {
                next_ns = now_ns;
            }
            next_ns = next_ns.min(entry.due_ns());
        }
        Ok(next_ns)
    }

    /// Returns whether the router binds prefixes, or `None` before this is known. Only local
    /// clients can bind.
    fn find_out(&mut self, context: &mut Context<'_>, outbox: &mut Outbox) -> Option<bool> {
        match self.router {
            RouterKind::Known { binds } => return Some(binds),
            RouterKind::Queried { deadline_ns } if context.read_ns < deadline_ns => return None,
            RouterKind::Unknown if context.scope == Scope::Localhost => {
                let interest = InterestBuilder::new(Dataset::StatusGeneral.prefix(context.scope))
                    .can_be_prefix()
                    .must_be_fresh()
                    .nonce(context.nonces.next())
                    .lifetime_ms(KIND_LIFETIME_MS);
                outbox.send(&LpHeaders::default(), &interest.build());
                let deadline_ns = context.now_ns.saturating_add(KIND_LIFETIME_MS * 1_000_000);
                self.router = RouterKind::Queried { deadline_ns };
                return None;
            }
            RouterKind::Queried { .. } | RouterKind::Unknown => {}
        }
        // Without a response only registration is assumed, because every router supports it.
        self.router = RouterKind::Known { binds: false };
        Some(false)
    }

    /// Returns true if `incoming` answers a registration or the request for the version. It is not
    /// passed to the handler then.
    pub(super) fn take(&mut self, incoming: &Incoming<'_>, now_ns: u64, datagrams: bool) -> bool {
        let name = match incoming.packet {
            Packet::Data(data) => data.name,
            Packet::Nack(interest, _) => interest.name,
            Packet::Interest(_) => return false,
        };
        let binds = match self.router {
            RouterKind::Known { binds } => binds,
            RouterKind::Unknown => return false,
            RouterKind::Queried { .. } => {
                let is_answer = Dataset::StatusGeneral.prefix(Scope::Localhost).as_name().is_prefix_of(name);
                // A Nack is an answer, too: such a router reports no version and does not bind
                // prefixes.
                if is_answer {
                    self.router = RouterKind::Known { binds: has_bindings(incoming) };
                }
                return is_answer;
            }
        };
        let is_answered = |entry: &&mut Entry| match &entry.state {
            Registration::Requested { interest, .. } => {
                // The name of a signed Interest ends with a digest of its parameters, so it is
                // unique.
                InterestView::parse(interest).is_ok_and(|interest| interest.name == name)
            }
            _ => false,
        };
        let Some(entry) = self.entries.iter_mut().find(is_answered) else { return false };
        let outcome = match incoming.packet {
            Packet::Data(data) => checked_response(&data),
            Packet::Nack(_, reason) => Err(CommandError::Nack(reason)),
            Packet::Interest(_) => return false,
        };
        entry.finish(outcome, binds, now_ns, datagrams);
        true
    }
}

/// Returns true if this general status comes from a router with a binding prefix table.
fn has_bindings(incoming: &Incoming<'_>) -> bool {
    let Packet::Data(data) = incoming.packet else { return false };
    GeneralStatus::decode(data.content).is_ok_and(|status| status.version.starts_with(BINDING_ROUTERS))
}

impl Entry {
    fn poll(&mut self, binds: bool, context: &mut Context<'_>, outbox: &mut Outbox) {
        if let Registration::Requested { deadline_ns, .. } = self.state
            && context.read_ns >= deadline_ns
        {
            self.finish(Err(CommandError::NoAnswer), binds, context.now_ns, context.datagrams);
        }
        if self.due_ns() > context.now_ns || matches!(self.state, Registration::Requested { .. }) {
            return;
        }
        let (command, flags) = match self.step(binds) {
            Step::BindIfRouted => (Command::BptBind, Some(bind_flags::ROUTED)),
            Step::Register => (Command::RibRegister, None),
            Step::Bind => (Command::BptBind, None),
        };
        let parameters = ControlParameters { name: Some(self.prefix.clone()), flags, ..Default::default() };
        let nonce = context.nonces.next();
        match context.commands.interest(context.scope, command, &parameters, nonce, COMMAND_LIFETIME_MS) {
            Ok(interest) => {
                outbox.send(&LpHeaders::default(), &interest);
                self.attempts += 1;
                // Recorded now, because the signer may be replaced before the response arrives.
                self.may_be_overtaken = context.commands.may_be_overtaken(binds);
                let deadline_ns = context.now_ns.saturating_add(LIFETIME_NS);
                self.state = Registration::Requested { interest, deadline_ns };
            }
            Err(error) => self.state = Registration::Failed(CommandError::Signing(error)),
        }
    }

    /// Binds the prefix if it is due. Returns true if it was bound or the link refused it for good.
    ///
    /// # Errors
    /// The link was lost.
    fn bind(&mut self, link: &mut dyn Bindings, now_ns: u64) -> Result<bool, Errno> {
        if !matches!(self.state, Registration::Wanted { at_ns } if at_ns <= now_ns) {
            return Ok(false);
        }
        self.attempts += 1;
        let again_ns = match link.bind(self.prefix.as_name(), self.is_shared) {
            Ok(reach) => {
                (self.attempts, self.established, self.reach) = (0, true, reach);
                // The binding lasts as long as the link, so there is nothing to refresh.
                self.state = Registration::Registered { refresh_at_ns: u64::MAX };
                return Ok(true);
            }
            // The forwarder has stopped, so the whole link is lost.
            Err(NotBound::System(errno @ (Errno::SHUTDOWN | Errno::IO))) => return Err(errno),
            Err(NotBound::InUse) if self.attempts < CONFLICT_ATTEMPTS => CONFLICT_PAUSE_NS,
            // `register` has returned, so the failure cannot be reported. It is retried instead.
            Err(error) if self.established => {
                tracing::warn!(prefix = %self.prefix, %error, "the prefix is not bound again yet");
                PAUSE_NS
            }
            Err(error) => {
                self.state = Registration::Failed(CommandError::NotBound(error));
                return Ok(true);
            }
        };
        self.state = Registration::Wanted { at_ns: now_ns.saturating_add(again_ns) };
        Ok(false)
    }

    fn step(&self, binds: bool) -> Step {
        let steps = steps(binds, self.is_shared);
        steps.get(self.step).or(steps.last()).copied().unwrap_or(Step::Register)
    }

    fn finish(
        &mut self,
        outcome: Result<ControlResponse, CommandError>,
        binds: bool,
        now_ns: u64,
        datagrams: bool,
    ) {
        let step = self.step(binds);
        self.state = match outcome {
            Ok(response) => {
                // A later refresh begins with the first method, because routes may have changed.
                (self.attempts, self.step) = (0, 0);
                self.established = true;
                self.reach = reach(step, &response);
                let refresh_at_ns = if datagrams { now_ns.saturating_add(REFRESH_NS) } else { u64::MAX };
                Registration::Registered { refresh_at_ns }
            }
            Err(error) => match self.again_ns(&error, step) {
                Some(pause_ns) => Registration::Wanted { at_ns: now_ns.saturating_add(pause_ns) },
                None if self.is_answered_by_next(&error, step, binds) => {
                    (self.attempts, self.step) = (0, self.step + 1);
                    Registration::Wanted { at_ns: now_ns }
                }
                None if self.established => {
                    tracing::warn!(prefix = %self.prefix, %error, "the prefix is not registered again yet");
                    (self.attempts, self.step) = (0, 0);
                    Registration::Wanted { at_ns: now_ns.saturating_add(PAUSE_NS) }
                }
                None => Registration::Failed(error),
            },
        };
    }

    /// Returns the pause before the same command is repeated, if that may succeed.
    fn again_ns(&self, error: &CommandError, step: Step) -> Option<u64> {
        match error {
            CommandError::Refused(refused) if refused.code == FORBIDDEN => {
                (self.may_be_overtaken && self.attempts < COMMAND_ATTEMPTS).then_some(OVERTAKEN_PAUSE_NS)
            }
            CommandError::Refused(refused)
                if refused.code == status_code::CONFLICT && step != Step::Register =>
            {
                (self.attempts < CONFLICT_ATTEMPTS).then_some(CONFLICT_PAUSE_NS)
            }
            // The lifetime of the command has passed already, so there is no further pause.
            CommandError::NoAnswer => (self.attempts < COMMAND_ATTEMPTS).then_some(0),
            _ => None,
        }
    }

    /// Returns true if the next method must be tried after this refusal.
    fn is_answered_by_next(&self, error: &CommandError, step: Step, binds: bool) -> bool {
        let CommandError::Refused(refused) = error else { return false };
        let expected = match step {
            Step::BindIfRouted => status_code::NOT_FOUND,
            Step::Register => FORBIDDEN,
            Step::Bind => return false,
        };
        refused.code == expected && self.step + 1 < steps(binds, self.is_shared).len()
    }

    fn due_ns(&self) -> u64 {
        match self.state {
            Registration::Wanted { at_ns } => at_ns,
            Registration::Requested { deadline_ns, .. } => deadline_ns,
            Registration::Registered { refresh_at_ns } => refresh_at_ns,
            Registration::Failed(_) => u64::MAX,
        }
    }
}

/// Interprets the router's successful response.
fn reach(step: Step, response: &ControlResponse) -> Reachability {
    if step == Step::Register {
        return if response.is_shared() { Reachability::Shared } else { Reachability::Route };
    }
    let flags = response.parameters().ok().flatten().and_then(|parameters| parameters.flags);
    if flags.unwrap_or_default() & bind_flags::ROUTED != 0 {
        Reachability::Bound
    } else {
        Reachability::NoRouteYet
    }
}

impl Connection {
    /// Registers `prefix` with the router, so that Interests for it reach this client, and waits
    /// for the router's response. `handler` receives the packets that arrive meanwhile. The
    /// registration is repeated after each reconnection.
    ///
    /// A router with a binding prefix table binds the prefix if the operator routes it to this
    /// host's applications or if nothing else is permitted. Otherwise the prefix is registered
    /// (docs/sockets.md).
    ///
    /// # Errors
    /// [`CommandError`]: the router refuses, or does not answer. The prefix is dropped in this
    /// case.
    pub fn register(
        &mut self,
        prefix: &Name,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Reachability, CommandError> {
        self.register_as(prefix, false, handler)
    }

    /// [`Connection::register`] for a prefix below which other clients may answer, too, such as the
    /// name of a key. It is registered, never bound.
    ///
    /// # Errors
    /// As of [`Connection::register`].
    pub fn register_shared(
        &mut self,
        prefix: &Name,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Reachability, CommandError> {
        self.register_as(prefix, true, handler)
    }

    fn register_as(
        &mut self,
        prefix: &Name,
        is_shared: bool,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Reachability, CommandError> {
        self.registrations.add(prefix, is_shared);
        loop {
            match self.registrations.entries.iter().find(|entry| entry.prefix == *prefix) {
                Some(Entry { state: Registration::Registered { .. }, reach, .. }) => return Ok(*reach),
                None => return Ok(Reachability::Route),
                Some(Entry { state: Registration::Failed(_), .. }) => break,
                Some(_) => {}
            }
            // The caller receives an error, so a later reconnection must not register the prefix.
            if let Err(error) = self.turn(u64::MAX, handler) {
                self.registrations.remove(prefix);
                return Err(error.into());
            }
        }
        match self.registrations.remove(prefix).map(|entry| entry.state) {
            Some(Registration::Failed(error)) => Err(error),
            _ => Ok(Reachability::Route),
        }
    }

    /// Removes the registration of `prefix` from the router.
    ///
    /// # Errors
    /// [`CommandError`]: the router refuses, or does not answer. The prefix is dropped anyway.
    pub fn unregister(&mut self, prefix: &Name) -> Result<(), CommandError> {
        let removed = self.registrations.remove(prefix);
        let is_shared = removed.as_ref().is_some_and(|entry| entry.is_shared);
        let reach = removed.map_or(Reachability::Route, |entry| entry.reach);
        if let Some(bindings) = self.carrier.as_mut().and_then(|carrier| carrier.bindings()) {
            return bindings.unbind(prefix.as_name(), is_shared).map_err(CommandError::NotBound);
        }
        let command = match reach {
            Reachability::Route | Reachability::Shared => Command::RibUnregister,
            Reachability::Bound | Reachability::NoRouteYet => Command::BptUnbind,
        };
        let parameters = ControlParameters { name: Some(prefix.clone()), ..Default::default() };
        // If the router is lost meanwhile, it has removed the prefix, so there is no need to
        // reconnect.
        let reconnect = std::mem::replace(&mut self.options.reconnect, std::time::Duration::ZERO);
        let response = self.command(command, &parameters);
        self.options.reconnect = reconnect;
        match response {
            Err(CommandError::Connection(ConnectionError::Lost { .. })) => Ok(()),
            response => response.map(|_| ()),
        }
    }

    /// Returns true if all prefixes are registered with the present router.
    pub fn is_registered(&self) -> bool {
        let registered = |entry: &Entry| matches!(entry.state, Registration::Registered { .. });
        self.registrations.entries.iter().all(registered)
    }
}

#[cfg(test)]
mod tests {
    use namely_security::Signer;

    use super::*;

    #[test]
    fn a_response_is_read_before_it_is_late() {
        let (mut registrations, mut outbox) = (Registrations::without_binding(), Outbox::new(None));
        let mut commands = CommandSigner::new(Signer::digest_sha256());
        let mut nonces = Nonces::from_system().unwrap();
        registrations.add(&"/p".parse().unwrap(), false);
        let mut attempts_at = |now_ns, read_ns| {
            let mut context = Context {
                now_ns,
                read_ns,
                scope: Scope::Localhost,
                datagrams: false,
                commands: &mut commands,
                nonces: &mut nonces,
            };
            registrations.poll(&mut context, &mut outbox);
            registrations.entries[0].attempts
        };
        assert_eq!(attempts_at(0, 0), 1);
        // The process paused. The response may wait in the socket.
        assert_eq!(attempts_at(2 * LIFETIME_NS, 0), 1);
        assert_eq!(attempts_at(2 * LIFETIME_NS, 2 * LIFETIME_NS), 2);
    }
}
