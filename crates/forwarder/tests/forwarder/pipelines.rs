//! One test for each rule of the Interest, Data and Nack pipelines.

use crate::bench::*;
use namely_forwarder::{DropReason, FaceId, FaceProperties, Received, UnsolicitedPolicy};
use namely_messages::LinkType;
use namely_wire::{InterestView, LpHeaders, NackReason};

#[test]
fn localhost_packets_stay_on_local_faces() {
    let bench = Bench::new();
    let (app, producer, remote) = (bench.app(), bench.app(), bench.remote());
    bench.route("/localhost/x", remote, 0);
    bench.route("/localhost/x", producer, 1);
    assert!(bench.receive(remote, interest("/localhost/x").build()).is_empty());
    assert!(bench.receive(remote, data("/localhost/x")).is_empty());
    assert_eq!(bench.dropped(DropReason::Scope), 2);
    assert_eq!(faces(&bench.receive(app, interest("/localhost/x").build())), [producer]);
    assert_eq!(faces(&bench.receive(producer, data("/localhost/x"))), [app]);
}

#[test]
fn management_crosses_only_permitted_faces() {
    let bench = Bench::new();
    let asking = bench.face(FaceProperties { is_management_client: true, ..FaceProperties::remote() });
    let (management, app, remote) = (bench.app(), bench.app(), bench.remote());
    bench.route("/localhost/nfd", management, 0);
    bench.route("/localhost/app", app, 0);
    let sent = bench.receive(asking, interest("/localhost/nfd/status").build());
    assert_eq!(faces(&sent), [management]);
    assert_eq!(faces(&bench.receive(management, data("/localhost/nfd/status"))), [asking]);
    for uri in ["/localhost/app/1", "/localhost", "/localhost/nf", "/localhost/nfdx", "/localhost/8=nf/d"] {
        assert!(bench.receive(asking, interest(uri).build()).is_empty(), "{uri}");
    }
    assert_eq!(bench.dropped(DropReason::Scope), 5);
    assert!(bench.receive(remote, interest("/localhost/nfd/faces").build()).is_empty());
    assert_eq!(bench.dropped(DropReason::Scope), 6, "another face may not");
    // The face sends Interests for management. It receives none, and its Data is dropped.
    bench.route("/localhost/nfd/asked", asking, 0);
    assert!(
        faces(&bench.receive(app, interest("/localhost/nfd/asked/1").build()))
            .iter()
            .all(|face| *face != asking)
    );
    bench.receive(app, interest("/localhost/nfd/rib").build());
    let before = bench.dropped(DropReason::Scope);
    assert!(bench.receive(asking, data("/localhost/nfd/rib")).is_empty());
    assert_eq!(bench.dropped(DropReason::Scope), before + 1);
}

#[test]
fn a_name_resembling_localhost_is_unscoped() {
    let bench = Bench::new();
    let (remote, upstream) = (bench.remote(), bench.remote());
    bench.route("/", upstream, 0);
    for uri in ["/localhostel/x", "/x/localhost", "/32=localhost"] {
        assert_eq!(faces(&bench.receive(remote, interest(uri).build())), [upstream], "{uri}");
    }
}

#[test]
fn remote_localhop_interests_reach_local_faces_only() {
    let bench = Bench::new();
    let (app, one, other) = (bench.app(), bench.remote(), bench.remote());
    bench.route("/localhop/x", other, 0);
    bench.route("/localhop/x", app, 1);
    assert_eq!(faces(&bench.receive(one, interest("/localhop/x/1").build())), [app]);
    assert_eq!(faces(&bench.receive(app, interest("/localhop/x/2").build())), [other]);
}

#[test]
fn hop_limit_is_decremented_without_copying() {
    let bench = Bench::new();
    let (app, remote) = (bench.app(), bench.remote());
    bench.route("/a", remote, 0);
    let packet: Packet = interest("/a").hop_limit(5).build().into();
    let sent = bench.receive(app, packet.clone());
    assert!(std::sync::Arc::ptr_eq(&sent[0].1.packet, &packet));
    let (offset, limit) = sent[0].1.hop_limit.unwrap();
    let mut on_wire = packet.to_vec();
    on_wire[offset] = limit;
    assert_eq!(InterestView::parse(&on_wire).unwrap().hop_limit, Some(4));
}

