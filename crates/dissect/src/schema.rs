//! The elements that a block may hold, with their titles there and their forms. TYPE numbers mean
//! different things in different blocks, so each block has a table of its own.

use namely_messages::numbers::*;
use namely_messages::{FaceEventKind, FacePersistency, FaceScope, FaceState, LinkType};
use namely_wire::rdr;
use namely_wire::types::*;

/// The context of a run of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Packets on a link, or inside another element.
    Packets,
    LinkPacket,
    Nack,
    CachePolicy,
    Interest,
    Data,
    MetaInfo,
    Names,
    SignatureInfo,
    KeyLocator,
    Validity,
    Descriptions,
    Description,
    SafeBag,
    Announcement,
    Metadata,
    /// ControlParameters or FaceQueryFilter in a name component.
    Argument,
    ControlParameters,
    FaceQueryFilter,
    Responses,
    ControlResponse,
    GeneralStatus,
    RouterDetails,
    CounterList,
    Counter,
    FaceList,
    FaceStatus,
    FaceDetails,
    FaceUnanswered,
    ChannelList,
    ChannelStatus,
    FibList,
    FibEntry,
    NextHop,
    RibList,
    RibEntry,
    Route,
    StrategyList,
    StrategyChoice,
    CsInfoList,
    CsInfo,
    CsDiskList,
    CsDisk,
    CsListList,
    CsList,
    CsPacket,
    BptList,
    Binding,
    NeighborList,
    Neighbor,
    ExplainedList,
    Explained,
    ExplainedInterest,
    ExplainedSending,
    ExplainedHop,
    ExplainedRoute,
    TraceEntry,
    TraceStep,
    TraceSent,
    VipStatusList,
    VipStatus,
    VipObjectList,
    VipObject,
    VipNeighbourList,
    VipNeighbour,
    FaceEvents,
    FaceEvent,
}

/// The form in which a VALUE is shown.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// Elements.
    Inside(Block),
    /// Components, as a URI.
    Name,
    /// The name of an Interest or Data, which may carry management parameters.
    PacketName,
    /// One name component.
    Component,
    /// A NonNegativeInteger, with its unit.
    Number(&'static str),
    /// A NonNegativeInteger that stands for a word.
    Choice(fn(u64) -> &'static str),
    /// Milliseconds since the Unix epoch.
    TimeMs,
    /// Nanoseconds since the Unix epoch.
    TimeNs,
    /// A NonNegativeInteger, in octal.
    Octal,
    /// UTF-8.
    Text,
    /// A directory listing.
    Listing,
    /// Anything.
    Octets,
    /// Depends on the elements beside it.
    Depends,
}

/// An element of a block.
#[derive(Clone, Copy)]
pub(super) struct Field {
    typ: u32,
    /// The specification's name.
    pub(super) name: &'static str,
    /// The form in which the VALUE is shown.
    pub(super) value: Value,
}

/// The meaning of TYPE `typ` in `block`.
pub(super) fn field(block: Block, typ: u32) -> Option<&'static Field> {
    fields(block).iter().find(|f| f.typ == typ)
}

const fn f(typ: u32, name: &'static str, value: Value) -> Field {
    Field { typ, name, value }
}

const COUNT_OF: Value = Value::Number("");

fn fields(block: Block) -> &'static [Field] {
    match block {
        Block::Packets => PACKETS,
        Block::LinkPacket => LINK_PACKET,
        Block::Nack => &const { [f(LP_NACK_REASON, "NackReason", Value::Choice(nack_reason))] },
        Block::CachePolicy => {
            &const { [f(LP_CACHE_POLICY_TYPE, "CachePolicyType", Value::Choice(cache_policy))] }
        }
        Block::Interest => INTEREST_FIELDS,
        Block::Data => DATA_FIELDS,
        Block::MetaInfo => META_INFO_FIELDS,
        Block::Names => &const { [f(NAME, "Name", Value::Name)] },
        Block::SignatureInfo => SIGNATURE_INFO_FIELDS,
        Block::KeyLocator => KEY_LOCATOR_FIELDS,
        Block::Validity => VALIDITY_FIELDS,
        Block::Descriptions => {
            &const { [f(DESCRIPTION_ENTRY, "DescriptionEntry", Value::Inside(Block::Description))] }
        }
        Block::Description => DESCRIPTION_FIELDS,
        Block::SafeBag => SAFE_BAG_FIELDS,
        Block::Announcement => ANNOUNCEMENT_FIELDS,
        Block::Metadata => METADATA_FIELDS,
        block => management_fields(block),
    }
}

