//! A packet in one line, as a capture lists it.

use alloc::format;
use alloc::string::String;

use namely_wire::DataView;
use namely_wire::InterestView;
use namely_wire::LpView;
use namely_wire::tlv;
use namely_wire::types::*;

/// One line for a link packet: its kind, its name, and its special fields.
///
/// ```
/// use namely_dissect::summary;
/// assert_eq!(summary(&[5, 7, 7, 3, 8, 1, b'a', 33, 0]), "Interest /a CanBePrefix");
/// assert_eq!(summary(&[100, 0]), "idle");
/// assert_eq!(summary(b"GET /"), "invalid: the input ends inside an element");
/// ```
pub fn summary(octets: &[u8]) -> String {
    let link = match LpView::parse(octets) {
        Ok(link) => link,
        Err(error) => return format!("invalid: {error}"),
    };
    let mut text = match (link.headers.nack, link.fragment) {
        (_, None) => String::from("idle"),
        (_, Some(octets)) if link.frag_count != 1 => {
            format!("fragment {} of {}, {} octets", link.frag_index, link.frag_count, octets.len())
        }
        (Some(reason), Some(packet)) => format!("Nack {reason}, {}", network_packet(packet)),
        (None, Some(packet)) => network_packet(packet),
    };
    if link.headers.is_marked() {
        text += ", marked";
    }
    match link.acks().count() {
        0 => text,
        acks => format!("{text}, {acks} acks"),
    }
}

fn network_packet(packet: &[u8]) -> String {
    let text = match tlv::read_header(packet) {
        Ok((INTEREST, ..)) => InterestView::parse(packet).map(|view| interest(&view)),
        Ok((DATA, ..)) => DataView::parse(packet).map(|view| data(&view)),
        Ok((typ, ..)) => return format!("TYPE {typ}, {} octets", packet.len()),
        Err(error) => Err(error),
    };
    text.unwrap_or_else(|error| format!("invalid: {error}"))
}

fn interest(view: &InterestView<'_>) -> String {
    let mut text = format!("Interest {}", view.name);
    for (set, word) in [
        (view.can_be_prefix, " CanBePrefix"),
        (view.must_be_fresh, " MustBeFresh"),
        (view.forwarding_hint_value.is_some(), " ForwardingHint"),
        (view.signature_value.is_some(), " signed"),
    ] {
        if set {
            text += word;
        }
    }
    text
}

fn data(view: &DataView<'_>) -> String {
    format!("Data {}, {} octets of content, {:?}", view.name, view.content.len(), view.signature_type)
}