#[test]
fn hop_limit_1_stays_on_local_faces() {
    let bench = Bench::new();
    let (consumer, app, remote) = (bench.remote(), bench.app(), bench.remote());
    bench.route("/a", remote, 0);
    assert!(bench.receive(consumer, interest("/a/0").hop_limit(0).build()).is_empty());
    assert_eq!(bench.dropped(DropReason::HopLimit), 1);
    assert!(bench.receive(consumer, interest("/a/1").hop_limit(1).build()).is_empty());
    assert_eq!(bench.dropped(DropReason::HopLimit), 2);
    bench.route("/a", app, 1);
    let sent = bench.receive(consumer, interest("/a/1").hop_limit(1).build());
    assert_eq!((faces(&sent), sent[0].1.hop_limit.unwrap().1), (vec![app], 0));
    bench.receive(app, data("/a/1"));
    let sent = bench.receive(consumer, interest("/a/1").hop_limit(1).build());
    assert_eq!(faces(&sent), [consumer]);
}

#[test]
fn a_missing_nonce_is_added() {
    let bench = Bench::new();
    let (app, remote) = (bench.app(), bench.remote());
    bench.route("/a", remote, 0);
    let nonces: Vec<_> = ["/a/1", "/a/2"]
        .map(|uri| {
            let without = namely_wire::InterestBuilder::new(name(uri)).can_be_prefix().hop_limit(9).build();
            let sent = bench.receive(app, without);
            let view = InterestView::parse(&sent[0].1.packet).unwrap();
            assert!(view.can_be_prefix);
            assert_eq!(sent[0].1.hop_limit, Some((view.hop_limit_offset, 8)));
            view.nonce.unwrap()
        })
        .into();
    assert_ne!(nonces[0], nonces[1]);
}

#[test]
fn a_looping_interest_is_nacked_point_to_point() {
    let bench = Bench::new();
    let (consumer, upstream, group) = (bench.remote(), bench.remote(), bench.group());
    bench.route("/a", upstream, 0);
    let packet = interest("/a").build();
    bench.receive(consumer, packet.clone());
    let sent = bench.receive_with(upstream, packet.clone(), token(&[9]));
    assert_eq!(faces(&sent), [upstream]);
    assert!(is_nack(&sent[0].1, NackReason::Duplicate));
    assert_eq!(token_of(&sent[0].1), Some(vec![9]));
    assert!(bench.receive(group, packet.clone()).is_empty());
    assert_eq!(bench.dropped(DropReason::Loop), 2);
    assert_eq!(faces(&bench.receive(upstream, data("/a"))), [consumer]);
}

#[test]
fn a_repeated_nonce_is_a_retransmission() {
    let mut bench = Bench::new();
    let (consumer, group, upstream) = (bench.remote(), bench.group(), bench.remote());
    bench.route("/a", upstream, 0);
    let packet = interest("/a").build();
    bench.receive(consumer, packet.clone());
    bench.advance_ms(50);
    assert_eq!(faces(&bench.receive(consumer, packet)), [upstream]);
    let packet = interest("/a/group").build();
    bench.receive(group, packet.clone());
    bench.advance_ms(50);
    assert!(bench.receive(group, packet).is_empty());
    assert_eq!(bench.dropped(DropReason::Loop), 1);
}

#[test]
fn a_replaced_nonce_is_still_known() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    let first = interest("/a").build();
    bench.receive(consumer, first.clone());
    bench.receive(consumer, interest("/a").build());
    let sent = bench.receive(upstream, first);
    assert!(is_nack(&sent[0].1, NackReason::Duplicate));
}

