//! The layout of blocks. An entry is a block with the name's first octets and the first pair of its
//! value, and further blocks for the rest of the name and then for the other pairs.
//!
//! | word | of an entry | of a block with more of the name | of a block with more pairs |
//! | --- | --- | --- | --- |
//! | 0 | next block (32 bits), length of the name (16), 2 octets | octets | pair |
//! | 1, 2 | first pair | octets | pair, pair |
//! | 3 to 5 | octets | octets | pair, pair |
//! | 6 | octets | octets | how many pairs |
//! | 7 | octets | next block | next block |

use super::blocks::{Block, Blocks, FreeBlock, NoBlock, WORDS};
use crate::slab::{Id, NONE};

/// An element of an entry's value.
pub(crate) type Pair = (u64, u64);

/// Octets of a name in the entry's own block, and in each further one.
// Two octets beside the length, and five words.
const OWN_OCTETS: usize = 42;
// Seven words: the eighth one links the next block.
const MORE_OCTETS: usize = 56;

/// Octets in the word that also has the length, and the first word of the following octets.
const BESIDE_LENGTH: usize = 2;
const OCTETS: usize = 3;

/// Pairs in a further block.
const MORE_PAIRS: usize = 3;

const HEAD: usize = 0;
const PAIRS_COUNT: usize = 6;
const NEXT: usize = 7;

/// The length in a block that is no entry; a packet's names are shorter.
const VACANT: u64 = 0xffff;

const _: () = assert!(namely_wire::PACKET_OCTETS_MAX < VACANT as usize, "no name is as long as the mark");

/// Up to eight octets from `at` on as a number; 0 if there are none.
fn number(octets: &[u8], at: usize) -> u64 {
    let rest = octets.get(at..).unwrap_or_default();
    if let Some(eight) = rest.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    match octets.last_chunk() {
        // The octets before `at` are shifted out.
        Some(eight) if !rest.is_empty() => u64::from_le_bytes(*eight) >> (64 - 8 * rest.len()),
        _ => rest.iter().rev().fold(0, |number, octet| number << 8 | u64::from(*octet)),
    }
}

/// The head of an entry with this name, without the next block.
fn head(name: &[u8]) -> u64 {
    number(&name[..name.len().min(BESIDE_LENGTH)], 0) << 48 | (name.len() as u64) << 32
}

fn length(block: &Block) -> usize {
    (block.word(HEAD) >> 32 & VACANT) as usize
}

/// The first further block of an entry.
fn next(block: &Block) -> Id {
    block.word(HEAD) as Id
}

/// The number of further blocks that a name takes.
pub(super) fn name_blocks(len: usize) -> usize {
    len.saturating_sub(OWN_OCTETS).div_ceil(MORE_OCTETS)
}

/// Returns true if the entry in `block` has this name, octet by octet.
pub(super) fn has_name(block: &Block, name: &[u8], more: &Blocks) -> bool {
    // Length and first octets in one comparison, which fails for most other names.
    if block.word(HEAD) >> 32 != head(name) >> 32 {
        return false;
    }
    let mut own = (OCTETS..).zip((BESIDE_LENGTH..name.len().min(OWN_OCTETS)).step_by(8));
    own.all(|(i, at)| block.word(i) == number(name, at))
        && (name.len() <= OWN_OCTETS || has_rest(next(block), name, more))
}

fn has_rest(mut id: Id, name: &[u8], more: &Blocks) -> bool {
    for start in (OWN_OCTETS..name.len()).step_by(MORE_OCTETS) {
        let Some(block) = more.get(id) else { return false };
        let end = name.len().min(start + MORE_OCTETS);
        if !(start..end).step_by(8).enumerate().all(|(i, at)| block.word(i) == number(name, at)) {
            return false;
        }
        id = block.word(NEXT) as Id;
    }
    true
}

/// Copies the name of the entry in `block` to `octets`, which have room for it. Returns its
/// length, or `None` if the block is vacant.
pub(super) fn copy_name(block: &Block, more: &Blocks, octets: &mut [u8]) -> Option<usize> {
    let len = length(block);
    if len == VACANT as usize {
        return None;
    }
    let name = octets.get_mut(..len)?;
    let (own, rest) = name.split_at_mut(len.min(OWN_OCTETS));
    let (beside, own) = own.split_at_mut(own.len().min(BESIDE_LENGTH));
    beside.copy_from_slice(&block.word(HEAD).to_le_bytes()[6..][..beside.len()]);
    copy_words(block, OCTETS, own);
    let mut id = next(block);
    for part in rest.chunks_mut(MORE_OCTETS) {
        let block = more.get(id)?;
        copy_words(block, 0, part);
        id = block.word(NEXT) as Id;
    }
    Some(len)
}

/// Copies words from `from` on into `octets`, as many as fit.
fn copy_words(block: &Block, from: usize, octets: &mut [u8]) {
    for (i, part) in (from..WORDS).zip(octets.chunks_mut(8)) {
        part.copy_from_slice(&block.word(i).to_le_bytes()[..part.len()]);
    }
}

