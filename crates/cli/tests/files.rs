//! Files by name through the real router: results, refusals with their reasons, and files that
//! remain.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Ended, Home, write_file};
use namely_security::{Certificate, KeyChain, KeyType, NewKey};
use namely_socket::{Producer, ProducerOptions, PublishOptions};
use namely_testkit::{Need, skip};
use namely_wire::Name;
use namely_wire::ValidityPeriod;
use rustix::process::{Pid, Signal, kill_process};

/// A home with a router that serves `data` as `/lab`.
pub(crate) fn lab() -> Home {
    let mut home = Home::with_router();
    fs::create_dir_all(home.path("data/sub")).unwrap();
    write_file(&home.path("data/a.bin"), 100_000, 1);
    write_file(&home.path("data/sub/b.bin"), 1, 2);
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home
}

pub(crate) fn same(a: &Path, b: &Path) {
    assert!(fs::read(a).unwrap() == fs::read(b).unwrap(), "{} and {} differ", a.display(), b.display());
}

/// The entries of a directory, sorted.
fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn get_writes_a_verified_file() {
    let home = lab();
    let got = &home.json(["get", "/lab/a.bin"])[0];
    same(&home.path("data/a.bin"), &home.path("a.bin"));
    assert_eq!(got["octets"].as_u64(), Some(100_000));
    assert!(got["verified"].as_str().unwrap().contains("/lab/KEY/"), "{got}");
    // A fetch on a busy machine may take a pause for a loss. The cache then answers the repeated
    // Interest.
    let (repeated, cached) = (got["retransmissions"].as_u64().unwrap(), got["cache_share"].as_f64().unwrap());
    assert!(if repeated == 0 { cached == 0.0 } else { cached < 1.0 }, "the producer answers first: {got}");
    let again = &home.json(["get", got["name"].as_str().unwrap(), "-o", "again"])[0];
    assert_eq!(again["cache_share"].as_f64(), Some(1.0), "and now from the cache");
    assert!(again["verified"].as_str().unwrap().starts_with("verified packet by packet"), "{again}");
}

#[test]
fn a_second_tree_fetch_transfers_only_changes() {
    let home = lab();
    let first = &home.json(["get", "/lab", "--recursive", "-o", "copy"])[0];
    assert_eq!((first["files"].as_u64(), first["unchanged"].as_u64()), (Some(2), Some(0)));
    same(&home.path("data/sub/b.bin"), &home.path("copy/sub/b.bin"));
    let again = &home.json(["get", "/lab", "--recursive", "-o", "copy", "--resume"])[0];
    assert_eq!((again["files"].as_u64(), again["unchanged"].as_u64()), (Some(0), Some(2)));
}

#[test]
fn get_writes_verified_content_to_stdout() {
    let home = lab();
    let output = home.namely(["get", "/lab/a.bin", "-o", "-", "--quiet"]).output().unwrap();
    assert!(output.status.success() && output.stdout == fs::read(home.path("data/a.bin")).unwrap());
}

#[test]
fn get_needs_a_trusted_certificate() {
    let home = lab();
    let stranger = Home::new();
    let get = |home: &Home| {
        let router = format!("unix://{}", lab_socket(&stranger, home));
        let mut command = stranger.namely(["get", "/lab/a.bin", "-o", "x"]);
        common::ended(command.env("NAMELY_ROUTER", router).output().unwrap())
    };
    let refused = get(&home);
    assert_eq!(refused.code, Some(6), "{refused:?}");
    let message = "you trust no key for /lab/a.bin yet: the key of /lab signs it";
    assert!(refused.stderr.contains(message) && !refused.stderr.contains("poisoned"), "{refused:?}");
    assert!(refused.stderr.contains("`namely cert trust --from /lab/a.bin`"), "{refused:?}");
    assert!(!stranger.path("x").exists(), "nothing unverified is left");
    fs::write(stranger.path("lab.cert"), home.ok(["cert", "export", "/lab"])).unwrap();
    stranger.ok(["cert", "trust", "lab.cert"]);
    let believed = get(&home);
    assert_eq!(believed.code, Some(0), "{believed:?}");
    same(&home.path("data/a.bin"), &stranger.path("x"));
}

