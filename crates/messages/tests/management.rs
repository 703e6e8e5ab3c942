//! NFD management: octets written by hand from the protocol's numbers, round trips of every block,
//! and the requests that a router must distinguish.

use namely_messages::*;
use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{Component, DecodeError, InterestBuilder, InterestView, Name, SignatureInfo};
use proptest::prelude::*;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn parse(wire: &[u8]) -> Result<Request<'_>, RequestError> {
    Request::parse(&InterestView::parse(wire).unwrap())
}

#[test]
fn parameters_match_the_protocols_encoding() {
    let register = ControlParameters {
        name: Some(name("/a")),
        face_id: Some(1),
        origin: Some(RouteOrigin::STATIC),
        cost: Some(10),
        flags: Some(route_flags::CHILD_INHERIT | route_flags::CAPTURE),
        expiration_period_ms: Some(3_600_000),
        ..Default::default()
    };
    let octets = [
        104, 23, 7, 3, 8, 1, b'a', 105, 1, 1, 111, 1, 255, 106, 1, 10, 108, 1, 3, 109, 4, 0x00, 0x36, 0xee,
        0x80,
    ];
    assert_eq!(register.to_vec(), octets);
    assert_eq!(ControlParameters::decode(&octets), Ok(register));

    let set = ControlParameters {
        name: Some(name("/")),
        strategy: Some(name("/s")),
        mask: Some(2),
        face_persistency: Some(FacePersistency::Permanent),
        mtu: Some(1400),
        ..Default::default()
    };
    let octets = [104, 19, 7, 0, 112, 1, 2, 107, 5, 7, 3, 8, 1, b's', 133, 1, 2, 137, 2, 0x05, 0x78];
    assert_eq!(set.to_vec(), octets);
    assert_eq!(ControlParameters::decode(&octets), Ok(set));
}

#[test]
fn parameters_are_decoded_in_any_order() {
    let octets = [104, 9, 106, 1, 7, 105, 1, 5, 106, 1, 8];
    let expected = ControlParameters { face_id: Some(5), cost: Some(7), ..Default::default() };
    assert_eq!(ControlParameters::decode(&octets), Ok(expected));
}

#[test]
fn an_unknown_critical_parameter_is_refused() {
    assert_eq!(ControlParameters::decode(&[104, 2, 201, 0]), Err(DecodeError::UnknownCritical(201)));
    assert_eq!(ControlParameters::decode(&[104, 2, 200, 0]), Ok(ControlParameters::default()));
}

#[test]
fn parameters_out_of_range_are_refused() {
    assert_eq!(ControlParameters::decode(&[104, 3, 133, 1, 3]), Err(DecodeError::OutOfRange(133)));
    assert_eq!(ControlParameters::decode(&[104, 3, 114, 1, 0xff]), Err(DecodeError::BadText));
    assert_eq!(ControlParameters::decode(&[104, 5, 105, 3, 1, 2, 3]), Err(DecodeError::BadInteger));
    assert_eq!(ControlParameters::decode(&[104, 4, 107, 2, 8, 0]), Err(DecodeError::Missing(NAME)));
    assert_eq!(ControlParameters::decode(&[104, 3, 105, 2, 1]), Err(DecodeError::Truncated));
}

#[test]
fn a_response_matches_the_protocols_encoding() {
    let parameters = ControlParameters { face_id: Some(256), ..Default::default() };
    let response = ControlResponse::ok(&parameters);
    let octets = [101, 13, 102, 1, 200, 103, 2, b'O', b'K', 104, 4, 105, 2, 1, 0];
    assert_eq!(response.to_vec(), octets);
    let decoded = ControlResponse::decode(&octets).unwrap();
    assert!(decoded.is_ok());
    assert_eq!(decoded.parameters(), Ok(Some(parameters)));

    let refused = ControlResponse::new(status_code::UNAUTHORIZED, "no");
    assert_eq!(refused.parameters(), Ok(None));
    assert_eq!(ControlResponse::decode(&refused.to_vec()), Ok(refused));
    assert_eq!(ControlResponse::decode(&[101, 3, 102, 1, 200]), Err(DecodeError::Missing(103)));
}