fn management_fields(block: Block) -> &'static [Field] {
    match block {
        Block::Argument => ARGUMENT_FIELDS,
        Block::ControlParameters => CONTROL_PARAMETERS_FIELDS,
        Block::FaceQueryFilter => FACE_FIELDS_OF_FILTER,
        Block::Responses => {
            &const { [f(CONTROL_RESPONSE, "ControlResponse", Value::Inside(Block::ControlResponse))] }
        }
        Block::ControlResponse => CONTROL_RESPONSE_FIELDS,
        Block::GeneralStatus => GENERAL_STATUS_FIELDS,
        Block::RouterDetails => ROUTER_DETAILS_FIELDS,
        Block::CounterList => &const { [f(ENTRY, "Counter", Value::Inside(Block::Counter))] },
        Block::Counter => COUNTER_FIELDS,
        Block::FaceList => &const { [f(ENTRY, "FaceStatus", Value::Inside(Block::FaceStatus))] },
        Block::FaceStatus => FACE_STATUS_FIELDS,
        Block::FaceDetails => FACE_DETAILS_FIELDS,
        Block::FaceUnanswered => FACE_UNANSWERED_FIELDS,
        Block::ChannelList => {
            &const { [f(CHANNEL_STATUS, "ChannelStatus", Value::Inside(Block::ChannelStatus))] }
        }
        Block::ChannelStatus => &const { [f(LOCAL_URI, "LocalUri", Value::Text)] },
        Block::FibList => &const { [f(ENTRY, "FibEntry", Value::Inside(Block::FibEntry))] },
        Block::FibEntry => FIB_ENTRY_FIELDS,
        Block::NextHop => NEXT_HOP_FIELDS,
        Block::RibList => &const { [f(ENTRY, "RibEntry", Value::Inside(Block::RibEntry))] },
        Block::RibEntry => RIB_ENTRY_FIELDS,
        Block::Route => ROUTE_FIELDS,
        Block::StrategyList => &const { [f(ENTRY, "StrategyChoice", Value::Inside(Block::StrategyChoice))] },
        Block::StrategyChoice => STRATEGY_CHOICE_FIELDS,
        Block::CsInfoList => &const { [f(ENTRY, "CsInfo", Value::Inside(Block::CsInfo))] },
        Block::CsInfo => CS_INFO_FIELDS,
        Block::CsDiskList => &const { [f(ENTRY, "CsDisk", Value::Inside(Block::CsDisk))] },
        Block::CsDisk => CS_DISK_FIELDS,
        Block::CsListList => &const { [f(ENTRY, "CsList", Value::Inside(Block::CsList))] },
        Block::CsList => CS_LIST_FIELDS,
        Block::CsPacket => CS_PACKET_FIELDS,
        Block::BptList => &const { [f(ENTRY, "Binding", Value::Inside(Block::Binding))] },
        Block::Binding => BINDING_FIELDS,
        Block::NeighborList => &const { [f(ENTRY, "Neighbor", Value::Inside(Block::Neighbor))] },
        Block::Neighbor => NEIGHBOR_FIELDS,
        Block::ExplainedList => &const { [f(ENTRY, "Explained", Value::Inside(Block::Explained))] },
        Block::Explained => EXPLAINED_FIELDS,
        Block::ExplainedInterest => EXPLAINED_INTEREST_FIELDS,
        Block::ExplainedSending => EXPLAINED_SENDING_FIELDS,
        Block::ExplainedHop => EXPLAINED_HOP_FIELDS,
        Block::ExplainedRoute => EXPLAINED_ROUTE_FIELDS,
        Block::TraceEntry => TRACE_ENTRY_FIELDS,
        Block::TraceStep => &const { [f(TRACE_WHAT, "What", Value::Text), f(COUNT, "Count", COUNT_OF)] },
        Block::TraceSent => TRACE_SENT_FIELDS,
        Block::VipStatusList => &const { [f(ENTRY, "VipStatus", Value::Inside(Block::VipStatus))] },
        Block::VipStatus => VIP_STATUS_FIELDS,
        Block::VipObjectList => &const { [f(ENTRY, "VipObject", Value::Inside(Block::VipObject))] },
        Block::VipObject => VIP_OBJECT_FIELDS,
        Block::VipNeighbourList => &const { [f(ENTRY, "VipNeighbour", Value::Inside(Block::VipNeighbour))] },
        Block::VipNeighbour => VIP_NEIGHBOUR_FIELDS,
        Block::FaceEvents => FACE_EVENTS_FIELDS,
        Block::FaceEvent => FACE_EVENT_FIELDS,
        _ => &[],
    }
}

