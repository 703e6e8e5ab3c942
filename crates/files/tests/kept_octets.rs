//! Octets that an earlier fetch has left: a later fetch checks them, by manifests or by digests in
//! the journal, and fetches damaged ones again in place.

#![allow(clippy::single_range_in_vec_init, reason = "lists of damaged ranges")]

use crate::common;

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{believing, connect, content, journal_of, key_of, name, names_in, part_of, resuming, unwatched};
use namely_files::{FetchedFile, FileServer, GetError, GetOptions, ServeOptions, get};
use namely_security::{
    Certificate, ContentDigest, DigestAlgorithm, Manifest, ManifestHash, Signer, manifest_name, sign_data,
};
use namely_socket::{Consumer, FetchError, Flow};
use namely_transport::connection::Outbox;
use namely_transport::object::{ObjectError, Progress};
use namely_transport::publish::{SegmentWriter, Signing};
use namely_transport::serve::Producer;
use namely_wire::rdr::{Metadata, metadata_name};
use namely_wire::{DataBuilder, InterestView, LpHeaders, NackReason, Name};

/// Octets of a segment. The MiB of a test has hundreds of them.
const SEGMENT_OCTETS: u64 = 2000;

/// The last of the 750 segments is shorter than the others.
const OCTETS: u64 = 1_499_001;

/// The segment from which on an interrupted fetch receives none, in the fourth group of 240.
const STALLS_AT: u64 = 730;

const LISTED: Signing = Signing::Manifest(ManifestHash::Sha256);

const SIGNINGS: [Signing; 3] = [LISTED, Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket];

/// Switches of a producer.
#[derive(Clone, Default)]
struct Switches {
    stalls: Arc<AtomicBool>,
    refuses_manifests: Arc<AtomicBool>,
}

/// Answers as `producer`, but not for segments from `stalls_at` on while it stalls.
struct Switched<P> {
    producer: P,
    stalls_at: u64,
    switches: Switches,
}

impl<P: Producer> Producer for Switched<P> {
    fn prefixes(&self) -> Vec<Name> {
        self.producer.prefixes()
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        let segment = interest.name.last().and_then(|last| last.segment());
        let of_manifests = interest.name.without_last(1).last();
        let is_manifest = of_manifests.is_some_and(|last| last.value == b"manifest");
        if is_manifest && self.switches.refuses_manifests.load(Ordering::Relaxed) {
            let refused = LpHeaders { nack: Some(NackReason::NoRoute), ..*headers };
            return outbox.send(&refused, interest.wire);
        }
        let is_late = segment.is_some_and(|segment| segment >= self.stalls_at);
        if !is_late || !self.switches.stalls.load(Ordering::Relaxed) {
            self.producer.answer(interest, headers, outbox);
        }
    }
}

/// A served file, a folder to fetch it into, and a socket between them.
struct Site {
    switches: Switches,
    consumer: Consumer,
    directory: tempfile::TempDir,
    file: Vec<u8>,
    signer: Signer,
    anchor: Certificate,
}

