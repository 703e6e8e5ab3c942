use std::collections::BTreeMap;

use namely_security::{Signer, sha256, sign_data};
use namely_testkit::name;
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{Component, DataBuilder, InterestBuilder, Name};
use proptest::prelude::*;

use super::*;

fn data(name: &Name, content: &[u8]) -> Packet {
    Arc::new(sign_data(&DataBuilder::new(name.as_name()), content, &Signer::digest_sha256()).unwrap())
}

fn find(buffer: &mut Buffer, interest: &InterestBuilder) -> Option<BufferedPacket> {
    buffer.find(&InterestView::parse(&interest.build()).unwrap(), 0)
}

fn lookup(buffer: &mut Buffer, uri: &str) -> Option<Packet> {
    match find(buffer, &InterestBuilder::new(name(uri)))? {
        BufferedPacket::Memory(packet) => Some(packet),
        BufferedPacket::Disk(_) => None,
    }
}

/// A buffer with room for `packets` packets of the same length, `/p/0` on.
fn filled(packets: usize, policy: BufferPolicy) -> Buffer {
    let length = data(&name("/p/0"), b"x").len();
    let mut buffer = Buffer::new(packets * length, policy);
    for i in 0..packets {
        let name = name(&format!("/p/{i}"));
        buffer.insert(name.as_name(), data(&name, b"x"), None);
    }
    buffer
}

fn in_memory(buffer: &Buffer) -> Vec<String> {
    let held = buffer.index.iter().filter(|(_, entry)| entry.slot.is_some());
    held.map(|(name, _)| NameRef::parse_value(name).unwrap().to_string()).collect()
}

fn add(buffer: &mut Buffer, uri: &str) {
    let name = name(uri);
    buffer.insert(name.as_name(), data(&name, b"x"), None);
}

#[test]
fn a_full_buffer_evicts_one_packet() {
    let mut buffer = filled(3, BufferPolicy::Fifo);
    assert_eq!((buffer.len(), buffer.evicted(), buffer.octets()), (3, 0, buffer.octets_max));
    add(&mut buffer, "/p/3");
    assert_eq!((buffer.len(), buffer.evicted(), buffer.octets()), (3, 1, buffer.octets_max));
    // A packet larger than the memory limit is not cached, and evicts no other packet.
    let huge = name("/p/4");
    buffer.insert(huge.as_name(), data(&huge, &[0; 1000]), None);
    assert_eq!((buffer.len(), lookup(&mut buffer, "/p/4")), (3, None));
    let location = Location { file: 1, offset: 16, octets: 1000 };
    buffer.insert(huge.as_name(), data(&huge, &[0; 1000]), Some(location));
    assert_eq!(find(&mut buffer, &InterestBuilder::new(huge)), Some(BufferedPacket::Disk(location)));
}

#[test]
fn fifo_evicts_the_oldest_packet() {
    let mut buffer = filled(3, BufferPolicy::Fifo);
    lookup(&mut buffer, "/p/0").unwrap();
    add(&mut buffer, "/p/3");
    assert_eq!(in_memory(&buffer), ["/p/1", "/p/2", "/p/3"]);
}

#[test]
fn lru_evicts_the_least_recently_used_packet() {
    let mut buffer = filled(3, BufferPolicy::Lru);
    lookup(&mut buffer, "/p/0").unwrap();
    add(&mut buffer, "/p/3");
    assert_eq!(in_memory(&buffer), ["/p/0", "/p/2", "/p/3"]);
}

#[test]
fn lfu_evicts_the_least_frequently_used_packet() {
    let mut buffer = filled(3, BufferPolicy::Lfu);
    for uri in ["/p/0", "/p/0", "/p/2", "/p/2", "/p/1"] {
        lookup(&mut buffer, uri).unwrap();
    }
    add(&mut buffer, "/p/3");
    // The new packet has the fewest uses, so the next insertion evicts it.
    add(&mut buffer, "/p/4");
    assert_eq!(in_memory(&buffer), ["/p/0", "/p/2", "/p/4"]);
}

