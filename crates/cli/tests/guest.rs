//! Tests that need the forwarder in the kernel. `kernel/run --tools` runs this program in a guest.
//! Elsewhere its tests are skipped.

mod common;
mod kernel;
mod kernel_router;
