//! A sorted map with fallible allocation, for state of the control path about faces, owners and
//! names. A removal allocates nothing. An insertion allocates a chunk of 4 KiB at most, and, in a
//! map without [`Ordered::with_room`], sometimes a larger list of chunks. Both take a logarithmic
//! number of steps. [`Pieces`] is the list of such chunks; the first one begins small, and doubles.
//!
//! The map is a treap: a tree in the order of keys in which no node has a higher rank than its
//! parent. Ranks are derived from the addresses of nodes, which peers do not know. So no peer can
//! choose keys that make the tree deep. Results do not depend on ranks.

use alloc::vec::Vec;

use crate::error::ConfigError;
use crate::hash::mix;
use crate::slab::{Id, NONE};

/// Octets of a chunk: a size that can be allocated without waiting.
const PIECE_OCTETS: usize = 4096;

/// Items for which a list with few items has memory.
const FEW: usize = 8;

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

/// A list that grows by chunks. Only the first chunk is ever moved, while it has not its full size.
#[derive(Debug)]
pub(crate) struct Pieces<T> {
    pieces: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Pieces::new()
    }
}

impl<T> Pieces<T> {
    /// Items of a chunk.
    pub(crate) const PER_PIECE: usize = PIECE_OCTETS / size_of::<T>();

    pub(crate) const fn new() -> Self {
        Pieces { pieces: Vec::new(), len: 0 }
    }

    /// A list whose first `most` items need no allocation other than their chunks.
    pub(crate) fn with_room(most: usize) -> Result<Self, ConfigError> {
        let mut pieces = Vec::new();
        // Only the list of chunks: a chunk is allocated when its first item is pushed.
        pieces.try_reserve_exact(most.div_ceil(Self::PER_PIECE)).map_err(|_| ConfigError::OutOfMemory)?;
        Ok(Pieces { pieces, len: 0 })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        self.pieces.get(i / Self::PER_PIECE)?.get(i % Self::PER_PIECE)
    }

    pub(crate) fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        self.pieces.get_mut(i / Self::PER_PIECE)?.get_mut(i % Self::PER_PIECE)
    }

    /// Allocates capacity for `items` items in total, so that pushing them cannot fail.
    pub(crate) fn reserve(&mut self, items: usize) -> Result<(), NoMemory> {
        while self.room() < items {
            self.add_room(items)?;
        }
        Ok(())
    }

    /// Items for which there is memory.
    fn room(&self) -> usize {
        match &*self.pieces {
            [] => 0,
            [first] => first.capacity().min(Self::PER_PIECE),
            pieces => pieces.len() * Self::PER_PIECE,
        }
    }

    /// Doubles the first chunk, up to its full size, or adds a chunk.
    #[cold]
    fn add_room(&mut self, items: usize) -> Result<(), NoMemory> {
        const { assert!(FEW <= Self::PER_PIECE, "a chunk holds few items") };
        let first = items.next_power_of_two().clamp(FEW, Self::PER_PIECE);
        if let [only] = &mut *self.pieces
            && only.capacity() < Self::PER_PIECE
        {
            return only.try_reserve_exact(first - only.len()).map_err(|_| NoMemory);
        }
        let mut piece = Vec::new();
        let room = if self.pieces.is_empty() { first } else { Self::PER_PIECE };
        piece.try_reserve_exact(room).map_err(|_| NoMemory)?;
        // `Vec::push` would abort without memory, so the capacity is reserved before.
        self.pieces.try_reserve(1).map_err(|_| NoMemory)?;
        self.pieces.push(piece);
        Ok(())
    }

    /// Adds copies of `item` until the list has `items` items and its last chunk is full.
    pub(crate) fn fill(&mut self, items: usize, item: T) -> Result<(), NoMemory>
    where
        T: Copy,
    {
        let end = items.next_multiple_of(Self::PER_PIECE);
        self.reserve(end)?;
        let chunks = self.pieces.iter_mut().take(end / Self::PER_PIECE);
        chunks.skip(self.len / Self::PER_PIECE).for_each(|chunk| chunk.resize(Self::PER_PIECE, item));
        self.len = self.len.max(end);
        Ok(())
    }

    pub(crate) fn push(&mut self, item: T) -> Result<(), NoMemory> {
        self.reserve(self.len + 1)?;
        self.pieces.get_mut(self.len / Self::PER_PIECE).ok_or(NoMemory)?.push(item);
        self.len += 1;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    rank: u32,
    /// In a free node, the next free one.
    left: Id,
    right: Id,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Ordered<K, V> {
    /// Nodes by their ids, which count from 1.
    nodes: Pieces<Node<K, V>>,
    free: Id,
    root: Id,
    len: usize,
}

/// The location of a node's id: the root, or the left or right link of another node.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Left(Id),
    Right(Id),
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Ordered { nodes: Pieces::new(), free: NONE, root: NONE, len: 0 }
    }
}