const PACKETS: &[Field] = &[
    f(INTEREST, "Interest", Value::Inside(Block::Interest)),
    f(DATA, "Data", Value::Inside(Block::Data)),
    f(LP_PACKET, "LpPacket", Value::Inside(Block::LinkPacket)),
    f(NAME, "Name", Value::Name),
    f(SAFE_BAG, "SafeBag", Value::Inside(Block::SafeBag)),
    f(CONTROL_PARAMETERS, "ControlParameters", Value::Inside(Block::ControlParameters)),
    f(CONTROL_RESPONSE, "ControlResponse", Value::Inside(Block::ControlResponse)),
];

const LINK_PACKET: &[Field] = &[
    f(LP_FRAGMENT, "Fragment", Value::Depends),
    f(LP_SEQUENCE, "Sequence", COUNT_OF),
    f(LP_FRAG_INDEX, "FragIndex", COUNT_OF),
    f(LP_FRAG_COUNT, "FragCount", COUNT_OF),
    f(LP_PIT_TOKEN, "PitToken", Value::Octets),
    f(LP_NACK, "Nack", Value::Inside(Block::Nack)),
    f(LP_INCOMING_FACE_ID, "IncomingFaceId", COUNT_OF),
    f(LP_NEXT_HOP_FACE_ID, "NextHopFaceId", COUNT_OF),
    f(LP_CACHE_POLICY, "CachePolicy", Value::Inside(Block::CachePolicy)),
    f(LP_CONGESTION_MARK, "CongestionMark", COUNT_OF),
    f(LP_ACK, "Ack", COUNT_OF),
    f(LP_TX_SEQUENCE, "TxSequence", COUNT_OF),
    f(LP_NON_DISCOVERY, "NonDiscovery", Value::Octets),
    f(LP_PREFIX_ANNOUNCEMENT, "PrefixAnnouncement", Value::Inside(Block::Packets)),
    f(LP_PADDING, "Padding", Value::Octets),
];

const INTEREST_FIELDS: &[Field] = &[
    f(NAME, "Name", Value::PacketName),
    f(CAN_BE_PREFIX, "CanBePrefix", Value::Octets),
    f(MUST_BE_FRESH, "MustBeFresh", Value::Octets),
    f(FORWARDING_HINT, "ForwardingHint", Value::Inside(Block::Names)),
    f(NONCE, "Nonce", Value::Octets),
    f(INTEREST_LIFETIME, "InterestLifetime", Value::Number("ms")),
    f(HOP_LIMIT, "HopLimit", COUNT_OF),
    f(APPLICATION_PARAMETERS, "ApplicationParameters", Value::Depends),
    f(INTEREST_SIGNATURE_INFO, "InterestSignatureInfo", Value::Inside(Block::SignatureInfo)),
    f(INTEREST_SIGNATURE_VALUE, "InterestSignatureValue", Value::Octets),
];

const DATA_FIELDS: &[Field] = &[
    f(NAME, "Name", Value::PacketName),
    f(META_INFO, "MetaInfo", Value::Inside(Block::MetaInfo)),
    f(CONTENT, "Content", Value::Depends),
    f(SIGNATURE_INFO, "SignatureInfo", Value::Inside(Block::SignatureInfo)),
    f(SIGNATURE_VALUE, "SignatureValue", Value::Octets),
];

const META_INFO_FIELDS: &[Field] = &[
    f(CONTENT_TYPE, "ContentType", Value::Choice(content_type)),
    f(FRESHNESS_PERIOD, "FreshnessPeriod", Value::Number("ms")),
    f(FINAL_BLOCK_ID, "FinalBlockId", Value::Component),
];

const SIGNATURE_INFO_FIELDS: &[Field] = &[
    f(SIGNATURE_TYPE, "SignatureType", Value::Choice(signature_type)),
    f(KEY_LOCATOR, "KeyLocator", Value::Inside(Block::KeyLocator)),
    f(SIGNATURE_NONCE, "SignatureNonce", Value::Octets),
    f(SIGNATURE_TIME, "SignatureTime", Value::TimeMs),
    f(SIGNATURE_SEQ_NUM, "SignatureSeqNum", COUNT_OF),
    f(VALIDITY_PERIOD, "ValidityPeriod", Value::Inside(Block::Validity)),
    f(ADDITIONAL_DESCRIPTION, "AdditionalDescription", Value::Inside(Block::Descriptions)),
];