fn lab_socket(_: &Home, lab: &Home) -> String {
    lab.path("namely.sock").display().to_string()
}

#[test]
fn get_refuses_an_expired_certificate() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 10, 3);
    // The file is fetched before its end, also on a busy machine.
    certify(&home, 1, 20);
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    let name = home.json(["get", "/lab/f"])[0]["name"].as_str().unwrap().to_owned();
    home.wait_for("its end", || home.background_log().contains("signing has ended"));
    // The router's cache still has the whole file.
    let error = home.fails(6, ["get", &name, "-o", "out"]);
    assert!(error.contains("/lab/KEY/") && error.contains("expired"), "{error}");
    assert!(!home.path("out").exists());
}

#[test]
fn get_refuses_a_revoked_key() {
    let home = Home::with_router();
    certify(&home, 1, 1000);
    let options = ProducerOptions {
        router: Some(home.router_uri()),
        keychain: Some(home.path("home/keys")),
        ..ProducerOptions::default()
    };
    let producer = Producer::bind("/lab/s".parse().unwrap(), options).unwrap();
    let object: Name = "/lab/s/o".parse().unwrap();
    let published = producer.publish(&object, &[7; 20_000], &PublishOptions::default()).unwrap();
    let name = published.name.to_string();
    home.ok(["get", &name, "-o", "before"]);
    // The session's certificate is revoked when the socket is closed. The router's cache still has
    // the whole object.
    producer.close();
    // `--revocation off` fetches the data without a check. A fetch with the check makes the router
    // erase them.
    home.ok(["get", &name, "-o", "after", "--revocation", "off", "--verify-threads", "2"]);
    assert_eq!(fs::read(home.path("after")).unwrap(), [7; 20_000]);
    // Each fetch asks once whether the certificate is good. On a busy machine it may get no answer
    // in time, and then it accepts the certificate.
    let mut refused = String::new();
    home.wait_for("the revocation", || {
        fs::remove_file(home.path("after")).unwrap_or_default();
        let end = home.run(["get", &name, "-o", "after"]);
        refused = end.stderr;
        end.code == Some(6)
    });
    assert!(refused.contains("was revoked") && refused.contains("/lab/s/KEY/"), "{refused}");
    assert!(!home.path("after").exists(), "nothing unverified is left");
    let unknown = home.fails(2, ["get", &name, "--revocation", "never"]);
    assert!(unknown.contains("require"), "{unknown}");
}

#[test]
fn get_distinguishes_no_object_from_no_route() {
    let home = lab();
    let missing = home.fails(4, ["get", "/lab/missing.bin"]);
    assert!(missing.contains("no such object") && missing.contains("`namely ls /"), "{missing}");
    // The router refuses it. A timeout has another exit status.
    let nowhere = home.fails(4, ["get", "/nowhere/f", "--lifetime", "20000"]);
    assert!(nowhere.contains("no route"), "{nowhere}");
    let directory = home.fails(4, ["get", "/lab/sub"]);
    assert!(directory.contains("--recursive"), "{directory}");
    assert_eq!(entries(&home.path("")).iter().filter(|e| e.contains("namely-part")).count(), 0);
}

#[test]
fn caches_answer_without_the_producer() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 50_000, 4);
    let producer = home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home.ok(["get", "/lab/f", "-o", "first"]);
    // Metadata is fresh for a second only. The content store answers the versioned name for longer.
    let name = home.json(["get", "/lab/f", "-o", "again"])[0]["name"].as_str().unwrap().to_string();
    home.stop(producer);
    home.ok(["get", &name, "-o", "cached"]);
    same(&home.path("data/f"), &home.path("cached"));
}

#[test]
fn producers_return_to_a_restarted_router() {
    let mut home = Home::new();
    let router = home.start_router();
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 50_000, 5);
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home.stop(router);
    home.start_router();
    home.wait_for("the prefix", || home.ok(["route", "list"]).contains("/lab"));
    home.ok(["get", "/lab/f", "-o", "out"]);
    same(&home.path("data/f"), &home.path("out"));
}

