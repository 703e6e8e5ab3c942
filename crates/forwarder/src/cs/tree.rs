//! The content store's index: a node for the whole name of each cached Data and one for each proper prefix
//! of it (`IS-30`), shared by all Data whose names have it.
//!
//! A node leads up to the node of its name without the last component and down to the newest of those that
//! extend it: the entries of one Data are a list that is followed both ways, and what Data have in common
//! is in it once. So a Data whose neighbours are cached costs two nodes to file and to take out, however
//! long its name. No name is copied: a node's name is read from a packet at or below it, and there always
//! is one.
//!
//! # Locks
//!
//! Order: the lock of a bucket, then that of a node in it, then those of nodes below that one; never two
//! buckets. A bucket's lock guards its chain; a node's lock guards what is in [`Inner`] and the links
//! among its children. A node is freed by whoever takes its last reference while holding the bucket's and
//! the node's lock, after it left its parent's list.
//!
//! A Data is taken out by its owner only: who took it off the policy's lists. Until its inserter has put it
//! on those lists nobody owns it, so the nodes above it stay while they are being linked.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use lock_api::{Mutex, MutexGuard, RawMutex};
use namely_wire::name::COMPONENTS_MAX;

use super::Cached;
use super::policy::Marks;
use super::pool::{Buckets, Nodes, Pooled};
use crate::config::ConfigError;
use crate::prefix_table::Key;
use crate::slab::{Id, NONE};

pub(super) struct Tree<B, R> {
    buckets: Buckets<R>,
    nodes: Nodes<Node<B, R>>,
}

struct Node<B, R> {
    /// Of the name; it does not change while the node is in use.
    hash: AtomicU64,
    /// The next node of the bucket's chain, or of the pool's free stack.
    next: AtomicU32,
    /// Neighbours among the parent's children: under the parent's lock. Of a twin, `older` is the next twin.
    newer: AtomicU32,
    older: AtomicU32,
    /// The node of the name without its last component; set once, before anything can free this node.
    parent: AtomicU32,
    /// The node in the chain whose name this one's Data has too; none for a node in the chain.
    twin_of: AtomicU32,
    /// What the policy is told of hits without its lock.
    mark: AtomicU8,
    inner: Mutex<R, Inner<B>>,
}

struct Inner<B> {
    cached: Option<Cached<B>>,
    /// Tells a Data from a later one in the same node.
    generation: u32,
    /// The newest child.
    child: Id,
    /// The newest of the Data beyond the first that have exactly this name.
    twin: Id,
    /// Children, twins, and the node's own Data.
    references: u32,
    /// Of the name.
    octets: u16,
}

impl<B, R: RawMutex> Default for Node<B, R> {
    fn default() -> Self {
        Node {
            hash: AtomicU64::new(0),
            next: AtomicU32::new(NONE),
            newer: AtomicU32::new(NONE),
            older: AtomicU32::new(NONE),
            parent: AtomicU32::new(NONE),
            twin_of: AtomicU32::new(NONE),
            mark: AtomicU8::new(0),
            inner: Mutex::new(Inner {
                cached: None,
                generation: 0,
                child: NONE,
                twin: NONE,
                references: 0,
                octets: 0,
            }),
        }
    }
}

impl<B, R: RawMutex> Pooled for Node<B, R> {
    fn next_free(&self) -> &AtomicU32 {
        &self.next
    }
}

/// A Data in the store, as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) id: Id,
    pub(super) generation: u32,
}

/// What became of a Data that was to be filed.
pub(super) enum Filed {
    New(Handle),
    /// The same packet was there: its freshness was renewed.
    Renewed(Handle),
    /// There is no place or no memory for a node.
    Full,
}

type Guard<'a, B, R> = MutexGuard<'a, R, Inner<B>>;

/// Nodes that one lookup passes at most on its way to Data below a prefix; the deepest Data alone is fewer away.
pub(super) const NODES_MAX: usize = 4 * COMPONENTS_MAX;

/// How much one lookup may still look at.
struct Budget {
    data: usize,
    nodes: usize,
}

impl Budget {
    fn new(data: usize) -> Self {
        Budget { data, nodes: NODES_MAX }
    }
}

/// A visitor of Data: says whether to stop.
type Visit<'v, B> = dyn FnMut(Handle, &mut Cached<B>) -> bool + 'v;

