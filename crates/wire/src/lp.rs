//! NDNLPv2 link packets: a checked view of every field, and the header before a fragment.
//!
//! A bare Interest or Data is an LpPacket with only a fragment; [`LpView::parse`] accepts both.
//! `namely-link` handles reassembly, acknowledgements and marks.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::error::DecodeError;
use crate::tlv::{self, Reader, Writer};
use crate::types::*;

/// Octets of a PIT token.
///
/// # Limit
/// The link packet is refused.
/// - Counter: `bad_length`
/// - Tests: `pit_tokens_have_1_to_32_octets`
pub const PIT_TOKEN_OCTETS_MAX: usize = 32;

/// An opaque token that the answering peer copies from an Interest to the answer: 1..=32 octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PitToken {
    length: u8,
    octets: [u8; PIT_TOKEN_OCTETS_MAX],
}

impl PitToken {
    /// Creates a token of 1 to 32 octets; `None` for other lengths.
    pub fn new(token: &[u8]) -> Option<Self> {
        if token.is_empty() || token.len() > PIT_TOKEN_OCTETS_MAX {
            return None;
        }
        let mut octets = [0; PIT_TOKEN_OCTETS_MAX];
        octets[..token.len()].copy_from_slice(token);
        Some(PitToken { length: token.len() as u8, octets })
    }

    /// Returns the token's octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

impl fmt::Debug for PitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The reason for which an Interest was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NackReason {
    /// 0 or absent.
    None,
    /// 50.
    Congestion,
    /// 100.
    Duplicate,
    /// 150.
    NoRoute,
    /// An unknown reason.
    Other(u64),
}

impl NackReason {
    /// Returns the number on the wire.
    pub fn number(self) -> u64 {
        match self {
            NackReason::None => 0,
            NackReason::Congestion => 50,
            NackReason::Duplicate => 100,
            NackReason::NoRoute => 150,
            NackReason::Other(n) => n,
        }
    }

    /// Returns the reason for a number on the wire.
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => NackReason::None,
            50 => NackReason::Congestion,
            100 => NackReason::Duplicate,
            150 => NackReason::NoRoute,
            n => NackReason::Other(n),
        }
    }
}

impl fmt::Display for NackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NackReason::None => f.write_str("None"),
            NackReason::Congestion => f.write_str("Congestion"),
            NackReason::Duplicate => f.write_str("Duplicate"),
            NackReason::NoRoute => f.write_str("NoRoute"),
            NackReason::Other(n) => write!(f, "{n}"),
        }
    }
}

/// The network-layer headers of a packet: small, owned, and cheap to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LpHeaders {
    /// PitToken.
    pub pit_token: Option<PitToken>,
    /// Nack; the packet is then the refused Interest.
    pub nack: Option<NackReason>,
    /// IncomingFaceId.
    pub incoming_face_id: Option<u64>,
    /// NextHopFaceId.
    pub next_hop_face_id: Option<u64>,
    /// CachePolicyType; 1 is NoCache.
    pub cache_policy: Option<u64>,
    /// CongestionMark; a nonzero number signals congestion.
    pub congestion_mark: Option<u64>,
    /// NonDiscovery.
    pub non_discovery: bool,
}

/// CachePolicyType: do not cache.
pub const CACHE_POLICY_NO_CACHE: u64 = 1;

impl LpHeaders {
    /// Returns true if no header is set, so that the packet is sent bare.
    pub fn is_empty(&self) -> bool {
        *self == LpHeaders::default()
    }

    /// Returns true if the congestion mark is set and not 0.
    pub fn is_marked(&self) -> bool {
        self.congestion_mark.is_some_and(|mark| mark != 0)
    }

    fn encode_before_fragment(&self, w: &mut Writer) {
        if let Some(token) = &self.pit_token {
            w.tlv(LP_PIT_TOKEN, token.as_bytes());
        }
        if let Some(reason) = self.nack {
            w.nested(LP_NACK, |w| {
                if reason != NackReason::None {
                    w.nni(LP_NACK_REASON, reason.number());
                }
            });
        }
        if let Some(id) = self.incoming_face_id {
            w.nni(LP_INCOMING_FACE_ID, id);
        }
        if let Some(id) = self.next_hop_face_id {
            w.nni(LP_NEXT_HOP_FACE_ID, id);
        }
        if let Some(policy) = self.cache_policy {
            w.nested(LP_CACHE_POLICY, |w| {
                w.nni(LP_CACHE_POLICY_TYPE, policy);
            });
        }
        if let Some(mark) = self.congestion_mark {
            w.nni(LP_CONGESTION_MARK, mark);
        }
    }
}

