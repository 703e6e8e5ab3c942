use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, Name};

use super::*;

mod below;
mod device;
mod exact;
mod failures;
mod hostile;

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
        LookupResult::Absent => None,
        LookupResult::Busy => panic!("busy"),
        LookupResult::Reading => loop {
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

/// Returns the permitted engines. The test reports io_uring as skipped where a filter of system
/// calls refuses it.
fn permitted<const N: usize>(engines: [EngineKind; N]) -> impl Iterator<Item = EngineKind> {
    let is_permitted =
        namely_testkit::or_skip(namely_testkit::Need::Kernel, super::ring::Ring::<()>::new()).is_some();
    engines.into_iter().filter(move |engine| is_permitted || *engine != EngineKind::Uring)
}

#[test]
fn a_written_packet_survives_a_restart() {
    for engine in permitted([EngineKind::Inline, EngineKind::Threads(3), EngineKind::Uring]) {
        let folder = tempfile::tempdir().unwrap();
        let tier = Tier::open(folder.path(), &options(engine)).unwrap();
        let mut caller = tier.caller().unwrap();
        for number in 0..10 {
            let (name, wire) = packet(number);
            assert_eq!(read(&tier, &mut caller, number), None);
            assert_eq!(tier.write(name.as_name(), &wire, 0), WriteOutcome::Accepted);
            assert_eq!(read(&tier, &mut caller, number), Some(wire));
        }
        assert_eq!(tier.status().counters.hits_memory, 10);
        tier.sync().unwrap();
        for number in 0..10 {
            assert_eq!(read(&tier, &mut caller, number), Some(packet(number).1));
        }
        assert_eq!(tier.status().counters.disk_reads, 10);
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
fn an_erased_packet_stays_erased() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    let mut caller = tier.caller().unwrap();
    let other = "/q/v=1/seg=0".parse::<Name>().unwrap();
    let wire = sign_data(&DataBuilder::new(other.as_name()), b"q", &Signer::digest_sha256()).unwrap();
    assert_eq!(tier.write(other.as_name(), &wire, 0), WriteOutcome::Accepted);
    for number in 0..10 {
        let (name, wire) = packet(number);
        assert_eq!(tier.write(name.as_name(), &wire, 0), WriteOutcome::Accepted);
    }
    tier.erase("/p/object".parse::<Name>().unwrap().as_name()).unwrap();
    assert_eq!(read(&tier, &mut caller, 3), None, "before anything was taken out");
    tier.turn();
    assert_eq!((tier.status().erasing, tier.status().counters.erased, tier.status().records), (0, 10, 1));
    // Data that is written later is found.
    assert_eq!(tier.write(packet(3).0.as_name(), &packet(3).1, 0), WriteOutcome::Accepted);
    assert_eq!(read(&tier, &mut caller, 3), Some(packet(3).1));
    tier.close().unwrap();
    for index in [true, false] {
        if !index {
            // A segment that has lost its index is read whole.
            std::fs::remove_file(segment::index_path(folder.path(), 1)).unwrap();
        }
        let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
        let mut caller = tier.caller().unwrap();
        assert_eq!(read(&tier, &mut caller, 4), None);
        assert_eq!(read(&tier, &mut caller, 3), Some(packet(3).1));
        assert_eq!(tier.status().records, 2);
    }
}

/// Writes packets and synchronizes them. Returns their numbers.
fn write(tier: &Tier, numbers: std::ops::Range<u64>) -> Vec<u64> {
    let mut there = Vec::new();
    for number in numbers {
        let (name, wire) = packet(number);
        offer(tier, &name, &wire);
        there.push(number);
        if tier.keeper.is_none() {
            tier.turn();
        }
    }
    tier.sync().unwrap();
    there
}

/// Offers a packet until there is room: a small segment is full before the next one is made.
fn offer(tier: &Tier, name: &Name, wire: &[u8]) {
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while tier.write(name.as_name(), wire, 0) == WriteOutcome::Busy {
        assert!(std::time::Instant::now() < limit, "{:?}", tier.status());
        std::thread::yield_now();
    }
}

#[test]
fn the_oldest_unpinned_records_are_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    let mut caller = tier.caller().unwrap();
    assert_eq!(write(&tier, 0..10).len(), 10);
    assert!(read(&tier, &mut caller, 3).is_some());
    tier.pin(packet(5).0.as_name()).unwrap();
    for round in 1..5 {
        // After the last round three times as many packets were written as there is room for.
        write(&tier, round * 200..(round + 1) * 200);
        assert!(tier.status().octets <= OCTETS_MIN, "{:?}", tier.status());
        assert!(read(&tier, &mut caller, 3).is_some(), "it is read between two rounds");
    }
    assert!(read(&tier, &mut caller, 5).is_some(), "it is pinned");
    assert!([0, 1, 2, 4, 6].iter().all(|number| read(&tier, &mut caller, *number).is_none()));
    let last = (990..1000).filter(|number| read(&tier, &mut caller, *number).is_some()).count();
    assert_eq!(last, 10);
    let status = tier.status();
    assert!(status.counters.evicted > 500 && status.counters.reinserted > 2, "{status:?}");
    assert!(tier.unpin(packet(5).0.as_name()) && !tier.unpin(packet(5).0.as_name()));
}

#[test]
fn wanted_records_are_reinserted() {
    let folder = tempfile::tempdir().unwrap();
    let tier =
        Tier::open(folder.path(), &Options { read_ahead: false, ..options(EngineKind::Inline) }).unwrap();
    let mut caller = tier.caller().unwrap();
    let wanted = packet(5).0;
    tier.set_retention_filter(move |name| name == wanted.as_name());
    assert_eq!(write(&tier, 0..10).len(), 10);
    (1..5).for_each(|round| assert!(!write(&tier, round * 200..(round + 1) * 200).is_empty()));
    let before = tier.status();
    assert!(before.counters.evicted > 500 && before.counters.reinserted > 0, "{before:?}");
    assert!(read(&tier, &mut caller, 5).is_some(), "it is wanted");
    assert!([0, 4, 6].iter().all(|number| read(&tier, &mut caller, *number).is_none()));
    let octets: usize =
        (990..1000).map(|number| read(&tier, &mut caller, number).expect("the last are there").len()).sum();
    let after = tier.status();
    assert_eq!(after.counters.read_octets - before.counters.read_octets, (octets + packet(5).1.len()) as u64);
    assert!(after.read_ns > before.read_ns, "{after:?}");
    // A packet still in memory costs no read of the disk.
    let (name, wire) = packet(2000);
    assert_eq!(tier.write(name.as_name(), &wire, 0), WriteOutcome::Accepted);
    assert_eq!(read(&tier, &mut caller, 2000), Some(wire));
    let last = tier.status();
    assert_eq!((last.counters.read_octets, last.read_ns), (after.counters.read_octets, after.read_ns));
}

#[test]
fn pinned_and_erased_prefixes_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    write(&tier, 0..1);
    for number in 0..PINNED_MAX as u64 {
        tier.pin(packet(number).0.as_name()).unwrap();
    }
    tier.pin(packet(0).0.as_name()).unwrap();
    let one_more = tier.pin(packet(1000).0.as_name());
    assert!(matches!(one_more, Err(TierError::TooMany { max: PINNED_MAX, .. })), "{one_more:?}");
    for number in 0..ERASED_MAX as u64 {
        tier.erase(packet(1 + number).0.as_name()).unwrap();
    }
    let one_more = tier.erase(packet(1000).0.as_name());
    assert!(matches!(one_more, Err(TierError::TooMany { max: ERASED_MAX, .. })), "{one_more:?}");
}

