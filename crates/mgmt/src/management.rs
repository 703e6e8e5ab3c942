//! The entry point of management: processes an Interest and returns Data.

use std::collections::VecDeque;

use namely_messages::{
    Block, Command, CommandParameters, CommandRequest, ControlParameters, ControlResponse, Counter, Dataset,
    DatasetRequest, EventRequest, ExplainedRight, FaceEventNotification, FaceStatus, Request, RequestError,
    RouterDetails, Scope, encode_blocks, hop_query_name, status_code,
};
use namely_security::{AcceptedCommand, AcceptedCommandStore};
use namely_wire::{InterestView, Name, NameRef};

use crate::announcement::{self, Announced};
use crate::authenticate::{Authenticator, shortened};
use crate::choices::{self, Choices};
use crate::control::{Control, CreateFaceError, CsDisk, FaceSpec, Tables, Vip};
use crate::counters::Counters;
use crate::dataset::{Reader, Snapshots};
use crate::events::{Events, Subscription};
use crate::modules::hop::AnswerRate;
use crate::modules::{self, CommandResult, bad, not_found};
use crate::policy::{Act, Policy, Requester, is_localhost, is_reserved};
use crate::production::Production;
use crate::reply;

/// Faces that are being made for `faces/create` at once.
///
/// # Limit
/// A further command is refused with 504.
/// - Counter: `new_faces_refused`
/// - Tests: `pending_face_creations_are_bounded`
pub const NEW_FACES_MAX: usize = 16;

/// Replaces the disk's error text for a requester that does not manage the router.
const DISK_TROUBLE: &str = "the disk is in trouble: users who may manage the router see the reason";

const NOT_UNDER_LOCALHOP: &str = "only rib commands are taken under /localhop, and only where enabled";

/// NFD's management protocol, without I/O. Call [`Management::handle`] for each Interest that the
/// forwarder delivers for `/localhost/nfd` (and `/localhop/nfd/rib`, if the policy enables it), and
/// [`Management::face_event`] for each change of a face. Send the Data that these methods append to
/// `replies`. The Data must not be cached.
#[derive(Debug)]
pub struct Management {
    version: String,
    start: Now,
    authenticator: Authenticator,
    snapshots: Snapshots,
    /// Datasets that are being made. The first one is continued next.
    productions: VecDeque<Production>,
    events: Events,
    choices: Choices,
    waiting: Vec<Waiting>,
    next_ticket: u64,
    answered: AnswerRate,
    counters: Counters,
}

/// An Interest for management.
#[derive(Clone, Debug)]
pub struct Incoming<'a> {
    /// The Interest's octets.
    pub interest: &'a [u8],
    /// The face that the Interest came from.
    pub face_id: u64,
    /// Whether that face is local. From another face, an Interest under `/localhost` is accepted
    /// only if the kernel reports its user ([`Requester::Loopback`]).
    pub is_local: bool,
    /// The identity of that face's peer.
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

/// Difference between the clocks from which on the wall clock counts as set, ms.
const CLOCK_SET_MS: u64 = 60_000;

impl Now {
    /// The time from here to `later` by the monotonic clock, ms.
    pub fn ms_until(self, later: Now) -> u64 {
        later.ns.saturating_sub(self.ns) / 1_000_000
    }

    /// This time on the wall clock as it is at `later`. If the clock was set in between, this
    /// differs from the value that it had shown. Slow corrections change nothing, so that the
    /// result stays the same for a run of the router.
    pub fn unix_ms_at(self, later: Now) -> u64 {
        let by_present_clock = later.unix_ms.saturating_sub(self.ms_until(later));
        let is_set = by_present_clock.abs_diff(self.unix_ms) > CLOCK_SET_MS;
        if is_set { by_present_clock } else { self.unix_ms }
    }
}

/// A face to make for a `faces/create` command. Making a face may take a while, because a host name
/// must be resolved or a peer must answer. Then call [`Management::face_made`] with the ticket and
/// the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFace {
    /// The ticket of the command.
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

/// A query whether its sender may send another command.
struct CommandQuery<'a> {
    scope: Scope,
    command: Command,
    name: Option<&'a Name>,
}