/// Waits until a part of the file `out` is stored, or all of it. The journal records the part that
/// a later fetch may skip.
fn wait_for_journal(home: &Home) {
    let (journal, out) = (home.path("out.namely-part.journal"), home.path("out"));
    let is_begun = || fs::metadata(&journal).is_ok_and(|m| m.len() > 0) || out.exists();
    home.wait_for("a journal of the part", is_begun);
}

/// Fetches `/lab/big` as `out`, and sends `signal` to the command in the middle. On a busy machine
/// the command may end before the signal, and is then repeated.
fn interrupted(home: &Home, signal: Signal) -> Ended {
    let mut end = None;
    home.wait_for("a fetch that ends by the signal", || {
        let _ = fs::remove_file(home.path("out"));
        let mut command = home.namely(["get", "/lab/big", "-o", "out", "--congestion", "fixed:1"]);
        let get = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_journal(home);
        kill_process(Pid::from_raw(get.id() as i32).unwrap(), signal).unwrap();
        let ended = common::ended(get.wait_with_output().unwrap());
        let is_early = ended.code == Some(0);
        end = Some(ended);
        !is_early
    });
    assert!(!home.path("out").exists(), "an incomplete file has not its final name");
    end.unwrap()
}

#[test]
fn a_killed_get_continues_by_itself() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/big"), 50_000_000, 6);
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    let part = home.path("out.namely-part");
    assert_eq!(interrupted(&home, Signal::KILL).code, None);
    let got = &home.json(["get", "/lab/big", "-o", "out"])[0];
    assert!(got["resumed_octets"].as_u64() > Some(0), "{got}");
    same(&home.path("data/big"), &home.path("out"));
    assert!(!part.exists());

    interrupted(&home, Signal::KILL);
    let end = home.run(["get", "/lab/big", "-o", "out", "--resume"]);
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(
        end.stderr.contains("continuing an earlier fetch") || end.stdout.contains("earlier fetch"),
        "{end:?}"
    );
    interrupted(&home, Signal::KILL);
    let got = &home.json(["get", "/lab/big", "-o", "out", "--no-resume"])[0];
    assert_eq!(got["resumed_octets"].as_u64(), Some(0), "{got}");
}

#[test]
fn a_get_outlives_its_producer() {
    let mut home = Home::new();
    home.start_router_with(&["--cs-packets-max", "16"]);
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/big"), 25_000_000, 9);
    let get = loop {
        let producer = home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
        let get = home.namely(["get", "/lab/big", "-o", "out", "--congestion", "fixed:2"]);
        let get = home.spawn(get);
        wait_for_journal(&home);
        kill_process(Pid::from_raw(home.pid(producer) as i32).unwrap(), Signal::KILL).unwrap();
        home.wait_for("a word about the silence, or the file", || {
            home.background_log().contains("to /lab/big") || home.path("out").exists()
        });
        if !home.path("out").exists() {
            break get;
        }
        // On a busy machine the fetch may end before its producer.
        fs::remove_file(home.path("out")).unwrap();
        home.wait_for("the end of the prefix", || !home.ok(["route", "list"]).contains("/lab"));
    };
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home.wait_for("the rest", || home.path("out").exists());
    same(&home.path("data/big"), &home.path("out"));
    home.wait_for("the signer", || home.background_log().contains("signed by /lab/KEY/"));
    home.stop(get);
}

#[test]
fn every_congestion_control_fetches_a_file() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/file"), 8_000_000, 8);
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    for word in ["cubic", "raaqm", "bbr", "nbcc", "aimd", "fixed:32", "rfc9438", "bbr3", "raaqm-published"] {
        let began = std::time::Instant::now();
        let got = &home.json(["get", "/lab/file", "-o", word, "--congestion", word])[0];
        println!("{word}: {:?}, {got}", began.elapsed());
        same(&home.path("data/file"), &home.path(word));
    }
    let end = home.run(["get", "/lab/file", "-o", "none", "--congestion", "reno"]);
    assert!(end.code != Some(0) && end.stderr.contains("cubic, raaqm, bbr"), "{end:?}");
}

#[test]
fn ctrl_c_keeps_verified_data() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/big"), 50_000_000, 7);
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    let end = interrupted(&home, Signal::INT);
    assert_eq!(end.code, Some(130), "{end:?}");
    assert!(end.stderr.contains("the same fetch continues there"), "{end:?}");
    home.ok(["get", "/lab/big", "-o", "out"]);
    same(&home.path("data/big"), &home.path("out"));
}

