//! The tier below the content store in memory, by a script: what it is asked, what becomes of
//! parked Interests, and what it is given.

use crate::bench::*;
use namely_forwarder::{
    Completion, Config, FaceId, Leaving, Outgoing, Output, Received, Ticket, TierAnswer, TierWrite, Wanted,
};
use namely_wire::{DataView, LpHeaders, Name};

/// A home whose tier says what it is told to.
pub(crate) struct Home {
    pub(crate) sent: Sent,
    pub(crate) answer: TierAnswer,
    pub(crate) write: TierWrite,
    pub(crate) asked: Vec<Asked>,
    pub(crate) given: Vec<Leaving<Packet>>,
}

/// What the tier was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) name: Name,
    pub(crate) may_bypass: bool,
    pub(crate) ticket: Ticket,
}

impl Home {
    pub(crate) fn new(answer: TierAnswer) -> Self {
        Home { sent: Sent::new(), answer, write: TierWrite::Taken, asked: Vec::new(), given: Vec::new() }
    }
}

impl Output<Packet> for Home {
    const HAS_TIER: bool = true;

    fn send(&mut self, face: FaceId, packet: Outgoing<Packet>) {
        self.sent.push((face, packet));
    }

    fn tier_read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
        let Wanted { name, may_bypass, ticket, .. } = *wanted;
        self.asked.push(Asked { name: name.to_name(), may_bypass, ticket });
        self.answer
    }

    fn tier_write(&mut self, leaving: Leaving<Packet>) -> TierWrite {
        self.given.push(leaving);
        self.write
    }
}

/// A bench whose home has a tier.
struct Tiered {
    bench: Bench,
    home: Home,
}

impl Tiered {
    fn new(answer: TierAnswer) -> Self {
        Tiered::with(config(), answer)
    }

    fn with(config: Config, answer: TierAnswer) -> Self {
        Tiered { bench: Bench::with(config), home: Home::new(answer) }
    }

    fn receive(&mut self, face: FaceId, packet: impl Into<Packet>) -> Sent {
        self.receive_with(face, packet, LpHeaders::default())
    }

    fn receive_with(&mut self, face: FaceId, packet: impl Into<Packet>, headers: LpHeaders) -> Sent {
        let received = Received { packet: packet.into(), headers };
        self.bench.fw.receive(face, received, self.bench.now_ns, &mut self.home);
        std::mem::take(&mut self.home.sent)
    }

    fn complete(&mut self, ticket: Ticket, completion: Completion<Packet>) -> Sent {
        self.bench.fw.tier_completed(ticket, completion, self.bench.now_ns, &mut self.home);
        std::mem::take(&mut self.home.sent)
    }

    fn ticket(&self) -> Ticket {
        self.home.asked.last().expect("the tier was asked").ticket
    }
}

fn found(packet: &Packet) -> Completion<Packet> {
    Completion::Found { packet: packet.clone(), fresh_until_ns: 0, is_busy: false }
}

#[test]
fn an_interest_is_parked_until_its_read_completes_and_answered_like_one_that_went_upstream() {
    let mut tiered = Tiered::new(TierAnswer::Reading);
    let (one, other, upstream) = (tiered.bench.app(), tiered.bench.remote(), tiered.bench.remote());
    tiered.bench.route("/a", upstream, 0);
    assert!(tiered.receive_with(one, interest("/a/b").build(), token(&[1])).is_empty());
    assert!(tiered.receive_with(other, interest("/a/b").build(), token(&[2])).is_empty(), "aggregated");
    assert_eq!(tiered.home.asked.len(), 1);
    let asked = &tiered.home.asked[0];
    assert_eq!((asked.name.clone(), asked.may_bypass), (name("/a/b"), true));
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