#[test]
fn dataset_entries_match_the_protocols_encoding() {
    let fib = FibEntry {
        prefix: name("/a"),
        next_hops: vec![NextHop { face_id: 1, cost: 2 }, NextHop { face_id: 300, cost: 0 }],
    };
    let octets = [128, 22, 7, 3, 8, 1, b'a', 129, 6, 105, 1, 1, 106, 1, 2, 129, 7, 105, 2, 1, 44, 106, 1, 0];
    assert_eq!(fib.to_vec(), octets);
    assert_eq!(FibEntry::decode(&octets), Ok(fib));

    let channel = ChannelStatus { local_uri: "fd://3".into() };
    assert_eq!(channel.to_vec(), [130, 8, 129, 6, b'f', b'd', b':', b'/', b'/', b'3']);

    let mut info = CsInfo { capacity: 20_000, flags: 3, entries: 5, hits: 6, misses: 7, policy: None };
    let octets = [128, 16, 131, 2, 0x4e, 0x20, 108, 1, 3, 135, 1, 5, 129, 1, 6, 130, 1, 7];
    assert_eq!(info.to_vec(), octets);
    assert_eq!(CsInfo::decode(&octets), Ok(info.clone()));
    info.policy = Some("lru".into());
    let with_policy = [&[128, 21][..], &octets[2..], &[204, 3, b'l', b'r', b'u']].concat();
    assert_eq!(info.to_vec(), with_policy);
    assert_eq!(CsInfo::decode(&with_policy), Ok(info));

    let choice = StrategyChoice { prefix: name("/"), strategy: name("/s") };
    assert_eq!(choice.to_vec(), [128, 9, 7, 0, 107, 5, 7, 3, 8, 1, b's']);
}

#[test]
fn a_vip_status_survives_a_round_trip() {
    let status = VipStatus {
        router: "lab".into(),
        key: vec![7; 32],
        is_open: true,
        slot: 9,
        period_ms: 5000,
        catalogue: "/etc/blocks.tsv".into(),
        version: 3,
        objects: 400,
        blocks: 6000,
        files: 60_000,
        octets: u64::MAX,
        room: 1 << 40,
        disk_room: Some(u64::MAX),
        disk_octets_per_s: Some(1),
        counters: vec![Counter::new("slots", 9)],
    };
    assert_eq!(VipStatus::decode(&status.to_vec()), Ok(status.clone()));
    let closed =
        VipStatus { is_open: false, disk_room: None, disk_octets_per_s: None, counters: vec![], ..status };
    assert_eq!(VipStatus::decode(&closed.to_vec()), Ok(closed));
    let object = VipObject {
        name: "/a#1".into(),
        id: u64::MAX,
        octets: 1,
        count: 2,
        score: 3,
        asked: 4,
        held: 5,
        tier: Some(0),
        is_source: true,
        face_id: Some(300),
    };
    assert_eq!(VipObject::decode(&object.to_vec()), Ok(object.clone()));
    let elsewhere = VipObject { tier: None, is_source: false, face_id: None, ..object };
    assert_eq!(VipObject::decode(&elsewhere.to_vec()), Ok(elsewhere));
    let neighbour = VipNeighbour {
        remote: "udp4://192.0.2.1:6363".into(),
        router: "desk".into(),
        face_id: Some(300),
        boot: Some(u64::MAX),
        fresh_ms: Some(10),
        under_way: 1 << 20,
        slots_under_way: 1,
        entered: 8,
        counters: vec![Counter::new("refused", 1)],
    };
    assert_eq!(VipNeighbour::decode(&neighbour.to_vec()), Ok(neighbour));
    let silent = VipNeighbour { remote: "udp4://192.0.2.2:6363".into(), ..VipNeighbour::default() };
    assert_eq!(VipNeighbour::decode(&silent.to_vec()), Ok(silent));
    assert_eq!(VipObject::decode(&[128, 0]), Err(DecodeError::Missing(304)));
}

