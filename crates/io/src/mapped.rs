//! Who has how much shared memory mapped here.
//!
//! Each user has a share. Where all of it is in use the one with most gives up a face, the idlest
//! one: what that had mapped counts as given back from then on, while its worker takes it down.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use namely_host::shares::{Holder, Share, ShareLimits, SharePool};
use namely_memif::{Budget, Collector};
use parking_lot::Mutex;

use crate::error::CloseReason;
use crate::options::MemifOptions;
use crate::port::FacePort;

/// The part of all memory that one user has at most.
const HOLDER_PART: usize = 2;

/// What all peers have mapped.
pub(crate) struct Mapped<P> {
    pool: SharePool,
    faces: Mutex<BTreeMap<Holder, Vec<MappedFace<P>>>>,
}

/// A face, and what its memory is charged to.
struct MappedFace<P> {
    port: Weak<FacePort<P>>,
    shares: Vec<Weak<Share>>,
}

impl<P> Mapped<P> {
    /// Nothing yet.
    pub(crate) fn new(options: &MemifOptions) -> Arc<Self> {
        let total = options.mapped_octets_total_max;
        // What one face may take: whoever has no more pays for nobody, and root has as much again.
        let face = options.interface.mapped_octets_max as u64;
        let pool = SharePool::new(ShareLimits {
            total: total as u64,
            ceiling: (total / HOLDER_PART) as u64,
            reserve: face,
            root_extra: face,
            ..ShareLimits::default()
        });
        Arc::new(Mapped { pool, faces: Mutex::default() })
    }
}

impl<P: AsRef<[u8]> + Clone + 'static> Mapped<P>
where
    FacePort<P>: Send + Sync,
{
    /// What a peer of `holder` may map.
    pub(crate) fn budget(self: &Arc<Self>, holder: Holder) -> Budget {
        Budget::of(self.pool.clone(), holder, self.clone())
    }

    /// Notes a face that may have to give its memory to others.
    pub(crate) fn know(&self, port: &Arc<FacePort<P>>, shares: &[Arc<Share>]) {
        let shares = shares.iter().map(Arc::downgrade).collect();
        let mut faces = self.faces.lock();
        let of_holder = faces.entry(port.holder()).or_default();
        of_holder.retain(MappedFace::is_there);
        of_holder.push(MappedFace { port: Arc::downgrade(port), shares });
    }
}

impl<P> MappedFace<P> {
    fn is_there(&self) -> bool {
        self.port.strong_count() > 0
    }
}

impl<P: AsRef<[u8]> + Clone> Collector for Mapped<P>
where
    FacePort<P>: Send + Sync,
{
    fn collect(&self, payer: Holder) -> bool {
        let mut faces = self.faces.lock();
        let Some(of_payer) = faces.get_mut(&payer) else { return false };
        of_payer.retain(|face| face.port.upgrade().is_some_and(|port| !port.is_closed()));
        let idle = |face: &MappedFace<P>| {
            face.port.upgrade().map_or(0, |port| port.active_ns.load(Ordering::Relaxed))
        };
        let idlest = (0..of_payer.len()).min_by_key(|at| of_payer.get(*at).map_or(0, idle));
        let Some(face) = idlest.map(|at| of_payer.swap_remove(at)) else { return false };
        drop(faces);
        face.shares.iter().filter_map(Weak::upgrade).for_each(|share| share.give_back());
        if let Some(port) = face.port.upgrade() {
            // Whichever worker reads it is woken.
            port.request_end(CloseReason::Evicted, usize::MAX);
        }
        true
    }
}

impl<P> fmt::Debug for Mapped<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("pool", &self.pool).finish_non_exhaustive()
    }
}