impl<B: AsRef<[u8]>, R: RawMutex> Tree<B, R> {
    pub(super) fn new(buckets: usize, nodes: usize) -> Result<Self, ConfigError> {
        Ok(Tree { buckets: Buckets::new(buckets)?, nodes: Nodes::new(nodes)? })
    }

    /// Shows `visit` the Data with exactly the first `n` components of `key`, newest first, then, if `below`,
    /// those whose names extend it, until it says stop. At most `most` of each are shown.
    pub(super) fn visit(&self, key: Key<'_>, n: usize, below: bool, most: usize, visit: &mut Visit<'_, B>) {
        let Some(bucket) = self.buckets.get(key.hashes.hash(n)) else { return };
        let head = bucket.lock();
        let Some((id, mut inner)) = self.find(*head, key, n) else { return };
        drop(head);
        let mut stopped = false;
        self.visit_exact(id, &mut inner, &mut Budget::new(most), &mut |handle, cached| {
            stopped = visit(handle, cached);
            stopped
        });
        if below && !stopped {
            self.visit_below(&inner, &mut Budget::new(most), visit);
        }
    }

    /// The node of the first `n` components of `key` in the chain from `head`, locked. The bucket is locked.
    fn find(&self, head: Id, key: Key<'_>, n: usize) -> Option<(Id, Guard<'_, B, R>)> {
        let (hash, name) = (key.hashes.hash(n), key.prefix(n));
        let mut id = head;
        while let Some(node) = self.nodes.get(id) {
            if node.hash.load(Relaxed) == hash {
                let inner = node.inner.lock();
                if usize::from(inner.octets) == name.len() && self.is_named(&inner, name) == Some(true) {
                    return Some((id, inner));
                }
            }
            id = node.next.load(Relaxed);
        }
        None
    }

    /// Whether `name` starts the name of a Data at or below the node; none if it has no Data any more.
    fn is_named(&self, inner: &Inner<B>, name: &[u8]) -> Option<bool> {
        if let Some(cached) = &inner.cached {
            return Some(cached.name().starts_with(name));
        }
        if let Some(twin) = self.nodes.get(inner.twin) {
            return self.is_named(&twin.inner.lock(), name);
        }
        let mut id = inner.child;
        while let Some(child) = self.nodes.get(id) {
            if let Some(is_named) = self.is_named(&child.inner.lock(), name) {
                return Some(is_named);
            }
            id = child.older.load(Relaxed);
        }
        None
    }

    fn visit_exact(
        &self,
        id: Id,
        inner: &mut Inner<B>,
        budget: &mut Budget,
        visit: &mut Visit<'_, B>,
    ) -> bool {
        let mut show = |id, generation, cached: &mut Option<Cached<B>>| match cached {
            Some(cached) if budget.data > 0 => {
                budget.data -= 1;
                visit(Handle { id, generation }, cached)
            }
            _ => budget.data == 0,
        };
        let mut twin = inner.twin;
        while let Some(node) = self.nodes.get(twin) {
            let mut of_twin = node.inner.lock();
            let generation = of_twin.generation;
            if show(twin, generation, &mut of_twin.cached) {
                return true;
            }
            twin = node.older.load(Relaxed);
        }
        show(id, inner.generation, &mut inner.cached)
    }

    fn visit_below(&self, inner: &Inner<B>, budget: &mut Budget, visit: &mut Visit<'_, B>) -> bool {
        let mut id = inner.child;
        while let Some(child) = self.nodes.get(id) {
            if budget.nodes == 0 {
                return true;
            }
            budget.nodes -= 1;
            let mut of_child = child.inner.lock();
            if self.visit_exact(id, &mut of_child, budget, visit)
                || self.visit_below(&of_child, budget, visit)
            {
                return true;
            }
            id = child.older.load(Relaxed);
        }
        false
    }

