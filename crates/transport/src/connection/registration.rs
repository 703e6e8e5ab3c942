//! The prefixes that this client serves: registered with the router, and again with each router
//! that takes its place. A state machine: the connection feeds it time and packets.

use namely_wire::mgmt::{Command, ControlParameters, Scope};
use namely_wire::{InterestView, LpHeaders, Name};

use super::command::{
    COMMAND_ATTEMPTS, COMMAND_LIFETIME_MS, CommandError, CommandSigner, FORBIDDEN, OVERTAKEN_PAUSE_NS,
    checked_response,
};
use super::{Connection, Incoming, Outbox, Packet};
use crate::nonce::Nonces;

/// Pause before a registration that failed is tried again.
const PAUSE_NS: u64 = 500_000_000;

/// How often prefixes are registered again over datagrams: a router that restarted cannot be told
/// from one that has nothing to say, and routers close faces that have been idle for minutes.
const REFRESH_NS: u64 = 60_000_000_000;

const LIFETIME_NS: u64 = COMMAND_LIFETIME_MS * 1_000_000;

/// The prefixes of one connection.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    prefix: Name,
    state: Registration,
    attempts: u32,
    /// Whether the router took it once: from then on failures are repaired, not reported.
    established: bool,
    /// Whether a refusal may mean only that another command came first.
    may_be_overtaken: bool,
}

#[derive(Debug)]
enum Registration {
    /// To be asked for at this time.
    Wanted { at_ns: u64 },
    /// Asked for by this Interest; given up at the deadline.
    Asked { interest: Vec<u8>, deadline_ns: u64 },
    /// The router took it; asked for again at this time.
    Registered { refresh_at_ns: u64 },
    /// The router refused.
    Failed(CommandError),
}

/// What a registration needs from its connection.
pub(super) struct Context<'a> {
    pub(super) now_ns: u64,
    pub(super) scope: Scope,
    pub(super) datagrams: bool,
    pub(super) commands: &'a mut CommandSigner,
    pub(super) nonces: &'a mut Nonces,
}

impl Registrations {
    /// Wants `prefix`, once.
    fn add(&mut self, prefix: &Name) {
        if self.entries.iter().all(|entry| entry.prefix != *prefix) {
            let state = Registration::Wanted { at_ns: 0 };
            self.entries.push(Entry {
                prefix: prefix.clone(),
                state,
                attempts: 0,
                established: false,
                may_be_overtaken: false,
            });
        }
    }

    fn remove(&mut self, prefix: &Name) -> Option<Registration> {
        let i = self.entries.iter().position(|entry| entry.prefix == *prefix)?;
        Some(self.entries.remove(i).state)
    }

    /// All prefixes are to be registered with a new router.
    pub(super) fn restart(&mut self) {
        for entry in &mut self.entries {
            entry.state = Registration::Wanted { at_ns: 0 };
            entry.attempts = 0;
        }
    }

    /// Sends what is due. The time of the next thing to do.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, outbox: &mut Outbox) -> u64 {
        let mut next_ns = u64::MAX;
        for entry in &mut self.entries {
            entry.poll(context, outbox);
            next_ns = next_ns.min(entry.due_ns());
        }
        next_ns
    }

    /// Whether `incoming` answers one of the registrations; it is used up then.
    pub(super) fn take(&mut self, incoming: &Incoming<'_>, now_ns: u64, datagrams: bool) -> bool {
        let name = match incoming.packet {
            Packet::Data(data) => data.name,
            Packet::Nack(interest, _) => interest.name,
            Packet::Interest(_) => return false,
        };
        let asked = |entry: &&mut Entry| match &entry.state {
            Registration::Asked { interest, .. } => {
                InterestView::parse(interest).is_ok_and(|interest| interest.name == name)
            }
            _ => false,
        };
        let Some(entry) = self.entries.iter_mut().find(asked) else { return false };
        let outcome = match incoming.packet {
            Packet::Data(data) => checked_response(&data).map(|_| ()),
            Packet::Nack(_, reason) => Err(CommandError::Nack(reason)),
            Packet::Interest(_) => Ok(()),
        };
        entry.finish(outcome, now_ns, datagrams);
        true
    }
}

