//! The table of faults: the router's data, and the cause and next step that follow from it.

use namely_messages::{
    ExplainedData, ExplainedInterest, FaceDetails, FacePersistency, FaceState, FaceUnanswered, LinkType,
    cs_flags, strategy_name,
};

use super::super::face::FaceFacts;
use super::*;

const ASKER: u64 = 300;
const REMOTE: u64 = 301;
const APPLICATION: u64 = 302;

fn face(face_id: u64, face_scope: FaceScope) -> FaceStatus {
    let uri = if face_scope == FaceScope::Local { "fd://9" } else { "udp4://192.0.2.7:6363" };
    FaceStatus {
        face_id,
        uri: uri.into(),
        face_scope,
        face_persistency: FacePersistency::Persistent,
        link_type: LinkType::PointToPoint,
        ..FaceStatus::default()
    }
}

/// A healthy router with a route to a neighbor.
fn healthy() -> NameFacts {
    let mut remote = face(REMOTE, FaceScope::NonLocal);
    (remote.out_interests, remote.in_data, remote.in_octets) = (10, 10, 9000);
    NameFacts {
        name: "/lab/x".parse().unwrap(),
        explained: Explained {
            prefix: Some("/lab".parse().unwrap()),
            next_hops: vec![ExplainedHop { face_id: REMOTE, ..ExplainedHop::default() }],
            strategy: strategy_name("best-route").unwrap(),
            pit_entries: 3,
            pit_capacity: 100,
            asker: ASKER,
            ..Explained::default()
        },
        newest: None,
        faces: vec![face(ASKER, FaceScope::Local), remote, face(APPLICATION, FaceScope::Local)],
        cs: CsInfo {
            capacity: 100,
            flags: cs_flags::ENABLE_ADMIT | cs_flags::ENABLE_SERVE,
            ..CsInfo::default()
        },
        counters: Vec::new(),
        skew_ms: 0,
    }
}

fn sent(face_id: u64, since_ms: u64, nack: Option<NackReason>) -> Vec<ExplainedInterest> {
    let upstreams = vec![ExplainedSending { face_id, since_ms, nack: nack.map(NackReason::number) }];
    vec![ExplainedInterest { left_ms: 100, downstreams: vec![ASKER], upstreams }]
}

fn hop(face_id: u64) -> Vec<ExplainedHop> {
    vec![ExplainedHop { face_id, ..ExplainedHop::default() }]
}

fn counted(label: &str, face_id: Option<u64>) -> Vec<Counter> {
    vec![Counter { face_id, ..Counter::new(label, 5) }]
}

/// Frames to the neighbor fail, and none has arrived since.
fn unreached(facts: &mut NameFacts, label: &str) {
    facts.counters = counted(label, Some(REMOTE));
    facts.faces[1].details = reported(FaceUnanswered { failures: 5, ..FaceUnanswered::default() });
}

/// The neighbor's face is in this state, and has dropped a frame.
fn set_state(facts: &mut NameFacts, state: FaceState) {
    unreached(facts, "link.down");
    let details = facts.faces[1].details.take().unwrap_or_default();
    facts.faces[1].details = Some(FaceDetails { state, ..details });
}

/// The details of a face that is up.
fn reported(unanswered: FaceUnanswered) -> Option<FaceDetails> {
    Some(FaceDetails { unanswered: Some(unanswered), ..FaceDetails::default() })
}

/// Interests to the neighbor without any answer.
fn unanswered(interests: u64, waiting_ms: u64) -> Option<FaceDetails> {
    let idle_ms = waiting_ms + 10;
    reported(FaceUnanswered { idle_ms, waiting_ms: Some(waiting_ms), interests, failures: 0 })
}

