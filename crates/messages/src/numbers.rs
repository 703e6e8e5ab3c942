//! TLV TYPE numbers of NFD management. Several have another meaning in another block, most of all
//! 128 to 137. The comment of such a constant therefore names its block.
#![allow(missing_docs, reason = "the names are NFD's; the structs that use them document them")]

pub const CONTROL_RESPONSE: u32 = 101;
pub const STATUS_CODE: u32 = 102;
pub const STATUS_TEXT: u32 = 103;

pub const CONTROL_PARAMETERS: u32 = 104;
pub const FACE_ID: u32 = 105;
pub const COST: u32 = 106;
pub const STRATEGY: u32 = 107;
pub const FLAGS: u32 = 108;
pub const EXPIRATION_PERIOD: u32 = 109;
pub const ORIGIN: u32 = 111;
pub const MASK: u32 = 112;
pub const URI: u32 = 114;
pub const LOCAL_URI: u32 = 129;
pub const CAPACITY: u32 = 131;
pub const COUNT: u32 = 132;
pub const FACE_PERSISTENCY: u32 = 133;
pub const BASE_CONGESTION_MARKING_INTERVAL: u32 = 135;
pub const DEFAULT_CONGESTION_THRESHOLD: u32 = 136;
pub const MTU: u32 = 137;

/// The block of one entry of a dataset, except of the general status and the channel list.
pub const ENTRY: u32 = 128;
pub const CHANNEL_STATUS: u32 = 130;
pub const FACE_QUERY_FILTER: u32 = 150;
pub const FACE_EVENT_NOTIFICATION: u32 = 192;
pub const FACE_EVENT_KIND: u32 = 193;

/// In FaceQueryFilter.
pub const URI_SCHEME: u32 = 131;
/// In FaceStatus, FaceQueryFilter and FaceEventNotification.
pub const FACE_SCOPE: u32 = 132;
/// In FaceStatus, FaceQueryFilter and FaceEventNotification.
pub const LINK_TYPE: u32 = 134;

/// In FibEntry.
pub const NEXT_HOP_RECORD: u32 = 129;
/// In RibEntry.
pub const ROUTE: u32 = 129;
/// In CsInfo.
pub const N_HITS: u32 = 129;
/// In CsInfo.
pub const N_MISSES: u32 = 130;

/// In the general status.
pub const NFD_VERSION: u32 = 128;
/// In the general status.
pub const START_TIMESTAMP: u32 = 129;
/// In the general status.
pub const CURRENT_TIMESTAMP: u32 = 130;
/// In the general status.
pub const N_NAME_TREE_ENTRIES: u32 = 131;
/// In the general status.
pub const N_FIB_ENTRIES: u32 = 132;
/// In the general status.
pub const N_PIT_ENTRIES: u32 = 133;
/// In the general status.
pub const N_MEASUREMENTS_ENTRIES: u32 = 134;
/// In the general status and in CsInfo.
pub const N_CS_ENTRIES: u32 = 135;

/// Namely's own: in ControlParameters of `cs/config` and in CsInfo. The number is even, so other
/// implementations ignore the element.
pub const CS_POLICY: u32 = 204;

/// Namely's own, in the general status.
pub const N_ROUTES: u32 = 206;
/// Namely's own, in the general status.
pub const N_FACES: u32 = 208;

/// Namely's own, as are the next ones: in ControlParameters of `cs/config` and in an entry of
/// `cs/disk`.
pub const CS_DISK_OCTETS_MAX: u32 = 224;
/// In ControlParameters of `cs/config` and in an entry of `cs/disk`.
pub const CS_DISK_ADMISSION: u32 = 226;
/// In ControlParameters of `cs/config` and in an entry of `cs/disk`.
pub const CS_DISK_THRESHOLD: u32 = 228;
/// In ControlParameters of `cs/config` and in an entry of `cs/disk`.
pub const CS_DISK_QUEUE: u32 = 230;
/// In an entry of `cs/disk`.
pub const CS_DISK_FOLDER: u32 = 232;
/// In an entry of `cs/disk`.
pub const CS_DISK_ENGINE: u32 = 234;
/// In an entry of `cs/disk`.
pub const CS_DISK_TROUBLE: u32 = 236;
/// In an entry of `cs/disk`.
pub const CS_DISK_OCTETS: u32 = 238;
/// In an entry of `cs/disk`.
pub const CS_DISK_RECORDS: u32 = 240;
/// In an entry of `cs/disk`.
pub const CS_DISK_MEMORY: u32 = 242;
/// In an entry of `cs/disk`.
pub const CS_DISK_PENDING: u32 = 244;
/// In an entry of `cs/disk`.
pub const CS_DISK_PINNED: u32 = 246;
/// In an entry of `cs/disk`.
pub const CS_DISK_COUNTER: u32 = 248;

