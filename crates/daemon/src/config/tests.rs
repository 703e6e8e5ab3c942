use std::path::Path;
use std::time::Duration;

use namely_wire::{FaceUri, Name};

use super::document::SEARCHED_OCTETS_MAX;
use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("namely.toml")).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    parse(text).expect_err("must be refused")
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(parse(""), Ok(Config::default()));
}

#[test]
fn the_default_listens_locally_only() {
    for uri in Config::default().faces.listen {
        match &uri {
            FaceUri::Unix(path) => assert!(path.ends_with("namely.sock")),
            FaceUri::Memif { path, id: 0 } => assert!(path.ends_with("namely.memif")),
            uri => assert!(uri.address().unwrap().ip().is_loopback(), "{uri}"),
        }
    }
}

#[test]
fn the_sample_names_every_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/namely.toml");
    let sample = std::fs::read_to_string(&path).unwrap();
    let config = Config::parse(&sample, &path).unwrap();
    assert!(!config.face.is_empty() && !config.route.is_empty() && !config.authorization.user.is_empty());
    crate::Router::check(&config).expect("`namelyd --check` finds nothing wrong with the sample");
    // Commented keys show the defaults; without the comment signs the file must load, too.
    let uncommented: String =
        sample.lines().map(|line| format!("{}\n", line.strip_prefix("#= ").unwrap_or(line))).collect();
    let defaults = Config::parse(&uncommented, &path).unwrap();
    assert_eq!(defaults.tables, Config::default().tables);
    assert!(!defaults.authorization.key.is_empty());
    for key in documented_keys() {
        assert!(uncommented.contains(&format!("\n{key} =")), "the sample does not show {key}");
    }
}

/// The names of all keys, from the error messages for unknown keys.
fn documented_keys() -> Vec<String> {
    let sections = [
        "faces",
        "tables",
        "cs.disk",
        "network",
        "log",
        "[face]",
        "[route]",
        "[autoreg]",
        "[faces.multicast]",
        "faces.dispatcher",
        "faces.memif",
        "faces.ethernet",
        "discovery",
        "kernel",
        "vip",
        "[vip.neighbour]",
    ];
    let rules = ["[authorization.user]", "[authorization.key]", "authorization"];
    sections.iter().chain(&rules).flat_map(|section| allowed_keys(section)).collect()
}

fn allowed_keys(section: &str) -> Vec<String> {
    let message = refusal(&format!("[{section}]\nbogus = 1\n"));
    let (_, allowed) = message.split_once("expected ").unwrap();
    allowed.split('`').skip(1).step_by(2).map(str::to_owned).filter(|key| !is_table(key)).collect()
}

/// Returns true if the key is a table, which the sample shows as a header.
fn is_table(key: &str) -> bool {
    ["multicast", "user", "dispatcher", "memif", "ethernet", "accept", "disk", "neighbour"].contains(&key)
}

/// The placeholder for `[vip]` in a build without the Cargo feature. These tests compile it in
/// every build.
#[path = "vip/absent.rs"]
#[allow(dead_code, unreachable_pub, reason = "the test reads the table alone")]
mod absent;

#[test]
fn a_router_without_vip_refuses_its_table() {
    #[derive(Debug, serde::Deserialize)]
    struct Without {
        vip: Option<absent::Vip>,
    }
    for text in ["[vip]\nrouter = \"a\"\n", "[[vip.neighbour]]\nface = \"udp4://192.0.2.1\"\n", "[vip]\n"] {
        let message = toml::from_str::<Without>(text).expect_err("must be refused").to_string();
        assert!(message.contains("line 1") && message.contains("built without VIP"), "{message}");
        assert!(message.contains("take out the table") && message.contains("feature `vip`"), "{message}");
    }
    assert!(toml::from_str::<Without>("").is_ok_and(|config| config.vip.is_none()));
}

#[test]
fn an_unknown_key_reports_its_line() {
    let message = refusal("[tables]\ncs_packets_max = 1\ncs_entry_max = 2\n");
    assert!(message.starts_with("namely.toml:3:1: "), "{message}");
    assert!(message.contains("`cs_entry_max` in [tables]"), "{message}");
    assert!(refusal("[tables]\nbogus = 2\n").contains("`cs_octets_max`"), "the known keys");
}

