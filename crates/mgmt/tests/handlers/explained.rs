//! A router's explanations of names, and its traces of packets.

use super::*;

#[test]
fn users_see_limited_name_explanations() {
    let world = World::new();
    cache(&world, &[name("/many/1")]);
    let own = world.add_face("fd://1");
    let route = Route { face_id: own, flags: route_flags::CHILD_INHERIT, ..Route::default() };
    world.tables.rib_register(&name("/home"), &route, NOW.ns).unwrap();
    let explain = |of: &str, requester: Requester, is_local: bool| {
        let interest = InterestBuilder::new(explain_name(Scope::Localhost, &name(of)));
        let interest = interest.can_be_prefix().must_be_fresh().build();
        let (replies, _) = world.ask_from(&interest, own, is_local, requester);
        let data = DataView::parse(&replies[0]).unwrap();
        let is_nack = data.content_type == ContentType::Nack;
        (!is_nack).then(|| blocks::<Explained>(data.content).next().unwrap().unwrap())
    };
    let root = explain("/many/1", Requester::User(0), true).expect("root may know");
    assert_eq!(root.cached.clone().expect("it is cached").name, name("/many/1"));
    assert_eq!((root.is_partial, root.asker, root.refusal.as_str()), (false, own, ""));
    let user = explain("/many/1", USER, true).expect("whoever is on this machine may ask");
    assert_eq!((user.is_partial, user.cached.clone(), user.pending.len()), (true, None, 0));
    assert!(user.refusal.contains("user 1000 may neither register nor bind /many/1"), "{}", user.refusal);
    let rights = |of: &Explained| of.rights.iter().map(|right| right.is_allowed).collect::<Vec<_>>();
    assert_eq!((rights(&root), root.uid), (vec![true; 3], Some(0)));
    assert_eq!((rights(&user), user.uid), (vec![false; 3], Some(1000)));
    let home = explain("/home/x/y", USER, true).unwrap();
    assert_eq!((home.refusal.as_str(), home.prefix), ("", Some(name("/home"))));
    assert_eq!(
        home.routes.iter().map(|r| (&r.prefix, r.route.face_id)).collect::<Vec<_>>(),
        [(&name("/home"), own)]
    );
    let reserved = explain("/localhost/nfd/x", Requester::User(0), true).unwrap();
    assert!(reserved.refusal.contains("may neither"), "management's own names are nobody's");
    for stranger in [Requester::Unknown, Requester::Nameless("it left".into())] {
        assert!(explain("/many/1", stranger.clone(), true).is_none(), "{stranger:?}");
    }
    let unnamed =
        InterestBuilder::new(Dataset::NameExplain.prefix(Scope::Localhost)).can_be_prefix().must_be_fresh();
    assert_eq!(response(&world.ask(&unnamed.build(), own, Requester::User(0)).0[0]).code, 400);
}

#[test]
fn inherited_routes_stop_at_a_capture() {
    let world = World::new();
    let [near, far, top] = ["fd://1", "fd://2", "fd://3"].map(|uri| world.add_face(uri));
    let add = |at: &str, face_id: u64, flags: u64| {
        world.tables.rib_register(&name(at), &Route { face_id, flags, ..Route::default() }, NOW.ns).unwrap();
    };
    add("/", top, route_flags::CHILD_INHERIT);
    add("/a", far, route_flags::CHILD_INHERIT);
    add("/a/b", near, 0);
    add("/a/b/c", near, 0);
    let routes_of = |of: &str| {
        let all = namely_mgmt::Tables::explain(&world.tables, name(of).as_name(), NOW.ns).routes;
        all.iter().map(|route| (route.prefix.to_string(), route.route.face_id)).collect::<Vec<_>>()
    };
    let inherited = [("/a/b/c".to_owned(), near), ("/a".to_owned(), far), ("/".to_owned(), top)];
    assert_eq!(routes_of("/a/b/c/d"), inherited, "that of /a/b is for itself alone");
    add("/a", far, route_flags::CHILD_INHERIT | route_flags::CAPTURE);
    assert_eq!(routes_of("/a/b/c/d"), inherited[..2]);
}

