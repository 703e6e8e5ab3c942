//! Memory for packets that are yet to come, made where one may wait.
//!
//! Tables grow by chunks, of which a large one is some megabytes: a packet that opens one waits
//! until it is cleared, and where memory comes in pieces of a few pages, as in a kernel's
//! interrupt, it cannot be had at all. So a home makes chunks ahead: all of them at once, or the
//! next ones again and again.

use lock_api::RawMutex;

use crate::error::ConfigError;
use crate::forwarder::Forwarder;
use crate::packet::PacketBuf;
use crate::pit::Pit;

/// What tables take, for homes that hold it to their limits when they are compiled.
impl<B, R> Forwarder<B, R> {
    /// Octets of a bucket of the PIT with its lock (`IS-34`).
    pub const PIT_BUCKET_OCTETS: usize = Pit::<B, R>::BUCKET_OCTETS;

    /// Octets of a pending Interest with one downstream and one upstream, beside its packet
    /// (`IS-27`).
    pub const PIT_ENTRY_OCTETS: usize = Pit::<B, R>::ENTRY_OCTETS;
}

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Makes all memory now that packets may need of the PIT and of the content store with the
    /// limits of [`crate::Config`]. After that packets allocate what single entries need, never a
    /// chunk, unless the content store's limits or policy are changed.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`]. What was made stays.
    pub fn prepare(&self) -> Result<(), ConfigError> {
        self.pit.prepare(self.config.pit.entries_max)?;
        self.cs.prepare(self.config.cs.packets_max, self.config.cs.entries_max)
    }

    /// Makes the next chunk of each table whose last one is more than half used, and of the content
    /// store's hash tables one, if they are in use and lack any. Returns true if it made something:
    /// then it is worth calling again.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`]. What was made stays.
    pub fn grow(&self) -> Result<bool, ConfigError> {
        let grown =
            [self.pit.grow()?, self.cs.grow()?, self.fib.grow()?, self.bpt.grow()?, self.strategies.grow()?];
        Ok(grown.contains(&true))
    }

    /// Returns true if the last chunk of a table in which packets take places is more than half
    /// used: then it is time for [`Forwarder::grow`]. Reads some numbers and takes no lock.
    #[inline]
    pub fn is_growth_due(&self) -> bool {
        self.pit.is_growth_due() || self.cs.is_growth_due()
    }

    /// Makes memory for `names` more names in the FIB, of so many octets each, so that
    /// [`Forwarder::fib_add_nexthop`] needs no chunk for them.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn fib_make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.fib.make_room(names, octets)
    }

    /// The same for [`Forwarder::bpt_bind`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn bpt_make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.bpt.make_room(names, octets)
    }

    /// The same for [`Forwarder::strategy_set`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn strategy_make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.strategies.make_room(names, octets)
    }
}
