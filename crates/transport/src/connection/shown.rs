//! Logs each packet, at the level `trace` only. At other levels it costs one comparison.

use namely_wire::{DataView, InterestView, LpHeaders, tlv, types};
use tracing::Level;

/// Logs a packet that was queued.
#[inline]
pub(super) fn sent(headers: &LpHeaders, wire: &[u8]) {
    if tracing::enabled!(Level::TRACE) {
        log_packet("sent", headers, wire);
    }
}

/// Logs a received packet.
#[inline]
pub(super) fn received(headers: &LpHeaders, wire: &[u8]) {
    if tracing::enabled!(Level::TRACE) {
        log_packet("received", headers, wire);
    }
}

// Formatting stays out of the code of the packet path.
#[cold]
fn log_packet(what: &str, headers: &LpHeaders, wire: &[u8]) {
    let octets = wire.len();
    let mark = if headers.congestion_mark.is_some() { ", marked" } else { "" };
    match tlv::read_header(wire).map(|(typ, ..)| typ) {
        Ok(types::INTEREST) => {
            let Ok(view) = InterestView::parse(wire) else { return };
            let kind = match headers.nack {
                Some(reason) => format!("Nack ({reason}) of"),
                None => "Interest".to_owned(),
            };
            let prefix = if view.can_be_prefix { ", CanBePrefix" } else { "" };
            let fresh = if view.must_be_fresh { ", MustBeFresh" } else { "" };
            tracing::trace!("{what} {kind} {}{prefix}{fresh}, {octets} octets{mark}", view.name);
        }
        Ok(types::DATA) => {
            let Ok(view) = DataView::parse(wire) else { return };
            tracing::trace!("{what} Data {}, {octets} octets{mark}", view.name);
        }
        _ => {}
    }
}