    /// Files a Data under `key`, its name, and under every prefix of it. `same` knows the same packet.
    pub(super) fn insert(&self, cached: Cached<B>, key: Key<'_>, same: impl Fn(&Cached<B>) -> bool) -> Filed {
        let components = key.hashes.len();
        // Making stays outside of the bucket's lock.
        let Some((leaf, node)) = self.nodes.take() else { return Filed::Full };
        let Some(bucket) = self.buckets.get_or_make(key.hashes.whole()) else {
            self.nodes.give(leaf);
            return Filed::Full;
        };
        let mut head = bucket.lock();
        let Some((id, mut inner)) = self.find(*head, key, components) else {
            let mut own = node.reset(key, components);
            own.references = 1;
            let handle = own.put(leaf, cached);
            drop(own);
            node.next.store(*head, Relaxed);
            *head = leaf;
            drop(head);
            self.link_up(leaf, key);
            return Filed::New(handle);
        };
        drop(head);
        let mut found = None;
        let fresh_until_ns = cached.fresh_until_ns;
        self.visit_exact(id, &mut inner, &mut Budget::new(super::CS_EXAMINED_MAX), &mut |handle, known| {
            if same(known) {
                known.fresh_until_ns = fresh_until_ns;
                found = Some(handle);
            }
            found.is_some()
        });
        if let Some(handle) = found {
            drop(inner);
            self.nodes.give(leaf);
            return Filed::Renewed(handle);
        }
        inner.references += 1;
        if inner.cached.is_none() && inner.twin == NONE {
            let handle = inner.put(id, cached);
            if let Some(node) = self.nodes.get(id) {
                node.mark.store(0, Relaxed);
            }
            drop(inner);
            self.nodes.give(leaf);
            return Filed::New(handle);
        }
        let mut own = node.reset(key, components);
        node.twin_of.store(id, Relaxed);
        node.older.store(inner.twin, Relaxed);
        inner.twin = leaf;
        Filed::New(own.put(leaf, cached))
    }

    /// Links a new node into the list of its parent, making parents up to one that is there already.
    fn link_up(&self, leaf: Id, key: Key<'_>) {
        let mut id = leaf;
        for n in (1..key.hashes.len()).rev() {
            // Without a node for the parent the Data is still found by its whole name, and taken out well.
            let Some(node) = self.nodes.get(id) else { return };
            let Some(bucket) = self.buckets.get_or_make(key.hashes.hash(n)) else { return };
            let mut head = bucket.lock();
            if let Some((parent, mut inner)) = self.find(*head, key, n) {
                drop(head);
                self.adopt(parent, &mut inner, id, node);
                return;
            }
            let Some((parent, of_parent)) = self.nodes.take() else { return };
            let mut inner = of_parent.reset(key, n);
            self.adopt(parent, &mut inner, id, node);
            drop(inner);
            of_parent.next.store(*head, Relaxed);
            *head = parent;
            id = parent;
        }
    }

    fn adopt(&self, parent: Id, inner: &mut Inner<B>, child: Id, node: &Node<B, R>) {
        node.older.store(inner.child, Relaxed);
        node.newer.store(NONE, Relaxed);
        if let Some(older) = self.nodes.get(inner.child) {
            older.newer.store(child, Relaxed);
        }
        inner.child = child;
        inner.references += 1;
        node.parent.store(parent, Relaxed);
    }

    /// Takes a Data out, by its owner, with all nodes that no other Data needs. `hash` is its name's.
    pub(super) fn remove(&self, id: Id, hash: u64) -> Option<Cached<B>> {
        let node = self.nodes.get(id)?;
        let twin_of = node.twin_of.load(Relaxed);
        let main = if twin_of == NONE { id } else { twin_of };
        let mut head = self.buckets.get(hash)?.lock();
        let mut inner = self.nodes.get(main)?.inner.lock();
        let cached = if twin_of == NONE {
            inner.cached.take()
        } else {
            self.unlink_twin(&mut inner, id, node);
            node.inner.lock().cached.take()
        };
        inner.references -= 1;
        let unused = inner.references == 0;
        drop(inner);
        if unused {
            self.unchain(&mut head, main);
        }
        drop(head);
        if twin_of != NONE {
            self.nodes.give(id);
        }
        if unused {
            self.free_up(main);
        }
        cached
    }

    fn unlink_twin(&self, main: &mut Inner<B>, id: Id, node: &Node<B, R>) {
        let older = node.older.load(Relaxed);
        if main.twin == id {
            main.twin = older;
            return;
        }
        let mut at = main.twin;
        while let Some(twin) = self.nodes.get(at) {
            at = twin.older.load(Relaxed);
            if at == id {
                twin.older.store(older, Relaxed);
            }
        }
    }

