//! Support for sockets of names and contents: the fields of a packet, packets made of an
//! application's fields, and the transfer of an object's segments (namely-window).

use alloc::boxed::Box;
use alloc::vec::Vec;

use namely_forwarder::PacketBuf;
use namely_window::{Fate, Fault, Refusal, Step, Transfer};
use namely_wire::types::{DATA, INTEREST};
use namely_wire::{
    ContentType, DataView, InterestView, LpView, NackReason, NameRef, PACKET_OCTETS_MAX, PlacedData,
    PlacedInterest, PlacedName, SignatureOctets, SignatureType,
};

use crate::home::sha256;
use crate::instance::{Answer, Refused};
use crate::skb::Skb;

/// The value in the place of an absent segment number.
const NO_SEGMENT: u64 = u64::MAX;

/// `struct nn_said` of nnet.h: the fields of a packet that was read or will be created. Positions
/// are offsets in the packet.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct PacketFields {
    /// The segment number at the end of the name, or [`NO_SEGMENT`].
    segment: u64,
    /// The segment number in FinalBlockId, or [`NO_SEGMENT`].
    last_segment: u64,
    /// InterestLifetime or FreshnessPeriod.
    time_ms: u32,
    name_at: u16,
    name_len: u16,
    /// Length of the name without its segment number.
    prefix_len: u16,
    content_at: u16,
    content_len: u16,
    /// SignatureInfo and SignatureValue.
    signature_at: u16,
    signature_len: u16,
    /// NackReason.
    reason: u16,
    kind: u8,
    flags: u8,
}

/// Kinds and flags, by their numbers in uapi/nnet.h.
const KIND_INTEREST: u8 = 1;
const KIND_DATA: u8 = 2;
const KIND_NACK: u8 = 3;
const CAN_BE_PREFIX: u8 = 1;
const MUST_BE_FRESH: u8 = 2;
const MARKED: u8 = 4;
const DENIED: u8 = 8;

/// Reads a packet, bare or with NDNLPv2's headers. Refuses a Data with a wrong DigestSha256.
#[inline(never)]
pub(crate) fn read(packet: &[u8], said: &mut PacketFields) -> Answer {
    let view = LpView::parse(packet).map_err(|_| Refused::Invalid)?;
    let fragment = view.fragment.filter(|_| view.frag_count == 1).ok_or(Refused::Invalid)?;
    let place = |part: &[u8]| (part.as_ptr().addr().wrapping_sub(packet.as_ptr().addr())) as u16;
    *said = PacketFields { segment: NO_SEGMENT, last_segment: NO_SEGMENT, ..PacketFields::default() };
    let name = match fragment.first().map(|typ| u32::from(*typ)) {
        Some(INTEREST) => read_interest(fragment, said)?,
        Some(DATA) => read_data(fragment, said, &place)?,
        _ => return Err(Refused::Invalid),
    };
    if view.headers.is_marked() {
        said.flags |= MARKED;
    }
    if let Some(reason) = view.headers.nack {
        said.kind = KIND_NACK;
        said.reason = u16::try_from(reason.number()).unwrap_or(u16::MAX);
    }
    said.name_at = place(name.as_bytes());
    said.name_len = name.as_bytes().len() as u16;
    said.prefix_len = said.name_len;
    if let Some(segment) = name.last().and_then(|last| last.segment()) {
        said.segment = segment;
        said.prefix_len = name.without_last(1).as_bytes().len() as u16;
    }
    Ok(0)
}

fn read_interest<'a>(packet: &'a [u8], said: &mut PacketFields) -> Result<NameRef<'a>, Refused> {
    let interest = InterestView::parse(packet).map_err(|_| Refused::Invalid)?;
    said.kind = KIND_INTEREST;
    said.time_ms = u32::try_from(interest.lifetime_or_default_ms()).unwrap_or(u32::MAX);
    if interest.can_be_prefix {
        said.flags |= CAN_BE_PREFIX;
    }
    if interest.must_be_fresh {
        said.flags |= MUST_BE_FRESH;
    }
    Ok(interest.name)
}

fn read_data<'a>(
    packet: &'a [u8],
    said: &mut PacketFields,
    place: &impl Fn(&[u8]) -> u16,
) -> Result<NameRef<'a>, Refused> {
    let data = DataView::parse(packet).map_err(|_| Refused::Invalid)?;
    if data.signature_type == SignatureType::DigestSha256
        && data.signature_value != sha256(data.signed_portion)
    {
        return Err(Refused::BadDigest);
    }
    said.kind = KIND_DATA;
    said.time_ms = u32::try_from(data.freshness_ms).unwrap_or(u32::MAX);
    if data.content_type == ContentType::Nack {
        said.flags |= DENIED;
    }
    if !data.content.is_empty() {
        said.content_at = place(data.content);
        said.content_len = data.content.len() as u16;
    }
    if let Some(last) = data.final_block_id.and_then(|last| last.segment()) {
        said.last_segment = last;
    }
    // From SignatureInfo's TYPE to the end. TYPE is one octet; LENGTH is one octet or three.
    let info = place(data.signature_info_value) - if data.signature_info_value.len() > 252 { 4 } else { 2 };
    let end = place(data.signature_value) + data.signature_value.len() as u16;
    said.signature_at = info;
    said.signature_len = end - info;
    Ok(data.name)
}

