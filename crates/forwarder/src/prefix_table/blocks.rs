//! Memory of a prefix table: cache lines of atomic words, so that a block may be read while it is
//! written. The result of a read is valid only if the version lock afterwards reports no change.

use crate::sync::plain::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::error::ConfigError;
use crate::pool::{Pool, page_of};
use crate::slab::{Id, NONE};

/// The reason for which no block is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBlock {
    /// The maximum number is in use.
    Full,
    /// There is no memory for one.
    NoMemory,
}

/// Words of a block.
pub(super) const WORDS: usize = 8;

/// A cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Block([AtomicU64; WORDS]);

impl Block {
    // Relaxed: the fences of the version lock order words against the version, and no order among
    // words is needed.
    pub(super) fn word(&self, i: usize) -> u64 {
        self.0[i].load(Relaxed)
    }

    pub(super) fn set(&self, i: usize, word: u64) {
        self.0[i].store(word, Relaxed);
    }

    pub(super) fn words(&self) -> [u64; WORDS] {
        core::array::from_fn(|i| self.word(i))
    }
}

/// Blocks with ids from 1. Memory grows with use and is reused, but never freed.
pub(super) struct Blocks {
    pool: Pool<Block, { page_of(32) }>,
    blocks_max: usize,
    /// The largest id ever used.
    last: AtomicU32,
}

impl Blocks {
    pub(super) fn new(blocks_max: usize) -> Result<Self, ConfigError> {
        Ok(Blocks { pool: Pool::new(blocks_max)?, blocks_max, last: AtomicU32::new(0) })
    }

    pub(super) fn get(&self, id: Id) -> Option<&Block> {
        self.pool.get((id as usize).wrapping_sub(1))
    }

    /// One more than the largest id ever used: the end of a walk.
    pub(super) fn end(&self) -> Id {
        self.last.load(Relaxed) + 1
    }

    /// Allocates the next blocks; see [`Pool::fill_ahead`].
    pub(super) fn grow(&self) -> Result<bool, ConfigError> {
        self.pool.fill_ahead(self.last.load(Relaxed) as usize, Block::default)
    }

    /// Allocates memory for `blocks` blocks in addition to those in use.
    pub(super) fn make_room(&self, blocks: usize) -> Result<(), ConfigError> {
        self.pool.fill_range(self.last.load(Relaxed) as usize, blocks, Block::default)
    }

    /// A free block, with any content. Only one thread may call this.
    pub(super) fn take(&self, free: &mut FreeBlock) -> Result<(Id, &Block), NoBlock> {
        if let Some(block) = self.get(free.0) {
            let id = core::mem::replace(&mut free.0, block.word(NEXT_FREE) as Id);
            return Ok((id, block));
        }
        let last = self.last.load(Relaxed);
        if last as usize >= self.blocks_max {
            return Err(NoBlock::Full);
        }
        let block = self.pool.get_or_make(last as usize, Block::default).ok_or(NoBlock::NoMemory)?;
        // After the block was made, so that a lack of memory loses no id.
        self.last.store(last + 1, Relaxed);
        Ok((last + 1, block))
    }

    /// Frees a block. All its words but one stay unchanged.
    pub(super) fn put(&self, id: Id, free: &mut FreeBlock) {
        if let Some(block) = self.get(id) {
            block.set(NEXT_FREE, u64::from(core::mem::replace(&mut free.0, id)));
        }
    }

    /// Frees the block that was taken last and had not been used before.
    pub(super) fn untake(&self) {
        self.last.store(self.last.load(Relaxed) - 1, Relaxed);
    }
}

/// The word that links free blocks. Readers recognize a vacant block by a different word.
const NEXT_FREE: usize = 1;

/// The first free block of those used before.
#[derive(Debug)]
pub(super) struct FreeBlock(Id);

impl Default for FreeBlock {
    fn default() -> Self {
        FreeBlock(NONE)
    }
}
