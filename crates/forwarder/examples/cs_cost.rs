//! The cost of the content store: a hit among many Data, and an insertion that evicts, each as a
//! whole `receive()` from the parsed packet to the answer, on one thread. The cost of an insertion
//! is the difference to a store that admits nothing.
//!
//! `cargo run --release -p namely-forwarder --example cs_cost [PACKETS] [POLICY]`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use namely_forwarder::{
    Config, CsLimits, CsPolicy, FaceId, FaceProperties, Forwarder, Outgoing, Output, Received,
    UnsolicitedPolicy,
};
use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo};

type Packet = Arc<[u8]>;
type Router = Forwarder<Packet, parking_lot::RawMutex>;

/// Segments of one object.
const SEGMENTS: usize = 1000;

struct Count(usize);

impl Output<Packet> for Count {
    type Tier = ();
    type Tracer = ();

    fn send(&mut self, _: FaceId, packet: Outgoing<Packet>) {
        black_box(packet.packet);
        self.0 += 1;
    }
}

/// Four components: three of the object, and the segment.
fn name(i: usize) -> Name {
    let object: Name = format!("/example/object-{}/v=1", i / SEGMENTS).parse().expect("a name");
    object.join_segment((i % SEGMENTS) as u64)
}

fn data(i: usize) -> Packet {
    let name = name(i);
    DataBuilder::new(name.as_name()).build(&[7; 100], &SignatureInfo::digest_sha256()).finish(&[0; 32]).into()
}

fn router(packets: usize, policy: CsPolicy, admit: bool) -> Router {
    let config = Config {
        cs: CsLimits { packets_max: packets, entries_max: 8 * packets, octets_max: u64::MAX },
        cs_policy: policy,
        cs_admit: admit,
        unsolicited: UnsolicitedPolicy::AdmitAll,
        ..Config::new(|_| [0; 32])
    };
    Router::new(config, 7).expect("a router")
}

/// Nanoseconds for each packet: the least of several passes, each of `take` fresh packets.
fn time(passes: usize, mut packets: impl FnMut() -> Vec<Packet>, router: &Router, face: FaceId) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..passes {
        let packets = packets();
        let (count, mut out, start) = (packets.len(), Count(0), Instant::now());
        for packet in packets {
            router.receive(face, Received::bare(packet), 1, &mut out);
        }
        least = least.min(start.elapsed().as_nanos() as f64 / count as f64);
        black_box(out.0);
    }
    least
}

fn main() {
    let mut args = std::env::args().skip(1);
    let packets: usize = args.next().map_or(1_000_000, |text| text.parse().expect("a number of packets"));
    let policy: CsPolicy = args.next().map_or(CsPolicy::default(), |text| text.parse().expect("a policy"));
    let batch = 50_000.min(packets);
    let mut insertion = [0.0; 2];
    for admit in [false, true] {
        let router = router(packets, policy, admit);
        let face = router.face_register(FaceProperties::application()).expect("a face");
        let mut next = 0;
        let mut fresh = || {
            next += batch;
            (next - batch..next).map(data).collect::<Vec<_>>()
        };
        if admit {
            for _ in 0..packets / batch {
                let packets = fresh();
                packets.into_iter().for_each(|p| router.receive(face, Received::bare(p), 1, &mut Count(0)));
            }
        }
        insertion[usize::from(admit)] = time(8, fresh, &router, face);
        if !admit {
            continue;
        }
        let mut state = 1u64;
        let interests = || {
            let mut one = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let i = next - 1 - (state >> 33) as usize % (packets / 2);
                InterestBuilder::new(name(i)).nonce([1, 2, 3, 4]).build().into()
            };
            (0..batch).map(|_| one()).collect()
        };
        let hits = router.cs().status().hits;
        let hit = time(8, interests, &router, face);
        let info = router.cs().status();
        println!("{} {} packets", policy.name(), info.packets);
        println!(
            "hit               {hit:.0} ns ({:.1} % of Interests)",
            100.0 * (info.hits - hits) as f64 / (8 * batch) as f64
        );
    }
    println!("Data, not admitted {:.0} ns", insertion[0]);
    println!(
        "Data, with evict   {:.0} ns: insertion and eviction {:.0} ns",
        insertion[1],
        insertion[1] - insertion[0]
    );
}
