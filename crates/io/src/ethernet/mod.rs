//! NDN directly over Ethernet, EtherType 0x8624: faces to one peer on a network device, and to
//! groups.
//!
//! Each worker has one socket that receives from a device. All frames of one source arrive at one
//! worker. A listener delivers each frame to the transport of its source, or of its destination
//! group, even if another worker reads that transport. A frame from a new source makes an on-demand
//! transport if the device has a listener. Each transport sends by its own socket. When a device is
//! removed, its on-demand transports close. The others are down until a device of that name is
//! present.
//!
//! A frame is one link packet or nothing. Devices are never made promiscuous.

mod device;
mod link;
mod source;
mod transport;
mod xdp;

pub(crate) use link::Links;
pub use namely_datagrams::ethernet::DEFAULT_GROUP;
