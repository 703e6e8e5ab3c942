//! TLV TYPE numbers of NFD management. Several are used again with another meaning in another block
//! (128 to 137 most of all), so each name says in which block it holds.
#![allow(missing_docs, reason = "the names are NFD's; the structs that use them say what they mean")]

pub(crate) const CONTROL_RESPONSE: u32 = 101;
pub(crate) const STATUS_CODE: u32 = 102;
pub(crate) const STATUS_TEXT: u32 = 103;

pub(crate) const CONTROL_PARAMETERS: u32 = 104;
pub(crate) const FACE_ID: u32 = 105;
pub(crate) const COST: u32 = 106;
pub(crate) const STRATEGY: u32 = 107;
pub(crate) const FLAGS: u32 = 108;
pub(crate) const EXPIRATION_PERIOD: u32 = 109;
pub(crate) const ORIGIN: u32 = 111;
pub(crate) const MASK: u32 = 112;
pub(crate) const URI: u32 = 114;
pub(crate) const LOCAL_URI: u32 = 129;
pub(crate) const CAPACITY: u32 = 131;
pub(crate) const COUNT: u32 = 132;
pub(crate) const FACE_PERSISTENCY: u32 = 133;
pub(crate) const BASE_CONGESTION_MARKING_INTERVAL: u32 = 135;
pub(crate) const DEFAULT_CONGESTION_THRESHOLD: u32 = 136;
pub(crate) const MTU: u32 = 137;

/// The block of one entry of every dataset but the general status and the channel list.
pub(crate) const ENTRY: u32 = 128;
pub(crate) const CHANNEL_STATUS: u32 = 130;
pub(crate) const FACE_QUERY_FILTER: u32 = 150;
pub(crate) const FACE_EVENT_NOTIFICATION: u32 = 192;
pub(crate) const FACE_EVENT_KIND: u32 = 193;

/// In FaceQueryFilter.
pub(crate) const URI_SCHEME: u32 = 131;
/// In FaceStatus, FaceQueryFilter and FaceEventNotification.
pub(crate) const FACE_SCOPE: u32 = 132;
/// In FaceStatus, FaceQueryFilter and FaceEventNotification.
pub(crate) const LINK_TYPE: u32 = 134;

/// In FibEntry.
pub(crate) const NEXT_HOP_RECORD: u32 = 129;
/// In RibEntry.
pub(crate) const ROUTE: u32 = 129;
/// In CsInfo.
pub(crate) const N_HITS: u32 = 129;
/// In CsInfo.
pub(crate) const N_MISSES: u32 = 130;

/// In the general status.
pub(crate) const NFD_VERSION: u32 = 128;
/// In the general status.
pub(crate) const START_TIMESTAMP: u32 = 129;
/// In the general status.
pub(crate) const CURRENT_TIMESTAMP: u32 = 130;
/// In the general status.
pub(crate) const N_NAME_TREE_ENTRIES: u32 = 131;
/// In the general status.
pub(crate) const N_FIB_ENTRIES: u32 = 132;
/// In the general status.
pub(crate) const N_PIT_ENTRIES: u32 = 133;
/// In the general status.
pub(crate) const N_MEASUREMENTS_ENTRIES: u32 = 134;
/// In the general status and in CsInfo.
pub(crate) const N_CS_ENTRIES: u32 = 135;

/// Namely's own: in ControlParameters of `cs/config` and in CsInfo. Even, so that others pass over
/// it.
pub(crate) const CS_POLICY: u32 = 204;

/// Namely's own, in the general status.
pub(crate) const N_ROUTES: u32 = 206;
/// Namely's own, in the general status.
pub(crate) const N_FACES: u32 = 208;