const KEY_LOCATOR_FIELDS: &[Field] =
    &[f(NAME, "Name", Value::Name), f(KEY_DIGEST, "KeyDigest", Value::Octets)];

const VALIDITY_FIELDS: &[Field] =
    &[f(NOT_BEFORE, "NotBefore", Value::Text), f(NOT_AFTER, "NotAfter", Value::Text)];

const DESCRIPTION_FIELDS: &[Field] = &[
    f(DESCRIPTION_KEY, "DescriptionKey", Value::Text),
    f(DESCRIPTION_VALUE, "DescriptionValue", Value::Text),
];

const SAFE_BAG_FIELDS: &[Field] =
    &[f(DATA, "Data", Value::Inside(Block::Data)), f(SAFE_BAG_ENCRYPTED_KEY, "EncryptedKey", Value::Octets)];

const ANNOUNCEMENT_FIELDS: &[Field] = &[
    f(EXPIRATION_PERIOD, "ExpirationPeriod", Value::Number("ms")),
    f(COST, "Cost", COUNT_OF),
    f(VALIDITY_PERIOD, "ValidityPeriod", Value::Inside(Block::Validity)),
];

const METADATA_FIELDS: &[Field] = &[
    f(NAME, "Name", Value::Name),
    f(FINAL_BLOCK_ID, "FinalBlockId", Value::Component),
    f(rdr::SEGMENT_SIZE, "SegmentSize", Value::Number("octets")),
    f(rdr::SIZE, "Size", Value::Number("octets")),
    f(rdr::MODE, "Mode", Value::Octal),
    f(rdr::ATIME, "Atime", Value::TimeNs),
    f(rdr::BTIME, "Btime", Value::TimeNs),
    f(rdr::CTIME, "Ctime", Value::TimeNs),
    f(rdr::MTIME, "Mtime", Value::TimeNs),
    f(rdr::MANIFEST_ENTRIES, "ManifestEntries", COUNT_OF),
    f(rdr::INDEX_FORMAT, "IndexFormat", COUNT_OF),
];

const ARGUMENT_FIELDS: &[Field] = &[
    f(CONTROL_PARAMETERS, "ControlParameters", Value::Inside(Block::ControlParameters)),
    f(FACE_QUERY_FILTER, "FaceQueryFilter", Value::Inside(Block::FaceQueryFilter)),
];

const CONTROL_PARAMETERS_FIELDS: &[Field] = &[
    f(NAME, "Name", Value::Name),
    f(FACE_ID, "FaceId", COUNT_OF),
    f(URI, "Uri", Value::Text),
    f(LOCAL_URI, "LocalUri", Value::Text),
    f(ORIGIN, "Origin", COUNT_OF),
    f(COST, "Cost", COUNT_OF),
    f(CAPACITY, "Capacity", COUNT_OF),
    f(COUNT, "Count", COUNT_OF),
    f(FLAGS, "Flags", COUNT_OF),
    f(MASK, "Mask", COUNT_OF),
    f(STRATEGY, "Strategy", Value::Inside(Block::Names)),
    f(EXPIRATION_PERIOD, "ExpirationPeriod", Value::Number("ms")),
    f(FACE_PERSISTENCY, "FacePersistency", Value::Choice(face_persistency)),
    f(BASE_CONGESTION_MARKING_INTERVAL, "BaseCongestionMarkingInterval", Value::Number("ns")),
    f(DEFAULT_CONGESTION_THRESHOLD, "DefaultCongestionThreshold", Value::Number("octets")),
    f(MTU, "Mtu", Value::Number("octets")),
    f(CS_POLICY, "CsPolicy", Value::Text),
    f(CS_DISK_OCTETS_MAX, "DiskOctetsMax", Value::Number("octets")),
    f(CS_DISK_ADMISSION, "DiskAdmission", Value::Text),
    f(CS_DISK_THRESHOLD, "DiskThreshold", COUNT_OF),
    f(CS_DISK_QUEUE, "DiskQueue", Value::Text),
    f(TRACE_ID, "Trace", COUNT_OF),
];

const FACE_FIELDS_OF_FILTER: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(URI_SCHEME, "UriScheme", Value::Text),
    f(URI, "Uri", Value::Text),
    f(LOCAL_URI, "LocalUri", Value::Text),
    f(FACE_SCOPE, "FaceScope", Value::Choice(face_scope)),
    f(FACE_PERSISTENCY, "FacePersistency", Value::Choice(face_persistency)),
    f(LINK_TYPE, "LinkType", Value::Choice(link_type)),
];

