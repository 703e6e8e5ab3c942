//! NDN packet formats: checked views of received octets, and builders of packets.
//!
//! A *view* ([`InterestView`], [`DataView`], [`LpView`], [`NameRef`]) borrows the received octets.
//! Parsing validates all of it once and never allocates. A *builder* creates octets. All slices of
//! a view lie inside the slice that it was parsed from.
//!
//! This crate never reads a clock, a file or a socket, and no input makes it panic: every function
//! with foreign octets as input returns [`DecodeError`].
//!
//! Follows the NDN Packet Format Specification v0.3 and NDNLPv2. Each module names the sections it
//! implements.
//!
//! # Example
//!
//! A consumer builds an Interest, a producer parses it and builds the Data, and the consumer parses
//! that. The signature here is zeros; `namely-security` creates real ones.
//!
//! ```
//! use namely_wire::{DataBuilder, DataView, InterestBuilder, InterestView, Name, SignatureInfo};
//!
//! let name: Name = "/weather/v=7/seg=0".parse()?;
//! let asked = InterestBuilder::new(name).must_be_fresh().lifetime_ms(2000).build();
//!
//! let interest = InterestView::parse(&asked)?;
//! assert!(interest.must_be_fresh);
//! let builder = DataBuilder::new(interest.name).freshness_ms(1000);
//! let unsigned = builder.build(b"sunny", &SignatureInfo::digest_sha256());
//! let answer = unsigned.finish(&[0; 32]);
//!
//! let data = DataView::parse(&answer)?;
//! assert_eq!(data.name.to_string(), "/weather/v=7/seg=0");
//! assert_eq!(data.content, b"sunny");
//! # Ok::<(), namely_wire::DecodeError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod amended;
mod announcement;
mod byte_range;
mod certificate;
mod data;
mod error;
mod face_uri;
pub mod fields;
mod interest;
pub mod lfn;
mod lp;
mod name;
mod placed;
pub mod rdr;
mod signature;
pub mod text;
pub mod tlv;
pub mod tree_index;
pub mod types;
mod validity;

pub use amended::AmendedInterest;
pub use announcement::{Announcement, AnnouncementView};
pub use byte_range::{ByteRange, ByteRangeError, RANGE_COMPONENT};
pub use certificate::{
    CertificateName, CertificateView, SafeBagView, build_certificate, encode_safe_bag, key_name,
    key_name_of_locator,
};
pub use data::{ContentType, DataBuilder, DataView, UnsignedData};
pub use error::DecodeError;
pub use face_uri::{Endpoint, FACE_URI_OCTETS_MAX, FaceUri, FaceUriError, Family, MacAddress};
pub use interest::{InterestBuilder, InterestView};
pub use lp::{
    CACHE_POLICY_NO_CACHE, LpFraming, LpHeaders, LpView, NackReason, PIT_TOKEN_OCTETS_MAX, PitToken,
    encode_lp_announced_header, encode_lp_announcement, encode_lp_header, encode_lp_packet, encode_lp_probe,
};
pub use name::{COMPONENTS_MAX, Component, Components, Name, NameRef};
pub use placed::{PlacedData, PlacedInterest, PlacedName, SignatureOctets};
pub use signature::{KeyLocator, SignatureInfo, SignatureInfoView, SignatureType};
pub use validity::{TIME_S_MAX, ValidityPeriod, encode_time, parse_time};

/// Octets of a network packet.
///
/// A network packet is the TLV of an Interest or a Data, its header included. The limit is
/// `MAX_NDN_PACKET_SIZE` of ndn-cxx, which every peer shares.
///
/// # Limit
/// A larger packet is dropped.
/// - Counter: `length_too_large`, `message_too_large`
/// - Tests: `an_oversized_reassembled_packet_is_refused`,
///   `a_payload_must_be_interest_or_data`
pub const PACKET_OCTETS_MAX: usize = 8800;

/// Octets of link headers around a network packet.
///
/// A Data of exactly [`PACKET_OCTETS_MAX`] octets has to pass a stream face with every header field
/// set (NFD and NDNd drop it).
///
/// # Limit
/// The link packet is refused.
/// - Counter: `length_too_large`
/// - Tests: `the_largest_data_fits_with_every_header`
pub(crate) const LP_OVERHEAD_OCTETS_MAX: usize = 512;

/// Octets of a link packet from a stream or datagram.
///
/// A stream cannot be resynchronized after a larger one.
///
/// # Limit
/// The connection is closed.
/// - Value: 9312 octets
/// - Counter: `length_too_large`
/// - Tests: `an_oversized_stream_packet_is_refused`
pub const LP_PACKET_OCTETS_MAX: usize = PACKET_OCTETS_MAX + LP_OVERHEAD_OCTETS_MAX;

const _: () = assert!(LP_PACKET_OCTETS_MAX < 65_535, "a link packet fits a UDP datagram over loopback");
