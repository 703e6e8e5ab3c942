//! Who forwards: this router, or the kernel.

use serde::Deserialize;

/// Whether the kernel forwards (docs/kernel.md), of whose forwarder this router is the management.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kernel {
    /// Whether the forwarder in the kernel is this router's. It must be loaded.
    pub enabled: bool,
}