#[test]
fn a_prefix_gets_the_newest_versions_first_packet() {
    let mut buffer = Buffer::new(1 << 20, BufferPolicy::Lru);
    for version in [9, 300, 70_000, 10] {
        for segment in [0, 1] {
            let name = name("/p/32=metadata").join_version(version).join_segment(segment);
            buffer.insert(name.as_name(), data(&name, b"x"), None);
        }
    }
    add(&mut buffer, "/p/zzz");
    let answer =
        |buffer: &mut Buffer, uri: &str| match find(buffer, &InterestBuilder::new(name(uri)).can_be_prefix())
        {
            Some(BufferedPacket::Memory(packet)) => DataView::parse(&packet).unwrap().name.to_string(),
            other => panic!("{other:?}"),
        };
    assert_eq!(answer(&mut buffer, "/p/32=metadata"), "/p/32=metadata/v=70000/seg=0");
    assert_eq!(answer(&mut buffer, "/p/32=metadata/v=300"), "/p/32=metadata/v=300/seg=0");
    assert_eq!(answer(&mut buffer, "/p"), "/p/zzz");
    assert_eq!(find(&mut buffer, &InterestBuilder::new(name("/p/zz")).can_be_prefix()), None);
    assert_eq!(find(&mut buffer, &InterestBuilder::new(name("/p"))), None);
    assert!(buffer.has_below(name("/p/32=metadata").as_name()));
    assert!(!buffer.has_below(name("/p/zz").as_name()));
}

#[test]
fn an_expired_packet_never_answers_must_be_fresh() {
    let mut buffer = filled(1, BufferPolicy::Lru);
    buffer.expire_at(name("/p/0").as_name(), Some(100));
    let mut is_found = |interest: InterestBuilder, now_ns| {
        buffer.find(&InterestView::parse(&interest.build()).unwrap(), now_ns).is_some()
    };
    let interest = || InterestBuilder::new(name("/p/0"));
    assert!(is_found(interest().must_be_fresh(), 99) && !is_found(interest().must_be_fresh(), 100));
    assert!(is_found(interest(), 100));
    assert!(!is_found(InterestBuilder::new(name("/p")).can_be_prefix().must_be_fresh(), 100));
    buffer.expire_at(name("/p/0").as_name(), None);
    assert!(buffer.find(&InterestView::parse(&interest().must_be_fresh().build()).unwrap(), 100).is_some());
}

#[test]
fn a_digest_selects_among_64_packets() {
    let mut buffer = Buffer::new(1 << 20, BufferPolicy::Lru);
    for i in 0..=CANDIDATES_MAX {
        add(&mut buffer, &format!("/p/{i:03}"));
    }
    let full = |i: usize, prefix: &str| {
        let packet = data(&name(&format!("/p/{i:03}")), b"x");
        let digest = sha256(&packet);
        name(prefix).join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest })
    };
    let last = CANDIDATES_MAX - 1;
    let found = find(&mut buffer, &InterestBuilder::new(full(last, "/p")).can_be_prefix());
    assert_eq!(found, Some(BufferedPacket::Memory(data(&name(&format!("/p/{last:03}")), b"x"))));
    let past = find(&mut buffer, &InterestBuilder::new(full(CANDIDATES_MAX, "/p")).can_be_prefix());
    assert_eq!(past, None);
    let exact = find(&mut buffer, &InterestBuilder::new(full(CANDIDATES_MAX, "/p/064")));
    assert!(matches!(exact, Some(BufferedPacket::Memory(_))));
    assert_eq!(find(&mut buffer, &InterestBuilder::new(full(1, "/p/064"))), None);
}

/// One step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Insert { name: usize, stored: bool },
    Find { name: usize, prefix: bool },
    Remove { name: usize },
    RemoveFile { file: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0usize..12;
    prop_oneof![
        4 => (name.clone(), any::<bool>()).prop_map(|(name, stored)| Step::Insert { name, stored }),
        4 => (name.clone(), any::<bool>()).prop_map(|(name, prefix)| Step::Find { name, prefix }),
        1 => name.prop_map(|name| Step::Remove { name }),
        1 => (0u64..4).prop_map(|file| Step::RemoveFile { file }),
    ]
}

/// The naive buffer: lists, searched from end to end.
struct Model {
    policy: BufferPolicy,
    room: usize,
    /// Name, times used, last event.
    memory: Vec<(Name, u64, u64)>,
    disk: BTreeMap<Name, u64>,
    event: u64,
}