/// The planted fault, the cause that is found, and a word of the next step.
type Row = (&'static str, fn(&mut NameFacts), &'static str, &'static str);

const FAULTS: &[Row] = &[
    ("no route", |f| (f.explained.prefix, f.explained.next_hops) = (None, vec![]), "no_route", "serve"),
    (
        "no route, and no right to make one",
        |f| {
            (f.explained.prefix, f.explained.next_hops) = (None, vec![]);
            f.explained.refusal = "user 7 may not".into();
        },
        "no_route",
        "may manage",
    ),
    (
        "self-learning without a link",
        |f| {
            (f.explained.prefix, f.explained.next_hops) = (None, vec![]);
            f.explained.strategy = strategy_name("self-learning").unwrap();
        },
        "no_route",
        "route add",
    ),
    ("a producer that is not there", |f| f.explained.next_hops = hop(FACE_LOCAL), "not_bound", "bind list"),
    ("a face that is gone", |f| f.explained.next_hops = hop(999), "face_gone", "route add"),
    ("a route back to the requester", |f| f.explained.next_hops = hop(ASKER), "only_back", "another program"),
    (
        "a name of this host, routed away",
        |f| f.name = "/localhost/x".parse().unwrap(),
        "scope",
        "another name",
    ),
    (
        "a full PIT",
        |f| (f.explained.pit_entries, f.explained.pit_capacity) = (100, 100),
        "pit_full",
        "pit_entries_max",
    ),
    (
        "the way ends upstream",
        |f| f.explained.pending = sent(REMOTE, 5, Some(NackReason::NoRoute)),
        "nack_no_route",
        "namely why /lab/x",
    ),
    ("a loop", |f| f.explained.pending = sent(REMOTE, 5, Some(NackReason::Duplicate)), "nack_loop", "loop"),
    (
        "congestion upstream",
        |f| f.explained.pending = sent(REMOTE, 5, Some(NackReason::Congestion)),
        "nack_congestion",
        "later",
    ),
    (
        "an answer that does not come",
        |f| f.explained.pending = sent(REMOTE, 3000, None),
        "no_answer",
        "shows whether",
    ),
    (
        "next hops that the strategy has given up",
        |f| f.explained.next_hops[0].is_failing = true,
        "failing",
        "face list",
    ),
    ("a wrong MTU", |f| f.counters = counted("link.mtu_too_small", Some(REMOTE)), "mtu", "--mtu"),
    ("a dead face", |f| set_state(f, FaceState::Down), "face_down", "device"),
    ("a peer that accepts no connection", |f| set_state(f, FaceState::Connecting), "face_down", "device"),
    ("nobody at the far end", |f| unreached(f, "link.refused"), "unreachable", "start"),
    ("a firewall", |f| unreached(f, "link.not_permitted"), "not_permitted", "nft"),
    ("a pulled cable", |f| f.faces[1].details = unanswered(4, 21_000), "silent", "face show 301"),
    ("a full device", |f| f.counters = counted("link.no_buffers", Some(REMOTE)), "device_full", "txqueuelen"),
    (
        "a peer that reads slowly",
        |f| f.counters = counted("link.queue_full", Some(REMOTE)),
        "congested",
        "marking",
    ),
    (
        "a link that loses",
        |f| f.counters = counted("link.reassembly_timeout", Some(REMOTE)),
        "lossy",
        "--reliability",
    ),
    ("a tag of a VLAN", |f| f.counters = counted("link.ether_vlan", Some(REMOTE)), "vlan", "VXLAN"),
    ("a silent neighbor", |f| (f.faces[1].in_data, f.faces[1].in_octets) = (0, 0), "silent", "face show 301"),
    ("a neighbor that answers nothing", |f| f.faces[1].in_data = 0, "no_answers", "face show"),
    ("a content store that does not answer", |f| f.cs.flags = 0, "cache_off", "--serve on"),
    ("a content store of no size", |f| f.cs.capacity = 0, "cache_off", "--capacity"),
    (
        "clocks that differ",
        |f| {
            f.skew_ms = 3_600_000;
            f.counters = counted("management.commands_refused", None);
        },
        "clock",
        "clocks",
    ),
];

#[test]
fn each_planted_fault_gets_cause_and_hint() {
    for (planted, plant, cause, next) in FAULTS {
        let mut facts = healthy();
        plant(&mut facts);
        let verdict = facts.verdict();
        assert_eq!(verdict.cause, *cause, "{planted}: {verdict:?}");
        assert!(verdict.hint.as_deref().unwrap_or_default().contains(next), "{planted}: {verdict:?}");
        assert!(facts.steps().iter().all(|step| !step.found.is_empty()), "{planted}");
    }
    let causes: std::collections::BTreeSet<_> = FAULTS.iter().map(|row| row.2).collect();
    assert!(causes.len() >= 20, "{causes:?}");
}

/// Counters never fade. A neighbor that was away once must not be called dead for ever.
#[test]
fn old_refusals_blame_no_living_neighbor() {
    let mut facts = healthy();
    facts.counters = vec![Counter { face_id: Some(REMOTE), ..Counter::new("link.refused", 30) }];
    assert_eq!(facts.verdict().cause, "ok", "{:?}", facts.verdict());
    // They hid these faults.
    facts.explained.pending = sent(REMOTE, 5, Some(NackReason::Duplicate));
    assert_eq!(facts.verdict().cause, "nack_loop");
    facts.explained.pending = sent(REMOTE, 5, Some(NackReason::NoRoute));
    assert_eq!(facts.verdict().cause, "nack_no_route");
}

/// A face that has come back is not down, although nothing has arrived yet and the counter stays.
#[test]
fn a_returned_face_is_not_down() {
    let mut facts = healthy();
    set_state(&mut facts, FaceState::Up);
    assert_eq!(facts.verdict().cause, "ok", "{:?}", facts.verdict());
    facts.counters.extend(counted("link.refused", Some(REMOTE)));
    assert_eq!(facts.verdict().cause, "unreachable", "not the earlier fault");
    // An idle face that is down has dropped nothing.
    facts.faces[1].details = Some(FaceDetails { state: FaceState::Down, ..FaceDetails::default() });
    assert_eq!(facts.verdict().cause, "face_down");
    facts.faces[1].details = Some(FaceDetails { state: FaceState::Connecting, ..FaceDetails::default() });
    assert_eq!(facts.verdict().cause, "ok", "it has just begun to connect");
}

/// The face `local` reports the Interests that went to applications, and no answers.
#[test]
fn the_local_face_is_never_silent() {
    let local = FaceStatus { out_interests: 9, ..face(FACE_LOCAL, FaceScope::Local) };
    let facts = FaceFacts { face: local.clone(), counters: vec![], routes: vec![] };
    assert_eq!(facts.verdict().cause, "ok");
    let mut bound = healthy();
    (bound.explained.next_hops, bound.explained.bound) = (hop(FACE_LOCAL), Some(APPLICATION));
    bound.faces.push(local);
    assert!(bound.steps().iter().all(|step| !step.found.contains("answered no Interest")));
}

#[test]
fn rare_losses_are_no_verdict() {
    for (packets, cause) in [(500, "congested"), (501, "ok")] {
        let mut facts = healthy();
        facts.faces[1].in_data = packets - facts.faces[1].out_interests;
        facts.counters = counted("link.queue_full", Some(REMOTE));
        assert_eq!(facts.verdict().cause, cause, "5 of {packets}");
    }
}

#[test]
fn silence_of_two_seconds_is_reported() {
    for (interests, waiting_ms, cause) in [(3, 2_000, "silent"), (3, 1_999, "ok"), (2, 60_000, "ok")] {
        let mut facts = healthy();
        facts.faces[1].details = unanswered(interests, waiting_ms);
        assert_eq!(facts.verdict().cause, cause, "{interests} in {waiting_ms} ms");
    }
    let mut facts = healthy();
    facts.faces[1].details = unanswered(4, 21_000);
    let hop = facts.steps().into_iter().find(|step| step.at == "next hop").unwrap().found;
    assert!(hop.ends_with("has sent nothing for 21.0 s, while 4 Interests went there"), "{hop}");
}

/// A cached segment does not answer the first Interest of `namely get`.
#[test]
fn old_segments_hide_no_silent_neighbor() {
    let cached =
        |uri: &str, fresh_ms| Some(ExplainedData { name: uri.parse().unwrap(), octets: 9, fresh_ms });
    let mut facts = healthy();
    facts.newest = Some(facts.explained.clone());
    facts.explained.cached = cached("/lab/x/v=1/seg=28757", 60_000);
    facts.faces[1].details = unanswered(4, 21_000);
    let verdict = facts.verdict();
    assert_eq!(verdict.cause, "silent", "{verdict:?}");
    for part in ["has /lab/x/v=1/seg=28757; `namely get` first requests", "sent nothing for 21.0 s"] {
        assert!(verdict.text.contains(part), "{part}: {verdict:?}");
    }
    let steps = facts.steps();
    let get = |steps: &[Step]| steps.iter().find(|step| step.at == "get").unwrap().found.clone();
    assert!(get(&steps).ends_with("MustBeFresh): not in the content store"), "{}", get(&steps));
    facts.newest.as_mut().unwrap().cached = cached("/lab/x/32=metadata/v=1/seg=0", 0);
    assert_eq!(facts.verdict().cause, "silent", "it is old");
    facts.newest.as_mut().unwrap().pending = sent(REMOTE, 5, Some(NackReason::NoRoute));
    assert_eq!(facts.verdict().cause, "nack_no_route");
    assert!(get(&facts.steps()).ends_with("no longer fresh; sent to face 301 5 ms ago, Nack NoRoute"));
    facts.newest.as_mut().unwrap().cached = cached("/lab/x/32=metadata/v=1/seg=0", 900);
    let verdict = facts.verdict();
    assert_eq!((verdict.cause, verdict.hint), ("ok", None));
    assert!(verdict.text.ends_with("answers with /lab/x/32=metadata/v=1/seg=0"), "{}", verdict.text);
    assert!(get(&facts.steps()).contains("fresh for 900 ms"));
    facts.cs.flags = 0;
    assert!(get(&facts.steps()).contains("which does not answer"));
}

#[test]
fn versions_and_datasets_have_no_newest_version() {
    let is = |uri: &str| is_versionless(&uri.parse().unwrap());
    assert!(is("/lab/x") && is("/lab/v=1/x"));
    assert!(
        ["/", "/lab/v=1", "/lab/v=1/seg=0", "/localhost/nfd/rib", "/localhop/x"].iter().all(|uri| !is(uri))
    );
}

#[test]
fn healthy_names_report_ok() {
    let is_well = |facts: &NameFacts, word: &str| {
        let verdict = facts.verdict();
        assert!(verdict.cause == "ok" && verdict.text.contains(word), "{verdict:?}");
    };
    is_well(&healthy(), "goes to face 301");
    let mut cached = healthy();
    cached.explained.cached =
        Some(ExplainedData { name: "/lab/x/v=1".parse().unwrap(), octets: 9, fresh_ms: 0 });
    is_well(&cached, "but not to Interests with MustBeFresh");
    cached.explained.cached.as_mut().unwrap().fresh_ms = 5;
    is_well(&cached, "answers with /lab/x/v=1");
    let mut bound = healthy();
    (bound.explained.next_hops, bound.explained.bound) = (hop(FACE_LOCAL), Some(APPLICATION));
    is_well(&bound, "face 302");
    let mut learning = healthy();
    (learning.explained.prefix, learning.explained.next_hops) = (None, vec![]);
    learning.explained.strategy = strategy_name("self-learning").unwrap();
    learning.explained.discovery = vec![REMOTE];
    is_well(&learning, "1 link is asked");
    let mut early = healthy();
    early.explained.pending = sent(REMOTE, SILENT_MS - 1, None);
    is_well(&early, "goes to face 301");
    let mut skewed = healthy();
    skewed.skew_ms = 3_600_000;
    is_well(&skewed, "goes to face 301");
    assert!(skewed.steps().iter().any(|step| step.at == "clock" && step.found.contains("60 min")));
}

#[test]
fn a_face_verdict_follows_its_counters() {
    let of = |face: FaceStatus, counters: Vec<Counter>, routes: &[&str]| {
        let routes = routes.iter().map(|prefix| prefix.to_string()).collect();
        FaceFacts { face, counters, routes }.verdict().cause
    };
    let remote = || face(REMOTE, FaceScope::NonLocal);
    assert_eq!(of(remote(), vec![], &[]), "no_routes");
    assert_eq!(of(remote(), vec![], &["/lab"]), "ok");
    assert_eq!(of(remote(), counted("link.datagram_too_large", Some(REMOTE)), &["/lab"]), "mtu");
    assert_eq!(of(remote(), counted("link.datagram_too_large", Some(APPLICATION)), &["/lab"]), "ok");
    assert_eq!(
        of(remote(), counted("link.refused", Some(REMOTE)), &["/lab"]),
        "ok",
        "before the last arrival"
    );
    let (two, three) =
        (FaceStatus { out_interests: 2, ..remote() }, FaceStatus { out_interests: 3, ..remote() });
    assert_eq!((of(two, vec![], &["/lab"]), of(three, vec![], &["/lab"])), ("ok", "silent"));
}
