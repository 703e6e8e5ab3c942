//! Routers that plan for their disk as well as their memory: real ones, with a real folder.

use crate::common;
use crate::plane;

use std::path::Path;

use common::Client;
use namely_skip::until;
use namely_wire::mgmt::{CsDiskStatus, Dataset, blocks};
use plane::{Router, content, join};

/// The last lines of a configuration: a disk in a folder, each read of which takes a ms more.
fn disk(folder: &Path) -> String {
    format!("[cs.disk]\nfolder = \"{}\"\nread_ahead = false\nslow = \"1ms\"", folder.join("cs").display())
}

/// A router with these settings, and one with a way to the producer that it has.
fn joined(settings: &str) -> (Router, Router) {
    let mut a = Router::start("a", settings);
    let b = with_a_way(&mut a);
    (a, b)
}

/// A neighbour to which a router leads what it has no Data for.
fn with_a_way(a: &mut Router) -> Router {
    let mut b = Router::start("b", "unregistered = \"refuse\"");
    join(a, &mut b);
    until("there is a way", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    b
}

/// How many of an object's 100 segments come; each is right.
fn read(app: &mut Client, object: &str) -> usize {
    (0..100).filter(|n| comes(app, &format!("/cms/{object}/a/{n}"), 100)).count()
}

/// Whether Data comes; if so, it is the one with that name.
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

/// Where the hot and the cold one are to be kept.
fn tiers(router: &mut Router) -> [Option<u64>; 2] {
    let objects = router.objects();
    [objects[0].tier, objects[1].tier]
}

#[test]
fn the_object_most_asked_for_is_kept_in_memory_the_next_on_disk_and_both_without_their_producer() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("memory = 10_000\nunregistered = \"refuse\"\n{}", disk(folder.path()));
    let (mut a, mut b) = joined(&settings);
    let producer = b.serve("/cms");
    let mut app = a.daemon.connect();
    let told = a.status();
    assert!(told.disk_room.is_some_and(|room| room > 20_000), "{told:?}");
    assert_eq!(told.disk_octets_per_s, Some(100 << 20), "nothing was read of it");
    ["hot", "hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
    until("both are to be kept", || (tiers(&mut a) == [Some(0), Some(1)]).then_some(()));
    ["hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
    until("the hot one is in memory", || (a.objects()[0].held >= 100 * 128).then_some(()));
    assert_eq!(a.objects()[1].held, 0, "the cold one is not");
    assert!(a.client.counter("forwarder.objects_data_to_disk") >= 100);
    assert_eq!(a.client.counter("forwarder.cs_disk_writes"), 100);
    // Its producer goes, and the router that led to it.
    drop(producer);
    drop(b);
    ["hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100, "{object}"));
    // The consumer of a busy machine asks some of them twice.
    let hits = a.client.counter("forwarder.cs_disk_hits");
    assert!((100..200).contains(&hits), "the cold one alone was read there: {hits}");
    // A router that starts again has no route, but its disk.
    let dir = a.daemon.stop().1;
    let mut a = Router::start_in(dir, "a", &settings);
    let mut app = a.daemon.connect();
    assert_eq!(read(&mut app, "cold"), 100);
    assert!(a.client.counter("forwarder.cs_disk_hits") >= 100);
    // A packet of less than 400 octets comes in no less than a ms.
    let rate = until("that was measured", || a.status().disk_octets_per_s.filter(|rate| *rate != 100 << 20));
    assert!((100..400_000).contains(&rate), "{rate}");
}

#[test]
fn an_object_that_fits_the_disk_to_the_octet_is_kept_there_and_one_that_is_an_octet_larger_is_not() {
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
        until("what is kept is placed", || (a.status().slot > slot + 1).then_some(()));
        assert_eq!(tiers(&mut a), expected, "{octets}");
        // What is planned for it is answered from there, what is not is not kept.
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
fn where_moving_costs_three_vips_an_object_has_a_place_once_more_of_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("memory = 10_000\nmove_cost = 3\nscore_half_life_s = 0\n{}", disk(folder.path()));
    let (mut a, mut b) = joined(&settings);
    let _producer = b.serve("/cms");
    let mut app = a.daemon.connect();
    let mut ask = |a: &mut Router, times: u64| {
        (0..times).for_each(|_| assert_eq!(read(&mut app, "hot"), 100));
        until("it is counted", || (a.objects()[0].score >= a.objects()[0].asked).then_some(()));
        let slot = a.status().slot;
        until("what is kept is placed", || (a.status().slot > slot + 1).then_some(()));
        a.objects()[0].tier
    };
    assert_eq!(ask(&mut a, 2), None, "both tiers have room");
    assert_eq!(ask(&mut a, 2), Some(0));
}

#[test]
fn a_disk_that_fails_is_left_out_of_the_plan_which_goes_on_with_memory_alone() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("memory = 10_000\nunregistered = \"refuse\"\n{}", disk(folder.path()));
    let (mut a, mut b) = joined(&settings);
    let _producer = b.serve("/cms");
    let mut app = a.daemon.connect();
    ["hot", "hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
    until("both are to be kept", || (tiers(&mut a) == [Some(0), Some(1)]).then_some(()));
    assert_eq!(read(&mut app, "cold"), 100);
    assert_eq!(a.count("disk_left_out"), 0);
    // When it has started again, what it wrote cannot be read.
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
fn a_full_disk_is_left_out_of_the_plan_and_all_data_come_and_are_right_until_it_has_room_again() {
    if !rustix::process::geteuid().is_root() {
        return namely_skip::skip(namely_skip::Need::Root, "only root can mount a small disk");
    }
    let dir = tempfile::tempdir().unwrap();
    // What is no object is written to the disk too, and fills it before it has what it may have.
    let settings = format!(
        "memory = 10_000\n{}\nadmission = \"all\"\noctets_max = \"16MiB\"\n[tables]\ncs_packets_max = 16",
        disk(&dir.path().join("disk"))
    );
    let mut a = match Router::start_mounted(dir, "mount -t tmpfs -o size=3m none $1", "a", &settings) {
        Ok(router) => router,
        Err(said) if said.contains("cs.disk") => panic!("{said}"),
        Err(said) => {
            return namely_skip::skip(namely_skip::Need::Mount, format_args!("no such disk: {said}"));
        }
    };
    let mut b = with_a_way(&mut a);
    let producer = b.serve("/cms");
    let _others = a.serve_long("/other", 4000);
    let mut app = a.daemon.connect();
    ["hot", "hot", "cold"].iter().for_each(|object| assert_eq!(read(&mut app, object), 100));
    until("both are to be kept", || (tiers(&mut a) == [Some(0), Some(1)]).then_some(()));
    assert_eq!(a.count("disk_left_out"), 0);
    // It is full.
    assert!((0..1000).all(|n| comes(&mut app, &format!("/other/{n}"), 4000)), "forwarding goes on");
    let status = until("it is told", || Some(disk_status(&mut a)).filter(|status| status.trouble.is_some()));
    assert!(status.trouble.as_ref().unwrap().contains("no space left"), "{status:?}");
    assert!(status.count("write_errors") > 0, "{status:?}");
    a.daemon.wait_for_log("no space left");
    until("it is left out", || (a.count("disk_left_out") > 0).then_some(()));
    assert_eq!(a.status().disk_room, Some(0));
    // The plan goes on with memory: what is asked for most by now is kept there, the other nowhere.
    until("the plan follows what is asked for", || {
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
    let heard = producer.heard();
    assert_eq!(read(&mut app, "cold"), 100);
    assert_eq!(producer.heard(), heard, "nobody else is asked");
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