const CONTROL_RESPONSE_FIELDS: &[Field] = &[
    f(STATUS_CODE, "StatusCode", COUNT_OF),
    f(STATUS_TEXT, "StatusText", Value::Text),
    f(CONTROL_PARAMETERS, "ControlParameters", Value::Inside(Block::ControlParameters)),
    f(TRACE_ENTRY, "Traced", Value::Inside(Block::TraceEntry)),
];

const TRACE_ENTRY_FIELDS: &[Field] = &[
    f(TRACE_TIME, "TimeMicroseconds", COUNT_OF),
    f(TRACE_KIND, "Kind", COUNT_OF),
    f(NAME, "Name", Value::Name),
    f(TRACE_CUT, "Cut", Value::Octets),
    f(FACE_ID, "FaceId", COUNT_OF),
    f(TRACE_OCTETS, "Octets", Value::Number("octets")),
    f(TRACE_NONCE, "Nonce", COUNT_OF),
    f(TRACE_HOP_LIMIT, "HopLimit", COUNT_OF),
    f(EXPLAIN_NACK, "NackReason", COUNT_OF),
    f(TRACE_STEP, "Step", Value::Inside(Block::TraceStep)),
    f(TRACE_SENT, "Sent", Value::Inside(Block::TraceSent)),
    f(COUNT, "LeftOut", COUNT_OF),
];

const TRACE_SENT_FIELDS: &[Field] = &[
    f(TRACE_KIND, "Kind", COUNT_OF),
    f(FACE_ID, "FaceId", COUNT_OF),
    f(EXPLAIN_NACK, "NackReason", COUNT_OF),
];

const GENERAL_STATUS_FIELDS: &[Field] = &[
    f(NFD_VERSION, "NfdVersion", Value::Text),
    f(START_TIMESTAMP, "StartTimestamp", Value::TimeMs),
    f(CURRENT_TIMESTAMP, "CurrentTimestamp", Value::TimeMs),
    f(N_NAME_TREE_ENTRIES, "NNameTreeEntries", COUNT_OF),
    f(N_FIB_ENTRIES, "NFibEntries", COUNT_OF),
    f(N_PIT_ENTRIES, "NPitEntries", COUNT_OF),
    f(N_MEASUREMENTS_ENTRIES, "NMeasurementsEntries", COUNT_OF),
    f(N_CS_ENTRIES, "NCsEntries", COUNT_OF),
    f(N_IN_INTERESTS, "NInInterests", COUNT_OF),
    f(N_IN_DATA, "NInData", COUNT_OF),
    f(N_IN_NACKS, "NInNacks", COUNT_OF),
    f(N_OUT_INTERESTS, "NOutInterests", COUNT_OF),
    f(N_OUT_DATA, "NOutData", COUNT_OF),
    f(N_OUT_NACKS, "NOutNacks", COUNT_OF),
    f(N_SATISFIED_INTERESTS, "NSatisfiedInterests", COUNT_OF),
    f(N_UNSATISFIED_INTERESTS, "NUnsatisfiedInterests", COUNT_OF),
    f(N_ROUTES, "NRoutes", COUNT_OF),
    f(N_FACES, "NFaces", COUNT_OF),
    f(ROUTER_DETAILS, "Details", Value::Inside(Block::RouterDetails)),
];

const ROUTER_DETAILS_FIELDS: &[Field] = &[
    f(ROUTER_UPTIME, "Uptime", Value::Number("ms")),
    f(ROUTER_IN_OCTETS, "NInBytes", COUNT_OF),
    f(ROUTER_OUT_OCTETS, "NOutBytes", COUNT_OF),
    f(ROUTER_AWAITED, "Awaited", Value::Text),
    f(ROUTER_DRAINING, "Draining", COUNT_OF),
];

