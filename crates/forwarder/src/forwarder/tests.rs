//! Plays the same packets through two forwarders, one with full name hashes and one whose name
//! hashes collide. Their output must not differ: a hash only gives a position, and the comparison
//! of names decides.

use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_wire::{DataBuilder, InterestBuilder, LpHeaders, NackReason, Name, PitToken, SignatureInfo};
use proptest::prelude::*;

use super::*;
use crate::bpt::BindError;
use crate::faces::FaceProperties;
use crate::fib::FibError;
use crate::packet::Outgoing;

type Packet = Arc<[u8]>;
type Sent = Vec<(FaceId, Outgoing<Packet>)>;

#[derive(Clone, Debug)]
enum Step {
    Interest { face: usize, name: Name, can_be_prefix: bool, nonce: u8 },
    Data { face: usize, name: Name },
    Nack { face: usize, name: Name, nonce: u8 },
    Route { face: usize, name: Name, cost: u64 },
    Pass { ms: u64 },
}

fn name() -> impl Strategy<Value = Name> {
    namely_testkit::names(2, 1..4)
}

fn step() -> impl Strategy<Value = Step> {
    let interest = (0usize..4, name(), any::<bool>(), 0u8..8);
    prop_oneof![
        6 => interest.prop_map(|(face, name, can_be_prefix, nonce)| {
            Step::Interest { face, name, can_be_prefix, nonce }
        }),
        4 => (0usize..4, name()).prop_map(|(face, name)| Step::Data { face, name }),
        1 => (0usize..4, name(), 0u8..8).prop_map(|(face, name, nonce)| Step::Nack { face, name, nonce }),
        2 => (0usize..4, name(), 0u64..3).prop_map(|(face, name, cost)| Step::Route { face, name, cost }),
        1 => (1u64..3000).prop_map(|ms| Step::Pass { ms }),
    ]
}

/// Returns a Nonce that differs between names. The dead-nonce list stores hashes instead of names,
/// so with one Nonce it could not distinguish colliding names.
fn nonce_of(name: &Name, nonce: u8) -> [u8; 4] {
    let letters = name.components().fold(0, |letters: u8, c| letters << 1 | (c.value[0] & 1));
    [nonce, name.len() as u8, letters, 0]
}

struct Player {
    forwarder: Forwarder<Packet, parking_lot::RawMutex>,
    faces: [FaceId; 4],
    now_ns: u64,
}

impl Player {
    fn new(hasher: NameHasher) -> Self {
        let forwarder = Forwarder::with_hasher(Config::new(|_| [0; 32]), hasher).unwrap();
        let specs = [
            FaceProperties::application(),
            FaceProperties::remote(),
            FaceProperties::remote(),
            FaceProperties::group(),
        ];
        let faces = specs.map(|spec| forwarder.face_register(spec).unwrap());
        Player { forwarder, faces, now_ns: 0 }
    }

    fn play(&mut self, step: &Step) -> Sent {
        let mut sent = Sent::new();
        let token = PitToken::new(&[self.now_ns as u8, 1]);
        let (face, packet, nack) = match step {
            Step::Interest { face, name, can_be_prefix, nonce } => {
                let builder =
                    InterestBuilder::new(name.clone()).nonce(nonce_of(name, *nonce)).lifetime_ms(2000);
                let builder = if *can_be_prefix { builder.can_be_prefix() } else { builder };
                (face, builder.build(), None)
            }
            Step::Data { face, name } => {
                let builder = DataBuilder::new(name.as_name()).freshness_ms(1000);
                (face, builder.build(b"x", &SignatureInfo::digest_sha256()).finish(&[0; 32]), None)
            }
            Step::Nack { face, name, nonce } => {
                let interest = InterestBuilder::new(name.clone()).nonce(nonce_of(name, *nonce)).build();
                (face, interest, Some(NackReason::NoRoute))
            }
            Step::Route { face, name, cost } => {
                self.forwarder.fib().add_nexthop(name.as_name(), self.faces[*face], *cost).unwrap();
                return sent;
            }
            Step::Pass { ms } => {
                self.now_ns += ms * 1_000_000;
                self.forwarder.expire(self.now_ns, &mut sent);
                return sent;
            }
        };
        let headers = LpHeaders { pit_token: token, nack, ..LpHeaders::default() };
        let received = Received { packet: packet.into(), headers };
        self.forwarder.receive(self.faces[*face], received, self.now_ns, &mut sent);
        sent
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn colliding_hashes_change_no_result(
        steps in proptest::collection::vec(step(), 1..120),
        mask in prop_oneof![Just(0), Just(1), Just(7)],
    ) {
        let mut players = [Player::new(NameHasher::new(8)), Player::new(NameHasher::colliding(mask))];
        for step in steps {
            let [one, other] = players.each_mut().map(|player| player.play(&step));
            prop_assert_eq!(one, other);
        }
        let [one, other] = players.each_ref().map(|player| player.forwarder.counters());
        prop_assert_eq!(one, other);
    }
}

/// A race, as sequential steps: the face is released between two steps of the control path.
#[test]
fn entries_for_a_released_face_are_refused() {
    let forwarder = Forwarder::<Arc<[u8]>, parking_lot::RawMutex>::new(Config::new(|_| [0; 32]), 1).unwrap();
    let id = forwarder.face_register(FaceProperties::application()).unwrap();
    let key = forwarder.tables.faces.key_of(id).unwrap();
    forwarder.face_release(id).unwrap();
    let name: Name = "/a".parse().unwrap();
    assert_eq!(forwarder.fib().enter_nexthop(name.as_name(), key, 0), Err(FibError::NoFace));
    assert_eq!(forwarder.bindings().enter_binding(name.as_name(), key), Err(BindError::NoFace));
    let sizes = forwarder.table_sizes();
    assert_eq!((sizes.fib, sizes.bindings), (0, 0));
}
