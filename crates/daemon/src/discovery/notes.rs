//! Writes the events of discovery to the log, one line each.

use namely_discovery::{LinkAddress, Note};

use super::view::hex;

/// Logs an event.
pub(super) fn log(device: &str, station: LinkAddress, note: &Note) {
    match note {
        Note::Proven { mtu, key } => {
            tracing::info!(%station, device, mtu, key = %hex(key), "a new neighbor");
        }
        Note::Expired => tracing::info!(%station, device, "a neighbor has expired: no more hellos"),
        Note::Left => tracing::info!(%station, device, "a neighbor has left"),
        Note::Mtu(mtu) => tracing::info!(%station, device, mtu, "the MTU of a neighbor has changed"),
        Note::Accepted(prefix) => {
            tracing::info!(%station, device, %prefix, "a neighbor announces a prefix: route added");
        }
        Note::Refused(prefix) => tracing::warn!(
            %station, device, %prefix,
            "a neighbor announces a prefix, which no rule accepts: no route ([[discovery.accept]] has such rules)"
        ),
        Note::OtherKey => tracing::warn!(
            %station, device,
            "a station uses another key than before, and is rejected: another station impersonates that neighbor, or \
             it was set up anew, which is accepted a minute after the old one has expired"
        ),
        Note::MtuTooSmall(mtu) => tracing::warn!(
            %station, device, mtu,
            "the MTU of a station is less than discovery.mtu_octets_min: not a neighbor"
        ),
        Note::Quarantined => {
            tracing::warn!(%station, device, "a station is in quarantine: too many of its messages are wrong");
        }
        Note::NoRoom => {
            tracing::warn!(%station, device, "no room for a station: see discovery.neighbours_max");
        }
    }
}
