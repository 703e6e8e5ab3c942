//! Datasets and notifications about faces: `faces/list`, `faces/query`, `faces/channels`,
//! `faces/events`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::field::block;
use super::numbers::*;
use super::values::{FaceEventKind, FacePersistency, FaceScope, FaceState, LinkType};

block! {
    /// FaceStatus: one face of `faces/list` or `faces/query`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FaceStatus: ENTRY {
        /// FaceId.
        pub face_id: u64 = FACE_ID;
        /// Uri: the remote end.
        pub uri: String = URI;
        /// LocalUri: the local end.
        pub local_uri: String = LOCAL_URI;
        /// ExpirationPeriod: time until an idle on-demand face is closed, ms.
        pub expiration_period_ms: Option<u64> = EXPIRATION_PERIOD;
        /// FaceScope.
        pub face_scope: FaceScope = FACE_SCOPE;
        /// FacePersistency.
        pub face_persistency: FacePersistency = FACE_PERSISTENCY;
        /// LinkType.
        pub link_type: LinkType = LINK_TYPE;
        /// BaseCongestionMarkingInterval, ns.
        pub base_congestion_marking_interval_ns: Option<u64> = BASE_CONGESTION_MARKING_INTERVAL;
        /// DefaultCongestionThreshold, octets of send queue.
        pub default_congestion_threshold_octets: Option<u64> = DEFAULT_CONGESTION_THRESHOLD;
        /// Mtu, octets.
        pub mtu: Option<u64> = MTU;
        /// NInInterests.
        pub in_interests: u64 = N_IN_INTERESTS;
        /// NInData.
        pub in_data: u64 = N_IN_DATA;
        /// NInNacks.
        pub in_nacks: u64 = N_IN_NACKS;
        /// NOutInterests.
        pub out_interests: u64 = N_OUT_INTERESTS;
        /// NOutData.
        pub out_data: u64 = N_OUT_DATA;
        /// NOutNacks.
        pub out_nacks: u64 = N_OUT_NACKS;
        /// NInBytes: octets of link packets received.
        pub in_octets: u64 = N_IN_BYTES;
        /// NOutBytes: octets of link packets sent.
        pub out_octets: u64 = N_OUT_BYTES;
        /// Flags: see [`super::face_flags`].
        pub flags: u64 = FLAGS;
        /// Namely's own values; other routers have none.
        pub details: Option<FaceDetails> = FACE_DETAILS;
    }
}

block! {
    /// Values of a face that NFD does not report.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FaceDetails: FACE_DETAILS {
        /// Whether the face can send.
        pub state: FaceState = FACE_STATE, default;
        /// The program at the other end of a Unix socket, as it called itself when it connected.
        pub program: Option<String> = FACE_PROGRAM;
        /// Its process id, unless it is in another PID namespace.
        pub pid: Option<u64> = FACE_PID;
        /// Its user id.
        pub uid: Option<u64> = FACE_UID;
        /// The name of its user, if the router's machine has one.
        pub user: Option<String> = FACE_USER;
        /// The remote URI with the host name by which the face was made.
        pub given_uri: Option<String> = FACE_GIVEN_URI;
        /// The packets sent since the last frame arrived, if there are any.
        pub unanswered: Option<FaceUnanswered> = FACE_UNANSWERED;
    }
}

impl FaceStatus {
    /// The program at the other end for people, as `namely (pid 4711, lab)`. `None` if it is
    /// unknown. A program chooses its own name, so this is foreign text.
    pub fn process(&self) -> Option<String> {
        let details = self.details.as_ref()?;
        let uid = details.uid?;
        let pid = details.pid.map(|pid| format!("pid {pid}"));
        let user = details.user.clone().unwrap_or_else(|| format!("user {uid}"));
        let known: Vec<String> = pid.into_iter().chain([user]).collect();
        Some(format!("{} ({})", details.program.as_deref().unwrap_or("?"), known.join(", ")))
    }

    /// The remote end for people: the program of a local face, otherwise the URI.
    pub fn remote_text(&self) -> String {
        self.process().unwrap_or_else(|| self.uri.clone())
    }