impl Entry {
    fn poll(&mut self, context: &mut Context<'_>, outbox: &mut Outbox) {
        if let Registration::Asked { deadline_ns, .. } = self.state
            && context.now_ns >= deadline_ns
        {
            self.finish(Err(CommandError::NoAnswer), context.now_ns, context.datagrams);
        }
        if self.due_ns() > context.now_ns || matches!(self.state, Registration::Asked { .. }) {
            return;
        }
        let parameters = ControlParameters { name: Some(self.prefix.clone()), ..Default::default() };
        let nonce = context.nonces.next();
        match context.commands.interest(
            context.scope,
            Command::RibRegister,
            &parameters,
            nonce,
            COMMAND_LIFETIME_MS,
        ) {
            Ok(interest) => {
                outbox.send(&LpHeaders::default(), &interest);
                self.attempts += 1;
                self.may_be_overtaken = context.commands.may_be_overtaken();
                let deadline_ns = context.now_ns.saturating_add(LIFETIME_NS);
                self.state = Registration::Asked { interest, deadline_ns };
            }
            Err(error) => self.state = Registration::Failed(CommandError::Signing(error)),
        }
    }

    fn finish(&mut self, outcome: Result<(), CommandError>, now_ns: u64, datagrams: bool) {
        self.state = match outcome {
            Ok(()) => {
                self.attempts = 0;
                self.established = true;
                let refresh_at_ns = if datagrams { now_ns.saturating_add(REFRESH_NS) } else { u64::MAX };
                Registration::Registered { refresh_at_ns }
            }
            Err(error) if self.established => {
                tracing::warn!(prefix = %self.prefix, %error, "the prefix is not registered again yet");
                Registration::Wanted { at_ns: now_ns.saturating_add(PAUSE_NS) }
            }
            Err(CommandError::Refused(refused))
                if refused.code == FORBIDDEN && self.may_be_overtaken && self.attempts < COMMAND_ATTEMPTS =>
            {
                Registration::Wanted { at_ns: now_ns.saturating_add(OVERTAKEN_PAUSE_NS) }
            }
            Err(CommandError::NoAnswer) if self.attempts < COMMAND_ATTEMPTS => {
                Registration::Wanted { at_ns: now_ns }
            }
            Err(error) => Registration::Failed(error),
        };
    }

    fn due_ns(&self) -> u64 {
        match self.state {
            Registration::Wanted { at_ns } => at_ns,
            Registration::Asked { deadline_ns, .. } => deadline_ns,
            Registration::Registered { refresh_at_ns } => refresh_at_ns,
            Registration::Failed(_) => u64::MAX,
        }
    }
}

impl Connection {
    /// Registers `prefix` with the router, so that Interests for it come here, and waits until the
    /// router took it; `handler` gets the packets that come meanwhile. From then on the prefix is
    /// registered again by itself whenever the connection was made anew.
    ///
    /// # Errors
    /// [`CommandError`]: the router refuses, or does not answer. The prefix is not kept then.
    pub fn register(
        &mut self,
        prefix: &Name,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<(), CommandError> {
        self.registrations.add(prefix);
        loop {
            match self.registrations.entries.iter().find(|entry| entry.prefix == *prefix) {
                Some(Entry { state: Registration::Registered { .. }, .. }) | None => return Ok(()),
                Some(Entry { state: Registration::Failed(_), .. }) => break,
                Some(_) => {}
            }
            if let Err(error) = self.turn(u64::MAX, handler) {
                self.registrations.remove(prefix);
                return Err(error.into());
            }
        }
        match self.registrations.remove(prefix) {
            Some(Registration::Failed(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Tells the router that `prefix` is served no longer.
    ///
    /// # Errors
    /// [`CommandError`]: the router refuses, or does not answer. The prefix is forgotten anyway.
    pub fn unregister(&mut self, prefix: &Name) -> Result<(), CommandError> {
        self.registrations.remove(prefix);
        let parameters = ControlParameters { name: Some(prefix.clone()), ..Default::default() };
        self.command(Command::RibUnregister, &parameters).map(|_| ())
    }

    /// Whether all prefixes are registered with the router as it is now.
    pub fn is_registered(&self) -> bool {
        let registered = |entry: &Entry| matches!(entry.state, Registration::Registered { .. });
        self.registrations.entries.iter().all(registered)
    }
}