impl Model {
    fn insert(&mut self, name: &Name, file: Option<u64>) {
        self.memory.retain(|(held, ..)| held != name);
        if self.memory.len() == self.room {
            let rank = |entry: &&(Name, u64, u64)| (entry.1, entry.2);
            let victim = self.memory.iter().min_by_key(rank).unwrap().0.clone();
            self.memory.retain(|(held, ..)| *held != victim);
        }
        self.event += 1;
        self.memory.push((name.clone(), 0, self.event));
        if let Some(file) = file {
            self.disk.insert(name.clone(), file);
        }
    }

    fn find(&mut self, query: &Name, prefix: bool) -> Option<(Name, bool)> {
        let mut names: Vec<_> = self.memory.iter().map(|(name, ..)| name).chain(self.disk.keys()).collect();
        names.retain(|name| if prefix { query.is_prefix_of(name.as_name()) } else { *name == query });
        names.sort_by_key(|name| {
            let version = name.as_name().component(query.len()).and_then(|c| c.version());
            // Names without a version come first, then the versions from the newest to the oldest.
            (version.is_some(), std::cmp::Reverse(version), (*name).clone())
        });
        let found = (*names.first()?).clone();
        let held = self.memory.iter_mut().find(|(name, ..)| *name == found);
        let is_held = held.is_some();
        if let Some(entry) = held
            && self.policy != BufferPolicy::Fifo
        {
            self.event += 1;
            entry.1 += u64::from(self.policy == BufferPolicy::Lfu);
            entry.2 = self.event;
        }
        Some((found, is_held))
    }
}

proptest! {
    #[test]
    fn a_buffer_matches_a_naive_list(
        policy in prop_oneof![Just(BufferPolicy::Fifo), Just(BufferPolicy::Lru), Just(BufferPolicy::Lfu)],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        // Twelve names of one length: three objects of two versions with two segments.
        let names: Vec<Name> = (0..12u64)
            .map(|i| name(["/p/a", "/p/b", "/p/c"][i as usize / 4]).join_version(i / 2 % 2 + 1).join_segment(i % 2))
            .collect();
        let length = data(&names[0], b"x").len();
        let mut buffer = Buffer::new(5 * length, policy);
        let mut model = Model { policy, room: 5, memory: Vec::new(), disk: BTreeMap::new(), event: 0 };
        for step in steps {
            match step {
                Step::Insert { name, stored } => {
                    let file = stored.then_some(name as u64 % 4);
                    let disk = file.map(|file| Location { file, offset: name as u64, octets: length as u32 });
                    buffer.insert(names[name].as_name(), data(&names[name], b"x"), disk);
                    model.insert(&names[name], file);
                }
                Step::Find { name, prefix } => {
                    let query = if prefix { names[name].as_name().without_last(2).to_name() } else { names[name].clone() };
                    let mut interest = InterestBuilder::new(query.clone());
                    if prefix {
                        interest = interest.can_be_prefix();
                    }
                    match (find(&mut buffer, &interest), model.find(&query, prefix)) {
                        (Some(BufferedPacket::Memory(packet)), Some((expected, true))) => {
                            prop_assert_eq!(DataView::parse(&packet).unwrap().name, expected.as_name());
                        }
                        (Some(BufferedPacket::Disk(disk)), Some((expected, false))) => {
                            prop_assert_eq!(&names[disk.offset as usize], &expected);
                        }
                        (None, None) => {}
                        (got, expected) => prop_assert!(false, "{got:?} instead of {expected:?}"),
                    }
                }
                Step::Remove { name } => {
                    buffer.remove(names[name].as_bytes());
                    model.memory.retain(|(held, ..)| *held != names[name]);
                    model.disk.remove(&names[name]);
                }
                Step::RemoveFile { file } => {
                    buffer.remove_file(file);
                    model.disk.retain(|_, held| *held != file);
                }
            }
            let mut expected: Vec<String> = model.memory.iter().map(|(name, ..)| name.to_string()).collect();
            let mut held = in_memory(&buffer);
            expected.sort();
            held.sort();
            prop_assert_eq!(held, expected);
            prop_assert_eq!(buffer.octets(), model.memory.len() * length);
        }
    }
}