/// Waits for `completions` completions by polling the caller's descriptor. Returns the number of
/// completions with Data.
fn wait_for(caller: &mut Caller, completions: usize) -> usize {
    let (mut done, mut found) = (0, 0);
    while done < completions {
        let mut polled = [rustix::event::PollFd::new(&*caller, rustix::event::PollFlags::IN)];
        let minute = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&minute)).unwrap(), 1, "{done} of {completions}");
        while let Some(completion) = caller.completed() {
            done += 1;
            found += usize::from(completion.outcome.found().is_some());
        }
    }
    found
}

#[test]
fn requests_bypass_a_stalled_disk() {
    for engine in permitted([EngineKind::Threads(4), EngineKind::Uring]) {
        // On a busy machine the disk may serve requests before all are made. It then stalls for
        // longer.
        let stalls = [1, 4, 16, 64].map(Duration::from_secs);
        assert!(stalls.into_iter().any(|stall| bypasses_within(engine, stall)), "{engine:?}");
    }
}

/// Makes requests of a disk that stalls for `stall`. Returns false if that took longer.
fn bypasses_within(engine: EngineKind, stall: Duration) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { pending_max: 100, read_ahead: false, ..options(engine) };
    let tier = Tier::open(folder.path(), &options).unwrap();
    let taken = write(&tier, 0..150);
    let mut caller = tier.caller().unwrap();
    let ask = |caller: &Caller, number: u64, bypass| {
        caller.read(ReadId(number), packet(number).0.as_name(), None, bypass)
    };
    let begun = std::time::Instant::now();
    tier.stall(stall);
    let possible = taken[..=PENDING_THRESHOLD].iter().map(|number| ask(&caller, *number, Bypass::Possible));
    let possible: Vec<LookupResult> = possible.collect();
    let is_busy = caller.is_busy();
    let (name, wire) = packet(1000);
    let written = tier.write(name.as_name(), &wire, 0);
    let impossible = taken[PENDING_THRESHOLD..=100].iter();
    let impossible: Vec<LookupResult> =
        impossible.map(|number| ask(&caller, *number, Bypass::Impossible)).collect();
    // The disk serves no request before the end of the stall.
    if begun.elapsed() >= stall {
        return false;
    }
    let refused_last = |results: &[LookupResult]| {
        let (last, others) = results.split_last().unwrap();
        others.iter().all(|result| *result == LookupResult::Reading) && *last == LookupResult::Busy
    };
    assert!(refused_last(&possible), "one past the threshold: {possible:?}");
    assert!(is_busy);
    assert_eq!(written, WriteOutcome::Busy);
    assert!(refused_last(&impossible), "one past the ceiling: {impossible:?}");
    assert_eq!(wait_for(&mut caller, 100), 100);
    assert!(begun.elapsed() >= stall - Duration::from_millis(100), "{:?}", begun.elapsed());
    let status = tier.status();
    assert_eq!((status.pending, status.counters.bypassed_reads, status.counters.bypassed_writes), (0, 1, 1));
    assert_eq!(status.counters.refused_reads, 1);
    // With a threshold of 0 a request that can bypass the disk always bypasses it.
    tier.set_pending_threshold(0);
    assert_eq!(ask(&caller, taken[0], Bypass::Possible), LookupResult::Busy);
    tier.set_pending_threshold(usize::MAX);
    assert_eq!(ask(&caller, taken[0], Bypass::Possible), LookupResult::Reading);
    assert_eq!(wait_for(&mut caller, 1), 1);
    true
}