#[test]
fn one_report_lists_all_errors() {
    let text = "[faces]\nworkers = \"many\"\nlisten = [\"tcp://host:1\", \"udp://127.0.0.1:7\", 3]\n\
                listen_on = []\n[metrics]\nlisten = \"9464\"\n[[face]]\nremote = \"unix:///x\"\nmtu = true\n\
                [[route]]\nto = \"udp://192.0.2.1\"\n[cs.disk]\nadmission = \"agian\"\n";
    let report = refusal(text);
    let lines: Vec<&str> = report.lines().collect();
    let expected = [
        ("2:11: workers: \"many\" instead of a whole number", "workers = 0"),
        ("3:11: listen: cannot listen on `tcp://host:1`", "listen = [\"unix:///"),
        ("3:48: listen: 3 instead of a URI", "listen = [\"unix:///"),
        ("4:1: unknown key `listen_on` in [faces]; did you mean `listen`?", "listen = [\"unix:///"),
        ("6:10: listen: write an address and a port", "listen = \"127.0.0.1:9464\""),
        ("8:10: remote: `unix:///x` is not a neighbor", "remote = \"udp://"),
        ("9:7: mtu: true instead of a whole number", "mtu = 1400"),
        ("10:1: [[route]] needs `prefix`", "prefix = \"/example/archive\""),
        ("13:13: admission: ", "did you mean `again`?"),
    ];
    for (line, (begins, has)) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("namely.toml:{begins}")) && line.contains(has), "{line}");
    }
    assert_eq!(lines.len(), expected.len(), "{report}");
}

#[test]
fn a_report_has_no_consequences_of_errors() {
    for (text, count) in [
        ("[[face]]\nremote = \"unix:///x\"\n", 1),
        ("[[face]]\nremoet = \"udp://a\"\n", 1),
        ("[[face]]\nremote = \"ether://[02:00:00:00:00:01]\"\nlocal = \"eth0\"\n", 1),
        ("[[face]]\nremote = \"udp://a\"\n[[face]]\nremote = \"udp://a\"\n", 1),
        ("[faces]\nworkers = 1\nworkers = 2\nbogus = 1\n", 2),
    ] {
        let report = refusal(text);
        assert_eq!(report.lines().count(), count, "{text}: {report}");
    }
    // The keys behind a broken head may belong to it.
    let broken = refusal("[tables]\nbogus = 1\n[faces\nlisten = []\n");
    assert!(broken.contains(":2:1: unknown key `bogus`") && broken.contains("namely.toml:3:"), "{broken}");
    assert!(!broken.contains("`listen`"), "{broken}");
    for text in ["[log\n[[face]]\nremote = \"udp://a\"\n", "[tables]\ncs_policy == \"lru\"\n"] {
        let line = if text.starts_with("[log") { 1 } else { 2 };
        let report = refusal(text);
        let is_there = |report: &str| report.starts_with(&format!("namely.toml:{line}:"));
        assert!(report.lines().all(is_there) && !report.contains(" instead of "), "{text}: {report}");
        assert!(!report.contains("[[face]]"), "{text}: {report}");
    }
    let twice = refusal("[faces]\nworkers = 1\nworkers = 2\n");
    assert!(twice.starts_with("namely.toml:3:1: `workers` is set twice"), "{twice}");
    assert!(twice.contains("line 2"), "{twice}");
}

#[test]
fn a_report_lists_thirty_two_errors() {
    let of = |count: usize| (0..count).map(|n| format!("bogus{n} = 1\n")).collect::<String>();
    assert_eq!(refusal(&of(32)).lines().count(), 32);
    let report = refusal(&of(33));
    assert_eq!(report.lines().count(), 33, "{report}");
    assert!(report.ends_with("correct these first"), "{report}");
}