/// The link-layer fields of one outgoing link packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LpFraming<'a> {
    /// Sequence.
    pub sequence: Option<u64>,
    /// FragIndex; omitted when 0.
    pub frag_index: u64,
    /// FragCount; omitted when 1.
    pub frag_count: u64,
    /// TxSequence.
    pub tx_sequence: Option<u64>,
    /// Acks to carry.
    pub acks: &'a [u64],
    /// Octets of a field of zeros that receivers ignore, including its TYPE and LENGTH: 4 to 256,
    /// or 0 for none. It pads link packets to equal length.
    pub padding_octets: usize,
}

/// Appends to `out` all octets of an LpPacket before the fragment's own: the outer header, all
/// fields in ascending order of TYPE, and the Fragment's TYPE and LENGTH. The caller sends
/// `fragment_octets` octets immediately after them. Without `fragment_octets` the packet is IDLE.
pub fn encode_lp_header(
    headers: &LpHeaders,
    framing: &LpFraming<'_>,
    prefix_announcement: Option<&[u8]>,
    fragment_octets: Option<usize>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let mut w = Writer::from_vec(core::mem::take(out));
    encode_fields(headers, framing, prefix_announcement, &mut w);
    if let Some(octets) = fragment_octets {
        w.header(LP_FRAGMENT, octets);
    }
    let octets = w.len() - start + fragment_octets.unwrap_or(0);
    w.header_at(start, LP_PACKET, octets);
    *out = w.into_vec();
}

/// Appends to `out` all octets of an LpPacket before its PrefixAnnouncement. The caller sends
/// `octets` octets immediately after them: the output of [`encode_lp_announcement`], and the
/// fragment's own octets.
pub fn encode_lp_announced_header(
    headers: &LpHeaders,
    framing: &LpFraming<'_>,
    octets: usize,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let mut w = Writer::from_vec(core::mem::take(out));
    encode_fields(headers, framing, None, &mut w);
    let octets = w.len() - start + octets;
    w.header_at(start, LP_PACKET, octets);
    *out = w.into_vec();
}

/// Appends to `out` the PrefixAnnouncement field, and the Fragment's TYPE and LENGTH.
pub fn encode_lp_announcement(announcement: &[u8], fragment_octets: usize, out: &mut Vec<u8>) {
    let mut w = Writer::from_vec(core::mem::take(out));
    w.tlv(LP_PREFIX_ANNOUNCEMENT, announcement);
    w.header(LP_FRAGMENT, fragment_octets);
    *out = w.into_vec();
}

fn encode_fields(
    headers: &LpHeaders,
    framing: &LpFraming<'_>,
    prefix_announcement: Option<&[u8]>,
    w: &mut Writer,
) {
    if let Some(sequence) = framing.sequence {
        w.tlv(LP_SEQUENCE, &sequence.to_be_bytes());
    }
    if framing.frag_index > 0 {
        w.nni(LP_FRAG_INDEX, framing.frag_index);
    }
    if framing.frag_count > 1 {
        w.nni(LP_FRAG_COUNT, framing.frag_count);
    }
    headers.encode_before_fragment(w);
    for ack in framing.acks {
        w.tlv(LP_ACK, &ack.to_be_bytes());
    }
    if let Some(sequence) = framing.tx_sequence {
        w.tlv(LP_TX_SEQUENCE, &sequence.to_be_bytes());
    }
    if headers.non_discovery {
        w.tlv(LP_NON_DISCOVERY, &[]);
    }
    if let Some(announcement) = prefix_announcement {
        w.tlv(LP_PREFIX_ANNOUNCEMENT, announcement);
    }
    if let Some(zeros) = framing.padding_octets.checked_sub(LP_PADDING_HEADER_OCTETS) {
        w.tlv(LP_PADDING, &[0; 252][..zeros.min(252)]);
    }
}

