use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, Name};

use super::*;

fn packet(number: u64) -> (Name, Vec<u8>) {
    let name: Name = "/p/object/v=1".parse::<Name>().unwrap().join_segment(number);
    let content = [number as u8; 3000];
    let wire = sign_data(&DataBuilder::new(name.as_name()), &content, &Signer::digest_sha256()).unwrap();
    (name, wire)
}

fn options(engine: EngineKind) -> Options {
    Options { engine, sync_interval: Duration::ZERO, ..Options::new(OCTETS_MIN) }
}

fn read(tier: &Tier, caller: &mut Caller, number: u64) -> Option<Vec<u8>> {
    match caller.read(ReadId(number), packet(number).0.as_name(), None, Bypass::Impossible) {
        Asked::Absent => None,
        Asked::Busy => panic!("busy"),
        Asked::Reading => loop {
            if tier.keeper.is_none() {
                tier.turn();
            }
            if let Some(done) = caller.completed() {
                assert_eq!(done.id, ReadId(number));
                return done.outcome.found().map(|data| data.packet().to_vec());
            }
            std::thread::yield_now();
        },
    }
}

#[test]
fn what_was_written_is_read_at_once_and_after_a_restart() {
    for engine in [EngineKind::Inline, EngineKind::Threads(3), EngineKind::Uring] {
        let folder = tempfile::tempdir().unwrap();
        let tier = Tier::open(folder.path(), &options(engine)).unwrap();
        let mut caller = tier.caller().unwrap();
        for number in 0..10 {
            let (name, wire) = packet(number);
            assert_eq!(read(&tier, &mut caller, number), None);
            assert_eq!(tier.write(name.as_name(), &wire, 0), Written::Taken);
            assert_eq!(read(&tier, &mut caller, number), Some(wire));
        }
        assert_eq!(tier.status().hits_memory, 10);
        tier.sync().unwrap();
        for number in 0..10 {
            assert_eq!(read(&tier, &mut caller, number), Some(packet(number).1));
        }
        assert_eq!(tier.status().disk_reads, 10);
        tier.close().unwrap();
        let tier = Tier::open(folder.path(), &options(engine)).unwrap();
        let mut caller = tier.caller().unwrap();
        assert_eq!(tier.status().records, 10);
        for number in 0..10 {
            assert_eq!(read(&tier, &mut caller, number), Some(packet(number).1));
        }
        assert_eq!(read(&tier, &mut caller, 10), None);
    }
}

#[test]
fn what_is_erased_is_not_read_again_not_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    let mut caller = tier.caller().unwrap();
    let other = "/q/v=1/seg=0".parse::<Name>().unwrap();
    let wire = sign_data(&DataBuilder::new(other.as_name()), b"q", &Signer::digest_sha256()).unwrap();
    assert_eq!(tier.write(other.as_name(), &wire, 0), Written::Taken);
    for number in 0..10 {
        let (name, wire) = packet(number);
        assert_eq!(tier.write(name.as_name(), &wire, 0), Written::Taken);
    }
    tier.erase("/p/object".parse::<Name>().unwrap().as_name()).unwrap();
    assert_eq!(read(&tier, &mut caller, 3), None, "before anything was taken out");
    tier.turn();
    assert_eq!((tier.status().erasing, tier.status().erased, tier.status().records), (0, 10, 1));
    // What comes later counts.
    assert_eq!(tier.write(packet(3).0.as_name(), &packet(3).1, 0), Written::Taken);
    assert_eq!(read(&tier, &mut caller, 3), Some(packet(3).1));
    tier.close().unwrap();
    for index in [true, false] {
        if !index {
            // A segment that has lost its index is read again.
            std::fs::remove_file(segment::index_path(folder.path(), 1)).unwrap();
        }
        let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
        let mut caller = tier.caller().unwrap();
        assert_eq!(read(&tier, &mut caller, 4), None);
        assert_eq!(read(&tier, &mut caller, 3), Some(packet(3).1));
        assert_eq!(tier.status().records, 2);
    }
}