#[test]
fn a_large_file_reports_its_first_error() {
    for errors in ["bogus = 1\nwrong = 2\n", "x = \"a\" b\ny = \"c\" d\n"] {
        let of = |octets: usize| format!("{errors}#{}", "x".repeat(octets - errors.len() - 1));
        let (most, beyond) = (refusal(&of(SEARCHED_OCTETS_MAX)), refusal(&of(SEARCHED_OCTETS_MAX + 1)));
        assert!(most.lines().count() >= 2 && most.contains("namely.toml:2:"), "{most}");
        assert!(beyond.lines().count() == 1 && beyond.starts_with("namely.toml:1:"), "{beyond}");
    }
}

#[test]
fn later_checks_report_positions() {
    let text = "[strategy]\n\"/a\" = \"bestroute\"\n\"/b\" = \"nothing-like-it\"\n[tables]\npit_entries_max = 0\n\
                [[authorization.user]]\nuser = \"no such user\"\n[[authorization.key]]\n\
                certificate = \"/no/such/file\"\n";
    let config = parse(text).unwrap();
    let report = crate::Router::check(&config).unwrap_err().message;
    let lines: Vec<&str> = report.lines().collect();
    for (line, begins) in lines.iter().zip(["2:8: ", "3:8: ", "5:19: ", "7:8: ", "9:15: "]) {
        assert!(line.starts_with(&format!("namely.toml:{begins}")), "{report}");
    }
    assert_eq!(lines.len(), 5, "{report}");
    assert!(lines[0].contains("did you mean `best-route`?"), "{report}");
}

#[test]
fn a_socket_path_has_107_octets() {
    let of = |octets: usize| format!("[faces]\nlisten = [\"unix:///{}\"]\n", "x".repeat(octets - 1));
    assert!(parse(&of(107)).is_ok());
    assert!(refusal(&of(108)).contains("at most 107"));
    let memif = |octets: usize| format!("[[face]]\nremote = \"memif:///{}\"\n", "x".repeat(octets - 1));
    assert!(parse(&memif(107)).is_ok() && refusal(&memif(108)).contains("at most 107"));
}

#[test]
fn listed_defaults_are_the_real_ones() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/namely.toml");
    // Other tables are not there by default.
    let always = ["faces", "tables", "cs.disk", "discovery", "kernel", "process", "metrics", "log"];
    let (mut table, mut count) = (String::new(), 0);
    for line in std::fs::read_to_string(sample).unwrap().lines() {
        let text = line.strip_prefix("#= ").unwrap_or(line);
        if text.starts_with('[') {
            table = text.split('#').next().unwrap().trim().to_owned();
            continue;
        }
        let name = table.trim_matches(['[', ']']);
        let is_always =
            always.iter().any(|of| name == *of || name.starts_with("faces.")) && !table.starts_with("[[");
        // These depend on the service manager, and on whether the disk is a folder.
        let depends = text.starts_with("key_chain") || name == "cs.disk" && text.starts_with("octets_max");
        if line.starts_with("#= ") && is_always && !depends {
            assert_eq!(parse(&format!("{table}\n{text}\n")), Ok(Config::default()), "{line}");
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
}

#[test]
fn documented_snippets_load() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut configs = Vec::new();
    for page in ["two-hosts.md", "nfd.md", "configuration.md"] {
        let text = std::fs::read_to_string(docs.join(page)).unwrap();
        let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
        configs.extend(blocks.map(|block| parse(&block).unwrap_or_else(|why| panic!("{page}: {why}"))));
    }
    // The first one is for the host with the data: its own programs still reach the router.
    let listeners = configs[0].faces.listeners();
    assert!(listeners.contains(&FaceUri::Unix(default_socket().display().to_string())), "{listeners:?}");
    assert!(listeners.contains(&"udp://0.0.0.0:6363".parse().unwrap()), "{listeners:?}");
    assert_eq!(configs[1].route.len(), 1);
}