#[test]
fn an_expired_downstream_receives_nothing() {
    let mut bench = Bench::new();
    let (early, late, upstream) = (bench.remote(), bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    for (uri, answer) in [("/a/1", "data"), ("/a/2", "nack")] {
        let packet = interest(uri).build();
        bench.receive(late, packet.clone());
        bench.receive(early, interest(uri).lifetime_ms(10).build());
        bench.advance_ms(10);
        let sent = match answer {
            "data" => bench.receive(upstream, data(uri)),
            _ => bench.nack(upstream, packet, NackReason::NoRoute),
        };
        assert_eq!(faces(&sent), [late], "{answer}");
    }
}

#[test]
fn data_is_sent_once_per_token() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    for (tokens, copies) in [([[1], [1]], 1), ([[1], [2]], 2)] {
        bench.fw.cs().erase(name("/").as_name(), 10);
        bench.receive_with(consumer, interest("/a").can_be_prefix().build(), token(&tokens[0]));
        bench.receive_with(consumer, interest("/a/b").build(), token(&tokens[1]));
        assert_eq!(bench.receive(upstream, data("/a/b")).len(), copies);
    }
}

#[test]
fn an_application_reached_twice_is_asked_once() {
    let bench = Bench::new();
    let (consumer, app) = (bench.remote(), bench.app());
    bench.strategy("/", "/localhost/nfd/strategy/multicast");
    bench.route("/a", app, 0);
    bench.route("/a", FaceId::LOCAL, 0);
    bench.fw.bindings().bind(app, name("/a/b").as_name()).unwrap();
    assert_eq!(faces(&bench.receive(consumer, interest("/a/b/c").build())), [app]);
}

#[test]
fn the_dead_nonce_list_catches_long_loops() {
    let mut bench = Bench::new();
    let (consumer, upstream) = (bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    let packet = interest("/a").lifetime_ms(100).build();
    bench.receive(consumer, packet.clone());
    bench.advance_ms(200);
    bench.expire();
    assert_eq!(bench.fw.table_sizes().pit, 0);
    let sent = bench.receive(upstream, packet.clone());
    assert!(is_nack(&sent[0].1, NackReason::Duplicate));
    bench.advance_ms(6_000);
    bench.receive(consumer, packet);
    assert_eq!(bench.dropped(DropReason::Loop), 1);
}

#[test]
fn stale_data_leaves_dead_nonces() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    bench.receive(consumer, interest("/a/1").build());
    bench.receive(upstream, data_with("/a/1", 0, b""));
    assert_eq!(bench.fw.table_sizes().dead_nonces, 0, "the cache will answer a loop");
    bench.receive(consumer, interest("/a/2").must_be_fresh().build());
    bench.receive(upstream, data_with("/a/2", 100, b""));
    assert_eq!(bench.fw.table_sizes().dead_nonces, 1);
    bench.receive(consumer, interest("/a/3").must_be_fresh().build());
    bench.receive(upstream, data_with("/a/3", 60_000, b""));
    assert_eq!(bench.fw.table_sizes().dead_nonces, 1);
}

/// NFD returns PIT tokens on Data but not on Nacks, and NDNd crashes on unusual lengths.
#[test]
fn a_token_returns_on_data_and_nack() {
    let bench = Bench::new();
    let upstream = bench.remote();
    bench.route("/a", upstream, 0);
    for length in 1..=32usize {
        let downstreams = [bench.remote(), bench.remote()];
        for answer in ["data", "nack"] {
            let uri = format!("/a/{length}/{answer}");
            let tokens = [vec![length as u8; length], vec![0xaa; 33 - length]];
            let forwarded: Vec<_> = downstreams
                .iter()
                .zip(&tokens)
                .flat_map(|(face, octets)| bench.receive_with(*face, interest(&uri).build(), token(octets)))
                .collect();
            assert_eq!(forwarded.len(), 1);
            assert_eq!(token_of(&forwarded[0].1), None, "a downstream's token goes no further");
            let sent = match answer {
                "data" => bench.receive(upstream, data(&uri)),
                _ => bench.nack(upstream, forwarded[0].1.packet.clone(), NackReason::NoRoute),
            };
            assert_eq!(sent.len(), 2);
            for (face, packet) in sent {
                let i = downstreams.iter().position(|known| *known == face).unwrap();
                assert_eq!(token_of(&packet), Some(tokens[i].clone()));
                assert_eq!(packet.headers.nack.is_some(), answer == "nack");
            }
        }
    }
}

