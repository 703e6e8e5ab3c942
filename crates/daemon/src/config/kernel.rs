//! Forwarding by this router or by the kernel.

use serde::Deserialize;

/// Whether the kernel forwards (docs/kernel.md) and this router manages its forwarder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kernel {
    /// Whether this router manages the forwarder in the kernel, which must be loaded.
    pub enabled: bool,
}