#[test]
fn a_mistyped_key_gets_a_suggestion() {
    for (text, meant) in [
        ("[tables]\ncs_packet_max = 1\n", "did you mean `cs_packets_max`?"),
        ("[faces]\nlisten_on = []\n", "did you mean `listen`?"),
        ("[tabels]\n", "did you mean `tables`?"),
        ("[face]\nremote = \"udp://a\"\n", "write [[face]]"),
        ("[face]\nlisten = []\n", "did you mean [faces]?"),
        ("[tables]\nlisten = []\n", "it belongs to [faces]"),
        ("[log]\nformat = \"jsno\"\n", "is none of `text`, `json`"),
        ("[tables]\ncs_policy = \"seive\"\n", "s3-fifo"),
        ("[cs.disk]\nqueue = \"data_first\"\n", "did you mean `data-first`?"),
        ("[faces.ethernet]\nxdp = \"atuo\"\n", "is none of `off`, `auto`, `on`"),
    ] {
        let message = refusal(text);
        assert!(message.contains(meant), "{text}: {message}");
    }
    assert!(!refusal("[tables]\nbogus = 1\n").contains("did you mean"), "nothing is near");
}

#[test]
fn unknown_keys_are_refused_at_every_depth() {
    for (text, key, line) in [
        ("bogus = 1\n", "bogus", 1),
        ("[bogus]\n", "bogus", 1),
        ("[faces]\nbogus = 1\n", "bogus", 2),
        ("[[face]]\nremote = \"udp://192.0.2.1\"\nbogus = 1\n", "bogus", 3),
        ("[[route]]\nprefix = \"/a\"\nbogus = 1\n", "bogus", 3),
        ("[[faces.multicast]]\ninterface = \"eth0\"\nbogus = 1\n", "bogus", 3),
        ("[[authorization.user]]\nuser = \"*\"\nbogus = 1\n", "bogus", 3),
        ("[[authorization.key]]\nbogus = 1\n", "bogus", 2),
        ("[network]\nbogus = 1\n", "bogus", 2),
        ("[log]\nbogus = 1\n", "bogus", 2),
    ] {
        let report = refusal(text);
        let begins = format!("namely.toml:{line}:");
        let unknown = format!("unknown key `{key}`");
        // A table may lack a key, too.
        let is_reported = report.lines().any(|line| line.starts_with(&begins) && line.contains(&unknown));
        assert!(is_reported, "{text}: {report}");
    }
}

#[test]
fn bad_values_report_the_allowed_ones() {
    for (text, line, hint) in [
        ("[faces]\nlisten = [\"tcp://[::1\"]\n", 2, "IPv6 address stands in brackets"),
        ("[faces]\nlisten = [\"udp://224.0.23.170:1\"]\n", 2, "faces.multicast"),
        ("[faces]\nlisten = [\"tcp://host:1\"]\n", 2, "numeric"),
        ("[[face]]\nremote = \"unix:///x\"\n", 2, "udp://host:port"),
        ("[[face]]\nremote = \"udp://a\"\npersistency = \"on-demand\"\n", 3, "permanent"),
        ("[tables]\ncs_octets_max = \"12 parsecs\"\n", 2, "256MiB"),
        ("[tables]\ncs_octets_max = -1\n", 2, "256MiB"),
        ("[tables]\ncs_octets_max = \"99999999999GiB\"\n", 2, "256MiB"),
        ("[tables]\npit_entries_max = \"many\"\n", 2, "pit_entries_max = 262144"),
        ("[tables]\ncs_unsolicited = \"keep\"\n", 2, "admit-local"),
        ("[tables]\ncs_policy = \"clock\"\n", 2, "s3-fifo"),
        ("[faces]\nunix_mode = 0o1000\n", 2, "0o666"),
        ("[strategy]\nx = \"best-route\"\n", 2, "slash"),
        ("[network]\nregions = [\"/a%\"]\n", 2, "not a name URI"),
        ("[[authorization.user]]\nuser = -3\n", 2, "uid"),
        ("[[autoreg]]\nprefixes = [\"/a\"]\nfrom = [\"10.0.0.0\"]\n", 3, "192.0.2.0/24"),
        ("[log]\nlevel = \"loud\"\n", 2, "debug"),
        ("[cs.disk]\nadmission = \"some\"\n", 2, "hit"),
        ("[cs.disk]\nengine = \"aio\"\n", 2, "uring"),
        ("[cs.disk]\nslow = \"fast\"\n", 2, "4.7k/s"),
        ("[cs.disk]\nslow = \"0/s\"\n", 2, "4.7k/s"),
        ("[cs.disk]\nthreads = 65\n", 2, "1 to 64"),
        ("[cs.disk]\nannounce_ms = 9\n", 2, "10 to 3333"),
        ("[cs.disk]\nannounce_ms = 3334\n", 2, "10 to 3333"),
        ("[cs.disk]\noctets_max = 1048575\n", 2, "1MiB"),
        ("[faces\n", 1, ""),
    ] {
        let message = refusal(text);
        assert!(message.starts_with(&format!("namely.toml:{line}:")), "{text}: {message}");
        assert!(message.contains(hint), "{text}: {message}");
    }
}

