//! Ethernet frames that carry link packets (EtherType 0x8624), over packet sockets and XDP sockets:
//! devices, and receiving and sending on them.
//!
//! A frame is one link packet or nothing. Devices are never made promiscuous.

mod ether_socket;
pub mod fanout;
pub mod frame;
pub mod messages;
pub mod monitor;
pub mod ring;
mod sender;
pub mod xdp;

use namely_wire::MacAddress;

pub use ether_socket::EtherSocket;
pub use sender::FrameSender;

/// EtherType of NDN.
const ETHERTYPE: u16 = 0x8624;

/// The group of NDN routers and applications, as in NFD.
pub const DEFAULT_GROUP: MacAddress = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]);