impl Site {
    fn new(signing: Signing) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["served", "got"] {
            fs::create_dir(directory.path().join(folder)).unwrap();
        }
        let file = content(OCTETS as usize, 3);
        fs::write(directory.path().join("served/f"), &file).unwrap();
        let (signer, anchor) = key_of("/p");
        let segment_octets = SEGMENT_OCTETS as usize;
        let options = ServeOptions { segment_octets, signing, ..ServeOptions::new(name("/p")) };
        let producer = FileServer::new(&directory.path().join("served"), options, signer.clone()).unwrap();
        let switches = Switches::default();
        let producer = Switched { producer, stalls_at: STALLS_AT, switches: switches.clone() };
        let consumer = connect(producer, believing(anchor.clone()));
        Site { switches, consumer, directory, file, signer, anchor }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join("got").join(name)
    }

    fn part(&self) -> PathBuf {
        part_of(&self.at("file"))
    }

    fn journal(&self) -> PathBuf {
        journal_of(&self.at("file"))
    }

    fn get(
        &self,
        options: GetOptions,
        watch: &mut dyn FnMut(&Progress) -> Flow,
    ) -> Result<FetchedFile, GetError> {
        get(&self.consumer, &name("/p/f"), &self.at("file"), options, watch)
    }

    /// Fetches the file until its producer stalls after `octets`. Returns the octets kept.
    fn interrupted_after(&self, octets: u64) -> u64 {
        self.switches.stalls.store(true, Ordering::Relaxed);
        let mut stop =
            |progress: &Progress| if progress.octets == octets { Flow::Stop } else { Flow::Continue };
        let stopped = self.get(resuming(), &mut stop);
        self.switches.stalls.store(false, Ordering::Relaxed);
        match stopped {
            Err(GetError::Interrupted { kept_octets, .. }) if kept_octets > 0 => kept_octets,
            other => panic!("not interrupted midway: {other:?}"),
        }
    }

    fn interrupted(&self) -> u64 {
        self.interrupted_after(STALLS_AT * SEGMENT_OCTETS)
    }

    /// Changes each octet of the partial file in `range`.
    fn damage(&self, range: Range<u64>) {
        let part = fs::OpenOptions::new().read(true).write(true).open(self.part()).unwrap();
        let mut octets = vec![0; (range.end - range.start) as usize];
        part.read_exact_at(&mut octets, range.start).unwrap();
        octets.iter_mut().for_each(|octet| *octet = !*octet);
        part.write_all_at(&octets, range.start).unwrap();
    }

    /// Fetches the file to its end.
    fn finishes(&self) -> FetchedFile {
        let got = self.get(resuming(), &mut unwatched).unwrap();
        assert!(fs::read(self.at("file")).unwrap() == self.file, "another content got the final name");
        assert_eq!(names_in(&self.directory.path().join("got")), ["file"]);
        fs::remove_file(self.at("file")).unwrap();
        got
    }
}

/// The range of the segments that have octets of `range`.
fn segments_around(range: &Range<u64>) -> Range<u64> {
    let start = range.start / SEGMENT_OCTETS * SEGMENT_OCTETS;
    start..range.end.next_multiple_of(SEGMENT_OCTETS)
}

#[test]
fn damaged_octets_of_a_part_are_fetched_again() {
    for signing in SIGNINGS {
        let site = Site::new(signing);
        // Whole groups of 240 segments under manifests; otherwise all segments but the last one.
        let kept = SEGMENT_OCTETS * if signing == Signing::PerPacket { STALLS_AT - 1 } else { 720 };
        let edge = 400 * SEGMENT_OCTETS;
        for range in [
            100_001..100_001 + (1 << 20),
            edge..edge + SEGMENT_OCTETS,
            edge - 1..edge + 1,
            0..1,
            kept - 1..kept,
        ] {
            assert_eq!(site.interrupted(), kept, "{signing:?}");
            site.damage(range.clone());
            let got = site.finishes();
            let is_named = |octet: u64| got.damaged.iter().any(|range| range.contains(&octet));
            assert!(is_named(range.start) && is_named(range.end - 1), "{signing:?} {range:?}: {got:?}");
            let damaged: u64 = got.damaged.iter().map(|range| range.end - range.start).sum();
            assert_eq!(got.resumed_octets, kept - damaged, "{signing:?} {range:?}");
            if signing != Signing::PerPacket {
                assert_eq!(got.damaged, [segments_around(&range)], "{signing:?}");
            }
        }
    }
}

#[test]
fn zeroed_octets_of_a_part_are_fetched_again() {
    for signing in SIGNINGS {
        let site = Site::new(signing);
        let kept = site.interrupted();
        let part = fs::OpenOptions::new().write(true).open(site.part()).unwrap();
        part.write_all_at(&vec![0; 1 << 20], 100_000).unwrap();
        let got = site.finishes();
        assert!(got.damaged.iter().any(|range| range.contains(&1_000_000)), "{signing:?}: {got:?}");
        assert!(got.resumed_octets > 0 && got.resumed_octets < kept, "{signing:?}: {got:?}");
    }
}