#[test]
fn contradictions_are_refused() {
    assert!(
        refusal("[[face]]\nremote = \"tcp://a\"\nmtu = 1400\n").contains("udp and ether faces"),
        "a stream has no MTU"
    );
    let first = "[[face]]\nremote = \"udp://b\"\n";
    let second = refusal(&format!("{first}[[face]]\nremote = \"tcp://a\"\nreliability = true\n"));
    assert!(second.starts_with("namely.toml:3:1: "), "{second}");
    for lopsided in [
        "remote = \"ether://[02:00:00:00:00:01]\"",
        "remote = \"udp://a\"\nlocal = \"dev://eth0\"",
        "remote = \"ether://[02:00:00:00:00:01]\"\nlocal = \"udp://a\"",
        "remote = \"ether://[01:00:5e:00:17:aa]\"\nlocal = \"dev://eth0\"",
    ] {
        assert!(refusal(&format!("[[face]]\n{lopsided}\n")).contains("ether"), "{lopsided}");
    }
    assert!(refusal("[faces]\nlisten = [\"tcp://127.0.0.1\", \"tcp4://127.0.0.1:6363\"]").contains("twice"));
    assert!(
        refusal("[[face]]\nremote = \"udp://192.0.2.1\"\n[[face]]\nremote = \"udp4://192.0.2.1:6363\"\n")
            .contains("two [[face]]")
    );
}

#[test]
fn sizes_take_units() {
    for (text, octets) in
        [("7", 7), ("\"7\"", 7), ("\"2KiB\"", 2048), ("\"3 MiB\"", 3 << 20), ("\"1GiB\"", 1 << 30)]
    {
        let config = parse(&format!("[tables]\ncs_octets_max = {text}\n")).unwrap();
        assert_eq!(config.tables.cs_octets_max, octets, "{text}");
    }
}

#[test]
fn users_have_only_their_written_rules() {
    assert_eq!(Config::default().authorization.user, []);
    assert!(Config::default().authorization.bind_below_local);
    assert!(!Config::default().authorization.loopback_udp, "a face outlives its socket");
    let config = parse(
        "[[authorization.user]]\nuser = \"alice\"\nregister = [\"/alice\"]\n\
         [[authorization.user]]\nuser = 1001\nmanage = true\n",
    )
    .unwrap();
    let rules = config.authorization.user;
    assert_eq!(rules.len(), 2);
    assert_eq!(rules[0].user, User::Name("alice".into()));
    assert_eq!(rules[0].register, ["/alice".parse::<Name>().unwrap()]);
    assert_eq!((&rules[1].user, rules[1].manage), (&User::Uid(1001), true));
}

#[test]
fn a_missing_or_huge_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namely.toml");
    let message = Config::load(&path).unwrap_err().to_string();
    assert!(message.contains("namely.toml") && message.contains("No such file"), "{message}");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(CONFIG_OCTETS_MAX + 1).unwrap();
    assert!(Config::load(&path).unwrap_err().to_string().contains("larger than"));
    file.set_len(0).unwrap();
    assert_eq!(Config::load(&path), Ok(Config::default()));
}

