//! `face_system`: the addresses that the router listens on.

use super::Migrated;
use super::info::Entry;

/// NFD's UDP group, also that of namelyd.
const UDP_GROUP: (&str, &str) = ("224.0.23.170", "56363");
/// NFD's Ethernet group, also that of namelyd.
const ETHER_GROUP: &str = "01:00:5E:00:17:AA";

/// NFD's MTU of UDP faces.
const UNICAST_MTU: &str = "8800";

pub(super) fn section(faces: &Entry, to: &mut Migrated) {
    to.note_others(
        faces,
        "face_system",
        &["general", "unix", "tcp", "udp", "ether", "websocket", "netdev_bound"],
    );
    to.table("[faces]");
    let mut listen = Vec::new();
    if let Some(unix) = faces.get("unix") {
        to.note_others(unix, "face_system.unix", &["path"]);
        let path = unix.value_of("path").filter(|path| path.starts_with('/')).unwrap_or("/run/nfd/nfd.sock");
        listen.push(format!("unix://{path}"));
    }
    for (key, scheme, port) in [("tcp", "tcp", "6363"), ("udp", "udp", "6363"), ("websocket", "ws", "9696")] {
        if let Some(of) = faces.get(key) {
            listen.extend(ports(of, scheme, port));
        }
    }
    let ether = faces.get("ether").filter(|ether| is_on(ether, "listen"));
    listen.extend(ether.into_iter().flat_map(devices).map(|device| format!("dev://{device}")));
    let listen: Vec<toml::Value> = listen.into_iter().map(toml::Value::from).collect();
    to.set("listen", listen);
    if let Some(tcp) = faces.get("tcp") {
        of_tcp(tcp, to);
    }
    if let Some(general) = faces.get("general") {
        to.note_others(general, "face_system.general", &["enable_congestion_marking"]);
        if !is_on(general, "enable_congestion_marking") {
            to.set("congestion_threshold_octets", 0);
        }
    }
    if let Some(udp) = faces.get("udp") {
        of_udp(udp, to);
    }
    if let Some(ether) = faces.get("ether") {
        of_ether(ether, to);
    }
    if let Some(websocket) = faces.get("websocket") {
        to.note_others(websocket, "face_system.websocket", &["listen", "port", "enable_v4", "enable_v6"]);
    }
    for rule in faces.get("netdev_bound").iter().flat_map(|bound| &bound.below) {
        let text = "faces bound to a device: write a [[face]] with its `remote` for each; the system's routes choose the device";
        to.note(rule, "face_system.netdev_bound", text);
    }
}

/// Returns true if the value is `yes` or missing, as in NFD.
fn is_on(section: &Entry, key: &str) -> bool {
    section.value_of(key).is_none_or(|value| value == "yes")
}

/// Returns the addresses that a section listens on.
fn ports(of: &Entry, scheme: &str, default: &str) -> Vec<String> {
    if !is_on(of, "listen") {
        return Vec::new();
    }
    let port = of.value_of("port").unwrap_or(default);
    let address = |key: &str, any: &str| is_on(of, key).then(|| format!("{scheme}://{any}:{port}"));
    address("enable_v4", "0.0.0.0").into_iter().chain(address("enable_v6", "[::]")).collect()
}

fn of_tcp(tcp: &Entry, to: &mut Migrated) {
    to.note_others(tcp, "face_system.tcp", &["listen", "port", "enable_v4", "enable_v6", "local"]);
    let Some(local) = tcp.get("local") else { return };
    let allowed = local.get("whitelist").map_or(&[][..], |list| &list.below);
    let forbidden = local.get("blacklist").map_or(&[][..], |list| &list.below);
    let is_loopback = |entry: &Entry| ["127.0.0.0/8", "::1/128"].contains(&entry.value.as_str());
    if !allowed.iter().all(is_loopback) || !forbidden.is_empty() {
        let text = "TCP faces over loopback are local, all others are not";
        to.note(local, "face_system.tcp.local", text);
    }
}

