//! The data plane. Its workers own the receiving halves of faces, send on the ports of all faces,
//! and move packets between the faces and the forwarder.
//!
//! The control thread requests changes through a [`DataPlane`], with the types of `namely_mgmt` and
//! `namely_messages`, and receives packets for management and face events through an [`Inbox`]. The
//! data plane interprets a name only to trace it, and never answers management itself. Changing and
//! destroying a face does not wait for a worker.
//!
//! The control thread changes tables directly, through the shared [`Core`]. It notifies the data
//! plane only of new expiry times ([`DataPlane::refresh_timers`]).

#![deny(unsafe_code)]

mod application_announcements;
#[allow(unsafe_code, reason = "memory for packets; see ARCHITECTURE.md, Invariants")]
mod buffers;
mod capture;
mod command;
mod data_plane;
mod disk;
mod dispatcher;
mod group_faces;
mod inbox;
mod labels;
mod listen;
mod options;
mod packet;
mod pending_announcements;
mod relay;
mod shared;
mod sink;
mod status;
mod times;
mod trace;
mod variant;
#[cfg_attr(not(feature = "vip"), path = "vip/absent.rs")]
mod vip;
mod worker;

pub use capture::{CaptureLink, CaptureQueue, CapturedPacket};
pub use data_plane::{DataPlane, StartError};
pub use disk::{Disk, spill};
pub use dispatcher::{DispatchBy, DispatcherOptions};
pub use inbox::{
    CONTROL_EVENTS_MAX, CONTROL_PACKETS_MAX, CONTROL_PACKETS_PER_HOLDER_MAX, CONTROL_PACKETS_PER_SECOND,
    CONTROL_TIME_SHARE, ControlEvent, ControlPacket, Inbox, InboxError, InboxWaker,
    LEARNED_ROUTES_WAITING_MAX, LearnedRoute,
};
pub use listen::{ListenError, ListenSpec};
pub use namely_io::{Credentials, DispatchedLinks, MulticastOptions};
pub use options::DataPlaneOptions;
pub use packet::{Core, Packet, buffers_made};
pub use packet::{release_spares, share_spares};
pub use relay::Relay;
pub use times::{AllTimes, PathTimes};
pub use trace::Trace;
pub use trace::{TRACE_NAME_OCTETS_MAX, TRACE_RING_ENTRIES, TRACE_SENT_MAX, TRACE_STEPS_MAX};
pub use variant::{DiskVariant, QueueFull, WorkerVariant};
#[cfg(feature = "vip")]
pub use vip::{VipEvent, VipInbox};
