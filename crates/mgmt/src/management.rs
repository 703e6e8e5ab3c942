//! The one entry: an Interest for management's names in, Data out.

use std::collections::VecDeque;

use namely_wire::mgmt::{
    Block, Command, CommandParameters, CommandRequest, ControlParameters, ControlResponse, Counter, Dataset,
    DatasetRequest, EventRequest, ExplainedRight, FaceEventNotification, FaceStatus, Request, RequestError,
    Scope, asked_of_hop, encode_blocks, status_code,
};
use namely_wire::{InterestView, Name, NameRef};

use crate::announcement::{self, Announced};
use crate::authenticate::{Authenticator, shortened};
use crate::control::{Control, CreateFaceError, CsDisk, FaceSpec, Tables, Vip};
use crate::counters::Counters;
use crate::dataset::{Reader, Snapshots};
use crate::events::{Events, Subscription};
use crate::modules::hop::Answered;
use crate::modules::{self, bad, not_found};
use crate::policy::{Act, Policy, Requester, is_localhost, is_reserved};
use crate::production::Production;
use crate::reply;

/// Faces that are being made for `faces/create` at once. A command beyond them is refused with 504.
pub const NEW_FACES_MAX: usize = 16;

/// What others hear of commands that are for this machine.
const NOT_UNDER_LOCALHOP: &str = "only rib commands are taken under /localhop, and only where enabled";

/// NFD's management protocol, without I/O: call [`Management::handle`] for each Interest that the
/// forwarder delivers for `/localhost/nfd` (and `/localhop/nfd/rib`, if the policy has it), and
/// [`Management::face_event`] for each change of a face; send what they add to `replies`, not to be
/// cached.
#[derive(Debug)]
pub struct Management {
    version: String,
    start_ms: u64,
    authenticator: Authenticator,
    snapshots: Snapshots,
    /// Datasets that are being made, the one first that is to be gone on with.
    productions: VecDeque<Production>,
    events: Events,
    waiting: Vec<Waiting>,
    next_ticket: u64,
    answered: Answered,
    counters: Counters,
}

/// An Interest for management.
#[derive(Clone, Debug)]
pub struct Incoming<'a> {
    /// The Interest's octets.
    pub interest: &'a [u8],
    /// The face it came from.
    pub face_id: u64,
    /// Whether that face is local: what comes under `/localhost` from another one is taken only of
    /// a user whom the kernel tells ([`Requester::Loopback`]).
    pub is_local: bool,
    /// What that face's peer is known by.
    pub requester: Requester,
}

/// The time, on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic, ns.
    pub ns: u64,
    /// Since the Unix epoch, ms.
    pub unix_ms: u64,
}

/// A face to make for a `faces/create` command. It may take a while: a host name must be looked up,
/// a peer must answer. Call [`Management::face_made`] with the ticket and the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFace {
    /// Which command this is for.
    pub ticket: u64,
    /// The face.
    pub spec: FaceSpec,
}

/// A command that waits for its face.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    name: Name,
}

/// How far a command got.
enum Step {
    Done(ControlResponse),
    Make(FaceSpec),
}

impl Management {
    /// Management of a router that calls itself `version` and started at `now`: commands that were
    /// signed before are not taken.
    pub fn new(version: impl Into<String>, policy: Policy, now: Now) -> Self {
        Management {
            version: version.into(),
            start_ms: now.unix_ms,
            authenticator: Authenticator::new(policy, now),
            snapshots: Snapshots::default(),
            productions: VecDeque::new(),
            // Event numbers go on from the start time: a restarted router never reuses one.
            events: Events::new(now.unix_ms),
            waiting: Vec::new(),
            next_ticket: 0,
            answered: Answered::default(),
            counters: Counters::default(),
        }
    }

    /// Replaces the policy. What it allowed before stays done.
    pub fn set_policy(&mut self, policy: Policy) {
        self.authenticator.set_policy(policy);
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Refused commands by reason, such as `not_signed` or `replayed`.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.authenticator.refusals().iter().map(|(reason, count)| (*reason, *count))
    }

    /// What an announcement says that came with Data of `object`, if it is believed: where there
    /// are anchors for announcements, and one of their keys signed it.
    pub fn shown(&mut self, announcement: &[u8], object: &Name, now: Now) -> Option<Announced> {
        self.authenticator.shown(announcement, object, now)
    }