#[test]
fn a_damaged_last_segment_is_repaired() {
    for signing in SIGNINGS {
        let site = Site::new(signing);
        // A file of another checksum keeps the name of its part.
        let wrong = GetOptions { digest: Some(ContentDigest::of(DigestAlgorithm::Md5, b"")), ..resuming() };
        let error = site.get(wrong, &mut unwatched).unwrap_err();
        assert!(matches!(error, GetError::Checksum { .. }), "{error}");
        site.damage(OCTETS - 1..OCTETS);
        let got = site.finishes();
        assert!(got.resumed_octets > 0, "{signing:?}: {got:?}");
        assert_eq!(got.damaged.last().map(|range| range.end), Some(OCTETS), "{signing:?}: {got:?}");
    }
}

#[test]
fn an_interrupted_repair_continues() {
    for signing in SIGNINGS {
        let site = Site::new(signing);
        let kept = site.interrupted();
        site.damage(10_000..11_000);
        // The journal has a digest of the first MiB. The report of a repair follows that of the
        // check, before anything is fetched.
        let start = if signing == Signing::PerPacket { 0 } else { 10_000 };
        let mut stop = |progress: &Progress| match (progress.octets, progress.octets_done) {
            (0, octets_done) if octets_done == start => Flow::Stop,
            _ => Flow::Continue,
        };
        let stopped = site.get(resuming(), &mut stop);
        let Err(GetError::Interrupted { kept_octets, .. }) = stopped else { panic!("{stopped:?}") };
        assert!(kept_octets > 0 && kept_octets < kept, "{signing:?}: {kept_octets} of {kept}");
        let got = site.finishes();
        assert!(got.damaged.iter().any(|range| range.contains(&10_500)), "{signing:?}: {got:?}");
    }
}

#[test]
fn a_stopped_check_leaves_the_part_alone() {
    let site = Site::new(LISTED);
    let kept = site.interrupted();
    site.damage(5..6);
    let files = || [site.part(), site.journal()].map(|path| fs::read(path).unwrap());
    let before = files();
    let stopped = site.get(resuming(), &mut |_| Flow::Stop).unwrap_err();
    assert!(stopped.is_stopped(), "{stopped}");
    assert!(matches!(stopped, GetError::Interrupted { kept_octets, .. } if kept_octets == kept));
    assert!(files() == before);
    assert_eq!(site.finishes().damaged, [0..SEGMENT_OCTETS]);
}

#[test]
fn refused_manifests_leave_the_part_alone() {
    let site = Site::new(LISTED);
    let kept = site.interrupted();
    site.switches.refuses_manifests.store(true, Ordering::Relaxed);
    let error = site.get(resuming(), &mut unwatched).unwrap_err();
    site.switches.refuses_manifests.store(false, Ordering::Relaxed);
    let is_refused = |error: &FetchError| matches!(error, FetchError::Object(ObjectError::Refused { .. }));
    assert!(error.fetch_error().is_some_and(is_refused), "{error}");
    assert!(matches!(error, GetError::Interrupted { kept_octets, .. } if kept_octets == kept));
    let got = site.finishes();
    assert_eq!((got.resumed_octets, got.damaged), (kept, Vec::new()));
}

#[test]
fn only_parts_without_manifests_have_digests() {
    for signing in SIGNINGS {
        let site = Site::new(signing);
        site.interrupted();
        let journal = fs::read_to_string(site.journal()).unwrap();
        let is_listed = signing != Signing::PerPacket;
        assert_eq!(journal.contains("\ncheck manifests\n"), is_listed, "{journal}");
        assert_eq!(journal.contains("\nspan "), !is_listed, "{journal}");
    }
}

