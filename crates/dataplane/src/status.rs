//! The status of faces for management, and the settings of their links.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use namely_forwarder::{FaceId, PacketCounts};
use namely_io::{Carrier, FaceSnapshot, FaceState, RemoteKind, Unanswered, interfaces};
use namely_link::{LinkConfig, LinkKind};
use namely_messages::{
    FaceDetails, FacePersistency, FaceScope, FaceStatus, FaceUnanswered, LinkType, face_flags,
};
use namely_mgmt::FaceSettings;
use namely_wire::{Endpoint, FaceUri, Family};

const MS_NS: u64 = 1_000_000;

/// Returns the status of a face for management, except its packets by kind.
pub(super) fn face_status(id: FaceId, port: &FaceSnapshot, config: &LinkConfig, now_ns: u64) -> FaceStatus {
    FaceStatus {
        face_id: id.0,
        uri: shown(&port.remote),
        local_uri: shown(&port.local),
        expiration_period_ms: port.expires_ns.map(|at_ns| at_ns.saturating_sub(now_ns) / MS_NS),
        face_scope: scope(port.reach),
        face_persistency: port.persistency,
        link_type: link_type(port.reach),
        base_congestion_marking_interval_ns: Some(config.codel.interval_ns),
        default_congestion_threshold_octets: Some(config.codel.threshold_octets as u64),
        mtu: match config.kind {
            LinkKind::Stream => None,
            LinkKind::Datagram { mtu } => {
                // Probes may have found that the path carries less.
                Some(port.frame_octets_max.map_or(mtu, |found| found.min(mtu)) as u64)
            }
        },
        in_octets: port.counters.in_octets,
        out_octets: port.counters.out_octets,
        flags: flag(config.local_fields, face_flags::LOCAL_FIELDS)
            | flag(config.reliability, face_flags::LINK_RELIABILITY)
            | flag(config.marking, face_flags::CONGESTION_MARKING),
        details: Some(details(port, now_ns)),
        ..FaceStatus::default()
    }
}

/// The text of a URI for management. As in ndn-cxx, the zone of an IPv6 address is the name of the
/// interface, which the number does not reveal to a reader.
pub(super) fn shown(uri: &FaceUri) -> String {
    let zoned = match uri.address() {
        Some(SocketAddr::V6(address)) if address.scope_id() != 0 => address,
        _ => return uri.to_string(),
    };
    let Some(device) = interfaces::name_of(zoned.scope_id()) else { return uri.to_string() };
    let name = format!("{}%{device}", zoned.ip());
    let endpoint = Endpoint::Host { name, port: zoned.port(), family: Family::V6 };
    match uri {
        FaceUri::Tcp(_) => FaceUri::Tcp(endpoint).to_string(),
        FaceUri::Udp(_) => FaceUri::Udp(endpoint).to_string(),
        _ => uri.to_string(),
    }
}

/// The text by which [`shown`] lists the end of a face that a user gave as `text`: without scheme
/// version, port, or with the number of an interface.
pub(super) fn canonical(text: &str) -> String {
    let Ok(uri) = text.parse::<FaceUri>() else { return text.to_owned() };
    let endpoint = match &uri {
        FaceUri::Tcp(endpoint) | FaceUri::Udp(endpoint) => endpoint,
        _ => return uri.to_string(),
    };
    let numbered = match endpoint {
        Endpoint::Host { name, .. } => name.split_once('%').and_then(|(_, zone)| zone.parse::<u32>().ok()),
        Endpoint::Address(_) => None,
    };
    let device = numbered.and_then(interfaces::name_of);
    match (numbered, device) {
        (Some(number), Some(device)) => {
            uri.to_string().replace(&format!("%{number}]"), &format!("%{device}]"))
        }
        _ => uri.to_string(),
    }
}

/// The values that NFD does not report.
fn details(port: &FaceSnapshot, now_ns: u64) -> FaceDetails {
    let peer = port.credentials.as_ref();
    FaceDetails {
        state: match port.state {
            FaceState::Up => namely_messages::FaceState::Up,
            FaceState::Down => namely_messages::FaceState::Down,
            FaceState::Connecting => namely_messages::FaceState::Connecting,
        },
        program: peer.and_then(|peer| Some(peer.program.text()?.into_owned())),
        // A process in another PID namespace has the number 0.
        pid: peer.and_then(|peer| u64::try_from(peer.pid).ok()).filter(|pid| *pid > 0),
        uid: peer.map(|peer| peer.uid.into()),
        unanswered: unanswered(port, now_ns),
        ..FaceDetails::default()
    }
}

/// The names of users, each of which is looked up once. The lookup reads a file, so it is not for
/// workers.
#[derive(Default)]
pub(super) struct Users(BTreeMap<u64, Option<String>>);

impl Users {
    /// Adds the name of the user at the other end of a face.
    pub(super) fn name(&mut self, face: &mut FaceStatus) {
        let Some(details) = face.details.as_mut() else { return };
        let Some(uid) = details.uid else { return };
        let look_up = || namely_host::users::name_of(u32::try_from(uid).ok()?);
        details.user = self.0.entry(uid).or_insert_with(look_up).clone();
    }
}

/// Returns what was sent since the last arrival, if anything.
fn unanswered(port: &FaceSnapshot, now_ns: u64) -> Option<FaceUnanswered> {
    let Unanswered { interests, first_ns, failures } = port.unanswered;
    let since_ms = |at_ns: u64| now_ns.saturating_sub(at_ns) / MS_NS;
    (interests > 0 || failures > 0).then(|| FaceUnanswered {
        idle_ms: since_ms(port.active_ns),
        waiting_ms: first_ns.map(since_ms),
        interests,
        failures,
    })
}

