//! Management over a real forwarder: Interests in, Data out, tables changed.

mod choices;
mod disk;
mod explained;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use namely_forwarder::{
    Config, FaceId, FaceProperties as ForwarderFace, FibLimits, Received, RibLimits, Router, WALK_PLACES,
};
use namely_messages::{
    Block, Command, ControlParameters, ControlResponse, Counter, CsDiskStatus, CsList, CsListQuery, Dataset,
    Explained, ExplainedRight, FaceEventKind, FaceEventNotification, FacePersistency, FaceScope, FaceStatus,
    FibEntry, GeneralStatus, HopAnswer, LinkType, RibEntry, Route, Scope, TraceEntry, blocks, explain_name,
    hop_name, route_flags,
};
use namely_mgmt::{
    BINDINGS_PER_FACE_MAX, BOUND_PREFIX_MAX, Control, CreateFaceError, CsDisk, CsDiskChange, FaceSettings,
    Faces, HOP_ANSWERS_PER_SECOND_MAX, HOP_NEXT_MAX, Incoming, Loopback, Management, NEW_FACES_MAX, NewFace,
    Now, Policy, Requester, Rights, TRACE_TIME_MS_MAX, TracePart, Traces, UpdateFaceError,
};
use namely_security::{Signer, sha256, sign_data, sign_interest};
use namely_wire::{ContentType, DataBuilder, DataView, FaceUri, InterestBuilder, LpHeaders, Name, NameRef};

type Tables = Router<Arc<[u8]>, parking_lot::RawMutex>;

const NOW: Now = Now { ns: 5_000_000_000, unix_ms: 1_800_000_000_000 };
const USER: Requester = Requester::User(1000);

/// Faces without sockets, registered with the forwarder.
struct World {
    tables: Tables,
    faces: RefCell<BTreeMap<u64, FaceStatus>>,
    management: RefCell<Management>,
    disk: Option<Disk>,
    traces: Option<Begun>,
}

/// A disk without a folder.
#[derive(Default)]
struct Disk {
    status: RefCell<CsDiskStatus>,
    erased: RefCell<Vec<Name>>,
}

impl CsDisk for Disk {
    fn status(&self) -> CsDiskStatus {
        self.status.borrow().clone()
    }

    fn configure(&self, change: &CsDiskChange) -> Result<(), String> {
        if change.admission.as_deref().is_some_and(|word| word != "hit" && word != "all") {
            return Err("hit or all".into());
        }
        let mut status = self.status.borrow_mut();
        status.octets_max = change.octets_max.unwrap_or(status.octets_max);
        status.admission = change.admission.clone().unwrap_or_else(|| status.admission.clone());
        Ok(())
    }

    fn erase(&self, prefix: NameRef<'_>) -> Result<(), String> {
        self.erased.borrow_mut().push(prefix.to_name());
        if self.erased.borrow().len() > 1 { Err("one at a time".into()) } else { Ok(()) }
    }

    fn erase_exact(&self, full_name: NameRef<'_>) -> Result<(), String> {
        self.erase(full_name)
    }

    fn pin(&self, prefix: NameRef<'_>) -> Result<(), String> {
        let mut status = self.status.borrow_mut();
        if status.pinned.len() == 1 {
            return Err("one is enough".into());
        }
        status.pinned.push(prefix.to_name());
        Ok(())
    }

    fn unpin(&self, prefix: NameRef<'_>) -> bool {
        let mut status = self.status.borrow_mut();
        let before = status.pinned.len();
        status.pinned.retain(|pinned| pinned.as_name() != prefix);
        status.pinned.len() < before
    }
}

/// Traces with one packet each, and the remark that more follow.
#[derive(Default)]
struct Begun(RefCell<Vec<(Name, u64, u64)>>);

impl Traces for Begun {
    fn start(&self, prefix: &Name, time_ms: u64, face: u64) -> Result<u64, String> {
        self.0.borrow_mut().push((prefix.clone(), time_ms, face));
        Ok(self.0.borrow().len() as u64)
    }

    fn read(&self, trace: u64, octets_max: usize) -> Option<TracePart> {
        let (name, ..) = self.0.borrow().get(trace.checked_sub(1)? as usize)?.clone();
        let entries = vec![TraceEntry { name, octets: octets_max as u64, ..TraceEntry::default() }];
        Some(TracePart { entries, lost: 7, is_more: true })
    }