    /// Takes one Interest. Answers are added to `replies`. A `faces/create` gives a face to make
    /// instead, and is answered when it is made.
    pub fn handle(
        &mut self,
        incoming: Incoming<'_>,
        control: Control<'_>,
        now: Now,
        replies: &mut Vec<Vec<u8>>,
    ) -> Option<NewFace> {
        let Ok(interest) = InterestView::parse(incoming.interest) else {
            self.counters.not_management += 1;
            return None;
        };
        if let Some(name) = asked_of_hop(interest.name).filter(|name| !is_reserved(*name)) {
            replies.extend(self.answer_hop(name, &interest, &incoming, control, now));
            return None;
        }
        let request = Request::parse(&interest);
        if !self.admits(&interest, &incoming) {
            self.counters.senders_unknown += 1;
            let is_command = matches!(request, Ok(Request::Command(_)));
            replies.push(self.refuse_unknown(is_command, &interest, &incoming));
            return None;
        }
        match request {
            Ok(Request::Command(request)) => {
                return self.command(&request, &interest, &incoming, control, now, replies);
            }
            Ok(Request::Dataset(request)) => {
                replies.extend(self.dataset(&request, &interest, &incoming, control, now))
            }
            Ok(Request::FaceEvents(request)) => {
                replies.extend(self.subscribe(request, &interest, reader(&incoming), now))
            }
            Err(error) => replies.extend(self.unreadable(error, &interest)),
        }
        None
    }

    /// Tells who follows `name` hop by hop where it goes from here.
    fn answer_hop(
        &mut self,
        name: NameRef<'_>,
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
        control: Control<'_>,
        now: Now,
    ) -> Option<Vec<u8>> {
        if !self.authenticator.explains_to_network() {
            self.counters.not_management += 1;
            return None;
        }
        if !self.answered.one_more(now.ns) {
            self.counters.hop_answers_refused += 1;
            return None;
        }
        self.counters.hop_answers += 1;
        let answer = modules::hop::answer(name, incoming.face_id, control, now);
        Some(reply::data(interest.name, None, &answer.to_vec()))
    }

    /// Whether its prefix may be asked from where the Interest came from, whatever it is.
    fn admits(&self, interest: &InterestView<'_>, incoming: &Incoming<'_>) -> bool {
        incoming.is_local
            || matches!(incoming.requester, Requester::Loopback(_))
            || self.authenticator.has_localhop() && !is_localhost(interest.name)
    }

    /// Answers somebody who could be on another machine.
    fn refuse_unknown(
        &mut self,
        is_command: bool,
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
    ) -> Vec<u8> {
        if !is_command {
            return reply::no_such_data(interest.name);
        }
        let why = match &incoming.requester {
            Requester::Nameless(why) => why,
            _ => "no program of this machine sends from there of its own accord",
        };
        let text = format!(
            "this prefix is for users of this machine, and whose command it is cannot be told: {why}"
        );
        self.respond(interest.name, &ControlResponse::new(status_code::UNAUTHORIZED, text))
    }

    /// Whether a dataset is being made: [`Management::produce`] is to be called then.
    pub fn is_producing(&self) -> bool {
        !self.productions.is_empty()
    }

    /// Makes a part of a dataset that is too long to be made at once. Take Interests in between.
    pub fn produce(&mut self, control: Control<'_>, now: Now, replies: &mut Vec<Vec<u8>>) {
        let Some(mut production) = self.productions.pop_front() else { return };
        if production.step(control.tables, now.ns) {
            replies.push(self.publish(production, now));
        } else {
            self.productions.push_back(production);
        }
    }

    /// Forgets the states of datasets that were kept long enough, whose readers have gone. Returns
    /// whether there were any, and when to call again, ns; `None` if none is left.
    pub fn forget_states(&mut self, now_ns: u64) -> (bool, Option<u64>) {
        (self.snapshots.expire(now_ns), self.snapshots.next_expiry_ns())
    }

    fn publish(&mut self, production: Production, now: Now) -> Vec<u8> {
        let is_owed = production.is_owed(now.ns);
        let Production { name, reader, content, .. } = production;
        let first = self.snapshots.publish(name.as_name(), content, reader, now.unix_ms, now.ns);
        if is_owed {
            self.snapshots.owe_newest();
        }
        first
    }

