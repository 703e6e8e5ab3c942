//! Routers that plan for their disk as well as their memory: real ones, with a real folder.

use crate::common;
use crate::plane;

use std::path::Path;

use common::Client;
use namely_messages::{CsDiskStatus, Dataset, blocks};
use namely_testkit::until;
use plane::{Router, content, join};

/// The last lines of a configuration: a disk in a folder, with an additional 1 ms for each read.
fn disk(folder: &Path) -> String {
    format!("[cs.disk]\nfolder = \"{}\"\nread_ahead = false\nslow = \"1ms\"", folder.join("cs").display())
}

/// A router with these settings, and its neighbor on the path to the producer.
fn joined(settings: &str) -> (Router, Router) {
    let mut a = Router::start("a", settings);
    let b = with_a_way(&mut a);
    (a, b)
}

/// Starts a neighbor to which `a` forwards Interests for Data that it does not have.
fn with_a_way(a: &mut Router) -> Router {
    let mut b = Router::start("b", "unregistered = \"refuse\"");
    join(a, &mut b);
    until("there is a way", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    b
}

/// Returns the number of an object's 100 segments that arrive. Each must be right.
fn read(app: &mut Client, object: &str) -> usize {
    (0..100).filter(|n| comes(app, &format!("/cms/{object}/a/{n}"), 100)).count()
}

/// Returns true if Data arrives. It must have that name.
fn comes(app: &mut Client, name: &str, octets: usize) -> bool {
    app.ask(name);
    let packet = app.receive(common::PATIENCE).expect("Data or a Nack");
    if packet.headers.nack.is_some() {
        return false;
    }
    assert_eq!(packet.data().name.to_name().to_string(), name);
    assert_eq!(packet.data().content, content(name, octets));
    true
}

fn disk_status(router: &mut Router) -> CsDiskStatus {
    blocks(&router.client.dataset(Dataset::CsDisk)).next().expect("a disk").expect("a status")
}

/// Returns the tiers for the hot and the cold object.
fn tiers(router: &mut Router) -> [Option<u64>; 2] {
    let objects = router.objects();
    [objects[0].tier, objects[1].tier]
}

#[test]
fn objects_are_placed_by_popularity() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("memory = 10_000\nunregistered = \"refuse\"\n{}", disk(folder.path()));
    let (mut a, mut b) = joined(&settings);
    let producer = b.serve("/cms");
    let mut app = a.daemon.connect();
    let status = a.status();
    assert!(status.disk_room.is_some_and(|room| room > 20_000), "{status:?}");
    assert_eq!(status.disk_octets_per_s, Some(100 << 20), "nothing was read of it");
    ["hot", "hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
    until("both are to be kept", || (tiers(&mut a) == [Some(0), Some(1)]).then_some(()));
    ["hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
    until("the hot one is in memory", || (a.objects()[0].held >= 100 * 128).then_some(()));
    assert_eq!(a.objects()[1].held, 0, "the cold one is not");
    assert!(a.client.counter("forwarder.objects_data_to_disk") >= 100);
    assert_eq!(a.client.counter("forwarder.cs_disk_writes"), 100);
    // The producer ends, and so does the router on the path to it.
    drop(producer);
    drop(b);
    ["hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100, "{object}"));
    // On a busy machine the consumer requests some of them twice.
    let hits = a.client.counter("forwarder.cs_disk_hits");
    assert!((100..200).contains(&hits), "the cold one alone was read there: {hits}");
    // The restarted router has no route, but it has its disk.
    let dir = a.daemon.stop().1;
    let mut a = Router::start_in(dir, "a", &settings);
    let mut app = a.daemon.connect();
    assert_eq!(read(&mut app, "cold"), 100);
    assert!(a.client.counter("forwarder.cs_disk_hits") >= 100);
    // A packet of less than 400 octets takes at least 1 ms.
    let rate = until("that was measured", || a.status().disk_octets_per_s.filter(|rate| *rate != 100 << 20));
    assert!((100..400_000).contains(&rate), "{rate}");
}

#[test]
fn an_object_may_fill_the_disk_exactly() {
    for (octets, expected) in [(10_000, [Some(1), None]), (9_999, [None, None]), (20_000, [Some(1); 2])] {
        let folder = tempfile::tempdir().unwrap();
        let settings = format!("disk_octets_max = {octets}\n{}", disk(folder.path()));
        let (mut a, mut b) = joined(&settings);
        let _producer = b.serve("/cms");
        let mut app = a.daemon.connect();
        assert_eq!(a.status().disk_room, Some(octets));
        ["hot", "hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
        until("they are counted", || (a.objects()[1].score >= 1_000_000).then_some(()));
        let slot = a.status().slot;
        until("kept objects are placed", || (a.status().slot > slot + 1).then_some(()));
        assert_eq!(tiers(&mut a), expected, "{octets}");
        // Objects planned for it are answered from there, others are not cached.
        for (object, tier) in ["hot", "cold"].into_iter().zip(expected) {
            assert_eq!(read(&mut app, object), 100);
            let hits = a.client.counter("forwarder.cs_disk_hits");
            assert_eq!(read(&mut app, object), 100);
            let more = if tier.is_some() { 100 } else { 0 };
            assert_eq!(a.client.counter("forwarder.cs_disk_hits") - hits, more, "{object} {octets}");
        }
    }
}

#[test]
fn the_move_cost_delays_placement() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("memory = 10_000\nmove_cost = 3\nscore_half_life_s = 0\n{}", disk(folder.path()));
    let (mut a, mut b) = joined(&settings);
    let _producer = b.serve("/cms");
    let mut app = a.daemon.connect();
    let mut request = |a: &mut Router, times: u64| {
        (0..times).for_each(|_| assert_eq!(read(&mut app, "hot"), 100));
        until("it is counted", || (a.objects()[0].score >= a.objects()[0].asked).then_some(()));
        let slot = a.status().slot;
        until("kept objects are placed", || (a.status().slot > slot + 1).then_some(()));
        a.objects()[0].tier
    };
    assert_eq!(request(&mut a, 2), None, "both tiers have room");
    assert_eq!(request(&mut a, 2), Some(0));
}

#[test]
fn a_failed_disk_leaves_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("memory = 10_000\nunregistered = \"refuse\"\n{}", disk(folder.path()));
    let (mut a, mut b) = joined(&settings);
    let _producer = b.serve("/cms");
    let mut app = a.daemon.connect();
    ["hot", "hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
    until("both are to be kept", || (tiers(&mut a) == [Some(0), Some(1)]).then_some(()));
    assert_eq!(read(&mut app, "cold"), 100);
    assert_eq!(a.count("disk_left_out"), 0);
    // After a restart, its records on disk cannot be read.
    let dir = a.daemon.stop().1;
    let mut a = Router::start_in(dir, "a", &settings);
    let segments = std::fs::read_dir(folder.path().join("cs")).unwrap().flatten().map(|entry| entry.path());
    for segment in segments.filter(|path| path.extension().is_some_and(|e| e == "log")) {
        std::fs::OpenOptions::new().write(true).open(segment).unwrap().set_len(4096).unwrap();
    }
    join(&mut a, &mut b);
    let mut app = a.daemon.connect();
    until("there is a way", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    until("it is left out", || {
        assert_eq!(read(&mut app, "cold"), 100, "all come, from their producer where they must");
        (a.count("disk_left_out") > 0).then_some(())
    });
    until("the plan is for memory", || {
        read(&mut app, "hot");
        (a.objects()[0].tier == Some(0) || a.objects()[1].tier == Some(0)).then_some(())
    });
    // Nothing fails any more, and it has room again.
    until("it is planned for again", || {
        ["hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
        let mut tiers = tiers(&mut a);
        tiers.sort_unstable();
        (tiers == [Some(0), Some(1)]).then_some(())
    });
}

#[test]
fn a_full_disk_leaves_the_plan() {
    if !rustix::process::geteuid().is_root() {
        return namely_testkit::skip(namely_testkit::Need::Root, "only root can mount a small disk");
    }
    let dir = tempfile::tempdir().unwrap();
    // Data of no object is written to the disk too, and fills it before it reaches its limit.
    let settings = format!(
        "memory = 10_000\n{}\nadmission = \"all\"\noctets_max = \"16MiB\"\n[tables]\ncs_packets_max = 16",
        disk(&dir.path().join("disk"))
    );
    let mut a = match Router::start_mounted(dir, "mount -t tmpfs -o size=3m none $1", "a", &settings) {
        Ok(router) => router,
        Err(said) if said.contains("cs.disk") => panic!("{said}"),
        Err(said) => {
            return namely_testkit::skip(namely_testkit::Need::Mount, format_args!("no such disk: {said}"));
        }
    };
    let mut b = with_a_way(&mut a);
    let producer = b.serve("/cms");
    let _others = a.serve_long("/other", 4000);
    let mut app = a.daemon.connect();
    ["hot", "hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
    until("both are to be kept", || (tiers(&mut a) == [Some(0), Some(1)]).then_some(()));
    assert_eq!(a.count("disk_left_out"), 0);
    // The disk is full.
    assert!((0..1000).all(|n| comes(&mut app, &format!("/other/{n}"), 4000)), "forwarding goes on");
    let status = until("its report", || Some(disk_status(&mut a)).filter(|status| status.trouble.is_some()));
    assert!(status.trouble.as_ref().unwrap().contains("no space left"), "{status:?}");
    assert!(status.count("write_errors") > 0, "{status:?}");
    a.daemon.wait_for_log("no space left");
    until("it is left out", || (a.count("disk_left_out") > 0).then_some(()));
    assert_eq!(a.status().disk_room, Some(0));
    // The plan continues with memory: the most requested object is now kept there, the other
    // nowhere.
    until("the plan follows the requests", || {
        assert_eq!(read(&mut app, "cold"), 100, "all come");
        (tiers(&mut a) == [None, Some(0)]).then_some(())
    });
    until("it is in memory", || {
        assert_eq!(read(&mut app, "cold"), 100);
        (a.objects()[1].held >= 100 * 128).then_some(())
    });
    assert_eq!(read(&mut app, "hot"), 100, "from memory, the disk or their producer");
    let refused = disk_status(&mut a);
    assert!(refused.count("resting") + refused.count("no_room") > 0, "{refused:?}");
    let answered = producer.answered();
    assert_eq!(read(&mut app, "cold"), 100);
    assert_eq!(producer.answered(), answered, "no other router is queried");
    // Its file system grows.
    let mut grow = std::process::Command::new("nsenter");
    grow.args(["--mount", "--target", &a.daemon.pid().to_string(), "mount", "-o", "remount,size=40m"]);
    let grown = grow.arg(a.daemon.config_file().with_file_name("disk")).status().expect("nsenter");
    assert!(grown.success());
    until("it is planned for again", || {
        ["hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
        let mut tiers = tiers(&mut a);
        tiers.sort_unstable();
        (tiers == [Some(0), Some(1)]).then_some(())
    });
    assert!(disk_status(&mut a).trouble.is_none(), "and is not in trouble");
}
