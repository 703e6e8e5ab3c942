//! The tier below the content store in memory, controlled by a script: its requests, the fate of
//! parked Interests, and the Data that it is offered.

use crate::bench::*;
use namely_forwarder::{
    Completion, Config, CsLimits, EvictedData, FaceId, FaceProperties, Outgoing, Output, Received, Ticket,
    Tier, TierAnswer, TierRequest, TierWrite,
};
use namely_wire::{DataView, LpHeaders, Name};

/// An embedder with a tier that follows the test's script.
pub(crate) struct Home {
    pub(crate) sent: Sent,
    pub(crate) answer: TierAnswer,
    pub(crate) write: TierWrite,
    pub(crate) is_busy: bool,
    pub(crate) lookups: Vec<TierLookup>,
    pub(crate) given: Vec<EvictedData<Packet>>,
}

/// A request to the tier.
#[derive(Clone, Debug)]
pub(crate) struct TierLookup {
    pub(crate) name: Name,
    pub(crate) may_bypass: bool,
    pub(crate) ticket: Ticket,
}

impl Home {
    pub(crate) fn new(answer: TierAnswer) -> Self {
        Home {
            sent: Sent::new(),
            answer,
            write: TierWrite::Accepted,
            is_busy: false,
            lookups: Vec::new(),
            given: Vec::new(),
        }
    }
}

impl Output<Packet> for Home {
    type Tier = Self;
    type Tracer = ();

    fn send(&mut self, face: FaceId, packet: Outgoing<Packet>) {
        self.sent.push((face, packet));
    }

    fn tier(&mut self) -> Option<&mut Self> {
        Some(self)
    }
}

impl Tier<Packet> for Home {
    fn read(&mut self, wanted: &TierRequest<'_>) -> TierAnswer {
        let TierRequest { name, may_bypass, ticket, .. } = *wanted;
        self.lookups.push(TierLookup { name: name.to_name(), may_bypass, ticket });
        self.answer
    }

    fn is_busy(&self) -> bool {
        self.is_busy
    }

    fn write(&mut self, leaving: EvictedData<Packet>) -> TierWrite {
        self.given.push(leaving);
        self.write
    }
}

/// A bench with a tier.
pub(crate) struct Tiered {
    pub(crate) bench: Bench,
    pub(crate) home: Home,
}

impl Tiered {
    pub(crate) fn new(answer: TierAnswer) -> Self {
        Tiered::with(config(), answer)
    }

    pub(crate) fn with(config: Config, answer: TierAnswer) -> Self {
        Tiered { bench: Bench::with(config), home: Home::new(answer) }
    }

    pub(crate) fn receive(&mut self, face: FaceId, packet: impl Into<Packet>) -> Sent {
        self.receive_with(face, packet, LpHeaders::default())
    }

    pub(crate) fn receive_with(
        &mut self,
        face: FaceId,
        packet: impl Into<Packet>,
        headers: LpHeaders,
    ) -> Sent {
        let received = Received { packet: packet.into(), headers };
        self.bench.fw.receive(face, received, self.bench.now_ns, &mut self.home);
        std::mem::take(&mut self.home.sent)
    }

    pub(crate) fn complete(&mut self, ticket: Ticket, completion: Completion<Packet>) -> Sent {
        self.bench.fw.tier_completed(ticket, completion, self.bench.now_ns, &mut self.home);
        std::mem::take(&mut self.home.sent)
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.home.lookups.last().expect("the tier was asked").ticket
    }
}

fn found(packet: &Packet) -> Completion<Packet> {
    Completion::Found { packet: packet.clone(), fresh_until_ns: 0, is_busy: false }
}