/// Adds the packet counts, which only the forwarder has.
pub(super) fn set_packets(face: &mut FaceStatus, packets: &PacketCounts) {
    face.in_interests = packets.in_interests;
    face.in_data = packets.in_data;
    face.in_nacks = packets.in_nacks;
    face.out_interests = packets.out_interests;
    face.out_data = packets.out_data;
    face.out_nacks = packets.out_nacks;
}

/// `/localhost` packets pass Unix sockets, shared memory, and TCP from this machine to itself.
pub(super) fn scope(reach: RemoteKind) -> FaceScope {
    if reach == RemoteKind::Local { FaceScope::Local } else { FaceScope::NonLocal }
}

pub(super) fn link_type(reach: RemoteKind) -> LinkType {
    if reach == RemoteKind::Group { LinkType::MultiAccess } else { LinkType::PointToPoint }
}

fn flag(is_set: bool, bit: u64) -> u64 {
    if is_set { bit } else { 0 }
}

/// Returns the kind of link that carries the frames of a port.
pub(super) fn link_kind(port: &FaceSnapshot, udp_mtu: usize) -> LinkKind {
    match port.carrier {
        Carrier::Datagrams => {
            let udp_mtu = port.path_mtu.map_or(udp_mtu, |path| path.min(udp_mtu));
            // A device or peer with an MTU of its own determines it. `udp_mtu` is for the others.
            LinkKind::Datagram { mtu: port.mtu.map_or(udp_mtu, |_| mtu_max(port)) }
        }
        Carrier::Stream => LinkKind::Stream,
    }
}

/// The largest MTU that a face can have, octets.
fn mtu_max(port: &FaceSnapshot) -> usize {
    port.mtu.unwrap_or(usize::MAX).clamp(namely_link::MTU_OCTETS_MIN, namely_wire::LP_PACKET_OCTETS_MAX)
}

/// Returns the status of the internal face for management.
pub(super) fn internal_status(id: FaceId, what: &str) -> FaceStatus {
    let uri = FaceUri::Internal.to_string() + what;
    FaceStatus {
        face_id: id.0,
        uri: uri.clone(),
        local_uri: uri,
        face_scope: FaceScope::Local,
        face_persistency: FacePersistency::Permanent,
        link_type: LinkType::PointToPoint,
        base_congestion_marking_interval_ns: Some(0),
        default_congestion_threshold_octets: Some(0),
        flags: face_flags::LOCAL_FIELDS,
        ..FaceStatus::default()
    }
}

/// The face `local`, which leads to the applications that have bound prefixes; `to_local` Interests
/// went there.
pub(super) fn local_status(to_local: u64) -> FaceStatus {
    FaceStatus { out_interests: to_local, flags: 0, ..internal_status(FaceId::LOCAL, "local") }
}

/// Applies the settings that a caller requests for a link.
///
/// # Errors
/// A sentence about the setting that this kind of face does not support.
pub(super) fn configure(
    mut config: LinkConfig,
    settings: &FaceSettings,
    port: &FaceSnapshot,
) -> Result<LinkConfig, &'static str> {
    let reach = port.reach;
    if settings.local_fields == Some(true) && reach != RemoteKind::Local {
        // NextHopFaceId would let a neighbor choose this router's next hops.
        return Err("local fields are for applications on this machine: leave them out");
    }
    if let LinkKind::Datagram { mtu } = &mut config.kind {
        if let Some(wanted) = settings.mtu {
            *mtu = usize::try_from(wanted)
                .unwrap_or(usize::MAX)
                .clamp(namely_link::MTU_OCTETS_MIN, mtu_max(port));
        }
    } else if settings.mtu.is_some() {
        return Err("a stream has no MTU: leave it out");
    }
    if let Some(reliability) = settings.reliability {
        // A stream loses nothing, and in a group no single peer acknowledges (NDNLPv2, link
        // reliability).
        if reliability && (config.kind == LinkKind::Stream || reach == RemoteKind::Group) {
            return Err("link reliability is for UDP and Ethernet faces to one peer: leave it out");
        }
        config.reliability = reliability;
    }
    config.local_fields = settings.local_fields.unwrap_or(config.local_fields);
    if let Some(interval_ns) = settings.marking_interval_ns {
        config.codel.interval_ns = interval_ns;
    }
    if let Some(octets) = settings.marking_threshold_octets {
        config.codel.threshold_octets = usize::try_from(octets).unwrap_or(usize::MAX);
    }
    config.marking = settings.congestion_marking.unwrap_or(config.marking);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_shown_by_interface_name() {
        let address = "[fe80::1%1]:6363".parse().unwrap();
        let uri = FaceUri::Udp(Endpoint::Address(address));
        assert_eq!(shown(&uri), "udp6://[fe80::1%lo]:6363");
        for text in ["udp6://[fe80::1%lo]", "udp://[fe80::1%1]:6363", "udp6://[FE80::1%25lo]:6363"] {
            assert_eq!(canonical(text), shown(&uri), "{text}");
        }
        assert_eq!(canonical("udp://192.0.2.7"), "udp4://192.0.2.7:6363");
        assert_eq!(canonical("no URI"), "no URI");
        assert_eq!(canonical("unix:///x"), "unix:///x");
    }
}