/// Makes an Interest for a prefix, with the fields of `said`.
#[inline(never)]
pub(crate) fn interest(prefix: NameRef<'_>, said: &PacketFields, nonce: u64) -> Result<Skb, Refused> {
    let interest = PlacedInterest {
        name: placed(prefix, said)?,
        can_be_prefix: said.flags & CAN_BE_PREFIX != 0,
        must_be_fresh: said.flags & MUST_BE_FRESH != 0,
        nonce: (nonce as u32).to_be_bytes(),
        lifetime_ms: u64::from(said.time_ms),
    };
    if interest.octets() > PACKET_OCTETS_MAX {
        return Err(Refused::TooLong);
    }
    Skb::build(interest.octets(), |octets| interest.write(octets)).ok_or(Refused::NoMemory)
}

fn placed<'a>(prefix: NameRef<'a>, said: &PacketFields) -> Result<PlacedName<'a>, Refused> {
    let segment = Some(said.segment).filter(|segment| *segment != NO_SEGMENT);
    if prefix.is_empty() && segment.is_none() {
        return Err(Refused::Invalid);
    }
    Ok(PlacedName { prefix, segment })
}

/// Makes a Data around the content in `space`. Returns its start in the upper half of the number,
/// and its end in the lower.
#[inline(never)]
pub(crate) fn data(prefix: NameRef<'_>, signature: &[u8], said: &PacketFields, space: &mut [u8]) -> Answer {
    let signature = match signature {
        [] => None,
        given => Some(SignatureOctets::parse(given).map_err(|_| Refused::Invalid)?),
    };
    let data = PlacedData {
        name: placed(prefix, said)?,
        freshness_ms: u64::from(said.time_ms),
        last_segment: Some(said.last_segment).filter(|last| *last != NO_SEGMENT),
        signature,
    };
    let start = usize::from(said.content_at);
    let content = start..start + usize::from(said.content_len);
    let whole = data.write(space, content, sha256).ok_or(Refused::TooLong)?;
    if whole.len() > PACKET_OCTETS_MAX {
        return Err(Refused::TooLong);
    }
    Ok((whole.start as u64) << 32 | whole.end as u64)
}

/// The requests of a transfer, by the numbers in nnet.h.
const STEP_ASK: u64 = 0;
const STEP_WAIT: u64 = 1;
const STEP_ENDED: u64 = 2;
const STEP_TIMED_OUT: u64 = 3;
const STEP_NO_ROUTE: u64 = 4;
const STEP_REFUSED: u64 = 5;

/// Creates a transfer in a context that may wait. Fails without memory. The transfer may be freed
/// as a `Box<Transfer>`.
pub(crate) fn make_transfer() -> Result<*mut Transfer, Refused> {
    let mut place = Vec::new();
    place.try_reserve_exact(1).map_err(|_| Refused::NoMemory)?;
    place.push(Transfer::new().ok_or(Refused::NoMemory)?);
    // A slice of exactly one element has the layout of a `Box` of it.
    Ok(Box::into_raw(place.into_boxed_slice()).cast())
}

/// Returns the next step of a transfer: its number, and the Interest to send or the time until
/// which it has no work, ns.
#[inline(never)]
pub(crate) fn next(
    transfer: &mut Transfer,
    prefix: NameRef<'_>,
    room: u32,
    nonce: u64,
    now_ns: u64,
) -> Result<(u64, Option<Skb>, u64), Refused> {
    Ok(match transfer.next(now_ns, room) {
        Step::Request { segment, lifetime_ms } => {
            let said = PacketFields { segment, time_ms: lifetime_ms, ..PacketFields::default() };
            // Without memory this Interest is lost. The segment's timer requests it again.
            (STEP_ASK, Some(interest(prefix, &said, nonce)?), 0)
        }
        Step::Wait { until_ns } => (STEP_WAIT, None, until_ns),
        Step::Ended => (STEP_ENDED, None, 0),
        Step::Failed(Fault::TimedOut) => (STEP_TIMED_OUT, None, 0),
        Step::Failed(Fault::NoRoute) => (STEP_NO_ROUTE, None, 0),
        Step::Failed(Fault::Refused) => (STEP_REFUSED, None, 0),
    })
}

/// Passes a received packet to a transfer. Returns 1 if the transfer does not use it.
#[inline(never)]
pub(crate) fn tell(transfer: &mut Transfer, said: &PacketFields, now_ns: u64) -> Answer {
    if said.segment == NO_SEGMENT {
        return Ok(1);
    }
    if said.kind == KIND_NACK {
        let why = match NackReason::from_number(u64::from(said.reason)) {
            NackReason::Congestion => Refusal::Congestion,
            NackReason::Duplicate => Refusal::Duplicate,
            NackReason::NoRoute => Refusal::NoRoute,
            NackReason::None | NackReason::Other(_) => Refusal::Other,
        };
        transfer.refused(said.segment, why, now_ns);
        return Ok(0);
    }
    let last = Some(said.last_segment).filter(|last| *last != NO_SEGMENT);
    match transfer.data(said.segment, last, said.flags & MARKED != 0, now_ns) {
        Fate::NotRequested => Ok(1),
        Fate::Taken if said.flags & DENIED != 0 => {
            transfer.denied();
            Ok(1)
        }
        Fate::Taken => Ok(0),
    }
}