#[test]
fn a_full_disk_leaves_no_final_file() {
    let home = lab();
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can mount a small disk");
        return;
    }
    fs::create_dir(home.path("disk")).unwrap();
    // The small disk is mounted in a mount namespace of its own, which ends with the shell.
    let script = format!(
        "mount -t tmpfs -o size=40k none disk && echo mounted && {} get /lab/a.bin -o disk/out; code=$?; ls disk; exit $code",
        env!("CARGO_BIN_EXE_namely")
    );
    let mut shell = std::process::Command::new("unshare");
    shell.args(["-m", "sh", "-c", &script]).current_dir(home.path("")).env("NAMELY_HOME", home.path("home"));
    let end = common::ended(shell.env("NAMELY_ROUTER", home.router_uri()).output().unwrap());
    if !end.stdout.starts_with("mounted") {
        skip(Need::Mount, format_args!("mounting is not allowed here: {}", end.stderr));
        return;
    }
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.stderr.contains("no space left"), "{end:?}");
    assert!(!end.stdout.lines().any(|l| l == "out"), "{end:?}");
}

#[test]
fn put_publishes_standard_input() {
    let mut home = Home::with_router();
    write_file(&home.path("input"), 20_001, 8);
    let mut put = home.namely(["put", "/lab/printed"]);
    put.stdin(fs::File::open(home.path("input")).unwrap());
    home.spawn(put);
    home.wait_for("the prefix", || home.ok(["route", "list"]).contains("/lab/printed"));
    home.ok(["get", "/lab/printed", "-o", "out"]);
    same(&home.path("input"), &home.path("out"));
}

#[test]
fn get_verifies_packets_of_every_key_type() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 30_000, 9);
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let prefix = format!("/lab/{kind}");
        home.ok(["key", "new", &prefix, "--type", kind]);
        home.serve(
            &prefix,
            ["serve", "data", "--prefix", &prefix, "--sign", "packet", "--segment-size", "4000"],
        );
        home.ok(["get", &format!("{prefix}/f"), "-o", kind]);
        same(&home.path("data/f"), &home.path(kind));
    }
}

#[test]
fn the_demo_reports_packet_sources() {
    let home = Home::new();
    write_file(&home.path("file"), 300_000, 10);
    let legs = home.json(["demo", "--file", "file"]);
    assert_eq!(legs.len(), 2);
    assert!(legs[0]["packets_from"]["producer"].as_u64() > Some(30), "{}", legs[0]);
    assert_eq!(legs[1]["packets_from"]["producer"].as_u64(), Some(0));
    assert!(legs[1]["packets_from"]["near_router"].as_u64() > Some(30), "{}", legs[1]);
    assert!(legs[0]["verified"].as_str().unwrap().contains("/demo/KEY/"));
    let text = home.ok(["demo", "--file", "file"]);
    assert!(text.contains("both copies are equal to the file"), "{text}");
}

/// Creates a self-signed certificate of `/lab` that is valid for `seconds`. It is for the key in
/// the home's key chain or, if there is none, for a new key.
fn certify(home: &Home, version: u64, seconds: u64) {
    let chain = KeyChain::open(home.path("home/keys")).unwrap();
    let identity: Name = "/lab".parse().unwrap();
    let now_s = namely_host::clock::since_epoch().as_secs();
    let validity = ValidityPeriod { not_before_s: now_s - 1, not_after_s: now_s + seconds };
    if let Ok(entry) = chain.key(Some(identity.as_name())) {
        let key = Arc::new(chain.private_key(entry.name.as_name(), None).unwrap());
        let newer = Certificate::self_signed(entry.name.as_name(), &key, validity, version).unwrap();
        chain.add_certificate(&newer).unwrap();
    } else {
        let key_type = KeyType::Ed25519;
        let new = NewKey { identity: identity.as_name(), key_type, validity, version, passphrase: None };
        chain.generate(&new).unwrap();
    }
}

