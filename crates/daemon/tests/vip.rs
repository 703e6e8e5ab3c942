//! Routers that run the virtual plane of VIP: real ones, over UDP.

use crate::common;
use crate::plane;

use namely_testkit::until;
use plane::{Router, join};

#[test]
fn vip_routers_exchange_signed_counts() {
    let mut a = Router::start("a", "memory = 0");
    let mut b = Router::start("b", "memory = 10_000");
    join(&mut a, &mut b);
    for router in [&mut a, &mut b] {
        until("the neighbor's counts are good", || router.neighbours()[0].fresh_ms.is_some().then_some(()));
    }
    // Requests at `a` become VIPs, which go to `b` and are entered there.
    let mut app = a.daemon.connect();
    (0..100).for_each(|n| app.ask(&format!("/cms/hot/a/{n}")));
    let hot = until("it is entered at b", || b.objects().into_iter().find(|object| object.score > 0));
    assert_eq!(hot.name, "/hot");
    until("all of it", || (b.objects()[0].score >= 1_000_000).then_some(()));
    until("all are counted", || (a.objects()[0].asked >= 1 << 20).then_some(()));
    assert_eq!(a.objects()[0].asked, 1 << 20, "100 segments are one object");
    assert_eq!(b.objects()[0].asked, 0, "an Interest of a neighbor is not demand");
    until("the most requested object is kept", || (b.objects()[0].tier == Some(0)).then_some(()));
    assert_eq!(b.objects()[1].tier, None);
    // Counts that are older than two slots are not used. On a busy machine they come back.
    until("it is asked for where its VIPs went", || {
        let face = a.neighbours()[0].face_id;
        (face.is_some() && a.objects()[0].face_id == face).then_some(())
    });
    for router in [&mut a, &mut b] {
        for refused in ["bad_signature", "malformed", "other_router", "replayed"] {
            assert_eq!(router.count(refused), 0, "{refused}");
        }
    }
}

#[test]
fn a_wrong_catalogue_keeps_the_old_one() {
    let mut router = Router::start("a", "memory = 10_000");
    let mut producer = router.producer("/cms");
    let mut app = router.daemon.connect();
    // Half of the hot object is requested and answered.
    for n in 0..50 {
        app.ask(&format!("/cms/hot/a/{n}"));
        producer.serve_one(b"x");
        app.receive(common::PATIENCE).expect("it is answered");
    }
    until("it is counted", || (router.objects()[0].score >= 500_000).then_some(()));
    let wrong = "catalogue\t2\n/hot\t10000\n\t/hot/a\tmany\n";
    std::fs::write(router.catalogue(), wrong).unwrap();
    let line = router.reload("");
    let expected = "not reloaded, the old configuration stays in force";
    assert!(line.contains(expected) && line.contains("blocks.tsv:3: `many` is no size"), "{line}");
    assert_eq!((router.status().version, router.objects().len()), (1, 2));
    // The hot object moves to another line of the catalogue, and a further object is added.
    let new = "catalogue\t3\n/new\t5000\n\t/new/a\t5000\n/hot\t10000\n\t/hot/a\t9000\n\t/hot/b\t1000\n";
    std::fs::write(router.catalogue(), new).unwrap();
    let line = router.reload("");
    assert!(line.contains("configuration reloaded"), "{line}");
    until("it is the new one", || (router.status().version == 3).then_some(()));
    let objects = router.objects();
    let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["/new", "/hot"]);
    assert_eq!(objects[0].score, 0);
    assert!(objects[1].score >= 500_000, "it keeps its score: {}", objects[1].score);
    // Requests for its new file count for the object.
    let requested = |router: &mut Router| router.objects()[1].asked;
    assert_eq!(requested(&mut router), 0, "requests since it was registered");
    app.ask("/cms/hot/b/0");
    producer.serve_one(b"x");
    until("it counts", || (requested(&mut router) > 0).then_some(()));
    assert!(router.objects()[1].is_source);
    let refused = router.reload(&plane::Router::neighbour(9, "b", &[7; 31], ""));
    assert!(refused.contains("64 hexadecimal digits"), "{refused}");
}