    fn stop(&self, trace: u64) -> bool {
        self.0.borrow().len() as u64 >= trace
    }
}

fn policy() -> Policy {
    let own = Rights { register: vec![name("/home")], ..Rights::default() };
    Policy {
        superusers: vec![0],
        users: vec![(Some(1000), own)],
        bind_below_local: true,
        ..Policy::default()
    }
}

impl World {
    fn new() -> Self {
        World::with(Config::new(sha256))
    }

    fn with(config: Config) -> Self {
        World {
            tables: Router::new(config, 7).unwrap(),
            faces: RefCell::default(),
            management: RefCell::new(Management::new("test", policy(), NOW)),
            disk: None,
            traces: None,
        }
    }

    fn add_face(&self, uri: &str) -> u64 {
        let id = self.tables.face_register(ForwarderFace::application()).unwrap().0;
        let status = FaceStatus {
            face_id: id,
            uri: uri.into(),
            local_uri: "unix:///x".into(),
            face_scope: FaceScope::Local,
            ..FaceStatus::default()
        };
        self.faces.borrow_mut().insert(id, status);
        id
    }

    fn control(&self) -> Control<'_> {
        Control {
            faces: self,
            tables: &self.tables,
            neighbors: None,
            disk: self.disk.as_ref().map(|disk| disk as &dyn CsDisk),
            vip: None,
            traces: self.traces.as_ref().map(|traces| traces as &dyn Traces),
            draining: None,
        }
    }

    fn ask(&self, interest: &[u8], face_id: u64, requester: Requester) -> (Vec<Vec<u8>>, Option<NewFace>) {
        self.ask_from(interest, face_id, true, requester)
    }

    fn ask_from(
        &self,
        interest: &[u8],
        face_id: u64,
        is_local: bool,
        requester: Requester,
    ) -> (Vec<Vec<u8>>, Option<NewFace>) {
        let mut replies = Vec::new();
        let incoming = Incoming { interest, face_id, is_local, requester };
        let lookup = self.management.borrow_mut().handle(incoming, self.control(), NOW, &mut replies);
        (replies, lookup)
    }

    fn command(
        &self,
        command: Command,
        parameters: &ControlParameters,
        face_id: u64,
        requester: Requester,
    ) -> ControlResponse {
        let interest = signed(command.name(Scope::Localhost, parameters));
        let (replies, new_face) = self.ask(&interest, face_id, requester);
        assert!(new_face.is_none());
        response(&replies[0])
    }

    fn dataset(&self, dataset: Dataset) -> Vec<u8> {
        self.dataset_for(dataset, Requester::Unknown)
    }

    fn dataset_for(&self, dataset: Dataset, requester: Requester) -> Vec<u8> {
        let interest =
            InterestBuilder::new(dataset.prefix(Scope::Localhost)).can_be_prefix().must_be_fresh().build();
        let (replies, _) = self.ask(&interest, 1, requester);
        DataView::parse(&replies[0]).unwrap().content.to_vec()
    }
}

impl Faces for World {
    fn faces(&self) -> Vec<FaceStatus> {
        self.faces.borrow().values().cloned().collect()
    }

    fn count(&self) -> usize {
        self.faces.borrow().len()
    }

    fn face(&self, face: FaceId) -> Option<FaceStatus> {
        self.faces.borrow().get(&face.0).cloned()
    }

    fn update_face(&self, face: FaceId, settings: &FaceSettings) -> Result<FaceStatus, UpdateFaceError> {
        let mut faces = self.faces.borrow_mut();
        let face = faces.get_mut(&face.0).ok_or(UpdateFaceError::NoSuchFace)?;
        face.face_persistency = settings.persistency.unwrap_or(face.face_persistency);
        Ok(face.clone())
    }

    fn destroy_face(&self, face: FaceId) -> Result<(), UpdateFaceError> {
        self.faces.borrow_mut().remove(&face.0).ok_or(UpdateFaceError::NoSuchFace)?;
        self.tables.face_release(face).unwrap();
        Ok(())
    }

    fn counters(&self) -> Vec<Counter> {
        vec![Counter { label: "link.truncated".into(), face_id: Some(300), value: 2 }]
    }

