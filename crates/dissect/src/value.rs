//! The meaning of a VALUE as one line of text, and the elements inside it.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write;

use super::OCTETS_SHOWN_MAX;
use super::schema::{Block, Value};
use namely_messages::{Command, Dataset, Request, Scope, numbers};
use namely_wire::AnnouncementView;
use namely_wire::CertificateView;
use namely_wire::DecodeError;
use namely_wire::InterestView;
use namely_wire::LpView;
use namely_wire::encode_time;
use namely_wire::rdr;
use namely_wire::tlv::{self, Reader, Tlv};
use namely_wire::types::*;
use namely_wire::{Component, NameRef};
use namely_wire::{ContentType, DataView};

/// The line for an element.
pub(super) fn text(value: Value, tlv: &Tlv<'_>) -> String {
    match value {
        Value::Inside(Block::Interest) => refusal(InterestView::parse(tlv.raw).err()),
        Value::Inside(Block::Data) => refusal(data_error(tlv.raw)),
        Value::Inside(Block::LinkPacket) => refusal(LpView::parse(tlv.raw).err()),
        Value::Inside(_) => String::new(),
        Value::Name | Value::PacketName => {
            or_octets(NameRef::parse_value(tlv.value).map(|n| n.to_string()), tlv)
        }
        Value::Component => or_octets(Component::parse(tlv.value).map(|c| c.to_string()), tlv),
        Value::Number(unit) => {
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            or_octets(tlv.nni().map(|n| format!("{n}{unit}")), tlv)
        }
        Value::Choice(word) => or_octets(tlv.nni().map(|n| choice(n, word(n))), tlv),
        Value::TimeMs => or_octets(tlv.nni().map(|n| time(n, n / 1000, "ms")), tlv),
        Value::TimeNs => or_octets(tlv.nni().map(|n| time(n, n / 1_000_000_000, "ns")), tlv),
        Value::Octal => or_octets(tlv.nni().map(|n| format!("{n:#o}")), tlv),
        Value::Text => match core::str::from_utf8(tlv.value) {
            Ok(text) => format!("{text:?}"),
            Err(_) => octets(tlv.value),
        },
        Value::Listing => listing(tlv.value),
        Value::Octets | Value::Depends => octets(tlv.value),
    }
}

/// The part of an element that consists of elements, and the block of these elements.
pub(super) fn inside<'a>(value: Value, tlv: &Tlv<'a>) -> Option<(&'a [u8], Block)> {
    match value {
        Value::Inside(block) => Some((tlv.value, block)),
        Value::PacketName => management_argument(NameRef::parse_value(tlv.value).ok()?),
        _ => None,
    }
}

/// The parameters of a command, or the filter of a query, in the component behind the verb.
fn management_argument(name: NameRef<'_>) -> Option<(&[u8], Block)> {
    let argument = name.component(4)?.value;
    let (typ, ..) = tlv::read_header(argument).ok()?;
    let is_argument = [numbers::CONTROL_PARAMETERS, numbers::FACE_QUERY_FILTER].contains(&typ);
    let is_management = name.component(1) == Some(Component::generic(b"nfd"));
    (is_argument && is_management).then_some((argument, Block::Argument))
}

/// The form of the element of `block` that depends on the elements beside it: Content,
/// ApplicationParameters, Fragment.
pub(super) fn depends(block: Block, octets: &[u8]) -> Value {
    match block {
        Block::Data => content(octets).unwrap_or(Value::Octets),
        Block::Interest => application_parameters(octets).unwrap_or(Value::Octets),
        Block::LinkPacket if is_fragmented(octets) => Value::Octets,
        Block::LinkPacket => Value::Inside(Block::Packets),
        _ => Value::Octets,
    }
}

fn find<'a>(octets: &'a [u8], typ: u32) -> Option<Tlv<'a>> {
    let mut reader = Reader::new(octets);
    while let Ok(Some(tlv)) = reader.next_tlv() {
        if tlv.typ == typ {
            return Some(tlv);
        }
    }
    None
}

fn is_fragmented(fields: &[u8]) -> bool {
    find(fields, LP_FRAG_COUNT).and_then(|tlv| tlv.nni().ok()).is_some_and(|n| n != 1)
}

/// A Data's Content, by ContentType and name.
fn content(elements: &[u8]) -> Option<Value> {
    let name = NameRef::parse_value(find(elements, NAME)?.value).ok()?;
    let content_type = find(elements, META_INFO)
        .and_then(|meta| find(meta.value, CONTENT_TYPE))
        .and_then(|tlv| tlv.nni().ok())
        .map_or(ContentType::Blob, ContentType::from_number);
    match content_type {
        ContentType::Link => return Some(Value::Inside(Block::Names)),
        ContentType::Manifest => return Some(Value::Octets),
        ContentType::PrefixAnnouncement => return Some(Value::Inside(Block::Announcement)),
        ContentType::Blob => {}
        _ => return None,
    }
    let from_end = |n: usize| name.len().checked_sub(n).and_then(|at| name.component(at));
    if from_end(3) == Some(rdr::METADATA_COMPONENT) {
        return Some(Value::Inside(Block::Metadata));
    }
    if from_end(3) == Some(rdr::LISTING_COMPONENT) && from_end(1)?.segment() == Some(0) {
        return Some(Value::Listing);
    }
    management_content(elements, name)
}

