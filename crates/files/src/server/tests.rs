use std::os::unix::net::UnixStream;

use namely_security::Signer;
use namely_transport::connection::Connection;
use namely_wire::InterestBuilder;

use super::indexes::{INDEXES_MAX, Indexes};
use super::*;
use crate::published::GROUPS_MAX;

/// A server of a directory with `files` files of `octets` each, cut into segments of
/// `segment_octets`.
struct Subject {
    _directory: tempfile::TempDir,
    server: FileServer,
    connection: Connection,
    _far: UnixStream,
}

impl Subject {
    fn new(files: usize, octets: usize, segment_octets: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for file in 0..files {
            std::fs::write(directory.path().join(file.to_string()), vec![7; octets]).unwrap();
        }
        let options = ServeOptions { segment_octets, ..ServeOptions::new("/p".parse().unwrap()) };
        let server = FileServer::new(directory.path(), options, Signer::digest_sha256()).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let connection = Connection::from_stream(near).unwrap();
        Subject { _directory: directory, server, connection, _far: far }
    }

    /// Requests `name`. Returns whether a Data answered.
    fn request(&mut self, name: Name) -> bool {
        self.send(InterestBuilder::new(name).can_be_prefix())
    }

    fn send(&mut self, interest: InterestBuilder) -> bool {
        let wire = interest.build();
        let interest = InterestView::parse(&wire).unwrap();
        let sent = |server: &FileServer| {
            let c = server.counters();
            c.segments + c.manifests + c.metadata + c.certificates + c.not_found
        };
        let before = sent(&self.server);
        self.server.answer(&interest, &LpHeaders::default(), self.connection.outbox());
        sent(&self.server) > before
    }

    fn discover(&mut self, file: usize) -> Name {
        let name: Name = format!("/p/{file}").parse().unwrap();
        assert!(self.request(namely_wire::rdr::discovery_name(name.as_name())));
        let mut objects = self.server.objects.values();
        objects.find(|entry| name.is_prefix_of(entry.object.name())).unwrap().object.name().to_name()
    }
}

#[test]
fn the_least_recently_used_file_is_closed() {
    let mut subject = Subject::new(OBJECTS_MAX + 1, 10, 100);
    let first = subject.discover(0);
    for file in 1..OBJECTS_MAX {
        subject.discover(file);
    }
    assert_eq!(subject.server.objects.len(), OBJECTS_MAX);
    assert!(subject.request(first.join_segment(0)));
    subject.discover(OBJECTS_MAX);
    assert_eq!(subject.server.objects.len(), OBJECTS_MAX);
    assert!(subject.server.objects.contains_key(first.as_bytes()), "it was used a moment ago");
    assert!(
        subject.server.objects.values().all(|entry| entry.object.name().component(1).unwrap().value != b"1")
    );
}

#[test]
fn cached_manifests_are_limited() {
    // One group more than are kept; segments of one octet.
    let mut subject = Subject::new(1, 240 * (GROUPS_MAX + 1), 1);
    let object = subject.discover(0);
    for index in (0..=GROUPS_MAX as u64).chain([0]) {
        assert!(subject.request(namely_security::manifest_name(object.as_name(), index)));
        let kept = subject.server.objects.values().next().unwrap().object.cached_groups();
        assert!(kept <= GROUPS_MAX, "{kept}");
    }
    assert_eq!(subject.server.counters().manifests, GROUPS_MAX as u64 + 2);
    assert!(!subject.request(namely_security::manifest_name(object.as_name(), GROUPS_MAX as u64 + 1)));
    assert_eq!(subject.server.counters().past_end, 1);
}

#[test]
fn the_least_recently_used_content_is_evicted() {
    // Each object keeps two groups of 1.9 MB after its first manifest: the one made and the one
    // under way.
    let mut subject = Subject::new(20, 240 * 8000 * 2, 8000);
    for file in 0..20 {
        let object = subject.discover(file);
        assert!(subject.request(namely_security::manifest_name(object.as_name(), 0)));
        let kept: usize = subject.server.objects.values().map(|entry| entry.object.memory_octets()).sum();
        assert!(kept <= KEPT_OCTETS_MAX, "{kept}");
        // An evicted group is read again.
        assert!(subject.request(object.join_segment(0)));
    }
    let kept: usize = subject.server.objects.values().map(|entry| entry.object.memory_octets()).sum();
    assert!(kept > KEPT_OCTETS_MAX / 2, "what fits is kept: {kept}");
}