/// The result of executing a command.
enum Step {
    Done(ControlResponse),
    Make(FaceSpec),
}

impl Management {
    /// Management of a router with the version string `version`, started at `now`. Commands signed
    /// before `now` are refused.
    pub fn new(version: impl Into<String>, policy: Policy, now: Now) -> Self {
        Management {
            version: version.into(),
            start: now,
            authenticator: Authenticator::new(policy, now),
            snapshots: Snapshots::default(),
            productions: VecDeque::new(),
            // Event numbers begin with the start time, so that a restarted router reuses none.
            events: Events::new(now.unix_ms),
            choices: Choices::default(),
            waiting: Vec::new(),
            next_ticket: 0,
            answered: AnswerRate::default(),
            counters: Counters::default(),
        }
    }

    /// Records accepted signed commands in `store`. `former` are the records of the previous run in
    /// the store. Call this method before the first command.
    ///
    /// # Errors
    /// An I/O error. Commands are then accepted without being recorded.
    pub fn record_accepted(
        &mut self,
        store: Box<dyn AcceptedCommandStore>,
        former: &[AcceptedCommand],
        now: Now,
    ) -> std::io::Result<()> {
        self.authenticator.record_accepted(store, former, now)
    }

    /// Replaces the policy. The effects of earlier commands remain.
    pub fn set_policy(&mut self, policy: Policy) {
        self.authenticator.set_policy(policy);
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Refused commands by reason, such as `not_signed` or `replayed`.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.authenticator.refusals().iter().map(|(reason, count)| (*reason, *count))
    }

    /// Returns the prefix of an announcement that came with Data of `object`, if the announcement
    /// is trusted: the policy must have anchors for announcements, and the key of an anchor must
    /// have signed the announcement.
    pub fn shown(&mut self, announcement: &[u8], object: &Name, now: Now) -> Option<Announced> {
        self.authenticator.shown(announcement, object, now)
    }