/// In an entry of `cs/list`.
pub const CS_LIST_NEXT: u32 = 250;
/// In an entry of `cs/list`.
pub const CS_LIST_PACKET: u32 = 252;
/// In a packet of `cs/list`.
pub const CS_LIST_FRESH: u32 = 254;

/// In an entry of namely's `name/explain`, as are the next ones: a cached Data.
pub const EXPLAIN_CACHED: u32 = 256;
/// A pending Interest.
pub const EXPLAIN_PENDING: u32 = 258;
/// An upstream to which a pending Interest was sent.
pub const EXPLAIN_SENDING: u32 = 260;
/// The time since the Interest was sent, ms.
pub const EXPLAIN_SINCE: u32 = 262;
/// The reason of a Nack.
pub const EXPLAIN_NACK: u32 = 264;
/// The FIB's longest match.
pub const EXPLAIN_PREFIX: u32 = 266;
/// A route of the RIB.
pub const EXPLAIN_ROUTE: u32 = 268;
/// The face of the application that bound the name.
pub const EXPLAIN_BOUND: u32 = 270;
/// The prefix that the strategy was chosen for.
pub const EXPLAIN_CHOICE: u32 = 272;
/// A face for discovery.
pub const EXPLAIN_DISCOVERY: u32 = 274;
/// The reason for which the name may not be registered.
pub const EXPLAIN_REFUSAL: u32 = 276;
/// The round trip to a next hop, us.
pub const EXPLAIN_RTT: u32 = 278;
/// Cached Data and pending Interests are left out.
pub const EXPLAIN_PARTIAL: u32 = 280;

/// In an entry of namely's `vip/status`, `vip/objects` or `vip/neighbours`, as are the next ones: a
/// router's name in the exchange.
pub const VIP_ROUTER: u32 = 282;
/// Neighbors need not sign.
pub const VIP_OPEN: u32 = 284;
/// The number of the slot.
pub const VIP_SLOT: u32 = 286;
/// Duration of a slot, ms.
pub const VIP_PERIOD: u32 = 288;
/// The file of the catalogue.
pub const VIP_CATALOGUE: u32 = 290;
/// The version of the catalogue.
pub const VIP_VERSION: u32 = 292;
/// Objects.
pub const VIP_OBJECTS: u32 = 294;
/// Files.
pub const VIP_FILES: u32 = 296;
/// Octets.
pub const VIP_OCTETS: u32 = 298;
/// Room for retained objects, octets.
pub const VIP_ROOM: u32 = 300;
/// A counter.
pub const VIP_COUNTER: u32 = 302;
/// An object's name.
pub const VIP_OBJECT: u32 = 304;
/// An object's id.
pub const VIP_ID: u32 = 306;
/// V, as all VIPs in units of 2^-20.
pub const VIP_COUNT: u32 = 308;
/// An object's score.
pub const VIP_SCORE: u32 = 310;
/// VIPs of requests that began here.
pub const VIP_ASKED: u32 = 312;
/// The tier in which an object is kept.
pub const VIP_TIER: u32 = 314;
/// The object comes from here.
pub const VIP_SOURCE: u32 = 316;
/// A neighbor's boot number.
pub const VIP_BOOT: u32 = 318;
/// The remaining time for which counts are used, ms.
pub const VIP_FRESH: u32 = 320;
/// VIPs that are not acknowledged.
pub const VIP_UNDER_WAY: u32 = 322;
/// Slots of the VIPs that are not acknowledged.
pub const VIP_SLOTS_UNDER_WAY: u32 = 324;
/// A neighbor's latest slot whose VIPs were added.
pub const VIP_ENTERED: u32 = 326;
/// Octets of an object that the content store has in memory.
pub const VIP_HELD: u32 = 328;
/// Blocks of the catalogue.
pub const VIP_BLOCKS: u32 = 330;
/// Room for objects retained on disk, octets.
pub const VIP_DISK_ROOM: u32 = 332;
/// The rate at which the disk can be read, octets/s.
pub const VIP_DISK_RATE: u32 = 334;