/// Octets of the TYPE and LENGTH of a padding field.
const LP_PADDING_HEADER_OCTETS: usize = 3 + 1;

/// Minimum size of a link packet of [`encode_lp_probe`] in octets.
pub(crate) const LP_PROBE_OCTETS_MIN: usize = 300;

/// Appends to `out` the octets before the padding of an IDLE LpPacket of `octets` in total, with
/// this TxSequence. Returns the number of zeros that the caller has to send immediately after them;
/// `None` if `octets` is less than 300 or does not fit a datagram.
pub fn encode_lp_probe(tx_sequence: u64, octets: usize, out: &mut Vec<u8>) -> Option<usize> {
    // TYPE and LENGTH of the packet, TxSequence, TYPE and LENGTH of the padding. Lengths take 3
    // octets in this range.
    const HEADER_OCTETS: usize = (1 + 3) + (3 + 1 + 8) + (3 + 3);
    let is_possible = (LP_PROBE_OCTETS_MIN..=usize::from(u16::MAX)).contains(&octets);
    let padding_octets = octets.checked_sub(HEADER_OCTETS).filter(|_| is_possible)?;
    let start = out.len();
    let mut w = Writer::from_vec(core::mem::take(out));
    w.tlv(LP_TX_SEQUENCE, &tx_sequence.to_be_bytes());
    w.header(LP_PADDING, padding_octets);
    let value_octets = w.len() - start + padding_octets;
    w.header_at(start, LP_PACKET, value_octets);
    *out = w.into_vec();
    Some(padding_octets)
}

/// Encodes `packet` inside an LpPacket with `headers`, or bare when there are none.
pub fn encode_lp_packet(headers: &LpHeaders, packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(packet.len() + 64);
    if !headers.is_empty() {
        encode_lp_header(headers, &LpFraming::default(), None, Some(packet.len()), &mut out);
    }
    out.extend_from_slice(packet);
    out
}

/// A checked view of a link packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LpView<'a> {
    /// The network-layer headers.
    pub headers: LpHeaders,
    /// Sequence.
    pub sequence: Option<u64>,
    /// FragIndex; 0 when absent.
    pub frag_index: u64,
    /// FragCount; 1 when absent.
    pub frag_count: u64,
    /// TxSequence.
    pub tx_sequence: Option<u64>,
    /// PrefixAnnouncement's VALUE: a Data TLV.
    pub prefix_announcement: Option<&'a [u8]>,
    /// Fragment's VALUE; `None` in an IDLE packet.
    pub fragment: Option<&'a [u8]>,
    fields: &'a [u8],
    octets: usize,
}

