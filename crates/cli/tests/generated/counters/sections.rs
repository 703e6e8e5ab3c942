//! The sections of docs/counters.md, with the declarations of each.

/// A section of the page.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// Whether each of its counters counts drops or refusals.
    pub(super) is_drop: bool,
    /// The text above the table.
    pub(super) note: &'static str,
    pub(super) parts: &'static [Part],
}

/// A declaration of counters: an enum, struct, macro, module of constants, or constant.
pub(super) struct Part {
    pub(super) source: &'static str,
    pub(super) item: &'static str,
    /// Precedes each label.
    pub(super) scope: &'static str,
    /// The first listed counter; empty for that of the item.
    pub(super) first: &'static str,
    /// The last listed counter; empty for that of the item.
    pub(super) last: &'static str,
}

impl Part {
    pub(super) const fn all(source: &'static str, item: &'static str) -> Self {
        Part { source, item, scope: "", first: "", last: "" }
    }

    pub(super) const fn scope(self, scope: &'static str) -> Self {
        Part { scope, ..self }
    }

    pub(super) const fn from(self, first: &'static str) -> Self {
        Part { first, ..self }
    }

    pub(super) const fn to(self, last: &'static str) -> Self {
        Part { last, ..self }
    }
}

const IO: &str = "crates/io/src/labels.rs";
const DATA_PLANE: &str = "crates/dataplane/src/labels.rs";
const LINK: &str = "crates/link/src/counters.rs";
const WIRE: &str = "crates/wire/src/error.rs";
const FORWARDER: &str = "crates/forwarder/src/counters.rs";
const TIER: &str = "crates/tier/src/status.rs";
const DISCOVERY: &str = "crates/discovery/src/counters.rs";
const VIP: &str = "crates/vip/src/counters.rs";
const VIP_VIEW: &str = "crates/daemon/src/vip/view.rs";

const FORGED: &str = "`link.` precedes the name. [Security](security.md#addresses-that-may-be-forged) explains \
                      unproven addresses.";

const DISK: &str =
    "Packets that a [disk below the content store](content-store.md) answers, bypasses or stores. It drops none.
`cs_disk.` precedes the names without a scope; `namely cs info --json` prints them alone. `time_...` counts Interests by their
path through the store: all that the disk answers, and of the others those of one batch in 100 us. `time_..._ns` is the sum of
their times, `time_..._ns_p50` and `time_..._ns_p99` are the median and the 99th percentile, rounded up by at most a quarter.";

const RECEIVED: &str =
    "`link.` precedes the name. The fault is the peer's where a meaning names no other. A malformed TYPE, LENGTH or
number on a stream closes the connection. A fault in a memif ring closes the face, also when it is found while sending.";