#[test]
fn a_fresh_read_ignores_stale_data() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    let mut caller = tier.caller().unwrap();
    let (name, wire) = packet(1);
    let now_ms = clock::unix_ms();
    assert_eq!(tier.write(name.as_name(), &wire, now_ms - 60_000), WriteOutcome::Accepted);
    assert_eq!(caller.read(ReadId(1), name.as_name(), Some(now_ms), Bypass::Possible), LookupResult::Absent);
    assert_eq!(tier.status().counters.stale, 1);
    assert_eq!(read(&tier, &mut caller, 1), Some(wire.clone()));
    // A packet replaces another one only if it is fresh for longer.
    assert_eq!(tier.write(name.as_name(), &wire, now_ms - 60_000), WriteOutcome::Duplicate);
    assert_eq!(tier.write(name.as_name(), &wire, now_ms + 60_000), WriteOutcome::Accepted);
    assert_eq!(caller.read(ReadId(2), name.as_name(), Some(now_ms), Bypass::Possible), LookupResult::Reading);
    let found = caller.completed().unwrap().outcome.found().unwrap();
    assert_eq!((found.expires_ms(), found.fresh_for_ms(now_ms)), (now_ms + 60_000, Some(60_000)));
    // The index has the time in steps, and the record has it exactly.
    let later_ms = now_ms + 60_000;
    assert_eq!(
        caller.read(ReadId(3), name.as_name(), Some(later_ms), Bypass::Possible),
        LookupResult::Reading
    );
    assert!(caller.completed().unwrap().outcome.found().is_none());
}