impl<'a> LpView<'a> {
    /// Checks `wire` as one link packet: an LpPacket, or a bare Interest or Data.
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly one well-formed packet, or an LpPacket with an unknown critical
    /// header field.
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let outer = tlv::read_tlv(wire)?;
        if outer.raw.len() != wire.len() {
            return Err(DecodeError::TrailingOctets);
        }
        let mut view = LpView {
            headers: LpHeaders::default(),
            sequence: None,
            frag_index: 0,
            frag_count: 1,
            tx_sequence: None,
            prefix_announcement: None,
            fragment: None,
            fields: outer.value,
            octets: wire.len(),
        };
        match outer.typ {
            LP_PACKET => view.parse_fields(Reader::new(outer.value))?,
            INTEREST | DATA => {
                view.fragment = Some(wire);
                view.fields = &[];
            }
            typ => return Err(DecodeError::UnexpectedType(typ)),
        }
        Ok(view)
    }

    fn parse_fields(&mut self, mut reader: Reader<'a>) -> Result<(), DecodeError> {
        let mut seen = 0u32;
        while let Some(tlv) = reader.next_tlv()? {
            if self.fragment.is_some() {
                // Fragment is the last element, so any element after it is out of order.
                return Err(DecodeError::UnknownCritical(tlv.typ));
            }
            let Some(bit) = FIELDS.iter().position(|t| *t == tlv.typ) else {
                ignore_unknown_field(tlv.typ)?;
                continue;
            };
            if tlv.typ != LP_ACK && seen & 1 << bit != 0 {
                return Err(DecodeError::Repeated(tlv.typ));
            }
            seen |= 1 << bit;
            self.parse_field(&tlv)?;
        }
        if self.headers.nack.is_some() && self.fragment.is_none() {
            return Err(DecodeError::Missing(LP_FRAGMENT));
        }
        Ok(())
    }

    fn parse_field(&mut self, tlv: &tlv::Tlv<'a>) -> Result<(), DecodeError> {
        let headers = &mut self.headers;
        match tlv.typ {
            LP_FRAGMENT => self.fragment = Some(tlv.value),
            LP_SEQUENCE => self.sequence = Some(fixed_u64(tlv)?),
            LP_FRAG_INDEX => self.frag_index = tlv.nni()?,
            LP_FRAG_COUNT => self.frag_count = tlv.nni()?,
            LP_PIT_TOKEN => {
                headers.pit_token =
                    Some(PitToken::new(tlv.value).ok_or(DecodeError::BadLength(LP_PIT_TOKEN))?);
            }
            LP_NACK => headers.nack = Some(parse_nack(tlv.value)?),
            LP_INCOMING_FACE_ID => headers.incoming_face_id = Some(tlv.nni()?),
            LP_NEXT_HOP_FACE_ID => headers.next_hop_face_id = Some(tlv.nni()?),
            LP_CACHE_POLICY => headers.cache_policy = Some(parse_cache_policy(tlv.value)?),
            LP_CONGESTION_MARK => headers.congestion_mark = Some(tlv.nni()?),
            LP_ACK => {
                fixed_u64(tlv)?;
            }
            LP_TX_SEQUENCE => self.tx_sequence = Some(fixed_u64(tlv)?),
            LP_NON_DISCOVERY => headers.non_discovery = tlv.is_flag()?,
            _ => self.prefix_announcement = Some(tlv.value),
        }
        Ok(())
    }

    /// Returns the range of Fragment's VALUE in the parsed octets: their end, because Fragment is
    /// the last element.
    pub fn fragment_range(&self) -> Option<Range<usize>> {
        self.fragment.map(|fragment| self.octets - fragment.len()..self.octets)
    }

    /// Returns the Acks of the packet.
    pub fn acks(&self) -> impl Iterator<Item = u64> + use<'a> {
        let mut reader = Reader::new(self.fields);
        core::iter::from_fn(move || {
            loop {
                let tlv = reader.next_tlv().ok()??;
                if tlv.typ == LP_ACK {
                    return fixed_u64(&tlv).ok();
                }
            }
        })
    }
}

const FIELDS: [u32; 14] = [
    LP_FRAGMENT,
    LP_SEQUENCE,
    LP_FRAG_INDEX,
    LP_FRAG_COUNT,
    LP_PIT_TOKEN,
    LP_NACK,
    LP_INCOMING_FACE_ID,
    LP_NEXT_HOP_FACE_ID,
    LP_CACHE_POLICY,
    LP_CONGESTION_MARK,
    LP_ACK,
    LP_TX_SEQUENCE,
    LP_NON_DISCOVERY,
    LP_PREFIX_ANNOUNCEMENT,
];

/// Applies NDNLPv2's own rule: an unknown field may be ignored only if its TYPE is 800..=959 with
/// both low bits 0.
fn ignore_unknown_field(typ: u32) -> Result<(), DecodeError> {
    if (800..=959).contains(&typ) && typ & 3 == 0 { Ok(()) } else { Err(DecodeError::UnknownCritical(typ)) }
}

fn fixed_u64(tlv: &tlv::Tlv<'_>) -> Result<u64, DecodeError> {
    <[u8; 8]>::try_from(tlv.value).map(u64::from_be_bytes).map_err(|_| DecodeError::BadLength(tlv.typ))
}

fn parse_nack(value: &[u8]) -> Result<NackReason, DecodeError> {
    let mut reader = Reader::new(value);
    let mut reason = NackReason::None;
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            LP_NACK_REASON => reason = NackReason::from_number(tlv.nni()?),
            typ => ignore_unknown_field(typ)?,
        }
    }
    Ok(reason)
}

fn parse_cache_policy(value: &[u8]) -> Result<u64, DecodeError> {
    Reader::new(value).require(LP_CACHE_POLICY_TYPE)?.nni()
}