fn of_udp(udp: &Entry, to: &mut Migrated) {
    const KNOWN: [&str; 14] = [
        "listen",
        "port",
        "enable_v4",
        "enable_v6",
        "idle_timeout",
        "unicast_mtu",
        "mcast",
        "mcast_group",
        "mcast_port",
        "mcast_group_v6",
        "mcast_port_v6",
        "mcast_ad_hoc",
        "whitelist",
        "blacklist",
    ];
    to.note_others(udp, "face_system.udp", &KNOWN);
    if let Some(idle) = udp.get("idle_timeout") {
        match idle.value.parse::<u32>() {
            Ok(seconds) => to.set("idle_timeout_s", i64::from(seconds)),
            Err(_) => to.note(idle, "face_system.udp.idle_timeout", "not a number: left out"),
        }
    }
    if let Some(mtu) = udp.get("unicast_mtu").filter(|mtu| mtu.value != UNICAST_MTU) {
        let text = "faces discover the MTU of their path; `mtu` of a [[face]] and `namely face update --mtu` set that of one face";
        to.note(mtu, "face_system.udp.unicast_mtu", text);
    }
    let group = udp.value_of("mcast_group").unwrap_or(UDP_GROUP.0);
    let port = udp.value_of("mcast_port").unwrap_or(UDP_GROUP.1);
    multicast(udp, "face_system.udp", &format!("udp://{group}:{port}"), to);
    if let Some(group) = udp.get("mcast_group_v6").filter(|_| is_on(udp, "mcast") && is_on(udp, "enable_v6"))
    {
        let text = format!(
            "add a [[faces.multicast]] with `group` of {} where IPv6 is wanted beside IPv4",
            group.value
        );
        to.note(group, "face_system.udp.mcast_group_v6", text);
    }
}

fn of_ether(ether: &Entry, to: &mut Migrated) {
    const KNOWN: [&str; 7] =
        ["listen", "idle_timeout", "mcast", "mcast_group", "mcast_ad_hoc", "whitelist", "blacklist"];
    to.note_others(ether, "face_system.ether", &KNOWN);
    if is_on(ether, "listen") && devices(ether).is_empty() {
        let text = "name each device under `listen` of [faces], such as dev://eth0: namelyd uses named devices only. Neighbors on them are discovered";
        to.note(ether, "face_system.ether.listen", text);
    }
    let group = ether.value_of("mcast_group").unwrap_or(ETHER_GROUP).to_lowercase();
    multicast(ether, "face_system.ether", &format!("ether://[{group}]"), to);
}

/// Adds a multicast face for each named device. The devices of the machine are not queried.
fn multicast(of: &Entry, path: &str, group: &str, to: &mut Migrated) {
    if !is_on(of, "mcast") {
        return;
    }
    let devices = devices(of);
    for device in &devices {
        to.table("[[faces.multicast]]");
        to.set("interface", device.as_str());
        to.set("group", group);
    }
    if devices.is_empty() {
        let text = format!(
            "add [[faces.multicast]] with `interface` and group = \"{group}\" for each device that needs a multicast face"
        );
        to.note(of.get("mcast").unwrap_or(of), &format!("{path}.mcast"), text);
    }
    if let Some(ad_hoc) = of.get("mcast_ad_hoc").filter(|entry| entry.value == "yes") {
        to.note(ad_hoc, &format!("{path}.mcast_ad_hoc"), "none: a group's face is multi-access");
    }
}

/// Returns the devices that a section names, without its exceptions.
fn devices(of: &Entry) -> Vec<String> {
    let named = |list: &str| {
        let entries = of.get(list).map_or(&[][..], |list| &list.below);
        let devices = entries.iter().filter(|entry| entry.key == "ifname");
        devices.map(|entry| entry.value.clone()).collect::<Vec<_>>()
    };
    let left_out = named("blacklist");
    let is_one = |device: &String| !device.contains(['*', '?']) && !left_out.contains(device);
    named("whitelist").into_iter().filter(is_one).collect()
}