#[test]
fn a_trace_needs_the_management_right() {
    let none = World::new();
    let of = |name: Option<&str>, ms| ControlParameters {
        name: name.map(|uri| uri.parse().unwrap()),
        expiration_period_ms: ms,
        ..ControlParameters::default()
    };
    let root = Requester::User(0);
    let face = none.add_face("unix://");
    let refused = none.command(Command::TraceStart, &of(Some("/a"), None), face, root.clone());
    assert_eq!((refused.code, refused.text.contains("kernel")), (500, true), "it can trace nothing");
    let world = World { traces: Some(Begun::default()), ..World::new() };
    let run = |command, parameters: &ControlParameters, requester: &Requester| {
        world.command(command, parameters, face, requester.clone())
    };
    for command in [Command::TraceStart, Command::TraceRead, Command::TraceStop] {
        assert_eq!(run(command, &of(Some("/home/x"), None), &USER).code, 403, "{command}");
    }
    assert_eq!(run(Command::TraceStart, &of(None, None), &root).code, 400);
    assert_eq!(run(Command::TraceRead, &of(Some("/a"), None), &root).code, 400);
    for (requested_ms, given_ms) in [
        (None, TRACE_TIME_MS_MAX),
        (Some(5), 5),
        (Some(TRACE_TIME_MS_MAX), TRACE_TIME_MS_MAX),
        (Some(TRACE_TIME_MS_MAX + 1), TRACE_TIME_MS_MAX),
    ] {
        let started =
            run(Command::TraceStart, &of(Some("/a"), requested_ms), &root).parameters().unwrap().unwrap();
        assert_eq!((started.trace_id.is_some(), started.expiration_period_ms), (true, Some(given_ms)));
    }
    assert_eq!(world.traces.as_ref().unwrap().0.borrow()[1], (name("/a"), 5, face));
    let numbered = |id| ControlParameters { trace_id: Some(id), ..ControlParameters::default() };
    let part = run(Command::TraceRead, &numbered(1), &root);
    let parameters = part.parameters().unwrap().unwrap();
    assert_eq!((parameters.count, parameters.flags), (Some(7), Some(1)));
    let rest = &part.body[parameters.to_vec().len()..];
    let entries: Vec<TraceEntry> = blocks(rest).map(Result::unwrap).collect();
    assert_eq!((entries.len(), &entries[0].name), (1, &name("/a")));
    assert!(entries[0].octets + 1_000 < namely_wire::PACKET_OCTETS_MAX as u64, "there is room around it");
    for command in [Command::TraceRead, Command::TraceStop] {
        assert_eq!(run(command, &numbered(99), &root).code, 404);
    }
    assert_eq!(run(Command::TraceStop, &numbered(1), &root).code, 200);
}

#[test]
fn network_explanations_are_rate_limited() {
    let world = World::new();
    let (far, near) = (world.add_face("udp4://192.0.2.1:6363"), world.add_face("unix:///secret"));
    let next = world.add_face("udp4://192.0.2.9:6363");
    for id in [far, next] {
        world.faces.borrow_mut().get_mut(&id).unwrap().face_scope = FaceScope::NonLocal;
    }
    for id in [far, near, next] {
        world.tables.fib().add_nexthop(name("/a").as_name(), FaceId(id), id).unwrap();
    }
    let mut number = 0;
    let mut query = |uri: &str| {
        number += 1;
        let interest = InterestBuilder::new(hop_name(&name(uri), number)).build();
        world.ask_from(&interest, far, false, Requester::Unknown).0
    };
    assert!(query("/a/b").is_empty(), "off unless it is wanted");
    let wants = Policy { explain_to_network: true, ..policy() };
    world.management.borrow_mut().set_policy(wants);
    let replies = query("/a/b");
    let answer = HopAnswer::decode(DataView::parse(&replies[0]).unwrap().content).unwrap();
    assert!(answer.leads_back, "{answer:?}");
    assert_eq!((answer.from.as_str(), answer.prefix), ("udp4://192.0.2.1:6363", Some(name("/a"))));
    let nexthops: Vec<_> = answer.next.iter().map(|next| (next.uri.as_str(), next.cost)).collect();
    assert_eq!(nexthops, [("", near), ("udp4://192.0.2.9:6363", next)], "not back, and no socket's name");
    assert!(
        query("/localhost/nfd/faces")
            .iter()
            .all(|reply| HopAnswer::decode(DataView::parse(reply).unwrap().content).is_err())
    );
    for _ in 1..HOP_ANSWERS_PER_SECOND_MAX {
        assert_eq!(query("/x").len(), 1);
    }
    assert!(query("/x").is_empty(), "one more in a second");
    let counted = world.management.borrow().counters();
    let expected = (u64::from(HOP_ANSWERS_PER_SECOND_MAX), 1);
    assert_eq!((counted.hop_answers, counted.hop_answers_refused), expected);
}