    /// Notifies subscribers that a face changed.
    pub fn face_event(&mut self, event: &FaceEventNotification, now: Now, replies: &mut Vec<Vec<u8>>) {
        self.counters.events += 1;
        replies.extend(self.events.push(event, now.ns));
    }

    /// Answers the `faces/create` of this ticket.
    pub fn face_made(
        &mut self,
        ticket: u64,
        made: Result<FaceStatus, CreateFaceError>,
        replies: &mut Vec<Vec<u8>>,
    ) {
        let Some(index) = self.waiting.iter().position(|waiting| waiting.ticket == ticket) else { return };
        let waiting = self.waiting.swap_remove(index);
        replies.push(self.respond(waiting.name.as_name(), &modules::faces::created(made)));
    }

    fn unreadable(&mut self, error: RequestError, interest: &InterestView<'_>) -> Option<Vec<u8>> {
        let response = match error {
            RequestError::NotManagement => {
                self.counters.not_management += 1;
                return None;
            }
            RequestError::Unknown => {
                self.counters.unknown_names += 1;
                not_found("there is no such command or dataset")
            }
            RequestError::NoParameters | RequestError::Malformed(_) => {
                self.counters.commands_malformed += 1;
                bad(error.to_string())
            }
        };
        Some(reply::data(interest.name, None, &response.to_vec()))
    }

    fn command(
        &mut self,
        request: &CommandRequest<'_>,
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
        control: Control<'_>,
        now: Now,
        replies: &mut Vec<Vec<u8>>,
    ) -> Option<NewFace> {
        let step = self.execute(request, interest, incoming, control, now);
        match step.unwrap_or_else(Step::Done) {
            Step::Done(response) => {
                replies.push(self.respond(interest.name, &response));
                None
            }
            Step::Make(spec) => {
                let new_face = self.wait_for(interest.name, spec);
                if new_face.is_none() {
                    let text = "too many faces are being made just now: try again later";
                    let response = ControlResponse::new(status_code::FACE_CREATION_FAILED, text);
                    replies.push(self.respond(interest.name, &response));
                }
                new_face
            }
        }
    }

    fn execute(
        &mut self,
        request: &CommandRequest<'_>,
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
        control: Control<'_>,
        now: Now,
    ) -> Result<Step, ControlResponse> {
        let own = incoming.face_id;
        let announced;
        let parameters = match &request.parameters {
            CommandParameters::Control(parameters) => parameters,
            CommandParameters::Announcement(data) => {
                announced = announcement::parameters(data, now.unix_ms)?;
                &announced
            }
        };
        let at = (control.tables, now);
        if let Some(command) = request.command.asks_about() {
            let asked = (request.scope, command, parameters.name.as_ref());
            return self.asked_right(asked, interest, incoming, at).map(Step::Done);
        }
        self.allow(request, parameters, interest, incoming, at)?;
        if let CommandParameters::Announcement(data) = &request.parameters {
            self.authenticator.believe(data, now)?;
        }
        let done = |response: Result<ControlResponse, ControlResponse>| response.map(Step::Done);
        match request.command {
            Command::FacesCreate => modules::faces::face_spec(parameters).map(Step::Make),
            Command::FacesUpdate => done(modules::faces::update(parameters, own, control.faces)),
            Command::FacesDestroy => done(modules::faces::destroy(parameters, control.faces)),
            Command::FibAddNexthop => done(modules::fib::add_nexthop(parameters, own, control.tables)),
            Command::FibRemoveNexthop => done(modules::fib::remove_nexthop(parameters, own, control.tables)),
            Command::CsConfig => done(modules::cs::config(parameters, control)),
            Command::CsErase => done(modules::cs::erase(parameters, control)),
            Command::CsPin => done(modules::cs::pin(parameters, control)),
            Command::CsUnpin => done(modules::cs::unpin(parameters, control)),
            Command::CsReport => {
                self.counters.data_reported += 1;
                done(modules::cs::report(parameters, control.tables, now.ns))
            }
            Command::StrategyChoiceSet => done(modules::strategy::set(parameters, control.tables)),
            Command::StrategyChoiceUnset => done(modules::strategy::unset(parameters, control.tables)),
            Command::RibRegister | Command::RibAnnounce | Command::RibUnregister => {
                done(modules::rib::execute(request, parameters, own, control, now.ns))
            }
            Command::BptBind => done(modules::bpt::bind(parameters, own, control.tables)),
            Command::BptUnbind => done(modules::bpt::unbind(parameters, own, control.tables)),
            Command::TraceStart => done(modules::trace::start(parameters, own, control)),
            Command::TraceRead => done(modules::trace::read(parameters, control)),
            Command::TraceStop => done(modules::trace::stop(parameters, control)),
            // Above: they ask, and need no right.
            Command::RightsRegister | Command::RightsBind | Command::RightsManage => {
                Err(bad("this command only asks"))
            }
        }
    }