    /// Whether the face can send; `None` if the router does not report it.
    pub fn state(&self) -> Option<FaceState> {
        self.details.as_ref().map(|details| details.state)
    }

    /// The packets sent since the last frame arrived. `None` if there are none, or if the router
    /// does not report them.
    pub fn unanswered(&self) -> Option<FaceUnanswered> {
        self.details.as_ref()?.unanswered
    }
}

block! {
    /// What a face sent since the last frame arrived on it. Totals do not show whether a peer
    /// answers now.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FaceUnanswered: FACE_UNANSWERED {
        /// The time since the last frame arrived, or since the face was made, ms.
        pub idle_ms: u64 = FACE_IDLE;
        /// The time since the first Interest was sent after that, ms.
        pub waiting_ms: Option<u64> = FACE_WAITING;
        /// NOutInterests: the Interests sent after that.
        pub interests: u64 = N_OUT_INTERESTS;
        /// Frames after that which did not reach the peer, as the system reported.
        pub failures: u64 = FACE_FAILURES;
    }
}

block! {
    /// ChannelStatus: one local address of `faces/channels` on which faces are accepted.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ChannelStatus: CHANNEL_STATUS {
        /// LocalUri.
        pub local_uri: String = LOCAL_URI;
    }
}

block! {
    /// FaceQueryFilter: selects the faces that `faces/query` lists. An absent field matches every
    /// face.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FaceQueryFilter: strict FACE_QUERY_FILTER {
        /// FaceId.
        pub face_id: Option<u64> = FACE_ID;
        /// UriScheme: of either end.
        pub uri_scheme: Option<String> = URI_SCHEME;
        /// Uri: the remote end.
        pub uri: Option<String> = URI;
        /// LocalUri: the local end.
        pub local_uri: Option<String> = LOCAL_URI;
        /// FaceScope.
        pub face_scope: Option<FaceScope> = FACE_SCOPE;
        /// FacePersistency.
        pub face_persistency: Option<FacePersistency> = FACE_PERSISTENCY;
        /// LinkType.
        pub link_type: Option<LinkType> = LINK_TYPE;
    }
}

impl FaceQueryFilter {
    /// Returns true if `face` matches the filter.
    pub fn matches(&self, face: &FaceStatus) -> bool {
        fn same<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        }
        let scheme_of = |uri: &str, scheme: &str| uri.split_once("://").is_some_and(|(s, _)| s == scheme);
        same(&self.face_id, &face.face_id)
            && same(&self.uri, &face.uri)
            && same(&self.local_uri, &face.local_uri)
            && same(&self.face_scope, &face.face_scope)
            && same(&self.face_persistency, &face.face_persistency)
            && same(&self.link_type, &face.link_type)
            && self
                .uri_scheme
                .as_ref()
                .is_none_or(|scheme| scheme_of(&face.uri, scheme) || scheme_of(&face.local_uri, scheme))
    }
}

block! {
    /// FaceEventNotification: the Content of `/localhost/nfd/faces/events/seq=<n>`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FaceEventNotification: FACE_EVENT_NOTIFICATION {
        /// FaceEventKind.
        pub kind: FaceEventKind = FACE_EVENT_KIND;
        /// FaceId.
        pub face_id: u64 = FACE_ID;
        /// Uri: the remote end.
        pub uri: String = URI;
        /// LocalUri: the local end.
        pub local_uri: String = LOCAL_URI;
        /// FaceScope.
        pub face_scope: FaceScope = FACE_SCOPE;
        /// FacePersistency.
        pub face_persistency: FacePersistency = FACE_PERSISTENCY;
        /// LinkType.
        pub link_type: LinkType = LINK_TYPE;
        /// Flags: see [`super::face_flags`].
        pub flags: u64 = FLAGS;
    }
}

impl FaceEventNotification {
    /// The notification of an event of `face`.
    pub fn new(kind: FaceEventKind, face: &FaceStatus) -> Self {
        FaceEventNotification {
            kind,
            face_id: face.face_id,
            uri: face.uri.clone(),
            local_uri: face.local_uri.clone(),
            face_scope: face.face_scope,
            face_persistency: face.face_persistency,
            link_type: face.link_type,
            flags: face.flags,
        }
    }
}