/// Namely's own, as all of these: in ControlParameters of `cs/config` and in an entry of `cs/disk`.
pub(crate) const CS_DISK_OCTETS_MAX: u32 = 224;
/// In ControlParameters of `cs/config` and in an entry of `cs/disk`.
pub(crate) const CS_DISK_ADMISSION: u32 = 226;
/// In ControlParameters of `cs/config` and in an entry of `cs/disk`.
pub(crate) const CS_DISK_THRESHOLD: u32 = 228;
/// In ControlParameters of `cs/config` and in an entry of `cs/disk`.
pub(crate) const CS_DISK_QUEUE: u32 = 230;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_FOLDER: u32 = 232;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_ENGINE: u32 = 234;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_TROUBLE: u32 = 236;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_OCTETS: u32 = 238;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_RECORDS: u32 = 240;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_MEMORY: u32 = 242;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_PENDING: u32 = 244;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_PINNED: u32 = 246;
/// In an entry of `cs/disk`.
pub(crate) const CS_DISK_COUNTER: u32 = 248;

/// In an entry of `cs/list`.
pub(crate) const CS_LIST_NEXT: u32 = 250;
/// In an entry of `cs/list`.
pub(crate) const CS_LIST_PACKET: u32 = 252;
/// In a packet of `cs/list`.
pub(crate) const CS_LIST_FRESH: u32 = 254;

/// In an entry of namely's `name/explain`, as all of these: a cached Data.
pub(crate) const EXPLAIN_CACHED: u32 = 256;
/// A pending Interest.
pub(crate) const EXPLAIN_PENDING: u32 = 258;
/// Where a pending Interest was sent.
pub(crate) const EXPLAIN_SENDING: u32 = 260;
/// How long ago it was sent, ms.
pub(crate) const EXPLAIN_SINCE: u32 = 262;
/// The reason of a Nack.
pub(crate) const EXPLAIN_NACK: u32 = 264;
/// The FIB's longest match.
pub(crate) const EXPLAIN_PREFIX: u32 = 266;
/// A route of the RIB.
pub(crate) const EXPLAIN_ROUTE: u32 = 268;
/// Who bound the name.
pub(crate) const EXPLAIN_BOUND: u32 = 270;
/// The prefix that the strategy was chosen for.
pub(crate) const EXPLAIN_CHOICE: u32 = 272;
/// A face for discovery.
pub(crate) const EXPLAIN_DISCOVERY: u32 = 274;
/// Why the name may not be registered.
pub(crate) const EXPLAIN_REFUSAL: u32 = 276;
/// The round trip to a next hop, us.
pub(crate) const EXPLAIN_RTT: u32 = 278;
/// That some of it is not told to who asks.
pub(crate) const EXPLAIN_PARTIAL: u32 = 280;

/// In an entry of namely's `vip/status`, `vip/objects` or `vip/neighbours`, as all of these: a
/// router's name in the exchange.
pub(crate) const VIP_ROUTER: u32 = 282;
/// Nobody need sign.
pub(crate) const VIP_OPEN: u32 = 284;
/// The number of the slot.
pub(crate) const VIP_SLOT: u32 = 286;
/// How long a slot lasts, ms.
pub(crate) const VIP_PERIOD: u32 = 288;
/// The file of the catalogue.
pub(crate) const VIP_CATALOGUE: u32 = 290;
/// The version of the catalogue.
pub(crate) const VIP_VERSION: u32 = 292;
/// Objects.
pub(crate) const VIP_OBJECTS: u32 = 294;
/// Files.
pub(crate) const VIP_FILES: u32 = 296;
/// Octets.
pub(crate) const VIP_OCTETS: u32 = 298;
/// Room for what is kept, octets.
pub(crate) const VIP_ROOM: u32 = 300;
/// A counter.
pub(crate) const VIP_COUNTER: u32 = 302;
/// An object's name.
pub(crate) const VIP_OBJECT: u32 = 304;
/// An object's id.
pub(crate) const VIP_ID: u32 = 306;
/// V, as all VIPs in units of 2^-20.
pub(crate) const VIP_COUNT: u32 = 308;
/// An object's score.
pub(crate) const VIP_SCORE: u32 = 310;
/// VIPs that were asked for here.
pub(crate) const VIP_ASKED: u32 = 312;
/// The tier in which an object is kept.
pub(crate) const VIP_TIER: u32 = 314;
/// The object comes from here.
pub(crate) const VIP_SOURCE: u32 = 316;
/// A neighbour's life.
pub(crate) const VIP_BOOT: u32 = 318;
/// For how long counts are used, ms.
pub(crate) const VIP_FRESH: u32 = 320;
/// VIPs that are not acknowledged.
pub(crate) const VIP_UNDER_WAY: u32 = 322;
/// Slots of these.
pub(crate) const VIP_SLOTS_UNDER_WAY: u32 = 324;
/// A neighbour's last slot that was entered.
pub(crate) const VIP_ENTERED: u32 = 326;
/// Octets of memory that the content store has of an object.
pub(crate) const VIP_HELD: u32 = 328;
/// Blocks of the catalogue.
pub(crate) const VIP_BLOCKS: u32 = 330;
/// Room for what is kept on disk, octets.
pub(crate) const VIP_DISK_ROOM: u32 = 332;
/// What can be read of that, octets in a second.
pub(crate) const VIP_DISK_RATE: u32 = 334;

