//! Features of other transfer tools: several names, repetition, rates, lists of checksums, and
//! copies that follow their source.

use crate::common;

use std::fs;
use std::process::Stdio;

use common::{Home, write_file};
use namely_security::{ContentDigest, DigestAlgorithm, sha256};
use rustix::process::{Pid, Signal, kill_process};

use crate::files::{lab, same};

/// A home with a router and a key, and a directory `data` that nobody serves yet.
fn unserved() -> Home {
    let home = Home::with_router();
    home.ok(["key", "new", "/lab"]);
    fs::create_dir(home.path("data")).unwrap();
    write_file(&home.path("data/f"), 20_000, 1);
    home
}

/// A line of a list of checksums.
fn line(path: &str, content: &[u8]) -> String {
    let digits: String = sha256(content).iter().map(|octet| format!("{octet:02x}")).collect();
    format!("{digits}  {path}\n")
}

#[test]
fn several_names_have_one_summary() {
    let home = lab();
    let end = home.run(["get", "/lab/a.bin", "/lab/sub/b.bin", "-o", "into/"]);
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(
        end.stdout.lines().last().unwrap().starts_with("2 names: 2 files (97.7 KiB) fetched; "),
        "{end:?}"
    );
    same(&home.path("data/a.bin"), &home.path("into/a.bin"));
    same(&home.path("data/sub/b.bin"), &home.path("into/b.bin"));
    let answers = home.json(["get", "/lab/a.bin", "/lab/sub/b.bin", "more/"]);
    assert_eq!(
        (answers.len(), answers[2]["names"].as_u64(), answers[2]["failed"].as_u64()),
        (3, Some(2), Some(0))
    );
    home.ok(["get", "-r", "/lab/sub", "/lab", "-o", "trees/"]);
    same(&home.path("data/a.bin"), &home.path("trees/lab/a.bin"));
    same(&home.path("data/sub/b.bin"), &home.path("trees/sub/b.bin"));
}

#[test]
fn one_failed_name_does_not_stop_the_others() {
    let home = lab();
    let end = home.run(["get", "/lab/none", "/lab/a.bin", "-o", "into/"]);
    assert_eq!(end.code, Some(4), "{end:?}");
    assert!(end.stderr.contains("failed: /lab/none: "), "{end:?}");
    assert!(end.stderr.contains("error: 1 of 2 names was not fetched: /lab/none: "), "{end:?}");
    same(&home.path("data/a.bin"), &home.path("into/a.bin"));
    fs::write(home.path("SUMS"), line("a.bin", b"x") + &line("none", b"x")).unwrap();
    // The gravest failure decides.
    home.fails(6, ["get", "/lab/none", "/lab/a.bin", "-o", "wrong/", "--checksum", "SUMS"]);
}

#[test]
fn several_names_need_a_directory() {
    let home = lab();
    let two = ["get", "/lab/a.bin", "/lab/sub/b.bin"];
    let end = home.fails(1, two);
    assert!(end.contains("`namely get /lab/a.bin /lab/sub/b.bin -o DIR/`"), "{end}");
    let end = home.fails(2, [&two[..], &["-o", "file"]].concat());
    assert!(end.contains("2 names do not fit the file file") && end.contains("-o file/"), "{end}");
    let end = home.fails(2, ["get", "/lab/a.bin", "/lab/x/a.bin", "-o", "into/"]);
    assert!(end.contains("/lab/a.bin and /lab/x/a.bin would both be into/a.bin"), "{end}");
    let end = home.fails(2, ["get", "/lab/a.bin", "b.bin", "-o", "into/"]);
    assert!(end.contains("begins with a slash"), "{end}");
}

#[test]
fn a_quiet_get_prints_nothing() {
    let home = lab();
    for words in [
        &["get", "/lab/a.bin", "-o", "quiet", "-q"][..],
        &["get", "/lab", "-r", "copy", "-q"],
        &["get", "/lab/a.bin", "/lab/sub/b.bin", "-o", "into/", "-q"],
    ] {
        let end = home.run(words);
        assert_eq!((end.code, &*end.stdout, &*end.stderr), (Some(0), "", ""), "{words:?}");
    }
    assert!(home.fails(4, ["get", "/lab/none", "-q"]).contains("error: "), "failures are reported");
}

