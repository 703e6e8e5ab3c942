//! The forwarding core as one object for a Linux module: the functions that `kernel/module` calls,
//! and the functions that it provides in return.
//!
//! There is one entry point, `nn_call`, which the module calls under a guard. After a panic below
//! it the guard returns to the module, and the instance is not used again. Bottom halves are off
//! during packets and control calls, so one kind of lock serves both. An instance, a workspace and
//! a link are made and freed in a context that may sleep. The core passes outgoing packets to the
//! module as buffers, and the module sends them after the call has ended.
//!
//! All unsafe code is in `home` (the kernel's services), `skb` (packets) and `door` (the module's
//! pointers).
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

#[allow(unsafe_code)]
pub mod door;
#[allow(unsafe_code)]
mod home;
mod instance;
mod packets;
mod rows;
#[allow(unsafe_code)]
mod skb;
mod sockets;
mod store;

// The measurement of the core in user space (kernel/test/recipe) uses the same services.
#[doc(hidden)]
pub use home::{Lock, sha256};
#[doc(hidden)]
pub use skb::Skb;