    fn channels(&self) -> Vec<FaceUri> {
        vec![FaceUri::Unix("/x".into())]
    }
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn named(uri: &str) -> ControlParameters {
    ControlParameters { name: Some(name(uri)), ..Default::default() }
}

fn signed(name: Name) -> Vec<u8> {
    sign_interest(&InterestBuilder::new(name), b"", &Signer::digest_sha256(), NOW.unix_ms).unwrap()
}

fn response(wire: &[u8]) -> ControlResponse {
    ControlResponse::decode(DataView::parse(wire).unwrap().content).unwrap()
}

#[test]
fn a_user_registers_only_its_prefix() {
    let world = World::new();
    let (own, other) = (world.add_face("fd://1"), world.add_face("fd://2"));
    let register =
        |parameters: &ControlParameters| world.command(Command::RibRegister, parameters, own, USER);
    assert_eq!(register(&named("/home/x")).code, 200);
    let named_own = ControlParameters { face_id: Some(own), ..named("/home/y") };
    assert_eq!(register(&named_own).code, 200);
    let for_other = ControlParameters { face_id: Some(other), ..named("/home/z") };
    for (parameters, text) in [
        (for_other, "user 1000 may not manage"),
        (named("/work"), "user 1000 may not register /work"),
        (named("/"), "user 1000 may not register /"),
        (named("/localhost/x"), "user 1000 may not register /localhost/x"),
    ] {
        let response = register(&parameters);
        assert_eq!(response.code, 403);
        assert!(response.text.contains(text), "{}", response.text);
    }
    let rib: Vec<RibEntry> = blocks(&world.dataset(Dataset::RibList)).map(Result::unwrap).collect();
    let names: Vec<String> = rib.iter().map(|entry| entry.prefix.to_string()).collect();
    assert_eq!(names, ["/home/x", "/home/y"], "nothing that was refused is there");
    assert!(rib.iter().all(|entry| entry.routes[0].face_id == own));
}

#[test]
fn the_route_limit_is_per_user() {
    let world = World::with(Config {
        rib: RibLimits { routes_per_holder_max: 2, ..RibLimits::default() },
        ..Config::new(sha256)
    });
    let (own, other, root) = (world.add_face("fd://1"), world.add_face("fd://2"), Requester::User(0));
    let register =
        |uri: &str, face, requester| world.command(Command::RibRegister, &named(uri), face, requester);
    assert_eq!(register("/home/x", own, USER).code, 200);
    assert_eq!(register("/home/y", own, USER).code, 200);
    let refused = register("/home/z", own, USER);
    assert_eq!(refused.code, 403);
    assert!(refused.text.contains("rib_routes_per_holder_max"), "{}", refused.text);
    assert_eq!(register("/home/y", own, USER).code, 200, "a route is renewed");
    assert_eq!(register("/home/z", other, USER).code, 200);
    let for_other = ControlParameters { face_id: Some(own), ..named("/home/w") };
    assert_eq!(world.command(Command::RibRegister, &for_other, other, root).code, 200, "by who manages");
    assert_eq!(world.command(Command::RibUnregister, &named("/home/x"), own, USER).code, 200);
    assert_eq!(register("/home/z", own, USER).code, 200);
}

#[test]
fn users_report_data_by_full_name() {
    let world = World::new();
    let own = world.add_face("fd://1");
    let digest = "7".repeat(64);
    let full = named(&format!("/a/sha256digest={digest}"));
    for (requester, code) in [(USER, 200), (Requester::User(0), 200), (Requester::Unknown, 403)] {
        assert_eq!(world.command(Command::CsReport, &full, own, requester).code, code);
    }
    assert_eq!(world.command(Command::CsReport, &named("/a"), own, USER).code, 400);
    assert_eq!(world.command(Command::CsReport, &ControlParameters::default(), own, USER).code, 400);
}

#[test]
fn other_commands_need_the_management_right() {
    let world = World::new();
    let own = world.add_face("fd://1");
    let queries = Command::ALL.iter().filter(|command| command.queried_command().is_some()).count() as u64;
    for command in Command::ALL.iter().filter(|command| command.queried_command().is_none()) {
        let parameters = ControlParameters { face_id: Some(own), ..named("/work") };
        // These are left out: an announcement has no parameters here, and a face may unbind its own
        // prefix and report Data that it received.
        if matches!(command, Command::RibAnnounce | Command::BptUnbind | Command::CsReport) {
            continue;
        }
        assert_eq!(world.command(*command, &parameters, own, USER).code, 403, "{command}");
        assert_eq!(world.command(*command, &parameters, own, Requester::Unknown).code, 403, "{command}");
        assert_ne!(world.command(*command, &parameters, own, Requester::User(0)).code, 403, "{command}");
    }
    let management = world.management.borrow();
    let refused = Command::ALL.len() as u64 - queries - 3;
    assert_eq!(management.counters().commands_refused, 2 * refused);
    let reasons: BTreeMap<_, _> = management.refusals().collect();
    assert_eq!(reasons, BTreeMap::from([("user_not_allowed", refused), ("not_trusted", refused)]));
}

#[test]
fn even_root_cannot_route_reserved_names() {
    let world = World::new();
    let own = world.add_face("fd://1");
    for command in
        [Command::RibRegister, Command::RibUnregister, Command::FibAddNexthop, Command::FibRemoveNexthop]
    {
        for uri in ["/localhost/nfd", "/localhost/nfd/rib", "/localhop/nfd"] {
            let response = world.command(command, &named(uri), own, Requester::User(0));
            assert_eq!(response.code, 403, "{command} {uri}");
        }
    }
    assert_eq!(
        world.command(Command::RibRegister, &named("/localhost/x"), own, Requester::User(0)).code,
        200
    );
}

#[test]
fn localhop_takes_only_rib_commands() {
    for (on, command, code) in [
        (false, Command::RibRegister, 403),
        (true, Command::RibRegister, 200),
        (true, Command::FacesDestroy, 403),
        (true, Command::CsErase, 403),
    ] {
        let world = World::new();
        world.management.borrow_mut().set_policy(Policy { localhop_rib: on, ..policy() });
        let own = world.add_face("fd://1");
        let interest = signed(command.name(Scope::Localhop, &named("/n")));
        let (replies, _) = world.ask(&interest, own, Requester::User(0));
        assert_eq!(response(&replies[0]).code, code, "{on} {command}");
    }
}

#[test]
fn nonlocal_faces_answer_only_identified_users() {
    let world = World::new();
    let own = world.add_face("udp4://127.0.0.1:5000");
    world.management.borrow_mut().set_policy(Policy { loopback: Loopback::Manage, ..policy() });
    let nameless = Requester::Nameless("nobody has the port".into());
    let dataset = |scope, requester| {
        let name = Dataset::StatusGeneral.prefix(scope);
        let interest = InterestBuilder::new(name).can_be_prefix().must_be_fresh().build();
        let (replies, _) = world.ask_from(&interest, own, false, requester);
        DataView::parse(&replies[0]).unwrap().content_type == ContentType::Blob
    };
    let command = |scope, command: Command, requester| {
        let (replies, _) =
            world.ask_from(&signed(command.name(scope, &named("/home/n"))), own, false, requester);
        response(&replies[0])
    };
    let user = || Requester::Loopback(1000);
    for scope in [Scope::Localhost, Scope::Localhop] {
        assert_eq!(command(scope, Command::RibRegister, user()).code, 200, "{scope:?}");
        assert!(dataset(scope, user()), "{scope:?}");
        assert_eq!(command(scope, Command::CsErase, Requester::Loopback(0)).code, 200, "{scope:?}");
        assert_eq!(command(scope, Command::CsErase, user()).code, 403, "{scope:?}");
    }
    let unknown = || world.management.borrow().counters().senders_unknown;
    assert_eq!(unknown(), 0);
    for (i, requester) in [nameless.clone(), Requester::Unknown].into_iter().enumerate() {
        for scope in [Scope::Localhost, Scope::Localhop] {
            let refused = command(scope, Command::RibRegister, requester.clone());
            assert_eq!(refused.code, 403, "{requester:?}");
            assert_eq!(refused.text.contains("nobody has the port"), i == 0, "{}", refused.text);
            assert!(!dataset(scope, requester.clone()), "{requester:?}");
        }
    }
    assert_eq!(unknown(), 8);
    // Other machines that may use /localhop gain no access to /localhost.
    world.management.borrow_mut().set_policy(Policy { localhop_rib: true, ..policy() });
    assert!(dataset(Scope::Localhop, Requester::Unknown) && !dataset(Scope::Localhost, Requester::Unknown));
    assert_eq!(unknown(), 9);
}

#[test]
fn the_response_follows_the_fib_update() {
    let world = World::new();
    let own = world.add_face("fd://1");
    world.command(Command::RibRegister, &named("/home/x"), own, USER);
    let fib: Vec<FibEntry> = blocks(&world.dataset(Dataset::FibList)).map(Result::unwrap).collect();
    assert_eq!(fib.iter().find(|entry| entry.prefix == name("/home/x")).unwrap().next_hops[0].face_id, own);
}

#[test]
fn bound_prefixes_per_face_are_limited() {
    let world = World::new();
    let (own, other) = (world.add_face("fd://1"), world.add_face("fd://2"));
    let bind = |face, i: usize| world.command(Command::BptBind, &named(&format!("/home/{i}")), face, USER);
    for i in 0..BINDINGS_PER_FACE_MAX {
        assert_eq!(bind(own, i).code, 200, "{i}");
    }
    let refused = bind(own, BINDINGS_PER_FACE_MAX);
    assert_eq!(refused.code, 500);
    assert!(refused.text.contains("unbind some"), "{}", refused.text);
    assert_eq!(bind(own, 0).code, 200, "what it has it may ask for again");
    assert_eq!(bind(other, BINDINGS_PER_FACE_MAX).code, 200, "another application is served");
    assert_eq!(world.command(Command::BptUnbind, &named("/home/0"), own, USER).code, 200);
    assert_eq!(bind(own, BINDINGS_PER_FACE_MAX + 1).code, 200);
}

#[test]
fn long_prefixes_cannot_be_bound() {
    let world = World::new();
    let own = world.add_face("fd://1");
    let (octets, components) = BOUND_PREFIX_MAX;
    let bind = |prefix: Name| {
        let parameters = ControlParameters { name: Some(prefix), ..Default::default() };
        world.command(Command::BptBind, &parameters, own, Requester::User(0)).code
    };
    let of_octets = |octets: usize| Name::new().join_generic("a").join_generic(vec![7; octets - 5]);
    assert_eq!(of_octets(octets).as_name().as_bytes().len(), octets);
    assert_eq!((bind(of_octets(octets)), bind(of_octets(octets + 1))), (200, 414));
    let of_components = |n: usize| (0..n).fold(Name::new(), |name, _| name.join_generic("b"));
    assert_eq!(bind(of_components(components + 1)), 414);
    assert_eq!(bind(of_components(components)), 200);
}

fn create(world: &World, host: &str) -> (Vec<u8>, Vec<Vec<u8>>, Option<NewFace>) {
    let parameters = ControlParameters { uri: Some(format!("udp://{host}:7")), ..Default::default() };
    let interest = signed(Command::FacesCreate.name(Scope::Localhost, &parameters));
    let (replies, new_face) = world.ask(&interest, 1, Requester::User(0));
    (interest, replies, new_face)
}

#[test]
fn the_answer_waits_for_the_face() {
    let world = World::new();
    let answer = |ticket, made| {
        let mut replies = Vec::new();
        world.management.borrow_mut().face_made(ticket, made, &mut replies);
        replies
    };
    let (interest, replies, new_face) = create(&world, "router.example");
    let new_face = new_face.unwrap();
    assert_eq!((replies.len(), new_face.spec.remote.to_string().as_str()), (0, "udp://router.example:7"));
    let face = world.face(FaceId(world.add_face("udp4://192.0.2.1:7"))).unwrap();
    let replies = answer(new_face.ticket, Ok(face.clone()));
    let data = DataView::parse(&replies[0]).unwrap();
    assert_eq!(data.name, namely_wire::InterestView::parse(&interest).unwrap().name);
    assert_eq!(response(&replies[0]).parameters().unwrap().unwrap().uri, Some(face.uri.clone()));
    assert!(answer(new_face.ticket, Ok(face.clone())).is_empty(), "a ticket is good once");

    for (error, code) in [
        (CreateFaceError::Exists(Box::new(face)), 409),
        (CreateFaceError::Unsupported("no".into()), 406),
        (CreateFaceError::BadSetting("no"), 406),
        (CreateFaceError::Failed("no such host".into()), 504),
        (CreateFaceError::TooManyFaces, 504),
        (CreateFaceError::Stopped, 504),
    ] {
        let (_, _, new_face) = create(&world, "nowhere.example");
        assert_eq!(response(&answer(new_face.unwrap().ticket, Err(error))[0]).code, code);
    }
}

#[test]
fn pending_face_creations_are_bounded() {
    let world = World::new();
    for n in 0..=NEW_FACES_MAX {
        let (_, replies, new_face) = create(&world, &format!("h{n}"));
        assert_eq!(new_face.is_some(), n < NEW_FACES_MAX, "{n}");
        let codes: Vec<u64> = replies.iter().map(|wire| response(wire).code).collect();
        assert_eq!(codes, vec![504; n / NEW_FACES_MAX]);
    }
    assert_eq!(world.management.borrow().counters().new_faces_refused, 1);
}

#[test]
fn unmatchable_dataset_interests_get_no_answer() {
    let world = World::new();
    let interest = InterestBuilder::new(Dataset::FibList.prefix(Scope::Localhost)).build();
    assert!(world.ask(&interest, 1, USER).0.is_empty());
    assert_eq!(world.management.borrow().counters().datasets_unanswerable, 1);
}

#[test]
fn a_missing_segment_gets_a_nack() {
    let world = World::new();
    let segment = Dataset::FibList.prefix(Scope::Localhost).join_version(5).join_segment(1);
    let (replies, _) = world.ask(&InterestBuilder::new(segment.clone()).build(), 1, USER);
    let data = DataView::parse(&replies[0]).unwrap();
    assert_eq!((data.name, data.content_type), (segment.as_name(), ContentType::Nack));
}

#[test]
fn the_status_reports_version_and_start() {
    let world = World::new();
    let status = GeneralStatus::decode(&world.dataset(Dataset::StatusGeneral)).unwrap();
    assert_eq!(
        (status.version.as_str(), status.start_ms, status.current_ms),
        ("test", NOW.unix_ms, NOW.unix_ms)
    );
}

/// A machine without a clock of its own starts in 1970, and sets the clock later.
#[test]
fn the_uptime_ignores_a_set_clock() {
    let start = Now { ns: 5_000_000_000, unix_ms: 5_000 };
    let later = Now { ns: 65_000_000_000, unix_ms: NOW.unix_ms };
    assert_eq!((start.ms_until(later), start.unix_ms_at(later)), (60_000, NOW.unix_ms - 60_000));
    let slewed = Now { ns: 65_000_000_000, unix_ms: 65_500 };
    assert_eq!(start.unix_ms_at(slewed), 5_000, "a slow correction");
}

#[test]
fn all_counters_are_one_dataset() {
    let world = World::new();
    let own = world.add_face("fd://1");
    world.command(Command::CsErase, &named("/"), own, USER);
    let mut sent = Vec::new();
    let interest = InterestBuilder::new(name("/nowhere")).nonce([1, 2, 3, 4]).build();
    world.tables.receive(FaceId(own), Received::bare(interest.into()), 0, &mut sent);
    let counters = world.dataset(Dataset::StatusCounters);
    let counters: Vec<Counter> = blocks(&counters).collect::<Result<_, _>>().unwrap();
    let value = |label: &str| counters.iter().find(|c| c.label == label).map(|c| (c.face_id, c.value));
    assert_eq!(value("forwarder.no_route"), Some((None, 1)));
    assert_eq!(value("link.truncated"), Some((Some(300), 2)));
    assert_eq!(value("management.commands_refused"), Some((None, 1)));
    assert_eq!(value("management.refused.user_not_allowed"), Some((None, 1)));
    assert_eq!(value("management.commands_failed"), None, "zeros are left out");
}

/// Fills the content store with the answers of one face to another.
fn cache(world: &World, names: &[Name]) {
    let [consumer, producer] = [1, 2].map(|_| FaceId(world.add_face("fd://1")));
    world.tables.rib_register(&name("/"), &Route { face_id: producer.0, ..Route::default() }, 0).unwrap();
    let mut sent = Vec::new();
    for name in names {
        let interest = InterestBuilder::new(name.clone()).nonce([1; 4]).build();
        let data = DataBuilder::new(name.as_name()).freshness_ms(9000);
        let data = sign_data(&data, b"x", &Signer::digest_sha256()).unwrap();
        for (face, packet) in [(consumer, interest), (producer, data)] {
            let received = Received { packet: packet.into(), headers: LpHeaders::default() };
            world.tables.receive(face, received, NOW.ns, &mut sent);
        }
    }
}

#[test]
fn memory_contents_are_listed_in_parts() {
    let world = World::new();
    let mut names: Vec<Name> = (0..600).map(|n| name(&format!("/many/{n}"))).collect();
    names.push(name("/one"));
    cache(&world, &names);
    let part = |query: &CsListQuery, requester: Requester| {
        let interest = InterestBuilder::new(query.name(Scope::Localhost)).can_be_prefix().must_be_fresh();
        let (mut replies, _) = world.ask(&interest.build(), 1, requester.clone());
        let mut content = Vec::new();
        for segment in 1.. {
            let data = DataView::parse(&replies[0]).unwrap();
            if data.content_type == ContentType::Nack {
                return None;
            }
            content.extend_from_slice(data.content);
            if data.final_block_id == data.name.last() {
                break;
            }
            let next = data.name.without_last(1).to_name().join_segment(segment);
            replies = world.ask(&InterestBuilder::new(next).build(), 1, requester.clone()).0;
        }
        blocks::<CsList>(&content).next().map(Result::unwrap)
    };
    let listed = |prefix: &str| {
        let (mut query, mut listed, mut parts) =
            (CsListQuery { prefix: name(prefix), from: 0 }, Vec::new(), 0);
        loop {
            let list = part(&query, Requester::User(0)).expect("root may");
            assert!(list.packets.len() <= 256, "{}", list.packets.len());
            assert!(list.packets.iter().all(|packet| packet.octets > 0 && packet.fresh_ms == 9000));
            listed.extend(list.packets.into_iter().map(|packet| packet.name));
            parts += 1;
            match list.next {
                Some(next) => query.from = next,
                None => break,
            }
        }
        listed.sort();
        (listed, parts)
    };
    names.sort();
    let (all, parts) = listed("/");
    assert!(all == names && parts >= 3, "{} in {parts} parts", all.len());
    assert_eq!(listed("/one").0, [name("/one")]);
    assert_eq!(listed("/none").0, []);
    assert!(part(&CsListQuery::default(), USER).is_none(), "what others asked for is not everybody's");
}

#[test]
fn events_reach_waiting_subscribers() {
    let world = World::new();
    let prefix = namely_messages::EventRequest::prefix(Scope::Localhost);
    let interest = InterestBuilder::new(prefix).can_be_prefix().must_be_fresh().build();
    assert!(world.ask(&interest, 1, USER).0.is_empty(), "held");
    let event = FaceEventNotification {
        kind: FaceEventKind::Created,
        face_id: 300,
        uri: "fd://1".into(),
        local_uri: "unix:///x".into(),
        face_scope: FaceScope::Local,
        face_persistency: FacePersistency::OnDemand,
        link_type: LinkType::PointToPoint,
        flags: 0,
    };
    let mut replies = Vec::new();
    world.management.borrow_mut().face_event(&event, NOW, &mut replies);
    let data = DataView::parse(&replies[0]).unwrap();
    assert_eq!(FaceEventNotification::decode(data.content), Ok(event));
}

/// A client's Interest for a dataset, with a lifetime of a second.
fn wanted(dataset: Dataset) -> Vec<u8> {
    let interest = InterestBuilder::new(dataset.prefix(Scope::Localhost)).can_be_prefix().must_be_fresh();
    interest.lifetime_ms(1000).build()
}

/// A router with routes for `names`, and the face that they lead to.
fn world_with_routes(names: u32) -> (World, u64) {
    let world = World::with(Config {
        rib: RibLimits { routes_max: 300_000, ..RibLimits::default() },
        fib: FibLimits { entries_max: 300_000, ..FibLimits::default() },
        ..Config::new(sha256)
    });
    let face = world.add_face("fd://1");
    for n in 0..names {
        let route = Route { face_id: face, ..Route::default() };
        world.tables.rib_register(&name(&format!("/many/{n}")), &route, 0).unwrap();
    }
    (world, face)
}

/// Makes parts of datasets until one is answered. Returns the number of parts and the answer.
fn produce(world: &World, now: Now) -> (u32, Vec<u8>) {
    let mut replies = Vec::new();
    for steps in 1.. {
        world.management.borrow_mut().produce(world.control(), now, &mut replies);
        if let Some(first) = replies.pop() {
            return (steps, first);
        }
    }
    unreachable!()
}

#[test]
fn root_waits_for_one_dataset_part() {
    const ROUTES: u32 = 200_000;
    let (world, face) = world_with_routes(ROUTES);
    for dataset in [Dataset::RibList, Dataset::FibList] {
        assert_eq!(world.ask(&wanted(dataset), face, USER).0.len(), 0, "it is being made");
        // A second request, from any user, joins the dataset that is being made.
        assert_eq!(world.ask(&wanted(dataset), face, Requester::User(1001)).0.len(), 0);
    }
    assert_eq!(world.management.borrow().counters().datasets_joined, 2);
    // Between two commands at most one part is made, however large the dataset is.
    let parts = ROUTES.div_ceil(WALK_PLACES);
    let mut first = Vec::new();
    for n in 0..parts - 2 {
        world.management.borrow_mut().produce(world.control(), NOW, &mut first);
        if n % 16 == 0 {
            let answer = world.command(Command::RibRegister, &named("/root"), face, Requester::User(0));
            assert_eq!(answer.code, 200);
        }
    }
    assert!(first.is_empty() && world.management.borrow().is_producing());
    let (steps, one) = produce(&world, NOW);
    let (more, other) = produce(&world, NOW);
    assert!((steps + more).abs_diff(parts) <= 2, "{steps} {more}");
    assert!(!world.management.borrow().is_producing());
    // The answer is complete, and all its segments show one state.
    for first in [one, other].iter().filter(|first| first.windows(3).any(|part| part == b"rib")) {
        let data = DataView::parse(first).unwrap();
        let prefix = data.name.without_last(1).to_name();
        let mut content = data.content.to_vec();
        for segment in 1.. {
            let next = InterestBuilder::new(prefix.clone().join_segment(segment)).build();
            let next = world.ask(&next, face, USER).0.remove(0);
            let next = DataView::parse(&next).unwrap();
            if next.content_type != ContentType::Blob {
                break;
            }
            content.extend_from_slice(next.content);
        }
        assert_eq!(blocks::<RibEntry>(&content).filter(Result::is_ok).count() as u32, ROUTES + 1);
    }
}

#[test]
fn root_receives_the_present_state() {
    let (world, face) = world_with_routes(3 * WALK_PLACES);
    assert!(world.ask(&wanted(Dataset::RibList), face, USER).0.is_empty());
    let mut nothing = Vec::new();
    world.management.borrow_mut().produce(world.control(), NOW, &mut nothing);
    // The new route's name precedes all names that were read so far.
    world.command(Command::RibRegister, &named("/a"), face, Requester::User(0));
    assert!(
        nothing.is_empty() && world.ask(&wanted(Dataset::RibList), face, Requester::User(0)).0.is_empty()
    );
    let (steps, first) = produce(&world, NOW);
    let content = DataView::parse(&first).unwrap().content.to_vec();
    let entry = blocks::<RibEntry>(&content).next().unwrap().unwrap();
    assert_eq!((entry.prefix, steps), (name("/a"), 4), "it was begun anew");

    // A client whose Interest expired before the answer was ready receives that answer once, and
    // then a new one.
    assert!(world.ask(&wanted(Dataset::RibList), face, Requester::User(0)).0.is_empty());
    let later = Now { ns: NOW.ns + 1_000_000_000, ..NOW };
    let (_, first) = produce(&world, later);
    let again = Incoming {
        interest: &wanted(Dataset::RibList),
        face_id: face,
        is_local: true,
        requester: Requester::User(0),
    };
    for expected in [Some(first), None] {
        let mut replies = Vec::new();
        world.management.borrow_mut().handle(again.clone(), world.control(), later, &mut replies);
        assert_eq!(replies.pop(), expected);
    }
}

#[test]
fn management_survives_any_octets() {
    use proptest::prelude::*;
    let world = World::new();
    let valid = signed(Command::RibRegister.name(Scope::Localhost, &named("/home/x")));
    proptest!(ProptestConfig::with_cases(200), |(at in any::<usize>(), octet: u8, cut in any::<usize>())| {
        let mut mutated = valid.clone();
        mutated[at % valid.len()] = octet;
        mutated.truncate(cut % (valid.len() + 1));
        world.ask(&mutated, 1, USER);
    });
    let counters = world.management.borrow().counters();
    assert!(counters.not_management > 0);
}
