//! Messages of a neighbor of the virtual plane that are wrong, old, too many or forged: each is
//! refused and counted, and honest neighbors keep their slots.

use crate::common;
use crate::plane;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::Client;
use namely_security::Signer;
use namely_testkit::hostile::{BOOT, Neighbor};
use namely_testkit::until;
use namely_vip::UNIT;
use namely_vip::message::{self, Body, Message, Offer, RequestKind};
use namely_wire::{DataView, InterestView, Name};
use plane::{PERIOD_MS, Router, join};

use crate::fake::{Fake, VipRequest};

/// The signer of another router.
fn other_signer() -> Signer {
    Neighbor::with_new_key("fake").unwrap().signer
}

/// A router whose one neighbor is a fake.
fn router() -> (Router, Fake) {
    let mut router = Router::start("me", "memory = 10_000");
    let fake = Fake::new(&router);
    router.reload(&fake.config());
    until("the fake has a face", || router.neighbours()[0].face_id);
    (router, fake)
}

/// Answers requests for counts with this content until one answer is counted. An answer is late
/// after the duration of a slot. Returns the last request.
fn answer_counted(router: &mut Router, fake: &mut Fake, label: &str, content: &[u8]) -> VipRequest {
    let before = router.count(label);
    until(label, || {
        let received = fake.next_request_in_a_slot(RequestKind::Counts)?;
        fake.answer(&received, content);
        (router.count(label) > before).then_some(received)
    })
}

/// Sends requests until the router answers one, and returns that one. The router leaves those out
/// that are too many in a slot.
fn answered_request(fake: &mut Fake) -> Vec<u8> {
    until("a request is answered", || {
        let request = fake.request("fake");
        fake.client.send(&request);
        let name = InterestView::parse(&request).unwrap().name;
        let slot = Duration::from_millis(PERIOD_MS);
        let end = Instant::now() + slot;
        let is_answer = |data: DataView<'_>| data.name == name;
        while Instant::now() < end {
            let Some(packet) = fake.client.receive(slot) else { continue };
            if DataView::parse(&packet.wire).is_ok_and(is_answer) {
                return Some(request);
            }
        }
        None
    })
}

/// Waits until a counter has grown.
fn counted(router: &mut Router, label: &str, before: u64) {
    until(label, || (router.count(label) > before).then_some(()));
}

#[test]
fn invalid_vip_requests_are_refused() {
    let (mut router, mut fake) = router();
    // Signed, it is accepted and answered.
    fake.introduce(&mut router);
    let right = answered_request(&mut fake);
    // The router checks at most four requests in a slot, so each is sent until it is checked.
    let refused = |router: &mut Router, fake: &mut Fake, name: &str, label: &str| {
        let before = router.count(label);
        until(label, || {
            let request = fake.request(name);
            fake.client.send(&request);
            (router.count(label) > before).then_some(())
        });
    };
    // Signed by another key.
    let own = std::mem::replace(&mut fake.neighbor.signer, other_signer());
    refused(&mut router, &mut fake, "fake", "bad_signature");
    // Requests are handled in their order: those of the introduction are answered by now.
    let answered = router.count("counts_told");
    // The same request again, because the network may duplicate it.
    until("a slot goes by", || (router.status().slot > 3).then_some(()));
    let mut again = right.clone();
    fake.client.send(&again);
    // Another nonce, because the forwarder drops looping Interests.
    let octets = [&[0x0a, 4], &InterestView::parse(&again).unwrap().nonce.unwrap()[..]].concat();
    let nonce = again.windows(6).position(|w| w == octets).unwrap() + 2;
    again[nonce] ^= 1;
    until("a repeated request is refused", || {
        again[nonce] = again[nonce].wrapping_add(1);
        fake.client.send(&again);
        (router.count("replayed") > 0).then_some(())
    });
    // A digest does not identify its signer.
    fake.neighbor.signer = Signer::digest_sha256();
    refused(&mut router, &mut fake, "fake", "bad_signature");
    let of_fake = |router: &mut Router| router.neighbours()[0].counters.clone();
    let bad = of_fake(&mut router).into_iter().find(|c| c.label == "bad_signature").unwrap();
    assert!(bad.value >= 2, "{bad:?}");
    // In the name of another router.
    fake.neighbor.signer = own;
    refused(&mut router, &mut fake, "another", "other_router");
    assert_eq!(router.count("counts_told"), answered, "none of these was answered");
}