const FACE_STATUS_FIELDS: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(URI, "Uri", Value::Text),
    f(LOCAL_URI, "LocalUri", Value::Text),
    f(EXPIRATION_PERIOD, "ExpirationPeriod", Value::Number("ms")),
    f(FACE_SCOPE, "FaceScope", Value::Choice(face_scope)),
    f(FACE_PERSISTENCY, "FacePersistency", Value::Choice(face_persistency)),
    f(LINK_TYPE, "LinkType", Value::Choice(link_type)),
    f(BASE_CONGESTION_MARKING_INTERVAL, "BaseCongestionMarkingInterval", Value::Number("ns")),
    f(DEFAULT_CONGESTION_THRESHOLD, "DefaultCongestionThreshold", Value::Number("octets")),
    f(MTU, "Mtu", Value::Number("octets")),
    f(N_IN_INTERESTS, "NInInterests", COUNT_OF),
    f(N_IN_DATA, "NInData", COUNT_OF),
    f(N_IN_NACKS, "NInNacks", COUNT_OF),
    f(N_OUT_INTERESTS, "NOutInterests", COUNT_OF),
    f(N_OUT_DATA, "NOutData", COUNT_OF),
    f(N_OUT_NACKS, "NOutNacks", COUNT_OF),
    f(N_IN_BYTES, "NInBytes", COUNT_OF),
    f(N_OUT_BYTES, "NOutBytes", COUNT_OF),
    f(FLAGS, "Flags", COUNT_OF),
    f(FACE_DETAILS, "Details", Value::Inside(Block::FaceDetails)),
];

const FACE_DETAILS_FIELDS: &[Field] = &[
    f(FACE_STATE, "State", Value::Choice(face_state)),
    f(FACE_PROGRAM, "Program", Value::Text),
    f(FACE_PID, "Pid", COUNT_OF),
    f(FACE_UID, "Uid", COUNT_OF),
    f(FACE_USER, "User", Value::Text),
    f(FACE_GIVEN_URI, "GivenUri", Value::Text),
    f(FACE_UNANSWERED, "Unanswered", Value::Inside(Block::FaceUnanswered)),
];

const FACE_UNANSWERED_FIELDS: &[Field] = &[
    f(FACE_IDLE, "Idle", Value::Number("ms")),
    f(FACE_WAITING, "Waiting", Value::Number("ms")),
    f(N_OUT_INTERESTS, "NOutInterests", COUNT_OF),
    f(FACE_FAILURES, "NFailures", COUNT_OF),
];

const FIB_ENTRY_FIELDS: &[Field] =
    &[f(NAME, "Name", Value::Name), f(NEXT_HOP_RECORD, "NextHopRecord", Value::Inside(Block::NextHop))];

const NEXT_HOP_FIELDS: &[Field] = &[f(FACE_ID, "FaceId", COUNT_OF), f(COST, "Cost", COUNT_OF)];

const RIB_ENTRY_FIELDS: &[Field] =
    &[f(NAME, "Name", Value::Name), f(ROUTE, "Route", Value::Inside(Block::Route))];

const ROUTE_FIELDS: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(ORIGIN, "Origin", COUNT_OF),
    f(COST, "Cost", COUNT_OF),
    f(FLAGS, "Flags", COUNT_OF),
    f(EXPIRATION_PERIOD, "ExpirationPeriod", Value::Number("ms")),
];

const STRATEGY_CHOICE_FIELDS: &[Field] =
    &[f(NAME, "Name", Value::Name), f(STRATEGY, "Strategy", Value::Inside(Block::Names))];

const CS_INFO_FIELDS: &[Field] = &[
    f(CAPACITY, "Capacity", Value::Number("packets")),
    f(FLAGS, "Flags", COUNT_OF),
    f(N_CS_ENTRIES, "NCsEntries", COUNT_OF),
    f(N_HITS, "NHits", COUNT_OF),
    f(N_MISSES, "NMisses", COUNT_OF),
    f(CS_POLICY, "CsPolicy", Value::Text),
];

const CS_DISK_FIELDS: &[Field] = &[
    f(CS_DISK_FOLDER, "Folder", Value::Text),
    f(CS_DISK_ENGINE, "Engine", Value::Text),
    f(CS_DISK_TROUBLE, "Trouble", Value::Text),
    f(CS_DISK_ADMISSION, "DiskAdmission", Value::Text),
    f(CS_DISK_QUEUE, "DiskQueue", Value::Text),
    f(CS_DISK_THRESHOLD, "DiskThreshold", COUNT_OF),
    f(CS_DISK_PENDING, "Pending", COUNT_OF),
    f(CS_DISK_OCTETS_MAX, "DiskOctetsMax", Value::Number("octets")),
    f(CS_DISK_OCTETS, "Octets", Value::Number("octets")),
    f(CS_DISK_RECORDS, "Records", COUNT_OF),
    f(CS_DISK_MEMORY, "Memory", Value::Number("octets")),
    f(CS_DISK_PINNED, "Pinned", Value::Inside(Block::Names)),
    f(CS_DISK_COUNTER, "Counter", Value::Inside(Block::Counter)),
];