impl<K: Ord + Copy, V: Copy> Ordered<K, V> {
    /// A map whose first `most` entries need no allocation other than their chunks.
    pub(crate) fn with_room(most: usize) -> Result<Self, ConfigError> {
        Ok(Ordered { nodes: Pieces::with_room(most)?, ..Ordered::default() })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.find(key).map(|id| &self.node(id).value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).map(|id| &mut self.node_mut(id).value)
    }

    /// The first entry whose key is not less than `least`.
    pub(crate) fn first_from(&self, least: &K) -> Option<(K, V)> {
        self.first(|of| of < least)
    }

    /// The first entry for which `is_before` is false. It must be true for all entries before.
    fn first(&self, is_before: impl Fn(&K) -> bool) -> Option<(K, V)> {
        let (mut id, mut found) = (self.root, NONE);
        while id != NONE {
            let node = self.node(id);
            (found, id) = if is_before(&node.key) { (found, node.right) } else { (id, node.left) };
        }
        (found != NONE).then(|| (self.node(found).key, self.node(found).value))
    }

    /// The first entry whose key is greater than `key`.
    pub(crate) fn first_after(&self, key: &K) -> Option<(K, V)> {
        self.first(|of| of <= key)
    }

    /// Allocates capacity for one more entry, so that the next insertion cannot fail.
    pub(crate) fn reserve(&mut self) -> Result<(), NoMemory> {
        self.reserve_for(self.len + 1)
    }

    /// Allocates capacity for `entries` entries in total.
    pub(crate) fn reserve_for(&mut self, entries: usize) -> Result<(), NoMemory> {
        self.nodes.reserve(entries)
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Result<(), NoMemory> {
        // An existing key reuses its node, so that a new value for it cannot fail.
        if let Some(known) = self.get_mut(&key) {
            *known = value;
            return Ok(());
        }
        let id = self.take(key, value)?;
        let rank = self.node(id).rank;
        let mut link = Link::Root;
        let mut below = self.root;
        // Descends past all nodes of higher or equal rank, which respects the order of ranks
        // without a rotation.
        while below != NONE && self.node(below).rank >= rank {
            link = if self.node(below).key < key { Link::Right(below) } else { Link::Left(below) };
            below = self.at(link);
        }
        let (left, right) = self.split(below, &key);
        (self.node_mut(id).left, self.node_mut(id).right) = (left, right);
        self.set(link, id);
        self.len += 1;
        Ok(())
    }

    /// Removes a key; returns its value, if it was there.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let mut link = Link::Root;
        let mut id = self.root;
        while id != NONE && self.node(id).key != *key {
            link = if self.node(id).key < *key { Link::Right(id) } else { Link::Left(id) };
            id = self.at(link);
        }
        if id == NONE {
            return None;
        }
        let Node { value, left, right, .. } = *self.node(id);
        let merged = self.merge(left, right);
        self.set(link, merged);
        // The node stays allocated, so that the next insertion needs no memory.
        self.node_mut(id).left = core::mem::replace(&mut self.free, id);
        self.len -= 1;
        Some(value)
    }

    fn find(&self, key: &K) -> Option<Id> {
        let mut id = self.root;
        while id != NONE {
            let node = self.node(id);
            id = match key.cmp(&node.key) {
                core::cmp::Ordering::Equal => return Some(id),
                core::cmp::Ordering::Less => node.left,
                core::cmp::Ordering::Greater => node.right,
            };
        }
        None
    }

    /// The node of an id in the tree.
    fn node(&self, id: Id) -> &Node<K, V> {
        // A panic here is a defect of this map: no input chooses an id.
        self.nodes.get(id as usize - 1).expect("ids in the tree are those of nodes")
    }

    fn node_mut(&mut self, id: Id) -> &mut Node<K, V> {
        self.nodes.get_mut(id as usize - 1).expect("ids in the tree are those of nodes")
    }

    /// Stores an entry in a free node, or in a new one if none is free.
    fn take(&mut self, key: K, value: V) -> Result<Id, NoMemory> {
        let node = Node { key, value, rank: 0, left: NONE, right: NONE };
        let id = if self.free == NONE {
            self.nodes.push(node)?;
            self.nodes.len() as Id
        } else {
            let id = self.free;
            self.free = core::mem::replace(self.node_mut(id), node).left;
            id
        };
        // The address of the node's slot is unknown to peers. A slot that moves keeps its rank.
        let rank = mix(core::ptr::from_ref(self.node(id)).addr() as u64) as u32;
        self.node_mut(id).rank = rank;
        Ok(id)
    }

    fn at(&self, link: Link) -> Id {
        match link {
            Link::Root => self.root,
            Link::Left(id) => self.node(id).left,
            Link::Right(id) => self.node(id).right,
        }
    }

