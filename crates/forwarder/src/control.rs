//! The control path: changes of each table by administrators, routing and applications, and
//! snapshots of it.
//!
//! Each table has a type here that borrows the table and the parts that a change of it touches. Its
//! methods can take no other lock. None of these waits for a packet to be processed, and long walks
//! release the lock of their table in between.

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

/// How full the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSizes {
    /// Pending Interests.
    pub pit: usize,
    /// Names with next hops.
    pub fib: usize,
    /// Bound prefixes.
    pub bindings: usize,
    /// Remembered Nonces.
    pub dead_nonces: usize,
    /// Cached Data.
    pub cs: usize,
    /// Prefixes that strategies remember.
    pub strategy_prefixes: usize,
}