#[test]
fn the_caller_checks_the_implicit_digest() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    let mut caller = tier.caller().unwrap();
    let (name, wire) = packet(1);
    assert_eq!(tier.write(name.as_name(), &wire, 0), WriteOutcome::Accepted);
    let digest = namely_wire::Component { typ: 1, value: &[7; 32] };
    let full = name.join(digest);
    assert_eq!(caller.read(ReadId(1), full.as_name(), None, Bypass::Possible), LookupResult::Reading);
    assert_eq!(caller.completed().unwrap().outcome.found().unwrap().packet(), wire);
}

#[test]
fn a_damaged_record_is_absent_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    let mut caller = tier.caller().unwrap();
    write(&tier, 0..3);
    let path = segment::segment_path(folder.path(), 1);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    // An octet in the packet of the first record.
    std::os::unix::fs::FileExt::write_all_at(&file, b"!", 4096 + 500).unwrap();
    drop(file);
    assert_eq!(read(&tier, &mut caller, 0), None);
    assert_eq!((tier.status().counters.damaged, tier.status().records), (1, 2));
    assert_eq!(read(&tier, &mut caller, 0), None);
    assert_eq!(tier.status().counters.damaged, 1, "it is not read again");
    assert_eq!(read(&tier, &mut caller, 1), Some(packet(1).1));
}

#[test]
fn a_foreign_folder_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| Tier::open(path, &options(EngineKind::Inline));
    for own in ["thesis.tex", "keys", "key.pem", "segments"] {
        let path = folder.path().join(format!("has {own}"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(own), "mine").unwrap();
        let said = open(&path).unwrap_err().to_string();
        assert!(said.contains(own) && said.contains("give an empty folder"), "{said}");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1, "{own}");
    }
    // A file in the root of a file system, and files that a crash leaves of a new cache.
    for ours in ["lost+found", "lock", "key.new"] {
        let path = folder.path().join(format!("has {ours}"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(ours), "").unwrap();
        drop(open(&path).unwrap_or_else(|error| panic!("{ours}: {error}")));
        std::fs::write(path.join("README"), "what is this?").unwrap();
        drop(open(&path).expect("it is a cache by now"));
    }
}

#[test]
fn another_tiers_folder_is_refused_with_help() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let open = || Tier::open(path, &options(EngineKind::Inline));
    let refused = |what: &str| {
        let error = open().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let tier = open().unwrap();
    write(&tier, 0..1);
    refused("is in use by another router: stop it");
    drop(tier);
    // A segment of another version.
    let other = segment::segment_path(path, 9);
    let mut block = b"namely-segment-1".to_vec();
    block.resize(4096, 0);
    std::fs::write(&other, &block).unwrap();
    refused("was not written by this version: remove the folder");
    std::fs::remove_file(&other).unwrap();
    // A producer's store.
    std::fs::write(path.join("packets-0000000001.log"), b"namely-packets-2").unwrap();
    refused("packets-0000000001.log does not belong to a cache");
    assert!(path.join("packets-0000000001.log").exists());
    std::fs::remove_file(path.join("packets-0000000001.log")).unwrap();
    // Without the key, the records written with it no longer belong to the cache.
    std::fs::remove_file(path.join("key")).unwrap();
    assert_eq!(open().unwrap().status().records, 0);
    if !rustix::process::geteuid().is_root() {
        namely_testkit::skip(namely_testkit::Need::Root, "a folder cannot be given to another user");
        return;
    }
    std::os::unix::fs::chown(path, Some(12345), None).unwrap();
    refused("belongs to uid 12345: chown it");
}

#[test]
fn a_hash_collision_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    let mut caller = tier.caller().unwrap();
    write(&tier, 0..1);
    // As if both names had one hash.
    let [one, other] = [0, 1].map(|number| tier.shared.hash(packet(number).0.as_name()));
    let index::IndexLookup::Found(place) = tier.shared.index.look(one, |place| place) else { panic!() };
    tier.shared.index.insert(other, place);
    assert_eq!(read(&tier, &mut caller, 1), None);
    assert_eq!(tier.status().counters.collisions, 1);
    assert_eq!(read(&tier, &mut caller, 0), Some(packet(0).1));
}