const CS_LIST_FIELDS: &[Field] =
    &[f(CS_LIST_NEXT, "Next", COUNT_OF), f(CS_LIST_PACKET, "Packet", Value::Inside(Block::CsPacket))];

const CS_PACKET_FIELDS: &[Field] = &[
    f(NAME, "Name", Value::Name),
    f(CS_DISK_OCTETS, "Octets", Value::Number("octets")),
    f(CS_LIST_FRESH, "Fresh", Value::Number("ms")),
];

const VIP_STATUS_FIELDS: &[Field] = &[
    f(VIP_ROUTER, "Router", Value::Text),
    f(NEIGHBOR_KEY, "PublicKey", Value::Octets),
    f(VIP_OPEN, "Open", Value::Octets),
    f(VIP_SLOT, "Slot", COUNT_OF),
    f(VIP_PERIOD, "Period", Value::Number("ms")),
    f(VIP_CATALOGUE, "Catalogue", Value::Text),
    f(VIP_VERSION, "Version", COUNT_OF),
    f(VIP_OBJECTS, "NObjects", COUNT_OF),
    f(VIP_BLOCKS, "NBlocks", COUNT_OF),
    f(VIP_FILES, "NFiles", COUNT_OF),
    f(VIP_OCTETS, "Octets", Value::Number("octets")),
    f(VIP_ROOM, "Room", Value::Number("octets")),
    f(VIP_DISK_ROOM, "DiskRoom", Value::Number("octets")),
    f(VIP_DISK_RATE, "DiskRate", Value::Number("octets/s")),
    f(VIP_COUNTER, "Counter", Value::Inside(Block::Counter)),
];

const VIP_OBJECT_FIELDS: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(VIP_OBJECT, "Object", Value::Text),
    f(VIP_ID, "Id", COUNT_OF),
    f(VIP_OCTETS, "Octets", Value::Number("octets")),
    f(VIP_COUNT, "Count", COUNT_OF),
    f(VIP_SCORE, "Score", COUNT_OF),
    f(VIP_ASKED, "Asked", COUNT_OF),
    f(VIP_HELD, "Held", Value::Number("octets")),
    f(VIP_TIER, "Tier", COUNT_OF),
    f(VIP_SOURCE, "Source", Value::Octets),
];

const VIP_NEIGHBOUR_FIELDS: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(URI, "Uri", Value::Text),
    f(VIP_ROUTER, "Router", Value::Text),
    f(VIP_BOOT, "Boot", COUNT_OF),
    f(VIP_FRESH, "Fresh", Value::Number("ms")),
    f(VIP_UNDER_WAY, "UnderWay", COUNT_OF),
    f(VIP_SLOTS_UNDER_WAY, "SlotsUnderWay", COUNT_OF),
    f(VIP_ENTERED, "Entered", COUNT_OF),
    f(VIP_COUNTER, "Counter", Value::Inside(Block::Counter)),
];

const NEIGHBOR_FIELDS: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(URI, "Station", Value::Text),
    f(LOCAL_URI, "LocalUri", Value::Text),
    f(MTU, "Mtu", Value::Number("octets")),
    f(NEIGHBOR_STATE, "State", COUNT_OF),
    f(NEIGHBOR_MTU, "PeerMtu", Value::Number("octets")),
    f(NEIGHBOR_KEY, "PublicKey", Value::Octets),
    f(NEIGHBOR_SILENT, "Silent", Value::Number("ms")),
    f(NEIGHBOR_ACCEPTED, "Accepted", Value::Inside(Block::Names)),
    f(NEIGHBOR_REFUSED, "Refused", Value::Inside(Block::Names)),
];

const EXPLAINED_FIELDS: &[Field] = &[
    f(EXPLAIN_CACHED, "Cached", Value::Inside(Block::CsPacket)),
    f(EXPLAIN_PENDING, "Pending", Value::Inside(Block::ExplainedInterest)),
    f(EXPLAIN_PREFIX, "Prefix", Value::Inside(Block::Names)),
    f(NEXT_HOP_RECORD, "NextHop", Value::Inside(Block::ExplainedHop)),
    f(EXPLAIN_ROUTE, "Route", Value::Inside(Block::ExplainedRoute)),
    f(EXPLAIN_BOUND, "BoundBy", COUNT_OF),
    f(STRATEGY, "Strategy", Value::Inside(Block::Names)),
    f(EXPLAIN_CHOICE, "ChosenFor", Value::Inside(Block::Names)),
    f(EXPLAIN_DISCOVERY, "DiscoveryFace", COUNT_OF),
    f(N_PIT_ENTRIES, "NPitEntries", COUNT_OF),
    f(CAPACITY, "PitCapacity", COUNT_OF),
    f(EXPLAIN_REFUSAL, "Refusal", Value::Text),
    f(EXPLAIN_PARTIAL, "Partial", Value::Octets),
    f(FACE_ID, "Asker", COUNT_OF),
];

