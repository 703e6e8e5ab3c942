//! Units of virtual time.

/// One millisecond, ns.
pub const MS: u64 = 1_000_000;

/// One second, ns.
pub const SECOND: u64 = 1_000_000_000;
