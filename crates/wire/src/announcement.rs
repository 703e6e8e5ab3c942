//! Prefix Announcement: a signed Data by which a producer requests a route for a prefix
//! (`rib/announce`, and the PrefixAnnouncement header field of NDNLPv2).

use alloc::vec::Vec;

use crate::data::{ContentType, DataBuilder, DataView, UnsignedData};
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni};
use crate::name::{Component, Name, NameRef};
use crate::signature::SignatureInfo;
use crate::tlv::Writer;
use crate::types::*;
use crate::validity::{self, ValidityPeriod};

/// TYPE of an announcement's cost, as in NFD's management.
const COST: u32 = 106;

/// TYPE of an announcement's lifetime, as in NFD's management.
const EXPIRATION_PERIOD: u32 = 109;

/// The component `32=PA`.
const PA: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"PA" };

/// A checked view of a Prefix Announcement. Its signature is not checked here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncementView<'a> {
    /// The packet.
    pub data: DataView<'a>,
    /// The announced prefix.
    pub prefix: NameRef<'a>,
    /// The announcement's version.
    pub version: u64,
    /// ExpirationPeriod, ms from receipt.
    pub expiration_period_ms: u64,
    /// ValidityPeriod: the absolute time limits of the announcement.
    pub validity: Option<ValidityPeriod>,
    /// Cost: an extension of NDNts.
    pub cost: Option<u64>,
}

impl<'a> AnnouncementView<'a> {
    /// Parses `wire` as exactly one Prefix Announcement.
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly one Data that is a Prefix Announcement.
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_data(DataView::parse(wire)?)
    }

    /// Checks that a Data is a Prefix Announcement: name, ContentType, Content.
    ///
    /// # Errors
    /// [`DecodeError::BadName`] or [`DecodeError::OutOfRange`] if name or ContentType are not those
    /// of a Prefix Announcement; otherwise the error of its Content.
    pub fn from_data(data: DataView<'a>) -> Result<Self, DecodeError> {
        let (prefix, version) = split_name(data.name).ok_or(DecodeError::BadName)?;
        if data.content_type != ContentType::PrefixAnnouncement {
            return Err(DecodeError::OutOfRange(CONTENT_TYPE));
        }
        let fields = Fields::strict(data.content, &[EXPIRATION_PERIOD, VALIDITY_PERIOD, COST])?;
        let validity =
            fields.find(VALIDITY_PERIOD).map(|tlv| ValidityPeriod::parse_value(tlv.value)).transpose()?;
        Ok(AnnouncementView {
            data,
            prefix,
            version,
            expiration_period_ms: fields.nni(EXPIRATION_PERIOD)?,
            validity,
            cost: fields.nni_opt(COST)?,
        })
    }

    /// Returns the lifetime of the route in ms if the announcement arrives at `unix_s`: the shorter
    /// of both periods; `None` if it is not valid at that time.
    pub fn lifetime_ms(&self, unix_s: u64) -> Option<u64> {
        let Some(validity) = self.validity else { return Some(self.expiration_period_ms) };
        if !validity.contains(unix_s) {
            return None;
        }
        let left_s = (validity.not_after_s - unix_s).saturating_add(1);
        Some(self.expiration_period_ms.min(left_s.saturating_mul(1000)))
    }
}

/// Splits `/<prefix>/32=PA/v=<version>/seg=0` into prefix and version.
fn split_name(name: NameRef<'_>) -> Option<(NameRef<'_>, u64)> {
    let at = name.len().checked_sub(3)?;
    let version = name.component(at + 1)?.version()?;
    (name.component(at)? == PA && name.component(at + 2)?.segment()? == 0).then(|| (name.prefix(at), version))
}

/// The content of a Prefix Announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The prefix to announce.
    pub prefix: Name,
    /// The announcement's version.
    pub version: u64,
    /// ExpirationPeriod, ms from receipt.
    pub expiration_period_ms: u64,
    /// ValidityPeriod.
    pub validity: Option<ValidityPeriod>,
    /// Cost: an extension of NDNts, which other routers ignore.
    pub cost: Option<u64>,
}

impl Announcement {
    /// Builds the packet without its signature value.
    pub fn build(&self, signer: &SignatureInfo) -> UnsignedData {
        let name = self.prefix.join(PA).join_version(self.version).join_segment(0);
        DataBuilder::new(name.as_name())
            .content_type(ContentType::PrefixAnnouncement)
            .build(&self.content(), signer)
    }

    fn content(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.nni(EXPIRATION_PERIOD, self.expiration_period_ms);
        put_nni(&mut w, COST, self.cost);
        if let Some(validity) = &self.validity {
            let (not_before, not_after) = validity.encode();
            validity::encode_validity(&mut w, &not_before, &not_after);
        }
        w.into_vec()
    }
}
