//! `namely migrate`: configurations of NFD, and the reaction of namelyd to the results.

use crate::common;

use std::path::{Path, PathBuf};

use common::Home;
use namely_testkit::{Need, skip};

const NFD_CONF: &str = r#"
; A router with most of what there is.
general
{
  user ndn
  group ndn
}
log
{
  default_level INFO
  FibManager DEBUG
}
forwarder
{
  default_hop_limit 32
}
tables
{
  cs_max_packets 1000 ; packets
  cs_policy priority_fifo
  cs_unsolicited_policy admit-local
  strategy_choice
  {
    / /localhost/nfd/strategy/best-route
    /a /localhost/nfd/strategy/asf/v=5/probing-interval~30000
    /b /localhost/nfd/strategy/access
  }
  network_region
  {
    /r/1
  }
}
face_system
{
  general
  {
    enable_congestion_marking no
  }
  unix
  {
    path SOCKET
  }
  tcp
  {
    port 0
    enable_v6 no
  }
  udp
  {
    port 0
    idle_timeout 300
    unicast_mtu 1452
    mcast yes
    whitelist
    {
      ifname lo
      ifname "wl*"
    }
  }
  ether
  {
    listen no
    mcast yes
    whitelist
    {
      *
    }
  }
  websocket
  {
    listen no
  }
  netdev_bound
  {
    rule
    {
      remote udp4://192.0.2.1:6363
    }
  }
}
authorizations
{
  authorize
  {
    certfile keys/a.ndncert
    privileges
    {
      faces
      fib
      cs
      strategy-choice
    }
  }
  authorize
  {
    certfile any
    privileges
    {
      faces
    }
  }
}
rib
{
  localhost_security
  {
    trust-anchor
    {
      type any
    }
  }
  localhop_security
  {
    trust-anchor
    {
      type file
      file-name keys/a.ndncert
    }
    trust-anchor
    {
      type any
    }
  }
  prefix_announcement_validation
  {
    trust-anchor
    {
      type file
      file-name keys/p.ndncert
    }
  }
  auto_prefix_propagate
  {
    cost 15
  }
  readvertise_nlsr yes
}
new_section
{
}
"#;

fn write(home: &Home, text: &str) -> PathBuf {
    let path = home.path("nfd.conf");
    std::fs::write(&path, text).unwrap();
    path
}

fn migrated(home: &Home, conf: &Path) -> toml::Table {
    home.ok(["migrate", conf.to_str().unwrap(), "--quiet"]).parse().unwrap()
}

/// The output of namelyd for the result.
fn check(home: &Home, conf: &Path) {
    let toml = home.path("namely.toml");
    std::fs::write(&toml, home.ok(["migrate", conf.to_str().unwrap(), "--quiet"])).unwrap();
    let said = home.ok(["up", "--config", toml.to_str().unwrap(), "--check"]);
    assert!(said.contains("configuration ok"), "{said}");
}

#[test]
fn each_nfd_key_maps_to_its_equivalent() {
    let home = Home::new();
    let path = write(&home, &NFD_CONF.replace("SOCKET", "/run/nfd/nfd.sock"));
    let folder = path.parent().unwrap().display().to_string();
    let expected = format!(
        r#"
        process.user = "ndn"
        log.level = "info"
        network.regions = ["/r/1"]
        tables = {{ cs_packets_max = 1000, cs_policy = "fifo", cs_unsolicited = "admit-local" }}
        strategy = {{ "/" = "best-route", "/a" = "/localhost/nfd/strategy/asf/v=5/probing-interval~30000" }}
        [faces]
        listen = ["unix:///run/nfd/nfd.sock", "tcp://0.0.0.0:0", "udp://0.0.0.0:0", "udp://[::]:0"]
        congestion_threshold_octets = 0
        idle_timeout_s = 300
        multicast = [{{ interface = "lo", group = "udp://224.0.23.170:56363" }}]
        [authorization]
        announcement_anchors = ["{folder}/keys/p.ndncert"]
        localhop_rib = true
        user = [{{ user = "*", register = ["/"], manage = true }}]
        key = [{{ certificate = "{folder}/keys/a.ndncert", register = ["/"], manage = true }}]
        [readvertise]
        origins = ["client"]
        "#
    );
    let expected: toml::Table = expected.parse().unwrap();
    let migrated = migrated(&home, &path);
    for key in expected.keys().chain(migrated.keys()) {
        assert_eq!(migrated.get(key), expected.get(key), "{key}");
    }
}

