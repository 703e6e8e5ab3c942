//! Accounting of the shared memory that this process has mapped for each user.
//!
//! Each user has a quota. When all memory is in use, the user with the most loses its idlest face.
//! The memory of that face counts as free at once, although its worker unmaps it later.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use namely_host::shares::{Owner, Share, ShareLimits, SharePool};
use namely_memif::{Budget, Collector};
use parking_lot::Mutex;

use crate::error::CloseReason;
use crate::options::MemifOptions;
use crate::port::FaceSender;

/// Octets mapped here for the shared-memory faces of one user.
///
/// The constant is the divisor of the total.
///
/// # Limit
/// The peer is refused.
/// - Value: half of `faces.memif.octets_total_max`; none for root
/// - Counter: `memif_too_much`
/// - Tests: `a_peer_is_limited_to_its_memif_ceiling`,
///   `mapped_memory_is_limited_over_all_peers`,
///   `one_user_cannot_map_all_memory`
const HOLDER_PART: usize = 2;

/// The memory that this process has mapped for all peers.
pub(crate) struct MappedMemory<P> {
    pool: SharePool,
    faces: Mutex<BTreeMap<Owner, Vec<MappedFace<P>>>>,
}

/// A face, and the shares to which its memory is charged.
struct MappedFace<P> {
    port: Weak<FaceSender<P>>,
    shares: Vec<Weak<Share>>,
}

impl<P> MappedMemory<P> {
    /// Makes the accounting, with no memory in use.
    pub(crate) fn new(options: &MemifOptions) -> Arc<Self> {
        let total = options.mapped_octets_total_max;
        // The maximum of one face. A user with at most this much loses no face to other users, and
        // root may use this much beyond the limit.
        let face = options.interface.mapped_octets_max as u64;
        let pool = SharePool::new(ShareLimits {
            total: total as u64,
            ceiling: (total / HOLDER_PART) as u64,
            reserve: face,
            root_extra: face,
            ..ShareLimits::default()
        });
        Arc::new(MappedMemory { pool, faces: Mutex::default() })
    }
}

impl<P: AsRef<[u8]> + Clone + 'static> MappedMemory<P>
where
    FaceSender<P>: Send + Sync,
{
    /// Returns the budget for the memory of a peer of `holder`.
    pub(crate) fn budget(self: &Arc<Self>, holder: Owner) -> Budget {
        Budget::of(self.pool.clone(), holder, self.clone())
    }

    /// Registers a face that may be evicted to reclaim its memory for other users.
    pub(crate) fn know(&self, port: &Arc<FaceSender<P>>, shares: &[Arc<Share>]) {
        let shares = shares.iter().map(Arc::downgrade).collect();
        let mut faces = self.faces.lock();
        let of_holder = faces.entry(port.holder()).or_default();
        // Dropped faces are removed here, so that the list does not grow with every face that the
        // user ever had.
        of_holder.retain(MappedFace::is_there);
        of_holder.push(MappedFace { port: Arc::downgrade(port), shares });
    }
}

impl<P> MappedFace<P> {
    fn is_there(&self) -> bool {
        self.port.strong_count() > 0
    }
}

impl<P: AsRef<[u8]> + Clone> Collector for MappedMemory<P>
where
    FaceSender<P>: Send + Sync,
{
    fn collect(&self, payer: Owner) -> bool {
        let mut faces = self.faces.lock();
        let Some(of_payer) = faces.get_mut(&payer) else { return false };
        of_payer.retain(|face| face.port.upgrade().is_some_and(|port| !port.is_closed()));
        let idle = |face: &MappedFace<P>| face.port.upgrade().map_or(0, |port| port.active_ns());
        let idlest = (0..of_payer.len()).min_by_key(|at| of_payer.get(*at).map_or(0, idle));
        let Some(face) = idlest.map(|at| of_payer.swap_remove(at)) else { return false };
        // Released first, because the pool and the port have locks of their own.
        drop(faces);
        // Returned before the worker unmaps the memory, so that the new peer does not wait for it.
        face.shares.iter().filter_map(Weak::upgrade).for_each(|share| share.give_back());
        if let Some(port) = face.port.upgrade() {
            // No worker has this number, so the worker that reads the face is always woken.
            port.request_end(CloseReason::Evicted, usize::MAX);
        }
        true
    }
}

impl<P> fmt::Debug for MappedMemory<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedMemory").field("pool", &self.pool).finish_non_exhaustive()
    }
}