const EXPLAINED_INTEREST_FIELDS: &[Field] = &[
    f(EXPIRATION_PERIOD, "Left", Value::Number("ms")),
    f(FACE_ID, "FaceId", COUNT_OF),
    f(EXPLAIN_SENDING, "Sent", Value::Inside(Block::ExplainedSending)),
];

const EXPLAINED_SENDING_FIELDS: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(EXPLAIN_SINCE, "Since", Value::Number("ms")),
    f(EXPLAIN_NACK, "NackReason", COUNT_OF),
];

const EXPLAINED_HOP_FIELDS: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(COST, "Cost", COUNT_OF),
    f(FLAGS, "Failing", COUNT_OF),
    f(EXPLAIN_RTT, "RoundTrip", Value::Number("us")),
];

const EXPLAINED_ROUTE_FIELDS: &[Field] = &[
    f(NAME, "Name", Value::Name),
    f(FACE_ID, "FaceId", COUNT_OF),
    f(ORIGIN, "Origin", COUNT_OF),
    f(COST, "Cost", COUNT_OF),
    f(FLAGS, "Flags", COUNT_OF),
    f(EXPIRATION_PERIOD, "Left", Value::Number("ms")),
];

const BINDING_FIELDS: &[Field] =
    &[f(NAME, "Name", Value::Name), f(FACE_ID, "FaceId", COUNT_OF), f(FLAGS, "Flags", COUNT_OF)];

const COUNTER_FIELDS: &[Field] = &[
    f(FACE_ID, "FaceId", COUNT_OF),
    f(COUNTER_LABEL, "Label", Value::Text),
    f(COUNTER_VALUE, "Value", COUNT_OF),
];

const FACE_EVENTS_FIELDS: &[Field] =
    &[f(FACE_EVENT_NOTIFICATION, "FaceEventNotification", Value::Inside(Block::FaceEvent))];

const FACE_EVENT_FIELDS: &[Field] = &[
    f(FACE_EVENT_KIND, "FaceEventKind", Value::Choice(face_event_kind)),
    f(FACE_ID, "FaceId", COUNT_OF),
    f(URI, "Uri", Value::Text),
    f(LOCAL_URI, "LocalUri", Value::Text),
    f(FACE_SCOPE, "FaceScope", Value::Choice(face_scope)),
    f(FACE_PERSISTENCY, "FacePersistency", Value::Choice(face_persistency)),
    f(LINK_TYPE, "LinkType", Value::Choice(link_type)),
    f(FLAGS, "Flags", COUNT_OF),
];

fn nack_reason(n: u64) -> &'static str {
    match n {
        0 => "None",
        50 => "Congestion",
        100 => "Duplicate",
        150 => "NoRoute",
        _ => "",
    }
}

fn cache_policy(n: u64) -> &'static str {
    if n == 1 { "NoCache" } else { "" }
}

fn content_type(n: u64) -> &'static str {
    match n {
        0 => "Blob",
        1 => "Link",
        2 => "Key",
        3 => "Nack",
        4 => "Manifest",
        5 => "PrefixAnnouncement",
        _ => "",
    }
}

fn signature_type(n: u64) -> &'static str {
    match n {
        0 => "DigestSha256",
        1 => "SignatureSha256WithRsa",
        3 => "SignatureSha256WithEcdsa",
        4 => "SignatureHmacWithSha256",
        5 => "SignatureEd25519",
        200 => "NullSignature",
        _ => "",
    }
}

fn face_scope(n: u64) -> &'static str {
    FaceScope::from_number(n).map_or("", FaceScope::as_str)
}

fn face_state(n: u64) -> &'static str {
    FaceState::from_number(n).map_or("", FaceState::as_str)
}

fn face_persistency(n: u64) -> &'static str {
    FacePersistency::from_number(n).map_or("", FacePersistency::as_str)
}

fn link_type(n: u64) -> &'static str {
    LinkType::from_number(n).map_or("", LinkType::as_str)
}

fn face_event_kind(n: u64) -> &'static str {
    FaceEventKind::from_number(n).map_or("", FaceEventKind::as_str)
}
