//! What blocks hold. An entry: a block with the name's first octets and the first pair of its
//! value, and further blocks for the rest of the name and then for the other pairs.
//!
//! | word | of an entry | of a block with more of the name | of a block with more pairs |
//! | --- | --- | --- | --- |
//! | 0 | next block (32 bits), length of the name (16), 2 octets | octets | pair |
//! | 1, 2 | first pair | octets | pair, pair |
//! | 3 to 5 | octets | octets | pair, pair |
//! | 6 | octets | octets | how many pairs |
//! | 7 | octets | next block | next block |

use alloc::vec::Vec;

use super::blocks::{Block, Blocks, Free};
use crate::slab::{Id, NONE};

/// What an entry's value is made of.
pub(crate) type Pair = (u64, u64);

/// Octets of a name in the entry's own block, and in each further one.
const OWN_OCTETS: usize = 42;
const MORE_OCTETS: usize = 56;

/// Octets in the word that also has the length, and the word with those after them.
const BESIDE_LENGTH: usize = 2;
const OCTETS: usize = 3;

/// Pairs in a further block.
const MORE_PAIRS: usize = 3;

const HEAD: usize = 0;
const PAIRS_COUNT: usize = 6;
const NEXT: usize = 7;

/// The length that a block which is no entry has; a packet's names are shorter.
const VACANT: u64 = 0xffff;

const _: () = assert!(namely_wire::PACKET_OCTETS_MAX < VACANT as usize, "no name is as long as the mark");

/// Up to eight octets from `at` on as a number; 0 where there are none.
fn number(octets: &[u8], at: usize) -> u64 {
    let rest = octets.get(at..).unwrap_or_default();
    if let Some(eight) = rest.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    match octets.last_chunk() {
        // Those before `at` are shifted out.
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

/// The first block that hangs on an entry.
fn next(block: &Block) -> Id {
    block.word(HEAD) as Id
}

/// How many blocks beside its own a name takes.
pub(super) fn name_blocks(len: usize) -> usize {
    len.saturating_sub(OWN_OCTETS).div_ceil(MORE_OCTETS)
}

/// Returns true if the entry in `block` has this name, octet by octet.
pub(super) fn has_name(block: &Block, name: &[u8], more: &Blocks) -> bool {
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

/// The name of the entry in `block`; `None` if the block is vacant.
pub(super) fn name(block: &Block, more: &Blocks) -> Option<Vec<u8>> {
    let len = length(block);
    if len == VACANT as usize {
        return None;
    }
    let mut name: Vec<u8> = block.word(HEAD).to_le_bytes()[6..].to_vec();
    name.extend((OCTETS..=NEXT).flat_map(|i| block.word(i).to_le_bytes()));
    let mut id = next(block);
    while name.len() < len {
        let block = more.get(id)?;
        name.extend((0..NEXT).flat_map(|i| block.word(i).to_le_bytes()));
        id = block.word(NEXT) as Id;
    }
    name.truncate(len);
    Some(name)
}

/// Makes `block` an entry with this name and one pair; returns false without memory for it.
pub(super) fn write(block: &Block, name: &[u8], pair: Pair, more: &Blocks, free: &mut Free) -> bool {
    let Some(blocks) = take(name_blocks(name.len()), more, free) else { return false };
    block.set(HEAD, head(name) | first(&blocks));
    block.set(1, pair.0);
    block.set(2, pair.1);
    let own = &name[..name.len().min(OWN_OCTETS)];
    for (i, at) in (OCTETS..=NEXT).zip((BESIDE_LENGTH..).step_by(8)) {
        block.set(i, number(own, at));
    }
    for (i, (_, block)) in blocks.iter().enumerate() {
        let start = OWN_OCTETS + i * MORE_OCTETS;
        (0..NEXT).for_each(|word| block.set(word, number(name, start + word * 8)));
        block.set(NEXT, first(&blocks[i + 1..]));
    }
    true
}

/// Gives back what hangs on an entry, and marks it vacant.
pub(super) fn clear(block: &Block, more: &Blocks, free: &mut Free) {
    chain(next(block), more).into_iter().for_each(|(id, _)| free.put(id));
    clear_unwritten(block);
}

/// Marks a block vacant on which nothing hangs.
pub(super) fn clear_unwritten(block: &Block) {
    block.set(HEAD, VACANT << 32);
}

/// Replaces the value of an entry, which has at least one pair; returns false without memory for
/// it, which fewer pairs than before never need.
pub(super) fn set_pairs(block: &Block, pairs: &[Pair], more: &Blocks, free: &mut Free) -> bool {
    let Some((own, rest)) = pairs.split_first() else { return false };
    let of_name = name_blocks(length(block));
    let needed = of_name + rest.len().div_ceil(MORE_PAIRS);
    let mut blocks = chain(next(block), more);
    match take(needed.saturating_sub(blocks.len()), more, free) {
        Some(taken) => blocks.extend(taken),
        None => return false,
    }
    blocks.drain(needed..).for_each(|(id, _)| free.put(id));
    for ((_, block), pairs) in blocks[of_name..].iter().zip(rest.chunks(MORE_PAIRS)) {
        for (at, pair) in pairs.iter().enumerate() {
            block.set(2 * at, pair.0);
            block.set(2 * at + 1, pair.1);
        }
        block.set(PAIRS_COUNT, pairs.len() as u64);
    }
    for (i, (_, block)) in blocks.iter().enumerate() {
        block.set(NEXT, first(&blocks[i + 1..]));
    }
    block.set(1, own.0);
    block.set(2, own.1);
    block.set(HEAD, block.word(HEAD) & !0xffff_ffff | first(&blocks));
    true
}

fn first(blocks: &[(Id, &Block)]) -> u64 {
    blocks.first().map_or(0, |(id, _)| u64::from(*id))
}

/// So many blocks, or `None` if there is no memory for all of them.
pub(super) fn take<'a>(count: usize, more: &'a Blocks, free: &mut Free) -> Option<Vec<(Id, &'a Block)>> {
    let mut blocks = Vec::new();
    while blocks.len() < count {
        match more.take(free) {
            Some(block) => blocks.push(block),
            None => {
                blocks.iter().for_each(|(id, _)| free.put(*id));
                return None;
            }
        }
    }
    Some(blocks)
}

/// The blocks that hang on one another from `id` on.
pub(super) fn chain(mut id: Id, more: &Blocks) -> Vec<(Id, &Block)> {
    let mut blocks = Vec::new();
    while let Some(block) = more.get(id) {
        blocks.push((id, block));
        id = block.word(NEXT) as Id;
    }
    blocks
}

/// The pairs of an entry's value. Ends whatever it reads while a writer is at work.
pub(crate) struct Pairs<'a> {
    more: &'a Blocks,
    block: Option<&'a Block>,
    own: Option<Pair>,
    at: usize,
    /// Blocks that it may still enter.
    left: Id,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(block: &Block, more: &'a Blocks) -> Self {
        let of_name = name_blocks(length(block));
        let after_name = (0..of_name).try_fold(next(block), |id, _| Some(more.get(id)?.word(NEXT) as Id));
        Pairs {
            more,
            block: more.get(after_name.unwrap_or(NONE)),
            own: Some((block.word(1), block.word(2))),
            at: 0,
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
        if self.at >= MORE_PAIRS.min(block.word(PAIRS_COUNT) as usize) {
            self.at = 0;
            self.left = self.left.checked_sub(1)?;
            self.block = self.more.get(block.word(NEXT) as Id);
        }
        Some(pair)
    }
}