    /// Takes a node out of the chain from `head`.
    fn unchain(&self, head: &mut Id, id: Id) {
        let Some(next) = self.nodes.get(id).map(|node| node.next.load(Relaxed)) else { return };
        if *head == id {
            *head = next;
            return;
        }
        let mut at = *head;
        while let Some(before) = self.nodes.get(at) {
            at = before.next.load(Relaxed);
            if at == id {
                before.next.store(next, Relaxed);
                return;
            }
        }
    }

    /// Frees a node that is in no chain any more, and those above it that were there for it alone.
    fn free_up(&self, unused: Id) {
        let mut id = unused;
        while let Some(node) = self.nodes.get(id) {
            let parent = node.parent.load(Relaxed);
            let Some(of_parent) = self.nodes.get(parent) else {
                self.nodes.give(id);
                return;
            };
            let Some(bucket) = self.buckets.get(of_parent.hash.load(Relaxed)) else { return };
            let mut head = bucket.lock();
            let mut inner = of_parent.inner.lock();
            let (newer, older) = (node.newer.load(Relaxed), node.older.load(Relaxed));
            match self.nodes.get(newer) {
                Some(newer) => newer.older.store(older, Relaxed),
                None => inner.child = older,
            }
            if let Some(older) = self.nodes.get(older) {
                older.newer.store(newer, Relaxed);
            }
            inner.references -= 1;
            let unused = inner.references == 0;
            drop(inner);
            if unused {
                self.unchain(&mut head, parent);
            }
            drop(head);
            self.nodes.give(id);
            if !unused {
                return;
            }
            id = parent;
        }
    }

    /// Lets `change` at a Data, if it is still there.
    pub(super) fn with(&self, handle: Handle, change: impl FnOnce(&mut Cached<B>)) {
        let Some(node) = self.nodes.get(handle.id) else { return };
        let mut inner = node.inner.lock();
        if inner.generation == handle.generation
            && let Some(cached) = &mut inner.cached
        {
            change(cached);
        }
    }

    /// Raises a Data's mark, up to `most`. Two workers at once may count as one.
    #[inline]
    pub(super) fn raise(&self, id: Id, most: u8) {
        if let Some(node) = self.nodes.get(id) {
            let mark = node.mark.load(Relaxed);
            if mark < most {
                node.mark.store(mark + 1, Relaxed);
            }
        }
    }

    /// Data in the nodes. Only for a store that nobody is using.
    #[cfg(test)]
    pub(super) fn packets(&self) -> usize {
        let nodes = (1..).map_while(|id| self.nodes.get(id));
        nodes.filter(|node| node.inner.lock().cached.is_some()).count()
    }

    /// Nodes in use. Only for a store that nobody is using.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.nodes.taken()
    }
}

impl<B, R: RawMutex> Node<B, R> {
    /// Makes a node of the pool that of the first `n` components of `key`, with nothing in it.
    fn reset(&self, key: Key<'_>, n: usize) -> Guard<'_, B, R> {
        self.hash.store(key.hashes.hash(n), Relaxed);
        self.newer.store(NONE, Relaxed);
        self.older.store(NONE, Relaxed);
        self.parent.store(NONE, Relaxed);
        self.twin_of.store(NONE, Relaxed);
        self.mark.store(0, Relaxed);
        let mut inner = self.inner.lock();
        inner.child = NONE;
        inner.twin = NONE;
        inner.references = 0;
        inner.octets = key.hashes.end(n) as u16;
        inner
    }
}

impl<B> Inner<B> {
    fn put(&mut self, id: Id, cached: Cached<B>) -> Handle {
        self.generation = self.generation.wrapping_add(1);
        self.cached = Some(cached);
        Handle { id, generation: self.generation }
    }
}

impl<B: AsRef<[u8]>, R: RawMutex> Marks for Tree<B, R> {
    fn mark(&self, id: Id) -> u8 {
        self.nodes.get(id).map_or(0, |node| node.mark.load(Relaxed))
    }

    fn set_mark(&self, id: Id, mark: u8) {
        if let Some(node) = self.nodes.get(id) {
            node.mark.store(mark, Relaxed);
        }
    }
}