/// Makes `block` an entry with this name and one pair.
pub(super) fn write(
    block: &Block,
    name: &[u8],
    pair: Pair,
    more: &Blocks,
    free: &mut FreeBlock,
) -> Result<(), NoBlock> {
    let first = take_chain(name_blocks(name.len()), more, free)?;
    // In any order: the version makes readers repeat what they read during a write.
    block.set(HEAD, head(name) | u64::from(first));
    block.set(1, pair.0);
    block.set(2, pair.1);
    let own = &name[..name.len().min(OWN_OCTETS)];
    for (i, at) in (OCTETS..=NEXT).zip((BESIDE_LENGTH..).step_by(8)) {
        block.set(i, number(own, at));
    }
    let mut id = first;
    for start in (OWN_OCTETS..name.len()).step_by(MORE_OCTETS) {
        let Some(block) = more.get(id) else { break };
        (0..NEXT).for_each(|word| block.set(word, number(name, start + word * 8)));
        id = block.word(NEXT) as Id;
    }
    Ok(())
}

/// Frees the further blocks of an entry, and marks it vacant.
pub(super) fn clear(block: &Block, more: &Blocks, free: &mut FreeBlock) {
    put_chain(next(block), more, free);
    clear_unwritten(block);
}

/// Marks a block without further blocks vacant.
pub(super) fn clear_unwritten(block: &Block) {
    block.set(HEAD, VACANT << 32);
}

/// Replaces the value of an entry by `count` pairs, at least one. Fewer pairs than before need no
/// memory. They may be read from the entry itself, as long as each is read before it is
/// overwritten.
pub(super) fn set_pairs(
    block: &Block,
    count: usize,
    mut pairs: impl Iterator<Item = Pair>,
    more: &Blocks,
    free: &mut FreeBlock,
) -> Result<(), NoBlock> {
    let (of_name, rest) = (name_blocks(length(block)), count.saturating_sub(1));
    let needed = of_name + rest.div_ceil(MORE_PAIRS);
    // Everything that may fail comes first.
    let (has, last) = end_of(next(block), more);
    let added = take_chain(needed.saturating_sub(has), more, free)?;
    if added != NONE {
        match last {
            Some(last) => last.set(NEXT, u64::from(added)),
            None => set_next(block, added),
        }
    }
    if let Some((first, second)) = pairs.next() {
        block.set(1, first);
        block.set(2, second);
    }
    let (mut last, mut id) = (None, next(block));
    for nth in 0..needed {
        let Some(block) = more.get(id) else { break };
        let written = (nth >= of_name).then(|| {
            let pairs_max = rest - (nth - of_name) * MORE_PAIRS;
            let mut written = 0;
            for (at, pair) in pairs.by_ref().take(pairs_max.min(MORE_PAIRS)).enumerate() {
                block.set(2 * at, pair.0);
                block.set(2 * at + 1, pair.1);
                written += 1;
            }
            written
        });
        written.into_iter().for_each(|written| block.set(PAIRS_COUNT, written));
        (last, id) = (Some(block), block.word(NEXT) as Id);
    }
    match last {
        Some(last) => last.set(NEXT, u64::from(NONE)),
        None => set_next(block, NONE),
    }
    put_chain(id, more, free);
    Ok(())
}

fn set_next(block: &Block, id: Id) {
    block.set(HEAD, block.word(HEAD) & !0xffff_ffff | u64::from(id));
}

/// Takes a chain of `count` blocks. Returns its first one, or the reason for which the chain is
/// incomplete.
fn take_chain(count: usize, more: &Blocks, free: &mut FreeBlock) -> Result<Id, NoBlock> {
    let mut first = NONE;
    for _ in 0..count {
        match more.take(free) {
            Ok((id, block)) => block.set(NEXT, u64::from(core::mem::replace(&mut first, id))),
            Err(none) => {
                // All blocks or none, so that a refusal changes nothing.
                put_chain(first, more, free);
                return Err(none);
            }
        }
    }
    Ok(first)
}

/// Frees the blocks of the chain from `id` on.
pub(super) fn put_chain(mut id: Id, more: &Blocks, free: &mut FreeBlock) {
    while let Some(block) = more.get(id) {
        let next = block.word(NEXT) as Id;
        more.put(id, free);
        id = next;
    }
}

/// The length of the chain from `id` on, and its last block.
fn end_of(mut id: Id, more: &Blocks) -> (usize, Option<&Block>) {
    let (mut count, mut last) = (0, None);
    while let Some(block) = more.get(id) {
        (count, last) = (count + 1, Some(block));
        id = block.word(NEXT) as Id;
    }
    (count, last)
}

/// The pairs of an entry's value. The iteration ends even if it reads inconsistent words during a
/// write.
pub(crate) struct Pairs<'a> {
    more: &'a Blocks,
    block: Option<&'a Block>,
    own: Option<Pair>,
    at: usize,
    /// The number of blocks that it may still enter.
    left: Id,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(block: &Block, more: &'a Blocks) -> Self {
        let of_name = name_blocks(length(block));
        let after_name = (0..of_name).try_fold(next(block), |id, _| Some(more.get(id)?.word(NEXT) as Id));
        Pairs {
            more,
            block: after_name.filter(|id| *id != NONE).and_then(|id| more.get(id)),
            own: Some((block.word(1), block.word(2))),
            at: 0,
            // During a write blocks may seem to be linked in a circle.
            left: more.end(),
        }
    }
}

impl Iterator for Pairs<'_> {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        if let Some(own) = self.own.take() {
            return Some(own);
        }
        let block = self.block?;
        let pair = (block.word(2 * self.at), block.word(2 * self.at + 1));
        self.at += 1;
        // The smaller one: during a write the word may have any value.
        if self.at >= MORE_PAIRS.min(block.word(PAIRS_COUNT) as usize) {
            self.at = 0;
            self.left = self.left.checked_sub(1)?;
            self.block = self.more.get(block.word(NEXT) as Id);
        }
        Some(pair)
    }
}