/// In the response of namely's `trace/read`, as are the next ones: a packet.
pub const TRACE_ENTRY: u32 = 340;
/// Its time of arrival, us since the Unix epoch.
pub const TRACE_TIME: u32 = 342;
/// The kind of the packet.
pub const TRACE_KIND: u32 = 344;
/// Its name is truncated.
pub const TRACE_CUT: u32 = 346;
/// Its octets.
pub const TRACE_OCTETS: u32 = 348;
/// Its Nonce.
pub const TRACE_NONCE: u32 = 350;
/// Its HopLimit.
pub const TRACE_HOP_LIMIT: u32 = 352;
/// A decision.
pub const TRACE_STEP: u32 = 354;
/// The text of a decision.
pub const TRACE_WHAT: u32 = 356;
/// A packet that left.
pub const TRACE_SENT: u32 = 358;
/// In ControlParameters of `trace/start`, `read` and `stop`: the number of the trace.
pub const TRACE_ID: u32 = 360;

/// A router's answer to a trace of a name hop by hop.
pub const HOP_ANSWER: u32 = 362;
/// In a [`HOP_ANSWER`]: a next hop.
pub const HOP_NEXT: u32 = 364;

/// In an entry of namely's `name/explain`: whether a command would be accepted.
pub const EXPLAIN_RIGHT: u32 = 366;
/// In an entry of namely's `name/explain`: the client's uid.
pub const EXPLAIN_UID: u32 = 368;
/// In an explained right: the kind of fault of a refused command, in one word.
pub const EXPLAIN_CAUSE: u32 = 370;

/// In the general status: namely's own values.
pub const ROUTER_DETAILS: u32 = 372;
/// In [`ROUTER_DETAILS`], as are the next ones: the time since the start, ms.
pub const ROUTER_UPTIME: u32 = 374;
/// Octets received on all present and former faces.
pub const ROUTER_IN_OCTETS: u32 = 376;
/// Octets sent on them.
pub const ROUTER_OUT_OCTETS: u32 = 378;
/// An address of the configuration for whose device the router waits.
pub const ROUTER_AWAITED: u32 = 380;

/// The pending Interests that a draining router still answers.
pub const ROUTER_DRAINING: u32 = 430;

/// In FaceStatus: namely's own values.
pub const FACE_DETAILS: u32 = 382;
/// In [`FACE_DETAILS`], as are the next ones: whether the face can send.
pub const FACE_STATE: u32 = 384;
/// The program at the other end.
pub const FACE_PROGRAM: u32 = 386;
/// Its process id.
pub const FACE_PID: u32 = 388;
/// Its user id.
pub const FACE_UID: u32 = 390;
/// The name of its user.
pub const FACE_USER: u32 = 392;
/// The remote URI with the host name by which the face was made.
pub const FACE_GIVEN_URI: u32 = 394;
/// The packets sent since the last frame arrived.
pub const FACE_UNANSWERED: u32 = 420;
/// In [`FACE_UNANSWERED`], as are the next ones: the time since the last arrival, ms.
pub const FACE_IDLE: u32 = 422;
/// The time since the first Interest after it, ms.
pub const FACE_WAITING: u32 = 424;
/// Frames that did not reach the peer.
pub const FACE_FAILURES: u32 = 426;

/// In a [`HOP_ANSWER`]: a next hop is the face from which the trace arrived.
pub const HOP_LEADS_BACK: u32 = 428;

/// In a counter of namely's `status/counters`.
pub const COUNTER_LABEL: u32 = 200;
/// In a counter of namely's `status/counters`.
pub const COUNTER_VALUE: u32 = 202;

pub const N_IN_INTERESTS: u32 = 144;
pub const N_IN_DATA: u32 = 145;
pub const N_OUT_INTERESTS: u32 = 146;
pub const N_OUT_DATA: u32 = 147;
pub const N_IN_BYTES: u32 = 148;
pub const N_OUT_BYTES: u32 = 149;
pub const N_IN_NACKS: u32 = 151;
pub const N_OUT_NACKS: u32 = 152;
pub const N_SATISFIED_INTERESTS: u32 = 153;
pub const N_UNSATISFIED_INTERESTS: u32 = 154;

/// In an entry of namely's `neighbors/list`.
pub const NEIGHBOR_STATE: u32 = 210;
/// In an entry of namely's `neighbors/list`.
pub const NEIGHBOR_MTU: u32 = 212;
/// In an entry of namely's `neighbors/list`.
pub const NEIGHBOR_KEY: u32 = 214;
/// In an entry of namely's `neighbors/list`.
pub const NEIGHBOR_SILENT: u32 = 216;
/// In an entry of namely's `neighbors/list`.
pub const NEIGHBOR_ACCEPTED: u32 = 218;
/// In an entry of namely's `neighbors/list`.
pub const NEIGHBOR_REFUSED: u32 = 220;
