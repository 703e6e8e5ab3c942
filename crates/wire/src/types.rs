//! TLV TYPE numbers, by the specifications' names (packet format v0.3 `types.rst`; NDNLPv2).
#![allow(
    missing_docs,
    reason = "the names are the specification's; the modules that parse them document them"
)]

pub const INTEREST: u32 = 5;
pub const DATA: u32 = 6;
pub const NAME: u32 = 7;

pub const GENERIC_COMPONENT: u16 = 8;
pub const IMPLICIT_DIGEST_COMPONENT: u16 = 1;
pub const PARAMETERS_DIGEST_COMPONENT: u16 = 2;
pub const KEYWORD_COMPONENT: u16 = 32;
pub const SEGMENT_COMPONENT: u16 = 50;
pub const BYTE_OFFSET_COMPONENT: u16 = 52;
pub const VERSION_COMPONENT: u16 = 54;
pub const TIMESTAMP_COMPONENT: u16 = 56;
pub const SEQUENCE_NUM_COMPONENT: u16 = 58;

pub const CAN_BE_PREFIX: u32 = 33;
pub const MUST_BE_FRESH: u32 = 18;
pub const FORWARDING_HINT: u32 = 30;
pub const NONCE: u32 = 10;
pub const INTEREST_LIFETIME: u32 = 12;
pub const HOP_LIMIT: u32 = 34;
pub const APPLICATION_PARAMETERS: u32 = 36;
pub const INTEREST_SIGNATURE_INFO: u32 = 44;
pub const INTEREST_SIGNATURE_VALUE: u32 = 46;

pub const META_INFO: u32 = 20;
pub const CONTENT: u32 = 21;
pub const SIGNATURE_INFO: u32 = 22;
pub const SIGNATURE_VALUE: u32 = 23;
pub const CONTENT_TYPE: u32 = 24;
pub const FRESHNESS_PERIOD: u32 = 25;
pub const FINAL_BLOCK_ID: u32 = 26;

pub const SIGNATURE_TYPE: u32 = 27;
pub const KEY_LOCATOR: u32 = 28;
pub const KEY_DIGEST: u32 = 29;
pub const SIGNATURE_NONCE: u32 = 38;
pub const SIGNATURE_TIME: u32 = 40;
pub const SIGNATURE_SEQ_NUM: u32 = 42;
pub const VALIDITY_PERIOD: u32 = 253;
pub const NOT_BEFORE: u32 = 254;
pub const NOT_AFTER: u32 = 255;
pub const ADDITIONAL_DESCRIPTION: u32 = 258;
pub const DESCRIPTION_ENTRY: u32 = 512;
pub const DESCRIPTION_KEY: u32 = 513;
pub const DESCRIPTION_VALUE: u32 = 514;

pub const SAFE_BAG: u32 = 128;
pub const SAFE_BAG_ENCRYPTED_KEY: u32 = 129;

pub const LP_PACKET: u32 = 100;
pub const LP_FRAGMENT: u32 = 80;
pub const LP_SEQUENCE: u32 = 81;
pub const LP_FRAG_INDEX: u32 = 82;
pub const LP_FRAG_COUNT: u32 = 83;
pub const LP_PIT_TOKEN: u32 = 98;
pub const LP_NACK: u32 = 800;
pub const LP_NACK_REASON: u32 = 801;
pub const LP_INCOMING_FACE_ID: u32 = 812;
pub const LP_NEXT_HOP_FACE_ID: u32 = 816;
pub const LP_CACHE_POLICY: u32 = 820;
pub const LP_CACHE_POLICY_TYPE: u32 = 821;
pub const LP_CONGESTION_MARK: u32 = 832;
pub const LP_ACK: u32 = 836;
pub const LP_TX_SEQUENCE: u32 = 840;
pub const LP_NON_DISCOVERY: u32 = 844;
pub const LP_PREFIX_ANNOUNCEMENT: u32 = 848;
/// Padding of a link packet that probes its path, zeros. It is namely's own; other implementations
/// ignore it (NDNLPv2: 800..=959 with both low bits 0).
pub const LP_PADDING: u32 = 956;