#[test]
fn a_server_follows_newer_certificates() {
    let mut home = Home::with_router();
    fs::create_dir_all(home.path("data")).unwrap();
    write_file(&home.path("data/a.bin"), 100_000, 1);
    // The steps before the end of a certificate take seconds on a busy machine.
    certify(&home, 1, 12);
    let first = Instant::now();
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home.ok(["get", "/lab/a.bin", "-o", "before"]);
    certify(&home, 2, 30);
    home.wait_for("the end of the first certificate", || first.elapsed() > Duration::from_secs(14));
    // `a.bin` was signed under the first certificate. `b.bin` is signed now.
    write_file(&home.path("data/b.bin"), 1000, 1);
    for file in ["a.bin", "b.bin"] {
        home.ok(["get", &format!("/lab/{file}"), "-o", file]);
        same(&home.path(&format!("data/{file}")), &home.path(file));
    }
    home.wait_for("its end", || home.background_log().contains("signing has ended"));
    let log = home.background_log();
    assert!(log.contains("import a newer one with `namely cert import FILE`"), "a warning before\n{log}");
    let refused = home.fails(1, ["serve", "data", "--prefix", "/lab"]);
    assert!(refused.contains("expired on") && refused.contains("`namely cert import FILE`"), "{refused}");
}

#[test]
fn a_served_directory_is_listed() {
    let home = lab();
    let names: Vec<String> =
        home.json(["ls", "/lab"]).iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    assert!(names.iter().any(|name| name == "sub"), "{names:?}");
    let long = home.json(["ls", "/lab", "--long"]);
    let file = long.iter().find(|row| row["kind"] == "file").unwrap();
    let name = format!("/lab/{}", file["name"].as_str().unwrap());
    let plain = home.json(["ls", "/lab"]);
    let row = plain.iter().find(|row| row["name"] == file["name"]).unwrap();
    assert_eq!((&row["octets"], row["uri"].as_str()), (&file["octets"], Some(&*name)), "without --long");
    // A long name must not move the other columns out of the window.
    let text = home.ok(["ls", "/lab", "--long"]);
    assert!(text.starts_with("kind ") && text.lines().all(|line| !line.ends_with(' ')), "{text}");
    assert!(text.lines().next().unwrap().ends_with("  name"), "{text}");
    let stat = &home.json(["stat", &name])[0];
    assert_eq!((stat["kind"].as_str(), &stat["octets"]), (Some("file"), &file["octets"]));
    assert!(stat["signer"].as_str().unwrap().starts_with("/lab/KEY/"), "{stat}");
    assert_eq!(home.json(["stat", "/lab/sub"])[0]["kind"], "directory");
    assert!(home.fails(4, ["ls", &name]).contains("not a directory"));
    home.ok(["get", &name, "into/"]);
    let path = home.path("into").join(file["name"].as_str().unwrap());
    assert_eq!(fs::metadata(&path).unwrap().len(), file["octets"].as_u64().unwrap());
    home.ok(["get", &name, "into"]);
    home.ok(["get", &name, "other.name"]);
    assert!(home.path("other.name").is_file());
}

#[test]
fn a_changed_tree_is_fetched_past_caches() {
    let home = lab();
    home.ok(["get", "/lab", "--recursive", "copy"]);
    for round in ["1", "2", "3"] {
        fs::write(home.path("data/new"), round).unwrap();
        // The router's cache has the list of files from before this change.
        home.ok(["get", "/lab", "--recursive", "copy", "--max-age", "0"]);
        assert_eq!(fs::read_to_string(home.path("copy/new")).unwrap(), round);
    }
}

#[test]
fn an_unchanged_tree_is_not_refetched() {
    let home = lab();
    let first = &home.json(["get", "/lab", "-r", "copy"])[0];
    let count = first["files"].as_u64().unwrap();
    assert!(count > 0);
    let second = &home.json(["get", "/lab", "-r", "copy"])[0];
    assert_eq!((second["files"].as_u64(), second["unchanged"].as_u64()), (Some(0), Some(count)));
    let again = &home.json(["get", "/lab", "-r", "copy", "--again"])[0];
    assert_eq!((again["files"].as_u64(), again["unchanged"].as_u64()), (Some(count), Some(0)));
}