#[test]
fn a_parked_interest_waits_for_its_read() {
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let (one, other, upstream) = (tiered.bench.app(), tiered.bench.remote(), tiered.bench.remote());
    tiered.bench.route("/a", upstream, 0);
    assert!(tiered.receive_with(one, interest("/a/b").build(), token(&[1])).is_empty());
    assert!(tiered.receive_with(other, interest("/a/b").build(), token(&[2])).is_empty(), "aggregated");
    assert_eq!(tiered.home.lookups.len(), 1);
    let lookup = &tiered.home.lookups[0];
    assert_eq!((lookup.name.clone(), lookup.may_bypass), (name("/a/b"), true));
    let packet = data("/a/b");
    let sent = tiered.complete(tiered.ticket(), found(&packet));
    assert_eq!(faces(&sent), [one, other]);
    assert_eq!(sent.iter().filter_map(|(_, data)| token_of(data)).collect::<Vec<_>>(), [vec![1], vec![2]]);
    assert_eq!(tiered.bench.fw.table_sizes().pit, 0);
    assert_eq!(faces(&tiered.receive(one, interest("/a/b").build())), [one], "it is in memory now");
    let counts = tiered.bench.fw.counters().tier;
    assert_eq!((counts.reads, counts.hits, counts.late), (1, 1, 0));
    assert!(DataView::parse(&packet).is_ok() && tiered.bench.drops() == 0);
}

#[test]
fn a_tier_miss_goes_upstream_at_once() {
    for (answer, absent, busy) in [(TierAnswer::Absent, 1, 0), (TierAnswer::Busy, 0, 1)] {
        let mut tiered = Tiered::new(answer);
        let (consumer, upstream) = (tiered.bench.app(), tiered.bench.remote());
        tiered.bench.route("/a", upstream, 0);
        assert_eq!(faces(&tiered.receive(consumer, interest("/a/b").build())), [upstream]);
        assert_eq!(faces(&tiered.receive(upstream, data("/a/b"))), [consumer]);
        let counts = tiered.bench.fw.counters().tier;
        assert_eq!((counts.bypass_absent, counts.bypass_busy, counts.reads), (absent, busy, 0));
    }
}

#[test]
fn a_failed_read_sends_the_interest_on() {
    let wrong: Packet = [6, 3, 1].as_slice().into();
    let outcomes =
        [Completion::Absent, Completion::Failed, found(&data("/a/c")), found(&wrong), found(&data("/a/b/c"))];
    for (i, outcome) in outcomes.into_iter().enumerate() {
        let mut tiered = Tiered::new(TierAnswer::Reading);
        let (consumer, other) = (tiered.bench.remote(), tiered.bench.remote());
        let upstream = tiered.bench.remote();
        tiered.bench.route("/a", upstream, 0);
        let packet = interest("/a/b").hop_limit(9).build();
        let marked = LpHeaders { congestion_mark: Some(1), ..LpHeaders::default() };
        assert!(tiered.receive_with(consumer, packet.clone(), marked).is_empty());
        assert!(tiered.receive(other, interest("/a/b").build()).is_empty());
        let sent = tiered.complete(tiered.ticket(), outcome);
        assert_eq!(faces(&sent), [upstream]);
        assert_eq!((&*sent[0].1.packet, sent[0].1.hop_limit.map(|(_, hops)| hops)), (&*packet, Some(8)));
        assert_eq!(sent[0].1.headers.congestion_mark, Some(1));
        assert_eq!(faces(&tiered.receive(upstream, data("/a/b"))), [consumer, other]);
        let counts = tiered.bench.fw.counters().tier;
        let one_of = |n: usize| u64::from(i == n);
        assert_eq!((counts.misses, counts.failed), (one_of(0), one_of(1)));
        assert_eq!((counts.wrong, counts.hits), (u64::from(i > 1), 0));
    }
}

#[test]
fn stale_tier_data_fails_must_be_fresh() {
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let (consumer, upstream) = (tiered.bench.app(), tiered.bench.remote());
    tiered.bench.route("/a", upstream, 0);
    let packet = data_with("/a/b", 1000, b"x");
    let read = |fresh_until_ns| Completion::Found { packet: packet.clone(), fresh_until_ns, is_busy: false };
    let now_ns = tiered.bench.now_ns;
    tiered.receive(consumer, interest("/a/b").must_be_fresh().build());
    assert_eq!(faces(&tiered.complete(tiered.ticket(), read(now_ns))), [upstream]);
    assert_eq!(tiered.bench.fw.counters().tier.misses, 1);
    tiered.receive(consumer, interest("/a/b").build());
    assert_eq!(
        faces(&tiered.complete(tiered.ticket(), read(now_ns))),
        [consumer],
        "who did not ask for fresh"
    );
    let fresh = || interest("/a/b").must_be_fresh().build();
    assert!(tiered.receive(consumer, fresh()).is_empty(), "neither in memory nor sent twice");
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let consumer = tiered.bench.app();
    tiered.receive(consumer, fresh());
    assert_eq!(faces(&tiered.complete(tiered.ticket(), read(now_ns + 5 * MS))), [consumer]);
    tiered.bench.advance_ms(4);
    assert_eq!(faces(&tiered.receive(consumer, fresh())), [consumer]);
    tiered.bench.advance_ms(1);
    assert!(tiered.receive(consumer, fresh()).is_empty(), "its time went on while it was in the tier");
}

