//! The labels of drops that the data plane counts. docs/counters.md is written from these
//! declarations.

/// A packet is for another worker, for which as many packets wait as allowed.
pub(crate) const DISPATCHER_FULL: &str = "dispatcher_full";

/// Drops that no face counts.
pub(crate) mod listener {
    /// The table of faces is full, so the peer gets no face.
    pub(crate) const TOO_MANY_FACES: &str = "too_many_faces";
    /// A UDP peer sent its first datagram while a face to it was being made. It keeps that face;
    /// the datagram is lost.
    pub(crate) const FACE_EXISTS: &str = "face_exists";
    /// The peer came while the control thread was far behind. Users of this machine are refused
    /// later than other peers, and root last.
    pub(crate) const CONTROL_BUSY: &str = "control_busy";
    /// An Interest for management came while as many waited as allowed, or its owner had most of
    /// them.
    pub(crate) const INTERNAL_QUEUE_FULL: &str = "internal_queue_full";
    /// An Interest for management came while as many of its user or host waited as one may have,
    /// and none of their other faces had more.
    pub(crate) const CONTROL_SHARE_FULL: &str = "control_share_full";
    /// Data revealed a route (strategy self-learning) while as many waited for the control thread
    /// as allowed. The route is learned, but not for the prefix of its announcement.
    pub(crate) const LEARNED_QUEUE_FULL: &str = "learned_queue_full";
    /// Data revealed a route (strategy self-learning) for which the RIB, the FIB or the share of
    /// the neighbor has no room.
    pub(crate) const ROUTE_NOT_LEARNED: &str = "route_not_learned";
    /// A prefix announcement has more than 2048 octets, or more than 64 came at once. Its Data was
    /// forwarded without it.
    pub(crate) const ANNOUNCEMENT_DROPPED: &str = "announcement_dropped";
    /// An application announced a prefix (`rib/announce`) when as many announcements were retained
    /// as allowed. The prefix is a route, but its announcement is not attached to Data.
    pub(crate) const ANNOUNCED_PREFIXES_FULL: &str = "announced_prefixes_full";
    /// A face that would receive discoveries found as many such faces as allowed. It receives no
    /// Interests for names without a route.
    pub(crate) const DISCOVERY_FACES_FULL: &str = "discovery_faces_full";
}