#[test]
fn unmigrated_keys_are_reported_with_lines() {
    let home = Home::new();
    let path = write(&home, &NFD_CONF.replace("SOCKET", "/run/nfd/nfd.sock"));
    let answer = home.json(["migrate", path.to_str().unwrap()]).remove(0);
    let notes = answer["notes"].as_array().unwrap();
    let expected = [
        ("general.group", "first group"),
        ("log.FibManager", "[log] level"),
        ("forwarder.default_hop_limit", "none"),
        ("tables.cs_policy", "fifo"),
        ("tables.strategy_choice", "no strategy `access`"),
        ("face_system.udp.unicast_mtu", "namely face update"),
        ("face_system.ether.mcast", "[[faces.multicast]]"),
        ("face_system.netdev_bound", "[[face]]"),
        ("authorizations.authorize.certfile", "every local user"),
        ("authorizations.authorize.privileges", "manage"),
        ("rib.localhop_security.trust-anchor", "[[authorization.key]]"),
        ("rib.auto_prefix_propagate", "[readvertise]"),
        ("new_section", "not known"),
    ];
    for (key, text) in expected {
        let of_key =
            notes.iter().find(|note| note["key"] == key).unwrap_or_else(|| panic!("{key}: {notes:#?}"));
        assert!(of_key["note"].as_str().unwrap().contains(text), "{of_key}");
        let line = of_key["line"].as_u64().unwrap() as usize;
        let last = key.rsplit('.').next().unwrap();
        let said = NFD_CONF.lines().nth(line - 1).unwrap();
        let is_below = ["strategy_choice", "netdev_bound", "privileges", "trust-anchor"].contains(&last);
        assert!(is_below || said.contains(last), "{key}: line {line} is {said}");
    }
    assert_eq!(notes.len(), expected.len(), "{notes:#?}");
    let text = home.run(["migrate", path.to_str().unwrap()]);
    assert!(text.stderr.contains("line 6, general.group") && text.stdout.contains("# line 6, general.group"));
}

#[test]
fn a_router_starts_with_the_migrated_file() {
    let home = Home::new();
    let socket = home.path("nfd.sock");
    let conf = "face_system\n{\nunix\n{\npath SOCKET\n}\nudp\n{\nport 0\nmcast no\n}\n}\nrib\n{\nlocalhost_security\n{\ntrust-anchor\n{\ntype any\n}\n}\n}\n";
    let path = write(&home, &conf.replace("SOCKET", socket.to_str().unwrap()));
    check(&home, &path);
    let mut home = home;
    let toml = home.path("namely.toml");
    let command = home.namely(["up", "--config", toml.to_str().unwrap()]);
    home.spawn(command);
    let uri = format!("unix://{}", socket.display());
    let list = || home.run(["--router", &uri, "channel", "list"]);
    home.wait_for("the router is there", || list().code == Some(0));
    let channels = list().stdout;
    assert!(channels.contains(&uri) && channels.contains("udp4://0.0.0.0:"), "{channels}");
    assert!(channels.contains("udp6://[::]:"), "both listen on one port: {channels}");
}

#[test]
fn an_empty_nfd_conf_listens_nowhere() {
    let home = Home::new();
    let path = write(&home, "");
    let table = migrated(&home, &path);
    assert_eq!(table["faces"]["listen"].as_array().unwrap().len(), 0, "NFD listens where it has sections");
    check(&home, &path);
}

#[test]
fn an_invalid_nfd_conf_reports_its_line() {
    let home = Home::new();
    let path = write(&home, "a\n{\n");
    let said = home.fails(1, ["migrate", path.to_str().unwrap()]);
    assert!(said.contains("not an nfd.conf: line 2"), "{said}");
    let said = home.fails(1, ["migrate", "/nonexistent/nfd.conf"]);
    assert!(said.contains("cannot read /nonexistent/nfd.conf"), "{said}");
}

#[test]
fn an_nfd_conf_may_have_a_mebibyte() {
    let home = Home::new();
    let path = write(&home, &";".repeat(1 << 20));
    migrated(&home, &path);
    let path = write(&home, &";".repeat((1 << 20) + 1));
    assert!(home.fails(1, ["migrate", path.to_str().unwrap()]).contains("1 MiB"));
}

/// The settings of NFD 24.07's sample, without its comments.
const NFD_SAMPLE: &str = r#"
general
{
}
log
{
  default_level INFO
}
forwarder
{
  default_hop_limit 0
}
tables
{
  cs_max_packets 65536
  cs_policy lru
  cs_unsolicited_policy drop-all
  strategy_choice
  {
    /               /localhost/nfd/strategy/best-route
    /localhost      /localhost/nfd/strategy/multicast
    /localhost/nfd  /localhost/nfd/strategy/best-route
    /ndn/multicast  /localhost/nfd/strategy/multicast
  }
  network_region
  {
  }
}
face_system
{
  general
  {
    enable_congestion_marking yes
  }
  unix
  {
    path /run/nfd/nfd.sock
  }
  tcp
  {
    listen yes
    port 6363
    enable_v4 yes
    enable_v6 yes
  }
  udp
  {
    listen yes
    port 6363
    enable_v4 yes
    enable_v6 yes
    idle_timeout 600
    unicast_mtu 8800
    mcast yes
    mcast_group 224.0.23.170
    mcast_port 56363
    mcast_group_v6 ff02::1234
    mcast_port_v6 56363
    mcast_ad_hoc no
    whitelist
    {
      *
    }
    blacklist
    {
    }
  }
  ether
  {
    listen yes
    idle_timeout 600
    mcast yes
    mcast_group 01:00:5E:00:17:AA
    mcast_ad_hoc no
    whitelist
    {
      *
    }
    blacklist
    {
    }
  }
  websocket
  {
    listen yes
    port 9696
    enable_v4 yes
    enable_v6 yes
  }
  netdev_bound
  {
  }
}
authorizations
{
  authorize
  {
    certfile any
    privileges
    {
      faces
      fib
      cs
      strategy-choice
    }
  }
}
rib
{
  localhost_security
  {
    trust-anchor
    {
      type any
    }
  }
  prefix_announcement_validation
  {
    trust-anchor
    {
      type any
    }
  }
  readvertise_nlsr no
}
"#;

