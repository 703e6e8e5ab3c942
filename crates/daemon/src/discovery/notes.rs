//! What discovery writes to the log: a line for each event.

use namely_discovery::{Note, Station};

use super::view::hex;

/// Writes it.
pub(super) fn log(device: &str, station: Station, note: &Note) {
    match note {
        Note::Proven { mtu, key } => {
            tracing::info!("neighbour {station} on {device}: MTU {mtu}, key {}", hex(key));
        }
        Note::Expired => tracing::info!("neighbour {station} on {device} is gone: not heard any more"),
        Note::Left => tracing::info!("neighbour {station} on {device} has left"),
        Note::Mtu(mtu) => tracing::info!("neighbour {station} on {device}: MTU {mtu} from now on"),
        Note::Accepted(prefix) => {
            tracing::info!("neighbour {station} on {device} announces {prefix}: a route now");
        }
        Note::Refused(prefix) => tracing::warn!(
            "neighbour {station} on {device} announces {prefix}, which no rule accepts: no route \
             ([[discovery.accept]] has such rules)"
        ),
        Note::OtherKey => tracing::warn!(
            "{station} on {device} speaks under another key than before, and is not believed: somebody \
             pretends to be that neighbour, or it was set up anew, which is accepted a minute after the old one has gone"
        ),
        Note::MtuTooSmall(mtu) => tracing::warn!(
            "{station} on {device} has an MTU of {mtu}, less than discovery.mtu_octets_min: no neighbour"
        ),
        Note::Quarantined => {
            tracing::warn!(
                "{station} on {device} is not listened to for some time: too much of what it says is wrong"
            );
        }
        Note::NoRoom => {
            tracing::warn!("{station} on {device} is one neighbour too many: see discovery.neighbours_max")
        }
    }
}