    /// Processes one Interest and appends answers to `replies`. For a `faces/create` the method
    /// returns the face to make, and [`face_made`](Self::face_made) appends the answer.
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
        if let Some(name) = hop_query_name(interest.name).filter(|name| !is_reserved(*name)) {
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

    /// Answers a hop-by-hop query with this router's next hops of `name`.
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

    /// Returns true if the sender may send requests under the prefix of `interest`.
    fn admits(&self, interest: &InterestView<'_>, incoming: &Incoming<'_>) -> bool {
        incoming.is_local
            || matches!(incoming.requester, Requester::Loopback(_))
            || self.authenticator.has_localhop() && !is_localhost(interest.name)
    }

    /// Answers a requester that may be on another machine.
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
            "this prefix is for users of this machine, and the user of this command is unknown: {why}"
        );
        self.respond(interest.name, &ControlResponse::new(status_code::UNAUTHORIZED, text))
    }

    /// Returns true if a dataset is being made. [`Management::produce`] must be called then.
    pub fn is_producing(&self) -> bool {
        !self.productions.is_empty()
    }

    /// Makes the next part of a long dataset. Process Interests between calls.
    pub fn produce(&mut self, control: Control<'_>, now: Now, replies: &mut Vec<Vec<u8>>) {
        let Some(mut production) = self.productions.pop_front() else { return };
        if production.step(control.tables, now.ns) {
            replies.push(self.publish(production, now));
        } else {
            self.productions.push_back(production);
        }
    }

    /// Removes expired snapshots of datasets. Returns whether any was removed, and the time of the
    /// next call, ns; `None` if no snapshot is left.
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

    /// Removes the traces of a closed face, before its number is used again.
    pub fn face_closed(&mut self, face_id: u64, tables: &dyn Tables) {
        self.choices.release_all(face_id, tables);
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
        if let Some(command) = request.command.queried_command() {
            let query = CommandQuery { scope: request.scope, command, name: parameters.name.as_ref() };
            let response = self.check_right(&query, interest, incoming, control.tables, now);
            return response.map(Step::Done);
        }
        self.allow(request, parameters, interest, incoming, control.tables, now)?;
        if let CommandParameters::Announcement(data) = &request.parameters {
            self.authenticator.believe(data, now)?;
        }
        reply::check_room(interest.name, parameters)?;
        let done = |response: CommandResult| response.map(Step::Done);
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
                done(modules::cs::report(parameters, control, now.ns))
            }
            Command::StrategyChoiceSet | Command::StrategyChoiceUnset => {
                let manages = self.authenticator.ground(Act::Manage, &incoming.requester).is_ok();
                done(self.choices.execute(request.command, parameters, own, manages, control.tables))
            }
            Command::RibRegister | Command::RibAnnounce | Command::RibUnregister => {
                done(self.change_route(request, parameters, own, control, now.ns))
            }
            Command::BptBind => done(modules::bpt::bind(parameters, own, control.tables)),
            Command::BptUnbind => done(modules::bpt::unbind(parameters, own, control.tables)),
            Command::TraceStart => done(modules::trace::start(parameters, own, control)),
            Command::TraceRead => done(modules::trace::read(parameters, control)),
            Command::TraceStop => done(modules::trace::stop(parameters, control)),
            // Queries are handled above, and need no right.
            Command::RightsRegister | Command::RightsBind | Command::RightsManage => {
                Err(bad("this command only asks"))
            }
        }
    }

    fn change_route(
        &mut self,
        request: &CommandRequest<'_>,
        parameters: &ControlParameters,
        own: u64,
        control: Control<'_>,
        now_ns: u64,
    ) -> CommandResult {
        let response = modules::rib::execute(request, parameters, own, control, now_ns)?;
        if request.command == Command::RibUnregister {
            self.choices.route_removed(parameters, own, control.tables);
        }
        Ok(response)
    }

    /// Checks that the sender is authorized for the command.
    fn allow(
        &mut self,
        request: &CommandRequest<'_>,
        parameters: &ControlParameters,
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
        tables: &dyn Tables,
        now: Now,
    ) -> Result<(), ControlResponse> {
        let refuse = |text: String| ControlResponse::new(status_code::UNAUTHORIZED, text);
        let requester = &incoming.requester;
        if request.scope == Scope::Localhop
            && !self.authenticator.answers_localhop(request.command, requester)
        {
            return Err(refuse(NOT_UNDER_LOCALHOP.into()));
        }
        let act = match &parameters.name {
            Some(name) if choices::is_own(request.command, name, incoming.face_id, tables) => {
                Act::ChooseOwn(name.as_name())
            }
            _ => Act::of(request.command, parameters, incoming.face_id, |name| tables.bpt_routed(name)),
        };
        self.authenticator.allow(act, interest, requester, now).map_err(refuse)?;
        not_reserved(request.command, parameters).map_err(refuse)
    }

    /// Reports whether [`allow`](Self::allow) would accept the queried command, if it were signed
    /// like `interest` and concerned the sender's own face.
    fn check_right(
        &mut self,
        query: &CommandQuery<'_>,
        interest: &InterestView<'_>,
        incoming: &Incoming<'_>,
        tables: &dyn Tables,
        now: Now,
    ) -> CommandResult {
        let CommandQuery { scope, command, name } = *query;
        let parameters = ControlParameters { name: name.cloned(), ..ControlParameters::default() };
        if command != Command::FacesUpdate {
            modules::required_name(&parameters)?;
        }
        let requester = &incoming.requester;
        let ground = if scope == Scope::Localhop && !self.authenticator.answers_localhop(command, requester) {
            Err(("localhop", NOT_UNDER_LOCALHOP.into()))
        } else {
            let act = Act::of(command, &parameters, incoming.face_id, |name| tables.bpt_routed(name));
            let ground = self.authenticator.look(act, interest, requester, now);
            let ground = ground.map_err(|refusal| (refusal.cause, refusal.text));
            ground.and_then(|rule| {
                not_reserved(command, &parameters).map(|()| rule).map_err(|why| ("reserved", why))
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
        reply::response(name, response)
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
            let segment = self.snapshots.segment(interest.name, request, now.ns);
            return Some(segment.unwrap_or_else(|| {
                self.counters.segments_missing += 1;
                reply::no_such_data(interest.name)
            }));
        }
        // The answer has the dataset's name with version and segment, so only an Interest with
        // CanBePrefix matches it.
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
            superuser_until_ns.into_iter().for_each(|until_ns| known.superuser_waits(until_ns));
            return None;
        }
        let may_read = match request.dataset {
            Dataset::CsList => is_superuser,
            Dataset::NameExplain => matches!(incoming.requester, Requester::User(_) | Requester::Loopback(_)),
            _ => true,
        };
        if !may_read {
            // These datasets show requests of other users, so only authorized readers receive them.
            self.counters.datasets_unanswerable += 1;
            return Some(reply::no_such_data(interest.name));
        }
        self.counters.datasets += 1;
        let Some(mut production) = Production::new(request.dataset, interest.name, reader(incoming)) else {
            let content = match request.dataset {
                Dataset::NameExplain => self.explained(&request.list.prefix, incoming, control, now),
                Dataset::CsDisk => Self::disk(is_superuser, control),
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
        superuser_until_ns.into_iter().for_each(|until_ns| production.superuser_waits(until_ns));
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
                status.start_ms = self.start.unix_ms_at(now);
                status.current_ms = now.unix_ms;
                status.faces = Some(control.faces.count() as u64);
                let [in_octets, out_octets] = control.faces.octets();
                let (uptime_ms, awaited) = (self.start.ms_until(now), control.faces.awaited());
                let draining = control.draining;
                status.details = Some(RouterDetails { uptime_ms, in_octets, out_octets, awaited, draining });
                status.to_vec()
            }
            Dataset::StatusCounters => encode_blocks(&self.all_counters(control)),
            Dataset::FacesList | Dataset::FacesQuery => modules::faces::list(&request.filter, control.faces),
            Dataset::FacesChannels => modules::faces::channels(control.faces),
            // A `Production` makes these in parts.
            Dataset::FibList | Dataset::RibList => Vec::new(),
            // These depend on the requester: [`Management::explained`], [`Management::disk`].
            Dataset::NameExplain | Dataset::CsDisk => Vec::new(),
            Dataset::StrategyChoiceList => encode_blocks(&control.tables.strategies()),
            Dataset::CsInfo => encode_blocks(&[control.tables.cs_info()]),
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

    /// The status of the content store's disk. Only superusers receive the folder and the pinned
    /// prefixes.
    fn disk(is_superuser: bool, control: Control<'_>) -> Vec<u8> {
        let mut disk: Vec<_> = control.disk.map(CsDisk::status).into_iter().collect();
        for status in disk.iter_mut().filter(|_| !is_superuser) {
            status.folder.clear();
            status.pinned.clear();
            // The text may contain file names.
            status.trouble = status.trouble.take().map(|_| DISK_TROUBLE.to_owned());
        }
        encode_blocks(&disk)
    }

    /// Describes how an Interest for `name` would be processed, limited to the parts that the
    /// requester may see.
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
            let commands = [Command::RibRegister, Command::BptBind, Command::FacesUpdate];
            let rights = commands.map(|command| self.right(command, &parameters, incoming, routed));
            explained.rights = rights.into();
        }
        encode_blocks(&[explained])
    }

    /// Reports whether an unsigned command would be allowed, by the rules for real commands.
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

    /// Management's own counters that are not zero, under the names of `docs/counters.md`.
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
            Subscription::HeldInterest => {}
            Subscription::HeldInsteadOfOldest => self.counters.subscriptions_dropped += 1,
            Subscription::Gone => self.counters.events_missed += 1,
        }
        None
    }
}

/// The reader to which the snapshots and held Interests of a requester are charged.
fn reader(incoming: &Incoming<'_>) -> Reader {
    match incoming.requester {
        Requester::User(uid) | Requester::Loopback(uid) => Reader::User(uid),
        Requester::Nameless(_) | Requester::Unknown => Reader::Face(incoming.face_id),
    }
}

/// Refuses changes of management's own names to every requester.
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