/// The sample with another socket, any free ports, and without IPv6.
pub(crate) fn nfd_sample_for_tests(socket: &Path) -> String {
    let socket = socket.display().to_string();
    let text = NFD_SAMPLE.replace("/run/nfd/nfd.sock", &socket).replace("enable_v6 yes", "enable_v6 no");
    text.replace(" port 6363", " port 0").replace(" port 9696", " port 0")
}

/// The notes about a file, which are all about known settings.
fn notes(home: &Home, conf: &Path) -> Vec<serde_json::Value> {
    let answer = home.json(["migrate", conf.to_str().unwrap()]).remove(0);
    let notes = answer["notes"].as_array().unwrap().clone();
    assert!(notes.iter().all(|note| !note["note"].as_str().unwrap().contains("not known")), "{notes:#?}");
    assert!(notes.len() < 8, "{notes:#?}");
    notes
}

#[test]
fn a_router_starts_with_the_nfd_sample() {
    let mut home = Home::new();
    let path = write(&home, &nfd_sample_for_tests(&home.path("nfd.sock")));
    check(&home, &path);
    let notes = notes(&home, &path);
    let any = notes.iter().find(|note| note["key"] == "authorizations.authorize.certfile").expect("a remark");
    assert!(any["note"].as_str().unwrap().contains("every local user"), "{any}");
    let toml = home.path("namely.toml");
    let command = home.namely(["up", "--config", toml.to_str().unwrap()]);
    home.spawn(command);
    let uri = format!("unix://{}", home.path("nfd.sock").display());
    home.wait_for("the router is there", || home.run(["--router", &uri, "status"]).code == Some(0));
}

#[test]
fn an_installed_nfd_sample_migrates_completely() {
    // The variable names the program, as in /opt/nfd/bin/nfd.
    let nfd = std::env::var_os("NFD_BIN").map(PathBuf::from);
    let beside = nfd.as_deref().and_then(Path::parent).map(|folder| folder.join("../etc/ndn"));
    let folders = [beside, Some("/etc/ndn".into()), Some("/usr/local/etc/ndn".into())];
    let samples = folders.into_iter().flatten().map(|folder| folder.join("nfd.conf.sample"));
    let Some(sample) = samples.into_iter().find(|sample| sample.exists()) else {
        return skip(
            Need::NfdSample,
            "no nfd.conf.sample in /etc/ndn, in /usr/local/etc/ndn or beside NFD_BIN",
        );
    };
    notes(&Home::new(), &sample);
}

#[test]
fn migrate_reads_standard_input() {
    let home = Home::new();
    let path = write(&home, NFD_SAMPLE);
    let mut command = home.namely(["migrate", "-", "--quiet"]);
    let piped = common::ended(command.stdin(std::fs::File::open(&path).unwrap()).output().unwrap());
    assert_eq!(piped.code, Some(0), "{piped:?}");
    assert!(piped.stdout.starts_with("# Made from standard input"), "{}", piped.stdout);
    let (of_file, of_pipe): (toml::Table, toml::Table) =
        (migrated(&home, &path), piped.stdout.parse().unwrap());
    assert_eq!(of_file, of_pipe);
}

#[test]
fn nfdc_commands_run_with_a_hint() {
    let home = Home::with_router();
    let ended = home.run(["face", "create", "remote", "udp4://127.0.0.1:9", "persistency", "permanent"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let hint = "hint: here that is `namely face create udp4://127.0.0.1:9 --persistency permanent`";
    assert!(ended.stderr.contains(hint), "{}", ended.stderr);
    home.ok(["route", "add", "prefix", "/a", "nexthop", "udp4://127.0.0.1:9", "cost", "7"]);
    let fib = home.ok(["fib", "list"]);
    assert!(fib.contains("/a"), "{fib}");
    // A command that neither program accepts is reported in namely's words.
    let said = home.fails(2, ["fib", "make"]);
    assert!(said.contains("unrecognized subcommand"), "{said}");
}
