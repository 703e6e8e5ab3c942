//! The kernel's forwarder (docs/kernel.md) as programs see it: sockets of AF_NNET, the generic
//! netlink family `nnet`, the files below /proc/net/nnet, and the module itself. [`netlink`] has
//! the messages of every family of netlink.
//!
//! It waits only for the kernel's answer to a request, and keeps no state of its own. Numbers are
//! those of kernel/module/uapi/nnet.h; a test compares them.
#![deny(unsafe_code)]

mod control;
pub mod device;
mod events;
pub mod module;
pub mod netlink;
pub mod proc;
mod socket;
pub mod uapi;

pub use control::{Binding, Control, ControlError, Face, FaceKind, Route, StrategyChoice};
pub use events::{Event, Events};
pub use socket::{OpenError, Socket};