#[test]
fn a_disk_status_survives_a_round_trip() {
    let disk = CsDiskStatus {
        folder: "/d".into(),
        engine: "threads".into(),
        trouble: None,
        admission: "hit".into(),
        queue: "fifo".into(),
        threshold: 64,
        pending: 2,
        octets_max: 300,
        octets: 5,
        records: 1,
        memory_octets: 32,
        pinned: vec![name("/a"), name("/")],
        counters: vec![Counter::new("hits", 7)],
    };
    let wire = disk.to_vec();
    assert_eq!(CsDiskStatus::decode(&wire), Ok(disk.clone()));
    assert_eq!((disk.count("hits"), disk.count("misses")), (7, 0));
    let with_trouble = CsDiskStatus { trouble: Some("full".into()), ..disk };
    assert_eq!(CsDiskStatus::decode(&with_trouble.to_vec()), Ok(with_trouble));
    assert_eq!(CsDiskStatus::decode(&[128, 3, 232, 1, b'/']), Err(DecodeError::Missing(234)));
    // Older routers and NFD skip these unknown elements, because only odd TYPEs are critical.
    let mut rest = &wire[2..];
    while let [typ, length, ..] = rest {
        assert_eq!(typ % 2, 0, "{typ}");
        rest = &rest[2 + usize::from(*length)..];
    }
}

#[test]
fn a_newer_routers_dataset_is_readable() {
    let entry = CsInfo::default();
    let mut value = Writer::new();
    entry.encode_value(&mut value);
    value.nni(201, 1);
    let mut content = Writer::new();
    content.tlv(CsInfo::TYPE, value.as_bytes());
    entry.encode(&mut content);
    let entries: Result<Vec<CsInfo>, _> = blocks(content.as_bytes()).collect();
    assert_eq!(entries, Ok(vec![entry.clone(), entry]));
}

#[test]
fn a_dataset_ends_at_its_first_error() {
    let mut content = CsInfo::default().to_vec();
    content.extend([128, 200, 1]);
    let entries: Vec<Result<CsInfo, _>> = blocks(&content).collect();
    assert_eq!(entries, [Ok(CsInfo::default()), Err(DecodeError::Truncated)]);

    let entries: Vec<Result<ChannelStatus, _>> = blocks(&[128, 0, 128, 0]).collect();
    assert_eq!(entries, [Err(DecodeError::UnexpectedType(128))]);
}

#[test]
fn every_command_is_parsed_from_its_name() {
    let parameters = ControlParameters { face_id: Some(9), ..Default::default() };
    for scope in [Scope::Localhost, Scope::Localhop] {
        for command in Command::ALL.iter().copied().filter(|c| *c != Command::RibAnnounce) {
            let unsigned = InterestBuilder::new(command.name(scope, &parameters)).build();
            let expected = CommandRequest {
                scope,
                command,
                parameters: CommandParameters::Control(Box::new(parameters.clone())),
            };
            assert_eq!(parse(&unsigned), Ok(Request::Command(expected.clone())));
            let signed = InterestBuilder::new(command.name(scope, &parameters))
                .build_signed(&[], &SignatureInfo::digest_sha256(), |_| Ok::<_, ()>(vec![0; 32]), |_| [0; 32])
                .unwrap();
            assert_eq!(parse(&signed), Ok(Request::Command(expected)));
        }
    }
    assert_eq!(
        Command::RibRegister.name(Scope::Localhost, &parameters).to_string(),
        "/localhost/nfd/rib/register/h%03i%01%09"
    );
}

#[test]
fn an_older_signed_command_is_parsed() {
    // Packet format 0.2 put timestamp, nonce, SignatureInfo and SignatureValue behind the
    // parameters.
    let parameters = ControlParameters { name: Some(name("/p")), ..Default::default() };
    let older = Command::RibRegister
        .name(Scope::Localhost, &parameters)
        .join_generic(1_700_000_000_000u64.to_be_bytes())
        .join_generic([1; 8])
        .join_generic([22, 3, 27, 1, 0])
        .join_generic([23, 0]);
    let wire = InterestBuilder::new(older).build();
    let Ok(Request::Command(request)) = parse(&wire) else { panic!("not a command") };
    assert_eq!(request.command, Command::RibRegister);
    assert_eq!(request.parameters, CommandParameters::Control(Box::new(parameters)));
}