#[test]
fn explained_nexthops_have_a_limit() {
    let world = World::with(Config {
        fib: FibLimits { nexthops_max: HOP_NEXT_MAX + 1, ..FibLimits::default() },
        ..Config::new(sha256)
    });
    world.management.borrow_mut().set_policy(Policy { explain_to_network: true, ..policy() });
    let querier = world.add_face("udp4://192.0.2.1:6363");
    for (hops, number) in (1..=HOP_NEXT_MAX + 1).zip(0..) {
        let face = world.add_face("udp4://192.0.2.9:6363");
        world.tables.fib().add_nexthop(name("/a").as_name(), FaceId(face), 0).unwrap();
        let interest = InterestBuilder::new(hop_name(&name("/a"), number)).build();
        let replies = world.ask_from(&interest, querier, false, Requester::Unknown).0;
        let answer = HopAnswer::decode(DataView::parse(&replies[0]).unwrap().content).unwrap();
        assert_eq!(answer.next.len(), hops.min(HOP_NEXT_MAX));
    }
}

#[test]
fn a_rights_query_changes_nothing() {
    let world = World::new();
    let own = world.add_face("fd://1");
    let right = |command, of: &ControlParameters, requester: Requester| {
        let answer = world.command(command, of, own, requester);
        assert_eq!(answer.code, 200, "{}", answer.text);
        blocks::<ExplainedRight>(&answer.body).next().unwrap().unwrap()
    };
    let register = |uri: &str, requester| right(Command::RightsRegister, &named(uri), requester);
    let allowed = register("/home/x", USER);
    assert_eq!(
        (allowed.command.as_str(), allowed.is_allowed, allowed.cause.as_str()),
        ("rib/register", true, "")
    );
    assert_eq!(world.tables.rib_routes(&name("/home/x"), NOW.ns), [], "nothing was registered");
    for (uri, requester, cause) in [
        ("/work", USER, "not_trusted"),
        ("/home/x", Requester::Unknown, "not_trusted"),
        ("/localhost/nfd/x", Requester::User(0), "reserved"),
    ] {
        let refused = register(uri, requester.clone());
        assert_eq!((refused.is_allowed, refused.cause.as_str()), (false, cause), "{uri} {requester:?}");
        assert_eq!(world.command(Command::RibRegister, &named(uri), own, requester).code, 403);
    }
    let other = ControlParameters { face_id: Some(own + 1), ..named("/home/x") };
    assert!(right(Command::RightsRegister, &other, USER).is_allowed, "it is about the own face");
    assert!(!right(Command::RightsManage, &ControlParameters::default(), USER).is_allowed);
    assert!(right(Command::RightsManage, &ControlParameters::default(), Requester::User(0)).is_allowed);
    for command in [Command::RightsRegister, Command::RightsBind] {
        assert_eq!(world.command(command, &ControlParameters::default(), own, USER).code, 400, "of what?");
    }
    assert_eq!(world.management.borrow().refusals().count(), 2, "what was asked is no refusal");
}