/// In the response of namely's `trace/read`, as all of these: a packet.
pub(crate) const TRACE_ENTRY: u32 = 340;
/// When it came, us since the Unix epoch.
pub(crate) const TRACE_TIME: u32 = 342;
/// What it is.
pub(crate) const TRACE_KIND: u32 = 344;
/// That its name is longer.
pub(crate) const TRACE_CUT: u32 = 346;
/// Its octets.
pub(crate) const TRACE_OCTETS: u32 = 348;
/// Its Nonce.
pub(crate) const TRACE_NONCE: u32 = 350;
/// Its HopLimit.
pub(crate) const TRACE_HOP_LIMIT: u32 = 352;
/// Something that was decided.
pub(crate) const TRACE_STEP: u32 = 354;
/// What was decided, in words.
pub(crate) const TRACE_WHAT: u32 = 356;
/// A packet that left.
pub(crate) const TRACE_SENT: u32 = 358;
/// In ControlParameters of `trace/start`, `read` and `stop`: which trace.
pub(crate) const TRACE_ID: u32 = 360;

/// What a router says of a name to who follows it hop by hop.
pub(crate) const HOP_ANSWER: u32 = 362;
/// In that: a next hop.
pub(crate) const HOP_NEXT: u32 = 364;

/// In an entry of namely's `name/explain`: whether a command would be let through.
pub(crate) const EXPLAIN_RIGHT: u32 = 366;
/// In an entry of namely's `name/explain`: the uid of who asks.
pub(crate) const EXPLAIN_UID: u32 = 368;
/// In what is said of a right: the kind of fault that a command would meet, in a word.
pub(crate) const EXPLAIN_CAUSE: u32 = 370;

/// In a counter of namely's `status/counters`.
pub(crate) const COUNTER_LABEL: u32 = 200;
/// In a counter of namely's `status/counters`.
pub(crate) const COUNTER_VALUE: u32 = 202;

pub(crate) const N_IN_INTERESTS: u32 = 144;
pub(crate) const N_IN_DATA: u32 = 145;
pub(crate) const N_OUT_INTERESTS: u32 = 146;
pub(crate) const N_OUT_DATA: u32 = 147;
pub(crate) const N_IN_BYTES: u32 = 148;
pub(crate) const N_OUT_BYTES: u32 = 149;
pub(crate) const N_IN_NACKS: u32 = 151;
pub(crate) const N_OUT_NACKS: u32 = 152;
pub(crate) const N_SATISFIED_INTERESTS: u32 = 153;
pub(crate) const N_UNSATISFIED_INTERESTS: u32 = 154;

/// In an entry of namely's `neighbors/list`.
pub(crate) const NEIGHBOR_STATE: u32 = 210;
/// In an entry of namely's `neighbors/list`.
pub(crate) const NEIGHBOR_MTU: u32 = 212;
/// In an entry of namely's `neighbors/list`.
pub(crate) const NEIGHBOR_KEY: u32 = 214;
/// In an entry of namely's `neighbors/list`.
pub(crate) const NEIGHBOR_SILENT: u32 = 216;
/// In an entry of namely's `neighbors/list`.
pub(crate) const NEIGHBOR_ACCEPTED: u32 = 218;
/// In an entry of namely's `neighbors/list`.
pub(crate) const NEIGHBOR_REFUSED: u32 = 220;