#[test]
fn a_retransmission_races_the_read() {
    for disk_first in [true, false] {
        let mut tiered = Tiered::new(TierAnswer::Reading);
        let (consumer, upstream) = (tiered.bench.remote(), tiered.bench.remote());
        tiered.bench.route("/a", upstream, 0);
        tiered.receive(consumer, interest("/a/b").build());
        assert_eq!(faces(&tiered.receive(consumer, interest("/a/b").build())), [upstream]);
        assert_eq!(tiered.home.lookups.len(), 1, "the tier is not asked twice");
        let (packet, ticket) = (data("/a/b"), tiered.ticket());
        if disk_first {
            assert_eq!(faces(&tiered.complete(ticket, found(&packet))), [consumer]);
            assert!(tiered.receive(upstream, packet).is_empty());
        } else {
            assert_eq!(faces(&tiered.receive(upstream, packet.clone())), [consumer]);
            assert!(tiered.complete(ticket, found(&packet)).is_empty());
        }
        let counts = tiered.bench.fw.counters().tier;
        assert_eq!((counts.hits, counts.late), (u64::from(disk_first), u64::from(!disk_first)));
    }
}

#[test]
fn a_loop_to_a_parked_interest_is_nacked() {
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let (consumer, other) = (tiered.bench.remote(), tiered.bench.remote());
    let upstream = tiered.bench.remote();
    tiered.bench.route("/a", upstream, 0);
    let asked = interest("/a/b").build();
    tiered.receive(consumer, asked.clone());
    let sent = tiered.receive(other, asked);
    assert!(faces(&sent) == [other] && is_nack(&sent[0].1, namely_wire::NackReason::Duplicate));
    let again = interest("/a/b").build();
    assert_eq!(faces(&tiered.receive(consumer, again.clone())), [upstream]);
    let nack = LpHeaders { nack: Some(namely_wire::NackReason::NoRoute), ..LpHeaders::default() };
    let sent = tiered.receive_with(upstream, again, nack);
    assert!(faces(&sent) == [consumer] && is_nack(&sent[0].1, namely_wire::NackReason::NoRoute));
    assert!(tiered.complete(tiered.ticket(), Completion::Absent).is_empty());
    assert_eq!((tiered.bench.fw.table_sizes().pit, tiered.bench.fw.counters().tier.late), (0, 1));
}

#[test]
fn a_parked_interest_ends_with_its_lifetime() {
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let consumer = tiered.bench.app();
    tiered.receive(consumer, interest("/a/b").lifetime_ms(10).build());
    let late = tiered.ticket();
    tiered.bench.advance_ms(12);
    tiered.bench.fw.expire(tiered.bench.now_ns, &mut tiered.home);
    assert_eq!(tiered.bench.fw.table_sizes().pit, 0);
    tiered.receive(consumer, interest("/a/b").build());
    assert!(tiered.complete(late, found(&data("/a/b"))).is_empty(), "the next user of the same place");
    assert_eq!(faces(&tiered.complete(tiered.ticket(), found(&data("/a/b")))), [consumer]);
    assert!(tiered.complete(Ticket::from_bits(u64::MAX), Completion::Absent).is_empty());
    assert_eq!(tiered.bench.fw.counters().tier.late, 2);
}

#[test]
fn without_a_route_the_tier_must_read() {
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let (one, other) = (tiered.bench.app(), tiered.bench.remote());
    tiered.receive(one, interest("/a/b").build());
    tiered.receive(other, interest("/a/b").build());
    assert!(!tiered.home.lookups[0].may_bypass);
    let sent = tiered.complete(tiered.ticket(), Completion::Absent);
    assert_eq!(faces(&sent), [one, other]);
    assert!(sent.iter().all(|(_, nack)| is_nack(nack, namely_wire::NackReason::NoRoute)));
    assert_eq!(tiered.bench.fw.table_sizes().pit, 0);
}