#[test]
fn vip_errors_prevent_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let catalogue = file("blocks.tsv", plane::CATALOGUE);
    let keys = format!("[discovery]\nkey_chain = \"{}\"\n", dir.path().join("keys").display());
    let check = |text: &str| {
        let config = file("namely.toml", text);
        let mut command = common::namelyd();
        command.args(["--check", "--config", &config]);
        let (code, _, stderr) = common::run(command);
        (code, stderr)
    };
    let vip = format!("[vip]\nrouter = \"a\"\ncatalogue = \"{catalogue}\"\n");
    assert_eq!(check(&format!("{keys}{vip}")).0, 0);
    let neighbour = "[[vip.neighbour]]\nface = \"udp4://192.0.2.1:6363\"\noctets_per_s = 1\n";
    assert_eq!(check(&format!("{keys}{vip}{neighbour}")).0, 0, "it does not speak VIP and needs no key");
    assert_eq!(check(&format!("{keys}{vip}register = \"top:4096\"\n")).0, 0);
    let disk =
        format!("[cs.disk]\nfolder = \"{}\"\noctets_max = \"64MiB\"\n", dir.path().join("cs").display());
    let on_disk = |octets: u64| format!("{keys}{vip}disk_octets_max = {octets}\n{disk}");
    assert_eq!(check(&on_disk(64 << 20)).0, 0, "all that there may be");
    assert_eq!(check(&format!("{keys}{vip}disk_octets_max = 0\n")).0, 0, "no disk is needed for nothing");
    // One object more than allowed.
    let block = |n: usize| format!("/{n}\t1\n\t/{n}/a\t1\n");
    let many: String = (0..=4096).map(block).collect();
    let many = file("many.tsv", &format!("catalogue\t1\n{many}"));
    let of = |catalogue: &str| format!("{keys}[vip]\nrouter = \"a\"\ncatalogue = \"{catalogue}\"\n");
    assert_eq!(check(&format!("{}register = \"top:4096\"\n", of(&many))).0, 0, "not all are registered");
    let twice = file("twice.tsv", "catalogue\t1\n/a\t1\n\t/f\t1\n/b\t1\n\t/f\t1\n");
    for (text, expected) in [
        (vip.clone(), "name a folder that keeps it"),
        (of("/nowhere/blocks.tsv"), "/nowhere/blocks.tsv: No such file"),
        (of(&many), "many.tsv:8194: more than 4096 blocks"),
        (of(&twice), "twice.tsv:5: /f is in line 3 too"),
        (format!("{keys}{vip}{neighbour}router = \"b\"\n"), "nobody could tell it from others"),
        (format!("{keys}{vip}{neighbour}{neighbour}"), "two [[vip.neighbour]] have"),
        (format!("{keys}{vip}period_ms = 99\n"), "use 100 to 3600000"),
        (format!("{keys}{vip}amplification = 3\n"), "use 1 or 2"),
        (format!("{keys}{vip}trust = \"some\"\n"), "`signed`, `open`"),
        (format!("{keys}{vip}segment_octets = 0\n"), "use 1 to"),
        (on_disk((64 << 20) + 1), "and [cs.disk] may take 67108864"),
        (format!("{keys}{vip}disk_octets_max = 1\n"), "there is no disk"),
        (format!("{keys}{vip}register = \"top:0\"\n"), "with 1 to 4096"),
        (format!("{keys}{vip}register = \"top:4097\"\n"), "with 1 to 4096"),
        (format!("{keys}{vip}register_interval_s = 0\n"), "use 1 to 86400"),
        (format!("{keys}[vip]\ncatalogue = \"{catalogue}\"\n"), "[vip] needs `router`"),
    ] {
        let (code, stderr) = check(&text);
        assert!(code != 0 && stderr.contains(expected), "{expected}: {stderr}");
    }
}

#[test]
fn a_kept_object_stays_until_outranked() {
    let mut a = Router::start("a", "memory = 10_000\nunregistered = \"refuse\"");
    let mut b = Router::start("b", "unregistered = \"refuse\"");
    join(&mut a, &mut b);
    let producer = b.serve("/cms");
    let mut app = a.daemon.connect();
    until("there is a way", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    let mut read = |object: &str, segments: std::ops::Range<u32>| {
        for n in segments {
            app.ask(&format!("/cms/{object}/a/{n}"));
            app.receive(common::PATIENCE).expect("it is answered");
        }
    };
    read("cold", 0..10);
    read("hot", 0..100);
    until("the hot one is to be kept", || (a.objects()[0].tier == Some(0)).then_some(()));
    assert_eq!((a.objects()[1].tier, a.objects()[1].held), (None, 0));
    read("hot", 0..100);
    let held = until("it is held", || Some(a.objects()[0].held).filter(|held| *held >= 100 * 128));
    assert!(held <= 104 * 637, "{held}");
    // Now the router answers from its own store.
    let answered = producer.answered();
    read("hot", 0..100);
    assert_eq!(producer.answered(), answered);
    // Data of no object is not cached.
    (0..3).for_each(|_| read("else", 0..1));
    assert_eq!(producer.answered(), answered + 3);
    // The cold object is now requested more, and replaces the other one completely.
    until("the cold one is to be kept", || {
        read("cold", 0..100);
        (a.objects()[1].tier == Some(0)).then_some(())
    });
    until("it is", || {
        read("cold", 0..100);
        (a.objects()[1].held >= 100 * 128).then_some(())
    });
    until("the other one has left", || (a.objects()[0].held == 0).then_some(()));
    assert!(a.client.counter("forwarder.objects_evicted") >= 1);
    assert!(a.client.counter("forwarder.objects_unregistered_data") >= 3);
}

#[test]
fn only_popular_blocks_are_registered() {
    let settings = "memory = 10_000\nregister = \"top:1\"\nregister_interval_s = 1";
    let mut a = Router::start("a", settings);
    let mut b = Router::start("b", "unregistered = \"refuse\"");
    join(&mut a, &mut b);
    let producer = b.serve("/cms");
    let mut app = a.daemon.connect();
    until("there is a way", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    let registered = |router: &mut Router| {
        let status = router.status();
        assert_eq!((status.objects, status.blocks), (1, 2));
        router.objects()[0].name.clone()
    };
    assert_eq!(registered(&mut a), "/hot", "the first of the catalogue, as long as nothing is known");
    let mut read = |object: &str| {
        for n in 0..20 {
            app.ask(&format!("/cms/{object}/a/{n}"));
            app.receive(common::PATIENCE).expect("it is answered");
        }
    };
    // The content store's policy caches Data of no object.
    read("cold");
    let answered = producer.answered();
    read("cold");
    // Blocks are registered every second. From its registration on, the block's Data is cached only
    // as planned.
    let is_cached = producer.answered() == answered;
    assert!(is_cached || registered(&mut a) == "/cold");
    until("it is asked for most, and registered", || (registered(&mut a) == "/cold").then_some(()));
    assert!(a.objects()[0].asked > 0, "earlier requests are counted");
    // From now on its requests count, and all of it is cached.
    read("cold");
    until("it scores", || (a.objects()[0].score > 0).then_some(()));
    until("it is to be kept", || (a.objects()[0].tier == Some(0)).then_some(()));
    // A reload changes nothing of that.
    a.reload_settings();
    assert_eq!(registered(&mut a), "/cold");
}