    fn set(&mut self, link: Link, to: Id) {
        match link {
            Link::Root => self.root = to,
            Link::Left(id) => self.node_mut(id).left = to,
            Link::Right(id) => self.node_mut(id).right = to,
        }
    }

    /// Splits a tree, which does not have `key`, into the keys less than `key` and the greater
    /// ones.
    fn split(&mut self, mut tree: Id, key: &K) -> (Id, Id) {
        let (mut less, mut greater) = (NONE, NONE);
        // A loop and not a recursion, so that the depth of the tree costs no stack.
        let (mut last_less, mut last_greater) = (NONE, NONE);
        while tree != NONE {
            if self.node(tree).key < *key {
                match last_less {
                    NONE => less = tree,
                    last => self.node_mut(last).right = tree,
                }
                last_less = tree;
                tree = self.node(tree).right;
            } else {
                match last_greater {
                    NONE => greater = tree,
                    last => self.node_mut(last).left = tree,
                }
                last_greater = tree;
                tree = self.node(tree).left;
            }
        }
        if last_less != NONE {
            self.node_mut(last_less).right = NONE;
        }
        if last_greater != NONE {
            self.node_mut(last_greater).left = NONE;
        }
        (less, greater)
    }

    /// Merges two trees; all keys of the first are less than those of the second.
    fn merge(&mut self, mut less: Id, mut greater: Id) -> Id {
        let mut merged = NONE;
        let mut last = Link::Root;
        loop {
            let next = match (less, greater) {
                (NONE, rest) | (rest, NONE) => rest,
                _ if self.node(less).rank > self.node(greater).rank => less,
                _ => greater,
            };
            match last {
                Link::Root => merged = next,
                link => self.set(link, next),
            }
            if less == NONE || greater == NONE {
                return merged;
            }
            if next == less {
                last = Link::Right(next);
                less = self.node(next).right;
            } else {
                last = Link::Left(next);
                greater = self.node(next).left;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Random operations, compared with those of the standard library's map.
    #[test]
    fn the_map_matches_the_standard_library() {
        let (mut map, mut model) = (Ordered::default(), BTreeMap::new());
        for i in 0..60_000u64 {
            let (key, random) = (mix(i) % 997, mix(i ^ 0xabcd));
            match random % 5 {
                0 | 1 => {
                    map.insert(key, i).unwrap();
                    model.insert(key, i);
                }
                2 => assert_eq!(map.remove(&key), model.remove(&key)),
                3 => assert_eq!(map.get(&key), model.get(&key)),
                _ => {
                    let next = model.range(key..).next().map(|(key, value)| (*key, *value));
                    assert_eq!(map.first_from(&key), next);
                }
            }
            assert_eq!(map.len(), model.len());
        }
        while let Some((key, value)) = map.first_from(&0) {
            assert_eq!(model.pop_first(), Some((key, value)));
            assert_eq!(map.remove(&key), Some(value));
        }
        assert!(model.is_empty() && map.root == NONE);
    }

    #[test]
    fn a_list_of_few_items_takes_a_part_of_a_chunk() {
        let mut list = Pieces::<u64>::new();
        let (mut rooms, per_chunk) = (Vec::new(), Pieces::<u64>::PER_PIECE);
        for i in 0..3 * per_chunk {
            list.push(i as u64).unwrap();
            rooms.push(list.room());
        }
        assert!((0..3 * per_chunk).all(|i| list.get(i) == Some(&(i as u64))));
        rooms.dedup();
        let first = (3..).map(|bits| 1 << bits).take_while(|room| *room < per_chunk);
        let expected: Vec<usize> = first.chain([per_chunk, 2 * per_chunk, 3 * per_chunk]).collect();
        assert_eq!(rooms, expected);
        list.reserve(5 * per_chunk).unwrap();
        assert_eq!((list.room(), list.len()), (5 * per_chunk, 3 * per_chunk));
        let mut filled = Pieces::<u64>::new();
        filled.push(1).unwrap();
        filled.fill(2, 7).unwrap();
        assert_eq!((filled.len(), filled.get(0), filled.get(1)), (per_chunk, Some(&1), Some(&7)));
    }

    /// For any order of keys, the number of visited nodes is logarithmic.
    #[test]
    fn the_tree_is_shallow_for_any_order() {
        for order in [|i: u32| i, |i: u32| u32::MAX - i, |i: u32| i.reverse_bits()] {
            let mut map = Ordered::with_room(65_536).unwrap();
            (0..65_536).for_each(|i| map.insert(order(i), ()).unwrap());
            let depth = |key: u32| {
                let (mut id, mut depth) = (map.root, 0);
                while map.node(id).key != key {
                    let node = map.node(id);
                    id = if node.key < key { node.right } else { node.left };
                    depth += 1;
                }
                depth
            };
            let deepest = (0..65_536).map(|i| depth(order(i))).max().unwrap();
            assert!(deepest < 80, "{deepest}");
        }
    }
}