#[test]
fn invalid_vip_answers_are_refused() {
    let (mut router, mut fake) = router();
    // The router has an entry for it since its request.
    fake.introduce(&mut router);
    let hot = router.objects()[0].id;
    let counts = |count: u64| message::counts(BOOT, 1, PERIOD_MS, [(hot, count)].into_iter());
    // Signed by another key.
    let other = other_signer();
    let own = std::mem::replace(&mut fake.neighbor.signer, other);
    answer_counted(&mut router, &mut fake, "bad_signature", &counts(1));
    fake.neighbor.signer = own;
    assert_eq!(router.neighbours()[0].fresh_ms, None);
    // From another boot. The answer belongs to a current request, so the neighbor has restarted.
    let other_boot = message::counts(BOOT + 1, 1, PERIOD_MS, [].into_iter());
    answer_counted(&mut router, &mut fake, "restarts", &other_boot);
    // With the largest count that can be encoded.
    let before = router.count("counts_heard");
    let late = answer_counted(&mut router, &mut fake, "count_cut", &counts(u64::MAX));
    counted(&mut router, "counts_heard", before);
    // A late answer finds no pending Interest.
    until("its slot has gone", || (router.status().slot > late.slot + 6).then_some(()));
    let before = router.count("counts_heard");
    let unsolicited = router.client.counter("forwarder.unsolicited");
    fake.answer(&late, &counts(1));
    until("it is unsolicited", || {
        (router.client.counter("forwarder.unsolicited") > unsolicited).then_some(())
    });
    assert_eq!(router.count("counts_heard"), before);
}

#[test]
fn vips_beyond_the_link_are_cut() {
    let (mut router, mut fake) = router();
    let hot = router.objects()[0].id;
    let offer = |slot, id, vips| Offer { slot, id, vips };
    let offers = [offer(1, hot, u64::MAX), offer(2, 4711, UNIT)];
    until("they are cut", || {
        let request = fake.request("fake");
        fake.client.send(&request);
        // It requests none before it has discovered its neighbor.
        let received = fake.next_request_in_a_slot(RequestKind::Offers)?;
        fake.answer(&received, &message::offers(BOOT, received.boot, 1, offers.into_iter()));
        (router.count("offer_cut") > 0).then_some(())
    });
    counted(&mut router, "unknown_object", 0);
    // 100,000 octets a second and 125 %, of objects of 10,000.
    let score = until("they are entered", || Some(router.objects()[0].score).filter(|score| *score > 0));
    assert!(score <= UNIT * PERIOD_MS / 80, "{score}");
}

