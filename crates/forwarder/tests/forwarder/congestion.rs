//! Announcements of congested tiers between neighbors: their receivers and times, the labeled
//! faces, the duration of labels, and their effects.

use crate::bench::*;
use crate::tier::Tiered;
use namely_forwarder::{
    Completion, Config, FaceId, FaceProperties, LABEL_MS_MAX, NOTIFIED_FACES_MAX, Outgoing, TierAnswer,
    TierMarking,
};
use namely_wire::InterestView;

const PERIOD_MS: u64 = 50;

fn router(answer: TierAnswer) -> Tiered {
    let config = Config { cs_announce_ns: PERIOD_MS * MS, ..config() };
    Tiered::with(config, answer)
}

/// The announcements in `sent`, and their faces.
fn announced(sent: &Sent) -> Vec<(FaceId, String)> {
    let of = |(face, packet): &(FaceId, Outgoing<Packet>)| {
        let name = InterestView::parse(&packet.packet).ok()?.name.to_string();
        name.strip_prefix("/localhop/nb-cc/").map(|word| (*face, word.to_owned()))
    };
    sent.iter().filter_map(of).collect()
}

fn announcement(word: &str, lifetime_ms: u64) -> Vec<u8> {
    interest(&format!("/localhop/nb-cc/{word}")).hop_limit(1).lifetime_ms(lifetime_ms).build()
}

fn expire(tiered: &mut Tiered) -> (Option<u64>, Sent) {
    let next_ns = tiered.bench.fw.expire(tiered.bench.now_ns, &mut tiered.home);
    (next_ns, std::mem::take(&mut tiered.home.sent))
}

#[test]
fn busy_announcements_reach_neighbors_periodically() {
    let mut tiered = router(TierAnswer::Busy);
    let (neighbour, idle) = (tiered.bench.remote(), tiered.bench.remote());
    let (app, group, upstream) = (tiered.bench.app(), tiered.bench.group(), tiered.bench.remote());
    tiered.bench.route("/a", upstream, 0);
    tiered.home.is_busy = true;
    for face in [neighbour, app, group] {
        let sent = announced(&tiered.receive(face, interest("/a/b").build()));
        let expected = if face == neighbour { vec![(neighbour, "busy".to_owned())] } else { Vec::new() };
        assert_eq!(sent, expected, "only a neighbor that asks is told");
    }
    assert!(announced(&tiered.receive(neighbour, interest("/a/c").build())).is_empty(), "once a period");
    for _ in 0..3 {
        tiered.bench.advance_ms(PERIOD_MS);
        let (next_ns, sent) = expire(&mut tiered);
        assert_eq!(announced(&sent), [(neighbour, "busy".to_owned())]);
        assert_eq!(next_ns.unwrap().min(tiered.bench.now_ns + PERIOD_MS * MS), next_ns.unwrap());
    }
    let view = |sent: &Sent| InterestView::parse(&sent[0].1.packet).unwrap().lifetime_ms;
    tiered.bench.advance_ms(PERIOD_MS);
    assert_eq!(view(&expire(&mut tiered).1), Some(3 * PERIOD_MS), "two in a row may be lost");
    tiered.home.is_busy = false;
    tiered.bench.advance_ms(PERIOD_MS);
    assert_eq!(announced(&expire(&mut tiered).1), [(neighbour, "free".to_owned())]);
    tiered.bench.advance_ms(PERIOD_MS);
    assert!(announced(&expire(&mut tiered).1).is_empty(), "once");
    assert_eq!(tiered.bench.fw.counters().tier.announcements_sent, 6);
    assert!(tiered.bench.fw.face_release(idle).is_ok());
}

#[test]
fn a_congested_neighbor_is_passed_over() {
    let mut tiered = router(TierAnswer::Busy);
    let (consumer, near, far) = (tiered.bench.app(), tiered.bench.remote(), tiered.bench.remote());
    tiered.bench.route("/a", near, 0);
    tiered.bench.route("/a", far, 9);
    let mut asked = 0;
    let mut ask = |tiered: &mut Tiered| {
        asked += 1;
        faces(&tiered.receive(consumer, interest(&format!("/a/{asked}")).build()))
    };
    assert_eq!(ask(&mut tiered), [near]);
    assert!(tiered.receive(near, announcement("busy", 150)).is_empty(), "it is not forwarded");
    assert_eq!(ask(&mut tiered), [far]);
    tiered.receive(near, announcement("free", 150));
    assert_eq!(ask(&mut tiered), [near]);
    tiered.receive(near, announcement("busy", 150));
    tiered.bench.advance_ms(149);
    assert_eq!(ask(&mut tiered), [far]);
    tiered.bench.advance_ms(3);
    assert_eq!(ask(&mut tiered), [near], "soft state: the last word was lost");
    tiered.receive(near, announcement("busy", 150));
    tiered.receive(far, announcement("busy", 150));
    assert_eq!(ask(&mut tiered), [near], "all are congested: as if none were");
    assert!(!tiered.home.lookups.last().unwrap().may_bypass, "and the tier knows it");
    assert_eq!(tiered.bench.fw.table_sizes().pit, 6, "announcements wait for nothing");
}