#[test]
fn a_repeated_get_waits_for_its_producer() {
    let mut home = unserved();
    let get = home.namely(["get", "/lab/f", "-o", "out", "--retry", "10000", "--retry-delay", "1"]);
    home.spawn(get);
    home.wait_for("a repetition", || home.background_log().contains("repetition 1 of 10000 in 1 s"));
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home.wait_for("the file", || home.path("out").exists());
    same(&home.path("data/f"), &home.path("out"));
    let end = home.fails(4, ["get", "/lab/none", "-o", "none", "--retry", "3"]);
    assert!(!end.contains("repetition"), "the producer has said that there is no such file: {end}");
    assert!(home.fails(2, ["get", "/lab/f", "--retry-delay", "1"]).contains("--retry"));
}

#[test]
fn a_limited_rate_is_not_exceeded() {
    let home = lab();
    let got = &home.json(["get", "/lab/a.bin", "-o", "slow", "--limit-rate", "50k"])[0];
    // 100 kB at 51 kB/s, less the allowance of the start and the last packet.
    assert!(got["elapsed_s"].as_f64() > Some(1.5), "{got}");
    same(&home.path("data/a.bin"), &home.path("slow"));
    let end = home.fails(2, ["get", "/lab/a.bin", "--limit-rate", "fast"]);
    assert!(end.contains("such as 500000, 500k, 2M or 2MiB"), "{end}");
}

#[test]
fn a_listed_checksum_decides() {
    let home = lab();
    let content = fs::read(home.path("data/a.bin")).unwrap();
    fs::write(home.path("WRONG"), line("a.bin", b"x")).unwrap();
    fs::write(home.path("RIGHT"), line("lab/a.bin", &content)).unwrap();
    let end = home.fails(6, ["get", "/lab/a.bin", "--checksum", "WRONG"]);
    assert!(end.contains("is expected") && end.contains("a.bin.namely-part"), "{end}");
    assert!(!home.path("a.bin").exists() && fs::read(home.path("a.bin.namely-part")).unwrap() == content);
    home.fails(6, ["get", "/lab/a.bin", "-o", "-", "--checksum", "WRONG"]);
    let got = &home.json(["get", "/lab/a.bin", "--checksum", "RIGHT"])[0];
    assert_eq!(got["resumed_octets"].as_u64(), Some(100_000), "the part is used: {got}");
    same(&home.path("data/a.bin"), &home.path("a.bin"));
    // Adler-32, as of xrdadler32 and catalogues.
    let adler32 = ContentDigest::of(DigestAlgorithm::Adler32, &content);
    for (line, code) in [(format!("{adler32} /lab/a.bin\n"), 0), ("adler32:00000001  a.bin\n".into(), 6)] {
        fs::write(home.path("ADLER"), line).unwrap();
        let end = home.run(["get", "/lab/a.bin", "-o", "again", "--checksum", "ADLER"]);
        assert_eq!(end.code, Some(code), "{end:?}");
        assert!(
            code == 0 || end.stderr.contains(&format!("the Adler-32 {adler32}, and 00000001 is expected"))
        );
    }
    let text = home.ok(["get", "/lab/a.bin", "-o", "told", "--checksum", "RIGHT"]);
    assert!(text.contains("\n  the SHA-256 checksum matches\n"), "{text}");
    let end = home.fails(1, ["get", "/lab/sub/b.bin", "--checksum", "RIGHT"]);
    assert!(end.contains("RIGHT has no checksum of /lab/sub/b.bin"), "{end}");
    fs::write(home.path("BROKEN"), "a.bin\n").unwrap();
    let end = home.fails(1, ["get", "/lab/a.bin", "--checksum", "BROKEN"]);
    assert!(end.contains("BROKEN: line 1") && end.contains("`sha256sum FILES > LIST`"), "{end}");
}