/// NDNd delivers Data with another name or digest if the PIT token matches.
#[test]
fn mismatched_data_is_never_delivered() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/", upstream, 0);
    let wanted = data_with("/a", 0, b"wanted");
    bench.receive_with(consumer, interest("/a/b").build(), token(&[1; 6]));
    let by_digest = namely_wire::InterestBuilder::new(full_name("/a", &wanted)).nonce(nonce()).build();
    bench.receive_with(consumer, by_digest, token(&[2; 6]));
    for wrong in [data("/a/c"), data("/a/b/c"), data("/a"), data_with("/a", 0, b"forged"), data("/")] {
        for octets in [[1; 6], [2; 6]] {
            assert!(bench.receive_with(upstream, wrong.clone(), token(&octets)).is_empty());
        }
    }
    assert_eq!(bench.dropped(DropReason::Unsolicited), 10);
    assert_eq!(bench.fw.table_sizes().pit, 2);
    let sent = bench.receive(upstream, wanted);
    assert_eq!(token_of(&sent[0].1), Some(vec![2; 6]));
}

#[test]
fn the_least_severe_nack_goes_down() {
    let mut bench = Bench::new();
    let (consumer, one, other) = (bench.app(), bench.remote(), bench.remote());
    bench.route("/a", one, 0);
    bench.route("/a", other, 1);
    let first = interest("/a").build();
    assert_eq!(faces(&bench.receive(consumer, first.clone())), [one]);
    bench.advance_ms(20);
    let second = interest("/a").build();
    assert_eq!(faces(&bench.receive(consumer, second.clone())), [other]);
    assert!(bench.nack(one, first, NackReason::NoRoute).is_empty());
    let sent = bench.nack(other, second.clone(), NackReason::Congestion);
    assert_eq!(faces(&sent), [consumer]);
    assert!(is_nack(&sent[0].1, NackReason::Congestion));
    assert_eq!(InterestView::parse(&sent[0].1.packet), InterestView::parse(&second));
    assert_eq!(bench.fw.table_sizes().pit, 0);
}