#[test]
fn an_announcement_is_in_application_parameters() {
    let prefix = Command::RibAnnounce.prefix(Scope::Localhop);
    let wire = InterestBuilder::new(prefix.clone()).build_with_parameters(b"announcement", |_| [0; 32]);
    let Ok(Request::Command(request)) = parse(&wire) else { panic!("not a command") };
    assert_eq!((request.scope, request.command), (Scope::Localhop, Command::RibAnnounce));
    assert_eq!(request.parameters, CommandParameters::Announcement(b"announcement"));

    let empty = InterestBuilder::new(prefix).build_with_parameters(b"", |_| [0; 32]);
    assert_eq!(parse(&empty), Err(RequestError::NoParameters));
}

#[test]
fn every_dataset_is_parsed_from_its_name() {
    let asks_for_less = [Dataset::FacesQuery, Dataset::CsList, Dataset::NameExplain];
    for dataset in Dataset::ALL.iter().copied().filter(|d| !asks_for_less.contains(d)) {
        let prefix = dataset.prefix(Scope::Localhost);
        for (suffix, version, segment) in
            [("/", None, None), ("/v=5", Some(5), None), ("/v=5/seg=2", Some(5), Some(2))]
        {
            let wire = InterestBuilder::new(prefix.join_name(name(suffix).as_name())).build();
            let expected = DatasetRequest {
                scope: Scope::Localhost,
                dataset,
                filter: FaceQueryFilter::default(),
                list: CsListQuery::default(),
                prefix_components: prefix.len(),
                version,
                segment,
            };
            assert_eq!(parse(&wire), Ok(Request::Dataset(expected)));
        }
    }
}

#[test]
fn an_explain_request_carries_the_name() {
    let wire = InterestBuilder::new(explain_name(Scope::Localhost, &name("/lab/run7"))).build();
    let Ok(Request::Dataset(request)) = parse(&wire) else { panic!("not a dataset") };
    assert_eq!((request.dataset, request.list.prefix), (Dataset::NameExplain, name("/lab/run7")));
    let nothing = InterestBuilder::new(Dataset::NameExplain.prefix(Scope::Localhost)).build();
    assert_eq!(parse(&nothing), Err(RequestError::NoParameters));
}

#[test]
fn a_cs_list_query_has_prefix_and_offset() {
    let query = CsListQuery { prefix: name("/lab/run7"), from: 300 };
    let wire = InterestBuilder::new(query.name(Scope::Localhost).join_version(7)).build();
    let Ok(Request::Dataset(request)) = parse(&wire) else { panic!("not a dataset") };
    assert_eq!((request.dataset, request.list, request.version), (Dataset::CsList, query, Some(7)));
    let nothing = InterestBuilder::new(Dataset::CsList.prefix(Scope::Localhost)).build();
    assert_eq!(parse(&nothing), Err(RequestError::NoParameters));

    let packets = vec![CsPacket { name: name("/a"), octets: 300, fresh_ms: 0 }, CsPacket::default()];
    let mut list = CsList { next: Some(70_000), packets };
    let wire = list.to_vec();
    assert_eq!(wire[..8], [128, 34, 250, 4, 0, 1, 0x11, 0x70]);
    assert_eq!(CsList::decode(&wire), Ok(list.clone()));
    (list.next, list.packets) = (None, Vec::new());
    assert_eq!((list.to_vec(), CsList::decode(&[128, 0])), (vec![128, 0], Ok(list)));
}

#[test]
fn a_signed_dataset_request_keeps_its_name() {
    for (prefix, components) in [
        (Dataset::FibList.prefix(Scope::Localhost), 5),
        (FaceQueryFilter::default().name(Scope::Localhost), 6),
    ] {
        let wire = InterestBuilder::new(prefix).build_with_parameters(b"", |_| [0; 32]);
        let Ok(Request::Dataset(request)) = parse(&wire) else { panic!("not a dataset") };
        assert_eq!((request.prefix_components, request.version), (components, None));
        let first = InterestView::parse(&wire).unwrap().name.to_name().join_version(7).join_segment(1);
        let Ok(Request::Dataset(request)) = parse(&InterestBuilder::new(first).build()) else {
            panic!("not a segment of a dataset")
        };
        assert_eq!(
            (request.prefix_components, request.version, request.segment),
            (components, Some(7), Some(1))
        );
    }
}