#[test]
fn a_congestion_label_ends_at_its_limit() {
    let mut tiered = router(TierAnswer::Busy);
    let (consumer, near, far) = (tiered.bench.app(), tiered.bench.remote(), tiered.bench.remote());
    let group = tiered.bench.group();
    tiered.bench.route("/a", near, 0);
    tiered.bench.route("/a", far, 9);
    let bypass =
        |tiered: &mut Tiered| faces(&tiered.receive(consumer, interest("/a/b").lifetime_ms(1).build()));
    for stranger in [consumer, group] {
        tiered.receive(stranger, announcement("busy", 1000));
    }
    tiered.receive(near, announcement("maybe", 1000));
    assert_eq!(bypass(&mut tiered), [near]);
    assert_eq!(tiered.bench.fw.counters().tier.announcements_refused, 3);
    tiered.receive(near, announcement("busy", u64::MAX));
    tiered.bench.advance_ms(LABEL_MS_MAX - 1);
    expire(&mut tiered);
    assert_eq!(bypass(&mut tiered), [far]);
    tiered.bench.advance_ms(4);
    expire(&mut tiered);
    assert_eq!(bypass(&mut tiered), [near]);
    // A new neighbor in the slot of a released face begins without a label.
    let spec = FaceProperties::remote();
    tiered.receive(near, announcement("busy", 1000));
    assert!(tiered.bench.fw.face_release(near).is_ok());
    let next = tiered.bench.face(spec);
    tiered.bench.route("/b", next, 0);
    tiered.receive(consumer, interest("/b").build());
    assert!(tiered.home.lookups.last().unwrap().may_bypass);
}

/// NB-15: the threshold is reached, and no outgoing interface is available.
#[test]
fn data_is_marked_lazily_by_default() {
    for (marking, expected) in [
        (TierMarking::Lazy, [false, false, false, true]),
        (TierMarking::Threshold, [false, false, true, true]),
        (TierMarking::Never, [false; 4]),
    ] {
        let cases = [(false, true), (false, false), (true, true), (true, false)];
        let marked = cases.map(|(is_busy, is_available)| {
            let config = Config { cs_marking: marking, ..config() };
            let mut tiered = Tiered::with(config, TierAnswer::Reading);
            let (consumer, upstream) = (tiered.bench.app(), tiered.bench.remote());
            tiered.bench.route("/a", upstream, 0);
            if !is_available {
                tiered.receive(upstream, announcement("busy", 1000));
            }
            tiered.receive(consumer, interest("/a").build());
            let read = Completion::Found { packet: data("/a"), fresh_until_ns: 0, is_busy };
            let sent = tiered.complete(tiered.home.lookups[0].ticket, read);
            assert_eq!(faces(&sent), [consumer]);
            sent[0].1.headers.congestion_mark.is_some()
        });
        assert_eq!(marked, expected, "{marking:?}");
    }
}

#[test]
fn busy_announcements_past_the_limit_are_counted() {
    let mut tiered = router(TierAnswer::Busy);
    let upstream = tiered.bench.remote();
    tiered.bench.route("/a", upstream, 0);
    tiered.home.is_busy = true;
    let counts = |tiered: &Tiered| {
        let tier = tiered.bench.fw.counters().tier;
        (tier.announcements_sent, tier.announcements_full)
    };
    for i in 0..=NOTIFIED_FACES_MAX {
        let neighbour = tiered.bench.remote();
        tiered.receive(neighbour, interest(&format!("/a/{i}")).build());
        let most = NOTIFIED_FACES_MAX as u64;
        assert_eq!(counts(&tiered), ((i as u64 + 1).min(most), (i as u64 + 1).saturating_sub(most)));
    }
}
