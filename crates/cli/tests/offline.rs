//! The commands that need no router: keys, certificates, dissection, generated files.

use crate::common;

use std::fs;
use std::sync::Arc;

use clap::CommandFactory;
use common::Home;
use namely_security::{Certificate, KeyType, PrivateKey};
use namely_testkit::{Need, skip};
use namely_wire::{Name, ValidityPeriod};

#[test]
fn keys_are_made_listed_chosen_and_deleted() {
    let home = Home::new();
    assert!(home.ok(["key", "list"]).contains("key"));
    home.ok(["key", "new", "/lab/alice"]);
    home.ok(["key", "new", "/lab/bob", "--type", "ecdsa"]);
    home.ok(["key", "new", "/lab/carol", "--type", "rsa"]);
    let keys = home.json(["key", "list"]);
    // In canonical order of names: /lab/bob, /lab/alice, /lab/carol.
    let kinds: Vec<_> = keys.iter().map(|k| k["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ecdsa", "ed25519", "rsa"]);
    assert_eq!(home.ok(["key", "default"]).trim(), "/lab/alice");
    home.ok(["key", "default", "/lab/bob"]);
    assert_eq!(home.ok(["key", "default"]).trim(), "/lab/bob");
    assert!(home.fails(1, ["key", "delete", "/lab/carol"]).contains("--yes"));
    let missing = home.fails(1, ["key", "delete", "/not/there"]);
    assert!(missing.contains("no /not/there") && !missing.contains("--yes"), "{missing}");
    home.ok(["key", "delete", "/lab/carol", "--yes"]);
    assert_eq!(home.json(["key", "list"]).len(), 2);
}

#[test]
fn a_missing_directory_makes_no_key() {
    let home = Home::new();
    let error = home.fails(1, ["serve", "/no/such/directory", "--prefix", "/lab"]);
    assert!(error.contains("/no/such/directory"), "{error}");
    assert!(home.json(["key", "list"]).is_empty(), "nothing is left of it");
}

#[test]
fn an_encrypted_key_needs_its_passphrase() {
    let home = Home::new();
    let with = |args: &[&str], passphrase: &str| {
        common::ended(home.namely(args).env("NAMELY_PASSPHRASE", passphrase).output().unwrap())
    };
    assert_eq!(with(&["key", "new", "/lab/secret", "--encrypt"], "right").code, Some(0));
    assert_eq!(home.json(["key", "list"])[0]["encrypted"], "yes");
    let wrong = with(&["cert", "export", "/lab/secret", "--private"], "wrong");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(!wrong.stderr.contains("wrong\n"), "the passphrase is not printed");
    assert_eq!(with(&["cert", "export", "/lab/secret", "--private"], "right").code, Some(0));
    let none = home.fails(1, ["cert", "export", "/lab/secret", "--private"]);
    assert!(none.contains("NAMELY_PASSPHRASE"), "{none}");
}

#[test]
fn a_key_moves_in_a_safe_bag() {
    let (here, there) = (Home::new(), Home::new());
    let key = here.ok(["key", "new", "/lab/mover"]);
    let bag = here.path("bag");
    let mut export = here.namely(["cert", "export", "/lab/mover", "--private", "-o"]);
    assert!(export.arg(&bag).env("NAMELY_PASSPHRASE", "p").status().unwrap().success());
    // An init container imports its key again when its pod starts again.
    for _ in 0..2 {
        let mut import = there.namely(["cert", "import", "--private"]);
        assert!(import.arg(&bag).env("NAMELY_PASSPHRASE", "p").output().unwrap().status.success());
        let listed = there.json(["key", "list"]);
        assert_eq!((listed.len(), listed[0]["key"].as_str()), (1, Some(key.trim())));
    }
}

#[test]
fn certificates_are_issued_imported_and_trusted() {
    let home = Home::new();
    home.ok(["key", "new", "/lab"]);
    home.ok(["key", "new", "/lab/dave"]);
    fs::write(home.path("dave"), home.ok(["cert", "export", "/lab/dave"])).unwrap();
    fs::write(home.path("issued"), home.ok(["cert", "issue", "dave", "--key", "/lab", "--days", "30"]))
        .unwrap();
    home.ok(["cert", "import", "issued"]);
    let shown = &home.json(["cert", "show", "/lab/dave"])[0];
    assert_eq!((shown["self_signed"].as_bool(), shown["state"].as_str()), (Some(false), Some("valid")));
    assert!(shown["signed_by"].as_str().unwrap().starts_with("/lab/KEY/"));
    fs::write(home.path("pem"), home.ok(["cert", "export", "/lab", "--form", "pem"])).unwrap();
    home.ok(["cert", "trust", "pem"]);
    let trusted = home.json(["cert", "trusted"]);
    assert_eq!(trusted[0]["names_below"], "/lab");
    home.ok(["cert", "distrust", trusted[0]["certificate"].as_str().unwrap()]);
    assert!(home.json(["cert", "trusted"]).is_empty());
}