#[test]
fn a_face_query_name_carries_its_filter() {
    let filter = FaceQueryFilter { uri_scheme: Some("udp4".into()), ..Default::default() };
    let wire = InterestBuilder::new(filter.name(Scope::Localhost).join_version(7)).build();
    let Ok(Request::Dataset(request)) = parse(&wire) else { panic!("not a dataset") };
    assert_eq!(
        (request.dataset, request.version, request.prefix_components),
        (Dataset::FacesQuery, Some(7), 5)
    );
    assert_eq!(request.filter, filter);

    let bare = InterestBuilder::new(Dataset::FacesQuery.prefix(Scope::Localhost)).build();
    assert_eq!(parse(&bare), Err(RequestError::NoParameters));
}

#[test]
fn a_filter_matches_its_fields() {
    let face = face_status();
    let matches = |filter: FaceQueryFilter| filter.matches(&face);
    assert!(matches(FaceQueryFilter::default()));
    assert!(matches(FaceQueryFilter { uri_scheme: Some("tcp4".into()), ..Default::default() }));
    assert!(!matches(FaceQueryFilter { uri_scheme: Some("tcp".into()), ..Default::default() }));
    assert!(matches(FaceQueryFilter { face_id: Some(face.face_id), ..Default::default() }));
    assert!(!matches(FaceQueryFilter { face_id: Some(face.face_id + 1), ..Default::default() }));
    assert!(!matches(FaceQueryFilter { link_type: Some(LinkType::AdHoc), ..Default::default() }));
    assert!(!matches(FaceQueryFilter { face_scope: Some(FaceScope::Local), ..Default::default() }));
    assert!(!matches(FaceQueryFilter { local_uri: Some("x".into()), ..Default::default() }));
}

#[test]
fn face_event_names_are_numbered() {
    for (uri, seq_num) in [("", None), ("/seq=12", Some(12)), ("/12", None)] {
        let wire = InterestBuilder::new(name(&format!("/localhost/nfd/faces/events{uri}"))).build();
        assert_eq!(parse(&wire), Ok(Request::FaceEvents(EventRequest { seq_num })));
    }
    assert_eq!(EventRequest::name(Scope::Localhost, 12).to_string(), "/localhost/nfd/faces/events/seq=12");
}

#[test]
fn invalid_request_names_return_a_reason() {
    let why = |n: Name| parse(&InterestBuilder::new(n).build()).unwrap_err();
    assert_eq!(why(name("/a")), RequestError::NotManagement);
    assert_eq!(why(name("/localhost")), RequestError::NotManagement);
    assert_eq!(why(name("/localhost/nfdx/rib/register")), RequestError::NotManagement);
    assert_eq!(why(name("/32=localhost/nfd/rib/register")), RequestError::NotManagement);
    assert_eq!(why(name("/localhost/nfd")), RequestError::Unknown);
    assert_eq!(why(name("/localhost/nfd/rib")), RequestError::Unknown);
    assert_eq!(why(name("/localhost/nfd/rib/regist")), RequestError::Unknown);
    assert_eq!(why(name("/localhost/nfd/32=rib/register")), RequestError::Unknown);
    assert_eq!(why(name("/localhost/nfd/rib/register")), RequestError::NoParameters);
    assert_eq!(why(name("/localhost/nfd/rib/register/32=x")), RequestError::NoParameters);
    assert_eq!(why(name("/localhost/nfd/rib/register/h")), RequestError::Malformed(DecodeError::Truncated));
    let two = Command::RibRegister.prefix(Scope::Localhost).join(Component::generic(&[104, 0, 104, 0]));
    assert_eq!(why(two), RequestError::Malformed(DecodeError::TrailingOctets));
}

