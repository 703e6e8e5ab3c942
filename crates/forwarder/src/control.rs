//! The control path: administrators, routing and applications change the tables and take snapshots
//! of them.
//!
//! Each table has a type here that borrows the table and the parts that its changes affect. Its
//! methods can take no lock of another part. None of them waits for a packet to be processed, and
//! long walks release the lock of their table in between.

mod bindings;
mod cs;
mod discovery;
mod fib;
#[cfg(feature = "vip")]
mod objects;
mod pit;
mod strategies;

pub use bindings::BindingControl;
pub use cs::CsControl;
pub use discovery::DiscoveryControl;
pub use fib::FibControl;
#[cfg(feature = "vip")]
pub use objects::ObjectControl;
pub use pit::PitControl;
pub use strategies::StrategyControl;

/// The number of entries in each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSizes {
    /// Pending Interests.
    pub pit: usize,
    /// Names with next hops.
    pub fib: usize,
    /// Bound prefixes.
    pub bindings: usize,
    /// Dead Nonces.
    pub dead_nonces: usize,
    /// Cached Data.
    pub cs: usize,
    /// Prefixes with memory of a strategy.
    pub strategy_prefixes: usize,
}
