//! Messages between neighbors (VI-10): two requests, both signed, and their answers.
//!
//! ```text
//! A  /localhop/ndn/vip/A/<asking router>/t=<time>   requests counts   -> counts
//! B  /localhop/ndn/vip/B/<asking router>/t=<time>   requests VIPs     -> offers
//! ```
//!
//! Times are microseconds since 1970 and rise from request to request. Counts that do not fit one
//! packet have further segments, `A/<asking router>/t=<time>/seg=<1…>`. They are requested without
//! a signature: the Data is signed, and made once a slot.
//!
//! Parameters and contents are TLVs of even types, so that a receiver skips unknown ones:
//!
//! | TYPE | | A asks | counts | B asks | offers |
//! | --- | --- | --- | --- | --- | --- |
//! | 0xF700 | version, 1 | x | x | x | x |
//! | 0xF702 | boot of the sender, 8 octets | x | x | x | x |
//! | 0xF704 | slot of the sender; in a request B that of the receiver | x | x | x | x |
//! | 0xF706 | period of the sender, ms | x | x | | |
//! | 0xF708 | counts: 8 octets id, 8 octets V, by rising id | | x | | |
//! | 0xF70A | offers: 8 octets slot, 8 octets id, 8 octets VIPs, by rising slot | | | | x |
//! | 0xF70C | last slot of the receiver that was entered | | | x | |
//! | 0xF70E | boot of the receiver, 8 octets | | | x | x |
//!
//! The last field binds an acknowledgement, and an offer, to one boot of a router.

use alloc::vec::Vec;

use namely_wire::tlv::{Reader, Tlv, Writer, ignore_unknown};
use namely_wire::types::TIMESTAMP_COMPONENT;
use namely_wire::{Component, DataView, InterestView, Name, NameRef};

use crate::limits::{COUNTS_PER_SEGMENT, OFFERS_MAX, ROUTER_OCTETS_MAX, SEGMENTS_MAX};
use crate::objects::ObjectId;

/// The protocol version.
pub const VERSION: u64 = 1;

const TYPE_VERSION: u32 = 0xF700;
const TYPE_BOOT: u32 = 0xF702;
const TYPE_SLOT: u32 = 0xF704;
const TYPE_PERIOD: u32 = 0xF706;
const TYPE_COUNTS: u32 = 0xF708;
const TYPE_OFFERS: u32 = 0xF70A;
const TYPE_ACKNOWLEDGED: u32 = 0xF70C;
const TYPE_PEER_BOOT: u32 = 0xF70E;

const COUNT_OCTETS: usize = 16;
const OFFER_OCTETS: usize = 24;

/// First octet of an Interest.
const INTEREST: u8 = 5;

/// The components that all names of the exchange begin with.
const PREFIX: [&[u8]; 3] = [b"localhop", b"ndn", b"vip"];

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A: counts.
    Counts,
    /// B: VIPs.
    Offers,
}

/// The name of a message, without the parameters digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageName<'a> {
    /// The kind of the request.
    pub about: RequestKind,
    /// The requesting router.
    pub router: &'a [u8],
    /// The time of the request, us.
    pub time_us: u64,
    /// The number of the segment; 0 is that of the signed request.
    pub segment: u64,
}