#[test]
fn a_stopped_neighbor_carries_nothing() {
    let mut a = Router::start("a", "memory = 0");
    let mut b = Router::start_on(namely_testkit::free_port(), "b", "memory = 10_000");
    join(&mut a, &mut b);
    until("b's counts arrive", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    let boot = a.neighbours()[0].boot;
    let (port, dir) = (b.daemon.udp().port(), b.daemon.stop().1);
    until("its counts are not used any more", || a.neighbours()[0].fresh_ms.is_none().then_some(()));
    let stale = a.count("counts_stale");
    counted(&mut a, "counts_stale", stale);
    // In the same place, with the same key.
    let text = std::fs::read_to_string(dir.path().join("namely.toml")).unwrap();
    let mut command = common::namelyd();
    command.args(["--config", dir.path().join("namely.toml").to_str().unwrap(), "--log", "debug"]);
    command.args(["--listen", &format!("unix://{}", dir.path().join("x.sock").display())]);
    command.args(["--listen", &format!("udp://127.0.0.1:{port}")]);
    assert!(text.contains("[[vip.neighbour]]"), "the reload wrote its neighbor");
    let _b = common::Daemon::spawn(command, dir).expect("it starts again");
    until("its counts arrive again", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    assert_ne!(a.neighbours()[0].boot, boot, "it has another life");
    counted(&mut a, "restarts", 0);
}

#[test]
fn counts_from_another_face_are_ignored() {
    let (mut router, fake) = router();
    let mut stranger = Fake::new(&router);
    stranger.neighbor.signer = fake.neighbor.signer.clone();
    let request = stranger.request("fake");
    stranger.client.send(&request);
    counted(&mut router, "other_face", 0);
    assert_eq!(router.count("counts_told"), 0);
    let seen: HashSet<u64> = router.neighbours().iter().filter_map(|of| of.face_id).collect();
    assert_eq!(seen.len(), 1);
}

/// A neighbor that sends its counts in each slot, and answers Interests for objects until it is set
/// to be silent.
struct Alive {
    received: Arc<Mutex<Vec<Name>>>,
    is_silent: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Alive {
    fn new(mut fake: Fake, router: &'static str, counts: Vec<(u64, u64)>) -> Self {
        let (received, is_silent, is_over) = Default::default();
        let mut alive = Alive { received, is_silent, is_over, thread: None };
        let (received, is_silent) = (alive.received.clone(), alive.is_silent.clone());
        let is_over = alive.is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut due = Instant::now();
            while !is_over.load(Relaxed) {
                if Instant::now() >= due {
                    due += Duration::from_millis(PERIOD_MS);
                    let request = fake.request(router);
                    fake.client.send(&request);
                }
                let Some(packet) = fake.client.receive(Duration::from_millis(20)) else { continue };
                let token = packet.headers.pit_token;
                if let Ok(message) = Message::parse(&packet.wire) {
                    let query = |boot, slot| VipRequest { name: message.name.to_name(), token, boot, slot };
                    match message.body {
                        Body::CountsRequest { boot, slot, .. } => {
                            let content = message::counts(BOOT, 1, PERIOD_MS, counts.iter().copied());
                            fake.answer(&query(boot, slot), &content);
                        }
                        Body::OffersRequest { boot, slot, .. } => {
                            fake.answer(&query(boot, slot), &message::offers(BOOT, boot, 1, [].into_iter()));
                        }
                        _ => {}
                    }
                    continue;
                }
                let Ok(interest) = InterestView::parse(&packet.wire) else { continue };
                let name = interest.name.to_name();
                received.lock().unwrap().push(name.clone());
                if !is_silent.load(Relaxed) {
                    fake.answer(&VipRequest { name, token, boot: 0, slot: 0 }, b"x");
                }
            }
        });
        alive.thread = Some(thread);
        alive
    }

    fn has_seen(&self, uri: &str) -> bool {
        self.received.lock().unwrap().contains(&common::client::name(uri))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// An Interest of the first ones below.
const FIRST: &str = "/cms/hot/a/0";

/// A router between a cheaper neighbor that is full and a dearer one that has room, and an
/// application that has sent its first Interests, of which a neighbor has received [`FIRST`].
fn two_ways() -> (Router, Alive, Alive, Client) {
    let mut router = Router::start("me", "memory = 0");
    let (cheap, dear) = (Fake::new(&router), Fake::new(&router));
    let of = |fake: &Fake, name, cost: u32| {
        let text = Router::neighbour(fake.port, name, &fake.neighbor.key, "\"/cms\"");
        text.replace("[[vip.neighbour]]", &format!("cost = {cost}\n[[vip.neighbour]]"))
    };
    router.reload(&format!("{}{}", of(&cheap, "cheap", 1), of(&dear, "dear", 2)));
    let ids: Vec<u64> = router.objects().iter().map(|object| object.id).collect();
    let mut sorted: Vec<(u64, u64)> = ids.iter().map(|id| (*id, 100 * UNIT)).collect();
    sorted.sort_unstable();
    // The cheaper way is full, the other one has room.
    let (cheap, dear) = (Alive::new(cheap, "cheap", sorted), Alive::new(dear, "dear", Vec::new()));
    until("both are known", || router.neighbours().iter().all(|of| of.fresh_ms.is_some()).then_some(()));
    // The first neighbor whose counts arrive is the only way until the next slot.
    until("the cheaper way is known", || {
        (router.objects()[0].face_id == router.neighbours()[0].face_id).then_some(())
    });
    router.let_pass(1);
    let mut app = router.daemon.connect();
    (0..100).for_each(|n| app.ask(&format!("/cms/hot/a/{n}")));
    until("one of them receives it", || (cheap.has_seen(FIRST) || dear.has_seen(FIRST)).then_some(()));
    (router, cheap, dear, app)
}

#[test]
fn interests_follow_their_vips() {
    // A neighbor that gets no processor for two slots has no current counts. Then the other one is
    // the only way, and the test begins again.
    let (mut router, cheap, dear, mut app) = until("the first go the cheaper way", || {
        let all = two_ways();
        all.1.has_seen(FIRST).then_some(all)
    });
    let face = until("it is directed", || {
        let to_dear = router.neighbours()[1].face_id;
        (router.objects()[0].face_id == to_dear).then_some(to_dear)
    });
    assert_ne!(face, router.neighbours()[0].face_id);
    // The first Interests lock their next hop until 200 ms or two round trips after the last of
    // them.
    let mut slots = 0;
    let fresh = until("it follows the direction", || {
        slots += 1;
        router.let_pass(slots);
        let uri = format!("/cms/hot/a/{}", 1000 + slots);
        app.ask(&uri);
        until("one of them receives it", || (cheap.has_seen(&uri) || dear.has_seen(&uri)).then_some(()));
        dear.has_seen(&uri).then_some(uri)
    });
    assert!(!cheap.has_seen(&fresh));
    // The neighbor becomes silent. It attracts all traffic, because it reports no counts. The
    // router leaves it after one retransmission.
    dear.is_silent.store(true, Relaxed);
    let mut round = 0;
    until("others of the object go another way too", || {
        round += 1;
        let [lost, next] = ["lost", "next"].map(|what| format!("/cms/hot/a/{what}/{round}"));
        app.ask(&lost);
        until("one of them receives it", || (cheap.has_seen(&lost) || dear.has_seen(&lost)).then_some(()));
        if !dear.has_seen(&lost) {
            // The router still avoids the silent neighbor.
            return None;
        }
        until("another way is tried", || {
            app.ask(&lost);
            cheap.has_seen(&lost).then_some(())
        });
        // The router avoids it for 200 ms or two round trips. A busy machine may miss that time.
        app.ask(&next);
        until("one of them receives it", || (cheap.has_seen(&next) || dear.has_seen(&next)).then_some(()));
        (!dear.has_seen(&next)).then_some(())
    });
}
