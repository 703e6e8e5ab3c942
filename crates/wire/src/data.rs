//! Data (packet spec, `data.rst`): a checked view and a builder.

use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::name::{Component, NameRef};
use crate::signature::{SignatureInfo, SignatureInfoView, SignatureType};
use crate::tlv::{self, Reader, Writer};
use crate::types::*;

/// ContentType numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentType {
    /// 0: payload.
    Blob,
    /// 1: one or more Names.
    Link,
    /// 2: a public key (certificate).
    Key,
    /// 3: the producer reports that there is no such data.
    Nack,
    /// 4: a manifest.
    Manifest,
    /// 5: a Prefix Announcement.
    PrefixAnnouncement,
    /// An unknown type.
    Other(u64),
}

impl ContentType {
    /// Returns the number on the wire.
    pub fn number(self) -> u64 {
        match self {
            ContentType::Blob => 0,
            ContentType::Link => 1,
            ContentType::Key => 2,
            ContentType::Nack => 3,
            ContentType::Manifest => 4,
            ContentType::PrefixAnnouncement => 5,
            ContentType::Other(n) => n,
        }
    }

    /// Returns the type of a number on the wire.
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => ContentType::Blob,
            1 => ContentType::Link,
            2 => ContentType::Key,
            3 => ContentType::Nack,
            4 => ContentType::Manifest,
            5 => ContentType::PrefixAnnouncement,
            n => ContentType::Other(n),
        }
    }
}

/// A checked view of a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataView<'a> {
    /// The whole packet, which the implicit digest covers.
    pub wire: &'a [u8],
    /// Name.
    pub name: NameRef<'a>,
    /// ContentType.
    pub content_type: ContentType,
    /// FreshnessPeriod in ms; 0 when absent.
    pub freshness_ms: u64,
    /// FinalBlockId.
    pub final_block_id: Option<Component<'a>>,
    /// Content's VALUE; empty when absent.
    pub content: &'a [u8],
    /// SignatureInfo's VALUE; see [`DataView::signature_info`].
    pub signature_info_value: &'a [u8],
    /// Type of the signature.
    pub signature_type: SignatureType,
    /// SignatureValue's VALUE.
    pub signature_value: &'a [u8],
    /// Octets that the signature covers: from Name up to SignatureValue.
    pub signed_portion: &'a [u8],
}

impl<'a> DataView<'a> {
    /// Checks `wire` as exactly one Data.
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly one well-formed Data.
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let outer = tlv::read_exactly(wire, DATA)?;
        let mut reader = outer.children();
        let mut view = DataView {
            wire,
            name: NameRef::parse_value(reader.require(NAME)?.value)?,
            content_type: ContentType::Blob,
            freshness_ms: 0,
            final_block_id: None,
            content: &[],
            signature_info_value: &[],
            signature_type: SignatureType::Null,
            signature_value: &[],
            signed_portion: &[],
        };
        let mut last = NAME;
        loop {
            let start = reader.position();
            let Some(tlv) = reader.next_tlv()? else { break };
            // The four elements after Name come in ascending order of TYPE.
            if !(META_INFO..=SIGNATURE_VALUE).contains(&tlv.typ) || tlv.typ <= last {
                tlv::ignore_unknown(tlv.typ)?;
                continue;
            }
            last = tlv.typ;
            match tlv.typ {
                META_INFO => view.parse_meta_info(tlv.value)?,
                CONTENT => view.content = tlv.value,
                SIGNATURE_INFO => {
                    view.signature_info_value = tlv.value;
                    view.signature_type = SignatureInfoView::parse_value(tlv.value)?.signature_type;
                }
                _ => {
                    view.signature_value = tlv.value;
                    view.signed_portion = &outer.value[..start];
                }
            }
        }
        if view.signature_info_value.is_empty() {
            return Err(DecodeError::Missing(SIGNATURE_INFO));
        }
        if last != SIGNATURE_VALUE {
            return Err(DecodeError::Missing(SIGNATURE_VALUE));
        }
        Ok(view)
    }

    fn parse_meta_info(&mut self, value: &'a [u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(value);
        let mut last = 0;
        while let Some(tlv) = reader.next_tlv()? {
            if !(CONTENT_TYPE..=FINAL_BLOCK_ID).contains(&tlv.typ) || tlv.typ <= last {
                tlv::ignore_unknown(tlv.typ)?;
                continue;
            }
            last = tlv.typ;
            match tlv.typ {
                CONTENT_TYPE => self.content_type = ContentType::from_number(tlv.nni()?),
                FRESHNESS_PERIOD => self.freshness_ms = tlv.nni()?,
                _ => self.final_block_id = Some(Component::parse(tlv.value)?),
            }
        }
        Ok(())
    }

    /// Parses the full SignatureInfo.
    ///
    /// # Errors
    /// None in practice: the element was checked when the view was created.
    pub fn signature_info(&self) -> Result<SignatureInfoView<'a>, DecodeError> {
        SignatureInfoView::parse_value(self.signature_info_value)
    }
}

