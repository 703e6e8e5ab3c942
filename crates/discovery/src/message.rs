//! The two messages: hello (NDI), an Interest, and reply (NRD), a Data.
//!
//! The name of a hello is `/ndp/<station>/<MTU>[/prefix=<prefix>]...` in text, as in NDN-NDP. It
//! ends in the parameters digest of a signed Interest, which covers nonce, time and key.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use namely_wire::tlv::{self, Reader, Writer};
use namely_wire::{DataView, InterestView, Name, NameRef, SignatureType};

use crate::limits::{MESSAGE_OCTETS_MAX, MTU_OCTETS_MAX, PREFIX_OCTETS_MAX, PREFIXES_MAX};
use crate::link_address::{Key, LinkAddress};

/// The component that all names of discovery begin with.
pub const DISCOVERY: &str = "ndp";

const INTEREST: u8 = 5;
const DATA: u8 = 6;
const NAME: u32 = 7;

/// Elements of a hello's parameters and of a reply's content.
const KEY: u32 = 129;
const SESSION: u32 = 131;
const TIME_MS: u32 = 133;
const MTU: u32 = 137;

/// Returns true if a packet's name begins with `/ndp`. Only the first octets are read.
#[inline]
pub fn concerns_discovery(packet: &[u8]) -> bool {
    let value = match packet {
        [INTEREST | DATA, 0xfd, _, _, value @ ..] => value,
        [INTEREST | DATA, length, value @ ..] if *length < 0xfd => value,
        _ => return false,
    };
    let name = match value {
        [7, 0xfd, _, _, name @ ..] => name,
        [7, length, name @ ..] if *length < 0xfd => name,
        _ => return false,
    };
    name.starts_with(&[8, 3, b'n', b'd', b'p'])
}

/// The description of a router in its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterInfo {
    /// The link address.
    pub station: LinkAddress,
    /// The router's longest frame, octets; 0 in a goodbye.
    pub mtu: usize,
    /// The prefixes that the router announces.
    pub prefixes: Vec<Name>,
    /// The router's key.
    pub key: Key,
    /// A random number that the router drew when its interface came up.
    pub session: u64,
}

impl RouterInfo {
    /// The name of the router's hello, without the parameters digest.
    fn name(&self) -> Name {
        let name = Name::new().join_generic(DISCOVERY).join_generic(self.station.to_string());
        let name = name.join_generic(self.mtu.to_string());
        self.prefixes.iter().fold(name, |name, prefix| name.join_generic(format!("prefix={prefix}")))
    }

    /// Reads the name of a hello. Any other name is an error.
    fn parse(name: NameRef<'_>, key: Key, session: u64) -> Result<Self, Malformed> {
        let mut texts = name.components().filter(|c| !c.is_parameters_digest()).map(|component| {
            let is_text = component == namely_wire::Component::generic(component.value);
            core::str::from_utf8(component.value).ok().filter(|_| is_text).ok_or(Malformed)
        });
        let mut next = || texts.next().unwrap_or(Err(Malformed));
        if next()? != DISCOVERY {
            return Err(Malformed);
        }
        let station: LinkAddress = next()?.parse().map_err(|()| Malformed)?;
        let mtu = parse_mtu(next()?).ok_or(Malformed)?;
        let mut prefixes = Vec::new();
        for text in texts {
            let prefix = text?.strip_prefix("prefix=").filter(|text| text.len() <= PREFIX_OCTETS_MAX);
            if prefixes.len() == PREFIXES_MAX {
                return Err(Malformed);
            }
            prefixes.push(prefix.ok_or(Malformed)?.parse().map_err(|_| Malformed)?);
        }
        if !station.is_unicast() {
            return Err(Malformed);
        }
        Ok(RouterInfo { station, mtu, prefixes, key, session })
    }
}

/// Parses digits without leading zeros, up to the limit.
fn parse_mtu(text: &str) -> Option<usize> {
    let is_canonical =
        text.bytes().all(|b| b.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    let mtu = text.parse().ok().filter(|_| is_canonical)?;
    (mtu <= MTU_OCTETS_MAX).then_some(mtu)
}

/// A hello to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnHello(pub(crate) RouterInfo);

impl OwnHello {
    /// The name of the hello, to which the signer adds the parameters digest.
    pub fn name(&self) -> Name {
        self.0.name()
    }

    /// The ApplicationParameters of the hello.
    pub fn parameters(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.tlv(KEY, &self.0.key).nni(SESSION, self.0.session);
        w.into_vec()
    }
}

/// A reply to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnReply {
    /// The name of the hello that the reply answers.
    pub name: Name,
    pub(crate) own: RouterInfo,
    /// The MTU that both ends support.
    pub(crate) agreed: usize,
}