    /// Whether the sender may do what it asks.
    fn allow(
        &mut self,
        request: &CommandRequest<'_>,
        parameters: &ControlParameters,
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
        (tables, now): (&dyn Tables, Now),
    ) -> Result<(), ControlResponse> {
        let refuse = |text: String| ControlResponse::new(status_code::UNAUTHORIZED, text);
        let who = &incoming.requester;
        if request.scope == Scope::Localhop && !self.authenticator.answers_localhop(request.command, who) {
            return Err(refuse(NOT_UNDER_LOCALHOP.into()));
        }
        let act = Act::of(request.command, parameters, incoming.face_id, |name| tables.bpt_routed(name));
        self.authenticator.allow(act, interest, who, now).map_err(refuse)?;
        not_reserved(request.command, parameters).map_err(refuse)
    }

    /// Whether [`allow`](Self::allow) would let a command for the own face through that is signed
    /// as `interest` is.
    fn asked_right(
        &mut self,
        (scope, command, name): (Scope, Command, Option<&Name>),
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
        (tables, now): (&dyn Tables, Now),
    ) -> Result<ControlResponse, ControlResponse> {
        let parameters = ControlParameters { name: name.cloned(), ..ControlParameters::default() };
        if command != Command::FacesUpdate {
            modules::required_name(&parameters)?;
        }
        let who = &incoming.requester;
        let ground = if scope == Scope::Localhop && !self.authenticator.answers_localhop(command, who) {
            Err(("localhop", NOT_UNDER_LOCALHOP.into()))
        } else {
            let act = Act::of(command, &parameters, incoming.face_id, |name| tables.bpt_routed(name));
            let ground = self.authenticator.look(act, interest, who, now);
            let ground = ground.map_err(|refusal| (refusal.cause, refusal.text));
            ground.and_then(|it| {
                not_reserved(command, &parameters).map(|()| it).map_err(|why| ("reserved", why))
            })
        };
        let (is_allowed, cause, why) = match ground {
            Ok(why) => (true, "", why),
            Err((cause, why)) => (false, cause, why),
        };
        let (command, cause, why) = (command.to_string(), cause.to_owned(), shortened(why));
        let body = ExplainedRight { command, is_allowed, why, cause }.to_vec();
        Ok(ControlResponse { body, ..ControlResponse::new(status_code::OK, "OK") })
    }