/// Builds a Data.
///
/// ```
/// use namely_wire::{DataBuilder, DataView, Name, SignatureInfo};
/// let name: Name = "/a/b".parse().unwrap();
/// let builder = DataBuilder::new(name.as_name()).freshness_ms(1000);
/// let unsigned = builder.build(b"hello", &SignatureInfo::digest_sha256());
/// let wire = unsigned.finish(&[0; 32]);
/// assert_eq!(DataView::parse(&wire).unwrap().content, b"hello");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DataBuilder<'a> {
    name: NameRef<'a>,
    content_type: ContentType,
    freshness_ms: u64,
    final_block_id: Option<Component<'a>>,
}

impl<'a> DataBuilder<'a> {
    /// Creates a builder for a Data named `name`.
    pub fn new(name: NameRef<'a>) -> Self {
        DataBuilder { name, content_type: ContentType::Blob, freshness_ms: 0, final_block_id: None }
    }

    /// Sets ContentType.
    pub fn content_type(mut self, content_type: ContentType) -> Self {
        self.content_type = content_type;
        self
    }

    /// Sets FreshnessPeriod, ms.
    pub fn freshness_ms(mut self, freshness_ms: u64) -> Self {
        self.freshness_ms = freshness_ms;
        self
    }

    /// Sets FinalBlockId.
    pub fn final_block_id(mut self, component: Component<'a>) -> Self {
        self.final_block_id = Some(component);
        self
    }

    /// Builds everything except the signature value. The signer signs
    /// [`UnsignedData::signed_portion`].
    pub fn build(&self, content: &[u8], info: &SignatureInfo) -> UnsignedData {
        let mut w = Writer::with_capacity(HEADROOM + self.name.encoded_octets() + content.len() + 256);
        w.raw(&[0; HEADROOM]);
        self.name.encode(&mut w);
        if self.content_type != ContentType::Blob || self.freshness_ms != 0 || self.final_block_id.is_some() {
            w.nested(META_INFO, |w| self.encode_meta_info(w));
        }
        w.tlv(CONTENT, content);
        info.encode(SIGNATURE_INFO, &mut w);
        UnsignedData { buf: w.into_vec() }
    }

    fn encode_meta_info(&self, w: &mut Writer) {
        if self.content_type != ContentType::Blob {
            w.nni(CONTENT_TYPE, self.content_type.number());
        }
        if self.freshness_ms != 0 {
            w.nni(FRESHNESS_PERIOD, self.freshness_ms);
        }
        if let Some(component) = &self.final_block_id {
            w.nested(FINAL_BLOCK_ID, |w| component.encode(w));
        }
    }
}

/// Room before Name for the outer TYPE and LENGTH, so that a Data of 253 to 65535 octets is
/// finished without a move of its content.
const HEADROOM: usize = 4;

/// A Data without its signature value.
#[derive(Clone, Debug)]
pub struct UnsignedData {
    buf: Vec<u8>,
}

impl UnsignedData {
    /// Returns the octets to sign.
    pub fn signed_portion(&self) -> &[u8] {
        &self.buf[HEADROOM..]
    }

    /// Returns the finished packet.
    pub fn finish(self, signature_value: &[u8]) -> Vec<u8> {
        let mut w = Writer::from_vec(self.buf);
        w.tlv(SIGNATURE_VALUE, signature_value);
        let mut buf = w.into_vec();
        let mut header = Writer::with_capacity(10);
        header.header(DATA, buf.len() - HEADROOM);
        if header.len() == HEADROOM {
            buf[..HEADROOM].copy_from_slice(header.as_bytes());
        } else {
            buf.splice(..HEADROOM, header.into_vec());
        }
        buf
    }
}