/// A self-signed certificate with this validity, s from now.
fn certificate(from_s: i64, until_s: i64) -> Certificate {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let at = |offset: i64| (namely_host::clock::unix_ns() / 1_000_000_000).saturating_add_signed(offset);
    let validity = ValidityPeriod { not_before_s: at(from_s), not_after_s: at(until_s) };
    let name: Name = "/lab/KEY/1".parse().unwrap();
    Certificate::self_signed(name.as_name(), &key, validity, 1).unwrap()
}

#[test]
fn a_useless_certificate_is_not_trusted() {
    let home = Home::new();
    let day = 86_400;
    let good = certificate(-day, day);
    let mut forged = good.wire().to_vec();
    *forged.last_mut().unwrap() ^= 1;
    for (octets, why) in [
        (certificate(-9 * day, -day).wire().to_vec(), "it expired on"),
        (certificate(day, 9 * day).wire().to_vec(), "it is valid from"),
        (certificate(day, -day).wire().to_vec(), "before it begins"),
        (forged, "not by its own key"),
    ] {
        fs::write(home.path("bad.cert"), octets).unwrap();
        let said = home.fails(6, ["cert", "trust", "bad.cert"]);
        assert!(said.contains("is not trusted") && said.contains(why) && said.contains("--force"), "{said}");
        assert!(home.json(["cert", "trusted"]).is_empty(), "{why}");
        let forced = home.run(["cert", "trust", "bad.cert", "--force"]);
        assert!(forced.code == Some(0) && forced.stderr.contains(why), "{forced:?}");
        home.ok(["cert", "distrust", "/lab"]);
    }
    fs::write(home.path("good.cert"), good.wire()).unwrap();
    home.ok(["cert", "trust", "good.cert"]);
}

#[test]
fn an_invalid_certificate_file_is_named() {
    let home = Home::new();
    fs::write(home.path("junk"), "not a certificate").unwrap();
    let error = home.fails(1, ["cert", "trust", "junk"]);
    assert!(error.contains("junk"), "{error}");
    assert!(home.fails(1, ["cert", "show", "missing.cert"]).contains("missing.cert"));
}

#[test]
fn dissect_reads_hex_and_captures() {
    let home = Home::new();
    let packet: &[u8] = &[5, 11, 7, 3, 8, 1, b'a', 10, 4, 1, 2, 3, 4];
    let hex: String = packet.iter().map(|b| format!("{b:02x} ")).collect();
    let text = home.ok(["dissect", "--hex", &hex]);
    assert!(text.contains("Interest") && text.contains("/a") && text.contains("Nonce"), "{text}");
    fs::write(home.path("trace.pcap"), pcap_of_udp(packet)).unwrap();
    let text = home.ok(["dissect", "trace.pcap"]);
    assert!(text.contains("udp://127.0.0.1:5000 -> udp://127.0.0.1:6363") && text.contains("/a"), "{text}");
    let tree = &home.json(["dissect", "trace.pcap"])[0];
    assert_eq!(tree["packet"][0]["name"], "Interest");
    home.fails(4, ["dissect", "/dev/null"]);
    home.fails(1, ["dissect", "--hex", "5"]);
}

#[test]
fn dissect_survives_hostile_octets() {
    let home = Home::new();
    for hex in
        ["64", "64 0c 53 08 10 00 00 00 00 00 00 00 50 00", "05 ff ff ff ff ff ff ff ff ff", "00 00 00"]
    {
        let end = home.run(["dissect", "--hex", hex]);
        assert_eq!(end.code, Some(0), "{hex}: {end:?}");
    }
}