/// A value other than the default, for each key of `[network]` and each key with a line in the
/// tables of docs/configuration.md.
const OTHER_VALUES: &[(&str, &str, &str)] = &[
    ("[faces]", "listen", "[]"),
    ("[faces]", "listen_also", "[\"udp://127.0.0.1:7\"]"),
    ("[faces]", "unix_mode", "0o600"),
    ("[faces]", "workers", "3"),
    ("[faces]", "idle_timeout_s", "7"),
    ("[faces]", "idle_unanswered_s", "7"),
    ("[faces]", "faces_max", "7"),
    ("[faces]", "faces_per_uid_max", "7"),
    ("[faces]", "faces_per_address_max", "7"),
    ("[faces]", "faces_local_reserve", "7"),
    ("[faces]", "queue_octets_total_max", "7"),
    ("[faces]", "interests_from", "[\"192.0.2.0/24\"]"),
    ("[faces]", "unproven_address_mbit_s", "7"),
    ("[faces]", "unproven_total_mbit_s", "7"),
    ("[faces]", "stall_timeout_s", "7"),
    ("[faces]", "codel_target_us", "7"),
    ("[faces]", "codel_interval_ms", "7"),
    ("[faces]", "congestion_threshold_octets", "7"),
    ("[faces]", "read_octets_per_turn", "65536"),
    ("[faces]", "read_datagrams_per_turn", "7"),
    ("[faces]", "busy_poll_us", "7"),
    ("[faces.dispatcher]", "links", "[\"dev://eth0\"]"),
    ("[faces.dispatcher]", "by", "\"random\""),
    ("[faces.dispatcher]", "own_core", "true"),
    ("[faces.dispatcher]", "queue_packets", "7"),
    ("[faces.memif]", "rings_max", "1"),
    ("[faces.memif]", "ring_slots_max", "64"),
    ("[faces.memif]", "regions_max", "7"),
    ("[faces.memif]", "octets_max", "7"),
    ("[faces.memif]", "octets_total_max", "7"),
    ("[faces.ethernet]", "xdp", "\"auto\""),
    ("[[faces.multicast]]", "interface", "\"eth0\""),
    ("[tables]", "cs_packets_max", "7"),
    ("[tables]", "cs_entries_max", "7"),
    ("[tables]", "cs_octets_max", "7"),
    ("[tables]", "cs_policy", "\"arc\""),
    ("[tables]", "cs_admit", "false"),
    ("[tables]", "cs_serve", "false"),
    ("[tables]", "cs_unsolicited", "\"admit-all\""),
    ("[tables]", "pit_entries_max", "7"),
    ("[tables]", "pit_entries_per_face_max", "7"),
    ("[tables]", "pit_entries_per_holder_max", "1"),
    ("[tables]", "pit_entries_reserve", "1"),
    ("[tables]", "interest_lifetime_remote_ms_max", "1"),
    ("[tables]", "rib_routes_per_holder_max", "1"),
    ("[tables]", "rib_octets_per_holder_max", "1"),
    ("[tables]", "interest_lifetime_ms_max", "7"),
    ("[tables]", "dead_nonces_max", "7"),
    ("[tables]", "dead_nonce_lifetime_ms", "7"),
    ("[tables]", "fib_entries_max", "7"),
    ("[tables]", "nexthops_max", "7"),
    ("[tables]", "rib_routes_max", "7"),
    ("[tables]", "strategy_choices_max", "7"),
    ("[tables]", "strategy_prefixes_max", "7"),
    ("[tables]", "strategy_faces_max", "7"),
    ("[tables]", "nack_no_route", "false"),
    ("[cs.disk]", "folder", "\"/x\""),
    ("[cs.disk]", "group", "10001"),
    ("[cs.disk]", "octets_max", "\"2MiB\""),
    ("[cs.disk]", "admission", "\"all\""),
    ("[cs.disk]", "threshold", "7"),
    ("[cs.disk]", "queue", "\"weighted\""),
    ("[cs.disk]", "marking", "\"never\""),
    ("[cs.disk]", "announce_ms", "200"),
    ("[cs.disk]", "read_ahead", "false"),
    ("[cs.disk]", "engine", "\"threads\""),
    ("[cs.disk]", "threads", "7"),
    ("[cs.disk]", "filter", "\"bloom\""),
    ("[cs.disk]", "slow", "\"414/s\""),
    ("[discovery]", "enabled", "false"),
    ("[discovery]", "heartbeat_ms", "500"),
    ("[discovery]", "mtu_octets_min", "100"),
    ("[discovery]", "group_mtu_octets_min", "100"),
    ("[discovery]", "neighbours_max", "7"),
    ("[discovery]", "neighbours_total_max", "7"),
    ("[discovery]", "quarantine_faults", "7"),
    ("[discovery]", "quarantine_s", "7"),
    ("[discovery]", "prefixes", "[\"/a\"]"),
    ("[discovery]", "open", "true"),
    ("[discovery]", "key_chain", "\"/x\""),
    ("[process]", "user", "\"somebody\""),
    ("[process]", "core_dumps", "true"),
    ("[process]", "drain_ms", "7"),
    ("[process]", "confine_files", "false"),
    ("[process]", "confine_calls", "false"),
    ("[network]", "regions", "[\"/isp\"]"),
];

