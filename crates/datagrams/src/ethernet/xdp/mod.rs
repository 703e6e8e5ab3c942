//! AF_XDP (`Documentation/networking/af_xdp.rst` of the kernel): a program at the device redirects
//! NDN frames into this process's memory, before the kernel has made packets of them. Frames are
//! sent from there without its queueing discipline.
//!
//! There is one socket for each receive queue of a device. The program and its map are released
//! with this process. While they are attached, no other program on the device receives NDN frames.

mod bpf;
mod memory;
mod program;

pub use bpf::{Mode, Program};
pub use memory::{Layout, Receive, Transmit, kick, open};

/// Receive queues of a device that is read by AF_XDP.
///
/// # Limit
/// With `auto` the device is read by AF_PACKET, and with `on` it is not read.
/// - Tests: `xdp_reads_at_most_64_queues`
pub const QUEUES_MAX: u32 = 64;

/// Octets of a frame that is reassembled from chunks.
///
/// # Limit
/// The frame is dropped.
/// - Value: 64 KiB and a header
/// - Counter: `ether_cut` of the listener
/// - Tests: `frame_pieces_are_joined_up_to_the_maximum`,
///   `frames_longer_than_a_page_pass_xdp`
const FRAME_OCTETS_MAX: usize = (64 << 10) + 18;
