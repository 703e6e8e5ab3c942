//! Faces as management shows them, and what it may ask of their links.

use namely_forwarder::FaceId;
use namely_io::{Carrier, Persistency, Reach, TransportState, TransportStatus};
use namely_link::{LinkConfig, LinkKind};
use namely_wire::FaceUri;

use super::{FaceCounters, FaceState, FaceStatus};

/// Everything management shows of a face but its packets by kind.
pub(super) fn face_status(
    id: FaceId,
    transport: TransportStatus,
    config: &LinkConfig,
    now_ns: u64,
) -> FaceStatus {
    FaceStatus {
        face_id: id,
        remote: transport.remote,
        local: transport.local,
        is_local: transport.reach == Reach::Local,
        is_multi_access: transport.reach == Reach::Group,
        persistency: transport.persistency,
        state: if transport.state == TransportState::Up { FaceState::Up } else { FaceState::Down },
        local_fields: config.local_fields,
        reliability: config.reliability,
        congestion_marking: config.marking,
        marking_interval_ns: config.codel.interval_ns,
        marking_threshold_octets: config.codel.threshold_octets as u64,
        mtu: match config.kind {
            LinkKind::Stream => None,
            LinkKind::Datagram { mtu } => {
                Some(transport.frame_octets_max.map_or(mtu, |found| found.min(mtu)) as u64)
            }
        },
        expires_in_ns: transport.expires_ns.map(|expires_ns| expires_ns.saturating_sub(now_ns)),
        credentials: transport.credentials,
        counters: FaceCounters {
            in_octets: transport.counters.in_octets,
            out_octets: transport.counters.out_octets,
            queue_octets: transport.queue_octets as u64,
            drops: transport.counters.drops.iter().collect(),
            ..FaceCounters::default()
        },
    }
}

/// What carries the frames of a transport.
pub(super) fn link_kind(transport: &TransportStatus, udp_mtu: usize) -> LinkKind {
    match transport.carrier {
        Carrier::Datagrams => {
            let udp_mtu = transport.path_mtu.map_or(udp_mtu, |path| path.min(udp_mtu));
            LinkKind::Datagram { mtu: transport.mtu.map_or(udp_mtu, |_| mtu_max(transport)) }
        }
        Carrier::Stream => LinkKind::Stream,
    }
}

/// The largest MTU that a transport can have, octets.
fn mtu_max(transport: &TransportStatus) -> usize {
    transport.mtu.unwrap_or(usize::MAX).clamp(namely_link::MTU_OCTETS_MIN, namely_wire::LP_PACKET_OCTETS_MAX)
}

/// The internal face, as management shows it.
pub(super) fn internal_status(id: FaceId, drops: u64) -> FaceStatus {
    FaceStatus {
        face_id: id,
        remote: FaceUri::Internal,
        local: FaceUri::Internal,
        is_local: true,
        is_multi_access: false,
        persistency: Persistency::Permanent,
        state: FaceState::Up,
        local_fields: true,
        reliability: false,
        congestion_marking: false,
        marking_interval_ns: 0,
        marking_threshold_octets: 0,
        mtu: None,
        expires_in_ns: None,
        credentials: None,
        counters: FaceCounters {
            drops: if drops > 0 { vec![("queue_full", drops)] } else { Vec::new() },
            ..FaceCounters::default()
        },
    }
}

/// Applies what a caller asks of a link.
///
/// # Errors
/// What is impossible on this kind of face, in words.
pub(super) fn configure(
    mut config: LinkConfig,
    options: &super::FaceOptions,
    transport: &TransportStatus,
) -> Result<LinkConfig, &'static str> {
    let reach = transport.reach;
    if options.local_fields == Some(true) && reach != Reach::Local {
        // NextHopFaceId would let a neighbour choose this router's next hops.
        return Err("local fields are for applications on this machine: leave them out");
    }
    if let LinkKind::Datagram { mtu } = &mut config.kind {
        if let Some(wanted) = options.mtu {
            *mtu = usize::try_from(wanted)
                .unwrap_or(usize::MAX)
                .clamp(namely_link::MTU_OCTETS_MIN, mtu_max(transport));
        }
    } else if options.mtu.is_some() {
        return Err("a stream has no MTU: leave it out");
    }
    if let Some(reliability) = options.reliability {
        if reliability && (config.kind == LinkKind::Stream || reach == Reach::Group) {
            return Err("link reliability is for UDP and Ethernet faces to one peer: leave it out");
        }
        config.reliability = reliability;
    }
    config.local_fields = options.local_fields.unwrap_or(config.local_fields);
    if let Some(interval_ns) = options.marking_interval_ns {
        config.codel.interval_ns = interval_ns;
    }
    if let Some(octets) = options.marking_threshold_octets {
        config.codel.threshold_octets = usize::try_from(octets).unwrap_or(usize::MAX);
    }
    config.marking = options.congestion_marking.unwrap_or(config.marking);
    Ok(config)
}