/// A capture of one UDP datagram over loopback (raw IPv4 link type).
fn pcap_of_udp(payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
    let total = (20 + 8 + payload.len()) as u16;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    let mut packet = ip;
    packet.extend_from_slice(&5000u16.to_be_bytes());
    packet.extend_from_slice(&6363u16.to_be_bytes());
    packet.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(payload);
    let mut file = Vec::new();
    file.extend_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
    file.extend_from_slice(&[2, 0, 4, 0]);
    for word in [0u32, 0, 65535, 101, 1_700_000_000, 5, packet.len() as u32, packet.len() as u32] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(&packet);
    file
}

#[test]
fn the_router_model_names_its_bottleneck() {
    let home = Home::new();
    let text = home.ok(["model", "router", "--cs", "4.7k", "--pit", "4k", "--fib", "4k", "--cs-hit", "0.5"]);
    assert!(text.contains("bottleneck       cs lookup") && text.contains("at most          4700"), "{text}");
    let simulated = ["model", "router", "--cs", "1k", "--pit", "400", "--cs-hit", "0.5", "--load", "500"];
    let lines = home.json(simulated.into_iter().chain(["--simulate=50000"]));
    let [cs, .., sums] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&cs["stage"], cs["utilisation"].as_f64()), (&"cs lookup".into(), Some(0.5)));
    assert!((cs["simulated_utilisation"].as_f64().unwrap() - 0.5).abs() < 0.02, "{cs}");
    assert_eq!((&sums["bottleneck"], sums["max_load"].as_f64()), (&"pit lookup".into(), Some(800.0)));
    assert!(home.fails(1, ["model", "router"]).contains("--cs 4.7k"));
    assert!(home.fails(1, ["model", "router", "--cs", "10", "--load", "10"]).contains("cs lookup"));
    assert!(home.fails(1, ["model", "router", "--cs", "10", "--cs-hit", "2"]).contains("from 0 to 1"));
    assert!(home.fails(2, ["model", "router", "--cs", "0"]).contains("above 0"));
    fs::write(home.path("tables.jsonl"), "{}").unwrap();
    let said = home.fails(1, ["model", "router", "--tables", "tables.jsonl"]);
    assert!(said.contains("namely-bench tables --json"), "{said}");
}

