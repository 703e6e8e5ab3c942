//! NDN directly over Ethernet, EtherType 0x8624: faces to one peer on a network device, and to
//! groups.
//!
//! Each worker has one socket that receives from a device. All frames of one source arrive at one
//! worker. A listener delivers each frame to the transport of its source, or of its destination
//! group, at any worker. A frame from a new source makes an on-demand transport if the device is
//! listened on. Each transport sends by its own socket. When a device is removed, its transports
//! are down until a device of that name is there. On-demand transports close.
//!
//! A frame is one link packet or nothing. Devices are never made promiscuous.

mod device;
mod link;
mod source;
mod transport;
mod xdp;

pub(crate) use link::Links;
pub use namely_datagrams::ethernet::DEFAULT_GROUP;
