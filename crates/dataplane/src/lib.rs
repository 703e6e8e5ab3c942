//! The data plane: workers that own the receiving halves of faces, send on the ports of all, and
//! move packets between them and the forwarder.
//!
//! The control thread asks for changes through a [`DataPlane`], in the words of `namely_mgmt` and
//! `namely_wire::mgmt`, and hears of packets for management and of face events through an
//! [`Inbox`]. The data plane never interprets a name, but to trace it, and never answers
//! management itself. Changing
//! and destroying a face waits for no worker.
//!
//! Tables are changed directly, through the shared [`Core`]; the data plane need not be told,
//! except of new times at which something expires ([`DataPlane::refresh_timers`]).

#![deny(unsafe_code)]

mod announced;
#[allow(unsafe_code, reason = "memory for packets; see ARCHITECTURE.md, Invariants")]
mod buffers;
mod command;
mod copies;
mod data_plane;
mod disk;
mod dispatcher;
mod inbox;
mod line;
mod listen;
mod offers;
mod options;
mod packet;
mod relay;
mod shared;
mod sink;
mod status;
mod tap;
mod times;
mod trace;
#[cfg_attr(not(feature = "vip"), path = "vip/absent.rs")]
mod vip;
mod worker;

pub use data_plane::{DataPlane, StartError};
pub use disk::{Disk, Prototype, spill};
pub use dispatcher::{DispatchBy, DispatcherOptions};
pub use inbox::{
    CONTROL_EVENTS_MAX, CONTROL_PACKETS_MAX, CONTROL_PACKETS_PER_HOLDER_MAX, CONTROL_PACKETS_PER_SECOND,
    CONTROL_TIME_SHARE, ControlEvent, ControlPacket, Inbox, InboxError, InboxWaker,
    LEARNED_ROUTES_WAITING_MAX, Shown,
};
pub use listen::{ListenError, ListenSpec};
pub use namely_io::{Credentials, DispatchedLinks, MulticastOptions};
pub use options::DataPlaneOptions;
pub use packet::{Core, Packet, buffers_made};
pub use packet::{give_back_spares, share_spares};
pub use relay::Relay;
pub use tap::{Overheard, Tap, TapLink};
pub use times::{AllTimes, PathTimes};
pub use trace::Trace;
pub use trace::{TRACE_NAME_OCTETS_MAX, TRACE_RING_ENTRIES, TRACE_SENT_MAX, TRACE_STEPS_MAX};
#[cfg(feature = "vip")]
pub use vip::{VipEvent, VipInbox};
