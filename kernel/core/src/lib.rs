//! The forwarding core as one object for a Linux module: what `kernel/module` calls, and what it
//! gives in return.
//!
//! There is one door, `nn_call`, which the module passes under a guard: whatever panics
//! below it brings the module back from its call, and the instance is used no more. Packets and
//! control calls come with bottom halves off, so one kind of lock serves; an instance, a workspace
//! and a link are made and freed where one may wait. What is to be sent is handed to the module as
//! buffers, which it sends after the door has closed.
//!
//! All that is unsafe is in `home` (what the kernel gives), `skb` (packets) and `door` (what
//! the module's pointers are).
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

// Who measures the core with what the kernel gives it (kernel/test/recipe) takes the same.
#[doc(hidden)]
pub use home::{Lock, sha256};
#[doc(hidden)]
pub use skb::Skb;