/// The Content of an answer under `/localhost/nfd` or `/localhop/nfd`.
fn management_content(elements: &[u8], name: NameRef<'_>) -> Option<Value> {
    let content = find(elements, CONTENT)?.value;
    let answers_command = [Scope::Localhost, Scope::Localhop].iter().any(|s| s.prefix().is_prefix_of(name))
        && tlv::read_header(content).is_ok_and(|(typ, ..)| typ == numbers::CONTROL_RESPONSE);
    if answers_command {
        return Some(Value::Inside(Block::Responses));
    }
    let dataset = match Request::of_name(name, None).ok()? {
        Request::Dataset(request) => request.dataset,
        Request::FaceEvents(_) => return Some(Value::Inside(Block::FaceEvents)),
        Request::Command(_) => return None,
    };
    Some(Value::Inside(match dataset {
        Dataset::StatusGeneral => Block::GeneralStatus,
        Dataset::StatusCounters => Block::CounterList,
        Dataset::FacesList | Dataset::FacesQuery => Block::FaceList,
        Dataset::FacesChannels => Block::ChannelList,
        Dataset::FibList => Block::FibList,
        Dataset::RibList => Block::RibList,
        Dataset::StrategyChoiceList => Block::StrategyList,
        Dataset::CsInfo => Block::CsInfoList,
        Dataset::CsDisk => Block::CsDiskList,
        Dataset::CsList => Block::CsListList,
        Dataset::BptList => Block::BptList,
        Dataset::NeighborsList => Block::NeighborList,
        Dataset::NameExplain => Block::ExplainedList,
        Dataset::VipStatus => Block::VipStatusList,
        Dataset::VipObjects => Block::VipObjectList,
        Dataset::VipNeighbours => Block::VipNeighbourList,
    }))
}

/// ApplicationParameters of `rib/announce` are a Data.
fn application_parameters(elements: &[u8]) -> Option<Value> {
    let name = NameRef::parse_value(find(elements, NAME)?.value).ok()?;
    let parameters = find(elements, APPLICATION_PARAMETERS)?.value;
    let Ok(Request::Command(request)) = Request::of_name(name, Some(parameters)) else { return None };
    (request.command == Command::RibAnnounce).then_some(Value::Inside(Block::Packets))
}

fn data_error(wire: &[u8]) -> Option<DecodeError> {
    match DataView::parse(wire) {
        Ok(data) if data.content_type == ContentType::Key => CertificateView::from_data(data).err(),
        Ok(data) if data.content_type == ContentType::PrefixAnnouncement => {
            AnnouncementView::from_data(data).err()
        }
        Ok(_) => None,
        Err(error) => Some(error),
    }
}

fn refusal(error: Option<DecodeError>) -> String {
    error.map_or(String::new(), |error| format!("invalid: {error}"))
}

fn or_octets(text: Result<String, DecodeError>, tlv: &Tlv<'_>) -> String {
    text.unwrap_or_else(|error| format!("invalid: {error}: {}", octets(tlv.value)))
}

fn choice(n: u64, word: &str) -> String {
    if word.is_empty() { n.to_string() } else { format!("{word} ({n})") }
}

fn time(n: u64, unix_s: u64, unit: &str) -> String {
    format!("{n} {unit} ({} UTC)", encode_time(unix_s).escape_ascii())
}

fn listing(content: &[u8]) -> String {
    let mut text = String::new();
    let shown = &content[..content.len().min(OCTETS_SHOWN_MAX)];
    for name in shown.split_inclusive(|b| *b == 0) {
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{}", name.escape_ascii());
    }
    text + ellipsis(content)
}

/// Octets as quoted text if all are printable, otherwise in hexadecimal.
pub(super) fn octets(octets: &[u8]) -> String {
    let shown = &octets[..octets.len().min(OCTETS_SHOWN_MAX)];
    if octets.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    if shown.iter().all(|b| matches!(b, b' '..=b'~' | b'\n' | b'\t')) {
        let _ = write!(text, "\"{}\"", shown.escape_ascii());
    } else {
        for b in shown {
            let _ = write!(text, "{b:02x}");
        }
    }
    text + ellipsis(octets)
}

fn ellipsis(octets: &[u8]) -> &'static str {
    if octets.len() > OCTETS_SHOWN_MAX { "…" } else { "" }
}