#[test]
fn enum_words_and_numbers_agree() {
    for value in FacePersistency::ALL {
        assert_eq!(FacePersistency::from_number(value.number()), Some(*value));
        assert_eq!(value.to_string().parse(), Ok(*value));
    }
    assert_eq!(FaceEventKind::from_number(0), None);
    assert_eq!(FaceEventKind::Down.number(), 4);
    assert_eq!(LinkType::AdHoc.number(), 2);
    assert_eq!(FaceScope::Local.number(), 1);
    assert_eq!("static".parse(), Ok(RouteOrigin(255)));
    assert_eq!("77".parse(), Ok(RouteOrigin(77)));
    assert_eq!("none".parse::<RouteOrigin>(), Err(DecodeError::BadText));
    assert_eq!(RouteOrigin(129).to_string(), "prefixann");
    assert_eq!(RouteOrigin(77).to_string(), "77");
}

fn face_status() -> FaceStatus {
    FaceStatus {
        face_id: 260,
        uri: "tcp4://192.0.2.1:6363".into(),
        local_uri: "tcp4://192.0.2.2:50000".into(),
        expiration_period_ms: None,
        face_scope: FaceScope::NonLocal,
        face_persistency: FacePersistency::Persistent,
        link_type: LinkType::PointToPoint,
        base_congestion_marking_interval_ns: Some(100_000_000),
        default_congestion_threshold_octets: Some(65_536),
        mtu: None,
        in_interests: 1,
        in_data: 2,
        in_nacks: 3,
        out_interests: 4,
        out_data: 5,
        out_nacks: 6,
        in_octets: 7,
        out_octets: 8,
        flags: face_flags::CONGESTION_MARKING,
        details: None,
    }
}

#[test]
fn face_details_name_the_program() {
    let unanswered =
        Some(FaceUnanswered { idle_ms: 9000, waiting_ms: Some(8000), interests: 3, failures: 2 });
    let details = |pid, user: Option<&str>| FaceDetails {
        state: FaceState::Down,
        unanswered,
        program: Some("namely".into()),
        pid,
        uid: Some(1007),
        user: user.map(str::to_owned),
        ..FaceDetails::default()
    };
    for (pid, user, text) in [
        (Some(4711), Some("lab"), "namely (pid 4711, lab)"),
        (Some(4711), None, "namely (pid 4711, user 1007)"),
        (None, Some("lab"), "namely (lab)"),
    ] {
        let status = FaceStatus { details: Some(details(pid, user)), ..face_status() };
        let read = FaceStatus::decode(&status.to_vec()).unwrap();
        assert_eq!((read.process().as_deref(), read.state()), (Some(text), Some(FaceState::Down)));
        assert_eq!(read, status);
        assert_eq!(read.unanswered(), unanswered);
    }
    assert_eq!(face_status().remote_text(), "tcp4://192.0.2.1:6363");
    assert_eq!(face_status().unanswered(), None);
}

#[test]
fn face_status_and_events_survive_a_round_trip() {
    let status = face_status();
    assert_eq!(FaceStatus::decode(&status.to_vec()), Ok(status.clone()));
    assert_eq!(FaceStatus::decode(&[128, 3, 105, 1, 1]), Err(DecodeError::Missing(114)));
    let event = FaceEventNotification {
        kind: FaceEventKind::Created,
        face_id: status.face_id,
        uri: status.uri,
        local_uri: status.local_uri,
        face_scope: status.face_scope,
        face_persistency: status.face_persistency,
        link_type: status.link_type,
        flags: 0,
    };
    assert_eq!(event.to_vec()[..5], [192, 66, 193, 1, 1]);
    assert_eq!(FaceEventNotification::decode(&event.to_vec()), Ok(event));
}

#[test]
fn the_general_status_survives_a_round_trip() {
    let status = GeneralStatus {
        version: "namely 0.1".into(),
        start_ms: 1_700_000_000_000,
        current_ms: 1_700_000_000_500,
        cs_entries: 7,
        in_data: 1 << 40,
        unsatisfied_interests: 3,
        routes: Some(5),
        faces: None,
        details: Some(RouterDetails {
            uptime_ms: 7,
            in_octets: 8,
            out_octets: 9,
            awaited: vec!["dev://late0".into(), "dev://late1".into()],
            draining: Some(0),
        }),
        ..Default::default()
    };
    assert_eq!(status.uptime_ms(), 7, "the wall clock was set since the start");
    assert_eq!(GeneralStatus { details: None, ..status.clone() }.uptime_ms(), 500);
    assert_eq!(GeneralStatus::decode(&status.to_vec()), Ok(status));
    assert_eq!(GeneralStatus::decode(&[]), Err(DecodeError::Missing(128)));
}