/// VIPs of one object in one slot, for a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The sender's slot.
    pub slot: u64,
    /// The object.
    pub id: ObjectId,
    /// VIPs, in [`crate::UNIT`].
    pub vips: u64,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A request for a further segment.
    Segment,
    /// A request for counts.
    CountsRequest {
        /// The sender's boot.
        boot: u64,
        /// The sender's slot.
        slot: u64,
        /// The sender's period, ms.
        period_ms: u64,
    },
    /// A request for VIPs.
    OffersRequest {
        /// The sender's boot.
        boot: u64,
        /// The receiver's boot.
        peer_boot: u64,
        /// The receiver's slot.
        slot: u64,
        /// The receiver's last slot whose VIPs the sender has entered; 0 is none.
        acknowledged: u64,
    },
    /// Counts.
    Counts {
        /// The sender's boot.
        boot: u64,
        /// The sender's slot.
        slot: u64,
        /// The sender's period, ms.
        period_ms: u64,
        /// The last segment.
        last_segment: u64,
        /// The entries.
        counts: Entries<'a, COUNT_OCTETS>,
    },
    /// VIPs that are offered.
    Offers {
        /// The sender's boot.
        boot: u64,
        /// The receiver's boot.
        peer_boot: u64,
        /// The sender's slot.
        slot: u64,
        /// The entries.
        offers: Entries<'a, OFFER_OCTETS>,
    },
}

/// The reason for which a message is refused. All are faults of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// It does not have the format of this module.
    Malformed,
    /// It has another version.
    OtherVersion,
    /// Objects or slots are repeated or not sorted.
    Unsorted,
}

/// A parsed message. If it needs a signature, that is not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The fields of its name.
    pub title: MessageName<'a>,
    /// The name, with the parameters digest if it has one.
    pub name: NameRef<'a>,
    /// Its content.
    pub body: Body<'a>,
}

impl<'a> Message<'a> {
    /// Reads an Interest or a Data.
    ///
    /// # Errors
    /// [`MessageError`]: it is no message of the exchange.
    pub fn parse(packet: &'a [u8]) -> Result<Self, MessageError> {
        if packet.first() == Some(&INTEREST) {
            let view = InterestView::parse(packet).map_err(|_| MessageError::Malformed)?;
            let title = MessageName::parse(view.name).ok_or(MessageError::Malformed)?;
            let Some(parameters) = view.application_parameters else {
                let is_segment = title.about == RequestKind::Counts && title.segment > 0;
                let body = is_segment.then_some(Body::Segment).ok_or(MessageError::Malformed)?;
                return Ok(Message { title, name: view.name, body });
            };
            let body = Fields::read(parameters)?.request(&title).ok_or(MessageError::Malformed)?;
            return Ok(Message { title, name: view.name, body });
        }
        let view = DataView::parse(packet).map_err(|_| MessageError::Malformed)?;
        let title = MessageName::parse(view.name).ok_or(MessageError::Malformed)?;
        let last_segment = view.final_block_id.map_or(Some(0), |component| component.segment());
        let last_segment = last_segment.filter(|last| *last < SEGMENTS_MAX as u64);
        let fields = Fields::read(view.content)?;
        let body =
            last_segment.and_then(|last| fields.answer(&title, last)).ok_or(MessageError::Malformed)?;
        match body {
            Body::Counts { counts, .. } if !counts.is_sorted() => Err(MessageError::Unsorted),
            Body::Offers { offers, .. } if !offers.is_sorted() => Err(MessageError::Unsorted),
            body => Ok(Message { title, name: view.name, body }),
        }
    }
}

impl<'a> MessageName<'a> {
    /// The name, without the parameters digest.
    pub fn to_name(&self) -> Name {
        let letter = if self.about == RequestKind::Counts { b"A" } else { b"B" };
        let name = PREFIX.iter().fold(Name::new(), |name, component| name.join_generic(component));
        let name = name.join_generic(letter).join_generic(self.router);
        let name = name.join_number(TIMESTAMP_COMPONENT, self.time_us);
        if self.segment > 0 { name.join_segment(self.segment) } else { name }
    }