#[test]
fn the_bypass_model_prints_and_draws() {
    let home = Home::new();
    let lines = home.json(["model", "bypass", "5x3", "drop-10", "--load", "1", "--simulate=100000"]);
    let [five, one] = &lines[..] else { panic!("{lines:?}") };
    assert!((five["packets"].as_f64().unwrap() - 1.444_386).abs() < 1e-6, "{five}");
    assert!((one["loss"].as_f64().unwrap() - 1.0 / 11.0).abs() < 1e-9, "{one}");
    assert!((one["simulated_loss"].as_f64().unwrap() - 1.0 / 11.0).abs() < 0.01, "{one}");
    let text = home.ok(["model", "bypass", "5x3", "--load", "0.1..2", "--points", "5", "--plot", "five.svg"]);
    assert_eq!(text.lines().count(), 6, "{text}");
    let svg = fs::read_to_string(home.path("five.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.matches("<polyline").count() == 4, "{svg}");
    assert!(home.fails(2, ["model", "bypass", "5x3x1"]).contains("5x3 for five queues"));
    assert!(home.fails(2, ["model", "bypass", "9x99"]).contains("give fewer"));
    assert!(home.fails(2, ["model", "bypass", "5x3", "--load", "2..1"]).contains("0.1..2"));
    assert!(home.fails(1, ["model", "bypass", "5x3", "--plot", "/no/such/x.svg"]).contains("/no/such"));
}

/// The words of each command without subcommands.
fn commands(command: &clap::Command, path: &[String], found: &mut Vec<Vec<String>>) {
    let below: Vec<_> = command.get_subcommands().filter(|of| !of.is_hide_set()).collect();
    if below.is_empty() {
        found.push(path.to_vec());
    }
    for of in below {
        commands(of, &[path, &[of.get_name().to_owned()]].concat(), found);
    }
}

#[test]
fn every_help_text_has_an_example() {
    let home = Home::new();
    let mut all = Vec::new();
    commands(&namely::args::Cli::command(), &[], &mut all);
    assert!(all.len() > 60, "{all:?}");
    for path in all {
        let help = home.ok(path.iter().map(String::as_str).chain(["--help"]));
        assert!(help.contains("Example"), "namely {}: no example\n{help}", path.join(" "));
    }
}

#[test]
fn unknown_commands_get_useful_hints() {
    let home = Home::new();
    for (line, hint, misleading) in [
        ("stop", "`namely down`", "'top'"),
        ("list", "`namely ls NAME`", "'similar"),
        ("cert list", "`namely cert trusted`", "'distrust'"),
        ("--json route show", "`namely route list`", "'similar"),
        ("gte", "`namely get`", "'similar"),
    ] {
        let said = home.fails(2, line.split(' '));
        assert!(said.contains(hint) && !said.contains(misleading), "{line}: {said}");
    }
}

#[test]
fn version_works_as_command_and_option() {
    let home = Home::new();
    let printed = home.ok(["version"]);
    assert!(printed.starts_with("namely ") && printed == home.ok(["--version"]), "{printed}");
}

#[test]
fn completions_and_man_pages_are_generated() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.ok(["completions", shell]).contains("namely"));
    }
    assert!(home.ok(["completions", "bash", "--program", "namelyd"]).contains("--no-config"));
    let said = home.run(["man", "pages"]).stderr;
    assert!(said.contains(&format!("export MANPATH={}:", home.path("pages").display())), "{said}");
    let page = |path: &str| fs::read_to_string(home.path("pages").join(path)).unwrap();
    let add = page("man1/namely-route-add.1");
    assert!(add.contains(".TH") && add.contains("prefix"));
    let list = page("man1/namely-face-list.1");
    let (released, version) = (namely::commands::man::RELEASED, env!("CARGO_PKG_VERSION"));
    let title = list.lines().find(|line| line.starts_with(".TH")).unwrap().replace('"', "");
    assert_eq!(title, format!(".TH namely-face-list 1 {released} namely {version} User Commands"));
    let changes = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../CHANGELOG.md")).unwrap();
    assert!(changes.contains(&format!("## {version} - {released}")), "the date of the release");
    for path in ["man1/namely.1", "man1/namely-face-list.1", "man8/namelyd.8"] {
        for heading in ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"] {
            assert!(page(path).contains(heading), "{path}: {heading}");
        }
        assert!(!page(path).contains("EXTRA"), "{path}");
    }
    let get = page("man1/namely-get.1");
    let examples = get.split("EXAMPLES\n.nf\n").nth(1).unwrap().lines().next().unwrap();
    assert!(examples.starts_with("namely get /"), "each on a line of its own: {examples}");
    assert!(page("man8/namelyd.8").contains("no\\-config"));
    assert!(page("man5/namely.toml.5").contains("cs_packets_max = 65536"));
    // If man(1) is installed, it reads the pages without a warning.
    for path in ["man1/namely.1", "man1/namely-get.1", "man5/namely.toml.5", "man8/namelyd.8"] {
        let mut man = std::process::Command::new("man");
        man.args(["--warnings", "-l"]).arg(home.path("pages").join(path)).env("MANPAGER", "cat");
        match man.env("LC_ALL", "C.UTF-8").output() {
            Ok(read) => {
                let said = String::from_utf8_lossy(&read.stderr);
                assert!(read.status.success() && !said.contains("warning"), "{path}: {said}");
                assert!(!read.stdout.is_empty(), "{path}");
            }
            Err(_) => return println!("not read: man is not installed"),
        }
    }
}