#[test]
fn concurrent_threads_never_read_another_packet() {
    for engine in permitted([EngineKind::Threads(4), EngineKind::Uring]) {
        let folder = tempfile::tempdir().unwrap();
        let tier = Tier::open(folder.path(), &options(engine)).unwrap();
        let packets: Vec<_> = (0..600).map(packet).collect();
        std::thread::scope(|scope| {
            for worker in 0..3_u64 {
                let (tier, packets) = (&tier, &packets);
                scope.spawn(move || {
                    let mut caller = tier.caller().unwrap();
                    let (mut random, mut pending) = (worker + 1, 0);
                    for _ in 0..4000 {
                        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                        let number = (random >> 40) % packets.len() as u64;
                        let (name, wire) = &packets[number as usize];
                        if random >> 63 == 1 {
                            offer(tier, name, wire);
                        } else if caller.read(ReadId(number), name.as_name(), None, Bypass::Possible)
                            == LookupResult::Reading
                        {
                            pending += 1;
                        }
                        while let Some(done) = caller.completed() {
                            pending -= 1;
                            if let Some(found) = done.outcome.found() {
                                assert!(found.packet() == packets[done.id.0 as usize].1);
                            }
                        }
                    }
                    wait_for(&mut caller, pending);
                });
            }
        });
        let status = tier.status();
        assert!(
            status.counters.hits > 0 && status.counters.evicted > 0 && status.counters.damaged == 0,
            "{status:?}"
        );
    }
}

/// Runs in a process of its own: writes packets, and prints the number of synchronized ones, until
/// the process is killed.
#[test]
#[ignore = "started, and killed, by the test below"]
fn until_killed() {
    let folder = std::env::var("NAMELY_TIER").unwrap();
    let tier = Tier::open(folder.as_ref(), &Options::new(256 << 20)).unwrap();
    let first: u64 = std::env::var("NAMELY_TIER_FIRST").unwrap().parse().unwrap();
    for number in (first..).step_by(20) {
        assert_eq!(write(&tier, number..number + 20).len(), 20);
        println!("\nsynced {}", number + 20);
    }
}

#[test]
fn a_kill_keeps_synced_records() {
    let kills = std::env::var("NAMELY_KILLS").map_or(4, |kills| kills.parse::<u64>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut next = 0;
    for kill in 0..kills {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "tests::until_killed", "--nocapture"])
            .env("NAMELY_TIER", folder.path())
            .env("NAMELY_TIER_FIRST", next.to_string())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut synced = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("synced ").and_then(|number| number.parse::<u64>().ok()));
        // Kills the process after some synchronizations, at some moment of the next one.
        next = synced.nth((kill % 5) as usize).expect("it writes");
        std::thread::sleep(Duration::from_micros(kill * 373 % 3000));
        child.kill().unwrap();
        next = synced.last().unwrap_or(next);
        child.wait().unwrap();
        let tier = Tier::open(folder.path(), &Options::new(256 << 20)).unwrap();
        let mut caller = tier.caller().unwrap();
        for number in 0..next {
            assert!(read(&tier, &mut caller, number) == Some(packet(number).1), "{number} of {next}");
        }
    }
}

#[test]
fn segments_of_an_object_are_read_together() {
    for (read_ahead, disk_reads) in [(true, 4..8), (false, 100..101)] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { read_ahead, octets_max: 16 << 20, ..options(EngineKind::Inline) };
        let tier = Tier::open(folder.path(), &options).unwrap();
        assert_eq!(write(&tier, 0..100).len(), 100);
        tier.close().unwrap();
        let tier = Tier::open(folder.path(), &options).unwrap();
        let mut caller = tier.caller().unwrap();
        for number in 0..100 {
            assert_eq!(read(&tier, &mut caller, number), Some(packet(number).1));
        }
        let status = tier.status();
        assert!(disk_reads.contains(&status.counters.disk_reads), "{status:?}");
        assert_eq!((status.counters.hits, status.counters.damaged), (100, 0));
    }
}

