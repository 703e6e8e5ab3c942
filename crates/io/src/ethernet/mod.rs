//! NDN straight over Ethernet, EtherType 0x8624: faces to one station of a network device, and to
//! groups.
//!
//! Each worker has one socket that receives from a device; the frames of one source come to one of
//! them. A listener hands them to the transport of their source, or of the group that they are for,
//! whichever worker has that; a frame of a new source makes an on-demand transport where the device
//! is listened on. Each transport has a socket of its own to send. When a device goes, its
//! transports are down until it, or another one with its name, is there; those that peers made go
//! with it.
//!
//! A frame is one link packet or nothing. Devices are never made promiscuous.

mod device;
mod link;
mod source;
mod transport;
mod xdp;

pub(crate) use link::Links;
pub use namely_datagrams::ethernet::DEFAULT_GROUP;