#[test]
fn trees_are_compared_with_their_list() {
    let home = lab();
    let read = |file: &str| fs::read(home.path("data").join(file)).unwrap();
    let right = line("./a.bin", &read("a.bin")) + &line("./sub/b.bin", &read("sub/b.bin"));
    fs::write(home.path("RIGHT"), &right).unwrap();
    let got = &home.json(["get", "/lab", "-r", "copy", "--checksum", "RIGHT"])[0];
    assert_eq!((got["files"].as_u64(), got["unlisted"].as_u64()), (Some(2), Some(0)), "{got}");
    assert!(got["goodput_mbps"].as_f64() > Some(0.0), "{got}");
    fs::write(home.path("MORE"), right + &line("gone", b"x")).unwrap();
    let end = home.fails(4, ["get", "/lab", "-r", "copy", "--checksum", "MORE"]);
    assert!(end.contains("/lab lacks a file of the list of checksums: gone"), "{end}");
    home.ok(["get", "/lab", "-r", "copy", "--checksum", "MORE", "--exclude", "gone"]);
    fs::write(home.path("WRONG"), line("sub/b.bin", b"x")).unwrap();
    home.fails(6, ["get", "/lab", "-r", "copy", "--checksum", "WRONG"]);
    same(&home.path("data/sub/b.bin"), &home.path("copy/sub/b.bin"));
}

#[test]
fn a_watched_tree_follows_its_source() {
    let mut home = unserved();
    let log = fs::File::create(home.path("watch.log")).unwrap();
    let mut get = home.namely(["get", "/lab", "-r", "copy", "--delete", "--watch=1"]);
    let mut get = get.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let said = |home: &Home| fs::read_to_string(home.path("watch.log")).unwrap();
    home.wait_for("a failure without its producer", || said(&home).contains("error: no route"));
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home.wait_for("the copy", || home.path("copy/f").exists());
    write_file(&home.path("data/new"), 10_000, 2);
    home.wait_for("a new file", || home.path("copy/new").exists());
    fs::remove_file(home.path("data/f")).unwrap();
    home.wait_for("a removed file", || !home.path("copy/f").exists());
    kill_process(Pid::from_raw(get.id() as i32).unwrap(), Signal::INT).unwrap();
    assert_eq!(get.wait().unwrap().code(), Some(0), "{}", said(&home));
    same(&home.path("data/new"), &home.path("copy/new"));
    let end = home.fails(2, ["get", "/lab/new", "-o", "-", "--watch"]);
    assert!(end.contains("cannot follow"), "{end}");
}

#[test]
fn cat_prints_files_one_after_another() {
    let home = lab();
    let all = [fs::read(home.path("data/sub/b.bin")).unwrap(), fs::read(home.path("data/a.bin")).unwrap()];
    let output = home.namely(["cat", "/lab/sub/b.bin", "/lab/none", "/lab/a.bin"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(output.stdout == all.concat(), "the others are printed");
    let output = home.namely(["cat", "/lab/a.bin", "/lab/a.bin", "--range", "7-9"]).output().unwrap();
    assert!(output.status.success() && output.stdout == [&all[1][7..10], &all[1][7..10]].concat());
    assert!(output.stderr.is_empty(), "{output:?}");
    home.fails(2, ["cat"]);
}

#[test]
fn ls_lists_the_prefixes_of_the_router() {
    let home = lab();
    home.ok(["route", "add", "/far", "udp4://127.0.0.1:6399"]);
    let rows = home.json(["ls", "/"]);
    let behind = |uri: &str| {
        let row = rows.iter().find(|row| row["uri"] == uri).unwrap_or_else(|| panic!("{uri}: {rows:?}"));
        (row["kind"].as_str().unwrap().to_owned(), row["behind"].as_str().unwrap().to_owned())
    };
    let (kind, program) = behind("/lab");
    assert!(kind == "program" && program.starts_with("namely serve (pid "), "{program}");
    assert_eq!(behind("/far"), ("neighbor".into(), "udp4://127.0.0.1:6399".into()));
    assert!(rows.iter().all(|row| !row["uri"].as_str().unwrap().starts_with("/localh")), "{rows:?}");
    assert_eq!(home.ok(["ls", "/", "-1"]), "/far\n/lab\n");
}

#[test]
fn listed_names_are_accepted_by_get() {
    let home = lab();
    fs::write(home.path("data/odd =%name"), "odd").unwrap();
    home.wait_for("the listing", || home.ok(["ls", "-1", "/lab"]).contains("odd"));
    let names = home.ok(["ls", "-1", "/lab"]);
    let names: Vec<&str> = names.lines().filter(|name| *name != "/lab/sub").collect();
    assert_eq!(names.len(), 2, "{names:?}");
    home.ok([&["get", "-o", "copy/"], &names[..]].concat());
    assert_eq!(fs::read_to_string(home.path("copy/odd =%name")).unwrap(), "odd");
}