#[test]
fn help_names_the_units_that_outlive_terminals() {
    let home = Home::new();
    for (command, unit) in [("up", "namely"), ("serve", "namely-serve@data")] {
        // The help is wrapped.
        let help = home.ok([command, "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(&format!("`systemctl --user enable --now {unit}`")), "{help}");
    }
    assert!(home.ok(["serve", "--help"]).contains("It ends with its terminal"));
}

#[test]
fn mandoc_accepts_the_manual_pages() {
    let home = Home::new();
    home.ok(["man", "pages"]);
    let lint = |file: &std::path::Path| {
        let mut mandoc = std::process::Command::new("mandoc");
        mandoc.args(["-T", "lint"]).arg(file).output().map(common::ended)
    };
    if let Err(error) = lint(&home.path("none")) {
        return skip(Need::Mandoc, error);
    }
    let mut pages = 0;
    for section in ["man1", "man5", "man8"] {
        for page in fs::read_dir(home.path("pages").join(section)).unwrap() {
            let said = lint(&page.unwrap().path()).unwrap().stdout;
            // The names of these programs have lower case, in titles, too.
            let is_name = |line: &&str| line.contains("lower case character in document title");
            let new: Vec<_> = said.lines().filter(|line| !is_name(line)).collect();
            assert!(new.is_empty(), "{new:#?}");
            pages += 1;
        }
    }
    assert!(pages > 50, "{pages}");
}

#[test]
fn a_gateway_without_router_fails() {
    let home = Home::new();
    for args in [&["proxy", "ingress"][..], &["proxy", "egress", "example.org"]] {
        let said = home.fails(3, args);
        assert!(said.contains("namely up"), "{said}");
    }
}

#[test]
fn a_key_renews_its_own_certificate() {
    let home = Home::new();
    home.ok(["key", "new", "/lab", "--days", "1"]);
    let first = &home.json(["cert", "show", "/lab"])[0];
    fs::write(home.path("lab.cert"), home.ok(["cert", "export", "/lab"])).unwrap();
    let newer = home.ok(["cert", "issue", "lab.cert", "--key", "/lab", "--days", "30"]);
    fs::write(home.path("newer.cert"), newer).unwrap();
    home.ok(["cert", "import", "newer.cert"]);
    let second = &home.json(["cert", "show", "/lab"])[0];
    assert_eq!((&second["key"], &second["self_signed"]), (&first["key"], &true.into()), "{second}");
    assert!(second["not_after_s"].as_u64() > first["not_after_s"].as_u64(), "{first} {second}");
}

#[test]
fn catalogues_import_from_dbs_and_rucio() {
    let home = Home::new();
    let file = "/store/data/Run2017F/SingleMuon/MINIAOD/17Nov2017-v1/60000/C47DBE62.root";
    let block = "/SingleMuon/Run2017F-17Nov2017-v1/MINIAOD#13f6ce2c";
    let dbs = serde_json::json!([{"logical_file_name": file, "block_name": block, "file_size": 4_000_000_000_u64,
        "adler32": "a0ff17"}]);
    fs::write(home.path("dbs.json"), dbs.to_string()).unwrap();
    let rucio =
        serde_json::json!({"scope": "cms", "name": file, "bytes": 4_000_000_000_u64, "adler32": "00a0ff17"});
    fs::write(home.path("rucio.json"), rucio.to_string()).unwrap();
    let made = home.json(["catalogue", "import", "dbs", "dbs.json", "-o", "a.tsv", "--number", "7"]);
    assert_eq!((made[0]["blocks"].as_u64(), made[0]["files"].as_u64()), (Some(1), Some(1)));
    home.ok(["catalogue", "import", "rucio", "rucio.json", "--block", block, "-o", "b.tsv", "--number", "7"]);
    let text = fs::read_to_string(home.path("a.tsv")).unwrap();
    assert_eq!(text, format!("catalogue\t7\n{block}\t4000000000\n\t{file}\t4000000000\t00a0ff17\n"));
    assert_eq!(fs::read_to_string(home.path("b.tsv")).unwrap(), text);
    assert!(home.ok(["catalogue", "check", "a.tsv"]).contains("version 7, 1 blocks, 1 files, 3.7 GiB"));
    let printed = home.ok(["catalogue", "name", file, "--below", "/ndnc/xrootd", "--catalogue", "a.tsv"]);
    for what in [format!("/ndnc/xrootd{file}\n"), format!("block    {block}")] {
        assert!(printed.contains(&what), "{printed}");
    }
    assert!(home.fails(1, ["catalogue", "name", "/store/user/x.root"]).contains("no dataset follows"));
    // An error is reported with file and line, and the existing file remains.
    let without = home.fails(1, ["catalogue", "import", "rucio", "rucio.json", "-o", "a.tsv"]);
    assert!(without.contains("rucio.json, record 1: ") && without.contains("name its block"), "{without}");
    assert_eq!(fs::read_to_string(home.path("a.tsv")).unwrap(), text);
    fs::write(home.path("c.tsv"), text.replace("\t4000000000\t00", "\t0\t00")).unwrap();
    let wrong = home.fails(1, ["catalogue", "check", "c.tsv"]);
    assert!(wrong.contains("c.tsv:3: `0` is no size: write a decimal number of octets"), "{wrong}");
}

#[test]
fn terms_are_explained_without_a_router() {
    let home = Home::new();
    let text = home.ok(["words", "pit"]);
    assert!(text.starts_with("PIT\n    the table of pending Interests"), "{text}");
    assert!(home.ok(["words"]).contains("\nTRUST\n"));
    let answer = home.json(["words", "NACK"]).remove(0);
    assert_eq!(answer["terms"][0]["term"], "Nack");
    assert!(home.fails(1, ["words", "xyzzy"]).contains("`namely words` lists all"));
}