impl OwnReply {
    /// The Content of the reply. `time_ms` must be later than that of every earlier signature of
    /// this router.
    pub fn content(&self, time_ms: u64) -> Vec<u8> {
        let mut w = Writer::new();
        self.own.name().as_name().encode(&mut w);
        w.tlv(KEY, &self.own.key)
            .nni(SESSION, self.own.session)
            .nni(TIME_MS, time_ms)
            .nni(MTU, self.agreed as u64);
        w.into_vec()
    }
}

/// The packet is no valid message of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A received message. Its signature is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender's description of itself.
    pub from: RouterInfo,
    /// The signing time, ms, by the sender's clock.
    pub time_ms: u64,
    /// The name, with the parameters digest.
    pub name: Name,
    /// The parameters digest.
    pub digest: [u8; 32],
    /// True for a reply, false for a hello.
    pub is_reply: bool,
    /// The MTU that a reply states for both ends, octets.
    pub agreed_mtu: Option<usize>,
}

impl Message {
    /// Reads an Interest or a Data.
    ///
    /// # Errors
    /// [`Malformed`]: the packet does not have the format of docs/discovery.md.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        if packet.len() > MESSAGE_OCTETS_MAX {
            return Err(Malformed);
        }
        match packet.first() {
            Some(&INTEREST) => Self::parse_hello(packet),
            _ => Self::parse_reply(packet),
        }
    }

    fn parse_hello(packet: &[u8]) -> Result<Self, Malformed> {
        let view = InterestView::parse(packet).map_err(|_| Malformed)?;
        let info = view.signature_info().ok().flatten().ok_or(Malformed)?;
        let is_signed = info.signature_type == SignatureType::Ed25519 && view.signature_value.is_some();
        let time_ms = info.time_ms.filter(|_| is_signed && info.nonce.is_some()).ok_or(Malformed)?;
        let fields = Fields::read(view.application_parameters.unwrap_or(&[]))?;
        let from = RouterInfo::parse(view.name, fields.key.ok_or(Malformed)?, fields.session)?;
        let digest = digest(view.name)?;
        let name = view.name.to_name();
        Ok(Message { from, time_ms, name, digest, is_reply: false, agreed_mtu: None })
    }

    fn parse_reply(packet: &[u8]) -> Result<Self, Malformed> {
        let view = DataView::parse(packet).map_err(|_| Malformed)?;
        if view.signature_type != SignatureType::Ed25519 {
            return Err(Malformed);
        }
        let fields = Fields::read(view.content)?;
        let name = fields.name.ok_or(Malformed)?;
        let from = RouterInfo::parse(name, fields.key.ok_or(Malformed)?, fields.session)?;
        let (time_ms, agreed) = (fields.time_ms.ok_or(Malformed)?, fields.mtu.ok_or(Malformed)?);
        // The MTU for both ends cannot exceed the MTU of the sender.
        if agreed > from.mtu {
            return Err(Malformed);
        }
        let (name, digest) = (view.name.to_name(), digest(view.name)?);
        Ok(Message { from, time_ms, name, digest, is_reply: true, agreed_mtu: Some(agreed) })
    }
}

/// The parameters digest that ends a name.
fn digest(name: NameRef<'_>) -> Result<[u8; 32], Malformed> {
    let last = name.last().filter(|c| c.is_parameters_digest()).ok_or(Malformed)?;
    last.value.try_into().map_err(|_| Malformed)
}

#[derive(Default)]
struct Fields<'a> {
    name: Option<NameRef<'a>>,
    key: Option<Key>,
    session: u64,
    time_ms: Option<u64>,
    mtu: Option<usize>,
}

impl<'a> Fields<'a> {
    fn read(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::default();
        let mut reader = Reader::new(octets);
        while let Some(tlv) = reader.next_tlv().map_err(|_| Malformed)? {
            let number = || tlv.nni().map_err(|_| Malformed);
            match tlv.typ {
                NAME => fields.name = Some(NameRef::parse_value(tlv.value).map_err(|_| Malformed)?),
                KEY => fields.key = Some(tlv.value.try_into().map_err(|_| Malformed)?),
                SESSION => fields.session = number()?,
                TIME_MS => fields.time_ms = Some(number()?),
                MTU => fields.mtu = Some(usize::try_from(number()?).map_err(|_| Malformed)?),
                typ => tlv::ignore_unknown(typ).map_err(|_| Malformed)?,
            }
        }
        Ok(fields)
    }
}