    fn parse(name: NameRef<'a>) -> Option<Self> {
        let mut components = name.components().filter(|c| !c.is_parameters_digest());
        let mut generic = || components.next().filter(|c| *c == Component::generic(c.value)).map(|c| c.value);
        for expected in PREFIX {
            generic().filter(|value| *value == expected)?;
        }
        let about = match generic()? {
            b"A" => RequestKind::Counts,
            b"B" => RequestKind::Offers,
            _ => return None,
        };
        let router = generic().filter(|r| (1..=ROUTER_OCTETS_MAX).contains(&r.len()))?;
        let written = components.next()?;
        let time_us = written.number(TIMESTAMP_COMPONENT).filter(|time| is_short(written, *time))?;
        let segment = match components.next() {
            None => 0,
            Some(component) => {
                let segment = component.segment().filter(|s| (1..SEGMENTS_MAX as u64).contains(s));
                segment.filter(|segment| is_short(component, *segment))?
            }
        };
        let is_whole = components.next().is_none() && (segment == 0 || about == RequestKind::Counts);
        is_whole.then_some(MessageName { about, router, time_us, segment })
    }
}

/// Returns true if a number in a name has the shortest encoding, so that a title has exactly one
/// name.
fn is_short(component: Component<'_>, number: u64) -> bool {
    let octets = match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    component.value.len() == octets
}

/// Entries of a fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries<'a, const OCTETS: usize>(&'a [[u8; OCTETS]]);

impl<'a, const OCTETS: usize> Entries<'a, OCTETS> {
    fn read(value: &'a [u8], most: usize) -> Result<Self, MessageError> {
        let (entries, rest) = value.as_chunks();
        if rest.is_empty() && entries.len() <= most {
            Ok(Entries(entries))
        } else {
            Err(MessageError::Malformed)
        }
    }

    fn number(entry: &[u8; OCTETS], index: usize) -> u64 {
        entry[8 * index..8 * index + 8].iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
    }

    /// Returns true if the first number of each entry is larger than that of the previous one.
    fn is_sorted(&self) -> bool {
        self.0.windows(2).all(|pair| pair[0][..8] < pair[1][..8])
    }
}

impl Entries<'_, COUNT_OCTETS> {
    /// Objects with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (ObjectId, u64)> + '_ {
        self.0.iter().map(|entry| (Self::number(entry, 0), Self::number(entry, 1)))
    }
}

impl Entries<'_, OFFER_OCTETS> {
    /// The offers.
    pub fn offers(&self) -> impl Iterator<Item = Offer> + '_ {
        let number = Self::number;
        self.0.iter().map(move |e| Offer { slot: number(e, 0), id: number(e, 1), vips: number(e, 2) })
    }
}

/// The elements of parameters or a content.
#[derive(Default)]
struct Fields<'a> {
    boot: Option<u64>,
    peer_boot: Option<u64>,
    slot: Option<u64>,
    period_ms: Option<u64>,
    acknowledged: Option<u64>,
    counts: Option<Entries<'a, COUNT_OCTETS>>,
    offers: Option<Entries<'a, OFFER_OCTETS>>,
}

impl<'a> Fields<'a> {
    fn read(value: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(value);
        let mut version = None;
        let mut fields = Fields::default();
        while let Some(tlv) = reader.next_tlv().map_err(|_| MessageError::Malformed)? {
            let is_new = match tlv.typ {
                TYPE_VERSION => version.replace(number(&tlv)?).is_none(),
                TYPE_BOOT => fields.boot.replace(boot(&tlv)?).is_none(),
                TYPE_PEER_BOOT => fields.peer_boot.replace(boot(&tlv)?).is_none(),
                TYPE_SLOT => fields.slot.replace(number(&tlv)?).is_none(),
                TYPE_PERIOD => fields.period_ms.replace(number(&tlv)?).is_none(),
                TYPE_ACKNOWLEDGED => fields.acknowledged.replace(number(&tlv)?).is_none(),
                TYPE_COUNTS => fields.counts.replace(Entries::read(tlv.value, COUNTS_PER_SEGMENT)?).is_none(),
                TYPE_OFFERS => fields.offers.replace(Entries::read(tlv.value, OFFERS_MAX)?).is_none(),
                typ => ignore_unknown(typ).is_ok(),
            };
            if !is_new {
                return Err(MessageError::Malformed);
            }
        }
        match version {
            Some(VERSION) => Ok(fields),
            Some(_) => Err(MessageError::OtherVersion),
            None => Err(MessageError::Malformed),
        }
    }