#[test]
fn a_full_tier_index_evicts_the_oldest() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(EngineKind::Inline);
    let tier = Tier::open(folder.path(), &options).unwrap();
    let small = |number: u64| {
        let name: Name = "/s".parse::<Name>().unwrap().join_segment(number);
        let wire = sign_data(&DataBuilder::new(name.as_name()), b"", &Signer::digest_sha256()).unwrap();
        (name, wire)
    };
    let mut refused = 0;
    for number in 0..3000 {
        let (name, wire) = small(number);
        refused += u64::from(tier.write(name.as_name(), &wire, 0) != WriteOutcome::Accepted);
        assert!(tier.status().records <= options.records_max() as u64);
        if number > 1500 {
            tier.turn();
        }
    }
    assert!(refused > 0 && tier.status().counters.no_room == refused, "{:?}", tier.status());
    assert!(tier.status().octets < OCTETS_MIN / 2, "the index is full before the disk is");
    let caller = tier.caller().unwrap();
    let last = small(2999).0;
    assert_eq!(caller.read(ReadId(1), last.as_name(), None, Bypass::Possible), LookupResult::Reading);
    assert_eq!(caller.read(ReadId(2), small(0).0.as_name(), None, Bypass::Possible), LookupResult::Absent);
}

#[test]
fn a_lowered_budget_evicts_the_oldest() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { octets_max: 4 * OCTETS_MIN, ..options(EngineKind::Inline) };
    let tier = Tier::open(folder.path(), &options).unwrap();
    write(&tier, 0..900);
    assert!(tier.status().octets > 2 * OCTETS_MIN);
    tier.set_octets_max(OCTETS_MIN);
    tier.turn();
    assert!(tier.status().octets <= OCTETS_MIN, "{:?}", tier.status());
    let mut caller = tier.caller().unwrap();
    assert_eq!(read(&tier, &mut caller, 0), None);
    assert_eq!(read(&tier, &mut caller, 899), Some(packet(899).1));
    tier.set_octets_max(OCTETS_MIN - 1);
    assert_eq!(tier.status().octets_max, OCTETS_MIN);
}

#[test]
fn records_below_a_prefix_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    let names = |prefix: &str| {
        let (mut names, mut octets) = (Vec::new(), (0, 0));
        let prefix: Name = prefix.parse().unwrap();
        let mut found = |listed: ListedPacket<'_>| {
            assert!(listed.octets > 3000 && listed.expires_ms <= 7);
            names.push(listed.name.to_name());
        };
        list(folder.path(), prefix.as_name(), &mut found, &mut |done, all| octets = (done, all)).unwrap();
        assert_eq!(octets.0, octets.1);
        names.sort();
        names
    };
    assert!(names("/").is_empty());
    write(&tier, 0..40);
    // A packet that is offered twice is listed once.
    assert_eq!(tier.write(packet(7).0.as_name(), &packet(7).1, 7), WriteOutcome::Duplicate);
    tier.sync().unwrap();
    let all: Vec<Name> = (0..40).map(|number| packet(number).0).collect();
    assert_eq!(names("/"), all);
    assert_eq!(names("/p/object"), all);
    assert_eq!(names("/p/object/v=1/seg=3"), [packet(3).0]);
    assert!(names("/q").is_empty());
    tier.erase(packet(3).0.as_name()).unwrap();
    tier.turn();
    assert_eq!(names("/p").len(), 39);
    tier.close().unwrap();
    assert_eq!(names("/p").len(), 39);
    let nowhere = list(&folder.path().join("x"), all[0].as_name(), &mut |_| {}, &mut |_, _| {});
    assert!(nowhere.is_err());
}

#[test]
fn records_after_an_erasure_survive() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    write(&tier, 0..10);
    let prefix: Name = "/p".parse().unwrap();
    tier.erase(prefix.as_name()).unwrap();
    tier.turn();
    assert_eq!((tier.status().erasing, tier.status().records), (0, 0));
    tier.close().unwrap();
    // The segments have no records left, so the tier removes them.
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    write(&tier, 0..10);
    tier.close().unwrap();
    // A segment without its index is read whole, and its records are compared with the erasures.
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "index") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    assert_eq!(tier.status().records, 10);
}
