//! Ethernet frames that carry link packets (EtherType 0x8624), by packet sockets and XDP sockets:
//! devices, what arrives on them, what leaves.
//!
//! A frame is one link packet or nothing. Devices are never made promiscuous.

pub mod fanout;
pub mod frame;
pub mod messages;
pub mod monitor;
pub mod ring;
mod sender;
mod station;
pub mod xdp;

use namely_wire::MacAddress;

pub use sender::FrameSender;
pub use station::Station;

/// EtherType of NDN.
const ETHERTYPE: u16 = 0x8624;

/// The group of NDN routers and applications, as in NFD.
pub const DEFAULT_GROUP: MacAddress = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]);