    fn request(&self, title: &MessageName<'_>) -> Option<Body<'a>> {
        let (boot, slot) = (self.boot?, self.slot?);
        match title.about {
            _ if title.segment > 0 => None,
            RequestKind::Counts => Some(Body::CountsRequest { boot, slot, period_ms: self.period_ms? }),
            RequestKind::Offers => {
                let (peer_boot, acknowledged) = (self.peer_boot?, self.acknowledged?);
                Some(Body::OffersRequest { boot, peer_boot, slot, acknowledged })
            }
        }
    }

    fn answer(&self, title: &MessageName<'_>, last_segment: u64) -> Option<Body<'a>> {
        let (boot, slot) = (self.boot?, self.slot?);
        match title.about {
            _ if title.segment > last_segment => None,
            RequestKind::Counts => {
                let (period_ms, counts) = (self.period_ms?, self.counts?);
                Some(Body::Counts { boot, slot, period_ms, last_segment, counts })
            }
            RequestKind::Offers => {
                let (peer_boot, offers) = (self.peer_boot?, self.offers?);
                Some(Body::Offers { boot, peer_boot, slot, offers })
            }
        }
    }
}

fn number(tlv: &Tlv<'_>) -> Result<u64, MessageError> {
    tlv.nni().map_err(|_| MessageError::Malformed)
}

fn boot(tlv: &Tlv<'_>) -> Result<u64, MessageError> {
    if tlv.value.len() == 8 { number(tlv) } else { Err(MessageError::Malformed) }
}

fn head(boot: u64, slot: u64) -> Writer {
    let mut w = Writer::new();
    w.nni(TYPE_VERSION, VERSION).tlv(TYPE_BOOT, &boot.to_be_bytes()).nni(TYPE_SLOT, slot);
    w
}

/// Parameters of A.
pub fn counts_request(boot: u64, slot: u64, period_ms: u64) -> Vec<u8> {
    let mut w = head(boot, slot);
    w.nni(TYPE_PERIOD, period_ms);
    w.into_vec()
}

/// Parameters of B.
pub fn offers_request(boot: u64, peer_boot: u64, slot: u64, acknowledged: u64) -> Vec<u8> {
    let mut w = head(boot, slot);
    w.nni(TYPE_ACKNOWLEDGED, acknowledged).tlv(TYPE_PEER_BOOT, &peer_boot.to_be_bytes());
    w.into_vec()
}

/// Content with a segment of counts, sorted by id: the first [`COUNTS_PER_SEGMENT`] of them.
pub fn counts(boot: u64, slot: u64, period_ms: u64, of: impl Iterator<Item = (ObjectId, u64)>) -> Vec<u8> {
    let mut w = head(boot, slot);
    w.nni(TYPE_PERIOD, period_ms);
    w.nested(TYPE_COUNTS, |w| {
        for (id, count) in of.take(COUNTS_PER_SEGMENT) {
            w.raw(&id.to_be_bytes()).raw(&count.to_be_bytes());
        }
    });
    w.into_vec()
}

/// Content with offers, sorted by slot: the first [`OFFERS_MAX`] of them.
pub fn offers(boot: u64, peer_boot: u64, slot: u64, of: impl Iterator<Item = Offer>) -> Vec<u8> {
    let mut w = head(boot, slot);
    w.nested(TYPE_OFFERS, |w| {
        for Offer { slot, id, vips } in of.take(OFFERS_MAX) {
            w.raw(&slot.to_be_bytes()).raw(&id.to_be_bytes()).raw(&vips.to_be_bytes());
        }
    });
    w.tlv(TYPE_PEER_BOOT, &peer_boot.to_be_bytes());
    w.into_vec()
}