#[test]
fn a_digest_selects_data_of_the_tier() {
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let (consumer, upstream) = (tiered.bench.app(), tiered.bench.remote());
    tiered.bench.route("/a", upstream, 0);
    let (packet, other) = (data("/a"), data_with("/a", 0, b"other"));
    let asked = || {
        let name = full_name("/a", &packet);
        namely_wire::InterestBuilder::new(name).nonce(nonce()).build()
    };
    tiered.receive(consumer, asked());
    assert_eq!(tiered.home.lookups[0].name, name("/a"), "the tier is asked by the name of the Data");
    assert_eq!(faces(&tiered.complete(tiered.ticket(), found(&other))), [upstream]);
    assert_eq!(faces(&tiered.receive(upstream, packet.clone())), [consumer]);
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let consumer = tiered.bench.app();
    tiered.receive(consumer, asked());
    assert_eq!(faces(&tiered.complete(tiered.ticket(), found(&packet))), [consumer]);
}

#[test]
fn evicted_data_is_offered_to_the_tier() {
    let config = Config {
        cs: CsLimits { packets_max: 2, ..config().cs },
        cs_policy: namely_forwarder::CsPolicy::Lru,
        ..config()
    };
    let mut tiered = Tiered::with(config, TierAnswer::Absent);
    let (consumer, upstream) = (tiered.bench.app(), tiered.bench.remote());
    tiered.bench.route("/", upstream, 0);
    let fetch = |tiered: &mut Tiered, uri: &str| {
        tiered.receive(consumer, interest(uri).build());
        tiered.receive(upstream, data_with(uri, 7, b"x"));
    };
    fetch(&mut tiered, "/1");
    assert_eq!(faces(&tiered.receive(consumer, interest("/1").build())), [consumer]);
    ["/2", "/3", "/4"].iter().for_each(|uri| fetch(&mut tiered, uri));
    let given = std::mem::take(&mut tiered.home.given);
    let fresh_until_ns = tiered.bench.now_ns + 7 * MS;
    assert!(given.iter().all(|leaving| leaving.fresh_until_ns == fresh_until_ns));
    let was_requested: Vec<bool> = given.iter().map(|leaving| leaving.was_requested).collect();
    assert_eq!((was_requested, given[0].packet.clone()), (vec![true, false], data_with("/1", 7, b"x")));
    // Data that came from the tier is not offered to it again.
    tiered.home.answer = TierAnswer::Reading;
    for uri in ["/1", "/2", "/5"] {
        tiered.receive(consumer, interest(uri).build());
        tiered.complete(tiered.ticket(), found(&data(uri)));
    }
    let given: Vec<Packet> = tiered.home.given.iter().map(|leaving| leaving.packet.clone()).collect();
    assert_eq!(given, ["/3", "/4"].map(|uri| data_with(uri, 7, b"x")), "of /1 the tier has a copy");
    tiered.home.write = TierWrite::Busy;
    tiered.home.answer = TierAnswer::Absent;
    (6..9).for_each(|i| fetch(&mut tiered, &format!("/{i}")));
    let counts = tiered.bench.fw.counters().tier;
    assert_eq!((counts.writes, counts.writes_refused, counts.writes_bypassed), (4, 0, 1));
}

#[test]
fn a_disabled_store_skips_the_tier() {
    let mut tiered = Tiered::with(Config { cs_serve: false, ..config() }, TierAnswer::Reading);
    let (consumer, upstream) = (tiered.bench.app(), tiered.bench.remote());
    tiered.bench.route("/a", upstream, 0);
    assert_eq!(faces(&tiered.receive(consumer, interest("/a").build())), [upstream]);
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let privileged = FaceProperties { local_fields: true, ..FaceProperties::application() };
    let (consumer, upstream) = (tiered.bench.face(privileged), tiered.bench.remote());
    let chosen = LpHeaders { next_hop_face_id: Some(upstream.0), ..LpHeaders::default() };
    assert_eq!(faces(&tiered.receive_with(consumer, interest("/a").build(), chosen)), [upstream]);
    assert!(tiered.home.lookups.is_empty());
}
