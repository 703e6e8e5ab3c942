//! `namely vip`, over a real router that runs the virtual plane.

use crate::common;

use std::fs;

use common::Home;

#[test]
fn vip_commands_print_text_and_json() {
    let mut home = Home::new();
    let catalogue = home.path("blocks.tsv").display().to_string();
    fs::write(&catalogue, "catalogue\t7\n/big\t20000\n\t/big/a\t20000\n/small\t100\n\t/small/a\t100\n")
        .unwrap();
    let disk = home.path("cs").display().to_string();
    let config = format!(
        "[vip]\nrouter = \"lab\"\ncatalogue = \"{catalogue}\"\nprefix = \"/lab\"\nperiod_ms = 100\nmemory = 1000\n\
         trust = \"open\"\ndisk_octets_max = 50_000\n[cs.disk]\nfolder = \"{disk}\"\n[[vip.neighbour]]\nface = \"udp4://127.0.0.1:9\"\nrouter = \"desk\"\noctets_per_s = 1000\n"
    );
    fs::write(home.path("namely.toml"), config).unwrap();
    let (file, uri) = (home.path("namely.toml"), home.router_uri());
    let up = home.namely(["up", "--config", file.to_str().unwrap(), "--only", "--listen", &uri]);
    let router = home.spawn(up);
    home.wait_for("the plane", || home.run(["vip", "status"]).code == Some(0));
    home.wait_for("a slot", || home.json(["vip", "status"])[0]["counters"]["slots"].as_u64() > Some(0));
    let status = home.json(["vip", "status"]).remove(0);
    let value = |key: &str| status[key].clone();
    assert_eq!((value("router"), value("version"), value("objects")), ("lab".into(), 7.into(), 2.into()));
    assert_eq!((value("files"), value("octets"), value("open")), (2.into(), 20_100.into(), true.into()));
    assert_eq!(value("key").as_str().map(str::len), Some(64));
    assert_eq!((value("disk_room"), value("disk_octets_per_s")), (50_000.into(), (100 << 20).into()));
    let text = home.run(["vip", "status"]);
    assert!(text.stdout.contains("disk       48.8 KiB, read at 100.0 MiB/s"), "{text:?}");
    assert!(text.stdout.contains("2 registered, 19.6 KiB") && text.stderr.contains("OPEN"), "{text:?}");
    let line = home.ok(["vip", "catalogue"]);
    assert!(line.contains("blocks.tsv: version 7, 2 blocks, 2 files; 2 registered"), "{line}");
    // An Interest without an answer counts, too. Its score falls with time.
    home.wait_for("its score", || {
        home.run(["peek", "/lab/small/a/0", "--lifetime", "50"]);
        home.json(["vip", "objects"])[1]["score"].as_f64() > Some(0.9)
    });
    let objects = home.json(["vip", "objects"]);
    assert_eq!((&objects[0]["object"], &objects[1]["object"]), (&"/big".into(), &"/small".into()));
    home.wait_for("its place", || home.ok(["vip", "objects", "--kept"]).contains("/small"));
    let top = home.json(["vip", "top", "1"]);
    assert_eq!((top.len(), &top[0]["object"], &top[0]["tier"]), (1, &"/small".into(), &0.into()));
    let neighbours = home.run(["vip", "neighbours"]);
    assert!(neighbours.stdout.contains("none received"), "{neighbours:?}");
    assert!(neighbours.stderr.contains("no face leads to udp4://127.0.0.1:9"), "{neighbours:?}");
    let neighbour = home.json(["vip", "neighbours"]).remove(0);
    assert_eq!((&neighbour["router"], neighbour["face_id"].is_null()), (&"desk".into(), true));
    assert!(home.ok(["face", "list"]).contains("internal://vip"));
    home.stop(router);
}

#[test]
fn vip_commands_without_plane_print_a_hint() {
    let home = Home::with_router();
    for command in ["status", "objects", "neighbours", "top", "catalogue"] {
        let said = home.fails(1, ["vip", command]);
        assert!(said.contains("runs no virtual plane") && said.contains("put [vip] into"), "{said}");
    }
}