#[test]
fn put_publishes_a_file_by_path() {
    let mut home = Home::with_router();
    fs::write(home.path("numbers.txt"), "1 2 3").unwrap();
    home.serve("/lab/numbers", ["put", "numbers.txt", "/lab/numbers"]);
    home.ok(["get", "/lab/numbers", "-o", "copy"]);
    assert_eq!(fs::read_to_string(home.path("copy")).unwrap(), "1 2 3");
    let keys = home.json(["key", "list"]).len();
    let why = home.fails(1, ["put", "data/numbers.txt"]);
    assert!(why.contains("is not a name") && why.contains("put FILE /NAME"), "{why}");
    assert_eq!(home.json(["key", "list"]).len(), keys, "no key is left by a mistake");
}

#[test]
fn a_certificate_is_trusted_by_fingerprint() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    fs::write(home.path("data/f"), "x").unwrap();
    home.serve("/lab/data", ["serve", "data", "--prefix", "/lab/data"]);
    home.wait_for("the remarks about its key", || {
        let log = home.background_log();
        log.contains("made the key /lab/data/") && log.contains("`namely key new /lab`")
    });
    let shown = &home.json(["cert", "show", "/lab/data"])[0];
    let fingerprint = shown["fingerprint"].as_str().unwrap().to_owned();
    let other = |args: &[&str]| {
        let mut command = home.namely(args);
        command.env("NAMELY_HOME", home.path("other"));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(other(&["get", "/lab/data/f", "-o", "copy"]).0, Some(6));
    let (code, said) = other(&["cert", "trust", "--from", "/lab/data"]);
    assert!(code == Some(6) && said.contains(&fingerprint), "not compared: {said}");
    let wrong = fingerprint.replace(|c: char| c.is_ascii_digit(), "0");
    let (code, said) = other(&["cert", "trust", "--from", "/lab/data", "--fingerprint", &wrong]);
    assert!(code == Some(6) && said.contains("another fingerprint"), "{said}");
    assert_eq!(other(&["get", "/lab/data/f", "-o", "copy"]).0, Some(6));
    let (code, said) = other(&["cert", "trust", "--from", "/lab/data", "--fingerprint", &fingerprint]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(other(&["get", "/lab/data/f", "-o", "copy"]).0, Some(0));
    // `cert distrust` accepts both names that `cert trusted` shows: the identity and the
    // certificate.
    let (code, said) = other(&["cert", "distrust", "/lab/data"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = other(&["cert", "distrust", "/lab/data"]);
    assert!(code == Some(4) && said.contains("cert trusted"), "{said}");
}

#[test]
fn get_delete_mirrors_the_served_tree() {
    let home = lab();
    home.ok(["get", "/lab", "-r", "copy"]);
    fs::write(home.path("copy/old"), "x").unwrap();
    let pipe = home.path("data/pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::write(home.path("data/new"), "123").unwrap();

    // The router's cache may have the old listing of the directory for a second.
    let run = || home.run(["get", "/lab", "-r", "copy", "--delete", "--dry-run"]);
    home.wait_for("the new index", || run().stdout.contains("would fetch new"));
    let dry = run();
    assert_eq!(dry.code, Some(0), "{dry:?}");
    for line in ["would fetch new (3 B)", "would delete old", "1 file would be fetched", "1 would be deleted"]
    {
        assert!(dry.stdout.contains(line), "{dry:?}");
    }
    assert!(dry.stderr.contains("not served: pipe: a pipe, a socket or a device"), "{dry:?}");
    assert!(home.path("copy/old").exists() && !home.path("copy/new").exists());

    let done = home.run(["get", "/lab", "-r", "copy", "--delete"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stderr.contains("deleted: old") && done.stdout.contains("1 deleted, 1 not served"),
        "{done:?}"
    );
    assert!(!home.path("copy/old").exists() && home.path("copy/new").exists());
    assert!(home.background_log().contains("not served: "), "{}", home.background_log());
    let counted = &home.json(["get", "/lab", "-r", "copy", "--delete"])[0];
    assert_eq!((counted["left_out"].as_u64(), counted["failed"].as_u64()), (Some(1), Some(0)));
}

#[test]
fn peek_shows_objects_below_a_prefix() {
    let home = lab();
    let seen = home.ok(["peek", "/lab/sub", "--prefix", "--lifetime", "60000"]);
    assert!(seen.contains("/lab/sub/32=metadata/"), "{seen}");
    let absent = home.ok(["peek", "/lab/nothing/at/all", "--prefix", "--lifetime", "60000"]);
    assert!(absent.contains("ContentType"), "{absent}");
}

#[test]
fn get_names_a_silent_neighbor() {
    let mut home = Home::with_router();
    // The socket is bound but never read, so packets vanish without an error.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp4://{}", silent.local_addr().unwrap());
    home.ok(["route", "add", "/far", &uri]);
    home.ok(["key", "new", "/far"]);
    let repeated = home.namely(["get", "/far/file", "-o", "late", "--retry", "10000", "--retry-delay", "0"]);
    home.spawn(repeated);
    // Without an answer of the router within 2 s, the command does not name the neighbor.
    home.wait_for("the neighbor's name", || {
        let end = home.run(["get", "/far/file", "-o", "file"]);
        assert_eq!(end.code, Some(5), "{end:?}");
        assert!(end.stderr.contains("`--retry N` repeats the fetch"), "{end:?}");
        end.stderr.contains(&format!("to /far/file from {uri}"))
            && end.stderr.contains("hint: `namely face show ")
    });
    let quiet = home.run(["get", "/far/file", "-o", "file", "--quiet"]);
    assert!(!quiet.stderr.contains("face show"), "{quiet:?}");
    home.wait_for("a repetition after the silence", || {
        home.background_log().contains("repetition 1 of 10000 in 0 s")
    });
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/file"), 10_000, 1);
    home.serve("/far", ["serve", "data", "--prefix", "/far"]);
    home.wait_for("the file", || home.path("late").exists());
    same(&home.path("data/file"), &home.path("late"));
}

/// VI-01, VI-02: a file of CMS, and a part of it. The name derives from the file's physical name at
/// a site.
#[test]
fn a_cms_file_is_fetched_by_name() {
    let mut home = Home::with_router();
    let lfn = "/store/data/Run2017F/SingleMuon/MINIAOD/17Nov2017-v1/60000/C47DBE62.root";
    let path = home.path("data").join(&lfn[1..]);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_file(&path, 100_000, 3);
    home.serve("/cms", ["serve", "data", "--prefix", "/cms"]);
    let pfn = format!("root://site.example//eos/cms{lfn}");
    let parsed = home.json(["catalogue", "name", &pfn, "--site", "root://site.example//eos/cms"]);
    assert_eq!(parsed[0]["dataset"], "/SingleMuon/Run2017F-17Nov2017-v1/MINIAOD");
    let name = parsed[0]["name"].as_str().unwrap();
    home.ok(["get", name]);
    same(&path, &home.path("C47DBE62.root"));

    let whole = fs::read(&path).unwrap();
    let got = &home.json(["get", name, "--range", "1000-50999"])[0];
    assert_eq!(got["octets"].as_u64(), Some(50_000));
    assert!(got["verified"].as_str().unwrap().contains("/cms/KEY/"), "{got}");
    assert!(fs::read(home.path("C47DBE62.root.1000-50999")).unwrap() == whole[1000..51_000]);
    home.ok(["get", name, "--range", "99990-", "-o", "tail"]);
    assert!(fs::read(home.path("tail")).unwrap() == whole[99_990..]);
    home.ok(["get", name, "--range", "0-999999", "-o", "cut"]);
    assert!(fs::read(home.path("cut")).unwrap() == whole, "it ends with the file");

    let said = home.fails(4, ["get", name, "--range", "100000-", "-o", "none"]);
    assert!(said.contains("the file may end before octet 100000"), "{said}");
    assert!(!home.path("none").exists());
    for (range, why) in [
        ("5-4", "the last octet comes before the first"),
        ("007-9", "without leading zeros"),
        ("18446744073709551616-", "below 2^64"),
        ("all", "write FIRST-LAST"),
    ] {
        let said = home.fails(2, ["get", name, "--range", range]);
        assert!(said.contains(why), "{range}: {said}");
    }
    let directory = home.fails(4, ["get", "/cms/store/data", "--range", "0-9", "-o", "none"]);
    assert!(directory.contains("there is no"), "{directory}");
}

#[test]
fn a_second_server_of_a_prefix_is_reported() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    let serving = ["serve", "data", "--prefix", "/lab"];
    home.serve("/lab", serving);
    home.wait_for("the first server", || home.background_log().contains("serving data as /lab"));
    assert!(!home.background_log().contains("another program"), "{}", home.background_log());
    let second = home.namely(serving);
    home.spawn(second);
    let remark = "another program serves /lab on this router, too";
    home.wait_for("the remark of the second one", || home.background_log().contains(remark));
}

#[test]
fn a_failed_serve_leaves_no_key() {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 10, 1);
    let leaves_no_key = |home: &Home| {
        let before = home.json(["key", "list"]);
        let too_large = home.run(["serve", "data", "--prefix", "/other", "--segment-size", "9000"]);
        assert_eq!(too_large.code, Some(1), "{too_large:?}");
        assert!(!too_large.stderr.contains("made the key"), "{too_large:?}");
        assert_eq!(home.json(["key", "list"]), before);
        before.len()
    };
    assert_eq!(leaves_no_key(&home), 0, "an empty key chain");
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    assert_eq!(leaves_no_key(&home), 1);
}

#[test]
fn a_long_list_marks_unreadable_files() {
    let home = lab();
    let locked = home.path("data/locked");
    write_file(&locked, 100_000, 3);
    fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    if fs::File::open(&locked).is_ok() {
        return skip(Need::Kernel, "root reads everything");
    }
    let rows = home.json(["ls", "/lab", "--long"]);
    let kind = |name: &str| rows.iter().find(|row| row["name"] == name).map(|row| row["kind"].clone());
    assert_eq!(kind("locked"), Some("unreadable".into()), "{rows:?}");
    assert_eq!(kind("a.bin"), Some("file".into()), "{rows:?}");
}

#[test]
fn a_reader_that_has_enough_ends_get() {
    let home = lab();
    write_file(&home.path("data/big"), 5_000_000, 4);
    let mut get = home.namely(["get", "/lab/big", "-o", "-"]);
    let mut get = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    std::io::Read::read_exact(&mut get.stdout.take().unwrap(), &mut first).unwrap();
    let end = common::ended(get.wait_with_output().unwrap());
    assert_eq!((end.code, end.stderr.contains("error")), (Some(0), false), "{end:?}");
}

#[test]
fn errors_name_the_target_and_a_remedy() {
    let home = lab();
    let end = home.fails(1, ["get", "/lab/a.bin", "-o", "nowhere/x"]);
    assert!(
        end.contains("cannot write nowhere/x: No such file or directory") && !end.contains("os error"),
        "{end}"
    );
    assert!(end.contains("make the folder first"), "{end}");
    let end = home.fails(4, ["get", "/lab/none", "--range", "7-9"]);
    assert!(end.contains("octets 7-9 of /lab/none") && !end.contains("32="), "{end}");
    fs::create_dir(home.path("mine")).unwrap();
    fs::write(home.path("mine/thesis.tex"), "years").unwrap();
    let end = home.fails(1, ["get", "/lab", "-r", "mine", "--delete"]);
    assert!(end.contains("no copy of /lab") && home.path("mine/thesis.tex").exists(), "{end}");
    // The same command would meet the same file again.
    fs::create_dir(home.path("taken")).unwrap();
    fs::write(home.path("taken/sub"), "a file").unwrap();
    let end = home.fails(1, ["get", "/lab", "-r", "taken"]);
    assert!(end.contains("sub") && !end.contains("run the same command again"), "{end}");
    let end = home.fails(2, ["get", "/lab", "-r", "copy", "--exclude", "a[b"]);
    assert!(end.contains("'['"), "{end}");
}

#[test]
fn options_of_get_without_effect_are_refused() {
    let home = Home::new();
    for options in [["--no-resume", "-r"], ["--max-delete=5", "-r"], ["--links", "--delete"]] {
        home.fails(2, ["get", "/lab", options[0], options[1]]);
    }
    let end = home.fails(2, ["get", "/lab", "-r", "--compare-content", "--dry-run"]);
    assert!(end.contains("--compare-content") && end.contains("--dry-run"), "{end}");
}