fn any_name() -> impl Strategy<Value = Name> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..4).prop_map(|parts| {
        let mut name = Name::new();
        parts.iter().for_each(|p| {
            name.push(Component::generic(p));
        });
        name
    })
}

prop_compose! {
    fn any_parameters()(
        name in prop::option::of(any_name()),
        strategy in prop::option::of(any_name()),
        uri in prop::option::of("[ -~]{0,20}"),
        local_uri in prop::option::of("\\PC{0,10}"),
        cs_policy in prop::option::of("[a-z0-9-]{0,8}"),
        numbers in prop::array::uniform16(prop::option::of(any::<u64>())),
        words in prop::array::uniform2(prop::option::of("[a-z-]{0,8}")),
        persistency in prop::option::of(0u64..3),
    ) -> ControlParameters {
        ControlParameters {
            name, strategy, uri, local_uri, cs_policy,
            face_id: numbers[0],
            origin: numbers[1].map(RouteOrigin),
            cost: numbers[2],
            capacity: numbers[3],
            count: numbers[4],
            flags: numbers[5],
            mask: numbers[6],
            expiration_period_ms: numbers[7],
            base_congestion_marking_interval_ns: numbers[8],
            default_congestion_threshold_octets: numbers[9],
            mtu: numbers[10],
            cs_disk_octets: numbers[11],
            cs_disk_threshold: numbers[12],
            cs_disk_admission: words[0].clone(),
            cs_disk_queue: words[1].clone(),
            trace_id: numbers[0],
            face_persistency: persistency.and_then(FacePersistency::from_number),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parameters_survive_a_round_trip(parameters in any_parameters()) {
        prop_assert_eq!(ControlParameters::decode(&parameters.to_vec()), Ok(parameters));
    }

    #[test]
    fn a_rib_survives_a_round_trip(
        entries in prop::collection::vec(
            (any_name(), prop::collection::vec(any::<(u64, u64, u64, u64, Option<u64>)>(), 0..4)),
            0..4,
        ),
    ) {
        let route = |(face_id, origin, cost, flags, expiration_period_ms)| Route {
            face_id, origin: RouteOrigin(origin), cost, flags, expiration_period_ms,
        };
        let entries: Vec<RibEntry> = entries
            .into_iter()
            .map(|(prefix, routes)| RibEntry { prefix, routes: routes.into_iter().map(route).collect() })
            .collect();
        let decoded: Result<Vec<RibEntry>, _> = blocks(&encode_blocks(&entries)).collect();
        prop_assert_eq!(decoded, Ok(entries));
    }

    #[test]
    fn arbitrary_octets_never_panic_a_decoder(octets in prop::collection::vec(any::<u8>(), 0..64), typ in 101u8..200) {
        let _ = ControlParameters::decode_value(&octets);
        let _ = ControlResponse::decode_value(&octets);
        let _ = GeneralStatus::decode(&octets);
        let mut typed = vec![typ, octets.len() as u8];
        typed.extend(&octets);
        prop_assert!(blocks::<FaceStatus>(&typed).count() <= octets.len() + 1);
        prop_assert!(blocks::<RibEntry>(&typed).count() <= octets.len() + 1);
        prop_assert!(blocks::<FibEntry>(&typed).count() <= octets.len() + 1);
    }
}

#[test]
fn a_counter_belongs_to_router_or_face() {
    for face_id in [None, Some(300)] {
        let counter = namely_messages::Counter { label: "link.truncated".into(), face_id, value: 70_000 };
        assert_eq!(namely_messages::Counter::decode(&counter.to_vec()), Ok(counter));
    }
}

/// ndn-cxx's Controller takes any code below 400 for success; NLSR answers 205.
#[test]
fn responses_from_400_are_refusals() {
    for (code, is_ok) in
        [(200, true), (205, true), (399, true), (400, false), (403, false), (504, false), (0, false)]
    {
        assert_eq!(ControlResponse::new(code, "").is_ok(), is_ok, "{code}");
    }
}
