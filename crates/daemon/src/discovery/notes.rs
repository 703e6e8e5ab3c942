//! Writes the events of discovery to the log, one line each.

use namely_discovery::{LinkAddress, Note};

use super::view::hex;

/// Logs an event.
pub(super) fn log(device: &str, station: LinkAddress, note: &Note) {
    match note {
        Note::Proven { mtu, key } => {
            tracing::info!("neighbor {station} on {device}: MTU {mtu}, key {}", hex(key));
        }
        Note::Expired => tracing::info!("neighbor {station} on {device} has expired: no more hellos"),
        Note::Left => tracing::info!("neighbor {station} on {device} has left"),
        Note::Mtu(mtu) => tracing::info!("neighbor {station} on {device}: the MTU is now {mtu}"),
        Note::Accepted(prefix) => {
            tracing::info!("neighbor {station} on {device} announces {prefix}: route added");
        }
        Note::Refused(prefix) => tracing::warn!(
            "neighbor {station} on {device} announces {prefix}, which no rule accepts: no route \
             ([[discovery.accept]] has such rules)"
        ),
        Note::OtherKey => tracing::warn!(
            "{station} on {device} uses another key than before, and is rejected: another station \
             impersonates that neighbor, or it was set up anew, which is accepted a minute after the old one has expired"
        ),
        Note::MtuTooSmall(mtu) => tracing::warn!(
            "{station} on {device} has an MTU of {mtu}, less than discovery.mtu_octets_min: not a neighbor"
        ),
        Note::Quarantined => {
            tracing::warn!("{station} on {device} is in quarantine: too many of its messages are wrong");
        }
        Note::NoRoom => {
            tracing::warn!("no room for {station} on {device}: see discovery.neighbours_max")
        }
    }
}
