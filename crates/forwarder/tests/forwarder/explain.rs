//! The explanation of a name agrees with the tables, and a query changes none of them.

use namely_forwarder::{EXPLAINED_PENDING_MAX, FaceId};
use namely_messages::strategy_name;
use namely_wire::NackReason;

use crate::bench::*;

#[test]
fn explain_reports_the_tables_unchanged() {
    let mut bench = Bench::new();
    let (consumer, one, other) = (bench.remote(), bench.remote(), bench.remote());
    let nothing = bench.fw.explain(name("/a/b").as_name());
    assert_eq!((nothing.fib_components, nothing.next_hops.len(), nothing.cached), (None, 0, None));
    assert_eq!((nothing.strategy_components, nothing.pit_entries), (0, 0));
    bench.route("/a", one, 7);
    bench.route("/a", other, 3);
    bench.route("/", FaceId::LOCAL, 0);
    bench.strategy("/a", "/multicast");
    bench.receive(consumer, interest("/a/b").lifetime_ms(1000).build());
    bench.advance_ms(20);
    let sent = bench.nack(one, interest("/a/b").build(), NackReason::NoRoute);
    assert!(sent.is_empty(), "a Nack with a Nonce of its own is of no Interest that was sent");
    let explained = bench.fw.explain(name("/a/b").as_name());
    assert_eq!((explained.fib_components, explained.strategy_components), (Some(1), 1));
    let costs: Vec<_> = explained.next_hops.iter().map(|hop| (hop.face, hop.cost)).collect();
    assert_eq!(costs, [(other, 3), (one, 7)]);
    assert!(explained.strategy.as_name().to_string().starts_with("/localhost/nfd/strategy/multicast"));
    let [pending] = &explained.pending[..] else { panic!("{explained:?}") };
    assert_eq!((pending.expires_at_ns, &pending.downstreams[..]), (bench.now_ns + 980 * MS, &[consumer][..]));
    let mut upstreams: Vec<_> = pending.upstreams.iter().map(|sent| (sent.face, sent.sent_at_ns)).collect();
    upstreams.sort();
    assert_eq!(upstreams, [(one, bench.now_ns - 20 * MS), (other, bench.now_ns - 20 * MS)]);
    assert!(bench.fw.explain(name("/a").as_name()).pending.is_empty(), "only of the very name");
    bench.receive(one, data_with("/a/b/c", 50, b"x"));
    bench.receive(consumer, interest("/a/b").can_be_prefix().build());
    bench.receive(one, data_with("/a/b/c", 50, b"x"));
    let before = (bench.fw.counters(), bench.fw.cs().status(), bench.fw.pit().snapshot(10));
    let cached = bench.fw.explain(name("/a/b").as_name()).cached.expect("an Interest that may be a prefix");
    assert_eq!((cached.name, cached.fresh_until_ns), (name("/a/b/c"), bench.now_ns + 50 * MS));
    let after = (bench.fw.counters(), bench.fw.cs().status(), bench.fw.pit().snapshot(10));
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
}

#[test]
fn explain_reports_bindings_and_asf_measurements() {
    let mut bench = Bench::new();
    let (consumer, one, app) = (bench.remote(), bench.remote(), bench.app());
    bench.route("/a", one, 0);
    bench.strategy("/a", &strategy_name("asf").unwrap().to_string());
    bench.fw.bindings().bind(app, name("/a/bound").as_name()).unwrap();
    assert_eq!(bench.fw.explain(name("/a/bound/x").as_name()).bound, Some(app));
    let measured = |bench: &Bench| bench.fw.explain(name("/a/x").as_name()).next_hops[0].measured;
    assert_eq!((measured(&bench).srtt_ns, measured(&bench).is_failing), (None, false));
    bench.receive(consumer, interest("/a/x").build());
    bench.advance_ms(8);
    bench.receive(one, data("/a/x"));
    assert_eq!((measured(&bench).srtt_ns, measured(&bench).is_failing), (Some(8 * MS), false));
    let lost = interest("/a/y").build();
    bench.receive(consumer, lost.clone());
    bench.nack(one, lost, NackReason::Congestion);
    assert!(measured(&bench).is_failing);
}

#[test]
fn explain_lists_bounded_pending_interests() {
    for (waiting, explained) in
        [(EXPLAINED_PENDING_MAX, EXPLAINED_PENDING_MAX), (EXPLAINED_PENDING_MAX + 1, EXPLAINED_PENDING_MAX)]
    {
        let bench = Bench::new();
        let (consumer, one) = (bench.remote(), bench.remote());
        bench.route("/", one, 0);
        for n in 0..waiting {
            // All have the same name, and each has another hint.
            let hint = name("/hint").join_segment(n as u64);
            bench.receive(consumer, interest("/a").forwarding_hint(hint).build());
        }
        assert_eq!(bench.fw.table_sizes().pit, waiting);
        assert_eq!(bench.fw.explain(name("/a").as_name()).pending.len(), explained);
    }
}