#[test]
fn documented_restart_keys_match_the_reload() {
    let whole =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md"))
            .unwrap();
    // A key is in the first cell of its line, "yes" or "no" in the last.
    let documented = |table: &str, key: &str| {
        // Some keys of the disk have the same name as keys of other tables.
        let section = format!("### `{table}`");
        let documentation = whole.split_once(&section).filter(|_| table == "[cs.disk]");
        let documentation = documentation.map_or(whole.as_str(), |(_, section)| section);
        let quoted = format!("`{key}`");
        let of_table = documentation.lines().find_map(|line| {
            let mut cells = line.trim_matches(['|', ' ']).split(" | ");
            (line.starts_with('|') && cells.next()?.contains(&quoted)).then(|| cells.last())?
        });
        let of_list = || {
            let line = documentation.lines().find(|line| line.starts_with(&format!("{quoted}:")))?;
            line.strip_suffix('.')?.rsplit_once("Reload: ").map(|(_, reload)| reload)
        };
        of_table.or_else(of_list).unwrap_or_else(|| panic!("{key} is not documented"))
    };
    let old = Config::default();
    for (written, key, value) in OTHER_VALUES {
        let new = parse(&format!("{written}\n{key} = {value}\n")).unwrap();
        assert_ne!(old, new, "{written} {key}");
        let table = written.trim_matches(['[', ']']);
        let named = match table.strip_prefix("faces.") {
            Some(part) => format!("faces.{part}"),
            None => format!("{table}.{key}"),
        };
        match documented(written, key) {
            "yes" => assert_eq!(old.restart_needed(&new), Vec::<&str>::new(), "{key}"),
            "no" => assert_eq!(old.restart_needed(&new), [named], "{key}"),
            other => panic!("{key}: {other}"),
        }
    }
    let documented_keys = |table: &str| {
        refusal(&format!("{table}\nzzz = 1\n")).split("expected one of ").nth(1).unwrap().matches(',').count()
            + 1
    };
    for table in ["[faces]", "[tables]", "[cs.disk]", "[faces.memif]", "[faces.dispatcher]"] {
        let listed = OTHER_VALUES.iter().filter(|(of, ..)| *of == table).count();
        // Tables in a table have keys of their own.
        let nested = if table == "[faces]" { 4 } else { 0 };
        assert_eq!(listed + nested, documented_keys(table), "{table}: a key is not in the list above");
    }
}