#[test]
fn unanswered_requests_are_counted_by_reason() {
    let mut subject = Subject::new(1, 1000, 100);
    let object = subject.discover(0);
    assert!(subject.request(object.join_segment(9)));
    assert!(!subject.request(object.join_segment(10)));
    assert!(!subject.request("/p/0/v=1/seg=0".parse().unwrap()));
    assert!(!subject.send(InterestBuilder::new("/p/0".parse().unwrap())));
    assert!(!subject.request("/p/...../0/v=1/seg=0".parse().unwrap()));
    assert!(subject.request("/p/missing/32=metadata".parse().unwrap()));
    let counters = subject.server.counters();
    assert_eq!((counters.past_end, counters.unknown, counters.refused_paths), (1, 1, 1));
    assert_eq!((counters.not_found, counters.segments, counters.octets), (1, 1, 100));
    assert_eq!(counters.gone, 2, "another version, and a file that is not there");
}

#[test]
fn the_least_recently_used_index_is_evicted() {
    let mut subject = Subject::new(0, 0, 100);
    let directory = |number: usize| -> Name { format!("/p/{number}").parse().unwrap() };
    for number in 0..=INDEXES_MAX {
        std::fs::create_dir(subject._directory.path().join(number.to_string())).unwrap();
    }
    let discover = |subject: &mut Subject, number| {
        let index = namely_wire::tree_index::index_name(directory(number).as_name());
        assert!(subject.request(namely_wire::rdr::discovery_name(index.as_name())));
        let mut objects = subject.server.objects.values();
        objects.find(|entry| index.is_prefix_of(entry.object.name())).unwrap().object.name().to_name()
    };
    let first = discover(&mut subject, 0);
    let second = discover(&mut subject, 1);
    for number in 2..INDEXES_MAX {
        discover(&mut subject, number);
    }
    assert_eq!(subject.server.indexes.len(), INDEXES_MAX);
    // The first index is used again, so that the second is evicted.
    subject.server.objects.clear();
    assert!(subject.request(first.join_segment(0)));
    discover(&mut subject, INDEXES_MAX);
    assert_eq!(subject.server.indexes.len(), INDEXES_MAX);
    subject.server.objects.clear();
    assert!(subject.request(first.join_segment(0)));
    assert!(!subject.request(second.join_segment(0)));

    // All indexes together are limited, too, except the newest.
    let octets = subject.server.indexes.octets() / INDEXES_MAX;
    subject.server.indexes = Indexes::within(2 * octets);
    for (number, kept) in [(0, 1), (1, 2), (2, 2)] {
        discover(&mut subject, number);
        assert_eq!(subject.server.indexes.len(), kept);
    }
    subject.server.indexes = Indexes::within(0);
    discover(&mut subject, 3);
    assert_eq!(subject.server.indexes.len(), 1);
}

/// Changes the length of a served file, and returns the name of its version then.
fn lengthened(subject: &mut Subject, file: usize, octets: u64) -> Name {
    let path = subject._directory.path().join(file.to_string());
    std::fs::File::options().write(true).open(path).unwrap().set_len(octets).unwrap();
    let name: Name = format!("/p/{file}").parse().unwrap();
    assert!(subject.request(namely_wire::rdr::discovery_name(name.as_name())));
    let versions = subject.server.objects.values().map(|entry| entry.object.name().to_name());
    versions.filter(|version| name.is_prefix_of(version.as_name())).max().unwrap()
}

#[test]
fn a_version_of_a_changing_file_stays() {
    let mut subject = Subject::new(2, 10, 8000);
    // At the limit of copies, and one past it.
    for (file, octets, stays) in [(0, SNAPSHOT_OCTETS_MAX, true), (1, SNAPSHOT_OCTETS_MAX + 1, false)] {
        lengthened(&mut subject, file, 20);
        let version = lengthened(&mut subject, file, octets);
        lengthened(&mut subject, file, 30);
        assert_eq!(subject.request(version.join_segment(0)), stays, "{octets}");
    }
}

#[test]
fn copied_versions_are_limited() {
    let files = COPIED_OCTETS_MAX / SNAPSHOT_OCTETS_MAX as usize + 2;
    let mut subject = Subject::new(files, 10, 8000);
    let copied =
        |subject: &Subject| -> usize { subject.server.objects.values().map(Entry::copied_octets).sum() };
    let mut versions = Vec::new();
    for file in 0..files {
        lengthened(&mut subject, file, 20);
        versions.push(lengthened(&mut subject, file, SNAPSHOT_OCTETS_MAX));
        assert!(copied(&subject) <= COPIED_OCTETS_MAX + SNAPSHOT_OCTETS_MAX as usize);
    }
    let is_there = |version: &Name| subject.server.objects.contains_key(version.as_bytes());
    assert!(!is_there(&versions[0]), "the least recently used one");
    assert!(versions[1..].iter().all(is_there), "the newest is not counted");
}
