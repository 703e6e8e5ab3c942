//! File names of strangers and texts of routers at a terminal: they are printed, and the terminal
//! executes none of their control sequences.

use crate::common;

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;

use common::{Ended, Home, ended, write_file};
use namely_testkit::hostile::{NAMES, lie, lie_to};
use namely_testkit::wait_until_true;
use namely_wire::text::is_obeyed;

fn all_is_shown(end: &Ended) {
    for text in [&end.stdout, &end.stderr] {
        let obeyed = text.chars().find(|c| is_obeyed(*c) && *c != '\n');
        assert_eq!(obeyed, None, "{end:?}");
        assert!(text.lines().all(|line| line != "error: none"), "{end:?}");
    }
}

/// A home with a router that serves files of such names.
fn home() -> Home {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    for (i, name) in NAMES.iter().enumerate() {
        write_file(&home.path("data").join(name), 100, i as u64);
    }
    std::os::unix::fs::symlink("nowhere", home.path("data/left\x1b[2Jout")).unwrap();
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home
}

#[test]
fn listed_names_are_valid_get_arguments() {
    let home = home();
    let listed = home.run(["ls", "/lab"]);
    all_is_shown(&listed);
    all_is_shown(&home.run(["ls", "/lab", "--long"]));
    let uris: Vec<&str> =
        listed.stdout.lines().skip(1).map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(uris.len(), NAMES.len(), "{listed:?}");
    for uri in uris {
        let got = home.run(["get", &format!("/lab/{uri}"), "here/"]);
        all_is_shown(&got);
        assert_eq!(got.code, Some(0), "{got:?}");
    }
    for name in NAMES {
        assert!(home.path("here").join(name).is_file(), "{name:?} was not fetched");
    }
    let json = ended(home.namely(["ls", "/lab", "--json"]).output().unwrap());
    all_is_shown(&json);
    let mut names: Vec<String> =
        home.json(["ls", "/lab"]).iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    let mut expected = NAMES;
    expected.sort_unstable();
    assert_eq!(names, expected, "a parser gets the original");
}

#[test]
fn a_tree_of_hostile_names_is_fetched() {
    let home = home();
    let check = |words: &[&str], parts: &[&str]| {
        let end = home.run(["get", "/lab", "--recursive", "copy"].iter().chain(words));
        all_is_shown(&end);
        let said = format!("{}{}", end.stdout, end.stderr);
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {end:?}");
    };
    check(&["--dry-run"], &["would fetch \\u{1b}]0;owned\\u{7}x"]);
    check(&["--dry-run", "--json"], &["\"\\u001b]0;owned\\u0007x\""]);
    check(&[], &["fetched"]);
    fs::remove_file(home.path("copy").join(NAMES[0])).unwrap();
    // Entries that block the fetch, and entries that the producer does not have.
    for part in ["one", "two"] {
        fs::create_dir_all(home.path("copy").join(NAMES[0]).join(part)).unwrap();
    }
    fs::write(home.path("copy/gone\x1b[2J\u{202e}"), "").unwrap();
    check(&["--delete"], &["failed: ", "deleted: ", "\\u{202e}"]);
    check(&["--delete", "--json"], &["error"]);
}

#[test]
fn hostile_catalogues_are_printed_escaped() {
    let home = Home::new();
    let lines: [&str; 4] = [
        "catalogue\t1\n\x1b[2J/block#1\tx\u{202e}",
        "catalogue\t\x1b[2J\u{9b}1",
        "\u{202e}\x07",
        "catalogue\t1\n/a/b/c#1\t9\n\t/store/\x1b[2J\t9\n\t/store/\x1b[2J\t9\n",
    ];
    for text in lines {
        let path = home.path("blocks\x1b[2J\u{202e}.tsv");
        fs::write(&path, text).unwrap();
        all_is_shown(&home.run([Path::new("catalogue"), Path::new("check"), &path]));
    }
    for router in ["unix:///no\x1b[2J\u{202e}", "no\x1b[2J\nerror: none"] {
        all_is_shown(&home.run(["status", "--router", router]));
        all_is_shown(&home.run(["status", "--json", "--router", router]));
    }
}

/// Lying routers on a Unix socket, by TCP and by UDP: their URIs.
fn liars(home: &Home) -> [String; 3] {
    let unix = UnixListener::bind(home.path("liar.sock")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uris = [
        format!("unix://{}", home.path("liar.sock").display()),
        format!("tcp://{}", tcp.local_addr().unwrap()),
        format!("udp://{}", udp.local_addr().unwrap()),
    ];
    std::thread::spawn(move || {
        unix.incoming().flatten().for_each(|client| drop(std::thread::spawn(|| lie_to(client))))
    });
    std::thread::spawn(move || {
        tcp.incoming().flatten().for_each(|client| drop(std::thread::spawn(|| lie_to(client))))
    });
    std::thread::spawn(move || {
        let mut datagram = [0; 9000];
        while let Ok((octets, client)) = udp.recv_from(&mut datagram) {
            let _ = udp.send_to(&lie(&datagram[..octets]).1, client);
        }
    });
    uris
}

#[test]
fn lying_router_replies_are_printed_escaped() {
    let home = Home::new();
    fs::create_dir(home.path("data")).unwrap();
    let commands: [&[&str]; 6] = [
        &["route", "add", "/a", "1"],
        &["face", "create", "udp4://192.0.2.1:6363"],
        &["cs", "erase", "/a"],
        &["strategy", "set", "/a", "multicast"],
        &["serve", "data", "--prefix", "/lab", "--wait-router", "0"],
        &["pingserver", "/lab"],
    ];
    for uri in liars(&home) {
        for words in commands {
            let quoted =
                r#""done\u{1b}]0;owned\u{7}\r\nerror: none\n  hint: `rm -rf ~`\u{202e}\u{9b}2J \"quoted\"""#;
            // The lie may come after the end of the command's patience, on a busy machine.
            let mut said = String::new();
            let is_quoted = wait_until_true(|| {
                let end = home.run(words.iter().chain(&["--router", &uri]));
                all_is_shown(&end);
                said = end.stderr;
                said.contains(quoted)
            });
            assert!(is_quoted, "{uri} {words:?}: {said}");
            let is_quoted = wait_until_true(|| {
                let json = home.run(words.iter().chain(&["--json", "--router", &uri]));
                all_is_shown(&json);
                let last = json.stderr.lines().last().unwrap_or_default();
                let error: serde_json::Value = serde_json::from_str(last).unwrap();
                said = json.stderr.clone();
                error["error"].as_str().unwrap().contains("done")
            });
            assert!(is_quoted, "{uri} {words:?}: {said}");
        }
    }
    assert!(home.json(["key", "list"]).is_empty(), "a refused server takes its new key back");
}