#[test]
fn link_limits_have_valid_ranges() {
    let faces = |text: &str| parse(&format!("[faces]\n{text}\n")).map(|config| config.faces);
    let memif = |text: &str| faces(&format!("[faces.memif]\n{text}"));
    let dispatcher = |text: &str| faces(&format!("[faces.dispatcher]\n{text}"));
    for key in ["unproven_address_mbit_s", "unproven_total_mbit_s"] {
        assert!(faces(&format!("{key} = 1000000")).is_ok());
        assert!(faces(&format!("{key} = 1000001")).unwrap_err().contains("at most 1000000"));
    }
    assert!(faces("interests_from = [\"192.0.2.1\"]").unwrap_err().contains("192.0.2.0/24"));
    assert_eq!(faces("busy_poll_us = 10000").unwrap().busy_poll_us, 10_000);
    assert!(faces("busy_poll_us = 10001").unwrap_err().contains("at most 10000"));
    assert_eq!(faces("read_octets_per_turn = \"32KiB\"").unwrap().read_octets_per_turn, 32_768);
    assert_eq!(faces("read_octets_per_turn = \"4MiB\"").unwrap().read_octets_per_turn, 4 << 20);
    assert!(faces("read_octets_per_turn = 32767").unwrap_err().contains("32KiB to 4MiB"));
    assert!(faces("read_octets_per_turn = 4194305").unwrap_err().contains("32KiB to 4MiB"));
    assert_eq!(faces("read_datagrams_per_turn = 4096").unwrap().read_datagrams_per_turn, 4096);
    assert!(faces("read_datagrams_per_turn = 4097").unwrap_err().contains("1 to 4096"));
    assert!(faces("read_datagrams_per_turn = 0").unwrap_err().contains("1 to 4096"));
    assert_eq!(memif("rings_max = 8").unwrap().memif.options().interface.ring_pairs, 8);
    assert!(memif("rings_max = 9").unwrap_err().contains("1 to 8"));
    assert!(memif("rings_max = 0").is_err());
    assert_eq!(memif("ring_slots_max = 16384").unwrap().memif.options().interface.ring_size_log2, 14);
    assert!(memif("ring_slots_max = 32768").unwrap_err().contains("16384"));
    assert!(memif("ring_slots_max = 1000").unwrap_err().contains("power of two"));
    assert!(memif("regions_max = 256").is_ok() && memif("regions_max = 257").is_err());
    assert_eq!(dispatcher("queue_packets = 1").unwrap().dispatcher.options().queue_packets, 1);
    assert!(dispatcher("queue_packets = 0").unwrap_err().contains("1 to 1048576"));
    assert!(dispatcher("queue_packets = 1048577").is_err());
    assert!(dispatcher("links = [\"eth0\"]").unwrap_err().contains("eth0"));
    let own = dispatcher("own_core = true").unwrap().dispatcher.options();
    assert!(!own.links.own_worker, "without links no worker is kept");
    let own = dispatcher("own_core = true\nlinks = [\"dev://eth0\"]").unwrap().dispatcher.options();
    assert!(own.links.own_worker);
    let xdp =
        |text: &str| faces(&format!("[faces.ethernet]\nxdp = \"{text}\"")).map(|f| f.ethernet.options().xdp);
    assert_eq!((xdp("auto"), xdp("on")), (Ok(namely_io::Xdp::Auto), Ok(namely_io::Xdp::On)));
    assert!(xdp("yes").unwrap_err().contains("`off`, `auto`, `on`"));
    // The defaults are those of the data plane.
    assert_eq!(faces("").unwrap().ethernet.options(), namely_io::IoOptions::default().ethernet);
    assert_eq!(memif("").unwrap().memif.options(), namely_io::IoOptions::default().memif);
    assert_eq!(dispatcher("").unwrap().dispatcher.options(), namely_dataplane::DispatcherOptions::default());
}

#[test]
fn a_slowed_disk_has_rate_or_delay() {
    let slow =
        |text: &str| parse(&format!("[cs.disk]\nslow = \"{text}\"\n")).map(|config| config.cs.disk.slow);
    for (text, rate) in [("414/s", 414), ("4.7k/s", 4700), ("1/s", 1)] {
        assert_eq!(slow(text).unwrap().requests_per_s, rate, "{text}");
    }
    for (text, micros) in [("193us", 193), ("1.5ms", 1500), ("1us", 1), ("10000ms", 10_000_000)] {
        assert_eq!(slow(text).unwrap().delay, Duration::from_micros(micros), "{text}");
    }
    assert!(["0us", "10001ms", "4s"].iter().all(|text| slow(text).is_err()));
    assert!(parse("[cs.disk]\n").unwrap().cs.disk.variant.0.is_none());
    assert!(parse("[cs.disk]\nblocks = true\n").is_err() && parse("[cs.disk.variant]\n").is_err());
    assert_eq!(parse("[cs.disk]\nthreads = 64\n").unwrap().cs.disk.threads, 64);
    assert!(parse("[cs.disk]\nthreads = 0\n").unwrap_err().contains("1 to 64"));
}