#[test]
fn a_nack_carries_each_downstreams_nonce() {
    let bench = Bench::new();
    let (one, other, upstream) = (bench.remote(), bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    let packets = [interest("/a").build(), interest("/a").build()];
    bench.receive(one, packets[0].clone());
    bench.receive(other, packets[1].clone());
    let sent = bench.nack(upstream, packets[0].clone(), NackReason::NoRoute);
    assert_eq!(faces(&sent), [one, other]);
    for (face, packet) in sent {
        assert_eq!(&*packet.packet, if face == one { &packets[0] } else { &packets[1] });
    }
}

#[test]
fn an_unmatched_nack_is_dropped() {
    let bench = Bench::new();
    let (consumer, upstream, stranger, group) = (bench.app(), bench.remote(), bench.remote(), bench.group());
    bench.route("/a", upstream, 0);
    let packet = interest("/a").build();
    bench.receive(consumer, packet.clone());
    assert!(bench.nack(stranger, packet.clone(), NackReason::NoRoute).is_empty());
    assert!(bench.nack(upstream, interest("/a").build(), NackReason::NoRoute).is_empty());
    assert!(bench.nack(upstream, interest("/b").build(), NackReason::NoRoute).is_empty());
    assert_eq!(bench.dropped(DropReason::NackUnmatched), 3);
    assert!(bench.nack(group, packet, NackReason::NoRoute).is_empty());
    assert_eq!(bench.dropped(DropReason::NackLinkType), 1);
    assert!(bench.nack(upstream, data("/a"), NackReason::NoRoute).is_empty());
    assert_eq!(bench.dropped(DropReason::Malformed), 1);
    assert_eq!(faces(&bench.receive(upstream, data("/a"))), [consumer]);
}

#[test]
fn mutually_waiting_routers_receive_a_nack() {
    let bench = Bench::new();
    let (one, other, dead_end) = (bench.remote(), bench.remote(), bench.remote());
    bench.strategy("/a", "/localhost/nfd/strategy/multicast");
    bench.route("/a", one, 0);
    bench.route("/a", other, 0);
    bench.route("/a", dead_end, 0);
    let first = interest("/a").build();
    bench.receive(one, first.clone());
    let second = interest("/a").build();
    bench.receive(other, second.clone());
    // `other` received `first` and sent `second`; `one` sent `first` and received `second`.
    bench.nack(one, second.clone(), NackReason::NoRoute);
    let sent = bench.nack(dead_end, first, NackReason::NoRoute);
    assert_eq!(faces(&sent), [other]);
    assert_eq!(&*sent[0].1.packet, second);
}

#[test]
fn no_nack_is_sent_to_groups() {
    let bench = Bench::new();
    let group = bench.group();
    assert!(bench.receive(group, interest("/a").build()).is_empty());
    let bench = Bench::with(namely_forwarder::Config { nack_no_route: false, ..config() });
    let app = bench.app();
    assert!(bench.receive(app, interest("/a").build()).is_empty());
    assert_eq!(bench.dropped(DropReason::NoRoute), 1);
}

#[test]
fn privileged_faces_choose_the_nexthop() {
    let bench = Bench::new();
    let (app, chosen) = (bench.app(), bench.remote());
    let to = |face: FaceId| LpHeaders { next_hop_face_id: Some(face.0), ..LpHeaders::default() };
    assert!(bench.receive_with(app, interest("/a").build(), to(chosen)).is_empty());
    assert_eq!(bench.dropped(DropReason::NextHopRefused), 1);
    bench.fw.faces().set_local_fields(app, true).unwrap();
    let sent = bench.receive_with(app, interest("/a").build(), to(chosen));
    assert_eq!(faces(&sent), [chosen]);
    assert_eq!(sent[0].1.headers.next_hop_face_id, None);
    assert!(bench.receive_with(app, interest("/b").build(), to(FaceId(9999))).is_empty());
    assert_eq!(bench.dropped(DropReason::NextHopGone), 1);
    assert_eq!(faces(&bench.receive(chosen, data("/a"))), [app]);
    assert!(bench.receive_with(app, interest("/localhost/x").build(), to(chosen)).is_empty());
    assert_eq!(bench.dropped(DropReason::Scope), 1);
    assert!(bench.receive_with(app, interest("/c").hop_limit(1).build(), to(chosen)).is_empty());
    assert_eq!(bench.dropped(DropReason::HopLimit), 1);
}

#[test]
fn privileged_faces_receive_incoming_face_id() {
    let bench = Bench::new();
    let (app, remote) =
        (bench.face(FaceProperties { local_fields: true, ..FaceProperties::application() }), bench.remote());
    bench.route("/app", app, 0);
    bench.route("/net", remote, 0);
    let sent = bench.receive(remote, interest("/app/1").build());
    assert_eq!(sent[0].1.headers.incoming_face_id, Some(remote.0));
    let sent = bench.receive(app, interest("/net/1").build());
    assert_eq!(sent[0].1.headers.incoming_face_id, None);
    let sent = bench.receive(remote, data("/net/1"));
    assert_eq!(sent[0].1.headers.incoming_face_id, Some(remote.0));
    let sent = bench.receive(app, interest("/net/1").build());
    assert_eq!(sent[0].1.headers.incoming_face_id, Some(FaceId::CONTENT_STORE.0));
}

#[test]
fn the_producer_region_strips_the_hint() {
    let bench = Bench::new();
    let (app, by_hint, by_name) = (bench.app(), bench.remote(), bench.remote());
    bench.route("/isp/region", by_hint, 0);
    bench.route("/a", by_name, 0);
    let hinted = |uri| {
        let builder = interest(uri).forwarding_hint(name("/unknown"));
        builder.forwarding_hint(name("/isp/region")).hop_limit(7).build()
    };
    let sent = bench.receive(app, hinted("/a/1"));
    assert_eq!(faces(&sent), [by_hint]);
    bench.fw.regions_set(vec![name("/isp/region/router")]);
    let sent = bench.receive(app, hinted("/a/2"));
    assert_eq!(faces(&sent), [by_name]);
    let view = InterestView::parse(&sent[0].1.packet).unwrap();
    assert_eq!((view.forwarding_hint_value, view.hop_limit), (None, Some(7)));
    assert_eq!(sent[0].1.hop_limit, Some((view.hop_limit_offset, 6)));
    bench.fw.regions_set(vec![name("/isp")]);
    assert_eq!(
        faces(&bench.receive(app, hinted("/a/3"))),
        [by_hint],
        "the region is inside /isp, not around it"
    );
}

#[test]
fn the_first_routable_hint_name_decides() {
    let bench = Bench::new();
    let (app, one, other) = (bench.app(), bench.remote(), bench.remote());
    bench.strategy("/", "/multicast");
    bench.route("/one", one, 0);
    bench.route("/other", other, 0);
    let hinted = |first, second| {
        let builder = interest("/a").forwarding_hint(name(first));
        builder.forwarding_hint(name(second)).build()
    };
    assert_eq!(faces(&bench.receive(app, hinted("/one/x", "/other"))), [one]);
    assert_eq!(faces(&bench.receive(app, hinted("/other/x", "/one"))), [other]);
}

#[test]
fn a_nack_may_lack_the_hint() {
    let bench = Bench::new();
    let (app, upstream) = (bench.app(), bench.remote());
    bench.route("/region", upstream, 0);
    let with = interest("/a").nonce([1, 1, 1, 1]).forwarding_hint(name("/region")).build();
    let without = interest("/a").nonce([1, 1, 1, 1]).build();
    bench.receive(app, with);
    let sent = bench.nack(upstream, without, NackReason::NoRoute);
    assert_eq!(faces(&sent), [app]);
}

#[test]
fn ad_hoc_faces_receive_their_own_data() {
    let bench = Bench::new();
    let ad_hoc = bench.face(FaceProperties { link_type: LinkType::AdHoc, ..FaceProperties::remote() });
    let (p2p, app) = (bench.remote(), bench.app());
    bench.route("/", ad_hoc, 0);
    bench.receive(ad_hoc, interest("/a").build());
    bench.receive(app, interest("/a").build());
    assert_eq!(faces(&bench.receive(ad_hoc, data("/a"))), [ad_hoc, app]);
    bench.route("/b", p2p, 0);
    bench.receive(app, interest("/b").build());
    bench.receive(p2p, interest("/b").build());
    assert_eq!(faces(&bench.receive(p2p, data("/b"))), [app]);
}

#[test]
fn unsolicited_data_follows_the_cache_policy() {
    use UnsolicitedPolicy::*;
    for (policy, local, network) in
        [(DropAll, 0, 0), (AdmitLocal, 1, 0), (AdmitNetwork, 0, 1), (AdmitAll, 1, 1)]
    {
        let bench = Bench::with(namely_forwarder::Config { unsolicited: policy, ..config() });
        let (app, remote) = (bench.app(), bench.remote());
        bench.receive(app, data("/local"));
        assert_eq!(bench.fw.cs().status().packets, local, "{policy:?}");
        bench.receive(remote, data("/network"));
        assert_eq!(bench.fw.cs().status().packets, local + network, "{policy:?}");
        assert_eq!(bench.dropped(DropReason::Unsolicited) as usize, 2 - local - network);
    }
}

#[test]
fn malformed_packets_are_counted() {
    let bench = Bench::new();
    let (app, remote) = (bench.app(), bench.remote());
    bench.route("/a", remote, 0);
    let good = interest("/a").build();
    let inputs: [&[u8]; 7] = [
        &[],
        &[5],
        &[6, 0],
        &[5, 255, 255, 255, 255, 255, 255, 255, 255, 255],
        &[0x64, 0],
        &good[..7],
        &[0; 50],
    ];
    for input in inputs {
        assert!(bench.receive(app, input).is_empty());
    }
    assert_eq!(bench.dropped(DropReason::Malformed), inputs.len() as u64);
    assert!(bench.receive(app, vec![5; 8801]).is_empty());
    assert_eq!(bench.dropped(DropReason::TooLarge), 1);
    bench.fw.receive(FaceId(4711), Received::bare(good.clone().into()), bench.now_ns, &mut Sent::new());
    bench.fw.receive(FaceId::LOCAL, Received::bare(good.clone().into()), bench.now_ns, &mut Sent::new());
    assert_eq!(bench.dropped(DropReason::UnknownFace), 2);
    assert_eq!(faces(&bench.receive(app, good)), [remote]);
}