pub(super) const SECTIONS: [Section; 20] = [
    Section { title: "Workers", is_drop: false, note: "", parts: &[] },
    Section {
        title: "Drops of faces: received",
        is_drop: true,
        note: RECEIVED,
        parts: &[
            Part::all(WIRE, "DecodeError").to("Repeated"),
            Part::all(WIRE, "DecodeError").from("OutOfRange"),
            Part::all(LINK, "LinkDrop").to("AnnouncementLeftOut"),
            Part::all(IO, "received"),
            Part::all("crates/memif/src/ring.rs", "RingFault"),
            Part::all(DATA_PLANE, "DISPATCHER_FULL"),
        ],
    },
    Section {
        title: "Drops of faces: sent",
        is_drop: true,
        note: FORGED,
        parts: &[Part::all(IO, "sent"), Part::all(LINK, "LinkDrop").from("MtuTooSmall")],
    },
    Section {
        title: "Listeners",
        is_drop: true,
        note: "Peers and frames that a listener refuses, and drops that no face counts. `link.` precedes the name.",
        parts: &[
            Part::all(IO, "listener"),
            Part::all("crates/datagrams/src/ethernet/frame.rs", "FrameError").to("GroupSource"),
            Part::all(DATA_PLANE, "listener"),
        ],
    },
    Section {
        title: "Forwarder",
        is_drop: true,
        note: "",
        parts: &[Part::all(FORWARDER, "DropReason").scope("forwarder.")],
    },
    Section {
        title: "Disk of the content store",
        is_drop: false,
        note: DISK,
        parts: &[
            Part::all("crates/forwarder/src/tier.rs", "TierCounts").scope("forwarder."),
            Part::all(TIER, "Counters"),
            Part::all(TIER, "Status").from("read_ns").to("read_ns"),
            Part::all("crates/dataplane/src/times.rs", "Path").scope("time_"),
        ],
    },
    Section {
        title: "Registered objects",
        is_drop: false,
        note: "Data of the objects that [VIP](vip.md) registers.",
        parts: &[Part::all(FORWARDER, "ObjectCounts").scope("forwarder.")],
    },
    Section {
        title: "Management",
        is_drop: false,
        note: "`management.refused.` and a reason count the refused commands ([management](management.md#counters)).",
        parts: &[Part::all("crates/mgmt/src/counters.rs", "Counters").scope("management.")],
    },
    Section {
        title: "Metrics",
        is_drop: false,
        note: "Requests for [metrics](metrics.md), which alone show these counters.",
        parts: &[Part::all("crates/daemon/src/metrics/mod.rs", "Counts")],
    },
    Section {
        title: "Neighbor discovery",
        is_drop: false,
        note: "Messages and neighbors of [discovery](discovery.md), on all links together.",
        parts: &[Part::all(DISCOVERY, "counters").scope("discovery.").to("NeighboursUnproven")],
    },
    Section {
        title: "Neighbor discovery: drops",
        is_drop: true,
        note: "A refused message is held against its link address.",
        parts: &[
            Part::all(DISCOVERY, "counters").scope("discovery.").from("FacesRefused"),
            Part::all("crates/daemon/src/discovery/view.rs", "QUEUE_FULL").scope("discovery."),
        ],
    },
    Section {
        title: "VIP",
        is_drop: false,
        note: "Slots and messages of the [virtual plane](vip.md), of all neighbors together.",
        parts: &[
            Part::all(VIP, "counters").scope("vip.").to("SegmentsMissing"),
            Part::all(VIP_VIEW, "DISK_LEFT_OUT").scope("vip."),
        ],
    },
    Section {
        title: "VIP: drops",
        is_drop: true,
        note: "`namely vip neighbours` prints the refusals of each neighbor.",
        parts: &[
            Part::all(VIP, "counters").scope("vip.").from("Malformed"),
            Part::all(VIP_VIEW, "QUEUE_FULL").scope("vip."),
            Part::all(VIP_VIEW, "OTHER_FACE").scope("vip."),
        ],
    },
    Section {
        title: "Client connections",
        is_drop: true,
        note: "Packets that the connection of a program drops.",
        parts: &[
            Part::all("crates/transport/src/connection/receiver.rs", "Counters").from("dropped_malformed")
        ],
    },
    Section {
        title: "Fetches",
        is_drop: false,
        note: "",
        parts: &[Part::all("crates/transport/src/fetch/report.rs", "Counters")],
    },
    Section {
        title: "File server",
        is_drop: true,
        note: "Interests that `namely serve` answers with a refusal or not at all.",
        parts: &[Part::all("crates/files/src/server/mod.rs", "ServeCounters")
            .from("not_found")
            .to("signing_errors")],
    },
    Section {
        title: "Consumer sockets",
        is_drop: false,
        note: "`Consumer::stats` of [sockets](sockets.md).",
        parts: &[Part::all("crates/socket/src/consumer/stats.rs", "counts")],
    },
    Section {
        title: "Producer sockets",
        is_drop: false,
        note: "`Producer::stats` of [sockets](sockets.md). Each Interest counts once among `hits_memory`, `hits_disk`, \
               `certificates`, `misses` or a drop.",
        parts: &[Part::all("crates/socket/src/producer/shared.rs", "ProducerStats").to("evicted_disk")],
    },
    Section {
        title: "Kernel module",
        is_drop: false,
        note: "Of a network namespace, in `/proc/net/nnet/stats`. A router on it puts `kernel.` before the name.",
        parts: &[],
    },
    Section {
        title: "Kernel module: drops",
        is_drop: true,
        note: "Also in `/proc/net/nnet/stats`.",
        parts: &[],
    },
];