    fn wait_for(&mut self, name: NameRef<'_>, spec: FaceSpec) -> Option<NewFace> {
        if self.waiting.len() == NEW_FACES_MAX {
            self.counters.new_faces_refused += 1;
            return None;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push(Waiting { ticket, name: name.to_name() });
        Some(NewFace { ticket, spec })
    }

    fn respond(&mut self, name: NameRef<'_>, response: &ControlResponse) -> Vec<u8> {
        let counter = match response.code {
            status_code::OK => &mut self.counters.commands_done,
            status_code::BAD_PARAMETERS => &mut self.counters.commands_malformed,
            status_code::UNAUTHORIZED => &mut self.counters.commands_refused,
            _ => &mut self.counters.commands_failed,
        };
        *counter += 1;
        tracing::trace!(code = response.code, text = response.text, "{name}");
        reply::data(name, None, &response.to_vec())
    }

    fn dataset(
        &mut self,
        request: &DatasetRequest,
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
        control: Control<'_>,
        now: Now,
    ) -> Option<Vec<u8>> {
        if request.version.is_some() {
            let kept = self.snapshots.segment(interest.name, request, now.ns);
            return Some(kept.unwrap_or_else(|| {
                self.counters.segments_missing += 1;
                reply::no_such_data(interest.name)
            }));
        }
        // The answer's name is longer than the dataset's by version and segment.
        if !interest.can_be_prefix || interest.name.len() != request.prefix_components {
            self.counters.datasets_unanswerable += 1;
            return None;
        }
        let is_superuser = self.authenticator.is_superuser(&incoming.requester);
        let made = match is_superuser {
            true => self.snapshots.owed(interest.name, now.ns),
            false => self.snapshots.large(interest.name, now.ns),
        };
        if let Some(first) = made {
            self.counters.datasets_repeated += 1;
            return Some(first);
        }
        let lifetime_ns = interest.lifetime_or_default_ms().saturating_mul(1_000_000);
        let superuser_until_ns = is_superuser.then(|| now.ns.saturating_add(lifetime_ns));
        let known = self.productions.iter_mut().find(|known| known.name.as_name() == interest.name);
        if let Some(known) = known {
            self.counters.datasets_joined += 1;
            superuser_until_ns.into_iter().for_each(|until_ns| known.superuser_asks(until_ns));
            return None;
        }
        let is_for_them = match request.dataset {
            Dataset::CsList => is_superuser,
            Dataset::NameExplain => matches!(incoming.requester, Requester::User(_) | Requester::Loopback(_)),
            _ => true,
        };
        if !is_for_them {
            // What others asked for is nobody else's business.
            self.counters.datasets_unanswerable += 1;
            return Some(reply::no_such_data(interest.name));
        }
        self.counters.datasets += 1;
        let Some(mut production) = Production::new(request.dataset, interest.name, reader(incoming)) else {
            let content = match request.dataset {
                Dataset::NameExplain => self.explained(&request.list.prefix, incoming, control, now),
                _ => self.content(request, control, now),
            };
            return Some(self.snapshots.publish(
                interest.name,
                content,
                reader(incoming),
                now.unix_ms,
                now.ns,
            ));
        };
        superuser_until_ns.into_iter().for_each(|until_ns| production.superuser_asks(until_ns));
        if production.step(control.tables, now.ns) {
            return Some(self.publish(production, now));
        }
        self.productions.push_back(production);
        None
    }

    fn content(&self, request: &DatasetRequest, control: Control<'_>, now: Now) -> Vec<u8> {
        match request.dataset {
            Dataset::StatusGeneral => {
                let mut status = control.tables.status();
                status.version.clone_from(&self.version);
                status.start_ms = self.start_ms;
                status.current_ms = now.unix_ms;
                status.faces = Some(control.faces.count() as u64);
                status.to_vec()
            }
            Dataset::StatusCounters => encode_blocks(&self.all_counters(control)),
            Dataset::FacesList | Dataset::FacesQuery => modules::faces::list(&request.filter, control.faces),
            Dataset::FacesChannels => modules::faces::channels(control.faces),
            // Made in parts.
            Dataset::FibList | Dataset::RibList => Vec::new(),
            // Depends on who asks: [`Management::explained`].
            Dataset::NameExplain => Vec::new(),
            Dataset::StrategyChoiceList => encode_blocks(&control.tables.strategies()),
            Dataset::CsInfo => encode_blocks(&[control.tables.cs_info()]),
            Dataset::CsDisk => {
                let disk: Vec<_> = control.disk.map(CsDisk::status).into_iter().collect();
                encode_blocks(&disk)
            }
            Dataset::CsList => encode_blocks(&[modules::cs::list(&request.list, control.tables, now.ns)]),
            Dataset::NeighborsList => {
                encode_blocks(&control.neighbors.map(|all| all.neighbors()).unwrap_or_default())
            }
            Dataset::BptList => encode_blocks(&modules::bpt::list(control.tables)),
            Dataset::VipStatus => {
                let status: Vec<_> = control.vip.map(Vip::status).into_iter().collect();
                encode_blocks(&status)
            }
            Dataset::VipObjects => encode_blocks(&control.vip.map(Vip::objects).unwrap_or_default()),
            Dataset::VipNeighbours => encode_blocks(&control.vip.map(Vip::neighbours).unwrap_or_default()),
        }
    }

    /// What would become of an Interest for `name`, as far as it is the business of who asks.
    fn explained(&self, name: &Name, incoming: &Incoming<'_>, control: Control<'_>, now: Now) -> Vec<u8> {
        let mut explained = control.tables.explain(name.as_name(), now.ns);
        explained.asker = incoming.face_id;
        if !self.authenticator.is_superuser(&incoming.requester) {
            (explained.cached, explained.pending, explained.is_partial) = (None, Vec::new(), true);
        }
        let routed = control.tables.bpt_routed(name.as_name());
        if let Requester::User(uid) | Requester::Loopback(uid) = &incoming.requester
            && !self.authenticator.may_serve(name.as_name(), routed, &incoming.requester)
        {
            explained.refusal = format!(
                "user {uid} may neither register nor bind {name} without a key: see [authorization] in the \
                 router's configuration"
            );
        }
        if let Requester::User(uid) | Requester::Loopback(uid) = &incoming.requester {
            explained.uid = Some((*uid).into());
            let parameters = ControlParameters { name: Some(name.clone()), ..ControlParameters::default() };
            let told = [Command::RibRegister, Command::BptBind, Command::FacesUpdate];
            explained.rights = told.map(|command| self.right(command, &parameters, incoming, routed)).into();
        }
        encode_blocks(&[explained])
    }

    /// Whether a command would be let through unsigned: by what decides when it comes.
    fn right(
        &self,
        command: Command,
        parameters: &ControlParameters,
        incoming: &Incoming<'_>,
        routed: Option<usize>,
    ) -> ExplainedRight {
        let act = Act::of(command, parameters, incoming.face_id, |_| routed);
        let allowed = self.authenticator.ground(act, &incoming.requester);
        let allowed = allowed.and_then(|ground| not_reserved(command, parameters).map(|()| ground));
        let (is_allowed, why) = allowed.map_or_else(|why| (false, why), |ground| (true, ground));
        ExplainedRight { command: command.to_string(), is_allowed, why, ..ExplainedRight::default() }
    }

    /// What management has counted itself, under the names of `docs/counters.md`; those that are
    /// not zero.
    pub fn own_counters(&self) -> Vec<Counter> {
        let own = self.counters.iter().map(|(name, n)| Counter::new(format!("management.{name}"), n));
        let refused =
            self.refusals().map(|(reason, n)| Counter::new(format!("management.refused.{reason}"), n));
        own.chain(refused).filter(|counter| counter.value > 0).collect()
    }

    fn all_counters(&self, control: Control<'_>) -> Vec<Counter> {
        let of_links = control.neighbors.map(|all| all.counters()).unwrap_or_default();
        let counters = control.tables.counters().into_iter().chain(control.faces.counters());
        let of_disk = control.disk.map(|disk| disk.status().counters).unwrap_or_default();
        let of_disk = of_disk.into_iter().filter(|counter| counter.value > 0);
        let of_disk =
            of_disk.map(|counter| Counter::new(format!("cs_disk.{}", counter.label), counter.value));
        let of_vip = control.vip.map(|vip| vip.status().counters).unwrap_or_default();
        let of_vip = of_vip.into_iter().filter(|counter| counter.value > 0);
        let of_vip = of_vip.map(|counter| Counter::new(format!("vip.{}", counter.label), counter.value));
        counters.chain(of_links).chain(of_disk).chain(of_vip).chain(self.own_counters()).collect()
    }

    fn subscribe(
        &mut self,
        request: EventRequest,
        interest: &InterestView<'_>,
        reader: Reader,
        now: Now,
    ) -> Option<Vec<u8>> {
        let lifetime_ns = interest.lifetime_or_default_ms().saturating_mul(1_000_000);
        match self.events.subscribe(request, reader, lifetime_ns, now.ns) {
            Subscription::Event(data) => return Some(data),
            Subscription::Held => {}
            Subscription::HeldInsteadOfOldest => self.counters.subscriptions_dropped += 1,
            Subscription::Gone => self.counters.events_missed += 1,
        }
        None
    }
}

/// For whom states are kept, and Interests held.
fn reader(incoming: &Incoming<'_>) -> Reader {
    match incoming.requester {
        Requester::User(uid) | Requester::Loopback(uid) => Reader::User(uid),
        Requester::Nameless(_) | Requester::Unknown => Reader::Face(incoming.face_id),
    }
}

/// Refuses what is management's own, to everybody.
fn not_reserved(command: Command, parameters: &ControlParameters) -> Result<(), String> {
    match &parameters.name {
        Some(name) if changes_routes(command) && is_reserved(name.as_name()) => {
            Err(format!("{name} belongs to the router's management"))
        }
        _ => Ok(()),
    }
}

fn changes_routes(command: Command) -> bool {
    matches!(
        command,
        Command::RibRegister
            | Command::RibUnregister
            | Command::RibAnnounce
            | Command::FibAddNexthop
            | Command::FibRemoveNexthop
            | Command::BptBind
            | Command::BptUnbind
    )
}