#[test]
fn a_damaged_journal_starts_again() {
    for signing in SIGNINGS {
        let site = Site::new(signing);
        for part in [0, 3, 9] {
            site.interrupted();
            let mut journal = fs::read(site.journal()).unwrap();
            let at = (journal.len() - 1) * part / 9;
            journal[at] ^= 1;
            fs::write(site.journal(), &journal).unwrap();
            assert_eq!(site.finishes().resumed_octets, 0, "{signing:?}: octet {at}");
        }
    }
}

#[test]
fn another_segment_size_starts_again() {
    for signing in SIGNINGS {
        let site = Site::new(signing);
        site.interrupted();
        let (signer, anchor) = (site.signer.clone(), site.anchor.clone());
        let options = ServeOptions { segment_octets: 1000, signing, ..ServeOptions::new(name("/p")) };
        let server = FileServer::new(&site.directory.path().join("served"), options, signer).unwrap();
        let consumer = connect(server, believing(anchor));
        let got = get(&consumer, &name("/p/f"), &site.at("file"), resuming(), &mut unwatched).unwrap();
        assert_eq!(got.resumed_octets, 0, "{signing:?}");
        assert!(fs::read(site.at("file")).unwrap() == site.file, "{signing:?}");
    }
}

/// Answers with packets by name, or by a prefix of it.
struct Packets(Vec<(Name, Vec<u8>)>);

impl Producer for Packets {
    fn prefixes(&self) -> Vec<Name> {
        Vec::new()
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        if let Some((_, wire)) = self.0.iter().find(|(name, _)| interest.name.is_prefix_of(name.as_name())) {
            outbox.send(headers, wire);
        }
    }
}

/// The packets of `/p/f`: 40 segments of 1000 octets without a FinalBlockId, under manifests of 8.
fn foreign(file: &[u8], signer: &Signer) -> Packets {
    let (entries, segments): (u64, u64) = (8, 40);
    let object = name("/p/f").join_version(1);
    let metadata = Metadata {
        last_segment: Some(segments - 1),
        segment_size_octets: Some(1000),
        size_octets: Some(file.len() as u64),
        manifest_entries: Some(entries),
        ..Metadata::new(object.clone())
    };
    let packet = metadata_name(name("/p/f").as_name(), 1);
    let wire = sign_data(&DataBuilder::new(packet.as_name()).freshness_ms(1), &metadata.to_vec(), signer);
    let mut packets = vec![(packet, wire.unwrap())];
    let writer = SegmentWriter::new(object.as_name(), None, 1000, ManifestHash::Sha256);
    let contents: Vec<&[u8]> = file.chunks(1000).collect();
    let mut manifest = Manifest::of_at_most(entries, 0, ManifestHash::Sha256);
    for (segment, (wire, digest)) in (0_u64..).zip(writer.make(0, &contents)) {
        packets.push((object.join_segment(segment), wire));
        manifest.push(digest);
        if (segment + 1).is_multiple_of(entries) {
            let index = segment / entries;
            let next = Manifest::of_at_most(entries, index + 1, ManifestHash::Sha256);
            let full = std::mem::replace(&mut manifest, next);
            let wire = full.sign(object.as_name(), Some(segments / entries - 1), 1000, signer).unwrap();
            packets.push((manifest_name(object.as_name(), index), wire));
        }
    }
    Packets(packets)
}

/// The manifests of a producer with another form of segments do not show whether a content is
/// undamaged, so the journal has digests.
#[test]
fn parts_of_foreign_segments_are_resumed() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("got")).unwrap();
    let (signer, anchor) = key_of("/p");
    let (file, switches) = (content(40_000, 5), Switches::default());
    let producer = Switched { producer: foreign(&file, &signer), stalls_at: 20, switches: switches.clone() };
    let consumer = connect(producer, believing(anchor.clone()));
    let site = Site { switches, consumer, directory, file, signer, anchor };
    assert_eq!(site.interrupted_after(20_000), 16_000);
    let got = site.finishes();
    assert_eq!((got.resumed_octets, got.damaged), (16_000, Vec::new()));
    site.interrupted_after(20_000);
    site.damage(7..8);
    assert_eq!(site.finishes().damaged, [0..16_000_u64]);
}
