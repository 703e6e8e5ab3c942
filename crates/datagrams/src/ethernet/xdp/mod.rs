//! AF_XDP (`Documentation/networking/af_xdp.rst` of the kernel): a program at the device picks NDN
//! frames out and puts them into memory of ours, before the kernel has made packets of them; frames
//! leave from there past its queueing discipline.
//!
//! There is one socket for each receive queue of a device. The program and its map go with this
//! process. While they are there, nobody else on the device sees NDN frames.

mod bpf;
mod memory;
mod program;

pub use bpf::{Mode, Program};
pub use memory::{Layout, Receive, Transmit, kick, open};

/// Maximum number of receive queues of a device that are read.
pub const QUEUES_MAX: u32 = 64;

/// Longest frame that is put together from pieces: an MTU of 64 KiB.
const FRAME_OCTETS_MAX: usize = (64 << 10) + 18;
