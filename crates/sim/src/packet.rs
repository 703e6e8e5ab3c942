//! Packets, and the numbers of the nodes that they travel between.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

use namely_forwarder::PacketBuf;

/// Maximum number of buffers that a thread keeps for reuse.
const POOLED_MAX: usize = 1024;

/// Maximum capacity of a buffer that is kept.
const POOLED_OCTETS_MAX: usize = 16 << 10;

thread_local! {
    /// Buffers of packets without clones. A simulated event thus allocates nothing.
    static POOL: RefCell<Vec<Arc<Vec<u8>>>> = const { RefCell::new(Vec::new()) };
}

/// An immutable packet in the simulator. Clones share the octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet(Option<Arc<Vec<u8>>>);

impl Packet {
    /// Creates a packet. `write` appends its octets to an empty buffer, usually that of an earlier
    /// packet.
    pub fn new(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut octets = POOL.with(|pool| pool.borrow_mut().pop()).unwrap_or_default();
        match Arc::get_mut(&mut octets) {
            Some(octets) => {
                octets.clear();
                write(octets);
            }
            // Unreachable: the pool has buffers without other references.
            None => {
                let mut own = Vec::new();
                write(&mut own);
                octets = Arc::new(own);
            }
        }
        Packet(Some(octets))
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let Some(mut octets) = self.0.take() else { return };
        // Without another reference no clone can appear.
        if Arc::get_mut(&mut octets).is_some_and(|octets| octets.capacity() <= POOLED_OCTETS_MAX) {
            // While the thread ends, the buffer is freed instead.
            let _ = POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                if pool.len() < POOLED_MAX {
                    pool.push(octets);
                }
            });
        }
    }
}

impl Deref for Packet {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |octets| octets.as_slice())
    }
}

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Packet {
    fn from(octets: Vec<u8>) -> Self {
        Packet(Some(Arc::new(octets)))
    }
}

impl PacketBuf for Packet {
    fn build(len: usize, write: impl FnOnce(&mut [u8])) -> Option<Self> {
        Some(Packet::new(|octets| {
            // Zeroed first, so that `write` receives initialized memory.
            octets.resize(len, 0);
            write(octets);
        }))
    }
}

/// Identifies a node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

impl NodeId {
    /// Returns the node's index, in the order of creation.
    pub fn index(self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(packet: &Packet) -> *const u8 {
        packet.as_ptr()
    }

    #[test]
    fn the_last_clone_returns_the_buffer() {
        let packet = Packet::new(|octets| octets.extend_from_slice(&[1; 100]));
        let (clone, first) = (packet.clone(), address(&packet));
        drop(packet);
        let other = Packet::new(|octets| octets.extend_from_slice(&[2; 100]));
        assert_ne!(address(&other), first, "a clone keeps the octets");
        assert_eq!(*clone, [1; 100]);
        drop(clone);
        let again = Packet::new(|octets| octets.extend_from_slice(&[3; 50]));
        assert_eq!((address(&again), &*again), (first, &[3; 50][..]));
    }

    #[test]
    fn the_pool_keeps_small_buffers_up_to_its_limit() {
        let many: Vec<Packet> = (0..POOLED_MAX + 1).map(|_| Packet::new(|octets| octets.push(1))).collect();
        drop(many);
        assert_eq!(POOL.with(|pool| pool.borrow().len()), POOLED_MAX);
        let taken = Packet::new(|octets| octets.push(1));
        drop(Packet::from(vec![0; POOLED_OCTETS_MAX + 1]));
        assert_eq!(POOL.with(|pool| pool.borrow().len()), POOLED_MAX - 1);
        drop(Packet::from(vec![0; POOLED_OCTETS_MAX]));
        assert_eq!(POOL.with(|pool| pool.borrow().len()), POOLED_MAX);
        drop(taken);
    }
}
